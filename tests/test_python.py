#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""CPython under `mayfly record` (tests/programs/python_app.py): which lines hold the memory, compared
with the program's own truth and with tracemalloc; stacks of C and Python; and that the interpreter does
what it does without mayfly, also while it ends."""
import collections
import functools
import os
import re
import subprocess

import harness
from harness import (Folder, MAYFLY, PYTHON, SOURCE, Skip, case, cases, check, info, main, mayfly, program, report,
                     same, sane)

# Python's packages are found, but run nothing at its start, as -S says.
PACKAGES = "/usr/lib/python3/dist-packages"
APP = os.path.join(SOURCE, "tests", "programs", "python_app.py")
# What the named lines hold at the end.
HELD = {"list": 800000, "slots": 640000, "bytes": 300000, "bytearray": 200000, "string": 400000,
        "generator": 108000, "expression": 203000, "array": 240000, "numpy": 800000,
        "product": 800000, "threads": 400000, "raising": 50000, "handler": 60000, "deep": 70000}
folder = Folder()
folder.__enter__()


def environment(**changes):
    return harness.environment(PYTHONPATH=PACKAGES, **changes)


def run(command, env=None, **how):
    return harness.run(command, env=env or environment(), **how)


def record(command, trace, *options, env=None, **how):
    return harness.record(command, trace, *options, env=env or environment(), **how)


def unchanged(command, trace, *options, env=None, **how):
    return harness.unchanged(command, trace, *options, env=env or environment(), **how)


@functools.lru_cache(maxsize=None)
def version():
    done = run([*PYTHON, "-c", "import sys; print(*sys.version_info[:2])"])
    if done.code or not (3, 8) <= tuple(map(int, done.out.split())) <= (3, 14):
        raise Skip("there is no Python 3.8 to 3.14")
    return tuple(map(int, done.out.split()))


@functools.lru_cache(maxsize=None)
def has_numpy():
    return run([*PYTHON, "-c", "import numpy"]).code == 0


@functools.lru_cache(maxsize=None)
def names_of_lines():
    with open(APP) as file:
        found = ((number, re.search(r"#@ (\w+)$", line)) for number, line in enumerate(file, 1))
        return {number: match[1] for number, match in found if match}


def recorded(*words, options=("-x",), command=None, **how):
    version()
    command = command or (*PYTHON, APP)
    trace = folder / "t.mayfly"
    if os.path.exists(trace):
        os.unlink(trace)
    done = record([*command, *words], trace, *options, **how)
    same(done.code, 0, "exit status: %r" % done)
    return trace


def by_line(trace, *options):
    """{line of the program: bytes}, live at the end; what C and libraries do is their caller's. A line
    is of several functions when it has a comprehension."""
    held = collections.defaultdict(collections.Counter)
    for row in report(trace, "--metric", "live", "--by", "line", "--all", "--show", "python_app",
                      *options)["rows"]:
        if row["file"] and row["file"].endswith("/python_app.py"):
            held[row["line"]].update(row["self"]["bytes"])
    return held


def by_name(trace):
    names = names_of_lines()
    return {names[line]: held for line, held in by_line(trace).items() if line in names}


def near(got, expected, what, share=0.02):
    check(abs(got - expected) <= share * expected, what, "is", got, "and not near", expected)


WORDS = ["lists", "texts", "generators", "extensions", "threads", "exceptions", "recursion"]


# ---- what the lines hold ----

@case
def each_line_holds_what_it_allocated():
    words = WORDS + ["numbers"] * has_numpy()
    trace = recorded(*words)
    sane(trace, 1000)
    held = by_name(trace)
    for name, size in HELD.items():
        if name == "slots" and version() < (3, 11):
            size = 560000  # an integer has 4 bytes less
        if has_numpy() or name not in ("numpy", "product"):
            near(held.get(name, {"estimate": 0})["estimate"], size, name)


@case
def tracemalloc_says_the_same():
    """It knows the innermost line only, so lines that call others' Python code are left out."""
    words = [word for word in WORDS if word != "extensions"]
    ours = by_line(recorded(*words))
    done = run([*PYTHON, "-X", "tracemalloc", APP, *words], env=environment(TRACED="1"))
    theirs = {int(line): int(size) for line, size in
              (text.split() for text in done.out.decode().splitlines())}
    compared = 0
    for line in names_of_lines():
        if theirs.get(line, 0) > 5000:
            near(ours[line]["estimate"], theirs[line], "line %d" % line, 0.005)
            compared += 1
    check(compared >= 12, "only", compared, "lines compared")


