#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The page of mayfly view in a browser: its frame, the summary and the table. What it shows is what
`mayfly report` says of the same trace with the same filters."""
import base64
import glob
import json
import os
import re
import shlex

from harness import (BUILD, Folder, MAYFLY, PYTHON, SOURCE, Skip, case, cases, check, main, need, read, record, run,
                     same)

PAGE = os.path.join(BUILD, "src", "page", "viewer.html")
GOLDEN = os.path.join(SOURCE, "tests", "golden")
DRIVER = os.path.join(SOURCE, "tests", "drive_page.mjs")
LIBRARIES = os.path.join(SOURCE, "viewer", "node_modules")


def golden(name):
    return os.path.join(GOLDEN, name + ".mayfly")


def drive(trace, *steps, sources=None):
    """What the steps find (drive_page.mjs) in the page with the trace inside; None: without one.
    sources: texts of source files by path, as --embed-sources puts them into the page."""
    need("node", "chromium")
    if not os.path.exists(PAGE) or not os.path.getsize(PAGE):
        raise Skip("the page is not built")
    if not os.path.exists(os.path.join(LIBRARIES, "playwright-core")):
        raise Skip("npm's playwright-core is not installed")
    page = read(PAGE).decode()
    if trace:
        text = base64.b64encode(read(trace)).decode()
        block = '<script type="text/plain" id="trace" data-name="%s">%s</script>' % (
            os.path.basename(trace), text)
        if sources:
            block += '<script type="application/json" id="sources">%s</script>' % (
                json.dumps(sources).replace("<", "\\u003c"))
        page = page.replace("<!-- data -->", block)
    with Folder() as here:
        with open(here / "page.html", "w", encoding="utf-8") as file:
            file.write(page)
        with open(here / "steps.json", "w", encoding="utf-8") as file:
            json.dump(steps if steps[0][0] == "open" else [["open"], *steps], file)
        result = run(["node", DRIVER, here / "page.html", here / "steps.json"])
    check(result.code == 0, result.err.decode(), result.out.decode())
    return json.loads(result.out)


def report(*words):
    result = run([MAYFLY, *words])
    check(result.code == 0, result)
    return result.out.decode()


def said(text):
    """Figures of the terminal as the page writes them: units of bytes have their IEC names."""
    text = re.sub(r"\b([KMGTPE])B\b", r"\1iB", text)
    return text.replace("\u00a0", " ").replace(" us", " µs").replace("<= ", "≤ ")


# ---- figures ----

TILES = ["Peak", "Live at end", "Allocated", "Temporary"]


# JSON's numbers end at 2^63, which only made-strange.mayfly exceeds.
@cases(sorted(os.path.basename(path)[:-7] for path in glob.glob(os.path.join(GOLDEN, "*.mayfly"))
              if "made-strange" not in path))
def summary(name):
    """The four figures read as in the terminal, digit by digit, errors included."""
    result = run([MAYFLY, "report", golden(name)])
    if result.code or b"Peak " not in result.out:
        raise Skip("the report has no summary")
    lines = dict(re.findall(r"^(Peak|Live at end|Allocated|Temporary) +(.*)$", result.out.decode(),
                            re.M))
    tiles, = drive(golden(name), ["texts", ".tile-figure"])
    same(len(tiles), len(TILES), tiles)
    for title, tile in zip(TILES, tiles):
        if title not in lines:
            continue
        line = said(lines[title])
        if line.startswith("at most "):
            line = "≤ " + line.split("at most ")[1]
        check(re.match(re.escape(tile) + r"(?! ±)\b", line) or line.startswith(tile), title, tile,
              "in the terminal:", line)


QUESTIONS = [[], ["--metric", "allocated"], ["--metric", "leaked"], ["--at", "10ms"],
             ["--metric", "temporary", "--max-size", "500"], ["--metric", "allocated", "--focus", "serve"],
             ["--metric", "allocated", "--thread", "worker", "--min-size", "200"],
             ["--metric", "allocated", "--label", "tenant=a", "--hide", "keep_row"],
             ["--metric", "survived", "--from", "5ms", "--to", "15ms"]]


def hash_of(view, words, own=""):
    pairs = ["%s=%s" % (words[i][2:], words[i + 1]) for i in range(0, len(words), 2)]
    return "#v1/%s?%s" % (view, "&".join(pairs + ([own] if own else [])))


@cases([" ".join(words) or "nothing" for words in QUESTIONS])
def totals(words):
    """The line above the views and the table's rows are those of report --json."""
    words = [] if words == "nothing" else words.split()
    keys_of = ("function", "line", "module", "thread", "size")
    found = iter(drive(golden("exact"), *(step for by in keys_of for step in (
        ["open", hash_of("table", words, "own.by=" + by)], ["titles", ".total > span"],
        ["titles", ".rows tr:not(.space) td:nth-child(2) .figure"], ["texts", ".rows .name-text"]))))
    exact = "{:,} bytes, exact".format
    for by in keys_of:
        expected = json.loads(report("report", "--json", "--all", "--top", "0", "--by",
                                     by, *words, golden("exact")))
        same(next(found), [exact(expected["total"]["bytes"]["estimate"])], "total")
        same(next(found), [exact(row["self"]["bytes"]["estimate"]) for row in expected["rows"]], by)
        names = next(found)
        if by == "function":
            same(names, [row["function"] for row in expected["rows"]], by)


