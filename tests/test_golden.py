#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Stored traces and spools of every version of the formats (tests/golden, made by
tests/make_golden): mayfly says of each what it has always said, and a second reader, written from
doc/FORMAT.md alone, agrees with the library on every trace."""
import difflib
import json
import lzma
import os
import re
import struct

import second_reader
from second_reader import text
from harness import Folder, MAYFLY, SOURCE, Skip, case, cases, check, main, program, read, run, same

HERE = os.path.join(SOURCE, "tests")
FILES = os.path.join(HERE, "golden")
COMMANDS = (["info", "--json"], ["dump"], ["report", "--json"])
RANDOM_TRACES = 12
CUTS = 20
NO_STACK = {("[no stack]", "", 0, 0, 0, "", False)}
# What `mayfly info --json` works out from events; the rest is in the file.
WORKED_OUT = {"absent", "allocated", "converted_from", "damaged", "label_keys", "live_at_end", "peak",
              "peak_time_ns", "stacks", "temporary"}


def stored(*endings):
    return sorted(name for name in os.listdir(FILES)
                  if name.endswith(endings or (".mayfly", ".spool.xz")))


def expected_path(name):
    return os.path.join(FILES, name.replace(".xz", "") + ".txt.xz")


def told(name):
    """All that mayfly says of a stored file."""
    said = ""
    with Folder() as here:
        plain = name.replace(".xz", "")
        data = read(os.path.join(FILES, name))
        with open(here / plain, "wb") as file:
            file.write(lzma.decompress(data) if name.endswith(".xz") else data)
        for command in COMMANDS:
            done = run([MAYFLY, *command, plain], cwd=here.path)
            said += "== mayfly %s: exit status %d\n%s%s" % (
                " ".join(command), done.code, done.out.decode("utf-8", "backslashreplace"),
                done.err.decode())
    return said


def compare_texts(got, expected, what):
    if got == expected:
        return
    difference = list(difflib.unified_diff(expected.splitlines(), got.splitlines(), "stored", "now",
                                           lineterm="", n=1))
    check(False, "%s: %d lines of difference, the first of them:\n%s" % (
        what, len(difference), "\n".join(difference[:40])))


@case
def every_version_is_there():
    names = {name.split(".")[0] for name in stored()}
    for prefix in ("v1-", "v2-first-", "v2-last-", ""):
        for name in ("sampled", "exact", "killed", "killed-exact"):
            check(prefix + name in names, "no", prefix + name)
    same(sorted(name for name in os.listdir(FILES) if name.endswith(".txt.xz")),
         sorted(os.path.basename(expected_path(name)) for name in stored()), "expectations")


@cases(stored())
def said_as_ever(name):
    expected = lzma.decompress(read(expected_path(name))).decode()
    compare_texts(told(name), expected, name)


def readers_agree(path):
    trace = second_reader.Trace(read(path))
    done = run([MAYFLY, "dump", path])
    compare_texts("".join(line + "\n" for line in trace.lines()),
                  done.out.decode("utf-8", "surrogateescape"), path)
    facts, info = trace.facts(), json.loads(run([MAYFLY, "info", "--json", path]).out)
    for name in sorted(set(info) - WORKED_OUT - {"schema"}):
        if info[name] is not None or not info["absent"]:
            same(facts[name], info[name], "%s of %s" % (name, path))
    compare_places(trace, path)
    trace.check()
    if trace.counter_names and not trace.lost("cntr"):  # --rss may have lost what it is about
        compare_counters(trace, path)
    if trace.fragments:
        compare_fragments(trace, path)
    if trace.mappings:
        compare_mappings(trace, path)
    if trace.picture:
        compare_picture(trace, path)


def compare_places(trace, path):
    """What is on stacks, with files and lines, which dump does not show."""
    heaps = [] if trace.info["snapshot_ns"] else ["--heap", "all"]
    rows = json.loads(run([MAYFLY, "report", "--json", "--by", "stack", "--metric", "allocated",
                           "--all", "--frames=all", "--top", "0", "--depth", "0", *heaps,
                           path]).out)["rows"]
    theirs = {(re.sub("[\0-\x1f\x7f\ufffd]", "?", place["function"]).replace(";", ","),
               place["file"] or "", place["line"] or 0, place["first_char"] or 0,
               place["last_char"] or 0, place["module"] or "", place["inlined"])
              for row in rows for place in row["stack"]}
    same(sorted(trace.places() ^ theirs - NO_STACK), [], "places that one reader has in " + path)


def compare_counters(trace, path):
    report = json.loads(run([MAYFLY, "report", "--rss", "--json", path]).out)
    for counter in report["counters"]:
        number = [text(name) for name, _ in trace.counter_names].index(counter["name"])
        same(counter["unit"], text(trace.counter_names[number][1]), "unit of a counter")
        same(list(zip(counter["time_ns"], counter["value"])), trace.points[number],
             "%s in %s" % (counter["name"], path))


def compare_fragments(trace, path):
    report = json.loads(run([MAYFLY, "report", "--fragmentation", "--top", "0", "--json",
                             path]).out)
    for kind, name in enumerate(("peak", "end")):
        # The end is the peak of a program that frees nothing, and is stored once.
        mine, rows = trace.fragments.get(kind) or trace.fragments[1], report[name]["rows"]
        for fact in set(report[name]) - {"rows"}:
            same(mine[fact], report[name][fact], "%s of the %s in %s" % (fact, name, path))
        for column, fact in ((1, "blocks"), (2, "bytes")):
            same(sum(row[column] for row in mine["rows"]), sum(row[fact] for row in rows),
                 "sum of %s of %s" % (fact, path))


def compare_picture(trace, path):
    """Bytes and blocks by holder, and by type, without errors: the blocks' own sizes, of exact traces."""
    picture = trace.picture
    mine = {}
    for number, holder, _, _ in picture["held"]:
        key = picture["holders"][holder - 1] if holder else None
        row = mine.setdefault(key, [0, 0])
        row[0] += 1
        row[1] += trace.allocs[number].size
    report = json.loads(run([MAYFLY, "report", "--by", "holder", "--heap", "all", "--json", "--top", "0", path]).out)
    same(report["time_ns"], picture["time_ns"], "moment of the picture in " + path)
    theirs = {None if row["holder"] is None else
              (KINDS.index(row["kind"]), row["holder"].encode(), (row["place"] or "").encode(), row["tid"] or 0,
               row["retained_bytes"], row["retained_blocks"]): row["self"] for row in report["rows"]}
    same(sorted(map(str, theirs)), sorted(map(str, mine)), "holders in " + path)
    if trace.info["mode"] == second_reader.EXACT:
        for key, row in theirs.items():
            same([row["blocks"]["estimate"], row["bytes"]["estimate"]], mine[key], "%s in %s" % (key, path))
    else:
        for key, row in theirs.items():
            same(row["samples"], mine[key][0], "%s in %s" % (key, path))


