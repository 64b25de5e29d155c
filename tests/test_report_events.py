# SPDX-License-Identifier: Apache-2.0
"""Track events and labels as the commands show them: report --spans, --events, --by label and
--label, info, the overview, dump; against what dump says, on traces that make_events wrote."""
import collections
import contextlib
import json
import math
import os
import pty
import re
import subprocess
import termios

from harness import BUILD, MAYFLY, Folder, case, cases, check, environment, main, program, record, run, same

folder = Folder()
folder.__enter__()
_made = {}

COUNTS = "600 spans of 3 types, 5 instants, 204 counter values"


def trace(kind):
    if kind not in _made:
        path = folder / (kind + ".mayfly")
        result = run([os.path.join(BUILD, "tests", "make_events"), kind, path])
        same((result.code, result.err), (0, b""), "make_events")
        _made[kind] = path
    return _made[kind]


def text(*arguments):
    result = run([MAYFLY, *arguments])
    same((result.code, result.err), (0, b""), "mayfly %s" % " ".join(arguments))
    return result.out.decode()


def parsed(*arguments):
    return json.loads(text(*arguments, "--json"))


def refused(code, *arguments):
    result = run([MAYFLY, *arguments])
    same((result.code, result.out), (code, b""), " ".join(arguments))
    lines = result.err.decode().splitlines()
    same(len(lines), 1, "lines of an error")
    return lines[0]


def rows(lines, title):
    """The rows of the table below a line."""
    lines = lines.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(title))
    found = []
    for line in lines[at + 2:]:
        cells = re.split(r"  +", line.strip())
        if len(cells) == 1:
            break
        found.append(cells)
    return found


# ---- spans, from what dump prints ----

class Type:
    def __init__(self):
        self.times, self.open, self.each = [], 0, []
        self.allocated = self.self_allocated = self.live = 0
        self.blocks = 0


def joined(kind, keeps=lambda event: True):
    types, stacks, live = collections.defaultdict(Type), collections.defaultdict(list), {}
    unmatched = 0
    for line in text("dump", "--json", trace(kind)).splitlines():
        event = json.loads(line)
        stack = stacks[event["tid"]]
        if event["event"] == "begin":
            stack.append((event["name"], event["time_ns"], [0, 0]))
        elif event["event"] == "end":
            matching = [i for i, (name, _, _) in enumerate(stack) if name == event["name"]]
            if not matching:
                unmatched += 1
                continue
            name, begun, cost = stack.pop(matching[-1])
            types[name].times.append(event["time_ns"] - begun)
            types[name].each.append((*cost, begun, event["time_ns"], event["tid"]))
        elif event["event"] == "alloc" and keeps(event):
            inside = {name for name, _, _ in stack}
            for _, _, cost in stack:
                cost[0] += event["weight_bytes"]
                cost[1] += 1
            live[event["sample"]] = (event["weight_bytes"], inside)
            for name in inside:
                types[name].allocated += event["weight_bytes"]
                types[name].blocks += 1
            if stack:
                types[stack[-1][0]].self_allocated += event["weight_bytes"]
        elif event["event"] == "free":
            live.pop(event["sample"], None)
    for weight, inside in live.values():
        for name in inside:
            types[name].live += weight
    for stack in stacks.values():
        for name, _, _ in stack:
            types[name].open += 1
    return types, unmatched


def percentile(times, percent):
    return sorted(times)[math.ceil(len(times) * percent / 100) - 1]


def no_pool(event):
    return event["heap"] != "pool"


