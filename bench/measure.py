# SPDX-License-Identifier: Apache-2.0
"""Running one program and measuring it, and the few statistics that the tables need."""

import hashlib
import json
import math
import os
import statistics
import subprocess

CPUS = sorted(os.sched_getaffinity(0))
TICKS = os.sysconf("SC_CLK_TCK")
STRIPPED = ("LD_PRELOAD", "MAYFLY", "MALLOC_CONF", "TCMALLOC_SAMPLE_PARAMETER")


def busy_seconds():
    """CPU time spent by everything on this machine since it started."""
    with open("/proc/stat") as f:
        user, nice, system, _idle, _iowait, irq, softirq, steal = (
            int(n) for n in f.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def file_digest(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        for piece in iter(lambda: f.read(1 << 20), b""):
            digest.update(piece)
    return digest.hexdigest()


class Process:
    """A program that runs under bench_spawn. finish() waits for it and returns a dictionary:
    cpu_s and rss_bytes (with the children that it waited for), wall_s, status, foreign (CPUs that
    others kept busy meanwhile), digest (of its standard output)."""

    def __init__(self, spawn, command, env, cpus, work, stdin=None):
        self.stdout = os.path.join(work, "stdout")
        self.stderr = os.path.join(work, "stderr")
        self.result = os.path.join(work, "result")
        if os.path.exists(self.result):
            os.unlink(self.result)
        own = {k: v for k, v in os.environ.items() if k not in STRIPPED}
        own["LC_ALL"] = "C"
        self.busy = busy_seconds()
        with open(self.stdout, "wb") as out, open(self.stderr, "wb") as err, \
                open(stdin or os.devnull, "rb") as source:
            self.popen = subprocess.Popen(
                [spawn, self.result, ",".join(map(str, cpus))]
                + ["%s=%s" % item for item in env.items()] + ["--"] + command,
                env=own, stdin=source, stdout=out, stderr=err, cwd=work)

    def finish(self):
        self.popen.wait()
        busy = busy_seconds() - self.busy
        try:
            with open(self.result) as f:
                run = json.load(f)
        except OSError:
            raise RuntimeError(self.complaint())
        run["cpu_s"] = run["user_s"] + run["system_s"]
        run["foreign"] = max(0.0, busy - run["cpu_s"]) / max(run["wall_s"], 0.01)
        run["digest"] = file_digest(self.stdout)
        run["complaint"] = self.complaint() if run["status"] else ""
        return run

    def complaint(self):
        """The last line of standard error, to say why a run failed."""
        with open(self.stderr, "rb") as f:
            lines = f.read()[-2000:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "no message"

    def output(self):
        with open(self.stdout, "rb") as f:
            return f.read()


def median(values):
    return statistics.median(values)


def geometric_mean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values))


def rotated(items, by):
    """The same items beginning elsewhere: no variant always runs first, or after the same one."""
    by %= len(items)
    return items[by:] + items[:by]
