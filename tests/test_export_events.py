#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Exports over time and of single events: chrome, perfetto, ctf, massif, sqlite. What other programs
(babeltrace2, protoc, ms_print, sqlite3) read in them is compared with report and dump, or computed
anew here from every event. Track events are compared with what make_tracks says it wrote."""
import bisect
import collections
import csv
import gzip
import json
import math
import os
import re
import signal
import sqlite3
import struct

from harness import (MAYFLY, PROGRAMS, SOURCE, Folder, case, cases, check, info, main, need, program,
                     record, report, run, same, unfolded)
from profiles import messages

FORMATS = ["chrome", "perfetto", "ctf", "massif", "sqlite"]
STORIES = ["tracks-sampled", "tracks-exact", "tracks-plain", "tracks-snapshots"]
INHERITED = ["inherited", "inherited-exact", "inherited-snapshots"]
MADE = ["sampled", "exact", "strange", "none", "deep", "lossy", "thinned", "snapshots", *INHERITED]
folder = Folder()
kept = {}


def trace(name):
    """`known` ones are of a real program with threads, the others made up."""
    if name not in kept:
        path = folder / (name + ".mayfly")
        if name.startswith("tracks-"):
            done = run([os.path.join(PROGRAMS, "make_tracks"), name[len("tracks-"):], path])
            kept["story " + name] = [json.loads(line) for line in done.out.splitlines()]
        elif name.startswith("known"):
            options = {"known-exact": ["-x"], "known-sampled": ["-i", "2K"],
                       "known-snapshots": ["-x", "--snapshots", "1ms"]}[name]
            done = record([program("known"), "7", "4", "1500"], path, *options)
        else:
            done = run([os.path.join(PROGRAMS, "make_trace"), name, path])
        check(done.code == 0, done)
        kept[name] = path
    return kept[name]


def export(to, name, *options):
    path = folder / ("%s.%s" % (name, to))
    done = run([MAYFLY, "export", "--to", to, "--force", "-o", path, *options, trace(name)])
    check(done.code == 0 and not done.out, to, name, done)
    if to == "ctf" and name == "tracks-snapshots":
        check(b"left out: blocks" in done.err and done.err.count(b"\n") == 1, done)
    else:
        check(not done.err, to, name, done)
    return path


def dump(name):
    """Every event of a block, as a dictionary."""
    key = "dump " + name
    if key not in kept:
        done = run([MAYFLY, "dump", "--json", trace(name)])
        check(done.code == 0, done)
        events = [json.loads(line) for line in done.out.splitlines()]
        kept[key] = [e for e in events if e["event"] in ("alloc", "free", "promote")]
    return kept[key]


def counted(name):
    """Those of blocks that figures are about: mappings of the program's own stand beside them."""
    return [e for e in dump(name) if e.get("heap") != "mmap"]


def story(name):
    """What make_tracks says is in the trace, in its order."""
    trace(name)
    return kept["story " + name]


class Span:
    def __init__(self, event, number, around):
        self.name, self.tid, self.values = event["name"], event["tid"], event["values"]
        self.begin, self.end, self.slice_end = event["time_ns"], None, None
        self.number, self.category = number, event["category"]
        self.parent = around[-1].number if around else None
        self.depth = len(around)


def spans_of(events):
    """All spans, and the one that each sample and each other event is in, by its place: an END is
    that of the thread's latest span of its name. slice_end: as far as formats of slices draw it."""
    spans, inside, stacks = [], {}, collections.defaultdict(list)
    for place, event in enumerate(events):
        stack = stacks[event["tid"]]
        if event["event"] == "end":
            i = len(stack) - 1
            while i >= 0 and stack[i].name != event["name"]:
                i -= 1
            if i >= 0:
                above = [s for s in stack[i + 1:] if s.slice_end is None]
                if len(above) > 64:
                    for span in above:
                        span.slice_end = event["time_ns"]
                span = stack.pop(i)
                span.end = event["time_ns"]
                span.slice_end = span.slice_end or span.end
        inside[place] = stack[-1] if stack else None
        if event["event"] == "begin":
            spans.append(Span(event, len(spans), stack))
            stack.append(spans[-1])
    return spans, inside


def plain(values, digits=None):
    """Values as a tuple that can be compared: numbers that are none are left out; digits: as few as
    a printer had."""
    return tuple((k, v if digits is None or not isinstance(v, float) else "%.*g" % (digits, v))
                 for k, v in values.items() if v is not None)


def whole_places(stack):
    """Dump has the functions that were inlined at one address in one word."""
    return [place for frame in stack for place in frame.split(";")]


def is_exact(name):
    facts = info(trace(name))
    return facts["mode"] == "exact" and not facts["thinned"]


def check_largest(name, largest, live):
    """The peak of exact traces is the largest value; in traces of samples they differ by chance, as
    the samples of the peak count at several moments."""
    peak = total(name, "peak")["bytes"]
    if is_exact(name):
        close(largest, peak["estimate"], "largest")
        return
    close(largest, max(peak["estimate"], *live.bytes), "largest")
    check(abs(max(live.bytes) - peak["estimate"]) <= 2 * peak["stderr"], max(live.bytes), peak)


def total(name, metric, *options):
    return report(trace(name), "--metric", metric, *options)["total"]


def close(got, expected, what, slack=0.6):
    check(abs(got - expected) <= slack + abs(expected) * 1e-9, what + ":", got, "instead of", expected)


class Live:
    """Live bytes and blocks after each event, and the largest within a span of time."""

    def __init__(self, name):
        self.times, self.bytes, self.blocks, self.allocated = [], [0], [0], [0]
        for event in counted(name):
            if event["event"] == "promote":
                continue
            sign = 1 if event["event"] == "alloc" else -1
            self.times.append(event["time_ns"])
            self.bytes.append(self.bytes[-1] + sign * event["weight_bytes"])
            self.blocks.append(self.blocks[-1] + sign * event["weight_blocks"])
            allocated = event["event"] == "alloc" and not event["inherited"]
            self.allocated.append(self.allocated[-1] + allocated * event["weight_bytes"])

    def at(self, values, ns):
        return values[bisect.bisect_right(self.times, ns)]

    def largest(self, from_ns, to_ns):
        """With events at from_ns and at to_ns."""
        first, last = bisect.bisect_left(self.times, from_ns), bisect.bisect_right(self.times, to_ns)
        return max(self.bytes[first:last + 1])


def ocaml():
    """A trace with blocks in OCaml's heaps, some of which were promoted."""
    if "ocaml" not in kept:
        need("ocamlopt.opt")
        source = folder / "lists.ml"
        with open(source, "w", encoding="ascii") as file:
            file.write("".join("let f%d x = List.map (fun y -> (y, %d)) x\n" % (i, i)
                               for i in range(60)))
        path = folder / "ocaml.mayfly"
        done = record(["ocamlopt.opt", "-c", source], path, "--ocaml=1e-3")
        check(done.code == 0, done)
        kept["ocaml"] = path
    check(any(e["event"] == "promote" for e in dump("ocaml")), "nothing was promoted")
    return dump("ocaml")


# ---- all formats ----

@cases(FORMATS)
def every_kind_of_trace(to):
    for name in MADE:
        if name.endswith("snapshots") and to == "ctf":
            continue
        path = export(to, name)
        check(os.path.exists(path), path)


@case
def ctf_needs_events():
    path = folder / "no.ctf"
    done = run([MAYFLY, "export", "--to", "ctf", "-o", path, trace("snapshots")])
    check(done.code == 1 and done.err.count(b"\n") == 1 and b"single blocks" in done.err, done)
    check(not os.path.exists(path), path, "is there")


@cases(FORMATS)
def a_file_that_cannot_be_written(to):
    """One line that says why; nothing is left behind."""
    with Folder() as place:
        path = os.path.join(place.path, "missing", "out")
        done = run([MAYFLY, "export", "--to", to, "-o", path, trace("exact")])
        check(done.code == 1 and done.err.count(b"\n") == 1 and b"missing" in done.err, done)
        same(place.files(), [], "files")


@cases(FORMATS)
def memory_is_bounded(to):
    """Ten times the events need hardly more memory."""
    def peak_memory(operations):
        path = folder / ("many-%d.mayfly" % operations)
        if not os.path.exists(path):
            done = record([program("known"), "7", "2", str(operations)], path, "-x")
            check(done.code == 0, done)
        out = folder / "many.out"
        script = ("import os, resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True);"
                  "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        done = run(["/usr/bin/python3", "-c", script, MAYFLY, "export", "--to", to, "--force", "-o",
                    out, path])
        check(done.code == 0, done)
        run(["rm", "-rf", out])
        return int(done.out)
    few, many = peak_memory(3000), peak_memory(30000)
    check(many < few + 24000, "KiB of memory:", few, "for few events,", many, "for many")


# ---- CTF ----

EVENT = re.compile(r"\[(-?\d+)\.(\d{9})\] \([^)]*\) (.*?): \{ tid = (\d+), thread = \"(.*?)\" \}"
                   r"(?:, \{ (.*) \})?$")
TABLES = ("module", "frame", "stack")
BLOCKS = ("alloc", "free", "promote")


