#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a forked child inherits is live in it, and not allocated by it: programs/inherit.c, of which
all figures are known, recorded in each way, and what every command says of parent, children and
grandchild, and of all of them merged. test_export.py and test_export_events.py hold exports against
report for traces with inherited blocks (make_trace); test_brute_force.py asks random questions."""
import json
import re
import sqlite3

from harness import (MAYFLY, Folder, as_json, case, cases, check, info, main, mayfly, need, program,
                     record, report, run, same)

folder = Folder()
folder.__enter__()
kept = {}

WAYS = {"exact": ["-x"], "sampled": ["-i", "4096"], "poisson": ["-i", "64", "--sampler", "poisson"],
        "snapshots": ["-x", "--snapshots", "1ms"]}
EXACT = [way for way in WAYS if way != "poisson"]  # the sampled blocks have weight 1

# bytes and blocks: what each process allocates and keeps, and what is temporary
A, B, R = 10000, 20000, 30000
TRUTH = {
    # It allocates nothing after its last block, which it frees in the end.
    "parent": {"allocated": {"site_a": (300 * A, 300)}, "leaked": {},
               "temporary": {"site_a": (A, 1)}, "inherited": 0, "peak": (300 * A, 300)},
    "child": {"allocated": {"site_b": (100 * B, 100), "site_r": (R, 1)},
              "leaked": {"site_a": (199 * A, 199), "site_b": (60 * B, 60), "site_r": (R, 1)},
              "temporary": {"site_b": (40 * B, 40)}, "inherited": 300,
              "peak": (199 * A + 60 * B + R, 260)},
    "grandchild": {"allocated": {"site_b": (5 * B, 5)},
                   "leaked": {"site_a": (149 * A, 149), "site_b": (55 * B, 55), "site_r": (R, 1)},
                   "temporary": {}, "inherited": 260, "peak": (199 * A + 60 * B + R, 260)},
}
PROCESSES = ["parent", "child", "child", "grandchild"]


def add(metric):
    """What processes that are merged have, by function."""
    found = {}
    for process in PROCESSES:
        for function, figures in TRUTH[process][metric].items():
            before = found.get(function, (0, 0))
            found[function] = (before[0] + figures[0], before[1] + figures[1])
    return found


def total(figures):
    return sum(f[0] for f in figures.values()), sum(f[1] for f in figures.values())


def traces(way):
    """{process: traces}, recorded once."""
    if way not in kept:
        path = folder / (way + ".mayfly")
        same(record([program("inherit"), "2", "grandchild"], path, "--follow", *WAYS[way]).code, 0)
        kept[way] = {"parent": [path], "child": [], "grandchild": []}
        pids = {info(trace)["pid"]: trace for trace in folder.files(way + "*.mayfly")}
        same(len(pids), 4, "processes")
        main_pid = info(path)["pid"]
        for trace in pids.values():
            facts = info(trace)
            if facts["pid"] != main_pid:
                kept[way]["child" if facts["parent_pid"] == main_pid else "grandchild"].append(trace)
        same([len(t) for t in kept[way].values()], [1, 2, 1], "parents")
    return kept[way]


def merged(way, *options):
    path = folder / ("merged-" + "".join([way, *options]) + ".mayfly")
    if path not in kept:
        mayfly("merge", "-o", path, *options, *[t for group in traces(way).values() for t in group])
        kept[path] = True
    return path


def figures(estimate):
    return round(estimate["bytes"]["estimate"]), round(estimate["blocks"]["estimate"])


def change(*arguments):
    return round(as_json("diff", "--json", *arguments)["total"]["bytes"]["change"])


def by_function(trace, *options):
    return {row["function"]: figures(row["self"])
            for row in report(trace, "--all", "--top", "0", *options)["rows"]
            if row["self"]["blocks"]["estimate"]}


# ---- one process ----

@cases(EXACT)
def every_metric(way):
    for process, group in traces(way).items():
        truth = TRUTH[process]
        for trace in group:
            for metric in ("allocated", "leaked", "temporary"):
                same(by_function(trace, "--metric", metric), truth[metric], "%s, %s" % (trace, metric))
            same(by_function(trace, "--metric", "live"), truth["leaked"], trace + ", live")
            peak = report(trace)
            if way != "snapshots" or process == "child":  # others: before the first snapshot
                same(figures(peak["total"]), truth["peak"], trace + ", peak")
            facts = info(trace)
            same(facts["inherited"], truth["inherited"], "inherited")
            for fact, metric in (("allocated", "allocated"), ("live_at_end", "leaked"),
                                 ("temporary", "temporary")):
                same(figures(facts[fact]), total(truth[metric]), "%s, %s of info" % (trace, fact))


@cases(EXACT)
def what_is_said(way):
    """Samples are what the trace has; allocations are those of the process."""
    for process, group in traces(way).items():
        inherited = TRUTH[process]["inherited"]
        own = total(TRUTH[process]["allocated"])[1]
        for trace in group:
            said = mayfly("info", trace).text
            line = re.search("^(?:Allocations|Samples) +(.*)$", said, re.M)[1]
            same(line, "%d" % own if not inherited
                 else "%d (%d of them inherited at the fork)" % (own + inherited, inherited)
                 if way == "sampled" else "%d, and %d blocks inherited at the fork" % (own, inherited),
                 trace)
            said = mayfly("report", trace).text
            same(" inherited" in said, inherited > 0, said)


@cases(["exact", "sampled"])
def by_everything(way):
    """However rows are made, they add up to the same; filters do not bring inherited blocks back."""
    for trace in traces(way)["child"]:
        truth = TRUTH["child"]
        for key in ("line", "stack", "module", "thread", "size", "lifetime", "heap", "freeing-thread",
                    "threads", "label"):
            for metric in ("allocated", "temporary", "leaked"):
                answer = report(trace, "--metric", metric, "--by", key, "--all", "--top", "0")
                same(figures(answer["total"]), total(truth[metric]), key + ", " + metric)
                sums = [figures(row["self"]) for row in answer["rows"]]
                same((sum(s[0] for s in sums), sum(s[1] for s in sums)), total(truth[metric]), key)
        for options in (["--max-lifetime", "1h"], ["--min-size", "9000"], ["--focus", "site_"],
                        ["--heap", "malloc"], ["--to", "1h"]):
            same(by_function(trace, "--metric", "survived", *options).get("site_a"), None, options)
            same(by_function(trace, "--metric", "allocated", *options).get("site_a"), None, options)
        same(by_function(trace, "--metric", "survived"),
             {"site_b": (60 * B, 60), "site_r": (R, 1)}, "survived")
        same(by_function(trace, "--metric", "live", "--at", "0s").get("site_a"), (300 * A, 300), "at 0")


@cases(["exact", "sampled", "snapshots"])
def over_time(way):
    for trace in traces(way)["child"]:
        series = report(trace, "--series", "10", "--top", "0")
        rows = {row["function"]: row for row in series["rows"]}
        for function, (size, blocks) in TRUTH["child"]["leaked"].items():
            same((round(rows[function]["live_bytes"][-1]), round(rows[function]["live_blocks"][-1])),
                 (size, blocks), function + ", live")
            own = TRUTH["child"]["allocated"].get(function, (0, 0))
            same(round(rows[function]["allocated_bytes"][-1]), own[0], function + ", allocated")
            same(round(rows[function]["allocated_blocks"][-1]), own[1], function + ", allocated")


@case
def snapshots_do_not_tell_which_are_left():
    done = run([MAYFLY, "report", "--metric", "survived", traces("snapshots")["child"][0]])
    same((done.code, done.err.count(b"\n"), b"--metric survived after a fork" in done.err), (1, 1, True),
         done)


@cases(["exact", "sampled"])
def other_views(way):
    trace = traces(way)["child"][0]
    own, blocks = total(TRUTH["child"]["allocated"])
    same(figures(report(trace, "--churn")["total"]), (own, blocks), "churn")
    same(list(by_function(trace, "--churn")), ["site_b", "site_r"], "rows of churn")
    for classes in ("size", "lifetime"):
        same(figures(report(trace, "--histogram", classes, "--metric", "allocated")["total"]),
             (own, blocks), "histogram by " + classes)
    if way == "exact":
        grown = report(trace, "--reallocs")["total"]
        same([grown[name] for name in ("chains", "reallocs", "copied_bytes", "first_bytes",
                                       "last_bytes")], [1, 1, A, A, R], "reallocs")
        plan = as_json("plan", "--json", "--metric", "allocated", trace)
        same((plan["allocated_bytes"], plan["blocks"]), (own, blocks), "plan")
        same([round(row["bytes"]) for row in plan["rows"]], [100 * B, R], "rows of plan")


@cases(EXACT)
def limits_and_differences(way):
    """A limit on what is allocated does not see what is inherited; one on what is live does."""
    trace, other = traces(way)["child"]
    own, blocks = total(TRUTH["child"]["allocated"])
    live = total(TRUTH["child"]["leaked"])[0]
    for limit, most in (("allocated", own), ("blocks", blocks), ("leaked", live), ("peak", live)):
        mayfly("check", "--max-" + limit, str(most), trace)
        same(run([MAYFLY, "check", "--max-" + limit, str(most - 1), trace]).code, 1, limit)
    for metric in ("allocated", "leaked", "temporary"):
        same(change("--metric", metric, trace, other), 0, "change of what is " + metric)
    same(change("--metric", "allocated", traces(way)["parent"][0], trace), own - 300 * A,
         "parent and child")


@cases(["exact", "sampled"])
def dump_marks_them(way):
    for process, group in traces(way).items():
        for trace in group:
            lines = mayfly("dump", "--no-stacks", trace).text.splitlines()
            marked = [line for line in lines if " alloc " in line and "i" in line.split("flags=")[1]]
            same(len(marked), TRUTH[process]["inherited"], "marked blocks")
            check(all(line.startswith("0.000000000 ") for line in marked), "at the start")
            first = [line.split()[3] for line in marked]
            freed = [line for line in lines if " free " in line and line.split()[3] in first]
            check(not any("t" in line.split("flags=")[1] for line in freed), "temporary", freed)


@case
def dump_of_snapshots():
    for trace in traces("snapshots")["child"]:
        sums = {}
        for line in mayfly("dump", "--json", trace).text.splitlines():
            part = json.loads(line)
            for name in ("allocs", "alloc_bytes", "inherited", "inherited_bytes"):
                sums[name] = sums.get(name, 0) + part.get(name, 0)
        own = total(TRUTH["child"]["allocated"])
        same(sums, {"allocs": own[1], "alloc_bytes": own[0], "inherited": 300,
                    "inherited_bytes": 300 * A}, "counters")


# ---- all processes ----

@cases(EXACT)
def merge(way):
    """What was allocated counts once; what is live counts in each process that has it."""
    path = merged(way)
    for metric in ("allocated", "leaked", "temporary"):
        same(by_function(path, "--metric", metric), add(metric), metric)
    facts = info(path)
    same(figures(facts["allocated"]), total(add("allocated")), "allocated")
    same(figures(facts["live_at_end"]), total(add("leaked")), "live")
    same(facts["inherited"], 300 + 300 + 260, "inherited")
    again = folder / ("again-%s.mayfly" % way)
    mayfly("merge", "-o", again, path, traces(way)["parent"][0])
    same(figures(info(again)["allocated"])[0], total(add("allocated"))[0] + 300 * A, "merged again")
    same(info(again)["inherited"], 860, "inherited, merged again")


@cases(["exact", "sampled"])
def merged_by_the_clock(way):
    path = merged(way, "--align", "clock")
    same(by_function(path, "--metric", "allocated"), add("allocated"), "allocated")
    same(by_function(path, "--metric", "leaked"), add("leaked"), "leaked")


MANY = """srand(7); my @a; push @a, "x" x (int rand 3000) for 1..150000; if (fork) { wait; exit; }
splice @a, 0, 50000; push @a, "z" x (int rand 900) for 1..100000"""


@case
def thinned():
    """Inherited blocks stay marked when a trace is thinned: a quarter of its bytes is the child's own."""
    need("perl")
    found = []
    for options in ([], ["--max-size", "256K"]):
        with Folder() as here:
            same(record(["perl", "-e", MANY], here / "t.mayfly", "--follow", "-x", *options).code, 0)
            facts = info(here.files("t.*.mayfly")[0])
            same(facts["thinned"], options != [], "thinned")
            check(facts["inherited"] > 50000, facts["inherited"])
            found.append([facts[figure]["bytes"]["estimate"] for figure in ("allocated", "peak")])
    for exact, estimate in zip(*found):
        check(abs(estimate / exact - 1) < 0.1, "estimate", estimate, "of", exact)
    check(found[0][0] < found[0][1] / 2, "allocated and peak", found)


