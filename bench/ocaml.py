# SPDX-License-Identifier: Apache-2.0
"""OCaml's heap: what the agent costs an unmodified program at several rates, the start-up apart, and the bytes that
a sampled block takes in the trace, beside Memtrace's coding of the same events; and what it costs to record every
block."""

import json
import os
import shutil
import subprocess

import measure
import ocaml_instructions

HERE = os.path.dirname(os.path.abspath(__file__))
RATES = ["off", "1e-6", "1e-5", "1e-4", "1e-3"]
TARGETS = {"1e-5": 1.01, "1e-4": 1.10}
SIZED = ["1e-5", "1e-4", "1e-3"]
COUNTED = {"deep": (1, 3), "shallow": (10, 40)}  # rounds of the programs whose instructions are counted
STARTS = 20  # of the program that ends at once, in each round; the smallest counts


def compile_program(name, work):
    """None when OCaml is not here, or the wrong one."""
    out = os.path.join(work, name + ".exe")
    source = os.path.join(work, name + ".ml")
    if not os.path.exists(out):
        shutil.copy(os.path.join(HERE, name + ".ml"), source)
        done = subprocess.run(["ocamlopt", "-g", source, "-o", out], cwd=work, capture_output=True)
        if done.returncode:
            raise RuntimeError(done.stderr.decode("utf-8", "replace").strip()[-200:])
    return out


# OCaml's own sampling, with callbacks that do nothing: what every profiler of OCaml pays for a sample.
NULL_TRACKER = """let () = match Sys.getenv_opt "RATE" with
  | Some rate -> Gc.Memprof.start ~sampling_rate:(float_of_string rate) Gc.Memprof.null_tracker
  | None -> ()
"""
SAMPLE_RATE = "1e-2"


def compile_with_null_tracker(name, work):
    out, source = os.path.join(work, name + "_null.exe"), os.path.join(work, name + "_null.ml")
    with open(os.path.join(HERE, name + ".ml")) as f, open(source, "w") as to:
        to.write(NULL_TRACKER + f.read())
    said(["ocamlopt", "-g", source, "-o", out], work)
    return out


def compile_with_memtrace(name, work):
    """None when the library memtrace is not here, as in Debian."""
    packages = ["-thread", "-package", "memtrace,threads", "-linkpkg"]
    if not shutil.which("ocamlfind") or subprocess.run(["ocamlfind", "query", "memtrace"], capture_output=True).returncode:
        return None
    out, source = os.path.join(work, name + "_memtrace.exe"), os.path.join(work, name + "_memtrace.ml")
    with open(os.path.join(HERE, name + ".ml")) as f, open(source, "w") as to:
        to.write("let () = Memtrace.trace_if_requested ()\n" + f.read())
    said(["ocamlfind", "ocamlopt", "-g", *packages, source, "-o", out], work)
    return out


def large_source(work, functions):
    path = os.path.join(work, "big.ml")
    with open(path, "w") as f:
        for i in range(functions):
            f.write("let f%d x = match x with | Some (y, z) when y > %d -> List.map "
                    "(fun k -> k + y * %d) z | _ -> [ %d ]\n" % (i, i, i, i))
    return path


def programs(work, quick):
    return [
        ("deep", "maps, tables and lists, 800 calls down (ocaml_deep.ml)",
         lambda: [compile_program("ocaml_deep", work), "2" if quick else "10"]),
        ("shallow", "lists, some dozen calls down (ocaml_shallow.ml)",
         lambda: [compile_program("ocaml_shallow", work), "20" if quick else "150"]),
        ("ocamlopt", "ocamlopt.opt -c of a large file",
         lambda: [shutil.which("ocamlopt.opt"), "-c", large_source(work, 300 if quick else 2000)]),
    ]


def small_programs(work):
    """Some million blocks each, of which all are recorded."""
    return [("deep", lambda: [compile_program("ocaml_deep", work), "1"]),
            ("shallow", lambda: [compile_program("ocaml_shallow", work), "2"]),
            ("ocamlopt", lambda: [shutil.which("ocamlopt.opt"), "-c", large_source(work, 100)])]


def spawn(tools, command, env, work):
    return measure.Process(tools.spawn, command, env, measure.CPUS[-1:], work).finish()


def clear(work):
    for name in os.listdir(work):
        if name.endswith(".spool"):
            os.unlink(os.path.join(work, name))


def ways(tools, work):
    result = [("native", {}), ("native again", {})]
    for rate in RATES:
        options = "output=%s,ocaml=%s" % (os.path.join(work, "bench.%p.spool"), rate)
        result.append((rate, {"LD_PRELOAD": tools.agent, "MAYFLY": options}))
    return result


