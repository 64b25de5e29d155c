#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The house itself: headers that stand alone, layers that keep to their place, an agent that shows
and needs only what it must, sources in one style."""
import ast
import functools
import glob
import json
import os
import re
import shutil
import subprocess
import sys

from harness import CLANG, AGENT, BUILD, Folder, SOURCE, Skip, case, cases, check, main, need, run, same
from sanitized import FUZZ_TARGETS, INPUTS

COMPILERS = {"gcc": ["gcc", "-std=c11"], "clang": [CLANG, "-std=c11"],
             "g++": ["g++", "-std=c++11", "-x", "c++"],
             "clang++": [CLANG, "-std=c++11", "-x", "c++"]}
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]


def headers():
    found = sorted(glob.glob(os.path.join(SOURCE, "include", "mayfly", "*.h")))
    check(found, "no public headers")
    return found


def compiles(command, source, what):
    result = subprocess.run(command + ["-"] if "-x" in command else command + ["-x", "c", "-"],
                            input=source.encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            check=False)
    check(result.returncode == 0, what + ":", result.stdout.decode())


@cases(COMPILERS)
def public_headers_alone(name):
    """Each public header compiles by itself, first and twice, as C and as C++."""
    command = COMPILERS[name]
    need(command[0])
    for header in headers():
        include = "#include <mayfly/%s>\n" % os.path.basename(header)
        arguments = command[:1] + STRICT + ["-I" + os.path.join(SOURCE, "include")] + command[1:]
        compiles(arguments, include + include + "int main(void) { return 0; }\n", header)


@case
def private_headers_alone():
    """One call of the compiler for all: a file for each header that includes nothing else."""
    need("gcc")
    with Folder() as here:
        for number, name in enumerate(source_files(".h")):
            other_cpu = re.search(r"/cpu_(\w+)\.h$", name)
            if other_cpu and other_cpu.group(1) != os.uname().machine:
                continue
            with open(here / "%d.c" % number, "w") as file:
                file.write('#include "%s"\n' % name)
        result = run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror",
                      "-Wno-unused-function", "-Wno-unused-variable", "-fsyntax-only",
                      "-I" + os.path.join(SOURCE, "include"), "-I" + os.path.join(SOURCE, "src"), "-I" + BUILD,
                      *here.files("*.c")])
        check(result.code == 0, result.err.decode()[:5000])


@case
def few_files_name_a_cpu():
    """A port is a header of the agent's and the places that the end of cpu.h lists."""
    allowed = {"src/agent/cpu/cpu.h", "src/record/machine.h", "include/mayfly/mayfly.h",
               "ocaml/refusing.c"}
    found = set()
    for pattern in ("src/**/*.[ch]", "include/**/*.h", "include/**/*.hpp", "ocaml/*.[ch]"):
        for path in glob.glob(os.path.join(SOURCE, pattern), recursive=True):
            with open(path) as file:
                if re.search(r"^ *#.*\b__(x86_64|aarch64)__", file.read(), re.MULTILINE):
                    found.add(os.path.relpath(path, SOURCE))
    check(found <= allowed, "#if by CPU in", sorted(found - allowed))


def symbols(*arguments):
    result = run(["nm", *arguments])
    check(result.code == 0, "nm", result)
    return result.out.decode().splitlines()


@case
def agent_exports():
    """Exactly the functions it stands in for (tests/agent_exports.txt)."""
    with open(os.path.join(SOURCE, "tests", "agent_exports.txt")) as file:
        expected = file.read().split()
    found = sorted(line.split()[-1].split("@")[0] for line in
                   symbols("-D", "--defined-only", AGENT) if line.split()[-2] != "A")
    same(found, sorted(expected), "exports")


@cases(["trace", "memprof"])
def libraries_export_what_debian_knows(name):
    """debian/*.symbols, from which other packages learn which version they need."""
    library = os.path.join(BUILD, "src", *(["memprof"] if name == "memprof" else []), "libmayfly-%s.so.0" % name)
    with open(os.path.join(SOURCE, "debian", "libmayfly-%s0.symbols" % name)) as file:
        known = re.findall(r"^ (\w+)@", file.read(), re.MULTILINE)
    found = {line.split()[-1].split("@")[0] for line in symbols("-D", "--defined-only", library)
             if line.split()[-2] != "A"}
    same(sorted(found), sorted(known), "exports of " + name)