@case
def samples_estimate_the_same():
    trace = recorded(*WORDS, options=["--interval=4096"])
    sane(trace, 100)
    held = by_name(trace)
    for name, size in HELD.items():
        if name in ("numpy", "product"):
            continue
        if name == "slots" and version() < (3, 11):
            size = 560000
        got = held[name]
        slack = 2 * (got["high"] - got["low"]) + 4096
        check(got["low"] - slack <= size <= got["high"] + slack, name, "is", got, "not", size)


@case
def each_byte_counts_once():
    """Python's own allocator and malloc: the same blocks, wherever they come from."""
    totals = {}
    for allocator in ("pymalloc", "malloc", "pymalloc_debug"):
        trace = recorded(*WORDS, env=environment(PYTHONMALLOC=allocator))
        totals[allocator] = by_line(trace)
    for line, held in totals["malloc"].items():
        if held["estimate"] > 20000:
            near(totals["pymalloc"][line]["estimate"], held["estimate"], "line %d" % line)
            # The debug allocator asks for 32 bytes more, of malloc, too.
            near(totals["pymalloc_debug"][line]["estimate"], held["estimate"],
                 "line %d, debug" % line, 0.3)


SIZES = "kept = None\nfor n in range(424, 520, 4):\n    for _ in range(2000):\n        kept = bytes(n)\n"
OF_SIZES = sum(n + 33 for n in range(424, 520, 4)) * 2000


@cases([how + " " + option
        for how in ("pymalloc", "malloc", "pymalloc_debug", "malloc_debug", "mimalloc", "mimalloc_debug")
        for option in ("-x", "--interval=256", "--interval=4096")])
def each_byte_counts_once_whoever_serves_it(words):
    """Blocks around the limit of 512 bytes, that pymalloc, malloc or mimalloc may serve: by sampling, within five
    standard errors. Intervals shorter than the blocks record each of them, as exact mode does."""
    allocator, option = words.split()
    env = environment(PYTHONMALLOC=allocator)
    if run([*PYTHON, "-c", ""], env=env).code:
        raise Skip("this Python has no " + allocator)
    trace = recorded("-c", SIZES, command=PYTHON, options=[option], env=env)
    line, = [row["total"]["bytes"] for row in report(trace, "--metric", "allocated", "--by", "line", "--all")["rows"]
             if row["file"] == "<string>" and row["line"] == 4]
    # A debug allocator asks malloc for 24 bytes more, twice for what pymalloc has from there.
    more = 48 * 2000 * len(range(424, 520, 4)) if "debug" in allocator else 0
    check(OF_SIZES - 5 * line["stderr"] <= line["estimate"] <= OF_SIZES + more + 5 * line["stderr"], allocator, line,
          "not", OF_SIZES)
    live = [row["total"]["bytes"]["estimate"]
            for row in report(trace, "--metric", "live", "--by", "line", "--all")["rows"]
            if row["file"] == "<string>" and row["line"] == 4]
    check(sum(live) <= 5 * 4096, "blocks that were freed are live:", live)


COUNTED = ("import sys\nfor size in (40, 200, 480, 700):\n    before = sys.getallocatedblocks()\n"
           "    kept = [bytes(size) for _ in range(5000)]\n    there = sys.getallocatedblocks()\n"
           "    del kept\n    print(there - before, sys.getallocatedblocks() - before)\n")


@case
def sampled_blocks_are_pymallocs_own():
    """A block that is recorded moves to malloc, and the interpreter counts it as before."""
    version()
    unchanged([*PYTHON, "-c", COUNTED], folder / "counted.mayfly", "--interval=256")
    sane(folder / "counted.mayfly", 5000)


@case
def site_files_do_not_count():
    """What this machine's users and packages run when a Python starts is not in what these tests compare."""
    home = folder / "home"
    packages = os.path.join(home, ".local", "lib", "python%d.%d" % version(), "site-packages")
    os.makedirs(packages)
    with open(os.path.join(packages, "site-files.pth"), "w") as file:
        file.write("import sys; exec('\\n' * 3 + 'sys.kept = [bytes(n) for n in range(400, 700)]; print(1)')\n")
    same(run([*PYTHON, "-c", "pass"], env=environment(HOME=home)).out, b"", "run at the start")
    done = run([PYTHON[0], "-c", "pass"], env=environment(HOME=home))
    check(done.out == b"1\n", "this test shows nothing:", done)
    trace = recorded("-c", SIZES, command=PYTHON, env=environment(HOME=home))
    line, = [row["total"]["bytes"] for row in report(trace, "--metric", "allocated", "--by", "line", "--all")["rows"]
             if row["file"] == "<string>" and row["line"] == 4]
    same(line["estimate"], OF_SIZES, "bytes of line 4")


