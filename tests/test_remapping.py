#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Recordings in a row of a program whose mappings change while the recorder reads them: all of them can be
read, and no part of one is damaged."""
import os

from harness import Folder, MAYFLY, case, check, main, program, run

ROUNDS = int(os.environ.get("MAYFLY_ROUNDS", "1"))
RECORDINGS = 2000
AT_ONCE = 100  # recordings between two looks at them


def record_some(here, number):
    paths = [here / ("%d.mayfly" % i) for i in range(number, number + AT_ONCE)]
    for i, path in enumerate(paths):
        done = run([MAYFLY, "record", "-q", "--force", "-o", path, *(["-i", "512K"] if i % 2 else []), "--",
                    program("remapping")])
        check(done.code == 0, path, done)
    return paths


@case
def all_recordings_can_be_read():
    program("remapping")
    with Folder() as here:
        for number in range(0, RECORDINGS * ROUNDS, AT_ONCE):
            paths = record_some(here, number)
            done = run([MAYFLY, "report", "--json", *paths])
            check(done.code == 0 and not done.err, "recording", number, done)
            for path in paths:
                os.unlink(path)


if __name__ == "__main__":
    main()
