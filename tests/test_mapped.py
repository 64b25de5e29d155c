#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program's own mappings: programs/mapped.c says what each of its functions has mapped at the end, and the
trace must have exactly that, in both modes, whatever the program does with parts of mappings."""
import json
import os
import re
import subprocess

from attaching import need_attach, recorder_of
from harness import (MAYFLY, PYTHON, SOURCE, Folder, as_json, case, cases, check, environment, info, library, main, mayfly,
                     need, program, record, report, run, same, unchanged)

MIB = 1 << 20
SITES = ["plain", "shared", "fixed", "grown", "committed"]
MODES = {"sampled": [], "sparse": ["-i", "64M"], "poisson": ["--sampler", "poisson", "-i", "1M"], "exact": ["-x"],
         "no_events": ["--map-events", "off"]}


def said(output, who="all"):
    """{"plain": bytes, ..., "most": bytes}"""
    found = re.findall(r"^%s (\w+) (\d+)$" % who, output.decode(), re.M)
    return {name: int(value) for name, value in found if name in SITES or name == "most"}


def mapped(trace, *options):
    """{function: bytes} of the heap of mappings; all are certain."""
    answer = report(trace, "--heap", "mmap", "--by", "function", "--frames", "all", "--top", "0", "--all", *options)
    found = {}
    for row in answer["rows"]:
        if row["self"]["samples"]:
            same(row["self"]["bytes"]["stderr"], 0, "mappings are certain")
            found[row["function"]] = row["self"]["bytes"]["estimate"]
    return found


def total(answer):
    return answer["total"]["bytes"]["estimate"]


def check_trace(trace, truth):
    expected = {site: truth[site] for site in SITES if truth[site]}
    same(mapped(trace, "--metric", "live", "--at", "end"), expected, "what is mapped at the end")
    same(mapped(trace, "--metric", "leaked"), expected, "what is left")
    facts = info(trace)
    same(facts["mapped_bytes"], sum(expected.values()), "info")
    check(facts["mapped_peak_bytes"] >= facts["mapped_bytes"], facts)
    same(facts["dropped_samples"] + facts["dropped_frees"] + facts["missed_frees"], 0, "dropped")
    check(facts["complete"], "a part of it is damaged")
    events = [json.loads(line) for line in mayfly("dump", "--json", trace).text.splitlines()]
    for prefix, of_mmap in ("mapped_", True), ("", False):
        some = [e for e in events if "heap" in e and (e["heap"] == "mmap") == of_mmap]
        allocs = [e for e in some if e["event"] == "alloc"]
        same([facts[prefix + name] for name in ("samples", "inherited", "frees")],
             [len(allocs), sum(e["inherited"] for e in allocs), len(some) - len(allocs)], "counts of " + prefix)


@cases(MODES)
def random_sequences(mode):
    with Folder() as here:
        for seed in range(1, 9):
            trace = here / ("%d.mayfly" % seed)
            ran = unchanged([program("mapped"), "random", str(seed), "400"], trace, "-q", *MODES[mode])
            truth = said(ran.out)
            check_trace(trace, truth)
            same(info(trace)["mapped_peak_bytes"], truth["most"], "the most ever mapped")
            same(sum(mapped(trace).values()), truth["most"], "the peak of mappings, by function")


@cases(["sampled", "exact"])
def many_threads(mode):
    with Folder() as here:
        for seed in range(1, 4):
            trace = here / ("%d.mayfly" % seed)
            ran = unchanged([program("mapped"), "threads", str(seed), "1500"], trace, "-q", *MODES[mode])
            check_trace(trace, said(ran.out))


@cases(["sampled", "exact"])
def fork_goes_on(mode):
    with Folder() as here:
        ran = unchanged([program("mapped"), "fork", "5", "300"], here / "t.mayfly", "-q", "--follow", *MODES[mode])
        child = [f for f in here.files("t.*.mayfly") if f != here / "t.mayfly"]
        same(len(child), 1, "traces of children")
        check_trace(here / "t.mayfly", said(ran.out, "parent"))
        check_trace(child[0], said(ran.out, "child"))
        check(info(child[0])["mapped_inherited"] > 0, "nothing was inherited")


@cases(["sampled", "exact"])
def not_followed_child(mode):
    with Folder() as here:
        ran = unchanged([program("mapped"), "fork", "6", "300"], here / "t.mayfly", "-q", *MODES[mode])
        check_trace(here / "t.mayfly", said(ran.out, "parent"))


# Its handlers come before the agent's, as those of jemalloc do: a library begins before what is preloaded.
LOCKED = """#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void take(void) { pthread_mutex_lock(&mutex); }
static void give(void) { pthread_mutex_unlock(&mutex); }
__attribute__((constructor)) static void begin(void) { pthread_atfork(take, give, give); }
void *map_locked(int keep)
{
	void *p;
	take();
	p = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!keep)
		munmap(p, 1 << 20);
	give();
	return p;
}
"""
FORKS = """#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
void *map_locked(int keep);
static atomic_int over;
static void *work(void *x) { while (!over) map_locked(0); return x; }
int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, work, NULL);
	for (int i = 0; i < 30; i++) {
		pid_t child = fork();
		if (!child)
			_exit(0);
		waitpid(child, NULL, 0);
	}
	over = 1;
	pthread_join(thread, NULL);
	printf("%d\\n", map_locked(1) != NULL);
	return 0;
}
"""


@cases(["sampled", "exact"])
def forks_beside_locks(mode):
    """A fork waits for a lock that a thread holds while it maps: that thread does not wait for the fork."""
    with Folder() as here:
        for name, text in (("locked.c", LOCKED), ("forks.c", FORKS)):
            with open(here / name, "w") as file:
                file.write(text)
        same(run(["gcc", "-shared", "-fPIC", "-o", here / "liblocked.so", here / "locked.c"]).code, 0)
        same(run(["gcc", "-o", here / "forks", here / "forks.c", "-L" + str(here.path), "-llocked",
                  "-Wl,-rpath," + str(here.path)]).code, 0)
        unchanged([here / "forks"], here / "t.mayfly", "-q", *MODES[mode])
        facts = info(here / "t.mayfly")
        same(facts["off_text"], None, "recording stopped")
        kept = [e for e in map(json.loads, mayfly("dump", "--json", here / "t.mayfly").text.splitlines())
                if e.get("heap") == "mmap" and e.get("event") == "alloc"]
        check(kept and kept[-1]["time_ns"] > 0.5 * facts["duration_ns"], "recording went on", kept[-1:], facts)


@cases(["sampled", "exact"])
def attached(mode):
    need_attach()
    with Folder() as here:
        plain = run([program("mapped"), "wait", "7", "800"], stdin=b"\n\n")
        process = subprocess.Popen([program("mapped"), "wait", "7", "800"], env=environment(), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        try:
            ready = process.stdout.readline()
            recorder = recorder_of(process, "-q", "-o", here / "t.mayfly", *MODES[mode])
            out, _ = process.communicate(b"\n\n")
            same(process.returncode, plain.code, "exit status")
            same(ready + out, plain.out, "output")
            recorder.wait()
        finally:
            process.kill()
            process.wait()
        check_trace(here / "t.mayfly", said(out))


@cases(["sampled", "exact"])
def each_kind(mode):
    with Folder() as here:
        unchanged([program("mapped"), "kinds"], here / "t.mayfly", "-q", *MODES[mode])
        same(mapped(here / "t.mayfly", "--metric", "allocated"),
             {"plain": 3 * MIB, "of_segment": 10 * MIB, "of_file": 3 * MIB, "kept_twice": 2 * MIB}, "mapped")
        same(mapped(here / "t.mayfly", "--metric", "leaked"),
             {"plain": 3 * MIB, "of_segment": 5 * MIB, "of_file": 3 * MIB, "kept_twice": 2 * MIB}, "left")


@cases(["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2"])
def not_what_an_allocator_maps(name):
    with Folder() as here:
        preload = environment(LD_PRELOAD=library(name))
        for mode in ("sampled", "exact"):
            trace = here / (mode + ".mayfly")
            done = run([MAYFLY, "record", "-q", "-o", trace, *MODES[mode], "--", program("mapped"), "kinds"], env=preload)
            same(done.code, 0, done)
            same(mapped(trace, "--metric", "leaked"),
                 {"plain": 3 * MIB, "of_segment": 5 * MIB, "of_file": 3 * MIB, "kept_twice": 2 * MIB}, mode)
            check(total(report(trace, "--metric", "leaked")) >= 6 * MIB, "malloc's own block")


PYTHON_LINES = """import mmap, os, sys
objects = [[n] for n in range(400000)]
def anonymous():
    return mmap.mmap(-1, 5 << 20)