def measure_cost(tools, name, command, rounds, work, progress, times=1):
    """times: runs of each way in a round, of which the one with the least CPU time counts."""
    runs = {}
    digest = None
    for number in range(rounds):
        for label, env in measure.rotated(ways(tools, work), number):
            progress("%s: %s, round %d of %d" % (name, label, number + 1, rounds))
            run = min((spawn(tools, command, env, work) for _ in range(times)),
                      key=lambda run: (-run["status"], run["cpu_s"]))
            clear(work)
            if run["status"]:
                raise RuntimeError("%s: status %d: %s" % (label, run["status"], run["complaint"]))
            digest = digest or run["digest"]
            if run["digest"] != digest:
                raise RuntimeError("%s: another output than without mayfly" % label)
            runs.setdefault(label, []).append(
                {key: run[key] for key in ("cpu_s", "rss_bytes", "foreign")})
    return runs


def said(command, work):
    done = subprocess.run(command, cwd=work, capture_output=True, env=dict(os.environ, LC_ALL="C"))
    if done.returncode:
        raise RuntimeError(done.stderr.decode("utf-8", "replace").strip()[-200:])
    return done.stdout


def measure_size(tools, name, command, rate, work, progress):
    """Bytes of the trace, and of Memtrace's file of the same blocks."""
    progress("%s: file at %s" % (name, rate))
    trace, export = os.path.join(work, "t.mayfly"), os.path.join(work, "t.ctf")
    for path in (trace, export):
        if os.path.exists(path):
            os.unlink(path)
    said([tools.mayfly, "record", "--quiet", "-o", trace, "--ocaml=" + rate, "--"] + command, work)
    facts = json.loads(said([tools.mayfly, "info", "--json", trace], work))
    heaps = json.loads(said([tools.mayfly, "report", "--json", "--by", "heap", "--metric",
                             "allocated", trace], work))["rows"]
    blocks = sum(row["self"]["samples"] for row in heaps if row["heap"] != "malloc")
    said([tools.mayfly, "export", "--to", "memtrace", "-o", export, trace], work)
    return {"blocks": blocks, "malloc_blocks": facts["samples"] - blocks,
            "bytes": facts["file_bytes"], "memtrace_bytes": os.path.getsize(export)}


def measure_sample(tools, name, argument, rounds, work, progress):
    """Microseconds of CPU for each sample, above the program alone."""
    program = compile_with_null_tracker(name, work)
    spool, ctf = os.path.join(work, "sample.spool"), os.path.join(work, "sample.ctf")
    options = "output=%s,ocaml=%s" % (spool, SAMPLE_RATE)
    ways = {"native": (program, {}), "null": (program, {"RATE": SAMPLE_RATE}),
            "mayfly": (program, {"LD_PRELOAD": tools.agent, "MAYFLY": options})}
    memtrace = compile_with_memtrace(name, work)
    if memtrace:
        ways["memtrace"] = (memtrace, {"MEMTRACE": ctf, "MEMTRACE_RATE": SAMPLE_RATE})
    runs = {which: [] for which in ways}
    samples = 0
    for number in range(rounds):
        for which in measure.rotated(list(ways), number):
            progress("%s: a sample, %s, round %d of %d" % (name, which, number + 1, rounds))
            run = spawn(tools, [ways[which][0], argument], ways[which][1], work)
            if run["status"]:
                raise RuntimeError("%s: status %d: %s" % (which, run["status"], run["complaint"]))
            runs[which].append(run["cpu_s"])
            if which == "mayfly":
                samples = json.loads(said([tools.mayfly, "info", "--json", spool], work))["samples"]
            clear(work)
    return {"samples": samples, **{which: [1e6 * (a - b) / samples for a, b in zip(runs[which], runs["native"])]
                                   for which in runs if which != "native"}}


def measure_exact(tools, name, command, rounds, work, progress):
    """CPU seconds of `mayfly record -x`, the recorder's and the program's, and of the program alone."""
    trace = os.path.join(work, "x.mayfly")
    recording = [tools.mayfly, "record", "--quiet", "--force", "-x", "-o", trace, "--"] + command
    ways = {"native": command, "exact": recording, "C alone": recording[:3] + ["--ocaml=off"] + recording[3:]}
    runs = {way: [] for way in ways}
    for number in range(rounds):
        for way in measure.rotated(list(ways), number):
            progress("%s: every block, %s, round %d of %d" % (name, way, number + 1, rounds))
            run = spawn(tools, ways[way], {}, work)
            if run["status"]:
                raise RuntimeError("%s: status %d: %s" % (way, run["status"], run["complaint"]))
            runs[way].append(run["cpu_s"])
            if way == "exact":
                blocks = json.loads(said([tools.mayfly, "info", "--json", trace], work))["samples"]
    return {"name": name, "blocks": blocks, "runs": runs}