def check_each(each, spans):
    """What one span allocated: the distribution, and the worst ones with when and where they were."""
    costs = [round(bytes_) for bytes_, *_ in spans]
    check(abs(each["mean"] - sum(costs) / len(costs)) <= 1, "mean", each["mean"], costs)
    same([each["p50"], each["p99"], each["max"]],
         [percentile(costs, 50), percentile(costs, 99), max(costs)], "bytes of a span")
    for c in each["classes"]:
        same(c["count"], sum(c["low"] <= cost < c["high"] for cost in costs), "spans of a class")
    same(sum(c["count"] for c in each["classes"]), len(costs), "spans of all classes")
    worst = sorted((s for s in spans if s[0] > 0), key=lambda s: -s[0])[:16]
    same([w["bytes"] for w in each["worst"]], [round(s[0]) for s in worst], "the worst spans")
    for w in each["worst"]:
        check(any((w["bytes"], w["samples"], w["begin_ns"], w["end_ns"], w["tid"]) ==
                  (round(s[0]), *s[1:]) for s in spans), "no such span", w)


@cases(["exact", "sampled", "lossy"])
def spans_are_what_dump_says(kind):
    types, unmatched = joined(kind, no_pool)
    answer = parsed("report", "--spans", trace(kind))
    same(sorted(s["name"] for s in answer["spans"]), sorted(types), "types")
    same(answer["unmatched_ends"], unmatched, "ends without a begin")
    same(answer["dropped_events"], 7 if kind == "lossy" else 0, "dropped events")
    for span in answer["spans"]:
        t = types[span["name"]]
        same((span["count"], span["open"], span["total_ns"]), (len(t.times), t.open, sum(t.times)),
             span["name"])
        same([span["min_ns"], span["p50_ns"], span["p90_ns"], span["p99_ns"], span["max_ns"]],
             [min(t.times)] + [percentile(t.times, p) for p in (50, 90, 99)] + [max(t.times)],
             "durations")
        same(sum(c["count"] for c in span["durations"]), span["count"], "classes")
        for key, value in (("allocated", t.allocated), ("self_allocated", t.self_allocated),
                           ("live", t.live)):
            check(abs(span[key]["bytes"]["estimate"] - value) <= 1, span["name"], key, value)
        same(span["allocated"]["samples"], t.blocks, "samples")
        check_each(span["each"], t.each)
        if kind == "sampled":
            check(span["allocated"]["bytes"]["stderr"] > 0, "no error of an estimate")
            check(span["allocated"]["bytes"]["low"] < span["allocated"]["bytes"]["estimate"] <
                  span["allocated"]["bytes"]["high"], "no interval")


@case
def filters_of_blocks_hold():
    def pick(event):
        return event["size"] <= 2500 and event["tid"] == 4250 and no_pool(event)
    types, _ = joined("exact", pick)
    answer = parsed("report", "--spans", "--max-size", "2500", "--thread", "worker",
                    trace("exact"))
    for span in answer["spans"]:
        same(span["count"], 100, "spans of one thread")
        same(span["allocated"]["bytes"]["estimate"], types[span["name"]].allocated, span["name"])
    types, _ = joined("exact", lambda event: event["heap"] == "pool")
    answer = parsed("report", "--spans", "--heap", "pool", trace("exact"))
    by_name = {s["name"]: s["allocated"]["bytes"]["estimate"] for s in answer["spans"]}
    same(by_name, {"request": 200 * 512, "parse": 0, "render": 200 * 512}, "a pool")


@case
def a_window_chooses_spans_that_begin_in_it():
    whole = parsed("report", "--spans", trace("exact"))
    early = parsed("report", "--spans", "--to", "0.25", trace("exact"))
    late = parsed("report", "--spans", "--from", "0.25", trace("exact"))
    same((early["from_ns"], early["to_ns"], late["from_ns"]), (0, 250000000, 250000000), "window")
    for span in whole["spans"]:
        parts = [next(s for s in part["spans"] if s["name"] == span["name"])
                 for part in (early, late)]
        for key in ("count", "total_ns", "self_ns"):
            same(sum(p[key] for p in parts), span[key], key)
        same(sum(p["allocated"]["bytes"]["estimate"] for p in parts),
             span["allocated"]["bytes"]["estimate"], "allocated")


