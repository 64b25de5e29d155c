#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a Python program had kept when its interpreter began to end: leaks, check and the page take that for never
freed, although the interpreter frees it."""
import csv
import functools
import glob
import json
import os
import re
import shutil
import sysconfig

from harness import (Folder, MAYFLY, PYTHON, Skip, case, cases, check, info, main, mayfly, program, record, report,
                     run, same)

from attaching import need_attach

folder = Folder()
folder.__enter__()
BLOCKS, SIZE = 300, 50000
KEEPS = """import atexit, sys
kept, local, late = [], [], []
def keep(to):
    to.append(bytearray(%d))
def let_go(to):
    to.append(bytearray(%d))
for i in range(%d): keep(kept)
for i in range(%d): let_go(local)
for i in range(%d): let_go(late)
local.clear()
atexit.register(late.clear)
""" % (SIZE, SIZE, BLOCKS, BLOCKS, BLOCKS)
TELLS = "what its interpreter freed after it began to end"


@functools.lru_cache(maxsize=None)
def interpreters():
    """Debian's, and others that this machine has, of versions whose end is seen."""
    found = [PYTHON[0]]
    for version in ("3.10", "3.11", "3.12", "3.13", "3.14"):
        found += [path for path in (shutil.which("python" + version),) if path] + glob.glob(
            os.path.expanduser("~/.pyenv/versions/%s.*/bin/python3" % version))
    found = [run([path, "-c", "import os, sys; print(os.path.realpath(sys.executable))"]) for path in found]
    return list(dict.fromkeys(done.out.decode().strip() for done in found if not done.code))


def recorded(text, *options, python=PYTHON[0], code=0, name="t.mayfly"):
    trace, path = folder / name, folder / "program.py"
    if os.path.exists(trace):
        os.unlink(trace)
    with open(path, "w") as file:
        file.write(text)
    done = record([python, "-S", path], trace, *options)
    same(done.code, code, "exit status: %r" % done)
    return trace


def leaks(trace, *options):
    return json.loads(mayfly("leaks", "--json", *options, trace).out)


def by_function(trace, *options):
    return {row["function"]: row["self"] for row in leaks(trace, "--by", "function", *options)["rows"]}


def near(estimate, expected):
    slack = 5 * estimate["bytes"]["stderr"] + 5000
    got = estimate["bytes"]["estimate"]
    check(expected - slack <= got <= expected * 1.02 + slack, got, "is not near", expected)


# ---- leaks ----

@cases([python + " " + option for python in interpreters() for option in ("-x", "--interval=16384")])
def a_global_list_leaks(words):
    python, option = words.split()
    trace = recorded(KEEPS, option, python=python)
    found = by_function(trace)
    near(found["keep"], BLOCKS * SIZE)
    check("let_go" not in found, "freed before the end, or by atexit:", found)
    check(0 < info(trace)["python_end_ns"] <= info(trace)["duration_ns"], info(trace))
    text = mayfly("leaks", trace).text
    check(TELLS in re.sub(r"\s+", " ", text), text)
    # The interpreter has freed it: what is live at the end does not have it.
    rows = report(trace, "--metric", "live", "--at", "end", "--all")["rows"]
    check(not any(row["function"] == "keep" for row in rows), rows)


@cases(interpreters())
def nothing_leaks_of_an_empty_program(python):
    trace = recorded("pass", "-x", python=python)
    found = leaks(trace, "--by", "function")
    check(found["total"]["bytes"]["estimate"] < 2000, found["total"], found["rows"])
    every = leaks(trace, "--no-default-suppressions")
    check(every["total"]["bytes"]["estimate"] > 200000, "this test shows nothing:", every["total"])
    same(mayfly("check", "--max-leaked", "2000", trace).code, 0, "check")


@case
def modules_do_not_leak():
    trace = recorded("import json, decimal, argparse, typing\n", "-x")
    found = by_function(trace)
    check(sum(row["bytes"]["estimate"] for row in found.values()) < 20000, found)


@case
def a_check_finds_it():
    trace = recorded(KEEPS, "-x")
    failed = run_check(trace, "10M")
    same(failed.code, 1, "exit status of a limit that is exceeded")
    text = re.sub(r"\s+", " ", failed.out.decode())
    check("keep" in text and TELLS in text, text)
    same(run_check(trace, "20M").code, 0, "exit status of one that is not")


def run_check(trace, limit):
    return run([MAYFLY, "check", "--max-leaked", limit, trace])