@case
def python_off():
    trace = recorded(*WORDS, env=environment(MAYFLY="python=off"))
    rows = report(trace, "--metric", "live", "--by", "line", "--all")["rows"]
    check(rows and not any(str(row["file"]).endswith("python_app.py") for row in rows), "lines of Python")
    check("pool-mapped" not in mayfly("info", trace).text, "pymalloc's blocks")


@case
def code_that_comes_and_goes_in_the_same_memory():
    trace = recorded("reused")
    found = {}
    for row in report(trace, "--metric", "live", "--by", "line", "--all", "--show",
                      r"made[0-9]+\.py")["rows"]:
        if row["file"] and re.fullmatch(r"made\d+\.py", row["file"]):
            if row["function"] != "<module>":
                found[int(row["file"][4:-3])] = row
    same(len(found), 300, "files")
    for number, row in found.items():
        same(row["function"], "f%d" % number, "function")
        same(row["line"], number + 1, "line")
        # The list `keep` grows now and then.
        check(2000 + number <= row["self"]["bytes"]["estimate"] <= 5500 + number, row)


# ---- stacks ----

def stacks_with(trace, function):
    """The stacks of C and Python that have it, from the leaf: [[(function, file name, line)]]."""
    found = []
    for row in report(trace, "--metric", "live", "--by", "stack", "--all", "--frames=all", "--depth", "0",
                      "--focus", "^%s$" % re.escape(function))["rows"]:
        found.append([(f.get("function") or "?", os.path.basename(f.get("file") or ""),
                       f.get("line")) for f in row["stack"]])
    check(found, "no stack with", function)
    return found


def python_part(stack):
    return [f[0] for f in stack if f[1].endswith(".py")]


@case
def a_generator_stands_below_its_caller():
    trace = recorded("generators")
    stack = max(stacks_with(trace, "generate"), key=len)
    same(python_part(stack), ["generate", "generators", "main", "<module>"], "Python frames")
    names = [f[0] for f in stack]
    between = names[names.index("generate") + 1:names.index("generators")]
    # Debian's 3.14 has no symbols, and its evaluator is a function for each instruction.
    check("_PyEval_EvalFrameDefault" in between or (version() >= (3, 14) and between),
          "no evaluator between the generator and its caller:", stack)
    check("Py_BytesMain" in names[names.index("<module>"):], "the root is C:", stack)


@case
def a_thread_has_its_own_frames():
    trace = recorded("threads")
    for stack in stacks_with(trace, "work"):
        python = python_part(stack)
        same(python[0], "work", "innermost function")
        check("main" not in python, "a thread under main():", stack)


@case
def python_frames_stand_between_c_frames():
    """A key function is called by list.sort(), which is called by Python."""
    program = folder / "sorting.py"
    with open(program, "w") as file:
        file.write("keep = []\ndef key(x):\n    keep.append(bytearray(3000))\n    return x\n"
                   "def sort():\n    l = [3, 2, 1]\n    l.sort(key=key)\nsort()\n"
                   "import os\nos._exit(0)\n")
    trace = recorded(command=(*PYTHON, program))
    stack = stacks_with(trace, "key")[0]
    names = [f[0] for f in stack]
    same(python_part(stack), ["key", "sort", "<module>"], "Python frames")
    check(names.index("sort") - names.index("key") > 2, "no C between key and sort", stack)


GREENLETS = """import greenlet, os, threading
kept = []
def nested(depth, then):
    max([0], key=lambda _: nested(depth - 1, then) if depth else (then(), 0)[1])
def run():
    home = greenlet.getcurrent()
    def body(n):
        for i in range(20):
            kept.append(bytearray(3000 + n))
            nested(n, home.switch)
    all = [greenlet.greenlet(body) for _ in range(10)]
    for n, g in enumerate(all):  # each from another depth of the C stack
        nested(n, lambda: g.switch(n))
    for i in range(20):
        nested(20, lambda: bytearray(100))  # over what they were started from
        for n, g in enumerate(all):
            nested(9 - n, g.switch)
threads = [threading.Thread(target=run) for _ in range(3)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(len(kept), flush=True)
os._exit(0)
"""


