#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""mayfly for arm64: built by a cross compiler, run by the emulator qemu-aarch64-static. The arm64
libraries and programs are those of scripts/arm64-root. Skipped where the tools or packages cannot be
had.

What qemu (7.2, user mode) cannot carry, and is therefore not tried here: seccomp, ptrace, vfork as
the kernel has it, two libraries at one address in turn, the code that handlers return to in the vDSO
(it is on a page of qemu's own), and the counter as the kernel's clock, so times are CLOCK_MONOTONIC's.
"""
import os
import re
import shutil
import subprocess
import tempfile

from harness import BUILD, MAYFLY, Skip, case, cases, check, main, run, same, SOURCE, TIMEOUT

ARM = os.path.join(BUILD, "arm64")
ARM_MAYFLY = os.path.join(ARM, "src", "cli", "mayfly")
ARM_AGENT = os.path.join(ARM, "src", "agent", "libmayfly.so")
ARM_PROGRAMS = os.path.join(ARM, "tests")
ORACLE = os.path.join(ARM_PROGRAMS, "walk_oracle.so")
X86_AGENT = os.path.join(BUILD, "src", "agent", "libmayfly.so")
EMULATOR = "qemu-aarch64-static"
TARGETS = ["src/cli/mayfly", "src/agent/libmayfly.so", "src/agent/libmayfly-cxx.so",
           "tests/walk_oracle.so", "tests/walk_program", "tests/walk_plugin_1.so",
           "tests/walk_plugin_2.so", "tests/test_races", "tests/test_sampler", "tests/ugly",
           "tests/jit_map", "tests/test_cfi"]
WANTED = 100000

# name -> how the program of the walk's tests is compiled
WAYS = {
    "O0": ["-O0"],
    "O2": ["-O2"],
    "no_frame_pointer": ["-O2", "-fomit-frame-pointer"],
    "signed": ["-O2", "-mbranch-protection=pac-ret+bti"],
    "signed_leaf": ["-O1", "-fomit-frame-pointer", "-mbranch-protection=pac-ret+leaf"],
}

PROGRAM = """
#include <stdlib.h>
__attribute__((noinline)) void *innermost_maker(int n)
{
	void *volatile p = malloc(1000 + n % 7);
	return p;
}
__attribute__((noinline)) void outer_caller(int n)
{
	static void *kept[1000];
	kept[n] = innermost_maker(n);
	__asm__ volatile("");
}
int main(void)
{
	for (int n = 0; n < 1000; n++)
		outer_caller(n);
	return 0;
}
"""

PYTHON = """
import json
kept = [json.dumps([{"key": i, "value": [str(i)] * 3} for i in range(200)]) for _ in range(40)]
print(len(kept))
"""

total = 0
made = {}


def root():
    """The folder of arm64 libraries, with all that is tested built for them."""
    if "why" in made:
        raise Skip(made["why"])
    if "root" in made:
        return made["root"]
    made["why"] = "the arm64 build failed"
    for tool in (EMULATOR, "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++"):
        if not shutil.which(tool):
            made["why"] = tool + " is not installed"
            raise Skip(made["why"])
    done = subprocess.run([os.path.join(SOURCE, "scripts", "arm64-root")], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    if done.returncode:
        made["why"] = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1]
        raise Skip(made["why"])
    folder = done.stdout.decode().strip()
    cross = os.path.join(folder, "cross.ini")
    if not is_built_with(cross):
        shutil.rmtree(ARM, ignore_errors=True)
        build(["meson", "setup", "--cross-file", cross, "-Dbench=false", "-Dman=false", ARM, SOURCE])
    build(["ninja", "-C", ARM, *TARGETS])
    del made["why"]
    made["root"] = folder
    return folder


def is_built_with(cross):
    """Whether the build folder is one, and made with this cross file."""
    try:
        with open(os.path.join(ARM, "meson-private", "cmd_line.txt"), encoding="utf-8") as file:
            return cross in file.read() and os.path.exists(os.path.join(ARM, "build.ninja"))
    except OSError:
        return False


def build(command):
    path = {"PATH": "/usr/bin:/bin:" + os.environ.get("PATH", "")}
    done = subprocess.run(command, env=dict(os.environ, **path), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=TIMEOUT)
    same(done.returncode, 0, "status of %s: %s" % (command, done.stdout.decode("utf-8", "replace")))


def emulated(command, folder, **variables):
    """Runs an arm64 program. The emulator is static, so that LD_PRELOAD does not concern it; its own option for
    variables would take a value with commas for several."""
    done = subprocess.run([EMULATOR, "-cpu", "max", "-L", root(), *command], cwd=folder,
                          env=dict(os.environ, **variables), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT)
    text = done.stdout.decode("utf-8", "replace")
    same(done.returncode, 0, "status of %s, with output %s" % (command, text))
    return text


def compared(program, *part, every=8, shorter=False):
    """Runs a program under the oracle: what it counted. shorter: stacks may lack their root part."""
    global total
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "counts")
        text = emulated([program, *part], folder, LD_PRELOAD=ORACLE, ORACLE_OUT=out,
                        ORACLE_EVERY=str(every))
        with open(out) as file:
            words = dict(word.split("=") for word in file.read().split())
    counts = {name: int(value) for name, value in words.items() if name != "depths"}
    for name in ("mismatches", "wrong_common", "errno_changed", *([] if shorter else ["shorter"])):
        same(counts[name], 0, "%s of %s, with output %s" % (name, part, text))
    total += counts["stacks"]
    return counts


def compile_program(folder, source, name, *flags):
    program = os.path.join(folder, name)
    compiler = "aarch64-linux-gnu-g++" if source.endswith(".cc") else "aarch64-linux-gnu-gcc"
    build([compiler, "--sysroot=" + root(), "-g", "-fno-builtin", "-w", *flags, "-o", program,
           source])
    return program


@cases(["cfi", "sampler", "races"])
def unit_tests(name):
    root()
    with tempfile.TemporaryDirectory() as folder:
        text = emulated([os.path.join(ARM_PROGRAMS, "test_" + name)], folder)
    check("\nnot ok" not in "\n" + text, text)


@cases(["threads", "coroutines", "plugins"])
def walks(part):
    root()
    plugins = [os.path.join(ARM_PROGRAMS, "walk_plugin_%d.so" % i) for i in (1, 2)]
    counts = compared(os.path.join(ARM_PROGRAMS, "walk_program"), part,
                      *(plugins if part == "plugins" else []))
    same(counts["truncated"], 0, "truncated")


@cases(list(WAYS))
def walks_of_each_way_to_compile(way):
    root()
    with tempfile.TemporaryDirectory() as folder:
        program = compile_program(folder, os.path.join(SOURCE, "tests", "walk_program.cc"), way,
                                  "-std=c++17", *WAYS[way])
        counts = compared(program, "frames")
        same(counts["truncated"], 0, "truncated")
        check(counts["shared"] > counts["frames"] // 2, "nothing is reused", counts)
        counts = compared(program, "signals")
        check(counts["signals"] > 1000, "few signal frames", counts)
        # The procedure linkage table has no rules on arm64: both end at a signal in it.
        check(counts["truncated"] < counts["stacks"] // 20, "truncated", counts)


@cases(["jit", "jit-records", "jit-mixed"])
def walks_through_code_without_rules(part):
    """With frame records as compilers make them, and without."""
    root()
    counts = compared(os.path.join(ARM_PROGRAMS, "walk_program"), part, every=1, shorter=part != "jit-records")
    check(counts["stacks"] >= 1000, "few stacks", counts)
    if part == "jit-records":
        same(counts["truncated"], 0, "truncated")
    else:
        check(counts["truncated"] >= 300, "few truncated", counts)
        check(part == "jit" or counts["truncated"] < counts["stacks"], "all truncated", counts)


@case
def enough_stacks():
    if total < 1000:
        raise Skip("few of the cases were chosen")
    print("# %d stacks" % total)
    check(total >= WANTED, total, "stacks")


def names_of(trace, *options, command=None):
    """The report's text."""
    done = subprocess.run([*(command or [MAYFLY]), "report", "--frames=all", *options, trace],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT)
    same(done.returncode, 0, "status of report: %r" % done)
    return done.stdout.decode("utf-8", "replace")


def need_binfmt():
    done = None
    try:
        done = subprocess.run([os.path.join(root(), "usr", "bin", "sqlite3"), "--version"],
                              env=dict(os.environ, QEMU_LD_PREFIX=root()),
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError:
        pass
    if not done or done.returncode:
        raise Skip("the kernel does not start arm64 programs by qemu (binfmt_misc)")


@cases(["python3", "sqlite3"])
def records_a_real_program(name):
    """mayfly itself is an arm64 program here, too."""
    need_binfmt()
    program = os.path.join(root(), "usr", "bin", name)
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "t.mayfly")
        with open(os.path.join(folder, "work.py"), "w") as file:
            file.write(PYTHON)
        arguments = {
            "python3": ["-S", os.path.join(folder, "work.py")],
            "sqlite3": [":memory:", "create table t(a, b); with recursive n(i) as (select 1 union "
                        "all select i + 1 from n where i < 3000) insert into t select i, "
                        "hex(randomblob(40)) from n; select count(*) from t order by b;"],
        }[name]
        done = subprocess.run([ARM_MAYFLY, "record", "-i", "8K", "-o", trace, "--", program,
                               *arguments], env=dict(os.environ, QEMU_LD_PREFIX=root()),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT)
        same(done.returncode, 0, "status of record: %r" % done)
        same(done.stdout.strip(), {"python3": b"40", "sqlite3": b"3000"}[name], "output")
        text = names_of(trace)
        # Debian 13's python makes most lists by functions without a name.
        wanted = {"python3": ["PyList_New|PyDict_New", "<module>"], "sqlite3": ["sqlite3_step"]}[name]
        for word in wanted:
            check(re.search(word, text), word, "is not in", text)
        same(names_of(trace, command=[EMULATOR, "-L", root(), ARM_MAYFLY]), text,
             "the report of mayfly for arm64")


@case
def lines_of_ruby():
    """Its structures are larger than on x86-64, as mutexes are."""
    ruby = os.path.join(root(), "usr", "bin", "ruby3.1")
    if not os.path.exists(ruby):
        raise Skip("this Debian has no Ruby 3.1")
    app = os.path.join(SOURCE, "tests", "programs", "ruby_app", "app.rb")
    with tempfile.TemporaryDirectory() as folder:
        spool = os.path.join(folder, "t.spool")
        emulated([ruby, "--disable-gems", app, "threads", "compacting"], folder, LD_PRELOAD=ARM_AGENT,
                 MAYFLY="output=" + spool + ",exact=yes")
        done = run([MAYFLY, "report", "--by", "line", "--metric", "live", "--at", "end", "--top", "0", spool])
        text = done.out.decode()
    for size, function in (("254 KiB", "block in Object#in_threads"), ("18.6 KiB", "Object#made_29"),
                           ("46.9 KiB", "Order#load")):
        check(re.search("^ *" + size + " .* " + re.escape(function) + "$", text, re.M), function, "is not in", text)


@cases(["map", "dump"])
def names_of_compiled_code(files):
    """Functions made at run time, with frame records, and what perf would read about them."""
    need_binfmt()
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "t.mayfly")
        done = subprocess.run([ARM_MAYFLY, "record", "-q", "-x", "-o", trace, "--",
                               os.path.join(ARM_PROGRAMS, "jit_map"), files], cwd=folder,
                              env=dict(os.environ, QEMU_LD_PREFIX=root()), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=TIMEOUT)
        os.unlink(os.path.join(folder, done.stdout.decode().strip()))
        same((done.returncode, done.stderr), (0, b""), "record")
        text = names_of(trace, "--by", "stack", "--metric", "leaked")
        for name in ("make_block", "compiled  ", "my app.js:12", "plain_compiled  [jit]",
                     "moved  [jit]", "main  "):
            check(name in text, name, "is not in", text)


