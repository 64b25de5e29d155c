# SPDX-License-Identifier: Apache-2.0
"""The results as Markdown."""

import attach
import codec
import cpython
import coverage
import depth
import estimators
import eventlog
import events
import fleet
import heap
import instructions
import macro
import measure
import micro
import ocaml
import processes
import profiles
import samples
import soak
import tracks
import viewer


def table(head, rows):
    """First column to the left, the others to the right."""
    lines = ["| " + " | ".join(head) + " |",
             "|" + "|".join(["---"] + ["---:"] * (len(head) - 1)) + "|"]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return lines + [""]


def spread(values, form="%.3f"):
    """median [smallest-largest]"""
    if not values:
        return "-"
    if len(values) == 1:
        return form % values[0]
    return "%s [%s-%s]" % tuple(form % v for v in (measure.median(values), min(values), max(values)))


def size(n):
    if n is None:
        return "-"
    if abs(n) < 10000:
        return "%d B" % n
    if abs(n) < 10 << 20:
        return "%.1f KiB" % (n / 1024)
    return "%.1f MiB" % (n / (1 << 20))


def quiet(foreign):
    foreign = [f for f in foreign if f is not None]
    if not foreign:
        return ""
    text = "Other processes kept %.2f CPUs busy meanwhile (median; worst %.2f)." % (
        measure.median(foreign), max(foreign))
    if measure.median(foreign) > 0.2:
        text += " **The machine was not quiet: trust the medians of paired ratios at most.**"
    return text


def heading(title, part):
    lines = ["## " + title, "", "%s; %d round(s)%s." % (
        part["date"], part["data"].get("rounds", 1), ", quick" if part["quick"] else "")]
    if part["stale"]:
        lines[-1] += EARLIER
    return lines


# ---- micro

def render_micro(part):
    data = part["data"]
    lines = heading("malloc and free", part) + [
        quiet(data["foreign"]), "",
        "Nanoseconds of thread CPU time per malloc and free: median of the rounds [smallest-largest],"
        " each round the median of its batches. *tight*: 32 bytes, over and over. *hostile*: random"
        " replacement among 2^20 live blocks of 16 to 143 bytes. *added*: median of the differences"
        " within each round against the row named in *above*.", ""]
    loads = data["loads"]
    head = ["", "above"]
    for load in loads:
        head += ["%s, %d thread%s" % (load["mode"], load["threads"], "s"[:load["threads"] > 1]),
                 "added"]
    rows = []
    labels = {v["name"]: v["label"] for v in data["variants"]}
    for v in data["variants"]:
        why = v["missing"] or data["failed"].get(v["name"])
        if why:
            rows.append([v["label"], ""] + [why] + [""] * (2 * len(loads) - 1))
            continue
        row = [v["label"], labels.get(v["base"], "")]
        for load in loads:
            row.append(spread(load["median"].get(v["name"], []), "%.2f"))
            differences = micro.added(load, v["name"], v["base"]) if v["base"] else []
            row.append("%+.2f" % measure.median(differences) if differences else "")
        rows.append(row)
    lines += table(head, rows)
    lines += ["The same by each run's fastest batch, which the rest of the machine disturbs least:", ""]
    head = [""] + [h for load in loads for h in (
        "%s, %d" % (load["mode"], load["threads"]), "added")]
    rows = []
    for v in data["variants"]:
        if v["missing"] or v["name"] in data["failed"]:
            continue
        row = [v["label"]]
        for load in loads:
            values = load["min"].get(v["name"], [])
            row.append("%.2f" % measure.median(values) if values else "-")
            differences = micro.added(load, v["name"], v["base"], "min") if v["base"] else []
            row.append("%+.2f" % measure.median(differences) if differences else "")
        rows.append(row)
    return lines + table(head, rows)


# ---- macro

COMPARED = [("mayfly", "native"), ("mayfly-record", "native"), ("jemalloc-prof", "jemalloc"),
            ("tcmalloc-sampling", "tcmalloc"), ("heaptrack-in-process", "native"),
            ("heaptrack", "native"), ("native-again", "native")]
HEADS = ["mayfly, in the process", "mayfly record (with recorder)", "jemalloc prof / jemalloc",
         "tcmalloc sampling / tcmalloc", "heaptrack, in the process", "heaptrack (with interpreter)",
         "native again (noise)"]


