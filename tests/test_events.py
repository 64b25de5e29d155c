#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Events of a program (mayfly/mayfly.h): what it emits is in the trace, as it emitted it; without
an agent it behaves the same, however it is linked; nothing that it does meanwhile goes wrong."""
import json
import os
import re
import struct
import subprocess

from harness import (CLANG, AGENT, Folder, MAYFLY, PROGRAMS, SOURCE, Skip, as_json, case, cases, check,
                     environment, info, main, mayfly, need, record, report, run, same, unchanged)

EVENTS = os.path.join(PROGRAMS, "events")
CXX = os.path.join(PROGRAMS, "events_cxx")
PLUGIN = os.path.join(PROGRAMS, "events_plugin.so")
READER = os.path.join(PROGRAMS, "read_events")
MODES = {"sampled": ["-i", "4096"], "exact": ["-x"]}
C = ["-std=c11", "-D_GNU_SOURCE", "-x", "c"]
COMPILERS = {"gcc": ["gcc", *C], "clang": [CLANG, *C], "g++": ["g++", "-std=c++11", "-x", "c++"],
             "clang++": [CLANG, "-std=c++11", "-x", "c++"]}


def built(path):
    if not os.path.exists(path):
        raise Skip(os.path.basename(path) + " was not built")
    return path


def dump(trace):
    """The blocks and track events of a trace; those of mayfly's own types are left out."""
    lines = run([MAYFLY, "dump", "--json", trace])
    same(lines.code, 0, "exit status of dump (%r)" % lines)
    found = [json.loads(line) for line in lines.out.splitlines()]
    return [e for e in found if not e.get("category")]


def tracks(trace):
    return [e for e in dump(trace) if "name" in e]


def blocks(trace):
    return [e for e in dump(trace) if e["event"] == "alloc"]


def shown(event):
    return " ".join([event["event"], event["name"]] +
                    ["%g" % v if isinstance(v, float) else str(v) for v in event["values"].values()])


# ---- the headers, the program ----

@cases(COMPILERS)
def headers_together(name):
    """Both headers in either order, and a program that uses all of mayfly.h, without a warning."""
    compiler = COMPILERS[name]
    need(compiler[0])
    strict = compiler[:1] + ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wundef", "-Wconversion",
                             "-Werror", "-fsyntax-only", "-I" + os.path.join(SOURCE, "include")] + compiler[1:]
    if "c++" in compiler:
        strict[1:1] = ["-Wold-style-cast", "-Wsign-conversion", "-Wcast-qual", "-Wdouble-promotion",
                       "-Wzero-as-null-pointer-constant"]
    both = ["#include <mayfly/mayfly.h>\n", "#include <mayfly/trace.h>\n"]
    use = "MAYFLY_COUNTER(length, \"length\", \"\");\n" \
        "void set(const struct mayfly_counter *of);\n" \
        "void set(const struct mayfly_counter *of) { mayfly_counter(&length, of ? 1 : 0); }\n"
    for order in (both, both[::-1]):
        done = run(strict + ["-"], stdin="".join(order + [use]).encode())
        same((done.code, done.out, done.err), (0, b"", b""), "compiling")
    loose = ("-Wconversion", "-Wsign-conversion", "-Wold-style-cast", "-Wcast-qual",
             "-Wdouble-promotion", "-Wzero-as-null-pointer-constant")
    done = run([a for a in strict if a not in loose] +
               [os.path.join(SOURCE, "tests", "programs", "events.c")])
    same((done.code, done.out, done.err), (0, b"", b""), "compiling")
    if "-std=c++11" in compiler:
        done = run(strict + [os.path.join(SOURCE, "tests", "programs", "events_cxx.cc")])
        same((done.code, done.out, done.err), (0, b"", b""), "compiling")


@cases(["events_no_pie", "events_no_plt", "events_static"])
def however_linked(name):
    """Each kind of executable says the same, and all but the static one find the agent."""
    with Folder() as here:
        plain, other = run([EVENTS, "all"]), run([built(os.path.join(PROGRAMS, name)), "all"])
        same((other.out, other.err, other.code), (plain.out, plain.err, plain.code), name)
        if name == "events_static":
            return
        record([os.path.join(PROGRAMS, name), "all"], here / "t.mayfly", "-x")
        record([EVENTS, "all"], here / "plain.mayfly", "-x")
        same([shown(e) for e in tracks(here / "t.mayfly")],
             [shown(e) for e in tracks(here / "plain.mayfly")], "events")