# Kinds of holders, by their numbers.
KINDS = ["lost", "lost with others", "several", "variable", "thread-local", "variables without names", "stack",
         "registers", "thread", "mapping"]

# The parts of --rss, and their kinds of mappings. What looks like an arena or a stack may be neither.
PARTS = {("heap",): (0,), ("anonymous", "arenas", "allocator", "stacks"): (1, 2, 3),
         ("static_data",): (4,), ("changed_file_pages",): (5,), ("files",): (6,), ("shared",): (7,),
         ("other",): (8,), ("mayfly",): (9,)}


def compare_mappings(trace, path):
    moments = json.loads(run([MAYFLY, "report", "--rss", "--json", path]).out)["moments"]
    for kind, told in enumerate(moments):
        mine = trace.mappings.get(kind) or trace.mappings[1 - kind]
        same((told["time_ns"], told["rss"]), (mine["time_ns"], mine["resident"]), path)
        for parts, kinds in PARTS.items():
            same(sum(told["parts"][part] for part in parts),
                 sum(row[3] for row in mine["rows"] if row[0] in kinds), "%s in %s" % (parts, path))


def is_refused(name):
    return name.startswith("v1-")


@cases([name for name in stored(".mayfly") if not is_refused(name)])
def second_reader_agrees(name):
    readers_agree(os.path.join(FILES, name))


@cases([name for name in stored(".mayfly") if is_refused(name)])
def second_reader_refuses(name):
    try:
        second_reader.Trace(read(os.path.join(FILES, name)))
    except second_reader.Refused:
        return
    check(False, "was read")


@cases(["made-groups.mayfly", "made-snapshot-events.mayfly", "exact.mayfly", "forked-exact.mayfly",
        "forked-snapshots.mayfly"])
