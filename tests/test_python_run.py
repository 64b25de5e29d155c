#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Whose the code of a Python program is that is installed where libraries are: reports name its lines, whether it
is run by -m, by a script that pip made, by a server, or by a copy of the interpreter under another name."""
import functools
import os
import sysconfig
import zipfile

from harness import Folder, PYTHON, Skip, case, cases, check, main, record, report, run, same

folder = Folder()
folder.__enter__()
BLOCKS, SIZE = 200, 10000
PACKAGE = {
    "shop/__init__.py": "",
    "shop/__main__.py": "from shop.web import main\nmain()\n",
    # Line 3 holds what is asked for.
    "shop/web.py": "import os\ndef hold():\n    return [bytearray(%d) for _ in range(%d)]\n"
                   "def main():\n    kept = hold()\n    os._exit(0)\n"
                   "def app(environment, start):\n    return hold()\n" % (SIZE, BLOCKS),
    # Runs what others name, as servers do.
    "gunicorn/__init__.py": "",
    "gunicorn/__main__.py": "import importlib, os, sys\nmodule, name = sys.argv[-1].split(':')\n"
                            "kept = getattr(importlib.import_module(module), name)({}, None)\n"
                            "more = [bytearray(%d) for _ in range(%d)]\nos._exit(0)\n" % (SIZE // 2, BLOCKS),
}
DISTRIBUTION = {
    "shop-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n",
    "shop-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "shop-1.0.dist-info/entry_points.txt": "[console_scripts]\nserve-it = shop.web:main\n",
    "shop-1.0.dist-info/RECORD": "",
}


@functools.lru_cache(maxsize=None)
def venv(*options):
    """The path of a virtual environment that has the packages."""
    path = folder / ("venv" + "".join(options))
    done = run([PYTHON[0], "-m", "venv", "--without-pip", *options, path])
    if done.code:
        raise Skip("no venv: %s" % done.err)
    packages = run([os.path.join(path, "bin", "python"), "-c",
                    "import sysconfig as s; print(s.get_path('purelib'))"]).out.decode().strip()
    for name, text in PACKAGE.items():
        os.makedirs(os.path.dirname(os.path.join(packages, name)), exist_ok=True)
        with open(os.path.join(packages, name), "w") as file:
            file.write(text)
    return path


def python(*options):
    return os.path.join(venv(*options), "bin", "python")


def rows(command, *options, by="line", how=("-x",), **more):
    trace = folder / "t.mayfly"
    if os.path.exists(trace):
        os.unlink(trace)
    done = record(command, trace, *how, **more)
    same(done.code, 0, "exit status: %r" % done)
    return report(trace, "--metric", "live", "--by", by, *options)["rows"]


def place(row):
    parts = (row["file"] or "").split("/")
    return "/".join(parts[-2:]), row["line"]


def first_is_held(found):
    same(place(found[0]), ("shop/web.py", 3), "the first row")
    got = found[0]["self"]["bytes"]["estimate"]
    check(got >= BLOCKS * SIZE, got)
    for row in found:
        check(row["function"] != "_PyEval_EvalFrameDefault", "the interpreter's C:", row)


@cases(["-m shop", "-Im shop", "-X dev -m shop.__main__", "-m gunicorn -w 2 shop.web:app"])
def a_module_that_is_run_is_own(words):
    first_is_held(rows([python(), *words.split()]))


@case
def a_server_is_not_own():
    """Its lines stand for a stack only where that has no own code."""
    found = rows([python(), "-m", "gunicorn", "shop.web:app"], "--all")
    held = {place(row): row for row in found}
    same(held["gunicorn/__main__.py", 4]["self"]["bytes"]["estimate"] // SIZE // BLOCKS, 0, "what it holds itself")
    stacks = report(folder / "t.mayfly", "--metric", "live", "--focus", "/shop/web", "--by", "stack")["rows"]
    check(stacks and not any("gunicorn" in (frame.get("file") or "") for row in stacks for frame in row["stack"]),
          stacks)


@case
def the_package_of_a_script_that_pip_made_is_own():
    path = folder / "with pip"
    done = run([PYTHON[0], "-m", "venv", path])
    if done.code:
        raise Skip("no venv with pip: %s" % done.err)
    wheel = folder / "shop-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        for name, text in (PACKAGE | DISTRIBUTION).items():
            file.writestr(name, text)
    done = run([os.path.join(path, "bin", "python"), "-m", "pip", "install", "-q", "--no-index", wheel])
    same(done.code, 0, "pip: %r" % done)
    first_is_held(rows([os.path.join(path, "bin", "serve-it")]))
    # By a path from another folder, and as an argument of the interpreter.
    first_is_held(rows(["bin/serve-it"], cwd=path))
    first_is_held(rows([os.path.join(path, "bin", "python"), "-u", os.path.join(path, "bin", "serve-it")]))


SCRIPT = """#!%s
import sys
from %s import %s
%s
"""


@cases(["shop.web main main()", "shop web web.main()", "shop.web hold print(len(hold()))"])
def a_script_is_only_what_it_calls(words):
    """A script that uses a package is no part of it."""
    module, name, call = words.split()
    is_entry = "main" in words
    call = "sys.exit(%s)" % call if is_entry else "kept = hold(); import os; os._exit(0)"
    path = os.path.join(venv(), "bin", "by-hand")
    with open(path, "w") as file:
        file.write(SCRIPT % (python(), module, name, call))
    os.chmod(path, 0o755)
    found = rows([path])
    if is_entry:
        first_is_held(found)
    else:
        same(place(found[0]), ("bin/by-hand", 4), "the first row")


@cases(["names", "name with-spaces", "python"])
def a_copied_interpreter_is_the_interpreter(name):
    original = python("--copies")
    copy = os.path.join(os.path.dirname(original), name)
    if copy != original:
        with open(original, "rb") as source, open(copy, "wb") as to:
            to.write(source.read())
        os.chmod(copy, 0o755)
    first_is_held(rows([copy, "-m", "shop"]))


EMBEDDER = """#include <stdlib.h>
extern int Py_BytesMain(int, char **);
char *volatile kept[100];
__attribute__((noinline)) void hold_in_c(void)
{
	for (int i = 0; i < 100; i++)
		kept[i] = malloc(20000);
}
int main(int argc, char **argv)
{
	hold_in_c();
	return Py_BytesMain(argc, argv);
}
"""


@case
def an_interpreter_that_is_linked_in_is_apart_from_the_program():
    archive = os.path.join(sysconfig.get_config_var("LIBPL"), sysconfig.get_config_var("LIBRARY"))
    source, program = folder / "embedder.c", folder / "embedder"
    if not os.path.exists(archive):
        raise Skip("no " + archive)
    with open(source, "w") as file:
        file.write(EMBEDDER)
    done = run(["cc", "-g", "-O1", "-no-pie", "-rdynamic", "-o", program, source, archive, "-lexpat", "-lz", "-lm"])
    if done.code:
        raise Skip("libpython cannot be linked with: %s" % done.err)
    app = folder / "app.py"
    with open(app, "w") as file:
        file.write("import os\nkept = []\nfor i in range(%d):\n    kept.append(bytearray(%d))\nos._exit(0)\n" %
                   (BLOCKS, SIZE))
    found = rows([program, "-S", app], by="function")
    held = {row["function"]: row["self"]["bytes"]["estimate"] for row in found}
    check(held.get("hold_in_c", 0) >= 100 * 20000, "the program's own C:", held)
    check(held.get("<module>", 0) >= BLOCKS * SIZE, "the program's Python:", held)
    check("PyByteArray_Resize" not in held and "_PyEval_EvalFrameDefault" not in held, "the interpreter's C:", held)


@case
def a_stack_without_own_code_shows_python():
    """The innermost frame of Python that is no part of its library; of that, if there is no other."""
    trace = folder / "t.mayfly"
    rows([python(), "-c", "import runpy; runpy.run_module('shop', run_name='__main__')"])
    rules = folder / "rules"
    with open(rules, "w") as file:
        file.write("library ^<string>$\n")
    found = report(trace, "--metric", "live", "--by", "line", "--mine", rules)["rows"]
    same(place(found[0]), ("shop/web.py", 3), "the innermost one of a package")
    with open(rules, "w") as file:
        file.write("mine /shop/__main__\nlibrary ^<string>$\nlibrary /shop/\n")
    found = report(trace, "--metric", "live", "--by", "line", "--mine", rules)["rows"]
    same(place(found[0]), ("shop/__main__.py", 2), "rules come first")


GENERATED = """import collections, dataclasses, os, sys
@dataclasses.dataclass
class Point:
    x: object
    y: object