@case
def spans_as_a_table():
    out = text("report", "--spans", trace("exact"))
    same(out.splitlines()[0], "Spans by total time: 600 of 3 types", "title")
    found = rows(out, "Spans by")
    same([row[-1] for row in found], ["request", "parse", "render"], "order")
    same(found[0][0], "200", "count")
    same(found[0][-4:-1], ["2.29 MiB", "11.7 KiB", "58.6 KiB"], "allocated, by one span, and live")
    check("CATEGORY" not in out, "a column without anything in it")
    out = text("report", "--spans", trace("sampled"))
    check(re.search(r"\d MiB ±\d+ %", out), "no error beside an estimate:\n" + out)
    check("95 % interval" in out, "nobody says what ± is")
    out = text("report", "--spans", trace("lossy"))
    check("1 span had not ended" in out and "3 ends of spans" in out and
          "7 events could not be recorded" in out, out)


@case
def spans_sorted():
    for sort, first in (("total", "request"), ("self", "parse"), ("allocated", "request"),
                        ("live", "request"), ("count", "request")):
        out = text("report", "--spans", "--sort", sort, "--top", "1", trace("exact"))
        same([row[-1] for row in rows(out, "Spans by")], [first], sort)
        check("2 more (--top 0 shows all)" in out, out)
        answer = parsed("report", "--spans", "--sort", sort, "--top", "1", trace("exact"))
        same((answer["sort"], [s["name"] for s in answer["spans"]]), (sort, [first]), sort)


# ---- all events ----

@case
def events_as_tables():
    out = text("report", "--events", trace("exact"))
    same(out.splitlines()[0], "Events: " + COUNTS, "title")
    same([row[-1] for row in rows(out, "Spans")], ["request", "parse", "render"], "spans")
    same(rows(out, "Instants"), [["4", "3.08 ms", "475 ms", "reload"],
                                 ["1", "634 ms", "634 ms", "process", "fork"]], "instants")
    same(rows(out, "Counters"),
         [["200", "-4", "0.5", "5", "-4", "queue (requests)"],
          ["4", "10.0 MiB", "85.0 MiB", "160 MiB", "160 MiB", "process", "rss"]],
         "counters")
    check("7 more could not be recorded" in text("report", "--events", trace("lossy")), "lost ones")


@case
def what_is_missing_stands_beside_the_counts():
    """In the title of --spans and --events, and in JSON: events that were lost, whoever lost them."""
    for option in ("--spans", "--events"):
        same(parsed("report", option, trace("exact"))["losses"], 0, option)
        same(parsed("report", option, trace("overwritten"))["losses"], 3, option)
        title = text("report", option, trace("overwritten")).split("\n\n")[0].split("COUNT")[0]
        check("missing at 3 moments" in " ".join(title.split()), option, title)
        title = text("report", option, trace("lossy")).split("\n\n")[0].split("COUNT")[0]
        check("could not be recorded" in " ".join(title.split()), option, title)
        check("missing" not in text("report", option, trace("exact")), option)
    late = text("report", "--spans", "--from", "10ms", trace("overwritten"))
    check("missing" not in late, "lost before the window:", late)


@case
def events_as_json():
    answer = parsed("report", "--events", trace("exact"))
    same([(i["name"], i["category"], i["count"]) for i in answer["instants"]],
         [("reload", None, 4), ("fork", "process", 1)], "instants")
    queue, rss = answer["counters"]
    same({k: queue[k] for k in ("name", "unit", "count", "min", "mean", "max", "last", "total")},
         {"name": "queue", "unit": "requests", "count": 200, "min": -4, "mean": 0.5, "max": 5,
          "last": -4, "total": 100}, "a counter")
    same((rss["unit"], rss["min"]), ("bytes", 10 << 20), "another")
    check("allocated" not in answer["spans"][0], "what spans allocate is not asked for")
    part = parsed("report", "--events", "--thread", "4250", "--from", "0.1", trace("exact"))
    same([i["name"] for i in part["instants"]], [], "instants of a thread")
    check(0 < part["counters"][0]["count"] < 100, "counters of a part of a thread")


