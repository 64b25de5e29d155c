#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a program does beside malloc: mappings, libraries, processes, threads. The program says what
it did (tests/programs/process_events.c), the trace must have exactly that, and the program must not
notice that it is recorded."""
import json
import os
import re
import shutil

from harness import (AGENT, MAYFLY, PYTHON, Folder, Run, case, cases, check, environment, main, need, patient,
                     program, run, same)

MIB = 1 << 20
PROGRAM = program("process_events")


def record(folder, command, *options, **changes):
    """The run, and the paths of the traces: the program's, and with --follow its children's."""
    trace = folder / "t.mayfly"
    ran = run([MAYFLY, "record", "-q", "-o", trace, *options, "--", *command],
              env=environment(**changes), cwd=folder.path)
    return ran, [trace] + [f for f in folder.files("t.*.mayfly") if f != trace]


def dump(trace):
    """All track events: (time, event (instant, count), name, tid, values, stack)."""
    out = run([MAYFLY, "dump", "--json", trace])
    same(out.code, 0, "dump: %r" % out)
    events = [json.loads(line) for line in out.out.decode().splitlines()]
    return [e for e in events if "category" in e]


def agents(trace):
    return [e for e in dump(trace) if e["category"] in ("memory", "process")]


def info(trace):
    return json.loads(run([MAYFLY, "info", "--json", trace]).out)


def said(output):
    """("mmap", "function", {"address": "0x1000", ...}) for each event that the program tells of."""
    found = []
    for line in output.decode().splitlines():
        match = re.match(r"event (\S+) (\w+) ?(.*)$", line)
        if match:
            fields = dict(re.findall(r"(\w+)=(.*?)(?= \w+=|$)", match[3]))
            found.append((match[1], match[2], fields))
    return found


def value_text(name, value):
    return "0x%x" % value if name == "address" or (name == "old_address" and value > 4096) else str(value)


def recorded(events):
    return [(e["name"], e["stack"][-1] if e.get("stack") else "",
             {name: value_text(name, value) for name, value in e["values"].items()}) for e in events]


def arguments(name, folder):
    """The command for a case, with the libraries of `libraries` where they belong."""
    if name != "libraries":
        return [PROGRAM, name]
    os.makedirs(folder / "inner", exist_ok=True)
    shutil.copy(program("process_outer.so"), folder / "outer.so")
    shutil.copy(program("process_inner.so"), folder / "inner/process_inner.so")
    return [PROGRAM, name, folder / "outer.so", "process_inner.so"]


def plain(output):
    """What does not differ from run to run."""
    return re.sub(rb"0x[0-9a-f]+|child=\d+|(?<=pad=12345 )result=\d", b"X", output)


# ---- what is recorded ----

@cases(["mappings", "libraries", "processes", "descriptors"])
def exactly_what_happened(name):
    with Folder() as folder:
        ran, traces = record(folder, arguments(name, folder))
        same(ran.code, 0, repr(ran))
        expected, found = said(ran.out), recorded(agents(traces[0]))
        if name == "processes":
            expected = [e for e in expected if e[1] != "fork_many"]
            many = [e for e in found if e[1] == "fork_many"]
            same(len(many), 80, "forks in threads")
            same(len({e[2]["child"] for e in many}), 80, "children")
            found = [e for e in found if e[1] != "fork_many"]
        check(len(expected) > (5 if name != "mappings" else 15), expected)
        for wanted, got in zip(expected, found):
            same(got, wanted, "event")
        same(len(found), len(expected), "events")
        same(info(traces[0])["dropped_events"] if "dropped_events" in info(traces[0]) else 0, 0, "lost")


@case
def threads_of_forks():
    """Each fork on the thread that it is of."""
    with Folder() as folder:
        ran, traces = record(folder, [PROGRAM, "processes"])
        forks = [e for e in agents(traces[0]) if e.get("stack", [""])[-1] == "fork_many"]
        per_thread = {}
        for e in forks:
            per_thread[e["tid"]] = per_thread.get(e["tid"], 0) + 1
        same(sorted(per_thread.values()), [20] * 4, "forks of each thread")


@case
def limit():
    with Folder() as folder:
        for option, least in (("3M", 3 * MIB), ("1G", 1 << 30), ("1", 1), ("off", None)):
            ran, traces = record(folder, [PROGRAM, "mappings"], "--force", "--map-events", option)
            same(ran.code, 0, repr(ran))
            found = [e for e in agents(traces[0]) if e["name"] != "malloc_trim"]
            sizes = [max(abs(e["values"]["bytes"]), e["values"].get("old_bytes", 0)) for e in found]
            if least is None:
                same(found, [], "events")
            else:
                check(all(size >= least for size in sizes), option, sizes)
                wanted = [e for e in said(ran.out) if "bytes" in e[2] and
                          max(abs(int(e[2]["bytes"])), int(e[2].get("old_bytes", 0))) >= least]
                check(len(found) >= len(wanted) > 0, option, len(found), len(wanted))
                if least > 1:
                    same(len(found), len(wanted), option)
                else:
                    check(MIB - 1 in sizes and 1000 in sizes, sizes)


@case
def setting():
    """MAYFLY says it, too; an option counts more."""
    with Folder() as folder:
        for options, wanted in (([], 0), (["--map-events", "1M"], 20)):
            _, traces = record(folder, [PROGRAM, "mappings"], "--force", *options, MAYFLY="map_events=off")
            found = [e for e in agents(traces[0]) if e["name"] != "malloc_trim"]
            same(len(found), wanted, "events with %s" % options)


@case
def wrong_options():
    for value in ("0", "-1", "x", "", "1Q"):
        ran = run([MAYFLY, "record", "--map-events", value, "true"])
        same((ran.code, ran.out, ran.err.count(b"\n")), (125, b"", 1), value)
        check(b"--map-events" in ran.err, ran)


@case
def sandbox():
    """Mappings are recorded even if the agent may ask the kernel for nothing."""
    with Folder() as folder:
        ran, traces = record(folder, [PROGRAM, "sandbox"])
        same(ran.code, 0, repr(ran))
        names = [e["name"] for e in agents(traces[0])]
        same(names, ["dlopen", "mmap", "mremap", "madvise", "munmap", "brk", "dlopen", "dlclose"], "events")


@case
def becomes_another_program():
    """Images that exec has replaced have a trace if they allocated."""
    with Folder() as folder:
        ran, traces = record(folder, [PROGRAM, "another"], "--follow", "--exact")
        same((ran.code, ran.out.splitlines()[-1]), (0, b"another"), repr(ran))
        wanted = said(ran.out)
        found = [recorded(agents(trace)) for trace in traces]
        check(wanted in found, found)


@case
def children():
    """A followed child has events of its own; that of a vfork has none before its exec."""
    with Folder() as folder:
        ran, traces = record(folder, ["sh", "-c", "echo a | cat; (exit 3); echo $?"], "--follow", "--exact")
        same((ran.code, ran.out), (0, b"a\n3\n"), repr(ran))
        found = [recorded(agents(trace)) for trace in traces]
        forked = {e[2]["child"] for events in found for e in events if e[0] == "fork"}
        pids = {str(info(trace)["pid"]) for trace in traces}
        check(len(forked) >= 2 and forked <= pids, forked, pids)
        paths = [e[2]["path"] for events in found for e in events if e[0] == "exec"]
        check(any(path.endswith("/cat") for path in paths), paths)


# ---- the program does not notice ----

@cases(["mappings", "libraries", "processes", "signals", "sandbox", "descriptors", "another", "early"])
def behaves_as_ever(name):
    with Folder() as folder:
        command = arguments(name, folder)
        native = run(command, cwd=folder.path)
        same(native.code, 0, repr(native))
        for options in (["--follow", "--map-events", "1"], ["--exact"]):
            ran, traces = record(folder, command, "--force", *options)
            if name == "signals":  # what a handler does amid the agent's work may be lost
                ran.err = re.sub(rb"mayfly: .* dropped.*signal handlers.*\n", b"", ran.err)
            same((ran.code, plain(ran.out), ran.err), (0, plain(native.out), b""), "%s %s" % (name, options))
            for trace in folder.files("t.*"):
                os.unlink(trace)
        by_hand = run(command, cwd=folder.path,
                      env=environment(LD_PRELOAD=AGENT, MAYFLY="output=%s" % (folder / "t.%p.spool")))
        same((by_hand.code, plain(by_hand.out)), (0, plain(native.out)), name)


OLD_SPAWN = b"""
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
__asm__(".symver posix_spawn, posix_spawn@GLIBC_2.2.5");
__asm__(".symver posix_spawnp, posix_spawnp@GLIBC_2.2.5");
extern char **environ;
int main(int argc, char **argv)
{
	int status = 0;
	pid_t child;
	printf("%d ", posix_spawn(&child, argv[1], 0, 0, argv, environ));
	wait(&status);
	printf("%d ", status);
	printf("%d ", posix_spawnp(&child, argv[1], 0, 0, argv, environ));
	wait(&status);
	printf("%d\\n", status);
	return argc != 2;
}
"""


def compile_c(path, code, *options):
    need("gcc")
    made = run(["gcc", "-w", "-x", "c", "-", "-o", path, *options], stdin=code)
    same((made.code, made.err), (0, b""), "compiling")
    return path


@case
def linked_long_ago():
    """The posix_spawn of old programs runs scripts that do not say by what."""
    with Folder() as folder:
        old = compile_c(folder / "old", OLD_SPAWN)
        with open(folder / "script", "w") as file:
            file.write("exit 4\n")
        os.chmod(folder / "script", 0o755)
        native = run([old, folder / "script"])
        same(native.out, b"0 1024 0 1024\n", "without us")
        ran, _ = record(folder, [old, folder / "script"])
        same((ran.code, ran.out, ran.err), (0, native.out, b""), "recorded")


@case
def other_stand_ins():
    """Another library that stands in for one name of a function is not passed by."""
    with Folder() as folder:
        library = compile_c(folder / "library.so", b"""