PICTURES = ["made-picture", "made-exact-picture"]


@cases(PICTURES)
def tables_of_pictures(name):
    """Holders and types, and functions of what one holder has: as the report has them."""
    asked = [("holder", []), ("type", []), ("function", ["--holder", "^g_sessions$"]), ("stack", ["--type", "Session"])]
    found = iter(drive(golden(name), *(step for by, words in asked for step in (
        ["open", hash_of("table", words, "own.by=" + by)], ["titles", ".total > span"],
        ["titles", ".rows tr:not(.space) td:nth-child(2) .figure"], ["texts", ".rows .name-text"],
        ["texts", ".sentence .metric"]))))
    for by, words in asked:
        total, figures, names, metric = (next(found) for _ in range(4))
        expected = json.loads(report("report", "--json", "--all", "--top", "0", "--by", by, *words, golden(name)))
        same(expected["metric"], "picture")
        same(metric, ["In the heap's picture"], "what is counted")
        values = [expected["total"], *(row["self"] for row in expected["rows"])]
        same(len([*total, *figures]), len(values), by)
        for shown, value in zip([*total, *figures], values):
            if value["bytes"]["low"] == value["bytes"]["high"]:
                same(shown, "{:,} bytes, exact".format(round(value["bytes"]["estimate"])), by)
            else:
                check("95 % interval" in shown and shown.endswith("%d samples" % value["samples"]) or
                      value["samples"] == 1, by, shown)
        if by == "holder":
            same(names, [row["holder"] or "not in malloc's heap" for row in expected["rows"]], "names")
        if by == "type":
            same([one for one in names if " to " not in one],
                 [row["type"] for row in expected["rows"] if row["type"]], "names")


@cases(["%s %s" % (name, words) for name in PICTURES
        for words in ("", "--ignore parse", "--holder ^g_sessions$", "--min-lifetime 1ms")])
def leaks_of_pictures(how):
    """Lost and held are those of mayfly leaks, also where something else is ignored; figure by figure."""
    name, *words = how.split()
    expected = json.loads(report("leaks", "--json", "--top", "0", *words, golden(name)))
    parameters = "&".join(words[i][2:] + "=" + words[i + 1] for i in range(0, len(words), 2))
    result = run([os.path.join(BUILD, "tests", "view_ask"), golden(name), "leaks?top=0&" + parameters])
    told = json.loads(result.out.split(b"\n", 1)[1])
    if "--min-lifetime" in words:  # no picture tells it
        same((told["total"], told["rows"]), (expected["total"], expected["rows"]))
        return
    for part in ("lost", "held"):
        for key in ("by", "total", "rows"):
            same(told[part][key], expected[part][key], (part, key))
    same([told[key] for key in ("time_ns", "metric", "allocated_later", "suppressed")],
         [expected[key] for key in ("time_ns", "metric", "allocated_later", "suppressed")], "leaks")
    heads, lost, holders, held, counts = drive(
        golden(name), ["open", hash_of("leaks", words)], ["texts", ".pane h2"],
        ["texts", "[aria-label=Lost] tbody .figure"], ["texts", "[aria-label=Held] .name-text"],
        ["texts", "[aria-label=Held] tbody .figure"], ["texts", ".sentence .counts"])
    same(counts, ["Lost and held"], "what is counted")
    check("Lost" in heads and "Held" in heads and "Never freed" not in heads, heads)
    text = said(report("leaks", "--top", "0", "--all", *words, golden(name)))
    same(len(lost), len(expected["lost"]["rows"]), "lost")
    same(holders, [row["holder"] for row in expected["held"]["rows"]], "holders")
    for figure in lost + held:
        check(figure.replace("≤ ", "at most ") in text.replace("≤ ", "at most "), figure, "is not in", text)


@case
def from_a_holder_to_its_stacks():
    """A click on what is held shows what allocated it."""
    sentence, total = drive(golden("made-exact-picture"), ["open", "#v1/leaks"],
                            ["click", "[aria-label=Held] tbody tr:nth-child(2)"], ["wait", ".view-flame"],
                            ["texts", ".sentence .visually-hidden"], ["titles", ".total > span"])
    expected = json.loads(report("report", "--json", "--holder", "^g_sessions$", golden("made-exact-picture")))["total"]
    same((sentence, total), (["In the heap's picture, held by g_sessions"],
                             ["{:,} bytes, exact".format(expected["bytes"]["estimate"])]))


def held_of(name, *words):
    parameters = "&".join(words[i][2:] + "=" + words[i + 1] for i in range(0, len(words), 2))
    result = run([os.path.join(BUILD, "tests", "view_ask"), golden(name), "held?" + parameters])
    check(result.out.startswith(b"200 "), result.out)
    return json.loads(result.out.split(b"\n", 1)[1])


