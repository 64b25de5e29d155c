#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""record --heap-at: pictures of the heap before the program exits, near its peak, and when a rule comes true."""
import contextlib
import glob
import json
import os
import re
import signal
import struct
import subprocess

from harness import (CLANG, MAYFLY, PYTHON, Folder, Skip, as_json, case, cases, check, descendants, environment, main,
                     mayfly, need, program, read, run, same, wait_until)
from attaching import RUNNING, STATE_AT, need_attach

HEAPS_ASKED_AT, HEAPS_DONE_AT = 248, 252  # in the spool's header
LEAVING = program("leaving")
FREED_AT_EXIT = 500 * 112
HOLDERS = {"g_cache", "freed_at_exit", "many", "stack"}
OF_LIBC = {"_IO_2_1_stdout_", "thread"}  # a stream's buffer, and what libc keeps for each thread


def recorded(here, *command, options=("-x",), env=None):
    return run([MAYFLY, "record", "-q", *options, "--heap-at", "exit", "-o", here / "t.mayfly", "--", *command],
               env=environment(**(env or {})))


def told(done):
    """What the program knows: held, lost."""
    return [int(number) for number in done.out.split(b"\n")[0].split()]


def spool_word(here, at):
    """None: there is no spool, or no header in it."""
    path = here / "t.mayfly.spool"
    head = read(path) if os.path.exists(path) else b""
    return struct.unpack_from("<I", head, at)[0] if len(head) >= 65536 else None


def parts(trace):
    said = as_json("leaks", "--json", trace)
    held = {str(row["holder"]).split(" '")[0].split(" of")[0]: row["self"]["bytes"]["estimate"]
            for row in said["held"]["rows"]}
    return said["lost"]["total"]["bytes"], held


WAYS = {"return": 0, "exit": 3, "_exit": 3, "quick_exit": 3, "handler": 5, "threads": 0, "fork": 0, "many": 0,
        "exec": 0}


@case
def all_that_is_held_is_shown():
    """What libc keeps is no leak, and is held: leaks leaves out only lost blocks, and says of how many."""
    need_attach()
    need(CLANG)
    with Folder() as here:
        same(recorded(here, CLANG, "--version").code, 0)
        trace = here / "t.mayfly"
        said = as_json("leaks", "--json", trace)
        found = said["lost"]["total"]["bytes"]["estimate"] + said["suppressed"]["bytes"]
        picture = as_json("report", "--metric", "picture", "--json", trace)["total"]["bytes"]["estimate"]
        same(found + said["held"]["total"]["bytes"]["estimate"], picture)
        every = as_json("leaks", "--json", "--no-default-suppressions", trace)
        same(every["held"]["total"], said["held"]["total"])


@cases(WAYS)
def lost_is_what_is_lost(how):
    """Whatever the way in which the program ends: what is held is held, and what its handlers free is gone."""
    need_attach()
    with Folder() as here:
        done = recorded(here, LEAVING, how)
        same((done.code, done.err), (WAYS[how], b""))
        same(done.out, run([LEAVING, how]).out)
        cache, lost = told(done)
        figure, held = parts(here / "t.mayfly")
        same(figure["estimate"], lost)
        same(held["g_cache"], cache)
        same(held.get("freed_at_exit", 0), FREED_AT_EXIT if how in ("_exit", "quick_exit") else 0)
        check(set(held) <= HOLDERS | OF_LIBC, held)
        same(held.get("stack"), 5000 if how == "threads" else None, held)
        same(held.get("many"), 600000 * 24 + 600000 * 8 if how == "many" else None, held)


@case
def sampled():
    need_attach()
    hits = 0
    for seed in range(1, 11):
        with Folder() as here:
            done = recorded(here, LEAVING, options=["-i", "1K"], env={"MAYFLY": "seed=%d" % seed})
            same((done.code, done.err), (0, b""))
            figure, _ = parts(here / "t.mayfly")
            hits += figure["low"] <= told(done)[1] <= figure["high"]
    check(hits >= 8, hits, "of 10 intervals have what was lost")


@case
def leak_sanitizer_says_the_same():
    done = run([program("leaving_lsan")], env=environment(LSAN_OPTIONS=None))
    if b"fatal error" in done.err:
        raise Skip("LeakSanitizer does not work here: %s" % done.err[:200])
    total, = re.findall(rb"SUMMARY: LeakSanitizer: (\d+) byte", done.err)
    same(int(total), told(done)[1])


