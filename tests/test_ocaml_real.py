#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""OCaml as people have it, under `mayfly record`: plugins, a build by dune, exec, the compiler's
trace as Memtrace's file event by event, totals that count each byte once, and the fates of blocks
against those read off the dump."""
import functools
import glob
import json
import math
import os
import re
import shutil
import subprocess
import tempfile

from harness import (Folder, MAYFLY, Skip, case, check, environment, info, main, need, record,
                     report, rows, run, same, sane, unchanged)
from ocaml_tools import ocaml_version

WORD = 8


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)


def compile_ocaml(here, *arguments):
    done = run(["ocamlfind", "ocamlopt", "-g", *arguments], cwd=here.path)
    same(done.code, 0, "ocamlfind ocamlopt %r" % done)


def inside(figure, value, what, slack=1.5):
    middle = figure["estimate"]
    low = middle - slack * (middle - figure["low"])
    high = middle + slack * (figure["high"] - middle)
    check(low <= value <= high, what, "is", value, "and not in", low, high)


# ---- programs ----

@case
def plugins():
    """What a .cmxs allocates has its functions and lines."""
    ocaml_version()
    with Folder() as here:
        write(here / "hook.ml", "let work : (int -> int list) ref = ref (fun _ -> [])\n")
        write(here / "plug.ml", "let rec build i = if i = 0 then [] else i :: build (i - 1)\n"
                                "let () = Hook.work := build\n")
        write(here / "host.ml", "let () = Dynlink.loadfile_private Sys.argv.(1);\n"
                                "  for _ = 1 to 20 do\n"
                                "    print_int (List.length (!Hook.work 20000))\n  done\n")
        compile_ocaml(here, "-package", "dynlink", "-linkpkg", "-linkall", "hook.ml", "host.ml",
                      "-o", "host.exe")
        compile_ocaml(here, "-shared", "plug.ml", "-o", "plug.cmxs")
        trace = here / "t.mayfly"
        unchanged([here / "host.exe", here / "plug.cmxs"], trace, "--ocaml=1e-3")
        sane(trace)
        found = rows(trace, "--heap", "ocaml", "--metric", "allocated", "--all")
        [build] = [row for name, row in found.items() if name.endswith("Plug.build")]
        inside(build["self"]["bytes"], 20 * 20000 * 3 * WORD, "the plugin's list")
        check(build["file"].endswith("plug.ml"), build)


@case
def exec_from_ocaml():
    ocaml_version()
    with Folder() as here:
        write(here / "twice.ml", "let rec build i = if i = 0 then [] else i :: build (i - 1)\n"
                                 "let () =\n"
                                 "  print_int (List.length (build 100000)); print_newline ();\n"
                                 "  if Array.length Sys.argv = 1 then\n"
                                 "    Unix.execv Sys.executable_name [| \"again\"; \"once\" |]\n"
                                 "  else exit 7\n")
        compile_ocaml(here, "-package", "unix", "-linkpkg", "twice.ml", "-o", "twice.exe")
        watched = unchanged([here / "twice.exe"], here / "t.mayfly", "--ocaml=1e-3", "--follow")
        same(watched.code, 7, "exit status")
        traces = sorted(glob.glob(here / "*.mayfly"))
        same(len(traces), 2, "traces: %r" % traces)
        for trace in traces:
            found = rows(trace, "--heap", "ocaml", "--metric", "allocated", "--all")
            [build] = [row for name, row in found.items() if name.endswith(".build")]
            inside(build["self"]["bytes"], 100000 * 3 * WORD, trace)


DUNE_FILES = {
    "dune-project": "(lang dune 2.9)\n",
    "dune": "(executable (name main) (libraries part))\n",
    "main.ml": "let () = print_endline (Part.greet \"dune\")\n",
    "lib/dune": "(library (name part))\n",
    "lib/part.ml": "let greet name = String.concat \" \" [ \"hello\"; name ]\n",
    "lib/part.mli": "val greet : string -> string\n",
}


@case
def dune_builds():
    """dune, and what it starts: all end as without us, and are recorded."""
    ocaml_version()
    need("dune")
    with Folder() as here:
        for name, text in DUNE_FILES.items():
            write(here / ("p/" + name), text)
        env = environment(DUNE_CACHE="disabled", HOME=here.path, XDG_CACHE_HOME=here / "cache")
        command = ["dune", "build", "--root", here / "p", "./main.exe"]
        os.makedirs(here / "t")
        done = record(command, here / "t/t.mayfly", "--follow", "--ocaml=1e-4", env=env)
        same(done.code, 0, "dune %r" % done)
        built = here / "p/_build/default/main.exe"
        same(run([built]).out, b"hello dune\n", "what it has built")
        traces = glob.glob(here / "t/*.mayfly")
        programs = {}
        for trace in traces:
            facts = info(trace)
            programs.setdefault(os.path.basename(facts["program"] or "?"), []).append(facts)
            check(facts["complete"], trace, facts)
        check("dune" in programs and any("ocamlopt" in name for name in programs),
              sorted(programs))
        for name, list_of in programs.items():
            if name == "dune" or re.match(r"ocaml(opt|dep|c)\.opt$", name):
                check(all(facts["ocaml_rate"] for facts in list_of), name,
                      [(facts["command"], facts["note"]) for facts in list_of])


# ---- the compiler's trace ----

@functools.lru_cache(maxsize=None)
def folder():
    return tempfile.TemporaryDirectory(prefix="mayfly-ocaml-")


@functools.lru_cache(maxsize=None)
def compiled():
    """The trace of ocamlopt.opt compiling a large file."""
    ocaml_version()
    need("ocamlopt.opt")
    here = folder().name
    with open(os.path.join(here, "big.ml"), "w") as f:
        for i in range(200):
            f.write("let f%d x = match x with | Some (y, z) when y > %d -> List.map "
                    "(fun k -> k + y * %d) z | _ -> [ %d ]\n" % (i, i, i, i))
    trace = os.path.join(here, "t.mayfly")
    done = record(["ocamlopt.opt", "-c", os.path.join(here, "big.ml")], trace, "--ocaml=1e-4")
    same(done.code, 0, "record %r" % done)
    return trace


@functools.lru_cache(maxsize=None)
def events():
    dump = run([MAYFLY, "dump", "--json", compiled()])
    same(dump.code, 0, "dump")
    return [json.loads(line) for line in dump.out.splitlines()]


LINE = re.compile(r"(\d+) (\d+) (?:(alloc|alloc_major|alloc_ext) (\d+) len=(\d+) +\d+:(.*)"
                  r"|(promote|collect))$")
SOURCES = {"ocaml-minor": "alloc", "ocaml-major": "alloc_major", "external": "alloc_ext"}


def as_shown(name):
    """A name of the runtime, which Memtrace's files have, as reports have it."""
    unit, dot, rest = name.partition(".")
    unit = re.sub("^Stdlib__([a-z])", lambda match: "Stdlib__" + match.group(1).upper(), unit)
    return re.sub("(?<=.)__([A-Z])", r".\1", unit) + dot + rest


