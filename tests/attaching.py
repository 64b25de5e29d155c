# SPDX-License-Identifier: Apache-2.0
"""What the tests of mayfly attach share."""
import glob
import mmap
import os
import platform
import struct
import subprocess
import threading

from harness import MAYFLY, SOURCE, TIMEOUT, Folder, Skip, check, environment, info, run, same, wait_until

EXACT, SAMPLED = ["-x"], ["-i", "4K"]
ENDS = 23  # exit status of programs/answering.*
WORK_MOST = 1000  # until the agent has noticed
RUNNING, OFF = 1, 2  # a spool's state
RECORDER_AT, STATE_AT = 204, 256  # in its header


def source(name):
    return os.path.join(SOURCE, "tests", "programs", name)


def need_attach():
    if platform.machine() != "x86_64":
        raise Skip("attaching is for x86-64")
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            with Folder() as here:
                done = run([MAYFLY, "attach", "-q", "--for", "1ms", "-o", here / "t.mayfly", str(process.pid)])
        finally:
            process.kill()
    if b"the kernel does not allow" in done.err or b"ptrace_scope" in done.err:
        raise Skip("no process may be traced here: %s" % done.err)


def is_recorded(process):
    done = run([MAYFLY, "ctl", str(process.pid), "status"])
    return done.code == 0 and b"waiting" not in done.out


def writes_for(recorder, spool):
    """Not the one that another recorder has left."""
    if not os.path.exists(spool):
        return False
    with open(spool, "rb") as file:
        head = file.read(STATE_AT + 4)
    return len(head) == STATE_AT + 4 and struct.unpack_from("<I", head, STATE_AT)[0] == RUNNING \
        and struct.unpack_from("<I", head, RECORDER_AT)[0] == recorder.pid


def is_traced(process):
    """One of its threads makes the call that attaches. An exec in another one would end it."""
    for status in glob.glob("/proc/%d/task/*/status" % process.pid):
        try:
            with open(status) as file:
                if "TracerPid:\t0\n" not in file.read():
                    return True
        except (FileNotFoundError, ProcessLookupError):
            pass
    return False


def recorder_of(process, *options):
    """mayfly attach -o FILE, which has attached, or has failed."""
    recorder = subprocess.Popen([MAYFLY, "attach", *options, str(process.pid)], env=environment(),
                                stderr=subprocess.PIPE)
    spool = options[options.index("-o") + 1] + ".spool"
    wait_until(lambda: recorder.poll() is not None or (writes_for(recorder, spool) and not is_traced(process)),
               "mayfly to attach")
    return recorder


class Subject:
    """One of programs/answering.*, and the recorder of the recording that goes on, if any."""

    def __init__(self, command, here):
        self.command, self.here = command, here
        self.recorder, self.trace, self.precious = None, None, None
        self.mode, self.traces = EXACT, 0
        self.process, self.watchdog = None, None

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment(), cwd=self.here.path)
        self.watchdog = threading.Timer(TIMEOUT, self.process.kill)
        self.watchdog.start()
        same(self.process.stdout.readline(), "ready\n")

    def ask(self, what, answer):
        try:
            self.process.stdin.write(what + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        got = self.process.stdout.readline()
        if not got:
            raise AssertionError("the program has ended: exit status %d" % self.process.wait())
        same(got, answer + "\n", "answer of the program")

    def work(self, times=1):
        for _ in range(times):
            self.ask("work", "worked")

    def new_trace(self, folder=None):
        self.traces += 1
        return os.path.join(folder or self.here.path, "t%d.mayfly" % self.traces)

    def spool(self):
        return self.trace + ".spool"

    def attach(self, mode=None, folder=None):
        self.trace = self.new_trace(folder)
        self.recorder = recorder_of(self.process, "-q", "-o", self.trace, *(mode or self.mode))
        if self.recorder.poll() is not None:
            raise AssertionError("attach: %s" % self.recorder.communicate()[1])

    def kill_recorder(self):
        self.recorder.kill()
        self.recorder.communicate()
        self.recorder = None

    def lose_recorder(self, lose, most=WORK_MOST):
        """It dies, and lose(spool) takes the spool; the program goes on until the agent has found out. True: it has."""
        with open(self.spool(), "r+b") as spool:
            header = mmap.mmap(spool.fileno(), 4096, access=mmap.ACCESS_READ)
        self.kill_recorder()
        lose(self.spool())
        for _ in range(most):
            if struct.unpack_from("<I", header, STATE_AT)[0] == OFF:
                return True
            self.work()
        return False

    def mayfly(self, what, *options):
        return run([MAYFLY, what, *options, str(self.process.pid)])

    def let_go(self):
        """Ends the recording, if one goes on. Its recorder may fail, but not crash."""
        if not self.recorder:
            return
        done = self.mayfly("detach")
        by_itself = done.code and b"not being recorded" in done.err  # the spool was lost, and the recorder knows it
        check(not done.code or by_itself, done)
        if by_itself:
            wait_until(lambda: self.recorder.poll() is not None, "the recorder to end by itself")
        err = self.recorder.communicate()[1]
        check(self.recorder.returncode in (0, 1), "the recorder's status", self.recorder.returncode, err)
        self.recorder = None

    def attach_again(self):
        """A whole recording, in the other mode."""
        trace = self.new_trace()
        done = self.mayfly("attach", "-q", "--for", "50ms", "-o", trace, *(SAMPLED if self.mode is EXACT else EXACT))
        same(done.code, 0, done)
        info(trace)
        return done

    def finish(self):
        out = self.process.communicate()[0]
        self.watchdog.cancel()
        same((out, self.process.returncode), ("good\n", ENDS), "the program's end")

    def stop(self):
        if self.recorder:
            self.recorder.kill()
            self.recorder.communicate()
        if self.process:
            self.watchdog.cancel()
            self.process.kill()
            self.process.wait()
