#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Events and labels of OCaml programs, by the OCaml library: under `mayfly record`, in a session of
the library's own, in bytecode; and that programs do the same where nobody records them."""
import collections
import functools
import json
import os

from harness import (Folder, case, cases, check, environment, main, mayfly, record,
                     run, same)
from ocaml_tools import install_library

folder = Folder()
folder.__enter__()

PROGRAM = r"""
let keep = Array.make 64 []
exception Stop of int

let rec nest n = if n = 0 then raise (Stop 5) else Mayfly.span "nested" (fun () -> 1 + nest (n - 1))

let work name rounds =
  for i = 1 to rounds do
    Mayfly.span "outer" (fun () ->
        Mayfly.counter ~unit:"bytes" "size" (i * 10);
        Mayfly.counter_float "load" (float i /. 4.);
        Mayfly.label "name" name (fun () ->
            Mayfly.span "inner" (fun () ->
                keep.(i mod 64) <- List.init 500 string_of_int)))
  done

let () =
  let result = Mayfly.span "result" (fun () -> 42) in
  let stopped = try nest 20 with Stop n -> n in
  let labelled = try Mayfly.label "k" "v" (fun () -> raise Not_found) with Not_found -> 7 in
  Mayfly.instant "start";
  Mayfly.counter "extreme" max_int;
  Mayfly.counter "extreme" min_int;
  work "main" 100;
  Mayfly.instant (String.make 300 'x');
  Mayfly.instant "cut\000off";
  Mayfly.instant "";
  let threads = List.map (fun name -> Thread.create (work name) 100) [ "a"; "b"; "c" ] in
  List.iter Thread.join threads;
  Printf.printf "%d %d %d\n" result stopped labelled;
  (match Sys.argv with
  | [| _; "active" |] -> Printf.printf "%b\n" (Mayfly.active ())
  | [| _; "names" |] ->
    for i = 1 to 6000 do
      Mayfly.instant ("name " ^ string_of_int i)
    done
  | [| _; "fork" |] ->
    if Unix.fork () = 0 then (
      work "child" 10;
      Mayfly.instant "child")
    else ignore (Unix.wait ())
  | [| _; "uncaught" |] ->
    Printexc.record_backtrace true;
    let deep () = Mayfly.span "deep" (fun () -> List.hd (Sys.opaque_identity [])) in
    (try deep ()
     with Failure _ ->
       print_string (List.hd (String.split_on_char '\n' (Printexc.get_backtrace ()))))
  | _ -> ())
"""
SPANS = {"result": 1, "nested": 20, "outer": 400, "inner": 400}
INSTANTS = {"start": 1, "x" * 255: 1, "cut": 1, "": 1}
PRINTED = b"42 5 7\n"


@functools.lru_cache(maxsize=None)
def library():
    return os.path.join(install_library(folder.path), "lib", "ocaml")


def with_library(**changes):
    return environment(OCAMLPATH=library(), HOME=folder.path,
                       CAML_LD_LIBRARY_PATH=os.path.join(library(), "stublibs"), **changes)


@functools.lru_cache(maxsize=None)
def built(compiler="ocamlopt", package="mayfly.auto"):
    libraries = with_library()
    there = folder / (compiler + "." + package)
    os.mkdir(there)
    with open(os.path.join(there, "program.ml"), "w") as source:
        source.write(PROGRAM)
    done = run(["ocamlfind", compiler, "-g", "-thread", "-package",
                "threads.posix,unix," + package, "-linkpkg", "program.ml", "-o", "program"],
               cwd=there, env=libraries)
    check(done.code == 0 and not done.err, done)
    return os.path.join(there, "program")


def events(trace):
    return [json.loads(line) for line in mayfly("dump", "--json", "--no-stacks",
                                                trace).text.splitlines()]


def check_nesting(all_events):
    """Ends are those of the latest span that began; returns how many there were of each name."""
    stacks, counts = collections.defaultdict(list), collections.Counter()
    for e in all_events:
        if e.get("category"):
            continue
        if e["event"] == "begin":
            stacks[e["tid"]].append(e["name"])
        elif e["event"] == "end":
            check(stacks[e["tid"]], "an end without a begin", e)
            same(e["name"], stacks[e["tid"]].pop(), "end in thread %d" % e["tid"])
            counts[e["name"]] += 1
    check(not any(stacks.values()), "left open:", dict(stacks))
    return counts


