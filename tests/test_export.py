#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Exports that are made of stacks and sums: every figure in them is one that the report prints, and
the tools that the formats belong to read it so."""
import atexit
import collections
import csv
import gzip
import io
import json
import math
import os
import re
import shutil
import xml.etree.ElementTree

from harness import (MAYFLY, PYTHON, PROGRAMS, SOURCE, Folder, Skip, case, cases, check, environment, main, need,
                     program, record, report, run, same, unfolded)
from profiles import Pprof

FORMATS = ["pprof", "heap_v2", "folded", "speedscope", "flamegraph", "csv"]
SUFFIXES = {"pprof": ".pb.gz", "heap_v2": ".heap", "folded": ".folded",
            "speedscope": ".speedscope.json", "flamegraph": ".svg", "csv": ".csv"}
INHERITED = ["inherited", "inherited-exact", "inherited-snapshots"]
SVG = "{http://www.w3.org/2000/svg}"

folder = Folder()
folder.__enter__()
atexit.register(folder.__exit__)


def trace(kind="sampled"):
    path = folder / (kind + ".mayfly")
    if not os.path.exists(path):
        same(run([program("make_trace"), kind, path]).code, 0, "make_trace")
    return path


def recorded():
    """A real program, with debug symbols and inlined functions."""
    path = folder / "known.mayfly"
    if not os.path.exists(path):
        same(record([program("known"), "7", "2", "5000"], path, "-i", "4K").code, 0, "known")
    return path


def export(form, path, *options):
    result = run([MAYFLY, "export", "--to", form, "-o", "-", *options, path])
    check(result.code == 0 and not result.err, "export --to", form, options, result)
    return result.out


def refused(code, said, *arguments):
    result = run([MAYFLY, "export", *arguments])
    same((result.code, result.out, result.err.count(b"\n")), (code, b"", 1), "export %r: %r"
         % (arguments, result))
    for word in said:
        check(word in result.err.decode(), repr(word), "is not in", result.err)


def close(got, expected, slack, what):
    check(abs(got - expected) <= slack, what + ":", got, "instead of", expected)


def total_of(path, *options):
    """(bytes, blocks) of the report."""
    total = report(path, *options)["total"]
    return total["bytes"]["estimate"], total["blocks"]["estimate"]


# ---- readers, which know the formats from their descriptions ----

def folded_stacks(text):
    found = []
    for line in text.decode().splitlines():
        stack, count = line.rsplit(" ", 1)
        found.append((stack.split(";")[::-1], int(count)))
    return found


def speedscope_stacks(profile, frames):
    """The stacks of an evented profile, after checking that it nests and runs forward."""
    stack, at, found = [], profile["startValue"], collections.Counter()
    for event in profile["events"]:
        check(event["at"] >= at, "back in time", event)
        if event["at"] > at:
            check(stack, "a gap before", event)
            found[tuple(stack[::-1])] += event["at"] - at
        at = event["at"]
        if event["type"] == "O":
            stack.append(event["frame"])
        else:
            same((event["type"], stack.pop()), ("C", event["frame"]), "what is closed")
    same((stack, at), ([], profile["endValue"]), "the end")
    return [([frames[i]["name"] for i in stack], count) for stack, count in found.items()]


def svg_frames(data):
    """[(name, begin, width, row)]"""
    root = xml.etree.ElementTree.fromstring(data)
    return [(g.find(SVG + "title").text.rsplit("\n", 1)[0], int(g.get("data-b")),
             int(g.get("data-w")), int(g.find(SVG + "rect").get("y")) // 17)
            for g in root.iter(SVG + "g") if g.get("class") == "f"]


def csv_rows(data):
    """Without the ' that stands before what a spreadsheet would take for a formula."""
    rows = list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))
    check(all(len(row) == len(rows[0]) for row in rows), "rows of different lengths")
    formulas = [cell for row in rows for cell in row if re.match(r"[=@\t\r]|[+-](?!\d+$)", cell)]
    same(formulas, [], "formulas")
    return [dict(zip(rows[0], [re.sub(r"^'(?=[=+@\t\r-])", "", cell) for cell in row])) for row in rows[1:]]


HEAP = re.compile(r"^\s*(\d+):\s+(\d+) \[(\d+): (\d+)\] @(.*)$")


def heap_lines(data):
    """[(live blocks, live bytes, allocated blocks, allocated bytes, [addresses])], as tools scale."""
    lines = data.decode().split("\n")
    header = re.match(r"^heap profile: (\d+): (\d+) \[(\d+): (\d+)\] @ heap_v2/(\d+)$", lines[0])
    check(header, lines[0])
    rate, found, sums = int(header[5]), [], [0] * 4

    def scaled(blocks, size):
        if blocks == 0:
            return 0, 0
        factor = 1 / (1 - math.exp(-size / blocks / rate))
        return blocks * factor, size * factor
    for line in lines[1:lines.index("MAPPED_LIBRARIES:")]:
        match = HEAP.match(line)
        if match:
            numbers = [int(n) for n in match.groups()[:4]]
            sums = [a + b for a, b in zip(sums, numbers)]
            found.append((*scaled(*numbers[:2]), *scaled(*numbers[2:]),
                          [int(a, 16) for a in match[5].split()]))
    same(sums, [int(n) for n in header.groups()[:4]], "sums in the header")
    return found


