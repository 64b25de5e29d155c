#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""mayfly view --html: the page with a trace in it, as a file."""
import base64
import html
import json
import os
import re
import shutil
import sys

from attaching import need_attach
from harness import (BUILD, MAYFLY, PROGRAMS, Folder, SOURCE, Skip, case, cases, check, main, need, program,
                     read, record, run, same)
from picturing import heap, started

GOLDEN = os.path.join(SOURCE, "tests", "golden")
PAGE = os.path.join(BUILD, "src", "page", "viewer.html")
TRACE = os.path.join(GOLDEN, "sampled.mayfly")
BASE = os.path.join(GOLDEN, "exact.mayfly")


def built():
    if b"--html" not in run([MAYFLY, "view", "--help"]).out:
        raise Skip("mayfly view has no --html")
    if not os.path.exists(PAGE) or not os.path.getsize(PAGE):
        raise Skip("the page is not built")


def view(*arguments, **how):
    return run([MAYFLY, "view", *arguments], **how)


def blocks(text):
    """What lies in the page: {id: (name, content)}."""
    return {found[0]: (html.unescape(found[1] or ""), found[2]) for found in re.findall(
        r'<script type="application/[a-z-]+" id="(\w+)"(?: data-name="([^"]*)")?>([^<]*)</script>',
        text)}


def written(path):
    return blocks(read(path).decode())


@case
def holds_the_trace():
    built()
    with Folder() as here:
        result = view("--html", here / "a.html", "--base", BASE, TRACE)
        same((result.code, result.out, result.err), (0, b"", b""), result)
        found = written(here / "a.html")
        for key, path in (("trace", TRACE), ("base", BASE)):
            same(found[key][0], os.path.basename(path), "name")
            same(base64.b64decode(found[key][1], validate=True), read(path), key)
        check("sources" not in found, "there are sources")


@case
def a_heap_that_was_not_recorded():
    """mayfly heap --html: the page opens with the holders, in the figures of mayfly heap; a click leads to blocks."""
    built()
    need_attach()
    need("node", "chromium")
    if not os.path.exists(os.path.join(SOURCE, "viewer", "node_modules", "playwright-core")):
        raise Skip("npm's playwright-core is not installed")
    with Folder() as here:
        with started(program("holders")) as process:
            pid = str(process.pid)
            told = heap(pid)
            done = run([MAYFLY, "heap", "--html", here / "a.html", pid])
            same((done.code, done.out, done.err), (0, b"", b""), done)
            again = run([MAYFLY, "heap", "--html", here / "a.html", pid])
            same((again.code, again.err.count(b"\n")), (1, 1), again)
            for options in (["--html", "b", "--json"], ["--html", "b", "--waste"], ["--html", "b", "--every", "1s"]):
                refused = run([MAYFLY, "heap", *options, pid])
                same((refused.code, refused.err.count(b"\n"), os.path.exists("b")), (2, 1, False), options)
        with open(here / "trace.mayfly", "wb") as file:
            file.write(base64.b64decode(written(here / "a.html")["trace"][1]))
        rows = json.loads(run([MAYFLY, "report", "--by", "holder", "--json", "--top", "0", here / "trace.mayfly"]).out)["rows"]
        with open(here / "steps.json", "w") as file:
            json.dump([["open"], ["texts", ".tabs > button"], ["texts", ".recording"], ["texts", ".headline"],
                       ["texts", "[aria-label=Holders] .name-text"], ["titles", "[aria-label=Holders] td:nth-child(2) span"],
                       ["click", ".held-row:first-child > button"], ["wait", ".view-table"],
                       ["titles", ".total > span"], ["axe"], ["open", "#v1/leaks"], ["texts", "[aria-label=Held] .name-text"],
                       ["texts", ".pane > .empty"]], file)
        drawn = run(["node", os.path.join(SOURCE, "tests", "drive_page.mjs"), here / "a.html", here / "steps.json"])
    check(drawn.code == 0, drawn)
    tabs, recording, headline, names, figures, total, axe, held, none = json.loads(drawn.out)
    same(tabs, ["Table", "Held by"], "tabs")
    check("holders" in recording[0] and "picture of the heap" in recording[0], recording)
    first = max(told["held"], key=lambda row: row["bytes"])
    check("%.1f %%" % (100 * first["bytes"] / told["bytes"]) in headline[0] and first["name"] in headline[0], headline)
    shown = sorted((name, int(figure.split()[0].replace(",", ""))) for name, figure in zip(names, figures))
    whole = sum(row["bytes"] for row in told["held"] + told["shared"]) + told["lost"]["bytes"]
    same(sum(figure for _, figure in shown), whole, "all that is retained")
    for row in told["held"]:
        check((row["holder"], row["bytes"]) in shown, row["holder"], shown)
    same(total, ["{:,} bytes, exact".format(first["bytes"])], "what is held, as blocks")
    # Each block is there, so what was recorded is what is retained.
    same([(row["holder"], row["self"]["bytes"]["estimate"]) for row in rows if row["self"]["bytes"]["estimate"]],
         [(row["holder"], row["retained_bytes"]) for row in rows if row["self"]["bytes"]["estimate"]], "blocks")
    same((axe, none), ([], []))
    check("g_sessions" in held, held)


