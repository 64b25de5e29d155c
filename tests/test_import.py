#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Files of heaptrack, jemalloc, gperftools, Go and pprof through the commands. What these tools print
of their own files is what mayfly must print of them."""
import glob
import gzip
import json
import math
import os
import re
import resource
import shutil

import profiles
from harness import (BUILD, MAYFLY, PROGRAMS, SOURCE, Folder, Skip, case, cases, check, environment, main,
                     mayfly, need, read, report, run, same)

JQ_PROGRAM = '[range(20000)|{a:.,b:"x\\(.)"}]|group_by(.a%7)|length'

folder = Folder()
folder.__enter__()


def facts(path, **how):
    return json.loads(mayfly("info", "--json", path, **how).text)


def write(name, data):
    path = folder / name
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())
    return path


def self_bytes(path, *options):
    """What each function allocated itself."""
    rows = json.loads(mayfly("report", "--json", "--frames=all", "--by", "function", *options,
                             path).text)["rows"]
    sums = {}
    for row in rows:
        sums[row["function"]] = sums.get(row["function"], 0) + row["self"]["bytes"]["estimate"]
    return sums


# ---- heaptrack ----

def heaptrack_file():
    """A real one, of jq."""
    path = folder / "jq.zst"
    if not os.path.exists(path):
        need("heaptrack", "heaptrack_print", "jq", "zstd")
        result = run(["heaptrack", "-o", folder / "jq", "jq", "-n", JQ_PROGRAM])
        check(os.path.exists(path), "heaptrack made no file:", result)
    return path


def heaptrack_text():
    return run(["zstd", "-dc", heaptrack_file()]).out


def bytes_of(text):
    """What heaptrack_print calls 10.71M, in thousands."""
    number, unit = re.match(r"([\d.]+)([BKMGT])", text).groups()
    return float(number) * 1000 ** "BKMGT".index(unit), 0.006 * 1000 ** "BKMGT".index(unit)


@case
def heaptrack_figures_are_heaptracks():
    path = heaptrack_file()
    expected = profiles.heaptrack_facts(heaptrack_text().decode())
    printed = run(["heaptrack_print", "-f", path]).out.decode()
    got = facts(path)
    same(got["samples"], expected["allocs"], "allocations")
    same(got["frees"], expected["frees"], "frees")
    same(got["peak"]["bytes"]["estimate"], expected["peak"], "peak")
    same(got["live_at_end"]["bytes"]["estimate"], expected["live"], "left")
    same(got["temporary"]["blocks"]["estimate"], expected["temporary"], "temporary")
    same(got["duration_ns"], expected["ms"] * 1000000, "duration")
    same(int(re.search(r"allocation functions: (\d+)", printed).group(1)), got["samples"],
         "calls in heaptrack_print")
    for title, value in (("peak heap memory consumption", expected["peak"]),
                         ("total memory leaked", expected["live"])):
        shown, error = bytes_of(re.search(title + r": (\S+)", printed).group(1))
        check(abs(shown - value) <= error, title, shown, value)
    # Its print takes frees of kind 0 for temporary ones when another free was before; ours not.
    shown = int(re.search(r"temporary memory allocations: (\d+)", printed).group(1))
    zero = heaptrack_text().count(b"\n- 0\n")
    check(expected["temporary"] <= shown <= expected["temporary"] + zero, shown, expected)
    same(got["command"][:2], ["jq", "-n"], "command")
    same(got["converted_from"], "heaptrack", "converted from")
    said = " ".join(run([MAYFLY, "report", path]).out.decode().split())
    check("; freed before any thread allocated or freed again" in said, said)
    same(got["mode"], "exact", "mode")
    check(abs(got["peak_time_ns"] - expected["peak_ms"] * 1000000) <= 640000, got["peak_time_ns"])


@case
def heaptrack_functions_are_heaptracks():
    """Leaves and what they leave at the peak, by the tool's own list of merged stacks."""
    path = heaptrack_file()
    out = folder / "peak.txt"
    result = run(["heaptrack_print", "-f", path, "-F", out, "--flamegraph-cost-type", "peak"])
    check(os.path.exists(out), result)
    expected = {}
    for line in read(out).decode().splitlines():
        stack, cost = line.rsplit(" ", 1)
        leaf = stack.rstrip("; ").split(";")[-1]
        expected[leaf] = expected.get(leaf, 0) + int(cost)
    got = self_bytes(path)
    known = [name for name in expected if not name.startswith(("<", "0x")) and name in got]
    check(len(known) >= 3, expected, got)
    for name in known:
        same(got[name], expected[name], name)


