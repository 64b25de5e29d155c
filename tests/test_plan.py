# SPDX-License-Identifier: Apache-2.0
"""mayfly plan: its standard errors against sampling the same program again and again, simulated and
recorded; its refusals, texts and JSON."""
import bisect
import json
import math
import os
import random
import re

from harness import (MAYFLY, SOURCE, Folder, case, cases, check, environment, info, main, program,
                     record, report, run, same, unfolded)

BY = ["function", "line", "stack", "module", "thread", "size"]
INTERVALS = [4096 << i for i in range(13)]

folder = Folder()
folder.__enter__()
_made = {}


def exact():
    if "exact" not in _made:
        path = folder / "exact.mayfly"
        result = record([program("planned")], path, "-x")
        same((result.code, result.err), (0, b""), "planned")
        _made["exact"] = path
    return _made["exact"]


def plan(*options, trace=None):
    key = ("plan", trace) + options
    if key not in _made:
        result = run([MAYFLY, "plan", *options, trace or exact()])
        same((result.code, result.err), (0, b""), "mayfly plan %r" % result)
        _made[key] = result.out.decode()
    return _made[key]


def plan_json(*options):
    return json.loads(plan("--json", *options))


def level(planned, interval):
    return next(e for e in planned["intervals"] if e["interval_bytes"] == interval)


# ---- the program, as dump tells it ----

class Block:
    def __init__(self, event):
        self.size = event["size"]
        self.thread = event["tid"]
        self.function = event["stack"][-1].split(";")[-1] if event["stack"] else ""
        self.at_peak = False


def blocks():
    """All blocks in order, and which are live at the peak."""
    if "blocks" in _made:
        return _made["blocks"]
    result = run([MAYFLY, "dump", "--json", exact()])
    same(result.code, 0, "dump")
    events = [json.loads(line) for line in result.out.splitlines()]
    events = [e for e in events if e.get("event") in ("alloc", "free")]
    found, size, live, peak, peak_event = [], {}, 0, 0, -1
    for number, e in enumerate(events):
        live += e["size"] if e["event"] == "alloc" else -e["size"]
        if live > peak:
            peak, peak_event = live, number
    live = set()
    for number, e in enumerate(events):
        if e["event"] == "alloc":
            same(e["sample"], len(found), "number of a block")
            found.append(Block(e))
            if number <= peak_event:
                live.add(e["sample"])
        elif number <= peak_event:
            live.discard(e["sample"])
    for sample in live:
        found[sample].at_peak = True
    _made["blocks"] = found
    return found


class Figure:
    """What is estimated: bytes of some of the blocks."""

    def __init__(self, name, chosen, planned):
        self.name = name
        self.chosen = chosen
        self.planned = planned
        self.truth = sum(b.size for b in chosen)
        self.squares = 0.0
        self.mean = 0.0


def figures(planned, scheme):
    """The figures of an interval of a plan by function, with the errors it gives them."""
    all_blocks = blocks()
    entry = level(planned, scheme[1])[scheme[0]]
    peak = [b for b in all_blocks if b.at_peak]
    result = [Figure("allocated", all_blocks, entry["allocated_error"]),
              Figure("peak", peak, entry["peak_error"])]
    for row, error in zip(planned["rows"], entry["row_errors"]):
        chosen = [b for b in peak if b.function == row["name"]]
        result.append(Figure(row["name"], chosen, error))
        same(row["bytes"], result[-1].truth, "bytes of " + row["name"])
    same(planned["allocated_bytes"], result[0].truth, "allocated")
    same(planned["peak_bytes"], result[1].truth, "peak")
    return result


def class_of(block):
    """What the sampler takes for alike: the caller, and the size to a quarter of a power of two."""
    shift = max(block.size.bit_length() - 3, 0)
    return block.function, shift, block.size >> shift


