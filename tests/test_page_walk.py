#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Twelve tasks that people come to the page with, walked from the first view in at most three clicks, in a small
and in a large window: each ends with the answer that the terminal gives."""
import contextlib
import os
import re

import harness
from harness import MAYFLY, case, cases, check, main, run, same
from test_page_tasks import cells, folder, parsed, served, sizes
from test_views import Browser, bytes_text, opened

harness._cases.clear()  # those of test_page_tasks run there

SIZES = {"1024": (1024, 768), "1920": (1920, 1080)}
MOST_CLICKS = 3


class Walk:
    """A browser that counts clicks: choosing, dragging and typing a name count as one each."""

    def __init__(self, browser, width):
        self.browser, self.clicks = browser, 0
        browser.open()
        browser.size(*SIZES[width])

    def count(self):
        self.clicks += 1
        check(self.clicks <= MOST_CLICKS, "more than", MOST_CLICKS, "clicks")

    def click(self, selector):
        self.count()
        self.browser.click(selector)

    def __getattr__(self, name):
        if name in ("clickAt", "drag", "choose", "save", "fill"):
            self.count()
        return getattr(self.browser, name)


def walks(task):
    """The task with both windows."""
    def both(width):
        with opened("file", served()) as browser:
            walk = Walk(browser, width)
            task(walk)
            same(walk.overflow(), False, "something is wider than the window")
    both.__name__ = task.__name__
    both.__doc__ = task.__doc__
    return cases(list(SIZES))(both)


def report(*words):
    return parsed("report", "--json", *words, served())


def more(walk, view):
    walk.click(".tabs button:has-text('More')")
    walk.click("[role^=menuitem]:has-text('%s')" % view)


def table_rows(walk, caption="functions"):
    return cells(walk, caption)


def first_name(row):
    return next(text for title, text in row.items() if title in ("Function", "Stack", "Line")).split()[0]


@walks
def holder_of_the_peak(walk):
    first = report("--by", "function")["rows"][0]
    check(first["function"] in walk.texts(".headline")[0], walk.texts(".headline"))
    row = cells(walk, "Functions")[0]
    same((first_name(row), row["Bytes"]), (first["function"], sizes(first)), "the first row")


@walks
def its_callers(walk):
    walk.click("table[aria-label=Functions] tbody tr:first-child .row-button")
    walk.wait(".table-and-side.with-side")
    callers = [row["function"] for row in parsed("report", "--json", "--callers", "render", served())["callers"]]
    said = " ".join(walk.texts(".with-side"))
    check(callers and all(name in said for name in callers), callers, said)


@walks
def leaks_and_since_when(walk):
    more(walk, "Leaks")
    row = cells(walk, "Never freed")[0]
    leak = parsed("leaks", "--json", "--by", "function", served())
    sums = {one["function"]: sizes(one) for one in leak["rows"]}
    same((first_name(row), row["Never freed"]), ("store_session", sums["store_session"]), "the leak that grows")
    check(row["First"] and row["Growth"].startswith("+"), row)


@cases(list(SIZES))
def two_builds(width):
    """The dialog for files is the browser's own."""
    with opened("file", served(300)) as browser:
        walk = Walk(browser, width)
        walk.click("text=Compare with…")
        walk.click("text=Choose a file")
        walk.give(str(served(100)))
        walk.wait(".change-card")
        headline = run([MAYFLY, "diff", served(100), served(300)]).out.decode().splitlines()[0]
        same(walk.texts(".changes .headline"), [headline], "what changed")
        check(walk.apart(".recording > *", ".tools > *"), "the name of the other build lies below the tools")
        walk.click(".change-card >> nth=0")
        walk.until("[role=treeitem]", ", before ")


@walks
def churn(walk):
    more(walk, "Churn")
    rows = {first_name(row): row for row in cells(walk, "Churn by function")}
    for row in parsed("report", "--json", "--churn", served())["rows"][:3]:
        same(rows[row["function"]]["Allocated"], sizes(row), row["function"])
    said = run([MAYFLY, "report", "--churn", "--top", "0", served()]).out.decode()
    rates = re.findall(r"%  +\S+ \S+  +(\S+(?: \S)?)  +\S+ \S+  (\S+)", said)
    check(rates, "no rows", said)
    same({name: rate for rate, name in rates}, {name: row["Churn"] for name, row in rows.items()},
         "the terminal's rows and rates")