def check_labels(all_events):
    """What a thread allocates has that thread's label, inside "outer" and nowhere else."""
    inside, found, labelled = collections.Counter(), {}, 0
    for e in all_events:
        if e.get("name") == "outer":
            inside[e["tid"]] += 1 if e["event"] == "begin" else -1
        if e["event"] != "alloc" or not e.get("labels"):
            continue
        labels = {label["key"]: label["value"] for label in e["labels"]}
        if labels != {"k": "v"}:
            same(list(labels), ["name"], "labels")
            check(inside[e["tid"]] == 1, "a label outside its span", e)
            found.setdefault(e["tid"], set()).add(labels["name"])
            labelled += 1
    check(labelled > 100, labelled, "blocks with labels")
    same(sorted(map(sorted, found.values())), [["a"], ["b"], ["c"], ["main"]], "labels")


def check_events(trace):
    all_events = events(trace)
    same(dict(check_nesting(all_events)), SPANS, "spans")
    check_labels(all_events)
    instants = collections.Counter(e["name"] for e in all_events
                                   if e["event"] == "instant" and not e.get("category"))
    same(dict(instants), INSTANTS, "instants")
    counts = collections.defaultdict(list)
    for e in all_events:
        if e["event"] == "count" and not e.get("category"):
            counts[e["name"]].append(e["values"]["value"])
    same(counts["extreme"], [2 ** 62 - 1, -2 ** 62], "extremes")
    same(sum(counts["size"]), 4 * sum(i * 10 for i in range(1, 101)), "size")
    same(sum(counts["load"]), 4 * sum(i / 4 for i in range(1, 101)), "load")
    units = {c["name"]: c["unit"] for c in json.loads(
        mayfly("report", "--events", "--json", trace).text)["counters"]}
    same((units["size"], units["load"]), ("bytes", None), "units")


def recorded(program, *arguments, options=("--ocaml=1e-2",)):
    trace = folder / "trace.mayfly"
    done = record([program, *arguments], trace, "--force", *options, env=with_library())
    check(done.code == 0, done)
    return done, trace


def in_session(program, *arguments, how="ocaml=1e-2"):
    spool = folder / "own.spool"
    if os.path.exists(spool):
        os.unlink(spool)
    done = run([program, *arguments], env=with_library(MAYFLY="output=" + spool + "," + how))
    check(done.code == 0 and not done.err, done)
    return done, spool


@case
def nobody_records():
    for program in (built(), built(package="mayfly")):
        done = run([program, "active"], env=with_library())
        same((done.code, done.out, done.err), (0, PRINTED + b"false\n", b""), "the program")


@case
def under_record():
    done, trace = recorded(built(), "active")
    same(done.out, PRINTED + b"true\n", "output")
    check_events(trace)


@case
def in_a_spool_of_its_own():
    done, spool = in_session(built(), "active")
    same(done.out, PRINTED + b"true\n", "output")
    check_events(spool)


@case
def in_a_memtrace_file():
    done = run([built(), "active"], env=with_library(MEMTRACE=folder / "own.ctf"))
    same((done.code, done.out, done.err), (0, PRINTED + b"false\n", b""), "the program")


@case
def in_bytecode():
    done, trace = recorded(built("ocamlc", "mayfly"), "active", options=())
    same(done.out, PRINTED + b"true\n", "output")
    same(dict(check_nesting(events(trace))), SPANS, "spans")


@cases(["ocaml", "C"])
def exceptions_keep_their_backtraces(whose):
    plain = run([built(), "uncaught"], env=with_library())
    check(b"list.ml" in plain.out or b"stdlib.ml" in plain.out, plain)
    done, _ = in_session(built(), "uncaught") if whose == "ocaml" else recorded(built(), "uncaught")
    same(done.out, plain.out, "backtrace")


@case
def names_without_end():
    for done, trace in (recorded(built(), "names"), in_session(built(), "names")):
        same(done.out, PRINTED, "output")
        all_events = events(trace)
        same(dict(check_nesting(all_events)), SPANS, "spans")
        named = sum(e["event"] == "instant" and e["name"].startswith("name ") for e in all_events)
        check(3900 < named < 4096, named)


@case
def the_child_of_a_fork():
    done, spool = in_session(built(), "fork")
    same(done.out, 2 * PRINTED if done.out.count(b"\n") == 2 else PRINTED, "output")
    check_events(spool)


@case
def dormant():
    done, spool = in_session(built(), "active", how="ocaml=1e-2,start=dormant")
    same(done.out, PRINTED + b"false\n", "output")
    same(events(spool), [], "events")


main()
