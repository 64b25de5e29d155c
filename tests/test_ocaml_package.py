#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The OCaml library (ocaml/): installed as users install it, linked by ocamlfind and by dune. What
programs do is the same with it; what they are known to allocate is in the spool and in the Memtrace
file; under `mayfly record` the agent and the library share the work; where tracing cannot work, one
line says so and the program runs on."""
import functools
import glob
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile

from harness import (AGENT, BUILD, Folder, MAYFLY, SOURCE, Skip, case, cases, check, environment,
                     info, main, read, record, report, rows, run, same, sane)
from ocaml_tools import install_library, ocaml_version

WORD = 8
FORMATS = ("MAYFLY", "MEMTRACE")
TOOL = os.path.join(BUILD, "tests", "memtrace_tool")


# ---- the library, and programs that use it ----

@functools.lru_cache(maxsize=None)
def folder():
    return tempfile.TemporaryDirectory(prefix="mayfly-ocaml-package-")


def put(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


@functools.lru_cache(maxsize=None)
def prefix():
    before = sorted(os.listdir(SOURCE))
    out = install_library(folder().name)
    same(sorted(os.listdir(SOURCE)), before, "the source folder")
    return out


def with_library(**changes):
    return environment(OCAMLPATH=os.path.join(prefix(), "lib", "ocaml"), DUNE_CACHE="disabled",
                       CAML_LD_LIBRARY_PATH=os.path.join(prefix(), "lib", "ocaml", "stublibs"),
                       HOME=folder().name, **changes)


@functools.lru_cache(maxsize=None)
def built(name, kind="ocamlopt", packages="mayfly", options=(), source="ocaml_package"):
    variables = with_library()
    work = os.path.join(folder().name, name + ".d")
    os.mkdir(work)
    sources = [source + "_stubs.c", source + ".ml"]
    for file in sources:
        shutil.copy(os.path.join(SOURCE, "tests", "programs", file), work)
    out = os.path.join(work, name)
    done = run(["ocamlfind", kind, "-g", "-package", packages, "-linkpkg", *options, *sources,
                "-o", out], env=variables, cwd=work)
    check(done.code == 0, "ocamlfind", kind, done)
    return out


def program():
    """tests/programs/ocaml_package.ml"""
    return built("package.exe")


def auto():
    """tests/programs/ocaml.ml, which knows nothing of mayfly."""
    return built("auto.exe", packages="unix,threads.posix,mayfly.auto", options=("-thread",),
                 source="ocaml")


def tracing(kind, file, rate):
    if kind == "MAYFLY":
        return environment(MAYFLY="output=%s,ocaml=%s" % (file, rate))
    return environment(MEMTRACE=file, MEMTRACE_RATE=rate)


def traced(kind, command, file, rate="1e-3", samples=1, **how):
    """Runs the command without and with tracing: it must behave the same."""
    plain = run(command, **how)
    watched = run(command, env=tracing(kind, file, rate), **how)
    same((watched.code, watched.out, watched.err), (plain.code, plain.out, plain.err),
         "with " + kind)
    facts = sane(file, samples)
    if kind == "MEMTRACE":
        conforms(file)
    return watched, facts


def conforms(file):
    """What Memtrace's writer would have written of these events: decoded and written again, it is
    the same file, byte for byte."""
    copied = run([TOOL, "copy", file])
    check(copied.code == 0, "copy", copied)
    check(copied.out == open(file, "rb").read(), "not as Memtrace writes it:", file)


def events(file):
    """The events of a Memtrace file: (event, id, samples, words, what follows)."""
    dump = run([MAYFLY, "dump", "--like-memtrace", file])
    check(dump.code == 0 and not dump.err, dump)
    found = []
    for line in dump.out.decode().splitlines():
        words = line.split(None, 3)
        kind = words[2]
        if kind.startswith("alloc"):
            match = re.match(r"(\d+) len=(\d+) +(\d+):(.*)", words[3])
            found.append((kind, int(words[1]), int(match.group(1)), int(match.group(2)),
                          match.group(4)))
        else:
            found.append((kind, int(words[1]), 0, 0, ""))
    return found


def interval(row, slack=2.5):
    """Some five standard errors, so that what is right hardly ever fails."""
    low, high, middle = (row["bytes"][k] for k in ("low", "high", "estimate"))
    return middle - slack * (middle - low), middle + slack * (high - middle)


def holds(row, expected, what):
    low, high = interval(row)
    check(low <= expected <= high, what, "is", expected, "and not in", low, high)


def near(samples, rate, expected_words, what):
    """A sum of samples against what it should be: at most 5 standard errors away."""
    mean = expected_words * rate
    check(abs(samples - mean) <= 5 * mean ** 0.5 + 1, what, "has", samples, "samples, expected",
          mean)


def of(file, name, *options):
    """The one row of a function, whether its module is written A.B or A__B."""
    found = rows(file, "--metric", "allocated", "--all", "--frames=all", *options)
    rows_of = [r for f, r in found.items() if f.replace("__", ".").endswith(name)]
    same(len(rows_of), 1, "rows of " + name + " in " + " ".join(found))
    return rows_of[0]


# ---- known sizes ----

@cases(FORMATS)
def lists(kind):
    n = 100000
    with Folder() as here:
        _, facts = traced(kind, [auto(), "lists", str(n)], here / "t", "0.0078125", 1000)
        holds(of(here / "t", "List.map")["self"], 3 * WORD * n, "List.map")
        counted = of(here / "t", ".count")
        holds(counted["self"], 3 * WORD * n, "count")
        check(counted["file"].endswith("ocaml.ml"), counted)
        if kind == "MAYFLY":
            same(facts["ocaml_rate"], 0.0078125, "rate")
            check("OCaml library" in facts["note"], facts["note"])
        else:
            near(sum(e[2] for e in events(here / "t")
                     if e[0] == "alloc" and "list.ml" in e[4].split()[-1]), 0.0078125, 3 * n,
                 "List.map")


@cases(FORMATS)
def tables(kind):
    n = 50000
    with Folder() as here:
        traced(kind, [auto(), "tables", str(n)], here / "t", "1e-3", 100)
        add = of(here / "t", "Map.Make.add")
        # n insertions into a tree of up to n: between log2 n / 2 and 1.5 log2 n copies each.
        check(n * 6 * WORD * 7 < add["total"]["bytes"]["estimate"] < n * 6 * WORD * 25, add)
        array = 2 * sum(1 + (16 << k) for k in range(5, 12))  # doubles, with one to fill it by
        if kind == "MAYFLY":
            found = report(here / "t", "--heap", "ocaml-major", "--metric", "allocated")["total"]
            holds(found, array * WORD, "the table's arrays")
        else:
            near(sum(e[2] for e in events(here / "t") if e[0] == "alloc_major"), 1e-3, array,
                 "the table's arrays")


@cases(FORMATS)
def bigarrays(kind):
    n, bytes_each = 500, 65536
    with Folder() as here:
        traced(kind, [auto(), "bigarrays", str(n)], here / "t", "1e-3", 100)
        if kind == "MAYFLY":
            found = report(here / "t", "--heap", "external", "--metric", "allocated")["total"]
            # Channels are custom blocks with memory outside the heap, too.
            low, high = interval(found)
            check(low <= (n + 8) * bytes_each and high >= n * bytes_each, found)
            live = report(here / "t", "--heap", "external", "--metric", "live")["total"]["bytes"]
            check(live["estimate"] < 20 * bytes_each, "collected arrays count as live", live)
            plain = report(here / "t", "--heap", "malloc", "--metric", "allocated")["total"]
            same(plain["samples"], 0, "blocks of malloc's")
        else:
            found = [e for e in events(here / "t") if e[0] == "alloc_ext"]
            arrays = [e for e in found if e[3] == bytes_each // WORD]
            near(sum(e[2] for e in arrays), 1e-3, n * bytes_each / WORD, "arrays")
            gone = {e[1] for e in events(here / "t") if e[0] == "collect"}
            left = [e for e in arrays if e[1] not in gone]
            check(len(left) < 20, "arrays that are not collected", left)


@cases(FORMATS)
def exceptions(kind):
    with Folder() as here:
        traced(kind, [auto(), "exceptions", "20000"], here / "t", "0.0078125", 100)
        # Found (4 words) and its string (4 words), each time.
        holds(of(here / "t", ".search")["total"], 20000 * (4 + 4) * WORD, "search")


@cases(FORMATS)
def threads(kind):
    n = 20000
    with Folder() as here:
        _, facts = traced(kind, [auto(), "threads", str(n)], here / "t", "1e-3", 100)
        holds(of(here / "t", ".make_arrays")["total"], 4 * n * 301 * WORD, "arrays")
        if kind == "MAYFLY":
            check(facts["threads"] >= 4, facts["threads"], "threads")


@cases(FORMATS)
def promotions(kind):
    """Against the runtime's own counters, which the program prints (to its error output)."""
    with Folder() as here:
        rate = 2 ** -10
        done = run([auto(), "promotions", "1000000"], env=tracing(kind, here / "t", str(rate)))
        same(done.code, 0, "exit status")
        minor, promoted, major = (float(word) for word in done.err.split()[:3])
        file = here / "t"
        if kind == "MAYFLY":
            heaps = {row["heap"]: row["self"]["bytes"]["estimate"] * rate / WORD
                     for row in report(file, "--by", "heap", "--metric", "allocated")["rows"]}
            near(heaps["ocaml-minor"], rate, minor, "the minor heap")
            # OCaml 5 counts the two at different moments.
            if major >= promoted:
                near(heaps["ocaml-major"], rate, major - promoted, "the major heap")
            dump = run([MAYFLY, "dump", "--json", file]).out
            lines = [json.loads(line) for line in dump.splitlines()]
            moved = [e for e in lines if e.get("event") == "promote"]
            same(len(moved), len({e["sample"] for e in moved}), "blocks that are promoted once")
            near(sum(e["weight_bytes"] for e in moved) * rate / WORD, rate, promoted, "promoted")
            return
        found = {e[1]: e for e in events(file) if e[0].startswith("alloc")}
        near(sum(e[2] for e in found.values() if e[0] == "alloc"), rate, minor, "the minor heap")
        if major >= promoted:
            near(sum(e[2] for e in found.values() if e[0] == "alloc_major"), rate,
                 major - promoted, "the major heap")
        moved = [e[1] for e in events(file) if e[0] == "promote"]
        same(len(moved), len(set(moved)), "blocks that are promoted once")
        check(all(found[id][0] == "alloc" for id in moved), "a major block is promoted")
        near(sum(found[id][2] for id in moved), rate, promoted, "promoted")


