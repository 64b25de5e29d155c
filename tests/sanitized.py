# SPDX-License-Identifier: Apache-2.0
"""Builds of their own, beside the one under test: with sanitizers, and of the fuzz targets."""
import glob
import os
import re
import shutil

from harness import BUILD, CLANG, LLVM, SOURCE, Skip, check, environment, need, run

FUZZ_TARGETS = sorted(os.path.basename(path)[5:-2]
                      for path in glob.glob(os.path.join(SOURCE, "tests", "fuzz_*.c")))

# Inputs of each target, about half a minute of a free processor; FUZZ_INPUTS is another number.
INPUTS = {"export": 4000, "import": 2000, "jit": 50000, "memtrace": 800, "spool": 800,
          "stream": 10000, "expression": 30000, "pprof": 10000, "view": 3000, "symbols": 10000, "trace": 1000, "watch_rules": 50000}


def built(folder, targets, *options, **compilers):
    """The folder of a build with these options, brought up to date."""
    env = environment(**compilers)
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        result = run(["meson", "setup", folder, SOURCE, "-Dbench=false", "-Dman=false",
                      "-Dpage=disabled", *options],
                     env=env)
        check(result.code == 0, "meson:", result)
    result = run(["ninja", "-C", folder, *targets], env=env)
    check(result.code == 0, "ninja:", result.out.decode(errors="replace")[-3000:])
    return folder


def with_threads(*targets):
    """The tree that is built with the thread sanitizer, and the environment for what is in it."""
    need("meson", "ninja", "gcc")
    folder = built(BUILD + "-tsan", targets, "-Db_sanitize=thread")
    return folder, environment(TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1",
                               MAYFLY_BUILD=folder, MAYFLY_SOURCE=SOURCE)


def fuzz(name, runs, seed):
    """Runs a fuzz target on so many inputs. One seed, so that a failure is the fault of the change at
    hand; 0 draws one."""
    need("meson", "ninja", CLANG)
    if not glob.glob("/usr/lib/llvm-%s/lib/clang/*/lib/linux/libclang_rt.fuzzer-x86_64.a" % LLVM):
        raise Skip("libclang-rt-%s-dev is not installed" % LLVM)
    folder = built(BUILD + "-fuzz", ["tests/fuzz_" + name], "-Dfuzz=true",
                   "-Db_sanitize=address,undefined", "-Db_lundef=false",
                   "-Dc_args=-fsanitize=fuzzer-no-link", CC=CLANG, CXX=CLANG.replace("clang", "clang++"))
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