@cases(["%s %s" % (name, words) for name in PICTURES for words in ("", "--focus parse", "--holder g_")])
def who_holds_it(how):
    """The view's figures are those of the picture and of report --by holder; its types, of report --by type."""
    name, *words = how.split()
    held = held_of(name, *words)
    by_holder = {row["holder"]: row for row in
                 json.loads(report("report", "--json", "--by", "holder", "--top", "0", *words, golden(name)))["rows"]}
    rows = held["rows"]
    same([row["retained_bytes"] for row in rows], sorted((row["retained_bytes"] for row in rows), reverse=True), "order")
    check(set(by_holder) - {None} <= {row["holder"] for row in rows}, rows, by_holder)
    same([row["lost"] for row in rows], [row["kind"].startswith("lost") for row in rows], "lost")
    for row in rows:
        known = by_holder.get(row["holder"])
        if known:
            for key in ("kind", "place", "tid", "retained_bytes", "retained_blocks", "self"):
                same(row[key], known[key], (row["holder"], key))
        types = json.loads(report("report", "--json", "--by", "type", "--top", "0", *words[:2 * ("--holder" not in words)],
                                  "--holder", "^" + row["holder"].replace("(", "\\(") + "$", golden(name)))["rows"]
        key = lambda one: (one["type"] or "", one["size"]["low"] if one.get("size") else 0)
        same(row["types_count"], len(types), "types")
        for one, other in zip(sorted(row["types"], key=key), sorted(types, key=key)):
            same(key(one), key(other), "type")
            for figure in ("bytes", "blocks"):
                same([one["self"][figure][part] for part in ("estimate", "stderr")],
                     [other["self"][figure][part] for part in ("estimate", "stderr")], (row["holder"], key(one)))
    boxes, names, figures = drive(
        golden(name), ["open", hash_of("held", words)], ["texts", ".held-row > .held-box .held-name"],
        ["texts", "[aria-label=Holders] .name-text"], ["texts", "[aria-label=Holders] td:nth-child(2)"])
    same(names, [row["holder"] for row in rows], "holders")
    check(boxes and boxes[0].startswith(rows[0]["holder"]), boxes)
    same(len(figures), len(rows), "figures")


@case
def what_holds_it_in_one_look():
    """Its tab is there if there is a picture; a part leads to the stacks of what it holds."""
    tabs, headline, sentence, total, view, after = drive(
        golden("made-picture"), ["texts", ".tabs > button"], ["press", "8"], ["texts", ".view-held .headline"],
        ["click", ".held-types button:has-text('32 B to 64 B')"], ["wait", ".view-flame"],
        ["texts", ".sentence .visually-hidden"], ["titles", ".total > span"],
        ["open", "#v1/held"], ["click", "[aria-label=Holders] tbody tr:first-child"], ["wait", ".view-flame"],
        ["texts", ".tabs [aria-current]"], ["hash"])
    check("Held by" in tabs, tabs)
    held = held_of("made-picture")
    kept = max((row for row in held["rows"] if not row["lost"]), key=lambda row: row["retained_bytes"])
    check(headline[0].startswith("%.1f %%" % (100 * kept["retained_bytes"] / held["bytes"])) and kept["holder"] in headline[0],
          headline, kept)
    same(sentence, ["In the heap's picture, held by g_sessions, size at least 33 B, at most 64 B"], "filters")
    expected = json.loads(report("report", "--json", "--holder", "^g_sessions$", "--min-size", "33", "--max-size", "64",
                                 golden("made-picture")))["total"]
    check(total[0].endswith("; %d samples" % expected["samples"]), total, expected)
    same(view, ["Flame graph"], "from a row")
    check("holder=^" + held["rows"][0]["holder"].split()[0] in after, after)
    tabs, text = drive(golden("exact"), ["texts", ".tabs > button"], ["open", "#v1/held"], ["texts", "main .empty"])
    check("Held by" not in tabs, tabs)
    check("no picture of the heap" in text[0], text)


@case
def the_picture_has_one_moment():
    """Another metric or moment leaves it, with the filters and keys that only it has; what has times leaves it out."""
    has, gone, by, without, timeline = drive(
        golden("made-picture"), ["open", "#v1/table?own.by=function"], ["click", "button.add"],
        ["click", "[aria-label=Filters] >> text=Held by"],
        ["type", "g_sessions"], ["press", "Enter"], ["texts", ".sentence .visually-hidden"],
        ["click", ".sentence .metric"], ["click", "text=Live at the end"], ["texts", ".sentence .visually-hidden"],
        ["open", "#v1/table?own.by=holder"], ["click", ".sentence .metric"], ["click", "text=Allocated"],
        ["texts", ".rows thead .names"], ["texts", ".sentence .visually-hidden"],
        ["open", "#v1/timeline?holder=g_sessions"], ["texts", ".not-applied"])
    same((has, gone), (["In the heap's picture, held by g_sessions"], ["Live at the end"]), "filters")
    same((by, without), (["Function"], ["Allocated"]), "keys")
    same(timeline, ["Without effect on this view: in the heap's picture, held by g_sessions"], "times")
    none, = drive(golden("exact"), ["open", "#v1/table?own.by=holder"], ["texts", ".empty"])
    check("no picture of the heap" in none[0], none)