# ---- the program is not disturbed ----

@cases(["%s %s" % (kind, name) for kind in FORMATS for name in (
    "lists", "tables", "bigarrays", "exceptions", "threads", "collections", "marshal", "fails")])
def rate_1e_2(argument):
    kind, name = argument.split()
    n = {"lists": 20000, "tables": 5000, "bigarrays": 300, "collections": 4000}.get(name, 2000)
    with Folder() as here:
        watched, _ = traced(kind, [auto(), name, str(n)], here / "t", "1e-2", 10)
        same(watched.code, 2 if name == "fails" else 0, "exit status")


@cases(FORMATS)
def every_word(kind):
    with Folder() as here:
        traced(kind, [auto(), "collections", "1500"], here / "t", "1", 1000)


@case
def not_asked_for():
    with Folder() as here:
        for variables in ({}, {"MAYFLY": ""}, {"MEMTRACE": ""}, {"MAYFLY": "ocaml=off"},
                          {"MAYFLY": "pid=1"}):
            done = run([auto(), "lists", "1000"], env=environment(**variables), cwd=here.path)
            same((done.code, done.err, here.files()), (0, b"", []), variables)


# ---- the interface ----

@case
def by_dune():
    """A project of a user's, which knows the library by its name alone."""
    with Folder() as here:
        put(here / "dune-project", "(lang dune 2.0)\n")
        put(here / "dune", "(executable (name ocaml_package) (modules ocaml_package)\n"
            " (foreign_stubs (language c) (names ocaml_package_stubs)) (libraries mayfly))\n"
            "(executable (name quiet) (modules quiet) (libraries mayfly.auto))\n")
        for file in ("ocaml_package.ml", "ocaml_package_stubs.c"):
            shutil.copy(os.path.join(SOURCE, "tests", "programs", file), here.path)
        put(here / "quiet.ml", "let () = print_int (List.length (List.init 99999 succ))\n")
        done = run(["dune", "build", "--root", ".", "--display", "quiet", "./ocaml_package.exe",
                    "./quiet.exe"], env=with_library(), cwd=here.path)
        check(done.code == 0, "dune", done)
        traced("MAYFLY", [here / "_build/default/ocaml_package.exe", "cells", "50000"],
               here / "a", "1e-2", 1000)
        traced("MEMTRACE", [here / "_build/default/quiet.exe"], here / "b", "1e-2", 1000)


