#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package: what it reads is what the commands print with --json."""
import contextlib
import os
import re
import sys

from harness import (MAYFLY, PYTHON, Folder, SOURCE, Skip, as_json, case, cases, check, environment, main, read, record, report,
                     run, same)

PACKAGE = os.path.join(SOURCE, "python")
sys.path.insert(0, PACKAGE)
os.environ["MAYFLY_PROGRAM"] = MAYFLY
import mayfly  # noqa: E402

PROGRAM = """
import threading
kept = []
def keep(n):
    for _ in range(n):
        kept.append(bytearray(3000))
def pass_on():
    for _ in range(2000):
        bytearray(5000)
def both():
    keep(1000)
    pass_on()
both()
thread = threading.Thread(target=both)
thread.start()
thread.join()
import os
os._exit(0)
"""


@contextlib.contextmanager
def recorded(*ways):
    """Traces of PROGRAM, recorded in different ways."""
    with Folder() as here:
        with open(here / "program.py", "w") as file:
            file.write(PROGRAM)
        traces = []
        for number, options in enumerate(ways):
            traces.append(here / "%d.mayfly" % number)
            result = record([*PYTHON, here / "program.py"], traces[-1], *options)
            same(result.code, 0, result)
        yield traces


def figures(estimate):
    """An Estimate as --json prints it."""
    one = {unit: dict(getattr(estimate, unit)._asdict()) for unit in ("bytes", "blocks")}
    return {**one, "samples": estimate.samples}


KEYS = ["function", "line", "stack", "module", "thread", "size", "lifetime", "heap", "freeing-thread", "threads", "label"]
METRICS = ["live", "peak", "allocated", "leaked", "temporary", "survived"]


@cases([["-i", "4K"], ["--exact"]])
def rows_are_those_of_the_report(how):
    """Every key and every metric: figures, intervals, order, keys and the sum."""
    with recorded(how) as [trace]:
        opened = mayfly.open(trace)
        same(opened.exact, how == ["--exact"], "exact")
        for metric, by in [(metric, "function") for metric in METRICS] + [("peak", by) for by in KEYS]:
            expected = report(trace, "--metric", metric, "--by", by)
            rows = opened.rows(metric, by)
            check(rows or metric == "temporary", "no rows by", by, "of", metric)
            same(figures(rows.total), expected["total"], "total by %s of %s" % (by, metric))
            same(len(rows), len(expected["rows"]), "rows")
            for row, values in zip(rows, expected["rows"]):
                same(figures(row.self), values["self"], row)
                same(figures(row.total), values["total"], row)
                same((row.estimate, row.low, row.high), tuple(values["self"]["bytes"][part] for part in ("estimate", "low", "high")), row)
                same(sorted(row.key), sorted(values.keys() - {"self", "total"}), "keys of %r" % row)
                for name in row.key.keys() - {"stack"}:
                    same(getattr(row, name), values[name], name)
                if by == "stack":
                    same([frame._asdict() for frame in row.stack], values["stack"], "stack")
        ranked = opened.rows("allocated", sort="total", focus="^both$", top=2)
        same([row.estimate for row in ranked],
             [row["total"]["bytes"]["estimate"] for row in
              report(trace, "--metric", "allocated", "--by", "function", "--sort", "total", "--focus", "^both$", "--top", "2")["rows"]],
             "ranked by total")
        named = {row.function: row for row in opened.rows("live")}
        check(named["keep"].low <= 2000 * 3100 and 2000 * 3000 <= named["keep"].high, named["keep"])


@case
def figures_of_the_trace():
    with recorded(["-i", "4K"]) as [trace]:
        opened, facts = mayfly.open(trace), as_json("info", "--json", trace)
        for name in ("peak", "allocated", "live_at_end", "temporary"):
            same(figures(getattr(opened, name)), facts[name], name)
        same(opened.info, facts, "info")
        same(opened.command, facts["command"], "command")
        same(opened.start.strftime("%Y-%m-%dT%H:%M:%S"), facts["start_time"][:19], "start")
        same(opened.duration, facts["duration_ns"] / 1e9, "duration")
        text = run([MAYFLY, "report", trace]).out.decode()
        same(opened.headline, " ".join(text[:text.index("\n\n")].split("\n")), "headline")
        same(opened.report(), text, "report")


