#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Why RSS is larger than the heap: programs whose resident memory is of a known kind, which they and
the kernel say themselves; what is advised about it; the allocators' own figures; pages that are
nearly empty."""
import os
import re
import shutil

from harness import (AGENT, MAYFLY, PYTHON, SOURCE, Folder, Skip, as_json, case, cases, check, environment,
                     info, library, main, need, patient, program, read, record, run, same)

MEGABYTE = 1 << 20
SIZE = 60


def near(got, expected, share, what):
    check(abs(got - expected) <= share * expected, what, "is", got, "expected", expected)


def resident(here, kind, *options, env=None):
    """Records it; returns (what the program says is resident, its live bytes, the report)."""
    trace = here / "trace.mayfly"
    result = record([program("resident"), kind, str(SIZE), here / "mapped"], trace, "--force",
                    *options, env=env)
    if result.code == 77:
        raise Skip("this memory is not free here")
    check(result.code == 0, result)
    said, live = map(int, result.out.split())
    return said, live, as_json("report", "--rss", "--json", trace)


def moment(report, which):
    return next(m for m in report["moments"] if m["which"] == which)


def adds_up(report):
    for m in report["moments"]:
        near(sum(m["parts"].values()), m["rss"], 0.001, "the sum of all parts")
        for kind, value in m["parts"].items():
            same(sum(row["resident"] for row in m["rows"] if row["kind"] == kind), value,
                 "the rows of " + kind)


# ---- resident pages, by what they are of ----

HEADER = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \S+ *(.*)")
SHARED = ("/dev/shm/", "/memfd:", "/SYSV", "/dev/zero")


def mappings(text):
    """[(start, end, access, path, {"Rss": bytes, ...})] of /proc/PID/smaps."""
    found = []
    for line in text.splitlines():
        header = HEADER.match(line)
        if header:
            found.append((int(header[1], 16), int(header[2], 16), header[3], header[4], {}))
        elif line.endswith(" kB"):
            name, amount, _ = line.split()
            found[-1][4][name[:-1]] = int(amount) * 1024
    return found


def sorted_by_kind(text):
    """Resident bytes by kind: what the kernel says, with simpler rules than the recorder's."""
    sums = dict.fromkeys(("heap", "static_data", "files", "changed_file_pages", "shared",
                          "mayfly", "private"), 0)
    before = (0, 0, "", "", {})
    for now in mappings(text):
        start, _, access, path, amount = now
        base = os.path.basename(path)
        if base.startswith(("libmayfly.so", "trace.mayfly")):
            kind = "mayfly"
        elif path.startswith(SHARED) or (not path and access[3] == "s"):
            kind = "shared"
        elif path.startswith("/"):
            copies = amount["Anonymous"] if access[3] == "p" else 0
            sums["changed_file_pages" if base == "mapped" else "static_data"] += copies
            sums["files"] += amount["Rss"] - copies
            kind = None
        elif path == "[heap]":
            kind = "heap"
        elif not path and before[1] == start and before[3].startswith("/") and "p" in before[2]:
            kind = "mayfly" if "libmayfly" in before[3] else "static_data"
        else:
            kind = "private"
        if kind:
            sums[kind] += amount["Rss"]
        before = now
    return sums


@cases(["anonymous", "half", "shared", "file", "copies", "static", "mixed", "stacks", "arenas",
        "turns", "fragmented", "freed", "top", "blocks", "large", "untouched", "pair",
        "half-pair"])
@patient
def as_the_kernel_says(kind):
    """Each part is within 2 % of RSS, and 512 KiB, of what the program reads in its own smaps."""
    with Folder() as here:
        _, _, report = resident(here, kind, "-i", "64K",
                                env=environment(SMAPS=here / "smaps",
                                                PAUSE_MS=os.environ["PAUSE_MS"]))
        adds_up(report)
        end = moment(report, "end")
        expected = sorted_by_kind(read(here / "smaps").decode())
        got = dict(end["parts"])
        got["private"] = sum(got.pop(k) for k in ("anonymous", "arenas", "stacks", "allocator",
                                                  "other"))
        for name, value in expected.items():
            check(abs(got[name] - value) <= 0.02 * end["rss"] + MEGABYTE / 2, name, "is",
                  got[name], "expected", value, "of", end)
        rss = sum(expected.values())
        check(abs(end["rss"] - rss) <= 0.03 * rss + MEGABYTE / 2, "RSS is", end["rss"], "expected", rss)


def row_of(report, which, kind, **facts):
    rows = [row for row in moment(report, which)["rows"] if row["kind"] == kind and
            all(row[name] == value for name, value in facts.items())]
    check(len(rows) == 1, kind, facts, moment(report, which)["rows"])
    return rows[0]["resident"]