@case
def terminal():
    """The command that the page names prints the same total."""
    words = ["--metric", "allocated", "--focus", "it's|serve", "--thread", "worker", "--min-size", "200"]
    shown, total = drive(golden("exact"),
                         ["open", hash_of("table", words, "own.by=line&own.sort=total")],
                         ["click", "text=Terminal"], ["texts", ".terminal pre"],
                         ["titles", ".total > span"])
    command = shlex.split(shown[0])
    same(command[:2], ["mayfly", "report"], command)
    check("it's|serve" in command, command)
    check("line" in command and "total" in command, command)
    path = command.index("exact.mayfly")
    expected = json.loads(report(*command[1:path], "--json", golden("exact")))
    same(total, ["{:,} bytes, exact".format(expected["total"]["bytes"]["estimate"])], "total")


# ---- caveats ----

CAVEATS = ["Stopped", "Spool", "Incomplete", "Dropped", "Thinned", "Inherited", "Truncated", "Not counted", "Unknown", "Picture",
           "Missed", "Note", "Hint", "Pools", "Counted", "Mapped"]


def fields(text, titles):
    """[(title, text)] of the report's fields, in order, wherever lines were broken."""
    found = []
    for line in text.splitlines():
        title = next((one for one in titles if re.match(re.escape(one) + r"  ", line)), None)
        if title:
            found.append([title, line[len(title):].strip()])
        elif found and found[-1] is not None and line.startswith(" " * 13):
            found[-1][1] += " " + line.strip()
        else:
            found.append(None)
    return [tuple(one) for one in found if one]


@cases(sorted(os.path.basename(path)[:-7] for path in glob.glob(os.path.join(GOLDEN, "*.mayfly"))
              if "v1-" not in path))  # which are refused
def caveats(name):
    """The page has every caveat of the terminal, word by word, and no other; and what was resident at the end."""
    result = run([os.path.join(BUILD, "tests", "view_ask"), golden(name), "info"])
    same(result.code, 0, result.err)
    info = json.loads(result.out.split(b"\n", 1)[1])
    shown = run([MAYFLY, "report", golden(name)])
    same(shown.code, 0, shown.err)
    text = shown.out.decode()
    told = ["%s: %s" % field for field in fields(text, CAVEATS)]
    notes = [re.sub("[\\x00-\\x1f\\x7f]", "?", note) for note in info["notes"]]  # as the terminal shows them
    same(sorted(" ".join(note.split()) for note in notes), sorted(told), "caveats")
    resident = fields(text, ["Resident"])
    same(info["resident"] and info["resident"] + "; 'mayfly report --rss' explains it",
         resident[0][1] if resident else None, "resident")


@case
def caveats_are_shown():
    """On the summary, and behind a button on every view."""
    result = run([os.path.join(BUILD, "tests", "view_ask"), golden("cut"), "info"])
    notes = [" ".join(note.split()) for note in json.loads(result.out.split(b"\n", 1)[1])["notes"]]
    check(len(notes) > 1, notes)
    summary, button, dialog = drive(golden("cut"), ["texts", ".summary .notes li"], ["press", "4"],
                                    ["texts", ".tools .warning"], ["click", ".tools .warning"],
                                    ["texts", "dialog .notes li"])
    same((summary, button, dialog), (notes, ["Notes %d" % len(notes)], notes), "notes")


@case
def totals_of_views():
    """Views that count something of their own have no total of the question's metric beside them."""
    steps = []
    for view in ("leaks", "spans", "events", "churn", "table"):
        steps += [["open", "#v1/" + view], ["texts", ".sentence .total"], ["texts", ".sentence .visually-hidden"]]
    found = drive(golden("exact"), ["open"], *steps)
    same(found[:8:2], [[]] * 4, "totals")
    same([text[0] for text in found[1:8:2]], ["Never freed", "Spans", "Events", "Churn"], "what is counted")
    check("MiB" in found[8][0], "the table's total", found[8])


@case
def one_thread():
    """`Only this` on a thread keeps its blocks, not those of others with its name."""
    with Folder() as here:
        source, program = here / "t.c", here / "t"
        with open(source, "w", encoding="utf-8") as file:
            file.write("""#include <pthread.h>
#include <stdlib.h>
static void *work(void *size)
{
	pthread_setname_np(pthread_self(), "worker");
	return malloc((size_t)size);
}
int main(void)
{
	for (size_t i = 1; i <= 3; i++) {
		pthread_t t;
		pthread_create(&t, NULL, work, (void *)(i * 100000));
		pthread_join(t, NULL);
	}
}
""")
        same(run(["cc", "-D_GNU_SOURCE", "-pthread", "-o", program, source]).code, 0)
        done = run([MAYFLY, "record", "-x", "-o", here / "t.mayfly", "--", program])
        same(done.code, 0, repr(done))
        text, bytes_found = drive(here / "t.mayfly", ["open", "#v1/table?own.by=thread&metric=allocated"], ["press", "j"],
                                  ["click", "text=Only this"], ["texts", ".part .part-value"], ["titles", ".total > span"])
        rows = json.loads(report("report", "--json", "--by", "thread", "--metric", "allocated", here / "t.mayfly"))["rows"]
    same([row["thread"] for row in rows[:3]], ["worker"] * 3, "threads")
    same(text, ["worker (%d)" % rows[0]["tid"]], "filter")
    same(bytes_found, ["{:,} bytes, exact".format(rows[0]["self"]["bytes"]["estimate"])], "only its own")


