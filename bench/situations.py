# SPDX-License-Identifier: Apache-2.0
"""Where the sampler meets machinery: the interval changes, recording is switched on, children are made that libc does
not know, blocks of 0 bytes. Programs whose truth is known (tests/programs) run under `mayfly record`."""

import glob
import json
import math
import os
import subprocess

THREADS, PHASES, BLOCKS, SIZE = 200, 9, 60, 1000  # of crowd
CHILDREN, CHILD_BLOCKS = 80, 100
CHANGES = {"interval": (["-i", "512K"], lambda phase: ["interval", "512K" if phase % 2 else "64K"]),
           "overhead": (["-i", "512K", "--overhead", "50%"], lambda phase: ["interval", "512K" if phase % 2 else "64K"]),
           "off and on": (["-i", "64K"], lambda phase: ["on" if phase % 2 else "off"])}
CLONES = ["clone", "syscall", "clone3", "asm"]
SAMPLERS = ["stratified", "poisson"]


class Situations:
    def __init__(self, tools, work):
        self.tools, self.work = tools, work

    def program(self, name):
        return os.path.join(self.tools.build, "tests", name)

    def traces(self):
        return glob.glob(os.path.join(self.work, "situation*.mayfly"))

    def record(self, options, command):
        """The running recording."""
        for path in self.traces():
            os.remove(path)
        return subprocess.Popen([self.tools.mayfly, "record", "-q", *options, "-o",
                                 os.path.join(self.work, "situation.mayfly"), "--", *command],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def allocated(self, function, metric="allocated"):
        """Sum and variance over all traces."""
        rows = []
        for trace in self.traces():
            done = subprocess.run([self.tools.mayfly, "report", "--json", "--top", "0", "--all", "--metric", metric, trace],
                                  capture_output=True, check=True)
            rows += [row["self"]["bytes"] for row in json.loads(done.stdout)["rows"] if row["function"] == function]
        return sum(row["estimate"] for row in rows), sum(row["stderr"] ** 2 for row in rows)

    def change(self, name, sampler):
        """(estimate, variance, truth)"""
        options, words = CHANGES[name]
        truth = 0
        with self.record(["--sampler", sampler, *options], [self.program("crowd"), str(THREADS)]) as process:
            process.stdout.readline()
            for phase in range(PHASES):
                on = name != "off and on" or phase % 2 == 0
                process.stdin.write(b"%s%d\n" % (b"a" if on else b"b", BLOCKS))
                process.stdin.flush()
                process.stdout.readline()
                truth += on * THREADS * BLOCKS * SIZE
                subprocess.run([self.tools.mayfly, "ctl", os.path.join(self.work, "situation.mayfly.spool"),
                                *words(phase)], check=True)
            process.stdin.close()
        return (*self.allocated("site_a"), truth)

    def clones(self, how, sampler):
        with self.record(["--follow", "-i", "64K", "--sampler", sampler],
                         [self.program("clones"), how, str(CHILDREN), str(CHILD_BLOCKS)]):
            pass
        return (*self.allocated("child_block"), CHILDREN * CHILD_BLOCKS * SIZE)

    def zero(self, sampler):
        """% of the bytes of blocks that are freed after malloc(0) that count as temporary."""
        with self.record(["-i", "64K", "--sampler", sampler], [self.program("zero")]):
            pass
        return 100 * self.allocated("zero_malloc", "temporary")[0] / self.allocated("zero_malloc")[0]


def judge(name, sampler, runs):
    """runs: (estimate, variance, truth)."""
    scores = [(estimate - truth) / math.sqrt(variance or math.inf) for estimate, variance, truth in runs]
    errors = [estimate / truth - 1 for estimate, _, truth in runs]
    return {"name": name, "sampler": sampler, "runs": len(runs), "covered": sum(abs(z) <= 1.96 for z in scores),
            "z": sum(scores) / len(runs), "rms": math.sqrt(sum(z * z for z in scores) / len(runs)),
            "off": sum(errors) / len(runs)}


def measure_all(tools, runs, work):
    here = Situations(tools, work)
    rows = []
    for sampler in SAMPLERS:
        for name in CHANGES:
            if name != "overhead" or sampler == "stratified":
                rows.append(judge("changes: " + name, sampler, [here.change(name, sampler) for _ in range(runs)]))
        rows += [judge("children by " + how, sampler, [here.clones(how, sampler) for _ in range(runs)]) for how in CLONES]
    zero = {sampler: here.zero(sampler) for sampler in SAMPLERS}
    for path in here.traces():
        os.remove(path)
    return {"rows": rows, "zero": zero}


def render_table(data, table):
    rows = [[row["name"], row["sampler"], "%.0f" % (100 * row["covered"] / row["runs"]),
             "%.2f, %.2f; %+.1f %%" % (row["z"], row["rms"], 100 * row["off"])] for row in data["rows"]]
    return ["### Changes and children", "",
            "Recorded %d times each. %d threads, with a change after each %d KB of each: the interval between 512 and 64 KiB,"
            " with a budget, or off and on at 64 KiB; %d children of %d KB each at 64 KiB, made by calls that run no"
            " handlers of fork (*asm*: by a system call that mayfly does not see, so all children have their first point in"
            " common). The allocated bytes: how often within 1.96 standard errors, in %%; mean and root mean square of z;"
            " mean error." % (data["rows"][0]["runs"], THREADS, BLOCKS * SIZE // 1000, CHILDREN, CHILD_BLOCKS * SIZE // 1000), ""] + \
        table(["", "sampler", "covered", "z; off"], rows) + \
        ["Blocks that are freed after `malloc(0)` count as temporary: %s of their bytes." % ", ".join(
            "%.0f %% (%s)" % (share, sampler) for sampler, share in data["zero"].items()), ""]
