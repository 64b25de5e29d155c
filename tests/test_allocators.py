#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""mayfly over other allocators than glibc's: preloaded, or linked to the program. Every block that
the program gets and gives back is theirs; mayfly sees them all."""
import json
import re

from harness import (Folder, Skip, cases, check, environment, library, main, program, record,
                     report, rows, run, same, sane)

ALLOCATORS = {
    "jemalloc": "libjemalloc.so.2",
    "tcmalloc_minimal": "libtcmalloc_minimal.so.4",
    "mimalloc": "libmimalloc.so.2",
}
# Their own stack and address space needs end some cases differently: compared are only those that
# do not limit the process. What a case prints may depend on the allocator; the reference is the
# same program over the same allocator without mayfly.
CASES = ["churn", "threads_exchange", "many_threads", "thread_keys", "fork_threads", "vfork_exec",
         "sizes", "coroutines", "deep", "end_quick", "end_thread_exits", "signal_stack"]


@cases("%s %s" % (name, case) for name in ALLOCATORS for case in CASES)
def programs(what):
    name, case = what.split()
    preload = environment(LD_PRELOAD=library(ALLOCATORS[name]))
    with Folder() as here:
        plain = run([program("ugly"), case], env=preload)
        for number, interval in enumerate(("1", "4K")):
            trace = here / ("%d.mayfly" % number)
            watched = record([program("ugly"), case], trace, "-i", interval, env=preload)
            same((watched.code, watched.out, watched.err), (plain.code, plain.out, plain.err), case)
            sane(trace, 100 if interval == "1" else 0)


@cases(ALLOCATORS)
def errors(name):
    """What fails over the allocator alone fails in the same way with mayfly, with the same errno."""
    preload = environment(LD_PRELOAD=library(ALLOCATORS[name]))
    with Folder() as here:
        plain = run([program("ugly"), "errors"], env=preload)
        if plain.code != 0:
            raise Skip("the case ends with %d over this allocator alone" % plain.code)
        watched = record([program("ugly"), "errors"], here / "t.mayfly", "-i", "1", env=preload)
        same((watched.code, watched.out, watched.err), (plain.code, plain.out, plain.err), "errors")


@cases("%s %s" % (name, case) for name in ALLOCATORS
       for case in ("thread_locals", "new_forms", "exceptions"))
def cxx(what):
    """Allocators bring operators new and delete of their own, which do not call malloc."""
    name, case = what.split()
    preload = environment(LD_PRELOAD=library(ALLOCATORS[name]))
    with Folder() as here:
        plain = run([program("ugly_cxx"), case], env=preload)
        watched = record([program("ugly_cxx"), case], here / "t.mayfly", "-i", "1", env=preload)
        same((watched.code, watched.out, watched.err), (plain.code, plain.out, plain.err), case)
        glibc = here / "g.mayfly"
        record([program("ugly_cxx"), case], glibc, "-i", "1")
        sane(here / "t.mayfly", 100)
        # The program asks for the same blocks, whoever serves it.
        mine = {"::".join(f.split("::")[-1:]): r for f, r in rows(
            here / "t.mayfly", "--metric", "allocated", "--sort", "total").items()}
        base = {"::".join(f.split("::")[-1:]): r for f, r in rows(
            glibc, "--metric", "allocated", "--sort", "total").items()}
        found = 0
        for function in base:
            if re.fullmatch(r"(throws|new_forms|exceptions|thread_locals|~?PerThread|~?Global)(\(.*)?",
                            function):
                check(function in mine, function, "allocates nothing over", name)
                same(mine[function]["total"]["blocks"]["estimate"],
                     base[function]["total"]["blocks"]["estimate"], "blocks of " + function)
                found += 1
        check(found >= 2, "functions found:", sorted(base))


@cases("%s %d" % (name, threads) for name in ALLOCATORS for threads in (1, 8))
def ground_truth(what):
    name, threads = what.split()
    preload = environment(LD_PRELOAD=library(ALLOCATORS[name]))
    with Folder() as here:
        command = [program("known"), "31", threads, "5000"]
        if run(command, env=preload).code != 0:
            raise Skip("the program fails over this allocator alone")
        result = record(command, here / "t.mayfly", "-i", "1", env=preload)
        same((result.code, result.err), (0, b""), "known")
        truth = json.loads(result.out)
        for metric, key in (("allocated", "allocated"), ("live", "live"), ("peak", "peak")):
            found = {row["function"]: row["self"] for row in
                     report(here / "t.mayfly", "--metric", metric)["rows"]}
            for function, figures in truth.items():
                if figures[key][1]:
                    check(function in found, metric, "of", function, "is missing")
                    got = found[function]
                    same([got["bytes"]["estimate"], got["blocks"]["estimate"]], figures[key],
                         metric + " of " + function)


@cases(ALLOCATORS)
def rust(name):
    preload = environment(LD_PRELOAD=library(ALLOCATORS[name]))
    with Folder() as here:
        plain = run([program("blocks_rs")], env=preload)
        watched = record([program("blocks_rs")], here / "t.mayfly", "-i", "1", env=preload)
        same((watched.code, watched.out, watched.err), (plain.code, plain.out, plain.err), "rust")
        sane(here / "t.mayfly", 10000)


if __name__ == "__main__":
    main()
