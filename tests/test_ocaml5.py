#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What only OCaml 5 has (tests/programs/ocaml5.ml), under `mayfly record` without a rebuild: domains,
effects, C stacks that go through fibers, large blocks that are malloc's, the program's own profiles
while other domains run. test_ocaml.py runs what all versions have."""
import collections
import functools
import json
import math
import os
import re
import shutil
import struct
import subprocess

from harness import (Folder, MAYFLY, SOURCE, Skip, case, cases, check, info, main, record, report,
                     rows, run, same, sane, unchanged)
from ocaml_tools import ocaml_version

WORD = 8
folder = Folder()
folder.__enter__()


@functools.lru_cache(maxsize=None)
def program():
    if ocaml_version() < (5, 3):
        raise Skip("this OCaml is %d.%d; these cases need 5.3" % ocaml_version())
    for source in ("ocaml5_stubs.c", "ocaml5.ml"):
        shutil.copy(os.path.join(SOURCE, "tests", "programs", source), folder.path)
    done = run(["ocamlfind", "ocamlopt", "-thread", "-package", "unix,threads.posix", "-linkpkg",
                "-g", "ocaml5_stubs.c", "ocaml5.ml", "-o", "ocaml5"], cwd=folder.path)
    same(done.code, 0, "ocamlopt: %r" % done)
    return os.path.join(folder.path, "ocaml5")


def recorded(*arguments, rate="1e-3", options=(), binary=None):
    trace = folder / "t.mayfly"
    if os.path.exists(trace):
        os.unlink(trace)
    done = unchanged([binary or program(), *arguments], trace, "--ocaml=" + rate, *options)
    same(info(trace)["ocaml_rate"], float(rate), "rate")
    return done, trace


def events(trace):
    return [json.loads(line) for line in run([MAYFLY, "dump", "--json", trace]).out.splitlines()]


def holds(row, expected, what, slack=1.5):
    low, high, middle = (row["bytes"][k] for k in ("low", "high", "estimate"))
    low, high = middle - slack * (middle - low), middle + slack * (high - middle)
    check(low <= expected <= high, what, "is", expected, "and not in", low, high)


def follow(all_events):
    """A block is allocated, maybe promoted, and collected, in this order, in any threads."""
    state = {}
    for e in all_events:
        if "sample" not in e or not e["heap"].startswith("ocaml"):
            continue
        before = state.get(e["sample"])
        allowed = {"alloc": (None,), "promote": ("alloc",), "free": ("alloc", "promote")}
        check(before in allowed[e["event"]], e, "after", before)
        state[e["sample"]] = e["event"]
    return collections.Counter(state.values())


# ---- domains ----

@cases(["whole", "stripped"])
def four_domains(how):
    binary = program()
    if how == "stripped":
        binary = shutil.copy(binary, folder / "stripped")
        subprocess.run(["strip", binary], check=True)
    n = 5000
    _, trace = recorded("domains", str(n), binary=binary)
    sane(trace, 100)
    found = rows(trace, "--heap", "ocaml", "--metric", "allocated", "--all")
    holds(found["Ocaml5.count"]["self"], 4 * n * 300 * WORD, "lists of four domains")
    check(found["Ocaml5.count"]["file"].endswith("ocaml5.ml"), found["Ocaml5.count"])
    all_events = events(trace)
    follow(all_events)
    at = collections.Counter(e["tid"] for e in all_events
                             if e["event"] == "alloc" and e["heap"].startswith("ocaml"))
    check(len([t for t in at if at[t] > 20]) == 4, "samples by thread", at)


def packets(data):
    """(version, domain, bytes) of each packet of a Memtrace file: up to version 2 the domain is None."""
    at, found = 0, []
    while at < len(data):
        magic, bits = struct.unpack_from("<II", data, at)
        version, = struct.unpack_from("<H", data, at + 28)
        same(magic, 0xc1fc1fc1, "magic number at %d" % at)
        domain = struct.unpack_from("<H", data, at + 38)[0] if version >= 3 else None
        found.append((version, domain, bits // 8))
        at += bits // 8
    same(at, len(data), "end of the last packet")
    return found


def memtrace_lines(path):
    """(time in us, what, domain) of each event, as the file's reader has them."""
    out = run([MAYFLY, "dump", "--like-memtrace", path]).out.decode()
    return [(int(m[1]), m[2], m[3] and int(m[3])) for m in
            re.finditer(r"(?m)^(\d+) +\d+ +(\w+)(?: .*? dom=(\d+))?", out)]


