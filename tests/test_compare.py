# SPDX-License-Identifier: Apache-2.0
"""mayfly diff, merge and check as a user has them: a program that is built twice, recorded, compared,
merged and held to limits."""
import json
import os
import shutil
import xml.dom.minidom

from harness import MAYFLY, Folder, as_json, case, cases, check, environment, info, main, program, \
    record, report, run, same

folder = Folder()
folder.__enter__()

FLAGS = ["-g", "-O1", "-fno-builtin", "-fno-optimize-sibling-calls", "-fno-inline"]
# The second build has lines put in above, allocates more in grow() and has a new function.
SOURCE = r"""
#include <stdlib.h>
#include <string.h>
%(above)s
void *volatile sink;
__attribute__((noinline)) void *get(size_t size) { return sink = memset(malloc(size), 1, size); }
__attribute__((noinline)) void grow(void) { for (int i = 0; i < 100; i++) get(%(size)d); }
__attribute__((noinline)) void same(void) { for (int i = 0; i < 50; i++) get(1000); }
%(more)s
int main(void) { grow(); same(); %(call)s free(get(500000)); return 0; }
"""
BUILDS = {
    "before": {"above": "", "size": 2000, "more": "", "call": ""},
    "after": {"above": "// one\n// two\n\n", "size": 3000,
              "more": "__attribute__((noinline)) void fresh(void) { get(70000); }", "call": "fresh();"},
}


def trace(build, *options):
    path = folder / ("-".join([build, *options]).replace("--", "") + ".mayfly")
    if not os.path.exists(path):
        binary = folder / build
        source = folder / (build + "-src")
        os.makedirs(source, exist_ok=True)
        with open(os.path.join(source, "program.c"), "w") as file:
            file.write(SOURCE % BUILDS[build])
        if not os.path.exists(binary):
            os.makedirs(binary)
            result = run(["gcc", *FLAGS, "-o", os.path.join(binary, "program"),
                          os.path.join(source, "program.c")])
            same(result.code, 0, result)
        same(record([os.path.join(binary, "program")], path, *(options or ["-x"])).code, 0)
    return path


def known(number, *options, operations=20000):
    """Run number `number` of the same program, which allocates the same each time."""
    path = folder / ("known-%s%s-%d.mayfly" % (number, "".join(options), operations))
    if not os.path.exists(path):
        same(record([program("known"), "1", "1", str(operations)], path, *options).code, 0)
    return path


def failing(*arguments, code, said):
    result = run([MAYFLY, *arguments])
    same(result.code, code, result)
    same(result.err.count(b"\n"), 1, result)
    for word in said:
        check(word.encode() in result.err, repr(word), "is not in", result)


def changes(answer):
    return {row["function"]: (row["change"]["bytes"]["change"], row["change"]["verdict"])
            for row in answer["rows"]}


# ---- diff ----


@case
def diff_of_builds():
    """The change is exact, and functions, lines and stacks of the two builds find each other."""
    answer = as_json("diff", "--json", "--metric", "allocated", "--sort", "total",
                     trace("before"), trace("after"))
    found = changes(answer)
    same(found["grow"], (100 * 1000, "significant"))
    same(found["same"], (0, "same"))
    same(found["fresh"], (70000, "significant"))
    same(answer["summary"]["allocated"]["bytes"]["change"], 170000)
    same(answer["summary"]["peak"]["verdict"], "significant")
    fresh = [row for row in answer["rows"] if row["function"] == "fresh"][0]
    same(fresh["before"], None)
    lines = as_json("diff", "--json", "--by", "line", "--metric", "allocated", trace("before"),
                    trace("after"))
    moved = [row for row in lines["rows"] if row["function"] == "get"]
    same(len(moved), 1, "rows of get()")
    same(moved[0]["line"] - moved[0]["line_before"], 3, "lines")
    stacks = as_json("diff", "--json", "--by", "stack", "--metric", "leaked", trace("before"),
                     trace("after"))
    by_caller = {row["stack"][1]["function"]: row["change"]["bytes"]["change"]
                 for row in stacks["rows"] if len(row["stack"]) > 1}
    same([by_caller[f] for f in ("grow", "same", "fresh")], [100000, 0, 70000])