@case
def heaptrack_packed_in_any_way():
    text = heaptrack_text()
    plain, gz = write("plain.heaptrack", text), write("jq.gz", gzip.compress(text, 1))
    wanted = facts(heaptrack_file())
    for path in (plain, gz):
        got = facts(path)
        for key in ("samples", "frees", "peak", "live_at_end", "stacks", "frames_symbolized"):
            same(got[key], wanted[key], "%s of %s" % (key, path))


@case
def heaptrack_cut_off():
    wanted = facts(heaptrack_file())
    packed = gzip.compress(heaptrack_text(), 1)
    for whole, share in ((packed, 0.3), (packed, 0.9), (read(heaptrack_file()), 0.99)):
        path = write("cut.heaptrack", whole[:int(len(whole) * share)])
        said = mayfly("info", "--json", path, lines=1)
        check("cut off" in said.message, said.message)
        got = json.loads(said.text)
        check(0 < got["samples"] < wanted["samples"] and not got["complete"], got["samples"])
    text = heaptrack_text().decode().splitlines()
    middle = len(text) // 2
    text[middle] = "+ zzz"
    path = write("damaged.heaptrack", "\n".join(text))
    said = mayfly("info", "--json", path, lines=1)
    check("line %d;" % (middle + 1) in said.message, said.message)
    same(json.loads(said.text)["samples"],
         profiles.heaptrack_facts("\n".join(text[:middle]))["allocs"], "allocations before it")


@case
def every_command_reads_heaptrack():
    path = heaptrack_file()
    trace = folder / "jq.mayfly"
    mayfly("import", "-o", trace, path)
    for arguments in (["report"], ["report", "--json"], ["report", "--by", "stack", "--top", "3"],
                      ["report", "--metric", "temporary"], ["report", "--by", "lifetime"],
                      ["report", "--series", "5"], ["dump"], ["report", "--at", "100ms"]):
        same(mayfly(*arguments, path).text, mayfly(*arguments, trace).text, arguments)
    same(mayfly("export", "--to", "memtrace", "-o", "-", path).out,
         mayfly("export", "--to", "memtrace", "-o", "-", trace).out, "memtrace")


# ---- text ----

def environment_of(preload, **more):
    libraries = glob.glob("/usr/lib/x86_64-linux-gnu/" + preload)
    if not libraries:
        raise Skip(preload + " is not installed")
    return environment(LD_PRELOAD=libraries[0], **more)


LEAKY = """#include <stdlib.h>
void *keep(size_t n) { return malloc(n); }
void drop(size_t n) { free(calloc(1, n)); }
void *kept[30000];
int main(void) {
	for (int i = 0; i < 30000; i++) {
		kept[i] = keep(16 + i % 200);
		if (i % 3)
			drop(1000 + i % 77);
	}
}
"""


def leaky():
    path = folder / "leaky"
    if not os.path.exists(path):
        need("gcc")
        source = write("leaky.c", LEAKY)
        same(run(["gcc", "-g", "-O0", "-fno-builtin", "-o", path, source]).code, 0, "gcc")
    return path


def heap_of(name, env):
    result = run([leaky()], env=env, cwd=folder.path)
    same(result.code, 0, "leaky %r" % result)
    found = folder.files(name + ".*heap")
    if not found:
        raise Skip("this allocator was built without its profiler")
    return found[-1]


def jemalloc_file(accum):
    name = "je-" + accum
    return heap_of(name, environment_of(
        "libjemalloc.so.2", MALLOC_CONF="prof:true,prof_final:true,lg_prof_sample:12,"
        "prof_prefix:%s,prof_accum:%s" % (name, accum)))


def tcmalloc_file():
    return heap_of("tc", environment_of("libtcmalloc.so.4", HEAPPROFILE="tc"))