@case
def pauses_and_buckets_of_ocaml():
    out = text("report", "--events", trace("gc"))
    same(out.splitlines()[:2], ["Events: 210 spans of 3 types, 100104 counter values",
                                "  converted from an eventlog"], "title")
    found = rows(out, "Pauses for OCaml's collector")
    same(sum(int(row[0].split()[0]) for row in found), 100, "minor collections")
    check(found[-1][-1] == "3.00 ms to 10.0 ms" and found[0][-1] == "100 ns to 300 ns", found)
    same([row[-1] for row in rows(out, "Blocks allocated in OCaml's major heap")], ["1", "2", "10-19",
                                                                          "large"], "buckets")
    check("alloc 01" not in out, "buckets among the counters")
    same(rows(out, "Counters")[0], ["100 k", "1", "1", "1", "1", "100 k", "ocaml",
                                    "request_major/alloc_shr"], "a counter with its sum")
    minor = next(s for s in parsed("report", "--events", trace("gc"))["spans"]
                 if s["name"] == "minor")
    same(sum(c["count"] for c in minor["durations"]), 100, "classes")
    asked = next(c for c in parsed("report", "--events", trace("gc"))["counters"]
                 if c["name"] == "request_major/alloc_shr")
    same((asked["count"], asked["total"], asked["mean"]), (100000, 100000, 1), "of many")


# ---- a real program ----

@case
def a_server_tells_of_its_requests():
    """examples/server, recorded exactly."""
    path = folder / "server.mayfly"
    result = record([program("server"), "--load", "400"], path, "-x")
    same((result.code, result.err), (0, b""), "server")
    said = dict(line.split() for line in result.out.decode().splitlines() if line[0] != "e"
                and "kept" not in line)
    _made["server"] = path
    types, unmatched = joined("server", no_pool)
    answer = parsed("report", "--spans", path)
    spans = {s["name"]: s for s in answer["spans"]}
    same((sorted(spans), unmatched), (sorted(types), 0), "types")
    same((spans["request"]["count"], spans["read"]["count"]), (400, 400), "requests")
    same(spans["search"]["count"], int(said["search"]), "searches")
    for name, span in spans.items():
        t = types[name]
        same((span["total_ns"], span["open"]), (sum(t.times), 0), name)
        same([span[key]["bytes"]["estimate"] for key in ("allocated", "self_allocated", "live")],
             [t.allocated, t.self_allocated, t.live], name)
    data = parsed("info", path)
    same((data["spans"], data["dropped_events"]), (sum(s["count"] for s in spans.values()), 0),
         "info")
    leaked = parsed("report", "--by", "label:request", "--metric", "leaked", path)
    kept = {row["label"]: row["self"]["blocks"]["estimate"] for row in leaked["rows"]}
    same((kept["upload"], kept.get("search")), (int(said["upload"]), None), "what is kept")
    check("No label has the key 'tenant'" in text("report", "--by", "label:tenant", path), "a wrong key")
    check("No label" not in text("report", "--by", "label:request", path), "a right one")
    # Blocks of pools are left out: who asks for their labels is told how to see them.
    for options, told in ((["--by", "label:pool"], True), (["--label", "pool=arena"], True),
                          (["--by", "label:request"], False), (["--by", "label:pool", "--heap", "pool"], False)):
        same("--heap pool shows them" in text("report", *options, path), told, options)


# ---- traces without blocks ----

@case
def a_trace_without_blocks_shows_its_events():
    same(text("report", trace("gc")), text("report", "--events", trace("gc")), "report")
    same(parsed("report", trace("gc")), parsed("report", "--events", trace("gc")), "JSON")
    out = text("report", "--spans", trace("gc"))
    check("ALLOCATED" not in out and "This trace has no single blocks" in out, out)
    check("allocated" not in parsed("report", "--spans", trace("gc"))["spans"][0], "JSON")
    for options in (["--by", "stack"], ["--series", "3"], ["--metric", "live"], ["--churn"],
                    ["--histogram", "size"]):
        line = refused(1, "report", *options, trace("gc"))
        check("does not have allocations" in line and "--events" in line, line)