@case
def image_left_before_its_child_is_seen():
    """The child begins to record after its parent has become another program, which then goes on after it."""
    need("perl", "bash")
    with Folder() as here:
        script = ("srand(7); my @a; push @a, 'x' x (int rand 3000) for 1..5000; "
                  "if (!fork) { select undef, undef, undef, 0.5; my $b = 'y' x 50000; exit } "
                  "exec 'bash', '-c', 'while kill -0 $PPID 2> /dev/null && [ $((n += 1)) -lt 30 ]; do sleep 0.1; done'")
        same(record(["perl", "-e", script], here / "t.mayfly", "--follow", "-x").code, 0)
        inherited = [info(trace)["inherited"] for trace in here.files("t.*.mayfly")
                     if info(trace)["command"][0] == "perl"]
        check(max(inherited) > 5000, "inherited", inherited)


@case
def exact_and_sampled_merged():
    path = folder / "both.mayfly"
    mayfly("merge", "-o", path, traces("exact")["child"][0], traces("sampled")["child"][0])
    own, live = total(TRUTH["child"]["allocated"]), total(TRUTH["child"]["leaked"])
    same(figures(info(path)["allocated"]), (2 * own[0], 2 * own[1]), "allocated")
    same(figures(info(path)["live_at_end"]), (2 * live[0], 2 * live[1]), "live")