@case
def in_a_workspace():
    """The sources as a folder of the user's own workspace, whose path has a space in it."""
    prefix()
    with Folder() as here:
        top = here / "a workspace"
        for name in ("ocaml", "src", "include"):
            shutil.copytree(os.path.join(SOURCE, name), os.path.join(top, "vendor/mayfly", name))
        for name in ("dune", "dune-project"):
            shutil.copy(os.path.join(SOURCE, name), os.path.join(top, "vendor/mayfly"))
        put(os.path.join(top, "dune-project"), "(lang dune 2.0)\n")
        put(os.path.join(top, "dune"), "(executable (name quiet) (libraries mayfly.auto))\n")
        put(os.path.join(top, "quiet.ml"),
            "let () = print_int (List.length (List.init 99999 succ))\n")
        done = run(["dune", "build", "--root", ".", "--display", "quiet", "./quiet.exe"], cwd=top,
                   env=environment(DUNE_CACHE="disabled", HOME=folder().name))
        check(done.code == 0 and not done.err, "dune", done)
        traced("MAYFLY", [os.path.join(top, "_build/default/quiet.exe")], here / "t", "1e-2", 1000)


@case
def same_files_from_another_folder():
    """No file has the name of the folder that it was built in: packages of two builds are equal."""
    compiled = os.path.join(prefix(), "lib", "ocaml")
    with Folder() as here:
        tree = here / "another tree"
        for name in ("ocaml", "src", "include"):
            shutil.copytree(os.path.join(SOURCE, name), os.path.join(tree, name))
        for name in ("dune-project", *(os.path.basename(path) for path in glob.glob(os.path.join(SOURCE, "*.opam")))):
            shutil.copy(os.path.join(SOURCE, name), tree)
        again = os.path.join(install_library(here.path, tree), "lib", "ocaml")
        paths = [path for path in glob.glob("**", root_dir=compiled, recursive=True)
                 if path.endswith((".a", ".cma", ".cmxs", ".cmt", ".cmti", ".so"))]
        check(len(paths) > 10, paths)
        same([path for path in paths
              if read(os.path.join(compiled, path)) != read(os.path.join(again, path))], [], "other files")


