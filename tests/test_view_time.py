# SPDX-License-Identifier: Apache-2.0
"""The page's answers about time and lifetimes: lanes and counters against every event that make_tracks
says it wrote, arranged again here the slow way; the heat map against report's histograms and filters."""
import json
import os

from harness import MAYFLY, PROGRAMS, SOURCE, Folder, case, cases, check, main, run, same

GOLDEN = os.path.join(SOURCE, "tests", "golden")

folder = Folder()
folder.__enter__()
_made = {}


def made(kind):
    """A trace of make_tracks, and its events."""
    if kind not in _made:
        path = folder / (kind + ".mayfly")
        result = run([os.path.join(PROGRAMS, "make_tracks"), kind, path])
        same((result.code, result.err), (0, b""), "make_tracks")
        _made[kind] = path, [json.loads(line) for line in result.out.decode().splitlines()]
    return _made[kind]


def ask(path, request, status=200):
    result = run([os.path.join(PROGRAMS, "view_ask"), path, request])
    same((result.code, result.err), (0, b""), request)
    head, body = result.out.split(b"\n", 1)
    same(int(head.split()[0]), status, body[:300])
    return json.loads(body)


def exact_text(value):
    """As JSON says whole numbers that do not fit into 64 bits with a sign."""
    return str(value) if isinstance(value, int) and value >= 2 ** 63 else value


def report(path, *arguments):
    result = run([MAYFLY, "report", "--json", *arguments, path])
    same((result.code, result.err), (0, b""), " ".join(arguments))
    return json.loads(result.out)


# ---- lanes ----

MOST_OPEN, MOST_ROWS = 256, 64
INSTANTS = "instants"


class Lane:
    def __init__(self):
        self.rows = {}  # number or INSTANTS -> items
        self.open = []  # (type, row, item), the latest last
        self.over = self.deeper = self.unmatched = 0

    def take(self, e):
        kind = e["name"], e["category"]
        if e["event"] == "begin":
            self.begin(e, kind)
        elif e["event"] == "end":
            self.end(e["time_ns"], kind)
        elif e["event"] == "instant":
            self.rows.setdefault(INSTANTS, []).append(
                {"begin": e["time_ns"], "end": e["time_ns"], "type": kind, "values": e["values"]})

    def begin(self, e, kind):
        if self.over or len(self.open) == MOST_OPEN:
            self.over += 1
            self.deeper += 1
            return
        used = {row for _, row, _ in self.open}
        row = next((i for i in range(MOST_ROWS) if i not in used), None)
        item = {"begin": e["time_ns"], "end": None, "type": kind, "values": e["values"]}
        if row is None:
            self.deeper += 1
        else:
            self.rows.setdefault(row, []).append(item)
        self.open.append((kind, row, item))

    def end(self, time_ns, kind):
        if self.over:
            self.over -= 1
            return
        for i in reversed(range(len(self.open))):
            if self.open[i][0] == kind:
                self.open.pop(i)[2]["end"] = time_ns
                return
        self.unmatched += 1


def arranged(events):
    """Lanes by thread number."""
    lanes = {}
    for e in events:
        if e["event"] in ("begin", "end", "instant"):
            lanes.setdefault(e["tid"], Lane()).take(e)
    return lanes


def overlaps(item, low, high):
    end = float("inf") if item["end"] is None else item["end"]
    return item["begin"] < high and (end > low or item["begin"] >= low)


