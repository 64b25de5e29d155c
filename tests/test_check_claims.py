#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `mayfly check` claims to see, it finds: seeded runs of a program that grows by what is claimed, at a grid of
intervals and limits, and at the interval that --plan names."""
import json
import os

from harness import MAYFLY, Folder, case, cases, check, environment, main, record, run, same

ROUNDS = int(os.environ.get("MAYFLY_ROUNDS", "1"))
RUNS = 20 * ROUNDS
KIB = 8192
METRICS = ("peak", "allocated", "leaked", "blocks")

# Keeps argument 1 KiB in blocks of 16 bytes to 2 KB of six functions, and allocates as much that it frees at once.
PROGRAM = r"""
#include <stdlib.h>
static unsigned long long state = 1;
static unsigned draw(void) { return (state = state * 6364136223846793005ull + 1) >> 33; }
#define SITE(name) __attribute__((noinline)) void *name(size_t size) { void *volatile p = malloc(size); return p; }
SITE(a) SITE(b) SITE(c) SITE(d) SITE(e) SITE(f)
static void *(*const site[])(size_t) = {a, b, c, d, e, f};
int main(int count, char **arguments)
{
    for (size_t left = (size_t)atoi(arguments[1]) << 10; left > 4096;) {
        size_t size = 16u << draw() % 8;
        site[draw() % 6](size);
        free(site[draw() % 6](16u << draw() % 8));
        left -= size;
    }
    return 0;
}
"""

folder = Folder()


def recorded(kib, interval, seed):
    """seed: the sampler's. The program is the same."""
    path = folder / ("%d-%s-%d.mayfly" % (kib, interval, seed))
    if not os.path.exists(path):
        same(record([folder / "program", str(kib)], path, "-i", interval,
                    env=environment(MAYFLY="seed=%d" % seed)).code, 0)
    return path


def limits_of(*arguments):
    """Each limit by its metric."""
    return {limit["metric"]: limit for limit in json.loads(run([MAYFLY, "check", "--json", *arguments]).out)["limits"]}


def increases(percent):
    return ",".join("%s=%g%%" % (metric, percent) for metric in METRICS)


def mean(values):
    return sum(values) / len(values)


@cases(["%s %d" % (interval, percent) for interval in ("4K", "32K", "128K") for percent in (0, 5)])
def increases_that_are_claimed_are_found(what):
    interval, percent = what.split()
    pairs = [limits_of("--baseline", recorded(KIB, interval, 2 * i + 1), "--max-increase", increases(int(percent)),
                       recorded(KIB, interval, 2 * i + 2)) for i in range(6)]
    claimed = {metric: mean([pair[metric]["sees_from_increase"] for pair in pairs]) for metric in METRICS}
    for metric, increase in claimed.items():
        found = 0
        for seed in range(RUNS):
            got = limits_of("--baseline", recorded(KIB, interval, 2 * (seed % 6) + 1), "--max-increase",
                            "%s=%s%%" % (metric, percent), recorded(int(KIB * (1 + increase)), interval, 1000 + seed))
            found += got[metric]["exceeded"]
        print("# %s of %s: +%.1f %% found in %d of %d" % (metric, what, 100 * increase, found, RUNS))
        check(found >= 0.93 * RUNS - 1, metric, "+%.3f" % increase, "found in", found, "of", RUNS)


@cases(["4K", "32K", "128K"])
def figures_that_are_claimed_are_found(interval):
    """The same for limits in bytes and blocks, which lie where the recording cannot tell."""
    for metric in METRICS:
        option = "--max-" + metric
        exact = limits_of(option, "1", recorded(KIB, "1", 1))[metric]["found"]
        bound = exact["blocks" if metric == "blocks" else "bytes"]["estimate"]
        claimed = mean([limits_of(option, str(bound), recorded(KIB, interval, seed))[metric]["sees_from"]
                        for seed in range(1, 7)])
        found = sum(limits_of(option, str(bound), recorded(int(KIB * claimed / bound), interval, 2000 + seed))[metric]
                    ["exceeded"] for seed in range(RUNS))
        print("# %s at %s: %.3f of the limit found in %d of %d" % (metric, interval, claimed / bound, found, RUNS))
        check(found >= 0.93 * RUNS - 1, metric, claimed / bound, "found in", found, "of", RUNS)


@case
def what_is_decided_is_right():
    """Next to no program that grew by twice what it may passes as decided, whatever the interval."""
    wrong = undecided = total = 0
    for interval in ("4K", "32K", "128K", "512K"):
        for seed in range(RUNS // 2):
            got = limits_of("--baseline", recorded(KIB, interval, 2 * (seed % 6) + 1), "--max-increase", increases(5),
                            recorded(int(KIB * 1.1), interval, 3000 + seed))
            for limit in got.values():
                total += 1
                wrong += not limit["exceeded"] and not limit["undecided"]
                undecided += limit["undecided"]
    print("# of %d limits %d undecided, %d passed" % (total, undecided, wrong))
    check(wrong <= 0.05 * total, wrong, "of", total)


@case
def the_interval_of_the_plan_decides():
    """--plan, from an exact recording: at the interval that it names, twice the allowed increase is found."""
    exact = recorded(KIB, "1", 1)
    for metric, percent in (("peak", 20), ("allocated", 5), ("blocks", 40), ("leaked", 20)):
        limit = "%s=%d%%" % (metric, percent)
        planned = limits_of("--plan", "--baseline", exact, "--max-increase", limit, exact)[metric]
        interval = planned["deciding_interval_bytes"]
        check(interval, planned)
        found = sum(limits_of("--baseline", recorded(KIB, "%d" % interval, seed + 1), "--max-increase", limit,
                              recorded(int(KIB * (1 + 2 * percent / 100)), "%d" % interval, 4000 + seed))[metric]["exceeded"]
                    for seed in range(RUNS))
        print("# %s: %d KiB finds +%d %% in %d of %d" % (limit, interval >> 10, 2 * percent, found, RUNS))
        check(found >= 0.93 * RUNS - 1, limit, interval, "found in", found, "of", RUNS)


if __name__ == "__main__":
    with folder:
        with open(folder / "program.c", "w") as source:
            source.write(PROGRAM)
        same(run(["gcc", "-O1", "-g", "-o", folder / "program", folder / "program.c"]).code, 0)
        main()