def same_as_text_of(tool, path, metric, option):
    """The list of `tool --text`: what each function allocated itself."""
    need(tool)
    result = run([tool, "--text", "--show_bytes", "--nodecount=1000", "--nodefraction=0",
                  "--edgefraction=0", option, leaky(), path], env=environment(HOME=folder.path))
    same(result.code, 0, tool + " %r" % result)
    total = int(re.search(rb"Total: (\d+) B", result.out).group(1))
    got = json.loads(mayfly("report", "--json", "--frames=all", "--by", "function", "--metric",
                            metric, path).text)
    mine = got["total"]["bytes"]["estimate"]
    check(abs(mine - total) <= 1 + 0.001 * total, tool, total, "mayfly", mine)
    listed = {}
    for flat, name in re.findall(rb"^ *(\d+) +[\d.]+% +[\d.]+% +\d+ +[\d.]+% (.*)$", result.out, re.M):
        listed[name.decode()] = int(flat)
    rows = self_bytes(path, "--metric", metric)
    known = [name for name, flat in listed.items() if flat > total / 100 and name in rows]
    check("keep" in known and (metric == "live" or "drop" in known), listed, rows)
    for name in known:
        check(abs(rows[name] - listed[name]) <= 1 + 0.001 * listed[name], name, rows[name],
              listed[name])


@case
def jemalloc_figures_are_jeprofs():
    path = jemalloc_file("true")
    same_as_text_of("jeprof", path, "live", "--inuse_space")
    # Freed blocks are weighted by themselves, not with the live ones of their stack.
    same_as_text_of("jeprof", path, "allocated", "--alloc_space")
    got = facts(path)
    rows = profiles.text_rows(read(path).decode())
    same(got["samples"], sum(row[2] for row in rows), "samples")
    same(got["frees"], sum(row[2] - row[0] for row in rows), "frees")
    weights = sum(row[1] / -math.expm1(-row[1] / row[0] / 4096) for row in rows if row[0])
    check(abs(got["live_at_end"]["bytes"]["estimate"] - weights) <= 1, got["live_at_end"], weights)
    check(got["allocated"]["bytes"]["stderr"] > 0, "no error bars")
    same(got["mode"], "sampled", "mode")
    same(got["interval_bytes"], 4096, "interval")


@case
def jemalloc_without_totals():
    path = jemalloc_file("false")
    got = facts(path)
    for key in ("allocated", "peak", "temporary", "duration_ns", "threads", "pid", "command",
                "start_time", "dropped_samples"):
        same(got[key], None, key)
    check(set(("times", "peak", "allocated")) <= set(got["absent"]), got["absent"])
    for option, value, said in (("--metric", "allocated", "allocated and freed"),
                                ("--metric", "peak", "the peak"), ("--by", "thread", "threads"),
                                ("--by", "size", "sizes"), ("--min-lifetime", "1s", "lifetimes"),
                                ("--from", "1s", "times"), ("--series", "3", "times")):
        result = mayfly("report", option, value, path, code=1, lines=1)
        check(said in result.message and path in result.message, result.message)
        same(result.out, b"", "standard output")
    text = mayfly("report", path).text
    check("Live by function" in text and "peak" not in text.split("Unknown")[0].lower(), text)


@case
def gperftools_figures_are_google_pprofs():
    path = tcmalloc_file()
    same_as_text_of("google-pprof", path, "allocated", "--alloc_space")
    same_as_text_of("google-pprof", path, "live", "--inuse_space")
    got = facts(path)
    rows = profiles.text_rows(read(path).decode())
    same(got["allocated"]["bytes"]["estimate"], sum(row[3] for row in rows), "allocated")
    same(got["allocated"]["blocks"]["estimate"], sum(row[2] for row in rows), "blocks")
    same(got["mode"], "exact", "mode")
    same(got["allocated"]["bytes"]["stderr"], 0, "every block was counted")


@case
def text_cut_off():
    whole = profiles.GPERFTOOLS
    for cut in (whole[:whole.index("MAPPED")], whole.replace("0x403001", "0x40300x")):
        path = write("cut.heap", cut)
        said = mayfly("info", "--json", path, lines=1 if "MAPPED" not in cut else 2)
        check("damaged" in said.message, said.message)
        same(json.loads(said.text)["complete"], False, "complete")


# ---- pprof ----

