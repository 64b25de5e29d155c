# SPDX-License-Identifier: Apache-2.0
"""Standard errors of sampling rules on real sequences of allocations, which mayfly itself records,
and what a sample costs. bench_estimators (estimators.c) has the rules."""

import json
import math
import os
import subprocess

import exact
import macro
import measure

LOG2 = 19  # of the interval that all rules are compared at, 512 KiB
NAMES = exact.NAMES
ROWS = 20
SETS = ["live functions", "allocated functions", "live stacks", "allocated stacks"]

# What a sample costs is the difference between these two, in CPU time and in samples.
FINE, COARSE = "4K", "512K"


def relative(part, whole):
    return part / whole if whole > 0 else 0.0


def rows_of(values, number):
    return values[2 + number * ROWS:2 + (number + 1) * ROWS]


def root_mean_square(values):
    return math.sqrt(sum(v * v for v in values) / len(values)) if values else None


def row_ratios(rule, base, small, number, least):
    """Standard errors over those of the base, of rows that are worth at least one sample without
    their large blocks."""
    return [error / other for error, other, bytes_ in zip(
        rows_of(rule["stderr"], number), rows_of(base["stderr"], number), rows_of(small, number))
        if bytes_ >= least and other > 0]


def digest(found):
    """What the tables need of bench_estimators' output."""
    base = found["rules"][0]
    truth, interval = found["truth"], found["interval"]
    result = {key: found[key] for key in ("blocks", "live_blocks", "threads", "interval")}
    result["allocated_bytes"], result["peak_bytes"] = truth[:2]
    result["samples"] = base["samples"]
    result["poisson"] = {"allocated": relative(base["stderr"][0], truth[0]),
                         "peak": relative(base["stderr"][1], truth[1])}
    for number, name in enumerate(SETS):
        errors = [relative(e, t) for e, t in zip(rows_of(base["stderr"], number),
                                                 rows_of(truth, number)) if t > 0]
        result["poisson"][name] = measure.median(errors) if errors else None
    result["rules"] = []
    for rule in found["rules"]:
        entry = {"name": rule["name"], "samples": rule["samples"], "simulated": rule["simulated"],
                 "peak": relative(rule["stderr"][1], base["stderr"][1]),
                 "allocated": relative(rule["stderr"][0], base["stderr"][0])
                 if rule["stderr"][0] >= 0 else None,
                 "bias": max(map(abs, rule["bias"])) if "bias" in rule else None}
        for number, name in enumerate(SETS):
            entry[name] = root_mean_square(row_ratios(rule, base, found["small"], number, interval))
        result["rules"].append(entry)
    return result


def clear(work):
    macro.clear(exact.Variant("exact", "", None, file="*.mayfly"), work)
    macro.clear(exact.Variant("spools", "", None, file="*.spool"), work)


def record_exactly(tools, program, work):
    """The path of an exact trace."""
    variant = next(v for v in exact.variants(tools, 1) if v.name == "exact")
    run = program.run(tools, variant, work)
    if run["status"]:
        raise RuntimeError("status %d: %s" % (run["status"], run["complaint"]))
    return os.path.join(work, "exact.mayfly")


def compute(tools, trace, runs):
    done = subprocess.run([tools.program("bench_estimators"), trace, str(runs), str(LOG2)],
                          capture_output=True)
    if done.returncode:
        raise RuntimeError(done.stderr.decode("utf-8", "replace").strip()[-200:])
    return digest(json.loads(done.stdout))


def sample_cost(tools, program, rounds, work):
    """Nanoseconds of CPU time for each additional sample, of each round."""
    found = []
    for number in range(rounds):
        cpu, samples = {}, {}
        for interval in measure.rotated([FINE, COARSE], number):
            clear(work)
            variant = tools.agent_variant("cost", "", "interval=" + interval)
            run = program.run(tools, variant, work)
            if run["status"]:
                raise RuntimeError("status %d: %s" % (run["status"], run["complaint"]))
            files = exact.Variant("mayfly", "", None, file=variant.file)
            macro.collect_file(tools, files, work, run)
            cpu[interval] = run["cpu_s"]
            samples[interval] = run.get("info", {}).get("samples", 0)
        more = samples[FINE] - samples[COARSE]
        if more > 1000:
            found.append(1e9 * (cpu[FINE] - cpu[COARSE]) / more)
    return found


def measure_program(tools, name, make, rounds, runs, work, progress):
    program = make()
    result = {"name": name, "what": program.what}
    if program.missing():
        result["absent"] = program.missing()
        return result
    try:
        clear(work)
        progress("estimators: recording %s" % name)
        trace = record_exactly(tools, program, work)
        progress("estimators: computing %s" % name)
        result["errors"] = compute(tools, trace, runs)
        clear(work)
        progress("estimators: cost of a sample in %s" % name)
        result["cost_ns"] = sample_cost(tools, program, rounds, work)
    except (RuntimeError, subprocess.CalledProcessError) as error:
        result["failed"] = str(error)
    clear(work)
    return result


def measure_all(tools, rounds, quick, work, progress, names):
    result = {"rounds": rounds, "interval": 1 << LOG2, "programs": [], "runs": 20 if quick else 200,
              "fine": FINE, "coarse": COARSE}
    if not os.path.exists(tools.program("bench_estimators")):
        result["failed"] = "bench_estimators is not built"
        return result
    makers = exact.programs(tools, os.path.join(work, "inputs"), quick)
    for name in NAMES:
        if name in names:
            result["programs"].append(measure_program(tools, name, makers[name], rounds,
                                                      result["runs"], work, progress))
    return result


