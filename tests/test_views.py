#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The views of mayfly view together, in a browser, served and as a file: they agree with each other
and with `mayfly report`, and files of all kinds open. Pictures are kept in BUILD/screenshots."""
import contextlib
import json
import os
import shlex
import signal
import subprocess

import harness
from harness import (BUILD, Folder, MAYFLY, PROGRAMS, SOURCE, Skip, case, cases, check, descendants, environment, main,
                     need, run, same)
import profiles
import test_serve

harness._cases.clear()  # test_serve's own run there; here only its View and Steps are used

PAGE = os.path.join(BUILD, "src", "page", "viewer.html")
GOLDEN = os.path.join(SOURCE, "tests", "golden")
DRIVER = os.path.join(SOURCE, "tests", "drive_page.mjs")
LIBRARIES = os.path.join(SOURCE, "viewer", "node_modules")
PICTURES = os.path.join(BUILD, "screenshots")
EXACT = os.path.join(GOLDEN, "exact.mayfly")
SAMPLED = os.path.join(GOLDEN, "sampled.mayfly")
VIEWS = ["summary", "timeline", "flame", "table", "heat"]


def ready():
    need("node", "chromium")
    if not os.path.exists(PAGE) or not os.path.getsize(PAGE):
        raise Skip("the page is not built")
    if not os.path.exists(os.path.join(LIBRARIES, "playwright-core")):
        raise Skip("npm's playwright-core is not installed")


class Browser:
    """The page in Chromium; a step is a method: browser.texts(".program"), see drive_page.mjs."""

    def __init__(self, address):
        self.process = subprocess.Popen(["node", DRIVER, address, "-"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def __getattr__(self, name):
        def step(*parameters):
            with contextlib.suppress(BrokenPipeError):  # a driver that has ended says why, below
                self.process.stdin.write(json.dumps([name, *parameters]).encode() + b"\n")
                self.process.stdin.flush()
            line = self.process.stdout.readline()
            check(line, name, parameters, self.process.stderr.read().decode() if not line else "")
            return json.loads(line)
        return step

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        said = self.process.stderr.read().decode()
        code = self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()
        if kind is None:
            check(code == 0, "console errors or requests:", said)


@contextlib.contextmanager
def opened(how, *words):
    """The browser with `mayfly view WORDS`, served or written with --html."""
    ready()
    if how == "served":
        with test_serve.View(*words) as view:
            with Browser("http://127.0.0.1:%d%s" % (view.port, view.path)) as browser:
                yield browser
    else:
        with Folder() as here:
            done = run([MAYFLY, "view", "--html", here / "page.html", *words])
            same(done.code, 0, repr(done))
            with Browser(here / "page.html") as browser:
                yield browser


def total(words, trace):
    result = run([MAYFLY, "report", "--json", *words, trace])
    check(result.code == 0, result)
    return json.loads(result.out)["total"]["bytes"]["estimate"]


def exact(value):
    return "{:,} bytes, exact".format(value)


def bytes_text(value):
    """As the page writes bytes."""
    value, units = float(value), ["B", "KiB", "MiB", "GiB"]
    while value >= 999.5 and len(units) > 1:
        value, units = value / 1024, units[1:]
    if units[0] == "B":
        return "%d B" % value
    return "%.*f %s" % (2 if value < 9.995 else 1 if value < 99.95 else 0, value, units[0])


def hash_of(view, words):
    pairs = ["%s=%s" % (words[i][2:], words[i + 1]) for i in range(0, len(words), 2)]
    return "#v1/%s?%s" % (view, "&".join(pairs))


def picture(browser, name):
    os.makedirs(PICTURES, exist_ok=True)
    browser.picture(os.path.join(PICTURES, name + ".png"))


def all_agree(browser, words, trace=EXACT):
    """Each view, opened with this question, has the report's total."""
    expected = total(words, trace)
    check(expected > 0, "the test's question finds nothing")
    for view in VIEWS:
        browser.open(hash_of(view, words))
        same(browser.titles(".total > span"), [exact(expected)], view)
        if view == "flame":
            browser.until("[role=treeitem]", "all, %s, 100" % bytes_text(expected))
        if view == "heat":
            browser.until(".heat-functions h2", bytes_text(expected) + " by function")
    return expected


