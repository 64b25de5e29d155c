#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The viewer's flame graph, its arithmetic in node and the page itself in Chromium, and the page's engine in node."""
import json
import os

from harness import BUILD, SOURCE, Skip, case, check, main, need, run, same

VIEWER = os.path.join(SOURCE, "viewer")
TRACE = os.path.join(SOURCE, "tests", "golden", "exact.mayfly")


def node(script, *arguments):
    need("node")
    result = run(["node", os.path.join(SOURCE, "tests", script), *arguments])
    check(result.code == 0, result.out.decode()[-1000:] + result.err.decode()[-2000:])
    return result.out.decode()


def units_of(script):
    if not os.path.exists(os.path.join(VIEWER, "node_modules", "esbuild")):
        raise Skip("the libraries of the page are not installed")
    return node(script, VIEWER)


@case
def units():
    """The walk shows what a plain one shows; damaged answers are refused; names stay readable."""
    out = units_of("flame_units.mjs")
    same([line.split(":")[0] for line in out.splitlines()],
         ["trees", "damaged answers", "labels", "search"], "what was checked")


@case
def engine_units():
    """The engine of a file's page: what is asked while a trace to compare with is read has its own answer."""
    units_of("engine_units.mjs")


def report(*options):
    result = run([os.path.join(BUILD, "mayfly"), "report", "--json", "--metric", "allocated", *options, TRACE])
    check(result.code == 0, "report", result)
    return json.loads(result.out)["total"]["bytes"]["estimate"]


@case
def page():
    """What the page's tree says is what the report says, also searched, focused and zoomed."""
    built = os.path.join(BUILD, "src", "page", "viewer.html")
    if not os.path.exists(built) or os.path.getsize(built) < 10000:
        raise Skip("the page was not built")
    if not os.path.exists(os.path.join(VIEWER, "node_modules", "playwright-core")):
        raise Skip("the libraries of the page's tests are not installed")
    need("chromium")
    function = "keep_row"
    totals = [report(), report("--focus", "^%s$" % function)]
    check(0 < totals[1] < totals[0], totals)
    node("flame_page.mjs", VIEWER, built, TRACE, function, json.dumps(totals))


main()