@case
def export_has_the_same_events():
    """Each event of the trace but malloc's is in the file, in the same order and at its time."""
    trace = compiled()
    with Folder() as here:
        done = run([MAYFLY, "export", "--to", "memtrace", "-o", here / "t.ctf", trace])
        same((done.code, done.err.count(b"\n")), (0, 1), "export %r" % done)
        check(b"malloc" in done.err, done)
        text = run([MAYFLY, "dump", "--like-memtrace", here / "t.ctf"]).out.decode()
        lines = [LINE.match(line).groups() for line in text.splitlines()]
        wanted_events = [e for e in events() if e.get("heap", "malloc") != "malloc"]
        check(len(wanted_events) > 1000 and {e["event"] for e in wanted_events} == {"alloc", "promote", "free"},
              len(wanted_events))
        same(len(lines), len(wanted_events), "events")
        rate, number = info(trace)["ocaml_rate"], {}
        for e, (time, block, kind, samples, words, stack, other) in zip(wanted_events, lines):
            same(int(time), e["time_ns"] // 1000, "time of %r" % e)
            same(int(block), number.setdefault(e["sample"], len(number)), "block of %r" % e)
            if e["event"] != "alloc":
                same(other, {"promote": "promote", "free": "collect"}[e["event"]], "kind")
                continue
            same(kind, SOURCES[e["heap"]], "heap of %r" % e)
            header = 0 if kind == "alloc_ext" else 1
            same(int(words), e["size"] // WORD - header, "length of %r" % e)
            check(abs(int(samples) / rate * WORD - e["weight_bytes"]) < 1e-6 * e["weight_bytes"],
                  e, samples)
            # Names in the file have no spaces; inlined functions stand behind each other in both.
            names = [as_shown(re.sub(r"@[^@]*$", "", name)) for name in stack.split()]
            wanted = [part for name in e["stack"] for part in name.split(";")]
            wanted = ["[unknown-callers]" if name == "[stack cut]" else name for name in wanted]
            same([n for n in names if n[0] != "$"],
                 [w.replace(" ", "-") for w in wanted if "+0x" not in w], "stack of %r" % e)
        imported = here / "back.mayfly"
        same(run([MAYFLY, "import", "-o", imported, here / "t.ctf"]).code, 0, "import")
        for metric in ("allocated", "leaked"):
            a, b = (report(t, "--heap", "ocaml,external", "--metric", metric)["total"]["bytes"]
                    for t in (trace, imported))
            same(round(a["estimate"]), round(b["estimate"]), metric)


@case
def places_have_characters():
    trace = compiled()
    stacks = report(trace, "--heap", "ocaml", "--by", "stack", "--metric", "allocated")["rows"]
    places = [p for row in stacks for p in row["stack"] if p["file"] and p["line"]]
    exact = [p for p in places if p["last_char"]]
    check(len(exact) > 0.9 * len(places), len(exact), "of", len(places))
    check(all(0 <= p["first_char"] < p["last_char"] for p in exact), exact[:3])
    text = run([MAYFLY, "report", "--heap", "ocaml", "--by", "stack", "--wide", trace]).out
    check(re.search(rb"  \S+\.ml:\d+:\d+-\d+\n", text), text[:2000])


@case
def each_byte_once():
    """What the compiler has at its peak is less than the memory that the process ever had; malloc
    and OCaml's heaps, added up, would be more."""
    trace = compiled()
    facts = info(trace)
    resident = facts["program_max_rss_bytes"]
    check(facts["peak"]["bytes"]["low"] < resident, facts["peak"], resident)
    by_heap = {row["heap"]: row["self"]["bytes"]["estimate"]
               for row in report(trace, "--by", "heap", "--metric", "allocated")["rows"]}
    once = report(trace, "--metric", "allocated")["total"]["bytes"]["estimate"]
    same(round(facts["allocated"]["bytes"]["estimate"]), round(once), "allocated")
    runtime = report(trace, "--heap", "malloc", "--metric", "allocated", "--focus",
                     "^caml_(alloc_for_heap|set_minor_heap_size|set_minor_heap_wsz|"
                     "shared_try_alloc|memprof_.*)$")["total"]["bytes"]["estimate"]
    # OCaml 5 has only large blocks from malloc: test_ocaml5.py.
    check(runtime > 2e6 or ocaml_version() >= (5, 0), "the runtime's heaps take", runtime)
    wanted = sum(by_heap.values()) - by_heap.get("external", 0) - runtime
    check(abs(once - wanted) < 1e-6 * wanted, once, wanted, by_heap, runtime)
    everything = report(trace, "--heap", "all", "--metric", "allocated")["total"]["bytes"]
    check(abs(everything["estimate"] - sum(by_heap.values())) < 1, everything, by_heap)
    found = rows(trace, "--metric", "allocated", "--all")
    check("caml_alloc_for_heap" not in found and "caml_shared_try_alloc" not in found, "the runtime's chunks are in the default rows")
    text = run([MAYFLY, "report", trace]).out
    check(b"\nCounted " in text and b"Overlap" not in text, text[:2000])
    for options in (["--by", "heap"], ["--heap", "all"], ["--heap", "ocaml,malloc"]):
        text = run([MAYFLY, "report", *options, trace]).out
        check(b"\nOverlap " in text, text[-1000:])
    for options in (["--by", "line"], ["--heap", "ocaml"], ["--heap", "malloc"]):
        text = run([MAYFLY, "report", *options, trace]).out
        check(b"\nOverlap " not in text, text[-1000:])


# ---- survival ----

def weighted(times, q):
    times = sorted(times)
    whole, so_far = sum(w for _, w in times), 0
    for time, weight in times:
        so_far += weight
        if so_far >= q * whole * (1 - 1e-12):
            return time
    return None


def near(got, wanted, what):
    check(math.isclose(got, wanted, rel_tol=1e-9, abs_tol=1e-12), what, got, wanted)


@case
def survival_is_what_the_events_say():
    trace = compiled()
    blocks = {}
    for e in events():
        if e["event"] == "alloc" and e["heap"] == "ocaml-minor":
            blocks[e["sample"]] = {"at": e["time_ns"], "weight": e["weight_bytes"],
                                   "leaf": e["stack"][-1].split(";")[-1], "promoted": None,
                                   "life": math.inf}
        elif e["event"] == "promote" and e["sample"] in blocks:
            blocks[e["sample"]]["promoted"] = e["time_ns"] - blocks[e["sample"]]["at"]
        elif e["event"] == "free" and e["sample"] in blocks:
            blocks[e["sample"]]["life"] = e["time_ns"] - blocks[e["sample"]]["at"]
    found = json.loads(run([MAYFLY, "report", "--survival", "--by", "function", "--frames=all",
                            "--json", trace]).out)
    groups = {}
    for b in blocks.values():
        groups.setdefault(b["leaf"], []).append(b)
    same({row["function"] for row in found["rows"]}, set(groups), "functions")
    for row in found["rows"] + [dict(found["total"], function=None)]:
        group = groups[row["function"]] if row["function"] else list(blocks.values())
        whole = sum(b["weight"] for b in group)
        near(row["allocated"]["bytes"]["estimate"], whole, row["function"])
        promoted = [b for b in group if b["promoted"] is not None]
        near(row["promoted"]["estimate"], sum(b["weight"] for b in promoted) / whole, row)
        young = [b for b in group if b["promoted"] is None and b["life"] < math.inf]
        near(row["died_young"]["estimate"], sum(b["weight"] for b in young) / whole, row)
        life = weighted([(b["life"], b["weight"]) for b in group], 0.5)
        same(row["lifetime_median_ns"]["estimate"], None if life == math.inf else life, "life")
        times = [(b["promoted"], b["weight"]) for b in promoted]
        for key, q in (("promotion_median_ns", 0.5), ("promotion_p90_ns", 0.9)):
            same(row[key] and row[key]["estimate"], weighted(times, q), key)
        for share in (row["promoted"], row["died_young"]):
            check(0 <= share["low"] <= share["estimate"] <= share["high"] <= 1, share)
    for by in ("line", "stack", "module"):
        other = json.loads(run([MAYFLY, "report", "--survival", "--by", by, "--json",
                                trace]).out)
        same(other["total"], found["total"], by)
        near(sum(r["allocated"]["bytes"]["estimate"] for r in other["rows"]),
             found["total"]["allocated"]["bytes"]["estimate"], by)
        text = run([MAYFLY, "report", "--survival", "--by", by, trace])
        check(text.code == 0 and b"promoted" in text.out and not text.err, text)


@case
def survival_of_known_blocks():
    """Three quarters of a program's lists are dropped at once, one quarter is kept: what the
    intervals hold is known, by Gc's own counters too."""
    ocaml_version()
    with Folder() as here:
        write(here / "fates.ml",
              "let kept = Array.make 200000 []\n"
              "let short i = ignore (Sys.opaque_identity [ i; i; i ])\n"
              "let long i = kept.(i mod 200000) <- [ i ]\n"
              "let () =\n"
              "  for i = 1 to 1000000 do short i; long i done;\n"
              "  let s = Gc.quick_stat () in\n"
              "  Printf.printf \"%.0f %.0f\\n\" s.Gc.minor_words s.Gc.promoted_words\n")
        compile_ocaml(here, "-inline", "0", "fates.ml", "-o", "fates.exe")
        done = record([here / "fates.exe"], here / "t.mayfly", "--ocaml=1e-3")
        minor, promoted = (float(word) for word in done.out.split())
        found = json.loads(run([MAYFLY, "report", "--survival", "--by", "function", "--frames=all",
                                "--json", here / "t.mayfly"]).out)
        by_name = {row["function"]: row for row in found["rows"]}
        short, long = by_name["Fates.short"], by_name["Fates.long"]
        inside(short["allocated"]["bytes"], 9e6 * WORD, "short")
        inside(long["allocated"]["bytes"], 3e6 * WORD, "long")
        check(short["promoted"]["estimate"] < 0.01 and short["died_young"]["low"] > 0.98, short)
        # A minor collection finds all of the lists kept, but for what was overwritten before it.
        check(long["promoted"]["low"] > 0.95, long)
        inside(found["total"]["promoted"], promoted / minor, "promoted of all", 2)
        check(long["lifetime_median_ns"]["estimate"] is None or
              long["lifetime_median_ns"]["estimate"] >
              10 * short["lifetime_median_ns"]["estimate"], long, short)


@case
def survival_needs_ocaml():
    with Folder() as here:
        done = record(["true"], here / "t.mayfly", "-i", "1K")
        refused = run([MAYFLY, "report", "--survival", here / "t.mayfly"])
        same((refused.code, refused.err.count(b"\n")), (1, 1), "refusal %r" % refused)
        for options in (["--by", "thread"], ["--metric", "live"], ["--heap", "malloc"],
                        ["--series", "3"], ["--min-lifetime", "1s"]):
            refused = run([MAYFLY, "report", "--survival", *options, here / "t.mayfly"])
            same((refused.code, refused.err.count(b"\n")), (2, 1), "refusal of %r" % options)


if __name__ == "__main__":
    main()