@case
def followed_children_have_pictures():
    need_attach()
    with Folder() as here:
        done = recorded(here, LEAVING, "fork", options=["-x", "-f"])
        same((done.code, done.err), (0, b""))
        cache, lost = told(done)
        child, = here.files("t.*.mayfly")
        for trace, freed in ((here / "t.mayfly", 0), (child, 100)):
            figure, held = parts(trace)
            same((figure["estimate"], held["g_cache"]), (lost, cache - freed), trace)


REASONS = {"abort": b"a signal ended it", "term": b"a signal ended it", "sandbox": b"sandbox (seccomp)"}


@cases(REASONS)
def one_line_says_why_there_is_none(how):
    with Folder() as here:
        done = recorded(here, LEAVING, how)
        native = run([LEAVING, how])
        same((done.code, done.out), (128 - native.code if native.code < 0 else native.code, native.out))
        same(done.err.count(b"\n"), 1, done.err)
        check(re.match(rb"mayfly: no picture of the heap of process \d+ at its exit: ", done.err), done.err)
        check(REASONS[how] in done.err, done.err)
        same(run([MAYFLY, "leaks", here / "t.mayfly"]).out[:12], b"Never freed ")


@case
def a_process_that_may_not_be_traced():
    need("setpriv")
    if os.geteuid():
        raise Skip("needs another user")
    with Folder() as here:
        os.chmod(here.path, 0o777)
        done = run(["setpriv", "--reuid=65534", "--clear-groups", MAYFLY, "record", "-q", "-x", "--heap-at", "exit", "-o",
                    here / "t.mayfly", "--", LEAVING, "undumpable"])
        if done.code == 127 or b"Permission denied" in done.err:
            raise Skip("another user cannot run mayfly here: %s" % done.err)
        same((done.code, done.err.count(b"\n")), (0, 1), done)
        check(b"at its exit: the kernel" in done.err, done)


@contextlib.contextmanager
def waiting(here, stopped, *ways):
    """(recorder, program): the program waits at its exit, as the recorder is stopped, or it is stopped itself, with the
    recorder reading its memory. Its output is in the file out."""
    with open(here / "out", "wb") as out, subprocess.Popen(
            [MAYFLY, "record", "-q", "-x", "--heap-at", "exit", "-o", here / "t.mayfly", "--", LEAVING, *ways, "many"], stdout=out,
            stderr=subprocess.PIPE, env=environment()) as recorder:
        try:
            wait_until(lambda: list(descendants(recorder.pid)), "no program")
            pid = next(descendants(recorder.pid))
            if stopped:
                wait_until(lambda: status_word(pid, "TracerPid") not in (None, "0"), "it was not stopped")
            else:
                wait_until(lambda: spool_word(here, STATE_AT) == RUNNING, "it did not start")
                recorder.send_signal(signal.SIGSTOP)
                wait_until(lambda: spool_word(here, HEAPS_ASKED_AT), "it did not ask")
            yield recorder, pid
        finally:
            recorder.kill()


def status_word(pid, key):
    try:
        with open("/proc/%s/status" % pid) as file:
            return re.search(r"^%s:\s*(\S+)" % key, file.read(), re.M)[1]
    except (FileNotFoundError, ProcessLookupError):
        return None


@cases(["before", "while it reads"])
def the_recorder_is_killed(when):
    """The program waits for nobody."""
    need_attach()
    with Folder() as here:
        with waiting(here, when == "while it reads") as (recorder, pid):
            recorder.kill()
            recorder.wait()
            wait_until(lambda: status_word(pid, "State") in (None, "Z"), "the program is still there")
        same(read(here / "out"), run([LEAVING, "many"]).out)
        check(as_json("leaks", "--json", here / "t.mayfly.spool")["total"]["bytes"]["estimate"] > 0)


@case
def the_program_is_killed_while_it_is_read():
    need_attach()
    with Folder() as here:
        with waiting(here, True) as (recorder, pid):
            os.kill(pid, signal.SIGKILL)
            said = recorder.stderr.read()
            same(recorder.wait(), 128 + signal.SIGKILL, said)
        check(said.count(b"\n") <= 1, said)
        check(as_json("info", "--json", here / "t.mayfly")["ending"], "no trace")


