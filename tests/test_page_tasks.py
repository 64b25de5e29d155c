#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What people look for with the page: leaks and since when, what grew between two moments, what a request
costs, what changed between two builds. Each is walked in a browser, and each answer is the terminal's."""
import json
import os
from xml.etree import ElementTree

import harness
from harness import Folder, MAYFLY, PROGRAMS, case, cases, check, main, record, run, same
from test_views import Browser, bytes_text, opened, picture

harness._cases.clear()  # those of test_views run there

folder = Folder()
folder.__enter__()
_made = {}


def served(rounds=100, *options):
    """A trace of the small server."""
    key = (rounds, options)
    if key not in _made:
        path = folder / ("served-%d.mayfly" % len(_made))
        result = record([os.path.join(PROGRAMS, "served"), str(rounds)], path, *(options or ("--exact",)))
        same(result.code, 0, result.err)
        _made[key] = path
    return _made[key]


def parsed(*words):
    result = run([MAYFLY, *words])
    same((result.code, result.err), (0, b""), " ".join(map(str, words)))
    return json.loads(result.out)


def sizes(row, key="self"):
    return bytes_text(row[key]["bytes"]["estimate"])


def cells(browser, caption):
    """The rows of a table, each by the titles of its columns."""
    table = "table[aria-label=\"%s\"] " % caption
    titles = browser.texts(table + "thead th")
    texts = browser.texts(table + "tbody td")
    check(titles, "no table", caption)
    return [dict(zip(titles, texts[i:i + len(titles)])) for i in range(0, len(texts), len(titles))]


# ---- leaks ----

@cases(["served", "file"])
def leaks_and_since_when(how):
    """A stack that still grows stands first, with its times; one that is only kept does not grow."""
    trace = served()
    leaks = {row["stack"][0]["function"]: row for row in parsed("leaks", "--json", trace)["rows"]}
    with opened(how, trace) as browser:
        browser.open("#v1/leaks")
        rows = cells(browser, "Never freed")
        picture(browser, "leaks-" + how)
        check(rows[0]["Stack"].startswith("store_session "), "a leak that grows is not first", rows)
        growing = {row["Stack"].split()[0]: row["Growth"].startswith("+") for row in rows}
        check(growing["store_session"], "a leak that grows", rows)
        check(not growing["fill_cache"], "a cache of one size", rows)
        for row in rows:
            name = row["Stack"].split()[0]
            same(row["Never freed"].split(" ±")[0], sizes(leaks[name]), name)
        first = [row for row in rows if row["Stack"].startswith("store_session")][0]
        window = parsed("report", "--json", "--metric", "leaked", "--by", "function", "--top", "0",
                        "--focus", "^store_session$", trace)
        same(first["Blocks"], str(window["total"]["blocks"]["estimate"]), "blocks")
        check(float(first["First"].split()[0]) < float(first["Last"].split()[0]) or
              first["First"].split()[1] != first["Last"].split()[1], "times", first)
        same(browser.texts(".stacks .name-text")[:2], ["store_session", "serve"], "its stack")
        browser.click("text=fill_cache")
        same(browser.texts(".stacks .name-text")[:2], ["fill_cache", "serve"], "the chosen stack")


# ---- two moments ----

def moments(browser):
    pairs = dict(pair.split("=") for pair in browser.hash().split("?")[1].split("&"))
    return pairs["at"], pairs.get("own.until")


