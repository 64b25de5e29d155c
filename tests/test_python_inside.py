#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package inside a program: what it says of itself, recordings of itself, of its tests, of a notebook's cells."""
import atexit
import functools
import json
import os
import re
import shutil
import xml.etree.ElementTree

from attaching import need_attach
from harness import (MAYFLY, PYTHON, SOURCE, Folder, Skip, as_json, case, cases, check, environment, main, need, record,
                     report, rows, run, same)

PACKAGE = os.path.join(SOURCE, "python")
ENVIRONMENT = environment(PYTHONPATH=PACKAGE, MAYFLY_PROGRAM=MAYFLY)


def python(text, *arguments, site=False, code=0, env=ENVIRONMENT, **how):
    """Runs a program that imports the package."""
    result = run([PYTHON[0], *([] if site else PYTHON[1:]), "-c", text, *arguments], env=env, **how)
    same(result.code, code, result)
    return result


def need_module(name):
    if run([PYTHON[0], "-c", "import " + name]).code:
        raise Skip("Debian's python3-%s is not installed" % name.lower())


@functools.lru_cache(maxsize=None)
def built():
    """A folder with the package and its C module."""
    here = Folder().__enter__()
    atexit.register(here.__exit__)
    for name in ("include", "python"):
        shutil.copytree(os.path.join(SOURCE, name), here / name)
    if run([PYTHON[0], "-c", "import setuptools, sysconfig; open(sysconfig.get_path('include') + '/Python.h')"]).code:
        raise Skip("setuptools or Python's headers are not installed")
    result = run([PYTHON[0], "setup.py", "-q", "build_ext", "--inplace"], cwd=here / "python",
                 env=environment(CFLAGS="-Wall -Wextra -Werror"))
    check(os.path.exists(here / "python/mayfly/_spans.abi3.so"), "no C module", result)
    return here / "python"


def with_events(by):
    """The environment for events by ctypes, or by the C module."""
    env = ENVIRONMENT if by == "ctypes" else dict(ENVIRONMENT, PYTHONPATH=built())
    same(python("from mayfly import _events; print(bool(_events._spans))", env=env).out.decode().strip(),
         str(by != "ctypes"), "whether there is a C module")
    return env


WAYS = ["ctypes", "compiled"]
EVENTS = """
import mayfly, threading
kept = []
@mayfly.region("inner")
def inner():
    kept.append(bytearray(300_000))
@mayfly.label(who="down")
def down(n):
    kept.append(bytearray(400_000))
    if n:
        down(n - 1)
def work():
    for number in range(3):
        with mayfly.region("outer"), mayfly.label(tenant="acme", kind=number):
            inner()
    down(4)
    with mayfly.label(tenant="other"):
        kept.append(bytearray(500_000))
    kept.append(bytearray(700_000))
    mayfly.counter("queue", 7, "bytes")
    mayfly.counter("queue", 8.5, "bytes")
    with mayfly.region("\\udc80"), mayfly.label(odd="\\udc80"):
        mayfly.mark("\\udc80", odd="\\udc80")
    mayfly.mark("here", whole=-1, part=2.5, text="ä", large=1 << 70)
"""


def check_events(trace):
    """What EVENTS says when work() ran once."""
    spans = {span["name"]: span for span in report(trace, "--spans")["spans"]}
    same({name: span["count"] for name, span in spans.items()}, {"inner": 3, "outer": 3, "?": 1}, "spans")
    check(900_000 <= spans["outer"]["allocated"]["bytes"]["estimate"] < 1_000_000, spans["outer"])
    labels = {row["label"]: row["self"]["bytes"]["estimate"]
              for row in report(trace, "--metric", "allocated", "--by", "label:tenant")["rows"]}
    check(900_000 <= labels["acme"] < 1_000_000 and 500_000 <= labels["other"] < 600_000, labels)
    down, = [row["self"]["bytes"]["estimate"] for row in
             report(trace, "--metric", "allocated", "--by", "label:who")["rows"] if row["label"] == "down"]
    check(5 * 400_000 <= down < 5 * 410_000, "nested labels", down)
    counted, = [counter for counter in report(trace, "--events")["counters"] if counter["name"] == "queue"]
    same([counted[part] for part in ("count", "min", "last", "unit")], [2, 7, 8.5, "bytes"], "counter")
    dump = run([MAYFLY, "dump", "--json", trace]).out.decode().splitlines()
    marks = [json.loads(line) for line in dump if '"name":"here"' in line]
    same([mark["values"] for mark in marks],
         [{"whole": -1, "part": 2.5, "text": "ä", "large": (1 << 63) - 1}], "marks")