def by_function(stacks):
    """{function: (self, total)}"""
    own, total = collections.Counter(), collections.Counter()
    for stack, count in stacks:
        own[stack[0]] += count
        for name in set(stack):
            total[name] += count
    return {name: (own[name], total[name]) for name in total}


def stacks_of(form, data, metric="inuse_space"):
    if form == "pprof":
        return Pprof(data).stacks(metric)
    if form == "folded":
        return folded_stacks(data)
    if form == "speedscope":
        file = json.loads(data)
        return speedscope_stacks(file["profiles"][0], file["shared"]["frames"])
    return [(row["stack"].split(";"), int(row["bytes"])) for row in csv_rows(data)]


# ---- the figures are the report's ----

QUESTIONS = [[], ["--metric", "live"], ["--at", "0.5"], ["--metric", "allocated"],
             ["--metric", "leaked"], ["--metric", "temporary"], ["--focus", "parse"],
             ["--metric", "allocated", "--ignore", "grow", "--hide", "^parse$"],
             ["--metric", "allocated", "--from", "0.2", "--to", "0.4"], ["--frames=all"],
             ["--metric", "live", "--min-size", "200", "--max-size", "1M"],
             ["--metric", "allocated", "--thread", "worker"],
             ["--metric", "allocated", "--max-lifetime", "400ms"], ["--focus", "no such function"]]


def totals_in(form, data, metric):
    """(bytes, blocks or None) of what was asked for."""
    if form == "pprof":
        profile = Pprof(data)
        name = {"allocated": "alloc", "leaked": "leaked", "temporary": "temporary"}.get(metric, "inuse")
        check(profile.default == name + "_space", "default type", profile.default)
        return tuple(sum(count for _, count in profile.stacks(name + kind))
                     for kind in ("_space", "_objects"))
    if form == "heap_v2":
        lines = heap_lines(data)
        first = 2 if metric == "allocated" else 0
        return sum(line[first + 1] for line in lines), sum(line[first] for line in lines)
    if form == "folded":
        return sum(count for _, count in folded_stacks(data)), None
    if form == "speedscope":
        return tuple(p["endValue"] for p in json.loads(data)["profiles"][:2])
    if form == "csv":
        rows = csv_rows(data)
        return sum(int(row["bytes"]) for row in rows), sum(int(row["blocks"]) for row in rows)
    frames = svg_frames(data)
    return (frames[0][2] if frames else 0), None


@cases(["sampled", "exact", "thinned", "groups", "deep", "snapshots", "none", "quotes", *INHERITED])
def totals(kind):
    for options in QUESTIONS if kind in ("sampled", "snapshots") else QUESTIONS[:4]:
        metric = options[1] if options[:1] == ["--metric"] else "peak"
        if kind == "snapshots" and run([MAYFLY, "report", *options, trace(kind)]).code:
            refused(1, ["snapshots"], "--to", "folded", "-o", "-", *options, trace(kind))
            continue
        expected = total_of(trace(kind), *options)
        for form in FORMATS:
            if form == "heap_v2" and metric == "temporary":
                continue
            got = totals_in(form, export(form, trace(kind), *options), metric)
            slack = 2 if form == "heap_v2" else 0
            what = "%s %r, " % (form, options)
            close(got[0], expected[0], slack, what + "bytes")
            if got[1] is not None:
                close(got[1], expected[1], slack, what + "blocks")


@cases(["sampled", "exact", "thinned", "deep", "quotes", *INHERITED])
def functions(kind):
    """What each function allocates, and what it allocates with its callees, is as in the report."""
    for options in ([], ["--metric", "allocated", "--frames=all"], ["--hide", "parse"]):
        expected = {row["function"]: (row["self"]["bytes"]["estimate"],
                                      row["total"]["bytes"]["estimate"])
                    for row in unfolded(trace(kind), *options)["rows"]}
        metric = "alloc_space" if "allocated" in options else "inuse_space"
        for form in ("pprof", "folded", "speedscope", "csv"):
            data = export(form, trace(kind), *options)
            found = by_function(stacks_of(form, data, metric))
            marks = [name for name in found if name.startswith("[") and name not in expected]
            check(set(marks) <= {"[stack cut]", "[12 frames left out]"}, marks)
            if kind != "quotes":  # whose names some formats cannot hold as they are
                same(sorted(set(found) - set(marks)), sorted(expected), form + ": functions")
            rounding = len(found)
            for name in set(found) & set(expected):
                close(found[name][0], expected[name][0], rounding, "%s: %s" % (form, name))
                close(found[name][1], expected[name][1], rounding, "%s: %s, total" % (form, name))


@case
def a_recorded_program():
    path = recorded()
    for metric in ("peak", "allocated"):
        expected = total_of(path, "--metric", metric)
        for form in FORMATS:
            got = totals_in(form, export(form, path, "--metric", metric), metric)
            close(got[0], expected[0], 2, form)
    functions_of = {row["function"] for row in unfolded(path)["rows"]}
    same(set(by_function(stacks_of("pprof", export("pprof", path)))) - functions_of, set(),
         "functions that are not in the report")


SORTING = """import json
kept = []
def key(x):
    kept.append(bytearray(30000))
    return x
def sort():
    l = [3, 2, 1]
    l.sort(key=key)
class Coder(json.JSONEncoder):
    def default(self, o):
        kept.append(bytearray(70000))
        return 1
sort()
json.dumps([object()], cls=Coder)
import os
os._exit(0)
"""