@walks
def one_requests_cost(walk):
    walk.click(".tabs button:has-text('Spans')")
    span, = [s for s in parsed("report", "--spans", "--json", served())["spans"] if s["name"] == "request"]
    row, = [row for row in cells(walk, "Spans") if row["Span"].startswith("request")]
    same([row["Each"], row["Each: median"], row["Each: 99 %"]],
         [bytes_text(span["each"][key]) for key in ("mean", "p50", "p99")], "bytes of one request")
    walk.click("table[aria-label=\"The worst of request\"] tbody tr:first-child .row-button")
    check("render" in walk.texts(".rows tbody .name-text")[0], "the stack of the worst request")


@walks
def from_t1_to_t2(walk):
    walk.click(".tabs button:has-text('Timeline')")
    walk.clickAt(".timeline-chart .u-over", 0.2, 0.6)
    walk.clickAt(".timeline-chart .u-over", 0.8, 0.6)
    walk.hashHas("own.until=")
    pairs = dict(pair.split("=") for pair in walk.hash().split("?")[1].split("&"))
    young = report("--metric", "live", "--at", pairs["own.until"], "--by", "function", "--all", "--top", "0")
    old = report("--metric", "live", "--at", pairs["at"], "--by", "function", "--all", "--top", "0")
    grew = {row["function"]: row["self"]["bytes"]["estimate"] for row in young["rows"]}
    for row in old["rows"]:
        grew[row["function"]] = grew.get(row["function"], 0) - row["self"]["bytes"]["estimate"]
    rows = {first_name(row): row for row in cells(walk, "What grew between the two")}
    same(rows["store_session"]["Grew by"], "+" + bytes_text(grew["store_session"]), "what the leak added")


@walks
def one_thread(walk):
    walk.click(".tabs button:has-text('Table')")
    walk.choose(".view-bar select", "thread")
    rows = {row["thread"]: row for row in report("--by", "thread", "--top", "0", "--all")["rows"]}
    shown = cells(walk, "threads")
    same(len(shown), len(rows), "threads")
    for row in shown:
        name = row["Allocated by"].split()[0]
        same(row.get("Bytes", row.get("Self")), sizes(rows[name]), name)


@walks
def a_function(walk):
    walk.click(".tabs button:has-text('Flame graph')")
    walk.press("/")
    walk.count()
    walk.type("^fill_cache$")
    share = report("--focus", "^fill_cache$")["total"]["bytes"]["estimate"]
    whole = report()["total"]["bytes"]["estimate"]
    walk.until("#flame-found", "%.1f %% in " % (100 * share / whole))


@cases(list(SIZES))
def from_row_to_source(width):
    source = os.path.join(harness.SOURCE, "tests", "programs", "served.c")
    line = [row for row in report("--by", "line")["rows"] if row["function"] == "render"][0]["line"]
    # Sources are also found below the current folder: a compiler cache may have left another tree's path.
    with contextlib.chdir(harness.SOURCE), opened("served", served()) as browser:
        walk = Walk(browser, width)
        walk.click("table[aria-label=Functions] tbody tr:first-child .row-button")
        walk.click("text=Source >> nth=-1")
        walk.wait(".view-source")
        with open(source, encoding="utf-8") as file:
            text = file.read().splitlines()[line - 1].strip()
        walk.until(".view-source", text)


@walks
def share(walk):
    walk.click("button:text-is('Share')")
    walk.save("text=Save this page", str(folder / "walk.html"))
    with Browser(folder / "walk.html") as saved:
        saved.open()
        same(saved.texts(".headline"), walk.texts(".headline"), "the saved page")


@walks
def print_it(walk):
    walk.click(".tabs button:has-text('Table')")
    walk.paper(True)
    same(len(walk.texts(".rows tbody tr:not(.space)")), len(report("--by", "function", "--all", "--top", "0")["rows"]),
         "rows on paper")
    check(walk.whole(".rows .name-text"), "names are cut off")
    walk.paper(False)


if __name__ == "__main__":
    main()
