#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Events of OCaml 5's runtime: made files through the commands, and a real program, which reads its
own events with OCaml's library Runtime_events and prints what there is."""
import collections
import json
import os
import shutil
import struct

import profiles
from harness import (MAYFLY, SOURCE, Folder, Skip, case, cases, check, environment, main, mayfly, need,
                     run, same)
from profiles import runtime_event, runtime_events

folder = Folder()
folder.__enter__()


def write(name, data):
    path = folder / name
    with open(path, "wb") as f:
        f.write(data)
    return path


def dump(path):
    """(time, domain, event, category, name, values) of each event."""
    return [(e["time_ns"], e["tid"], e["event"], e["category"], e["name"], e["values"])
            for e in map(json.loads, mayfly("dump", "--json", path).text.splitlines())
            if "category" in e]


# ---- files ----

@case
def each_kind_of_event():
    path = write("small.events", profiles.small_runtime_events())
    expected = [
        (0, 0, "instant", "ocaml", "ring_start", {}),
        (50, 1, "instant", "ocaml", "domain_spawn", {}),
        (100, 0, "begin", "ocaml", "minor", {}),
        (150, 0, "begin", "ocaml", "minor/local_roots", {}),
        (200, 0, "count", "ocaml", "minor/promoted", {"value": 800}),
        (250, 0, "end", "ocaml", "minor/local_roots", {}),
        (300, 0, "end", "ocaml", "minor", {}),
        (350, 1, "begin", "ocaml", "major", {}),
        (400, 0, "begin", None, "step", {}),
        (450, 1, "end", "ocaml", "major", {}),
        (500, 0, "count", None, "items", {"value": 7}),
        (600, 0, "end", None, "step", {}),
        (650, 0, "instant", None, "done", {}),
        (700, 0, "instant", None, "custom", {}),
        (800, 1, "instant", "ocaml", "domain_terminate", {}),
    ]
    same(dump(path), expected, "events")
    facts = json.loads(mayfly("info", "--json", path).text)
    same(facts["converted_from"], "OCaml runtime events", "converted from")
    same(facts["pid"], 4711, "pid")
    check(facts["complete"] and "allocations" in facts["absent"], facts)
    text = mayfly("report", path).text
    check("Pauses" in text and "domain_spawn" in text and "items" in text, text)
    table = text.split("Pauses for OCaml's collector, by thread\n")[1].split("\n\n")[0]
    same([line.split() for line in table.splitlines()],
         ["minor TOTAL MAX major TOTAL MAX THREAD".split(), "1 200 ns 200 ns 0 0 ns 0 ns domain 0 (0)".split(),
          "0 0 ns 0 ns 1 100 ns 100 ns domain 1 (1)".split()], "pauses by thread")
    found = json.loads(mayfly("report", "--events", "--json", path).text)["pauses_by_thread"]
    same([(row["thread"], [(p["name"], p["count"], p["total_ns"], p["max_ns"]) for p in row["pauses"]])
          for row in found], [("domain 0", [("minor", 1, 200, 200), ("major", 0, 0, 0)]),
                              ("domain 1", [("minor", 0, 0, 0), ("major", 1, 100, 100)])], "as JSON")
    some = json.loads(mayfly("report", "--events", "--json", "--thread", "domain 1", path).text)
    same([row["thread"] for row in some["pauses_by_thread"]], ["domain 1"], "of a thread")
    trace = folder / "small.mayfly"
    mayfly("import", "-o", trace, path)
    same(dump(trace), expected, "of the trace")
    same(mayfly("dump", "-", stdin=profiles.small_runtime_events()).text, mayfly("dump", trace).text,
         "standard input")
    check("domain 1" in mayfly("export", "--to", "chrome", "-o", "-", path).text, "names of domains")


@case
def overwritten_events_are_counted():
    # A ring of 64 words keeps 31 events of 2 words at most.
    events = [runtime_event(2 + i % 2, 11, 1000 + i) for i in range(101)]
    path = write("old.events", runtime_events([events]))
    got = dump_with_line(path)
    same([e[2] for e in got], ["begin", "end"] * 15 + ["begin"], "the end without a begin is left out")
    same(got[-1][0], 30, "the last one's time, from the first that is there")


def dump_with_line(path):
    result = mayfly("dump", "--json", path, lines=1)
    check("overwritten" in result.message, result.message)
    return [(e["time_ns"], e["tid"], e["event"])
            for e in map(json.loads, result.text.splitlines())]