def python_stacks(program_path, path, choice):
    """{stack: bytes} from all frames, without those that the choice leaves out; only stacks with one that it keeps."""
    found = collections.Counter()
    for row in report(path, "--metric", "allocated", "--by", "stack", "--all", "--top", "0", "--depth", "0",
                      "--frames", "all")["rows"]:
        files = [(frame["function"], frame["file"] or "") for frame in row["stack"]]
        kept = tuple(name for name, file in files
                     if file == program_path or choice == "python" and (file.endswith(".py") or file.startswith("<")))
        if kept:
            found[kept] += row["self"]["bytes"]["estimate"]
    return found


@cases(["own", "python"])
def frames_of_python(choice):
    """A key function that C calls, and a method that the library calls: neither C nor, if own, the library."""
    script, path = folder / "sorting.py", folder / ("sorting-%s.mayfly" % choice)
    with open(script, "w") as f:
        f.write(SORTING)
    same(record([*PYTHON, script], path, "-x").code, 0, "python3")
    expected = python_stacks(script, path, choice)
    if not expected:
        raise Skip("the frames of this Python are not known")
    stack = ("key", "sort", "<module>")
    check(30000 <= expected[stack] // 3 <= 31000, expected[stack])
    inside = [stack for stack in expected if stack[0] == "Coder.default"]
    check(inside and all(("JSONEncoder.encode" in stack) == (choice == "python") for stack in inside), inside)
    shown = collections.Counter()
    for row in report(path, "--metric", "allocated", "--by", "stack", "--all", "--top", "0", "--depth", "0",
                      "--frames", choice)["rows"]:
        shown[tuple(frame["function"] for frame in row["stack"])] += row["self"]["bytes"]["estimate"]
    for stack in inside + [stack]:
        same(shown[stack], expected[stack], "report: %r" % (stack,))
    whole = total_of(path, "--metric", "allocated")[0]
    for form in ("pprof", "folded", "speedscope", "csv"):
        data = export(form, path, "--metric", "allocated", "--frames", choice)
        found = collections.Counter()
        for names, count in stacks_of(form, data, "alloc_space"):
            found[tuple(names)] += count
        same(sum(found.values()), whole, form + ": bytes")
        check("[hidden]" not in {names[0] for names in found}, form, "has no frame in place of folded ones")
        for names, count in expected.items():
            # A stack without any such frame may show one of the library alone.
            check(found[names] >= count if len(names) == 1 else found[names] == count, form, names, found[names], count)


# ---- pprof ----

@case
def pprof_profile():
    profile = Pprof(export("pprof", trace()))
    same(profile.types, ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"], "types")
    same(profile.units, ["count", "bytes"] * 2, "units")
    same((profile.period, profile.duration), (65536, 2 * 10 ** 9), "period and duration")
    same([m[0] for m in profile.mappings.values()],
         ["/opt/demo/bin/demo", "/opt/demo/lib/libstripped.so", "/opt/demo/lib/libcxx_demo.so"],
         "mappings, the program's first")
    same(profile.mappings[1][1:], ("abcd0102" + "00" * 16, 0x400000, 0x500000), "build-id and range")
    check(profile.comments[0] == "demo --input 'two words.txt'", profile.comments)
    inlined = [lines for lines, _, _ in profile.locations.values() if len(lines) > 1]
    same(inlined, [[("inline_push", "/src/demo/lib/inline.h", 7),
                    ("outer_push", "/src/demo/lib/outer.c", 70)]], "inlined, innermost first")
    address = {lines[0][0]: a for lines, _, a in profile.locations.values()}
    same((address["main"], address["libstripped.so+0x1230"]), (0x401000, 0x7f0000001230), "addresses")
    same(address["[stack cut]"], None, "address of a mark")
    stacks = dict((tuple(stack), count) for stack, count in profile.stacks("alloc_objects"))
    check(("make_node(int)", "main") in stacks, "operator new is shown:", list(stacks))
    stacks = dict((tuple(s), c) for s, c in
                  Pprof(export("pprof", trace(), "--frames=all")).stacks("alloc_objects"))
    check(("operator new(unsigned long)", "make_node(int)", "main") in stacks, list(stacks))


PROTO = """
syntax = "proto3";
message Profile { repeated ValueType sample_type = 1; repeated Sample sample = 2;
  repeated Mapping mapping = 3; repeated Location location = 4; repeated Function function = 5;
  repeated string string_table = 6; int64 drop_frames = 7; int64 keep_frames = 8;
  int64 time_nanos = 9; int64 duration_nanos = 10; ValueType period_type = 11; int64 period = 12;
  repeated int64 comment = 13; int64 default_sample_type = 14; }
message ValueType { int64 type = 1; int64 unit = 2; }
message Sample { repeated uint64 location_id = 1; repeated int64 value = 2; }
message Mapping { uint64 id = 1; uint64 memory_start = 2; uint64 memory_limit = 3;
  uint64 file_offset = 4; int64 filename = 5; int64 build_id = 6; bool has_functions = 7;
  bool has_filenames = 8; bool has_line_numbers = 9; bool has_inline_frames = 10; }
message Location { uint64 id = 1; uint64 mapping_id = 2; uint64 address = 3; repeated Line line = 4; }
message Line { uint64 function_id = 1; int64 line = 2; }
message Function { uint64 id = 1; int64 name = 2; int64 system_name = 3; int64 filename = 4; }
"""


@cases(["sampled", "strange", "none", "quotes"])
def pprof_by_protoc(kind):
    need("protoc")
    with open(folder / "profile.proto", "w") as f:
        f.write(PROTO)
    data = gzip.decompress(export("pprof", trace(kind)))
    result = run(["protoc", "--decode=Profile", "-I", folder.path, "profile.proto"], stdin=data)
    check(result.code == 0 and not result.err, result)
    check(not re.search(rb"^\s*\d+[:{ ]", result.out, re.M), "unknown fields:", result.out[:500])
    same(result.out.count(b"\nsample {"), len(Pprof(export("pprof", trace(kind))).samples), "samples")


def go_pprof(path, *options):
    result = run(["go", "tool", "pprof", "-symbolize=none", "-nodecount=1000000", "-nodefraction=0",
                  "-edgefraction=0", "-unit=B", *options, path],
                 env=environment(HOME=folder.path, PPROF_TMPDIR=folder.path))
    check(result.code == 0, result)
    return result.out.decode()


def top_of(text):
    """{function: (flat, cum)} of pprof's table."""
    found = {}
    for line in text[text.index("flat%"):].split("\n")[1:]:
        if line:
            flat, _, _, cum, _, name = line.split(None, 5)
            found[re.sub(r" \(inline\)$", "", name)] = (int(flat.strip("B")), int(cum.strip("B")))
    return found


@cases(["sampled", "exact", "deep"])
def pprof_by_go(kind):
    need("go")
    path = folder / (kind + ".pb.gz")
    for name, metric, key in (("inuse_space", "peak", "bytes"), ("inuse_objects", "peak", "blocks"),
                              ("alloc_space", "allocated", "bytes"),
                              ("alloc_objects", "allocated", "blocks")):
        with open(path, "wb") as f:
            f.write(export("pprof", trace(kind)))
        found = top_of(go_pprof(path, "-top", "-sample_index=" + name))
        expected = {row["function"]: (row["self"][key]["estimate"], row["total"][key]["estimate"])
                    for row in unfolded(trace(kind), "--metric", metric)["rows"]}
        expected = {name: figures for name, figures in expected.items() if figures[1]}
        same(sorted(n for n in found if n[0] != "["), sorted(expected), name + ": functions")
        for function, figures in expected.items():
            for got, figure in zip(found[function], figures):
                close(got, figure, len(found), name + " of " + function)


@case
def pprof_by_go_on_a_recording():
    need("go")
    path = folder / "real.pb.gz"
    with open(path, "wb") as f:
        f.write(export("pprof", recorded(), "--metric", "allocated"))
    text = go_pprof(path, "-tree")
    check("Type: alloc_space" in text, text[:500])
    found = top_of(go_pprof(path, "-top"))
    rows = {row["function"]: row for row in unfolded(recorded(), "--metric", "allocated")["rows"]}
    same(sorted(found), sorted(rows), "functions")
    for name, row in rows.items():
        close(found[name][1], row["total"]["bytes"]["estimate"], len(rows), name)
    text = go_pprof(path, "-comments")
    check("made by mayfly" in text, text)


# ---- heap_v2 ----

@case
def heap_v2_addresses():
    lines = heap_lines(export("heap_v2", trace()))
    stacks = [line[4] for line in lines]
    # The leaf as it is, its callers one further.
    check([0x401200, 0x401101, 0x401001] in stacks, [list(map(hex, s)) for s in stacks])
    check([0x7f1000002000, 0x401001] in stacks, "operator new is shown")
    text = export("heap_v2", trace()).decode()
    check("\n00400000-00500000 r-xp 00000000 00:00 0 /opt/demo/bin/demo\n" in text, text[-500:])


@case
def heap_v2_of_small_blocks():
    """Where the tools' formula is far from 1."""
    path = folder / "small.mayfly"
    same(record([*PYTHON, "-c", "pass"], path, "-x").code, 0, "python3")
    for metric in ("peak", "allocated"):
        for limit in ("1", "4", "20"):
            options = ["--metric", metric, "--max-size", limit, "--min-size", "1"]
            expected = total_of(path, *options)
            got = totals_in("heap_v2", export("heap_v2", path, *options), metric)
            close(got[0], expected[0], 3, "bytes up to " + limit)
            close(got[1], expected[1], 3 + expected[1] * .01, "blocks up to " + limit)


def perl_pprof(tool, program_path, path, *options):
    result = run([tool, "--text", "--show_bytes", *options, program_path, path],
                 env=environment(HOME=folder.path, PPROF_TMPDIR=folder.path))
    check(result.code == 0, tool, result)
    text = result.out.decode()
    total = int(re.search(r"^Total: (-?\d+)", text, re.M)[1])
    found = {}
    for line in text.split("\n"):
        match = re.match(r"\s*(\d+) +[\d.]+% +[\d.]+% +(\d+) +[\d.]+% (\S.*)$", line)
        if match:
            found[match[3]] = (int(match[1]), int(match[2]))
    return total, found


@cases(["jeprof", "google-pprof"])
def heap_v2_by_tools(tool):
    need(tool)
    path = folder / "tool.heap"
    for kind, questions in (("sampled", 4), ("snapshots", 1)):
        with open(path, "wb") as f:
            f.write(export("heap_v2", trace(kind)))
        for options, metric, key in (([], "peak", "bytes"), (["--inuse_objects"], "peak", "blocks"),
                                     (["--alloc_space"], "allocated", "bytes"),
                                     (["--alloc_objects"], "allocated", "blocks"))[:questions]:
            total, _ = perl_pprof(tool, "/bin/true", path, *options)
            expected = total_of(trace(kind), "--metric", metric)[key == "blocks"]
            close(total, expected, 3, tool + " " + metric)


@cases(["jeprof", "google-pprof"])
def heap_v2_by_tools_on_a_recording(tool):
    need(tool, "nm", "addr2line", "objdump")
    path = folder / "real.heap"
    with open(path, "wb") as f:
        f.write(export("heap_v2", recorded()))
    total, found = perl_pprof(tool, program("known"), path, "--alloc_space")
    rows = unfolded(recorded(), "--metric", "allocated")
    close(total, rows["total"]["bytes"]["estimate"], 3, tool)
    compared = 0
    for row in rows["rows"]:
        if row["module"] and row["module"].endswith("/known") and row["function"] in found:
            compared += 1
            for got, kind in zip(found[row["function"]], ("self", "total")):
                close(got, row[kind]["bytes"]["estimate"], 2 * len(found), row["function"])
    check(compared >= 2, "only", compared, "functions in both:", found, rows["rows"][:5])


# ---- speedscope ----

@cases(["sampled", "strange", "none", "quotes"])
def speedscope_file(kind):
    """What the published schema asks for."""
    file = json.loads(export("speedscope", trace(kind)))
    same(file["$schema"], "https://www.speedscope.app/file-format-schema.json", "schema")
    check(file["exporter"].startswith("mayfly "), file["exporter"])
    check(isinstance(file["name"], str) and file["activeProfileIndex"] == 0, file["name"])
    frames = file["shared"]["frames"]
    for frame in frames:
        check(set(frame) <= {"name", "file", "line", "col"} and frame["name"], frame)
    same([(p["type"], p["unit"]) for p in file["profiles"]],
         [("evented", "bytes"), ("evented", "none")] * 2, "profiles")
    for profile in file["profiles"]:
        same(sorted(profile), ["endValue", "events", "name", "startValue", "type", "unit"], "keys")
        for event in profile["events"]:
            check(event["type"] in "OC" and 0 <= event["frame"] < len(frames), event)
        speedscope_stacks(profile, frames)
    same([p["name"].rsplit(":")[1] for p in file["profiles"]], [" bytes", " blocks"] * 2, "names")


# ---- flame graphs ----

@cases(["sampled", "exact", "deep", "quotes", "strange"])
def flamegraph_nests(kind):
    """Each frame lies on that of its caller, and its stack's width is what folded stacks say."""
    frames = svg_frames(export("flamegraph", trace(kind)))
    top, open_frames, found = frames[0][3], [], collections.Counter()
    for name, begin, width, row in frames:
        del open_frames[row - top:]
        same(len(open_frames), row - top, "a frame without one above it: " + name)
        if open_frames:
            check(open_frames[-1][1] <= begin and
                  begin + width <= open_frames[-1][1] + open_frames[-1][2], name, "sticks out")
        open_frames.append((name, begin, width))
        found[tuple(f[0] for f in open_frames[1:])] += width
    if kind not in ("quotes", "strange"):
        totals_by_stack = collections.Counter()
        for stack, count in folded_stacks(export("folded", trace(kind))):
            for depth in range(len(stack)):
                totals_by_stack[tuple(stack[depth:][::-1])] += count
        for stack, width in found.items():
            smaller = re.fullmatch(r"\((\d+) smaller\)", stack[-1]) if stack else None
            if smaller:
                those = [s for s in totals_by_stack if s[:-1] == stack[:-1] and s not in found]
                same(len(those), int(smaller[1]), "callees joined as " + ";".join(stack))
                close(width, sum(totals_by_stack[s] for s in those), len(found), ";".join(stack))
            elif stack:
                close(width, totals_by_stack[stack], len(found), ";".join(stack))
                check(width >= frames[0][2] * .49 / 1180, stack, "is below half a pixel")
        for stack, total in totals_by_stack.items():
            check(stack in found or total <= frames[0][2] * .51 / 1180, stack, "is not shown")


@case
def flamegraph_is_pruned():
    """What would be below half a pixel is one frame for each caller."""
    path = folder / "narrow.mayfly"
    same(record([program("recursive"), "4000"], path, "--exact").code, 0, "record")
    drawn = svg_frames(export("flamegraph", path, "--metric", "allocated"))
    whole = len({tuple(s[k:]) for s, _ in folded_stacks(export("folded", path, "--metric", "allocated"))
                 for k in range(len(s))})
    check(any("smaller)" in name for name, _, _, _ in drawn), "nothing is pruned")
    check(len(drawn) < whole / 2, len(drawn), "frames for", whole, "nodes")


@case
def flamegraph_stands_alone():
    text = export("flamegraph", trace()).decode()
    for word in ("href", "src=", "@import", "url("):
        check(word not in text, word, "leads elsewhere")
    check(re.search(r"^<title>[^<]+</title>$", text, re.M), "no title of its own")
    same(re.findall(r"https?://[^\"' ]+", text), ["http://www.w3.org/2000/svg"], "addresses")


@cases(["sampled", "quotes", "none", "strange"])
def flamegraph_is_drawn(kind):
    need("rsvg-convert")
    result = run(["rsvg-convert", "--width", "600"], stdin=export("flamegraph", trace(kind)))
    check(result.code == 0 and not result.err and result.out[:4] == b"\x89PNG", result.err)
    check(len(result.out) > 1000, "an empty picture")


# A document that is just enough for the script; prints what is visible after each step.
BROWSER = r"""
const fs = require("fs"), svg = fs.readFileSync(process.argv[2], "utf8");
const decode = t => t.replace(/&#(\d+);/g, (_, n) => String.fromCharCode(n));
function element(attributes, children) {
  const e = {attributes, children: children || {}, listeners: {}, style: {}, classes: new Set(),
    textContent: "",
    getAttribute: n => n in e.attributes ? e.attributes[n] : null,
    setAttribute: (n, v) => { e.attributes[n] = String(v); },
    querySelector: n => e.children[n],
    addEventListener: (n, f) => { e.listeners[n] = f; },
    classList: {toggle: (n, on) => on ? e.classes.add(n) : e.classes.delete(n)}};
  return e;
}
const frames = [...svg.matchAll(
  /<g class="f"([^>]*)><title>([^]*?)<\/title><rect([^>]*)\/><text([^>]*)>([^<]*)<\/text>/g)].map(m => {
  const parse = t => Object.fromEntries([...t.matchAll(/([\w-]+)="([^"]*)"/g)].map(a => [a[1], decode(a[2])]));
  const g = element(parse(m[1]), {title: element({}), rect: element(parse(m[3])), text: element(parse(m[4]))});
  g.children.title.textContent = decode(m[2]);
  return g;
});
const named = {};
global.document = {documentElement: element({height: "500"}), querySelectorAll: () => frames,
  getElementById: n => named[n] = named[n] || element({})};
const on = {};
let answer = null;
global.window = {innerWidth: 1020, addEventListener: (n, f) => { on[n] = f; }, prompt: () => answer};
eval(svg.match(/<script><!\[CDATA\[([^]*)\]\]><\/script>/)[1]);
const name = g => g.children.title.textContent.split("\n")[0];
const show = () => frames.filter(g => g.style.display !== "none").map(g => [name(g),
  +(+g.children.rect.attributes.width).toFixed(0), g.classes.has("above"), g.classes.has("hit")]);
const steps = {start: show()};
const find = n => frames.find(g => name(g) === n);
find("parse").listeners.click();
steps.zoomed = show();
find("parse").listeners.mouseover();
steps.details = named.details.textContent;
named.reset.listeners.click();
answer = "^grow_|medium";
on.keydown({key: "/", preventDefault: () => {}});
steps.searched = show();
steps.found = named.found.textContent;
answer = "(";
named.search.listeners.click();
steps.bad = named.found.textContent;
on.keydown({key: "Escape"});
steps.end = show();
console.log(JSON.stringify(steps));
"""


@case
def flamegraph_script_zooms_and_searches():
    need("node")
    with open(folder / "browser.js", "w") as f:
        f.write(BROWSER)
    with open(folder / "live.svg", "wb") as f:
        f.write(export("flamegraph", trace()))
    result = run(["node", folder / "browser.js", folder / "live.svg"])
    check(result.code == 0, result)
    steps = json.loads(result.out)
    everything = {name: (row["self"]["bytes"]["estimate"], row["total"]["bytes"]["estimate"])
                  for name, row in ((r["function"], r) for r in unfolded(trace())["rows"])}
    total = total_of(trace())[0]
    for name, width, _, hit in steps["start"]:
        if name in everything:
            close(width, everything[name][1] / total * 1000, 1.5, name)
        check(not hit, name, "is marked")
    parse = everything["parse"][1]
    zoomed = {name: (width, above) for name, width, above, _ in steps["zoomed"]}
    same({n: zoomed[n][1] for n in ("all", "main", "parse")},
         {"all": True, "main": True, "parse": False}, "what is above")
    check("load_file" not in zoomed and "rootless" not in zoomed, zoomed)
    close(zoomed["grow_table"][0], everything["grow_table"][1] / parse * 1000, 1.5, "grow_table")
    check(steps["details"].startswith("parse: ") and "%" in steps["details"], steps["details"])
    same(sorted(n for n, _, _, hit in steps["searched"] if hit), ["grow_table", "medium_row"], "hits")
    share = (everything["grow_table"][1] + everything["medium_row"][1]) / total * 100
    same(steps["found"], "matched %.1f %%" % share, "share")
    check("no regular expression" in steps["bad"], steps["bad"])
    same(steps["end"], steps["start"], "the end")


# ---- csv ----

@case
def csv_of_stacks():
    data = export("csv", trace(), "--metric", "allocated")
    check(data.endswith(b"\r\n") and b"\n" not in data.replace(b"\r\n", b""), "line ends")
    rows = csv_rows(data)
    stacks = unfolded(trace(), "--metric", "allocated", "--by", "stack")["rows"]
    same(len(rows), len(stacks), "rows")
    expected = {";".join(place["function"] or "?" for place in row["stack"]): row["self"]
                for row in stacks}
    sizes = [int(row["bytes"]) for row in rows]
    same(sizes, sorted(sizes, reverse=True), "order")
    for row in rows:
        if row["stack"] not in expected:
            check("+0x" in row["stack"] or "[stack cut]" in row["stack"], row)
            continue
        figures = expected[row["stack"]]
        for key in ("bytes", "blocks"):
            for column, name in (("", "estimate"), ("_stderr", "stderr"), ("_low", "low"),
                                 ("_high", "high")):
                close(int(row[key + column]), figures[key][name], 1, row["stack"])
        same(int(row["samples"]), figures["samples"], "samples")
        same(int(row["depth"]), len(row["stack"].split(";")), "depth")
    grow = next(row for row in rows if row["function"] == "grow_table")
    same((grow["file"], grow["line"], grow["module"]),
         ("/src/demo/parse.c", "31", "/opt/demo/bin/demo"), "place")


def dumped(path):
    """{sample: [allocation, free or None]}"""
    result = run([MAYFLY, "dump", "--json", "--no-stacks", path])
    check(result.code == 0, result)
    found = {}
    for line in result.out.decode().splitlines():
        event = json.loads(line)
        if event.get("event") == "alloc":
            found[event["sample"]] = [event, None]
        elif event.get("event") == "free":
            found[event["sample"]][1] = event
    return found


@cases(["sampled", "exact", "thinned", "groups", "inherited", "inherited-exact"])
def csv_of_samples(kind):
    rows = csv_rows(export("csv", trace(kind), "--rows", "samples"))
    total = total_of(trace(kind), "--metric", "allocated")
    close(sum(float(row["weight_bytes"]) for row in rows), total[0], 1, "bytes")
    close(sum(float(row["weight_blocks"]) for row in rows), total[1], 1, "blocks")
    events = dumped(trace(kind))
    same(sorted(int(row["sample"]) for row in rows),
         [number for number, (alloc, _) in events.items() if not alloc["inherited"]], "samples")
    for row in rows:
        alloc, free = events[int(row["sample"])]
        same(int(row["time_ns"]), alloc["time_ns"], "time")
        same(int(row["size"]), alloc["size"], "size")
        same(row["free_time_ns"], str(free["time_ns"]) if free else "", "time of the free")
        if free:
            same(int(row["lifetime_ns"]), free["time_ns"] - alloc["time_ns"], "lifetime")
    for options in QUESTIONS if kind in ("sampled", "inherited") else []:
        if options[:1] == ["--metric"] and options[1] not in ("live", "peak"):
            rows = csv_rows(export("csv", trace(kind), "--rows", "samples", *options))
            close(sum(float(row["weight_bytes"]) for row in rows), total_of(trace(kind), *options)[0],
                  1, repr(options))


# ---- names ----

HOSTILE = ["comma, \"quoted\"; semicolon", "two\nlines\r", "<&>'\\ ]]>", "=1+1", " 42",
           "\\u0041 \\n"]


@cases(FORMATS)
def hostile_names(form):
    """As they are, or with what the format cannot hold replaced."""
    data = export(form, trace("quotes"))
    if form == "heap_v2":
        same(len(heap_lines(data)), 7, "lines")
        return
    if form == "flamegraph":
        names = {frame[0] for frame in svg_frames(data)}
        expected = {re.sub(r"[\n\r]", " ", name) for name in HOSTILE} | {"\ufffd; \ufffd broken"}
    elif form == "folded":
        names = set(by_function(folded_stacks(data)))
        expected = {re.sub(r"[\n\r]", " ", name).replace(";", ":") for name in HOSTILE} | \
            {"\ufffd:   broken"}
    elif form == "csv":
        names = {row["function"] for row in csv_rows(data)}
        expected = set(HOSTILE) | {"\ufffd;\t\x7f broken"}
        check(b"'=1+1" in data, "a formula is not marked")
        deepest = max(csv_rows(data), key=lambda row: int(row["depth"]))
        same(len(deepest["stack"].split(";")), 8, "frames of the deepest stack")
    elif form == "pprof":
        names = set(by_function(Pprof(data).stacks("inuse_space")))
        expected = set(HOSTILE) | {"\ufffd;\t\x7f broken"}
    else:
        names = {frame["name"] for frame in json.loads(data)["shared"]["frames"]}
        expected = set(HOSTILE) | {"\ufffd;\t\x7f broken"}
    same(expected - names, set(), "lost names (there are %r)" % sorted(names))


@cases(FORMATS)
def strange_names(form):
    data = export(form, trace("strange"))
    check(data, "nothing")
    if form == "pprof":
        check(any("[no stack]" in stack for stack, _ in Pprof(data).stacks("inuse_space")), "no stack")
        check(all(v < 1 << 63 for _, values in Pprof(data).samples for v in values), "too large")


@cases(FORMATS)
def foreign_files(form):
    path = folder / "foreign.ctf"
    if not os.path.exists(path):
        same(run([os.path.join(PROGRAMS, "memtrace_tool"), "make", path]).code, 0, "memtrace_tool")
    expected = total_of(path, "--metric", "allocated")
    got = totals_in(form, export(form, path, "--metric", "allocated"), "allocated")
    close(got[0], expected[0], 3, form)


@cases(["pprof", "heap_v2"])
def read_back(form):
    """mayfly reads both formats, too; what they do not have is left out of the next export."""
    path = folder / ("back" + SUFFIXES[form])
    with open(path, "wb") as f:
        f.write(export(form, trace(), "--metric", "live"))
    for metric in ("live", "allocated"):
        expected = total_of(trace(), "--metric", metric)
        got = total_of(path, "--metric", metric)
        close(got[0], expected[0], 2, metric)
        close(got[1], expected[1], 2, metric)
    for other in FORMATS:
        data = export(other, path)
        close(totals_in(other, data, "live")[0], total_of(trace(), "--metric", "live")[0], 4, other)
    refused(1, ["the peak"], "--to", "folded", "-o", "-", "--metric", "peak", path)
    refused(1, ["single blocks"], "--to", "csv", "--rows", "samples", "-o", "-", path)


@case
def only_what_is_known():
    """A profile of live bytes alone: no blocks, nothing allocated, no errors."""
    path = folder / "live.pb"
    strings = ["", "inuse_space", "bytes", "f", "g"]
    message = b"".join(b"\x32" + bytes([len(s)]) + s.encode() for s in strings)
    message += b"\x0a\x04\x08\x01\x10\x02"                       # sample_type: inuse_space, bytes
    message += b"\x12\x07\x0a\x02\x01\x02\x12\x01\x64"           # sample: locations 1, 2; 100
    message += b"\x22\x06\x08\x01\x22\x02\x08\x01\x22\x06\x08\x02\x22\x02\x08\x02"  # locations
    message += b"\x2a\x04\x08\x01\x10\x03\x2a\x04\x08\x02\x10\x04"  # functions
    with open(path, "wb") as f:
        f.write(gzip.compress(message))
    profile = Pprof(export("pprof", path))
    same((profile.types, profile.stacks("inuse_space")), (["inuse_space"], [(["f", "g"], 100)]), "pprof")
    same(len(json.loads(export("speedscope", path))["profiles"]), 1, "profiles of speedscope")
    row = csv_rows(export("csv", path))[0]
    same((row["bytes"], row["blocks"], row["bytes_low"], row["blocks_high"], row["stack"]),
         ("100", "", "", "", "f;g"), "csv")
    same(export("folded", path), b"g;f 100\n", "folded")
    same(heap_lines(export("heap_v2", path))[0][1:4], (100.0, 0, 0), "heap_v2")
    check(b" block" not in export("flamegraph", path).split(b"<script>")[0], "flame graph")
    refused(1, ["allocated"], "--to", "folded", "-o", "-", "--metric", "allocated", path)


# ---- options and files ----

@cases(FORMATS)
def files(form):
    with Folder() as here:
        path = here / "run.mayfly"
        shutil.copy(trace(), path)
        same(run([MAYFLY, "export", "--to", form, path]).code, 0, "exit status")
        same(sorted(os.listdir(here.path)), sorted(["run.mayfly", "run" + SUFFIXES[form]]), "files")
        with open(here / ("run" + SUFFIXES[form]), "rb") as f:
            same(f.read(), export(form, path), "file and standard output")
        refused(1, ["exists", "--force"], "--to", form, path)
        same(run([MAYFLY, "export", "--to", form, "--force", path]).code, 0, "--force")
        refused(1, ["/dev/full", "No space"], "--to", form, "-o", "/dev/full", path)


@case
def options_that_have_no_place():
    refused(2, ["--metric", "memtrace"], "--to", "memtrace", "--metric", "live", trace())
    refused(2, ["--at", "memtrace"], "--to", "memtrace", "--at", "1s", trace())
    refused(2, ["--from", "memtrace"], "--to", "memtrace", "--from", "1s", trace())
    refused(2, ["--hide", "memtrace"], "--to", "memtrace", "--hide", "x", trace())
    refused(2, ["--frames", "memtrace"], "--to", "memtrace", "--frames=all", trace())
    refused(2, ["options that choose blocks"], "--to", "memtrace", "--focus", "x", trace())
    refused(2, ["--rows", "folded"], "--to", "folded", "--rows", "samples", trace())
    refused(2, ["--rows", "'columns'"], "--to", "csv", "--rows", "columns", trace())
    refused(2, ["temporary", "heap_v2"], "--to", "heap_v2", "--metric", "temporary", trace())
    refused(2, ["--rows samples"], "--to", "csv", "--rows", "samples", "--metric", "peak", trace())
    refused(2, ["--at"], "--to", "csv", "--metric", "allocated", "--at", "1s", trace())
    refused(1, ["--rows samples", "snapshots"], "--to", "csv", "--rows", "samples", "-o", "-",
            trace("snapshots"))
    refused(1, ["--thread", "snapshots"], "--to", "pprof", "--thread", "x", "-o", "-",
            trace("snapshots"))


@case
def to_is_a_format_or_a_time():
    with_window = export("folded", trace(), "--from", "0.1", "--to", "0.3", "--metric", "allocated")
    same(sum(c for _, c in folded_stacks(with_window)),
         total_of(trace(), "--from", "0.1", "--to", "0.3", "--metric", "allocated")[0], "bytes")
    refused(2, ["'sheet'", "pprof"], "--to", "sheet", trace())
    refused(2, ["no format given", "pprof"], "--to", "1s", trace())
    refused(2, ["--to", "1 parsec"], "--to", "folded", "--to", "1 parsec", trace())


@case
def every_format_is_documented():
    names = re.findall(r"^      (\w+) .*\((\.[\w.]+)\)$",
                       run([MAYFLY, "export", "--help"]).out.decode(), re.M)
    check({n for n, _ in names} >= set(FORMATS) | {"memtrace"}, names)
    with open(os.path.join(SOURCE, "doc/man/mayfly-export.1.scd")) as f:
        page = f.read()
    words = run([MAYFLY, "--complete", "export"]).out.decode()
    completion = re.search(r"^--to (.*)$", words, re.M)[1].split()
    for name, suffix in names:
        check("*%s* (_%s_)" % (name, suffix) in page, name, suffix, "is not in the man page")
        check(name in completion, name, "is not in the completion")


if __name__ == "__main__":
    main()