@case
def agent_needs_libc_only():
    for path in [AGENT] + glob.glob(os.path.join(BUILD, "src", "agent", "libmayfly-*.so")):
        text = run(["readelf", "-dW", path]).out.decode()
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", text))
        check(needed <= {"libc.so.6", "ld-linux-x86-64.so.2"}, path, "needs", needed)


@case
def agent_is_bound_at_start():
    """No lazy binding (the loader's lock in a hook), no text relocations, no executable stack."""
    text = run(["readelf", "-dlW", AGENT]).out.decode()
    check("BIND_NOW" in text or " NOW" in text, "lazy binding")
    check("TEXTREL" not in text, "text relocations")
    stack = [line for line in text.splitlines() if "GNU_STACK" in line]
    check(stack and "E" not in stack[0].split("GNU_STACK")[1].replace("GNU", ""), stack)
    check("STATIC_TLS" in text or "INITIAL" in text or "TLS" not in text,
          "thread-local storage that may call malloc")


@case
def agent_fits_debian_12():
    """No symbol of a glibc newer than 2.36, when built where there is no newer one."""
    built_with = tuple(int(n) for n in os.confstr("CS_GNU_LIBC_VERSION").split()[1].split("."))
    if built_with > (2, 36):
        raise Skip("built with glibc %d.%d" % built_with)
    for path in (AGENT, os.path.join(BUILD, "src", "cli", "mayfly")):
        for line in symbols("-D", "--undefined-only", path):
            match = re.search(r"@GLIBC_(\d+)\.(\d+)", line)
            if match:
                check((int(match.group(1)), int(match.group(2))) <= (2, 36), path, line)


@case
def agent_calls_nothing_that_allocates():
    """What the agent takes from libc neither allocates nor prints nor takes locks of stdio."""
    forbidden = {"printf", "fprintf", "fopen", "fputs", "strdup", "asprintf", "opendir", "getline",
                 "pthread_create", "dl_iterate_phdr", "backtrace", "exit", "abort", "localtime",
                 "setlocale", "popen", "system", "puts", "__printf_chk", "__fprintf_chk"}
    used = {line.split()[-1].split("@")[0] for line in symbols("-D", "--undefined-only", AGENT)}
    same(sorted(used & forbidden), [], "functions of libc")