#include <sys/syscall.h>
#include <unistd.h>
void *mmap64(void *a, long n, long protection, long flags, long fd, long offset)
{
	write(1, "mmap64\\n", 7);
	return (void *)syscall(SYS_mmap, a, n, protection, flags, fd, offset);
}
""", "-shared", "-fPIC")
        program_ = compile_c(folder / "program", b"""
#define _GNU_SOURCE
#include <sys/mman.h>
int main(void)
{
	return mmap64(0, 4096, 3, 34, -1, 0) == MAP_FAILED || mmap64(0, 2 << 20, 3, 34, -1, 0) == MAP_FAILED ||
	       mmap(0, 2 << 20, 3, 34, -1, 0) == MAP_FAILED;
}
""")
        for order in ([AGENT, library], [library, AGENT]):
            ran = run([program_], env=environment(LD_PRELOAD=" ".join(order), MAYFLY="output=%s" % (folder / "t.spool")))
            same((ran.code, ran.out, ran.err), (0, b"mmap64\n" * 2, b""), order)


REAL = {
    "python3": [*PYTHON, "-c", "import subprocess, ctypes, os, mmap\n"
                "m = mmap.mmap(-1, 4 << 20); m.close()\n"
                "print(subprocess.run(['echo', 'one'], capture_output=True).stdout, flush=True)\n"
                "print(os.waitstatus_to_exitcode(os.system('exit 5')), flush=True)\n"
                "print(ctypes.CDLL('libm.so.6') is not None)"],
    "shell": ["sh", "-c", "for i in 1 2 3; do echo $i | sed s/^/x/ | sort -r; done; ls / | wc -l; (cd /; pwd)"],
    "bash": ["bash", "-c", "a=$(echo one); echo $a; cat <(echo two); wait; exec echo three"],
    "git": ["git", "--version"],
    "sqlite3": ["sqlite3", ":memory:", "create table t(x); insert into t values(randomblob(3000000)); "
                "select length(x) from t; select count(*) from t;"],
    "perl": ["perl", "-e", "print `echo one`; system('echo two'); exec 'echo', 'three'"],
}


@cases(sorted(REAL))
def real_program(name):
    need(REAL[name][0])
    with Folder() as folder:
        native = run(REAL[name], cwd=folder.path)
        ran, traces = record(folder, REAL[name], "--follow")
        same((ran.code, ran.out, ran.err), (native.code, native.out, native.err), name)
        names = {e["name"] for trace in traces for e in agents(trace)}
        if name == "python3":
            check({"mmap", "munmap", "dlopen"} <= names and names & {"fork", "vfork", "spawn"}, names)


# ---- what the recorder sees ----

@case
@patient
def threads():
    with Folder() as folder:
        ran, traces = record(folder, [PROGRAM, "threads"])
        same(ran.code, 0, repr(ran))
        threads = {}
        for line in ran.out.decode().splitlines():
            match = re.match(r"thread (\d+) (.*) (\d+)$", line)
            threads[int(match[1])] = (match[2], int(match[3]))
        events = [e for e in dump(traces[0]) if e["category"] == "thread"]
        check(all(e["tid"] == e["values"].get("tid", e["tid"]) for e in events), events)
        main_tid = info(traces[0])["pid"]
        starts = {e["tid"]: e["values"]["name"] for e in events if e["name"] == "thread.start"}
        same(set(starts), set(threads), "threads that began")
        # At first a thread has its parent's name.
        for tid, (name, _) in threads.items():
            check(starts[tid] in (name, "process_events"), starts, threads)
        # They did not allocate: the agent does not know them.
        text = " ".join(run([MAYFLY, "info", traces[0]]).out.decode().split())
        same({int(tid): name for name, tid in re.findall(r"(\w+(?: \d+)?) \((\d+)\)", text.split("Threads")[1])},
             {tid: name for tid, (name, _) in threads.items()}, "names")
        same({e["tid"] for e in events if e["name"] == "thread.exit"}, set(threads) - {main_tid}, "ended")
        shown = json.loads(run([MAYFLY, "report", "--events", "--json", traces[0]]).out)["cpu_by_thread"]
        same(sorted(shown, key=lambda t: -t["cpu_ns"]), shown, "most CPU time first")
        shown = {t["tid"]: t["cpu_ns"] for t in shown}
        text = run([MAYFLY, "report", "--events", traces[0]]).out.decode()
        same(len(text.split("CPU time by thread")[1].splitlines()) - 2, len(threads), text)
        check("thread.cpu" not in text, "a least and a mean of what only grows", text)
        # Every recording has these: the overview, which is of memory, does not mention them.
        check("Events" in run([MAYFLY, "info", traces[0]]).out.decode(), "info")
        check("Events" not in run([MAYFLY, "report", traces[0]]).out.decode(), "the overview")
        for tid, (name, cpu) in threads.items():
            own = [e for e in events if e["tid"] == tid]
            same(own[0]["name"], "thread.start", name)
            values = [e["values"]["value"] for e in own if e["name"] == "thread.cpu"]
            check(values == sorted(values) and len(set(values)) == len(values), name, values)
            same(shown[tid], values[-1], "CPU time by thread")
            # Each paused after its work, and the recorder looked.
            check(0.9 * cpu <= values[-1] <= 1.2 * cpu + 20e6, name, cpu, values)
            if tid == main_tid:
                check(values[-1] >= cpu, "the last figure of the first thread", values, cpu)


@case
@patient
def rss_says_who_mapped():
    with Folder() as folder:
        ran, traces = record(folder, [PROGRAM, "mapped"])
        same(ran.code, 0, repr(ran))
        report = json.loads(run([MAYFLY, "report", "--rss", "--json", traces[0]]).out)
        found = {(row["function"], row["access"]): row["bytes"][-1] // MIB for row in report["mapped"]}
        same(found, {("make_pool", "rw-p"): 24, ("stay_mapped", "rw-p"): 14, ("reserve", "---p"): 62,
                     ("stay_mapped", "brk"): 5}, "mapped")
        check(all(row["file"].endswith("process_events.c") and row["line"] for row in report["mapped"]),
              report["mapped"])
        text = run([MAYFLY, "report", "--rss", traces[0]]).out.decode()
        check(re.search(r"24.0 MiB +rw-p +make_pool", text) and "reserve" in text, text)


@case
@patient
def mappings_over_mappings():
    with Folder() as folder:
        ran, traces = record(folder, [PROGRAM, "over"])
        same(ran.code, 0, repr(ran))
        expected = {name: int(size) for name, size in re.findall(r"owner (\w+) (\d+)", ran.out.decode())}
        check(len(expected) >= 2, expected)
        report = json.loads(run([MAYFLY, "report", "--rss", "--json", traces[0]]).out)
        same({row["function"]: row["bytes"][-1] // MIB for row in report["mapped"]}, expected, "mapped")
        same({row["function"]: row["access"] for row in report["mapped"] if row["function"] != "reserve"},
             {"map_at": "r--p", "map_here": "-w-s"}, "access")


if __name__ == "__main__":
    main()
