# SPDX-License-Identifier: Apache-2.0
"""Track events in a trace: bytes for each, and what writing, reading and questions take (tracks.c)."""

import json
import os
import subprocess

import measure

SEQUENCES = [("spans", "begin and end of a span, no fields"), ("counter", "counter, an integer"),
             ("texts", "instant with one of 50 texts"),
             ("server", "four threads that handle requests: spans with numbers and texts, instants, counters")]
QUESTIONS = [["report", "--spans"], ["report", "--events"], ["export", "--force", "--to", "chrome", "-o", "/dev/null"]]


def measure_all(tools, rounds, quick, work, progress):
    program = tools.program("bench_tracks")
    result = {"rounds": rounds, "events": 100000 if quick else 1000000,
              "asked_events": 1000000 if quick else 10000000, "questions": []}
    if not os.path.exists(program):
        return dict(result, failed="bench_tracks is not built")
    progress("tracks: coding")
    done = subprocess.run([program, str(result["events"]), str(rounds)], capture_output=True)
    if done.returncode:
        return dict(result, failed=done.stderr.decode("utf-8", "replace").strip()[-200:])
    result["coding"] = json.loads(done.stdout)
    trace = os.path.join(work, "t.mayfly")
    progress("tracks: writing a trace")
    subprocess.run([program, str(result["asked_events"]), trace], check=True)
    result["trace_bytes"] = os.path.getsize(trace)
    for words in QUESTIONS:
        runs = []
        for number in range(rounds):
            progress("tracks: %s, round %d of %d" % (" ".join(words[:2]), number + 1, rounds))
            run = measure.Process(tools.spawn, [tools.mayfly] + words + [trace], {}, measure.CPUS, work).finish()
            if run["status"]:
                return dict(result, failed="%s: %s" % (words[0], run["complaint"]))
            runs.append({key: run[key] for key in ("cpu_s", "wall_s", "rss_bytes", "foreign")})
        result["questions"].append({"label": "mayfly " + " ".join(word for word in words if word not in (
            "--force", "-o", "/dev/null")), "runs": runs})
    os.unlink(trace)
    return result


def render(part, heading, table, quiet, size):
    data = part["data"]
    lines = heading("Track events in a trace", part)
    if "failed" in data:
        return lines + ["", data["failed"], ""]
    lines += [quiet([run["foreign"] for q in data["questions"] for run in q["runs"]]), "",
              "%d events from memory to memory: bytes of the file for each, and nanoseconds of CPU time, the fastest"
              " round." % data["events"], ""]
    coding = data["coding"]
    lines += table(["", "bytes", "write, ns", "read, ns"],
                   [[what, "%.2f" % (coding[name]["bytes"] / data["events"]), "%.1f" % coding[name]["write_ns"],
                     "%.1f" % coding[name]["read_ns"]] for name, what in SEQUENCES])
    lines += ["Of a file with %d events of the last kind, %s; medians:" % (
        data["asked_events"], size(data["trace_bytes"])), ""]
    rows = []
    for question in data["questions"]:
        cpu = measure.median([run["cpu_s"] for run in question["runs"]])
        rows.append(["`%s`" % question["label"], "%.2f" % cpu,
                     "%.2f" % measure.median([run["wall_s"] for run in question["runs"]]),
                     "%.1f" % (cpu * 1e9 / data["asked_events"]),
                     size(max(run["rss_bytes"] for run in question["runs"]))])
    return lines + table(["", "CPU, s", "wall, s", "ns of CPU per event", "peak memory"], rows)