def present(data):
    return [p for p in data["programs"] if "absent" not in p]


def ratio_cell(program, name, base, key):
    if name in program["missing"]:
        return program["missing"][name]
    if name in program["failed"]:
        return "failed: " + program["failed"][name][:80]
    return spread(macro.ratios(program, name, base, key))


def mean_cell(data, name, base, key):
    """Geometric mean of the programs' medians, when every program has the variant; the worst."""
    medians = []
    for program in present(data):
        values = macro.ratios(program, name, base, key)
        if not values:
            return "-", "-"
        medians.append(measure.median(values))
    if not medians:
        return "-", "-"
    return "%.3f" % measure.geometric_mean(medians), "%.3f" % max(medians)


def ratio_table(data, key):
    rows = []
    for program in data["programs"]:
        if "absent" in program:
            rows.append([program["name"], program["absent"]] + [""] * len(COMPARED))
            continue
        native = [run[key] for run in program["runs"]["native"]]
        value = size(measure.median(native)) if key == "rss_bytes" else \
            "%.2f s" % measure.median(native)
        rows.append([program["name"], value] + [
            ratio_cell(program, name, base, key) for name, base in COMPARED])
    means = [mean_cell(data, name, base, key) for name, base in COMPARED]
    rows.append(["**geometric mean**", ""] + ["**%s**" % mean for mean, _ in means])
    rows.append(["worst", ""] + [worst for _, worst in means])
    return table(["", "native"] + HEADS, rows)


def best_ratio(program, name, base, key):
    """Smallest over smallest: what is left when every disturbance is."""
    runs, bases = program["runs"].get(name, []), program["runs"].get(base, [])
    if base == "native" and name != "native-again":
        bases = bases + program["runs"].get("native-again", [])
    if not runs or not bases:
        return None
    return min(r[key] for r in runs) / min(r[key] for r in bases)


def best_table(data):
    rows = []
    columns = [[] for _ in COMPARED]
    for program in present(data):
        row = [program["name"]]
        for column, (name, base) in zip(columns, COMPARED):
            value = best_ratio(program, name, base, "cpu_s")
            row.append("%.3f" % value if value else "-")
            column.append(value)
        rows.append(row)
    rows.append(["**geometric mean**"] + [
        "**%.3f**" % measure.geometric_mean(c) if c and all(c) else "-" for c in columns])
    return table([""] + HEADS, rows)


def last_info(program, name):
    for run in reversed(program["runs"].get(name, [])):
        if run.get("info", {}).get("samples"):
            return run["info"]
    return None


def file_bytes(program, name):
    values = [run["file_bytes"] for run in program["runs"].get(name, []) if "file_bytes" in run]
    return measure.median(values) if values else None


def bytes_per_sample(program):
    values = [run["file_bytes"] / run["info"]["samples"]
              for run in program["runs"].get("mayfly-record", [])
              if run.get("info", {}).get("samples") and "file_bytes" in run]
    return measure.median(values) if values else None


def size_table(data):
    rows = []
    for program in present(data):
        info = last_info(program, "mayfly-record")
        per = bytes_per_sample(program)
        rows.append([
            program["name"], size(file_bytes(program, "mayfly-record")),
            info["samples"] if info else "-", "%.1f" % per if per else "-",
            info.get("stacks", "-") if info else "-", info.get("frames", "-") if info else "-",
            info.get("truncated_stacks", "-") if info else "-",
            info.get("dropped_samples", "-") if info else "-",
            size(file_bytes(program, "mayfly")), size(file_bytes(program, "jemalloc-prof")),
            size(file_bytes(program, "heaptrack")), size(file_bytes(program, "heaptrack-in-process"))])
    return table(["", "trace", "samples", "bytes per sample", "stacks", "frames", "truncated",
                  "dropped", "spool", "jemalloc prof", "heaptrack", "heaptrack raw"], rows)


def added_memory_table(data):
    rows = []
    for program in present(data):
        row = [program["name"]]
        for name, base in COMPARED:
            runs, bases = program["runs"].get(name, []), program["runs"].get(base, [])
            pairs = [r["rss_bytes"] - b["rss_bytes"] for r in runs for b in bases
                     if r["round"] == b["round"]]
            row.append("%+.1f" % (measure.median(pairs) / (1 << 20)) if pairs else "-")
        rows.append(row)
    return table([""] + HEADS, rows)


