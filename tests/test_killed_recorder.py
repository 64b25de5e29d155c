#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A recorder that is killed, at many moments: FILE.part, FILE.keys and FILE.spool are one recording, whose
sums are the program's own to the block (tests/programs/counted.c)."""
import glob
import os
import random
import re
import shutil
import signal
import struct
import subprocess

from harness import (BUILD, Folder, MAYFLY, as_json, case, cases, check, environment, info, main, mayfly, program,
                     report, run, same, wait_until)

ROUNDS = 4 * int(os.environ.get("MAYFLY_ROUNDS", "1"))
LOOPS = 80000


class Counted:
    """The program under a recorder. Killed once it has made so many allocations."""

    def __init__(self, here, threads, children, options, seed=None):
        self.counts, self.output = here / "counts", here / "output"
        for name in glob.glob(here / "t.mayfly*"):
            os.unlink(name)
        with open(self.counts, "wb") as f:
            f.write(bytes(16))
        with open(self.output, "wb") as out:
            self.recorder = subprocess.Popen(
                [MAYFLY, "record", "-q", *options, "-o", here / "t.mayfly", "--",
                 program("counted"), str(threads), str(LOOPS), str(children)],
                env=environment(COUNTED=self.counts, MAYFLY=seed), stdin=subprocess.DEVNULL, stdout=out,
                stderr=subprocess.PIPE)
        wait_until(lambda: self.begun_and_done()[0] or self.recorder.poll() is not None, "the program's start")
        with open("/proc/%d/task/%d/children" % (self.recorder.pid, self.recorder.pid)) as f:
            self.programs = [int(pid) for pid in f.read().split()]

    def begun_and_done(self):
        with open(self.counts, "rb") as f:
            return struct.unpack("2Q", f.read())

    def kill(self, moment, all_of_them=False, with_keys=False):
        wait_until(lambda: (self.begun_and_done()[1] >= moment and
                            (not with_keys or os.path.exists(self.output[:-6] + "t.mayfly.keys"))) or
                   self.recorder.poll() is not None, "the moment")
        for pid in self.programs if all_of_them else []:
            os.kill(pid, signal.SIGKILL)
        self.recorder.kill()
        self.recorder.communicate()

    def told(self, processes):
        """{process: ((allocations, bytes), (blocks left, bytes))}"""
        def lines():
            with open(self.output) as f:
                return [line.split() for line in f.read().splitlines()]
        wait_until(lambda: len(lines()) >= processes, "what the program says")
        return {int(pid): ((int(a), int(b)), (int(c), int(d))) for pid, a, b, c, d in lines()}


def sums(trace, *options):
    """Blocks and bytes that the program's two functions have allocated, and those that they have live."""
    def total(metric):
        blocks = size = 0
        for row in report(trace, "--by", "function", "--metric", metric, *options)["rows"]:
            if row["function"] in ("take", "retake"):
                blocks += row["self"]["blocks"]["estimate"]
                size += row["self"]["bytes"]["estimate"]
        return blocks, size
    return total("allocated"), total("live")


def ended(pid):
    """It has, or is a zombie that nobody waits for."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


@cases([1, 3])
def sums_are_the_programs(threads):
    random.seed("killed %d" % threads)
    parts = 0
    with Folder() as here:
        for attempt in range(ROUNDS):
            counted = Counted(here, threads, 0, ["-x"])
            counted.kill(random.randrange(1, threads * LOOPS * 4), with_keys=attempt % 2)
            told = list(counted.told(1).values())[0]
            parts += os.path.exists(here / "t.mayfly.keys")
            same(sums(here / "t.mayfly"), told, "attempt %d: what FILE says" % attempt)
            same(info(here / "t.mayfly")["missed_frees"], 0, "missed frees")
            check(os.path.exists(here / "t.mayfly.spool"), "no spool")
    check(parts, "no part was left")


@case
def both_are_killed():
    """What is in the recording was begun, and what was done is in it."""
    random.seed("both")
    with Folder() as here:
        for attempt in range(ROUNDS):
            counted = Counted(here, 3, 0, ["-x"])
            counted.kill(random.randrange(1, 3 * LOOPS * 4), all_of_them=True)
            wait_until(lambda: all(ended(pid) for pid in counted.programs), "the end of the program")
            begun, done = counted.begun_and_done()
            (blocks, _), (live, _) = sums(here / "t.mayfly")
            check(done <= blocks <= begun, "attempt", attempt, "done", done, "recorded", blocks, "begun", begun)
            # Each thread keeps 512 blocks, and has one more in its hands.
            check(live <= 3 * 513, "live", live)


@case
def forked_children():
    """Each has what it inherited, wherever its parent's recording was when the recorder was killed."""
    random.seed("forked")
    with Folder() as here:
        for attempt in range(ROUNDS):
            counted = Counted(here, 1, 3, ["-x", "--follow"])
            counted.kill(random.randrange(1, LOOPS * 8))
            told = counted.told(4)
            spools = {info(spool)["pid"]: spool for spool in glob.glob(here / "t.mayfly*.spool")}
            same(sorted(spools), sorted(told), "processes")
            for pid, spool in spools.items():
                same(sums(spool), told[pid], "attempt %d: %s" % (attempt, os.path.basename(spool)))