@case
def snapshots_have_events_too():
    out = text("report", "--spans", trace("snapshots"))
    check("This trace has no single blocks" in out and "ALLOCATED" not in out, out)
    overview = text("report", trace("snapshots"))
    check("Events" in overview and "--by label" not in overview, overview)
    check("Labels" in text("info", trace("snapshots")), "labels")
    same(text("report", "--events", trace("snapshots")), text("report", "--events", trace("exact")),
         "events")


@case
def nonsense_gets_one_line():
    for options, code, words in (
            (["--spans", "--events"], 2, "cannot be combined with"),
            (["--spans", "--by", "thread"], 2, "--spans cannot be combined with --by"),
            (["--spans", "--at", "1"], 2, "--spans cannot be combined with --at"),
            (["--spans", "--metric", "live"], 2, "--spans cannot be combined with --metric"),
            (["--spans", "--hide", "x"], 2, "--spans cannot be combined with --hide"),
            (["--spans", "--sort", "name"], 2, "'name' is none of"),
            (["--events", "--sort", "live"], 2, "needs --spans"),
            (["--events", "--focus", "x"], 2, "options that choose blocks"),
            (["--events", "--heap", "malloc"], 2, "--events cannot be combined with --heap"),
            (["--sort", "count"], 2, "'count' is none of self or total"),
            (["--spans", "--from", "2", "--to", "1"], 2, "must be before"),
            (["--by", "label:"], 2, "no key"),
            (["--label", "["], 2, "--label")):
        line = refused(code, "report", *options, trace("exact"))
        check(words in line, line)
    for options, words in ((["--spans"], "has no spans"), (["--events"], "has no events")):
        check(words in refused(1, "report", *options, trace("labels")), words)
    for options in (["--sort", "allocated"], ["--focus", "main"], ["--heap", "malloc"]):
        check("no single blocks" in refused(1, "report", "--spans", *options, trace("gc")), options)


# ---- info, overview ----

@case
def counts_are_the_same_everywhere():
    check("\nEvents       %s\n" % COUNTS in text("info", trace("exact")), "info")
    overview = text("report", trace("exact"))
    check("\nEvents       %s (--events" % COUNTS in overview, overview)
    check("\nLabels       3 sets; keys tenant, request (--by label" in overview, overview)
    check("601 spans of 3 types, 5 instants, 204 counter values; 7 more could not be recorded" in
          text("info", trace("lossy")), "what was lost")
    data = parsed("info", trace("exact"))
    same([data[k] for k in ("track_events", "track_types", "spans", "instants", "counter_values",
                            "dropped_events", "label_sets")],
         [1200 + 5 + 204, 7, 600, 5, 204, 0, 3], "JSON")
    same(data["label_keys"], ["tenant", "request"], "keys")
    out = text("info", trace("labels"))
    check("Events" not in out and "Labels" in out, out)
    data = parsed("info", trace("gc"))
    same((data["spans"], data["counter_values"]), (210, 100104), "an eventlog")


# ---- labels ----

@case
def labels_group_blocks():
    answer = parsed("report", "--by", "label", "--metric", "allocated", trace("exact"))
    found = {row["label"]: row["self"]["bytes"]["estimate"] for row in answer["rows"]}
    one = 1024 + 4 * 2000 + 3000
    same(answer["by"], "label", "by")
    same(found, {"tenant=small, request=search": 100 * one, "tenant=small, request=index": 50 * one,
                 "tenant=large, request=index": 50 * one, None: 5000}, "sets")
    answer = parsed("report", "--by", "label:tenant", "--metric", "allocated", trace("labels"))
    found = {row["label"]: row["self"]["bytes"]["estimate"] for row in answer["rows"]}
    same(found, {"small": 150 * one, "large": 50 * one, None: 5000}, "one key")
    out = text("report", "--by", "label:tenant", "--metric", "allocated", trace("exact"))
    check(out.startswith("Allocated by tenant: "), out)
    same([row[-1] for row in rows(out, "Allocated")], ["small", "large", "[no label]"], "rows")