@cases(["served", "file"])
def a_moment_and_what_grew(how):
    """A click says what is live, a second one what grew since; a third one begins anew."""
    trace = served()
    with opened(how, trace) as browser:
        browser.open("#v1/timeline")
        browser.clickAt(".timeline-chart .u-over", 0.25, 0.5)
        browser.hashHas("metric=live")
        at, _ = moments(browser)
        live = parsed("report", "--json", "--metric", "live", "--at", at, "--by", "function", trace)
        rows = cells(browser, "Live at this moment")
        same(rows[0]["Live"], sizes(live["rows"][0]), "the largest")
        check(rows[0]["Function"].startswith(live["rows"][0]["function"]), rows[0], live["rows"][0])
        check(bytes_text(live["total"]["bytes"]["estimate"]) in browser.texts(".moment-total")[0], "total")
        browser.clickAt(".timeline-chart .u-over", 0.85, 0.5)
        browser.hashHas("own.until=")
        at, until = moments(browser)
        words = ["report", "--json", "--metric", "live", "--by", "function", "--all", "--top", "0"]
        before = parsed(*words, "--at", at, trace)
        after = parsed(*words, "--at", until, trace)
        said = browser.texts(".moment-total")[0]
        for answer in (before, after):
            check(bytes_text(answer["total"]["bytes"]["estimate"]) in said, said)
        rows = cells(browser, "What grew between the two")
        picture(browser, "grown-" + how)
        was = {row["function"]: row["self"]["bytes"]["estimate"] for row in before["rows"]}
        now = {row["function"]: row["self"]["bytes"]["estimate"] for row in after["rows"]}
        for row in rows:
            name = row["Function"].split()[0]
            change = now.get(name, 0) - was.get(name, 0)
            text = bytes_text(abs(change))
            same(row["Grew by"], ("+" if change > 0 else "-" if change < 0 else "") + text, name)
        names = [row["Function"].split()[0] for row in rows]
        check("store_session" in names, names)
        browser.click("text=by stack")
        check("store_session ← serve ← main" in [row["Stack"] for row in
                                                 cells(browser, "What grew between the two")], "stacks")
        browser.clickAt(".timeline-chart .u-over", 0.5, 0.5)
        browser.gone("[aria-label=\"What grew between the two\"]")
        check(moments(browser)[1] is None, "the third click", browser.hash())


@case
def a_window_stays_in_sight():
    """A moment in a part of the time is chosen without leaving the part."""
    with opened("file", served()) as browser:
        browser.open("#v1/timeline")
        browser.drag(".timeline-chart .u-over", 0.2, 0.6)
        browser.hashHas("from=")
        browser.clickAt(".timeline-chart .u-over", 0.5, 0.5)
        browser.hashHas("metric=live")
        check("from=" not in browser.hash() and "own.zoom=" in browser.hash(), browser.hash())
        at, _ = moments(browser)
        total = parsed("report", "--json", "--metric", "live", "--at", at, served())["total"]
        check(bytes_text(total["bytes"]["estimate"]) in browser.texts(".moment-total")[0], "the total")


# ---- requests ----

@cases(["served", "file"])
def cost_of_a_request(how):
    """Bytes of a span: mean, median, 99 %, a histogram, and the worst ones with their stacks."""
    trace = served()
    span, = [s for s in parsed("report", "--spans", "--json", trace)["spans"] if s["name"] == "request"]
    each = span["each"]
    with opened(how, trace) as browser:
        browser.open("#v1/spans")
        row, = [row for row in cells(browser, "Spans") if row["Span"].startswith("request")]
        same([row["Each"], row["Each: median"], row["Each: 99 %"]],
             [bytes_text(each[key]) for key in ("mean", "p50", "p99")], "bytes of one span")
        picture(browser, "spans-" + how)
        same([row["Spans"] for row in cells(browser, "Bytes of one request")],
             [str(c["count"]) for c in each["classes"]], "histogram")
        worst = cells(browser, "The worst of request")
        same([row["Bytes"] for row in worst], [bytes_text(w["bytes"]) for w in each["worst"]], "worst")
        check(each["worst"][0]["bytes"] > 3000000, each["worst"][0])
        browser.click("table[aria-label=\"The worst of request\"] tbody tr:first-child .row-button")
        browser.hashHas("own.by=stack")
        first = each["worst"][0]
        total = parsed("report", "--json", "--metric", "allocated", "--thread", str(first["tid"]), "--from",
                       "%dns" % first["first_ns"], "--to", "%dns" % (first["last_ns"] + 1), trace)["total"]
        same(total["bytes"]["estimate"], first["bytes"], "what the report says of it")
        same(browser.titles(".total > span"), ["{:,} bytes, exact".format(first["bytes"])], "all of it")
        check(browser.texts(".rows tbody .name-text")[0] == "render", browser.texts(".rows tbody tr"))


@case
def few_samples_say_no_quantiles():
    """The mean is an estimate of many samples; what single spans cost is not."""
    with opened("file", served(100, "--interval", "64K")) as browser:
        browser.open("#v1/spans")
        row, = [row for row in cells(browser, "Spans") if row["Span"].startswith("request")]
        check(row["Each"] not in ("", "–"), row)
        same([row.get("Each: median", "–"), row.get("Each: 99 %", "–")], ["–", "–"], "quantiles")
        check("Allocated" in row, "columns without figures take the place of one with", row)
        check("too few samples" in " ".join(browser.texts(".about")), browser.texts(".about"))