# ---- exports that test_export_events.py does not hold against report ----

@cases(["exact", "sampled"])
def names_of_events(way):
    trace = traces(way)["child"][0]
    path = folder / (way + ".json")
    mayfly("export", "--to", "chrome", "--rows", "samples", "-o", path, "--force", trace)
    with open(path, encoding="utf-8") as file:
        names = [event["name"] for event in json.load(file)["traceEvents"] if event["ph"] == "i"]
    same([names.count(name) for name in ("inherited", "alloc", "free")], [300, 101, 141], "events")


@cases(["exact", "sampled"])
def views_of_sqlite(way):
    path = folder / (way + ".sqlite")
    mayfly("export", "--to", "sqlite", "-o", path, "--force", traces(way)["child"][0])
    db = sqlite3.connect(path)
    own, live = total(TRUTH["child"]["allocated"]), total(TRUTH["child"]["leaked"])
    for view in ("by_size", "by_thread", "by_function"):
        same(tuple(db.execute("SELECT total(allocated_bytes), total(end_bytes) FROM " + view)
                   .fetchone()), (own[0], live[0]), view)
    same(db.execute("SELECT allocated_bytes, end_bytes FROM by_function WHERE function = 'site_a'")
         .fetchone(), (0, 199 * A), "site_a")
    same(db.execute("SELECT count(*) FROM samples WHERE inherited").fetchone()[0], 300, "samples")