@case
def page_alone():
    built()
    with Folder() as here:
        same(view("--html", here / "a.html").code, 0, "status")
        check("trace" not in written(here / "a.html"), "there is a trace")
        same(view("--html", "-").out, read(here / "a.html"), "standard output")


@case
def keeps_other_files():
    built()
    with Folder() as here:
        with open(here / "a.html", "w") as file:
            file.write("mine")
        result = view("--html", here / "a.html", TRACE)
        check(result.code == 1 and b"--force" in result.err, result)
        same(read(here / "a.html"), b"mine", "the file")
        same(view("--html", here / "a.html", "--force", TRACE).code, 0, "--force")
        check(len(read(here / "a.html")) > 10000, "the page")
        result = view("--html", here / "b.html", here / "none.mayfly")
        check(result.code == 1 and not os.path.exists(here / "b.html"), result)


@case
def strange_name():
    """The name stands in an attribute; it may end neither that nor the tag."""
    built()
    name = 'a"b<c>&amp;\'</script>'.replace("/", "-") + ".mayfly"
    with Folder() as here:
        shutil.copy(TRACE, here / name)
        same(view("--html", here / "a.html", here / name).code, 0, "status")
        same(written(here / "a.html")["trace"][0], name, "name")


@case
def other_files():
    """Spools and files of other tools become traces first."""
    built()
    with Folder() as here:
        with open(here / "made.spool", "wb") as file:
            file.write(run(["xz", "-dc", os.path.join(GOLDEN, "made-exact.spool.xz")]).out)
        same(view("--html", here / "a.html", here / "made.spool").code, 0, "spool")
        made = base64.b64decode(written(here / "a.html")["trace"][1])
        with open(here / "made.mayfly", "wb") as file:
            file.write(made)
        same(json.loads(run([MAYFLY, "report", "--json", here / "made.mayfly"]).out)["rows"],
             json.loads(run([MAYFLY, "report", "--json", here / "made.spool"]).out)["rows"], "rows")


@case
def embeds_sources():
    built()
    with Folder() as here:
        same(record([os.path.join(PROGRAMS, "plain")], here / "t.mayfly", "--exact").code, 17, "record")
        result = view("--html", here / "a.html", "--embed-sources", here / "t.mayfly", cwd=SOURCE)
        same(result.code, 0, result)
        sources = json.loads(written(here / "a.html")["sources"][1])
        text, = [text for path, text in sources.items() if path.endswith("programs/static.c")]
        same(text.encode(), read(os.path.join(SOURCE, "tests/programs/static.c")), "static.c")