@case
def sampled():
    """The samples of a run are those of its seed, whether the recorder lives or not."""
    random.seed("sampled")
    facts = ("samples", "frees", "dropped_samples", "dropped_frees", "missed_frees")
    with Folder() as here:
        counted = Counted(here, 1, 0, ["-i", "64"], seed="seed=7")
        counted.recorder.communicate()
        whole = sums(here / "t.mayfly", "--focus", "work"), [info(here / "t.mayfly")[fact] for fact in facts]
        for attempt in range(ROUNDS // 2):
            counted = Counted(here, 1, 0, ["-i", "64"], seed="seed=7")
            counted.kill(random.randrange(1, LOOPS * 4))
            counted.told(1)
            wait_until(lambda: all(ended(pid) for pid in counted.programs), "the end of the program")
            same((sums(here / "t.mayfly", "--focus", "work"), [info(here / "t.mayfly")[fact] for fact in facts]),
                 whole, "attempt %d" % attempt)


def continues(spool):
    """Whether a spool says, without the files beside it, that its beginning is elsewhere."""
    with Folder() as alone:
        shutil.copy(spool, alone / "t.spool")
        text = run([MAYFLY, "info", alone / "t.spool"])
    return b"the beginning of this recording is in the trace beside it" in text.out


def left_behind(here):
    """A recording of which FILE.part has a part; the program's figures. The keys alone do not show that:
    they are there a moment before the first packet leaves the spool."""
    random.seed("left")
    for _ in range(20):
        counted = Counted(here, 3, 0, ["-x"])
        counted.kill(1, with_keys=True)
        told = list(counted.told(1).values())[0]
        if os.path.exists(here / "t.mayfly.keys") and continues(here / "t.mayfly.spool"):
            return told
    raise AssertionError("in 20 recordings no packet had left the spool")


@case
def every_command_reads_one_recording():
    with Folder() as here:
        told = left_behind(here)
        trace = here / "t.mayfly"
        for name in (trace, trace + ".spool", trace + ".part"):
            same(sums(name), told, name)
        mayfly("merge", "-o", here / "merged", trace, lines=1)
        same(sums(here / "merged"), told, "merged")
        refused = mayfly("merge", "-o", here / "twice", trace + ".part", trace + ".spool", code=1, lines=2)
        check("would count twice" in refused.message, refused.message)
        same(as_json("diff", "--json", here / "merged", trace)["total"]["blocks"]["change"], 0, "difference")
        for command in (["info"], ["leaks"], ["export", "--to", "pprof", "-o", here / "out"]):
            result = run([MAYFLY, *command, trace])
            check(b"not complete" in result.err and result.code in (0, 1), command, result)
            check(b"cut off" not in result.out + result.err, "part of it only", command, result)
        mayfly("merge", "-o", trace, trace, lines=1)
        for name in glob.glob(trace + ".*"):
            os.unlink(name)
        same(sums(trace), told, "the finished trace")


@case
def without_the_keys():
    """Keys that are missing, cut off or damaged cost what was read before, and it is said."""
    with Folder() as here:
        told = left_behind(here)
        keys = here / "t.mayfly.keys"
        with open(keys, "rb") as f:
            good = f.read()
        bad = [None, b"", good[:12], good[:30], good[:12] + bytes(1000), good[:-1], good[:len(good) // 2]]
        for at in range(0, len(good), len(good) // 8 + 1):
            bad.append(good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1:])
        for damaged in bad:
            if damaged is None:
                os.unlink(keys)
            else:
                with open(keys, "wb") as f:
                    f.write(damaged)
            facts = run([MAYFLY, "info", here / "t.mayfly"])
            check(facts.code == 0, "damaged keys", facts)
            (blocks, _), _ = sums(here / "t.mayfly")
            check(blocks <= told[0][0], "more than there was:", blocks, told)
        os.unlink(keys)
        text = run([MAYFLY, "info", here / "t.mayfly"])
        check(b"the beginning of this recording is in the trace beside it" in text.out, "not said", text)


@case
def without_memory():
    """Whichever allocation fails: one recording, or the error that says so."""
    with Folder() as here:
        while not os.path.exists(here / "t.mayfly.keys"):
            Counted(here, 1, 0, ["-x"]).kill(1, all_of_them=True, with_keys=True)
        result = run([os.path.join(BUILD, "tests/no_memory"), here / "t.mayfly.spool"])
        check(result.code == 0 and b"times" in result.out, result)


@case
def names_are_taken_again():
    """The next recording of the name needs --force, which leaves nothing of the old one."""
    with Folder() as here:
        left_behind(here)
        refused = run([MAYFLY, "record", "-o", here / "t.mayfly", "--", "true"])
        check(refused.code != 0 and b"cut off" in refused.err, refused)
        again = run([MAYFLY, "record", "-q", "--force", "-o", here / "t.mayfly", "--", "true"])
        same(again.code, 0, "with --force")
        same([os.path.basename(name) for name in here.files("t.*")], ["t.mayfly"], "files")


main()