def of_file(name):
    with open(name, "w+b") as file:
        file.truncate(7 << 20)
        return mmap.mmap(file.fileno(), 0)
def shared():
    from multiprocessing import shared_memory
    memory = shared_memory.SharedMemory(create=True, size=3 << 20)
    memory.unlink()
    return memory
kept = anonymous(), of_file(sys.argv[1]), shared()
sys.stdout.flush()
os._exit(0)
"""


@cases(["sampled", "exact"])
def lines_of_python(mode):
    """mmap.mmap and shared memory by line; not the arenas of Python's allocator, whose blocks are recorded."""
    with Folder() as here:
        with open(here / "own.py", "w") as file:
            file.write(PYTHON_LINES)
        unchanged([*PYTHON, here / "own.py", here / "file"], here / "t.mayfly", "-q", *MODES[mode])
        rows = report(here / "t.mayfly", "--heap", "mmap", "--by", "line", "--metric", "leaked", "--all")["rows"]
        same({(os.path.basename(row["file"]), row["line"], row["self"]["bytes"]["estimate"])
              for row in rows if row["self"]["samples"]},
             {("own.py", 4, 5 * MIB), ("own.py", 8, 7 * MIB), ("own.py", 11, 3 * MIB)}, "lines")


@cases(["sampled", "exact"])
def arenas_without_python(mode):
    """Where Python's blocks are not recorded, its arenas are what shows its memory."""
    with Folder() as here:
        done = record([*PYTHON, "-c", "objects = [[n] for n in range(400000)]"], here / "t.mayfly", "-q", *MODES[mode],
                      env=environment(MAYFLY="python=off"))
        same(done.code, 0, done)
        check(sum(mapped(here / "t.mayfly").values()) >= 16 * MIB, mapped(here / "t.mayfly"))


