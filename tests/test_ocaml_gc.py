#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What OCaml's collector does in unmodified native programs: as many spans as the program itself
counts collections, and its own figures. Where the runtime cannot be watched nothing changes."""
import functools
import json
import os
import shutil

from harness import (Folder, Skip, case, cases, check, main, mayfly, record, run, same, unchanged)
from ocaml_tools import WORK, ocaml_version

folder = Folder()
folder.__enter__()

PRINT = """
let () =
  let s = Gc.quick_stat () in
  Printf.printf "%d %d %d %d %.0f\\n" s.Gc.minor_collections s.Gc.major_collections s.Gc.heap_words
    s.Gc.compactions s.Gc.promoted_words
"""
PROGRAMS = {
    "plain": WORK + "let () = work 200; Gc.compact ()" + PRINT,
    "threads": WORK + """
let () =
  let half () = work 100 in
  let threads = List.init 3 (fun _ -> Thread.create half ()) in
  List.iter Thread.join threads
""" + PRINT,
    "finalisers": WORK + """
let finished = ref 0
let () =
  for i = 1 to 50 do
    Gc.finalise (fun _ -> incr finished; if i mod 10 = 0 then raise Exit) (ref i);
    (try work 10; Gc.full_major () with Exit -> ())
  done
""" + PRINT,
    "hooked": WORK + """
external calls : unit -> int = "hooked_calls"
let () = work 100; Printf.printf "%d\\n" (calls ())
""" + PRINT,
}
# Hooks of the program's own, set before anything else runs.
HOOKED = """
#define CAML_INTERNALS
#include <caml/misc.h>
#include <caml/mlvalues.h>
static long calls;
static void hook(void) { calls++; }
__attribute__((constructor)) static void set(void)
{
	caml_minor_gc_begin_hook = hook;
	caml_minor_gc_end_hook = hook;
	caml_major_slice_end_hook = hook;
}
value hooked_calls(value unit) { (void)unit; return Val_long(calls); }
"""


@functools.lru_cache(maxsize=None)
def built(name, compiler="ocamlopt"):
    if not shutil.which("ocamlfind") or not shutil.which(compiler):
        raise Skip("OCaml is not installed")
    ocaml_version()
    there = os.path.join(folder.path, compiler + "-" + name)
    os.mkdir(there)
    with open(os.path.join(there, "program.ml"), "w") as source:
        source.write(PROGRAMS[name])
    sources = ["program.ml"]
    if name == "hooked":
        with open(os.path.join(there, "hooked.c"), "w") as source:
            source.write(HOOKED)
        sources.insert(0, "hooked.c")
    custom = ["-custom"] if compiler == "ocamlc" else []
    # The clock of threads makes a program's collections vary.
    threads = ["-thread", "-package", "threads.posix", "-linkpkg"] if name == "threads" else []
    done = run(["ocamlfind", compiler, "-g", *threads, *custom, *sources, "-o", "program"],
               cwd=there)
    check(done.code == 0, done)
    return os.path.join(there, "program")


def figures(text):
    """What PRINT prints."""
    names = ("minor_collections", "major_collections", "heap_words", "compactions",
             "promoted_words")
    return dict(zip(names, map(int, text.split()[-len(names):])))


def events(trace):
    """(spans, counters), each by name."""
    shown = json.loads(mayfly("report", "--events", "--json", trace).text)
    ocaml = [s for s in shown["spans"] if s["category"] == "ocaml"]
    counters = [c for c in shown["counters"] if c["category"] == "ocaml"]
    return {s["name"]: s for s in ocaml}, {c["name"]: c for c in counters}


def recorded(command, *options):
    trace = folder / "trace.mayfly"
    # These are the hooks in the collector; of OCaml 5 the runtime's own events have others.
    done = record(command, trace, "--force", "--runtime-events=off", *options)
    check(done.code == 0, done)
    return done, trace


def check_figures(done, trace):
    printed = figures(done.out.decode())
    check(printed["minor_collections"] > 5, printed)
    spans, counters = events(trace)
    same(spans["minor"]["count"], printed["minor_collections"], "minor collections")
    same(spans["minor"]["open"], 0, "open")
    check(spans["major"]["count"] >= printed["minor_collections"] // 2, spans["major"])
    if ocaml_version() >= (5, 0):
        same(counters, {}, "figures of an unknown layout")
        return
    for name in printed:
        same(counters[name]["last"] if name in counters else 0, printed[name], name)


@cases(["plain", "threads", "finalisers", "hooked"])
def as_many_as_the_program_counts(name):
    done, trace = recorded([built(name)])
    check_figures(done, trace)


@case
def a_stripped_program_and_every_allocation():
    program = built("plain")
    shutil.copy(program, program + ".stripped")
    check(run(["strip", program + ".stripped"]).code == 0, "strip")
    for options in ([], ["--exact"], ["--ocaml=1e-3"]):
        done, trace = recorded([program + ".stripped"], *options)
        check_figures(done, trace)


@case
def programs_behave_as_without():
    # Exactly: without samples of OCaml's blocks, whose stacks are blocks, too.
    for name in ("plain", "finalisers", "hooked"):
        unchanged([built(name)], folder / (name + ".mayfly"), "--snapshots=1s")


@case
def hooks_of_the_program_are_called():
    done, trace = recorded([built("hooked")])
    spans, _ = events(trace)
    same(int(done.out.split()[0]),
         2 * spans["minor"]["count"] + spans["major"]["count"], "calls of its hooks")


@case
def finalisers_are_spans():
    _, trace = recorded([built("finalisers")])
    spans, _ = events(trace)
    check(spans["finalise"]["count"] >= 40, spans["finalise"])
    check(spans["finalise"]["open"] <= 1, spans["finalise"])


@case
def off_is_off():
    _, trace = recorded([built("plain")], "--ocaml=off")
    same(events(trace), ({}, {}), "events")


@case
def bytecode_is_left_alone():
    program = built("plain", "ocamlc")
    trace = folder / "bytecode.mayfly"
    unchanged([program], trace)
    same(events(trace), ({}, {}), "events")


main()