def measure_start(tools, rounds, work, progress):
    command = [compile_program("ocaml_nothing", work)]
    result = {"runs": measure_cost(tools, "nothing", command, rounds, work, progress, STARTS)}
    if shutil.which("valgrind"):
        result["instructions"] = ocaml_instructions.measure_start(tools, command, work, progress)
    clear(work)
    return result


def measure_all(tools, rounds, quick, work, progress):
    results = {"rounds": rounds, "programs": []}
    if not shutil.which("ocamlopt.opt"):
        return dict(results, failed="ocamlopt.opt is not installed")
    work = os.path.join(work, "quick" if quick else "full")
    os.makedirs(work, exist_ok=True)
    results["start"] = measure_start(tools, rounds, work, progress)
    for name, what, make in programs(work, quick):
        entry = {"name": name, "what": what, "runs": {}, "sizes": {}}
        results["programs"].append(entry)
        try:
            command = make()
            entry["runs"] = measure_cost(tools, name, command, rounds, work, progress)
            for rate in SIZED:
                entry["sizes"][rate] = measure_size(tools, name, command, rate, work, progress)
            if name in COUNTED and shutil.which("valgrind"):
                entry["instructions"] = ocaml_instructions.measure_rate(
                    tools, compile_with_null_tracker("ocaml_" + name, work), COUNTED[name], work, progress)
                clear(work)
            if name in COUNTED:
                entry["sample"] = measure_sample(tools, "ocaml_" + name, command[1], rounds, work, progress)
        except RuntimeError as error:
            entry["failed"] = str(error)
    results["exact"] = [measure_exact(tools, name, make(), rounds, work, progress) for name, make in small_programs(work)]
    return results


# ---- as text

def pairs(entry, label, key):
    """With the mean of both native runs of the round; "native again" with "native"."""
    values = []
    for number, run in enumerate(entry["runs"].get(label, [])):
        first = entry["runs"]["native"][number][key]
        again = entry["runs"]["native again"][number][key]
        values.append((run[key], first if label == "native again" else (first + again) / 2))
    return values


def ratios(entry, label, key):
    return [a / b for a, b in pairs(entry, label, key)]


def added(entry, label, key):
    return [a - b for a, b in pairs(entry, label, key)]


def ratios_apart(data, entry, label):
    """The ratios of CPU time, without what a program pays at its start."""
    return [(a - start) / b for (a, b), start in zip(pairs(entry, label, "cpu_s"), added(data["start"], label, "cpu_s"))]


def smallest(entry, label, key):
    runs = entry["runs"]
    floor = min(run[key] for run in runs["native"] + runs["native again"])
    return min(run[key] for run in runs[label]) / floor


def foreign(data):
    measured = data["programs"] + ([data["start"]] if "start" in data else [])
    return [run["foreign"] for p in measured for runs in p["runs"].values() for run in runs]


def cost_table(data, key, table, spread):
    rows = []
    for label in RATES + ["native again"]:
        row = [label]
        for p in data["programs"]:
            values = ratios(p, label, key)
            row.append("%s; %.3f" % (spread(values), smallest(p, label, key)) if values
                       else p.get("failed", "-")[:60])
        rows.append(row)
    return table([""] + [p["name"] for p in data["programs"]], rows)


def apart_table(data, table, spread):
    rows = [[label] + [spread(ratios_apart(data, p, label)) for p in data["programs"]] for label in RATES + ["native again"]]
    return table([""] + [p["name"] for p in data["programs"]], rows)


def start_table(data, table, spread):
    start = data["start"]
    rows = [[label, ocaml_instructions.start_cell(start, label),
             spread([1e3 * s for s in added(start, label, "cpu_s")], "%.2f"),
             spread([b / 1024 for b in added(start, label, "rss_bytes")], "%.0f")] for label in RATES + ["native again"]]
    return ["### Start-up", "",
            "Added to a program that ends at once: instructions (callgrind), milliseconds of CPU time, and KiB of peak "
            "resident memory; of %d runs in each round the one with the least CPU time." % STARTS, ""] + \
        table(["", "instructions", "CPU, ms", "memory, KiB"], rows)


def size_table(data, table):
    rows = []
    for rate in SIZED:
        row = [rate]
        for p in data["programs"]:
            s = p["sizes"].get(rate)
            row.append("%.1f; %.1f; %d" % (s["bytes"] / (s["blocks"] + s["malloc_blocks"]),
                                           s["memtrace_bytes"] / s["blocks"], s["blocks"])
                       if s and s["blocks"] else "-")
        rows.append(row)
    return table([""] + [p["name"] for p in data["programs"]], rows)