UGLY = ["end_return", "end_exit", "end_quick", "end_now", "end_thread_exits", "end_main_thread_first",
        "signal_wait", "signal_stack", "many_threads", "thread_keys", "thread_cancel",
        "threads_exchange", "coroutines", "deep", "alloca", "odd_frames", "errors", "sizes",
        "vfork_allocates"]


@case
def ugly_programs_behave_the_same():
    root()
    program = [EMULATOR, "-cpu", "max", "-L", root()]
    for name in UGLY:
        with tempfile.TemporaryDirectory() as folder:
            spool = os.path.join(folder, "t.spool")
            end = [os.path.join(ARM_PROGRAMS, "ugly"), name]
            plain, watched = (
                subprocess.run([*program, *given, *end], cwd=folder, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT)
                for given in ([], ["-E", "LD_PRELOAD=" + ARM_AGENT, "-E", "MAYFLY=output=" + spool]))
            same(watched.returncode, plain.returncode, "status of " + name)
            same(watched.stdout, plain.stdout, "output of " + name)
            done = subprocess.run([MAYFLY, "info", spool], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=TIMEOUT)
            same(done.returncode, 0, "status of info of %s: %r" % (name, done))


@cases(["-O0", "-O2 -fomit-frame-pointer", "-O2 -mbranch-protection=standard"])
def reads_an_arm64_spool(flags):
    """Names and lines come from arm64 files."""
    root()
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "small.c")
        with open(source, "w") as file:
            file.write(PROGRAM)
        program = compile_program(folder, source, "small", *flags.split())
        spool = os.path.join(folder, "t.spool")
        emulated([program], folder, LD_PRELOAD=ARM_AGENT, MAYFLY="output=" + spool + ",interval=1")
        text = names_of(spool, "--by", "line")
        check("small.c:5" in text, text)
        text = names_of(spool)
        for name in ("innermost_maker", "outer_caller", "main"):
            check(name in text, name, "is not in", text)


