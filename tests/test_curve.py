#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every curve of live bytes, in the terminal and on the page, says what `--at` says at any moment."""
import glob
import json
import os
import random
import re

from harness import Folder, MAYFLY, PROGRAMS, SOURCE, Skip, case, cases, check, environment, main, need, run, same

GOLDEN = os.path.join(SOURCE, "tests", "golden")
MOMENTS = 200
GLYPHS = " ▁▂▃▄▅▆▇█"


def ask(path, *requests):
    """What the page gets; None: the trace does not have it."""
    result = run([os.path.join(PROGRAMS, "view_ask"), path, *requests])
    same((result.code, result.err), (0, b""), path)
    answers, rest = [], result.out
    for request in requests:
        head, rest = rest.split(b"\n", 1)
        status, _, size = head.split()
        check(status in (b"200", b"422"), request, rest[:300])
        answers.append(json.loads(rest[:int(size)]) if status == b"200" else None)
        rest = rest[int(size) + 1:]
    return answers


class Curve:
    """A drawn curve: points, and the steps that it was asked in."""

    def __init__(self, times, values, low, high, steps):
        self.points = list(zip(times, values))
        check(times == sorted(times), "times do not ascend")
        self.low, self.high, self.steps = low, max(high, low + 1), steps

    def begin(self, step):
        return self.low + (self.high - self.low) * step / self.steps

    def around(self, ns, snapshots=False):
        """What the curve has in the step with this moment: the least and the most."""
        step = min(int((ns - self.low) / (self.high - self.low) * self.steps), self.steps - 1)
        # Rounding decides to which of two steps a moment on their border belongs.
        near = [value for time, value in self.points if self.begin(step) - 1 <= time <= self.begin(step + 1) + 1]
        before = [value for time, value in self.points if time < self.begin(step)][-1:]
        check(near or (before and snapshots), "no point in step", step)
        if snapshots:  # what was known when the step began
            near += before
        return min(near), max(near)


def live_at(path, moments, filters=""):
    """[(time, bytes)]: of snapshots, the time at which the answer is."""
    answers = ask(path, *("rows?metric=live&by=module&top=1&at=%dns%s" % (ns, filters) for ns in moments))
    return [(answer["time_ns"], answer["total"]["bytes"]["estimate"]) for answer in answers]


def sums(series):
    rows = [row["live_bytes"] for row in series["rows"]] + [series["others"]["live_bytes"]]
    return [sum(values) for values in zip(*rows)]


def compare(path, low, high, filters="", steps=400):
    """The curve and the stacked rows against `--at`."""
    window = "&from=%dns&to=%dns" % (low, high)
    curve, series, info = ask(path, "curve?points=%d%s%s" % (steps, window, filters),
                              "series?extremes=1&top=5&points=%d%s%s" % (steps, window, filters), "info")
    snapshots = info["info"]["snapshot_ns"]
    curve = Curve(curve["times_ns"], curve["live_bytes"], low, high, steps)
    same(series["times_ns"], [ns for ns, _ in curve.points], "moments of the rows")
    lifetimes = "lifetime" in filters  # rows are summed by time then: events of the same time are one
    for ns, ours, theirs in zip(series["times_ns"], sums(series), [v for _, v in curve.points]):
        check(abs(ours - theirs) <= 6 + 1e-9 * theirs or lifetimes, "rows and curve at", ns, ours, theirs)
    dice = random.Random(path + filters)
    moments = [dice.randrange(low, high) for _ in range(MOMENTS)]
    for ns, live in live_at(path, moments, filters):
        if low <= ns < high:
            least, most = curve.around(ns, bool(snapshots))
            check(least - 1 - 1e-9 * live <= live <= most + 1 + 1e-9 * live, "at", ns, live, "drawn from", least, "to", most)
    return curve, info


def duration_of(path):
    info, = ask(path, "info")
    return info and info["info"]["duration_ns"]


def traces():
    """Without those of a version that is refused."""
    names = sorted(os.path.basename(path)[:-7] for path in glob.glob(os.path.join(GOLDEN, "*.mayfly")))
    return [name for name in names if not name.startswith("v1-")]


