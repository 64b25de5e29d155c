# SPDX-License-Identifier: Apache-2.0
"""Nanoseconds per event of a program (mayfly/mayfly.h), without an agent, with one that is dormant,
recording; beside tracepoints of LTTng-UST, which write to a ring in memory that nobody reads: the
least that they cost. And of a program that maps memory, below and above the size that is recorded."""

import json
import os
import shutil
import signal
import subprocess
import time

import measure
import variants

KINDS = [("span", "begin or end of a span"), ("counter", "counter"),
         ("instant", "instant, 2 numbers")]
THREADS = [1, 2]
SIZES = [("64K", "64 KiB"), ("2M", "2 MiB")]  # of mappings; those of 1 MiB and more are recorded
SESSION = "mayfly-bench"
BATCH = 10000  # events, of events.c
PAUSE_MS = "3"  # behind each of these


class Lttng:
    """A session, with a daemon of our own when none is there. Use it by `with`."""

    def __init__(self, tools, work):
        self.work = work
        self.pid_file = os.path.join(work, "sessiond.pid")
        self.missing = None
        if not os.path.exists(tools.program("bench_events_lttng")):
            self.missing = "not built"
        elif not shutil.which("lttng") or not shutil.which("lttng-sessiond"):
            self.missing = "not installed"
        self.failed = None

    def lttng(self, *words):
        done = subprocess.run(["lttng", "--no-sessiond", *words], capture_output=True, text=True)
        if done.returncode and not self.failed:
            self.failed = "lttng %s: %s" % (words[0], (done.stderr or done.stdout).strip()[-200:])
        return done.returncode == 0

    def begin(self):
        shutil.rmtree(os.path.join(self.work, "lttng"), ignore_errors=True)
        return self.lttng("create", SESSION, "--snapshot",
                          "--output=" + os.path.join(self.work, "lttng")) and \
            self.lttng("enable-channel", "-u", "--overwrite", "--subbuf-size=1M", "--num-subbuf=4",
                       "events") and \
            self.lttng("enable-event", "-u", "-c", "events", "mayfly_bench:*") and \
            self.lttng("start")

    def end(self):
        """What is in the ring goes to files, which shows that there was something in it."""
        self.lttng("snapshot", "record")
        written = sum(os.path.getsize(os.path.join(folder, name))
                      for folder, _, names in os.walk(os.path.join(self.work, "lttng"))
                      for name in names)
        if written < 1 << 20 and not self.failed:
            self.failed = "only %d bytes were recorded" % written
        self.lttng("destroy", SESSION)

    def __enter__(self):
        if not self.missing:
            running = subprocess.run(["lttng", "--no-sessiond", "list"], capture_output=True)
            if running.returncode:
                subprocess.run(["lttng-sessiond", "--daemonize", "--pidfile=" + self.pid_file],
                               capture_output=True)
        return self

    def __exit__(self, *_):
        if os.path.exists(self.pid_file):
            with open(self.pid_file) as f:
                os.kill(int(f.read()), signal.SIGTERM)
            for _ in range(100):
                if not os.path.exists(self.pid_file):
                    break
                time.sleep(0.1)


def list_variants(tools, lttng):
    native = variants.Variant("none", "no agent", None)
    record = variants.Variant(
        "record", "mayfly record", None, missing=None if tools.has_mayfly() else "not built",
        wrap=lambda command, work: [tools.mayfly, "record", "-q", "-o",
                                    os.path.join(work, "t.mayfly"), "--"] + command)
    idle = variants.Variant("lttng-idle", "LTTng-UST, no session", None, missing=lttng.missing)
    ring = variants.Variant("lttng", "LTTng-UST, into a ring", None, missing=lttng.missing)
    return [native, tools.agent_variant("dormant", "agent, dormant", "start=dormant", None),
            tools.agent_variant("agent", "agent, into a spool that nobody reads", "start=on", None),
            record, idle, ring]


def run_program(tools, variant, command, work):
    process = measure.Process(tools.spawn, variant.wrap(command, work), variant.env(work),
                              measure.CPUS, work)
    run = process.finish()
    if run["status"]:
        raise RuntimeError("%s: status %d: %s" % (variant.name, run["status"], run["complaint"]))
    return json.loads(process.output()), run


def one(tools, variant, threads, batches, work):
    program = "bench_events_lttng" if variant.name.startswith("lttng") else "bench_events"
    figures, run = run_program(tools, variant, [tools.program(program), str(threads), str(batches), PAUSE_MS],
                               work)
    figures["all"] = {"ns": run["cpu_s"] * 1e9 / (threads * batches * BATCH * len(KINDS))}
    return figures, run["foreign"]


def dropped(tools, work):
    done = subprocess.run([tools.mayfly, "info", "--json", os.path.join(work, "t.mayfly")],
                          capture_output=True)
    return json.loads(done.stdout)["dropped_events"] if done.returncode == 0 else None


def clean(variant, work):
    for name in os.listdir(work):
        if name.endswith(".spool"):
            os.unlink(os.path.join(work, name))