@cases(WAYS)
def events_of_a_recorded_program(by):
    with Folder() as here:
        with open(here / "program.py", "w") as file:
            file.write(EVENTS + "work()\nprint(mayfly.active(), mayfly.connect(), flush=True)\nimport os\nos._exit(len(kept) - 10)")
        result = record([*PYTHON, here / "program.py"], here / "x.mayfly", "--exact", env=with_events(by))
        same((result.code, result.out), (0, b"True True\n"), result)
        check_events(here / "x.mayfly")


@cases(WAYS)
def events_without_a_recording(by):
    """They do nothing, but for what is wrong in any case."""
    result = python(EVENTS + """
work()
print(mayfly.active(), mayfly.connect(), len(kept))
async def later():
    pass
def steps():
    yield
for wrong in (lambda: mayfly.region("x")(later), lambda: mayfly.label(x=1)(steps),
              lambda: mayfly.mark("x", a=1, b=2, c=3, d=4, e=5)):
    try:
        wrong()
    except TypeError:
        print("TypeError")
""", env=with_events(by))
    same(result.out, b"False False 10\n" + b"TypeError\n" * 3, result)


@cases(WAYS)
def events_of_threads(by):
    """One region object in many threads, each with labels of its own."""
    with Folder() as here:
        result = record([*PYTHON, "-c", """
import mayfly, threading
step = mayfly.region("step")
def run(number):
    for _ in range(200):
        with step, mayfly.label(thread=number):
            with step:
                bytearray(1000)
threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""], here / "x.mayfly", "--exact", env=with_events(by))
        same(result.code, 0, result)
        span, = [span for span in report(here / "x.mayfly", "--spans")["spans"] if span["name"] == "step"]
        same((span["count"], span["open"]), (1600, 0), "spans")
        labels = {row["label"] for row in report(here / "x.mayfly", "--metric", "allocated", "--by", "label:thread")["rows"]}
        check({"0", "1", "2", "3"} <= labels, labels)


@cases(WAYS)
def a_program_records_itself(by):
    """Twice, with what is allocated in between in neither trace; a snapshot in the middle; events, too."""
    need_attach()
    with Folder() as here:
        result = python(EVENTS + """
import sys
first, second, middle = sys.argv[1:]
before = [bytearray(1_000_000) for _ in range(5)]
with mayfly.start(first, exact=True) as recording:
    print(mayfly.active())
    try:
        mayfly.start()
    except mayfly.Error as error:
        print(error)
    work()
    print(mayfly.snapshot(middle).live_at_end.estimate > 3_000_000)
print(mayfly.active())
between = [bytearray(1_000_000) for _ in range(5)]
mayfly.start(second, interval="4K")
last = [bytearray(2_000_000) for _ in range(5)]
trace = mayfly.stop()
print(trace.path == second, trace.interval, trace.rows("live")[0].function)
try:
    mayfly.stop()
except mayfly.Error as error:
    print(error)
""", here / "first.mayfly", here / "second.mayfly", here / "middle.mayfly", env=with_events(by))
        lines = result.out.decode().splitlines()
        same(lines[0:1] + lines[2:4], ["True", "True", "False"], "active")
        check("recorded already" in lines[1] and lines[4].startswith("True 4096 <"), lines)
        check(lines[5].startswith("nothing is recorded"), lines)
        same(result.err, b"", "errors")
        check_events(here / "first.mayfly")
        live = as_json("info", "--json", here / "second.mayfly")["live_at_end"]["bytes"]
        check(live["low"] <= 10_100_000 and live["high"] >= 10_000_000, live)
        check(as_json("info", "--json", here / "first.mayfly")["peak"]["bytes"]["estimate"] < 5_000_000, "earlier blocks")
        same(here.files("*.spool"), [], "spools")


@case
def a_dormant_program_switches_itself_on():
    with Folder() as here:
        agent = os.path.join(os.path.dirname(os.path.dirname(MAYFLY)), "agent", "libmayfly.so")
        result = run([*PYTHON, "-c", """
import mayfly, sys
with mayfly.start(sys.argv[1]):
    kept = [bytearray(2_000_000) for _ in range(5)]
later = [bytearray(3_000_000) for _ in range(5)]
print(mayfly.open(sys.argv[1]).rows("allocated", by="size")[0].size["high"])
""", here / "x.mayfly"], env=dict(ENVIRONMENT, LD_PRELOAD=agent, MAYFLY="start=dormant,output=%s" % (here / "%p.spool")))
        same((result.code, result.out), (0, b"2097152\n"), result)


@case
def what_cannot_be_recorded():
    """One line of mayfly's as an exception; the program goes on."""
    need_attach()
    result = python("""
import mayfly
for path in ("/nowhere/x.mayfly", "/dev/null/x"):
    try:
        mayfly.start(path)
    except mayfly.Error as error:
        print("Error")
try:
    mayfly.start("x.mayfly", bogus=1)
except mayfly.Error as error:
    print("--bogus" in str(error))
""")
    same(result.out, b"Error\nError\nTrue\n", result)


TESTS = """
import threading
import pytest
kept, cache = [], {}
@pytest.fixture
def large():
    yield bytearray(50_000_000)
def test_small():
    pass
def test_fixture(large):
    bytearray(1_000_000)
@pytest.mark.limit_memory("24 MB")
def test_below():
    x = bytearray(20_000_000)
def load():
    return bytearray(30_000_000)
@pytest.mark.limit_memory("24 MB")
def test_above():
    x = load()
@pytest.mark.limit_leaks("1 MB")
def test_leaks():
    kept.append(bytearray(3_000_000))
@pytest.mark.limit_leaks("1 MB")
def test_frees():
    bytearray(3_000_000)
@pytest.mark.limit_leaks("1 MB", warmups=1)
def test_caches():
    cache["x"] = cache.get("x") or bytearray(3_000_000)
@pytest.mark.limit_memory("24 MB", current_thread_only=True)
def test_other_thread():
    thread = threading.Thread(target=load)
    thread.start()
    thread.join()
@pytest.mark.limit_memory("1 MB")
def test_fails():
    x = bytearray(2_000_000)
    assert 0
@pytest.mark.limit_memory("much")
def test_wrong_marker():
    pass
"""
FAILED = ["test_above", "test_fails", "test_leaks", "test_wrong_marker"]


def pytest_run(here, *options):
    need_attach()
    need_module("pytest")
    with open(here / "test_it.py", "w") as file:
        file.write(TESTS)
    return run([PYTHON[0], "-m", "pytest", "-p", "mayfly.pytest_plugin", "-p", "no:cacheprovider", "-v", *options], env=ENVIRONMENT,
               cwd=here.path)


def failed_of(result):
    return sorted({line.split("::")[1].split()[0] for line in result.out.decode().splitlines() if line.startswith("FAILED ")})


@cases([[], ["--mayfly-interval", "64K"], ["-n", "2"]])
def tests_above_their_limits_fail(options):
    """Exactly, sampled, and in the processes of xdist."""
    if "-n" in options:
        need_module("xdist")
    with Folder() as here:
        result = pytest_run(here, "--mayfly", "--mayfly-json", "all.json", "--junitxml", "all.xml", *options)
        same((result.code, failed_of(result)), (1, FAILED), result)
        text = result.out.decode()
        for words in ("more than limit_memory('24 MB')", "load (%s:" % (here / "test_it.py"), "more than limit_leaks('1 MB')",
                      "'much' is no size", "memory of tests (mayfly)"):
            check(words in text, words, "is not in", text)
        # A sample of another block may come on top: what is certain is the interval's lower end.
        for found, certain in (("at the peak: ", "28.6 MiB"), ("never freed: ", "2.86 MiB")):
            told = found + (r"[\d.]+ MiB \(%s\.\." % certain if "--mayfly-interval" in options else certain)
            check(re.search(told, text), told, "is not in", text)
        with open(here / "all.json") as file:
            tests = {name.split("::")[1]: values for name, values in json.load(file)["tests"].items()}
        same(len(tests), 9, "tests in JSON")
        for name, metric, low, high in (("test_fixture", "peak", 1_000_000, 1_300_000), ("test_above", "peak", 30_000_000, 30_300_000),
                                        ("test_leaks", "leaked", 3_000_000, 3_300_000), ("test_frees", "leaked", 0, 200_000),
                                        ("test_frees", "allocated", 3_000_000, 3_300_000), ("test_small", "leaked", 0, 200_000)):
            found = [tests[name]["mayfly_%s_bytes%s" % (metric, part)] for part in ("_low", "", "_high")]
            check(found == sorted(found) and found[0] <= high and found[2] >= low, name, metric, found)
        properties = {case.get("name"): {one.get("name"): one.get("value") for one in case.iter("property")}
                      for case in xml.etree.ElementTree.parse(here / "all.xml").iter("testcase")}
        same(properties["test_above"]["mayfly_peak_bytes"], str(tests["test_above"]["mayfly_peak_bytes"]), "in JUnit")


@case
def a_default_limit_and_kept_traces():
    with Folder() as here:
        with open(here / "pytest.ini", "w") as file:
            file.write("[pytest]\nmayfly = true\nmayfly_limit = 10 MB\n")
        result = pytest_run(here, "--mayfly-keep", "traces", "-k", "small or other_thread or below or frees")
        same((result.code, failed_of(result)), (0, []), result)
        peaks = {os.path.basename(path): as_json("info", "--json", path)["peak"]["bytes"]["estimate"]
                 for path in here.files("traces/*.mayfly")}
        check(peaks["test_it.py_test_below.mayfly"] > 20_000_000 and len(peaks) == 4, peaks)
        result = pytest_run(here, "--mayfly-limit", "2 MB", "-k", "small or frees or fixture")
        same((result.code, failed_of(result)), (1, ["test_frees"]), result)


@case
def nothing_without_the_option():
    with Folder() as here:
        result = pytest_run(here, "--strict-markers")
        same((result.code, failed_of(result)), (1, ["test_fails"]), result)
        check(b"mayfly)" not in result.out, result)
        result = pytest_run(here, "--mayfly-limit", "much", "--mayfly")
        same((result.code, b"'much' is no size" in result.err + result.out), (4, True), result)


@case
def the_wheel():
    """Built by pip and installed, pytest finds the plugin, and mayfly's own frames are a library's."""
    need_attach()
    for name in ("pip", "setuptools", "wheel", "pytest"):
        need_module(name)
    with Folder() as here:
        for name in ("include", "python"):
            shutil.copytree(os.path.join(SOURCE, name), here / name)
        pip = [PYTHON[0], "-m", "pip", "--disable-pip-version-check"]
        for step in ([*pip, "wheel", "--quiet", "--no-build-isolation", "--no-deps", "-w", here / "wheels", here / "python"],
                     [*pip, "install", "--quiet", "--no-index", "--no-deps", "--find-links", here / "wheels",
                      "--target", here / "site-packages", "mayfly"]):
            result = run(step)
            same(result.code, 0, result)
        env = dict(ENVIRONMENT, PYTHONPATH=here / "site-packages")
        with open(here / "test_it.py", "w") as file:
            file.write("def test_large():\n    x = bytearray(30_000_000)\n")
        result = run([PYTHON[0], "-m", "pytest", "-p", "no:cacheprovider", "--mayfly", "--mayfly-limit", "24 MB", "test_it.py"],
                     env=env, cwd=here.path)
        check(result.code == 1 and b"at the peak: 28.6 MiB, more than limit_memory('24 MB')" in result.out, result)
        with open(here / "program.py", "w") as file:
            file.write("import mayfly\nwith mayfly.start('x.mayfly', exact=True):\n    kept = bytearray(100_000)\n")
        same(run([PYTHON[0], "program.py"], env=env, cwd=here.path).code, 0, "program.py")
        files = {row["file"] for row in report(here / "x.mayfly", "--by", "line")["rows"] if row["file"]}
        check(here / "program.py" in files and not any("/mayfly/" in name for name in files), files)


@case
def cells_of_a_kernel():
    """In a process of Jupyter's, with its threads, as a notebook has it."""
    need_attach()
    need_module("ipykernel")
    with Folder() as here:
        result = python("""
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name="python3")
shown = []
try:
    for cell in ("%load_ext mayfly", "%%mayfly\\ndef load():\\n    return [bytes(1000) for _ in range(20000)]\\nx = load()"):
        client.execute_interactive(cell, timeout=1000, output_hook=lambda message: shown.append(message))
finally:
    client.stop_channels()
    manager.shutdown_kernel(now=True)
answers = [one["content"]["data"] for one in shown if one["msg_type"] == "display_data"]
print(len(answers), "MiB" in answers[0]["text/plain"], "return [bytes(1000) for _ in range(20000)]" in answers[0]["text/html"])
""", site=True, cwd=here.path)
        same(result.out, b"1 True True\n", result)


@case
def cells_of_a_notebook():
    need_attach()
    need_module("IPython")
    with Folder() as here:
        if run([MAYFLY, "view", "--html", here / "empty.html"]).code:
            raise Skip("the page is not built")
        result = python("""
import sys
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "mayfly")
def cell(text):
    with capture_output() as shown:
        shell.run_cell(text)
    return shown
shown = cell("%%mayfly -t 3 -o cell.mayfly --html page.html\\ndef load(): return bytearray(30_000_000)\\nx = load(); kept = '<b>'\\nprint('hi')")
assert shown.stdout.startswith("hi"), shown.stdout
plain, page = [one.data for one in shown.outputs]
assert "28.6 MiB" in plain["text/plain"] and "load (" in plain["text/plain"], plain
assert plain["text/plain"].startswith("At the peak, ") and plain["text/html"].startswith("<p><b>At the peak, "), plain
assert "&lt;ipython-input" in plain["text/html"] and "<ipython" not in plain["text/html"], plain
assert "cell_magic" not in plain["text/plain"] and "def load(): return bytearray(30_000_000)" in plain["text/plain"], plain
assert "IFrame" in page["text/plain"] and shell.user_ns["kept"] == "<b>", page
shown = cell("%%mayfly -i 64K -m live\\nz = bytearray(3_000_000)\\n1/0")
assert "ZeroDivisionError" in shown.stdout and "2.86 MiB (" in shown.outputs[-1].data["text/plain"], (shown.stdout, shown.outputs)
shown = cell("%%mayfly --bogus\\n1")
assert "--bogus" in shown.stderr, shown.stderr
""", site=True, cwd=here.path)
        same(result.out, b"", result)
        check(os.path.getsize(here / "page.html") > 10000, "no page")
        check("load" in rows(here / "cell.mayfly", "--metric", "live"), "no row of load")


@case
def the_recipe_for_googletest():
    """doc/PYTHON.md's CMakeLists.txt and listener: a test that leaks fails its limit, and its span says how much."""
    need("cmake", "ctest", "g++")
    with open(os.path.join(SOURCE, "doc", "PYTHON.md")) as file:
        text = file.read()
    recipe, = re.findall(r"```cmake\n(.*?)```", text, re.DOTALL)
    listener, = re.findall(r"```cpp\n(.*?)```", text, re.DOTALL)
    if run(["g++", "-E", "-x", "c++", "-"], stdin=b"#include <gtest/gtest.h>\n").code:
        raise Skip("Debian's libgtest-dev is not installed")
    with Folder() as here:
        for name, words in (("CMakeLists.txt", """cmake_minimum_required(VERSION 3.16)
project(recipe CXX)
enable_testing()
find_package(GTest REQUIRED)
add_executable(parser_test test.cc)
target_include_directories(parser_test PRIVATE "%s")
target_link_libraries(parser_test GTest::gtest)
""" % os.path.join(SOURCE, "include") + recipe), ("test.cc", listener + """
static char *kept;
TEST(Parser, Leaks) { kept = new char[100000]; kept = nullptr; }
TEST(Parser, Fine) { delete[] new char[2000000]; }
""")):
            with open(here / name, "w") as file:
                file.write(words)
        env = environment(PATH=os.path.dirname(MAYFLY) + ":/usr/bin:/bin")
        for command in (["cmake", "-S", here.path, "-B", here.path], ["cmake", "--build", here.path]):
            result = run(command, env=env, cwd=here.path)
            same(result.code, 0, result)
        result = run(["ctest", "--output-on-failure"], env=env, cwd=here.path)
        check(result.code and re.search(rb"#1: parser \.+ +Passed", result.out) and b"2 - parser.memory (Failed)" in result.out and
              b"Parser_Leaks_Test::TestBody()" in result.out, result)
        live = {span["name"]: span["live"]["bytes"]["estimate"] for span in report(here / "parser.mayfly", "--spans")["spans"]}
        check(100_000 <= live["Parser.Leaks"] < 110_000 and live["Parser.Fine"] < 10_000, live)


if __name__ == "__main__":
    main()