def go_files():
    """A Go program's profile in both of its forms."""
    need("go")
    path = folder / "go.pb.gz"
    if os.path.exists(path):
        return path, path + ".txt"
    write("go.mod", "module m\n")
    source = write("main.go", """package main
import ("os"; "runtime"; "runtime/pprof")
type node struct { next *node; bytes [100]byte }
var kept []*node
var some = map[int][]byte{}
func grow(n int) { for i := 0; i < n; i++ { kept = append(kept, &node{}) } }
func churn(n int) { for i := 0; i < n; i++ { some[i%50] = make([]byte, 1000+i%100) } }
func main() {
	grow(100000); churn(200000); runtime.GC()
	f, _ := os.Create(os.Args[1]); pprof.WriteHeapProfile(f); f.Close()
	f, _ = os.Create(os.Args[1] + ".txt"); pprof.Lookup("heap").WriteTo(f, 1); f.Close()
}
""")
    env = environment(HOME=folder.path, GOPROXY="off", GOFLAGS="-mod=mod")
    result = run(["go", "build", "-o", folder / "program", source], env=env, cwd=folder.path)
    same(result.code, 0, "go build %r" % result)
    same(run([folder / "program", path]).code, 0, "the program")
    return path, path + ".txt"


def top_of(path, index):
    """go tool pprof -top: bytes of each function itself, and in all."""
    result = run(["go", "tool", "pprof", "-top", "-unit=B", "-nodecount=1000", "-nodefraction=0",
                  "-sample_index=" + index, path], env=environment(HOME=folder.path))
    same(result.code, 0, "go tool pprof %r" % result)
    rows = {}
    for flat, name in re.findall(rb"^ *(\d+)B? +[\d.]+% +[\d.]+% +\d+B? +[\d.]+%  (.*)$", result.out,
                                 re.M):
        name = name.decode().replace(" (inline)", "").replace(" (partial-inline)", "")
        rows[name] = rows.get(name, 0) + int(flat)
    return rows


@case
def pprof_figures_are_gos():
    path, text = go_files()
    for metric, index in (("allocated", "alloc_space"), ("live", "inuse_space")):
        expected = {name: flat for name, flat in top_of(path, index).items() if flat}
        got = {name: flat for name, flat in self_bytes(path, "--metric", metric).items() if flat}
        same(got, expected, index)
        # As text it is plain counts of samples: the same estimates, to what Go rounds off.
        for name, flat in self_bytes(text, "--metric", metric).items():
            check(abs(flat - expected.get(name, 0)) <= 1 + 1e-3 * flat, name, flat, expected)
    got = facts(path)
    same(got["interval_bytes"], 524288, "interval")
    same(got["allocated"]["bytes"]["stderr"], None, "stderr")
    same(got["allocated"]["samples"], None, "samples")
    check("errors" in got["absent"] and "errors" not in facts(text)["absent"], got["absent"])
    check(facts(text)["allocated"]["bytes"]["stderr"] > 0, "no error bars")


@case
def pprof_by_hand():
    raw = profiles.small_pprof()
    for path in (write("small.pb", raw), write("small.pb.gz", gzip.compress(raw))):
        got = facts(path)
        same(got["allocated"]["bytes"]["estimate"], 1050, "allocated")
        same(got["live_at_end"]["blocks"]["estimate"], 4, "live")
        same(got["start_time"], "2023-11-14T22:13:20.000Z", "time")
        check("comment made" in got["note"], got["note"])
        rows = report(path, "--by", "stack", "--metric", "allocated", "--frames=all")["rows"]
        same([(p["function"], p["line"], p["inlined"]) for p in rows[0]["stack"]],
             [("inner", 20, True), ("outer", 21, False), ("main", 9, False)], "stack")


@case
def names_of_go_and_javascript_are_whole():
    """Receivers and (anonymous) in the first sentence, in rows that do not fit, and in the flame graph."""
    push = "github.com/acme/warehouse-service/internal/of-a-long-name/encoding.(*%s).Push"
    names = [push % "Reader", push % "Writer", "(anonymous)"]
    def made(bytes_of):
        return write("go.pb", profiles.pprof(profiles.HEAP_TYPES, [
            ([[(name, "codec.go", 5)]], [10, bytes_of(name), 10, bytes_of(name)]) for name in names]))

    for most in names:
        first = mayfly("report", made(lambda name: 9000 if name == most else 1000)).text.split("\n\n")[0]
        check(most in " ".join(first.split()), most, first)
    path = made(lambda name: 1000)
    rows = mayfly("report", path).text
    check(all(rest in rows for rest in ("(*Reader).Push", "(*Writer).Push", "(anonymous)")), rows)
    graph = mayfly("export", "--to", "flamegraph", "-o", "-", path).text
    check("().Push" not in graph and "(*Reader).Push" in graph, graph)


