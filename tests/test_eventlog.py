#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Eventlogs of OCaml's runtime through the commands: a real program's, read by babeltrace2 and by
mayfly alike, and those of a collection (in MAYFLY_DATA, or in shared/data beside the sources)."""
import collections
import glob
import gzip
import json
import os
import re
import shutil
import struct

from harness import (SOURCE, Folder, Skip, case, check, environment, main, mayfly, need, read, run,
                     same)
from ocaml_tools import WORK

DATA = os.environ.get("MAYFLY_DATA", os.path.join(SOURCE, "..", "shared", "data"))
PROGRAM = WORK + """let () =
  work 25;
  match Sys.argv with
  | [| _; "fork" |] ->
    (* At once they would write into each other's events: the runtime has no lock there. *)
    if Unix.fork () = 0 then work 60 else (ignore (Unix.wait ()); work 200)
  | _ -> work 150; Gc.compact ()
"""
PAYLOAD = [2, 2, 10, 9, 8]
LINE = re.compile(r"\[(\d+):(\d+):(\d+)\.(\d+)\] \(.*?\) (\w+): (.*)")

folder = Folder()
folder.__enter__()


def metadata():
    where = run(["ocamlfind", "ocamlopt", "-where"]).out.decode().strip()
    path = os.path.join(where, "eventlog_metadata")
    if not os.path.exists(path):
        raise Skip("this OCaml has no eventlog")
    return path


def real(*arguments):
    """A folder with the eventlog of a real program and its metadata."""
    need("ocamlfind", "ocamlopt")
    made = folder / ("real" + "".join(arguments))
    if os.path.exists(made):
        return made
    described = metadata()
    program = folder / "program"
    if not os.path.exists(program):
        with open(program + ".ml", "w") as source:
            source.write(PROGRAM)
        built = run(["ocamlfind", "ocamlopt", "-package", "unix", "-linkpkg", "-runtime-variant",
                     "i", program + ".ml", "-o", program])
        check(built.code == 0, built)
    os.mkdir(made)
    done = run([program, *arguments], env=environment(OCAML_EVENTLOG_ENABLED="1",
                                                      OCAML_EVENTLOG_PREFIX=made + "/caml"))
    check(done.code == 0, done)
    shutil.copy(described, made + "/metadata")
    same(len(glob.glob(made + "/caml.*.eventlog")), 1, "streams")
    return made


def stream(path):
    return [f for f in glob.glob(path + "/*") if not f.endswith("metadata")][0]


def raw_events(data):
    """(time, kind, number, value) of each event of a stream."""
    at = 8
    while at < len(data):
        time, _, kind = struct.unpack_from("<QII", data, at)
        body = data[at + 16:at + 16 + PAYLOAD[kind]]
        at += 16 + PAYLOAD[kind]
        if kind < 2:
            yield time, kind, struct.unpack("<H", body)[0], 0
        elif kind == 2:
            yield time, kind, struct.unpack("<H", body[8:])[0], struct.unpack("<Q", body[:8])[0]
        else:
            yield time, kind, body[8] if kind == 3 else 0, struct.unpack("<Q", body[:8])[0]


def read_by_babeltrace(text):
    """(time, event, name, value) as mayfly prints them; flushes without their ends."""
    events = []
    for line in text.splitlines():
        hours, minutes, seconds, ns, kind, rest = LINE.match(line).groups()
        time = ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 10 ** 9 + int(ns)
        name = re.search(r'"(.*?)"', rest)
        value = re.search(r"count = (\d+)", rest)
        if kind == "flush":
            events.append((time, "begin", "eventlog/flush", None))
        elif kind in ("entry", "exit"):
            events.append((time, "begin" if kind == "entry" else "end", name.group(1), None))
        else:
            events.append((time, "count", name.group(1), int(value.group(1))))
    return events


def read_by_mayfly(path):
    """The same; requests that were joined are as many as they were, each at the first one's time."""
    events = []
    for line in mayfly("dump", "--json", path).text.splitlines():
        e = json.loads(line)
        values = e["values"]
        same(e["category"], "ocaml", "category")
        if e["name"] == "eventlog/flush" and e["event"] == "end":
            continue
        events += [(e["time_ns"], e["event"], e["name"], values.get("value"))
                   ] * values.get("events", 1)
    return events


def same_events(got, expected, what):
    same(len(got), len(expected), "events of " + what)
    for mine, theirs in zip(got, expected):
        if mine[2].startswith("request_"):
            same(mine[1:], theirs[1:], what)
            check(0 <= theirs[0] - mine[0] < 1000000, what, mine, theirs)
        else:
            same(mine, theirs, what)


@case
def the_collection_reads_as_babeltrace_reads_it():
    texts = sorted(glob.glob(os.path.join(DATA, "eventlog-corpus", "*.babeltrace2.txt.gz")))
    if not texts:
        raise Skip("the collection of real files is not here")
    for text in texts:
        path = text[:-len(".babeltrace2.txt.gz")]
        with gzip.open(text, "rt") as lines:
            expected = read_by_babeltrace(lines.read())
        same_events(read_by_mayfly(path), expected, path)
        # Without the metadata beside it the names are those of this version.
        alone = folder / "alone"
        shutil.copy(stream(path), alone)
        same(read_by_mayfly(alone), read_by_mayfly(path), "the stream alone")


@case
def a_real_program_reads_as_babeltrace_reads_it():
    need("babeltrace2")
    path = real()
    expected = read_by_babeltrace(run(["babeltrace2", path]).out.decode())
    check(len(expected) > 1000, len(expected), "events")
    same_events(read_by_mayfly(path), expected, "the program")


@case
def folder_stream_and_trace_are_the_same():
    path = real()
    trace = folder / "named.mayfly"
    mayfly("import", "-o", trace, path)
    whole = mayfly("dump", trace).text
    check(whole.count("\n") > 100, whole[:500])
    for other in (path, path + "/", stream(path)):
        same(mayfly("dump", other).text, whole, other)
    with open(stream(path), "rb") as data:
        same(mayfly("dump", "-", stdin=data.read()).text, whole, "standard input")
    mayfly("import", path)
    same(read(path + ".mayfly"), read(trace), "the default output")
    facts = json.loads(mayfly("info", "--json", path).text)
    same(facts["converted_from"], "OCaml eventlog", "converted from")
    check("allocations" in facts["absent"], facts["absent"])
    for key in ("samples", "peak", "live_at_end", "mode", "allocated"):
        same(facts[key], None, key)
    check(facts["complete"], facts)


@case
def report_sums_every_event():
    path = real()
    counts, sums = collections.Counter(), collections.Counter()
    names = {12: "minor/promoted", 13: "request_major/alloc_shr", 10: "major/work/mark"}
    for _, kind, number, value in raw_events(read(stream(path))):
        if kind == 2 and number in names:
            counts[names[number]] += 1
            sums[names[number]] += value
        elif kind == 0:
            counts[number] += 1
        elif kind == 3:
            sums["bucket %d" % number] += value
    shown = json.loads(mayfly("report", "--events", "--json", path).text)
    counters = {c["name"]: c for c in shown["counters"]}
    for name in names.values():
        if counts[name]:
            same(counters[name]["count"], counts[name], name)
            same(counters[name]["total"], sums[name], "total of " + name)
    check(counts["request_major/alloc_shr"] > 100, counts)
    spans = {s["name"]: s["count"] for s in shown["spans"]}
    same(spans["minor/copy"], counts[27], "minor/copy")
    same(spans["major"], counts[8], "major")
    same(counters["alloc 01"]["total"], sums["bucket 1"], "alloc 01")


@case
def chrome_has_what_catapult_shows():
    path = real()
    out = folder / "real.json"
    mayfly("export", "--to", "chrome", "-o", out, path)
    with open(out) as text:
        events = [e for e in json.load(text)["traceEvents"] if e["ph"] in "BECX"]
    opened = [(float(e["ts"]), e["name"]) for e in events if e["ph"] == "B"]
    raw = list(raw_events(read(stream(path))))
    begun = [t / 1000 for t, kind, _, _ in raw if kind in (0, 4)]
    flushes = [e for e in events if e.get("name") == "eventlog/flush"]
    same(len(opened) + sum(e["ph"] == "X" for e in events), len(begun), "spans")
    same(len(flushes), sum(kind == 4 for _, kind, _, _ in raw), "flushes")
    check(all(abs(a[0] - b) < 0.001 for a, b in zip(opened, begun[:50])), opened[:5], begun[:5])
    promoted = [e["args"]["value"] for e in events
                if e["ph"] == "C" and e["name"] == "minor/promoted"]
    same(promoted, [value for _, kind, number, value in raw if kind == 2 and number == 12],
         "minor/promoted")


@case
def a_fork_goes_on_in_the_same_file():
    path = real("fork")
    times = [t for t, _, _, _ in raw_events(read(stream(path)))]
    check(times != sorted(times), "the program has written in order")
    got = read_by_mayfly(path)
    same(len(got), len(times), "events")
    same([e[0] for e in got], sorted(e[0] for e in got), "order")
    facts = json.loads(mayfly("info", "--json", path).text)
    same(sorted(t["name"] for t in facts["thread_list"]), ["", "process 2"], "threads")
    spans = json.loads(mayfly("report", "--spans", "--json", path).text)
    same(spans["unmatched_ends"], 0, "ends without a begin")
    out = folder / "fork.json"
    mayfly("export", "--to", "chrome", "-o", out, path)
    with open(out) as text:
        names = {e["name"] for e in json.load(text)["traceEvents"] if e["ph"] == "C"}
    same(len([n for n in names if n.startswith("minor/promoted, ")]), 2, "a counter of each process")


@case
def questions_about_blocks_are_refused():
    path = real()
    for arguments in (["report", "--metric", "live"], ["report", "--by", "function"],
                      ["report", "--churn"], ["leaks"], ["plan"], ["dump", "--like-memtrace"], ["diff", path], ["check", "--max-peak", "1M"],
                      ["export", "--to", "pprof", "-o", folder / "no"],
                      ["export", "--to", "memtrace", "-o", folder / "no"]):
        said = mayfly(*arguments, path, code=2 if arguments[0] == "check" else 1, lines=1)
        check("does not have" in said.message or "no blocks" in said.message
              or "no allocations" in said.message, said.message)
        check(not os.path.exists(folder / "no"), "a file was left behind")
    said = mayfly("merge", "-o", folder / "no", path, path, code=1, lines=1)
    check("named twice" in said.message, said.message)
    said = mayfly("merge", "-o", folder / "no", path, real("fork"))
    both = json.loads(mayfly("info", "--json", folder / "no").text)["track_events"]
    same(both, sum(json.loads(mayfly("info", "--json", p).text)["track_events"] for p in (path, real("fork"))),
         "events of a merge")
    check("Process" not in mayfly("info", folder / "no").text, "a process of two")
    mayfly("record", "-o", folder / "blocks", "--", "true")
    said = mayfly("merge", "-o", folder / "both", path, folder / "blocks", code=1, lines=1)
    check("holds events alone" in said.message, said.message)
    check("parent" not in mayfly("info", path).text, "a parent that is not known")


@case
def every_export_of_events():
    path = real()
    for name in ("ctf", "perfetto", "sqlite", "chrome"):
        out = folder / ("out." + name)
        mayfly("export", "--to", name, "-o", out, path)
        check(os.path.exists(out), name)


def inside_an_event(data, share):
    """A place behind that share of the file, 11 bytes into an event."""
    at = 8
    while at < len(data) * share:
        at += 16 + PAYLOAD[struct.unpack_from("<I", data, at + 12)[0]]
    return at + 11


@case
def damaged_and_cut_off():
    data = read(stream(real()))
    for share in (0.2, 0.7):
        path = folder / "cut"
        with open(path, "wb") as out:
            out.write(data[:inside_an_event(data, share)])
        said = mayfly("info", "--json", path, lines=1)
        check("cut off" in said.message, said.message)
        check(not json.loads(said.text)["complete"], "complete")
        check(json.loads(said.text)["track_events"] > 0, said.text)
    with open(folder / "newer", "wb") as out:
        out.write(data[:4] + b"\x02\0" + data[6:])
    said = mayfly("info", folder / "newer", code=1, lines=1)
    check("version" in said.message, said.message)


@case
def folders_that_are_no_eventlog():
    empty, two = folder / "empty", folder / "two"
    os.mkdir(empty)
    said = mayfly("info", empty, code=1, lines=1)
    check("is a folder" in said.message, said.message)
    os.mkdir(two)
    for name in ("a", "b", "metadata"):
        shutil.copy(stream(real()), os.path.join(two, name))
    said = mayfly("info", two, code=1, lines=1)
    check("2 files" in said.message, said.message)
    mayfly("info", two + "/a")
    os.mkfifo(os.path.join(empty, "pipe"))
    mayfly("info", empty, code=1, lines=1)


main()
