#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Files with rows of stack and bytes through the commands: DHAT, massif, V8, Perfetto, folded stacks, pprof
of other profilers. They are made here by the tools
themselves, and what these say of them is what mayfly must say."""
import collections
import functools
import gzip
import json
import re

import profiles
from harness import MAYFLY, SOURCE, Folder, Skip, case, check, main, mayfly, need, run, same

folder = Folder()
folder.__enter__()


def write(name, data):
    path = folder / name
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())
    return path


def facts(path, **how):
    return json.loads(mayfly("info", "--json", path, **how).text)


def selves(path, *options):
    """Bytes and blocks of each function itself."""
    sums = collections.Counter()
    for row in json.loads(mayfly("report", "--json", "--frames=all", "--by", "function", *options, path).text)["rows"]:
        sums[row["function"]] += row["self"]["bytes"]["estimate"]
    return {name: value for name, value in sums.items() if value}


def refused(name, data, *words):
    """One line that names the file and the way round."""
    result = mayfly("report", write(name, data), code=1, lines=1)
    check(all(word in result.message for word in (name, *words)), result.message, words)


# ---- valgrind ----

ALLOCATING = """#include <stdlib.h>
#include <string.h>
char *kept[300];
__attribute__((noinline)) char *leaf(int n) { char *p = malloc(n); memset(p, 1, n); return p; }
__attribute__((noinline)) void grow(void) { for (int i = 0; i < 300; i++) kept[i] = leaf(1000 + i); }
__attribute__((noinline)) void churn(void) { for (int i = 0; i < 999; i++) free(leaf(64 + i)); }
__attribute__((noinline)) void tiny(int n) { for (int i = 0; i < n; i++) kept[i] = calloc(1 + i % 2, 7); }
int main(void)
{
	grow();
	churn();
	for (int i = 0; i < 160; i++)
		free(kept[i]);
	tiny(10);
	return 0;
}
"""


@functools.cache
def valgrind(tool, *options):
    """The file that a tool of valgrind makes, and what it says."""
    need("valgrind", "gcc")
    source, program = write("allocating.c", ALLOCATING), folder / "allocating"
    same(run(["gcc", "-g", "-O1", "-fno-inline", "-o", program, source]).code, 0, "gcc")
    path = folder / ("-".join((tool, *options)).replace("=", "") + ".out")
    done = run(["valgrind", "--tool=" + tool, "--%s-out-file=%s" % (tool, path), *options, program])
    same(done.code, 0, "valgrind %r" % done)
    return path, done.err.decode()


def total_of(figures):
    return figures["bytes"]["estimate"], figures["blocks"] and figures["blocks"]["estimate"]


@case
def dhat_figures_are_dhats():
    path, said = valgrind("dhat")
    with open(path) as f:
        wanted = json.load(f)
    got = facts(path)
    for title, key in (("Total", "allocated"), ("At t-gmax", "peak"), ("At t-end", "live_at_end")):
        numbers = re.search(title + r": +([\d,]+) bytes in ([\d,]+) blocks", said).groups()
        same(total_of(got[key]), tuple(int(n.replace(",", "")) for n in numbers), title)
    same([got[key] for key in ("peak_time_ns", "duration_ns", "pid", "mode", "converted_from")],
         [wanted["tg"], wanted["te"], wanted["pid"], "exact", "DHAT"])
    same(got["command"], [folder / "allocating"], "command")
    for metric, bytes_of in (("allocated", "tb"), ("peak", "gb"), ("live", "eb")):
        sums = collections.Counter()
        for row in wanted["pps"]:
            stack = [wanted["ftbl"][i].split(" ")[1] for i in row["fs"]]
            sums[next(name for name in stack if name not in ("malloc", "calloc"))] += row[bytes_of]
        same(selves(path, "--metric", metric), {name: value for name, value in sums.items() if value}, metric)
    first = json.loads(mayfly("report", "--json", "--by", "stack", "--metric", "live", path).text)["rows"][0]
    same([(p["function"], p["file"], p["line"]) for p in first["stack"]],
         [("leaf", "allocating.c", 4), ("grow", "allocating.c", 5), ("main", "allocating.c", 10)], "stack")


@case
def dhat_of_other_modes():
    for mode in ("ad-hoc", "copy"):
        if mode == "copy" and "copy" not in run(["valgrind", "--tool=dhat", "--help"]).out.decode():
            continue  # valgrind 3.15 to 3.17
        path, _ = valgrind("dhat", "--mode=" + mode)
        with open(path, "rb") as f:
            refused(mode, f.read(), "a DHAT file, but not of the heap; run valgrind --tool=dhat with --mode=heap")


@case
def dhat_of_rust():
    """Its times are microseconds, its places have columns, and names may need escapes."""
    path = write("rust.json", profiles.DHAT_RUST)
    got = facts(path)
    same([total_of(got[key]) for key in ("allocated", "peak", "live_at_end")], [(64, 2), (64, 2), (16, 1)])
    same([got["peak_time_ns"], got["duration_ns"]], [7000, 9000], "times")
    rows = json.loads(mayfly("report", "--json", "--frames=all", "--by", "stack", "--metric", "peak", path).text)["rows"]
    same([(p["function"], p["file"], p["line"]) for p in rows[0]["stack"]],
         [("<a::B as c::\"D\">::e\u00e9\U0001f41b", "src/e.rs", 4), ("0x20", None, None)], "stack")


@case
def dhat_hostile():
    good = profiles.DHAT_RUST
    for name, data, *words in (
            ("cut", good[:300], "cut off before the names of its functions"),
            ("open", good[:-3], "cut off before the names of its functions"),
            ("version", good.replace('Version":2', 'Version":9'), "an unsupported newer version of DHAT"),
            ("number", good.replace('"fs":[1,2]', '"fs":[1,99]'), "a function that it does not name"),
            ("large", good.replace('"tb":48', '"tb":1e99'), "cut off before"),
            ("deep", '{"dhatFileVersion":2,"x":' + "[" * 1000000, "cut off before")):
        refused(name, data, "a DHAT file, ", *words)
    # Less in all than at once: the figures of the moments stay.
    got = facts(write("less", good.replace('"tb":48,"tbk":1', '"tb":1,"tbk":0')))
    same([total_of(got[key]) for key in ("peak", "live_at_end")], [(64, 2), (16, 1)])


def live_at(path, time):
    return json.loads(mayfly("report", "--json", "--metric", "live", "--at", time, path).text)["total"]["bytes"]["estimate"]


@case
def massif_figures_are_ms_prints():
    path, _ = valgrind("massif", "--detailed-freq=3")
    need("ms_print")
    printed = run(["ms_print", "--threshold=0", path]).out.decode()
    snapshots = {int(n): (int(time.replace(",", "")), int(heap.replace(",", ""))) for n, time, heap in
                 re.findall(r"^ *(\d+) +([\d,]+) +[\d,]+ +([\d,]+) +[\d,]+ +[\d,]+$", printed, re.M)}
    detailed = re.search(r"Detailed snapshots: \[(.* \(peak\).*)\]", printed).group(1)
    moments = [int(n) for n in re.findall(r"\d+", detailed)]
    peak = max(moments, key=lambda n: snapshots[n][1])  # up to 1 % above what massif calls so
    check(len(moments) > 5 and len(snapshots) > 2 * len(moments), snapshots, moments)
    got = facts(path)
    for n in [*moments, max(snapshots)]:
        same(live_at(path, "%dns" % snapshots[n][0]), snapshots[n][1], "snapshot %d" % n)
    same(got["peak"]["bytes"]["estimate"], snapshots[peak][1], "the peak")
    same([got["duration_ns"], got["converted_from"], got["live_at_end"]["bytes"]["estimate"]],
         [snapshots[max(snapshots)][0], "massif", snapshots[max(snapshots)][1]])
    check(re.search(r"^Snapshots +\d+$", mayfly("report", path).text, re.M), "snapshots have an interval")
    check({"allocated", "blocks"} <= set(got["absent"]), got["absent"])
    check("%d of its %d snapshots" % (len(moments), len(snapshots)) in got["note"], got["note"])
    # Each function with what it calls, at the peak.
    tree = printed.split("\n%3d " % peak)[1].split("\n---")[0]
    wanted = collections.Counter()
    for size, name in re.findall(r"->[\d.]+% \(([\d,]+)B\) 0x\w+: (\w+)", tree):
        wanted[name] += int(size.replace(",", ""))
    rows = json.loads(mayfly("report", "--json", "--frames=all", "--by", "function", "--sort", "total", path).text)["rows"]
    totals = {row["function"]: row["total"]["bytes"]["estimate"] for row in rows}
    check(len(wanted) >= 3, wanted)
    same({name: totals[name] for name in wanted}, dict(wanted), "with what they call")


@case
def massif_by_hand():
    path = write("massif.out", profiles.MASSIF)
    got = facts(path)
    same([got["peak"]["bytes"]["estimate"], got["peak_time_ns"], got["live_at_end"]["bytes"]["estimate"],
          got["duration_ns"]], [1000, 20000000, 50, 40000000])
    same(got["command"], ["./a", "one"], "command")
    check("1 of its 4 snapshots; the others have no stacks (the highest has 1100 bytes)" in got["note"], got["note"])
    check("nanosecond" not in got["note"], got["note"])
    same(selves(path), {"leaf": 700, "(below massif's threshold)": 300}, "at the peak")
    same(selves(path, "--metric", "live"), {"(massif kept no stacks of its last snapshot)": 50}, "at the end")
    rows = json.loads(mayfly("report", "--json", "--frames=all", "--by", "stack", path).text)["rows"]
    same([([p["function"] for p in row["stack"]], row["self"]["bytes"]["estimate"]) for row in rows],
         [(["leaf", "main"], 600), (["(below massif's threshold)"], 300), (["leaf"], 100)], "stacks")


@case
def massif_is_what_export_writes():
    path, _ = valgrind("massif", "--detailed-freq=3")
    again = folder / "again.massif"
    mayfly("export", "--to", "massif", "-o", again, path)
    same(facts(again)["peak"]["bytes"], facts(path)["peak"]["bytes"], "peak")
    same(selves(again), selves(path), "functions at the peak")


@case
def massif_hostile():
    for name, old, new in (("more", "n1: 700", "n1: 1001"), ("deep", "  n0: 600", "   n0: 600"),
                           ("word", "n1: 700", "n1: x"), ("tree", "heap_tree=detailed", "heap_tree=green"),
                           ("large", "n2: 1000", "n2: 99999999999999999999"), ("unit", "time_unit: ms", "time_unit: cows"),
                           ("late", "time_unit: ms\n#-----------\nsnapshot=0", "#-----------\nsnapshot=0\ntime_unit: ms")):
        check(old in profiles.MASSIF, old)
        path = write(name, profiles.MASSIF.replace(old, new, 1))
        line = 1 + profiles.MASSIF[:profiles.MASSIF.index(old)].count("\n") + (name == "late")
        result = mayfly("info", path, lines=1, code=name in ("unit", "late"))
        check(result.message.rstrip().split("; ")[0].endswith("line %d" % line), result.message, line)
    tree = "\n".join(" " * i + "n1: 1000 0x%x: f%d (l.c:%d)" % (i, i, i) for i in range(1, 6000))
    result = run([MAYFLY, "info", write("deeper", profiles.MASSIF.replace(" n1: 700", tree + "\n n1: 0"))])
    check(b"damaged: line" in result.err and result.code == 0, result)


# ---- folded stacks ----

@case
def folded_by_hand():
    path = write("a.folded", profiles.FOLDED)
    same(selves(path), {"leaf": 104950, "operator new(unsigned long, int)": 64, "alone": 7})
    rows = json.loads(mayfly("report", "--json", "--frames=all", "--by", "stack", path).text)["rows"]
    same([p["function"] for p in rows[0]["stack"]], ["leaf", "grow", "main"], "leaf first")
    got = facts(path)
    check({"allocated", "peak", "blocks", "times"} <= set(got["absent"]), got["absent"])
    same(got["converted_from"], "folded stacks")
    same(mayfly("report", "-", stdin=gzip.compress(profiles.FOLDED.encode())).text, mayfly("report", path).text, "packed")


@case
def folded_is_what_export_writes():
    """Of each stack of DHAT's file, by DHAT's own figures."""
    path, _ = valgrind("dhat")
    folded = folder / "dhat.folded"
    mayfly("export", "--to", "folded", "--metric", "live", "-o", folded, path)
    with open(path) as f:
        wanted = json.load(f)
    stacks = collections.Counter()
    for row in wanted["pps"]:
        names = [wanted["ftbl"][i].split(" ")[1] for i in row["fs"]]
        stacks[tuple(name for name in names if name not in ("malloc", "calloc"))] += row["eb"]
    rows = json.loads(mayfly("report", "--json", "--frames=all", "--by", "stack", folded).text)["rows"]
    same({tuple(p["function"] for p in row["stack"]): row["self"]["bytes"]["estimate"] for row in rows},
         {stack: size for stack, size in stacks.items() if size})


@case
def folded_hostile():
    for name, text in (("words", "main;grow\n"), ("number", "a;b 1\nc;d x\n"), ("binary", "a;b 1\n\0;c 2\n"),
                       ("one", "hello 5\n"), ("large", "a;b 99999999999999999999\n")):
        result = mayfly("import", "-o", "-", write(name, text), code=1, lines=1)
        check("not a file of a kind" in result.message, result.message)
    result = mayfly("info", "--json", write("later", "a;b 1\n" * 20000 + "c;d x\n"), lines=1)
    check("damaged: line 20001;" in result.message, result.message)
    same(json.loads(result.text)["live_at_end"]["bytes"]["estimate"], 20000)
    # Deeper than a trace's stacks, and empty names.
    result = mayfly("info", "--json", write("deep", ";".join("f%d" % (i % 7) for i in range(9000)) + " 5\n;;a;;b 6\n"))
    same(json.loads(result.text)["live_at_end"]["bytes"]["estimate"], 11)


# ---- V8 ----

JAVASCRIPT = """
function leaf(i) { return { i, text: 'x'.repeat(50) + i, more: new Array(20).fill(i) }; }
function grow(n) { const all = []; for (let i = 0; i < n; i++) all.push(leaf(i)); return all; }
const drop = n => { for (let i = 0; i < n; i++) leaf(i); };
global.kept = grow(50000);
drop(50000);
"""


@case
def v8_figures_are_nodes():
    need("node")
    script = write("grow.js", JAVASCRIPT)
    path = folder / "real.heapprofile"
    done = run(["node", "--heap-prof", "--heap-prof-interval=4096", "--heap-prof-name=real.heapprofile", script],
               cwd=folder.path)
    same(done.code, 0, "node %r" % done)
    with open(path) as f:
        profile = json.load(f)
    samples, wanted, stacks = collections.Counter(), collections.Counter(), collections.Counter()
    for sample in profile["samples"]:
        samples[sample["nodeId"]] += sample["size"]

    places = set()

    def walk(node, callers):
        name = node["callFrame"]["functionName"] or "(anonymous)"
        wanted[name] += node["selfSize"]
        places.add((node["callFrame"]["url"], node["callFrame"]["lineNumber"]))
        stacks[(name, *callers)] += node["selfSize"]
        for child in node["children"]:
            walk(child, (name, *callers))
    for child in profile["head"]["children"]:
        walk(child, ())
    check(wanted["leaf"] > 1 << 20, wanted)
    same(selves(path), {name: size for name, size in wanted.items() if size})
    total = facts(path)["live_at_end"]["bytes"]["estimate"]
    same(total, sum(wanted.values()), "in all")
    check(abs(total - sum(samples.values())) < 0.05 * total, "what the samples add up to", total, sum(samples.values()))
    rows = json.loads(mayfly("report", "--json", "--frames=all", "--by", "stack", path).text)["rows"]
    got = collections.Counter()
    for row in rows:
        got[tuple(p["function"] for p in row["stack"])] += row["self"]["bytes"]["estimate"]
    same({stack: got[stack] for stack in got}, {stack: stacks[stack] for stack in got}, "stacks")
    # node gives the script's own functions no place, but Node's.
    place = next(p for row in rows for p in row["stack"] if p["function"] == "Module._compile")
    check((place["file"], place["line"] - 1) in places, place, places)


@case
def v8_by_hand():
    path = write("a.heapprofile", profiles.V8)
    same(selves(path), {"(anonymous)": 4128, "gr\u00f6w": 100, "main": 96})
    rows = json.loads(mayfly("report", "--json", "--frames=all", "--by", "stack", path).text)["rows"]
    same([[(p["function"], p["file"], p["line"]) for p in row["stack"]] for row in rows],
         [[("(anonymous)", "/s/a.js", 5), ("main", "/s/a.js", 5)], [("gr\u00f6w", "/s/a.js", 9), ("main", "/s/a.js", 5)],
          [("main", "/s/a.js", 5)], [("main", "/s/a.js", 5), ("(V8 API)", None, None)]])
    check({"allocated", "peak", "blocks", "errors"} <= set(facts(path)["absent"]), facts(path)["absent"])


@case
def v8_hostile():
    """What is before the damage counts; nodes in each other need no stack."""
    for name, text, live in (("cut", profiles.V8[:profiles.V8.index('"gr')], 4128 + 64),
                             ("swapped", profiles.V8.replace('"selfSize":4128', '"children":[{}],"selfSize":5'), 64),
                             ("number", profiles.V8.replace("4128,", "x,", 1), 64)):
        result = mayfly("info", "--json", write(name, text), lines=1)
        check("damaged: cut off" in result.message, result.message)
        same(json.loads(result.text)["live_at_end"]["bytes"]["estimate"], live, name)
    node = '{"callFrame":{"functionName":"f"},"selfSize":%d,"children":['
    for ends, lines in (("]}" * 100001 + "}", 0), ("", 1)):
        text = '{"head":' + node % 0 * 100000 + node % 7 + ends
        result = mayfly("info", "--json", write("deep", text), lines=lines)
        same(json.loads(result.text)["live_at_end"]["bytes"]["estimate"], 7, "deep")


# ---- Perfetto ----

@case
def perfetto_by_hand():
    path = write("a.pftrace", profiles.small_perfetto())
    result = mayfly("info", "--json", path, lines=1)
    check("left out: 1 dumps of other processes than 7; traceconv profile makes" in result.message, result.message)
    got = json.loads(result.text)
    same([got[key]["bytes"]["estimate"] for key in ("allocated", "peak", "live_at_end")], [1090, 880, 100])
    same([got["pid"], got["duration_ns"], got["converted_from"]], [7, 4000, "Perfetto"])
    check({"blocks", "errors"} <= set(got["absent"]), got["absent"])

    def stacks(metric):
        rows = json.loads(mayfly("report", "--json", "--frames=all", "--by", "stack", "--metric", metric, path, lines=1).text)["rows"]
        return {tuple((p["function"], p["file"], p["line"], p["module"]) for p in row["stack"]): row["self"]["bytes"]["estimate"]
                for row in rows}
    main = ("main", None, None, None)
    grown = (("leaf", "src/a.c", 7, None), ("grow", None, None, None), main)
    same(stacks("peak"), {grown: 800, (("libx.so+0x1800", None, None, "/usr/libx.so"), main): 80}, "at the peak")
    same(set(stacks("live").values()), {10, 90}, "at the end")
    text = mayfly("info", "--modules", path, lines=1).text
    check(re.search(r"^/usr/libx\.so .* abcd ", text, re.M), text)


@case
def perfetto_at_the_maximum():
    path = write("max.pftrace", profiles.perfetto([profiles.heap_dump(7, 1000, [{1: 1, 8: 640}, {1: 2, 8: 60}])]))
    got = facts(path)
    same(got["peak"]["bytes"]["estimate"], 700, "peak")
    check("allocated" in got["absent"], got["absent"])


@case
def perfetto_is_what_export_writes():
    """As protoc reads it: each function's bytes, by the last dump of each heap."""
    need("gcc", "protoc")
    valgrind("dhat")
    made, path = folder / "made.mayfly", folder / "made.pftrace"
    same(run([MAYFLY, "record", "-x", "-o", made, folder / "allocating"]).code, 0, "record")
    mayfly("export", "--to", "perfetto", "-o", path, made)
    with open(path, "rb") as f:
        text = run(["protoc", "-I", SOURCE + "/tests", "--decode=perfetto.protos.Trace", "perfetto.proto"], stdin=f.read()).out.decode()
    dumps = collections.defaultdict(lambda: collections.Counter())
    for dump in re.findall(r"process_dumps \{\n(.*?)\n    \}", text, re.S):
        time = int(re.search(r"timestamp: (\d+)", dump).group(1))
        for sample in re.findall(r"samples \{(.*?)\}", dump, re.S):
            values = dict(re.findall(r"(\w+): (\d+)", sample))
            dumps[time]["all"] += int(values["self_allocated"])
            dumps[time]["live"] += int(values["self_allocated"]) - int(values.get("self_freed", 0))
    check(len(dumps) > 2, text[:2000])
    got = facts(path)
    same([got[key]["bytes"]["estimate"] for key in ("allocated", "live_at_end", "peak")],
         [dumps[max(dumps)]["all"], dumps[max(dumps)]["live"], max(dump["live"] for dump in dumps.values())])
    same(selves(path, "--metric", "allocated"), selves(made, "--metric", "allocated"), "functions")