@case
def diff_adds_up():
    """What each row changed by is what the two reports say, and together it is the total."""
    before, after = known(1, "-x", operations=5000), known(2, "-x")
    answer = as_json("diff", "--json", "--metric", "allocated", before, after)
    sides = [{row["function"]: row["self"]["bytes"]["estimate"] for row in
              report(path, "--metric", "allocated", "--by", "function")["rows"]}
             for path in (before, after)]
    for name, (change, _) in changes(answer).items():
        same(change, sides[1].get(name, 0) - sides[0].get(name, 0), name)
    same(sum(change for change, _ in changes(answer).values()),
         answer["total"]["bytes"]["change"], "sum")


@case
def diff_per():
    plain = as_json("diff", "--json", "--metric", "peak", trace("before"), trace("after"))
    per = as_json("diff", "--json", "--metric", "peak", "--per", "10,20", trace("before"), trace("after"))
    bytes_plain, bytes_per = plain["total"]["bytes"], per["total"]["bytes"]
    same(bytes_per["before"], bytes_plain["before"] / 10)
    same(bytes_per["after"], bytes_plain["after"] / 20)
    same(bytes_per["change"], bytes_per["after"] - bytes_per["before"])
    # The same trace twice, per its own count: half as much for twice as many.
    half = as_json("diff", "--json", "--metric", "peak", "--per", "1,2", trace("before"), trace("before"))
    same(half["total"]["bytes"]["change"], -half["total"]["bytes"]["before"] / 2)


@case
def diff_of_samples():
    """The same program sampled twice has hardly a significant row; a smaller one has many."""
    noise = as_json("diff", "--json", "--metric", "allocated", known(1, "-i", "64K"),
                    known(2, "-i", "64K"))
    verdicts = [verdict for _, verdict in changes(noise).values()]
    check(verdicts.count("noise") >= 10, verdicts)
    check(verdicts.count("significant") <= 2, verdicts)
    real = as_json("diff", "--json", "--metric", "allocated",
                   known(1, "-i", "64K", operations=5000), known(2, "-i", "64K"))
    rows = changes(real)
    check([v for _, v in rows.values()].count("significant") >= 5, rows)
    check(all(change > 0 for change, verdict in rows.values() if verdict == "significant"), rows)
    for row in real["rows"]:
        change = row["change"]["bytes"]
        check(change["low"] <= change["change"] <= change["high"], change)
        check(change["p"] <= change["adjusted_p"], change)


@case
def diff_text():
    text = run([MAYFLY, "diff", "--metric", "allocated", "--by", "line", trace("before"),
                trace("after")]).out.decode()
    for word in ("Allocated", "Peak", "Live at end", "CHANGE", "+166 KiB", "(was "):
        check(word in text, repr(word), "is not in", text)
    check("noise" not in text, "an exact change is none", text)
    sampled = run([MAYFLY, "diff", known(1, "-i", "64K"), known(2, "-i", "64K")]).out.decode()
    check("within noise" in sampled and "significantly" in sampled, sampled)


@case
def diff_refuses():
    failing("diff", trace("before"), code=2, said=["BEFORE and AFTER"])
    failing("diff", trace("before"), trace("before"), trace("before"), code=2, said=["two traces"])
    failing("diff", "-", "-", code=2, said=["standard input"])
    failing("diff", "--per", "0", trace("before"), trace("after"), code=2, said=["--per"])
    failing("diff", "--per", "1,x", trace("before"), trace("after"), code=2, said=["--per"])
    failing("diff", trace("before"), "/nowhere", code=1, said=["/nowhere"])


# ---- merge ----


def merged(*paths, name="merged.mayfly"):
    path = folder / name
    result = run([MAYFLY, "merge", "--force", "-o", path, *paths])
    check(result.code == 0 and not result.err and not result.out, result)
    return path


@case
def merge_is_the_sum():
    """Runs sampled at different intervals, and an exact one: every figure is the sum."""
    parts = [known(1, "-i", "64K"), known(2, "-i", "256K"), known(3, "-x")]
    whole = merged(*parts)
    for metric in ("allocated", "leaked", "temporary"):
        answers = [report(path, "--metric", metric, "--by", "line") for path in parts]
        answer = report(whole, "--metric", metric, "--by", "line")
        same(answer["total"]["bytes"]["estimate"],
             sum(a["total"]["bytes"]["estimate"] for a in answers), metric)
        same(answer["total"]["samples"], sum(a["total"]["samples"] for a in answers), metric)
        sums = {}
        for part in answers:
            for row in part["rows"]:
                key = (row["function"], row["line"])
                sums[key] = sums.get(key, 0) + row["self"]["bytes"]["estimate"]
        for row in answer["rows"]:
            difference = row["self"]["bytes"]["estimate"] - sums.pop((row["function"], row["line"]))
            check(abs(difference) <= 2, metric, row["function"], difference)
        same(sum(sums.values()), 0, metric + ": rows that are not there")
    facts = info(whole)
    same(facts["samples"], sum(info(path)["samples"] for path in parts))
    same(facts["mode"], "sampled")
    same(run([MAYFLY, "dump", whole]).code, 0, "dump")