def babeltrace(path, discarded=0):
    need("babeltrace2")
    done = run(["babeltrace2", "--clock-seconds", path])
    check(done.code == 0, done)
    if discarded:
        check(b"discarded %d events" % discarded in done.err, done.err)
    else:
        same(done.err, b"", "what babeltrace2 complains of")
    events = []
    for line in done.out.decode("utf-8", "replace").splitlines():
        match = EVENT.match(line)
        check(match, "no event:", line)
        seconds, rest, kind, tid, thread, fields = match.groups()
        events.append((int(seconds) * 10**9 + int(rest), kind, int(tid), thread, fields or ""))
    return events


def number(fields, name):
    match = re.search(r"(?:^|, )%s = ([-+.0-9a-fxe]+)" % name, fields)
    check(match, "no", name, "in", fields)
    return float(match.group(1)) if "." in match.group(1) or "e+" in match.group(1) \
        else int(match.group(1), 0)


def numbers(fields, name):
    text = re.search(r"%s = \[ ?(.*?) ?\]{1}(?:$|, [a-z])" % name, fields)
    return [int(n, 0) for n in re.findall(r"\[\d+\] = (\w+)", text.group(1))]


@cases(["known-exact", "known-sampled", "exact", "sampled", "strange"])
def ctf_has_every_event(name):
    """Times, threads, numbers and stacks are those of dump, in its order for each thread."""
    start = info(trace(name))
    events = babeltrace(export("ctf", name))
    expected, got = collections.defaultdict(list), collections.defaultdict(list)
    zero = min(e[0] for e in events if e[1] in BLOCKS) - dump(name)[0]["time_ns"]
    check(0 <= abs(zero - start_ns(start)) < 10**6, "time 0", zero, start["start_time"])
    # Two threads may have events at the same time, and babeltrace may print either first: the names of
    # a stack are looked up at the end.
    frames, stacks, weights = {}, {}, {}
    for time, kind, tid, _, fields in events:
        if kind == "frame":
            places = re.findall(r'function = "((?:[^"\\]|\\.)*)", file', fields)
            frames[number(fields, "frame")] = places
        elif kind == "stack":
            stack = number(fields, "stack")
            check(stack not in stacks, "stack", stack, "twice")
            way = numbers(fields, "frames")
            same(len(numbers(fields, "addresses")), len(way), "addresses of a stack")
            stacks[stack] = way
        elif kind in BLOCKS:
            row = [time - zero, kind, number(fields, "sample"), number(fields, "size")]
            if kind == "alloc":
                row += [number(fields, "stack")]
            weights[row[2]] = number(fields, "weight_bytes")
            got[tid].append(row)
    for row in (row for rows in got.values() for row in rows if row[1] == "alloc"):
        row[4] = [place for frame in stacks[row[4]] for place in frames[frame]][::-1] \
            if row[4] else ["[no stack]"]
    for event in dump(name):
        row = [event["time_ns"], event["event"], event["sample"], event["size"]]
        if event["event"] == "alloc":
            row += [whole_places(event["stack"]) or ["[no stack]"]]
        # babeltrace2 prints six digits.
        check(abs(weights[event["sample"]] / event["weight_bytes"] - 1) < 1e-5, event)
        expected[event["tid"]].append(row)
    same(sorted(got), sorted(expected), "threads")
    for tid in expected:
        for one_got, one_expected in zip(got[tid], expected[tid]):
            if name == "strange":  # names that text cannot show as they are; JSON's integers end
                one_got[3], one_expected[3] = min(one_got[3], 2**63 - 1), one_expected[3]
                del one_got[4:], one_expected[4:]
            same(one_got, one_expected, "event of thread %d" % tid)
        same(len(got[tid]), len(expected[tid]), "events of thread %d" % tid)


def start_ns(facts):
    done = run(["date", "-d", facts["start_time"], "+%s%N"])
    return int(done.out)


@case
def ctf_packets_follow_one_another():
    """More than a packet for each thread, and counts as the counter sink has them."""
    need("babeltrace2")
    path = export("ctf", "known-exact")
    streams = [f for f in os.listdir(path) if f.startswith("thread-")]
    check(len(streams) >= 4, streams)
    for stream in streams:
        with open(os.path.join(path, stream), "rb") as file:
            data = file.read()
        at, numbers_seen, last = 0, [], 0
        while at < len(data):
            begin, end, content, size, sequence = (int.from_bytes(data[at + k:at + k + 8], "little")
                                                   for k in (32, 40, 48, 56, 64))
            same(data[at:at + 4], b"\xc1\x1f\xfc\xc1", "magic")
            check(last <= begin <= end, "times of packets", last, begin, end)
            same(content, size, "sizes")
            numbers_seen.append(sequence)
            at, last = at + size // 8, end
        same(at, len(data), "size of " + stream)
        same(numbers_seen, list(range(len(numbers_seen))), "packets")
    done = run(["babeltrace2", "--component", "sink.utils.counter", path])
    counted = int(re.findall(r"(\d+) Event messages", done.out.decode())[-1])
    others = len([e for e in babeltrace(path) if e[1] not in BLOCKS])
    same(counted - others, len(dump("known-exact")), "events")


@case
def ctf_long_silence():
    """Events that are farther apart than the short form of times can tell (134 ms)."""
    path = folder / "silence.mayfly"
    done = record(["/bin/sh", "-c", "a=1; sleep 0.3; b=$a$a; c=$(echo $b)"], path, "-x")
    check(done.code == 0, done)
    kept["silence"] = path
    expected = [e["time_ns"] for e in dump("silence")]
    check(max(b - a for a, b in zip(expected, expected[1:])) > 1 << 28, "no long gap in", expected)
    got = [e[0] for e in babeltrace(export("ctf", "silence")) if e[1] in ("alloc", "free")]
    same([t - got[0] for t in got], [t - expected[0] for t in expected], "times")


def ctf_values(fields):
    """{name: value}, numbers as numbers."""
    values = {}
    for name_of, text, number_of in re.findall(
            r'(\w+) = (?:"((?:[^"\\]|\\.)*)"|([-+.\w]+))(?=, |$)', fields):
        if number_of == "":
            values[name_of] = re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m.group(1), m.group(1)), text)
        else:
            check(name_of != "address" or number_of.startswith("0x"), name_of, number_of)
            values[name_of] = int(number_of, 0) if re.fullmatch(r"-?\d+|0x\w+", number_of) \
                else float(number_of)
    return values


def ctf_name(event):
    """As classes are called: the category in front, a span's begin and end apart."""
    name = (event["category"] and event["category"] + ":") + event["name"].replace("\n", "?")
    return name + {"begin": "_begin", "end": "_end"}.get(event["event"], "")


@cases(STORIES + ["tracks-lossy"])
def ctf_track_events(name):
    """Each with its time, thread and values; spans with their numbers, blocks with their span and
    labels; in the order of make_tracks on each thread."""
    events, lost = story(name), 11 if name == "tracks-lossy" else 0
    spans, inside = spans_of(events)
    numbers_of = {(s.tid, s.name, s.begin): s.number + 1 for s in spans}
    ends = {(s.tid, s.name, s.end): s.number + 1 for s in spans}
    expected, got = collections.defaultdict(list), collections.defaultdict(list)
    allocs = {}
    for place, event in enumerate(events):
        if event["event"] == "alloc":
            labels = ", ".join("%s=%s" % label for label in event["labels"].items()) or "-"
            allocs[event["sample"]] = (event["tid"], event["size"], labels,
                                       inside[place].number + 1 if inside[place] else 0)
        elif event["event"] != "free":
            values = dict(event["values"])
            if event["name"].startswith("we"):
                values = dict(zip(("int", "a_b", "a_b_", "stack_"), values.values()))
            if "" in values:
                values = {"value": values[""]}
            if event["event"] in ("begin", "end"):
                key = event["tid"], event["name"], event["time_ns"]
                values["span"] = (numbers_of if event["event"] == "begin" else ends).get(key, 0)
            elif event["name"] == "tick" or event["stack"]:
                values["stack"] = event["stack"]
            expected[event["tid"]].append((event["time_ns"], ctf_name(event), plain(values, 6)))
    read = babeltrace(export("ctf", name), lost)
    zero = 1700000000123456789
    for time, kind, tid, _, fields in read:
        values = ctf_values(fields) if kind not in TABLES else None
        if kind == "alloc":
            want = allocs.pop(values["sample"])
            same((tid, values["size"], values["labels"], values["span"]), want, "block")
        elif kind not in TABLES + BLOCKS:
            values = {k: None if isinstance(v, float) and math.isnan(v) else v
                      for k, v in values.items()}
            got[tid].append((time - zero, kind, plain(values, 6)))
    same(sorted(got), sorted(expected), "threads")
    for tid, rows in expected.items():
        for one, other in zip(got[tid], rows):
            # babeltrace2 2.0.4 shows an earlier text instead of an empty one.
            empty = {k for k, v in other[2] if v == ""}
            one, other = ((*row[:2], [kv for kv in row[2] if kv[0] not in empty])
                          for row in (one, other))
            same(one, other, "event of thread %d" % tid)
        same(len(got[tid]), len(rows), "events of thread %d" % tid)
    same(len(allocs), 0 if name != "tracks-snapshots" else len(
        [e for e in events if e["event"] == "alloc"]), "blocks that are not there")