@cases(["served", "file"])
def every_view(how):
    """All open without an error and without a request to others, and say what the report says."""
    with opened(how, EXACT) as browser:
        all_agree(browser, ["--metric", "allocated"])
        for view in VIEWS:
            browser.open("#v1/" + view)
            picture(browser, "%s-%s" % (view, how))
        for view in ("spans", "leaks", "rss", "churn", "reallocs", "fragmentation", "events"):
            browser.open("#v1/" + view)
            same(browser.texts("[role=alert]"), [], view)


@cases(["served", "file"])
def range_of_time(how):
    """A range that is dragged or typed in the timeline filters all views."""
    with opened(how, EXACT) as browser:
        browser.open("#v1/timeline?metric=allocated")
        browser.drag(".timeline-chart .u-over", 0.2, 0.7)
        browser.hashHas("from=")
        pairs = dict(pair.split("=") for pair in browser.hash().split("?")[1].split("&"))
        check(pairs["metric"] == "allocated" and "to" in pairs, pairs)
        words = [word for key, value in pairs.items() for word in ("--" + key, value)]
        same(browser.titles(".total > span"), [exact(total(words, EXACT))], "dragged")
        all_agree(browser, words)
        browser.open("#v1/timeline?metric=allocated")
        fields = ".timeline-selection .timeline-field:nth-of-type(%d) input"
        browser.fill(fields % 1, "5ms")
        browser.hashHas("from=5ms")
        browser.fill(fields % 2, "15ms")
        browser.hashHas("to=15ms")
        expected = all_agree(browser, ["--metric", "allocated", "--from", "5ms", "--to", "15ms"])
        check(expected < total(["--metric", "allocated"], EXACT), "the range leaves nothing out")
        browser.open("#v1/timeline")
        browser.fill(fields % 1, "5ms")
        browser.hashHas("metric=allocated")
        browser.click("text=Whole time")
        check("metric" not in browser.hash(), "the peak again:", browser.hash())


@cases(["served", "file"])
def flame(how):
    """Search, zoom and back, invert, focus."""
    words = ["--metric", "allocated"]
    whole, inside = total(words, EXACT), total(words + ["--focus", "^keep_row$"], EXACT)
    root = "all, %s, 100"
    with opened(how, EXACT) as browser:
        browser.open("#v1/flame?metric=allocated")
        browser.until("[role=treeitem]", root % bytes_text(whole))
        browser.press("/")
        browser.type("^keep_row$")
        browser.until("#flame-found", " in ")
        browser.press("Enter")
        browser.until("[role=treeitem][aria-selected=true]", "keep_row, ")
        browser.focus("[role=tree]")
        browser.press("Enter")
        browser.hashHas("own.zoom=")
        browser.back()
        browser.open("#v1/flame?metric=allocated&own.invert=1")
        browser.until("[role=treeitem]", root % bytes_text(whole))
        picture(browser, "flame-inverted-" + how)
        browser.open("#v1/flame?metric=allocated&focus=^keep_row$")
        browser.until("[role=treeitem]", root % bytes_text(inside))
        same(browser.titles(".total > span"), [exact(inside)], "focus")


@cases(["served", "file"])
def difference(how):
    """The page compares two traces; a trace differs nowhere significantly from itself."""
    with opened(how, "--base", SAMPLED, EXACT) as browser:
        browser.open("#v1/difference?metric=allocated")
        browser.until("[role=treeitem]", "all, ")
        said = " ".join(browser.texts("[role=treeitem]"))
        check(", before " in said, said)
        picture(browser, "difference-" + how)
    with opened(how, "--base", EXACT, EXACT) as browser:
        browser.open("#v1/difference?metric=allocated")
        browser.until("[role=treeitem]", "all, ")
        said = browser.texts("[role=treeitem]")
        check(said and all("within noise" in one for one in said), said)