ROOMS = {  # room (the longest folder that matches) -> rooms whose headers and functions it may use
    "base": set(),
    "base/system": set(),
    "format": {"base"},
    "ocaml_events": {"base"},
    "trace": {"base", "format"},
    "trace/read": {"base", "format", "trace"},
    "trace/write": {"base", "format", "trace"},
    "trace/rewrite": {"base", "format", "trace", "trace/read", "trace/write"},
    "spool": {"base", "format", "ocaml_events", "trace", "trace/read", "trace/write"},
    "query": {"base", "format", "trace", "trace/read"},
    "heap": {"base"},
    "match": set(),
    "answer": {"base", "format", "ocaml_events", "trace/read", "query", "match"},
    "question": {"base", "format", "query", "answer", "match"},
    "terminal": {"base", "format", "answer", "question"},
    "view": {"base", "format", "trace", "trace/read", "query", "answer", "question", "convert/export"},
    "serve": {"base", "base/system", "format", "view"},
    "convert": {"base", "format", "trace/write"},
    "convert/import": {"base", "format", "ocaml_events", "trace/write", "convert", "match"},
    "convert/export": {"base", "format", "ocaml_events", "trace", "trace/read", "trace/write", "query", "answer",
                       "convert"},
    "page": {"base", "format", "trace/read", "view", "convert/export"},
    "symbols": {"base", "format"},
    "stream": {"base", "base/system", "format"},
    "record": {"base", "base/system", "format", "ocaml_events", "trace/read", "trace/write", "trace/rewrite",
               "spool", "heap", "symbols", "picture", "stream"},
    "attach": {"base", "base/system", "format"},
    "picture": {"base", "base/system", "format", "answer", "heap", "attach", "symbols"},
    "fleet/http": {"base"},
    "fleet/database": {"base", "format", "fleet/http"},
    "fleet/ask": {"base", "trace/read", "trace/write", "convert/import", "fleet/http", "fleet/database"},
    "fleet/push": {"base", "base/system", "trace/read", "trace/write", "query", "answer", "question", "convert/import", "convert/export",
                   "terminal", "fleet/http", "fleet/database"},
    "fleet/pull": {"base", "base/system", "trace/read", "trace/write", "trace/rewrite", "query", "answer", "convert", "convert/export",
                   "record", "serve", "terminal"},
    "fleet/host": {"base", "base/system", "format", "trace/read", "answer", "question", "record", "terminal", "fleet/http",
                   "fleet/database", "fleet/push", "fleet/pull", "serve"},
    "memprof": set(),
    "agent/cpu": set(),
    "agent/unwind": {"agent/cpu"},
    "agent": {"agent/cpu", "agent/unwind"},
    "agent/events": {"agent", "agent/cpu", "agent/unwind"},
    "agent/ocaml": {"agent", "agent/cpu", "agent/unwind", "agent/events"},
    "cli": {"base", "base/system", "format", "ocaml_events", "trace/read", "trace/write", "trace/rewrite", "spool",
            "query", "answer", "question", "terminal", "view", "page", "serve", "convert", "convert/import",
            "convert/export", "symbols", "stream", "record", "attach", "heap", "picture", "fleet/http", "fleet/database", "fleet/ask",
            "fleet/push", "fleet/pull", "fleet/host"},
}
# The only headers that the agent, and the engine for runtimes, use from base and format.
AGENT_HEADERS = {"base/natural_log.h", "base/units.h", "base/varint.h", "format/attachment.h",
                 "base/ocaml_rings.h", "base/seccomp_filters.h", "format/handover_message.h", "format/spool_format.h", "format/strata.h"}
MEMPROF_HEADERS = {"base/natural_log.h"}


def room_of(path):
    """The room of a file below src, whose path is relative to src."""
    folder = os.path.dirname(path)
    while folder and folder not in ROOMS:
        folder = os.path.dirname(folder)
    check(folder, path, "is in no room")
    return folder


def may_use(room, other):
    return room == other or other in ROOMS[room]


@functools.cache
def source_files(*endings):
    """The files below src, relative to it."""
    return [os.path.relpath(os.path.join(path, name), os.path.join(SOURCE, "src"))
            for path, _, names in sorted(os.walk(os.path.join(SOURCE, "src")))
            for name in sorted(names) if name.endswith(endings)]