@cases(["exact", "sampled"])
def memtrace_has_own_blocks(way):
    """Its files cannot say that a block is there without having been allocated."""
    path, back = folder / (way + ".ctf"), folder / (way + "-back.mayfly")
    done = run([MAYFLY, "export", "--to", "memtrace", "-o", path, traces(way)["child"][0]])
    check(done.code == 0 and done.err.count(b"\n") == 1 and b"inherited" in done.err, done)
    mayfly("import", "-o", back, path)
    same(figures(info(back)["allocated"])[1], 101, "allocated")


# ---- sampling ----

@case
def weights_are_inherited():
    """Parent and child have the same samples of their common blocks, with the same weights."""
    parent, = traces("poisson")["parent"]
    expected = figures(report(parent, "--metric", "peak", "--focus", "site_a")["total"])
    for trace in traces("poisson")["child"]:
        same(figures(report(trace, "--metric", "live", "--at", "0s")["total"]), expected, trace)


@case
def children_sample_for_themselves():
    """Twenty children that allocate the same do not all draw the same samples of it."""
    with Folder() as here:
        same(record([program("inherit"), "20"], here / "t.mayfly", "--follow", "-i", "64K").code, 0)
        samples = [report(child, "--metric", "allocated")["total"]["samples"]
                   for child in here.files("t.*.mayfly")]
    same(len(samples), 20, "children")
    check(len(set(samples)) > 1, "all have the same number of samples:", samples)


if __name__ == "__main__":
    main()
