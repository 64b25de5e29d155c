#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Pictures of the heap in traces: who holds the blocks of a recording, against what the program itself knows."""
import contextlib
import json
import os
import signal
import struct
import subprocess

from harness import (MAYFLY, Folder, as_json, case, cases, check, descendants, environment, mayfly, main, program, read,
                     run, same, wait_until)
from attaching import need_attach

HEAPS_DONE_AT = 252  # in the spool's header
SEEDS = range(1, 13)
# Sizes as holders.c asks for them. Lists have a node of 24 bytes, and data, for each of their elements.
SESSIONS = 512 * 8 + sum(24 + 16 + i % 400 for i in range(20000))
ASKED = {("g_sessions", ""): SESSIONS, ("s_cache", ""): 5000 * 124, ("g_inside", ""): 1000,
         ("g_huge", ""): 6 << 20, ("g_aligned", ""): 2 << 20, ("g_first", ""): 24 + 48, ("g_second", ""): 24 + 480,
         ("g_second, g_first, together", ""): 700 * 104,
         ("nothing: lost", ""): 100 * 24 + 50 * 24 + 40 * 24,
         ("nothing: lost with others", ""): 100 * (9 * 24 + 10 * 40) + 50 * (2 * 24 + 3 * 64)}


@contextlib.contextmanager
def recorded(here, *options, env=None, what="holders", ends=True):
    """(recorder, program, what the program knows), while both run; FILE is t.mayfly."""
    with subprocess.Popen([MAYFLY, "record", "-o", here / "t.mayfly", *options, "--", program(what)],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=environment(**(env or {}))) as recorder:
        try:
            truth = json.loads(recorder.stdout.readline())
            pid = next(descendants(recorder.pid))  # it may have a copy, of which a picture is taken
            yield recorder, pid, truth
            recorder.stdin.close()
            recorder.said = recorder.stderr.read().decode()
            if ends:
                same(recorder.wait(), 0, recorder.said)
        except BaseException:
            recorder.kill()
            raise


def take_picture(pid):
    done = run([MAYFLY, "ctl", str(pid), "heap"])
    same((done.code, done.out, done.err), (0, b"", b""), done)


def by_holder(trace, *options):
    """{(holder, a thread's number): [row]}, without what libc keeps of threads."""
    found = {}
    for row in as_json("report", "--by", "holder", "--json", "--top", "0", *options, trace)["rows"]:
        if row["kind"] != "thread":
            name = str(row["holder"]).split(" '")[0]
            found.setdefault((name, row["tid"] or ""), []).append(row)
    return found


def check_exact(rows, truth):
    """Sizes as the program asked for them, and as malloc has them, to the byte."""
    for key, asked in ASKED.items():
        row, = rows[key] if key in rows else rows[(", ".join(reversed(key[0].split(", ")[:2])) + ", together", "")]
        same(row["self"]["bytes"]["estimate"], asked, key)
    usable = {"g_sessions": "sessions", "s_cache": "cache", "g_inside": "inside", "g_huge": "huge",
              "g_aligned": "aligned", "g_first": "first", "g_second": "second", "nothing: lost": "lost_directly",
              "nothing: lost with others": "lost_indirectly"}
    for name, known in usable.items():
        same(rows[(name, "")][0]["retained_bytes"], truth[known], name)
    for name, known, asked in (("t_list", "local", 300 * 224), ("stack of", "stack", 1000 * 96)):
        mine = [row for (holder, _), many in rows.items() if holder == name for row in many]
        same(sorted(row["retained_bytes"] for row in mine if row["retained_blocks"] > 100), sorted(truth[known]), name)
        same([row["self"]["bytes"]["estimate"] for row in mine if row["retained_blocks"] > 100], [asked] * 3, name)