@cases(["-x", "--interval=256"])
def a_greenlet_has_its_own_frames(option):
    """Its part of the C stack comes and goes, and what lies outside of it is another's."""
    version()
    if run([*PYTHON, "-c", "import greenlet"]).code:
        raise Skip("python3-greenlet is not installed")
    trace = folder / "greenlets.mayfly"
    unchanged([*PYTHON, "-c", GREENLETS], trace, option, "--force")
    check(sane(trace, 1000)["complete"], "the spool was damaged")
    # 600 bytearrays, each an object of 56 bytes and its bytes, and the list.
    held = [row for row in report(trace, "--metric", "live", "--by", "line", "--all", "--show", "<string>")["rows"]
            if row["line"] == 9]
    same({row["function"] for row in held}, {"run.<locals>.body"}, "functions of line 9")
    near(sum(row["self"]["bytes"]["estimate"] for row in held), 600 * 3061, "line 9", 0.03)
    for stack in stacks_with(trace, "run.<locals>.body"):
        python = [f[0] for f in stack if f[1] == "<string>"]
        check("run" not in python[python.index("run.<locals>.body"):], "the starter below a greenlet:", stack)


@case
def a_deep_recursion_keeps_both_ends():
    trace = recorded("recursion")
    stack = max(stacks_with(trace, "deep"), key=len)
    python = python_part(stack)
    same(python[0], "deep", "leaf")
    # Before 3.11, the interpreter calls itself for each of them, in up to four frames of C.
    check(len(python) > (1000 if version() >= (3, 11) else 300), "only", len(python), "frames")
    check("_start" in [f[0] for f in stack] or "Py_BytesMain" in [f[0] for f in stack], "root", stack[-5:])


# ---- what a report says ----

@case
def the_report_names_the_line():
    trace = recorded("lists", options=["--interval=4096"])
    text = mayfly("report", trace).text
    number = {name: line for line, name in names_of_lines().items()}
    for name in ("list", "dict", "points", "pairs"):
        check(re.search(r"python_app\.py:%d\b" % number[name], text), name, "is not in", text)
    check(" lists " in text and "PyObject_Malloc" not in text, text)
    check("PYTHONMALLOC" not in text and "no function name" not in text, "a hint that is not needed:", text)
    text = mayfly("report", "--by", "line", trace).text
    check(re.search(r"python_app\.py:%d +lists" % number["list"], text), text)


SQL = """import os, sqlite3
def fill(to):
    to.execute("create table t(name text)")
    to.executemany("insert into t values(?)", (("%01000d" % i,) for i in range(20000)))
base = sqlite3.connect(":memory:")
fill(base)
os._exit(0)
"""


@case
def a_library_of_the_system_is_named_by_the_line_that_calls_it():
    """SQLite's pages, which the database of a line of Python holds."""
    trace = recorded("-c", SQL, command=PYTHON)
    first = report(trace, "--metric", "live", "--by", "line")["rows"][0]
    same((first["file"], first["line"], first["function"]), ("<string>", 4, "fill"), "the first row")
    check(first["self"]["bytes"]["estimate"] > 20000 * 1000, first)


@case
def an_unknown_python_is_said_to_be_unknown():
    source, program = folder / "other.c", folder / "other"
    with open(source, "w") as file:
        file.write("#include <stdlib.h>\nconst unsigned long Py_Version = 0x030700f0;\n"
                   "const char *Py_GetVersion(void) { return \"3.7.0\"; }\n"
                   "int main(void) { return !malloc(10000000); }\n")
    done = run(["cc", "-rdynamic", "-o", program, source])
    if done.code:
        raise Skip("no C compiler")
    trace = folder / "other.mayfly"
    done = record([program], trace)
    same(done.code, 0, "exit status")
    same(info(trace)["note"], "Python frames are unknown: only those of CPython 3.8 to 3.14 are known", "note")


# ---- the interpreter does what it does ----

def without_numbers(text):
    return re.sub(rb" *(0x[0-9a-f]+|[0-9.]+s\b|[0-9]+)", b" N", text)


@cases(WORDS + ["reused", "forks", "executes", "finalisation", "interpreters"])
def behaves_the_same(word):
    version()
    unchanged([*PYTHON, APP, word], folder / ("same-%s.mayfly" % word), "-x")
    sane(folder / ("same-%s.mayfly" % word), 100)


@cases(["PYTHONMALLOC=malloc", "PYTHONMALLOC=debug", "PYTHONTRACEMALLOC=5", "PYTHONDEVMODE=1",
        "PYTHONDUMPREFS=", "PYTHONPROFILEIMPORTTIME=1"])
def behaves_the_same_with(setting):
    version()
    name, value = setting.split("=")
    unchanged([*PYTHON, APP, *WORDS, "finalisation"], folder / ("%s.mayfly" % name), "-x",
              env=environment(**{name: value}), normalise=without_numbers)


