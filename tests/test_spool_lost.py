#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A spool that is emptied, cut, removed or replaced, or whose disk is full or fails, costs the recording and
never the program (SECURITY.md, "What the agent promises")."""
import os
import struct
import subprocess

from harness import (AGENT, Folder, MAYFLY, Skip, case, cases, check, environment, main, program, run, same,
                     unchanged, wait_until)
from attaching import need_attach

LOOPS = 30000


def empty(path):
    with open(path, "wb"):
        pass


def cut(path):
    os.truncate(path, 4096)


def cut_packets(path):
    os.truncate(path, 65536 + 100)


def remove(path):
    os.unlink(path)


def remove_and_make(path):
    os.unlink(path)
    with open(path, "wb") as f:
        f.write(b"something else")


def replace(path):
    with open(path + ".other", "wb") as f:
        f.write(b"something else")
    os.rename(path + ".other", path)


def punch(path):
    size = os.path.getsize(path)
    result = run(["fallocate", "--punch-hole", "--offset", "0", "--length", str(size), path])
    check(result.code == 0, result)


def empty_again_and_again(path):
    for _ in range(20):
        if os.path.exists(path):
            empty(path)


def fill_the_disk(path):
    with open(os.path.join(os.path.dirname(path), "filler"), "wb", buffering=0) as f:
        try:
            while f.write(bytes(1 << 16)):
                pass
        except OSError:
            pass


def fill_and_punch(path):
    """Then the next store needs a block that is not there."""
    punch(path)
    fill_the_disk(path)


def read_only(path):
    """Refused while somebody has a file open to write; the disk then stays as it is."""
    run(["mount", "-o", "remount,ro", os.path.dirname(path)])


EVENTS = [empty, cut, cut_packets, remove, remove_and_make, replace, punch, empty_again_and_again]
DISK_EVENTS = EVENTS + [fill_the_disk, fill_and_punch, read_only]


class SmallDisk:
    """A tmpfs."""

    def __init__(self, here):
        self.path = here / "small"

    def __enter__(self):
        os.mkdir(self.path)
        if os.geteuid() or run(["mount", "-t", "tmpfs", "-o", "size=48M", "tmpfs", self.path]).code:
            raise Skip("cannot mount a file system here")
        return self.path

    def __exit__(self, *_):
        run(["umount", "-l", self.path])


class Counted:
    """The program counted; by how it is recorded: started, alone, attached."""

    def __init__(self, folder, how, exact):
        self.trace = os.path.join(folder, "t.mayfly")
        self.counts = os.path.join(folder, "counts")
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        with open(self.counts, "wb") as f:
            f.write(bytes(16))
        command = [program("counted"), "3", str(LOOPS), "0"]
        options = ["-x"] if exact else ["-i", "4K"]
        variables = {"COUNTED": self.counts}
        if how == "started":
            command = [MAYFLY, "record", *options, "-o", self.trace, "--", *command]
        elif how == "alone":
            variables.update(LD_PRELOAD=AGENT, MAYFLY="output=%s.spool,%s" % (
                self.trace, "interval=1" if exact else "interval=4096"))
        self.process = subprocess.Popen(command, env=environment(**variables), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.recorder = None
        if how == "attached":
            wait_until(lambda: self.done() > 100, "the program")
            self.recorder = subprocess.Popen(
                [MAYFLY, "attach", *options, "-o", self.trace, str(self.process.pid)], env=environment(),
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def done(self):
        with open(self.counts, "rb") as f:
            return struct.unpack("2Q", f.read())[1]

    def over(self):
        return self.process.poll() is not None

    def end(self):
        out, err = self.process.communicate()
        if self.recorder:
            err += self.recorder.communicate()[1]
            check(self.recorder.returncode >= 0, "the recorder was ended by a signal", self.recorder.returncode, err)
        return self.process.returncode, b" ".join(out.split()[1:]), err


def survives(folder, event, how, exact, plain, begun=True):
    while True:
        counted = Counted(folder, how, exact)
        spool = counted.trace + ".spool"
        wait_until(lambda: (os.path.exists(spool) and os.path.getsize(spool) > 65536) or counted.over(), "the spool",
                   pause=.01 if begun else 0)
        if begun:
            wait_until(lambda: counted.done() > 20000 or counted.over(), "a part of the recording")
        if not counted.over():
            break
        counted.end()
    event(spool)
    code, out, err = counted.end()
    run(["mount", "-o", "remount,rw", folder])
    same((code, out), (0, plain), "%s %s %s: %r" % (event.__name__, how, "exact" if exact else "sampled", err))
    if event in (remove_and_make, replace):
        with open(spool, "rb") as f:
            same(f.read(), b"something else", "somebody else's file")
    check(err.count(b"\n") <= 3, "lines", err)
    if event in (empty, cut) and how != "alone":
        check(b"emptied" in err or not err, "the cause", err)


def plain_output():
    return b" ".join(run([program("counted"), "3", str(LOOPS), "0"]).out.split()[1:])


@cases(["started", "alone", "attached"])
def on_the_disk(how):
    plain = plain_output()
    with Folder() as here:
        os.mkdir(here / "disk")
        for event in EVENTS:
            for exact in (False, True):
                survives(here / "disk", event, how, exact, plain)


@cases(["started", "attached"])
def while_the_agent_begins(how):
    plain = plain_output()
    with Folder() as here:
        os.mkdir(here / "disk")
        for event in [empty, cut, cut_packets, punch, remove] * 4:
            survives(here / "disk", event, how, False, plain, begun=False)


@cases(["started", "alone", "attached"])
def on_a_small_disk(how):
    plain = plain_output()
    with Folder() as here, SmallDisk(here) as disk:
        for event in DISK_EVENTS:
            for exact in (False, True):
                survives(disk, event, how, exact, plain)


@case
def while_detach_runs():
    """The program is idle, so the call of detach is the first to touch what is gone."""
    need_attach()
    with Folder() as here, subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for what in ("attach", "detach"):
            done = run([program("attach_steps"), what, str(process.pid),
                        os.path.join(os.path.dirname(AGENT), "libmayfly-attach.so"),
                        "output=%s,pid=%d" % (here / "s.spool", process.pid), "-1"])
            same((done.code, done.out), (0, b""), what)
            empty(here / "s.spool")
        same((process.communicate(b"hello")[0], process.returncode), (b"hello", 0))


@cases(["SEE", "WAIT", "FAULT", "SENT"])
def programs_see_their_own_signals(what):
    with Folder() as here:
        unchanged([program("signals"), what], here / "t.mayfly", "-q", "-i", "1")


main()