@cases(["heaptrack", "memtrace"])
def other_tools(tool):
    """Files of other tools open as they are, served and written."""
    with Folder() as here:
        path = here / tool
        if tool == "memtrace":
            same(run([os.path.join(PROGRAMS, "memtrace_tool"), "make", path]).code, 0, "memtrace_tool")
        else:
            with open(path, "w") as file:
                file.write(profiles.HEAPTRACK)
        expected = total(["--metric", "allocated"], path)
        shown = []
        for how in ("served", "file"):
            with opened(how, path) as browser:
                for view in VIEWS:
                    browser.open("#v1/%s?metric=allocated" % view)
                    same(browser.texts("[role=alert]"), [], view)
                    shown += browser.titles(".total > span")
                picture(browser, "%s-%s" % (tool, how))
        same(len(shown), 2 * len(VIEWS), shown)
        start = exact(expected) if tool == "heaptrack" else bytes_text(expected)
        check(all(one.replace("\u00a0", " ").startswith(start) for one in shown), shown, start)


@case
def heat_of_blocks_that_stay():
    """If no block is freed, the map has one column of lifetimes, beside its names and sums."""
    with opened("file", EXACT) as browser:
        browser.open("#v1/heat")
        same(browser.columns(".heat-grid"), 4, "names, gap, never freed, sums")


@cases(["served", "file"])
def nothing_recorded(how):
    """A trace without samples says so, in each view."""
    with Folder() as here:
        done = run([MAYFLY, "record", "-o", here / "none.mayfly", "--interval", "1G", "--", "true"])
        same(done.code, 0, repr(done))
        with opened(how, here / "none.mayfly") as browser:
            for view in VIEWS:
                browser.open("#v1/" + view)
                same(browser.texts("[role=alert]"), [], view)
                check(" ".join(browser.texts("main")), view)


@case
def corrupted():
    """A file that is cut or overwritten: the command says what is wrong with it."""
    ready()
    with open(EXACT, "rb") as file:
        data = file.read()
    with Folder() as here:
        for name, bad in (("zeros", b"\0" * 5000), ("half", data[:200][::-1]), ("empty", b"")):
            path = here / name
            with open(path, "wb") as file:
                file.write(bad)
            for words in ((path,), ("--html", here / "page.html", path)):
                result = run([MAYFLY, "view", *words])
                check(result.code == 1 and name.encode() in result.err and
                      not os.path.exists(here / "page.html"), words, result)


@cases(["exact", "sampled"])
def legend_at_the_peak(kind):
    """Without a choice, the timeline's legend has what the report has for the peak."""
    trace = os.path.join(GOLDEN, kind + ".mayfly")
    rows = json.loads(run([MAYFLY, "report", "--json", "--by", "function", "--all", "--top", "0", trace]).out)["rows"]
    sums = {row["function"]: bytes_text(row["self"]["bytes"]["estimate"]) for row in rows}
    with opened("file", trace) as browser:
        browser.open("#v1/timeline")
        browser.until(".timeline-legend", "peak, at ")
        shown = dict(zip(browser.texts(".timeline-name"), browser.texts(".timeline-value")))
    named = [name for name in shown if name in sums]
    check(len(named) > 1, shown)
    for name in named:
        same(shown[name].replace("\u00a0", " "), sums[name], name)


@case
def live():
    """While the program runs, the figures grow, and the view and the filters stay."""
    ready()
    test_serve.supported()
    with Folder() as here, \
            test_serve.Steps(MAYFLY, "record", "-x", "-o", here / "t.mayfly", "--") as program, \
            test_serve.View(here / "t.mayfly.spool") as view:
        with Browser("http://127.0.0.1:%d%s" % (view.port, view.path)) as browser:
            link = "#v1/table?metric=allocated&focus=^step$"
            browser.open(link)
            blocks = 1
            browser.until(".total", " in 1 block")
            for count in (9, 90):
                program.write(str(count))
                blocks += count
                browser.until(".total", " in %d blocks" % blocks)
                same(browser.hash(), link, "the link")
                same(browser.texts(".tabs [aria-current]"), ["Table"], "view")
                same(browser.texts(".sentence .visually-hidden"), ["Allocated, inside step"], "sentence")
            program.end()
            test_serve.settles(view)


