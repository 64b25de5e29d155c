# SPDX-License-Identifier: Apache-2.0
"""How long every kind of question takes: of a trace of 10 M allocations, and of a sampled one. To merge a
thousand sampled traces. And to record and report millions of distinct stacks, with heaptrack beside."""

import glob
import json
import os
import shutil

import inputs
import measure

# What is asked of mayfly report. By what must be read for it: counters, events, or what becomes of
# every block.
QUESTIONS = [
    ("summary and first tables", []),
    ("leaked, by stack", ["--metric", "leaked", "--by", "stack"]),
    ("live at half time", ["--at", None]),
    ("allocated in the second quarter", ["--metric", "allocated", "--from", None, "--to", None]),
    ("survived the second quarter", ["--metric", "survived", "--from", None, "--to", None]),
    ("--focus and --hide, by line", ["--focus", "map", "--hide", "^std::", "--by", "line"]),
    ("allocated, by size", ["--metric", "allocated", "--by", "size"]),
    ("allocated, by thread", ["--metric", "allocated", "--by", "thread"]),
    ("allocated, by lifetime", ["--metric", "allocated", "--by", "lifetime"]),
    ("allocated, by threads", ["--metric", "allocated", "--by", "threads"]),
    ("temporary, up to 1 ms", ["--metric", "temporary", "--max-lifetime", "1ms"]),
    ("of 100 bytes and more, lived 1 ms",
     ["--metric", "allocated", "--min-size", "100", "--min-lifetime", "1ms"]),
    ("histograms of sizes", ["--metric", "allocated", "--histogram", "size"]),
    ("histograms of lifetimes", ["--metric", "allocated", "--histogram", "lifetime"]),
    ("series of 40", ["--series", "40"]),
    ("churn", ["--churn"]),
    ("chains of realloc", ["--reallocs"]),
]


def options_of(options, duration_ns):
    """None stands for a time: the half, or the ends of the second quarter."""
    times = {"--at": .5, "--from": .25, "--to": .5}
    return [option if option is not None else
            "%dns" % (duration_ns * times[options[i - 1]]) for i, option in enumerate(options)]


def finished(process):
    run = process.finish()
    if run["status"]:
        raise RuntimeError(run["complaint"])
    return run


def record(tools, source, work, name, options):
    """A trace of clang. Its path."""
    trace = os.path.join(work, name)
    if not os.path.exists(trace):
        finished(measure.Process(
            tools.spawn, [tools.mayfly, "record", *options, "-o", trace + ".part", "--", "clang-14",
                          "-std=c++17", "-O1", "-c", "-o", os.path.join(work, "out.o"), source],
            {}, measure.CPUS, work))
        os.rename(trace + ".part", trace)
    return trace


def duration(tools, trace, work):
    process = measure.Process(tools.spawn, [tools.mayfly, "info", "--json", trace], {}, measure.CPUS, work)
    finished(process)
    facts = json.loads(process.output())
    return facts["samples"], facts["duration_ns"]


def ask(tools, command, name, rounds, work, progress, program=None):
    row = {"question": name, "wall_s": [], "cpu_s": [], "rss_bytes": 0, "foreign": []}
    for number in range(rounds):
        progress("queries: %s, round %d" % (name, number + 1))
        run = measure.Process(tools.spawn, [program or tools.mayfly, *command], {}, measure.CPUS, work).finish()
        if run["status"]:
            return {"question": name, "missing": run["complaint"]}
        row["wall_s"].append(run["wall_s"])
        row["cpu_s"].append(run["cpu_s"])
        row["foreign"].append(run["foreign"])
        row["rss_bytes"] = max(row["rss_bytes"], run["rss_bytes"])
    return row


def measure_merge(tools, rounds, quick, source, work, progress):
    """Copies of one trace: the same stacks, as in many runs of one program."""
    progress("queries: recording")
    trace = record(tools, source, work, "merged%d.mayfly" % quick, ["-i", "1M"])
    samples, _ = duration(tools, trace, work)
    count = 20 if quick else 1000
    copies = os.path.join(work, "copies")
    shutil.rmtree(copies, ignore_errors=True)
    os.mkdir(copies)
    try:
        for number in range(count):
            shutil.copyfile(trace, os.path.join(copies, "%d.mayfly" % number))
        paths = [os.path.join(copies, "%d.mayfly" % number) for number in range(count)]
        row = ask(tools, ["merge", "--force", "-o", os.path.join(work, "merged.out"), *paths],
                  "mayfly merge", rounds, work, progress)
    finally:
        shutil.rmtree(copies)
    return {"label": "%d traces at 1 MiB" % count, "samples": samples * count,
            "bytes": os.path.getsize(trace) * count, "rows": [row]}


def measure_stacks(tools, rounds, quick, work, progress):
    """A program whose every block has a stack of its own."""
    stacks = 1 << (15 if quick else 21)
    trace, other = os.path.join(work, "stacks.mayfly"), os.path.join(work, "stacks.ht")
    program = [tools.program("bench_stacks"), str(stacks)]
    rows = [ask(tools, ["record", "-x", "-o", trace, "--", *program], "mayfly record -x", rounds, work, progress),
            ask(tools, ["report", trace], "mayfly report", rounds, work, progress)]
    for path in glob.glob(other + "*"):
        os.unlink(path)
    if tools.heaptrack_print:
        rows += [ask(tools, ["-o", other, *program], "heaptrack", 1, work, progress, "heaptrack"),
                 ask(tools, glob.glob(other + "*"), "heaptrack_print", rounds, work, progress, tools.heaptrack_print)]
    return {"title": "{:,} distinct stacks, every allocation".format(stacks), "samples": stacks,
            "bytes": os.path.getsize(trace), "rows": rows}


def measure_all(tools, rounds, quick, work, progress):
    if not tools.has_mayfly() or not shutil.which("clang-14"):
        return {"failed": "needs mayfly and clang-14"}
    units = 6 if quick else 40
    source = inputs.make(os.path.join(work, "inputs"), "queries%d.cc" % units, inputs.cpp, units)
    result = {"rounds": rounds, "traces": []}
    for label, file, options in (("every allocation", "exact%d.mayfly" % units, ["--exact"]),
                                 ("sampled at 512 KiB", "sampled%d.mayfly" % units, [])):
        progress("queries: recording")
        trace = record(tools, source, work, file, options)
        samples, nanoseconds = duration(tools, trace, work)
        rows = [ask(tools, ["report", *options_of(question, nanoseconds), trace], name, rounds, work,
                    progress) for name, question in QUESTIONS]
        result["traces"].append({"label": label, "samples": samples, "bytes": os.path.getsize(trace),
                                 "rows": rows})
    result["traces"].append(measure_merge(tools, rounds, quick, source, work, progress))
    result["traces"].append(measure_stacks(tools, rounds, quick, work, progress))
    return result