@case
def perfetto_hostile():
    good = profiles.small_perfetto()
    result = run([MAYFLY, "info", write("cut", good[:-30])])
    check(result.code == 0 and b"damaged: cut off" in result.err, result)
    refused("none", profiles.perfetto([]), "a Perfetto file, but without a profile of heapprofd")
    result = mayfly("info", write("stack", profiles.perfetto([profiles.heap_dump(7, 1, [{1: 9, 2: 5}, {1: 1, 2: 6}])])), lines=1)
    check("damaged: stacks that it does not have" in result.message, result.message)
    # More freed than allocated, and figures that no trace holds.
    for samples in ([{1: 1, 2: 5, 3: 1 << 63}], [{1: 1, 2: 1 << 63, 3: 5}, {1: 2, 2: 7}]):
        mayfly("info", write("odd", profiles.perfetto([profiles.heap_dump(7, 1, samples)])))


# ---- values of other profilers in pprof files ----

JFR = [("alloc_in_new_tlab_objects", "count"), ("alloc_in_new_tlab_bytes", "bytes"), ("live", "count"),
       ("alloc_outside_tlab_bytes", "bytes"), ("cpu", "nanoseconds"), ("live_bytes", "bytes")]


def jfr():
    def place(name):
        return [[(name, "A.java", 7)], [("main", "A.java", 9)]]
    return write("jfr.pb.gz", gzip.compress(profiles.pprof(
        JFR, [(place("grow"), [3, 3000, 1, 0, 5, 100]), (place("churn"), [1, 500, 0, 70, 6, 0])])))


