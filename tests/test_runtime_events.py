#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Events of OCaml 5's runtime: made files through the commands, and a real program, which reads its
own events with OCaml's library Runtime_events and prints what there is."""
import json
import os
import struct

import profiles
from harness import MAYFLY, Folder, case, check, main, mayfly, run, same
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
            for e in map(json.loads, mayfly("dump", "--json", path).text.splitlines())]


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


if __name__ == "__main__":
    main()
