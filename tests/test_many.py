#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The report of many traces: a table of processes, and sums that agree with those of merge."""
import os
import shutil
import subprocess

from harness import AGENT, MAYFLY, Folder, as_json, case, check, environment, info, main, record, run, same, wait_until

SCRIPT = "/bin/true; %s --version > /dev/null; exit 0" % MAYFLY


def recorded(here):
    done = record(["bash", "-c", SCRIPT], here / "t.mayfly", "-q", "--follow", "-x")
    same(done.code, 0, done.err)
    traces = here.files("*.mayfly")
    check(len(traces) >= 3, "only", traces)
    return traces


@case
def sums_are_those_of_merge():
    with Folder() as here, Folder() as other:
        traces = recorded(here)
        same(run([MAYFLY, "merge", "-o", other / "all.mayfly", *traces]).code, 0)
        merged = info(other / "all.mayfly")
        for named in [here.path], [here / "*.mayfly"], traces, traces + [here.path]:
            found = as_json("report", "--json", *named)
            same((found["traces"], found["unread"]), (len(traces), 0))
            for key in "allocated", "live_at_end":
                for unit in "bytes", "blocks":
                    same(found[key][unit], merged[key][unit], key)


@case
def processes_are_as_in_info():
    with Folder() as here:
        traces = recorded(here)
        rows = as_json("report", "--json", here.path)["processes"]
        same(sorted(row["file"] for row in rows), traces)
        peaks = [row["peak"]["bytes"] for row in rows]
        same(peaks, sorted(peaks, key=lambda p: -p if isinstance(p, (int, float)) else -p["estimate"]))
        for row in rows:
            facts = info(row["file"])
            for key in "pid", "parent_pid", "peak", "live_at_end", "allocated":
                same(row[key], facts[key], key)
        check("exit 0" in [row["ended_by"] for row in rows], rows)
        same(len(as_json("report", "--json", "--top", "1", here.path)["processes"]), 1)


@case
def text_has_every_process():
    with Folder() as here:
        traces = recorded(here)
        done = run([MAYFLY, "report", "--wide", here.path])
        same((done.code, done.err), (0, b""))
        for trace in traces:
            check(str(info(trace)["pid"]).encode() in done.out, trace, done.out)
        check(b"mayfly --version" in done.out, done.out)
        check(b"more; --top 0" in run([MAYFLY, "report", "--top", "1", here.path]).out)


@case
def broken_files_are_left_out():
    with Folder() as here:
        good = recorded(here)[0]
        with open(here / "bad.mayfly", "wb") as bad:
            bad.write(b"no trace at all")
        done = run([MAYFLY, "report", good, here / "bad.mayfly", here / "missing.mayfly"])
        same((done.code, done.err.count(b"\n")), (0, 2), done.err)
        check(b"2 could not be read" in done.out, done.out)
        done = run([MAYFLY, "report", here / "bad.mayfly", here / "missing.mayfly"])
        same((done.code, done.out), (1, b""), done.err)


@case
def a_pattern_without_files_is_no_file():
    """Whatever is asked: there is nothing to combine."""
    for options in [], ["--by", "function"], ["--json", "--by", "stack"]:
        done = run([MAYFLY, "report", *options, "nosuch/*.mayfly"])
        same((done.code, done.err.count(b"\n")), (1, 1), done)
        check(b"nosuch/*.mayfly: no such file" in done.err, done)


@case
def pipes():
    """One that is named is read; one that lies in a folder is none of the traces."""
    with Folder() as here, Folder() as other:
        traces = recorded(here)
        os.mkfifo(here / "pipe.mayfly")
        os.mkfifo(other / "named")
        with subprocess.Popen(["cp", traces[0], other / "named"]) as copy:
            named = as_json("report", "--json", traces[1], other / "named")
        same((copy.returncode, len(named["processes"])), (0, 2))
        found = as_json("report", "--json", here.path)
        same((len(found["processes"]), found["unread"]), (len(traces), 0))


@case
def recording_that_still_runs():
    with Folder() as here, Folder() as other:
        os.mkfifo(other / "go")
        script = "/bin/true; echo > %s; read word < %s; exit 0" % (other / "ready", other / "go")
        with subprocess.Popen([MAYFLY, "record", "-q", "-f", "-x", "-o", here / "t.mayfly", "--", "bash", "-c", script],
                              env=environment()) as recorder:
            try:
                wait_until(lambda: os.path.exists(other / "ready"), "the program")
                found = as_json("report", "--json", here.path)
                check(any(row["file"].endswith(".spool") for row in found["processes"]), found)
            finally:
                with open(other / "go", "w") as go:
                    go.write("on\n")
        same(recorder.returncode, 0)


@case
def a_spool_beside_its_trace_counts_once():
    """As when the recorder could not remove it."""
    with Folder() as here:
        trace = here / "t.mayfly"
        same(run([MAYFLY, "record", "-q", "-x", "-o", trace, "--", "/bin/true"]).code, 0)
        done = run(["/bin/true"], environment(LD_PRELOAD=AGENT, MAYFLY="exact=1,output=" + trace + ".spool"))
        same(done.code, 0)
        check(os.path.exists(trace + ".spool"), here.files())
        rows = as_json("report", "--json", here.path)["processes"]
        same([os.path.basename(row["file"]) for row in rows], ["t.mayfly"])


@case
def names_with_special_characters():
    with Folder() as here:
        shutil.copy(recorded(here)[0], here / "a[1]*.mayfly")
        same(as_json("report", "--json", here / "a[1]*.mayfly", here / "t.mayfly")["unread"], 0)


@case
def questions_need_one_trace():
    with Folder() as here:
        recorded(here)
        same(run([MAYFLY, "report", "--by", "line", here.path]).code, 2)


if __name__ == "__main__":
    main()