@cases(["domains 2000", "generations 3"])
def memtrace_files_have_the_domains(what):
    """Each thread says its domain; the threads of a domain have one, and no two domains do."""
    name, n = what.split()
    _, trace = recorded(name, n, rate="1e-2")
    out = folder / "domains.ctf"
    same(run([MAYFLY, "export", "--force", "--to", "memtrace", "-o", out, trace]).code, 0, "export")
    domain, expected = {}, []
    for e in events(trace):
        if e["event"] == "instant" and (e.get("category"), e["name"]) == ("ocaml", "domain"):
            domain[e["tid"]] = e["values"]["domain"]
        if e["event"] == "alloc" and e["heap"] != "malloc":
            expected.append((e["time_ns"], domain[e["tid"]]))
    domains = set(domain.values())
    same(domains, set(range(4 if name == "domains" else 10)), "numbers of domains")
    check(name == "domains" or len(domain) > len(domains), "threads of domains", domain)
    with open(out, "rb") as f:
        whole_file = f.read()
    found = packets(whole_file)
    same({version for version, _, _ in found}, {3}, "versions of the packets")
    same({d for _, d, _ in found}, domains, "domains of the packets")
    got = [(time, d) for time, kind, d in memtrace_lines(out) if kind.startswith("alloc")]
    for (time, of_file), (ns, of_thread) in zip(got, expected):
        check(time == ns // 1000 and of_file == of_thread, time, of_file, "and not", ns, of_thread)
    same(len(got), len(expected), "blocks")
    back = folder / "back.mayfly"
    same(run([MAYFLY, "import", "--force", "-o", back, out]).code, 0, "import")
    again = run([MAYFLY, "export", "--to", "memtrace", "-o", "-", back]).out
    check(again == whole_file, "differs after import and export:", len(again), len(whole_file))


@case
def one_domain_is_version_2():
    _, trace = recorded("effects", "3000")
    out = folder / "one.ctf"
    same(run([MAYFLY, "export", "--force", "--to", "memtrace", "-o", out, trace]).code, 0, "export")
    with open(out, "rb") as f:
        same({version for version, _, _ in packets(f.read())}, {2}, "versions of the packets")


@case
def pauses_of_each_domain():
    """By the hooks; what the runtime's own events say is in test_runtime_events.py."""
    _, trace = recorded("domains", "5000", options=["--runtime-events=off"])
    spans = collections.Counter()
    for e in events(trace):
        if e["event"] in ("begin", "end") and e.get("category") == "ocaml":
            spans[e["tid"], e["name"], e["event"]] += 1
    in_minor = {tid for tid, name, what in spans if (name, what) == ("minor", "begin")}
    check(len(in_minor) >= 4, "domains with minor collections", spans)
    for tid in in_minor:
        same(spans[tid, "minor", "end"], spans[tid, "minor", "begin"], "ends of minor spans")
    text = run([MAYFLY, "report", "--events", trace]).out.decode()
    table = text.split("Pauses for OCaml's collector, by thread\n")[1].split("\n\n")[0]
    counts = {int(re.search(r"\((\d+)\)$", line)[1]): int(line.split()[0])
              for line in table.splitlines()[1:]}
    for tid in in_minor:
        same(counts[tid], spans[tid, "minor", "end"], "minor collections of a thread: " + table)


@case
def domains_come_and_go():
    """Blocks are promoted and collected in other domains than their own, which is gone."""
    _, trace = recorded("generations", "20", rate="1e-2")
    sane(trace, 1000)
    all_events = events(trace)
    ended = follow(all_events)
    check(ended["free"] > 0.8 * sum(ended.values()), "collected blocks", ended)
    first, moved = {}, 0
    for e in all_events:
        if e["event"] == "alloc" and "sample" in e:
            first[e["sample"]] = e["tid"]
        elif e["event"] == "free":
            moved += first[e["sample"]] != e["tid"]
    check(moved > 10, moved, "blocks collected in another thread")


@case
def every_word_of_two_domains():
    _, trace = recorded("domains", "20", rate="1")
    sane(trace, 1000)
    follow(events(trace))


# ---- the program is not disturbed ----

@cases(["domains 2000", "generations 10", "large 200", "effects 3000", "deep 100", "stacks 50000",
        "exceptions 500", "finalisers 500", "compactions 2000"])
def the_same(what):
    name, n = what.split()
    _, trace = recorded(name, n, rate="1e-2")
    sane(trace)
    follow(events(trace))


@cases(["1e-2", "1"])
def program_uses_memprof(rate):
    _, trace = recorded("own_memprof", "2000", rate=rate)
    note = info(trace)["note"] or ""
    check("Gc.Memprof itself" in note, note)
    live = report(trace, "--heap", "ocaml,external", "--metric", "live")
    check(live["total"]["samples"] <= 8, "OCaml blocks after the end of their recording", live)


# ---- runtimes that are refused, told by what they export (tests/programs/fake_ocaml.c) ----

@cases(["53 on", "50 never", "58 never", "59 stopped", "99 never"])
def runtimes_by_their_names(case_of):
    names, sampling = case_of.split()
    fake = folder / ("fake" + names)
    done = run(["cc", "-g", "-O2", "-rdynamic", "-DNAMES=" + names, "-o", fake,
                os.path.join(SOURCE, "tests", "programs", "fake_ocaml.c")])
    same(done.code, 0, "cc: %r" % done)
    trace = folder / ("fake%s.mayfly" % names)
    done = record([fake], trace)
    same((done.code, done.out), (0, b"sampling: %s\n" % sampling.encode()), "%r" % done)
    facts = info(trace)
    same(facts["ocaml_rate"], 1e-5 if sampling == "on" else None, "rate")
    says = {"53": "", "50": "5.0, 5.1 or 5.2", "58": "5.3 and later", "59": "not known",
            "99": "OxCaml"}[names]
    check(says in (facts["note"] or ""), facts["note"])


# ---- bytes ----

@case
def large_blocks_count_once():
    n = 300
    _, trace = recorded("large", str(n), options=("-i", "16K"))
    expected = n * 10001 * WORD
    found = rows(trace, "--metric", "allocated", "--all", "--frames=all")
    holds(found["Ocaml5.make_large"]["self"], expected, "large blocks")
    check("caml_shared_try_alloc" not in found, "malloc's blocks around them are there, too")
    malloc = rows(trace, "--heap", "malloc", "--metric", "allocated", "--all",
                  "--frames=all")
    around = malloc["caml_shared_try_alloc"]["self"]["bytes"]["estimate"]
    check(expected <= around <= 1.02 * expected, "malloc's blocks", around, expected)
    twice = report(trace, "--heap", "all", "--metric", "allocated")["total"]["bytes"]["estimate"]
    once = report(trace, "--metric", "allocated")["total"]["bytes"]["estimate"]
    check(twice - once > 0.8 * expected, once, twice)


@case
def no_bias():
    """The runtime's seeds are the same in each run, the allocations are not: the errors of many
    runs, in units of what the number of samples lets expect, have the mean 0."""
    errors = []
    for i in range(12):
        command, rate = [program(), "known", str(2000 + 137 * i)], 1e-3 * (1 + i % 3)
        words, trace = float(run(command).out), folder / "known.mayfly"
        same(record(command, trace, "--force", "--ocaml=%g" % rate).code, 0, "exit status")
        found = report(trace, "--heap", "ocaml", "--metric", "allocated", "--focus", "cells$")
        estimate = found["total"]["bytes"]["estimate"] / WORD
        errors.append((estimate - words) / math.sqrt(words * (1 - rate) / rate))
    mean = sum(errors) / len(errors)
    check(abs(mean) < 4 / math.sqrt(len(errors)), "mean", mean, "of", errors)
    check(max(map(abs, errors)) < 5, errors)


# ---- stacks ----

def c_stacks(trace, function):
    found = report(trace, "--heap", "malloc", "--by", "stack", "--metric", "allocated",
                   "--frames=all", "--all")["rows"]
    stacks = [[place["function"] for place in row["stack"]] for row in found]
    return [s for s in stacks if function in s]


def whole(stack):
    return stack[-1] in ("_start", "clone3", "__clone3", "clone") or "main" in stack


@case
def c_stacks_through_effects():
    _, trace = recorded("effects", "3000", options=("-i", "16K"))
    stacks = c_stacks(trace, "take")
    check(stacks, "no stack of take")
    inside = [s for s in stacks if "Ocaml5.in_fiber" in s]
    outside = [s for s in stacks if "Ocaml5.in_fiber" not in s]
    check(inside and outside, "below the fiber and below its handler", stacks)
    for s in stacks:
        check(s[0] == "take" and s[1] == "stub_take", s)
        check("Ocaml5.effects" in s and whole(s), s)


@cases(["10", "300"])
def deep_c_stacks_through_ocaml(depth):
    _, trace = recorded("deep", depth, options=("-i", "16K"))
    stacks = c_stacks(trace, "take")
    check(stacks, "no stack of take")
    for s in stacks:
        same(s.count("stub_call"), int(depth), "calls of OCaml by C")
        same(s.count("Ocaml5.down"), int(depth) + 1, "calls of C by OCaml")
        check(whole(s), s)


@case
def stacks_grow():
    """The runtime enlarges a stack from a function that has no frame yet."""
    _, trace = recorded("stacks", "100000", options=("-i", "16K"))
    stacks = c_stacks(trace, "caml_try_realloc_stack")
    check(stacks, "no stack was enlarged")
    for s in stacks:
        at = s.index("caml_try_realloc_stack")
        same(s[at + 1], "caml_call_realloc_stack", "by")
        check(whole(s), s[:5], "...", s[-15:])
    check(any(s.count("Ocaml5.climb") > 1000 for s in stacks), "none is deep")


main()