def reading_table(data):
    def cells(entry):
        if not entry:
            return ["-", "-", "-"]
        if entry["failed"] is not None:
            return ["failed: " + entry["failed"][:60], "", ""]
        return ["%.2f s" % entry["wall_s"], size(entry["rss_bytes"]), size(entry["file_bytes"])]
    rows = [[p["name"]] + cells(p["reading"].get("mayfly-record")) + cells(p["reading"].get("mayfly"))
            + cells(p["reading"].get("heaptrack")) for p in present(data)]
    return table(["", "mayfly report", "RSS", "trace", "the same of a spool", "RSS", "spool",
                  "heaptrack_print", "RSS", "file (exact)"], rows)


def live_text(live):
    if live["failed"]:
        return "Memory at 10,000 live samples: " + live["failed"]
    def value(name, key):
        return measure.median([run[key] for run in live[name]])
    return ("%s live samples (%d live blocks of %d bytes, interval %s): resident memory %s, without"
            " mayfly %s: **%+.2f MiB**, of which anonymous %+.2f MiB, the rest is the file mapping"
            " of the spool and the agent's code." % (
                live["samples"] if live["samples"] is not None else "?", live["blocks"], live["size"],
                live["interval"], size(value("mayfly", "rss")), size(value("native", "rss")),
                (value("mayfly", "rss") - value("native", "rss")) / (1 << 20),
                (value("mayfly", "anonymous") - value("native", "anonymous")) / (1 << 20)))


def differing_output(data):
    """Programs whose standard output was not that of the native run."""
    found = []
    for program in present(data):
        expected = {run["digest"] for run in program["runs"].get("native", [])}
        for name in ("mayfly", "mayfly-record"):
            if any(run["digest"] not in expected for run in program["runs"].get(name, [])):
                found.append("%s (%s)" % (program["name"], name))
    return found


def render_macro(part):
    data = part["data"]
    foreign = [run["foreign"] for p in present(data) for runs in p["runs"].values() for run in runs]
    lines = heading("Programs", part) + [
        quiet(foreign), "",
        "Sampling interval %sB everywhere. Each cell: median of the ratios within each round"
        " [smallest-largest]. heaptrack records every allocation, in %d round(s)." % (
            data["interval"].replace("K", " Ki"), data["heaptrack_rounds"]), ""]
    lines += ["- **%s**: %s" % (p["name"], p["what"]) for p in data["programs"]]
    wrong = differing_output(data)
    lines += ["", "Standard output with mayfly equals that without: " + (
        "**no: %s**" % ", ".join(wrong) if wrong else "yes, in every run."), ""]
    lines += ["### CPU time, user and system", ""] + ratio_table(data, "cpu_s")
    lines += ["The same as smallest over smallest of all rounds:", ""] + best_table(data)
    lines += ["### Wall time", ""] + ratio_table(data, "wall_s")
    lines += ["### Peak resident memory", ""] + ratio_table(data, "rss_bytes")
    lines += ["The same as MiB added (median of the differences within each round):", ""]
    lines += added_memory_table(data) + [live_text(data["live"]), ""]
    lines += ["### Files", ""] + size_table(data)
    lines += ["### From a file to the first report", "",
              "Median, from the start of the process to its end.", ""] + reading_table(data)
    return lines


def render_instructions(part):
    return instructions.render(part, heading, table)


def render_profile(part):
    return profiles.render(part, heading, table)


def render_capture(part):
    """bench_capture prints tables of its own."""
    data = part["data"]
    lines = heading("Stack capture", part) + [quiet([data.get("foreign")]), ""]
    if data.get("failed"):
        return lines + [data["failed"], ""]
    return lines + data["text"].rstrip().splitlines() + [""]


