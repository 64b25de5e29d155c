#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""mayfly ctl: a recording is steered while its program runs."""
import contextlib
import os
import subprocess

from harness import (AGENT, MAYFLY, Folder, as_json, case, cases, check, environment, functions_of, info, main,
                     program, run, same, wait_until)
from told import CROWD, Told, crowd_allocated, told_program

NAME = "ctl%d" % os.getpid()  # of the program: --all finds no other


@contextlib.contextmanager
def running(here, *options, command=None):
    """The program, recorded; its trace is here / "t.mayfly" afterwards."""
    with subprocess.Popen([MAYFLY, "record", "-q", "-o", here / "t.mayfly", *options, "--",
                           *(command or [told_program(here, NAME)])],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        yield Told(process)
        process.stdin.close()
    same(process.returncode, 0)


def ctl(named, *words, code=0):
    done = run([MAYFLY, "ctl", str(named), *words])
    same((done.code, done.err.count(b"\n")), (code, 1 if code else 0), done)
    return done.out


def status(named):
    return as_json("ctl", "--json", str(named), "status")


def megabytes(trace, function):
    """What a function allocated, about; --min-size leaves out all but its blocks."""
    rows = as_json("report", "--json", "--metric", "allocated", "--min-size", "1M", "--top", "0", "--sort", "total",
                   "--all", trace)["rows"]
    for row in rows:
        if row["function"] == function:
            bytes_of = row["total"]["bytes"]
            return round((bytes_of["estimate"] if isinstance(bytes_of, dict) else bytes_of) / (1 << 20))
    return 0


@case
def an_older_trace_has_the_name():
    """What is steered is the recording that goes on; its own trace comes at its end."""
    with Folder() as here:
        for _ in range(2):
            with running(here) as told:
                told.tell("a", 1)
                recording = status(here / "t.mayfly")
                same((recording["state"], recording["pid"]), ("on", status(recording["pid"])["pid"]), recording)
                ctl(here / "t.mayfly", "mark", "here")
        check(b"neither" in run([MAYFLY, "ctl", here / "t.mayfly", "status"]).err, "a finished one is steered")


@cases([["-i", "64K"], ["-x"]])
def off_and_on(options):
    """Blocks from between are in no figure; those from before and afterwards are."""
    with Folder() as here:
        with running(here, *options) as told:
            pid = status(here / "t.mayfly")["pid"]
            told.tell("a", 20)
            same(ctl(pid, "off"), b"")
            same(status(pid)["state"], "off")
            told.tell("c", 4)  # whatever was on its way
            told.tell("b", 20)
            ctl(pid, "on")
            same(status(pid)["state"], "on")
            told.tell("c", 4)
            told.tell("a", 20)
        same([megabytes(here / "t.mayfly", name) for name in ("keep_a", "keep_b")], [40, 0])
        check("recording was switched off" in info(here / "t.mayfly")["note"], "no word of the gap")


@case
def interval():
    """Samples count for as much as their interval says, before and after."""
    with Folder() as here:
        with running(here, "-i", "64K") as told:
            pid = status(here / "t.mayfly")["pid"]
            same((status(pid)["mode"], status(pid)["interval_bytes"]), ("sampled", 64 << 10))
            told.tell("a", 20)
            ctl(here / "t.mayfly", "interval", "4M")
            same(status(pid)["interval_bytes"], 4 << 20)
            told.tell("b", 400)
            ctl(pid, "interval", "300")
            same(status(pid)["interval_bytes"], 256)
            told.tell("c", 40)
        said = run([MAYFLY, "info", here / "t.mayfly"]).out.decode()
        check("1 byte in 64.0 KiB at the start, in 256 B to 4.00 MiB later" in " ".join(said.split()), said)
        same(megabytes(here / "t.mayfly", "keep_a"), 20)
        check(300 < megabytes(here / "t.mayfly", "keep_b") < 500, "a coarse estimate")
        check(info(here / "t.mayfly")["samples"] < 20 + 400 + 40, "no coarser than before")


@cases([["--sampler", "stratified"], ["--sampler", "poisson"], ["--overhead", "50%"]])
def changes_cost_no_bytes(options):
    """Many threads and many changes: what a thread loses at each would add up."""
    with Folder() as here:
        with running(here, "-i", "512K", *options, command=[program("crowd"), str(CROWD)]) as told:
            for phase in range(9):
                told.tell("a", 60)
                ctl(here / "t.mayfly", "interval", "512K" if phase % 2 else "64K")
        crowd_allocated([here / "t.mayfly"], 9 * 60)


@cases(["stratified", "poisson"])
def from_on_to_off(sampler):
    """What is allocated after recording is switched on counts from the first byte, what is not until then."""
    with Folder() as here:
        with running(here, "-i", "16K", "--sampler", sampler, command=[program("crowd"), str(CROWD)]) as told:
            for _ in range(4):
                told.tell("a", 200)
                ctl(here / "t.mayfly", "off")
                told.tell("b", 300)
                ctl(here / "t.mayfly", "on")
            told.tell("a", 200)
        crowd_allocated([here / "t.mayfly"], 5 * 200)
        crowd_allocated([here / "t.mayfly"], 0, "site_b")


@cases([["-i", "64K"], ["-x"], ["-i", "64K", "--follow"], ["-x", "--snapshots=10ms"]])
def snapshot(options):
    """A trace of what there is so far, with names, while the recording goes on."""
    with Folder() as here:
        with running(here, *options) as told:
            pid = as_json("ctl", "--json", here / "t.mayfly", "status")["pid"]
            told.tell("a", 20)
            ctl(pid, "snapshot", "-o", here / "one.mayfly")
            told.tell("b", 20)
            ctl(pid, "snapshot", "-o", here / "two.mayfly")
            ctl(pid, "snapshot", "-o", here / "two.mayfly", code=1)
            ctl(pid, "snapshot", "--force", "-o", here / "two.mayfly")
            told.tell("a", 1)
        snapshots = "--snapshots=10ms" in options
        for name, found in ("one", (True, False)), ("two", (True, True)), ("t", (True, True)):
            trace = here / (name + ".mayfly")
            facts = info(trace)
            same((facts["complete"], facts["spool"], facts["pid"]), (True, False, pid), name)
            same(facts["ending"]["reason"], "exited" if name == "t" else "running", name)
            ran_on = b"; a snapshot of " in run([MAYFLY, "report", trace]).out
            same(ran_on, name != "t", name)
            functions = functions_of(trace, "--metric", "live", "--all", "--top", "0", "--sort", "total")
            same(tuple("keep_" + letter in functions for letter in "ab"), found, name)
            if not snapshots:
                same(megabytes(trace, "keep_a"), 21 if name == "t" else 20, name)
        check("ctl snapshot" in info(here / "one.mayfly")["note"], "the note")


@case
def snapshot_of_a_long_recording():
    """The recorder has read the spool, and given packets back."""
    def consumed():
        with open(here / "t.mayfly.spool", "rb") as file:
            return file.read(232)[224:] != bytes(8)
    with Folder() as here:
        with running(here, "-x") as told:
            while not consumed():
                told.tell("-", 100000)
            told.tell("a", 20)
            ctl(here / "t.mayfly", "snapshot", "-o", here / "one.mayfly")
            told.tell("b", 20)
        same(megabytes(here / "one.mayfly", "keep_a"), 20)
        facts = info(here / "one.mayfly")
        same((facts["complete"], facts["spool"]), (True, False))
        check("churn" in functions_of(here / "one.mayfly", "--metric", "allocated", "--all", "--top", "0"), "names")
        same([megabytes(here / "t.mayfly", name) for name in ("keep_a", "keep_b")], [20, 20])


@case
def preloaded_by_hand():
    """No recorder is needed."""
    with Folder() as here:
        spool = here / "s.spool"
        with subprocess.Popen([program("told")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(
                LD_PRELOAD=AGENT, MAYFLY="output=%s,start=dormant,interval=65536" % spool)) as process:
            told = Told(process)
            same(status(process.pid)["state"], "off")
            told.tell("a", 20)
            ctl(process.pid, "on")
            told.tell("c", 4)
            told.tell("b", 20)
            process.stdin.close()
        same([megabytes(spool, name) for name in ("keep_a", "keep_b")], [0, 20])
        ctl(spool, "on", code=1)
        ctl(process.pid, "status", code=1)


@case
def snapshots_of_all():
    """One that exists stays, and the others are made."""
    with Folder() as here, Folder() as other:
        with running(here, "-x") as one, running(other, "-x") as two:
            pids = [status(folder / "t.mayfly")["pid"] for folder in (here, other)]
            one.tell("a", 20)
            two.tell("b", 30)
            traces = [here / ("traces/%s-%d.mayfly" % (NAME, pid)) for pid in pids]
            out = ctl("--all", NAME, "snapshot", "-o", here / "traces")
            same(sorted(out.decode().splitlines()), sorted("%d %s" % pair for pair in zip(pids, map(str, traces))))
            os.unlink(traces[0])
            two.tell("c", 10)
            ctl("--all", NAME, "snapshot", "-o", here / "traces", code=1)
            same([megabytes(traces[0], "keep_a"), megabytes(traces[1], "keep_b"), megabytes(traces[1], "keep_c")], [20, 30, 0])
            ctl("--all", NAME, "snapshot", "-o", traces[0], code=1)


@cases([["-i", "64K"], ["-x"]])
def marks(options):
    """As instants, also after the recorder has begun to read, and for all processes of a name."""
    with Folder() as here:
        with running(here, *options) as told:
            pid = status(here / "t.mayfly")["pid"]
            ctl(pid, "mark", "before the load")
            told.tell("a", 20)
            told.tell("-", 100000)
            same(ctl("--all", NAME, "mark", "both"), b"%d mark\n" % pid)
            check(b"interval" not in ctl("--all", NAME, "off"), "off")
            ctl("--all", NAME, "on")
            check(b"t.mayfly.spool" in ctl("--all", NAME, "status"), "status")
            ctl("--all", "no such name", "on", code=1)
            ctl(pid, "mark", "x" * 256, code=1)
            ctl(pid, "mark", "both")
        rows = as_json("report", "--json", "--events", here / "t.mayfly")["instants"]
        found = {row["name"]: (row["category"], row["count"]) for row in rows}
        same((found["before the load"], found["both"]), (("mark", 1), ("mark", 2)))
        same(info(here / "t.mayfly")["complete"], True)


@case
def refused():
    with Folder() as here:
        with running(here, "-x"):
            wait_until(lambda: run([MAYFLY, "ctl", here / "t.mayfly", "status"]).code == 0, "the program")
            text = ctl(here / "t.mayfly", "status")
            check(b"exact" in text and b"t.mayfly.spool" in text, text)
            ctl(here / "t.mayfly", "interval", "4K", code=1)
            for words in (["stop"], ["interval"], ["interval", "much"], ["interval", "1"], ["snapshot"], [], ["mark"], ["mark", ""],
                          ["on", "off"], ["on", "--json"], ["off", "-o", here / "x"]):
                ctl(here / "t.mayfly", *words, code=2)
        ctl(here / "t.mayfly", "on", code=1)
        ctl("1", "status", code=1)
        ctl(here / "nothing", "status", code=1)


main()