@case
def symbolizes_an_arm64_trace():
    """Here, of a stripped program that is gone, from the files in another folder and in the root."""
    root()
    with tempfile.TemporaryDirectory() as folder:
        source, trace = os.path.join(folder, "small.c"), os.path.join(folder, "t.mayfly")
        with open(source, "w") as file:
            file.write(PROGRAM)
        program = compile_program(folder, source, "small", "-O1")
        os.makedirs(os.path.join(folder, "other") + folder)
        kept = os.path.join(folder, "other") + program
        shutil.copy(program, kept)
        build(["aarch64-linux-gnu-strip", program])
        spool = os.path.join(folder, "t.spool")
        emulated([program], folder, LD_PRELOAD=ARM_AGENT, MAYFLY="output=" + spool + ",interval=1")
        os.unlink(program)
        build([MAYFLY, "merge", "-o", trace, spool])
        check("outer_caller" not in names_of(trace), "named already")
        build([MAYFLY, "symbolize", "--debug-dir", root(), "--debug-dir",
               os.path.join(folder, "other"), trace])
        text = names_of(trace)
        for name in ("innermost_maker", "outer_caller", "main", "__libc_start_main"):
            check(name in text, name, "is not in", text)
        check("small.c:5" in names_of(trace, "--by", "line"), "no lines")