@case
def a_forked_child_inherits():
    version()
    done = record([*PYTHON, APP, "forks"], folder / "forks.mayfly", "-x", "--follow")
    same(done.code, 0, "exit status: %r" % done)
    held = collections.defaultdict(list)
    for trace in folder.files("forks*.mayfly"):
        for name, found in by_name(trace).items():
            held[name].append(found["estimate"])
    near(max(held["child"]), 90000, "the child's block")
    same(len(held["before"]), 2, "the parent's and the inherited one: %r" % held)
    for size in held["before"]:
        near(size, 80000, "the block from before the fork")


@case
def the_python_after_an_exec_has_its_frames():
    near(by_name(recorded("executes"))["bytes"]["estimate"], 300000, "bytes")


def libpython():
    """Debian's, that belongs to PYTHON."""
    version()
    done = run([*PYTHON, "-c", "import sysconfig as s; print(s.get_config_var('LIBDIR'), s.get_config_var('MULTIARCH'),"
                              " s.get_config_var('INSTSONAME'))"])
    folder_of, arch, name = done.out.decode().split()
    for path in (os.path.join(folder_of, name), os.path.join(folder_of, arch, name)):
        if os.path.exists(path):
            return path
    raise Skip("there is no shared libpython")


@cases(["-x", "--interval=256"])
def a_libpython_that_is_opened_later(option):
    words = ["lists", "texts", "generators"]
    command = [program("embed_python"), "local", "1", libpython(), APP, *words]
    trace = folder / "embedded.mayfly"
    unchanged(command, trace, option, "--force")
    sane(trace, 100)
    held = by_name(trace)
    for name in ("list", "slots", "bytes", "string", "generator"):
        near(held.get(name, {"estimate": 0})["estimate"], HELD[name], name, 0.02 if option == "-x" else 0.25)
    check("pool-mapped" in mayfly("info", trace).text, "no blocks of pymalloc")


# Code objects that come and go in the same memory, in files of the number of times that the library was opened.
REOPENED = """import os
kept = []
time = int(os.environ.get("TIME", 0))
os.environ["TIME"] = str(time + 1)
for i in range(50):
    exec(compile("\\n" * i + "def f(): kept.append([bytes(200 + k) for k in range(300)])\\nf()\\n",
                 "%d_%d.py" % (time, i), "exec"), {"kept": kept})
    kept.clear()
os.write(1, b"%d\\n" % time)
"""


@cases([how + " " + option for how in ("local", "global") for option in ("-x", "--interval=128")] +
       ["local -x PYTHONMALLOC=pymalloc", "local --interval=128 PYTHONMALLOC=debug"])
def a_libpython_that_is_closed_and_opened_again(words):
    """The program allocates when it is closed, and a new interpreter takes PYTHONMALLOC's allocators again."""
    mode, option, *setting = words.split()
    trace = folder / "reopened.mayfly"
    unchanged([program("embed_python"), mode, "3", libpython(), "-c", REOPENED], trace, option, "--force",
              env=environment(**dict(s.split("=") for s in setting)))
    sane(trace, 100)
    found = collections.defaultdict(dict)
    for row in report(trace, "--metric", "allocated", "--by", "line", "--all", "--show", r"_[0-9]+\.py")["rows"]:
        named = re.fullmatch(r"(\d+)_(\d+)\.py", row["file"] or "")
        if named and row["function"] != "<module>":
            time, i = map(int, named.groups())
            same(row["line"], i + 1, "line of file %d" % i)
            found[time][i] = found[time].get(i, 0) + row["self"]["bytes"]["estimate"]
    same(sorted(found), [0, 1, 2], "interpreters with lines")
    for time, files in found.items():
        same(len(files), 50, "files of interpreter %d" % time)
        for i, size in files.items():
            near(size, found[0][0], "file %d of interpreter %d" % (i, time), 0.1)


# Tests of CPython's own; those of interpreters have another name in each version.
@cases(["test_gc", "test_generators", "test_coroutines", "test_asyncgen", "test_threading",
        "test__xxsubinterpreters", "test__interpreters",
        "test_asyncio.test_tasks", "test_asyncio.test_taskgroups", "test_asyncio.test_streams"])
def pythons_own_tests(name):
    version()
    if run([*PYTHON, "-c", "import test.%s" % name]).code:
        raise Skip("libpython3-testsuite is not installed, or this Python has no " + name)
    # -b: without what the tests print, as threads do so in any order.
    unchanged([*PYTHON, "-m", "unittest", "-b", "-v", "test." + name], folder / (name + ".mayfly"), "-x",
              normalise=without_numbers)
    sane(folder / (name + ".mayfly"), 1000)


if __name__ == "__main__":
    main()