@case
def every_block_of_an_exact_recording():
    need_attach()
    with Folder() as here:
        with recorded(here, "--exact") as (_, pid, truth):
            take_picture(pid)
            mayfly("ctl", "-o", here / "now.mayfly", str(pid), "snapshot")
        rows = by_holder(here / "t.mayfly")
        check_exact(rows, truth)
        check_exact(by_holder(here / "now.mayfly"), truth)
        live = as_json("report", "--metric", "picture", "--json", here / "t.mayfly")
        same(sum(row["self"]["bytes"]["estimate"] for many in rows.values() for row in many) + 3 * 304,
             live["total"]["bytes"]["estimate"], "the sum of all rows")
        # The stack that allocated, of what one holder has.
        row, = [row for row in as_json("report", "--by", "function", "--holder", "^s_cache", "--sort", "total", "--json",
                                       here / "t.mayfly")["rows"] if row["function"] == "main"]
        same(row["total"]["bytes"]["estimate"], ASKED[("s_cache", "")])
        check("Picture      of the heap, at " in mayfly("info", here / "t.mayfly").out.decode())
        told = mayfly("report", "--by", "holder", here / "t.mayfly").out.decode()
        for part in ("Live when the heap's picture was taken", "HELD BY", "g_sessions, holders", "nothing: lost"):
            check(part in told, part, "is not in", told)


@case
def intervals_of_sampled_recordings():
    """The intervals of 95 % have what the holders really hold, in about that share of recordings."""
    need_attach()
    hits = rows = 0
    for seed in SEEDS:
        with Folder() as here:
            with recorded(here, "-i", "2K", env={"MAYFLY": "seed=%d" % seed}) as (_, pid, _):
                take_picture(pid)
            found = by_holder(here / "t.mayfly")
        for key in (("g_sessions", ""), ("s_cache", ""), ("nothing: lost with others", "")):
            figure = found[key][0]["self"]["bytes"]
            hits += figure["low"] <= ASKED[key] <= figure["high"]
            rows += 1
        same(found[("g_huge", "")][0]["self"]["bytes"]["estimate"], ASKED[("g_huge", "")], "large blocks are certain")
        for (name, _), many in found.items():
            if name == "stack of":
                figure = many[0]["self"]["bytes"]
                hits += figure["low"] <= 96000 <= figure["high"]
                rows += 1
    print("# %d of %d intervals" % (hits, rows))
    check(hits >= 0.85 * rows, hits, "of", rows, "intervals have the truth")


@case
def leaks_in_two_parts():
    need_attach()
    with Folder() as here:
        trace = here / "t.mayfly"
        with recorded(here, "--exact") as (_, pid, _):
            take_picture(pid)
        lost = ASKED[("nothing: lost", "")] + ASKED[("nothing: lost with others", "")]
        said = as_json("leaks", "--json", trace)
        same((said["metric"], said["lost"]["by"], said["held"]["by"]), ("picture", "stack", "holder"))
        same(said["lost"]["total"]["bytes"]["estimate"], lost)
        same(sum(row["self"]["bytes"]["estimate"] for row in said["lost"]["rows"]), lost)
        check(all(any(place["function"] == "lose" for place in row["stack"]) for row in said["lost"]["rows"]), said)
        holders = {row["holder"]: row["self"]["bytes"]["estimate"] for row in said["held"]["rows"]}
        same(holders["g_sessions"], SESSIONS)
        check(not [name for name in holders if name.startswith("nothing")], holders)
        # Threads that end free what libc keeps of them; nothing was allocated later.
        same(said["allocated_later"]["bytes"]["estimate"], 0)
        told = mayfly("leaks", trace).out.decode()
        check(told.index("Lost when") < told.index("Held when"), told)
        same(run([MAYFLY, "leaks", "--exit-code", "7", trace]).code, 7, "something is lost")
        same(run([MAYFLY, "leaks", "--exit-code", "7", "--ignore", "lose", trace]).code, 0, "all else is held")


@cases(["--exact", "-i64"])
def a_killed_recorder_has_written_the_picture(option):
    need_attach()
    with Folder() as here:
        with recorded(here, option, ends=False) as (recorder, pid, truth):
            take_picture(pid)
            recorder.kill()
            os.kill(pid, signal.SIGKILL)
        if option == "--exact":
            check_exact(by_holder(here / "t.mayfly.spool"), truth)
        else:
            check(("g_sessions", "") in by_holder(here / "t.mayfly.spool"), "no picture")


