#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The unit tests under the address and undefined-behaviour sanitizers, what has threads under the
thread sanitizer, and each fuzz target for a number of inputs, from small real ones. Builds of their
own, beside the one under test."""
import glob
import os

from harness import (BUILD, Folder, MAYFLY, PYTHON, SOURCE, Skip, case, cases, check, environment, info, main, need, run,
                     same)
from sanitized import FUZZ_TARGETS, INPUTS, built, fuzz, with_threads

UNIT_TESTS = sorted(os.path.basename(path)[5:-2]
                    for path in glob.glob(os.path.join(SOURCE, "tests", "test_*.c")))
SEED = int(os.environ.get("FUZZ_SEED", "1"))


@case
def without_optional_libraries():
    """A build without SQLite, libsodium, libmicrohttpd, libcurl and ncurses says in one line what it lacks, and does the rest."""
    need("meson", "ninja", "gcc")
    folder = built(BUILD + "-plain", ["src/cli/mayfly", "src/agent/libmayfly.so"], "-Dtests=false",
                   "-Dsqlite=disabled", "-Dsodium=disabled", "-Dmicrohttpd=disabled", "-Dcurl=disabled",
                   "-Dncurses=disabled")
    mayfly = os.path.join(folder, "src", "cli", "mayfly")
    libraries = run(["ldd", mayfly]).out
    check(b"libzstd" in libraries and b"sqlite" not in libraries and b"sodium" not in libraries and
          b"microhttpd" not in libraries and b"ncurses" not in libraries and b"curl" not in libraries, libraries)

    def refused(what, *arguments):
        result = run([mayfly, *arguments])
        check(result.code in (1, 2, 125) and not result.out, result)
        check(result.err.count(b"\n") == 1 and what in result.err and b"this build" in result.err, result)

    with Folder() as here:
        done = run([mayfly, "record", "-i", "1", "-o", here / "t.mayfly", "--", "/bin/true"])
        same(done.code, 0, repr(done))
        refused(b"libsqlite3-dev", "export", "--to", "sqlite", here / "t.mayfly")
        refused(b"libmicrohttpd-dev", "view", here / "t.mayfly")
        for address in ("clickhouse://localhost/fleet", "otlp://localhost", "pyroscope://localhost"):
            refused(b"libcurl4-openssl-dev", "push", "--to", address, here / "t.mayfly")
        with open(here / "key", "wb") as file:
            file.write(b"k" * 32)
        os.chmod(here / "key", 0o600)
        for address, key in ((here / "socket", ["--key", here / "key"]), ("192.0.2.1:7", [])):
            refused(b"libsodium", "receive", "-o", here / "got", *key, address)
            refused(b"libsodium", "record", *key, "--stream", address, "--", "/bin/true")
        same([os.path.basename(path) for path in here.files()], ["key", "t.mayfly"], "files")
        done = run([mayfly, "export", "--to", "csv", "-o", "-", here / "t.mayfly"])
        check(done.code == 0 and done.out, done)


@cases(UNIT_TESTS)
def sanitizers(name):
    need("meson", "ninja", "gcc")
    folder = built(BUILD + "-asan", ["tests/test_" + name], "-Db_sanitize=address,undefined")
    # gcc 13.2's copies of the stack do not keep alignments of 64 (its bug 110027).
    env = environment(ASAN_OPTIONS="detect_leaks=1:abort_on_error=1:detect_stack_use_after_return=0",
                      UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1",
                      MAYFLY_BUILD=BUILD, MAYFLY_SOURCE=SOURCE)
    result = run([os.path.join(folder, "tests", "test_" + name)], env=env,
                 cwd=os.path.join(folder, "tests"))
    failed = [line for line in result.out.decode(errors="replace").splitlines()
              if line.startswith(("not ok", "#"))]
    check(result.code == 0, "\n".join(failed[:40]), result.err.decode(errors="replace")[-4000:])


# ---- threads ----

@cases(["races", "helper"])
def threads(name):
    """The agent's tables and spool; chunks that are decoded by several threads."""
    folder, env = with_threads("tests/test_" + name)
    result = run([os.path.join(folder, "tests", "test_" + name)], env=env, cwd=os.path.join(folder, "tests"))
    check(result.code == 0, result.out.decode(errors="replace")[-2000:],
          result.err.decode(errors="replace")[-4000:])


@cases(["received_is_local", "broken_connections", "receiver_killed", "slow_receiver", "strangers"])
def threads_of_streams(word):
    """tests/test_stream.py with a mayfly that is watched: its sender is a thread."""
    folder, env = with_threads("src/cli/mayfly", "src/agent/libmayfly.so")
    result = run([os.path.join(SOURCE, "tests", "test_stream.py"), word], env=env)
    check(result.code == 0, result.out.decode(errors="replace")[-6000:],
          result.err.decode(errors="replace")[-4000:])


@case
def threads_that_decode():
    """A trace that is large enough for them: more than a million events."""
    need("python3")
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip("one processor: no helpers")
    folder, env = with_threads("src/cli/mayfly")
    with Folder() as here:
        done = run([MAYFLY, "record", "-x", "-o", here / "t.mayfly", "--", *PYTHON, "-c",
                    "for i in range(10):\n    x = [bytes(100) for i in range(70000)]"],
                   env=environment(PYTHONMALLOC="malloc"))
        same(done.code, 0, repr(done))
        facts = info(here / "t.mayfly")
        check(facts["samples"] + facts["frees"] > 1000000, facts)
        for arguments in (["--by", "lifetime"], ["--metric", "temporary"], ["--churn"]):
            command = ["report", *arguments, here / "t.mayfly"]
            watched = run([os.path.join(folder, "src", "cli", "mayfly"), *command], env=env)
            same((watched.code, watched.err), (0, b""), "report " + " ".join(arguments))
            same(watched.out, run([MAYFLY, *command]).out, "what it printed")


# ---- fuzzing ----

@cases(FUZZ_TARGETS)
def fuzzing(name):
    fuzz(name, int(os.environ.get("FUZZ_INPUTS", INPUTS[name])), SEED)


main()