@case
def rings_wrap():
    """Events do not continue at a ring's start: a filler stands at its end."""
    events = [runtime_event(4, 4, 1000 + i, i) for i in range(18)]
    for before in range(64):
        path = write("wrap.events", runtime_events([events], before=before))
        text = mayfly("dump", "--json", path, lines=1 if before else 0).text
        same([json.loads(line)["values"]["value"] for line in text.splitlines()], list(range(18)),
             before)


@case
def unknown_versions_and_damage():
    data = profiles.small_runtime_events()
    path = write("new.events", struct.pack("<Q", 2) + data[8:])
    result = mayfly("report", path, code=1, lines=1)
    check("OCaml runtime events" in result.message and "unsupported version" in result.message,
          result.message)
    whole = len(dump(write("whole.events", data)))
    # Numbers of later versions.
    path = write("later.events", runtime_events([[runtime_event(2, 99, 5), runtime_event(3, 99, 7)]]))
    same([e[4] for e in dump(path)], ["phase 99"] * 2, "names")
    # An event that is longer than what is left of the ring, or of no length.
    for header in (1023 << 54 | 2 << 49, 2 << 49):
        at = 64 + 3 * 80 + 8 * 3
        path = write("damaged.events", data[:at] + struct.pack("<Q", header) + data[at + 8:])
        result = mayfly("dump", "--json", path, lines=1)
        check("makes no sense" in result.message, result.message)
        same(len(result.text.splitlines()), whole - 10, "events before the damage")
    # Cut off anywhere.
    for size in range(64, len(data), 97):
        got = run([MAYFLY, "info", write("cut.events", data[:size])])
        check(got.code in (0, 1) and got.err.count(b"\n") <= 1, size, got)


# ---- recordings ----

COUNTED = {"minor": "begin minor", "major/slice": "begin major_slice",
           "minor/local_roots": "begin minor_local_roots",
           "explicit/gc_full_major": "begin explicit_gc_full_major",
           "domain_spawn": "life domain_spawn", "domain_terminate": "life domain_terminate",
           "work.phase": "begin work.phase", "work.items": "count work.items"}


def program(*options):
    need("ocamlfind", "ocamlopt")
    version = run(["ocamlfind", "ocamlopt", "-version"]).out.decode().strip()
    if tuple(int(n) for n in version.split("+")[0].split("~")[0].split(".")[:2]) < (5, 3):
        raise Skip("this OCaml is " + version + ", runtime events are those of 5.3")
    path = folder / ("instrumented" if options else "program")
    if not os.path.exists(path):
        shutil.copy(os.path.join(SOURCE, "tests", "programs", "ocaml_ring.ml"), path + ".ml")
        built = run(["ocamlfind", "ocamlopt", *options, "-package", "unix,runtime_events", "-linkpkg",
                     path + ".ml", "-o", path])
        check(built.code == 0, built)
    return path


def record(what, *options, code=0, **variables):
    """Records in a folder of its own, of which only the traces may be left. Returns the trace and the
    program's output."""
    path = program()
    where = folder / ("run." + what + "".join(options).replace("=", ""))
    shutil.rmtree(where, ignore_errors=True)
    os.mkdir(where)
    trace = os.path.join(where, "t.mayfly")
    done = run([MAYFLY, "record", *options, "-o", trace, "--", path, what],
               env=environment(**variables), cwd=where)
    same(done.code, code, done)
    check(not [f for f in os.listdir(where) if not f.endswith(".mayfly")], os.listdir(where))
    return trace, done.out.decode()


def ocaml_events(trace):
    return [e for e in dump(trace) if (e[3] == "ocaml" and e[4] != "domain") or str(e[4]).startswith("work.")]


@case
def events_are_those_that_the_program_reads():
    """Not with -x: reporting every block, the runtime writes so many events that the program's reader loses some."""
    trace, out = record("count")
    oracle = {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in out.splitlines()}
    same(oracle["lost"], 0, "lost by the program")
    events = ocaml_events(trace)
    end = [e[0] for e in events if e[4] == "work.done"]
    same(len(end), 1, "work.done")
    counts = collections.Counter(e[4] for e in events if e[0] <= end[0] and e[2] != "end")
    same({name: counts[name] for name in COUNTED},
         {name: oracle[theirs] for name, theirs in COUNTED.items()}, "counts")
    same(counts["work.phase"], 80, "phases")
    same(len({e[1] for e in events}), 3, "domains")
    check("domain 2" in mayfly("export", "--to", "chrome", "-o", "-", trace).text, "names")
    shown = mayfly("report", "--events", trace).text
    check("Pauses" in shown and "events_lost" not in shown, shown)
    table = shown.split("Pauses for OCaml's collector, by thread\n")[1].split("\n\n")[0]
    same(sorted(line.split("  ")[-1] for line in table.splitlines()[1:]),
         ["domain 0", "domain 1", "domain 2"], "domains with pauses")
    # Within the program's run, and after its start.
    facts = json.loads(mayfly("info", "--json", trace).text)
    check(0 < events[0][0] <= events[-1][0] <= facts["duration_ns"], events[0], events[-1], facts)


