#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The house itself: headers that stand alone, layers that keep to their place, an agent that shows
and needs only what it must, sources in one style."""
import glob
import os
import re
import shutil
import subprocess

from harness import AGENT, BUILD, Folder, SOURCE, Skip, case, cases, check, main, need, run, same

COMPILERS = {"gcc": ["gcc", "-std=c11"], "clang": ["clang-14", "-std=c11"],
             "g++": ["g++", "-std=c++11", "-x", "c++"],
             "clang++": ["clang-14", "-std=c++11", "-x", "c++"]}
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
    for header in sorted(glob.glob(os.path.join(SOURCE, "src", "*", "*.h"))):
        name = os.path.relpath(header, os.path.join(SOURCE, "src"))
        compiles(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror",
                  "-Wno-unused-function", "-Wno-unused-variable", "-fsyntax-only",
                  "-I" + os.path.join(SOURCE, "include"), "-I" + os.path.join(SOURCE, "src"),
                  "-I" + BUILD],
                 '#include "%s"\n' % name, header)


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
    """No symbol of a glibc newer than 2.36."""
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


ALLOWED = {  # folder -> folders whose headers it may include
    "trace": {"trace"},
    "symbols": {"symbols"},
    "agent": {"agent", "trace"},
    "convert": {"convert", "trace"},
    "stream": {"stream", "trace"},
    "cli": {"cli", "trace", "symbols", "convert", "stream"},
}


@case
def layers():
    """Nothing depends on cli; trace depends on nothing."""
    for folder, allowed in ALLOWED.items():
        for path in glob.glob(os.path.join(SOURCE, "src", folder, "*.[ch]")):
            with open(path) as file:
                for line in file:
                    match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
                    if not match:
                        continue
                    target = os.path.normpath(os.path.join(folder, match.group(1))) \
                        if match.group(1).startswith("..") or "/" not in match.group(1) \
                        else match.group(1)
                    other = target.split("/")[0] if "/" in target else folder
                    if other in ALLOWED:
                        check(other in allowed, path, "includes", match.group(1))
                        # Of the trace's private headers the agent uses what it writes, alone.
                        if folder == "agent" and other == "trace":
                            check(target in ("trace/spool_format.h", "trace/varint.h"), path,
                                  "includes", target)


@case
def trace_is_pure():
    """src/trace does no input or output, starts no threads and has no global state."""
    forbidden = re.compile(r"#\s*include\s*<(stdio|pthread|threads|unistd|fcntl|sys/mman|signal|"
                           r"errno|time|locale)\.h>")
    for path in glob.glob(os.path.join(SOURCE, "src", "trace", "*.[ch]")):
        with open(path) as file:
            match = forbidden.search(file.read())
        check(not match, path, match and match.group(0))
    library = os.path.join(BUILD, "src", "trace", "libmayfly-trace.a")
    result = run(["readelf", "-SW", library])
    check(result.code == 0, "readelf", result)
    # .data.rel.ro holds constants with addresses in them; nothing may be in these:
    found = [line for line in result.out.decode().splitlines() if re.search(
        r" \.(data|bss|tdata|tbss)(\.(?!rel\.ro)\S+)? +\w+ +[0-9a-f]+ [0-9a-f]+ 0*[1-9a-f]", line)]
    same(found, [], "writable data in " + library)


@case
def trace_for_wasm():
    """The same code compiles for wasm32."""
    need("clang-14")
    sysroot = "/usr/include/wasm32-wasi"
    if not os.path.isdir(sysroot):
        raise Skip("wasi-libc is not installed")
    with Folder() as here:
        for header in ("zstd.h", "zstd_errors.h"):
            shutil.copy(os.path.join("/usr/include", header), here.path)
        for path in sorted(glob.glob(os.path.join(SOURCE, "src", "trace", "*.c"))):
            result = run(["clang-14", "--target=wasm32-wasi", "-isystem", sysroot, "-std=gnu11",
                          "-D_GNU_SOURCE", '-DMAYFLY_VERSION="0"', "-O1", "-Wall", "-Wextra",
                          "-Wno-missing-field-initializers",
                          "-I" + os.path.join(SOURCE, "include"), "-I" + os.path.join(SOURCE, "src"),
                          "-I" + here.path, "-c", path, "-o", here / "out.o"])
            check(result.code == 0, path, result.err.decode()[:3000])
            check(not result.err, path, result.err.decode()[:3000])


@case
def clang_compiles_without_warnings():
    need("clang-14")
    flags = ["-std=gnu11", "-D_GNU_SOURCE", '-DMAYFLY_VERSION="0"', "-O1", "-Wall", "-Wextra",
             "-Wshadow", "-Wstrict-prototypes", "-Wmissing-prototypes", "-Wundef", "-Wvla",
             "-Wno-missing-field-initializers", "-fsyntax-only",
             "-I" + os.path.join(SOURCE, "include"), "-I" + os.path.join(SOURCE, "src"), "-I" + BUILD,
             "-I" + os.path.join(BUILD, "src", "cli"), "-I" + os.path.join(BUILD, "src", "convert")]
    bad = []
    for path in sorted(glob.glob(os.path.join(SOURCE, "src", "*", "*.c"))):
        result = run(["clang-14", *flags, path])
        if result.code or result.err:
            bad.append(result.err.decode()[:1500])
    check(not bad, "\n".join(bad))


def sources():
    for folder in ("include", "src", "ocaml", "tests", "bench", "examples"):
        for path, _, names in os.walk(os.path.join(SOURCE, folder)):
            for name in sorted(names):
                if name.endswith((".c", ".h", ".cc")):
                    yield os.path.join(path, name)


@case
def sources_begin_right():
    for path in sources():
        with open(path) as file:
            first = file.readline()
        check("SPDX-License-Identifier: Apache-2.0" in first, path, "begins with", first)


@case
def sources_are_formatted():
    need("clang-format-14")
    bad = []
    for path in sources():
        if path.endswith((".c", ".h")):
            with open(path, "rb") as file:
                text = file.read()
            result = run(["clang-format-14", "--assume-filename=" + path,
                          "--style=file:" + os.path.join(SOURCE, ".clang-format")], stdin=text)
            if result.code == 0 and result.out != text:
                bad.append(os.path.relpath(path, SOURCE))
    check(not bad, "run make format:", " ".join(bad))


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
