#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The unit tests under the address and undefined-behaviour sanitizers, and each fuzz target for a
while, from small real inputs. Builds of their own, beside the one under test."""
import glob
import os
import re
import subprocess

from harness import (BUILD, Folder, SOURCE, Skip, case, cases, check, environment, main, need, run,
                     same)

UNIT_TESTS = sorted(os.path.basename(path)[5:-2]
                    for path in glob.glob(os.path.join(SOURCE, "tests", "test_*.c")))
FUZZ_TARGETS = sorted(os.path.basename(path)[5:-2]
                      for path in glob.glob(os.path.join(SOURCE, "tests", "fuzz_*.c")))
INPUTS = int(os.environ.get("FUZZ_INPUTS", "10000"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))
SECONDS = int(os.environ.get("FUZZ_SECONDS", "30"))


def built(folder, targets, *options, **compilers):
    """The folder of a build with these options, brought up to date."""
    env = environment(**compilers)
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        result = run(["meson", "setup", folder, SOURCE, "-Dbench=false", "-Dman=false", *options],
                     env=env, timeout=300)
        check(result.code == 0, "meson:", result)
    result = run(["ninja", "-C", folder, *targets], env=env, timeout=900)
    check(result.code == 0, "ninja:", result.out.decode(errors="replace")[-3000:])
    return folder


@case
def without_optional_libraries():
    """A build without SQLite and libsodium says in one line what it lacks, and does the rest."""
    need("meson", "ninja", "gcc")
    folder = built(BUILD + "-plain", ["src/cli/mayfly", "src/agent/libmayfly.so"], "-Dtests=false",
                   "-Dsqlite=disabled", "-Dsodium=disabled")
    mayfly = os.path.join(folder, "src", "cli", "mayfly")
    libraries = run(["ldd", mayfly]).out
    check(b"libzstd" in libraries and b"sqlite" not in libraries and b"sodium" not in libraries, libraries)

    def refused(what, *arguments):
        result = run([mayfly, *arguments])
        check(result.code in (1, 2, 125) and not result.out, result)
        check(result.err.count(b"\n") == 1 and what in result.err and b"this build" in result.err, result)

    with Folder() as here:
        done = run([mayfly, "record", "-i", "1", "-o", here / "t.mayfly", "--", "/bin/true"])
        same(done.code, 0, repr(done))
        refused(b"libsqlite3-dev", "export", "--to", "sqlite", here / "t.mayfly")
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
    env = environment(ASAN_OPTIONS="detect_leaks=1:abort_on_error=1",
                      UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1",
                      MAYFLY_BUILD=BUILD, MAYFLY_SOURCE=SOURCE)
    result = run([os.path.join(folder, "tests", "test_" + name)], env=env, timeout=600,
                 cwd=os.path.join(folder, "tests"))
    failed = [line for line in result.out.decode(errors="replace").splitlines()
              if line.startswith(("not ok", "#"))]
    check(result.code == 0, "\n".join(failed[:40]), result.err.decode(errors="replace")[-4000:])


@cases(FUZZ_TARGETS)
def fuzzing(name):
    need("meson", "ninja", "clang-14")
    if not glob.glob("/usr/lib/llvm-14/lib/clang/*/lib/linux/libclang_rt.fuzzer-x86_64.a"):
        raise Skip("libclang-rt-14-dev is not installed")
    folder = built(BUILD + "-fuzz", ["tests/fuzz_" + name], "-Dfuzz=true",
                   "-Db_sanitize=address,undefined", "-Db_lundef=false",
                   "-Dc_args=-fsanitize=fuzzer-no-link", CC="clang-14", CXX="clang++-14")
    corpus = os.path.join(folder, "corpus", name)
    os.makedirs(corpus, exist_ok=True)
    result = run([os.path.join(SOURCE, "tests", "make_corpus"), "fuzz_" + name, corpus, BUILD],
                 timeout=300)
    check(result.code == 0, "make_corpus:", result)
    check(os.listdir(corpus), "no input to begin with")
    # One seed, so that a failure here is the fault of the change at hand; FUZZ_SEED=0 draws one.
    # What was freed is kept aside by the sanitizer, by default as much as all else together.
    env = environment(ASAN_OPTIONS="quarantine_size_mb=16",
                      UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1")
    result = run([os.path.join(folder, "tests", "fuzz_" + name), "-runs=%d" % INPUTS,
                  "-seed=%d" % SEED, "-max_total_time=%d" % SECONDS, "-timeout=20", "-rss_limit_mb=2048",
                  "-max_len=65536", "-print_final_stats=1", "-artifact_prefix=%s-" % corpus,
                  corpus], env=env, timeout=SECONDS + 300)
    check(result.code == 0, "an input that fails is in %s-*:" % corpus,
          result.err.decode(errors="replace")[-4000:])
    inputs = re.search(rb"number_of_executed_units: *(\d+)", result.err)
    print("# %s: %s inputs" % (name, inputs.group(1).decode() if inputs else "?"))
    check(inputs and int(inputs.group(1)) > 0, "nothing was run")


main()
