#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What is held and what is lost, in the ways that leak checkers tell apart: mayfly heap says it of each block of
programs/verdicts.cc, and valgrind and LeakSanitizer say the same, but for what the man page names."""
import json
import mmap
import os
import re

from harness import MAYFLY, PROGRAMS, PYTHON, Folder, Skip, case, cases, check, environment, main, need, program, run, same
from attaching import need_attach
from picturing import heap, started

# Blocks whose type mayfly knows are not listed by size.
TYPES = {"by its second base": "cxx::both", "by a shared pointer to a member": "std::_Sp_counted_ptr_inplace"}
# Those whose type the C library's debug information says, where it is installed.
LIBC_TYPES = {"in the environment": "char[]"}

# Where the peers differ. valgrind: a block that is only pointed into is "possibly lost"; an array's begin is
# past the end of a block that has no elements; at the end it frees the environment first.
VALGRIND = {"by a pointer inside": "possibly", "in a thread-local variable of a library": "possibly",
            "an empty array behind its length": "direct", "in the environment": "direct"}
# LeakSanitizer: mappings hold nothing unless the program says so, and in a circle all is lost indirectly.
LSAN = {"in a mapping": "direct", "in a shared mapping": "direct", "in a mapping that fork() does not copy": "direct",
        "on a stack of the program's own in a mapping": "direct", "first of a lost circle": "indirect"}


def usable(size):
    """malloc_usable_size() of what was asked for."""
    chunk = max(32, (size + 8 + 15) & ~15)
    if chunk < 128 << 10:
        return chunk - 8
    return ((chunk + 8 + mmap.PAGESIZE - 1) & -mmap.PAGESIZE) - 16


def listed(size):
    """As rows of types have it."""
    return size if size <= 4096 else 1 << (size - 1).bit_length()


def check_verdicts(picture, truth):
    lost = {row["block_bytes"] or row["type"]: row["lost"]["blocks"] for row in picture["types"]}
    for name, size, verdict in truth:
        if name in TYPES:
            row, = [blocks for key, blocks in lost.items() if str(key).startswith(TYPES[name])]
        else:
            key = listed(usable(size))
            row = lost[key if key in lost else LIBC_TYPES[name]]
        same(row > 0, verdict != "held", name)
    for verdict in ("direct", "indirect"):
        sizes = [usable(size) for _, size, is_so in truth if is_so == verdict]
        same(picture["lost"][verdict + "ly"], {"bytes": sum(sizes), "blocks": len(sizes)}, verdict)


@cases(["copy", "core"])
def verdicts(how):
    need_attach()
    with Folder() as here, started(program("verdicts"), PROGRAMS) as process:
        truth = json.loads(process.said)
        check(len(truth) > 60, truth)
        if how == "core":
            need("gcore")
            same(run(["gcore", "-o", here / "core", str(process.pid)]).code, 0)
            check_verdicts(heap(here.files("core.*")[0]), truth)
        else:
            picture = heap(process.pid)
            check_verdicts(picture, truth)
            names = [row["name"] or "" for row in picture["held"]]
            check("mapping of" in " ".join(names), names)
            check(not re.search(r"\b[0-9a-f]{9,}\b", " ".join(names)), "an address is in", names)


def check_peer(truth, said, differences):
    for name, size, verdict in truth:
        check(said.get(size, "held") in (verdict, differences.get(name)), name, said.get(size), "is not", verdict)


@case
def valgrind_agrees():
    need("valgrind")
    done = run(["valgrind", "--leak-check=full", "--show-leak-kinds=all", program("verdicts"), PROGRAMS])
    same(done.code, 0, done)
    words = {"definitely": "direct", "indirectly": "indirect", "possibly": "possibly", "still": "held"}
    said = {}
    for whole, direct, blocks, word in re.findall(
            rb"== ([\d,]+)(?: \(([\d,]+) direct, [\d,]+ indirect\))? bytes in (\d+) blocks are (\w+)", done.err):
        said[int((direct or whole).replace(b",", b"")) // int(blocks)] = words[word.decode()]
    check(len(said) > 60, done)
    check_peer(json.loads(done.out), said, VALGRIND)


@case
def leak_sanitizer_agrees():
    done = run([program("verdicts_lsan"), PROGRAMS], env=environment(LSAN_OPTIONS=None))
    if b"fatal error" in done.err:
        raise Skip("LeakSanitizer does not work here: %s" % done.err[:200])
    same(done.code, 0, done)
    said = {int(whole) // int(blocks): word.decode().lower() for word, whole, blocks in re.findall(
        rb"(Direct|Indirect) leak of (\d+) byte\(s\) in (\d+) object", done.err)}
    check(len(said) > 20, done)
    check_peer(json.loads(done.out), said, LSAN)


@cases(["copy", "no-stop"])
def shared_memory_stays_as_it_is(how):
    """Pages that the program has not touched do not come into being."""
    need_attach()
    script = ("import mmap, os, sys\n"
              "file = os.memfd_create('sharing')\n"
              "os.ftruncate(file, 64 << 20)\n"
              "shared = mmap.mmap(file, 64 << 20)\n"
              "shared[5 << 20] = 1\n"
              "def say(): print(os.fstat(file).st_blocks, flush=True)\n"
              "say()\n"
              "sys.stdin.read()\n"
              "say()\n")
    with started(*PYTHON, "-c", script) as process:
        heap(process.pid, *(["--no-stop"] if how == "no-stop" else []))
    same(process.rest, process.said, "blocks of the file")


@case
def a_stop_is_bounded_also_by_what_fork_leaves_out():
    need_attach()
    script = ("import mmap, sys\n"
              "room = mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE)\n"
              "room.madvise(mmap.MADV_DONTFORK)\n"
              "print(1, flush=True)\n"
              "sys.stdin.readline()\n"
              "room[:256 << 20] = bytes(256 << 20)\n"
              "print(2, flush=True)\n"
              "sys.stdin.read()\n")
    with started(*PYTHON, "-c", script) as process:
        # What was never touched takes no time: it would be 400 ms.
        check(heap(process.pid, "--max-stop", "50ms")["blocks"] > 0, "no blocks")
        process.stdin.write(b"\n")
        process.stdin.flush()
        same(process.stdout.readline(), b"2\n")
        done = run([MAYFLY, "heap", "--max-stop", "50ms", str(process.pid)])
        same((done.code, done.out, done.err.count(b"\n")), (1, b"", 1), done)
        check(b"MADV_DONTFORK" in done.err, done)
        check(heap(process.pid, "--max-stop", "1h")["blocks"] > 0, "no blocks")


if __name__ == "__main__":
    main()
