# SPDX-License-Identifier: Apache-2.0
"""How often the intervals that mayfly prints hold the truth, and how often diff and check are wrong about an
unchanged program. bench_coverage (coverage.c) simulates; here are the tables."""

import concurrent.futures
import json
import math
import os
import subprocess

import measure
import situations

RUNS, QUICK_RUNS = 200, 10
INTERVALS = [12, 14, 16, 19]
MODES = {"coverage": [], "pairs": ["--pairs"], "check": ["--check"]}
RECORDED, RECORDED_LOG2, RECORDED_RUNS = ["powerlaw", "aligned", "realloc"], 14, 20
SITUATION_RUNS = 20
RECORDED_BY = ["function", "total", "size", "heap"]
MERGES = [("merge10", 1), ("merge100", 1), ("merge1000", 5)]  # and which share of the runs is done
MERGES_LOG2, BLOCKS_LOG2 = [16, 18], [16, 19]
SAMPLERS = {"stratified": [], "Poisson": ["--poisson"], "OCaml": ["--ocaml"]}
ENOUGH = 100  # with fewer rows a percentage is mostly chance

EXPLANATION = """\
Rows that are compared: by function (self, and with callees), stack, line, thread, size, lifetime, freeing thread,
heap, label, and by function under a label. Rows without a sample count when there is something to find: their interval
is the one that an answer states for them. *total* is the total of an answer. *live*: at the end. *middle*: live when
half of the events are past. *survived*: allocated in the middle half of the events, and live after it. *peak*: the
total against the largest true total, rows against the true ones of that moment. *stated*: the same answers against
the truth at the moment that they state. An interval should hold the truth 93 to 98 times of 100.
"""


def run(command, **more):
    done = subprocess.run(command, capture_output=True, **more)
    if done.returncode:
        raise RuntimeError(done.stderr.decode("utf-8", "replace").strip()[-200:] or "%s: status %d" % (
            os.path.basename(command[0]), done.returncode))
    return done.stdout


def run_mode(tools, mode, log2, runs):
    return json.loads(run([tools.program("bench_coverage"), "--json", "--runs", str(runs), "--interval", str(log2)]
                          + MODES[mode]))["results"]


def run_scenario(tools, name, log2, runs, *more):
    return json.loads(run([tools.program("bench_coverage"), "--json", "--runs", str(max(2, runs)),
                           "--interval", str(log2), "--scenario", name, *more]))["results"][0]