@case
def pprof_leaves_out_what_it_says():
    def place(name):
        return [(name, "f.c", 1)]
    stacks = [([place("deep"), place("my_alloc"), place("caller"), place("main")], [1, 8, 1, 8]),
              ([place("my_other"), place("main")], [2, 32, 2, 32])]
    path = write("drop.pb", profiles.pprof(profiles.HEAP_TYPES, stacks, drop="my_alloc|my_x.*"))
    same(self_bytes(path), {"caller": 8, "my_other": 32, "main": 0}, "functions")


def little_memory():
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))


@case
def pprof_with_hostile_expressions():
    """They are not followed, which one line says, in little memory and at once; what is large takes time in
    proportion to the names."""
    stacks = [([[("deep" + "a" * 3000, "f.c", 1)], [("main", "f.c", 1)]], [1, 8, 1, 8])]
    for drop, why in (("((a{1,255}){1,255}){1,255}", "too large"), ("(" * 5000, "nested"), ("(a)\\1", "back-references"),
                      ("(x+x+)+y|(a*)*b|.*(a|aa)*c", None), ("[", "no ]")):
        path = write("hostile.pb", profiles.pprof(profiles.HEAP_TYPES, stacks, drop=drop))
        result = run([MAYFLY, "report", "--json", path], preexec_fn=little_memory)
        same(result.code, 0, repr(result))
        if why:
            check(result.err.count(b"\n") == 1 and b"drop_frames" in result.err and why.encode() in result.err, result)
        else:
            same(result.err, b"", "messages")


@case
def pprof_difference():
    """A stack of less than nothing is no part of a trace, which then says what its sums should be. What was
    allocated where less is live than before is."""
    def stack(name, *values):
        return [[(name, "f.c", 1)]], [value % (1 << 64) for value in values]
    path = write("delta.pb", profiles.pprof(profiles.HEAP_TYPES, [
        stack("more", 5, 757, 4, 600), stack("less", -1, -47, -1, -40), stack("freed", 2, 30, -2, -30)]))
    done = run([MAYFLY, "info", "--json", path])
    same((done.code, done.err.count(b"\n")), (0, 1), done)
    words = "2 stacks with negative values: it is a difference of two profiles, whose live bytes are 530 instead of " \
        "600, whose allocated bytes are 740 instead of 787"
    check(words in done.err.decode(), done.err)
    got = json.loads(done.out)
    check("; left out " + words in got["note"], got["note"])
    same([got[name]["bytes"]["estimate"] for name in ("allocated", "live_at_end")], [787, 600])
    same(words in run([MAYFLY, "report", path]).out.decode().replace("\n             ", " "), True, "the report")


@case
def pprof_of_something_else():
    path = write("cpu.pb", profiles.pprof([("samples", "count"), ("cpu", "nanoseconds")],
                                          [([[("f", "f.c", 1)]], [1, 2])]))
    result = mayfly("report", path, code=1, lines=1)
    check("not a heap profile" in result.message and "samples, cpu" in result.message,
          result.message)
    path = write("space.pb", profiles.pprof([("inuse_space", "bytes")], [([[("f", "f.c", 1)]], [7])]))
    got = facts(path)
    same(got["live_at_end"]["blocks"], None, "blocks")
    same(got["live_at_end"]["bytes"]["estimate"], 7, "bytes")
    check("block" not in mayfly("report", path).text.split("Unknown")[0], mayfly("report", path).text)


# ---- all of them ----

def all_files():
    return {"heaptrack": write("a.heaptrack", profiles.HEAPTRACK),
            "heaptrack 0": write("b.heaptrack", profiles.HEAPTRACK_0),
            "jemalloc": write("a.heap", profiles.JEMALLOC),
            "gperftools": write("b.heap", profiles.GPERFTOOLS), "go": write("go.heap", profiles.GO),
            "pprof": write("a.pb.gz", gzip.compress(profiles.small_pprof())),
            "dhat": write("a.dhat", profiles.DHAT_RUST), "massif": write("a.massif", profiles.MASSIF),
            "folded": write("a.folded", profiles.FOLDED), "v8": write("a.heapprofile", profiles.V8),
            "perfetto": write("a.pftrace", profiles.small_perfetto())}


