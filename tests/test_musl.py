#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that musl's loader starts (Alpine Linux), made by musl-gcc: libmayfly-musl.so."""
import json
import os
import re
import subprocess

from harness import (AGENT, Folder, Skip, case, cases, check, environment, info, main, mayfly,
                     program, record, report, run, same, sane)

MUSL_AGENT = AGENT.replace("libmayfly.so", "libmayfly-musl.so")
LOADER = "/lib/ld-musl-x86_64.so.1"


def need_musl(name):
    if not os.path.exists(program(name)) or not os.path.exists(LOADER):
        raise Skip("musl-gcc is not installed")
    return program(name)


def recorded(here, command, *options, env=None):
    """The trace. The program prints and returns what it does without mayfly, which says nothing."""
    env = env or environment()
    plain = run(command, env=env)
    trace = here / "t.mayfly"
    watched = record(command, trace, *options, env=env)
    same((watched.code, watched.out, watched.err), (plain.code, plain.out, plain.err), command)
    return trace


def stacks(trace):
    """[(bytes, [function from the root on])] of all allocations; musl's own functions are left out,
    except those with a name."""
    found = []
    for line in mayfly("dump", trace).out.decode().splitlines():
        got = re.match(r"\S+ alloc \d+ #\d+ size=(\d+) .*?flags=\S+ (.*)", line)
        if got:
            frames = [f for f in got.group(2).split(";") if not f.startswith("ld-musl")]
            found.append((int(got.group(1)), frames))
    return found


@case
def allocator():
    """Each function of the allocator counts once, though musl's calloc calls malloc."""
    with Folder() as here:
        trace = recorded(here, [need_musl("musl"), "allocator"], "-x")
        expected = [(1001, ["by_malloc", "take"]), (3006, ["by_calloc"]), (10, ["by_realloc"]),
                    (100003, ["by_realloc"]), (7028, ["by_reallocarray"]),
                    (1005, ["by_posix_memalign"]), (1088, ["by_aligned_alloc"]),
                    (1007, ["by_memalign"]), (1008, ["by_valloc"])]
        same(stacks(trace), [(size, ["main", "allocator"] + f) for size, f in expected], "stacks")
        facts = sane(trace, 9)
        same((facts["truncated_stacks"], facts["missed_frees"], facts["note"]), (0, 0, None), "facts")


@case
def through_musl():
    """Stacks go on in the caller of a musl function, although that has no unwind tables."""
    with Folder() as here:
        trace = recorded(here, [need_musl("musl"), "through"], "-x")
        found = {}
        for size, frames in stacks(trace):
            same(frames[:2], ["main", "through_musl"], "the outer frames of %d bytes" % size)
            found.setdefault(size, set()).add(tuple(frames[2:]))
        same(found[2001], {("by_qsort", "compare", "take")}, "of qsort")
        same(found[2002], {("by_strdup", "strdup")}, "of strdup")
        same(found[2017], {("by_asprintf", "vasprintf")}, "of asprintf")
        same(found[2005], {("by_longjmp", "take")}, "after longjmp")
        same([(f[0],) + f[-2:] for f in found[2006]], [("by_signal", "on_signal", "take")],
             "of a signal handler")
        check(("by_opendir", "opendir") in set().union(*found.values()), found)
        same(info(trace)["truncated_stacks"], 0, "stacks that were cut")


@case
def threads():
    with Folder() as here:
        trace = recorded(here, [need_musl("musl"), "threads"], "-x")
        counted = {}
        for size, frames in stacks(trace):
            key = (size, tuple(f for f in frames if f != "[stack cut]"))
            counted[key] = counted.get(key, 0) + 1
        same(counted, {(3002, ("thread_main", "take")): 20000, (3003, ("at_end", "take")): 20},
             "blocks")
        # A key's destructor is below several functions of musl's.
        check(info(trace)["truncated_stacks"] <= 20, "stacks are cut")


@case
def libraries():
    """One that is opened later, its constructor, and after the dlclose that musl ignores. What the
    program asks dlerror() is answered as ever."""
    with Folder() as here:
        trace = recorded(here, [need_musl("musl"), "libraries", need_musl("musl_plugin.so")], "-x")
        same(stacks(trace), [(3001, ["main", "libraries", "plugin_begin"]),
                             (3004, ["main", "libraries", "plugin_allocate"]),
                             (3005, ["main", "libraries", "plugin_allocate"])], "stacks")
        events = mayfly("dump", trace).out.decode()
        check('"dlopen"' in events and '"dlclose"' in events, events)


