# SPDX-License-Identifier: Apache-2.0
"""Names, lines and inlined frames of 10,000 call sites of a C++ library with debug information."""

import concurrent.futures
import os
import shutil
import subprocess

import inputs
import measure


UNITS = 12  # in one source file


def make_library(folder, sources):
    """A shared library of template-heavy C++, compiled once, two files at a time."""
    library = os.path.join(folder, "big%d.so" % sources)
    if os.path.exists(library):
        return library

    def compile_one(number):
        source = inputs.make(folder, "part%d.cc" % number, inputs.cpp, UNITS, UNITS * number)
        subprocess.run(["g++", "-std=c++17", "-O2", "-g", "-fPIC", "-c", "-o", source + ".o", source],
                       check=True, stderr=subprocess.PIPE)
        return source + ".o"
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compile_one, range(sources)))
    subprocess.run(["g++", "-shared", "-o", library + ".part"] + objects, check=True,
                   stderr=subprocess.PIPE)
    os.rename(library + ".part", library)
    for path in objects:
        os.unlink(path)
    return library


def measure_all(tools, rounds, quick, work, progress):
    program = tools.program("bench_symbols")
    result = {"rounds": rounds, "rows": []}
    if not os.path.exists(program) or not shutil.which("g++"):
        result["failed"] = "needs bench_symbols and g++"
        return result
    progress("symbols: compiling a library")
    library = make_library(os.path.join(work, "inputs"), 1 if quick else 8)
    addresses = os.path.join(work, "addresses")
    with open(addresses, "w") as out:
        subprocess.run([program, "--list", library, "10000"], stdout=out, check=True)
    with open(addresses) as f:
        result["addresses"] = sum(1 for _ in f)
    result["library_bytes"] = os.path.getsize(library)
    for label, command, stdin in (
            ("mayfly", [program, library, "10000"], None),
            ("llvm-symbolizer-14 --inlines",
             ["llvm-symbolizer-14", "--inlines", "--obj=" + library], addresses),
            ("addr2line -i -f -C (binutils)",
             ["addr2line", "-i", "-f", "-C", "-e", library], addresses)):
        if not os.path.exists(command[0]) and not shutil.which(command[0]):
            result["rows"].append({"label": label, "missing": "not installed"})
            continue
        runs = []
        for number in range(rounds):
            progress("symbols: %s, round %d" % (label, number + 1))
            process = measure.Process(tools.spawn, command, {}, measure.CPUS[-1:], work, stdin)
            runs.append(process.finish())
            if label == "mayfly":
                result["text"] = process.output().decode("utf-8", "replace").replace(
                    os.path.dirname(library) + os.sep, "")
        result["rows"].append({
            "label": label, "cpu_s": [r["cpu_s"] for r in runs],
            "rss_bytes": max(r["rss_bytes"] for r in runs),
            "foreign": [r["foreign"] for r in runs],
            "missing": next((r["complaint"] for r in runs if r["status"]), None)})
    return result
