# SPDX-License-Identifier: Apache-2.0
"""The program told, which does what it is told: see programs/told.c."""
import shutil

from harness import program, same


def told_program(here, name="told"):
    """A copy of it of another name."""
    shutil.copy(program("told"), here / name)
    return here / name


class Told:
    def __init__(self, process):
        self.process = process
        same(process.stdout.readline(), b"ready\n")

    def tell(self, what, count):
        self.process.stdin.write(b"%s%d\n" % (what.encode(), count))
        self.process.stdin.flush()
        same(self.process.stdout.readline(), b"done\n")
