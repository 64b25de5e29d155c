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


# ---- jemalloc and tcmalloc in the executable: its own calls are seen as well ----

STATIC = {"jemalloc": ("libjemalloc.a", "-DJEMALLOC"), "je_": ("libjemalloc.a", "-DPREFIXED"),
          "tcmalloc": ("libtcmalloc_minimal.a", "-DTCMALLOC")}
PUBLIC = ("malloc calloc realloc free memalign aligned_alloc posix_memalign valloc malloc_usable_size mallocx rallocx "
          "xallocx dallocx sdallocx nallocx mallctl mallctlbymib mallctlnametomib malloc_stats_print").split()


def linked(here, name, source, *options):
    """The program, linked statically with this allocator."""
    need("gcc", "objcopy")
    archive = run(["gcc", "-print-file-name=" + STATIC[name][0]]).out.decode().strip()
    if "/" not in archive:
        raise Skip(archive + " is not installed")
    if name == "je_":
        renamed = [option for public in PUBLIC for option in ("--redefine-sym", "%s=je_%s" % (public, public))]
        same(run(["objcopy", *renamed, archive, here / "je.a"]).code, 0, "objcopy")
        archive = here / "je.a"
    built = run(["gcc", "-O1", "-g", "-w", "-fno-builtin", "-fno-optimize-sibling-calls", "-D_GNU_SOURCE", STATIC[name][1],
                 *options, os.path.dirname(os.path.abspath(__file__)) + "/programs/" + source, "-o", here / "program",
                 archive, "-lstdc++", "-lm", "-lpthread", "-ldl"])
    same(built.code, 0, built.err)
    return here / "program"


@cases("%s %s %d" % (name, mode, threads) for name in STATIC for mode in ("exact", "every") for threads in (1, 4))
def its_own_statistics(what):
    """As the allocator has counted."""
    name, mode, threads = what.split()
    with Folder() as here:
        command = [linked(here, name, "static_malloc.c"), threads, "6000"]
        plain = run(command)
        watched = record(command, here / "t.mayfly", *(["-x"] if mode == "exact" else ["-i", "1"]))
        same((watched.code, watched.out, watched.err), (plain.code, plain.out, b""), "the program")
        same(plain.code, 3, "its exit status")
        true = [int(n) for n in plain.out.split()]
        got = []
        for metric in ("allocated", "leaked"):
            row = {r["function"]: r["total"] for r in report(here / "t.mayfly", "--metric", metric)["rows"]}["work"]
            got += [row["blocks"]["estimate"], row["bytes"]["estimate"]]
        same([got[0], got[1], got[3]], true, "blocks and bytes, and bytes left")
        same((info(here / "t.mayfly")["note"], info(here / "t.mayfly")["missed_frees"]), (None, 0), "note")


@cases("%s %s %s" % (name, source, what) for name in ("jemalloc", "tcmalloc")
       for source, cases_of in (("ugly.c", UGLY), ("ugly_cxx.cc", ["thread_locals", "new_forms", "exceptions"]))
       for what in cases_of)
def behaves_linked(what):
    name, source, what = what.split()
    with Folder() as here:
        command = [linked(here, name, source), what]
        plain = run(command)
        for number, interval in enumerate(("1", "4K")):
            watched = record(command, here / ("%d.mayfly" % number), "-q", "-i", interval)
            same((watched.code, watched.out, watched.err), (plain.code, plain.out, plain.err), what)


@cases(["libc.so.6", "libstdc++.so.6"])
def instructions(name):
    """The agent reads code as objdump does, whatever it claims to know."""
    need("objdump", "gcc")
    path = run(["gcc", "-print-file-name=" + name]).out.decode().strip()
    lines = []
    for line in run(["objdump", "-d", "-w", path]).out.decode().splitlines():
        fields = line.split("\t")
        if len(fields) == 3 and re.match(r" *[0-9a-f]+:$", fields[0]):
            target = re.search(r"\b(?:j\w+|call)\s+([0-9a-f]+) ", fields[2] + " ")
            at = int(fields[0].strip(" :"), 16)
            lines.append((fields[1].replace(" ", ""), int(target.group(1), 16) - at if target else 0, fields[2]))
    lines = lines[::7]
    answer = run([program("read_instructions")], stdin="".join(line[0] + "\n" for line in lines).encode()).out.decode()
    known = 0
    for (code, branch, what), got in zip(lines, answer.splitlines(), strict=True):
        length, to = (int(n) for n in got.split())
        if length:
            same((length, to), (len(code) // 2, branch), "%s (%s)" % (what, code))
            known += 1
    if os.uname().machine == "x86_64":
        check(known > 0.8 * len(lines) > 10000, known, "of", len(lines))


@case
def stripped():
    """Without symbols, the calls of its libraries."""
    with Folder() as here:
        command = [linked(here, "jemalloc", "static_malloc.c", "-s"), "2", "1000"]
        plain, watched = run(command), record(command, here / "t.mayfly", "-x")
        same((watched.code, watched.out), (plain.code, plain.out), "the program")
        same(info(here / "t.mayfly")["note"], NOTE, "note")


@cases(["guile", "C", "D"])
def collectors(what):
    """What Boehm's and D's collectors hand out is not seen, and the trace says so."""
    with Folder() as here:
        command = ["guile", "-c", "(display 1)"]
        if what == "guile":
            need("guile")
        else:
            compiler, name, text, options = {
                "C": ("gcc", "gc.c", "void *GC_malloc(unsigned long);\nint main(void) { return !GC_malloc(9); }\n", ["-lgc"]),
                "D": ("gdc", "d.d", "void main() { auto a = new int[100]; a[0] = 1; }\n", ["-shared-libphobos"])}[what]
            need(compiler)
            with open(here / name, "w") as file:
                file.write(text)
            command = [here / "program"]
            built = run([compiler, here / name, "-o", command[0], *options])
            if built.code:
                raise Skip("cannot be built: " + built.err.decode()[-200:])
        plain, watched = run(command), record(command, here / "t.mayfly", "-x")
        same((watched.code, watched.out, watched.err), (plain.code, plain.out, plain.err), "the program")
        note = info(here / "t.mayfly")["note"] or ""
        check(re.match("(GC|gc)_malloc is that of .*: blocks of this garbage collector are not seen", note), note)


if __name__ == "__main__":
    main()