@case
def plugins():
    """A program that has never heard of it loads the library by Dynlink."""
    prefix()
    with Folder() as here:
        put(here / "p.ml", "let () = for i = 1 to Array.length Sys.argv - 1 do\n"
            "  Dynlink.loadfile Sys.argv.(i) done;\n"
            "  print_int (List.length (List.init 99999 succ))\n")
        done = run(["ocamlfind", "ocamlopt", "-package", "dynlink", "-linkpkg", "-linkall", "p.ml",
                    "-o", "p"], cwd=here.path, env=with_library())
        check(done.code == 0, done)
        library = os.path.join(prefix(), "lib/ocaml/mayfly")
        loaded = [os.path.join(library, name) for name in ("mayfly.cmxs", "auto/mayfly_auto.cmxs")]
        traced("MEMTRACE", [here / "p", *loaded], here / "t", "1e-2", 1000)


@case
def depends_on_nothing():
    prefix()
    done = run(["ocamlfind", "query", "-r", "-p-format", "mayfly.auto"], env=with_library())
    same(done.out.split(), [b"mayfly", b"mayfly.auto"], "packages that come with it")


@cases(FORMATS)
def cells(kind):
    with Folder() as here:
        watched, facts = traced(kind, [program(), "cells", "50000"], here / "t", "1e-2", 100)
        same(watched.out, b"cells 50000 names 42\n", "output")
        holds(of(here / "t", ".count")["self"], 50000 * 3 * WORD, "cells")
        with open(here / "t", "rb") as file:
            content = facts["note"] if kind == "MAYFLY" else file.read().decode("latin1")
        check("of the test" in content, "the context is not there")


@cases(FORMATS)
def asked_twice(kind):
    with Folder() as here:
        done = run([program(), "twice", "50000"], env=tracing(kind, here / "t", "1e-2"))
        same((done.code, done.out, done.err), (0, b"active true\n", b""), "program")
        holds(of(here / "t", ".count")["self"], 50000 * 3 * WORD, "cells")
        same(here.files(), [here / "t"], "files")


def buffer_bytes(watched):
    return [int(n) for n in re.findall(r"\d+", watched.out.decode())]


@case
def buffers():
    with Folder() as here:
        watched, _ = traced("MAYFLY", [program(), "buffers", "200000"], here / "t", "0.0009765625")
        total, live = buffer_bytes(watched)
        holds(report(here / "t", "--heap", "external", "--metric", "allocated")["total"], total,
              "all buffers")
        found = report(here / "t", "--heap", "external", "--metric", "live", "--by", "stack")
        holds(found["total"], live, "live buffers")
        leaf = found["rows"][0]["stack"][0]
        check(leaf["file"].endswith("ocaml_package.ml"), "allocated in", leaf)
        watched, _ = traced("MEMTRACE", [program(), "buffers", "200000"], here / "m", "1e-3")
        found = [e for e in events(here / "m") if e[0] == "alloc_ext"]
        near(sum(e[2] for e in found), 1e-3, total / WORD, "all buffers")
        check(all("buffers@ocaml_package.ml" in e[4].split()[-1] for e in found), found[0])
        gone = {e[1] for e in events(here / "m") if e[0] == "collect"}
        near(sum(e[2] for e in found if e[1] not in gone), 1e-3, live / WORD, "live buffers")


