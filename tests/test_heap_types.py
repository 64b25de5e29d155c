#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""mayfly heap: types of blocks from debug information, against what the program knows."""
import json
import os
import random
import shutil

from harness import MAYFLY, SOURCE, Folder, case, cases, check, main, need, program, run, same
from attaching import need_attach
from picturing import heap, started

# A compiler, and how it writes debug information.
WAYS = ["gcc -O2 -gdwarf-5", "gcc -O0 -gdwarf-4", "gcc -O1 -gdwarf-5 -gsplit-dwarf",
        "gcc -O1 -gdwarf-5 -fdebug-types-section", "clang -O1 -gdwarf-5", "clang -O2 -gdwarf-4",
        "clang -O1 -gdwarf-5 -gsplit-dwarf"]
DAMAGED = 60


def sums(picture):
    """Of each type: blocks, bytes."""
    found = {}
    for row in picture["types"]:
        if row["type"]:
            blocks, size = found.get(row["type"], (0, 0))
            found[row["type"]] = (blocks + row["blocks"], size + row["bytes"])
    return found


def check_types(process):
    truth, found = json.loads(process.said), sums(heap(process.pid))
    for name, there in truth.items():
        # C++ programs count blocks only.
        same(found.get(name, (0, 0))[:2 if isinstance(there, list) else 1],
             tuple(there) if isinstance(there, list) else (there,), name)


def compiled(here, source, way):
    compiler, *options = way.split()
    if source.endswith(".cc"):
        compiler = {"gcc": "g++", "clang": "clang++"}[compiler]
    need(compiler)
    done = run([compiler, *options, "-fno-builtin", "-o", "prog",
                os.path.join(SOURCE, "tests/programs", source)], cwd=here / ".")
    same(done.code, 0, done)
    return here / "prog"


@cases(["declared", "declared_cxx"])
def types_to_the_byte(name):
    need_attach()
    with started(program(name)) as process:
        check_types(process)


@cases(["%s: %s" % (source, way) for source in ("declared.c", "declared_cxx.cc") for way in WAYS])
def however_it_was_compiled(what):
    need_attach()
    source, way = what.split(": ")
    with Folder() as here, started(compiled(here, source, way)) as process:
        if way.startswith("gcc") and "split" in way and source == "declared.c":
            # gcc 12 says the wrong place of thread-local variables then.
            truth = json.loads(process.said)
            del truth["per_thread"]
            process.said = json.dumps(truth)
        check_types(process)


@case
def debug_information_in_a_file_of_its_own():
    need_attach()
    need("objcopy", "strip")
    with Folder() as here:
        path, debug = here / "prog", here / "prog.debug"
        shutil.copy(program("declared"), path)
        same(run(["objcopy", "--only-keep-debug", path, debug]).code, 0)
        same(run(["strip", path]).code, 0)
        same(run(["objcopy", "--add-gnu-debuglink=" + debug, path], cwd=here / ".").code, 0)
        with started(path) as process:
            check_types(process)
            os.unlink(debug)
            # Of others: the C library's may be there.
            own = set(json.loads(process.said)) - {"char[]"}
            same(own & set(sums(heap(process.pid))), set(), "types without debug information")


@case
def a_table_says_through_what():
    need_attach()
    with started(program("declared")) as process:
        done = run([MAYFLY, "heap", "--wide", str(process.pid)])
        same((done.code, done.err), (0, b""), done)
        check(b"session *[] -> session -> buffer -> char[]" in done.out, done.out.decode())
        # A list is one stage.
        check(any(line.split()[-1] == "node" for line in done.out.decode().splitlines() if "g_list" in line),
              done.out.decode())


@case
def types_in_a_recording():
    """With a picture at the exit, each live block has its type."""
    with Folder() as here:
        done = run([MAYFLY, "record", "-q", "-x", "--heap-at", "exit", "-o", here / "t", "--", program("declared")])
        same(done.code, 0, done)
        truth = json.loads(done.out)
        done = run([MAYFLY, "report", "--by", "type", "--json", here / "t"])
        same(done.code, 0, done)
        found = {row["type"]: row["self"]["blocks"]["estimate"] for row in json.loads(done.out)["rows"]}
        same({name: found.get(name) for name in truth}, {name: there[0] for name, there in truth.items()})
        done = run([MAYFLY, "report", "--by", "type", "--type", "^session$", "--json", here / "t"])
        same(json.loads(done.out)["total"]["blocks"]["estimate"], truth["session"][0], done)


@case
def damaged_debug_information():
    """Bytes of it are changed at random: there is a picture, with or without types."""
    need_attach()
    need("readelf")
    rows = run(["readelf", "-SW", program("declared")]).out.decode().replace("[ ", "[").splitlines()
    sections = {}
    for row in rows:
        cells = row.split()
        if len(cells) > 5 and cells[1] in (".debug_info", ".debug_abbrev", ".debug_str", ".debug_line"):
            sections[cells[1]] = (int(cells[4], 16), int(cells[5], 16))
    check(".debug_info" in sections, rows)
    with open(program("declared"), "rb") as file:
        whole = file.read()
    numbers = random.Random(35)
    with Folder() as here:
        path = here / "prog"
        for number in range(DAMAGED):
            damaged = bytearray(whole)
            for start, size in sections.values():
                for _ in range(numbers.choice([0, 1, 10, 100])):
                    damaged[start + numbers.randrange(size)] = numbers.choice([0, 1, 255, numbers.randrange(256)])
            with open(path, "wb") as file:
                file.write(damaged)
            os.chmod(path, 0o755)
            with started(path) as process:
                picture = heap(process.pid)
                same(sum(row["bytes"] for row in picture["types"]), picture["bytes"], number)
            os.unlink(path)


if __name__ == "__main__":
    main()