def render_symbols(part):
    data = part["data"]
    lines = heading("Symbols", part)
    if data.get("failed"):
        return lines + ["", data["failed"], ""]
    lines += [quiet([f for row in data["rows"] for f in row.get("foreign", [])]), "",
              "%d call sites of a C++ library of %s (g++ -O2 -g): functions, files, lines, inlined"
              " frames, demangled. CPU time from the start of the process to its end." % (
                  data["addresses"], size(data["library_bytes"])), ""]
    rows = [[row["label"], row["missing"], ""] if row["missing"] else
            [row["label"], spread(row["cpu_s"], "%.2f s"), size(row["rss_bytes"])]
            for row in data["rows"]]
    lines += table(["", "CPU", "peak RSS"], rows)
    return lines + ["bench_symbols itself: " + data.get("text", "").strip(), ""]


def render_queries(part):
    data = part["data"]
    lines = heading("Questions", part)
    if data.get("failed"):
        return lines + ["", data["failed"], ""]
    lines += [quiet([f for trace in data["traces"] for row in trace["rows"]
                     for f in row.get("foreign", [])]), "",
              "`mayfly report`, and `merge`, from the start of the process to its end; all processors"
              " may be used.", ""]
    for trace in data["traces"]:
        title = trace.get("title") or "clang, " + trace["label"]
        lines += ["### %s: %d blocks, %s" % (title, trace["samples"], size(trace["bytes"])), ""]
        rows = [[row["question"], row["missing"], "", ""] if row.get("missing") else
                [row["question"], spread(row["wall_s"], "%.3f s"), spread(row["cpu_s"], "%.3f s"),
                 size(row["rss_bytes"])] for row in trace["rows"]]
        lines += table(["", "wall", "CPU", "peak RSS"], rows)
    return lines


# ---- exports

def render_exports(part):
    data = part["data"]
    lines = heading("Exports", part)
    if data.get("failed"):
        return lines + ["", data["failed"], ""]
    lines += [quiet([f for row in data["rows"] for f in row["foreign"]]), "",
              "An exact trace of %s: %.2f M allocations, %d stacks. CPU time, from the start of the"
              " process to its end." % (data["what"], data["samples"] / 1e6, data["stacks"]), ""]
    rows = [[row["label"], row["missing"], "", ""] if row["missing"] else
            [row["label"], spread(row["cpu_s"], "%.2f s"), size(row["rss_bytes"]),
             size(row["bytes"]) if "bytes" in row else ""] for row in data["rows"]]
    return lines + table(["", "CPU", "peak RSS", "output"], rows)


# ---- exact

def exact_ratios(program, name, key):
    """name: a variant; key: of its runs. Against both native runs of the same round."""
    native = {}
    base = {"in_process_cpu_s": "cpu_s", "in_process_rss_bytes": "rss_bytes"}.get(key, key)
    for one in ("native", "native-again"):
        for run in program["runs"].get(one, []):
            native.setdefault(run["round"], []).append(run[base])
    return [run[key] / measure.geometric_mean(native[run["round"]])
            for run in program["runs"].get(name, []) if native.get(run["round"])]


EXACT_CPU = [("mayfly, in the process", "exact", "in_process_cpu_s"),
             ("mayfly record -x (with recorder)", "exact", "cpu_s"),
             ("heaptrack, in the process", "heaptrack-in-process", "cpu_s"),
             ("heaptrack (with interpreter)", "heaptrack", "cpu_s"),
             ("native again (noise)", "native-again", "cpu_s")]
EXACT_RSS = [("mayfly, in the process", "exact", "in_process_rss_bytes"),
             ("heaptrack, in the process", "heaptrack-in-process", "rss_bytes")]


def exact_mean(data, name, key):
    medians = [measure.median(values) for values in (
        exact_ratios(p, name, key) for p in present(data)) if values]
    if not medians or len(medians) < len(present(data)):
        return "-", "-"
    return "%.2f" % measure.geometric_mean(medians), "%.2f" % max(medians)


def exact_ratio_table(data, columns, native_key):
    rows = []
    for program in data["programs"]:
        if "absent" in program:
            rows.append([program["name"], program["absent"]] + [""] * len(columns))
            continue
        native = measure.median([run[native_key] for run in program["runs"]["native"]])
        rows.append([program["name"], size(native) if native_key == "rss_bytes" else "%.2f s" % native]
                    + [program["missing"].get(name) or program["failed"].get(name, "")[:60]
                       or spread(exact_ratios(program, name, key), "%.2f")
                       for _, name, key in columns])
    means = [exact_mean(data, name, key) for _, name, key in columns]
    rows.append(["**geometric mean**", ""] + ["**%s**" % mean for mean, _ in means])
    rows.append(["worst", ""] + [worst for _, worst in means])
    return table(["", "native"] + [label for label, _, _ in columns], rows)