@case
def pools_are_apart():
    check("\nPools        their blocks lie in blocks of malloc: sums leave them out" in
          text("report", trace("exact")), "the overview")
    answer = parsed("report", "--by", "heap", "--metric", "allocated", trace("exact"))
    found = {row["heap"]: row["self"]["bytes"]["estimate"] for row in answer["rows"]}
    same(found, {"malloc": 200 * (1024 + 4 * 2000 + 3000) + 5000, "pool": 200 * 512}, "heaps")
    for heap, count in (("pool", 200), ("pool-mapped", 0), ("malloc", 1201), ("all", 1401)):
        answer = parsed("report", "--heap", heap, "--metric", "allocated", trace("exact"))
        same(answer["total"]["samples"], count, heap)


@case
def labels_choose_blocks():
    one = 1024 + 4 * 2000 + 3000
    for pattern, count in (("request=search", 100), ("^tenant=small$", 150), ("nobody", 0)):
        answer = parsed("report", "--label", pattern, "--metric", "allocated", trace("exact"))
        same(answer["total"]["bytes"]["estimate"], count * one, pattern)
    answer = parsed("report", "--spans", "--label", "request=index", trace("exact"))
    spans = {s["name"]: s["allocated"]["bytes"]["estimate"] for s in answer["spans"]}
    same(spans, {"request": 100 * one, "parse": 800000, "render": 300000}, "spans")


# ---- dump ----

@case
def dump_has_them_in_order():
    lines = text("dump", trace("exact")).splitlines()
    same(lines[1:4], ['0.000010000 count 4242 "queue" value=5',
                      '0.000010000 begin 4242 "request" id=0 path="/index"',
                      '0.000010000 alloc 4242 #1 size=1024 weight=1024 flags=- '
                      'labels="tenant=large, request=index" main;handle'], "the first ones")
    check('"reload" file="/etc/server.conf" main;reload' in "\n".join(lines), "a stack")
    check(lines[-1].endswith(' instant 4242 "fork" category="process" child=-4711 main;render') or
          lines[-1].endswith(' "fork" category="process" child=-4711'), lines[-1])
    seconds = [float(line.split()[0]) for line in lines]
    check(all(b - a > -1e-5 for a, b in zip(seconds, seconds[1:])), "times go back")
    kinds = collections.Counter(line.split()[1] for line in lines)
    same((kinds["begin"], kinds["end"], kinds["instant"], kinds["count"]), (600, 600, 5, 204), "")
    parts = text("dump", trace("snapshots")).splitlines()
    kinds = collections.Counter(line.split()[1] for line in parts)
    same((kinds["begin"], kinds["end"]), (600, 600), "of snapshots")


@case
def dump_as_json():
    events = [json.loads(line) for line in text("dump", "--json", trace("exact")).splitlines()]
    begin = next(e for e in events if e["event"] == "begin")
    same(begin, {"time_ns": 10000, "event": "begin", "name": "request", "category": None,
                 "tid": 4242, "values": {"id": 0, "path": "/index"}}, "a span")
    alloc = [e for e in events if e["event"] == "alloc"][1]
    same(alloc["labels"], [{"key": "tenant", "value": "large"},
                           {"key": "request", "value": "index"}], "labels")


@cases([["dump"], ["dump", "--json"], ["report"], ["report", "--spans"], ["report", "--events"],
        ["report", "--events", "--json"], ["report", "--by", "label"], ["info"]])