@case
def arm64_mayfly_reads_an_x86_spool():
    root()
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "small.c"), os.path.join(folder, "small")
        with open(source, "w") as file:
            file.write(PROGRAM)
        build(["gcc", "-g", "-O1", "-fno-builtin", "-o", program, source])
        spool = os.path.join(folder, "t.spool")
        subprocess.run([program], env=dict(os.environ, LD_PRELOAD=X86_AGENT,
                                           MAYFLY="output=" + spool + ",interval=1"), check=True)
        text = names_of(spool, command=[EMULATOR, "-L", root(), ARM_MAYFLY])
        for name in ("innermost_maker", "outer_caller", "main"):
            check(name in text, name, "is not in", text)
        same(text, names_of(spool), "the reports")


@case
def a_program_of_another_cpu_runs_unrecorded():
    """Without a word of its loader about the agent, which it could not load."""
    need_binfmt()
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([MAYFLY, "record", "-o", os.path.join(folder, "t.mayfly"), "--",
                               os.path.join(root(), "usr", "bin", "sqlite3"), ":memory:",
                               "select 6 * 7;"], env=dict(os.environ, QEMU_LD_PREFIX=root()),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT)
        same(done.stdout, b"42\n", "output (%r)" % done)
        same(done.stderr.count(b"\n"), 1, "lines (%r)" % done)
        check(b"another kind of CPU" in done.stderr, done)


main()