# ---- the frame ----

@case
def sentence():
    """Filters are added, read, changed and removed; Back takes each step back."""
    add = [["click", "button.add"], ["click", "text=Thread"], ["type", "worker"], ["press", "Enter"]]
    first, text, hash_after, changed, back, none = drive(
        golden("exact"), ["texts", ".sentence .visually-hidden"],
        *add, ["texts", ".sentence .visually-hidden"], ["hash"],
        ["click", ".part .part-value"], ["press", "Control+a"], ["type", "demo"], ["press", "Enter"],
        ["texts", ".sentence .visually-hidden"], ["back"], ["texts", ".sentence .visually-hidden"],
        ["click", ".part-remove"], ["texts", ".sentence .visually-hidden"])
    same(first, ["Live at the peak"], "first")
    same(text, ["Live at the peak, allocated in thread worker"], "added")
    same(hash_after, "#v1/summary?thread=worker", "hash")
    same(changed, ["Live at the peak, allocated in thread demo"], "changed")
    same(back, text, "back")
    same(none, first, "removed")


@case
def frames_of_python():
    """The language's frames alone are a choice, if the trace has any."""
    with Folder() as here:
        path = here / "coded.mayfly"
        same(record([*PYTHON, "-c", "import json; kept = json.loads('[' + '[1.5], ' * 9999 + '2]')"], path, "-x").code, 0,
             "python3")
        if "decoder.py" not in report("report", "--json", "--metric", "allocated", "--frames", "python", path):
            raise Skip("the frames of this Python are not known")
        others, choices, hash_after, text, rows, none = drive(
            path, ["open", "#v1/flame?metric=allocated"], ["texts", "[aria-label=Frames] [aria-pressed=true]"],
            ["texts", "[aria-label=Frames] button"], ["click", "[aria-label=Frames] >> text=Python"], ["hash"],
            ["texts", ".sentence .visually-hidden"], ["open", "#v1/table?metric=allocated&frames=python"],
            ["texts", ".rows .name-text"], ["click", ".part-remove"], ["texts", ".sentence .visually-hidden"])
        expected = json.loads(report("report", "--json", "--all", "--top", "0", "--metric", "allocated", "--frames",
                                     "python", path))["rows"]
    same((others, choices), (["My code"], ["My code", "Python", "All frames"]), "choices")
    same(hash_after, "#v1/flame?metric=allocated&frames=python", "hash")
    same((text, none), (["Allocated, with interpreted frames alone"], ["Allocated"]), "sentence")
    names = [row["function"] for row in expected]
    check("JSONDecoder.decode" in names and not any(name.startswith("_Py") for name in names), names)
    same(rows, names[:len(rows)], "rows")
    same(drive(golden("exact"), ["open", "#v1/flame"], ["texts", "[aria-label=Frames] button"]),
         [["My code", "All frames"]], "choices without Python")


@case
def links():
    """A link shows the same again; one that is broken shows the summary, and says so."""
    hash_given = "#v1/table?metric=allocated&focus=^serve$&min-size=1K&max-size=1M&own.by=line"
    sentence_of, hash_kept, chosen, old, broken, unknown, tabs = drive(
        golden("exact"), ["open", hash_given], ["texts", ".sentence .visually-hidden"], ["hash"],
        ["texts", ".tabs [aria-current]"],
        ["open", "#v7/table"], ["texts", "[role=alert]"],
        ["open", "#%%%"], ["texts", "[role=alert]"],
        ["open", "#v1/nosuch?metric=live&colour=red"], ["texts", "[role=alert]"],
        ["texts", ".tabs [aria-current]"])
    same(sentence_of, ["Allocated, inside serve, size at least 1.00 KiB, at most 1.00 MiB"], "sentence")
    same(hash_kept, hash_given, "hash")
    same(chosen, ["Table"], "tab")
    check("another version" in old[0], old)
    check("could not be read" in broken[0], broken)
    check("nosuch, colour" in unknown[0], unknown)
    same(tabs, ["Summary"], "tab")


@case
def keys():
    """Everything by the keyboard: views, rows, callers, search, the sheet of keys."""
    tab, first, second, focused, found, sheet, closed = drive(
        golden("exact"), ["press", "4"], ["texts", ".tabs [aria-current]"],
        ["press", "j"], ["texts", ".rows [aria-selected=true] .name-text"],
        ["press", "ArrowDown"], ["texts", ".side h2"],
        ["press", "Enter"], ["texts", ".sentence .visually-hidden"],
        ["press", "r", "Backspace", "/"], ["type", "ALLOCATE_"], ["texts", ".rows .name-text"],
        ["press", "Escape", "?"], ["texts", "dialog h3"], ["press", "Escape"], ["gone", "dialog"],
        ["texts", "dialog"])
    rows = json.loads(report("report", "--json", "--all", "--top", "0", golden("exact")))["rows"]
    same(tab, ["Table"], "tab")
    same(first, [rows[0]["function"]], "first row")
    same(second, [rows[1]["function"]], "second row")
    same(focused, ["Live at the peak, inside %s" % rows[1]["function"]], "focused")
    same(found, [row["function"] for row in rows if "allocate_" in row["function"]], "found")
    same(sheet, ["Everywhere", "Table"], "sheet")
    same(closed, [], "closed")