def strange_names_are_harmless(arguments):
    out = text(*arguments, trace("strange"))
    check("\x1b" not in out and "\x00" not in out, out)
    if "--json" in arguments and arguments[0] == "report":
        json.loads(out)
    if arguments == ["dump"]:
        check('category="quote \\" and \\\\"' in out, out)
        check(all(re.match(r"\d+\.\d{9} (begin|end|count|alloc) \d+ ", line)
                  for line in out.splitlines()), out)


# ---- names that are orders to a terminal ----

ORDERS = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffe\udc80-\udcff]")
TEXTS = [["report"], ["info"], ["leaks"], ["dump"], ["dump", "--no-stacks"], ["plan"], ["check", "--max-peak", "1K"],
         ["report", "--wide"], ["report", "--all"], ["report", "--callers", "red"], ["report", "--callers", "TAB"],
         ["report", "--callees", "TAB"], ["report", "--spans"], ["report", "--events"], ["report", "--churn"],
         ["report", "--reallocs"], ["report", "--histogram", "size"], ["report", "--series", "4"],
         ["report", "--color=always"], ["diff", "SAME"], ["report", "SAME"],
         *(["report", "--by", by] for by in ("line", "stack", "module", "thread", "freeing-thread", "threads", "heap",
                                             "label")),
         *(["diff", "--by", by, "SAME"] for by in ("function", "line", "stack", "module", "thread"))]


def orders(output, colours=False):
    """What a terminal would obey, or what pretends to be a line of mayfly's."""
    output = output.decode(errors="surrogateescape")
    if colours:
        output = re.sub("\x1b\\[[0-9]+m", "", output.replace("31mred", ""))
    return ORDERS.findall(output) + re.findall("^(?:FORGED|TAB|return).*", output, re.M)


@cases([" ".join(words) for words in TEXTS])
def names_give_no_orders(words):
    """However they are printed."""
    path = trace("hostile")
    result = run([MAYFLY, *(path if word == "SAME" else word for word in words.split()), path])
    check(result.code in (0, 1) and result.out, result)
    same(orders(result.out + result.err, "color" in words), [], words)


def on_a_terminal(command):
    """What a terminal gets."""
    reader, writer = pty.openpty()
    attributes = termios.tcgetattr(writer)
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(writer, termios.TCSANOW, attributes)
    got = b""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=writer, stderr=writer,
                          env=environment(TERM="dumb")) as process:
        os.close(writer)
        with contextlib.suppress(OSError):  # EIO: nobody has the other end any more
            while piece := os.read(reader, 65536):
                got += piece
        process.wait()
    os.close(reader)
    return got


@cases(["folded", "csv", "flamegraph", "heap_v2", "massif", "chrome", "speedscope", "json", "dump --json"])
def exports_give_no_orders(name):
    """To a terminal, although their files have the names as they are."""
    words = ["report", "--json"] if name == "json" else name.split() if " " in name else \
        ["export", "--to", name, "-o", "-"]
    if name == "heap_v2":  # has one kind of blocks
        words += ["--metric", "allocated"]
    command = [MAYFLY, *words, trace("hostile")]
    shown, stored = on_a_terminal(command), run(command)
    same(stored.code, 0, repr(stored))
    check(shown, "nothing was printed")
    same(ORDERS.findall(shown.decode(errors="surrogateescape")), [], name)
    if name in ("json", "folded"):
        check("\u202egnp.exe" in stored.out.decode(), stored.out)


@case
def messages_give_no_orders():
    for words in (["info", "/nosuch/\033[2J\u202e\x9b"], ["\033[31m"], ["report", "--\033[31m"], ["report", "--by", "\r\033[2J"],
                  ["report", "--focus", "(\033[31m", trace("hostile")], ["record", "--", "/nosuch/\033[2J\u202e"]):
        result = run([MAYFLY, *words])
        check(result.code and result.err.count(b"\n") == 1, result)
        same(orders(result.err), [], words)


if __name__ == "__main__":
    main()