def golden(name):
    """The trace, and how long it is."""
    path = os.path.join(GOLDEN, name + ".mayfly")
    duration, curve = duration_of(path), ask(path, "curve")[0]
    if not duration or curve is None:
        raise Skip("it has no times")
    return path, duration


@cases(traces())
def whole(name):
    """And the peak's figure is that of the report, at the peak's time."""
    path, duration = golden(name)
    curve, info = compare(path, 0, duration)
    if info["info"]["mode"] != "exact":
        return  # of samples the report's peak is less than their largest sum: doc/INTERNALS.md, "The peak"
    most = max(value for _, value in curve.points)
    same(most, info["summary"]["peak"]["bytes"]["estimate"], "the peak")
    step = duration / curve.steps
    check(any(value == most and abs(time - info["summary"]["peak_time_ns"]) <= step for time, value in curve.points),
          "the peak's time", info["summary"]["peak_time_ns"])


@cases(traces())
def part(name):
    path, duration = golden(name)
    if duration < 100:
        raise Skip("too short")
    compare(path, duration // 3, duration // 2, steps=50)


@cases(["&focus=serve", "&hide=serve", "&min-size=200", "&thread=worker", "&min-lifetime=1ms",
        "&label=tenant%3Da&max-lifetime=5ms"])
def filtered(filters):
    for name in ("exact", "sampled"):
        path, duration = golden(name)
        if filters.startswith("&label") and name == "sampled":
            continue
        compare(path, 0, duration, filters)


def sparkline(path, steps):
    """The glyphs of the line that the report draws on a terminal."""
    result = run([MAYFLY, "report", path], env=environment(LANG="C.UTF-8", COLUMNS="120"))
    found = re.search(r"^Live bytes .*(.{%d})  0 to" % steps, result.out.decode(), re.M)
    if not found:
        raise Skip("the report has no curve")
    return [GLYPHS.index(glyph) for glyph in found.group(1)]


@case
def after_the_end():
    """A window that begins after the recording: what is wrong is said."""
    result = run([os.path.join(PROGRAMS, "view_ask"), os.path.join(GOLDEN, "exact.mayfly"), "curve?from=1000s"])
    check(result.out.startswith(b"400 ") and b"ended before the chosen time" in result.out, result.out)


# JSON's numbers end at 2^63, which only made-strange.mayfly exceeds. A line of snapshots also has what was most
# between two of them.
@cases([name for name in traces() if name != "made-strange" and "snapshot" not in name])
def terminal(name):
    """The line that `mayfly report` draws: no moment of a step is above its glyph, and each glyph is reached."""
    path, duration = golden(name)
    levels = sparkline(path, 48)
    curve, = ask(path, "curve?points=48")
    curve = Curve(curve["times_ns"], curve["live_bytes"], 0, duration, 48)
    highest = max(value for _, value in curve.points)
    for step, level in enumerate(levels):
        most = curve.around(curve.begin(step) + duration / 96)[1]
        share = most / highest if highest > 0 else 0
        want = 1 + share * 7 if share > 0 else 0
        check(abs(level - want) <= 0.51, "step", step, "level", level, "not", want)


@case
def a_million_events():
    """An exact trace that was once too large to be read for a curve."""
    need("python3")
    with Folder() as here:
        program = ("import random\nrandom.seed(7)\nx = []\nfor i in range(9):\n"
                   "    x = [bytes(random.randrange(50, 4000)) for _ in range(random.randrange(20000, 130000))]\n"
                   "    del x[::2]\n")
        done = run([MAYFLY, "record", "-x", "-o", here / "t.mayfly", "--", "python3", "-c", program],
                   env=environment(PYTHONMALLOC="malloc"))
        same(done.code, 0, repr(done))
        info, = ask(here / "t.mayfly", "info")
        check(info["info"]["samples"] + info["info"]["frees"] > 1000000, info["info"])
        duration = info["info"]["duration_ns"]
        compare(here / "t.mayfly", 0, duration)
        compare(here / "t.mayfly", duration // 4, duration // 2, steps=100)


if __name__ == "__main__":
    main()