@case
def stacks_open():
    """A stack opens to its frames, and closes."""
    expected = json.loads(report("report", "--json", "--by", "stack", golden("exact")))["rows"]
    before, after, again = drive(
        golden("exact"), ["open", "#v1/table?own.by=stack"], ["texts", ".rows .frame"],
        ["press", "j", "Enter"], ["texts", ".rows .frame .name-text"],
        ["press", "Enter"], ["texts", ".rows .frame"])
    same(before, [], "closed")
    same(after, [frame["function"] for frame in expected[0]["stack"][1:]], "frames")
    same(again, [], "closed again")


@case
def files():
    """A trace is chosen; what is no trace says so in one line, and what was open stays."""
    with Folder() as here:
        for name, data in [("text.txt", b"no trace\n" * 100), ("empty.mayfly", b""),
                           ("damaged.mayfly", read(golden("exact"))[:200][::-1])]:
            with open(here / name, "wb") as file:
                file.write(data)
        bad = []
        for name in ("text.txt", "empty.mayfly", "damaged.mayfly"):
            bad += [["give", here / name], ["wait", "[role=alert]"], ["texts", "[role=alert]"],
                    ["texts", ".program"], ["click", "[role=alert] button"]]
        welcome, *found = drive(None, ["texts", ".welcome h1"], ["give", golden("exact")],
                                ["wait", ".program"], *bad)
    same(welcome, ["mayfly"], "welcome")
    for name, message, program in zip(("text.txt", "empty.mayfly", "damaged.mayfly"), found[::2],
                                      found[1::2]):
        same(len(message), 1, message)
        check(name in message[0], message)
        same(program, ["demo"], name)


@case
def dark():
    """By preference, or as the user chose, which holds when the page is opened again."""
    light, dark_ground, chosen, again = drive(
        golden("exact"), ["ground"], ["scheme", "dark"], ["ground"],
        ["click", "[title^='Light or dark']"], ["click", "text=Light"], ["ground"], ["open"], ["ground"])
    check(light != dark_ground, light)
    same((chosen, again), (light, light), "chosen")


@cases(["held", "leaks", "table?own.by=holder"])
def access_to_pictures(view):
    access_of("made-picture", view)


@cases(["summary", "table?own.by=stack", "table?own.search=m", "spans", "events", "rss", "leaks",
        "churn", "reallocs", "fragmentation"])
def access(view):
    access_of("exact", view)


def access_of(name, view):
    """axe finds nothing serious in light and dark, and nothing is wider than the window."""
    steps = []
    for scheme in ("light", "dark"):
        steps += [["scheme", scheme], ["open", "#v1/" + view], ["press", "j"], ["axe"]]
    for width in (400, 1024, 3840):
        steps += [["size", width, 800], ["overflow"]]
    light, dark_found, *wide = drive(golden(name), *([["open"]] + steps))
    same((light, dark_found), ([], []), view)
    same(wide, [False] * 3, "wider than the window")


def formatted(script):
    """What a script says that has the functions of format.ts in `format`."""
    need("node")
    if not os.path.exists(os.path.join(LIBRARIES, "esbuild")):
        raise Skip("the libraries of the page are not installed")
    result = run(["node", "-e", """
        const { buildSync } = require(process.argv[1]);
        const built = buildSync({ entryPoints: [process.argv[2]], bundle: true, write: false, format: "cjs" });
        const made = { exports: {} };
        new Function("module", built.outputFiles[0].text)(made);
        const format = made.exports;
        """ + script, os.path.join(LIBRARIES, "esbuild"), os.path.join(SOURCE, "viewer", "src", "format.ts")])
    same(result.code, 0, result.err)
    return result.out.decode().replace("\u00a0", " ").strip()


@case
def below_zero():
    """Resident memory that is not explained can be, and counters."""
    same(formatted("""
        const { bytesText, countText } = format;
        console.log([bytesText(-1294336), bytesText(-1), bytesText(0), bytesText(NaN), countText(-2500)].join("|"));
        """), "-1.23 MiB|-1 B|0 B|0 B|-2.50 k")


@case
def blocks_as_sure_as_bytes():
    """A number of blocks that is not sure is a range or a bound, as the terminal writes it."""
    same(formatted("""
        const { blocksText, countsText } = format;
        const of = (estimate, stderr, low, high, samples) =>
            ({ bytes: { estimate, stderr, low, high }, blocks: { estimate, stderr, low, high }, samples });
        console.log([of(154000, 90000, 109000, 10900000, 5), of(30000, 30000, 41000, 95000, 4),
            of(400, 300, 41, 950, 4), of(20000, 19000, 100, 95000, 2), of(0, 0, 0, 3000, 0),
            of(43300, 400, 42500, 44100, 110), of(1, 0, 1, 1, 1)].map(blocksText).join("|"));
        console.log(countsText(of(154000, 90000, 109000, 10900000, 5)) + "|" + countsText(of(1, 0, 1, 1, 1)));
        """).splitlines(),
         ["109 k..10.9 M|41.0..95.0 k|41..950|≤ 95.0 k|< 3.00 k|43.3 k|1",
          "109 k..10.9 M blocks, 5 samples|1 block"])