@case
def groupings_agree():
    """By what only the free tells, and within a window of time."""
    trace = recorded(KEEPS, "-x")
    for by in ("size", "thread", "line", "heap", "module"):
        total = leaks(trace, "--by", by)["total"]["bytes"]["estimate"]
        check(BLOCKS * SIZE < total < 1.1 * BLOCKS * SIZE, by, total)
    same(leaks(trace, "--to", "1ns")["total"]["bytes"]["estimate"], 0, "allocated before anything was")
    large = leaks(trace, "--min-size", str(SIZE))["total"]
    same(large["blocks"]["estimate"], BLOCKS, "blocks")


@case
def exports_and_the_page_agree():
    trace = recorded(KEEPS, "-x")
    table = mayfly("export", "--to", "csv", "--rows", "samples", "--metric", "leaked", "-o", "-", trace).out.decode()
    rows = list(csv.DictReader(table.splitlines()))
    kept = [row for row in rows if ";keep;" in row["stack"] + ";" and int(row["size"]) > SIZE]
    same(len(kept), BLOCKS, "rows of csv")
    check(not any(row["free_time_ns"] for row in kept), kept[:1])
    asked = run([program("view_ask"), trace, "leaks"])
    same((asked.code, asked.err), (0, b""), "the page's answer")
    answer = json.loads(asked.out.split(b"\n", 1)[1])
    same(answer["total"], leaks(trace)["total"], "the page's leaks")
    same(answer["python_end_ns"], info(trace)["python_end_ns"], "the page's time")


# ---- programs that end otherwise ----

WORKERS = """import os, signal, sys, time
kept = []
def work():
    for i in range(%d): kept.append(bytearray(%d))
pid = os.fork()
if not pid:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    work()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
os.waitpid(pid, 0)
""" % (BLOCKS, SIZE)


@case
def a_worker_that_is_told_to_end():
    trace = recorded(WORKERS, "-x", "-f")
    child, = [path for path in glob.glob(folder / "t.*.mayfly") if info(path)["samples"]]
    near(by_function(child)["work"], BLOCKS * SIZE)
    check("work" not in by_function(trace), "the parent's leaks")
    os.unlink(child)


@cases(["-x", "--interval=16384"])
def a_picture_at_the_exit_comes_too_late(option):
    """It says so, and when the interpreter began to end: before the program was held for the picture."""
    need_attach()
    trace = recorded(KEEPS, option, "--heap-at=exit")
    at = json.loads(mayfly("report", "--by", "holder", "--json", trace).out)["time_ns"]
    facts = info(trace)
    check(facts["python_end_ns"] <= at <= facts["duration_ns"], facts["python_end_ns"], at)
    for command in (["report"], ["report", "--by", "holder"], ["leaks"]):
        text = " ".join(mayfly(*command, trace).text.split())
        check("Python's interpreter had begun to free its objects" in text, command, text)


@cases(["os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
def a_program_without_an_end(last):
    trace = recorded(KEEPS + "import os, signal\n" + last, "-x", code=137 if "KILL" in last else 0)
    near(by_function(trace)["keep"], BLOCKS * SIZE)
    check("python_end_ns" not in info(trace), info(trace))
    check(TELLS not in mayfly("leaks", trace).text, "text")


EMBEDDER = """#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) char *hold_in_c(void)
{
	return calloc(1, 5000000);
}
int main(int argc, char **argv)
{
	char *volatile held = hold_in_c();
	void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL), *found;
	int (*run_python)(int, char **);

	if (!library || !(found = dlsym(library, "Py_BytesMain")))
		return 77;
	memcpy(&run_python, &found, sizeof(found));
	run_python(argc - 1, argv + 1);
	run_python(argc - 1, argv + 1);
	free(held);
	return 0;
}
"""


@case
def a_program_with_an_interpreter_in_it():
    """Its own blocks, which it frees after the interpreter's end, do not leak. It starts the interpreter twice."""
    where, arch, name = map(sysconfig.get_config_var, ("LIBDIR", "MULTIARCH", "INSTSONAME"))
    library = next(filter(os.path.exists, (os.path.join(where, name), os.path.join(where, arch or "", name))), None)
    source, binary, app = (folder / name for name in ("embedder.c", "embedder", "app.py"))
    for path, text in ((source, EMBEDDER), (app, KEEPS)):
        with open(path, "w") as file:
            file.write(text)
    if not library or run(["cc", "-g", "-o", binary, source]).code:
        raise Skip("no shared libpython, or no C compiler")
    trace = folder / "embedder.mayfly"
    done = record([binary, library, "-S", app], trace, "-x")
    same(done.code, 0, "exit status: %r" % done)
    found = by_function(trace)
    check("hold_in_c" not in found, found)
    check(found["keep"]["bytes"]["estimate"] >= BLOCKS * SIZE, found)


main()