def circles(graph):
    """The strongly connected components of more than one member (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(at):
        index[at] = low[at] = len(index)
        stack.append(at)
        for other in graph[at]:
            if other not in index:
                visit(other)
                low[at] = min(low[at], low[other])
            elif other in stack:
                low[at] = min(low[at], index[other])
        if low[at] == index[at]:
            members = stack[stack.index(at):]
            del stack[stack.index(at):]
            if len(members) > 1:
                found.append(sorted(members))

    for at in sorted(graph):
        if at not in index:
            visit(at)
    return found


# What these define stands elsewhere in libmayfly.so, or in glibc.
STAND_INS = ("agent/linked.c", "agent/musl.c")


@functools.cache
def file_graph():
    """Which source file needs a function or variable of which other, by their object files."""
    defined, needed = {}, {}
    objects, text = glob.glob(os.path.join(BUILD, "src", "**", "*.o"), recursive=True), {}
    for line in symbols("-A", *objects):
        path, rest = line.split(":", 1)
        text.setdefault(path, []).append(rest)
    for path in objects:
        parts = re.match(r"src/(.*?)/?[^/]*\.p/(.*)\.o$", os.path.relpath(path, BUILD))
        # meson writes the / of a source in a folder below as _.
        name = next((file for file in source_files(".c")
                     if file.startswith(parts.group(1)) and
                     file[len(parts.group(1)) + 1:].replace("/", "_") == parts.group(2)), None)
        if not name:
            continue
        # The agent is a program of its own, with names that others have, too.
        world = "agent" if name.startswith("agent/") else "mayfly"
        needed[name] = set()
        for line in text.get(path, []):
            kind, symbol = line.split()[-2:]
            if kind in "TDBRVWC" and name not in STAND_INS:
                defined[world, symbol] = name
            elif kind in "Uwv":
                needed[name].add((world, symbol))
    check(len(needed) > 150, "only", len(needed), "object files")
    return {name: {defined[symbol] for symbol in symbols if symbol in defined} - {name}
            for name, symbols in needed.items()}


def includes(path):
    with open(os.path.join(SOURCE, "src", path)) as file:
        return re.findall(r'^\s*#\s*include\s*"([^"]+)"', file.read(), re.MULTILINE)


@case
def rooms():
    """What a room includes and calls lies in itself or in the rooms that it may use."""
    bad = []
    files = set(source_files(".c", ".h"))
    for path in sorted(files):
        room = room_of(path)
        for target in includes(path):
            if target not in files:
                continue
            if room.startswith("agent") and target in AGENT_HEADERS:
                continue
            if room == "memprof" and target in MEMPROF_HEADERS:
                continue
            if not may_use(room, room_of(target)):
                bad.append("%s includes %s" % (path, target))
    for path, others in sorted(file_graph().items()):
        bad += ["%s calls %s" % (path, other) for other in sorted(others)
                if not may_use(room_of(path), room_of(other))]
    same(bad, [], "arrows that run the wrong way")


@case
def rooms_go_one_way():
    same(circles({room: others for room, others in ROOMS.items()}), [], "circles of rooms")


@case
def files_go_one_way():
    """No file needs another that needs it, by what they call and by what they include."""
    same(circles(file_graph()), [], "circles of files by their functions")
    headers = set(source_files(".h"))
    same(circles({path: set(includes(path)) & headers for path in headers}), [],
         "circles of headers")


@case
def reading_needs_no_writer():
    """A program that links the reader's objects alone gets no file that writes or reads spools."""
    graph = file_graph()
    reached, left = set(), [path for path in graph if room_of(path) == "trace/read"]
    check(left, "no reader")
    while left:
        path = left.pop()
        if path not in reached:
            reached.add(path)
            left += graph[path]
    same(sorted({room_of(path) for path in reached}), ["base", "format", "trace", "trace/read"],
         "rooms that reading needs")


@case
def names_of_files_are_unique():
    seen = {}
    for path in source_files(".c", ".h"):
        seen.setdefault(os.path.basename(path), []).append(path)
    same([paths for paths in seen.values() if len(paths) > 1], [], "files of one name")


MOST_FILES = 25


@case
def folders_fit_on_a_page():
    """No folder of the commands, or of what goes to servers, shows more files than MOST_FILES."""
    shown = {}
    for path, _, names in os.walk(os.path.join(SOURCE, "src")):
        folder = os.path.relpath(path, os.path.join(SOURCE, "src"))
        if folder.split("/")[0] in ("cli", "fleet", "terminal", "base", "ocaml_events"):
            shown[folder] = len(names)
    check(len(shown) > 10, shown)
    same({folder: count for folder, count in shown.items() if count > MOST_FILES}, {}, "folders with too many files")


PURE = ("base", "heap", "format", "ocaml_events", "trace", "spool", "query", "match", "answer", "question", "view")
FORMATS = {"answer/text_format.c": {"stdio"},  # has the one call of vsnprintf()
           "question/option_values.c": {"errno"}}  # of strtoull()
SYSTEM = "base/system"  # the folder of a pure room that asks the system


def is_pure(path):
    return path.split("/")[0] in PURE and room_of(path) != SYSTEM


IO = {"stdin", "stdout", "stderr", "printf", "__printf_chk", "fprintf", "__fprintf_chk", "puts",
      "putchar", "fputs", "fputc", "fwrite", "fread", "fopen", "fclose", "fflush", "getline",
      "open_memstream", "open", "close", "read", "write", "mmap", "exit", "abort", "getenv"}