# ---- two builds ----

def relative(text):
    return text.replace("\u00a0", " ")


def check_cards(browser, before, after):
    """The cards are the lines of `mayfly diff`, in its order."""
    browser.wait(".change-card")
    result = run([MAYFLY, "diff", before, after])
    same(result.code, 0, result.err)
    lines = result.out.decode().splitlines()
    same(browser.texts(".changes .headline"), [lines[0]], "the headline")
    printed = [line for line in lines if " -> " in line][:3]
    cards = [text for text in browser.texts(".change-card")]
    for line, card in zip(printed, cards, strict=True):
        title, rest = line[:13].strip(), line[13:]
        check(card.startswith(title), title, card)
        was, now = rest.split(":")[0].split(" -> ")
        check("%s → %s" % (was, now) in card, line, card)
        check(rest[rest.index("(") + 1:rest.index(")")] in card, line, card)
    return lines


def by_choice(browser, base):
    browser.click("text=Choose a file")
    browser.give(str(base))


def by_path(browser, base):
    browser.fill(".compare input", str(base))


@cases(["served choice", "file choice", "served path", "file drop", "served drop"])
def compare_with_another(how):
    """Whatever shows a trace compares it with another one; the change that says the most comes first."""
    kind, way = how.split()
    before, after = served(100), served(300)
    with opened(kind, after) as browser:
        browser.open("#v1/table")
        if way == "drop":
            browser.drop(str(before))
            browser.click("text=Compare with it")
        else:
            browser.click("text=Compare with…")
            (by_path if way == "path" else by_choice)(browser, before)
        lines = check_cards(browser, before, after)
        check("Allocated rose" in lines[0] or "Live at end rose" in lines[0], lines[0])
        picture(browser, "compare-" + how.replace(" ", "-"))
        browser.click(".change-card >> nth=0")
        browser.hashHas("#v1/difference")
        browser.until("[role=treeitem]", ", before ")


@cases(["served", "file"])
def compare_with_no_trace(how):
    """What is open stays, with one line that says why."""
    wrong = folder / "wrong.mayfly"
    with open(wrong, "w", encoding="utf-8") as file:
        file.write("no trace at all, whatever its name says\n")
    with opened(how, served(100)) as browser:
        browser.open()
        for way in ([by_path, by_choice] if how == "served" else [by_choice]):
            browser.click("text=Compare with…")
            way(browser, wrong)
            browser.wait(".notice")
            check(browser.texts(".notice span")[0], "no reason")
            browser.click(".notice [aria-label=Close]")
        same(browser.texts(".tile .tile-title")[0], "Peak", "what is open")


@case
def diff_leads_with_what_changed():
    """The terminal's headline and rows are of the figure that changed the most significantly."""
    lines = run([MAYFLY, "diff", served(100), served(300)]).out.decode().splitlines()
    title = lines[3].split("  ")[0].strip()
    check(lines[0].startswith(title + " rose"), lines[:4])
    metric = {"Live at end": "live", "Allocated": "allocated", "Peak": "peak"}[title]
    check(any(line.startswith("Change of %s by function" % metric) for line in lines), lines)
    asked = run([MAYFLY, "diff", "--metric", "peak", served(100), served(300)]).out.decode()
    check("Change of peak by function" in asked, asked)
    same(run([MAYFLY, "diff", served(100), served(100)]).out.decode().splitlines()[0],
         "No total changed significantly.", "a trace and itself")


# ---- share ----

VIEW = "#v1/flame?metric=allocated&focus=^serve$&own.invert=1"


@cases(["served", "file"])
def save_this_page(how):
    """One file that opens with the same view, filters and figures, and can be saved again."""
    trace = served()
    with opened(how, trace) as browser:
        browser.open(VIEW)
        total = browser.titles(".total > span")
        browser.click("button:text-is('Share')")
        browser.save("text=Save this page", str(folder / "saved.html"))
    with Browser(folder / "saved.html") as browser:
        browser.open()
        same(browser.hash(), VIEW, "the view and its filters")
        same(browser.titles(".total > span"), total, "the figures")
        browser.click("button:text-is('Share')")
        browser.save("text=Save this page", str(folder / "again.html"))
    with Browser(folder / "again.html") as browser:
        browser.open("#v1/table")
        same(browser.hash(), "#v1/table", "a link's own view")
        browser.wait(".rows tbody tr")


