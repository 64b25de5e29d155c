# SPDX-License-Identifier: Apache-2.0
"""Memtrace's coding beside mayfly's: bytes for each sampled block, split into what they are for, and
nanoseconds for each event; and what other rules of prediction would give. bench_codec (codec.c) does
it for one file. Files: Memtrace's own, where MAYFLY_DATA has them, and recordings made here."""

import glob
import json
import os
import subprocess

import exact
import measure
import samples

PARTS = ["stacks", "times", "ids", "locations", "sizes", "rest"]
INTERVAL = "16K"
MODELS = ["last", "several", "strong", "longer"]


def files(here):
    data = os.environ.get("MAYFLY_DATA", os.path.join(here, "..", "shared", "data"))
    return sorted(glob.glob(os.path.join(data, "memtrace-corpus", "*.ctf")))


def compute(tools, path, rounds):
    done = subprocess.run([tools.program("bench_codec"), path, str(rounds)], capture_output=True)
    if done.returncode:
        raise RuntimeError(done.stderr.decode("utf-8", "replace").strip()[-200:])
    return json.loads(done.stdout)


def record(tools, program, work):
    trace = os.path.join(work, "t.mayfly")
    code, said = samples.run([tools.mayfly, "record", "-i", INTERVAL, "-o", trace, "--"]
                             + program.command, program, work)
    if code or not os.path.exists(trace):
        raise RuntimeError(said.strip()[-200:])
    return trace


def measure_all(tools, rounds, quick, work, progress, chosen):
    result = {"rounds": rounds, "interval": INTERVAL, "files": []}
    if not os.path.exists(tools.program("bench_codec")):
        result["failed"] = "bench_codec is not built"
        return result

    def add(name, make):
        progress("codec: " + name)
        entry = {"name": name}
        try:
            entry.update(compute(tools, make(), rounds))
        except RuntimeError as error:
            entry["failed"] = str(error)
        result["files"].append(entry)

    for path in files(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))):
        add(os.path.basename(path)[:-len(".ctf")], lambda path=path: path)
    makers = exact.programs(tools, os.path.join(os.path.dirname(work), "macro", "inputs"), quick)
    for name in samples.PROGRAMS:
        if name in chosen:
            program = makers[name]()
            if not program.missing():
                add(name, lambda program=program: record(tools, program, work))
    return result


# ---- Markdown

EXPLANATION = """\
Rules for the two places where mayfly predicts: the frame that follows a frame, in each new stack
(*frames*), and which known stack the next block has (*stacks*).

- **last**: one symbol for each context, the one that came last. This is Memtrace's rule.
- **several**: the last 64, the latest first. mayfly's rule for frames.
- **strong**: the same, but the first one must be wrong twice before it is replaced.
- **longer**: the two frames, or stacks, before; where that is new, as *several*.

Figures are the entropy of the places in bytes, a symbol in no list taken for log2 of how many there
are: what an ideal coder would need. A symbol that was never there before counts only as new. *file*: the
bytes of mayfly's columns for it, compressed (for frames also which the new ones are and where stacks
branch; each stack is named by how many new stacks ago it was new).
"""


def per_block(entry, coding, part=None):
    numbers = entry[coding]
    return (numbers["parts"][part] if part else numbers["bytes"]) / entry["blocks"]


def shown(data):
    return [entry for entry in data["files"] if "failed" not in entry]


def size_rows(data):
    rows = []
    for entry in shown(data):
        row = [entry["name"], entry["blocks"], "%.0f" % (entry["frames"] / entry["blocks"]),
               "%.1f -> %.1f" % (per_block(entry, "memtrace"), per_block(entry, "mayfly"))]
        row += ["%.1f -> %.1f" % (per_block(entry, "memtrace", part), per_block(entry, "mayfly", part))
                for part in PARTS]
        row.append("%.2f" % (entry["mayfly"]["bytes"] / entry["memtrace"]["bytes"]))
        rows.append(row)
    return rows


def time_rows(data):
    return [[entry["name"], entry["events"]]
            + ["%.0f" % entry[coding][key] for coding in ("memtrace", "mayfly")
               for key in ("write_ns", "read_ns")] for entry in shown(data)]


def model_rows(data, key, file_key):
    return [[entry["name"]] + ["%.0f" % entry[key][model] for model in MODELS]
            + ["%.0f" % entry[file_key], "%d" % entry["mayfly"]["bytes"]] for entry in shown(data)]


def render(data, table):
    """table: as render.py has it."""
    if "failed" in data:
        return [data["failed"], ""]
    lines = [
        "The same events, without promotions, coded as Memtrace does (version 2; our writer, whose files"
        " are the same bytes) and as mayfly does, from memory to memory. The first files are of Memtrace's"
        " own collection; the programs are recorded with `mayfly record -i %s`, all with names."
        % data["interval"], "",
        "Bytes for each sampled block, Memtrace -> mayfly. mayfly's times are in units of 2 us, Memtrace's"
        " of 1 us.", ""]
    lines += table(["", "blocks", "frames per block", "all"] + PARTS + ["ratio"], size_rows(data))
    lines += ["Nanoseconds of CPU time for each event, the best round. mayfly's writing compresses, and"
              " is done by the recorder and not in the program; files with few events bear the cost of"
              " starting the compressor at its highest level.", ""]
    lines += table(["", "events", "Memtrace: write", "read", "mayfly: write", "read"], time_rows(data))
    lines += [EXPLANATION]
    for what, key, file_key in (("frames", "frame_models", "tree_bytes"),
                                ("stacks", "stack_models", "site_bytes")):
        lines += table([what] + MODELS + ["file", "whole file"], model_rows(data, key, file_key))
    lines += summary(data)
    return lines


def summary(data):
    """What each rule would save of all the bytes of all files, against "several"."""
    entries = shown(data)
    if not entries:
        return []
    lines = []
    for what, key, file_key in (("frames", "frame_models", None),
                                ("stacks", "stack_models", "site_bytes")):
        changes = []
        for model in MODELS:
            ratios = [1 + (entry[key][model] - entry[key]["several"]) / entry["mayfly"]["bytes"]
                      for entry in entries]
            changes.append("%s %+.1f %%" % (model, 100 * (measure.geometric_mean(ratios) - 1)))
        if file_key:
            ratios = [1 + (entry[file_key] - entry[key]["several"]) / entry["mayfly"]["bytes"]
                      for entry in entries]
            changes.append("as it is %+.1f %%" % (100 * (measure.geometric_mean(ratios) - 1)))
        lines.append("Size of a file with another rule for %s, against *several* (geometric mean): %s."
                     % (what, ", ".join(changes)))
        lines.append("")
    return lines
