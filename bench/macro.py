# SPDX-License-Identifier: Apache-2.0
"""Real programs: CPU, wall time, resident memory, files, and the time that reading them takes."""

import glob
import json
import os
import shutil
import socket
import subprocess
import time

import inputs
import measure
import variants


class Program:
    """A command that runs to its end. one_cpu: pin it to one CPU (it has one thread)."""

    one_cpu = True

    def __init__(self, name, what, needs, command, stdin=None, env=None):
        self.name = name
        self.what = what
        self.needs = needs
        self.command = command
        self.stdin = stdin
        self.env = env or {}

    def missing(self):
        return None if shutil.which(self.needs) else "not installed"

    def run(self, tools, variant, work):
        env = dict(self.env)
        env.update(variant.env(work))
        cpus = measure.CPUS[-1:] if self.one_cpu and not variant.wraps else measure.CPUS
        process = measure.Process(tools.spawn, variant.wrap(self.command, work), env, cpus, work,
                                  self.stdin)
        return process.finish()


class Threads(Program):
    one_cpu = False


class Redis(Program):
    """The server is measured, from its start to its shutdown; the load has a CPU of its own."""

    def __init__(self, requests, keys):
        super().__init__("redis", "redis-server under redis-benchmark -P 16", "redis-benchmark", None)
        self.requests = requests
        self.keys = keys

    def missing(self):
        return None if shutil.which("redis-server") and shutil.which("redis-benchmark") \
            else "not installed"

    def run(self, tools, variant, work):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.command = ["redis-server", "--port", str(port), "--save", "", "--appendonly", "no",
                        "--bind", "127.0.0.1", "--dir", work]
        cpus = measure.CPUS if variant.wraps else measure.CPUS[-1:]
        server = measure.Process(tools.spawn, variant.wrap(self.command, work), variant.env(work),
                                 cpus, work)
        try:
            self.wait_until_ready(server, port)
            start = time.monotonic()
            subprocess.run(["redis-benchmark", "-h", "127.0.0.1", "-p", str(port), "-P", "16", "-q",
                            "-n", str(self.requests), "-r", str(self.keys), "-d", "100",
                            "-t", "set,get,lpush,lpop,hset,zadd"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
                           preexec_fn=lambda: os.sched_setaffinity(0, measure.CPUS[:1]))
            wall = time.monotonic() - start
        finally:
            subprocess.run(["redis-cli", "-p", str(port), "shutdown", "nosave"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        run = server.finish()
        run["wall_s"] = wall  # of the fixed number of requests
        run["digest"] = None  # a log with times in it
        run["foreign"] = None  # the load generator would count as foreign
        return run

    @staticmethod
    def wait_until_ready(server, port):
        for _ in range(400):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                if server.popen.poll() is not None:
                    break
                time.sleep(0.05)
        raise RuntimeError("redis-server did not start: " + server.complaint())


def programs(tools, folder, quick):
    """The programs, with their inputs made. quick: the same work, a few times less of it."""
    def sized(full, small):
        return small if quick else full
    tag = "-quick" if quick else ""
    return [
        lambda: Program(
            "clang", "clang-14 -std=c++17 -O1 -c of a template-heavy file", "clang-14",
            ["clang-14", "-std=c++17", "-O1", "-c", "-o", "out.o",
             inputs.make(folder, "big%s.cc" % tag, inputs.cpp, sized(12, 2))]),
        lambda: Program(
            "python", "python3, JSON and AST, PYTHONMALLOC=malloc", "/usr/bin/python3",
            ["/usr/bin/python3",
             inputs.make(folder, "work%s.py" % tag, inputs.python, sized(60000, 12000),
                         sized(4000, 800))],
            env={"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}),
        lambda: Program(
            "jq", "jq group_by on %d MB" % sized(70, 14), "jq",
            ["jq", inputs.JQ_FILTER,
             inputs.make(folder, "rows%s.json" % tag, inputs.json_rows, sized(70, 14))]),
        lambda: Program(
            "sqlite", "sqlite3 in memory", "sqlite3", ["sqlite3", ":memory:"],
            stdin=inputs.make(folder, "script%s.sql" % tag, inputs.sql, sized(300000, 60000))),
        lambda: Redis(sized(500000, 100000), 100000),
        lambda: Threads(
            "stress", "2 threads that only allocate and free", tools.program("bench_stress"),
            [tools.program("bench_stress"), "2", str(sized(6000000, 1000000))]),
    ]


NAMES = ["clang", "python", "jq", "sqlite", "redis", "stress"]


def clear(variant, work):
    for path in glob.glob(os.path.join(work, variant.file)) if variant.file else []:
        os.unlink(path)


def collect_file(tools, variant, work, run):
    """Size of the output file; for a mayfly trace also its counts."""
    found = glob.glob(os.path.join(work, variant.file)) if variant.file else []
    if not found:
        return
    run["file_bytes"] = sum(os.path.getsize(path) for path in found)
    if variant.name in ("mayfly", "mayfly-record"):
        run["info"] = trace_info(tools, found[0])


def trace_info(tools, path):
    if not os.path.exists(tools.mayfly):
        return {}
    result = subprocess.run([tools.mayfly, "info", "--json", path], capture_output=True)
    try:
        info = json.loads(result.stdout)
    except ValueError:
        return {"error": result.stderr.decode("utf-8", "replace").strip()[-200:]}
    keep = ("samples", "frees", "stacks", "frames", "frames_symbolized", "truncated_stacks",
            "dropped_samples", "file_bytes", "duration_ns")
    return {key: info[key] for key in keep if key in info}


def measure_program(tools, program, rounds, heaptrack_rounds, work, progress, only_variants):
    variants_all = [v for v in tools.macro(heaptrack_rounds)
                    if not only_variants or v.name in only_variants or v.name == "native"]
    result = {"name": program.name, "what": program.what, "runs": {}, "failed": {},
              "missing": {v.name: v.missing for v in variants_all if v.missing}}
    present = [v for v in variants_all if not v.missing]
    for number in range(rounds):
        for variant in measure.rotated(present, number):
            if variant.name in result["failed"] or \
                    variant.rounds is not None and number >= variant.rounds:
                continue
            progress("%s: %s, round %d of %d" % (program.name, variant.label, number + 1, rounds))
            clear(variant, work)
            try:
                run = program.run(tools, variant, work)
                if run["status"]:
                    raise RuntimeError("status %d: %s" % (run["status"], run["complaint"]))
            except (RuntimeError, subprocess.CalledProcessError) as error:
                result["failed"][variant.name] = str(error)
                continue
            run["round"] = number
            collect_file(tools, variant, work, run)
            result["runs"].setdefault(variant.name, []).append(run)
    result["reading"] = measure_reading(tools, present, work, 3 if rounds > 1 else 1)
    for variant in present:
        clear(variant, work)
    return result


def measure_reading(tools, present, work, times):
    """From a finished trace to a first report, start of the process to its end."""
    reading = {}
    for variant in present:
        found = glob.glob(os.path.join(work, variant.file)) if variant.file else []
        if not found:
            continue
        if variant.name == "mayfly-record":
            command = [tools.mayfly, "report", found[0]]
        elif variant.name == "mayfly":
            command = [tools.mayfly, "report", found[0]]
        elif variant.name == "heaptrack" and tools.heaptrack_print:
            command = [tools.heaptrack_print, found[0]]
        else:
            continue
        runs = [measure.Process(tools.spawn, command, {}, measure.CPUS, work).finish()
                for _ in range(times)]
        failed = [r for r in runs if r["status"]]
        reading[variant.name] = {
            "wall_s": measure.median([r["wall_s"] for r in runs]),
            "cpu_s": measure.median([r["cpu_s"] for r in runs]),
            "rss_bytes": max(r["rss_bytes"] for r in runs),
            "file_bytes": os.path.getsize(found[0]),
            "failed": failed[0]["complaint"] if failed else None}
    return reading


LIVE_BLOCKS = 40000
LIVE_SIZE = 1024
LIVE_INTERVAL = "4K"  # one block of four is a sample


def measure_live(tools, rounds, work, progress):
    """Resident memory that the agent adds when the process holds 10,000 live samples."""
    result = {"blocks": LIVE_BLOCKS, "size": LIVE_SIZE, "interval": LIVE_INTERVAL, "native": [],
              "mayfly": [], "samples": None, "failed": None}
    variant = tools.agent_variant("mayfly", "mayfly", "interval=" + LIVE_INTERVAL)
    if variant.missing:
        result["failed"] = variant.missing
        return result
    command = [tools.program("bench_live"), str(LIVE_BLOCKS), str(LIVE_SIZE)]
    for number in range(max(rounds, 3)):
        progress("live samples, round %d" % (number + 1))
        for name, env in (("native", {}), ("mayfly", variant.env(work))):
            clear(variant, work)
            process = measure.Process(tools.spawn, command, env, measure.CPUS[-1:], work)
            run = process.finish()
            if run["status"]:
                result["failed"] = "status %d: %s" % (run["status"], run["complaint"])
                return result
            result[name].append(json.loads(process.output()))
        spool = glob.glob(os.path.join(work, variant.file))
        if spool:
            result["samples"] = trace_info(tools, spool[0]).get("samples")
        clear(variant, work)
    return result


def measure_all(tools, rounds, quick, work, progress, chosen, only_variants):
    heaptrack_rounds = min(rounds, 2)
    results = {"rounds": rounds, "heaptrack_rounds": heaptrack_rounds, "programs": [],
               "interval": variants.INTERVAL}
    makers = dict(zip(NAMES, programs(tools, os.path.join(work, "inputs"), quick)))
    for name in NAMES:
        if name not in chosen:
            continue
        progress("%s: input" % name)
        program = makers[name]()
        if program.missing():
            results["programs"].append({"name": name, "what": program.what,
                                        "absent": program.missing()})
            continue
        results["programs"].append(measure_program(tools, program, rounds, heaptrack_rounds, work,
                                                   progress, only_variants))
    results["live"] = measure_live(tools, rounds, work, progress)
    return results


def ratios(program, name, base, key):
    """This variant over its base, in each round. Where native ran twice in a round, the base is
    the mean of both, except for native itself."""
    by_round = {}
    bases = [base]
    if base == "native" and name != "native-again" and "native-again" in program["runs"]:
        bases.append("native-again")
    for one in bases:
        for run in program["runs"].get(one, []):
            by_round.setdefault(run["round"], []).append(run[key])
    return [run[key] / (sum(by_round[run["round"]]) / len(by_round[run["round"]]))
            for run in program["runs"].get(name, []) if by_round.get(run["round"])]