@case
def save_both_traces():
    with opened("served", "--base", served(100), served(300)) as browser:
        browser.open("#v1/summary")
        cards = browser.texts(".change-card")
        browser.click("button:text-is('Share')")
        browser.save("text=Save this page", str(folder / "both.html"))
    with Browser(folder / "both.html") as browser:
        browser.open()
        same(browser.texts(".change-card"), cards, "what changed")


def names_of(svg):
    text = "{http://www.w3.org/2000/svg}title"
    return [one.text for one in ElementTree.parse(svg).iter(text)]


@case
def pictures_as_shown():
    """The drawing of a flame graph is turned, zoomed and filtered as it is; other views are as the page has them."""
    with opened("file", served()) as browser:
        found = {}
        for name, hash_ in (("plain", "#v1/flame?metric=allocated"), ("inverted", VIEW),
                            ("upright", "#v1/flame?metric=allocated&own.root=bottom"),
                            ("filtered", "#v1/flame?metric=allocated&focus=^store_session$")):
            browser.open(hash_)
            browser.until("[role=treeitem]", "all, ")
            browser.click("button:text-is('Share')")
            browser.save("[role=menuitem]:has-text('Drawing')", str(folder / (name + ".svg")))
            found[name] = ElementTree.parse(folder / (name + ".svg")).getroot(), names_of(folder / (name + ".svg"))
        check({"main", "serve", "render", "load"} <= set(found["plain"][1]), found["plain"][1])
        check("load" not in found["inverted"][1], "without the filter", found["inverted"][1])
        same({"render", "parse_request"} & set(found["filtered"][1]), set(), "the filter")

        def height_of(root, name):
            return [float(one.get("y")) for one in root.iter("{http://www.w3.org/2000/svg}rect")
                    if len(one) and one[0].text == name][0]

        plain, upright, inverted = (found[name][0] for name in ("plain", "upright", "inverted"))
        check(height_of(plain, "main") < height_of(plain, "render"), "callers on top")
        check(height_of(upright, "main") > height_of(upright, "render"), "the root at the bottom")
        check(height_of(inverted, "render") < height_of(inverted, "serve"), "inverted")
        for view in ("summary", "timeline", "table", "leaks", "flame"):
            browser.open("#v1/%s" % view)
            browser.click("button:text-is('Share')")
            browser.save("[role=menuitem]:has-text('Picture')", str(folder / "view.png"))
            with open(folder / "view.png", "rb") as file:
                head = file.read(24)
            same(head[:8], b"\x89PNG\r\n\x1a\n", view)
            check(int.from_bytes(head[16:20], "big") > 600, view, head)
            check(os.path.getsize(folder / "view.png") > 5000, "an empty picture of", view)


@case
def print_whole_tables():
    """Paper has every row, also those that the window does not, and whole names."""
    with opened("file", served()) as browser:
        browser.open("#v1/table?metric=allocated&frames=all")
        count = parsed("report", "--json", "--metric", "allocated", "--by", "function", "--all", "--top", "0",
                       "--frames=all", served())["rows"]
        for size in ((1024, 300), (1920, 300)):
            browser.size(*size)
            browser.paper(True)
            same(len(browser.texts(".rows tbody tr:not(.space)")), len(count), "rows")
            check(browser.whole(".rows .name-text"), "names are cut off")
            same(browser.texts(".tabs button:visible"), [], "what only works on a screen")
            browser.paper(False)


@case
def first_view_and_theme_are_remembered():
    with opened("served", served()) as browser:
        browser.open("#v1/leaks")
        browser.click("[title^='Light or dark']")
        browser.click("text=Begin with: Leaks")
        browser.click("[title^='Light or dark']")
        browser.click("[role=menuitemradio]:has-text('Dark')")
        dark = browser.ground()
        browser.open()
        check(browser.hash().startswith("#v1/leaks"), browser.hash())
        same(browser.ground(), dark, "the theme")
        browser.open("#v1/table")
        same(browser.hash(), "#v1/table", "a link's own view")


if __name__ == "__main__":
    main()