@case
def series_leaks_and_diff():
    with recorded(["-i", "4K"], ["--exact"]) as [before, after]:
        opened = mayfly.open(before)
        expected = report(before, "--series", "7", "--top", "2", "--metric", "peak", "--by", "line")
        series = opened.series(7, by="line", top=2)
        same(series.times, [time / 1e9 for time in expected["times_ns"]], "times")
        for name in ("live_bytes", "live_blocks", "allocated_bytes", "allocated_blocks"):
            same([getattr(row, name) for row in series], [row[name] for row in expected["rows"]], name)
            same(series.others[name], expected["others"][name], "others")
        expected = as_json("leaks", "--json", before)
        same([figures(row.self) for row in opened.leaks()], [row["self"] for row in expected["rows"]], "leaks")
        same(figures(opened.leaks().total), expected["total"], "total of leaks")
        expected = as_json("diff", "--json", "--metric", "live", before, after)
        changes = mayfly.diff(before, after, metric="live")
        same(changes.total.verdict, expected["total"]["verdict"], "verdict")
        check(changes, "no changes")
        for row, values in zip(changes, expected["rows"]):
            same([row.change.verdict, row.change.bytes, row.change.blocks],
                 [values["change"][part] for part in ("verdict", "bytes", "blocks")], row)
            same((row.estimate, row.low, row.high), tuple(values["change"]["bytes"][part] for part in ("change", "low", "high")), row)
            same([row.before and figures(row.before), row.after and figures(row.after)], [values["before"], values["after"]], row)


@case
def tables_for_pandas():
    if run([PYTHON[0], "-c", "import pandas"]).code:
        raise Skip("Debian's python3-pandas is not installed")
    with recorded(["--exact"]) as [trace]:
        result = run([PYTHON[0], "-c", """
import sys, mayfly
trace = mayfly.open(sys.argv[1])
rows = trace.rows("live", "line")
table = rows.to_pandas()
assert list(table.self_bytes) == [row.self.estimate for row in rows] and list(table.file) == [row.file for row in rows]
assert list(table.self_blocks_high) == [row.self.blocks.high for row in rows]
series = trace.series(5, top=2)
table = series.to_pandas()
assert list(table.index) == series.times and list(table[series[0].name]) == series[0].live_bytes
assert list(table["others"]) == series.others["live_bytes"]
assert len(mayfly.diff(trace, trace).to_pandas()) == len(mayfly.diff(trace, trace))
assert trace.stacks().to_pandas()["stack"][0][0] == str(trace.stacks()[0].stack[0])
""", trace], env=environment(PYTHONPATH=PACKAGE, MAYFLY_PROGRAM=MAYFLY))
        same((result.code, result.err), (0, b""), result)


@case
def blocks_add_up():
    """In an exact trace to the report's figures; the stacks are those of mayfly dump."""
    with recorded(["--exact"]) as [trace]:
        opened = mayfly.open(trace)
        blocks = list(opened.blocks())
        same(sum(block.size for block in blocks), opened.allocated.estimate, "bytes of all blocks")
        same(sum(block.size for block in blocks if block.freed is None), opened.live_at_end.estimate, "bytes never freed")
        same(sorted(block.number for block in blocks), list(range(opened.info["samples"])), "numbers")
        kept = [block for block in blocks if block.freed is None and "keep" in block.stack]
        check(len(kept) >= 2000 and kept[0].stack.index("keep") < kept[0].stack.index("both"), kept[0])
        check(all(block.allocated <= block.freed for block in blocks if block.freed is not None), "freed too early")
        same({block.stack for block in opened.blocks(stacks=False)}, {()}, "stacks")
        for block in opened.blocks():  # one may stop early
            check(block.size > 0 or block.weight_bytes == 0, block)
            break


@case
def errors_are_the_programs_line():
    with recorded(["-i", "4K"]) as [trace]:
        for question, words in ((lambda: mayfly.open(trace + ".missing"), "no such file"),
                                (lambda: mayfly.open(trace).rows(metric="size"), "size"),
                                (lambda: mayfly.open(trace).rows(bogus=3), "--bogus")):
            try:
                question()
                check(False, "no error with", words)
            except mayfly.Error as error:
                check(words in str(error) and "\n" not in str(error), error)
        os.environ["MAYFLY_PROGRAM"] = trace + ".missing"
        try:
            mayfly.open(trace)
            check(False, "no error without the program")
        except mayfly.Error as error:
            check("cannot run" in str(error), error)
        finally:
            os.environ["MAYFLY_PROGRAM"] = MAYFLY


@case
def the_version_is_mayflys():
    version, = re.findall(rb"^project\('mayfly'.* version: '([^']*)'", read(os.path.join(SOURCE, "meson.build")), re.MULTILINE)
    same(mayfly.__version__, version.decode(), "version")


if __name__ == "__main__":
    main()