def measure_all(tools, rounds, quick, work, progress):
    result = {"rounds": rounds, "foreign": [], "failed": {}, "loads": [], "dropped": 0}
    with Lttng(tools, work) as lttng:
        present = list_variants(tools, lttng)
        result["variants"] = [{"name": v.name, "label": v.label, "missing": v.missing}
                              for v in present]
        present = [v for v in present if not v.missing]
        for threads in THREADS:
            load = {"threads": threads, "figures": {}}
            for number in range(rounds):
                progress("events: %d thread(s), round %d of %d" % (threads, number + 1, rounds))
                for variant in measure.rotated(present, number):
                    if variant.name in result["failed"]:
                        continue
                    try:
                        if variant.name == "lttng" and not lttng.begin():
                            raise RuntimeError(lttng.failed)
                        figures, foreign = one(tools, variant, threads, 20 if quick else 60, work)
                        if variant.name == "lttng":
                            lttng.end()
                            if lttng.failed:
                                raise RuntimeError(lttng.failed)
                    except (RuntimeError, ValueError) as error:
                        result["failed"][variant.name] = str(error)
                        continue
                    if variant.name == "record":
                        result["dropped"] += dropped(tools, work) or 0
                    clean(variant, work)
                    load["figures"].setdefault(variant.name, []).append(figures)
                    result["foreign"].append(foreign)
            result["loads"].append(load)
    measure_maps(tools, [v for v in present if not v.name.startswith("lttng")], rounds, quick, work,
                 progress, result)
    return result


def measure_maps(tools, present, rounds, quick, work, progress, result):
    result["maps"] = {}
    for number in range(rounds):
        progress("events: mappings, round %d of %d" % (number + 1, rounds))
        for variant in measure.rotated(present, number):
            if variant.name in result["failed"]:
                continue
            try:
                figures, run = run_program(tools, variant, [
                    tools.program("bench_maps"), "10" if quick else "50", PAUSE_MS], work)
            except (RuntimeError, ValueError) as error:
                result["failed"][variant.name] = str(error)
                continue
            clean(variant, work)
            result["maps"].setdefault(variant.name, []).append(figures)
            result["foreign"].append(run["foreign"])


def values(load, name, kind, which):
    return [f[kind][which] for f in load["figures"].get(name, []) if kind in f]


def ratios(load, name, other, kind, which="median_ns"):
    return [a / b for a, b in zip(values(load, name, kind, which), values(load, other, kind, which))]


def cells(data, name, which):
    row = []
    for load in data["loads"]:
        for kind, _ in KINDS:
            found = values(load, name, kind, which)
            row.append("%.2f" % measure.median(found) if found else "-")
    return row


def render(data, table):
    """table: of bench/render.py."""
    head = [""] + ["%s, %d thread%s" % (kind, load["threads"], "s"[:load["threads"] > 1])
                   for load in data["loads"] for kind, _ in KINDS]
    lines = []
    for which, what in (("median_ns", "Nanoseconds of thread CPU time per event, its loop included:"
                         " median of the rounds, each the median of its batches (10,000 events, then %s ms of"
                         " sleep). %s." % (PAUSE_MS, "; ".join("*%s*: %s" % pair for pair in KINDS))),
                        ("min_ns", "The same by each run's fastest batch:")):
        rows = []
        for v in data["variants"]:
            why = v["missing"] or data["failed"].get(v["name"])
            rows.append([v["label"]] + ([why] + [""] * (len(head) - 2) if why
                                        else cells(data, v["name"], which)))
        lines += [what, ""] + table(head, rows)
    rows = []
    for label, name, which in (("medians", "record", "median_ns"), ("fastest batches", "record", "min_ns")):
        row = [label]
        for load in data["loads"]:
            for kind, _ in KINDS:
                found = ratios(load, name, "lttng", kind, which)
                row.append("%.2f" % measure.median(found) if found else "-")
        rows.append(row)
    lines += ["mayfly record over LTTng-UST in the same round:", ""] + table(head, rows)
    both = ["%.0f with %d thread%s" % (measure.median(found), load["threads"], "s"[:load["threads"] > 1])
            for load in data["loads"] for found in [added(load, "record", "none", "all", "ns")] if found]
    if both:
        lines += ["CPU time of program and recorder together, from the start to the finished file, above that of the"
                  " program alone: nanoseconds per event: %s." % ", ".join(both), ""]
    lines += ["Events that mayfly had no room for: %d." % data["dropped"], ""]
    return lines + render_maps(data, table)


def added(load, name, other, kind, which="median_ns"):
    """By round. load: of loads, or {"figures": data["maps"]}."""
    return [a - b for a, b in zip(values(load, name, kind, which), values(load, other, kind, which))]


def render_maps(data, table):
    load = {"figures": data.get("maps", {})}
    rows = []
    for v in data["variants"]:
        if v["name"] not in load["figures"] or "none" not in load["figures"]:
            continue
        row = [v["label"]]
        for size, _ in SIZES:
            row.append("%.0f" % measure.median(values(load, v["name"], size, "median_ns")))
            row.append("%+.0f; %+.0f" % tuple(measure.median(added(load, v["name"], "none", size, which))
                                              for which in ("median_ns", "min_ns")))
        rows.append(row)
    head = [""] + [cell for _, size in SIZES for cell in (size, "to no agent")]
    return ["Nanoseconds of thread CPU time for an mmap with its munmap, which `mayfly record` records from 1 MiB on"
            " (two events with their stacks); and the difference to the run without an agent in the same round,"
            " by medians and by the fastest batches:", ""] + table(head, rows)
