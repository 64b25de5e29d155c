# SPDX-License-Identifier: Apache-2.0
"""Instructions that recording adds to OCaml programs, counted by callgrind: at the start, and by the rate.

Where minor collections fall depends on every word that is allocated, so a sample's callstack moves the collector's
work: the whole program's count changes by up to a few percent either way, with any tracker. What the agent executes
itself is counted apart from that, by its object file."""

import os
import re
import shutil

import measure

RATES = ["off", "1e-6", "1e-5", "1e-4"]
NULL_RATES = RATES[1:]


def by_object(path, wanted):
    """All instructions of a callgrind file, and those in the object whose name ends with `wanted`."""
    names, whole, found, inside, is_call = {}, 0, 0, False, False
    with open(path) as f:
        for line in f:
            name = re.match(r"c?ob=\((\d+)\)(?: (.*))?$", line)
            if name and name.group(2):
                names[name.group(1)] = name.group(2)
            if name and line.startswith("ob="):
                inside = names[name.group(1)].endswith(wanted)
            elif line.startswith("calls="):
                is_call = True  # the next line is what the called function took
            elif re.match(r"[0-9+*-]", line) and not is_call:
                own = int(line.split()[1])
                whole += own
                found += own if inside else 0
            elif re.match(r"[0-9+*-]", line):
                is_call = False
    return {"whole": whole, "agent": found}


def count(tools, command, env, work):
    out = os.path.join(work, "callgrind.out")
    run = measure.Process(tools.spawn, [shutil.which("valgrind"), "--tool=callgrind", "--callgrind-out-file=" + out] +
                          command, env, measure.CPUS[-1:], work).finish()
    if run["status"]:
        raise RuntimeError("callgrind: status %d: %s" % (run["status"], run["complaint"]))
    return by_object(out, os.path.basename(tools.agent))


def agent_env(tools, rate, work):
    return {"LD_PRELOAD": tools.agent, "MAYFLY": "output=%s,seed=1,ocaml=%s" % (os.path.join(work, "counted.%p.spool"), rate)}


def ways(tools, work):
    return [("native", {})] + [(rate, agent_env(tools, rate, work)) for rate in RATES] + \
        [("null " + rate, {"RATE": rate}) for rate in NULL_RATES]


def measure_start(tools, command, work, progress):
    """The instructions of a program that ends at once."""
    result = {}
    for label, env in ways(tools, work)[:1 + len(RATES)]:
        progress("instructions at the start, " + label)
        result[label] = count(tools, command, env, work)
    return result


def words(tools, command, work):
    """That the program allocates, as the runtime itself says at its end."""
    process = measure.Process(tools.spawn, command, {"OCAMLRUNPARAM": "v=0x400"}, measure.CPUS[-1:], work)
    process.finish()
    with open(process.stderr) as f:
        return int(re.search(r"^allocated_words: (\d+)", f.read(), re.M).group(1))


def measure_rate(tools, program, lengths, work, progress):
    """Between two lengths of a program that starts Gc.Memprof's null tracker itself when RATE is set."""
    few, many = ([program, str(n)] for n in lengths)
    result = {"words": words(tools, many, work) - words(tools, few, work), "counts": {}}
    for label, env in ways(tools, work):
        progress("%s: instructions, %s" % (os.path.basename(program), label))
        a, b = count(tools, few, env, work), count(tools, many, env, work)
        result["counts"][label] = {key: b[key] - a[key] for key in ("whole", "agent")}
    return result


# ---- as text

def start_cell(start, label):
    counts = start.get("instructions")
    return "%d" % (counts[label]["whole"] - counts["native"]["whole"]) if counts and label in counts else ""


def rate_cells(p, rate):
    counts, words = p["instructions"]["counts"], p["instructions"]["words"]
    own, native = counts[rate]["agent"], counts["native"]["whole"]
    cells = ["%+.2f %%" % (100 * counts[label]["whole"] / native - 100) if label in counts else ""
             for label in (rate, "null " + rate)] + ["%.2f %%" % (100 * own / native), "%.2f" % (1000 * own / words)]
    return cells + ["%.0f" % ((own - counts["off"]["agent"]) / (words * float(rate))) if rate != "off" else ""]


def rate_table(data, table):
    rows = [[p["name"], rate] + rate_cells(p, rate) for p in data["programs"] if "instructions" in p for rate in RATES]
    if not rows:
        return []
    return ["### Instructions by the rate", "",
            "Counted by callgrind, between two lengths of a program, so the start is not in them. *In all*: the whole program, "
            "in which each sample also moves the collector's work, by up to a few percent either way; *null tracker*: the same "
            "with the program's own `Gc.Memprof` and callbacks that do nothing. *In the agent*: what the agent itself executes, "
            "of the program's instructions without it, for 1000 words that the program allocates, and, above *off*, for each "
            "sample that the rate gives on average.", ""] + \
        table(["", "rate", "in all", "null tracker", "in the agent", "for 1000 words", "for a sample"], rows)


def target_rows(data):
    """As in the table, at 1e-5."""
    found = [(p["name"],) + tuple(rate_cells(p, "1e-5")[:3]) for p in data["programs"] if "instructions" in p]
    return [["OCaml: instructions at 1e-5, start-up apart: in the agent; in all; in all with a null tracker", "-",
             ", ".join("%s %s; %s; %s" % (name, own, whole, null) for name, whole, null, own in found)]] if found else []