def per_allocation(program, tool):
    found = program.get(tool)
    return found["file_bytes"] / found["allocations"] if found and found["allocations"] else None


def exact_size_table(data):
    rows = []
    for program in present(data):
        ours, theirs = per_allocation(program, "mayfly"), per_allocation(program, "heaptrack")
        def cells(entry):
            if not entry or entry["failed"]:
                return ["-", "-"]
            return ["%.2f s" % entry["wall_s"], size(entry["rss_bytes"])]
        rows.append([program["name"],
                     "%.3f" % ours if ours else "-", "%.3f" % theirs if theirs else "-"]
                    + cells(program["reading"].get("exact"))
                    + cells(program["reading"].get("heaptrack")))
    ours = [per_allocation(p, "mayfly") for p in present(data)]
    theirs = [per_allocation(p, "heaptrack") for p in present(data)]
    if ours and all(ours) and all(theirs):
        rows.append(["**geometric mean**", "**%.3f**" % measure.geometric_mean(ours),
                     "**%.3f**" % measure.geometric_mean(theirs), "", "", "", ""])
    return table(["", "bytes per allocation", "heaptrack", "mayfly report", "RSS",
                  "heaptrack_print", "RSS"], rows)


SAME = [("allocations", "allocations"), ("allocated_bytes", "allocated"), ("peak_bytes", "peak"),
        ("leaked_bytes", "leaked")]


def exact_same_table(data):
    rows = []
    for program in present(data):
        ours, theirs = program.get("mayfly"), program.get("heaptrack")
        if not ours or not theirs:
            continue
        rows.append([program["name"]] + ["%d (%+d)" % (ours[key], ours[key] - theirs[key])
                                         for key, _ in SAME] + [ours["dropped"]])
    return table([""] + [label for _, label in SAME] + ["dropped"], rows)


def render_exact(part):
    data = part["data"]
    foreign = [run["foreign"] for p in present(data) for runs in p["runs"].values() for run in runs]
    lines = heading("Every allocation", part) + [
        quiet(foreign), "",
        "`mayfly record -x` against heaptrack. Each cell: median of the ratios within each round"
        " [smallest-largest]; heaptrack in %d round(s). *In the process* is the program's own CPU"
        " time while the recorder runs beside it." % data["heaptrack_rounds"], ""]
    lines += ["- **%s**: %s" % (p["name"], p["what"]) for p in data["programs"]]
    lines += ["", "### CPU time, user and system", ""] + exact_ratio_table(data, EXACT_CPU, "cpu_s")
    lines += ["### Peak resident memory of the program", ""] + \
        exact_ratio_table(data, EXACT_RSS, "rss_bytes")
    lines += ["### Files, and the first report from them", ""] + exact_size_table(data)
    lines += ["### The same figures", "",
              "Bytes and blocks that mayfly counts (difference to the sums over heaptrack's file of"
              " another run of the same program).", ""] + exact_same_table(data)
    return lines


def render_estimators(part):
    return estimators.render(part, heading, table, size)


def render_coverage(part):
    return coverage.render(part, heading, table)


# ---- samples

def render_samples(part):
    data = part["data"]
    lines = heading("Bytes per sample", part) + [
        "", "What a file holds for each sample, all included: stacks, times, and what is needed to read"
        " it. mayfly's files have the names; perf's need the binaries. Median of the runs [smallest-largest],"
        " and the number of samples. Picture: [bytes-per-sample.svg](../doc/bytes-per-sample.svg).", ""]
    rows = []
    for label in data["order"]:
        row = [label]
        for program in data["programs"]:
            points = program["points"].get(label)
            row.append("%s; %d" % (spread([size / n for n, size in points], "%.1f"),
                                   samples.median_samples(points)) if points
                       else program["failed"].get(label, "-")[:60])
        rows.append(row)
    return lines + table([""] + [p["name"] for p in data["programs"]], rows)


# ---- codec

def render_codec(part):
    return heading("Coding, beside Memtrace", part) + [""] + codec.render(part["data"], table)


