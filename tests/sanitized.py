# SPDX-License-Identifier: Apache-2.0
"""Builds of their own, beside the one under test: with sanitizers, and of the fuzz targets."""
import fcntl
import functools
import glob
import os
import re
import shutil

from harness import BUILD, CLANG, SOURCE, Skip, check, environment, need, read, run

FUZZ_TARGETS = sorted(os.path.basename(path)[5:-2]
                      for path in glob.glob(os.path.join(SOURCE, "tests", "fuzz_*.c")))

# Inputs of each target, about half a minute of a free processor; FUZZ_INPUTS is another number.
INPUTS = {"export": 4000, "expression": 30000, "heap": 10000, "import": 2000, "jit": 50000, "memtrace": 800,
          "pprof": 10000, "spool": 800, "stream": 10000, "symbols": 10000, "trace": 1000, "view": 3000,
          "watch_rules": 50000}


UNIT_TESTS = sorted(os.path.basename(path)[5:-2]
                    for path in glob.glob(os.path.join(SOURCE, "tests", "test_*.c")))

# name -> (options of meson, targets): built once, whole, by the first test that needs it.
TREES = {
    "asan": (["-Db_sanitize=address,undefined"], ["tests/test_" + name for name in UNIT_TESTS]),
    "tsan": (["-Db_sanitize=thread"],
             ["src/cli/mayfly", "src/agent/libmayfly.so", "tests/test_races", "tests/test_helper"]),
    "fuzz": (["-Dfuzz=true", "-Db_sanitize=address,undefined", "-Db_lundef=false",
              "-Dc_args=-fsanitize=fuzzer-no-link"], ["tests/fuzz_" + name for name in FUZZ_TARGETS]),
    "plain": (["-Dtests=false", "-Dsqlite=disabled", "-Dsodium=disabled", "-Dmicrohttpd=disabled",
               "-Dcurl=disabled", "-Dncurses=disabled"], ["src/cli/mayfly", "src/agent/libmayfly.so"]),
}


def set_up(folder, command, env):
    """Configures it, anew where it was made with other options, or when there were others: meson takes the default
    of an option that has another type by now."""
    with open(os.path.join(SOURCE, "meson_options.txt")) as file:
        made_with = " ".join(command) + "\n" + file.read()
    stamp = os.path.join(folder, "made_with")
    if os.path.exists(stamp) and read(stamp) == made_with.encode():
        return
    shutil.rmtree(folder, ignore_errors=True)
    result = run(command, env=env)
    check(result.code == 0, "meson:", result)
    with open(stamp, "w") as file:
        file.write(made_with)


@functools.cache
def built(name):
    """The folder of this tree, up to date. meson takes ccache where it is installed."""
    compilers = {"CC": CLANG, "CXX": CLANG.replace("clang", "clang++")} if name == "fuzz" else {}
    need("meson", "ninja", compilers.get("CC", "gcc"))
    folder, env = BUILD + "-" + name, environment(**compilers)
    options, targets = TREES[name]
    with open(os.path.join(BUILD, name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test may be building it
        set_up(folder, ["meson", "setup", folder, SOURCE, "-Dbench=false", "-Dman=false", "-Dpage=disabled", *options],
               env)
        result = run(["ninja", "-C", folder, *targets], env=env)
        check(result.code == 0, "ninja:", result.out.decode(errors="replace")[-3000:])
    return folder


def with_threads():
    """The tree that is built with the thread sanitizer, and the environment for what is in it."""
    folder = built("tsan")
    return folder, environment(TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1",
                               MAYFLY_BUILD=folder, MAYFLY_SOURCE=SOURCE)


def fuzz(name, runs, seed):
    """Runs a fuzz target on so many inputs. One seed, so that a failure is the fault of the change at
    hand; 0 draws one."""
    need(CLANG)
    target = b"int LLVMFuzzerTestOneInput(const char *data, unsigned long size) { return !data && size; }"
    if run([CLANG, "-fsanitize=fuzzer", "-x", "c", "-", "-o", "/dev/null"], stdin=target).code:
        raise Skip("%s has no libFuzzer (Debian: libclang-rt-dev)" % CLANG)
    folder = built("fuzz")
    corpus = os.path.join(folder, "corpus", name)
    shutil.rmtree(corpus, ignore_errors=True)  # what an earlier run found is not this run's start
    os.makedirs(corpus)
    result = run([os.path.join(SOURCE, "tests", "make_corpus"), "fuzz_" + name, corpus, BUILD])
    check(result.code == 0, "make_corpus:", result)
    check(os.listdir(corpus), "no input to begin with")
    # What was freed is kept aside by the sanitizer, by default as much as all else together.
    env = environment(ASAN_OPTIONS="quarantine_size_mb=16",
                      UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1")
    result = run([os.path.join(folder, "tests", "fuzz_" + name), "-runs=%d" % runs,
                  "-seed=%d" % seed, "-timeout=600", "-rss_limit_mb=2048", "-max_len=65536",
                  "-print_final_stats=1", "-artifact_prefix=%s-" % corpus,
                  corpus], env=env)
    check(result.code == 0, "an input that fails is in %s-*:" % corpus,
          result.err.decode(errors="replace")[-4000:])
    inputs = re.search(rb"number_of_executed_units: *(\d+)", result.err)
    print("# %s: %s inputs" % (name, inputs.group(1).decode() if inputs else "?"))
    check(inputs and int(inputs.group(1)) > 0, "nothing was run")