@cases(["sampled", "exact"])
def with_musl(mode):
    need("musl-gcc")
    with Folder() as here:
        own = here / "mapped"
        built = run(["musl-gcc", "-D_GNU_SOURCE", "-g", "-O1", "-o", own, os.path.join(SOURCE, "tests/programs/mapped.c")])
        same(built.code, 0, built)
        for what in ("random", "threads"):
            trace = here / (what + ".mayfly")
            ran = unchanged([own, what, "4", "400"], trace, "-q", *MODES[mode])
            check_trace(trace, said(ran.out))


@case
def beside_the_total():
    """The figures of the heap are what they are without mappings; what is mapped is said beside them."""
    with Folder() as here:
        record([program("mapped"), "kinds"], here / "t.mayfly", "-q", "-x")
        facts = as_json("report", "--json", "--by", "heap", "--metric", "leaked", here / "t.mayfly")
        by_heap = {row["heap"]: row["self"]["bytes"]["estimate"] for row in facts["rows"]}
        same(by_heap["mmap"], 13 * MIB, by_heap)
        same(total(report(here / "t.mayfly", "--metric", "leaked")), by_heap["malloc"], "total")
        same(total(report(here / "t.mayfly", "--heap", "all", "--metric", "leaked")),
             by_heap["malloc"] + 13 * MIB, "all heaps")
        for command in ("report", "info"):
            text = re.sub(r"\s+", " ", mayfly(command, here / "t.mayfly").text)
            check("Mapped 13.0 MiB in 5 mappings of the program's own at the end, not in these" in text, command, text)
        text = re.sub(r"\s+", " ", mayfly("report", here / "t.mayfly").text)
        check("Mappings of the program's own took up to 15.0 MiB beside the heap (--heap mmap)." in text, text)
        check("beside the heap" not in mayfly("report", "--heap", "mmap", here / "t.mayfly").text, "when asked for")


@case
def only_mappings():
    """Figures of the heap that are 0 stand beside no other count of it."""
    with Folder() as here:
        record([program("mapped"), "random", "3", "300"], here / "t.mayfly", "-q", "-x")
        facts = info(here / "t.mayfly")
        check(facts["mapped_samples"] > 100, facts)
        blocks = facts["allocated"]["blocks"]["estimate"]
        same((facts["samples"], facts["stacks"] > 0), (blocks, blocks > 0), "blocks of the heap")
        text = re.sub(r"\s+", " ", mayfly("report", here / "t.mayfly").text)
        check("every allocation: %d, %d freed" % (blocks, facts["frees"]) in text, text)
        text = mayfly("leaks", here / "t.mayfly").text
        check("No block is left" not in text, text)


@case
def leaks_names_them():
    with Folder() as here:
        record([program("mapped"), "random", "3", "300"], here / "t.mayfly", "-q")
        truth = said(run([program("mapped"), "random", "3", "300"]).out)
        answer = as_json("leaks", "--json", here / "t.mayfly")
        same(total(answer["mapped"]), sum(truth[site] for site in SITES), "total")
        text = mayfly("leaks", here / "t.mayfly").text
        check(re.search(r"Mappings that the program made itself.*\n.*Never freed by stack: .*\n(.*\n)*.*plain", text), text)
        # What is mapped to the end alone is no leak of the heap, unless it is asked for.
        same(run([MAYFLY, "leaks", "--exit-code", "7", "--heap", "mmap", here / "t.mayfly"]).code, 7, "exit status")
        check("Mappings that" not in mayfly("leaks", "--heap", "malloc", here / "t.mayfly").text, "only malloc's")


@case
def merged_and_thinned():
    with Folder() as here:
        truth = said(run([program("mapped"), "random", "2", "400"]).out)
        left = {site: truth[site] for site in SITES if truth[site]}
        for name in ("a", "b"):
            record([program("mapped"), "random", "2", "400"], here / (name + ".mayfly"), "-q")
        mayfly("merge", "-o", here / "m.mayfly", here / "a.mayfly", here / "b.mayfly")
        same(mapped(here / "m.mayfly", "--metric", "leaked"), {site: 2 * left[site] for site in left}, "merged")
        same(info(here / "m.mayfly")["mapped_bytes"], 2 * sum(left.values()), "merged")


@case
def exports_know_the_heap():
    with Folder() as here:
        record([program("mapped"), "kinds"], here / "t.mayfly", "-q", "-x")
        events = [json.loads(line) for line in mayfly("dump", "--json", here / "t.mayfly").text.splitlines()]
        sizes = [e["size"] for e in events if e.get("heap") == "mmap" and e.get("event") == "alloc"]
        same(sum(sizes), 18 * MIB, "dump")


if __name__ == "__main__":
    main()