# kind -> (kind of the row, what it says beside, megabytes)
KINDS = {"anonymous": ("anonymous", {"function": "map"}, SIZE),
         "half": ("anonymous", {"function": "make_half"}, SIZE),
         "static": ("static_data", {"name": program("resident")}, SIZE + 1),
         "mixed": ("static_data", {"name": program("resident")}, SIZE + 1),
         "shared": ("shared", {}, SIZE),
         "file": ("files", {"name": "mapped"}, SIZE),
         "copies": ("changed_file_pages", {"name": "mapped"}, SIZE),
         "stacks": ("stacks", {}, SIZE), "turns": ("arenas", {}, SIZE * 15 / 16),
         "blocks": ("heap", {}, SIZE), "freed": ("heap", {}, SIZE)}


@cases(KINDS)
@patient
def known_composition(kind):
    """The program made one thing; its row has nearly all, whatever malloc has handed out beside."""
    with Folder() as here:
        said, _, report = resident(here, kind, "-i", "64K")
        what, facts, size = KINDS[kind]
        facts = {k: here / v if v == "mapped" else v for k, v in facts.items()}
        for which in ("peak", "end"):
            near(row_of(report, which, what, **facts), size * MEGABYTE, 0.03, what)
        peak = moment(report, "peak")
        near(peak["rss"], said, 0.05, "RSS")
        check(abs(peak["parts"]["not_explained"]) < 0.02 * peak["rss"], peak)
        if kind == "stacks":
            same(peak["stacks"], 17, "stacks, that of main() among them")
        if kind == "turns":
            check(12 <= peak["arenas"] <= 16, "arenas:", peak["arenas"])


@case
@patient
def memory_beside_bss():
    """The kernel makes one mapping of .bss and what the program maps right behind it."""
    with Folder() as here:
        _, _, report = resident(here, "beside", "-i", "64K")
        adds_up(report)
        near(row_of(report, "end", "static_data", name=program("resident")), SIZE * MEGABYTE, 0.05,
             "static data")
        near(row_of(report, "end", "anonymous", function="make_beside"), SIZE * MEGABYTE / 2, 0.05,
             "mapped by the program")


@case
@patient
def mapped_by_two():
    """One mapping for the kernel. If all of it is resident, each has its part; else nobody knows."""
    with Folder() as here:
        _, _, report = resident(here, "pair", "-i", "64K")
        adds_up(report)
        for name, share in (("map_first", 1 / 3), ("map_second", 2 / 3)):
            near(row_of(report, "end", "anonymous", function=name), share * SIZE * MEGABYTE, 0.01,
                 name)
        _, _, report = resident(here, "half-pair", "-i", "64K")
        adds_up(report)
        near(row_of(report, "end", "anonymous", several=True), SIZE * MEGABYTE / 2, 0.01, "both")
        text = run([MAYFLY, "report", "--rss", here / "trace.mayfly"]).out.decode()
        check("anonymous, mapped by several" in text, text)


@case
@patient
def program_that_is_removed():
    """The size of .bss is read from the file that runs, although its name is gone."""
    with Folder() as here:
        copy = here / "program"
        shutil.copy(program("resident"), copy)
        result = record(["/bin/sh", "-c", 'exec 3<"$0"; rm "$0"; exec /proc/self/fd/3 static %d' % SIZE,
                         copy], here / "trace.mayfly")
        check(result.code == 0, result)
        report = as_json("report", "--rss", "--json", here / "trace.mayfly")
        adds_up(report)
        near(row_of(report, "end", "static_data", name=copy), (SIZE + 1) * MEGABYTE, 0.03, "static")


@case
@patient
def blocks_are_not_pages():
    """Live blocks that nobody writes to are in no row of pages, beside static data or alone."""
    with Folder() as here:
        for kind in ("mixed", "untouched"):
            _, live, report = resident(here, kind, "-i", "64K")
            adds_up(report)
            for m in report["moments"]:
                near(m["blocks"]["live"], live, 0.01, "live blocks")
                check(m["parts"]["heap"] + m["parts"]["anonymous"] < 2 * MEGABYTE, m["parts"])
                near(m["blocks"]["live_not_resident"], live, 0.04, "not resident")
        _, _, report = resident(here, "blocks", "-i", "64K")
        same([m["blocks"]["live_not_resident"] for m in report["moments"]], [0, 0], "blocks")


@case
@patient
def peak_is_caught():
    """The mappings are read when RSS has grown by 5 %, not only after a second."""
    with Folder() as here:
        _, _, report = resident(here, "top", "-i", "64K")
        near(moment(report, "peak")["rss"], report["highest_rss"], 0.1, "the highest RSS")