@case
def lists_the_sources_and_keeps_to_a_folder():
    """Each file that is put in is a line on standard error; with a folder, no link and no .. leads out of it."""
    built()
    with Folder() as here:
        os.makedirs(here / "sources/tests/programs")
        shutil.copy(os.path.join(SOURCE, "tests/programs/static.c"), here / "outside.c")
        same(record([os.path.join(PROGRAMS, "plain")], here / "t.mayfly", "--exact").code, 17, "record")

        def embed(option, name):
            result = view("--html", here / name, option, here / "t.mayfly", cwd=SOURCE)
            same((result.code, result.out), (0, b""), result)
            paths = json.loads(written(here / name)["sources"][1])
            lines = result.err.decode().splitlines()
            check(re.match(r"mayfly: %d source files? in " % len(paths), lines[0]), lines)
            same(len(lines), 1 + len(paths), lines)
            return paths, lines[1:]

        paths, lines = embed("--embed-sources", "all.html")
        check(any("programs/static.c (" in line for line in lines), lines)
        folder = here / "sources"
        same(embed("--embed-sources=" + folder, "none.html"), ({}, []), "nothing below the folder")
        os.symlink(here / "outside.c", here / "sources/tests/programs/static.c")
        same(embed("--embed-sources=" + folder, "link.html"), ({}, []), "a link that leads out")
        os.unlink(here / "sources/tests/programs/static.c")
        os.rename(here / "outside.c", here / "sources/inside.c")
        os.symlink("../../inside.c", here / "sources/tests/programs/static.c")
        paths, lines = embed("--embed-sources=" + folder, "one.html")
        same((len(paths), [os.path.realpath(line.strip().rsplit(" (", 1)[0]) for line in lines]),
             (1, [os.path.realpath(here / "sources/inside.c")]), "below the folder")
        refused = view("--html", here / "no.html", "--embed-sources=" + here / "none", here / "t.mayfly")
        same((refused.code, b"is not a folder" in refused.err), (2, True), refused)


@cases(["--force", "--embed-sources"])
def needs_html(option):
    built()
    same(view(option, TRACE).code, 2, option)


# ---- in the browser ----

SCRIPT = """
import { createRequire } from "node:module";
const { chromium } = createRequire(process.argv[2])("playwright-core");
const [, , , browser, page, text, file] = process.argv;
const wrong = [];
const started = await chromium.launch({ executablePath: browser, args: ["--no-sandbox"] });
const tab = await started.newPage();
tab.setDefaultTimeout(3600e3);
tab.on("console", (message) => wrong.push(message.text()));
tab.on("pageerror", (error) => wrong.push(error.message));
tab.on("request", (request) => {
	if (!/^(file|blob|data):/.test(request.url())) wrong.push(request.url());
});
await tab.goto("file://" + page);
if (file) await tab.locator("input[type=file]").first().setInputFiles(file);
await tab.getByText(text).first().waitFor();
await started.close();
console.log(JSON.stringify(wrong));
"""


def shown(here, page, text, *file):
    """Waits until the page shows a text; nothing may be reported, and no request leave the page."""
    browser = shutil.which("chromium")
    if not browser:
        raise Skip("chromium is not installed")
    need("node")
    package = os.path.join(SOURCE, "viewer", "package.json")
    if not os.path.exists(os.path.join(SOURCE, "viewer", "node_modules", "playwright-core")):
        raise Skip("npm's playwright-core is not installed")
    with open(here / "show.mjs", "w") as script:
        script.write(SCRIPT)
    result = run(["node", here / "show.mjs", package, browser, page, text, *file])
    check(result.code == 0, result)
    same(json.loads(result.out), [], "console, requests")


@case
def opens_from_a_disk():
    built()
    with Folder() as here:
        same(view("--html", here / "a.html", "--base", BASE, TRACE).code, 0, "status")
        shown(here, here / "a.html", "Live at the end")


@case
def takes_a_file():
    built()
    with Folder() as here:
        same(view("--html", here / "a.html").code, 0, "status")
        shown(here, here / "a.html", "Live at the end", TRACE)


@case
def refuses_a_file():
    built()
    with Folder() as here:
        same(view("--html", here / "a.html").code, 0, "status")
        with open(here / "t.mayfly", "wb") as file:
            file.write(b"\0" * 5000)
        shown(here, here / "a.html", "t.mayfly: not a mayfly trace", here / "t.mayfly")
        with open(here / "t.mayfly", "wb"):
            pass
        shown(here, here / "a.html", "t.mayfly: empty file", here / "t.mayfly")


if __name__ == "__main__":
    sys.exit(main())