@cases(["all", "fork", "exit", "sandbox", "random 4 20000 1", "plugin " + PLUGIN, "pool 0"])
def program_is_unchanged(how):
    for mode in MODES.values():
        with Folder() as here:
            unchanged([EVENTS, *how.split()], here / "t.mayfly", *mode)


@case
def all_of_it():
    """One of everything, with the values that it was given, blocks with their labels and heaps."""
    with Folder() as here:
        record([EVENTS, "all"], here / "t.mayfly", "-x")
        same([shown(e) for e in tracks(here / "t.mayfly")], [
            "instant early", "begin whole", "begin part first 1", "instant nothing",
            "instant numbers -1 2 3.5 4", "instant numbers 5 6 0.25 8",
            "instant numbers %d 0 7 0" % (2 ** 63 - 1), "instant numbers 0 9 0 0",
            "end part", "begin part array -1", "end part", "begin part  1", "end part",
            "begin part  0", "end part", "count length -3", "count length 4", "count load 50",
            "count load 12.5", "end whole", "instant leaving fini"], "events")
        pools = [e for e in blocks(here / "t.mayfly") if e["heap"].startswith("pool")]
        search = {"key": "request", "value": "search"}
        user = {"key": "user", "value": "somebody"}
        same([(e["heap"], e["size"], e["labels"]) for e in pools], [
            ("pool", 2000, [search, user, {"key": "pool", "value": "inside"}]),
            ("pool-mapped", 64, [search, user, {"key": "pool", "value": "outside"}]),
            ("pool", 3000, [search, {"key": "pool", "value": "inside"}])], "blocks of pools")
        for e in pools:
            same(e["stack"][-1].split(";")[-1], "emit_all", "who allocated")
        freed = [e["size"] for e in dump(here / "t.mayfly")
                 if e["event"] == "free" and e["heap"].startswith("pool")]
        same(sorted(freed), [64, 2000, 3000], "freed")


@case
def spans_of_cxx():
    """They end when an exception goes through them."""
    with Folder() as here:
        unchanged([built(CXX)], here / "t.mayfly", "-x")
        same([shown(e) for e in tracks(here / "t.mayfly")], [
            "begin outer a string 8", "begin in template 3", "count depth 3", "begin in template 2",
            "count depth 2", "begin in template 1", "count depth 1", "begin inner 3 0.5 7",
            "end inner", "end in template", "end in template", "end in template", "end outer",
            "instant thrown a string"], "events")
        labels = [[(x["key"], x["value"]) for x in e["labels"]]
                  for e in blocks(here / "t.mayfly") if 101 <= e["size"] <= 103]
        same(labels, [[("language", "C++"), ("depth", "3")],
                      [("language", "C++"), ("depth", "3"), ("depth", "2")],
                      [("language", "C++"), ("depth", "3"), ("depth", "2"), ("depth", "1")]], "labels")


# ---- nothing is lost, nothing is in the wrong place ----

@cases(["exact 8 1000000", "exact 3 50000", "sampled 8 50000"])
def random_events_come_back(how):
    """Threads that emit at once: each one's events, values, labels and blocks, in its order."""
    mode, threads, count = how.split()
    with Folder() as here:
        done = record([EVENTS, "random", threads, count, "42"], here / "t.mayfly", *MODES[mode])
        same(done.code, 0, "exit status (%r)" % done)
        done = run([READER, here / "t.mayfly", threads, count, "42"])
        same((done.out.decode(), done.err), ("%s threads, %s events each\n" % (threads, count), b""),
             "read back")
        same(info(here / "t.mayfly")["dropped_events"], 0, "dropped")


@case
def what_has_no_room_is_counted():
    """A spool that may not grow, and nobody who reads it meanwhile."""
    with Folder() as here:
        done = run([EVENTS, "random", "2", "20000", "1"], env=environment(
            LD_PRELOAD=AGENT, MAYFLY="output=%s,max_spool=256K" % (here / "s.spool")))
        same(done.code, 0, "exit status (%r)" % done)
        facts = as_json("info", "--json", here / "s.spool")
        emitted = 0
        with Folder() as other:
            record([EVENTS, "random", "2", "20000", "1"], other / "t.mayfly")
            emitted = len(tracks(other / "t.mayfly"))
        check(facts["dropped_events"] > 1000, "only", facts["dropped_events"], "were dropped")
        same(len(tracks(here / "s.spool")) + facts["dropped_events"], emitted, "recorded and dropped")


