# SPDX-License-Identifier: Apache-2.0
"""The limits of a long exact recording: redis-server under load with --max-size, looked at once a second."""

import json
import os
import random
import shutil
import socket
import subprocess
import time

LIMIT = 20 << 20
LOOK_S = 1
CHANGE_S = 240  # then the server is emptied, and it fills anew
KEYS = 1000000


def private_memory(pid):
    """Bytes that are the process's own: no mapped spool or trace."""
    try:
        with open("/proc/%d/status" % pid) as f:
            return next((int(line.split()[1]) << 10 for line in f if line.startswith("RssAnon:")), 0)
    except OSError:
        return 0


def disk_bytes(path):
    try:
        return os.stat(path).st_blocks * 512
    except OSError:
        return 0


def load(port, number):
    kinds = random.Random(number).sample(["set", "lpush", "hset", "sadd", "zadd", "mset"], 2)
    return subprocess.Popen(["redis-benchmark", "-p", str(port), "-q", "-t", ",".join(kinds), "-r", str(KEYS), "-n", "300000",
                             "-P", "16", "-d", str(40 + 60 * (number % 3))],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def watch(tools, minutes, work, progress):
    trace = os.path.join(work, "soak.mayfly")
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
    recorder = subprocess.Popen([tools.mayfly, "record", "-q", "-x", "--force", "--max-size", str(LIMIT), "-o", trace, "--",
                                 "redis-server", "--port", str(port), "--save", "", "--appendonly", "no"],
                                stdout=subprocess.DEVNULL, cwd=work)
    begin = time.monotonic()
    emptied, number, client = begin, 0, None
    most = {"part": 0, "spool": 0, "memory": 0}
    while time.monotonic() - begin < 60 * minutes and recorder.poll() is None:
        time.sleep(LOOK_S)
        most["part"] = max(most["part"], disk_bytes(trace + ".part"))
        most["spool"] = max(most["spool"], disk_bytes(trace + ".spool"))
        most["memory"] = max(most["memory"], private_memory(recorder.pid))
        if client is None or client.poll() is not None:
            number += 1
            client = load(port, number)
            progress("soak: %d of %d minutes" % ((time.monotonic() - begin) / 60, minutes))
        if time.monotonic() - emptied > CHANGE_S:
            emptied = time.monotonic()
            subprocess.run(["redis-cli", "-p", str(port), "flushall"], stdout=subprocess.DEVNULL)
    if client:
        client.kill()
        client.wait()
    subprocess.run(["redis-cli", "-p", str(port), "shutdown", "nosave"], stdout=subprocess.DEVNULL)
    if recorder.wait():
        return {"failed": "mayfly record: exit status %d" % recorder.returncode}
    facts = json.loads(subprocess.run([tools.mayfly, "info", "--json", trace], check=True, stdout=subprocess.PIPE).stdout)
    return {"most": most, "trace": os.stat(trace).st_size, "samples": facts["samples"],
            "dropped": facts["dropped_samples"] + facts["dropped_frees"], "seconds": facts["duration_ns"] / 1e9}


def measure_all(tools, minutes, quick, work, progress):
    if not shutil.which("redis-server") or not shutil.which("redis-benchmark"):
        return {"rounds": 0, "failed": "redis-server and redis-benchmark are missing."}
    return dict(watch(tools, minutes, work, progress), rounds=minutes)


def render(part, heading, table, size):
    data = part["data"]
    lines = heading("Soak", part)
    if "failed" in data:
        return lines + ["", data["failed"], ""]
    rows = [["the finished trace", size(data["trace"])],
            ["the trace while it grows, with its copy when it is thinned left out", size(data["most"]["part"])],
            ["the spool", size(data["most"]["spool"])],
            ["private memory of the recorder", size(data["most"]["memory"])]]
    return lines + ["", "`record -x --max-size %dM` of redis-server under redis-benchmark for %d minutes (a round is a minute), on "
                    "two CPUs for everything; the server is emptied every %d s. The largest of what was seen each second. "
                    "%d samples stayed in the trace; %d records were dropped." % (
                        LIMIT >> 20, data["rounds"], CHANGE_S, data["samples"], data["dropped"]), ""] + \
        table(["", "at most"], rows)
