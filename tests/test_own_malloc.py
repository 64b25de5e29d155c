#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Executables that bring a malloc of their own: what their libraries take from it is recorded."""
import glob
import os
import re

from harness import Folder, Skip, case, cases, check, info, main, need, program, read, record, report, run, same

COUNT = 500
NOTE = ("malloc is that of the program itself: only what its libraries allocate is seen, once they are initialised; "
        "blocks that its own code frees look live")
ALONE = "malloc is that of the program itself: no block is seen"
# What needs no limit of the process, and is the same over any malloc.
UGLY = ["churn", "threads_exchange", "many_threads", "thread_keys", "fork_threads", "vfork_exec", "sizes",
        "deep", "end_quick", "end_thread_exits"]


def told(text, who="program"):
    """BLOCKS BYTES LEFT_BLOCKS LEFT_BYTES that the program's own malloc has counted."""
    return [int(n) for n in re.search(who.encode() + rb": \d+: (.*)", text).group(1).split()]


def found(trace):
    answer = []
    for metric in ("allocated", "leaked"):
        row = {r["function"]: r["total"] for r in report(trace, "--metric", metric)["rows"]}["library_work"]
        answer += [row["blocks"]["estimate"], row["bytes"]["estimate"]]
    return answer


@cases("%s %s %s" % (name, how, mode) for name in ("own_malloc", "own_malloc_wraps")
       for how in ("lazy", "now", "thread", "fork") for mode in ("exact", "every"))
def library(what):
    """To the block, as the program's malloc has counted. Each block of a sampled recording at rate 1, too."""
    name, how, mode = what.split()
    with Folder() as here:
        command = [program(name), how, program("own_malloc_library.so"), str(COUNT)]
        plain = run(command)
        watched = record(command, here / "t.mayfly", *(["-x"] if mode == "exact" else ["-i", "1"]))
        same((watched.code, watched.out, watched.err), (plain.code, plain.out, b""), "the program")
        same(plain.code, 5 if how == "fork" else 7, "its exit status")
        same(found(here / "t.mayfly"), told(plain.out), "blocks and bytes, allocated and left")
        same(info(here / "t.mayfly")["note"], NOTE, "note")


@case
def followed():
    with Folder() as here:
        command = [program("own_malloc"), "fork", program("own_malloc_library.so"), str(COUNT)]
        watched = record(command, here / "t.mayfly", "-x", "--follow")
        same(watched.code, 5, "exit status")
        child, = glob.glob(str(here / "t.*.mayfly"))
        same(found(here / "t.mayfly"), told(watched.out), "the program")
        check(told(watched.out, "child")[0] == 2 * told(watched.out)[0], watched.out)
        same(found(child)[:2], told(watched.out, "child")[:2], "the child")


@case
def sampled():
    with Folder() as here:
        command = [program("own_malloc"), "lazy", program("own_malloc_library.so"), str(20 * COUNT)]
        watched = record(command, here / "t.mayfly", "-i", "64K")
        row = {r["function"]: r["total"] for r in report(here / "t.mayfly", "--metric", "allocated")["rows"]}
        got, true = row["library_work"]["bytes"]["estimate"], told(watched.out)[1]
        check(abs(got - true) < true / 50, got, "not", true)


@case
def versioned():
    """A malloc that may find the hooks in a way that is not seen is left alone, and works."""
    with Folder() as here:
        command = [program("own_malloc_versioned"), "lazy", program("own_malloc_library.so"), str(COUNT)]
        plain = run(command)
        watched = record(command, here / "t.mayfly", "-x")
        same((watched.code, watched.out), (plain.code, plain.out), "the program")
        same(info(here / "t.mayfly")["note"], ALONE, "note")


def calls_under_gdb(rustc, functions, *arguments):
    """How often these functions of the executable are called; nothing of ours is in the process."""
    commands = ["set pagination off", "set confirm off", "starti"]
    for number, address in enumerate(functions, 1):
        commands += ["break *%#x" % (0x555555554000 + address), "ignore %d 1000000000" % number]
    options = [word for line in [*commands, "continue", "info breakpoints"] for word in ("-ex", line)]
    text = run(["gdb", "-nx", "-q", "-batch", "-iex", "set auto-solib-add off", "-iex", "set debuginfod enabled off",
                *options, "--args", rustc, *arguments]).out.decode()
    if "exited normally" not in text:
        raise Skip("gdb cannot run rustc: " + text[-300:])
    return sum(int(n) for n in re.findall(r"already hit (\d+) time", text))


def own_functions(path):
    names = run(["nm", "-D", "--defined-only", path]).out.decode()
    return [int(line.split()[0], 16) for line in names.splitlines()
            if line.split()[-1] in ("malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc", "memalign")]


@case
def rustc_compiles():
    """The Rust project's rustc exports jemalloc's malloc, which librustc_driver calls. Before the agent starts there are
    as many calls for any arguments."""
    need("gdb", "nm")
    toolchains = os.environ.get("RUSTUP_HOME", os.path.expanduser("~/.rustup")) + "/toolchains"
    rustc = next(filter(own_functions, sorted(glob.glob(toolchains + "/stable*/bin/rustc"))), None)
    if not rustc:
        raise Skip("no rustc with a malloc of its own")
    functions = own_functions(rustc)
    with Folder() as here:
        with open(here / "lib.rs", "w") as file:
            file.write('pub fn one(n: u64) -> String { let v: Vec<u64> = (0..n).collect(); format!("{:?}", v) }\n')
        jobs = [["--version"], ["--crate-type", "lib", "--emit=metadata", "-o", here / "lib.rmeta", here / "lib.rs"]]
        counts, results = [], []
        for job in jobs:
            plain = run([rustc, *job])
            results.append(read(here / "lib.rmeta") if len(job) > 1 else plain.out)
            watched = record([rustc, *job], here / "t.mayfly", "-x")
            same((watched.code, watched.out, watched.err), (plain.code, plain.out, b""), "rustc")
            same(read(here / "lib.rmeta") if len(job) > 1 else watched.out, results[-1], "what it writes")
            counts.append((calls_under_gdb(rustc, functions, *job), info(here / "t.mayfly")["samples"]))
        true, seen = (counts[1][i] - counts[0][i] for i in (0, 1))
        check(seen > 10000 and abs(seen - true) <= true / 1000, "calls", true, "seen", seen)
        check(0 <= counts[0][0] - counts[0][1] < 2000, "before the start", counts)


@cases(UGLY)
def behaves(what):
    with Folder() as here:
        plain = run([program("ugly_own"), what])
        for number, interval in enumerate(("1", "4K")):
            watched = record([program("ugly_own"), what], here / ("%d.mayfly" % number), "-q", "-i", interval)
            same((watched.code, watched.out, watched.err), (plain.code, plain.out, plain.err), what)


if __name__ == "__main__":
    main()
