#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tests/run, harness.py and .ci/run: nothing that fails, hangs, is left out or never runs goes unseen."""
import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys

from harness import SOURCE, Folder, case, cases, check, descendants, environment, main, read, run, same, wait_until
from sanitized import set_up

loader = importlib.machinery.SourceFileLoader("tests_run", os.path.join(SOURCE, "tests", "run"))
sys.dont_write_bytecode = True
tests_run = importlib.util.module_from_spec(importlib.util.spec_from_loader("tests_run", loader))
loader.exec_module(tests_run)


@case
def points_count():
    passed, failed, skipped = tests_run.read_tap(
        "1..4\nok 1 - a\nnot ok 2 - b\n# why\nok 3 - c # SKIP no d here\nok 4\n")
    same((passed, failed, skipped), (2, ["b"], ["c: no d here"]))
    same(tests_run.read_tap("1..0 # SKIP not on this machine\n"), (0, [], ["not on this machine"]))


@cases(["", "ok 1 - a\n", "1..2\nok 1 - a\n", "1..1\nok 1 - a\nok 2 - b\n", "1..1\nok 1 - a\nBail out! no\n"])
def an_end_that_is_no_end(text):
    check(tests_run.read_tap(text)[1], "no failure in", repr(text))


def one(command, timeout=0):
    test = {"name": "one", "cmd": ["sh", "-c", command], "env": {}, "workdir": "/", "timeout": timeout, "protocol": "tap"}
    ending = tests_run.run_one(test)
    return ending, tests_run.judge(test, ending.output, ending.status)


@case
def exit_status_counts():
    same(tuple(one("echo 1..1; echo ok 1")[1]), (1, [], []))
    same(one("echo 1..1; echo ok 1; exit 3")[1].failed, ["exit status 3"])
    same(one("kill -SEGV $$")[1].failed, ["no test plan: it ended early"])


@case
def cpu_seconds_are_those_of_its_children():
    ending, _ = one("sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done'; echo 1..1; echo ok 1")
    check(0 < ending.cpu_seconds <= ending.seconds * os.cpu_count() + 0.1, ending)


@case
def what_hangs_is_ended():
    """With what it has started."""
    ending, outcome = one("echo 1..1; sleep 10000 & sleep 10000", timeout=1)
    same((ending.status, outcome.failed), (None, ["0 test points of 1 planned", "still running after 1 s"]))


PROJECT = """
project('waits')
test('waiting', find_program('sh'), args: ['-c', 'echo 1..2; echo ok 1 - begins; sleep 100000'], protocol: 'tap', timeout: 0)
"""


@case
def what_is_running_when_it_is_ended_is_named():
    with Folder() as here:
        with open(here / "meson.build", "w") as file:
            file.write(PROJECT)
        same(run(["meson", "setup", here / "build"], cwd=here.path).code, 0)
        with subprocess.Popen([os.path.join(SOURCE, "tests", "run"), here / "build"],
                              stdout=subprocess.PIPE, env=environment()) as runner:
            wait_until(lambda: any(read("/proc/%d/comm" % pid) == b"sleep\n" for pid in descendants(runner.pid)), "the test")
            runner.terminate()
            out = runner.communicate()[0].decode()
            check(re.search(r"^still running: waiting, for \d+ s, after ok 1 - begins$", out, re.MULTILINE), out)
            same(runner.returncode, 1)


HANGING = """
import subprocess
import harness

harness.CASE_TIMEOUT = 1


@harness.case
def never():
    with subprocess.Popen(["sleep", "100000"], stdout=subprocess.PIPE) as process:
        process.stdout.readline()


@harness.case
def afterwards():
    pass


harness.main()
"""


@case
def a_case_that_hangs_is_ended():
    """With what it has started. It says where it was, and the next one runs."""
    done = run([sys.executable, "-c", HANGING], cwd=os.path.join(SOURCE, "tests"),
               env=environment(PYTHONDONTWRITEBYTECODE="1"))
    passed, failed, _ = tests_run.read_tap(done.out.decode())
    same((done.code, passed, failed), (1, 1, ["never"]), done)
    check(b"still running after 1 s" in done.out and b"in never" in done.out, done)


@case
def a_tree_with_other_options_is_made_anew():
    with Folder() as here:
        def made(*options):
            set_up(here / "tree", ["sh", "-c", 'mkdir -p "$0"; echo "$@" >>"$0/made"', here / "tree", *options],
                   environment())
            return read(here / "tree/made")
        for _ in range(2):
            same(made("-Da=true"), b"-Da=true\n")
        same(made("-Da=enabled"), b"-Da=enabled\n")


# Each target says what tests/run would have said.
MAKEFILE = """
test test-long:
	@test ! -e '%(here)s/'$@.says || cat '%(here)s/'$@.says >>"$$MAYFLY_TALLY"
	@echo $@ >>'%(here)s/ran'
	@test ! -e '%(here)s/'$@.fails
"""


def ci(here, **suites):
    """.ci/run where the suites had these outcomes, or did not get as far as to have one (None)."""
    os.makedirs(here / ".ci")
    os.makedirs(here / "tests")
    for name in (".ci/run", "tests/run"):
        shutil.copy(os.path.join(SOURCE, name), here / name)
    with open(here / "Makefile", "w") as file:
        file.write(MAKEFILE % {"here": here.path})
    for suite, outcome in suites.items():
        target = {"test": "test", "long": "test-long"}[suite]
        if outcome is not None:
            with open(here / (target + ".says"), "w") as file:
                file.write(json.dumps([suite, outcome]) + "\n")
        if not outcome or outcome["failed"]:
            with open(here / (target + ".fails"), "w"):
                pass
    done = run([here / ".ci/run"], env=environment())
    with open(here / "ran") as file:
        same(file.read().split(), ["test", "test-long"], "what ran")
    return done.code, done.out.decode().splitlines()


def outcome(passed, failed=(), skipped=()):
    return {"passed": passed, "failed": list(failed), "skipped": list(skipped)}


@case
def both_suites_pass():
    with Folder() as here:
        code, lines = ci(here, test=outcome(3, skipped=[["ugly", "no root here"]]), long=outcome(4))
    same((code, lines[-2:]), (0, ["skipped: ugly: no root here", "7 passed, 0 failed, 1 skipped"]))


@case
def the_first_suite_fails():
    """The long one runs nevertheless."""
    with Folder() as here:
        code, lines = ci(here, test=outcome(3, failed=[["ugly", "sandbox"]]), long=outcome(4))
    same((code, lines[-2:]), (1, ["FAILED: ugly: sandbox", "7 passed, 1 failed, 0 skipped"]))


@case
def a_suite_does_not_build():
    with Folder() as here:
        code, lines = ci(here, test=None, long=outcome(4))
    same((code, lines[-2:]), (1, ["FAILED: test: did not run", "4 passed, 1 failed, 0 skipped"]))


if __name__ == "__main__":
    main()