def render_ocaml(part):
    return ocaml.render(part, heading, table, spread, quiet)


def render_events(part):
    data = part["data"]
    return heading("Events of the program", part) + [quiet(data["foreign"]), ""] + \
        events.render(data, table)


def render_eventlog(part):
    return eventlog.render(part, heading, table, spread, quiet, size)


def render_tracks(part):
    return tracks.render(part, heading, table, quiet, size)


def render_processes(part):
    return processes.render(part, heading, table, spread, quiet)


def render_depth(part):
    return depth.render(part, heading, table, quiet)


def render_cpython(part):
    return cpython.render(part, heading, table, spread, quiet)


def render_attach(part):
    return attach.render(part, heading, table)


def render_heap(part):
    return heap.render(part, heading, table, quiet)


def render_soak(part):
    return soak.render(part, heading, table, size)


def render_fleet(part):
    return fleet.render(part, heading, table)


def render_viewer(part):
    return viewer.render(part, heading, table, size)


PARTS = [("instructions", render_instructions), ("micro", render_micro), ("capture", render_capture), ("macro", render_macro),
         ("exact", render_exact), ("profile", render_profile), ("samples", render_samples), ("symbols", render_symbols),
         ("queries", render_queries), ("exports", render_exports),
         ("estimators", render_estimators), ("coverage", render_coverage), ("codec", render_codec),
         ("ocaml", render_ocaml), ("events", render_events), ("eventlog", render_eventlog),
         ("tracks", render_tracks), ("processes", render_processes), ("depth", render_depth), ("cpython", render_cpython),
         ("attach", render_attach), ("heap", render_heap), ("soak", render_soak), ("fleet", render_fleet), ("viewer", render_viewer)]


# ---- targets