# ---- Markdown

EXPLANATION = """\
- **poisson**: each byte with the same chance, p = 1 - exp(-Z/R), weight Z/p; the base.
- **each block alike**: 1 block in N, whatever its size. **n points count n R**: as poisson, but the
  number of points in a block is its weight (OCaml's estimator).
- **optimum**: each size, or size and caller of malloc, with the chance that is best for live bytes
  when the program is known beforehand: a bound and not a rule.
- **stratified**: one uniform point in each R/16 bytes of a thread's blocks smaller than R; of 16
  successive points in blocks of one class (caller of malloc, and size to a quarter of a power of two)
  one, drawn at random. Classes are kept in a table of 256, by a hash. This is mayfly's rule.
- **stratified, one class**: one uniform point in each R bytes; what mayfly does under `--overhead`.
- **fixed stride**: the points are R apart. **antithetic**, **Latin hypercube**, **golden ratio**,
  **van der Corput**: the places in successive strata depend on each other.
- **1 of n ...**: as stratified, with other groups or classes.
"""


def shown(programs):
    return [p for p in programs if "errors" in p]


def percent(value):
    if value is None:
        return "-"
    return "%.2f" % (100 * value) if value < 0.0995 else "%.0f" % (100 * value)


def ratio(value):
    if value is None:
        return "-"
    return "%.2f" % value if value < 9.995 else "%.0f" % value


def cell(rule, key):
    # What never lives at the peak has the chance 0 there, so all that is allocated is not estimated.
    if rule["name"].startswith("optimum") and key.startswith("allocated"):
        return "-"
    return ratio(rule[key])


def ratio_rows(programs, key):
    names = [rule["name"] for rule in programs[0]["errors"]["rules"]]
    return [[name] + [cell(p["errors"]["rules"][number], key) for p in programs]
            for number, name in enumerate(names)]


def render(part, heading, table, size):
    """The section's lines. heading, table and size are render.py's."""
    data = part["data"]
    lines = heading("Estimators", part) + [""]
    if data.get("failed"):
        return lines + [data["failed"], ""]
    programs = shown(data["programs"])
    for p in data["programs"]:
        if p not in programs:
            lines += ["- %s: %s" % (p["name"], p.get("absent") or "failed: " + p["failed"][:100])]
    if not programs:
        return lines + [""]
    head = [""] + [p["name"] for p in programs]
    lines += ["Standard errors of sampling rules on the sequences of allocations of real programs,"
              " recorded by `mayfly record -x`. Computed where a formula exists, else from %d"
              " simulated runs (which know a standard error to %.0f %%). All at the number of samples"
              " that poisson takes at %s." % (data["runs"], 100 / math.sqrt(2 * data["runs"]),
                                              size(data["interval"])), ""]
    lines += table(head, [
        ["blocks allocated"] + [p["errors"]["blocks"] for p in programs],
        ["bytes allocated"] + [size(p["errors"]["allocated_bytes"]) for p in programs],
        ["bytes at the peak"] + [size(p["errors"]["peak_bytes"]) for p in programs],
        ["samples"] + ["%.0f" % p["errors"]["samples"] for p in programs]])
    lines += ["### poisson: relative standard error in %", ""]
    lines += table(head, [
        [label] + [percent(p["errors"]["poisson"][key]) for p in programs] for label, key in (
            ("live total at the peak", "peak"), ("top 20 functions, median", "live functions"),
            ("top 20 stacks, median", "live stacks"), ("allocated total", "allocated"),
            ("top 20 functions, median", "allocated functions"),
            ("top 20 stacks, median", "allocated stacks"))])
    lines += ["### Other rules, relative to poisson", "", EXPLANATION]
    for title, key in (("Live total at the peak", "peak"),
                       ("Live bytes of the top 20 functions, root mean square", "live functions"),
                       ("Allocated bytes of the top 20 functions, root mean square",
                        "allocated functions"), ("Allocated total", "allocated")):
        lines += ["**%s** (rows that expect a sample or more):" % title
                  if "top" in title else "**%s**:" % title, ""]
        lines += table(head, ratio_rows(programs, key))
    worst = max((rule["bias"], rule["name"], p["name"]) for p in programs
                for rule in p["errors"]["rules"] if rule["bias"] is not None)
    lines += ["Bias: of all figures, rules and programs that were simulated, the mean was at most %.1f"
              " standard errors of the mean off (%s, %s)." % worst, ""]
    return lines + render_cost(data, table)


def render_cost(data, table):
    rows, medians = [], []
    for p in shown(data["programs"]):
        values = p.get("cost_ns", [])
        if values:
            medians.append(measure.median(values))
            rows.append([p["name"], "%.0f" % medians[-1], "%.0f" % min(values), "%.0f" % max(values)])
    if not rows:
        return []
    rows.append(["**median**", "**%.0f**" % measure.median(medians), "", ""])
    return ["### What a sample costs", "",
            "Nanoseconds of CPU time of the process for each sample and its free: the difference"
            " between intervals of %s and %s, over the difference in samples. `mayfly plan --cost`"
            " has this as its default, rounded up, and .5 us for the points that are not taken."
            % (data["fine"], data["coarse"]), ""] + \
        table(["", "median", "smallest", "largest"], rows)
