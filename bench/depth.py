# SPDX-License-Identifier: Apache-2.0
"""Deep recursion under exact recording: CPU time of everything, by depth, beside heaptrack's."""

import os
import shutil

import measure

STACK = 1 << 30  # bytes, the limit
NATIVE, RECORDED, HEAPTRACK = "native", "mayfly record -x", "heaptrack"
BLOCKS = 1000


def programs(quick):
    """(label, arguments of bench_deep)"""
    levels = [2500, 5000] if quick else [10000, 20000, 40000, 80000]
    deepest = 50000 if quick else 1000000
    return [("{:,} levels, a block at each".format(n), [str(n)]) for n in levels] + \
        [("{:,} levels, {:,} blocks at the innermost".format(deepest, BLOCKS), [str(deepest), str(BLOCKS)])]


def command(tools, variant, arguments, work):
    deep = [tools.program("bench_deep")] + arguments
    wrapped = {NATIVE: deep,
               RECORDED: [tools.mayfly, "record", "-q", "-x", "-o", os.path.join(work, "deep.mayfly"), "--"] + deep,
               HEAPTRACK: [tools.heaptrack, "-o", os.path.join(work, "deep.ht")] + deep}[variant]
    return ["prlimit", "--stack=%d:" % STACK] + wrapped


def measure_all(tools, rounds, quick, work, progress):
    result = {"rounds": rounds, "programs": [], "failed": None if shutil.which("prlimit") else "prlimit is missing."}
    if result["failed"]:
        return result
    variants = [NATIVE, RECORDED] + ([HEAPTRACK] if tools.heaptrack else [])
    for label, arguments in programs(quick):
        runs = {variant: [] for variant in variants}
        for number in range(rounds):
            for variant in measure.rotated(variants, number):
                progress("depth: %s, %s, round %d of %d" % (label, variant, number + 1, rounds))
                run = measure.Process(tools.spawn, command(tools, variant, arguments, work), {}, measure.CPUS, work).finish()
                if run["status"]:
                    result["failed"] = "%s, %s: %s" % (label, variant, run["complaint"])
                    return result
                runs[variant].append({key: run[key] for key in ("cpu_s", "rss_bytes", "foreign")})
        result["programs"].append({"label": label, "runs": runs})
    return result


def render(part, heading, table, quiet):
    data = part["data"]
    lines = heading("Deep recursion", part)
    if data["failed"]:
        return lines + ["", data["failed"], ""]
    rows, foreign = [], []
    for program in data["programs"]:
        cells = [program["label"]]
        for variant in (NATIVE, RECORDED, HEAPTRACK):
            runs = program["runs"].get(variant, [])
            foreign += [run["foreign"] for run in runs]
            cells.append("%.2f" % measure.median([run["cpu_s"] for run in runs]) if runs else "not installed")
        rows.append(cells)
    return lines + [quiet(foreign), "", "CPU time of the program and its recorder, in seconds. heaptrack cuts stacks at 64 frames; a "
                    "trace of ours has at least the 512 outermost and 768 innermost ones.", ""] + \
        table(["", "native", RECORDED, HEAPTRACK], rows)