@case
def merge_of_builds():
    """Stacks of two builds are one where their names and lines are."""
    whole = merged(trace("before"), trace("after"))
    rows = {row["function"]: row["total"]["bytes"]["estimate"] for row in
            report(whole, "--metric", "leaked", "--by", "function")["rows"]}
    same((rows["grow"], rows["same"], rows["fresh"]), (500000, 100000, 70000))
    same(info(whole)["mode"], "exact")
    same(info(whole)["modules"], info(trace("before"))["modules"] + 1)


@case
def merge_of_merged():
    """Merging is associative, and one trace alone stays what it is."""
    parts = [known(1, "-i", "64K"), known(2, "-i", "256K"), known(3, "-x")]
    once = merged(*parts)
    twice = merged(merged(*parts[:2], name="two.mayfly"), parts[2], name="twice.mayfly")
    alone = merged(parts[0], name="alone.mayfly")
    for a, b in ((once, twice), (parts[0], alone)):
        for metric in ("peak", "allocated", "leaked"):
            first, second = (report(path, "--metric", metric, "--by", "line") for path in (a, b))
            same(first["total"], second["total"], metric)
            same(len(first["rows"]), len(second["rows"]), metric)


@case
def merge_of_snapshots():
    parts = [trace("before", "--snapshots", "1"), trace("after", "--snapshots", "1")]
    whole = merged(*parts)
    for metric in ("allocated", "leaked"):
        same(report(whole, "--metric", metric)["total"]["bytes"]["estimate"],
             sum(report(path, "--metric", metric)["total"]["bytes"]["estimate"] for path in parts))


@case
def merge_refuses():
    out = folder / "refused.mayfly"
    sampled, poisson = known(1, "-i", "64K"), known(1, "-i", "64K", "--sampler", "poisson")
    snapshots = trace("before", "--snapshots", "1")
    failing("merge", "-o", out, sampled, poisson, code=1, said=["stratified", "Poisson", sampled])
    failing("merge", "-o", out, snapshots, sampled, code=1, said=["snapshots", snapshots, sampled])
    failing("merge", "-o", out, sampled, sampled, code=1, said=["twice"])
    failing("merge", "-o", out, sampled, "/nowhere", code=1, said=["/nowhere"])
    failing("merge", sampled, code=2, said=["-o"])
    failing("merge", "-o", out, code=2, said=["no trace given"])
    check(not os.path.exists(out), "something was written")
    shutil.copy(sampled, out)
    failing("merge", "-o", out, sampled, trace("before"), code=1, said=["--force"])
    cut = folder / "cut"
    with open(cut, "wb") as file:
        file.write(b"MAYFLYTR" + bytes(100))
    failing("merge", "--force", "-o", out, sampled, cut, code=1, said=[cut])
    same(info(out)["samples"], info(sampled)["samples"], "the file that was there")


@case
def merge_by_the_clock():
    first, second = trace("before"), trace("after")
    path = folder / "clock.mayfly"
    same(run([MAYFLY, "merge", "--align", "clock", "-o", path, first, second]).code, 0)
    starts = [info(p)["start_time"] for p in (first, second)]
    same(info(path)["start_time"], min(starts))
    check(info(path)["duration_ns"] > 2 * info(first)["duration_ns"], "one follows the other")


@case
def merge_of_many():
    """A thousand traces do not stay open, and their tables are one."""
    one = known(1, "-i", "64K", operations=1000)
    paths = [folder / ("many%d.mayfly" % i) for i in range(1000)]
    for path in paths:
        shutil.copy(one, path)
    result = run(["sh", "-c", "ulimit -n 64; exec \"$@\"", "sh", MAYFLY, "merge", "-o",
                  folder / "thousand.mayfly", *paths])
    same(result.code, 0, result)
    facts, single = info(folder / "thousand.mayfly"), info(one)
    same(facts["samples"], 1000 * single["samples"])
    same(facts["stacks"], single["stacks"])
    same(facts["allocated"]["bytes"]["estimate"], 1000 * single["allocated"]["bytes"]["estimate"])
    for path in paths:
        os.unlink(path)


