# SPDX-License-Identifier: Apache-2.0
"""Bytes in the file for each sample: mayfly at several intervals beside perf record with its three
kinds of call graphs, over several runs. Memtrace's own description has such a figure."""

import html
import json
import math
import os
import re
import shutil
import subprocess

import exact
import measure

INTERVALS = ["4M", "512K", "64K"]
RATES = [99, 499, 1999]  # samples a second
GRAPHS = [("none", []), ("fp", ["--call-graph", "fp"]), ("dwarf", ["--call-graph", "dwarf"])]
PROGRAMS = ["clang", "python", "sqlite", "git"]


def run(command, program, work):
    with open(os.path.join(work, "stdout"), "wb") as out, \
            open(program.stdin or os.devnull, "rb") as source:
        result = subprocess.run(command, stdin=source, stdout=out, stderr=subprocess.PIPE, cwd=work,
                                env=dict(os.environ, LC_ALL="C", **program.env))
    return result.returncode, result.stderr.decode("utf-8", "replace")


def mayfly_point(tools, program, interval, work):
    trace = os.path.join(work, "t.mayfly")
    code, said = run([tools.mayfly, "record", "-i", interval, "-o", trace, "--"] + program.command,
                     program, work)
    result = subprocess.run([tools.mayfly, "info", "--json", trace], capture_output=True)
    if code or result.returncode:
        raise RuntimeError(said.strip()[-200:])
    info = json.loads(result.stdout)
    os.unlink(trace)
    return info["samples"], info["file_bytes"]


def perf_point(program, rate, options, work):
    data = os.path.join(work, "perf.data")
    code, said = run(["perf", "record", "-e", "cpu-clock", "-F", str(rate), "-o", data] + options
                     + ["--"] + program.command, program, work)
    found = re.search(r"\((\d+) samples\)", said)
    if code or not found:
        raise RuntimeError(said.strip()[-200:])
    size = os.path.getsize(data)
    os.unlink(data)
    return int(found.group(1)), size


def measure_all(tools, rounds, quick, work, progress, chosen):
    makers = exact.programs(tools, os.path.join(os.path.dirname(work), "macro", "inputs"), quick)
    ways = [("mayfly " + interval, "mayfly", interval) for interval in INTERVALS]
    ways += [("perf %s, %d Hz" % (graph, rate), "perf", (rate, options))
             for graph, options in GRAPHS for rate in RATES]
    results = {"rounds": rounds, "programs": []}
    for name in PROGRAMS:
        if name not in chosen:
            continue
        program = makers[name]()
        if program.missing():
            continue
        points, failed = {}, {}
        for number in range(rounds):
            for label, tool, how in ways:
                if label in failed:
                    continue
                progress("%s: %s, round %d of %d" % (name, label, number + 1, rounds))
                try:
                    if tool == "perf" and not shutil.which("perf"):
                        raise RuntimeError("perf is not installed")
                    samples, size = mayfly_point(tools, program, how, work) if tool == "mayfly" \
                        else perf_point(program, *how, work)
                except RuntimeError as error:
                    failed[label] = str(error)
                    continue
                if samples:
                    points.setdefault(label, []).append([samples, size])
        results["programs"].append({"name": name, "what": program.what, "points": points,
                                    "failed": failed})
    results["order"] = [label for label, _, _ in ways]
    return results


# ---- the picture

LEFT, WIDTH, ROW, GAP, TOP = 170, 760, 18, 26, 46
COLOURS = {"mayfly": "#1b6ca8", "none": "#8a8a8a", "fp": "#b8860b", "dwarf": "#b03a2e"}


def colour(label):
    return COLOURS[label.split()[0] if label.startswith("mayfly") else
                   label.split()[1].rstrip(",")]


def picture(data):
    """One row for each way, one mark for each run; bytes per sample on a logarithmic axis."""
    values = [size / samples for p in data["programs"] for points in p["points"].values()
              for samples, size in points]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def x(value):
        return LEFT + (math.log10(value) - low) / (high - low) * (WIDTH - LEFT - 20)
    rows = sum(1 + len(p["points"]) for p in data["programs"])
    height = TOP + rows * ROW + len(data["programs"]) * GAP
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" '
           'font-size="12">' % (WIDTH, height),
           '<rect width="100%" height="100%" fill="white"/>',
           '<text x="%d" y="18" font-size="14">Bytes in the file for each sample (one mark a run)'
           '</text>' % LEFT]
    for power in range(low, high + 1):
        out.append('<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#dddddd"/>' % (
            x(10 ** power), x(10 ** power), TOP - 8, height - 8))
        out.append('<text x="%.1f" y="%d" text-anchor="middle" fill="#555555">%s</text>' % (
            x(10 ** power), TOP - 12, format(10 ** power, ",d") if power >= 0 else 10.0 ** power))
    y = TOP + ROW
    for program in data["programs"]:
        out.append('<text x="8" y="%d" font-weight="bold">%s</text>' % (y, html.escape(program["name"])))
        y += ROW
        for label in data["order"]:
            points = program["points"].get(label)
            if not points:
                continue
            out.append('<text x="%d" y="%d" text-anchor="end">%s</text>' % (
                LEFT - 10, y, html.escape(label)))
            out += ['<circle cx="%.1f" cy="%d" r="4" fill="%s" fill-opacity="0.6"/>' % (
                x(size / samples), y - 4, colour(label)) for samples, size in points]
            y += ROW
        y += GAP
    return "\n".join(out + ["</svg>", ""])


def median_samples(points):
    return measure.median([samples for samples, _ in points])