def target_rows(parts):
    rows = []
    if "instructions" in parts and not parts["instructions"]["data"]["failed"]:
        data = parts["instructions"]["data"]
        for name, what, target in (("mayfly", "sampling at 512 KiB", "<= 9"), ("mayfly-dormant", "dormant", "<= 9"),
                                   ("jemalloc-prof", "jemalloc prof above jemalloc", "-"),
                                   ("tcmalloc-sampling", "tcmalloc sampling above tcmalloc", "-")):
            if instructions.added(data, name) is not None:
                rows.append(["instructions of a malloc and free, above forwarding: " + what if target != "-" else
                             "for comparison: " + what, target, "%.1f" % instructions.added(data, name)])
    if "micro" in parts:
        data = parts["micro"]["data"]
        tight = data["loads"][0]
        for name, what in (("mayfly", "sampling at 512 KiB"), ("mayfly-dormant", "dormant")):
            values = micro.added(tight, name, "forward")
            fastest = micro.added(tight, name, "forward", "min")
            rows.append(["malloc and free, tight, 1 thread: added to a forwarding preload, " + what,
                         "<= 0.6 ns", "%+.2f ns (fastest batches %+.2f)" % (
                             measure.median(values), measure.median(fastest)) if values else "-"])
    if "events" in parts:
        load = parts["events"]["data"]["loads"][0]
        for kind, what in events.KINDS:
            values = events.values(load, "record", kind, "median_ns")
            rows.append(["one event, 1 thread: " + what, "<= 20 ns", "%.1f ns (fastest batches %.1f)" % (
                measure.median(values), measure.median(events.values(load, "record", kind, "min_ns")))
                if values else "-"])
        for kind, what in events.KINDS:
            values = events.added(load, "dormant", "none", kind)
            rows.append(["the same, dormant, added to no agent: " + what, "<= 1 ns",
                         "%.2f ns (fastest batches %.2f)" % (measure.median(values), measure.median(
                             events.added(load, "dormant", "none", kind, "min_ns"))) if values else "-"])
    if "macro" in parts:
        data = parts["macro"]["data"]
        mean, worst = mean_cell(data, "mayfly", "native", "cpu_s")
        noise, noisiest = mean_cell(data, "native-again", "native", "cpu_s")
        rows.append(["CPU of real programs at 512 KiB, in the process (geometric mean; worst)",
                     "<= 1.01; <= 1.02", "%s; %s" % (mean, worst)])
        rows.append(["the same of native against native: the noise", "1; 1",
                     "%s; %s" % (noise, noisiest)])
        mean, worst = mean_cell(data, "mayfly-record", "native", "cpu_s")
        rows.append(["with the recorder and its symbolising", "-", "%s; %s" % (mean, worst)])
        for name, base, label in (("jemalloc-prof", "jemalloc", "jemalloc prof"),
                                  ("tcmalloc-sampling", "tcmalloc", "tcmalloc sampling"),
                                  ("heaptrack-in-process", "native", "heaptrack, in the process")):
            rows.append(["for comparison: " + label, "-",
                         "%s; %s" % mean_cell(data, name, base, "cpu_s")])
        mean, worst = mean_cell(data, "mayfly", "native", "rss_bytes")
        rows.append(["peak resident memory, sampling (geometric mean; worst)", "<= 1.02",
                     "%s; %s" % (mean, worst)])
        live = data["live"]
        if not live["failed"]:
            grown = measure.median([r["rss"] for r in live["mayfly"]]) - \
                measure.median([r["rss"] for r in live["native"]])
            rows.append(["resident memory added at %s live samples" % live["samples"], "<= 4 MiB",
                         "%.2f MiB" % (grown / (1 << 20))])
        per = [(bytes_per_sample(p), p["name"]) for p in present(data)]
        per = [entry for entry in per if entry[0]]
        if per:
            rows.append(["trace bytes per sampled block, all included", "<= 15; <= 28 with C++ debug"
                         " info", "; ".join("%s %.1f" % (name, value) for value, name in per)])
        reading = [(p["reading"]["mayfly-record"]["wall_s"], p["name"]) for p in present(data)
                   if "mayfly-record" in p["reading"]]
        if reading:
            rows.append(["mayfly report on these traces, slowest", "<= 0.3 s",
                         "%.2f s (%s)" % max(reading)])
    if "exact" in parts:
        data = parts["exact"]["data"]
        for label, name, key, target in (
                ("exact: CPU, in the process", "exact", "in_process_cpu_s", "<= 1.20; <= 1.45"),
                ("exact: CPU, with the recorder", "exact", "cpu_s", "<= 1.5"),
                ("for comparison: heaptrack, in the process", "heaptrack-in-process", "cpu_s", "-"),
                ("for comparison: heaptrack, with its interpreter", "heaptrack", "cpu_s", "-"),
                ("exact: peak resident memory of the program", "exact", "in_process_rss_bytes",
                 "<= 1.10"),
                ("for comparison: heaptrack", "heaptrack-in-process", "rss_bytes", "-")):
            rows.append([label + " (geometric mean; worst)", target,
                         "%s; %s" % exact_mean(data, name, key)])
        ours = [per_allocation(p, "mayfly") for p in present(data)]
        theirs = [per_allocation(p, "heaptrack") for p in present(data)]
        if ours and all(ours) and all(theirs):
            rows.append(["exact: bytes per allocation with its free, all included (geometric mean)",
                         "<= 0.75", "%.3f (heaptrack %.3f)" % (
                             measure.geometric_mean(ours), measure.geometric_mean(theirs))])
        reading = [(p["reading"]["exact"]["wall_s"], p["reading"]["exact"]["rss_bytes"], p["name"])
                   for p in present(data) if "exact" in p["reading"]]
        if reading:
            rows.append(["exact: mayfly report, slowest", "<= 0.3 s; <= 64 MiB (clang)",
                         "; ".join("%s %.2f s, %s" % (name, wall, size(rss))
                                   for wall, rss, name in reading)])
    if "symbols" in parts and parts["symbols"]["data"]["rows"]:
        data = parts["symbols"]["data"]
        for row in data["rows"]:
            if not row["missing"]:
                ours = row["label"] == "mayfly"
                rows.append(["%d addresses with inlined frames%s" % (
                    data["addresses"], "" if ours else ", for comparison: " + row["label"]),
                    "<= 0.4 s; <= 120 MiB" if ours else "-", "%.2f s; %s" % (
                        measure.median(row["cpu_s"]), size(row["rss_bytes"]))])
    if "ocaml" in parts:
        rows += ocaml.target_rows(parts["ocaml"]["data"])
    return rows