NAMED = {
    "many": [("table?own.by=" + by) for by in ("function", "line", "module", "stack", "thread", "size", "lifetime",
                                               "label:tenant")] +
            ["summary", "heat", "source", "spans", "events", "churn"],
    "many-exact": ["table?own.by=function&own.sort=total", "table?own.by=thread", "spans"],
    "few": ["summary", "table", "table?own.by=stack", "source", "heat", "spans", "leaks", "churn"],
    "huge": ["summary", "table", "table?own.by=line&own.sort=total", "table?own.by=stack", "source", "heat", "leaks", "churn"],
    "exact": ["summary", "reallocs", "leaks", "rss", "fragmentation"], "ocaml": ["survival", "events"],
    "made-picture": ["held", "leaks", "table?own.by=holder", "table?own.by=type"]}
LONG = ["source", *("table?own.by=" + by for by in ("function", "line", "module", "stack", "thread", "label:tenant"))]
WIDTHS = (390, 1024, 1440, 1920)
HUGE = 50000  # rows


def made(which, here):
    """A trace of make_events: with thousands of everything, with few functions or with HUGE ones; or a golden one."""
    if which in ("exact", "ocaml", "made-picture"):
        return golden(which)
    same(run([os.path.join(BUILD, "tests", "make_events"), which, here / "t.mayfly"]).code, 0)
    return here / "t.mayfly"


def tables_of(trace, browser_views):
    """[(view, theme, width of the window, table)]"""
    asked = [(view, theme, width) for view in browser_views for theme in ("light", "dark") for width in WIDTHS]
    steps, before = [], (None, None)
    for view, theme, width in asked:
        if (view, theme) != before:
            steps += [["scheme", theme], ["open", "#v1/" + view], ["wait", "main table, main .empty, main .pane"]]
        before = view, theme
        steps += [["size", width, 800], ["tables"]]
    return [(*ask, table) for ask, tables in zip(asked, drive(trace, ["open"], *steps)) for table in tables]


@cases(list(NAMED))
def names_have_room(which):
    """At least 40 % of what is seen of a table is for its names, however many rows it has, at each width and in both
    themes; they come first, and what does not fit is in the tooltip."""
    with Folder() as here:
        found = tables_of(made(which, here), NAMED[which])
    check({view for view, *_ in found} <= set(NAMED[which]), "views with tables")
    check("table" in which or found, "no tables")
    for view, theme, width, table in found:
        check(table["share"] >= 0.4, view, theme, width, table)
        check(table["first"] or view == "source", "names are not the first column of", view, table)
        check(table["whole"], "a name that is cut has no tooltip", view, width, table)
    if "many" in which:
        same({view for view, _, _, table in found if table["more"] and view in LONG},
             set(LONG) & set(NAMED[which]), "views with more rows than the window")
    if which == "huge":
        check(any(table["all"] and table["all"] >= HUGE for *_, table in found), "not so many rows", found[:3])


@case
def names_beside_a_chosen_row():
    """The table is narrower then."""
    with Folder() as here:
        steps = []
        for by in ("function", "module", "thread"):
            for width in WIDTHS:
                steps += [["size", width, 800], ["open", "#v1/table?own.by=" + by], ["press", "j"],
                          ["wait", ".side"], ["tables"]]
        for tables in drive(made("many", here), ["open"], *steps):
            check(tables[0]["more"], tables)
            for table in tables:
                check(table["share"] >= 0.4, table)


@case
def names_are_resized():
    """By dragging and by keys, from two fifths of the width on; the next time they are as wide again."""
    def share(tables):
        return tables[0]["share"]
    with Folder() as here:
        grip = ".rows .names-grip"
        steps = [["size", 1440, 800], ["open", "#v1/table"], ["tables"], ["dragTo", grip, 1000], ["tables"],
                 ["open", "#v1/table?own.by=line"], ["tables"], ["focus", grip], ["press", "ArrowLeft", "ArrowLeft"],
                 ["tables"], ["dragTo", grip, 10], ["tables"], ["double", grip], ["tables"]]
        first, wide, again, narrower, least, reset = map(share, drive(made("few", here), ["open"], *steps))
    check(abs(wide - 1000 / 1440) < 0.02 and wide > first, "dragged", first, wide)
    check(abs(again - wide) < 0.01, "remembered", wide, again)
    check(abs(narrower - (wide - 0.04)) < 0.01, "by keys", wide, narrower)
    check(0.4 <= least < 0.45, "the least", least)
    check(abs(reset - first) < 0.01, "reset", first, reset)


@case
def names_are_copied():
    """Whole names, with file and module, and all frames of a stack."""
    function, stack = drive(
        golden("exact"), ["clipboard"], ["open", "#v1/table"], ["press", "j", "c"], ["until", ".view-bar", "Copied"],
        ["copied"], ["open", "#v1/table?own.by=stack"], ["press", "j", "c"], ["until", ".view-bar", "Copied"], ["copied"])
    rows = json.loads(report("report", "--json", golden("exact")))["rows"]
    same(function.split("\n")[:2], [rows[0]["function"], rows[0]["file"]], "function")
    rows = json.loads(report("report", "--json", "--by", "stack", golden("exact")))["rows"]
    same([line.split("  ")[:2] for line in stack.split("\n")],
         [[frame["function"], "%s:%d" % (frame["file"], frame["line"])] for frame in rows[0]["stack"]], "stack")