def command_of(browser):
    browser.click("button:text-is('Terminal')")
    found = shlex.split(browser.texts(".terminal pre")[0])
    browser.press("Escape")
    same(found[0], "mayfly", found)
    return found[1:]


@cases(["served", "file"])
def terminal_and_export(how):
    """The commands that views name give the same total; so do the exported files."""
    words = ["--metric", "allocated", "--focus", "keep_row", "--from", "1ms"]
    expected = total(words, EXACT)
    with opened(how, EXACT) as browser, Folder() as here:
        for view in ("summary", "table"):
            browser.open(hash_of(view, words))
            command = command_of(browser)
            result = run([MAYFLY, command[0], "--json", *command[1:-1], EXACT])
            check(result.code == 0, command, result)
            same(json.loads(result.out)["total"]["bytes"]["estimate"], expected, view)
        browser.click("button:text-is('Share')")
        browser.save("text=Folded stacks", here / "folded")
        with open(here / "folded") as file:
            same(sum(int(line.rsplit(" ", 1)[1]) for line in file), expected, "folded stacks")


EVERYTHING = ["--metric", "allocated", "--at", "10ms", "--from", "1ms", "--to", "15ms", "--focus", "a",
              "--ignore", "zzz", "--hide", "zzz", "--thread", "demo", "--min-size", "1",
              "--max-size", "1M", "--min-lifetime", "1us", "--max-lifetime", "10s", "--heap", "malloc"]
EFFECTLESS = {"rss": ["live at 10.0 ms", "inside a", "in heap malloc"],
              "fragmentation": ["live at 10.0 ms", "inside a"], "churn": ["live at 10.0 ms"]}


@cases(["rss", "fragmentation", "churn", "reallocs", "leaks", "spans", "events", "survival"])
def panes(view):
    """The command of a pane is accepted; what does not apply to the pane is named."""
    name = {"survival": "ocaml", "spans": "made-exact-events", "events": "made-exact-events"}
    trace = os.path.join(GOLDEN, name.get(view, "exact") + ".mayfly")
    with opened("file", trace) as browser:
        browser.open(hash_of(view, EVERYTHING))
        said = " ".join(browser.texts(".not-applied"))
        check(said.startswith("Without effect on this view: "), said)
        for part in EFFECTLESS.get(view, []):
            check(part in said, part, said)
        command = command_of(browser)
        result = run([MAYFLY, *command[:-1], trace])
        check(result.code == 0, command, result)
        browser.open("#v1/" + view)
        same(browser.texts(".not-applied"), [], "without filters")


@cases(["timeline", "flame", "heat", "difference"])
def access(view):
    """axe finds nothing serious in light and dark."""
    with opened("file", "--base", SAMPLED, EXACT) as browser:
        for scheme in ("light", "dark"):
            browser.scheme(scheme)
            browser.open("#v1/%s?metric=allocated" % view)
            same(browser.axe(), [], scheme)
            picture(browser, "%s-%s" % (view, scheme))


@case
def step_that_cannot_succeed():
    """The driver does not wait for ever: it names the step and what the page shows."""
    ready()
    with Folder() as here:
        with open(here / "page.html", "w", encoding="utf-8") as file:
            file.write("<main>All that there is</main>")
        with open(here / "steps.json", "w", encoding="utf-8") as file:
            json.dump([["open"], ["click", "#none"]], file)
        result = run(["node", DRIVER, here / "page.html", here / "steps.json"], env=environment(STEP_MS="20000"))
    check(result.code == 1 and all(part in result.err for part in (b'step ["click","#none"]', b"All that there is")),
          result)


@case
def browser_that_dies():
    """Its next step fails, and says why."""
    try:
        with opened("file", EXACT) as browser:
            browser.open()
            for pid in list(descendants(browser.process.pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            browser.texts(".program")
    except AssertionError as error:
        check('step ["texts",".program"]' in str(error) and "closed" in str(error), error)
    else:
        check(False, "the step did not fail")


if __name__ == "__main__":
    main()