@case
def trace_is_pure():
    """The rooms of the trace do no input or output, start no threads and have no global state."""
    forbidden = re.compile(r"#\s*include\s*<(stdio|pthread|threads|unistd|fcntl|sys/mman|signal|"
                           r"errno|time|locale)\.h>")
    for path in source_files(".c", ".h"):
        if not is_pure(path):
            continue
        with open(os.path.join(SOURCE, "src", path)) as file:
            found = set(forbidden.findall(file.read()))
        same(found - FORMATS.get(path, set()), set(), "includes of " + path)
    for room in PURE:
        library, = glob.glob(os.path.join(BUILD, "src", room, "libmayfly-*.a"))
        used = {line.split()[-1] for line in symbols("--undefined-only", library) if line.split()}
        same(used & IO, set(), "input and output in " + library)
        result = run(["readelf", "-SW", library])
        check(result.code == 0, "readelf", result)
        # .data.rel.ro holds constants with addresses in them; nothing may be in these:
        found = [line for line in result.out.decode().splitlines() if re.search(
            r" \.(data|bss|tdata|tbss)(\.(?!rel\.ro)\S+)? +\w+ +[0-9a-f]+ [0-9a-f]+ 0*[1-9a-f]",
            line)]
        same(found, [], "writable data in " + library)


# wasm-ld gives a program 64 KiB of stack. A spool's header, of 4 KiB, may stand on it.
MOST_STACK_BYTES = 6144


@case
def trace_for_wasm():
    """The same code compiles for wasm32, and no function puts much on the stack there."""
    need(CLANG)
    sysroot = "/usr/include/wasm32-wasi"
    if not os.path.isdir(sysroot):
        raise Skip("wasi-libc is not installed")
    with Folder() as here:
        for header in ("zstd.h", "zstd_errors.h"):
            shutil.copy(os.path.join("/usr/include", header), here.path)
        files = [os.path.join(SOURCE, "src", path) for path in source_files(".c") if is_pure(path)]
        check(len(files) > 100, files)
        result = run([CLANG, "--target=wasm32-wasi", "-isystem", sysroot, "-std=gnu11",
                      "-D_GNU_SOURCE", '-DMAYFLY_VERSION="0"', "-O1", "-Wall", "-Wextra",
                      "-Wno-missing-field-initializers",
                      "-Wframe-larger-than=%d" % MOST_STACK_BYTES,
                      "-I" + os.path.join(SOURCE, "include"), "-I" + os.path.join(SOURCE, "src"),
                      "-I" + here.path, "-c", *files], cwd=here.path)
        check(result.code == 0 and not result.err, result.err.decode()[:3000])


@case
def clang_compiles_without_warnings():
    need(CLANG)
    flags = ["-std=gnu11", "-D_GNU_SOURCE", '-DMAYFLY_VERSION="0"', "-O1", "-Wall", "-Wextra",
             "-Wshadow", "-Wstrict-prototypes", "-Wmissing-prototypes", "-Wundef", "-Wvla",
             # No `default:` over an enum, so that a new value of it shows where it is forgotten.
             "-Wswitch-enum", "-Wcovered-switch-default",
             "-Wno-missing-field-initializers", "-fsyntax-only",
             "-I" + os.path.join(SOURCE, "include"), "-I" + os.path.join(SOURCE, "src"), "-I" + BUILD,
             "-I" + os.path.join(BUILD, "src", "cli"), "-I" + os.path.join(BUILD, "src", "convert")]
    result = run([CLANG, *flags, *(os.path.join(SOURCE, "src", path) for path in source_files(".c"))])
    check(not result.code and not result.err, result.err.decode()[:5000])


def sources():
    for folder in ("include", "src", "ocaml", "python", "tests", "bench", "examples"):
        for path, folders, names in os.walk(os.path.join(SOURCE, folder)):
            folders[:] = [name for name in folders if name != "node_modules"]
            for name in sorted(names):
                if name.endswith((".c", ".h", ".cc")):
                    yield os.path.join(path, name)


@case
def sources_begin_right():
    for path in sources():
        with open(path) as file:
            first = file.readline()
        check("SPDX-License-Identifier: Apache-2.0" in first, path, "begins with", first)


