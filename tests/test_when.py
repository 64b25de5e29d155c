#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""mayfly record --when: something is done when a rule about memory comes true."""
import contextlib
import glob
import json
import os
import subprocess

from harness import (MAYFLY, Folder, as_json, case, cases, check, environment, info, main, program, run,
                     same, wait_until)
from told import Told


@contextlib.contextmanager
def running(here, *options):
    """The program, recorded to here / "t.mayfly"; its stderr is here / "err" afterwards."""
    with open(here / "err", "wb") as err, \
            subprocess.Popen([MAYFLY, "record", "-o", here / "t.mayfly", *options, "--", program("told")],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err,
                             env=environment()) as process:
        yield Told(process)
        process.stdin.close()


def said(here):
    with open(here / "err", "rb") as file:
        return file.read().decode()


def snapshots(here):
    return sorted(os.path.basename(path) for path in glob.glob(str(here / "*.when-*.mayfly")))


def instants(trace):
    done = run([MAYFLY, "report", "--json", "--events", trace])
    return [row["name"] for row in json.loads(done.out)["instants"]] if done.code == 0 else []  # 1: no events yet


def megabytes(trace):
    """What keep_a() holds at the end of a trace."""
    for row in as_json("report", "--json", "--metric", "live", "--top", "0", "--all", trace)["rows"]:
        if row["function"] == "keep_a":
            live = row["self"]["bytes"]
            return round((live["estimate"] if isinstance(live, dict) else live) / (1 << 20))
    return 0


@cases([["-i", "64K"], ["-x"], ["-x", "--snapshots=10ms"], ["-i", "64K", "--max-size=100K"]])
def live(options):
    """Once; again after it was false; each a whole trace of the state, while the program goes on."""
    with Folder() as here:
        def again():
            told.tell("f", 60)
            told.tell("a", 60)
            return len(snapshots(here)) > 1
        with running(here, "--when", "live>50M", *options) as told:
            told.tell("a", 60)
            wait_until(lambda: snapshots(here) == ["t.when-1.mayfly"], "the first")
            wait_until(again, "the second")
        for name in snapshots(here)[:2]:  # a third may show the program's end
            facts = info(here / name)
            same((facts["complete"], facts["spool"], facts["ending"]["reason"]), (True, False, "running"), name)
            check("when live>50M" in facts["note"], facts["note"])
            # The program goes on meanwhile: blocks may be freed again before the second is made.
            least = 40 if name == "t.when-1.mayfly" else -1
            check(least < megabytes(here / name) <= 62, name, megabytes(here / name))
        same(info(here / "t.mayfly")["complete"], True)


@case
def others():
    """RSS, a time for which it must hold, a mark in the trace; what does not come true does nothing."""
    with Folder() as here:
        with running(here, "--when", "rss>50M for 100ms", "--when", "live>40M for 300ms", "--do", "mark",
                     "--when", "live>1T", "--when", "rss>1T", "--when", "growth>1T/s") as told:
            told.tell("a", 60)
            wait_until(lambda: snapshots(here), "the snapshot")
            pid = as_json("ctl", "--json", here / "t.mayfly", "status")["pid"]
            def marked():
                same(run([MAYFLY, "ctl", str(pid), "snapshot", "--force", "-o", here / "now.mayfly"]).code, 0)
                return "live>40M for 300ms" in instants(here / "now.mayfly")
            wait_until(marked, "the mark")
        same(snapshots(here), ["t.when-1.mayfly"])
        check(55 < megabytes(here / "t.when-1.mayfly") < 65, "the state")
        same(said(here).count(": snapshot in "), 1, said(here))
        same(instants(here / "t.mayfly").count("live>40M for 300ms"), 1)


@case
def growth_and_children():
    with Folder() as here:
        with running(here, "-f", "-q", "--when", "growth>1M/s for 50ms") as told:
            def grown():
                told.tell("a", 4)
                return snapshots(here)
            wait_until(grown, "growth")
        check("growth" in info(here / "t.when-1.mayfly")["note"], "the note")


@case
def followed_child():
    with Folder() as here:
        with running(here, "-f", "-q", "--when", "live>30M") as told:
            told.tell("p", 40)
            wait_until(lambda: snapshots(here), "the child's")
        name, = snapshots(here)
        check(name != "t.when-1.mayfly" and 20 < megabytes(here / name) <= 42, name)


@case
def refused():
    """One line that shows where a rule is wrong, and an example."""
    for rule, shown in (("live>2X", "at X"), ("live", "at the end"), ("rss>90%", "'of cgroup'"), ("x", "growth")):
        done = run([MAYFLY, "record", "--when", rule, "--", "/bin/true"])
        same((done.code, done.err.count(b"\n")), (125, 1), done)
        check(shown.encode() in done.err and b"live>2G" in done.err, done.err)
    done = run([MAYFLY, "record", "--do", "mark", "--when", "live>1G", "--", "/bin/true"])
    same((done.code, done.err.count(b"\n")), (125, 1), done)


main()