def measure_merges(tools, pool, runs):
    jobs = [(name, log2, runs // share) for log2 in MERGES_LOG2 for name, share in MERGES]
    covered = list(pool.map(lambda job: run_scenario(tools, *job), jobs))
    pairs = list(pool.map(lambda job: run_scenario(tools, job[0], job[1], job[2] // 2, "--pairs"), jobs))
    return [{**entry, "runs": job[2], "diff": pair["diff"]}
            for job, entry, pair in zip(jobs, covered, pairs)]


def measure_blocks(tools, pool, runs):
    jobs = [(name, log2, sampler) for name in ("bigblock", "middleblock") for log2 in BLOCKS_LOG2
            for sampler in SAMPLERS]
    found = pool.map(lambda job: run_scenario(tools, job[0], job[1], runs, "--metric", "peak", "--by", "function",
                                              *SAMPLERS[job[2]]), jobs)
    return [{**entry, "sampler": job[2]} for job, entry in zip(jobs, found)]


def record(tools, runs, work):
    """The same with the agent in the loop: bench_replay does with malloc what the simulation says."""
    found = []
    for name in RECORDED:
        which = [tools.program("bench_coverage"), "--scenario", name, "--interval", str(RECORDED_LOG2)]
        stream = os.path.join(work, name + ".stream")
        traces = [os.path.join(work, "%s.%d.mayfly" % (name, number)) for number in range(1, runs + 1)]
        run(which + ["--write", stream])
        for number, trace in enumerate(traces, 1):
            run([tools.mayfly, "record", "-q", "--force", "-i", str(1 << RECORDED_LOG2), "-o", trace, "--",
                 tools.program("bench_replay"), stream], env={**os.environ, "MAYFLY": "seed=%d" % number})
        by = [word for key in RECORDED_BY for word in ("--by", key)]
        metrics = [word for key in ("allocated", "live", "leaked", "temporary", "peak") for word in ("--metric", key)]
        for label, more in (("recorded", traces), ("simulated", ["--runs", str(runs)] + metrics)):
            entry = json.loads(run(which + ["--json"] + by + more))["results"][0]
            found.append({**entry, "source": label})
        for path in [stream] + traces:
            os.remove(path)
    return found


def measure_all(tools, rounds, quick, work, progress):
    runs = rounds or (QUICK_RUNS if quick else RUNS)
    result = {"rounds": runs}
    if not os.path.exists(tools.program("bench_coverage")):
        result["failed"] = "bench_coverage is not built"
        return result
    jobs = [(mode, log2) for log2 in INTERVALS for mode in MODES]
    progress("coverage: %d runs of %d kinds" % (runs, len(jobs)))
    with concurrent.futures.ThreadPoolExecutor(len(measure.CPUS)) as pool:
        try:
            found = list(pool.map(lambda job: run_mode(tools, *job, runs), jobs))
            result["merges"] = measure_merges(tools, pool, runs)
            result["blocks"] = measure_blocks(tools, pool, runs)
            result["recorded"] = record(tools, min(runs, RECORDED_RUNS), work) if tools.has_mayfly() else []
            if tools.has_mayfly():
                result["situations"] = situations.measure_all(tools, min(runs, SITUATION_RUNS), work)
        except (RuntimeError, subprocess.CalledProcessError) as error:
            result["failed"] = str(error)
            return result
    for mode in MODES:
        result[mode] = [entry for job, entries in zip(jobs, found) if job[0] == mode for entry in entries]
    return result


# ---- Markdown

def interval_text(log2):
    return "%d KiB" % (1 << (log2 - 10)) if log2 >= 10 else "%d B" % (1 << log2)


def percent(part, whole):
    return 100 * part / whole if whole else math.nan


def of_interval(entries, log2):
    return [entry for entry in entries if entry["interval_log2"] == log2]


def figure_keys(data):
    return [(f["metric"], f["figure"]) for f in data["coverage"][0]["figures"]]


def figure_of(entry, key):
    return next(f for f in entry["figures"] if (f["metric"], f["figure"]) == key)


def worst_of(cells):
    """(coverage, scenario) of the scenario that has the lowest, or None."""
    known = [(percent(c["covered"], c["rows"]), name) for name, c in cells if c["rows"] >= ENOUGH]
    return min(known) if known else None


def coverage_cell(cells):
    rows = sum(c["rows"] for _, c in cells)
    if not rows:
        return ""
    text = "%.1f" % percent(sum(c["covered"] for _, c in cells), rows)
    worst = worst_of(cells)
    return text + (" (%.0f %s)" % worst if worst else "")


def coverage_table(data, log2, table):
    entries = of_interval(data["coverage"], log2)
    classes = list(entries[0]["figures"][0]["classes"])
    rows = []
    for key in figure_keys(data):
        figures = [(e["scenario"], figure_of(e, key)["classes"]) for e in entries]
        rows.append([" ".join(key)] + [coverage_cell([(name, f[n]) for name, f in figures]) for n in classes])
    return ["### Coverage at %s" % interval_text(log2), ""] + table(["samples"] + classes, rows)


def ratio_table(data, table):
    """Claimed over true variance."""
    classes = ["10-29", "30-99", "100+", "total"]
    rows = []
    for key in figure_keys(data):
        row = [" ".join(key)]
        for log2 in INTERVALS:
            for n in classes:
                cells = [figure_of(e, key)["classes"][n] for e in of_interval(data["coverage"], log2)]
                count = sum(c["ratios"] for c in cells)
                row.append("%.2f" % math.exp(sum(c["log_ratio"] for c in cells) / count) if count else "")
        rows.append(row)
    head = [""] + ["%s: %s" % (interval_text(log2), n) for log2 in INTERVALS for n in classes]
    return ["### Claimed variance over mean squared error", "",
            "Geometric mean over rows, by the expected number of samples. 1 is right; 4 is an interval of twice the"
            " necessary width.", ""] + table(head, rows)


def bias_table(data, table):
    rows = []
    for key in figure_keys(data):
        row = [" ".join(key)]
        for log2 in INTERVALS:
            figures = [figure_of(e, key) for e in of_interval(data["coverage"], log2)]
            count = sum(f["bias_rows"]["rows"] for f in figures)
            z = sum(f["bias_rows"]["z"] for f in figures)
            square = sum(f["bias_rows"]["square"] for f in figures)
            off = sum(f["off"] for f in figures) / len(figures)
            row.append("%.2f, %.2f; %+.1f %%" % (z / count, math.sqrt(square / count), 100 * off) if count else "")
        rows.append(row)
    return ["### Bias", "",
            "z of a row is its mean error over all runs, in standard errors of that mean: mean (0 without bias) and root"
            " mean square (1) over rows with 30 samples in all runs together; then the mean error of the totals.", ""] + \
        table([""] + [interval_text(log2) for log2 in INTERVALS], rows)


def lowest_cell(entry):
    known = [(percent(c["covered"], c["rows"]), "%s %s, %s" % (f["metric"], f["figure"], n))
             for f in entry["figures"] if f["metric"] != "peak"
             for n, c in f["classes"].items() if c["rows"] >= ENOUGH]
    return "%.0f %s" % min(known) if known else ""


def peak_cell(entry):
    figure = figure_of(entry, ("peak", "bytes"))
    total = figure["classes"]["total"]
    return "%.0f; %+.1f %%" % (percent(total["covered"], total["rows"]), 100 * figure["off"])


def scenario_tables(data, table):
    names = [e["scenario"] for e in of_interval(data["coverage"], INTERVALS[0])]
    head = [""] + [interval_text(log2) for log2 in INTERVALS]
    lines = []
    for title, cell in (("Lowest coverage of each scenario, without *peak*", lowest_cell),
                        ("The peak's total: coverage and mean error", peak_cell)):
        rows = [[name] + [next(cell(e) for e in of_interval(data["coverage"], log2) if e["scenario"] == name)
                          for log2 in INTERVALS] for name in names]
        lines += ["### " + title, ""] + table(head, rows)
    return lines


def diff_table(data, table):
    rows = []
    for log2 in INTERVALS:
        entries = of_interval(data["pairs"], log2)
        for number, first in enumerate(entries[0]["diff"]):
            cells = [(e["scenario"], e["diff"][number]) for e in entries]
            row = [interval_text(log2), first["metric"]]
            for key, whole in (("functions", "pairs"), ("stacks", "pairs"), ("total", "pairs"), ("found", "grown")):
                shares = [(percent(c[key], c[whole]), name) for name, c in cells if c[whole]]
                mean = sum(s for s, _ in shares) / len(shares) if shares else math.nan
                row.append("%.1f" % mean + ("" if key == "found" else " (%.0f %s)" % max(shares)))
            rows.append(row)
    return ["### diff: pairs of runs", "",
            "In % of the pairs, mean over scenarios and the worst one: an unchanged program has any function, any stack,"
            " or its total called changed (at most 5); and in a program in which the largest function's blocks are 30 %"
            " larger, that function is called so.", ""] + \
        table(["interval", "metric", "any function", "any stack", "total", "+30 % found"], rows)


def check_table(data, table):
    rows = []
    for log2 in INTERVALS:
        entries = of_interval(data["check"], log2)
        for number, first in enumerate(entries[0]["check"]):
            cells = [(e["scenario"], e["check"][number]) for e in entries]
            row = [interval_text(log2), "%s=%.0f%%" % (first["metric"], 100 * first["increase"])]
            for key in ("failed", "above", "surely"):
                shares = [(percent(c[key], c["pairs"]), name) for name, c in cells]
                row.append("%.1f (%.0f %s)" % (sum(s for s, _ in shares) / len(shares), *max(shares)))
            rows.append(row)
    return ["### check --max-increase: pairs of runs of an unchanged program", "",
            "In % of the pairs, mean over scenarios and the worst one: the limit fails; the estimate is above it; the"
            " whole interval is.", ""] + \
        table(["interval", "limit", "fails", "estimate above", "surely above"], rows)


def rows_cell(figure):
    """Coverage of all rows, and the lowest of a class of rows."""
    cells = [(n, c) for n, c in figure["classes"].items() if n != "total"]
    worst = worst_of([(n, c) for n, c in cells])
    return "%.1f" % percent(sum(c["covered"] for _, c in cells), sum(c["rows"] for _, c in cells)) + (
        " (%.0f: %s)" % worst if worst else "")


def merges_table(data, table):
    rows = []
    for entry in data["merges"]:
        for metric in ("allocated", "live", "peak"):
            bytes_, blocks = (figure_of(entry, (metric, figure)) for figure in ("bytes", "blocks"))
            total = bytes_["classes"]["total"]
            diff = next(d for d in entry["diff"] if d["metric"] == metric)
            rows.append(["%s, %s" % (entry["scenario"][5:], interval_text(entry["interval_log2"])), metric,
                         *("%.1f" % percent(f["classes"]["total"]["covered"], f["classes"]["total"]["rows"])
                           for f in (bytes_, blocks)),
                         "%.2f" % math.exp(total["log_ratio"] / total["ratios"]) if total["ratios"] else "",
                         "%+.1f %%" % (100 * bytes_["off"]), rows_cell(bytes_), rows_cell(blocks),
                         ", ".join("%.1f" % percent(diff[key], diff["pairs"])
                                   for key in ("functions", "stacks", "total"))])
    return ["### Merged runs of a short program", "",
            "%s runs of one program that allocates some 700 KB, merged: coverage of the totals; claimed variance over mean"
            " squared error, and mean error, of the total's bytes; coverage of rows, and that of the class by number of"
            " samples with the lowest; and in %% of pairs of unchanged merges, any function, any stack, or the total"
            " called changed. Merges are made %s times, pairs half as often."
            % (", ".join(name[5:] for name, _ in MERGES),
               ", ".join(sorted({str(e["runs"]) for e in data["merges"]}, key=int))), ""] + \
        table(["traces", "metric", "total bytes", "total blocks", "variance", "off", "rows: bytes", "rows: blocks",
               "diff"], rows)


def blocks_table(data, table):
    rows = []
    for entry in data["blocks"]:
        figure = figure_of(entry, ("peak", "bytes"))
        total = figure["classes"]["total"]
        rows.append([entry["scenario"], interval_text(entry["interval_log2"]), entry["sampler"],
                     "%+.1f %%" % (100 * figure["off"]), "%.2f" % figure["least"],
                     "%.1f" % percent(total["covered"], total["rows"]), rows_cell(figure)])
    return ["### A peak of one block", "",
            "A steady megabyte, and for a moment a block of 64 MiB (*bigblock*) or of three intervals (*middleblock*): the"
            " peak's mean error, its lowest estimate as a share of the truth, coverage of the total and of rows by"
            " function. %d runs." % data["rounds"], ""] + \
        table(["program", "interval", "sampler", "off", "lowest", "total", "rows"], rows)


def pooled(entry, n):
    """Coverage of bytes and blocks over all metrics but the peak."""
    shares = []
    for figure in ("bytes", "blocks"):
        cells = [f["classes"][n] for f in entry["figures"] if f["figure"] == figure and f["metric"] != "peak"]
        rows = sum(c["rows"] for c in cells)
        if not rows:
            return ""
        shares.append(percent(sum(c["covered"] for c in cells), rows))
    return "%.1f, %.1f" % tuple(shares)


def z_cell(entry, key):
    bias = figure_of(entry, key)["bias_rows"]
    return "%.2f, %.2f" % (bias["z"] / bias["rows"], math.sqrt(bias["square"] / bias["rows"])) if bias["rows"] else ""


def recorded_table(data, table):
    if not data["recorded"]:
        return []
    classes = list(data["recorded"][0]["figures"][0]["classes"])
    rows = [["%s, %s" % (e["scenario"], e["source"])] + [pooled(e, n) for n in classes]
            + [z_cell(e, ("allocated", "bytes")), z_cell(e, ("live", "bytes")), peak_cell(e)]
            for e in data["recorded"]]
    return ["### The agent in the loop", "",
            "`bench_replay` does three of the programs with the real malloc, under `mayfly record` at %s, %d times each,"
            " beside as many simulated runs: coverage of bytes and of blocks, by function, size and heap and over all"
            " metrics but the peak; bias (mean and root mean square of z) of allocated and live bytes; the peak's total."
            % (interval_text(RECORDED_LOG2), min(data["rounds"], RECORDED_RUNS)), ""] + \
        table([""] + classes + ["allocated", "live", "peak"], rows)


def render(part, heading, table):
    """The section's lines. heading and table are render.py's."""
    data = part["data"]
    lines = heading("Coverage", part) + [""]
    if data.get("failed"):
        return lines + [data["failed"], ""]
    whats = {e["scenario"]: e["what"] for e in data["coverage"]}
    lines += ["%d runs of each of %d programs, simulated with a seed: the agent's sampler, a trace, its answers. In"
              " tables of coverage a cell has %% of all rows, and the program with the lowest (of %d rows at least)."
              % (data["rounds"], len(whats), ENOUGH), "", EXPLANATION]
    lines += ["- **%s**: %s" % item for item in whats.items()] + [""]
    for log2 in INTERVALS:
        lines += coverage_table(data, log2, table)
    return lines + ratio_table(data, table) + bias_table(data, table) + scenario_tables(data, table) + \
        diff_table(data, table) + check_table(data, table) + merges_table(data, table) + \
        blocks_table(data, table) + recorded_table(data, table) + \
        (situations.render_table(data["situations"], table) if "situations" in data else [])