# ---- check ----


def checked(*arguments, code):
    result = run([MAYFLY, "check", *arguments])
    same(result.code, code, "mayfly check %s (%r)" % (arguments, result))
    return result


def limits(*lines, name="limits"):
    path = folder / name
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")
    return path


@cases(["peak", "allocated", "leaked", "blocks"])
def check_at_the_limit(metric):
    """At the figure itself it passes, one below it fails and names the guilty stack."""
    metrics = {"blocks": "allocated"}
    total = report(trace("before"), "--metric", metrics.get(metric, metric))["total"]
    value = total["blocks" if metric == "blocks" else "bytes"]["estimate"]
    checked("--max-" + metric, str(value), trace("before"), code=0)
    result = checked("--max-" + metric, str(value - 1), trace("before"), code=1)
    text = result.out.decode()
    check(text.startswith("FAIL " + metric) and "main" in text, text)


@case
def check_of_blocks_names_most_blocks():
    """The guilty of a limit on blocks are the stacks with most blocks, not with most bytes."""
    rows = report(trace("before"), "--metric", "allocated", "--by", "stack", "--top", "0")["rows"]
    blocks = sorted((row["self"]["blocks"]["estimate"] for row in rows), reverse=True)
    answer = json.loads(checked("--json", "--max-blocks", "1", "--top", "3", trace("before"),
                                code=1).out)
    same([g["self"]["blocks"]["estimate"] for g in answer["limits"][0]["stacks"]], blocks[:3])
    text = checked("--max-blocks", "1", trace("before"), code=1).out.decode()
    check("  1. %d blocks\n" % blocks[0] in text, text)


@case
def check_functions():
    path = limits("# of functions", "", "leaked 200K function ^grow$", "leaked 49999 function ^same$",
                  "  blocks\t150  function ^(grow|same)$", "peak 1G")
    result = checked("--json", "--limits", path, trace("before"), code=1)
    answer = json.loads(result.out)
    same([limit["exceeded"] for limit in answer["limits"]], [False, True, False, False])
    same([limit["where"] for limit in answer["limits"]], [path + ":%d" % n for n in (3, 4, 5, 6)])
    same(answer["limits"][0]["found"]["bytes"]["estimate"], 200000)
    same(answer["limits"][2]["found"]["blocks"]["estimate"], 150)
    guilty = answer["limits"][1]["stacks"]
    same([place["function"] for place in guilty[0]["stack"][:3]], ["get", "same", "main"])
    same(answer["passed"], False)
    typo = checked("--limits", limits("peak 1 function ^gorw$"), trace("before"), code=0)
    check(b"nothing on a stack matches" in typo.out, typo)


@case
def check_against_a_baseline():
    before, after = trace("before"), trace("after")
    a, b = (report(p, "--metric", "leaked")["total"]["bytes"]["estimate"] for p in (before, after))
    enough, scarce = 100 * (b - a) / a + 0.1, 100 * (b - a) / a - 0.1
    checked("--baseline", before, "--max-increase", "leaked=%g%%" % enough, after, code=0)
    result = checked("--baseline", before, "--max-increase", "leaked=%g%%" % scarce, after, code=1)
    check(b"baseline" in result.out and b"+97.7 KiB" in result.out, "the stack that grew", result)
    checked("--baseline", before, "--max-increase", "10%", before, code=0)
    checked("--baseline", after, "--max-increase", "0,allocated=0", before, code=0)
    checked("--baseline", before, "--limits", limits("peak +1%"), after, code=1)