@case
def sample_types_by_name():
    path, made = jfr(), folder / "made.mayfly"

    def import_it(name):
        mayfly("import", "--force", "-o", made, "--sample-type", name, path)
        return facts(made)
    got = import_it("alloc_in_new_tlab_bytes")
    same(total_of(got["allocated"]), (3500, 4), "allocated")
    check("live" in got["absent"] and "blocks" not in got["absent"], got["absent"])
    same(selves(made, "--metric", "allocated"), {"grow": 3000, "churn": 500})
    got = import_it("alloc_outside_tlab_bytes")
    same(total_of(got["allocated"]), (70, None), "allocated, without blocks")
    got = import_it("live_bytes")
    same(total_of(got["live_at_end"]), (100, None), "live")
    check("allocated" in got["absent"], got["absent"])


@case
def sample_types_that_are_not_there():
    path = jfr()
    every = ", ".join(name for name, _ in JFR)
    message = mayfly("report", path, code=1, lines=1).message
    check("a pprof file, but not a heap profile; its values are %s: mayfly import --sample-type NAME" % every in message,
          message)
    for name in ("nothing", "cpu", "live"):
        message = mayfly("import", "-o", "-", "--sample-type", name, path, code=1, lines=1).message
        check("but without values '%s' of bytes; its values are %s" % (name, every) in message, message)
    message = mayfly("import", "-o", "-", "--sample-type", "x", write("a.folded", profiles.FOLDED), code=1, lines=1).message
    check("which has no sample types to choose from" in message, message)
    mayfly("import", "-o", "-", "--sample-type", "inuse_space", write("go.pb", profiles.small_pprof()))