@case
def processes():
    """fork and posix_spawn: not followed. exec: what comes after it is recorded."""
    with Folder() as here:
        trace = recorded(here, [need_musl("musl"), "forks"], "-x")
        same(len(stacks(trace)), 9, "blocks after the exec")
        same(len(here.files("t*.mayfly")), 2, "one before the exec, one after")


@case
def followed():
    with Folder() as here:
        watched = record([need_musl("musl"), "forks"], here / "t.mayfly", "-x", "-f")
        same(watched.code, 0, "exit status (%r)" % watched)
        sizes = []
        for name in os.listdir(here.path):
            path = os.path.join(here.path, name)
            for each in [path] if os.path.isfile(path) else \
                    [os.path.join(path, one) for one in os.listdir(path)]:
                sizes += [size for size, _ in stacks(each)]
        check(3006 in sizes, "the fork's block is missing:", sizes)
        check(sizes.count(1001) == 2, "blocks of the spawned program and after exec:", sizes)


@cases(range(3))
def ground_truth(seed):
    with Folder() as here:
        trace = recorded_known(here, seed, "-x")
        for metric, key in (("allocated", "allocated"), ("leaked", "live"), ("peak", "peak"),
                            ("temporary", "temporary")):
            found = {row["function"]: row["self"] for row in
                     report(trace[0], "--metric", metric, "--by", "function")["rows"]}
            for function, known in trace[1].items():
                own = found.get(function)
                got = [own["bytes"]["estimate"], own["blocks"]["estimate"]] if own else [0, 0]
                same(got, known[key], "%s by %s" % (metric, function))
        same(info(trace[0])["truncated_stacks"], 0, "stacks that were cut")


def recorded_known(here, seed, *options, env=None):
    done = record([need_musl("musl_known"), str(seed), "4", "3000"], here / "t.mayfly", *options,
                  env=env or environment())
    same((done.code, done.err), (0, b""), "known")
    sane(here / "t.mayfly")
    return here / "t.mayfly", json.loads(done.out)


@case
def sampled():
    with Folder() as here:
        trace, truth = recorded_known(here, 5, "-i", "16K", env=environment(MAYFLY="seed=7"))
        total = report(trace, "--metric", "allocated")["total"]["bytes"]
        true = sum(figures["allocated"][0] for figures in truth.values())
        check(abs(total["estimate"] - true) <= 5 * total["stderr"] + 1, total, "not", true)


@case
def by_hand():
    """As in a container that has the library, but not mayfly."""
    with Folder() as here:
        spool = here / "s.spool"
        done = run([need_musl("musl"), "allocator"],
                   env=environment(LD_PRELOAD=MUSL_AGENT, MAYFLY="exact=1,output=%s" % spool))
        same((done.code, done.err), (0, b""), "musl")
        rows = report(spool, "--metric", "allocated", "--by", "function")["rows"]
        same([row["self"]["bytes"]["estimate"] for row in rows if row["function"] == "by_calloc"],
             [3006], "by_calloc")


@case
def only_what_musl_has():
    """The library needs no other one, and nothing that musl lacks."""
    def names(*arguments):
        done = subprocess.run(("nm", "-D") + arguments, stdout=subprocess.PIPE, check=True)
        return [line.split() for line in done.stdout.decode().splitlines()]

    need_musl("musl")
    there = {words[-1] for words in names("--defined-only", LOADER)}
    for words in names("--undefined-only", MUSL_AGENT):
        check(words[0] == "w" or words[-1] in there, "musl has no", words[-1])
    ours = {words[-1] for words in names("--defined-only", MUSL_AGENT)}
    # Since 1.2.4 the names that end with 64 are none to link with; the loader still finds ours for old programs.
    same({name for name in ours - there if not name.startswith("mayfly_")} - {"mmap64"},
         {"free_sized", "free_aligned_sized"}, "hooks of functions that musl lacks")
    done = subprocess.run(["readelf", "-dW", MUSL_AGENT], stdout=subprocess.PIPE, check=True)
    check(b"NEEDED" not in done.stdout, done.stdout)


@case
def not_under_glibc():
    """glibc's loader takes the library, too: it does nothing there."""
    with Folder() as here:
        plain = run([program("plain"), "x"])
        done = run([program("plain"), "x"], env=environment(
            LD_PRELOAD=MUSL_AGENT, MAYFLY="exact=1,output=%s" % (here / "s.spool")))
        same((done.code, done.out, done.err), (plain.code, plain.out, plain.err), "plain")


main()