@cases(["eventlog", "memtrace", "runtime events", *sorted(all_files())])
def without_memory(name):
    """Whichever allocation fails: a trace, or the error that says so."""
    beside = []
    if name == "eventlog":
        path, beside = write("eventlog", profiles.small_eventlog()), [write("metadata", profiles.EVENTLOG_METADATA)]
    elif name == "memtrace":
        path = folder / "a.ctf"
        same(run([os.path.join(BUILD, "tests/memtrace_tool"), "make", path]).code, 0, "made")
    elif name == "runtime events":
        path = write("a.events", profiles.small_runtime_events())
    else:
        path = all_files()[name]
    result = run([os.path.join(BUILD, "tests/no_memory"), path, *beside])
    check(result.code == 0 and b"times" in result.out, result)


@cases(sorted(all_files()))
def import_makes_the_trace_that_commands_make(name):
    path = all_files()[name]
    said = 1 if name in ("heaptrack 0", "perfetto") else 0
    mayfly("import", "--force", path, lines=said)
    trace = path + ".mayfly"
    direct, imported = facts(path, lines=said), facts(trace)
    for key in set(direct) - {"file_bytes", "converted_from"}:
        same(imported[key], direct[key], key)
    check(imported["absent"], "nothing is absent")
    for arguments in (["report"], ["report", "--json"], ["info"], ["dump"],
                      ["report", "--by", "module"], ["report", "--by", "line", "--all"]):
        mayfly(*arguments, trace)
    same(read(trace), mayfly("import", "-o", "-", path, lines=said).out, "to standard output")
    mayfly("import", path, code=1, lines=1)  # not without --force
    same(mayfly("report", "-", stdin=read(path), lines=said).out, mayfly("report", trace).out,
         "from standard input")


@cases(["jemalloc", "gperftools", "go", "pprof"])
def exports_give_back_what_came_in(name):
    path = all_files()[name]
    for metric in ("live", "allocated"):
        wanted = json.loads(mayfly("report", "--json", "--metric", metric, "--by", "module",
                                   path).text)["total"]
        for to, out in (("pprof", "back.pb.gz"), ("heap_v2", "back.heap")):
            mayfly("export", "--force", "--to", to, "-o", folder / out, path)
            got = json.loads(mayfly("report", "--json", "--metric", metric, "--by", "module",
                                    folder / out).text)["total"]
            for unit in ("bytes", "blocks"):
                check(abs(got[unit]["estimate"] - wanted[unit]["estimate"]) <= 2, to, metric, got,
                      wanted)
    for to in ("folded", "speedscope", "flamegraph", "csv"):
        mayfly("export", "--force", "--to", to, "-o", folder / "out", path)
        check(os.path.getsize(folder / "out") > 100 or to == "folded", to)


@case
def exports_of_one_column():
    """What is not known is no column of zeros."""
    text = re.sub(r"\[.*?\]", "[0: 0]", profiles.JEMALLOC)
    path = write("live.heap", text)
    mayfly("export", "--to", "pprof", "-o", folder / "one.pb.gz", path)
    raw = gzip.decompress(read(folder / "one.pb.gz"))
    check(b"inuse_space" in raw and b"alloc_space" not in raw, raw[:200])
    same(facts(folder / "one.pb.gz")["allocated"], None, "allocated")
    mayfly("export", "--to", "speedscope", "-o", folder / "one.json", path)
    same([p["name"] for p in json.loads(read(folder / "one.json"))["profiles"]],
         ["live: bytes", "live: blocks"], "profiles")
    result = mayfly("export", "--to", "folded", "--metric", "allocated", "-o", folder / "no", path,
                    code=1, lines=1)
    check("allocated and freed" in result.message, result.message)
    check(not os.path.exists(folder / "no"), "a file was left behind")


@case
def profiles_can_be_compared():
    before = write("before.heap", profiles.JEMALLOC)
    after = write("after.heap", profiles.JEMALLOC.replace("10: 700 [17: 10000]",
                                                          "1000: 70000 [1007: 79300]")
                  .replace("13: 40700 [20: 50000]", "1003: 110000 [1010: 119300]"))
    text = mayfly("diff", before, after).text
    check("Change of live" in text and "significant" in text and "Peak" not in text, text)
    got = json.loads(mayfly("diff", "--json", before, after).text)
    same(got["metric"], "live", "metric")
    same(got["summary"]["peak"], None, "peak")
    result = mayfly("diff", "--metric", "peak", before, after, code=1, lines=1)
    check("before.heap" in result.message and "the peak" in result.message, result.message)
    leaks = json.loads(mayfly("leaks", "--json", after).text)
    check(leaks["total"]["samples"] == 1003 and leaks["rows"], leaks)