Pair = collections.namedtuple("Pair", "a b")
kept = []
for i in range(3000): kept.append(Point(i, bytes(100)))
for i in range(3000): kept.append(Pair(i, i))
exec("def made():\\n    return [bytes(1000) for _ in range(2000)]\\n")
kept.append(made())
if "numpy" in sys.argv:
    import numpy
    kept.append(numpy.append(numpy.zeros(100000), 1))
os._exit(0)
"""


@case
def generated_code_counts_for_the_line_that_calls_it():
    app = folder / "generated.py"
    with open(app, "w") as file:
        file.write(GENERATED)
    words = ["numpy"] * (run([PYTHON[0], "-c", "import numpy"]).code == 0)
    held = {place(row)[1]: row for row in rows([PYTHON[0], app, *words]) if
            (row["file"] or "").endswith("/generated.py")}
    made = [row for row in report(folder / "t.mayfly", "--metric", "live", "--by", "line", "--all")["rows"]
            if (row["file"] or "").startswith("<") and not row["file"].startswith("<frozen ")]
    check(held[8]["self"]["bytes"]["estimate"] > 3000 * 48, "dataclass", held[8])
    check(held[9]["self"]["bytes"]["estimate"] > 3000 * 56, "namedtuple", held[9])
    check(made and all(row["function"].startswith("made") or row["function"] == "<module>" for row in made),
          "what own code has compiled is own, no other is:", made)
    if words:
        check(held[14]["self"]["bytes"]["estimate"] >= 800000, "numpy.append", held.get(14))


main()