# ---- what cannot be read ----

@case
def refused_formats():
    for name, data, *words in (
            ("jfr", b"FLR\0\0\2\0\1" + bytes(60), "a JFR file", "jfrconv --alloc --total -o collapsed FILE NEW"),
            ("memray", b"memray\0" + bytes(60), "a memray file", "mayfly record -- PROGRAM"),
            ("hprof", b"JAVA PROFILE 1.0.2\0" + bytes(60), "a Java heap dump file", "async-profiler"),
            ("a.heapsnapshot", '{"snapshot":{"meta":{}}}', "a V8 heap snapshot file", "--heap-prof"),
            ("a.kcg", "# callgrind format\nversion: 1\n", "a callgrind file", "--tool=dhat")):
        refused(name, data, *words)
    result = mayfly("symbolize", folder / "jfr", code=1, lines=1)
    check("makes a trace of it" not in result.message, result.message)


@case
def heaptrack_raw():
    """The remedy that its line names is one."""
    need("heaptrack", "gcc", "zstd")
    valgrind("dhat")
    raw, new = folder / "raw.raw.zst", folder / "interpreted"
    done = run(["heaptrack", "--raw", "-o", folder / "raw", folder / "allocating"])
    check(done.code == 0, done)
    said = mayfly("report", raw, code=1, lines=1).message
    check("a raw heaptrack file, which heaptrack_interpret has to read first: " in said, said)
    command = said.split(" first: ")[1].strip().replace("FILE", raw).replace("NEW", new)
    if not run(["sh", "-c", command.split("| ")[1].split(" ")[0] + " </dev/null"]).code in (0, 1):
        raise Skip("heaptrack's folder is another one")
    same(run(["sh", "-c", command]).code, 0, command)
    same(facts(new)["converted_from"], "heaptrack")


@case
def massif_of_xtree():
    need("valgrind", "gcc")
    valgrind("dhat")
    path = folder / "xtree.ms"
    done = run(["valgrind", "--tool=memcheck", "--xtree-memory=full", "--xtree-memory-file=" + path, folder / "allocating"])
    check(done.code == 0, done)
    with open(path, "rb") as f:
        refused("xtree", f.read(), "a massif file, but of --xtree-memory", "valgrind --tool=massif")


if __name__ == "__main__":
    main()
