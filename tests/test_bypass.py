#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Ways past the hooks: what could be missed or counted twice is either right or said."""
from harness import (Folder, case, cases, check, environment, info, library, main, mayfly, program,
                     record, report, run, same)

COUNT = 4000
SIZE = 1000
ALLOCATORS = {
    "jemalloc": "libjemalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "mimalloc": "libmimalloc.so.2",
}


def by_function(trace, metric):
    return {row["function"]: row["total"] for row in report(trace, "--metric", metric)["rows"]}


def right(trace, exact, function, allocated, leaked, allocated_bytes=None):
    """The function's blocks of SIZE bytes: exact, or their bytes estimated within a tenth."""
    allocated_bytes = allocated_bytes or allocated * SIZE
    for metric, blocks, size in (("allocated", allocated, allocated_bytes),
                                 ("leaked", leaked, leaked * SIZE)):
        row = by_function(trace, metric).get(function)
        got = [row[unit]["estimate"] if row else 0 for unit in ("blocks", "bytes")]
        if exact:
            same(got, [blocks, size], "%s by %s" % (metric, function))
        else:
            check(abs(got[1] - size) <= 0.1 * allocated_bytes,
                  metric, "bytes of", function, got[1], "not", size)


def recorded(here, exact, command, env=None, out=b"done\n"):
    """The trace of the command, which prints what it does without mayfly."""
    env = env or environment()
    plain = run(command, env=env)
    same((plain.code, plain.out, plain.err), (0, out, b""), "the program alone")
    trace = here / "t.mayfly"
    watched = record(command, trace, "-i", "1" if exact else "4K", env=env)
    same((watched.code, watched.out, watched.err), (plain.code, plain.out, plain.err), command)
    return trace


