# SPDX-License-Identifier: Apache-2.0
"""Nanoseconds per malloc and free."""

import glob
import json
import os

import measure

LOADS = [("tight", 1), ("tight", 2), ("hostile", 1), ("hostile", 2)]


def remove_output(variant, work):
    for path in glob.glob(os.path.join(work, variant.file)) if variant.file else []:
        os.unlink(path)


def one(tools, variant, mode, threads, milliseconds, work):
    cpus = measure.CPUS if threads > 1 else measure.CPUS[-1:]
    process = measure.Process(
        tools.spawn, [tools.program("bench_micro"), mode, str(threads), str(milliseconds)],
        variant.env(work), cpus, work)
    run = process.finish()
    remove_output(variant, work)
    if run["status"]:
        raise RuntimeError("%s: status %d: %s" % (variant.name, run["status"], run["complaint"]))
    return json.loads(process.output()), run["foreign"]


def measure_all(tools, rounds, quick, work, progress):
    variants = tools.micro()
    present = [v for v in variants if not v.missing]
    results = {"rounds": rounds, "foreign": [], "failed": {}, "loads": [],
               "variants": [{"name": v.name, "label": v.label, "base": v.base,
                             "missing": v.missing} for v in variants]}
    for mode, threads in LOADS:
        load = {"mode": mode, "threads": threads, "median": {}, "min": {}}
        for number in range(rounds):
            progress("micro: %s, %d thread(s), round %d of %d" % (mode, threads, number + 1, rounds))
            for variant in measure.rotated(present, number):
                if variant.name in results["failed"]:
                    continue
                try:
                    figures, foreign = one(tools, variant, mode, threads,
                                           100 if quick or mode == "tight" else 300, work)
                except (RuntimeError, ValueError) as error:
                    results["failed"][variant.name] = str(error)
                    continue
                load["median"].setdefault(variant.name, []).append(figures["median_ns"])
                load["min"].setdefault(variant.name, []).append(figures["min_ns"])
                results["foreign"].append(foreign)
        results["loads"].append(load)
    return results


def added(load, name, base, which="median"):
    """What a variant costs above another: the differences of each round. The two runs of a round
    are seconds apart, so what disturbs one mostly disturbs the other."""
    pairs = zip(load[which].get(name, []), load[which].get(base, []))
    return [a - b for a, b in pairs]
