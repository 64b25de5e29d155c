# SPDX-License-Identifier: Apache-2.0
"""What `mayfly heap` costs: the stop of the process, time and memory, beside gcore."""

import json
import os
import shutil
import subprocess

import measure

HEAPS = [("a small one", 2000, 1 << 18), ("3 M blocks, 384 MiB", 3000000, 384 << 20),
         ("3 M blocks, 1 GiB", 3000000, 1 << 30)]
QUICK = [HEAPS[0], ("300 k blocks, 100 MiB", 300000, 100 << 20)]
VARIANTS = [("mayfly heap", []), ("mayfly heap --waste", ["--waste"])]


def resident(pid):
    with open("/proc/%d/status" % pid) as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmRSS:"))


def once(tools, work, pid, options):
    process = measure.Process(tools.spawn, [tools.mayfly, "heap", "--json", *options, str(pid)], {}, measure.CPUS, work)
    run = process.finish()
    if run["status"]:
        raise RuntimeError("mayfly heap: " + run["complaint"])
    picture = json.loads(process.output())
    return {"wall_s": run["wall_s"], "cpu_s": run["cpu_s"], "rss_bytes": run["rss_bytes"], "foreign": run["foreign"],
            "stopped_ns": picture["stopped_ns"], "read": picture["read"], "blocks": picture["blocks"],
            "bytes": picture["bytes"]}


def core(tools, work, pid):
    path = os.path.join(work, "core")
    run = measure.Process(tools.spawn, ["gcore", "-o", path, str(pid)], {}, measure.CPUS, work).finish()
    size = os.path.getsize("%s.%d" % (path, pid))
    os.unlink("%s.%d" % (path, pid))
    if run["status"]:
        raise RuntimeError("gcore: " + run["complaint"])
    return {"wall_s": run["wall_s"], "cpu_s": run["cpu_s"], "rss_bytes": run["rss_bytes"], "foreign": run["foreign"],
            "bytes": size}


def of_heap(tools, rounds, work, name, blocks, size, progress):
    found = {label: [] for label, _ in VARIANTS}
    if shutil.which("gcore"):
        found["gcore"] = []
    with subprocess.Popen([tools.program("bench_heap_filled"), str(blocks), str(size)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as program:
        try:
            program.stdout.readline()
            in_memory = resident(program.pid)
            for number in range(rounds):
                progress("heap: %s, round %d of %d" % (name, number + 1, rounds))
                for label, options in measure.rotated(VARIANTS, number):
                    found[label].append(once(tools, work, program.pid, options))
                if "gcore" in found:
                    found["gcore"].append(core(tools, work, program.pid))
        finally:
            program.kill()
    return {"name": name, "resident": in_memory, "runs": found}


def measure_all(tools, rounds, quick, work, progress):
    result = {"rounds": rounds, "heaps": []}
    try:
        for name, blocks, size in QUICK if quick else HEAPS:
            result["heaps"].append(of_heap(tools, rounds, work, name, blocks, size, progress))
    except RuntimeError as problem:
        result["failed"] = str(problem)
    return result


def medians(runs, key):
    return measure.median([run[key] for run in runs])


def bytes_a_block(data, heap, label):
    """Beyond what the small heap needs."""
    base = medians(data["heaps"][0]["runs"][label], "rss_bytes")
    runs = heap["runs"][label]
    return (medians(runs, "rss_bytes") - base) / runs[0]["blocks"]


def render(part, heading, table, quiet):
    data = part["data"]
    lines = heading("Who holds it", part)
    if "failed" in data:
        return lines + ["", data["failed"], ""]
    rows = []
    for heap in data["heaps"][1:]:
        for label, runs in heap["runs"].items():
            cells = ["-"] * 3
            if label != "gcore":
                cells = ["%.1f" % (medians(runs, "stopped_ns") / 1e6 / (heap["resident"] / (1 << 30))),
                         "%.2f M" % (runs[0]["blocks"] / medians(runs, "cpu_s") / 1e6),
                         "%.1f" % bytes_a_block(data, heap, label)]
            rows.append([heap["name"] + ": " + label, "%.2f" % medians(runs, "wall_s"), "%.2f" % medians(runs, "cpu_s")] +
                        cells)
    foreign = [run["foreign"] for heap in data["heaps"] for runs in heap["runs"].values() for run in runs]
    return lines + [quiet(foreign), "", "`mayfly heap` of a process with lists of small blocks, a third of them "
                    "with contents that come again; gcore writes a core file and stops the process meanwhile. Medians of "
                    "%d rounds. Memory is that of mayfly, less what it needs for a heap of 2,000 blocks." % data["rounds"],
                    ""] + table(["", "seconds", "CPU, s", "stop, ms a GiB", "blocks a second of CPU", "bytes a block"], rows)