@case
def ctf_of_a_real_program():
    """What a recording has of threads and processes, too, in one folder with its blocks."""
    events = babeltrace(export("ctf", "known-exact"))
    done = run([MAYFLY, "dump", "--json", trace("known-exact")])
    expected = collections.Counter()
    for event in map(json.loads, done.out.splitlines()):
        if event["event"] not in BLOCKS:
            expected[event["name"], event["tid"], event["time_ns"]] += 1
    zero = min(e[0] for e in events if e[1] in BLOCKS) - dump("known-exact")[0]["time_ns"]
    got = collections.Counter()
    for time, kind, tid, _, _ in events:
        if kind not in TABLES + BLOCKS:
            got[re.sub("^.*:|_begin$|_end$", "", kind), tid, time - zero] += 1
    same(got, expected, "events beside blocks")
    check(expected, "there are none")


# ---- dump ----

@cases(STORIES)
def dump_has_all_values(name):
    """What is no whole number for every reader of JSON is a text."""
    done = run([MAYFLY, "dump", "--json", trace(name)])
    check(done.code == 0, done)
    got = [e for e in map(json.loads, done.out.splitlines()) if "values" in e]
    expected = [e for e in story(name) if "values" in e]
    large = lambda v: isinstance(v, int) and v >= 2 ** 63
    check(any(large(v) for e in expected for v in e["values"].values()), "no large value")
    same([(e["event"], e["time_ns"], e["tid"], e["values"]) for e in got],
         [(e["event"], e["time_ns"], e["tid"],
           {key: str(v) if large(v) else v for key, v in e["values"].items()}) for e in expected],
         "events")


# ---- chrome ----

def chrome(name, *options):
    with open(export("chrome", name, *options), encoding="utf-8") as file:
        text = file.read()
    check(text.startswith('{"'), "Perfetto would not know", text[:20])
    result = json.loads(text)
    for event in result["traceEvents"]:
        check(event["ph"] in ("M", "C", "i", "B", "E", "s", "t", "f"), event)
        check(isinstance(event["pid"], int) and event["pid"] > 0, event)
        check(event["ph"] == "E" or event["name"], event)
        check(event["ph"] == "M" or isinstance(event["ts"], (int, float)), event)
    return result["traceEvents"]


def counter(events, name):
    """[(ns, value)] of a counter with one series."""
    return [(round(e["ts"] * 1000), list(e["args"].values())[0]) for e in events
            if e["ph"] == "C" and e["name"] == name]


@cases(["known-exact", "exact", "sampled", "thinned", "inherited", "inherited-exact"])
def chrome_counters_lose_no_spike(name):
    """Each step is drawn as high as its largest value; the peak has the report's figure."""
    events = chrome(name)
    live, points = Live(name), counter(events, "live heap")
    top = total(name, "peak")
    check_largest(name, max(v for _, v in points), live)
    close(points[-1][1], total(name, "live")["bytes"]["estimate"], "end")
    peak = [e for e in events if e["ph"] == "i" and e["name"] == "peak"]
    same(len(peak), 1, "peaks")
    close(peak[0]["args"]["live bytes"], top["bytes"]["estimate"], "peak")
    close(peak[0]["args"]["standard error"], top["bytes"]["stderr"], "error of the peak")
    same(round(peak[0]["ts"] * 1000), report(trace(name))["time_ns"], "time of the peak")
    times = [t for t, _ in points]
    same(times, sorted(times), "times")
    marks = [i for i, (ns, value) in enumerate(points) if ns == round(peak[0]["ts"] * 1000)
             and abs(value - top["bytes"]["estimate"]) < 1]
    check(marks, "no point at the peak")
    steps = collections.OrderedDict()
    for i, (ns, value) in enumerate(points):
        # The peak is a point of its own: in samples, it may be below the step that it is in.
        if i != marks[0] or is_exact(name):
            steps[ns] = max(value, steps.get(ns, 0))
    bounds = list(steps)
    for begin, end in zip(bounds, bounds[1:]):
        check(steps[begin] >= live.largest(begin + 1, end - 1) - 1, "from", begin, "to", end,
              "is drawn", steps[begin], "below", live.largest(begin + 1, end - 1))
    for ns, value in counter(events, "live blocks"):
        close(value, live.at(live.blocks, ns), "live blocks at %d" % ns)
    for ns, value in counter(events, "allocated"):
        close(value, live.at(live.allocated, ns), "allocated at %d" % ns)


@cases(["known-exact", "sampled", "snapshots", *INHERITED])
def chrome_functions_add_up(name):
    events = chrome(name)
    rows = [e for e in events if e["name"] == "live heap by function"]
    check(rows and rows[0]["args"], "no functions")
    last = rows[-1]["args"]
    close(sum(last.values()), total(name, "live")["bytes"]["estimate"], "sum", len(last))
    ends = {r["function"]: r["self"]["bytes"]["estimate"]
            for r in unfolded(trace(name), "--metric", "live", "--by", "function")["rows"]}
    for function, value in last.items():
        if function != "(others)" and not function.startswith("["):
            close(value, ends.get(function, 0), function)


@case
def chrome_samples():
    events = [e for e in chrome("known-sampled", "--rows", "samples")
              if e["name"] in ("alloc", "free")]
    expected = dump("known-sampled")
    same(len(events), len(expected), "samples")
    for got, want in zip(events, expected):
        same((got["name"], round(got["ts"] * 1000), got["tid"], got["args"]["sample"],
              got["args"]["size"]), (want["event"], want["time_ns"], want["tid"], want["sample"],
                                     want["size"]), "sample")
        close(got["args"]["weight"], want["weight_bytes"], "weight")
        if want["event"] == "alloc":
            leaf = [p for p in whole_places(want["stack"]) if p in got["args"]["stack"]]
            same(got["args"]["stack"], leaf, "stack")
            check(leaf, "no function is left of", want["stack"])


class Slices:
    """What viewers draw of slices that begin and end on threads: they close the innermost one. What
    is closed and continued at the same moment is one span."""

    def __init__(self):
        self.open, self.paused = collections.defaultdict(list), []

    def begin(self, time, tid, name, values, again):
        key = tid, name, plain(values)
        if again:
            which = [i for i, (k, _, end) in enumerate(self.paused) if k == key and end == time][-1]
            time = self.paused.pop(which)[1]
        self.open[tid].append((key, time))

    def end(self, time, tid):
        check(self.open[tid], "nothing to close at", time, "on", tid)
        key, begin = self.open[tid].pop()
        check(begin <= time, key, begin, time)
        self.paused.append((key, begin, time))

    def check(self, name, also=()):
        """Against the spans of make_tracks; also: instants that are drawn as slices."""
        spans, _ = spans_of(story(name))
        key = lambda s: (s.tid, s.name, plain(s.values))
        same(sorted(self.paused), sorted([(key(s), s.begin, s.slice_end) for s in spans
                                          if s.slice_end is not None] + list(also)), "slices")
        same(sorted(row for rows in self.open.values() for row in rows),
             sorted((key(s), s.begin) for s in spans if s.slice_end is None), "open slices")


def instants_of(name):
    """Those with a flow outside of all spans are slices in Chrome's format."""
    events = story(name)
    _, inside = spans_of(events)
    rows, slices = [], []
    for place, event in enumerate(events):
        if event["event"] == "instant":
            row = (event["tid"], event["name"], plain(event["values"])), event["time_ns"]
            (rows if inside[place] or "flow" not in event["values"] else slices).append(row)
    return rows, slices


@cases(STORIES)
def chrome_track_events(name):
    slices, flows, instants, counters = Slices(), collections.defaultdict(list), [], []
    for event in chrome(name):
        time = round(event.get("ts", 0) * 1000)
        args = dict(event.get("args", {}))
        again = args.pop("continued", False)
        if isinstance(args.get("stack"), list):
            check(args.pop("stack")[0] == "main", event)
        if event["ph"] == "B":
            slices.begin(time, event["tid"], event["name"], args, again)
        elif event["ph"] == "E":
            slices.end(time, event["tid"])
        elif event["ph"] in "stf":
            check(slices.open[event["tid"]], "a flow outside of all slices", event)
            flows[int(event["id"], 16)].append((event["ph"], time))
        elif event["ph"] == "i" and event["s"] == "t":
            instants.append(((event["tid"], event["name"], plain(args)), time))
        elif event["ph"] == "C" and "cat" in event:
            counters.append((event["name"], time, list(args.items())))
    expected, drawn = instants_of(name)
    slices.check(name, [(key, time, time) for key, time in drawn])
    same(sorted(instants), sorted(expected), "instants")
    together = collections.defaultdict(list)
    for event in story(name):
        if event["event"] in ("begin", "instant") and "flow" in event["values"]:
            together[event["values"]["flow"]].append(event["time_ns"])
    same({flow: [time for _, time in steps] for flow, steps in flows.items()},
         {flow: times for flow, times in together.items() if len(times) > 1}, "flows")
    for steps in flows.values():
        same("".join(phase for phase, _ in steps), "s" + "t" * (len(steps) - 2) + "f", "steps")
    units = {"load": "%", "arena": "bytes", '"': "<&>"}
    threads = {4242: "demo 4242", 4250: "worker 4250"}
    values = []
    for event in story(name):
        if event["event"] == "count":
            value = list(event["values"].values())[0]
            shown = event["name"] + (", " + threads[event["tid"]] if event["name"] == "switches" else "")
            if value is not None:
                values.append((shown, event["time_ns"], [(units.get(event["name"], "value"), value)]))
    same(counters, values, "counters")


