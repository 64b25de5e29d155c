#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""mayfly attach, as root, to processes of other users and in other namespaces: from a folder that only root may look
into, named by the number that the process has here, with root's trace and nothing left behind."""
import contextlib
import os
import shutil
import signal
import subprocess

from harness import (AGENT, MAYFLY, Folder, Skip, cases, case, check, descendants, environment, main, need,
                     program, report, run, same, wait_until)
from attaching import need_attach, recorder_of
from told import Told

NOBODY = ["setpriv", "--reuid", "65534", "--clear-groups"]
BWRAP = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
INSIDE = {
    "another user": NOBODY,
    "unshare -pf": ["unshare", "-pf"],
    "unshare -mpf": ["unshare", "-mpf", "--mount-proc"],
    "unshare -mpf, another user": ["unshare", "-mpf", "--mount-proc", *NOBODY],
    "unshare -rmpfn": ["unshare", "-rmpfn", "--mount-proc"],
    "bwrap": BWRAP,
    "bwrap --unshare-all": [*BWRAP, "--unshare-all"],
    "chroot": ["chroot", "--userspec=65534:65534", "/"],
}


@contextlib.contextmanager
def told_inside(command):
    """The program told, which waits in there; its number here."""
    need_attach()
    if os.geteuid():
        raise Skip("needs root")
    need(command[0])
    if command is NOBODY and run([*NOBODY, "test", "-r", AGENT]).code:
        raise Skip("other users may not read %s" % AGENT)
    if run([*command, "/bin/true"]).code:
        raise Skip("not possible here")
    with subprocess.Popen([*command, program("told")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, env=environment()) as process:
        try:
            p = Told(process)
            # The last of those that only wait for their child.
            p.pid = [process.pid, *descendants(process.pid)][-1]
            yield p
        finally:
            for pid in list(descendants(process.pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.kill()


class Number:
    """What recorder_of() wants to know of a process."""

    def __init__(self, pid):
        self.pid = pid


@contextlib.contextmanager
def output(mode):
    with Folder() as here:
        os.mkdir(here / "out", mode)
        yield os.path.join(here.path, "out")


def only_roots(folder, *names):
    same(sorted(os.listdir(folder)), sorted(names))
    for name in names:
        same(os.stat(os.path.join(folder, name)).st_uid, 0, name)


def attached_and_told(p, folder, *options):
    trace = os.path.join(folder, "t.mayfly")
    recorder = recorder_of(Number(p.pid), "-o", trace, "-x", *options)
    same(recorder.poll(), None, recorder)
    p.tell("a", 3)
    same(run([MAYFLY, "detach", str(p.pid)]).err, b"")
    err = recorder.communicate()[1]
    same((recorder.returncode, err), (0, b""))
    return trace


def has_megabytes(trace, count):
    same(report(trace, "--metric", "leaked")["total"]["bytes"]["estimate"] // 1000000, count)


@cases(INSIDE)
def from_outside(how):
    with told_inside(INSIDE[how]) as p, output(0o700) as folder:
        has_megabytes(attached_and_told(p, folder), 3)
        only_roots(folder, "t.mayfly")
        p.tell("b", 1)  # it runs on


@cases(["700", "755"])
def any_folder(mode):
    """Also when it has been recorded before."""
    with told_inside(NOBODY) as p, output(int(mode, 8)) as folder:
        for _ in range(2):
            has_megabytes(attached_and_told(p, folder), 3)
            only_roots(folder, "t.mayfly")
            os.unlink(os.path.join(folder, "t.mayfly"))


@cases(["another user", "unshare -mpf"])
def becomes_another_program(how):
    """The next program's spools are named by the number that it has itself."""
    with told_inside(INSIDE[how]) as p, output(0o700) as folder:
        trace = os.path.join(folder, "t.mayfly")
        recorder = recorder_of(Number(p.pid), "-o", trace, "-x")
        same(recorder.poll(), None, recorder)
        p.process.stdin.write(b"e0\n")
        p.process.stdin.flush()
        same(p.process.stdout.readline(), b"ready\n")
        p.tell("c", 5)
        p.process.stdin.close()
        same(p.process.wait(), 0)
        err = recorder.communicate()[1]
        same((recorder.returncode, err), (0, b""))
        has_megabytes(trace, 5)
        check(all(name.endswith(".mayfly") for name in os.listdir(folder)), os.listdir(folder))


@case
def out_of_reach():
    """It fails, says why, and leaves nothing behind."""
    with told_inside([*BWRAP, "--tmpfs", "/tmp", "--tmpfs", "/var/tmp", "--unshare-all"]) as p, output(0o700) as folder:
        done = run([MAYFLY, "attach", "--for", "1ms", "-o", os.path.join(folder, "t.mayfly"), str(p.pid)])
        same((done.code, done.err.count(b"\n")), (1, 1), done)
        only_roots(folder)
        p.tell("b", 1)


@case
def another_c_library():
    """Its functions are not where the file of that name here has them."""
    path = os.path.realpath("/lib/x86_64-linux-gnu/libc.so.6")
    with Folder() as here:
        shutil.copy(path, here / "libc.so.6")
        with told_inside([*BWRAP, "--ro-bind", here / "libc.so.6", path]) as p, output(0o700) as folder:
            done = run([MAYFLY, "attach", "--for", "1ms", "-o", os.path.join(folder, "t.mayfly"), str(p.pid)])
            same((done.code, b"its C library is another file" in done.err), (1, True), done)
            only_roots(folder)
            p.tell("b", 1)


@case
def a_process_that_has_ended():
    """Nobody has waited for it yet: that is not for the kernel's permission."""
    need_attach()
    process = subprocess.Popen(["true"])
    try:
        wait_until(lambda: open("/proc/%d/stat" % process.pid).read().rsplit(")", 1)[1].split()[0] == "Z", "its end")
        with Folder() as here:
            done = run([MAYFLY, "attach", "-o", here / "t.mayfly", str(process.pid)])
            same((done.code, done.err.endswith(b": it has ended\n")), (1, True), done)
    finally:
        process.wait()


if __name__ == "__main__":
    main()