def readme_events(parts):
    """What README.md says of events, as lines; none without the figures."""
    rows = []
    if "events" in parts:
        load = parts["events"]["data"]["loads"][0]
        for kind, what in events.KINDS:
            ours, dormant, theirs = (found and measure.median(found) for found in (
                events.values(load, "record", kind, "median_ns"),
                events.added(load, "dormant", "none", kind), events.values(load, "lttng", kind, "median_ns")))
            if ours and dormant and theirs:
                rows.append([what, "%.0f ns" % ours, "%.1f ns" % dormant, "%.0f ns" % theirs])
    lines = []
    if rows:
        lines += ["", "Events emitted by one thread, compared with LTTng-UST writing to a ring buffer in memory "
                  "(`bench/run --only events,eventlog`, %s):"
                  % parts["events"]["date"].split()[0], ""]
        lines += table(["", "`mayfly record`", "added by a dormant agent", "LTTng-UST"], rows)[:-1]
    logs = [entry for entry in parts.get("eventlog", {}).get("data", {}).get("streams", [])
            if eventlog.PEER in entry["runs"]]
    if logs:
        cpu = [" and ".join("%.2f" % eventlog.medians(entry, label, "cpu_s") for entry in logs)
               for label in (eventlog.IMPORT, eventlog.PEER)]
        lines += ["", "OCaml eventlogs of %s M events: importing takes %s s of CPU time; babeltrace2 prints them in %s s." % (
            " and ".join("%.2f" % (entry["events"] / 1e6) for entry in logs), *cpu)]
    return lines


# ---- what is there already

EARLIER = " **Measured with an earlier build of the agent.**"


def sections(text):
    """{title: lines}, in order; what is before the first by the title \"\"."""
    found, title = {"": []}, ""
    for line in text.splitlines():
        if line.startswith("## "):
            title = line[3:]
            found[title] = []
        else:
            found[title].append(line)
    return found


def first_cell(row):
    return row.split(" | ")[0]


def join_rows(old, new):
    """Rows of tables of targets: by what they are about."""
    rows = {first_cell(row): row for row in old + new if row.startswith("| ")}
    head, *rest = rows.values()
    return ["", "Where a section below was measured with an earlier build, its rows here are of that build, too.", "", head,
            "|---|---:|---:|", *rest, ""]


def mark_earlier(lines, before, after):
    """In the line with the date: another build, and another processor when it was one."""
    cpu = [[line for line in text if line.startswith("| CPU |")] for text in (before, after)]
    if EARLIER not in lines[1]:
        lines[1] += EARLIER
    if cpu[0] and cpu[0] != cpu[1] and " CPU: " not in lines[1]:
        lines[1] += " CPU: %s." % cpu[0][0].split("|")[2].strip()


def keep_others(old, new, commands):
    """The text `new` with the sections of `old` that were not measured this time, which are of an earlier build;
    commands: those of `new`."""
    before, after = sections(old), sections(new)
    for title, lines in before.items():
        if title not in ("", "Targets") and title not in after and len(lines) > 1:
            mark_earlier(lines, before[""], after[""])
    fence = before[""].index("```") if "```" in before[""] else None
    if fence is not None:
        former = before[""][fence + 1:before[""].index("```", fence + 1)]
        at = after[""].index("```") + 1
        after[""][at:at + len(commands)] = sorted({*former, *commands})
    if "Targets" in before and "Targets" in after:
        after["Targets"] = join_rows(before["Targets"], after["Targets"])
    joined = {"": after[""], **{title: after.get(title, lines) for title, lines in before.items()}, **after}
    lines = joined.pop("")
    for title, rest in joined.items():
        lines += ["## " + title, *rest]
        if rest and rest[-1]:
            lines.append("")
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines) + "\n"


def render(parts, machine, commands):
    lines = ["# Benchmark results", "",
             "Written by `bench/run`; how it measures is in [README.md](README.md). All figures are"
             " ratios or differences within one run, paired by round.", ""]
    lines += table(["", ""], machine)
    lines += ["Commands:", "", "```"] + commands + ["```", ""]
    rows = target_rows(parts)
    if rows:
        lines += ["## Targets", ""] + table(["what", "target", "reached"], rows)
    for name, renderer in PARTS:
        if name in parts:
            lines += renderer(parts[name])
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines) + "\n"
