#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Why RSS is larger than the heap: programs whose resident memory is of a known kind, which they say
themselves; the allocators' own figures; pages that are nearly empty."""
import os
import re

from harness import (AGENT, MAYFLY, Folder, as_json, case, cases, check, environment,
                     info, library, main, need, patient, program, record, run, same)

MEGABYTE = 1 << 20
SIZE = 60


def near(got, expected, share, what):
    check(abs(got - expected) <= share * expected, what, "is", got, "expected", expected)


def resident(here, kind, *options, env=None):
    """Records it; returns (what the program says is resident, its live bytes, the report)."""
    trace = here / "trace.mayfly"
    result = record([program("resident"), kind, str(SIZE), here / "mapped"], trace, "--force",
                    *options, env=env)
    check(result.code == 0, result)
    said, live = map(int, result.out.split())
    return said, live, as_json("report", "--rss", "--json", trace)


def moment(report, which):
    return next(m for m in report["moments"] if m["which"] == which)


def adds_up(report):
    for m in report["moments"]:
        near(sum(m["parts"].values()), m["rss"], 0.001, "the sum of all parts")


KINDS = {"anonymous": "other_anonymous", "shared": "shared", "file": "files", "stacks": "stacks",
         "arenas": "allocator_free", "blocks": "live"}


@cases(KINDS)
@patient
def known_composition(kind):
    """Within a few percent of what the program made, and of the RSS that it saw itself."""
    with Folder() as here:
        said, _, report = resident(here, kind, "-i", "64K")
        adds_up(report)
        peak = moment(report, "peak")
        near(peak["rss"], said, 0.05, "RSS")
        near(peak["parts"][KINDS[kind]], SIZE * MEGABYTE, 0.05, KINDS[kind])
        others = peak["rss"] - peak["parts"][KINDS[kind]]
        check(others < 0.15 * SIZE * MEGABYTE, "other parts:", peak)
        check(abs(peak["parts"]["not_explained"]) < 0.02 * peak["rss"], peak)
        check(peak["advice"], "no advice")
        if kind == "stacks":
            same(peak["stacks"], 17, "stacks, that of main() among them")
        if kind == "arenas":
            check(12 <= peak["arenas"] <= 16, "arenas:", peak["arenas"])
            check("MALLOC_ARENA_MAX" in peak["advice"], peak["advice"])


@case
@patient
def freed_but_kept():
    """Blocks are freed but one in each page: little is live, all is still resident."""
    with Folder() as here:
        said, live, report = resident(here, "fragmented", "--exact")
        adds_up(report)
        end = moment(report, "end")
        near(end["rss"], said, 0.05, "RSS")
        near(end["parts"]["live"], live, 0.01, "live blocks")
        parts = end["parts"]
        # Free blocks are counted with their headers.
        near(parts["allocator_free"] + parts["allocator_overhead"], SIZE * MEGABYTE * 128 / 120 - live,
             0.15, "free in the allocator")
        check(parts["allocator_overhead"] < 0.15 * SIZE * MEGABYTE, parts)
        check("malloc_trim" in end["advice"], end["advice"])


@case
@patient
def never_touched():
    """A heap that is larger than RSS: the rows still add up."""
    with Folder() as here:
        said, live, report = resident(here, "untouched", "-i", "64K")
        adds_up(report)
        end = moment(report, "end")
        near(end["rss"], said, 0.1, "RSS")
        near(end["parts"]["live"], live, 0.01, "live blocks")
        near(-end["parts"]["not_resident"], live, 0.05, "not resident")


ALLOCATORS = {"libjemalloc.so.2": ("jemalloc", "jemalloc.active"),
              "libmimalloc.so.2": ("mimalloc", "mimalloc.committed"),
              "libtcmalloc_minimal.so.4": ("tcmalloc", "tcmalloc.allocated"),
              "libc.so.6": ("glibc", "glibc.in_use")}


@cases(ALLOCATORS)
@patient
def allocators_view(name):
    """Each allocator is asked for its own figures, and they agree with what is live."""
    with Folder() as here:
        _, live, report = resident(here, "blocks", "-i", "64K",
                                   env=environment(LD_PRELOAD=library(name)))
        allocator, counter = ALLOCATORS[name]
        same(report["allocator"], allocator, "allocator")
        values = {c["name"]: max(c["value"]) for c in report["counters"]}
        check(live <= values[counter] * 1.01 <= 1.4 * live, counter, values[counter], "live", live)
        same([c["unit"] for c in report["counters"] if c["name"] == counter], ["bytes"], "unit")
        adds_up(report)


@case
@patient
def counters_over_time():
    """Times ascend and lie within the run; faults and CPU time only grow."""
    with Folder() as here:
        _, _, report = resident(here, "blocks", "-i", "64K")
        counters = {c["name"]: c for c in report["counters"]}
        duration = info(here / "trace.mayfly")["duration_ns"]
        for c in counters.values():
            check(c["time_ns"] == sorted(c["time_ns"]), c)
            check(0 <= c["time_ns"][0] and c["time_ns"][-1] <= duration + 10**7, c, duration)
        for name in ("process.minor_faults", "process.cpu_user", "process.resident_peak"):
            check(counters[name]["value"] == sorted(counters[name]["value"]), name)
        check(counters["process.minor_faults"]["value"][-1] > SIZE * MEGABYTE / 4096, "faults")
        near(counters["process.resident_peak"]["value"][-1],
             max(counters["process.resident"]["value"]), 0.1, "the kernel's maximum")