@case
def more_events_than_a_ring_holds():
    trace, _ = record("many")
    events = ocaml_events(trace)
    lost = sum(e[5]["words"] for e in events if e[4] == "events_lost")
    items = sum(e[4] == "work.items" for e in events)
    # 7 words for each time round.
    check(items == 40000 or (lost and 3 * (40000 - items) <= lost), items, lost)


@case
def variables_stay_out_of_sight():
    _, out = record("variables")
    same(out, "0\n", "variables")
    _, out = record("variables", OCAMLRUNPARAM="e=12,d=4")
    same(out, "OCAMLRUNPARAM=e=12,d=4\n0\n", "variables")


@case
def a_killed_program():
    trace, _ = record("killed", code=137)
    same(sum(e[4] == "work.items" for e in ocaml_events(trace)), 20, "items")


@cases(["off", "asked for"])
def not_recorded(how):
    theirs = folder / "theirs"
    os.makedirs(theirs, exist_ok=True)
    if how == "off":
        trace, _ = record("work", "--runtime-events=off")
    else:
        trace, _ = record("work", OCAML_RUNTIME_EVENTS_START="1", OCAML_RUNTIME_EVENTS_DIR=theirs,
                          OCAML_RUNTIME_EVENTS_PRESERVE="1")
        same(len(os.listdir(theirs)), 1, "the user's file")
    check("work.items" not in mayfly("dump", trace).text, "recorded")


@case
def forked_children():
    trace, _ = record("fork")
    same(sum(e[4] == "work.items" for e in ocaml_events(trace)), 10, "items of the parent")
    trace, _ = record("fork", "--follow")
    same(sum(e[4] == "work.items" for e in ocaml_events(trace)), 10, "items of the parent")
    others = [f for f in os.listdir(os.path.dirname(trace)) if f != "t.mayfly"]
    same(len(others), 1, "the child's trace")
    child = os.path.join(os.path.dirname(trace), others[0])
    same(sum(e[4] == "work.items" for e in ocaml_events(child)), 7, "items of the child")


@cases(["e=4", "e=8", "e=9"])
def small_rings(parameters):
    """An event that does not fit twice into a ring of fewer words than 512 can hang the runtime."""
    where = folder / "small-rings"
    os.makedirs(where, exist_ok=True)
    for path, what in ((program("-runtime-variant", "i"), "work"), (program(), "long")):
        done = run([MAYFLY, "record", "-o", os.path.join(where, "t.mayfly"), "--", path, what],
                   env=environment(OCAMLRUNPARAM=parameters))
        same(done.code, 0, done)
        same(b"hang with rings of fewer than 512 words" in done.err, parameters != "e=9", done.err)
        check(all(name.endswith(".mayfly") for name in os.listdir(where)), os.listdir(where))


@cases(["dropped", "rooted"])
def children_that_cannot_make_their_file(how):
    """The runtime would end a forked child that has another user or root by then."""
    if os.geteuid():
        raise Skip("only root can give up rights")
    for follow in [], ["--follow"]:
        where = folder / (how + "".join(follow))
        os.makedirs(where, mode=0o700, exist_ok=True)
        done = run([MAYFLY, "record", *follow, "-o", os.path.join(where, "t.mayfly"), "--", program(), how])
        same((done.code, done.out), (0, b"ended 0\n"), done)
        same([f for f in os.listdir(where) if not f.endswith(".mayfly")], [])


@case
def without_room():
    """On a small disk the program runs as ever, and a line says what is missing."""
    need("mount")
    path = program()
    small = folder / "small"
    os.makedirs(small, exist_ok=True)
    if os.geteuid() or run(["mount", "-t", "tmpfs", "-o", "size=20m", "none", small]).code:
        raise Skip("cannot mount a small file system")
    try:
        done = run([MAYFLY, "record", "-o", small + "/t.mayfly", "--", path, "work"])
        same(done.code, 0, done)
        check(b"events of OCaml's runtime are not recorded" in done.err, done)
        same(os.listdir(small), ["t.mayfly"], "files")
    finally:
        run(["umount", small])


if __name__ == "__main__":
    main()