def sample_stratified(lines, interval, chance):
    """One run of the stratified sampler: (block, weight) of what it takes."""
    step = max(4096, interval // 16)
    group = interval // step
    for ends, line in lines:
        if not line:
            continue
        turns = {}
        for stratum in range(ends[-1] // step + 1):
            point = stratum * step + chance.randrange(step)
            if point >= ends[-1]:
                continue
            block = line[bisect.bisect_right(ends, point)]
            key = class_of(block)
            seen, taken = turns.get(key, (0, 0))
            if seen == 0:
                taken = chance.randrange(group)
            if seen == taken:
                yield block, interval
            turns[key] = (seen + 1) % group, taken


def sample_poisson(everything, chance):
    for block, probability in everything:
        if chance.random() < probability:
            yield block, block.size / probability


def make_lines(interval):
    by_thread = {}
    for b in blocks():
        if 0 < b.size < interval:
            by_thread.setdefault(b.thread, []).append(b)
    lines = []
    for line in by_thread.values():
        ends, end = [], 0
        for b in line:
            end += b.size
            ends.append(end)
        lines.append((ends, line))
    return lines


def simulate(sampler, interval, runs):
    """Runs the sampler; returns the figures with their spread, and the mean number of samples."""
    chance = random.Random(interval)
    found = figures(plan_json(), (sampler, interval))
    of_block = {}
    for number, figure in enumerate(found):
        for b in figure.chosen:
            of_block.setdefault(id(b), []).append(number)
    lines = make_lines(interval)
    everything = [(b, -math.expm1(-b.size / interval)) for b in blocks() if b.size]
    large = [b for b in blocks() if b.size >= interval]
    samples = 0
    for _ in range(runs):
        sums = [0.0] * len(found)
        hit = set()
        drawn = sample_stratified(lines, interval, chance) if sampler == "stratified" \
            else sample_poisson(everything, chance)
        for block, weight in drawn:
            hit.add(id(block))
            for number in of_block[id(block)]:
                sums[number] += weight
        if sampler == "stratified":
            samples += len(large)
            for block in large:
                for number in of_block[id(block)]:
                    sums[number] += block.size
        samples += len(hit)
        for figure, estimate in zip(found, sums):
            figure.squares += (estimate - figure.truth) ** 2 / runs
            figure.mean += estimate / runs
    return found, samples / runs


@cases(["stratified 4096", "stratified 65536", "stratified 524288", "poisson 16384",
        "poisson 262144"])
def simulated(which):
    sampler, interval = which.split()
    interval = int(interval)
    runs = 200 if sampler == "poisson" or interval < 524288 else 1000
    found, samples = simulate(sampler, interval, runs)
    check(len(found) >= 8, "only", len(found), "figures")
    planned = level(plan_json(), interval)[sampler]["samples"]
    check(abs(planned - samples) <= 0.02 * samples + 0.5, "samples", planned, "simulated", samples)
    for figure in found:
        simulated_error = math.sqrt(figure.squares)
        planned_error = figure.planned * figure.truth
        # Rare hits make the spread of few runs uncertain: about 1/sqrt(2 runs), more if skewed.
        expected_hits = runs * figure.truth / interval
        slack = 5 * math.sqrt(0.5 / runs + 0.5 / max(expected_hits, 1))
        check(abs(simulated_error - planned_error) <= slack * planned_error + 1,
              which, figure.name, "planned", planned_error, "simulated", simulated_error)
        check(abs(figure.mean - figure.truth) <= 5 * planned_error / math.sqrt(runs) + 1,
              which, figure.name, "is biased:", figure.mean, "for", figure.truth)


@cases(["stratified", "poisson"])
def recorded(sampler):
    """The real sampler, in as many recordings as there is patience for."""
    runs, interval = 40, 16384
    planned = plan_json()
    entry = level(planned, interval)[sampler]
    truths = {"allocated": planned["allocated_bytes"], "peak": planned["peak_bytes"]}
    errors = {"allocated": entry["allocated_error"], "peak": entry["peak_error"]}
    for row, error in zip(planned["rows"], entry["row_errors"]):
        truths[row["name"]], errors[row["name"]] = row["bytes"], error
    squares = dict.fromkeys(truths, 0.0)
    samples = 0
    for seed in range(1, runs + 1):
        trace = folder / "sampled.mayfly"
        result = record([program("planned")], trace, "-i", "16K", "--sampler", sampler,
                        env=environment(MAYFLY="seed=%d" % seed))
        same(result.code, 0, "planned, seed %d" % seed)
        samples += info(trace)["samples"] / runs
        peak = report(trace)
        got = {row["function"]: row["self"]["bytes"]["estimate"] for row in peak["rows"]}
        got["peak"] = peak["total"]["bytes"]["estimate"]
        got["allocated"] = report(trace, "--metric", "allocated")["total"]["bytes"]["estimate"]
        for name, truth in truths.items():
            squares[name] += (got.get(name, 0) - truth) ** 2 / runs
        os.unlink(trace)
    check(abs(samples - entry["samples"]) <= 0.03 * samples, "samples", samples, "planned",
          entry["samples"])
    for name, truth in truths.items():
        got, expected = math.sqrt(squares[name]), errors[name] * truth
        # 40 runs know a spread to 11 %; the moment of the peak is estimated, too.
        check(0.55 * expected - interval / 4 <= got <= 1.5 * expected + interval / 4,
              sampler, name, "planned", expected, "recorded", got)


# ---- consistency ----

@cases(BY)
def rows_are_those_of_report(by):
    for options in [[], ["--metric", "allocated"], ["--sort", "total"]]:
        planned = plan_json("--by", by, *options)
        rows = unfolded(exact(), "--by", by, *options)["rows"]
        column = "total" if "total" in options else "self"
        expected = [row[column]["bytes"]["estimate"] for row in rows]
        expected = [b for b in expected[:20] if b > 0 and b >= 0.01 * expected[0]]
        same([row["bytes"] for row in planned["rows"]], expected, "rows by %s %s" % (by, options))
        check(len(expected) > 0, "no rows by", by)
        for entry in planned["intervals"]:
            for sampler in ("stratified", "poisson"):
                same(len(entry[sampler]["row_errors"]), len(expected), "errors by " + by)


@case
def totals_are_those_of_info():
    planned, facts = plan_json(), info(exact())
    same(planned["blocks"], facts["samples"], "blocks")
    same(planned["allocated_bytes"], facts["allocated"]["bytes"]["estimate"], "allocated")
    same(planned["peak_bytes"], facts["peak"]["bytes"]["estimate"], "peak")
    same(planned["peak_blocks"], facts["peak"]["blocks"]["estimate"], "blocks at the peak")
    # The times of single events in an exact trace are rounded.
    check(abs(planned["peak_time_ns"] - facts["peak_time_ns"]) < 1000000, planned["peak_time_ns"],
          facts["peak_time_ns"])


@case
def stratified_is_never_worse_than_points_that_know_nothing_of_each_other():
    """With independent points, the variance of n R is R times the bytes."""
    planned = plan_json()
    for entry in planned["intervals"]:
        for row, error in zip(planned["rows"], entry["stratified"]["row_errors"]):
            bound = math.sqrt(entry["interval_bytes"] / row["bytes"])
            check(error <= bound * 1.000001, row, error, bound)
        check(entry["stratified"]["samples"] >= 0 and entry["poisson"]["samples"] > 0, entry)


@case
def recommends_the_coarsest_interval_that_is_good_enough():
    chosen = []
    for percent in (1, 3, 10, 30, 100):
        for sampler in ("stratified", "poisson"):
            planned = plan_json("--error", str(percent), "--sampler", sampler)
            same(planned["wanted_error"], percent / 100, "wanted error")
            good = [e[sampler]["peak_error"] <= percent / 100
                    and e[sampler]["row_error_median"] <= percent / 100
                    for e in planned["intervals"]] + [False]
            number = good.index(False)
            expected = INTERVALS[number - 1] if number else None
            same(planned["recommended_interval_bytes"], expected, "at %d %% %s" % (percent, sampler))
            chosen.append(expected)
            text = plan("--error", str(percent), "--sampler", sampler)
            if expected:
                option = "%dM" % (expected >> 20) if expected >> 20 else "%dK" % (expected >> 10)
                check(re.search(r"^ *> %s " % option, text, re.M), text)
                check("Record with -i %s:" % option in text, text)
            else:
                check("Record every allocation (-x)" in " ".join(text.split()), text)
                check("> " not in text.split("INTERVAL")[1].split("\n\n")[0], text)
    check(len(set(chosen)) > 3, "the wanted error changes little:", chosen)


@case
def cost_and_size_follow_the_options():
    planned = plan_json("--cost", "2us", "--sample-bytes", "7", "--time", "2s")
    same((planned["cost_ns"], planned["run_ns"], planned["sample_bytes"]), (2000, 2000000000, 7), "")
    for entry in planned["intervals"]:
        one = entry["stratified"]
        check(abs(one["cost_ns"] - 2000 * one["samples"]) <= 1, one)
        check(abs(one["trace_bytes"] - 7 * one["samples"]) <= 1, one)
    same(plan_json("--cost", "750")["cost_ns"], 750, "a plain number is nanoseconds")
    same(plan_json()["run_ns"], info(exact())["duration_ns"], "without --time")


@case
def text_fits():
    for width in ("60", "80", "120"):
        result = run([MAYFLY, "plan", exact()], env=environment(COLUMNS=width))
        same(result.code, 0, "plan")
        lines = result.out.decode().splitlines()
        longest = max(lines, key=len)
        check(len(longest) <= int(width), "longer than", width, ":", longest)
        same(sum(1 for line in lines if re.match(r" *(> )?\d+[KM] ", line)), len(INTERVALS), "lines")
    result = run([MAYFLY, "plan", "-"], stdin=open(exact(), "rb").read())
    same(result.out.decode(), plan(), "from standard input")


# ---- refusals ----

def refused(said, *arguments, code=1):
    result = run([MAYFLY, "plan", *arguments])
    same(result.code, code, "plan %r: %r" % (arguments, result))
    same(result.out, b"", "output")
    message = result.err.decode()
    same(message.count("\n"), 1, "lines of %r" % message)
    for word in said:
        check(word in message, repr(word), "is not in", repr(message))


@case
def refuses_what_it_cannot_plan():
    sampled = folder / "coarse.mayfly"
    same(record([program("planned")], sampled, "-i", "4K").code, 0, "record")
    refused(["coarse.mayfly", "is sampled", "mayfly record -x"], sampled)
    refused(["mayfly: ", "nothing-here"], folder / "nothing-here")
    refused(["mayfly: "], program("planned"))


@case
def refuses_bad_options():
    for option, value in [("--error", "0"), ("--error", "x"), ("--error", "-3"), ("--error", "nan"),
                          ("--by", "lifetime"), ("--by", "x"), ("--sampler", "x"), ("--cost", "x"),
                          ("--time", "0"), ("--time", "x"), ("--sample-bytes", "x"),
                          ("--sort", "x"), ("--metric", "leaked")]:
        refused([option, "mayfly plan: "], option, value, exact(), code=2)
    refused(["--frobnicate"], "--frobnicate", exact(), code=2)
    refused(["mayfly plan"], code=2)


main()