@case
def shared_nodes_cost_once():
    """Many deep stacks that share nearly all of their nodes are a small tree."""
    common = list(range(1, 1001))
    types = b"".join(profiles.field(1, profiles.field(1, n) + profiles.field(2, n + 2))
                     for n in (1, 2))
    rows = b"".join(
        profiles.field(2, profiles.field(1, [1001 + n] + common) + profiles.field(2, [1, 10]))
        for n in range(4000))
    places = b"".join(profiles.field(4, profiles.field(1, n) + profiles.field(3, 4096 * n))
                      for n in range(1, 5001))
    names = ("", "inuse_objects", "inuse_space", "count", "bytes")
    raw = types + rows + places + b"".join(profiles.field(6, n.encode()) for n in names)
    path = write("deep.pb.gz", gzip.compress(raw, 9))
    check(os.path.getsize(path) < 1 << 20, "the input is small", os.path.getsize(path))
    got = json.loads(mayfly("report", "--json", "--metric", "live", path).text)["total"]
    same(got["bytes"]["estimate"], 40000, "bytes")
    same(facts(path)["stacks"], 4000, "stacks")


@case
def views_say_what_is_missing():
    """A converted profile is called neither a trace of --snapshots nor a program that had ended."""
    path = write("views.pb", profiles.small_pprof())
    for view, lack in ((["--churn"], "times"), (["--histogram", "size"], "sizes"),
                       (["--histogram", "lifetime"], "lifetimes"), (["--reallocs"], "sizes"),
                       (["--series", "3"], "times"), (["--survival"], "single blocks")):
        result = mayfly("report", *view, path, code=1, lines=1)
        check("does not have " + lack in result.message and view[0] in result.message
              and "--snapshots" not in result.message, view, result.message)
    for to, lack in (("chrome", "times"), ("massif", "times"), ("ctf", "single blocks"),
                     ("memtrace", "single blocks")):
        result = mayfly("export", "--to", to, "-o", folder / "lacking", path, code=1, lines=1)
        check("does not have " + lack in result.message, to, result.message)
    cut = write("cut.pb", profiles.small_pprof()[:60])
    result = mayfly("report", cut, code=1, lines=1)
    check("cut off" in result.message and "not a heap profile" not in result.message,
          result.message)


@case
def devices_without_end():
    """Only the beginning of what is no trace is read."""
    for device in ("/dev/zero", "/dev/urandom"):
        result = run(["/bin/sh", "-c", "ulimit -v 600000; exec \"$@\"", "sh", MAYFLY, "report",
                      device])
        same(result.code, 1, "exit status %r" % result)
        check(b"not a mayfly trace" in result.err, result)


@case
def differences_nobody_can_judge():
    """A side without errors makes the change's error, and its p, unknown."""
    blind, sure = write("blind.pb", profiles.small_pprof()), write("sure.heap", profiles.JEMALLOC)
    for pair, said in (((blind, sure), "before does not"), ((sure, blind), "after does not"),
                       ((blind, blind), "Neither file")):
        total = json.loads(mayfly("diff", "--json", *pair).text)["total"]
        check(total["verdict"] in ("unknown", "same"), total)
        for key in ("stderr", "low", "high", "p", "adjusted_p"):
            same(total["bytes"][key], None, key)
        text = mayfly("diff", "--all", *pair).text
        check(said in text and "significant" not in text, said, text)


@case
def unpacking_has_an_end():
    """A file that becomes GB of text or of tables: refused, and little memory is used."""
    bomb = gzip.compress(profiles.HEAPTRACK.encode() + b"t 1 0\n" * 5000000, 6)
    path = write("bomb.gz", bomb)
    limited = ["/bin/sh", "-c", "ulimit -v 1500000; exec \"$@\"", "sh", MAYFLY, "info", path]
    result = run(limited)
    same(result.code, 1, "exit status %r" % result)
    same(result.err.count(b"\n"), 1, "lines on standard error %r" % result)
    check(b"larger than" in result.err, result)
    path = write("bomb.pb.gz", gzip.compress(profiles.small_pprof() + b"\0" * (1 << 28), 6))
    result = run(limited[:-1] + [path])
    check(result.code == 1 and result.err.count(b"\n") == 1, result)


if __name__ == "__main__":
    main()
