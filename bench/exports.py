# SPDX-License-Identifier: Apache-2.0
"""From an exact trace of clang to each format, beside what other tools make of theirs."""

import glob
import os
import shutil

import exact
import macro
import measure

PATIENCE_S = 120  # with jeprof, which takes long over so many addresses
FORMATS = ["pprof", "heap_v2", "folded", "speedscope", "flamegraph", "csv"]


def commands(tools, trace, heaptrack, work):
    """[(label, command, what it writes)]: ours first, then those that read ours, then heaptrack."""
    def made(name):
        return os.path.join(work, "out." + name)
    found = [("mayfly report", [tools.mayfly, "report", trace], None)]
    for name in FORMATS:
        found.append(("mayfly export --to " + name,
                      [tools.mayfly, "export", "--force", "--to", name, "-o", made(name), trace],
                      made(name)))
    # Some GB: nobody needs them on a disk.
    found.append(("mayfly export --to csv --rows samples",
                  [tools.mayfly, "export", "--to", "csv", "--rows", "samples", "-o", "/dev/null",
                   trace], None))
    found.append(("go tool pprof -top, of ours",
                  ["go", "tool", "pprof", "-symbolize=none", "-top", made("pprof")], None))
    clang = os.path.realpath(shutil.which("clang-14") or "clang-14")
    found.append(("jeprof --text, of ours", ["timeout", str(PATIENCE_S), "jeprof", "--text", clang, made("heap_v2")], None))
    if heaptrack:
        print_it = [tools.heaptrack_print or "heaptrack_print", "-f", heaptrack]
        found.append(("heaptrack_print", print_it, None))
        found.append(("heaptrack_print -F (folded)", print_it + ["-F", made("ht.folded")],
                      made("ht.folded")))
        found.append(("heaptrack_print -M (massif)", print_it + ["-M", made("ht.massif")],
                      made("ht.massif")))
    return found


def record(tools, program, variant, work):
    macro.clear(variant, work)
    run = program.run(tools, variant, work)
    if run["status"]:
        raise RuntimeError("%s: %s" % (variant.label, run["complaint"]))
    found = glob.glob(os.path.join(work, variant.file))
    return found[0] if found else None


def measure_all(tools, rounds, quick, work, progress):
    inputs = os.path.join(os.path.dirname(work), "macro", "inputs")
    program = exact.programs(tools, inputs, quick)["clang"]()
    result = {"rounds": rounds, "what": program.what, "rows": []}
    if program.missing():
        result["failed"] = "needs clang-14"
        return result
    program.one_cpu = False
    present = {v.name: v for v in exact.variants(tools, 1)}
    progress("exports: recording")
    trace = record(tools, program, present["exact"], work)
    heaptrack = None if present["heaptrack"].missing else \
        record(tools, program, present["heaptrack"], work)
    result.update(exact.info(tools, trace))
    for label, command, output in commands(tools, trace, heaptrack, work):
        row = {"label": label, "missing": None if shutil.which(command[command[0] == "timeout" and 2])
               else "not installed",
               "cpu_s": [], "foreign": []}
        result["rows"].append(row)
        # The others' tools take their time: once.
        times = rounds if command[0] == tools.mayfly else 1
        for number in range(0 if row["missing"] else times):
            progress("exports: %s, round %d" % (label, number + 1))
            run = measure.Process(tools.spawn, command, {"HOME": work}, measure.CPUS, work).finish()
            if run["status"]:
                row["missing"] = "stopped after %d s" % PATIENCE_S if run["status"] == 124 \
                    else run["complaint"]
                break
            row["cpu_s"].append(run["cpu_s"])
            row["foreign"].append(run["foreign"])
            row["rss_bytes"] = max(run["rss_bytes"], row.get("rss_bytes", 0))
        if output and os.path.exists(output):
            row["bytes"] = os.path.getsize(output)
    for path in glob.glob(os.path.join(work, "out.*")):
        os.unlink(path)
    for variant in present.values():
        macro.clear(variant, work)
    return result