# ---- advice: given where it is right, and only there ----

SAYS = {"trim_top": "free at the end of glibc's heap: malloc_trim.0.",
        "trim_pages": "whole free pages: malloc_trim.0.", "arenas": "MALLOC_ARENA_MAX=2",
        "scattered": "cannot give back: 'mayfly report --fragmentation'",
        "not_live": "the rest is free or the allocator's own",
        "record_exact": "Samples do not tell", "whose": "'mayfly report' shows whose blocks",
        "static": "static storage", "stacks": "are stacks", "shared": "is shared memory",
        "files": "are pages of (mapped )?files", "copies": "has changed", "mapped": "has mapped",
        "absent": "of the live blocks are not resident", "jemalloc_keeps": "dirty_decay_ms",
        "jemalloc_pages": "pages that still hold live blocks",
        "tcmalloc": "ReleaseFreeMemory"}

SAMPLED, EXACT = ("-i", "64K"), ("--exact",)
ADVICE = {
    "freed": ("freed", SAMPLED, None, {"not_live", "record_exact"}),
    "freed-exact": ("freed", EXACT, None, {"trim_pages"}),
    "top": ("top", SAMPLED, None, {"trim_top"}),
    "top-exact": ("top", EXACT, None, {"trim_top"}),
    "fragmented": ("fragmented", SAMPLED, None, {"not_live", "record_exact"}),
    "fragmented-exact": ("fragmented", EXACT, None, {"scattered"}),
    "turns": ("turns", SAMPLED, None, {"arenas"}),
    "arenas": ("arenas", SAMPLED, None, {"not_live", "record_exact"}),
    "blocks": ("blocks", SAMPLED, None, {"whose"}),
    "blocks-exact": ("blocks", EXACT, None, {"whose"}),
    "untouched": ("untouched", SAMPLED, None, {"files", "absent"}),
    "static": ("static", SAMPLED, None, {"static"}),
    "mixed": ("mixed", SAMPLED, None, {"static", "absent"}),
    "stacks": ("stacks", SAMPLED, None, {"stacks"}),
    "shared": ("shared", SAMPLED, None, {"shared"}),
    "file": ("file", SAMPLED, None, {"files"}),
    "copies": ("copies", SAMPLED, None, {"copies"}),
    "half": ("half", SAMPLED, None, {"mapped"}),
    "large": ("large", SAMPLED, None, {"whose"}),
    "jemalloc-freed": ("freed", SAMPLED, "libjemalloc.so.2", {"jemalloc_keeps"}),
    "jemalloc-fragmented": ("fragmented", SAMPLED, "libjemalloc.so.2", {"jemalloc_pages"}),
    "jemalloc-blocks": ("blocks", SAMPLED, "libjemalloc.so.2", {"whose"}),
    "tcmalloc-freed": ("freed", SAMPLED, "libtcmalloc_minimal.so.4", {"tcmalloc"}),
    "tcmalloc-fragmented": ("fragmented", SAMPLED, "libtcmalloc_minimal.so.4",
                            {"not_live", "record_exact"}),
    "mimalloc-freed": ("freed", SAMPLED, "libmimalloc.so.2", {"not_live", "record_exact"})}


def advice(report):
    """What it says at the end: the names of SAYS."""
    text = moment(report, "end")["advice"] or ""
    return {name for name, part in SAYS.items() if re.search(part, text)}


@cases(ADVICE)
@patient
def advice_is_given(name):
    kind, options, preload, expected = ADVICE[name]
    with Folder() as here:
        env = environment(PAUSE_MS=os.environ["PAUSE_MS"],
                          LD_PRELOAD=library(preload) if preload else None)
        _, _, report = resident(here, kind, *options, env=env)
        adds_up(report)
        same(advice(report), expected, moment(report, "end")["advice"])


@case
@patient
def no_advice_without_the_mappings():
    """A program that grows and ends before its mappings are read again: what was there explains nothing."""
    need("perl", "ps")
    with Folder() as here:
        trace = here / "trace.mayfly"
        # It stops mayfly, grows, and leaves a child that lets mayfly go on when it has ended.
        script = """select undef, undef, undef, $ENV{PAUSE_MS} / 1000;
            my $mayfly = getppid; my $me = $$; kill STOP => $mayfly;
            if (!fork) { 1 until `ps -o stat= -p $me` =~ /^Z/; kill CONT => $mayfly; exit }
            my $bytes = shift; our $text = 'x' x $bytes;"""
        record(["perl", "-e", script, "200000000"], trace, "--force",
               env=environment(PAUSE_MS=os.environ["PAUSE_MS"]))
        report = as_json("report", "--rss", "--json", trace)
        for which in ("peak", "end"):
            said = moment(report, which)["advice"] or ""
            check(said.startswith("RSS was ") and "is not known" in said, which, said)
        text = run([MAYFLY, "report", "--rss", trace]).out.decode()
        same(text.count("is not known"), 1, text)