def formatter():
    """clang-format, of the version whose style make format applies: others format some things otherwise."""
    with open(os.path.join(SOURCE, "Makefile")) as file:
        version, = re.findall(r"^FORMAT_VERSION = (\d+)$", file.read(), re.MULTILINE)
    for name in ("clang-format", "clang-format-" + version):
        if shutil.which(name) and b" version %s." % version.encode() in run([name, "--version"]).out:
            return name
    raise Skip("clang-format %s is not installed" % version)


@case
def sources_are_formatted():
    result = run([formatter(), "--dry-run", "--style=file:" + os.path.join(SOURCE, ".clang-format"),
                  *(path for path in sources() if path.endswith((".c", ".h")))])
    bad = sorted(set(re.findall(r"^(\S+?):\d+:\d+: warning", result.err.decode(), re.MULTILINE)))
    check(result.code == 0 and not bad, "run make format:", " ".join(bad), result.err.decode()[-300:] if result.code else "")


PYTHON_FILES = {  # a file of python/mayfly -> those that it may use
    "_program.py": set(),
    "_text.py": set(),
    "_trace.py": {"_program"},
    "_events.py": {"_spans"},
    "_recording.py": {"_program", "_trace", "_events"},
    "_jupyter.py": {"_program", "_recording", "_text"},
    "pytest_plugin.py": {"_program", "_recording", "_text"},
    "__init__.py": {"_program", "_trace", "_events", "_recording", "_jupyter"},
}
# What a file plugs into: it is imported by that.
PYTHON_HOSTS = {"pytest_plugin.py": {"pytest"}, "_jupyter.py": {"IPython"}}
PYTHON_LINE = 120


def imports_of(tree):
    """(level, module, names) of each import in a file, and whether it stands at the top."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield 0, [name.name for name in node.names], node in tree.body
        elif isinstance(node, ast.ImportFrom):
            yield node.level, [node.module] if node.module else [name.name for name in node.names], node in tree.body


@case
def the_python_package_keeps_its_rules():
    """Files of python/ use each other one way, need nothing but Python's own library to be imported, and are for
    Python 3.8 and later; lines are no longer than PYTHON_LINE."""
    folder = os.path.join(SOURCE, "python", "mayfly")
    same(sorted(PYTHON_FILES), sorted(name for name in os.listdir(folder) if name.endswith(".py")), "files of python/mayfly")
    for name, allowed in PYTHON_FILES.items():
        with open(os.path.join(folder, name)) as file:
            text = file.read()
        check(text.startswith("# SPDX-License-Identifier: Apache-2.0\n\"\"\""), name, "begins without licence and purpose")
        long = [number for number, line in enumerate(text.splitlines(), 1)
                if len(line) > PYTHON_LINE or "\t" in line or line != line.rstrip()]
        same(long, [], "lines of %s that are long, or have tabs or blanks at their end" % name)
        for level, modules, at_top in imports_of(ast.parse(text, feature_version=(3, 8))):
            if level:
                check(set(modules) <= allowed, name, "uses", modules)
            elif at_top:
                outside = {module.split(".")[0] for module in modules} - sys.stdlib_module_names
                same(outside - PYTHON_HOSTS.get(name, set()), set(), "modules outside of Python's library in " + name)


@case
def comments_keep_their_drawings():
    """A line of a comment begins with " * " or " *<tab>": formatting once joined others to them."""
    bad = []
    for path in sources():
        with open(path, errors="replace") as file:
            bad += ["%s:%d" % (os.path.relpath(path, SOURCE), number)
                    for number, line in enumerate(file, 1) if re.match(r" \*[^\s*/]", line)]
    same(bad, [], "lines of comments that begin without a space")


@case
def comments_have_a_subject():
    """No comment opens with "Of ...", which says whose something is before it says what it is."""
    pattern, bad = re.compile(r"(/\*|//|^ \*) ?Of [a-z]"), []
    for path in sources():
        with open(path, errors="replace") as file:
            bad += ["%s:%d" % (os.path.relpath(path, SOURCE), number)
                    for number, line in enumerate(file, 1) if pattern.search(line)]
    same(bad, [], "comments that open with Of")


LONGEST = 100


@case
def functions_are_short():
    """No function's body has more lines than LONGEST."""
    bad = []
    for path in source_files(".c", ".h"):
        start = None
        with open(os.path.join(SOURCE, "src", path)) as file:
            for number, line in enumerate(file, 1):
                if line == "{\n":
                    start = number
                elif line == "}\n" and start:
                    if number - start - 1 > LONGEST:
                        bad.append("%s:%d: %d lines" % (path, start, number - start - 1))
                    start = None
    same(bad, [], "functions of more than %d lines" % LONGEST)