def check_row(boxes, items, types, end_ns, low, high, width):
    """The boxes are the items of the range in their order, merged only where they must be."""
    items = [item for item in items if overlaps(item, low, high)]
    pixel = max(1, (high - low) / width)

    def length(item):
        return (end_ns if item["end"] is None else item["end"]) - item["begin"]

    def small(some):
        return all(length(item) < pixel for item in some)

    check(len(boxes["start_ns"]) <= 2 * width + 2, "boxes", len(boxes["start_ns"]), width)
    same(sum(boxes["count"]), len(items), "items in all boxes")
    at, before = 0, None
    for i, count in enumerate(boxes["count"]):
        some = items[at:at + count]
        at += count
        same((boxes["start_ns"][i], boxes["end_ns"][i]), (some[0]["begin"], some[-1]["end"]), "box")
        same(boxes["busy_ns"][i], sum(map(length, some)), "time in which items are open")
        check(types[boxes["type"][i]] in [item["type"] for item in some], "type", boxes["type"][i])
        same({int(item["begin"] // pixel) for item in some}, {int(some[0]["begin"] // pixel)},
             "pixels of the begins")
        if count == 1:
            want = {key: exact_text(value) for key, value in some[0]["values"].items()}
            same(boxes["fields"][i] or {}, want, "fields")
        else:
            check(small(some), "merged items are small", pixel, some)
            same(boxes["fields"][i], None, "fields of several items")
        if before and small(before) and small(some):
            check(int(before[0]["begin"] // pixel) != int(some[0]["begin"] // pixel),
                  "two boxes of small items in one pixel", before, some)
        before = some


@cases(["sampled", "exact", "snapshots", "plain", "deep"])
def lanes(kind):
    path, events = made(kind)
    expected = arranged(events)
    whole = ask(path, "lanes?width=1200&top=1000")
    end = whole["end_ns"]
    ranges = [(0, end), (0, end // 3), (end // 3, end // 2), (end // 2, end // 2 + 20000),
              (end - 1000, end), (events[0]["time_ns"], events[20]["time_ns"])]
    for low, high in ranges:
        for width in (1, 7, 300, 4000):
            answer = ask(path, "lanes?width=%d&top=1000&from=%dns&to=%dns" % (width, low, high))
            types = [(t["name"], t["category"] or "") for t in answer["types"]]
            same([lane["tid"] for lane in answer["lanes"]], sorted(expected), "threads")
            for lane, rows in zip(answer["lanes"], answer["shown"]):
                want = expected[lane["tid"]]
                same(lane["instants"], len(want.rows.get(INSTANTS, [])), "instants")
                same((lane["deeper_spans"], lane["unmatched_ends"]), (want.deeper, want.unmatched),
                     "spans without a row, ends without a begin")
                numbers = sorted(key for key in want.rows if key != INSTANTS)
                same([row["kind"] for row in rows],
                     ["spans"] * len(numbers) + ["instants"] * (INSTANTS in want.rows), "rows")
                same(lane["rows"], len(rows), "number of rows")
                for key, boxes in zip(numbers + [INSTANTS], rows):
                    check_row(boxes, want.rows[key], types, end, low, high, width)


@case
def lanes_are_chosen():
    """By thread, and in parts, for a page that shows some of very many."""
    path, _ = made("sampled")
    whole = ask(path, "lanes?width=100&top=1000")
    same(whole["lanes_count"], len(whole["lanes"]), "number of lanes")
    for skip in range(whole["lanes_count"] + 1):
        part = ask(path, "lanes?width=100&skip=%d&top=1" % skip)
        same((part["lanes"], part["shown"]), (whole["lanes"], whole["shown"][skip:skip + 1]), "part")
    one = ask(path, "lanes?width=100&thread=worker")
    same([lane["thread"] for lane in one["lanes"]], ["worker"], "lanes of a thread")
    same(len(one["shown"]), 1, "their rows")


@case
def process_lane():
    """What concerns the process has a lane of its own; the thread is a field."""
    path = folder / "process.mayfly"
    result = run([MAYFLY, "record", "-o", path, "--", "/bin/sh", "-c", "/bin/true; /bin/true; :"])
    same(result.code, 0, result.err)
    answer = ask(path, "lanes?width=4000")
    events = report(path, "--events", "--top", "0")
    process = [e for e in events["instants"] if e["category"] == "process"]
    check(process, "the shell made no process")
    lane, rows = answer["lanes"][0], answer["shown"][0]
    same((lane["thread"], lane["instants"]), (None, sum(e["count"] for e in process)), "lane")
    for fields in filter(None, rows[0]["fields"]):
        check("tid" in fields and "thread" in fields, "thread of an event", fields)


@case
def no_events():
    answer = ask(os.path.join(GOLDEN, "imported.mayfly"), "lanes")
    same((answer["lanes"], answer["shown"], answer["lanes_count"]), ([], [], 0), "lanes")


# ---- counters ----

@cases(["sampled", "exact"])
def counters(kind):
    path, events = made(kind)
    end = ask(path, "lanes")["end_ns"]
    for low, high, points in ((0, end, 50), (end // 5, end // 2, 333), (end // 2, end // 2 + 5, 4)):
        window = "&from=%dns&to=%dns" % (low, high)
        answer = ask(path, "counters?points=%d%s" % (points, window))
        times = [low + (high - low) * (i + 1) // points for i in range(points)]
        same(answer["times_ns"], times, "moments")
        same(ask(path, "series?points=%d%s" % (points, window))["times_ns"], times, "of a series")
        shown = {c["name"]: c for c in answer["counters"]}
        names = {e["name"] for e in events if e["event"] == "count" and e["category"] == ""}
        same(names - set(shown), set(), "counters that are missing")
        for name in names:
            check_counter(shown[name], [(e["time_ns"], first(e)) for e in events
                                        if e["event"] == "count" and e["name"] == name], low, times)


def first(event):
    """The value of a counter; None: it is not a number, or infinite."""
    value = next(iter(event["values"].values()))
    return None if value is None else float(value)


def largest(values):
    return max((v for v in values if v is not None), default=None)


def check_counter(counter, values, low, times):
    same(counter["most"], largest(v for _, v in values), "largest value of " + counter["name"])
    before = low
    for ns, value in zip(times, counter["values"]):
        known = [v for t, v in values if t <= ns]
        step = [v for t, v in values if before < t <= ns]
        held = [v for t, v in values if t <= before][-1:]
        want = None if not known else largest(held + step) if counter["largest"] else known[-1]
        same(value, want, "%s at %d" % (counter["name"], ns))
        before = ns


@case
def resident_memory():
    """RSS is one of the counters, and said to be."""
    answer = ask(os.path.join(GOLDEN, "exact.mayfly"), "counters?points=10")
    rss, = [c for c in answer["counters"] if c["rss"]]
    same((rss["name"], rss["unit"], rss["largest"]), ("process.resident", "bytes", True), "RSS")
    same(rss["most"], largest(rss["values"]), "its largest value")


# ---- size by lifetime ----

METRICS = ["live", "peak", "allocated", "leaked", "temporary", "survived"]


def classes(answer):
    return ([(c["low"], c["high"]) for c in answer["sizes"]],
            [(c["low_ns"], c["high_ns"]) for c in answer["lifetimes"]])


@cases(["exact", "sampled", "poisson", "made-lossy", "ocaml", "forked-exact"])
def heat(name):
    """The cells are those of a histogram of the rows by size."""
    path = os.path.join(GOLDEN, name + ".mayfly")
    for metric in METRICS:
        answer = ask(path, "heat?metric=" + metric)
        histogram = report(path, "--metric", metric, "--by", "size", "--histogram", "lifetime",
                           "--top", "0")
        same(answer["total"], histogram["total"], "total")
        sizes, lifetimes = classes(answer)
        if not histogram["rows"]:
            same((sizes, lifetimes), ([], []), "classes of nothing")
            continue
        there = {(None if c["high_ns"] is None else c["low_ns"], c["high_ns"]): i for i, c in enumerate(histogram["classes"])}
        rows = {(r["size"]["low"], r["size"]["high"]): r for r in histogram["rows"]}
        same(set(rows) - set(sizes), set(), "sizes")
        same(set(there) - set(lifetimes), set(), "lifetimes")
        for i, size in enumerate(sizes):
            for k, lifetime in enumerate(lifetimes):
                cell = i * len(lifetimes) + k
                row, column = rows.get(size), there.get(lifetime)
                for key in ("bytes", "bytes_stderr", "blocks", "samples"):
                    want = row[key][column] if row and column is not None else 0
                    same(answer["cells"][key][cell], want, "%s of %s, %s" % (key, size, lifetime))
        for i, size in enumerate(sizes):
            sums = answer["sizes"][i]["sum"]
            same(sums["samples"], sum(answer["cells"]["samples"][i * len(lifetimes):][
                :len(lifetimes)]), "samples of a size")


@cases(["exact", "sampled"])
def heat_filters(name):
    """The options of a cell keep its blocks and no others, on the command line, too."""
    path = os.path.join(GOLDEN, name + ".mayfly")
    for metric in ("allocated", "peak"):
        answer = ask(path, "heat?metric=" + metric)
        lifetimes = answer["lifetimes"]
        for i, size in enumerate(answer["sizes"]):
            for k, lifetime in enumerate(lifetimes):
                options = ["--metric", metric]
                for key, value in (("min-size", size["min_size"]), ("max-size", size["max_size"]),
                                   ("min-lifetime", lifetime["min_lifetime"]),
                                   ("max-lifetime", lifetime["max_lifetime"])):
                    if value is not None:
                        options += ["--" + key, value]
                total = report(path, *options, "--by", "module")["total"]
                cell = i * len(lifetimes) + k
                same(total["samples"], answer["cells"]["samples"][cell], " ".join(options))
                if name == "exact":
                    same(total["bytes"]["estimate"], answer["cells"]["bytes"][cell],
                         " ".join(options))


@case
def heat_is_absent():
    answer = ask(os.path.join(GOLDEN, "snapshots.mayfly"), "heat", 422)
    check("Snapshots" in answer["error"], answer)


@cases(["exact", "sampled"])
def window(name):
    """What a part of the recording holds, as the page and the command line say it."""
    path = os.path.join(GOLDEN, name + ".mayfly")
    end = ask(path, "lanes")["end_ns"]
    for metric in ("allocated", "survived", "leaked", "peak"):
        for low, high in ((0, end // 2), (end // 2, end), (end // 3, 2 * end // 3)):
            got = ask(path, "rows?metric=%s&from=%dns&to=%dns&by=module" % (metric, low, high))
            want = report(path, "--metric", metric, "--from", "%dns" % low, "--to", "%dns" % high,
                          "--by", "module")
            same(got["total"], want["total"], "%s from %d to %d" % (metric, low, high))
            cells = ask(path, "heat?metric=%s&from=%dns&to=%dns" % (metric, low, high))
            same(cells["total"], want["total"], "of all cells")


# ---- rows over time ----

def name(row):
    """What tells rows of one grouping apart."""
    if "stack" in row:
        return json.dumps(row["stack"])
    return row["function"]


def estimates(answer):
    return {name(row): row["self"]["bytes"]["estimate"] for row in answer["rows"]}


def window_options(low, high):
    return ["--from", "%dns" % low, "--to", "%dns" % high]


@cases(["exact", "sampled", "poisson", "ocaml", "snapshots"])
def series_of_the_largest(kind):
    """Rows are those that are the largest at a moment that is shown, whenever the peak is."""
    path = os.path.join(GOLDEN, kind + ".mayfly")
    end = ask(path, "lanes")["end_ns"]
    for by in ("function", "stack"):
        for low, high in ((0, end), (0, end // 3), (end // 3, 2 * end // 3), (end - end // 5, end)):
            window = "by=%s&points=50&from=%dns&to=%dns" % (by, low, high)
            every = report(path, "--series", "50", "--by", by, "--metric", "allocated", "--all",
                           "--top", "0", "--to", "%dns" % high)
            chosen = report(path, "--series", "50", "--by", by, "--metric", "allocated", "--all",
                            "--top", "0", *window_options(low, high))
            live = {name(row): row["live_bytes"] for row in chosen["rows"]}
            most = sorted((max(values) for values in live.values() if max(values) > 0), reverse=True)
            check(len(every["rows"]) >= len(live), "rows of a window are among all")
            for top in (1, 2, 100):
                got = ask(path, "series?top=%d&%s" % (top, window))
                largest = [max(row["live_bytes"]) for row in got["rows"]]
                same(largest, sorted(largest, reverse=True), "order")
                check(largest[:len(most)] >= most[:top][:len(largest)], by, largest, most)
                for row in got["rows"]:
                    if name(row) in live:
                        same(row["live_bytes"], live[name(row)], name(row))
                whole = ask(path, "series?top=0&%s" % window)
                for i in range(50):
                    parts = [sum(row["live_bytes"][i] for row in a["rows"]) +
                             a["others"]["live_bytes"][i] for a in (got, whole)]
                    check(abs(parts[0] - parts[1]) <= len(whole["rows"]) + 1, "all bytes", parts)


@case
def unnamed_functions_have_callers():
    """A function without a name is said with the caller that has one."""
    path = os.path.join(GOLDEN, "system.mayfly")
    answer = ask(path, "series?points=2000&top=50&frames=all")
    stacks = report(path, "--by", "stack", "--metric", "allocated", "--all", "--top", "0",
                    "--frames=all")["rows"]
    unnamed = 0
    for row, caller in zip(answer["rows"], answer["callers"]):
        if "+0x" not in row["function"]:
            same(caller, None, row["function"])
            continue
        unnamed += 1
        nearest = [[f["function"] for f in s["stack"][1:] if "+0x" not in f["function"]][0]
                   for s in stacks if s["stack"][0]["function"] == row["function"]]
        same(caller, nearest[0], row["function"])
    check(unnamed, "the trace has no function without a name")


@cases(["exact", "sampled", "poisson", "ocaml"])
def grown(kind):
    """What grew between two moments is what the report says of both."""
    path = os.path.join(GOLDEN, kind + ".mayfly")
    end = ask(path, "lanes")["end_ns"]
    for by in ("function", "stack", "thread"):
        for low, high in ((end // 2, end), (end // 3, 2 * end // 3), (1, end // 2)):
            got = ask(path, "grown?top=0&by=%s&from=%dns&to=%dns" % (by, low, high))
            live = ["--metric", "live", "--by", by, "--all", "--top", "0"]
            before = report(path, *live, "--at", "%dns" % low)
            after = report(path, *live, "--at", "%dns" % high)
            old = report(path, *live, "--at", "%dns" % high, "--to", "%dns" % (low + 1))
            young = report(path, *live, "--at", "%dns" % high, "--from", "%dns" % (low + 1))
            same(got["before"], before["total"], "live at the begin")
            same(got["after"], after["total"], "live at the end")
            same(got["survived"], young["total"], "allocated between, and live")
            freed = got["freed"]["samples"]
            same(freed, before["total"]["samples"] - old["total"]["samples"], "samples that were freed")
            if by == "thread":
                continue
            sums = [estimates(a) for a in (before, old, young)]
            rows = {name(row): row for row in got["rows"]}
            changed = {key for part in sums for key in part
                       if sums[2].get(key) or sums[0].get(key, 0) != sums[1].get(key, 0)}
            same(set(rows), changed, "rows that changed")
            for key, row in rows.items():
                was, stayed, new = (part.get(key, 0) for part in sums)
                same(row["survived"]["bytes"]["estimate"], new, key)
                check(abs(row["freed"]["bytes"]["estimate"] - (was - stayed)) <= 1, key, row, was, stayed)
                check(abs(row["change"] - (new - was + stayed)) <= 2, key, row)
            changes = [abs(row["change"]) for row in got["rows"]]
            same(changes, sorted(changes, reverse=True), "order")


@case
def grown_needs_two_moments():
    check("error" in ask(os.path.join(GOLDEN, "exact.mayfly"), "grown?from=2s&to=1s", 400), "no error")


@cases(["exact", "sampled", "ocaml", "snapshots"])
def leaks_over_time(kind):
    """Each stack's curve is the report's; its first and last leak are found by windows, too."""
    path = os.path.join(GOLDEN, kind + ".mayfly")
    answer = ask(path, "leaks?top=20")
    times = answer["over_time"]
    same(len(times["rows"]), len(answer["rows"]), "rows")
    check(answer["rows"], "nothing leaks")
    listed = report(path, "--series", "64", "--metric", "leaked", "--by", "stack", "--all", "--top", "0")
    curves = {name(row): row["live_bytes"] for row in listed["rows"]}
    same(times["times_ns"], listed["times_ns"], "moments")
    seconds = (times["times_ns"][63] - times["times_ns"][31]) / 1e9

    def leaked(key, *window):
        words = ["--metric", "leaked", "--by", "stack", "--all", "--top", "0", *window]
        return estimates(report(path, *words)).get(key, 0)

    for row, time in zip(answer["rows"], times["rows"]):
        live = curves[name(row)]
        same(time["live_bytes"], live, "curve")
        check(abs(time["growth"] - (live[63] - live[31]) / seconds) <= 2 / seconds, "growth", time)
        same(time["growing"], live[31] < live[47] < live[63], "still growing")
        if kind == "snapshots":
            same((time["first_ns"], time["last_ns"]), (None, None), "single blocks")
            continue
        first, last = time["first_ns"], time["last_ns"]
        all_of_it = row["self"]["bytes"]["estimate"]
        same(leaked(name(row), "--from", "%dns" % first), all_of_it, "from the first on")
        check(leaked(name(row), "--from", "%dns" % (first + 1)) < all_of_it, "the first")
        same(leaked(name(row), "--to", "%dns" % (last + 1)), all_of_it, "up to the last")
        check(leaked(name(row), "--to", "%dns" % last) < all_of_it or last == 0, "the last")


# ---- source ----

@cases(["exact", "sampled", "ocaml"])
def source_files(name):
    """Each file has what its lines allocate themselves, the largest first."""
    path = os.path.join(GOLDEN, name + ".mayfly")
    expected = {}
    for row in report(path, "--all", "--top", "0", "--by", "line", "--metric", "allocated")["rows"]:
        if row["file"] and row["line"]:
            self, most = expected.get(row["file"], (0, 0))
            expected[row["file"]] = (self + row["self"]["bytes"]["estimate"],
                                     max(most, row["total"]["bytes"]["estimate"]))
    got = ask(path, "source?metric=allocated")["files"]
    check(got, "no files")
    same(sorted(f["file"] for f in got), sorted(expected), "files")
    for file in got:
        self, most = expected[file["file"]]
        check(abs(file["self"]["bytes"]["estimate"] - self) <= 20, file, self)  # rounded lines
        same(file["most"]["bytes"]["estimate"], most, file["file"])
    sizes = [file["self"]["bytes"]["estimate"] for file in got]
    same(sizes, sorted(sizes, reverse=True), "order")


if __name__ == "__main__":
    main()
