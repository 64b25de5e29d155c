# SPDX-License-Identifier: Apache-2.0
"""What recording costs programs in Python, with and without the interpreter's frames and blocks."""

import os

import measure

# Small programs of the kinds that interpreters are compared by. Each prints a figure, to be compared.
WORKLOADS = {
    "json": """
import json
rows = [{"id": i, "name": "row %d" % i, "tags": ["a", "b", str(i % 7)], "value": i / 3} for i in range(2000)]
total = 0
for _ in range(30 * N):
    total += len(json.loads(json.dumps(rows)))
print(total)
""",
    "numbers": """
class Body:
    __slots__ = ("x", "v", "m")
    def __init__(self, x, v, m):
        self.x, self.v, self.m = x, v, m
bodies = [Body(float(i), 0.0, 1.0 + i) for i in range(6)]
for _ in range(20000 * N):
    for a in bodies:
        for b in bodies:
            if a is not b:
                d = b.x - a.x
                a.v += 1e-6 * b.m * d / (abs(d) ** 3 + 1.0)
    for a in bodies:
        a.x += a.v
print("%.9f" % sum(a.x for a in bodies))
""",
    "objects": """
class Packet:
    def __init__(self, link, ident, kind):
        self.link, self.ident, self.kind, self.data = link, ident, kind, [0] * 4
class Task:
    def __init__(self, number):
        self.number, self.queue, self.count = number, None, 0
    def push(self, ident):
        self.queue = Packet(self.queue, ident, self.number % 3)
    def pop(self):
        packet, self.queue = self.queue, self.queue.link
        self.count += packet.ident % 5 + len(packet.data)
tasks = [Task(i) for i in range(10)]
for i in range(300000 * N):
    task = tasks[i % 10]
    task.push(i)
    if i % 3 == 2:
        while task.queue:
            task.pop()
print(sum(task.count for task in tasks))
""",
    "strings": """
import re
word = re.compile(r"[a-z]+")
total = 0
for i in range(12000 * N):
    text = " ".join("w%dx" % (i + k) for k in range(20))
    total += sum(len(part.upper()) for part in text.split()) + len(word.findall(text))
print(total)
""",
    "dictionaries": """
seen = {}
for i in range(600000 * N):
    key = (i * 7919 % 50021, i % 3)
    seen[key] = seen.get(key, 0) + 1
    if len(seen) > 40000:
        seen = {}
print(sum(seen.values()))
""",
}
NATIVE, FORWARD, AGENT, RECORDED, OFF = "native", "forward", "agent", "record", "off"


def variants(tools, work):
    """What stands before the program's command in each variant, and its environment."""
    trace, spool = os.path.join(work, "python.mayfly"), os.path.join(work, "python.spool")
    record = [tools.mayfly, "record", "-q", "--force", "-o", trace, "--"]
    return {NATIVE: ([], {}),
            FORWARD: ([], {"LD_PRELOAD": tools.program("forward_pymalloc.so")}),
            AGENT: ([], {"LD_PRELOAD": tools.agent, "MAYFLY": "output=" + spool}),
            RECORDED: (record, {}),
            OFF: (record, {"MAYFLY": "python=off"})}


def measure_all(tools, rounds, quick, work, progress):
    scale = 1 if quick else 25
    result = {"rounds": rounds, "runs": {}}
    ways = variants(tools, work)
    for name, text in WORKLOADS.items():
        path = os.path.join(work, name + "_bench.py")
        with open(path, "w") as f:
            f.write("N = %d\n" % scale + text)
        runs = {way: [] for way in ways}
        printed = set()
        for number in range(rounds):
            for way in measure.rotated(list(ways), number):
                progress("cpython: %s, round %d of %d" % (name, number + 1, rounds))
                command, env = ways[way]
                run = measure.Process(tools.spawn, command + ["/usr/bin/python3", path],
                                      {"PYTHONHASHSEED": "1", **env}, measure.CPUS, work).finish()
                printed.add((run["status"], run["digest"]))
                runs[way].append({key: run[key] for key in ("cpu_s", "foreign")})
                for file in os.listdir(work):
                    if file.startswith("python."):
                        os.unlink(os.path.join(work, file))
        if len(printed) != 1 or printed.pop()[0]:
            result["failed"] = name + ": its output is not the same in all runs"
            return result
        result["runs"][name] = runs
    return result


def render(part, heading, table, spread, quiet):
    data = part["data"]
    lines = heading("Python programs", part)
    if "failed" in data:
        return lines + ["", data["failed"], ""]
    rows = []
    for name, runs in data["runs"].items():
        cpu = {way: [run["cpu_s"] for run in runs[way]] for way in runs}
        rows.append([name, "%.2f" % measure.median(cpu[NATIVE])] +
                    [spread([a / b for a, b in zip(cpu[one], cpu[other])])
                     for one, other in ((FORWARD, NATIVE), (AGENT, NATIVE), (RECORDED, NATIVE), (OFF, NATIVE), (RECORDED, OFF))])
    return lines + [quiet([run["foreign"] for runs in data["runs"].values() for one in runs.values() for run in one]),
                    "", "CPU time at 512 KiB, Debian's python3. *forwarding*: wrappers of the interpreter's allocators "
                    "that only pass on, which is what any hook costs here; *agent*: the program with the agent, no "
                    "recorder. The others are of the program and the recorder; *off*: with `MAYFLY=python=off`, neither "
                    "the interpreter's frames nor its own blocks.", ""] + \
        table(["", "native, s", "forwarding / native", "agent / native", "recorded / native", "off / native", "recorded / off"],
              rows)