@case
def short_program():
    """Some milliseconds are enough for one look."""
    with Folder() as here:
        trace = here / "trace.mayfly"
        record(["/bin/true"], trace, "-i", "1")
        report = as_json("report", "--rss", "--json", trace)
        check(report["moments"] and report["moments"][-1]["rss"] > 100000, report["moments"])


def free_bytes(trace):
    """What glibc said each time: (when, in ns, how many bytes are free)."""
    counters = as_json("report", "--rss", "--json", trace)["counters"]
    found = next(c for c in counters if c["name"] == "glibc.free")
    return list(zip(found["time_ns"], found["value"]))


def pause():
    return os.environ["PAUSE_MS"]


MODES = {"sampled": ["-i", "512K"], "exact": ["--exact"]}


@cases(MODES)
@patient
def a_million_free_blocks(mode):
    """glibc would go through all of them, which takes a fifth of a second and more: it is not asked
    any more, in exact mode but for the end. With the blocks kept, it is."""
    with Folder() as here:
        trace = here / "trace.mayfly"
        result = record([program("released"), pause()], trace, *MODES[mode])
        check(result.code == 0, result)
        looks = free_bytes(trace)[:-1 if mode == "exact" else None]
        check(looks and max(value for _, value in looks) < 20 * MEGABYTE, looks)
        result = record([program("released"), pause(), "keep"], trace, "--force", *MODES[mode])
        check(result.code == 0, result)
        looks = free_bytes(trace)
        check(looks[-1][0] > 0.5 * info(trace)["duration_ns"], "not asked any more", looks)


@case
def without_a_recorder():
    """A program that was preloaded by hand: the agent alone knows RSS at its end."""
    with Folder() as here:
        env = environment(LD_PRELOAD=AGENT, MAYFLY="interval=64K,output=" + here / "x.spool")
        result = run([program("resident"), "blocks", str(SIZE)], env=env)
        said, _ = map(int, result.out.split())
        report = as_json("report", "--rss", "--json", here / "x.spool")
        adds_up(report)
        same([m["which"] for m in report["moments"]], ["end"], "moments")
        near(report["moments"][0]["rss"], said, 0.05, "RSS")


@case
def long_recordings():
    """The recorder reads and thins while the program runs: counters and pages stay."""
    need("python3")
    with Folder() as here:
        trace = here / "trace.mayfly"
        text = ("import random\nx = {}\nfor i in range(120000):\n"
                "    x[random.randrange(20000)] = bytes(random.randrange(3000))\n")
        result = record(["python3", "-c", text], trace, "--exact", "--max-size", "256K",
                        env=environment(PYTHONMALLOC="malloc"))
        check(result.code == 0, result)
        report = as_json("report", "--rss", "--json", trace)
        check(info(trace)["thinned"], "was not thinned")
        adds_up(report)
        check(moment(report, "peak")["rss"] > 20 * MEGABYTE, report["moments"])
        check(as_json("report", "--fragmentation", "--json", trace)["peak"]["rows"], "pages")
        times = [c for c in report["counters"] if c["name"] == "process.resident"][0]
        check(len(times["value"]) > 3, times)


@case
@patient
def summary_says_it():
    with Folder() as here:
        resident(here, "anonymous")
        for command in ("report", "info"):
            text = run([MAYFLY, command, here / "trace.mayfly"]).out.decode()
            found = re.search(r"Resident +([0-9.]+) MB at most", text)
            check(found, text[:800])
            near(float(found.group(1)), SIZE + 2, 0.05, "resident")
        text = run([MAYFLY, "report", "--rss", here / "trace.mayfly"],
                   env=environment(COLUMNS="80")).out.decode()
        check("other anonymous memory" in text and "not explained" in text, text)
        check(max(map(len, text.splitlines())) <= 80, text)


# ---- nearly empty pages ----


@case
def empty_pages():
    """One tiny block of 120 bytes stays in each page."""
    with Folder() as here:
        trace = here / "trace.mayfly"
        result = record([program("resident"), "fragmented", str(SIZE)], trace, "--exact")
        check(result.code == 0, result)
        found = as_json("report", "--fragmentation", "--json", trace)
        pages = SIZE * MEGABYTE // 120 // 32
        row = found["end"]["rows"][0]
        same(row["function"], "scatter", "function")
        near(row["blocks"], pages, 0.01, "blocks")
        near(row["bytes"], pages * 120, 0.01, "bytes")
        hidden = as_json("report", "--fragmentation", "--json", "--hide", "scatter", trace)
        same(hidden["end"]["rows"][0]["function"], "main", "function with another hidden")
        near(row["held_bytes"], pages * 4096, 0.02, "held")
        # At the peak the pages are full, but for the headers.
        peak = found["peak"]
        near(peak["bytes"], SIZE * MEGABYTE, 0.05, "live near the peak")
        near(peak["bytes"] / (peak["pages"] * peak["page_bytes"]), 120 / 128, 0.02, "filled")
        text = run([MAYFLY, "report", "--fragmentation", trace]).out.decode()
        check(re.search(r"scatter holds 1[0-9]{4} pages that it fills to 2\.9\d? %", text), text)


@case
def bad_requests():
    with Folder() as here:
        trace = here / "trace.mayfly"
        record([program("resident"), "blocks", "4"], trace)
        result = run([MAYFLY, "report", "--fragmentation", trace])
        check(result.code == 1 and b"record with --exact" in result.err, result)
        for options in (["--rss", "--metric", "live"], ["--rss", "--fragmentation"],
                        ["--fragmentation", "--focus", "x"], ["--rss", "--series", "4"]):
            result = run([MAYFLY, "report", *options, trace])
            check(result.code == 2 and result.err.count(b"\n") == 1, options, result)


if __name__ == "__main__":
    main()
