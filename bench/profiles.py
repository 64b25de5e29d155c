# SPDX-License-Identifier: Apache-2.0
"""Where the CPU time of exact recording goes: perf's samples of the program, the agent and the recorder, by function."""

import collections
import os
import shutil
import subprocess

import exact
import macro
from variants import Variant

FUNCTIONS = 12  # of the agent, and of the recorder, in the table
PLACES = ["program", "kernel, for the program", "agent", "recorder", "kernel, for the recorder", "zstd"]


def perf(file, command, work):
    # A clock of the kernel's, as virtual machines have no counters of cycles.
    return ["perf", "record", "-q", "-e", "cpu-clock", "-F", "1999", "-o", os.path.join(work, file), "--"] + command


def variants(tools):
    missing = None if shutil.which("perf") else "perf is not installed"
    return (Variant("native", "native", None, missing=missing, wrap=lambda command, work: perf("native.data", command, work)),
            Variant("exact", "mayfly record -x", "native", file="*.mayfly", missing=missing, wrap=lambda command, work: perf(
                "exact.data", [tools.mayfly, "record", "-x", "-o", os.path.join(work, "exact.mayfly"), "--"] + command, work)))


def samples(path):
    """Yields (command, object, function, count)."""
    result = subprocess.run(["perf", "report", "-i", path, "--stdio", "-n", "-F", "sample,comm,dso,sym", "-t", ";"],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    for line in result.stdout.splitlines():
        fields = [field.strip() for field in line.split(";", 3)]
        if len(fields) == 4 and fields[0].isdigit():
            yield fields[1], fields[2], fields[3].split("] ", 1)[-1].split(".")[0], int(fields[0])


def place(command, dso):
    recorder, kernel = command == "mayfly", dso.startswith("[")
    if recorder:
        return PLACES[4] if kernel else "zstd" if dso.startswith("libzstd") else "recorder"
    return "agent" if dso.startswith("libmayfly") else PLACES[1] if kernel else "program"


def measure_program(tools, program, work):
    program.one_cpu = False
    for variant in variants(tools):
        if variant.missing:
            return {"failed": variant.missing}
        macro.clear(variant, work)
        run = program.run(tools, variant, work)
        if run["status"]:
            return {"failed": "status %d: %s" % (run["status"], run["complaint"])}
    native = sum(n for *_, n in samples(os.path.join(work, "native.data")))
    places, functions = collections.Counter(), collections.Counter()
    for command, dso, function, n in samples(os.path.join(work, "exact.data")):
        where = place(command, dso)
        places[where] += n
        if where in ("agent", "recorder"):
            functions[where + ": " + function] += n
    return {"failed": None, "samples": native, "places": {p: n / native for p, n in places.items()},
            "functions": {f: n / native for f, n in functions.items()}}


def measure_all(tools, rounds, quick, work, progress, chosen):
    result = {"rounds": 1, "programs": {}}
    makers = exact.programs(tools, os.path.join(os.path.dirname(work), "macro", "inputs"), quick)
    for name in (name for name in exact.NAMES if name in chosen):
        progress("profile: " + name)
        program = makers[name]()
        if not program.missing():
            result["programs"][name] = measure_program(tools, program, work)
    return result


def render(part, heading, table):
    programs = part["data"]["programs"]
    good = {name: p for name, p in programs.items() if not p["failed"]}

    def rows(kind, names):
        return [[name] + ["%.1f" % (100 * p[kind].get(name, 0)) for p in good.values()] for name in names]
    lines = heading("Profile of exact recording", part)
    lines += ["", "Samples by perf of `mayfly record -x`, in % of the samples of the program alone: 100 is its CPU time without "
              "mayfly. The sum of a column above 100 is what recording adds.", ""]
    lines += ["%s: %s" % (name, p["failed"]) for name, p in programs.items() if p["failed"]]
    if not good:
        return lines + [""]
    lines += table([""] + list(good), rows("places", PLACES))
    for where in ("agent", "recorder"):
        worst = collections.Counter()
        for p in good.values():
            for function, share in p["functions"].items():
                if function.startswith(where + ": "):
                    worst[function] = max(worst[function], share)
        lines += table([""] + list(good), rows("functions", [f for f, _ in worst.most_common(FUNCTIONS)]))
    return lines