@case
def other_threads_are_stopped_meanwhile():
    """They do not go on in a program of which the exit has begun."""
    need_attach()
    states = []
    while states != ["t", "t"]: # the recorder may have been at the begin of the stop, or at its end
        with Folder() as here, waiting(here, True, "threads") as (recorder, pid):
            recorder.send_signal(signal.SIGSTOP)
            states = [state for state in (status_word("%d/task/%s" % (pid, os.path.basename(task)), "State")
                                          for task in glob.glob("/proc/%d/task/*" % pid)) if state]
            recorder.send_signal(signal.SIGCONT)
            same((recorder.wait(), recorder.stderr.read()), (0, b""))
            same(parts(here / "t.mayfly")[1]["stack"], 5000)


PROGRAMS = {
    "sqlite3": ["sqlite3", ":memory:", "create table t(a); insert into t values(1), (2); select sum(a) from t;"],
    "jq": ["jq", "-n", "[range(1000)] | add"],
    "python3": [*PYTHON, "-c", "import json; print(json.dumps(list(range(9))))"],
    "git": ["git", "--version"],
    "perl": ["perl", "-e", "print join(',', map { $_ * 2 } 1 .. 9)"],
    "bash": ["bash", "-c", "for i in 1 2 3; do echo $i; done; exit 4"],
}


@cases(PROGRAMS)
def real_programs(name):
    need_attach()
    need(PROGRAMS[name][0])
    with Folder() as here:
        done, native = recorded(here, *PROGRAMS[name]), run(PROGRAMS[name])
        same((done.code, done.out, done.err), (native.code, native.out, native.err))
        same(as_json("leaks", "--json", here / "t.mayfly")["metric"], "picture")


@case
def near_the_peak():
    """Each picture takes the place of the one before, when a fifth more is live; none afterwards."""
    need_attach()
    script = ("import sys\n"
              "kept = []\n"
              "def step(blocks):\n"
              "    kept.extend(bytearray(100000) for i in range(blocks))\n"
              "    print(1, flush=True)\n"
              "    sys.stdin.readline()\n"
              "step(50)\n"
              "step(50)\n"
              "step(200)\n"
              "step(10)\n"
              "kept.clear()\n"
              "step(20)\n")
    with Folder() as here, subprocess.Popen(
            [MAYFLY, "record", "-q", "-i", "16K", "--heap-at", "peak", "-o", here / "t.mayfly", "--", *PYTHON, "-c", script],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as recorder:

        def pictures():
            asked, done = spool_word(here, HEAPS_ASKED_AT), spool_word(here, HEAPS_DONE_AT)
            return asked == done and done

        taken = []
        for step, grows in enumerate((True, True, True, False, False)):
            same(recorder.stdout.readline(), b"1\n")
            if grows:
                wait_until(lambda: pictures() and (not taken or pictures() > taken[-1]), "no picture after step", step)
            taken.append(pictures())
            recorder.stdin.write(b"\n")
            recorder.stdin.flush()
        recorder.stdin.close()
        same(recorder.wait(), 0)
        live = as_json("report", "--metric", "picture", "--json", here / "t.mayfly")["total"]["bytes"]["estimate"]
        check(300 * 100000 * 0.99 < live < 311 * 100000 * 1.05, live)


@case
def a_peak_that_was_not_seen():
    """It is over before the first look, or too small."""
    with Folder() as here:
        done = run([MAYFLY, "record", "-q", "-x", "--heap-at", "peak", "-o", here / "t.mayfly", "--", LEAVING, "return"])
        check(done.err.startswith(b"mayfly: no picture of the heap near the peak: less than 256 KiB"), done)
        same(done.err.count(b"\n"), 1, done)


@case
def a_rule():
    need_attach()
    with Folder() as here, subprocess.Popen(
            [MAYFLY, "record", "-q", "-i", "4K", "--heap-at", "rss>1M", "-o", here / "t.mayfly", "--", program("holders")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as recorder:
        json.loads(recorder.stdout.readline())
        wait_until(lambda: spool_word(here, HEAPS_DONE_AT), "no picture was taken")
        recorder.stdin.close()
        same(recorder.wait(), 0)
        check("g_sessions" in parts(here / "t.mayfly")[1])


REFUSED = {"sometimes": ["--heap-at", "sometimes"], "do": ["--heap-at", "exit", "--do", "mark"],
           "sums": ["--heap-at", "exit", "--snapshots", "1s"]}


@cases(REFUSED)
def refused(what):
    done = run([MAYFLY, "record", *REFUSED[what], "--", "true"])
    same((done.code, done.out), (125, b""))
    check(b"--heap-at" in done.err or b"--do" in done.err, done.err)


if __name__ == "__main__":
    main()