@cases(MODES)
def signal_handlers(mode):
    """A handler's events are recorded or counted as dropped; those of the thread itself are all
    there, in order, and its labels stay its own."""
    with Folder() as here:
        done = record([EVENTS, "signals", "30"], here / "t.mayfly", *MODES[mode])
        number, handled = [int(n) for n in done.err.split()[:2]]
        found = tracks(here / "t.mayfly")
        numbers = [e["values"]["number"] for e in found if e["name"] == "in main"]
        same(numbers, list(range(number)), "the thread's own")
        own = sum(e["name"] in ("handling", "in handler") for e in found)
        same(own + info(here / "t.mayfly")["dropped_events"], 3 * handled, "the handler's")
        for e in blocks(here / "t.mayfly"):
            if 100 <= e["size"] < 200:
                same(e["labels"], [{"key": "in", "value": "main"}], "labels")


# ---- a life with children, plugins, sandboxes ----

@case
def forked_children():
    """A child that is followed has its own events, of types that the parent has used already."""
    with Folder() as here:
        done = record([EVENTS, "fork"], here / "t.mayfly", "-x", "--follow")
        same(done.code, 0, "exit status (%r)" % done)
        same([shown(e) for e in tracks(here / "t.mayfly")],
             ["instant early", "instant in parent", "instant in parent", "instant leaving fini"], "parent")
        child = [f for f in here.files("t.*.mayfly")]
        same(len(child), 1, "traces of children")
        same([shown(e) for e in tracks(child[0])], ["instant in child forked", "instant in parent"], "child")
        same([e["labels"] for e in blocks(child[0]) if e["size"] == 3 << 20],
             [[{"key": "who", "value": "parent"}]], "the child's block")


@case
def children_that_are_not_followed():
    with Folder() as here:
        record([EVENTS, "fork"], here / "t.mayfly", "-x")
        same([shown(e) for e in tracks(here / "t.mayfly")],
             ["instant early", "instant in parent", "instant in parent", "instant leaving fini"], "parent")


@case
def plugins():
    """Its types and labels outlive it, and are the same ones when it is opened again."""
    with Folder() as here:
        record([EVENTS, "plugin", built(PLUGIN)], here / "t.mayfly", "-x")
        same([shown(e) for e in tracks(here / "t.mayfly")],
             ["instant early"] + [x for i in (0, 1) for x in
                                  ("begin plugin work %d" % i, "instant plugin done", "end plugin work")] +
             ["instant nothing", "instant leaving fini"], "events")


@case
def heirs_of_writers():
    """A thread's labels end with it, also where the next one goes on in its packet."""
    with Folder() as here:
        record([EVENTS, "heirs"], here / "t.mayfly", "-x")
        left = [{"key": "left", "value": "behind"}]
        found = {e["size"]: e.get("labels", []) for e in blocks(here / "t.mayfly")}
        same([found[size] for size in range(6001, 6005)], [left, [], left, []], "labels")


@cases(MODES)
def ends_of_threads(mode):
    """Destructors of a thread that run after the agent's own, atexit(), destructors of the program."""
    with Folder() as here:
        record([EVENTS, "exit"], here / "t.mayfly", *MODES[mode])
        same([shown(e) for e in tracks(here / "t.mayfly")],
             ["instant early", "instant leaving thread"] + 3 * ["instant leaving destructor"] +
             ["instant leaving atexit", "instant leaving fini"], "events")


@cases(MODES)
def sandboxes(mode):
    """In a seccomp filter events go on. In strict mode there is no clock: the agent is off."""
    with Folder() as here:
        record([EVENTS, "sandbox"], here / "t.mayfly", *MODES[mode])
        same([shown(e) for e in tracks(here / "t.mayfly")],
             ["instant early", "instant nothing"] + 1000 * ["instant sandboxed"], "events")
        done = record([EVENTS, "strict"], here / "s.mayfly", *MODES[mode])
        same((done.code, done.out), (0, b"sandbox\n"), "strict mode (%r)" % done)
        same([shown(e) for e in tracks(here / "s.mayfly")], ["instant early", "instant nothing"], "events")
        check("clock" in info(here / "s.mayfly")["off_text"], "no reason is given")


@case
def dormant():
    """Nothing is recorded, nor counted as dropped, and mayfly_active() says so."""
    with Folder() as here:
        for setting, says in (("start=dormant", b"not active\n"), ("start=on", b"active\n")):
            spool = here / setting
            done = run([EVENTS, "quiet"], env=environment(
                LD_PRELOAD=AGENT, MAYFLY="output=%s,%s" % (spool, setting)))
            same((done.code, done.err), (0, says), setting)
            facts = as_json("info", "--json", spool)
            same((len(tracks(spool)), facts["dropped_events"]),
                 (0 if says.startswith(b"not") else 2, 0), setting)
        same(run([EVENTS, "quiet"]).err, b"not active\n", "without an agent")