@case
def source_shows_whole_lines():
    """The longest line can be moved into sight, and the figures stay where they are."""
    rows = lines_of(golden("exact"))
    file, line = rows[0]["file"], rows[0]["line"]
    text = "\n" * (line - 1) + "x = " + "long_name + " * 60 + "the_end;\n" + "\n" * 40
    for width in WIDTHS:
        whole, before, after = drive(golden("exact"), ["size", width, 800], ["press", "7"], ["wait", SELECTED],
                                     ["texts", SELECTED + " code"], ["places"], ["scrollRight", ".rows"], ["places"],
                                     sources={file: text})
        check(whole[0].endswith("the_end;"), whole)
        same(after["figures"], before["figures"], "figures at %d" % width)
        check(after["end"] <= after["seen"], "the line's end is not seen at", width, after)


@cases(["survival", "events"])
def panes(view):
    found, = drive(golden("ocaml"), ["open", "#v1/" + view], ["texts", ".pane table"])
    check(found and len(found[0]) > 40, found)


# ---- source ----

HOSTILE = "<img src=x onerror=alert(1)>\t<script>&amp;</script>"


def lines_of(path):
    """What report says of each line of demo.c: {line: self}, and the lines from the hottest down."""
    rows = json.loads(report("report", "--json", "--all", "--top", "0", "--by", "line",
                             path))["rows"]
    rows = [row for row in rows if (row["file"] or "").endswith("demo.c") and row["line"]]
    rows.sort(key=lambda row: (-row["self"]["bytes"]["estimate"], -row["total"]["bytes"]["estimate"]))
    return rows


FIGURES = ".rows tr:not(.space) td.bar:first-child .figure"
SELECTED = ".rows [aria-selected=true]"  # drawn after the list has scrolled to it
CHOSEN = ".rows [aria-selected=true] td:nth-child(3)"


@case
def source():
    """Lines with the figures of the report; the hottest is chosen; n and p go to the hot ones."""
    rows = lines_of(golden("exact"))
    file = rows[0]["file"]
    numbers = sorted(row["line"] for row in rows
                     if row["total"]["bytes"]["estimate"] > 11000)  # more than one percent
    text = "".join("text of line %d\n" % (i + 1) for i in range(300)).replace("line 1\n", HOSTILE + "\n")
    chosen, figures, shown, images, after, before, first, top, hostile, ended = drive(
        golden("exact"), ["press", "7"], ["wait", SELECTED], ["texts", CHOSEN], ["titles", FIGURES],
        ["texts", ".rows [aria-selected=true] code"], ["texts", "main img"],
        ["press", "Home", "n"], ["wait", SELECTED], ["texts", CHOSEN], ["press", "End", "p"], ["wait", SELECTED], ["texts", CHOSEN],
        ["press", "Home"],
        ["wait", SELECTED], ["texts", CHOSEN], ["texts", ".rows [aria-selected=true] code"],
        ["texts", "main img, main script"], ["press", "End", "h"], ["wait", SELECTED], ["texts", CHOSEN], sources={file: text})
    hottest = str(rows[0]["line"])
    same(chosen, [hottest], "hottest")
    exact = "{:,} bytes, exact".format
    expected = [exact(row["self"]["bytes"]["estimate"]) for row in sorted(rows, key=lambda r: r["line"])
                if row["self"]["bytes"]["estimate"]]
    check(set(figures) <= set(expected) and figures, figures, expected)
    same(shown, ["text of line " + hottest], "text")
    same(after, [str(numbers[0])], "next hot line")
    same(before, [str(numbers[-1])], "hot line before")
    same((first, top), (["1"], ["text of " + " ".join(HOSTILE.split())]), "first line")
    same((images, hostile), ([], []), "elements of the text")
    same(ended, [hottest], "hottest again")


@case
def source_missing():
    """Without the text: the lines with figures, all of them, and how to get the text."""
    rows = sorted(lines_of(golden("exact")), key=lambda row: row["line"])
    numbers, said_text, axe, links, line = drive(
        golden("exact"), ["press", "7"], ["texts", ".rows tr:not(.space) td:nth-child(3)"],
        ["texts", ".source-missing"], ["axe"],
        ["open", "#v1/table?own.by=line"], ["press", "j"], ["texts", ".side .buttons button"],
        ["click", "text=Show source"], ["wait", SELECTED], ["texts", CHOSEN])
    same(numbers, [str(row["line"]) for row in rows], "lines")
    check("--embed-sources" in said_text[0], said_text)
    same(axe, [], "axe")
    check("Show source" in links, links)
    largest = max(rows, key=lambda row: row["self"]["bytes"]["estimate"])
    same(line, [str(largest["line"])], "line of the row")


@case
def welcome():
    """Without a trace, too."""
    light, dark_found = drive(None, ["axe"], ["scheme", "dark"], ["axe"])
    same((light, dark_found), ([], []), "axe")


if __name__ == "__main__":
    main()