def given_back(kind, **changes):
    """What the program gets back when it asks its allocator, and what was resident before."""
    result = run([program("resident"), kind, str(SIZE)],
                 env=environment(GIVE_BACK="1", **changes))
    before, _, after = map(int, result.out.split())
    return before - after, before


@case
@patient
def advice_is_right():
    """What the sentences promise happens: malloc_trim() returns as much, and nothing where nothing
    is promised; two arenas, and a shorter decay, make RSS smaller."""
    with Folder() as here:
        _, _, report = resident(here, "freed", "--exact")
        promised = moment(report, "end")["blocks"]["returnable"]
        back, _ = given_back("freed")
        check(0.8 * SIZE * MEGABYTE < promised <= 1.01 * back, promised, "promised of", back)
        _, _, report = resident(here, "top", "-i", "64K")
        promised = float(re.search(r"At least ([0-9.]+) MiB", moment(report, "end")["advice"])[1])
        back, _ = given_back("top")
        check(0.8 * SIZE < promised <= 1.01 * back / MEGABYTE, promised, "promised of", back)
        _, _, report = resident(here, "fragmented", "--exact")
        same(moment(report, "end")["blocks"]["returnable"], 0, "promised of scattered blocks")
        check(given_back("fragmented")[0] < MEGABYTE, "scattered blocks were returned")
        near(given_back("turns")[1], SIZE * MEGABYTE, 0.2, "arenas used in turn")
        check(given_back("turns", MALLOC_ARENA_MAX="2")[1] < SIZE * MEGABYTE / 2, "two of them")
        near(given_back("arenas", MALLOC_ARENA_MAX="2")[1], SIZE * MEGABYTE, 0.2,
             "two arenas of threads that need all at once")


@case
@patient
def decay_of_jemalloc():
    with Folder() as here:
        env = {"LD_PRELOAD": library("libjemalloc.so.2"),
               "MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0"}
        _, _, report = resident(here, "freed", "-i", "64K",
                                env=environment(PAUSE_MS=os.environ["PAUSE_MS"], **env))
        check("jemalloc_keeps" not in advice(report), report["moments"])
        check(moment(report, "end")["rss"] < SIZE * MEGABYTE / 2, report["moments"])


@case
@patient
def python_needs_no_other_allocator():
    """Its small objects are recorded as they are."""
    need("python3")
    with Folder() as here:
        trace = here / "trace.mayfly"
        script = ("import time\nx = [float(i) for i in range(2500000)]\n"
                  "for i in range(10): time.sleep(%s / 10000); y = bytearray(1 << 20)" %
                  os.environ["PAUSE_MS"])
        for malloc in (None, "malloc"):
            record([*PYTHON, "-c", script], trace, "--force", env=environment(PYTHONMALLOC=malloc))
            said = moment(as_json("report", "--rss", "--json", trace), "end")["advice"]
            check("PYTHONMALLOC=malloc" not in said, said)


@case
@patient
def allocators_figures_stand_apart():
    """They are of other moments than the pages beside them: a table of their own says when each was reported."""
    with Folder() as here:
        trace = here / "trace.mayfly"
        script = ("import time\nx = [bytes(5000) for i in range(20000)]\ntime.sleep(%s / 333)\n"
                  "del x\ntime.sleep(%s / 333)" % (2 * (os.environ["PAUSE_MS"],)))
        same(record([*PYTHON, "-c", script], trace, "--force").code, 0)
        data = as_json("report", "--rss", "--json", trace)
        same(data["allocator"], "glibc")
        times = [m["allocator_time_ns"] for m in data["moments"]]
        tables = [t.splitlines() for t in run([MAYFLY, "report", "--rss", trace]).out.decode().split("\n\n")]
        pages, = [t for t in tables if "BLOCKS (resident or not)" in t[0]]
        own, = [t for t in tables if t[0].endswith("BLOCKS, AS COUNTED BY glibc")]
        check(not any(row.endswith(("in use", "free, kept")) for row in pages), pages)
        check(any(row.endswith("in use") for row in own) and "PEAK" not in own[0] and "END" not in own[0], own)
        same(own[0].count("AT "), len(set(times)), own[0])
        said = [float(n) * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[unit]
                for n, unit in re.findall(r"AT ([0-9.]+) (ns|us|ms|s)", own[0])]
        check(len(said) == len(set(times)) and all(min(abs(t - s) for s in said) <= t * 0.006 for t in times), said, times)