@cases(["-x", "-i64"])
def a_killed_recorder_has_the_picture_of_few_blocks(option):
    """No packet of the spool was given back then, so that the spool has all but the picture."""
    need_attach()
    with Folder() as here:
        with subprocess.Popen([MAYFLY, "record", "-q", option, "-o", here / "t.mayfly", "--", "sleep", "1000"],
                              env=environment()) as recorder:
            wait_until(lambda: list(descendants(recorder.pid)), "no program")
            pid = next(descendants(recorder.pid))
            wait_until(lambda: run([MAYFLY, "ctl", str(pid), "heap"]).code == 0, "no picture")
            recorder.kill()
            os.kill(pid, signal.SIGKILL)
        check(by_holder(here / "t.mayfly.spool"), "no picture")


@case
def two_pictures_show_what_grew():
    """A snapshot has the first picture, the trace the last one."""
    need_attach()
    with Folder() as here:
        with recorded(here, "--exact", what="growing") as (_, pid, _):
            take_picture(pid)
            mayfly("ctl", "-o", here / "before.mayfly", str(pid), "snapshot")
            wait_until(lambda: json.loads(run([MAYFLY, "heap", "--json", str(pid)]).out)["blocks"] > 2000, "no growth")
            take_picture(pid)
        both = [by_holder(here / name)[("g_sessions", "")][0]["self"]["blocks"]["estimate"]
                for name in ("before.mayfly", "t.mayfly")]
        said = as_json("diff", "--by", "holder", "--json", here / "before.mayfly", here / "t.mayfly")
        row, = [row for row in said["rows"] if row["holder"] == "g_sessions"]
        same(row["change"]["bytes"]["change"], 200 * (both[1] - both[0]), "g_sessions")
        row, = [row for row in said["rows"] if row["holder"] == "g_entries"]
        same(row["change"]["bytes"]["change"], 0, "g_entries")
        check(run([MAYFLY, "top", "--once", "--by", "holder", here / "t.mayfly"]).err.count(b"picture of the heap") == 1)


@case
def a_rule_takes_the_picture():
    need_attach()
    with Folder() as here:
        spool = here / "t.mayfly.spool"
        with recorded(here, "-i", "4K", "--when", "live>4M", "--do", "heap"):
            wait_until(lambda: struct.unpack_from("<I", read(spool), HEAPS_DONE_AT)[0], "no picture was taken")
        # The program may be at work on them: then a register holds them, too.
        held = by_holder(here / "t.mayfly")
        check(any("g_sessions" in name for name, _ in held), "the picture has no sessions", held)


@cases(["sums", "nobody", "no-picture"])
def refused(why):
    need_attach()
    with Folder() as here:
        trace = here / "t.mayfly"
        with recorded(here, *(["--snapshots", "1"] if why == "sums" else [])) as (recorder, pid, _):
            if why == "sums":
                done = run([MAYFLY, "ctl", str(pid), "heap"])
                check(done.code == 1 and b"sums of intervals" in done.err, done)
            elif why == "nobody":
                recorder.send_signal(signal.SIGSTOP)  # it lives: this must not be taken for an answer
                asking = subprocess.Popen([MAYFLY, "ctl", str(pid), "heap"], stderr=subprocess.PIPE)
                recorder.send_signal(signal.SIGCONT)
                same(asking.wait(), 0, asking.stderr.read())
                asking.stderr.close()
        if why == "no-picture":
            for command in (["report", "--by", "holder"], ["report", "--holder", "x"],
                            ["report", "--metric", "picture", "--json"], ["leaks", "--type", "x"]):
                done = run([MAYFLY, *command, trace])
                check(done.code == 1 and b"has no picture of the heap" in done.err and done.err.count(b"\n") == 1, done)
            for command in (["--by", "holder", "--metric", "peak"], ["--holder", "x", "--at", "peak"],
                            ["--by", "type", "--series", "4"], ["--type", "x", "--min-lifetime", "1s"]):
                done = run([MAYFLY, "report", *command, trace])
                check(done.code == 2 and done.err.count(b"\n") == 1, command, done)


if __name__ == "__main__":
    main()