def sample_table(data, table, spread):
    rows = [[p["name"], "%d" % p["sample"]["samples"], spread(p["sample"]["null"], "%.2f"),
             spread(p["sample"]["memtrace"], "%.2f") if p["sample"].get("memtrace") else "not installed",
             spread(p["sample"]["mayfly"], "%.2f"),
             "%.2f" % (measure.median(p["sample"]["mayfly"]) / measure.median(p["sample"]["null"]))]
            for p in data["programs"] if p.get("sample")]
    return ["### CPU for each sample, in microseconds", "",
            "At %s, above the program alone. *null tracker*: the program's own `Gc.Memprof` with callbacks that do nothing, "
            "which every profiler of OCaml pays; all three take whole stacks." % SAMPLE_RATE, ""] + \
        table(["", "samples", "null tracker", "Memtrace", "mayfly, in the process", "to the null tracker"], rows) if rows else []


def exact_table(data, table, spread):
    rows = []
    for p in data.get("exact", []):
        runs = p["runs"]
        rows.append([p["name"], "%d" % p["blocks"], "%.2f" % measure.median(runs["native"]),
                     *(spread([a / b for a, b in zip(runs[way], runs["native"])], "%.1f") for way in ("C alone", "exact")),
                     spread([1e6 * (a - b) / p["blocks"] for a, b in zip(runs["exact"], runs["native"])], "%.2f")])
    return ["### Every block (`record -x`)", "", "CPU time, the recorder's in it, to that of the program alone; then "
            "the microseconds for each block.", ""] + table(
                ["", "blocks", "alone, s", "`--ocaml=off`", "C and OCaml", "us a block"], rows) if rows else []


def render(part, heading, table, spread, quiet):
    data = part["data"]
    lines = heading("OCaml", part)
    if "failed" in data:
        return lines + ["", data["failed"], ""]
    lines += [quiet(foreign(data)), "",
              "Unmodified programs with the agent preloaded, malloc sampled at 512 KiB, OCaml's heap"
              " at rates per word; *off*: malloc alone. Median of the ratios within each round to the"
              " mean of two runs without the agent [smallest-largest]; then smallest over smallest.",
              ""]
    lines += ["- **%s**: %s" % (p["name"], p["what"]) for p in data["programs"]] + [""]
    if "start" in data:  # not in results of earlier builds
        lines += start_table(data, table, spread)
    lines += ocaml_instructions.rate_table(data, table)
    lines += ["### CPU time, user and system", ""] + cost_table(data, "cpu_s", table, spread)
    if "start" in data:
        lines += ["### CPU time, start-up apart", "", "The same, without what the program that ends at once pays in the round.",
                  ""] + apart_table(data, table, spread)
    lines += ["### Peak resident memory", ""] + cost_table(data, "rss_bytes", table, spread)
    lines += ["### Bytes in the file for each sampled block", "",
              "`mayfly record`, all included; the same blocks as a Memtrace file"
              " (`mayfly export --to memtrace`); how many OCaml blocks.", ""]
    return lines + size_table(data, table) + sample_table(data, table, spread) + exact_table(data, table, spread)


def start_rows(data):
    start = data["start"]
    return [["OCaml: start-up at 1e-5, added: CPU; instructions; resident memory", "-", "%.2f ms; %s; %.0f KiB" % (
        1e3 * measure.median(added(start, "1e-5", "cpu_s")), ocaml_instructions.start_cell(start, "1e-5") or "-",
        measure.median(added(start, "1e-5", "rss_bytes")) / 1024)],
        ["OCaml: CPU at 1e-5, start-up apart", "< %.2f" % TARGETS["1e-5"], ", ".join("%s %.3f" % (
            p["name"], measure.median(ratios_apart(data, p, "1e-5"))) for p in data["programs"] if p["runs"])]]


def target_rows(data):
    rows = ocaml_instructions.target_rows(data) + (start_rows(data) if "start" in data else [])
    for rate, target in TARGETS.items():
        found = [(measure.median(ratios(p, rate, "cpu_s")), smallest(p, rate, "cpu_s"), p["name"])
                 for p in data["programs"] if ratios(p, rate, "cpu_s")]
        if found:
            rows.append(["OCaml: CPU at %s (median; smallest over smallest)" % rate,
                         "< %.2f" % target,
                         ", ".join("%s %.3f; %.3f" % (name, a, b) for a, b, name in found)])
    for rate in ("1e-5", "1e-4"):
        found = [(p["sizes"][rate], p["name"]) for p in data["programs"]
                 if p["sizes"].get(rate, {}).get("blocks")]
        if found:
            rows.append(["OCaml: bytes per sampled block at %s, of Memtrace's" % rate, "<= 0.5",
                         ", ".join("%s %.2f" % (
                             name, s["bytes"] / (s["blocks"] + s["malloc_blocks"])
                             / (s["memtrace_bytes"] / s["blocks"])) for s, name in found)])
    return rows