@cases(["exact", "sampled"])
def nested(mode):
    """An allocator whose calloc, realloc and memalign call the public malloc and free."""
    exact = mode == "exact"
    with Folder() as here:
        trace = recorded(here, exact, [program("bypass"), "nested", str(COUNT)],
                         environment(LD_PRELOAD=program("nested_malloc.so")))
        right(trace, exact, "kept_calloc", COUNT, COUNT // 4)
        right(trace, exact, "kept_aligned", COUNT, COUNT // 4)
        # Each block twice: SIZE / 10 at first, then SIZE.
        right(trace, exact, "kept_realloc", 2 * COUNT, COUNT // 4, COUNT * SIZE * 11 // 10)


@cases("%s %s %s" % (mode, when, plugin) for mode in ("exact", "sampled")
       for when in ("lazy", "now") for plugin in ("bypass_plugin", "bypass_plugin_now"))
def deepbind(what):
    """A library opened with RTLD_DEEPBIND: its malloc and free are those of libc."""
    mode, when, plugin = what.split()
    exact = mode == "exact"
    library_path = program(plugin + ".so")
    with Folder() as here:
        trace = recorded(here, exact, [program("bypass"), when, str(COUNT), library_path])
        right(trace, exact, "plugin_copies", COUNT + (100 if exact and "now" in plugin else 0), 0)
        right(trace, exact, "gives_plugin", COUNT, 0)
        right(trace, exact, "plugin_gives", COUNT, COUNT // 4)
        right(trace, exact, "plugin_keeps", 2 * COUNT, COUNT // 4, COUNT * SIZE * 3 // 2)
        same(info(trace)["missed_frees"], 0, "missed frees")
        same(info(trace)["note"], None, "note")


@cases(["jemalloc apart", "glibc namespace"])
def other_heaps(what):
    """Blocks of another allocator than the program's are left alone, and the trace says so."""
    allocator, case = what.split()
    plugin = program("bypass_plugin.so")
    env = environment()
    if allocator == "jemalloc":
        env = environment(LD_PRELOAD=library("libjemalloc.so.2"))
    with Folder() as here:
        trace = recorded(here, True, [program("bypass"), case, str(COUNT), plugin], env)
        check("plugin_keeps" not in by_function(trace, "leaked"), "not seen")
        told = {"apart": "RTLD_DEEPBIND uses another malloc", "namespace": "dlmopen loaded"}[case]
        check(told in info(trace)["note"], info(trace))
        for command in ("info", "report", "leaks"):
            text = b" ".join(mayfly(command, trace).out.split()).decode()
            check(told in text, command, text)


@cases(["exact", "sampled"])
def handle(mode):
    """malloc and free that dlsym finds in libc's handle."""
    exact = mode == "exact"
    with Folder() as here:
        trace = recorded(here, exact, [program("bypass"), "handle", str(COUNT)])
        right(trace, exact, "kept_by_handle", COUNT, COUNT // 4)
        same(info(trace)["missed_frees"], 0, "missed frees")


@cases("%s %s %s" % (mode, name, linked) for mode in ("exact", "sampled")
       for name in ("glibc", *ALLOCATORS) for linked in ("bypass", "bypass_lazy"))
def allocators(what):
    """Functions of jemalloc, tcmalloc and mimalloc beside malloc's; a program asks whether they are
    there."""
    mode, name, linked = what.split()
    exact = mode == "exact"
    env = environment()
    if name != "glibc":
        env = environment(LD_PRELOAD=library(ALLOCATORS[name]))
    with Folder() as here:
        command = [program(linked), "allocators", str(COUNT)]
        plain = run(command, env=env)
        found = [int(name == other) for other in ("jemalloc", "tcmalloc", "mimalloc")]
        same((plain.code, plain.out, plain.err),
             (0, b"%d %d %d\n1\ndone\n" % tuple(found), b""), "the program alone")
        trace = recorded(here, exact, command, env, plain.out)
        if name == "jemalloc":
            right(trace, exact, "grown_jemalloc", 2 * COUNT, 0, COUNT * (2 * SIZE - 8))
            right(trace, exact, "kept_jemalloc", 2 * COUNT, COUNT // 4, COUNT * SIZE * 3 // 2)
        elif name != "glibc":
            right(trace, exact, "kept_" + name, 2 * COUNT, COUNT // 4)
        same(info(trace)["missed_frees"], 0, "missed frees")


@cases(["malloc", "new"])
def own_allocator(what):
    """A program that brings malloc or operator new: the trace says whose it is."""
    with Folder() as here:
        trace = here / "t.mayfly"
        command = [program("bypass_new")]
        if what == "malloc":
            command = [program("bypass_own"), "nested", str(COUNT)]
        watched = record(command, trace, "-x")
        same((watched.code, watched.out), (0, b"done\n"), what)
        told = {"malloc": "malloc is that of the program itself: only what its libraries allocate is seen, "
                          "once they are initialised; blocks that its own code frees look live",
                "new": "operator new is that of the program itself: blocks that it does not take "
                       "from malloc are not seen"}[what]
        same(info(trace)["note"], told, "note")
        for command in ("info", "report", "leaks"):
            text = b" ".join(mayfly(command, trace).out.split()).decode()
            check(told in text, command, text)


@case
def usual_operator_new():
    """No remark where operator new calls malloc."""
    with Folder() as here:
        trace = here / "t.mayfly"
        record([program("ugly_cxx"), "exceptions"], trace, "-x")
        same(info(trace)["note"], None, "note")


@cases(["exact", "sampled"])
def hidden(mode):
    """Frees by a function that nothing can stand in for: the next block at the address tells."""
    exact = mode == "exact"
    with Folder() as here:
        trace = here / "t.mayfly"
        watched = record([program("bypass"), "hidden", str(COUNT)], trace,
                         "-i", "1" if exact else "4K")
        same((watched.code, watched.out), (0, b"done\n"), "hidden")
        check(b"frees not seen: see mayfly info" in watched.err, watched.err)
        missed = info(trace)["missed_frees"]
        if exact:
            same(missed, COUNT - 1, "missed frees")
        else:
            check(COUNT * SIZE / 4096 * 0.8 < missed < COUNT * SIZE / 4096 * 1.2, missed)
        right(trace, exact, "hidden_free", COUNT, 1)
        for command in ("info", "report", "leaks", "check --max-leaked 1G"):
            words = command.split()
            text = b" ".join(mayfly(words[0], *words[1:], trace).out.split())
            check(b"blocks ended without a free that mayfly saw" in text, command, text)


if __name__ == "__main__":
    main()
