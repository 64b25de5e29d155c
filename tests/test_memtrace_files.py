#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Real files of Memtrace, printed as its own dump tool prints them. They are in MAYFLY_DATA, or in
shared/data beside the sources; without them there is nothing to test here."""
import glob
import gzip
import os
import re
import tempfile

from harness import PROGRAMS, SOURCE, Skip, case, check, main, run

TOOL = os.path.join(PROGRAMS, "memtrace_tool")
DATA = os.environ.get("MAYFLY_DATA", os.path.join(SOURCE, "..", "shared", "data"))


def files():
    found = sorted(glob.glob(os.path.join(DATA, "memtrace-corpus", "*.ctf")))
    if not found:
        raise Skip("the collection of real files is not here")
    return found


def expected_text(path):
    with gzip.open(path[:-len(".ctf")] + ".dump.txt.gz") as text:
        return text.read()


def with_domains(path, text):
    """The dumps of the collection were made before Memtrace printed domains."""
    version3 = path.endswith("_v3.ctf")
    return re.sub(rb"( len=\d+)", rb"\1 dom=0", text) if version3 else text


def first_difference(got, expected):
    for number, (a, b) in enumerate(zip(got.split(b"\n"), expected.split(b"\n"))):
        if a != b:
            return "line %d: %r, expected %r" % (number + 1, a[:300], b[:300])
    return "%d bytes, expected %d" % (len(got), len(expected))


@case
def dumps_are_those_of_memtrace():
    for path in files():
        result = run([TOOL, "dump", path])
        expected = with_domains(path, expected_text(path))
        check(result.code == 0, path, result)
        check(result.out == expected, path, first_difference(result.out, expected))


@case
def copies_print_the_same():
    """Also where the copy is not the same bytes, because Memtrace had to cut stacks."""
    for path in files():
        expected = run([TOOL, "dump", path]).out
        copy = run([TOOL, "copy", path])
        check(copy.code == 0, path, copy)
        with tempfile.NamedTemporaryFile() as file:
            file.write(copy.out)
            file.flush()
            again = run([TOOL, "dump", file.name])
        if "deepcut" not in path:
            check(again.out == expected, path, first_difference(again.out, expected))
        else:
            check(again.out.count(b"\n") == expected.count(b"\n"), path, "lines are missing")


if __name__ == "__main__":
    main()
