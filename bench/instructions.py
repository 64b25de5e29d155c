# SPDX-License-Identifier: Apache-2.0
"""Instructions of a malloc with its free, counted by cachegrind: the same on a busy machine."""

import os
import re
import shutil

import measure

PAIRS = (200000, 1200000)
STEPS = 2000


def count(tools, variant, program, work):
    """All instructions of a run."""
    process = measure.Process(
        tools.spawn, [shutil.which("valgrind"), "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null",
                      tools.program("bench_kinds")] + program, variant.env(work), measure.CPUS[-1:], work)
    run = process.finish()
    with open(process.stderr, encoding="utf-8", errors="replace") as f:
        found = re.search(r"I\s+refs:\s+([0-9,]+)", f.read())
    if run["status"] or not found:
        raise RuntimeError("%s: status %d: %s" % (variant.name, run["status"], run["complaint"]))
    return int(found.group(1).replace(",", ""))


def variants(tools):
    """Those of micro.py without heaptrack, whose hooks do not work under valgrind, and exact recording."""
    found = [v for v in tools.micro() if not v.name.startswith("heaptrack")]
    at = [v.name for v in found].index("mayfly") + 1
    return found[:at] + [tools.agent_variant("mayfly-exact", "mayfly, every allocation", "interval=1", "forward")] + found[at:]


def measure_all(tools, rounds, quick, work, progress):
    if not shutil.which("valgrind"):
        return {"rounds": 0, "failed": "valgrind is missing."}
    result = {"rounds": 1, "variants": [], "pair": {}, "factor": {}, "failed": None}
    for variant in variants(tools):
        result["variants"].append({"name": variant.name, "label": variant.label, "base": variant.base,
                                   "missing": variant.missing})
        if variant.missing:
            continue
        progress("instructions: " + variant.label)
        few, many = (count(tools, variant, ["pairs", str(n)], work) for n in PAIRS)
        result["pair"][variant.name] = (many - few) / (PAIRS[1] - PAIRS[0])
        result["factor"][variant.name] = count(tools, variant, ["factor", str(STEPS)], work)
        for name in os.listdir(work):
            if name.endswith((".spool", ".heap")):
                os.unlink(os.path.join(work, name))
    return result


def added(data, name):
    """By a pair, above the variant that this one is compared with."""
    base = next(v["base"] for v in data["variants"] if v["name"] == name)
    if name not in data["pair"] or base not in data["pair"]:
        return None
    return data["pair"][name] - data["pair"][base]


def render(part, heading, table):
    data = part["data"]
    lines = heading("Instructions", part)
    if data["failed"]:
        return lines + ["", data["failed"], ""]
    labels = {v["name"]: v["label"] for v in data["variants"]}
    rows = []
    for v in data["variants"]:
        name, base = v["name"], v["base"]
        if v["missing"]:
            rows.append([v["label"], "", v["missing"], "", ""])
        else:
            rows.append([v["label"], labels.get(base, ""), "%.1f" % data["pair"][name],
                         "%+.1f" % added(data, name) if base else "",
                         "%+.1f %%" % (100 * data["factor"][name] / data["factor"][base] - 100) if base else ""])
    return lines + ["Counted by cachegrind. *A pair*: malloc(32) and free, samples included. *factor*: Pollard's rho with "
                    "numbers in blocks of 12 bytes, the whole program; of each step about half are malloc and free.", ""] + \
        table(["", "above", "a pair", "added", "factor, added"], rows)
