# SPDX-License-Identifier: Apache-2.0
"""Eventlogs of OCaml's runtime, read by mayfly and by babeltrace2. The program that makes them (eventlog.ml) writes
as many bytes each time."""

import glob
import os
import shutil
import struct
import subprocess

import measure

HERE = os.path.dirname(os.path.abspath(__file__))
PEER = "babeltrace2, as text"
IMPORT = "mayfly import"
LABELS = [IMPORT, "mayfly report", "mayfly export --to chrome", PEER]
# Name, what it is, the arguments of eventlog.ml, and a hundredth of it.
STREAMS = [("requests", "blocks that are promoted while a slice is due: nearly all events say the same, and mayfly makes"
            " one of those that follow one another at once", ["240", "0"], ["3", "0"]),
           ("phases", "minor collections of nothing: nearly all events are phases of the collector, and mayfly keeps"
            " all", ["0", "180000"], ["0", "1800"])]
PAYLOAD = [2, 2, 10, 9, 8]  # bytes of each kind of event


def count_events(path):
    with open(path, "rb") as f:
        data = f.read()
    at, events, kind_of = 8, 0, struct.Struct("<I")
    while at < len(data):
        at += 16 + PAYLOAD[kind_of.unpack_from(data, at + 12)[0]]
        events += 1
    return events


def said(command, work, env=None):
    done = subprocess.run(command, cwd=work, capture_output=True, env=env)
    if done.returncode:
        raise RuntimeError(done.stderr.decode("utf-8", "replace").strip()[-200:])
    return done.stdout.decode().strip()


def make_program(work):
    program = os.path.join(work, "eventlog.exe")
    source = os.path.join(work, "eventlog.ml")
    shutil.copy(os.path.join(HERE, "eventlog.ml"), source)
    said(["ocamlopt", "-runtime-variant", "i", source, "-o", program], work)
    return program


def make_stream(program, metadata, name, arguments, work):
    """A folder with an eventlog and what describes it."""
    folder = os.path.join(work, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    said([program] + arguments, work, dict(os.environ, OCAML_EVENTLOG_ENABLED="1",
                                           OCAML_EVENTLOG_PREFIX=os.path.join(folder, "caml")))
    shutil.copy(metadata, os.path.join(folder, "metadata"))
    return folder


def commands(tools, folder, work):
    """By label; of what is not installed none."""
    trace = os.path.join(work, "t.mayfly")
    found = {IMPORT: [tools.mayfly, "import", "--force", "-o", trace, folder],
             "mayfly report": [tools.mayfly, "report", folder],
             "mayfly export --to chrome":
                 [tools.mayfly, "export", "--force", "--to", "chrome", "-o", "/dev/null", folder]}
    if shutil.which("babeltrace2"):
        # Some 200 MB: nobody needs them on a disk.
        found[PEER] = ["sh", "-c", "exec babeltrace2 \"$1\" > /dev/null", "sh", folder]
    return found


def measure_stream(tools, entry, folder, rounds, work, progress):
    for number in range(rounds):
        for label, command in measure.rotated(list(commands(tools, folder, work).items()), number):
            progress("eventlog: %s, %s, round %d of %d" % (entry["name"], label, number + 1, rounds))
            run = measure.Process(tools.spawn, command, {}, measure.CPUS, work).finish()
            if run["status"]:
                raise RuntimeError("%s: status %d: %s" % (label, run["status"], run["complaint"]))
            entry["runs"].setdefault(label, []).append(
                {key: run[key] for key in ("cpu_s", "wall_s", "rss_bytes", "foreign")})
    entry["trace_bytes"] = os.path.getsize(os.path.join(work, "t.mayfly"))


def measure_all(tools, rounds, quick, work, progress):
    results = {"rounds": rounds, "streams": []}
    if not shutil.which("ocamlopt"):
        return dict(results, failed="ocamlopt is not installed")
    progress("eventlog: making it")
    try:
        metadata = os.path.join(said(["ocamlopt", "-where"], work), "eventlog_metadata")
        if not os.path.exists(metadata):
            return dict(results, failed="this OCaml has no eventlog (4.11 to 4.14 have)")
        program = make_program(work)
    except RuntimeError as error:
        return dict(results, failed=str(error))
    for name, what, arguments, few in STREAMS:
        entry = {"name": name, "what": what, "runs": {}}
        results["streams"].append(entry)
        try:
            folder = make_stream(program, metadata, name, few if quick else arguments, work)
            path, = glob.glob(os.path.join(folder, "caml.*.eventlog"))
            entry["bytes"] = os.path.getsize(path)
            entry["events"] = count_events(path)
            measure_stream(tools, entry, folder, rounds, work, progress)
            shutil.rmtree(folder)
        except RuntimeError as error:
            entry["failed"] = str(error)
    return results


# ---- as text

def medians(entry, label, key):
    return measure.median([run[key] for run in entry["runs"][label]])


def ratios(entry, label, key):
    """babeltrace2's over ours, of each round."""
    return [theirs[key] / max(ours[key], 1e-4)
            for ours, theirs in zip(entry["runs"][label], entry["runs"].get(PEER, []))]


def cells(entry, label, spread, size):
    if label not in entry["runs"]:
        return [label, "not installed"] + [""] * 5
    runs = entry["runs"][label]
    cpu = medians(entry, label, "cpu_s")
    row = [label, "%.3f" % cpu, "%.3f" % medians(entry, label, "wall_s"),
           "%.1f" % (entry["events"] / max(cpu, 1e-4) / 1e6), size(max(run["rss_bytes"] for run in runs))]
    for key in ("cpu_s", "wall_s"):
        row.append("1" if label == PEER else spread(ratios(entry, label, key), "%.1f"))
    return row


def foreign(data):
    return [run["foreign"] for entry in data["streams"] for runs in entry["runs"].values() for run in runs]


def render(part, heading, table, spread, quiet, size):
    data = part["data"]
    lines = heading("OCaml's eventlog", part)
    if "failed" in data:
        return lines + ["", data["failed"], ""]
    lines += [quiet(foreign(data)), "",
              "From a folder with the file that the runtime wrote (`eventlog.ml`); what is printed goes to /dev/null."
              " Medians of CPU and wall time; babeltrace2's time over ours in the same round"
              " [smallest-largest].", ""]
    for entry in data["streams"]:
        if "failed" in entry:
            lines += ["**%s**: %s" % (entry["name"], entry["failed"]), ""]
            continue
        lines += ["**%s**, %d events in %s: %s. Its trace: %s." % (
            entry["name"], entry["events"], size(entry["bytes"]), entry["what"], size(entry["trace_bytes"])), ""]
        lines += table(["", "CPU, s", "wall, s", "M events per s of CPU", "peak memory", "babeltrace2's CPU over it",
                        "wall"], [cells(entry, label, spread, size) for label in LABELS])
    return lines