@case
def the_map_names_files_that_exist():
    """A file that moved, and that INTERNALS.md or CONTRIBUTING.md still has in its old place."""
    files = {os.path.relpath(os.path.join(path, name), SOURCE)
             for top in ("include", "src", "ocaml", "python", "tests", "bench", "viewer/src", "scripts", "viewer")
             for path, folders, names in os.walk(os.path.join(SOURCE, top)) for name in names
             if "node_modules" not in path}
    known = files | {os.path.basename(name) for name in files}
    for document in ("doc/INTERNALS.md", "CONTRIBUTING.md"):
        with open(os.path.join(SOURCE, document)) as file:
            named = set(re.findall(r"`([\w./]+\.(?:c|h|hpp|py|mjs|tsx?))`", file.read()))
        check(len(named) > 5 or document != "doc/INTERNALS.md", named)
        same([name for name in sorted(named)
              if name not in known and not any(one.endswith("/" + name) for one in files)], [], document)


@case
def the_page_has_each_grouping():
    """A key of --by without a table on the page would show nowhere that it is missing."""
    found = {}
    for path, pattern in (("src/query/grouping.h", r'ROW\(\w+, "([\w-]+)"'),
                          ("viewer/src/views/table.tsx", r'\{ by: "([\w-]+)"')):
        with open(os.path.join(SOURCE, path)) as file:
            found[path] = sorted(set(re.findall(pattern, file.read())))
    check(len(found["src/query/grouping.h"]) > 5, found)
    same(*found.values(), "keys of grouping.h and tables of table.tsx")


@case
def every_test_file_is_registered():
    """A renamed or new test must not be left out silently: each file is a test that meson knows."""
    result = run(["meson", "introspect", "--tests", BUILD])
    check(result.code == 0, "meson introspect:", result)
    known = sorted(test["name"] for test in json.loads(result.out))
    files = sorted(re.fullmatch(r"test_(.*)\.(c|py)", name).group(1)
                   for name in os.listdir(os.path.join(SOURCE, "tests"))
                   if re.fullmatch(r"test_.*\.(c|py)", name))
    same(known, files, "tests in tests/meson.build, and files tests/test_*")


@case
def every_fuzz_target_has_inputs():
    same(sorted(INPUTS), FUZZ_TARGETS, "targets in tests/sanitized.py, and files tests/fuzz_*.c")


@case
def tests_wait_for_conditions():
    """A pause is too short on a busy machine and too long on others. One place sleeps, between two looks at
    whether a condition holds; what recorded programs do stands in strings."""
    sleeping = []
    for path in glob.glob(os.path.join(SOURCE, "tests", "*.py")) + [os.path.join(SOURCE, "tests", "run")]:
        with open(path) as file:
            tree = ast.parse(file.read())
        for function in ast.walk(tree):
            if isinstance(function, (ast.FunctionDef, ast.Lambda)):
                sleeping += ["%s %s" % (os.path.basename(path), getattr(function, "name", "lambda"))
                             for call in ast.walk(function) if isinstance(call, ast.Call) and "sleep" in
                             (getattr(call.func, "attr", ""), getattr(call.func, "id", ""))]
    same(sleeping, ["harness.py wait_until"], "functions that sleep")


@case
def no_traces_of_a_machine():
    """No path of the machine that something was made on, no work left undone."""
    pattern = re.compile(r"\B/(home|root|work)/\w|\b(TODO|FIXME|XXX)\b")
    for path in sources():
        with open(path, errors="replace") as file:
            for number, line in enumerate(file, 1):
                check(not pattern.search(line), "%s:%d: %s" % (path, number, line.strip()))


if __name__ == "__main__":
    main()
