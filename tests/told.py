# SPDX-License-Identifier: Apache-2.0
"""The programs told and crowd, which do what they are told: see programs/told.c, crowd.c."""
import contextlib
import shutil
import subprocess

from harness import MAYFLY, check, deviation, environment, program, report, same


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


@contextlib.contextmanager
def told_recording(trace, *options, of=program("told")):
    """The program told under record, and the recorder."""
    recorder = subprocess.Popen([MAYFLY, "record", "-q", "-o", trace, *options, "--", of],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment())
    try:
        yield Told(recorder), recorder
    finally:
        recorder.stdin.close()
        recorder.wait()
        recorder.stdout.close()


CROWD = 400  # threads


def crowd_allocated(traces, blocks, site="site_a"):
    """Each thread of the crowd has allocated so many blocks at that site; what an estimate of it is off by
    is less than 4 standard errors. (Those that are stated for the stratified sampler are too wide.)"""
    rows = [row["self"]["bytes"] for trace in traces
            for row in report(trace, "--metric", "allocated", "--top", "0", "--all")["rows"] if row["function"] == site]
    truth, found = CROWD * blocks * 1000, sum(row["estimate"] for row in rows)
    score = deviation(found, truth, sum(row["stderr"] ** 2 for row in rows) ** .5)
    check(abs(score) < 4, "%s: %d bytes of %d, %.1f standard errors off" % (site, found, truth, score))