@case
def chrome_tracks_of_a_part():
    """Spans that begin in a window, whole; those of one thread."""
    name = "tracks-plain"
    spans, _ = spans_of(story(name))
    middle = story(name)[-1]["time_ns"] // 2
    for options, expected in ((["--to", "%dns" % middle], [s for s in spans if s.begin < middle]),
                              (["--from", "%dns" % middle], [s for s in spans if s.begin >= middle]),
                              (["--thread", "worker"], [s for s in spans if s.tid == 4250])):
        begins = [(e["tid"], e["name"], round(e["ts"] * 1000)) for e in chrome(name, *options)
                  if e["ph"] == "B" and e["name"] != "handover"]
        same(begins, [(s.tid, s.name, s.begin) for s in expected], "spans of %s" % options)
        check(begins, "none")


class Labels:
    """Live bytes of each value of a key over time, from dump and the story."""

    def __init__(self, name, key):
        self.points, sums, values = [(-1, {})], collections.Counter(), {}
        labels = {e["sample"]: e["labels"] for e in story(name) if e["event"] == "alloc"}
        for event in dump(name):
            if event["event"] == "alloc":
                values[event["sample"]] = labels[event["sample"]].get(key, "")
            sign = 1 if event["event"] == "alloc" else -1
            sums[values[event["sample"]]] += sign * event["weight_bytes"]
            self.points.append((event["time_ns"], dict(sums)))

    def at(self, ns):
        return self.points[bisect.bisect_right(self.points, ns, key=lambda p: p[0]) - 1][1]


def said_of_labels(name, key, *options):
    """What report says of each value, as exports name it."""
    rows = {}
    for metric in ("allocated", "live"):
        # What is live is asked of the window's end.
        window = options if metric == "allocated" or not options else ["--at", options[3]]
        for row in report(trace(name), "--by", "label:" + key, "--metric", metric, *window)["rows"]:
            rows.setdefault(row["label"] or "", {})[metric] = row["self"]
    result = {}
    for value, of in rows.items():
        if "allocated" in of:
            known = {"": "(none)", "(none)": '"(none)"', "(others)": '"(others)"'}
            allocated, live = of["allocated"]["bytes"], of.get("live", {}).get("bytes")
            result[known.get(value, value)] = {
                "bytes": allocated["estimate"], "low": allocated["low"], "high": allocated["high"],
                "standard error": allocated["stderr"],
                "blocks": of["allocated"]["blocks"]["estimate"], "samples": of["allocated"]["samples"],
                "live bytes": live and live["estimate"], "live low": live and live["low"],
                "live high": live and live["high"]}
    return result


def label_sums(name, *options):
    """{key: {value: figures}}, the same in both formats, at the end of what is shown."""
    events = chrome(name, *options)
    sums = {e["name"][len("allocated by "):]: e["args"] for e in events
            if e["ph"] == "i" and e["name"].startswith("allocated by ")}
    times = [(e["name"][len("allocated by "):], round(e["ts"] * 1000)) for e in events
             if e["ph"] == "i" and e["name"].startswith("allocated by ")]
    p = Perfetto(export("perfetto", name, *options))
    same([(n, t) for n, t, _ in p.sums], [("allocated by " + n, t) for n, t in times], "instants")
    same([v for _, _, v in p.sums], list(sums.values()), "sums in Perfetto's format")
    return sums, [t for _, t in times], p


@cases(["tracks-exact", "tracks-sampled"])
def labels_are_those_of_report(name):
    """What each value allocated, with its error, is what report says."""
    end = info(trace(name))["duration_ns"]
    for options in ([], ["--from", "10ms", "--to", "20ms"]):
        sums, times, _ = label_sums(name, *options)
        same(list(sums), ["tenant", "request"], "keys")
        same(times, 2 * [20 * 10**6 if options else end], "times")
        for key, values in sums.items():
            expected = said_of_labels(name, key, *options)
            same(list(values), list(expected), "values of " + key)
            check(len(values) == {"tenant": 3, "request": 6}[key], values)
            for value, figures in expected.items():
                for word, figure in figures.items():
                    if figure is not None:
                        same(values[value][word], figure, "%s %s, %s" % (key, value, word))
                    elif word == "live bytes":
                        same(values[value][word], 0, "%s %s, %s" % (key, value, word))


@cases(["tracks-exact", "tracks-sampled"])
def labels_over_time(name):
    """The live heap of each value, in both formats."""
    _, _, p = label_sums(name)
    for key in "tenant", "request":
        labels = Labels(name, key)
        points = [(round(e["ts"] * 1000), e["args"]) for e in chrome(name)
                  if e["ph"] == "C" and e["name"] == "live heap by " + key]
        same(len(points), 1000, "points")
        check(any(len(set(row.values())) > 2 for _, row in points), "nothing to see")
        for value in points[0][1]:
            track = p.counters[p.track("live heap of %s=%s" % (key, value))]
            same(len(track), len(points), "points of Perfetto's")
            for (ns, row), (time, other) in zip(points, track):
                close(row[value], labels.at(ns).get("" if value == "(none)" else value, 0),
                      "%s=%s at %d" % (key, value, ns))
                same((time, other), (ns, row[value]), "%s=%s of Perfetto's" % (key, value))


@case
def more_labels_than_are_shown():
    """Eight keys; twenty values that have the most, and the sum of the others."""
    name = "tracks-labels"
    sums, _, p = label_sums(name)
    same(list(sums), ["label function"] + ["key%d" % i for i in range(1, 8)], "keys")
    values = sums["label function"]
    rows = said_of_labels(name, "function")
    same(len(rows), 34, "values")
    same(list(values), list(rows)[:20] + ["(others)"], "values that are shown")
    for value in list(rows)[:20]:
        known = {k: v for k, v in rows[value].items() if v is not None}
        same({k: values[value][k] for k in known}, known, value)
    rest, others = list(rows.values())[20:], values["(others)"]
    for word, slack in (("bytes", 14), ("blocks", 14), ("samples", 0)):
        close(others[word], sum(row[word] for row in rest), word, slack)
    close(others["standard error"], math.hypot(*(row["standard error"] for row in rest)), "error", 14)
    for end in "low", "high":
        far = math.hypot(*(row[end] - row["bytes"] for row in rest))
        close(others[end], others["bytes"] + (far if end == "high" else -far), end, 14)
    close(others["live bytes"], sum(row["live bytes"] or 0 for row in rest), "live", 14)
    close(p.counters[p.track("live heap of function=(others)")][-1][1], others["live bytes"], "end")
    values = label_sums(name, "--from", "100ms", "--to", "104ms")[0]["label function"]
    same(list(values)[-1], "(others)", "what was live before")
    check(len(values) < 8 and values["(others)"]["bytes"] == 0 < values["(others)"]["live bytes"], values)
    check({'"(none)"', '"(others)"', "(none)", 'we"ird\nü'} <= set(rows), rows.keys())


@cases(["known-exact", "tracks-snapshots", "none"])
def nothing_of_labels(name):
    """A trace without any, and one without single blocks."""
    same(label_sums(name)[0], {}, "sums")
    same([e for e in chrome(name) if e["ph"] == "C" and e["name"].startswith("live heap by ")
          and e["name"] != "live heap by function"], [], "counters")


@cases(["-x", "-i8K"])
def a_server_in_one_trace(option):
    """examples/server under load: requests as slices, heap and RSS as counters, bytes of each kind
    of request with their errors, in both formats and in report."""
    name = "server " + option
    path = folder / (name + ".mayfly")
    done = record([program("server"), "--load", "1500"], path, option)
    check(done.code == 0, done)
    kept[name] = path
    served = {word: int(n) for word, n in (line.split() for line in done.out.decode().splitlines()[:5])}
    bytes_kept = int(done.out.decode().splitlines()[5].split()[0])
    served.pop("errors")
    sums, _, p = label_sums(name)
    events = chrome(name)
    begun = collections.Counter(e["args"]["path"] for e in events
                                if e["ph"] == "B" and e["name"] == "request")
    slices = collections.Counter(dict(key[2])["path"] for key, _, _ in p.slices.paused
                                 if key[1] == "request")
    same(begun, slices, "requests in Perfetto's format")
    same({k: begun["/" + k] for k in served}, served, "requests")
    same(sum(begun.values()), 1500, "all requests")
    check({"read", "search", "send"} <= {key[1] for key, _, _ in p.slices.paused}, "what is inside")
    for counted in ("live heap", "process.resident", "queue", "uploads"):
        points = counter(events, counted)
        same(p.counters[p.track(counted)], points, counted)
        check(points, "no points of", counted)
    same(len(counter(events, "queue")), 3000, "values of the queue, of all threads")
    same(counter(events, "uploads")[-1][1], bytes_kept, "bytes that are kept")
    done = run([MAYFLY, "report", "--events", "--json", path])
    last = {row["name"]: row["last"] for row in json.loads(done.out)["counters"]}
    same({k: last[k] for k in ("queue", "uploads")},
         {k: counter(events, k)[-1][1] for k in ("queue", "uploads")}, "last values of report")
    same(list(sums), ["request"], "keys")
    rows = said_of_labels(name, "request")
    same(list(sums["request"]), list(rows), "kinds")
    for kind, row in rows.items():
        known = {k: v for k, v in row.items() if v is not None}
        same({k: sums["request"][kind][k] for k in known}, known, kind)
    upload = sums["request"]["upload"]
    if option == "-x":
        same(set(served) - set(rows), set(), "kinds that are missing")
        check(bytes_kept < upload["live bytes"] < bytes_kept + 64 * served["upload"], upload)
        same(upload["standard error"], 0, "error")
    else:
        check(upload["low"] < upload["bytes"] < upload["high"], upload)
        check(abs(upload["live bytes"] - bytes_kept) < 6 * upload["standard error"], upload)