@case
def buffers_one_by_one():
    """At rate 1 each word is a sample."""
    with Folder() as here:
        watched, _ = traced("MEMTRACE", [program(), "buffers", "2000"], here / "m", "1")
        total, _ = buffer_bytes(watched)
        hits = sum(e[2] for e in events(here / "m") if e[0] == "alloc_ext")
        check(total // WORD <= hits <= total // WORD + 1, hits, "words of", total)


@cases(FORMATS)
def deep_stacks(kind):
    """A stack of 3000 frames keeps both ends in a spool, and its 400 leaf-most frames in a Memtrace file;
    the program can ask for fewer."""
    with Folder() as here:
        for case_name, frames, rate in (("deep", 400, "1e-2"), ("limit", 20, "1")):
            file = here / case_name
            traced(kind, [program(), case_name, "200"], file, rate, 100)
            if kind == "MAYFLY":
                text = run([MAYFLY, "export", "--to", "folded", "--metric", "allocated", "--frames=all",
                            "-o", "-", file]).out.decode()
                stack = max(text.splitlines(), key=len)
                missing = sum(map(int, re.findall(r"(\d+) frames left out", stack)))
                whole = case_name == "deep" and ocaml_version() < (5, 0)
                most = 3001 if whole else 2046 if case_name == "deep" else frames
                same(stack.count(".deep") + missing, most, case_name)
                check(stack.rpartition(" ")[0].endswith(".deep"), stack)
                same(info(file)["truncated_stacks"] == 0, whole, "marked as truncated")
            else:
                stack = max((e[4].split() for e in events(file)), key=len)
                same(len([f for f in stack if ".deep@" in f]), frames, case_name)
                check(".deep@" in stack[-1], stack[-1])


@case
def sessions():
    n = 20000
    with Folder() as here:
        command = [program(), "sessions", str(n), here / "first", here / "second.%p.spool"]
        done = run(command)
        check(done.code == 0 and not done.err, done)
        same(done.out.decode().splitlines()[1:],
             ["refused true", "active false", "active true"], "output")
        total, _ = buffer_bytes(done)[:2]
        conforms(here / "first")
        found = events(here / "first")
        near(sum(e[2] for e in found if e[0] == "alloc_ext"), 0.125, total / WORD, "first, buffers")
        same([e for e in found if ".count@" in e[4]], [], "cells of after the first")
        [second] = here.files("second.*.spool")
        # n cells, and n more until the exit; none of the 10 n between the two.
        holds(of(second, ".count")["self"], 2 * n * 3 * WORD, "second")
        same(report(second, "--heap", "external", "--metric", "allocated")["total"]["samples"], 0,
             "buffers in the second")
        # A spool is never written over another.
        again = run([*command[:4], here / "second.%p.spool"])
        same((again.code, len(here.files("second.*.spool"))), (0, 2), "spools")


@case
def wrong_arguments():
    with Folder() as here:
        done = run([program(), "invalid", "1", here / "t"])
        same((done.code, done.out, done.err), (0, b"invalid\n" * 4 + b"file false\n", b""),
             "output")
        done = run([program(), "unwritable", "1", here / "no/such/t"])
        check(done.code == 0 and b"no/such/t: No such file" in done.out, done)


# ---- forks ----

@cases(FORMATS)
def children(kind):
    n = 50000
    with Folder() as here:
        done = run([program(), "children", str(n), here / "child"],
                   env=tracing(kind, here / "t", "0.125"))
        same((done.code, done.err), (0, b""), "program")
        check(done.out.endswith(b"child 3\n"), done)
        # The parent's: its own cells, before and after; not the child's.
        sane(here / "t", 1000)
        holds(of(here / "t", ".count")["self"], 2 * n * 3 * WORD, "the parent's cells")
        if kind == "MEMTRACE":
            conforms(here / "t")
        else:
            same(report(here / "t", "--heap", "external", "--metric", "allocated")["total"]
                 ["samples"] > 0, True, "the parent's buffers")
        conforms(here / "child")
        holds(of(here / "child", ".count")["self"], n // 2 * 3 * WORD, "the child's cells")
        same(here.files(), [here / "child", here / "t"], "files")


DOMAINS = """
let rec count n acc = if n = 0 then List.length acc else count (n - 1) (n :: acc)
let () =
  Mayfly.trace_if_requested ();
  let work () = Mayfly.span "work" (fun () -> ignore (Sys.opaque_identity (count 200000 []))) in
  let others = List.init 3 (fun _ -> Domain.spawn work) in
  work ();
  List.iter Domain.join others
"""


@cases(FORMATS)
def domains(kind):
    if ocaml_version() < (5, 0):
        raise Skip("this OCaml has no domains")
    with Folder() as here:
        put(here / "p.ml", DOMAINS)
        done = run(["ocamlfind", "ocamlopt", "-g", "-package", "mayfly", "-linkpkg", "p.ml", "-o",
                    "p"], env=with_library(), cwd=str(here / "."))
        check(done.code == 0, done)
        traced(kind, [here / "p"], here / "t", "1e-2", 1000)
        holds(of(here / "t", "P.count")["self"], 4 * 200000 * 3 * WORD, "the cells of all domains")
        if kind == "MAYFLY":
            out = here / "t.ctf"
            done = run([MAYFLY, "export", "--to", "memtrace", "-o", out, here / "t"])
            check(done.code == 0, done)
            found = re.findall(rb" dom=(\d+)", run([MAYFLY, "dump", "--like-memtrace", out]).out)
            same(set(found), {b"0", b"1", b"2", b"3"}, "domains in the file for Memtrace")


@cases(FORMATS)
def forks_of_unix(kind):
    with Folder() as here:
        traced(kind, [auto(), "forks", "50000"], here / "t", "1e-2", 100)
        holds(of(here / "t", "List.map")["self"], 50000 * 3 * WORD, "the parent's")
        same(here.files(), [here / "t"], "files")


# ---- with the agent ----

@case
def under_record():
    """The agent samples the heaps, once; the library reports what is outside."""
    n = 100000
    with Folder() as here:
        trace = here / "t.mayfly"
        watched = record([program(), "buffers", "200000"], trace, "--ocaml=0.0009765625",
                         cwd=here.path)
        same((watched.code, watched.err), (0, b""), "program")
        total, live = buffer_bytes(watched)
        for metric, expected in (("allocated", total), ("live", live)):
            found = report(trace, "--heap", "external", "--focus", "buffers", "--metric", metric)
            holds(found["total"], expected, metric)
        check(not info(trace)["note"], info(trace)["note"])
        watched = record([auto(), "lists", str(n)], trace, "--ocaml=1e-2", "--force", cwd=here.path)
        same((watched.code, watched.err), (0, b""), "program")
        holds(of(trace, "List.map", "--heap", "ocaml")["self"], 3 * WORD * n, "List.map")
        note = info(trace)["note"] or ""
        same(note.rpartition(": ")[2], "" if ocaml_version() < (5, 0) else "ocaml_frames=2046", "note")
        same(here.files(), [trace], "files")


@case
def preloaded_by_hand():
    """The variable asks both; the agent was first."""
    with Folder() as here:
        done = run([program(), "buffers", "200000"], env=environment(
            LD_PRELOAD=AGENT, MAYFLY="output=%s,ocaml=0.0009765625" % (here / "s")))
        same((done.code, done.err, here.files()), (0, b"", [here / "s"]), "program")
        external = report(here / "s", "--heap", "external", "--metric", "allocated", "--focus",
                          "buffers")
        holds(external["total"], buffer_bytes(done)[0], "all buffers")


@case
def under_record_with_memtrace():
    """The file that is asked for is written; the agent leaves OCaml's heaps to it."""
    with Folder() as here:
        trace = here / "t.mayfly"
        watched = record([auto(), "lists", "100000"], trace,
                         env=tracing("MEMTRACE", here / "m", "1e-2"))
        same((watched.code, watched.err), (0, b""), "program")
        holds(of(here / "m", "List.map")["self"], 3 * WORD * 100000, "List.map")
        same(info(trace)["ocaml_rate"], None, "the agent's rate")
        check("MEMTRACE" in info(trace)["note"], info(trace)["note"])


@case
def under_record_off():
    """Told not to look at OCaml's heaps, neither does."""
    with Folder() as here:
        trace = here / "t.mayfly"
        watched = record([program(), "buffers", "200000"], trace, "--ocaml=off", "--follow",
                         cwd=here.path)
        same((watched.code, watched.err, here.files()), (0, b"", [trace]), "program")
        same(info(trace)["ocaml_rate"], None, "rate")


@case
def under_record_with_a_tracer():
    """A program that starts a tracer has the runtime's one sampler for itself."""
    with Folder() as here:
        trace = here / "t.mayfly"
        watched = record([program(), "sessions", "20000", here / "a", here / "b.spool"], trace,
                         "--ocaml=1e-2")
        same((watched.code, watched.err), (0, b""), "program")
        conforms(here / "a")
        check(events(here / "a"), "nothing in the program's file")
        check("Gc.Memprof itself" in info(trace)["note"], info(trace)["note"])
        live = report(trace, "--heap", "ocaml,external", "--metric", "live")["total"]
        same(live["samples"], 0, "OCaml blocks after the end of their recording")


# ---- where it does not work, one line says so ----

def refused(done, plain, *words):
    same((done.code, done.out), (plain.code, plain.out), "program")
    same(done.err.count(b"\n"), 1, "lines %r" % done.err)
    check(done.err.startswith(b"mayfly: ") and all(word in done.err for word in words), done.err)


@cases(["ocamlrun", "custom"])
def bytecode(how):
    with Folder() as here:
        put(here / "p.ml", "let () = Mayfly.trace_if_requested (); Mayfly.trace_if_requested ();\n"
            "  assert (Mayfly.External.alloc ~bytes:max_int = None); print_string \"ran\"\n")
        variables = with_library()
        done = run(["ocamlfind", "ocamlc", "-package", "mayfly.auto", "-linkpkg", "p.ml", "-o", "p",
                    *(["-custom"] if how == "custom" else [])], cwd=here.path, env=variables)
        check(done.code == 0, done)
        plain = run([here / "p"], env=variables)
        same((plain.out, plain.err), (b"ran", b""), "without")
        for kind in FORMATS:
            done = run([here / "p"], cwd=here.path, env={**variables, kind: here / "t"})
            refused(done, plain, b"bytecode", kind.encode())
        same(here.files("t*") + here.files("*.spool"), [], "files")


@case
def another_version():
    """The C half, as it is built for a runtime that has not been tested."""
    prefix()
    with Folder() as here:
        real = run(["ocamlfind", "ocamlc", "-where"]).out.decode().strip()
        os.makedirs(here / "where")
        os.symlink(os.path.join(real, "caml"), here / "where/real")
        os.makedirs(here / "where/caml")
        for header in os.listdir(os.path.join(real, "caml")):
            os.symlink(os.path.join(real, "caml", header), here / ("where/caml/" + header))
        os.unlink(here / "where/caml/version.h")
        put(here / "where/caml/version.h",
            '#define OCAML_VERSION 50100\n#define OCAML_VERSION_STRING "5.1.0"\n')
        for name in ("ocaml", "src", "include"):
            shutil.copytree(os.path.join(SOURCE, name), here / ("tree/" + name))
        done = run(["sh", "./build-stubs", here / "where", "gcc"], cwd=here / "tree/ocaml")
        check(done.code == 0, done)
        shutil.copytree(os.path.join(prefix(), "lib"), here / "lib")
        shutil.copy(here / "tree/ocaml/libmayfly_stubs.a", here / "lib/ocaml/mayfly")
        put(here / "p.ml", 'let () = Mayfly.trace_if_requested ()\n'
            'let t = Mayfly.start "own"\n'
            'let u = Mayfly.start "own"\n'
            'let () = Mayfly.stop_tracing t; Mayfly.stop_tracing u;\n'
            '  assert (Mayfly.External.alloc ~bytes:1_000_000_000 = None); print_string "ran"\n')
        done = run(["ocamlfind", "ocamlopt", "-package", "mayfly", "-linkpkg", "p.ml", "-o", "p"],
                   cwd=here.path, env={**with_library(), "OCAMLPATH": here / "lib/ocaml"})
        check(done.code == 0, done)
        done = run([here / "p"], cwd=here.path, env=environment(MAYFLY="ocaml=1"))
        same((done.code, done.out), (0, b"ran"), "program")
        lines = done.err.decode().splitlines()
        same(len(lines), 1, "lines of %r" % lines)
        check("OCaml 5.1.0, and not 4.13, 4.14, 5.3 or later" in lines[0], lines)
        same(glob.glob(here / "own") + glob.glob(here / "*.spool"), [], "files")


@cases(FORMATS)
def unwritable(kind):
    with Folder() as here:
        plain = run([auto(), "lists", "1000"])
        done = run([auto(), "lists", "1000"], env=tracing(kind, here / "no/such/file", "1e-2"))
        refused(done, plain, b"no/such/file", b"No such file")


@case
def pipes():
    with Folder() as here:
        os.mkfifo(here / "pipe")
        reader = os.open(here / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        plain = run([auto(), "lists", "1000"])
        done = run([auto(), "lists", "1000"], env=tracing("MEMTRACE", here / "pipe", "1e-2"))
        refused(done, plain, b"regular file")
        os.close(reader)


@case
def full():
    """Beyond the limit on a file's size: the file is valid as far as it goes."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))

    with Folder() as here:
        plain = run([auto(), "collections", "4000"])
        done = run([auto(), "collections", "4000"], env=tracing("MEMTRACE", here / "t", "1"),
                   preexec_fn=limit)
        refused(done, plain, b"not complete", b"File too large")
        check(30000 < os.path.getsize(here / "t") <= 100000, os.path.getsize(here / "t"))
        sane(here / "t", 100)
        done = run([auto(), "collections", "4000"], env=tracing("MAYFLY", here / "s", "1"),
                   preexec_fn=limit)
        refused(done, plain, b"/s")


@case
def odd_rates():
    with Folder() as here:
        plain = run([auto(), "lists", "1000"])
        done = run([auto(), "lists", "1000"], env=tracing("MEMTRACE", here / "t", "often"))
        refused(done, plain, b"MEMTRACE_RATE", b"often")
        done = run([auto(), "lists", "1000"], env=tracing("MAYFLY", here / "s", "2"))
        same((done.code, done.err), (0, b""), "program")
        check("ocaml=2" in info(here / "s")["note"], info(here / "s")["note"])


@case
def memprof_is_in_use():
    with Folder() as here:
        plain = run([program(), "memprof_first", "1000"])
        done = run([program(), "memprof_first", "1000"], env=tracing("MAYFLY", here / "s", "1e-2"))
        refused(done, plain, b"Gc.Memprof")
        # And a program that stops our sampler: what was recorded until then is there.
        done = run([program(), "memprof_stopped", "50000"],
                   env=tracing("MEMTRACE", here / "t", "1e-2"))
        same((done.code, done.out, done.err), (0, b"stopped\n", b""), "program")
        holds(of(here / "t", ".count")["self"], 50000 * 3 * WORD, "cells until then")


@case
def limited_spool():
    """What does not fit is dropped and counted; a long context is cut."""
    with Folder() as here:
        put(here / "p.ml", 'let context = String.make 5000 \'c\'\n'
            'let () = Mayfly.trace_if_requested ~context ();\n'
            '  print_int (List.length (List.init 99999 string_of_int))\n')
        done = run(["ocamlfind", "ocamlopt", "-package", "mayfly", "-linkpkg", "p.ml", "-o", "p"],
                   cwd=here.path, env=with_library())
        check(done.code == 0, done)
        done = run([here / "p"], env=environment(
            MAYFLY="max_spool=128K,ocaml=1,output=" + (here / "s")))
        same((done.code, done.out, done.err), (0, b"99999", b""), "program")
        facts = sane(here / "s", 100, allow_drops=True)
        check(facts["dropped_samples"] > 1000, facts["dropped_samples"])
        check("context: cccc" in facts["note"], facts["note"])


@case
def killed():
    """What is in the file when the program is killed: all of a spool, whole packets of the other,
    which is written while the program runs."""
    with Folder() as here:
        done = run([program(), "killed", "200000"], env=tracing("MAYFLY", here / "s", "1e-2"))
        same(done.code, 128 + signal.SIGKILL, "exit status")
        sane(here / "s", 1000)
        holds(of(here / "s", ".count")["self"], 200000 * 3 * WORD, "cells")
        run([program(), "killed", "200000"], env=tracing("MEMTRACE", here / "m", "1"))
        sane(here / "m", 1000)
        check(os.path.getsize(here / "m") > 3 * 32768, os.path.getsize(here / "m"))


@case
def variable_is_not_inherited():
    """Else each OCaml program that this one starts would write to the same file."""
    with Folder() as here:
        put(here / "p.ml", 'let () = Mayfly.trace_if_requested ();\n'
            '  exit (Sys.command "test -z \\"$MEMTRACE\\"")\n')
        done = run(["ocamlfind", "ocamlopt", "-package", "mayfly", "-linkpkg", "p.ml", "-o", "p"],
                   cwd=here.path, env=with_library())
        check(done.code == 0, done)
        same(run([here / "p"], env=tracing("MEMTRACE", here / "t", "1e-2")).code, 0, "exit status")
        check(os.path.getsize(here / "t") > 0, "not traced")


@case
def dormant():
    with Folder() as here:
        variables = environment(MAYFLY="start=dormant,ocaml=1,output=" + (here / "s"))
        done = run([program(), "cells", "1000"], env=variables)
        same((done.code, done.err), (0, b""), "program")
        same(info(here / "s")["samples"], 0, "samples")


@case
def clean_up():
    folder().cleanup()


if __name__ == "__main__":
    main()