def second_reader_agrees_when_cut(name):
    """Both give the same events of what is left of a trace, or neither does."""
    whole = read(os.path.join(FILES, name))
    with Folder() as here:
        path = here / "cut.mayfly"
        for size in range(len(whole) // CUTS, len(whole), len(whole) // CUTS):
            with open(path, "wb") as file:
                file.write(whole[:size])
            done = run([MAYFLY, "dump", path])
            try:
                trace = second_reader.Trace(whole[:size])
            except second_reader.Damaged as damage:
                check(done.code == 1 and not done.out, size, "bytes: the library reads them:",
                      damage)
                continue
            compare_texts("".join(line + "\n" for line in trace.lines()),
                          done.out.decode("utf-8", "surrogateescape"), "%d bytes" % size)


def chunks_of(data):
    """(type, offset, size of what it holds in the file) of each."""
    at = 24
    while at + 40 < len(data):
        kind, stored = struct.unpack("<4sI", data[at:at + 8])
        yield kind.decode(), at, stored
        at += 16 + stored


def told_figures(path):
    """The default report as JSON, without what a damaged chunk may cost."""
    done = run([MAYFLY, "report", "--json", path])
    check(done.code == 0, done)
    said = json.loads(done.out)
    figures = {key: said["summary"][key]["bytes"]["estimate"]
               for key in ("allocated", "peak", "live_at_end", "temporary")}
    names = [(row["function"], row["total"]["bytes"]["estimate"]) for row in said["rows"]]
    damaged = ["%s at byte %d (%s)" % (bad["chunk"], bad["offset"], bad["holds"])
               for bad in said["info"].get("damaged", [])]
    return figures, names, damaged, done.err.decode()


@cases(["exact.mayfly", "sampled.mayfly", "forked-snapshots.mayfly", "made-groups.mayfly",
        "ocaml.mayfly"])
def a_damaged_chunk_costs_itself(name):
    """In files whose checksums tell it. What is left is what the second reader finds, too; a chunk
    without which nothing is right is told in a line. tests/test_damage.c has many more."""
    whole = read(os.path.join(FILES, name))
    with Folder() as here:
        path = here / "damaged.mayfly"
        plain, plain_names, told, err = told_figures(os.path.join(FILES, name))
        same((told, err), ([], ""), "of a sound file")
        for kind, at, stored in chunks_of(whole):
            if not stored:
                continue
            data = bytearray(whole)
            data[at + 16 + stored // 2] ^= 0x41
            with open(path, "wb") as file:
                file.write(data)
            # Snapshots have nothing else; names tell which of OCaml's blocks are malloc's, too.
            needed = kind == "SUMS" and b"EVNT" not in whole or kind == "NAME" and "ocaml" in name
            if kind not in second_reader.SIDE or needed:
                done = run([MAYFLY, "report", path])
                check(done.code in (0, 1) and done.err.count(b"\n") == done.code, kind, done)
                check(done.code or b"Incomplete" in done.out, kind, done)
                continue
            figures, names, told, err = told_figures(path)
            same(figures, plain, "%s without its %s" % (name, kind))
            same(kind == "NAME" or names, kind == "NAME" or plain_names, "rows without " + kind)
            check(any(bad.startswith("%s at byte %d (" % (kind, at)) for bad in told), kind, at, told)
            same(err, "mayfly: %s: damaged: %s%s; all else is used\n" % (
                path, ", ".join(told[:4]), " and %d more" % (len(told) - 4) if told[4:] else ""), "the line about " + kind)
            readers_agree(path)


@case
def recorded_with_mappings_out_of_order():
    """A file of an earlier version, which was refused."""
    path = os.path.join(SOURCE, "..", "shared", "cases", "damaged.mayfly")
    if not os.path.exists(path):
        raise Skip("the file is not here")
    for command in ("info", "report", "leaks", "dump"):
        done = run([MAYFLY, command, path])
        check(done.code == 0 and done.out, command, done)
        check(b"damaged: maps at byte" in done.err and done.err.count(b"\n") == 1, command, done)


@case
def second_reader_agrees_on_random_traces():
    make = program("make_random")
    with Folder() as here:
        for seed in range(1, RANDOM_TRACES + 1):
            path = here / ("%d.mayfly" % seed)
            done = run([make, str(seed), path])
            check(done.code == 0, done)
            readers_agree(path)


@case
def example_of_the_library():
    """examples/top_sites.c, which reads traces with <mayfly/trace.h>."""
    top_sites = program("top_sites")
    trace = os.path.join(FILES, "sampled.mayfly")
    done = run([top_sites, trace])
    check(done.code == 0 and not done.err, done)
    lines = done.out.decode().splitlines()
    rows = json.loads(run([MAYFLY, "report", "--json", "--all", "--frames=all", "--by", "line",
                           trace]).out)["rows"]
    expected = ["%d  (%d to %d)  %s %s:%d" % (
        *(row["self"]["bytes"][fact] for fact in ("estimate", "low", "high")),
        row["function"], row["file"], row["line"]) for row in rows if row["self"]["samples"]]
    same([line.strip() for line in lines[1:]], expected, "lines")
    done = run([top_sites, os.path.join(FILES, "v1-sampled.mayfly")])
    check(done.code == 1 and b"another version" in done.err, done)


if __name__ == "__main__":
    main()