@case
def measured_counters():
    """Chrome, Perfetto and SQLite have what was measured of the process."""
    name = "known-exact"
    points = counter(chrome(name), "process.resident")
    p = Perfetto(export("perfetto", name))
    same(p.counters[p.track("process.resident")], points, "points")
    rows = database(name).execute("SELECT time_ns, value FROM counters"
                                  " WHERE name = 'process.resident'").fetchall()
    same([(t, int(v)) for t, v in rows], points, "rows")
    check(points and points[0][1] > 1 << 20, points)


@case
def chrome_of_a_part():
    """Filters and a window: a part of the blocks, a part of the time."""
    events = chrome("known-exact", "--min-size", "1000")
    at_end = total("known-exact", "live", "--min-size", "1000")["bytes"]["estimate"]
    close(counter(events, "live heap")[-1][1], at_end, "end")
    end = info(trace("known-exact"))["duration_ns"]
    points = counter(chrome("known-exact", "--from", "%dns" % (end // 4), "--to", "%dns" % (end // 2)),
                     "live blocks")
    check(points[0][0] > end // 4 and abs(points[-1][0] - end // 2) < 10, points[0], points[-1])
    live = Live("known-exact")
    for ns, value in points:
        close(value, live.at(live.blocks, ns), "live blocks at %d" % ns)


@case
def chrome_is_bounded():
    """However many events, some thousand points."""
    size = os.path.getsize(export("chrome", "known-exact"))
    check(size < 2 << 20, size)


# ---- Perfetto ----

def first(fields, number_of, default=None):
    return next((v for n, v in fields if n == number_of), default)


class Perfetto:
    """What an importer makes of it."""

    def __init__(self, path):
        with open(path, "rb") as file:
            packets = [messages(value) for _, value in messages(file.read())]
        self.tracks, self.counters, self.instants = {}, collections.defaultdict(list), []
        self.dumps = collections.OrderedDict()  # (time, heap) -> {stack: (allocated, freed, n, n)}
        self.slices, self.others, self.flow_ids, self.sums = Slices(), [], [], []
        self.words = {1: {}, 2: {}, 3: {}}  # interned, by field
        names, files, self.frames, self.stacks, self.mappings, ids, paths = {}, {}, {}, {}, {}, {}, {}
        self.flags, index, clocks, continued = [], 0, {}, 0
        for packet in packets:
            time = first(packet, 8)
            self.flags.append(first(packet, 13, 0))
            for field, value in packet:
                if field == 6:
                    clocks.update((first(c, 1), first(c, 2)) for c in
                                  (messages(v) for n, v in messages(value) if n == 1))
                    self.zero = clocks[4]
                elif field == 60:
                    track = messages(value)
                    self.tracks[first(track, 1)] = track
                elif field == 12:
                    check(self.flags[-1] & 2 or first(packet, 37) is None, "stale state")
                    for kind, item in messages(value):
                        item = messages(item)
                        if kind in self.words:
                            check(first(item, 1) not in self.words[kind], item)
                            self.words[kind][first(item, 1)] = first(item, 2).decode()
                            continue
                        table = {5: names, 18: files, 17: paths, 16: ids, 6: self.frames,
                                 7: self.stacks, 19: self.mappings}[kind]
                        check(first(item, 1) > 0 and first(item, 1) not in table, kind, item)
                        table[first(item, 1)] = item
                elif field == 11:
                    self.track_event(time - self.zero, messages(value), packet)
                elif field == 37:
                    profile = messages(value)
                    same(first(profile, 7), index, "number of a profile")
                    index += 1
                    for process in (messages(v) for n, v in profile if n == 5):
                        key = first(process, 9) - self.zero, first(process, 11).decode()
                        if not continued:
                            self.dumps.pop(key, None)
                        rows = self.dumps.setdefault(key, {})
                        for sample in (messages(v) for n, v in process if n == 2):
                            check(first(sample, 1) not in rows, "a stack twice", sample)
                            rows[first(sample, 1)] = [first(sample, n, 0) for n in (2, 3, 5, 6)]
                    continued = first(profile, 6, 0)
        same(set(clocks), {1, 3, 4, 6}, "clocks")
        same(self.flags[0], 1, "flags of the first packet")
        self.name = {iid: first(item, 2).decode("utf-8", "replace") for iid, item in names.items()}
        for frame in self.frames.values():
            check(first(frame, 2) in names, "no name", frame)
            check(first(frame, 5, 0) == 0 or first(frame, 5) in files, "no file", frame)
            mapping = first(frame, 3, 0)
            check(mapping == 0 or (mapping in self.mappings and first(frame, 4) is not None), frame)
        for mapping in self.mappings.values():
            check(first(mapping, 7) in paths and first(mapping, 2, 0) in list(ids) + [0], mapping)
        for stack in self.stacks.values():
            check(all(v in self.frames for n, v in stack if n == 2), "no frame", stack)

    def tid(self, uuid):
        return first(messages(first(self.tracks[uuid], 4)), 2)

    def track_event(self, time, event, packet):
        for field, data in packet:  # a packet's new words come behind its event
            if field == 12:
                for kind, item in messages(data):
                    if kind in self.words:
                        item = messages(item)
                        self.words[kind].setdefault(first(item, 1), first(item, 2).decode())
        kind, uuid = first(event, 9), first(event, 11)
        if kind == 4:
            value = first(event, 30)
            if value is None:
                value = struct.unpack("<d", struct.pack("<Q", first(event, 44)))[0]
            self.counters[uuid].append((time, value))
        elif first(event, 22) == b"heap":
            self.instants.append((time, event))
        elif first(event, 22) == b"labels":
            same((kind, first(self.tracks[uuid], 4)), (3, None), "an instant of the process")
            values = {first(note, 10).decode(): {
                first(entry, 10).decode(): first(entry, 3)
                for entry in (messages(v) for n, v in note if n == 11)}
                for note in (messages(v) for n, v in event if n == 4)}
            self.sums.append((first(event, 23).decode(), time, values))
        elif kind == 2:
            self.slices.end(time, self.tid(uuid))
        else:
            name, values = self.words[2][first(event, 10)], self.annotations(event)
            check(self.words[1][first(event, 3)], event)
            again = values.pop("continued", 0)
            flows = [(v, n) for n, v in event if n in (47, 48)]
            self.flow_ids += flows
            if kind == 1:
                self.slices.begin(time, self.tid(uuid), name, values, again)
            else:
                self.others.append(((self.tid(uuid), name, plain(values)), time))

    def annotations(self, event):
        values = {}
        for note in (messages(v) for n, v in event if n == 4):
            kind, value = [(n, v) for n, v in note if n != 1][0]
            same(kind == 7, self.words[3][first(note, 1)] == "address", "pointer")
            if kind == 4 and value >> 63:
                value -= 1 << 64
            elif kind == 5:
                value = struct.unpack("<d", struct.pack("<Q", value))[0]
            elif kind == 6:
                value = value.decode()
            values[self.words[3][first(note, 1)]] = value
        return values

    def functions(self, stack):
        """Root first."""
        return [self.name[first(self.frames[v], 2)] for n, v in self.stacks[stack] if n == 2]

    def track(self, name):
        found = [u for u, t in self.tracks.items() if first(t, 2, b"").decode() == name]
        same(len(found), 1, "tracks named " + name)
        return found[0]


@cases(["known-exact", "known-sampled", "sampled", "deep", "snapshots", "tracks-sampled"])
def perfetto_schema(name):
    """protoc reads it with the published numbers of fields, and there is no other field."""
    need("protoc")
    options = [] if name in ("deep", "snapshots") else ["--rows", "samples"]
    with open(export("perfetto", name, *options), "rb") as file:
        data = file.read()
    done = run(["protoc", "-I" + os.path.join(SOURCE, "tests"), "--decode=perfetto.protos.Trace",
                "perfetto.proto"], stdin=data)
    check(done.code == 0, done.err)
    same(done.err, b"", "what protoc complains of")
    unknown = re.findall(rb"^ *\d+[: ].*$", done.out, re.M)
    same(unknown[:5], [], "unknown fields")
    same(done.out.count(b"\npacket {") + 1, len(messages(data)), "packets")


@cases(["known-exact", "known-sampled", "sampled", "snapshots", "known-snapshots", *INHERITED])
def perfetto_dumps(name):
    """What is not freed in each dump is what is live then; sums never go down; the peak is one."""
    p = Perfetto(export("perfetto", name))
    peak = report(trace(name))
    before = {}
    # There are as many snapshots as the program took milliseconds.
    check(len(p.dumps) >= (2 if "snapshots" in name else 10 if name.startswith("known") else 4), list(p.dumps))
    for (time, heap), rows in p.dumps.items():
        same(heap, "libc.malloc", "heap")
        at = "peak" if time == peak["time_ns"] else "%dns" % time
        expected = total(name, "live", "--at", at)
        slack = len(rows) / 2 + 1
        close(sum(r[0] - r[1] for r in rows.values()), expected["bytes"]["estimate"],
              "live at " + at, slack)
        close(sum(r[2] - r[3] for r in rows.values()), expected["blocks"]["estimate"],
              "live blocks at " + at, slack)
        for stack, row in rows.items():
            check(all(new >= old for new, old in zip(row, before.get(stack, row))), "goes down", row)
        before.update(rows)
    check(peak["time_ns"] in [time for time, _ in p.dumps], "no dump at the peak")
    everything = total(name, "allocated")
    last = list(p.dumps.values())[-1]
    if name in INHERITED:  # allocated - freed must be what is live
        check(sum(r[0] for r in last.values()) >= everything["bytes"]["estimate"] - 1, "allocated")
        return
    close(sum(r[0] for r in last.values()), everything["bytes"]["estimate"], "allocated",
          len(last) + everything["bytes"]["estimate"] * 1e-3)


@case
def perfetto_stacks():
    """The functions of a dump are those of report."""
    name = "known-exact"
    p = Perfetto(export("perfetto", name))
    found = collections.Counter()
    for stack, row in p.dumps[(report(trace(name))["time_ns"], "libc.malloc")].items():
        if row[0] > row[1]:
            found[p.functions(stack)[-1]] += row[0] - row[1]
    expected = {r["function"]: r["self"]["bytes"]["estimate"]
                for r in unfolded(trace(name), "--by", "function")["rows"]
                if r["self"]["bytes"]["estimate"] and r["function"]}
    check(len(expected) > 10, expected)
    for function, value in expected.items():
        same(found[function], value, function)
    build_ids = [first(m, 2, 0) for m in p.mappings.values()]
    check(any(build_ids), "no build id")


@case
def perfetto_tracks():
    name = "known-sampled"
    p = Perfetto(export("perfetto", name, "--rows", "samples"))
    facts = info(trace(name))
    processes = [messages(first(t, 3)) for t in p.tracks.values() if first(t, 3)]
    same([first(t, 1) for t in processes], [facts["pid"]], "pids")
    tids = sorted(first(messages(first(t, 4)), 2) for t in p.tracks.values() if first(t, 4))
    same(tids, sorted({e["tid"] for e in dump(name)} | set(tids)), "threads")
    live, points = Live(name), p.counters[p.track("live heap")]
    check_largest(name, max(v for _, v in points), live)
    peak = report(trace(name))
    check(any(ns == peak["time_ns"] and abs(value - peak["total"]["bytes"]["estimate"]) < 1
              for ns, value in points), "no point at the peak")
    for ns, value in p.counters[p.track("live blocks")]:
        close(value, live.at(live.blocks, ns), "live blocks at %d" % ns)
    same(len(p.instants), len(dump(name)), "samples")
    for (time, event), want in zip(p.instants, dump(name)):
        same((time, first(event, 23).decode()), (want["time_ns"], want["event"]), "sample")
        notes = {first(a, 10).decode(): first(a, 3) for a in
                 (messages(v) for n, v in event if n == 4)}
        same((notes["sample"], notes["size"]), (want["sample"], want["size"]), "annotations")
        if want["event"] == "alloc":
            leaf = p.functions(first(event, 56))[-1]
            check(leaf in whole_places(want["stack"]), leaf, "is not in", want["stack"])


@cases(STORIES)
def perfetto_track_events(name):
    """Slices, instants and counters on tracks of their threads, beside counters and profiles of the
    heap."""
    p = Perfetto(export("perfetto", name))
    p.slices.check(name)
    rows, drawn = instants_of(name)
    same(sorted(p.others), sorted(rows + drawn), "instants")
    flows, together = collections.defaultdict(list), collections.Counter()
    for flow, field in p.flow_ids:
        flows[flow].append(field)
    for event in story(name):
        if event["event"] in ("begin", "instant") and "flow" in event["values"]:
            together[event["values"]["flow"]] += 1
    same({flow: fields for flow, fields in flows.items()},
         {flow: [47] * (n - 1) + [48] for flow, n in together.items() if n > 1}, "flows")
    expected = collections.defaultdict(list)
    for event in story(name):
        value = list(event["values"].values())[0] if event["event"] == "count" else None
        if value is not None:
            tid = event["tid"] if event["category"] == "thread" else "process"
            expected[event["name"], tid].append((event["time_ns"], value))
    own = {name_of for name_of, _ in expected}
    got = {}
    for uuid, track in p.tracks.items():
        name_of, parent = first(track, 2, b"").decode(), first(track, 5)
        if first(track, 8) is not None and name_of in own:
            got[name_of, "process" if parent == 1 else p.tid(parent)] = p.counters[uuid]
    same(got, {key: [(t, float(v) if v > 2**63 else v) for t, v in rows]
               for key, rows in expected.items()}, "counters")
    check(p.dumps and p.counters[p.track("live heap")], "no heap")


@case
def heaps_of_ocaml():
    """Promotions are events and rows; each heap is told apart; Perfetto has a profile of its own."""
    kinds = collections.Counter(e["event"] for e in ocaml())
    heaps = collections.Counter(e["heap"] for e in ocaml() if e["event"] == "alloc")
    check(len(heaps) > 2, heaps)
    events = collections.Counter(e[1] for e in babeltrace(export("ctf", "ocaml")))
    same({k: events[k] for k in kinds}, dict(kinds), "events of CTF")
    db = database("ocaml")
    same(sorted(db.execute("SELECT sample, time_ns FROM promotions")),
         sorted((e["sample"], e["time_ns"]) for e in ocaml() if e["event"] == "promote"), "promotions")
    same(dict(db.execute("SELECT heap, count(*) FROM samples GROUP BY heap")), dict(heaps), "heaps")
    dumps = Perfetto(export("perfetto", "ocaml")).dumps
    same({heap for _, heap in dumps}, {"libc.malloc", "ocaml"}, "profiles")
    for name, chosen in (("libc.malloc", "malloc"), ("ocaml", "ocaml,external")):
        rows = [r for (_, heap), r in dumps.items() if heap == name][-1]
        close(sum(r[0] - r[1] for r in rows.values()),
              total("ocaml", "live", "--heap", chosen)["bytes"]["estimate"], name, len(rows) / 2 + 1)


# ---- Massif ----

def massif(path):
    """[(ms, bytes, kind, tree)]; a tree is (bytes, text, [trees])."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    check(lines[2] == "time_unit: ms", lines[:3])
    position, snapshots = 3, []

    def tree(depth):
        nonlocal position
        match = re.match(r"^( *)n(\d+): (\d+) (.*)$", lines[position])
        check(match and len(match.group(1)) == depth, depth, lines[position])
        position += 1
        return (int(match.group(3)), match.group(4),
                [tree(depth + 1) for _ in range(int(match.group(2)))])
    while position < len(lines):
        same(lines[position + 1], "snapshot=%d" % len(snapshots), "number")
        values = dict(line.split("=") for line in lines[position + 3:position + 8])
        position += 8
        found = None if values["heap_tree"] == "empty" else tree(0)
        snapshots.append((float(values["time"]), int(values["mem_heap_B"]), values["heap_tree"], found))
    return snapshots


def check_tree(node, depth=0):
    size, text, callers = node
    check(depth <= 30, "deep", text)
    if callers:
        below = sum(c[0] for c in callers)
        check(below <= size + len(callers), "callers of", text, "have", below, "of", size)
        named = [c[0] for c in callers if " place" not in c[1]]
        same(named, sorted(named, reverse=True), "order of the callers of " + text)
    for caller in callers:
        check_tree(caller, depth + 1)


@cases(["known-exact", "known-sampled", "sampled", "snapshots", "deep", *INHERITED])
def massif_totals(name):
    """Every snapshot is what is live then, as report says; trees add up."""
    snapshots = massif(export("massif", name))
    times = [s[0] for s in snapshots]
    same(times, sorted(times), "times")
    peaks = [s for s in snapshots if s[2] == "peak"]
    same(len(peaks), 1, "peaks")
    close(peaks[0][1], total(name, "peak")["bytes"]["estimate"], "peak")
    close(snapshots[-1][1], total(name, "live")["bytes"]["estimate"], "end")
    if is_exact(name):
        check(peaks[0][1] >= max(s[1] for s in snapshots) - 1, "more than the peak")
    else:
        check_largest(name, max(peaks[0][1], *Live(name).bytes), Live(name))
    trees = [s for s in snapshots if s[3]]
    for _, size, _, tree in trees:
        close(tree[0], size, "tree", 1)
        check_tree(tree)
    if not name.endswith("snapshots"):
        live = Live(name)
        for ms, size, kind, _ in snapshots[1:]:
            if kind != "peak":
                close(size, live.at(live.bytes, round(ms * 1e6)), "at %f ms" % ms)


@case
def massif_tree_by_function():
    """The top of the tree at the peak is report --by line, where it is large enough."""
    name = "known-exact"
    peak = [s for s in massif(export("massif", name)) if s[2] == "peak"][0]
    found = collections.Counter()
    for size, text, _ in peak[3][2]:
        found[re.sub(r"^0x\w+: | \([^()]*\)$", "", text)] += size
    expected = collections.Counter()
    for row in unfolded(trace(name), "--by", "line")["rows"]:
        size = row["self"]["bytes"]["estimate"]
        if size >= peak[1] * .01:
            expected[row["function"]] += size
    for function, size in expected.items():
        check(found[function] >= size, function, found, "instead of", size)


@cases(["known-exact", "sampled", "none", "snapshots"])
def massif_ms_print(name):
    need("ms_print")
    path = export("massif", name)
    done = run(["ms_print", path])
    check(done.code == 0 and not done.err, done)
    if name == "none":
        return
    text = done.out.decode()
    peak = round(total(name, "peak")["bytes"]["estimate"])
    check("{:,}".format(peak) in text, "the peak", peak, "is not in", text[:3000])
    check("(peak)" in text, text[:3000])


# ---- SQLite ----

def database(name, *options):
    return sqlite3.connect(export("sqlite", name, *options))


def one(db, query):
    return db.execute(query).fetchone()[0]


@cases(["known-exact", "known-sampled", "exact", "sampled", "thinned", "snapshots",
        "known-snapshots", *INHERITED])
def sqlite_totals(name):
    db = database(name)
    same(one(db, "PRAGMA integrity_check"), "ok", "integrity")
    for view, metric in (("live_at_end", "live"), ("live_at_peak", "peak"),
                         ("allocated", "allocated"), ("temporary", "temporary")):
        got = db.execute("SELECT total(bytes), total(blocks), total(samples) FROM " + view).fetchone()
        want = total(name, metric)
        close(got[0], want["bytes"]["estimate"], view)
        close(got[1], want["blocks"]["estimate"], view + ", blocks")
        same(int(got[2]), want["samples"], view + ", samples")
    same(one(db, "SELECT value FROM info WHERE name = 'peak_ns'"), report(trace(name))["time_ns"],
         "time of the peak")


@case
def sqlite_of_ocaml():
    """OCaml's samples have the weight of their rate, and no byte counts twice."""
    ocaml()
    db = database("ocaml")
    for view, metric in (("live_at_end", "live"), ("live_at_peak", "peak"), ("allocated", "allocated")):
        close(one(db, "SELECT total(bytes) FROM " + view),
              total("ocaml", metric)["bytes"]["estimate"], view)
    close(one(db, "SELECT value FROM info WHERE name = 'peak_bytes'"),
          total("ocaml", "peak")["bytes"]["estimate"], "peak of info")
    for view in "by_size", "by_thread":
        close(one(db, "SELECT total(peak_bytes) FROM " + view),
              total("ocaml", "peak")["bytes"]["estimate"], view)
    for heap in "malloc", "ocaml-minor":
        close(one(db, "SELECT total(bytes) FROM samples WHERE heap = '%s'" % heap),
              total("ocaml", "allocated", "--heap", heap)["bytes"]["estimate"], heap)
    # OCaml 4 gets the chunks of its heap from malloc; OCaml 5 maps them.
    if run(["ocamlopt.opt", "-version"]).out.startswith(b"4."):
        check(one(db, "SELECT count(*) FROM samples WHERE NOT counted") > 0, "nothing is there twice")


@case
def memtrace_files():
    """What they do not say is not there, and nothing else is missing. No heap that they do not have."""
    ocaml()
    kept["memtrace"] = export("memtrace", "ocaml", "--heap", "ocaml")
    db = database("memtrace")
    same(sorted(metric for metric, in db.execute("SELECT DISTINCT metric FROM functions")), ["allocated", "live", "peak"])
    for view, metric in (("live_at_end", "live"), ("live_at_peak", "peak"), ("allocated", "allocated")):
        close(one(db, "SELECT total(bytes) FROM " + view), total("memtrace", metric)["bytes"]["estimate"], view)
    same(one(db, "SELECT count(temporary) FROM samples"), 0, "temporary blocks")
    dumps = Perfetto(export("perfetto", "memtrace")).dumps
    same({heap for _, heap in dumps}, {"ocaml"}, "profiles")


@cases(["known-exact", "known-sampled", "sampled", "snapshots", *INHERITED])
def sqlite_by_function(name):
    """The view adds samples up; the table has what report says, with errors."""
    db = database(name)
    found = {row[0]: row[1:] for row in db.execute(
        "SELECT function, allocated_bytes, peak_bytes, end_bytes FROM by_function")}
    for column, metric in enumerate(("allocated", "peak", "live")):
        own = collections.Counter()
        rows = unfolded(trace(name), "--metric", metric, "--by", "function")["rows"]
        check(len(rows) > 3, rows)
        table = {}
        for row in rows:
            own[row["function"]] += row["self"]["bytes"]["estimate"]
            table[(row["function"], row["file"], row["module"])] = [
                round(row[part][unit][which]) for part in ("self", "total")
                for unit in ("bytes", "blocks") for which in ("estimate", "stderr")]
        for function, size in own.items():
            if size and not function.startswith("["):
                close(found[function][column], size, "%s, %s" % (metric, function))
        got = {row[:3]: [round(n) for n in row[3:]] for row in db.execute(
            "SELECT function, file, module, bytes, bytes_error, blocks, blocks_error, total_bytes,"
            " total_bytes_error, total_blocks, total_blocks_error FROM functions"
            " WHERE metric = ?", (metric,))}
        for key, numbers_of in table.items():
            if not key[0].startswith("["):
                same(got[key], numbers_of, "%s, %s" % (metric, key[0]))


@case
def sqlite_every_sample():
    name = "known-sampled"
    db = database(name)
    got = {}
    query = """SELECT sample, samples.time_ns, t.tid, size, bytes, blocks, realloc, free_ns, u.tid,
               temporary, s.stack FROM samples JOIN threads AS t USING(thread)
               LEFT JOIN threads AS u ON u.thread = free_thread JOIN stacks AS s USING(stack)"""
    for row in db.execute(query):
        got[row[0]] = row[1:]
    expected = {}
    for e in dump(name):
        if e["event"] == "alloc":
            expected[e["sample"]] = [e["time_ns"], e["tid"], e["size"], e["weight_bytes"],
                                     e["weight_blocks"], e["realloc"], None, None, 0]
        else:
            expected[e["sample"]][6:] = [e["time_ns"], e["tid"], e["temporary"]]
    same(sorted(got), sorted(expected), "samples")
    for sample, row in expected.items():
        same(list(got[sample][:9]), row, "sample %d" % sample)
    places = collections.defaultdict(list)
    for stack, function in db.execute("SELECT stack, function FROM stack_functions"
                                      " ORDER BY stack, depth DESC, inline_depth DESC"):
        places[stack].append(function)
    for e in dump(name):
        if e["event"] == "alloc":
            shown = places[got[e["sample"]][9]]
            whole = whole_places(e["stack"])
            check(shown, "nothing is left of", whole)
            same([f for f in whole if f in shown], shown, "functions")


@case
def sqlite_standard_error():
    """The root of the sum of variances is the report's, or more where samples are so dense that
    those of one stratum exclude each other; the table of functions is the report's (see above)."""
    for name in ("sampled", "thinned", "inherited", "known-sampled"):
        db = database(name)
        for view, metric in (("NOT inherited", "allocated"), ("at_peak", "peak"),
                             ("free_ns IS NULL", "live"), ("temporary", "temporary")):
            want = total(name, metric)
            for unit in "bytes", "blocks":
                got = one(db, "SELECT sum(%s_variance) FROM samples WHERE counted AND %s"
                          % (unit, view)) ** .5
                if name == "known-sampled":
                    check(got >= want[unit]["stderr"] - 1, name, metric, unit, got, want)
                else:
                    close(got, want[unit]["stderr"], "%s, %s, %s" % (name, metric, unit))
    got = one(db, "SELECT sum(bytes_variance) FROM samples") ** .5
    want = total(name, "allocated")["bytes"]["stderr"]
    check(want < .8 * got, "nothing is shared", got, want)


@cases(["known-exact", "known-sampled", "inherited", "inherited-exact"])
def sqlite_sizes_and_threads(name):
    db = database(name)
    sizes = collections.Counter()
    threads = collections.Counter()
    for e in counted(name):
        if e["event"] == "alloc" and not e["inherited"]:
            high = 1
            while high < e["size"]:
                high *= 2
            sizes[high if e["size"] else 0] += e["weight_bytes"]
            threads[e["tid"]] += e["weight_bytes"]
    for high, size in db.execute("SELECT high, allocated_bytes FROM by_size").fetchall():
        close(size, sizes.pop(high, 0), "size %d" % high)
    same(+sizes, collections.Counter(), "other sizes")
    for tid, size in db.execute("SELECT tid, allocated_bytes FROM by_thread").fetchall():
        close(size, threads.pop(tid, 0), "thread %d" % tid)
    same(+threads, collections.Counter(), "other threads")


@case
def sqlite_counters():
    name = "known-exact"
    db, live = database(name), Live(name)
    rows = db.execute("SELECT time_ns, value FROM counters WHERE name = 'live_bytes'").fetchall()
    check(len(rows) == 1000, len(rows))
    for ns, value in rows:
        close(value, live.at(live.bytes, ns), "at %d" % ns)
    close(one(db, "SELECT max(value) FROM counters WHERE name = 'largest_live_bytes'"),
          total(name, "peak")["bytes"]["estimate"], "largest")


@cases(STORIES)
def sqlite_track_events(name):
    db, events = database(name), story(name)
    spans, inside = spans_of(events)
    snapshots = name == "tracks-snapshots"
    types = {t[0]: t for t in db.execute("SELECT type, name, kind, category, unit FROM track_types")}
    fields = collections.defaultdict(list)
    for of, field in db.execute("SELECT type, name FROM track_fields ORDER BY type, field"):
        fields[of].append(field)

    def values(row, of):
        return plain(dict(zip(fields[of], row)))
    tid = dict(db.execute("SELECT thread, tid FROM threads"))
    rows = db.execute("SELECT span, type, thread, begin_ns, end_ns, duration_ns, parent, depth,"
                      " value1, value2, value3, value4 FROM spans ORDER BY span").fetchall()
    signed = lambda v: {k: x - 2**64 if k == "flow" and x >> 63 else x for k, x in v.items()}
    same([(r[0], types[r[1]][1], tid[r[2]], *r[3:8], values(r[8:], r[1])) for r in rows],
         [(s.number, s.name, s.tid, s.begin, s.end, s.end and s.end - s.begin, s.parent, s.depth,
           plain(signed(s.values))) for s in spans], "spans")
    number_of = lambda span: span.number if span else None
    rows = db.execute("SELECT type, thread, time_ns, span, value1, value2, value3, value4"
                      " FROM instants ORDER BY instant").fetchall()
    same([(types[r[0]][1], tid[r[1]], *r[2:4], values(r[4:], r[0])) for r in rows],
         [(e["name"], e["tid"], e["time_ns"], number_of(inside[i]), plain(signed(e["values"])))
          for i, e in enumerate(events) if e["event"] == "instant"], "instants")
    rows = db.execute("SELECT type, thread, time_ns, span, value, value2, value3, value4"
                      " FROM counter_events ORDER BY rowid").fetchall()
    expected = [(e["name"], e["tid"], e["time_ns"], number_of(inside[i]),
                 plain({k: float(v) if k and v == 2**64 - 1 else v for k, v in e["values"].items()}))
                for i, e in enumerate(events) if e["event"] == "count"]
    same([(types[r[0]][1], tid[r[1]], *r[2:4], values(r[4:], r[0])) for r in rows], expected,
         "counters")
    same(sorted(db.execute("SELECT flow, time_ns FROM flows")),
         sorted((signed(e["values"])["flow"], e["time_ns"]) for e in events
                if e["event"] in ("begin", "instant") and "flow" in e["values"]), "flows")
    allocs = [(e["sample"], number_of(inside[i]), e) for i, e in enumerate(events)
              if e["event"] == "alloc" and not snapshots]
    same(sorted(db.execute("SELECT sample, span FROM sample_spans")),
         [(sample, span) for sample, span, _ in allocs if span is not None], "spans of blocks")
    labels = collections.defaultdict(dict)
    for sample, key, value in db.execute("SELECT sample, key, value FROM samples"
                                         " JOIN labels USING(label_set) ORDER BY place"):
        labels[sample][key] = value
    same(dict(labels), {sample: e["labels"] for sample, _, e in allocs if e["labels"]}, "labels")
    weight = dict(db.execute("SELECT sample, bytes FROM samples"))
    own = collections.Counter()
    for sample, span, _ in allocs:
        if span is not None:
            own[spans[span].name] += weight[sample]
    for row in db.execute("SELECT name, spans, open, total_ns, self_allocated_bytes FROM by_span"):
        ended = [s.end - s.begin for s in spans if s.name == row[0] and s.end is not None]
        same(row[1:4], (len(ended), len([s for s in spans if s.name == row[0]]) - len(ended),
                        sum(ended)), row[0])
        close(row[4], own[row[0]], row[0] + ", bytes")
    sums = collections.Counter()
    for sample, _, e in allocs:
        for label in e["labels"].items():
            sums[label] += weight[sample]
    for key, value, size in db.execute("SELECT key, value, allocated_bytes FROM by_label"):
        close(size, sums.pop((key, value)), "%s=%s" % (key, value))
    same(+sums, collections.Counter(), "other labels")


@case
def more_open_spans_than_are_followed():
    """4096 on a thread: the others are there, and never end; those around them end when they did."""
    events = story("tracks-deep")
    spans, _ = spans_of(events)
    rows = database("tracks-deep").execute("SELECT begin_ns, end_ns FROM spans ORDER BY span").fetchall()
    same(rows, [(s.begin, s.end if s.depth < 4096 else None) for s in spans], "spans")
    slices = Slices()
    for event in chrome("tracks-deep"):
        if event["ph"] == "B":
            slices.begin(round(event["ts"] * 1000), event["tid"], event["name"], {}, False)
        elif event["ph"] == "E":
            slices.end(round(event["ts"] * 1000), event["tid"])
    same([(begin, end) for _, begin, end in reversed(slices.paused)], rows[:4096], "slices")


@case
def csv_labels():
    name = "tracks-exact"
    path = export("csv", name, "--rows", "samples")
    with open(path, encoding="utf-8", newline="") as file:
        rows = {int(row["sample"]): row["labels"] for row in csv.DictReader(file)}
    same(rows, {e["sample"]: ", ".join("%s=%s" % label for label in e["labels"].items())
                for e in story(name) if e["event"] == "alloc"}, "labels")


def pprof_by_labels(path, kind):
    """{labels: value} of a sample type in a profile.proto."""
    with open(path, "rb") as file:
        profile = messages(gzip.decompress(file.read()))
    texts = [v.decode() for n, v in profile if n == 6]
    types = [texts[first(messages(v), 1, 0)] for n, v in profile if n == 1]
    sums = collections.Counter()
    for sample in (messages(v) for n, v in profile if n == 2):
        labels = tuple((texts[first(l, 1)], texts[first(l, 2, 0)]) for l in
                       (messages(v) for n, v in sample if n == 3))
        values, at, shift = [0], 0, 0
        for byte in first(sample, 2):
            values[at] |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                values.append(0)
                at, shift = at + 1, 0
        sums[labels] += values[types.index(kind)]
    return +sums


@cases(["tracks-exact", "tracks-sampled"])
def pprof_labels(name):
    """What has which labels, for all that was allocated and for what was never freed."""
    weights = {e["sample"]: e["weight_bytes"] for e in dump(name)}
    sizes = {e["sample"]: e["size"] for e in dump(name)}
    freed = {e["sample"] for e in dump(name) if e["event"] == "free"}
    for kind, options, fits in (
            ("alloc_space", [], lambda sample: True),
            ("leaked_space", ["--metric", "leaked"], lambda sample: sample not in freed),
            ("alloc_space", ["--min-size", "100"], lambda sample: sizes[sample] >= 100)):
        expected = collections.Counter()
        for event in story(name):
            if event["event"] == "alloc" and fits(event["sample"]):
                expected[tuple(event["labels"].items())] += weights[event["sample"]]
        got = pprof_by_labels(export("pprof", name, *options), kind)
        same(set(got), set(expected), "labels")
        for labels, size in expected.items():
            close(got[labels], size, "%s %s" % (kind, labels), 2)
    need("go")
    done = run(["go", "tool", "pprof", "-tags", "-unit=B", export("pprof", name, "--metric", "leaked")])
    check(done.code == 0 and b"request: Total" in done.out and b"tenant: Total" in done.out, done)


@cases(["tracks-exact", "tracks-sampled"])
def labels_at_the_peak(name):
    """Each sample has its own moment there. Those of each set of labels are the report's."""
    rows = report(trace(name), "--by", "label")["rows"]
    expected = {row["label"] or "": row["self"]["bytes"]["estimate"] for row in rows}
    split = pprof_by_labels(export("pprof", name), "inuse_space")
    got = {", ".join("%s=%s" % label for label in labels): size for labels, size in split.items()}
    same(set(got), {label for label, size in expected.items() if size}, "labels")
    for label, size in got.items():
        close(size, expected[label], label, 2)
    sums = database(name).execute("SELECT total(bytes) FROM samples WHERE counted AND at_peak"
                                  " GROUP BY label_set").fetchall()
    same(sorted(round(size) for size, in sums), sorted(filter(None, expected.values())), "SQLite")


@case
def manual_examples():
    """Each query of the manual page runs and finds something."""
    with open(os.path.join(SOURCE, "doc", "man", "mayfly-export.1.scd"), encoding="utf-8") as file:
        page = file.read()
    queries = re.findall(r"^\t?(?:SELECT|WITH)[^;]*;", page, re.M)
    check(len(queries) >= 5, "only", len(queries), "examples")
    db, tracks = database("known-exact"), database("tracks-exact")
    for query in queries:
        about_tracks = re.search("span|label|track|flow", query)
        check((tracks if about_tracks else db).execute(query).fetchall(), "nothing for", query)


@cases(["sqlite", "ctf"])
def signals_leave_nothing_behind(to):
    """Here that of a file that grows too large; Ctrl-C is one like it."""
    place = folder / ("ended-" + to)
    os.mkdir(place)
    source = trace("known-exact")
    limited = ["/bin/sh", "-c", "ulimit -f 16; exec \"$@\"", "sh", MAYFLY, "export", "--to", to,
               "-o", os.path.join(place, "out"), source]
    done = run(limited)
    same(done.code, 128 + signal.SIGXFSZ, "%r" % done)
    same(os.listdir(place), [], "what is left")


@case
def sqlite_names_are_text():
    """Names that are no UTF-8 do not stop readers."""
    db = database("strange")
    for table in ("symbols", "modules", "threads", "info"):
        check(db.execute("SELECT * FROM " + table).fetchall(), table, "is empty")


with folder:
    main()