@case
def dormant_meanwhile():
    """A span that ends while nothing is recorded does not stay open, and nobody calls that dropped."""
    with Folder() as here:
        spool = here / "s.spool"
        process = subprocess.Popen([EVENTS, "gate"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env=environment(LD_PRELOAD=AGENT, MAYFLY="output=" + spool))
        for enabled, where in ((0, b"inside\n"), (1, b"outside\n")):
            same(process.stdout.readline(), where, "gate")
            with open(spool, "r+b") as f:  # control_generation, control_enabled
                f.seek(192)
                generation, = struct.unpack("<I", f.read(4))
                f.seek(192)
                f.write(struct.pack("<II", generation + 1, enabled))
            process.stdin.write(b"\n")
            process.stdin.flush()
        process.stdin.close()
        same(process.wait(), 0, "exit status")
        process.stdout.close()
        spans, = as_json("report", "--json", "--spans", spool)["spans"]
        same((spans["name"], spans["count"], spans["open"]), ("part", 2, 0), "spans")
        same(as_json("info", "--json", spool)["dropped_events"], 0, "dropped events")


# ---- the example ----

@case
def example_server():
    """examples/server: one span, one flow and one label for each request, its counter, its pool."""
    with Folder() as here:
        done = unchanged([os.path.join(PROGRAMS, "server"), "--load", "2000"], here / "t.mayfly", "-x")
        said = dict(line.split() for line in done.out.decode().splitlines()[:5])
        everything = dump(here / "t.mayfly")
        found = [e for e in everything if "name" in e]
        requests = [e for e in found if (e["event"], e["name"]) == ("begin", "request")]
        same(sum("/" + kind == e["values"]["path"] for kind in said for e in requests),
             2000 - int(said["errors"]), "requests of a kind")
        same(sorted(e["values"]["request"] for e in requests), list(range(2000)), "flows that end")
        same(sorted(e["values"]["request"] for e in found if e["name"] == "accept"),
             list(range(2000)), "flows that begin")
        same(sum(e["name"] == "error" for e in found), int(said["errors"]), "errors")
        same(sum(e["name"] == "queue" for e in found), 4000, "values of the queue")
        uploads = [e for e in everything if e["event"] == "alloc" and e["stack"][-1].split(";")[-1] == "upload"]
        same(len(uploads), int(said["upload"]), "blocks of uploads")
        for e in uploads:
            same(e["labels"], [{"key": "request", "value": "upload"}], "labels")
        arena = [e["event"] for e in everything if e.get("heap") == "pool"]
        same(arena.count("free"), arena.count("alloc"), "blocks of arenas that ended")


# ---- pools ----

@cases(["0", "1"])
def estimates_of_pools(mapped):
    """Blocks of a pool are sampled as those of malloc are: the sums are right within their errors."""
    with Folder() as here:
        done = record([EVENTS, "pool", mapped], here / "t.mayfly", "-i", "32K")
        allocated, live = [int(n) for n in done.out.split()]
        heap = ["pool", "pool-mapped"][int(mapped)]
        for metric, expected in (("allocated", allocated), ("live", live)):
            found = report(here / "t.mayfly", "--metric", metric, "--heap", heap, "--by", "label:parity")
            total = found["total"]["bytes"]
            check(abs(total["estimate"] - expected) < 5 * total["stderr"],
                  metric, total, "of", expected)
            check(total["stderr"] < 0.02 * expected, "is not sure of it", total)
            rows = {row["label"]: row["self"]["bytes"]["estimate"] for row in found["rows"]}
            if metric == "live":
                same(list(rows), ["even"], "labels of what is live")
            else:
                same(sorted(rows), ["even", "odd"], "labels")
                check(all(abs(rows[k] / allocated - 0.5) < 0.05 for k in rows), rows)
        # Inside blocks of malloc, they do not count where all heaps are summed.
        whole = report(here / "t.mayfly", "--metric", "live")["total"]["bytes"]
        expected = live if mapped == "1" else 400000 * 1100
        check(abs(whole["estimate"] - expected) < 5 * whole["stderr"] + 100000, whole, expected)


if __name__ == "__main__":
    main()
