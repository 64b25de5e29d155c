#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""walk_capture() against glibc's backtrace() in real programs, by the preload library walk_oracle."""
import os
import resource
import subprocess
import tempfile

from harness import CLANG, Skip, case, cases, check, main, need, PROGRAMS, PYTHON, same, SOURCE, TIMEOUT

ORACLE = os.path.join(PROGRAMS, "walk_oracle.so")
PROGRAM = os.path.join(PROGRAMS, "walk_program")
DEEP = os.path.join(PROGRAMS, "walk_deep")
PLUGINS = [os.path.join(PROGRAMS, "walk_plugin_%d.so" % i) for i in (1, 2)]
WANTED = 300000

PYTHON_WORK = """
import ast, json, re, threading
def work(n):
    text = json.dumps([{"key": i, "value": [str(i)] * 3} for i in range(n)], indent=1)
    check = json.loads(text)
    tree = ast.parse("\\n".join("def f%d(a, b=%d): return [a + x for x in b]" % (i, i)
                                for i in range(n // 20)))
    found = re.findall(r'"(\\d+)"', text)
    assert len(check) == n and len(tree.body) == n // 20 and len(found) == 3 * n
threads = [threading.Thread(target=work, args=(1500,)) for _ in range(2)]
[t.start() for t in threads]
work(6000)
[t.join() for t in threads]
"""

total = 0


def run(command, every=1, shorter=False, preexec_fn=None, **variables):
    """Runs a program under the oracle: the sums of what its processes counted."""
    global total
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "counts")
        environment = dict(os.environ, LD_PRELOAD=ORACLE, ORACLE_OUT=out, ORACLE_EVERY=str(every),
                           **variables)
        done = subprocess.run(command, env=environment, cwd=folder, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=TIMEOUT, preexec_fn=preexec_fn)
        text = done.stdout.decode("utf-8", "replace")
        same(done.returncode, 0, "status, with output " + text)
        counts = {"output": text}
        with open(out) as lines:
            for line in lines:
                for word in line.split():
                    name, value = word.split("=")
                    if name != "depths":
                        counts[name] = counts.get(name, 0) + int(value)
    print("# %(stacks)d stacks, %(frames)d frames, %(shared)d shared, %(truncated)d truncated, "
          "%(elided)d elided, %(signals)d signal frames" % counts)
    same(counts["mismatches"], 0, "mismatches, with output " + text)
    same(counts["wrong_common"], 0, "wrong common prefixes")
    same(counts["errno_changed"], 0, "changes of errno")
    if not shorter:
        same(counts["shorter"], 0, "stacks that backtrace() follows further")
    total += counts["stacks"]
    return counts


@case
def frames():
    counts = run([PROGRAM, "frames"])
    same(counts["truncated"], 0, "truncated")
    check(counts["stacks"] > 50000, "few stacks")
    check(counts["shared"] > counts["frames"] // 2, "nothing is reused")


@case
def segments_with_holes_between():
    if not os.path.exists(PROGRAM + "_holes"):
        raise Skip("walk_program_holes is not built")
    counts = run([PROGRAM + "_holes", "frames"])
    same(counts["truncated"], 0, "truncated")


@case
def threads_and_deep_recursion():
    counts = run([PROGRAM, "threads"])
    same(counts["truncated"], 0, "truncated")
    check(counts["elided"] > 500, "few elided stacks")


def wide_stack():
    """Frames of the main thread's stack are as many as its limit allows."""
    resource.setrlimit(resource.RLIMIT_STACK, (256 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))


def run_deep(*arguments, **variables):
    most = resource.getrlimit(resource.RLIMIT_STACK)[1]
    if most != resource.RLIM_INFINITY and most < 256 << 20:
        raise Skip("no stack of 256 MiB is allowed")
    counts = run([DEEP, *arguments], preexec_fn=wide_stack, ORACLE_FRESH="1", **variables)
    same(counts["truncated"], 0, "truncated")
    return counts


@cases(["2100 20000", "3000 20000", "6000 10000", "30000 1500", "8000 1500 3"])
def stacks_that_change_far_outside(depth_rounds_threads):
    """Frames are left and made again at the same places, as fast as can be, with another one outside."""
    counts = run_deep(*depth_rounds_threads.split())
    check(counts["elided"] > counts["stacks"] * 9 // 10, "few elided stacks")
    check(counts["signals"] > counts["stacks"] // 20, "few signal frames")


def looked_at(levels):
    """What walks looked at while they descended to so many levels and came back."""
    counts = run_deep("recursion", str(levels), ORACLE_AT_ONCE="1", ORACLE_FRESH_EVERY=str(levels // 50))
    check(levels <= counts["stacks"] < levels + 50, "not a stack for each level")
    return counts["looked_at"]


@case
def recursion_is_linear():
    few, many = looked_at(20000), looked_at(80000)
    print("# %d words and frames for 20,000 levels, %d for 80,000" % (few, many))
    check(many < 6 * few, "more than linear")
    check(many < 80000 * 4000, "a capture looks at many frames")


@case
def blocks_of_a_deep_leaf():
    counts = run_deep("leaf", "1000000", "1000", ORACLE_AT_ONCE="1", ORACLE_FRESH_EVERY="100")
    check(counts["looked_at"] < 1000000 * 3 + 1000 * 4000, "each capture walks the whole stack")


@case
def two_libraries_at_one_address():
    counts = run([PROGRAM, "plugins"] + PLUGINS)
    output = dict(word.split("=") for word in counts["output"].split())
    check(int(output["same"]) > 300, "the libraries did not share an address")
    same(counts["truncated"], 0, "truncated")
    check(counts["seen"] > 390 and counts["gone"] > 390, "modules not followed", counts)


@case
def coroutines():
    counts = run([PROGRAM, "coroutines"])
    same(counts["truncated"], 0, "truncated")


@case
def signals():
    counts = run([PROGRAM, "signals"])
    same(counts["truncated"], 0, "truncated")
    check(counts["signals"] > 10000, "few signal frames")


@case
def code_without_rules():
    counts = run([PROGRAM, "jit"])
    check(counts["truncated"] >= 1000, "not truncated")


@case
def code_with_frame_records():
    counts = run([PROGRAM, "jit-records"])
    check(counts["stacks"] >= 1000, "few stacks")
    same(counts["truncated"], 0, "truncated")


@case
def code_with_and_without_frame_records():
    counts = run([PROGRAM, "jit-mixed"], shorter=True)
    check(counts["truncated"] >= 300, "few truncated")
    check(counts["truncated"] < counts["stacks"], "all truncated")


@case
def sandbox():
    counts = run([PROGRAM, "sandbox"], shorter=True)
    check(counts["truncated"] > 1000, "stacks of unknown bounds were walked")


@case
def python():
    need("/usr/bin/python3")
    counts = run([*PYTHON, "-c", PYTHON_WORK], every=2, PYTHONMALLOC="malloc")
    same(counts["truncated"], 0, "truncated")


@cases(["-O0", "-O1"])
def clang(level):
    need(CLANG)
    counts = run([CLANG, "-std=c++17", level, "-c", "-o", "out.o",
                  os.path.join(SOURCE, "tests", "programs", "templates.cc")], every=24)
    same(counts["truncated"], 0, "truncated")


@case
def enough_stacks():
    if total < 1000:
        raise Skip("few of the cases were chosen")
    print("# %d stacks" % total)
    check(total >= WANTED, total, "stacks")


main()
