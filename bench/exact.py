# SPDX-License-Identifier: Apache-2.0
"""Every allocation: what it costs, what it leaves, and whether the figures are those of heaptrack."""

import glob
import json
import os
import shutil
import subprocess

import inputs
import macro
import measure
from variants import Variant


def git(folder, name, commits, files):
    """A repository made of a generated history. Its path."""
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        history = inputs.make(folder, name + ".history", inputs.git_history, commits, files)
        shutil.rmtree(path + ".part", ignore_errors=True)
        subprocess.run(["git", "init", "-q", path + ".part"], check=True)
        with open(history, "rb") as source:
            subprocess.run(["git", "-C", path + ".part", "fast-import", "--quiet"], stdin=source,
                           check=True)
        os.unlink(history)
        os.rename(path + ".part", path)
    return path


def programs(tools, folder, quick):
    """Those of macro.py, and two more with few allocations for their time. None is pinned: the
    recorder and heaptrack's interpreter want a CPU of their own."""
    def sized(full, small):
        return small if quick else full
    tag = "-quick" if quick else ""
    makers = dict(zip(macro.NAMES, macro.programs(tools, folder, quick)))
    makers["git"] = lambda: macro.Program(
        "git", "git log -p --stat -M of %d commits" % sized(1500, 150), "git",
        ["git", "--no-pager", "-C", git(folder, "history" + tag, sized(1500, 150), 120), "log", "-p",
         "--stat", "-M", "main"])
    makers["z3"] = lambda: macro.Program(
        "z3", "z3 on a job shop", "z3",
        ["z3", "rlimit=%d" % sized(25000000, 4000000),
         inputs.make(folder, "jobshop.smt2", inputs.smt, 12, 8)])
    return makers


NAMES = macro.NAMES + ["git", "z3"]


def variants(tools, heaptrack_rounds):
    all_variants = {v.name: v for v in tools.macro(heaptrack_rounds)}
    exact = Variant("exact", "mayfly record -x", "native", file="exact.mayfly",
                    missing=None if tools.has_mayfly() else "not built",
                    wrap=lambda command, work: [
                        tools.mayfly, "record", "-x", "-o", os.path.join(work, "exact.mayfly"), "--"]
                    + command)
    return [all_variants["native"], exact, all_variants["native-again"],
            all_variants["heaptrack-in-process"], all_variants["heaptrack"]]


def info(tools, path):
    result = subprocess.run([tools.mayfly, "info", "--json", path], capture_output=True)
    return json.loads(result.stdout) if result.returncode == 0 else {}


def summary(tools, path):
    """What heaptrack_print's last lines say, of a trace of ours."""
    said = info(tools, path)

    def total(metric):
        result = subprocess.run([tools.mayfly, "report", "--json", "--metric", metric, "--top", "1",
                                 path], capture_output=True, check=True)
        return json.loads(result.stdout)["total"]
    allocated, peak, leaked = total("allocated"), total("peak"), total("leaked")
    return {"allocations": allocated["blocks"]["estimate"],
            "allocated_bytes": allocated["bytes"]["estimate"],
            "peak_bytes": peak["bytes"]["estimate"], "leaked_bytes": leaked["bytes"]["estimate"],
            "dropped": said.get("dropped_samples"), "file_bytes": said.get("file_bytes")}


def heaptrack_summary(path):
    """The same sums over heaptrack's own file. Its lines (heaptrack 1.4): "a SIZE TRACE" a new kind
    of allocation, "+ KIND", "- KIND", all in hexadecimal."""
    sizes, live, peak, allocations, allocated = [], 0, 0, 0, 0
    reader = subprocess.Popen(["zstd", "-dc", path], stdout=subprocess.PIPE)
    for line in reader.stdout:
        kind = line[:2]
        if kind == b"+ ":
            size = sizes[int(line[2:], 16)]
            allocations += 1
            allocated += size
            live += size
            if live > peak:
                peak = live
        elif kind == b"- ":
            live -= sizes[int(line[2:], 16)]
        elif kind == b"a ":
            sizes.append(int(line.split()[1], 16))
    if reader.wait():
        return None
    return {"allocations": allocations, "allocated_bytes": allocated, "peak_bytes": peak,
            "leaked_bytes": live, "file_bytes": os.path.getsize(path)}


def reading(tools, work, quick):
    """From the file to the first report."""
    found = {}
    commands = {"exact": [tools.mayfly, "report"], "heaptrack": [tools.heaptrack_print]}
    for name, pattern in (("exact", "exact.mayfly"), ("heaptrack", "ht.full.*")):
        files = glob.glob(os.path.join(work, pattern))
        if not files or not commands[name][0]:
            continue
        runs = [measure.Process(tools.spawn, commands[name] + files[:1], {}, measure.CPUS, work).finish()
                for _ in range(1 if quick else 3)]
        found[name] = {"wall_s": measure.median([r["wall_s"] for r in runs]),
                       "rss_bytes": max(r["rss_bytes"] for r in runs),
                       "failed": next((r["complaint"] for r in runs if r["status"]), None)}
    return found


def measure_program(tools, program, rounds, heaptrack_rounds, work, quick, progress):
    program.one_cpu = False
    present = [v for v in variants(tools, heaptrack_rounds)]
    result = {"name": program.name, "what": program.what, "runs": {}, "failed": {},
              "missing": {v.name: v.missing for v in present if v.missing}}
    present = [v for v in present if not v.missing]
    for number in range(rounds):
        for variant in measure.rotated(present, number):
            if variant.name in result["failed"] or \
                    variant.rounds is not None and number >= variant.rounds:
                continue
            progress("%s: %s, round %d of %d" % (program.name, variant.label, number + 1, rounds))
            macro.clear(variant, work)
            try:
                run = program.run(tools, variant, work)
                if run["status"]:
                    raise RuntimeError("status %d: %s" % (run["status"], run["complaint"]))
            except (RuntimeError, subprocess.CalledProcessError) as error:
                result["failed"][variant.name] = str(error)
                continue
            run["round"] = number
            if variant.name == "exact":
                said = info(tools, os.path.join(work, "exact.mayfly"))
                run["recorder_and_program_cpu_s"] = run["cpu_s"]
                run["in_process_cpu_s"] = said["program_cpu_ns"] / 1e9
                run["in_process_rss_bytes"] = said["program_max_rss_bytes"]
                run["info"] = {key: said[key] for key in ("samples", "file_bytes", "dropped_samples")}
            result["runs"].setdefault(variant.name, []).append(run)
    result["reading"] = reading(tools, work, quick)
    trace = os.path.join(work, "exact.mayfly")
    if os.path.exists(trace):
        progress("%s: sums" % program.name)
        result["mayfly"] = summary(tools, trace)
    found = glob.glob(os.path.join(work, "ht.full.*"))
    if found:
        result["heaptrack"] = heaptrack_summary(found[0])
    for variant in present:
        macro.clear(variant, work)
    return result


def measure_all(tools, rounds, quick, work, progress, chosen):
    results = {"rounds": rounds, "heaptrack_rounds": min(rounds, 2), "programs": []}
    makers = programs(tools, os.path.join(os.path.dirname(work), "macro", "inputs"), quick)
    for name in NAMES:
        if name not in chosen:
            continue
        progress("%s: input" % name)
        program = makers[name]()
        if program.missing():
            results["programs"].append({"name": name, "what": program.what,
                                        "absent": program.missing()})
            continue
        results["programs"].append(measure_program(
            tools, program, rounds, results["heaptrack_rounds"], work, quick, progress))
    return results