@case
def check_knows_noise():
    """A figure of a sampled trace exceeds its limit when that is certain; with --strict, when its
    estimate does."""
    trace_ = known(1, "-i", "64K")
    leaked = json.loads(run([MAYFLY, "leaks", "--json", trace_]).out)["total"]["bytes"]
    between = str((leaked["low"] + leaked["estimate"]) // 2)
    result = checked("--max-leaked", between, trace_, code=0)
    check(b"not decided" in result.out, result)
    result = checked("--max-leaked", between, "--strict", trace_, code=1)
    check(b"not certain" in result.out, result)
    result = checked("--max-leaked", str(leaked["low"] - 2), trace_, code=1)
    check(b"not certain" not in result.out, result)
    # The same program again is no regression.
    checked("--baseline", known(2, "-i", "64K"), "--max-increase", "allocated=10%", trace_, code=0)


# Fills 8 MiB and frees it, TEETH times; keeps the last of them. Sizes from 16 bytes to 2 KiB.
TEETH = r"""
#include <stdlib.h>
static void *slot[65536];
static unsigned long long state = 1;
static unsigned draw(void) { return (state = state * 6364136223846793005ull + 1) >> 33; }
__attribute__((noinline)) void fill(size_t bytes)
{
    for (int i = 0; bytes > 4096; i++) {
        size_t size = 16u << draw() % 8;
        slot[i] = malloc(size);
        bytes -= size;
    }
}
__attribute__((noinline)) void clear(void)
{
    for (int i = 0; slot[i]; i++) {
        free(slot[i]);
        slot[i] = NULL;
    }
}
int main(int count, char **arguments)
{
    for (int tooth = atoi(arguments[1]); tooth > 0; tooth--) {
        fill((size_t)atoi(arguments[2]) << 10);
        if (tooth > 1)
            clear();
    }
    return 0;
}
"""


def teeth(count, kib, seed, interval="16K"):
    """A recording of the program above."""
    binary, source = folder / "teeth", folder / "teeth.c"
    path = folder / ("teeth-%d-%d-%d-%s.mayfly" % (count, kib, seed, interval))
    if not os.path.exists(binary):
        with open(source, "w") as file:
            file.write(TEETH)
        same(run(["gcc", *FLAGS, "-o", binary, source]).code, 0)
    same(record([binary, str(count), str(kib)], path, "-i", interval,
                env=environment(MAYFLY="seed=%d" % seed)).code, 0)
    return path


def exceeded(before, after, percent, *options):
    """The metrics that increased by more."""
    metrics = ("peak", "allocated", "leaked", "blocks")
    increases = ",".join("%s=%d%%" % (metric, percent) for metric in metrics)
    result = run([MAYFLY, "check", "--json", "--baseline", before, "--max-increase", increases,
                  *options, after])
    return [limit["metric"] for limit in json.loads(result.out)["limits"] if limit["exceeded"]]


@cases([1, 6])
def check_of_unchanged_pairs(count):
    """An unchanged program does not fail by chance, even when nothing may increase; 30 % more does
    fail. The estimate alone fails every second pair."""
    runs = [teeth(count, 8192, seed) for seed in range(1, 26)]
    pairs = list(zip(runs, runs[1:]))
    by_chance = sum(len(exceeded(a, b, 0)) for a, b in pairs)
    strict = sum(len(exceeded(a, b, 0, "--strict")) for a, b in pairs)
    print("# of %d limits on unchanged pairs fail: %d, with --strict %d" % (
        4 * len(pairs), by_chance, strict))
    check(by_chance <= 0.05 * 4 * len(pairs), by_chance, "of", 4 * len(pairs), "fail by chance")
    check(strict >= 0.2 * 4 * len(pairs), "only", strict, "estimates are above another")
    more = [teeth(count, 8192 * 13 // 10, seed) for seed in range(101, 111)]
    found = [exceeded(a, b, 5) for a, b in zip(runs, more)]
    for metric in ("peak", "allocated", "leaked"):
        seen = sum(metric in each for each in found)
        check(seen >= 9, metric, "seen in", seen, "of 10")


@case
def check_says_what_it_sees():
    """check prints the increase that would have failed for a sampled trace, nothing for an exact one."""
    runs = [teeth(1, 8192, seed) for seed in (1, 2)]
    arguments = ["--baseline", runs[0], "--max-increase", "allocated=5%", "--max-peak", "1G"]
    text = checked(*arguments, runs[1], code=0).out.decode()
    answer = json.loads(checked("--json", *arguments, runs[1], code=0).out)
    increase, peak = answer["limits"]
    # 512 samples of each: the standard error of a Poisson sampler's difference is 6.3 %.
    check(0.05 < increase["certain_from_increase"] < 0.25, increase)
    same(peak["certain_from_increase"], None)
    check(1.0 < peak["certain_from"] / 2 ** 30 < 1.1, peak)
    check("An increase below about %.*f %% would not have failed" % (
        increase["certain_from_increase"] < 0.0995, 100 * increase["certain_from_increase"])
          in text, text)
    check(increase["certain_from_increase"] < increase["sees_from_increase"], increase)
    same((increase["undecided"], peak["undecided"], answer["undecided"]), (False, False, 0))
    check("Less than about 1.0" in text and "smaller --interval" in text, text)
    # An increase of that size is found about every second time, one of half that size is not.
    for part, some in ((2.0, True), (0.5, False)):
        more = 1 + part * increase["certain_from_increase"]
        found = [exceeded(runs[0], teeth(1, int(8192 * more), seed), 5) for seed in range(11, 16)]
        same(sum("allocated" in each for each in found) >= 4, some, part)
    before, after = trace("before"), trace("after")
    text = checked("--baseline", before, "--max-increase", "200%", after, code=0).out.decode()
    check("would not have failed" not in text, text)


@cases(["--max-peak", "--max-allocated", "--max-leaked", "--max-blocks", "function", "--max-increase", "leaked=0%"])
def check_cannot_decide(kind):
    """A limit within the 95 % interval is neither kept nor exceeded: the verdict says so, and what would decide."""
    one, junit = teeth(1, 8192, 1, "128K"), folder / "undecided.xml"
    if kind in ("--max-increase", "leaked=0%"):
        limit = ["--baseline", teeth(1, 8192, 2, "128K"), "--max-increase", "5%" if kind == "--max-increase" else kind]
    else:
        metric = "allocated" if kind in ("--max-blocks", "function") else kind[len("--max-"):]
        total = report(one, "--metric", metric)["total"]["blocks" if kind == "--max-blocks" else "bytes"]
        bound = (total["estimate"] + total["high"]) // 2
        limit = ["--limits", limits("allocated %d function fill" % bound)] if kind == "function" else [kind, str(bound)]
    for options, code, mark, tag in (([], 0, "ok? ", "skipped"), (["--undecided", "pass"], 0, "ok? ", "skipped"),
                                     (["--undecided", "fail"], 3, "FAIL", "failure")):
        text = checked(*limit, *options, "--junit", junit, one, code=code).out.decode()
        check(text.startswith(mark) and "; not decided: this recording sees " in text and "or more; use -" in text, text)
        check("0 of 1 limit exceeded, 1 not decided\n" in text, text)
        suite = xml.dom.minidom.parse(junit).getElementsByTagName("testsuite")[0]
        same([suite.getAttribute(name) for name in ("failures", "skipped")], [str(int(code == 3)), str(int(code == 0))])
        check("not decided" in suite.getElementsByTagName(tag)[0].getAttribute("message"), suite.toxml())
        answer = json.loads(checked("--json", *limit, *options, one, code=code).out)
        same((answer["passed"], answer["exceeded"], answer["undecided"], answer["limits"][0]["undecided"]),
             (code == 0, 0, 1, True))
    # What is exceeded comes first; an exact trace decides.
    text = checked(*limit, "--max-peak", "1K", "--undecided", "fail", one, code=1).out.decode()
    check("1 of 2 limits exceeded, 1 not decided\n" in text, text)
    exact = teeth(1, 8192, 1, "1")
    if "--baseline" in limit:
        limit = ["--baseline", exact, *limit[2:]]
    checked(*limit, "--undecided", "fail", exact, code=0)


@case
def check_plans():
    """The intervals and what they would see, finer ones less; the coarsest that is good enough is named."""
    exact, sampled = teeth(1, 8192, 1, "1"), teeth(1, 8192, 1)
    for path in (exact, sampled):
        arguments = ["--plan", "--baseline", path, "--max-increase", "5%,blocks=60%", "--max-leaked", "0", path]
        text = checked(*arguments, code=0).out.decode()
        answer = json.loads(checked("--json", *arguments, code=0).out)
        peak, blocks, leaked = answer["limits"]
        for limit in answer["limits"]:
            sees = [each["sees_from"] for each in limit["intervals"]]
            same([each["interval_bytes"] for each in limit["intervals"]], [4096 << i for i in range(13)])
            same(sees, sorted(sees))
        for limit, most in ((peak, 0.1), (blocks, 1.2)):
            good = [each["interval_bytes"] for each in limit["intervals"] if each["sees_from_increase"] <= most + 1e-6]
            same(limit["deciding_interval_bytes"], max(good) if good else None)
        same(leaked["deciding_interval_bytes"], None)
        check("leaked at most 0 B (--max-leaked): use -x\n" in text, text)
        if peak["deciding_interval_bytes"]:
            check("use -i %dK or -x for both" % (peak["deciding_interval_bytes"] >> 10) in text, text)
    check(peak["intervals"][2]["sees_from"] > 0, peak)
    # From all blocks in their order the plan knows more than from samples.
    same(json.loads(checked("--json", "--plan", "--baseline", exact, "--max-increase", "5%", exact, code=0).out)
         ["limits"][0]["deciding_interval_bytes"] is None, False)


@case
def check_of_a_file_without_errors():
    """Nothing is certain then: the figure itself decides, and the output says so."""
    profile, imported = folder / "known.pb.gz", folder / "imported.mayfly"
    same(run([MAYFLY, "export", "--to", "pprof", "-o", profile, known(1, "-i", "64K")]).code, 0)
    same(run([MAYFLY, "import", "-o", imported, profile]).code, 0)
    figure = report(imported, "--metric", "allocated")["total"]["bytes"]["estimate"]
    checked("--max-allocated", str(figure), imported, code=0)
    result = checked("--max-allocated", str(figure - 1), imported, code=1)
    check(b"the file does not say how sure it is" in result.out, result)


@case
def check_writes_junit():
    path = folder / "junit.xml"
    checked("--junit", path, "--max-peak", "1K", "--max-blocks", "1000",
            "--limits", limits("leaked 1 function <&\">|same"), trace("before"), code=1)
    document = xml.dom.minidom.parse(path)
    suite = document.getElementsByTagName("testsuite")[0]
    same((suite.getAttribute("tests"), suite.getAttribute("failures")), ("3", "2"))
    tests = document.getElementsByTagName("testcase")
    failures = [t.getElementsByTagName("failure") for t in tests]
    same([len(f) for f in failures], [1, 0, 1])
    check("get" in failures[0][0].firstChild.data, failures[0][0].toxml())
    check('<&">|same' in tests[2].getAttribute("name"), tests[2].toxml())
    # Names stay when the traces change, so that CI systems know the test again.
    names = []
    for baseline in (trace("before"), trace("after")):
        checked("--junit", path, "--max-increase", "0", "--baseline", baseline, trace("after"),
                code=int(baseline == trace("before")))
        names += [t.getAttribute("name") for t in
                  xml.dom.minidom.parse(path).getElementsByTagName("testcase")]
    same(names, ["peak at most 0 % above the baseline"] * 2)
    # The next run's report takes its place.
    checked("--junit", path, "--max-peak", "1G", trace("before"), code=0)
    same(len(xml.dom.minidom.parse(path).getElementsByTagName("failure")), 0)


@case
def check_refuses():
    """What cannot be checked is neither passed nor failed: exit status 2."""
    one = trace("before")
    for arguments, said in (
            ([one], "no limit"), (["--max-peak", "10X", one], "10X"),
            (["--max-blocks", "1.5", one], "whole number"),
            (["--max-increase", "10%", one], "--baseline"),
            (["--max-increase", "%", "--baseline", one, one], "percentage"),
            (["--max-increase", "size=1%", "--baseline", one, one], "size"),
            (["--baseline", one, "--max-peak", "1G", one], "--max-increase"),
            (["--max-peak", "1G", "/nowhere"], "/nowhere"),
            (["--max-peak", "1G", "--limits", "/nowhere", one], "/nowhere"),
            (["--limits", limits("peek 1K", name="a"), one], "a:1"),
            (["--limits", limits("", "peak", name="b"), one], "b:2"),
            (["--limits", limits("peak 1K file x", name="c"), one], "file"),
            (["--limits", limits("peak 1K function", name="d"), one], "pattern"),
            (["--limits", limits("peak 1K function (", name="e"), one], "e:1"),
            (["--max-peak", "1G", "--undecided", "maybe", one], "maybe"),
            (["--max-peak", "1G", "--undecided", "fail", "--strict", one], "--strict"),
            (["--max-peak", "1G", "--plan", "--junit", folder / "x.xml", one], "--junit"),
            (["--max-peak", "1G", "--junit", "/nowhere/x.xml", one], "/nowhere")):
        result = run([MAYFLY, "check", *arguments])
        same(result.code, 2, "%s: %r" % (arguments, result))
        check(said.encode() in result.err and result.err.count(b"\n") == 1, said, result)


if __name__ == "__main__":
    main()