@case
@patient
def file_in_memory():
    """A file of tmpfs looks like any other, but the kernel cannot take its pages back."""
    folders = [line.split()[1] for line in read("/proc/mounts").decode().splitlines()
               if line.split()[2] == "tmpfs" and not line.split()[1].startswith("/dev")]
    folder = next((f for f in folders if os.access(f, os.W_OK)), None)
    if not folder:
        raise Skip("no tmpfs to write to")
    with Folder() as here:
        path = os.path.join(folder, "mayfly-test-%d" % os.getpid())
        try:
            result = record([program("resident"), "file", "8", path], here / "trace.mayfly")
        finally:
            if os.path.exists(path):
                os.unlink(path)
        if result.code:
            raise Skip("tmpfs has no room")
        end = moment(as_json("report", "--rss", "--json", here / "trace.mayfly"), "end")
        check("tmpfs" in end["advice"], end)
        near(end["parts"]["files"], 8 * MEGABYTE, 0.4, "files")


@case
@patient
def tcmalloc_returns():
    check(given_back("freed", LD_PRELOAD=library("libtcmalloc_minimal.so.4"))[0] >
          0.8 * SIZE * MEGABYTE, "free pages were not returned")


# ---- the allocators' own figures ----

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
        # Newer versions of mimalloc commit far ahead: 2.1.2 a GiB.
        most = 1.4 * live + (1024 * MEGABYTE if counter == "mimalloc.committed" else 0)
        check(live <= values[counter] * 1.01 <= most, counter, values[counter], "live", live)
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
        same(report["moments"][0]["advice"], None, "advice without kinds")
        text = run([MAYFLY, "report", "--rss", here / "x.spool"]).out.decode()
        check("anonymous: heap, stacks, .data, .bss" in text, text)


@case
@patient
def long_recordings():
    """The recorder reads and thins while the program runs: counters and pages stay."""
    need("python3")
    with Folder() as here:
        trace = here / "trace.mayfly"
        # It waits now and then, so that its counters are read more than a few times on a fast machine, too.
        text = ("import random, time\nx = {}\nfor i in range(120000):\n"
                "    x[random.randrange(20000)] = bytes(random.randrange(3000))\n"
                "    if i %% 10000 == 0:\n        time.sleep(%s / 5000)\n" % os.environ["PAUSE_MS"])
        result = record([*PYTHON, "-c", text], trace, "--force", "--exact", "--max-size", "256K",
                        env=environment(PYTHONMALLOC="malloc"))
        check(result.code == 0, result)
        report = as_json("report", "--rss", "--json", trace)
        check(info(trace)["thinned"], "was not thinned")
        adds_up(report)
        check(moment(report, "peak")["rss"] > 20 * MEGABYTE, report["moments"])
        check(any(row["kind"] == "files" and row["name"] for row in report["moments"][0]["rows"]),
              "no rows by module", report["moments"])
        check(as_json("report", "--fragmentation", "--json", trace)["peak"]["rows"], "pages")
        times = [c for c in report["counters"] if c["name"] == "process.resident"][0]
        check(len(times["value"]) > 3, times)


@case
def old_traces():
    """Without rows of mappings: the kinds add up, and what may lie in them is said."""
    for name in ("v2-last-sampled.mayfly", "v2-last-exact.mayfly"):
        trace = os.path.join(SOURCE, "tests", "golden", name)
        report = as_json("report", "--rss", "--json", trace)
        adds_up(report)
        same([m["parts"]["static_data"] for m in report["moments"]], [0, 0], "static data")
        text = run([MAYFLY, "report", "--rss", trace]).out.decode()
        check("anonymous, and .bss" in text and "code, .data, mapped files" in text, text)


@case
@patient
def summary_says_it():
    with Folder() as here:
        resident(here, "anonymous")
        for command in ("report", "info"):
            text = run([MAYFLY, command, here / "trace.mayfly"]).out.decode()
            found = re.search(r"Resident +([0-9.]+) MiB at most", text)
            check(found, text[:800])
            near(float(found.group(1)), SIZE + 2, 0.05, "resident")
        text = run([MAYFLY, "report", "--rss", here / "trace.mayfly"],
                   env=environment(COLUMNS="80")).out.decode()
        check("mapped by map" in text and "resident in all (RSS)" in text, text)
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
        same(hidden["end"]["rows"][0]["function"], "make_fragmented", "function above it")
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
