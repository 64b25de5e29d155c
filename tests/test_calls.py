#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The call tree, and the callers and callees of a function: recounted from mayfly dump.

Trees are read as the page gets them (src/view/view.h), questions are random and seeded.
"""
import json
import os
import random
import re
import struct
import sys
import urllib.parse
from collections import defaultdict

from harness import (MAYFLY, SOURCE, Folder, case, cases, check, main, need, program, record, report,
                     run, same)

QUESTIONS = 60
NONE = 2**32 - 1


def ask(trace, name, *base, **parameters):
    """The JSON of an answer, or JSON and arrays."""
    request = name + "?" + urllib.parse.urlencode(parameters, doseq=True)
    result = run([program("view_ask"), trace, *base, request])
    line, _, rest = result.out.partition(b"\n")
    status, kind, size = line.split()
    check(status == b"200", request, result.out)
    if kind == b"application/json":
        return json.loads(rest)
    answer = rest[:int(size)]
    length, = struct.unpack_from("<I", answer)
    known = json.loads(answer[4:4 + length])
    known["all"] = known["total"]
    for name, where in known["arrays"].items():
        same(where["offset"] % 8, 0, "offset of " + name)
        form = {"u8": "B", "u32": "I", "f32": "f", "f64": "d"}[where["type"]]
        known[name] = struct.unpack_from("<%d%s" % (where["count"], form), answer, where["offset"])
    return known


class Tree:
    """An answer, its arrays checked."""

    def __init__(self, trace, *base, request="tree", **parameters):
        self.answer = a = ask(trace, request, *base, **parameters)
        self.nodes = len(a["parent"])
        self.name = [a["texts"][i] for i in a["name"]]
        same((a["parent"][0], a["end"][0], a["depth"][0], a["left"][0], self.name[0]),
             (NONE, self.nodes, 0, 0, "all"), "the root")
        self.path = [()]
        children = defaultdict(list)
        for i in range(1, self.nodes):
            parent = a["parent"][i]
            check(parent < i < a["end"][i] <= a["end"][parent], "not in preorder", i)
            same(a["depth"][i], a["depth"][parent] + 1, "depth")
            self.path.append(self.path[parent] + (self.name[i],))
            children[parent].append(i)
        for i in range(self.nodes):
            callees = children[i]
            shown = [k for k in callees if "smaller)" not in self.name[k]]
            same(callees[:len(shown)], shown, "the smaller ones are last")
            totals = [a["total"][k] for k in shown]
            same(totals, sorted(totals, reverse=True), "order of callees")
            left = a["left"][i]
            for k in callees:
                check(abs(a["left"][k] - left) <= 1e-9 * a["total"][0] + 1e-6, "left of", self.path[k])
                left += a["total"][k]
            check(abs(left + a["self"][i] - a["left"][i] - a["total"][i]) <=
                  1e-9 * a["total"][0] + 1e-6, "self and callees of", self.path[i])
            same(a["self_samples"][i] + sum(a["samples"][k] for k in callees), a["samples"][i], "samples")

    def sums(self, what):
        """By path; each path once."""
        same(len(set(self.path)), self.nodes, "paths")
        return dict(zip(self.path, self.answer[what]))


class Block:
    def __init__(self, size, stack):
        self.size, self.stack, self.freed = size, stack, False


def blocks_of(trace):
    result = run([MAYFLY, "dump", trace])
    check(result.code == 0, "dump", result.err)
    blocks = []
    for line in result.out.decode().splitlines():
        if line.split(" ", 2)[1] not in ("alloc", "free"):
            continue
        _, kind, _, number, size, _, _, *stack = line.split(" ", 7)
        if kind == "free":
            blocks[int(number[1:])].freed = True
            continue
        frames = () if stack == ["[no stack]"] else tuple(sys.intern(f) for f in stack[0].split(";"))
        blocks.append(Block(int(size[5:]), frames))
    return blocks


def exactly(name):
    return "^" + re.sub(r"[.\[\]{}()*+?|^$\\]", lambda m: "\\" + m.group(), name) + "$"


class Question:
    def __init__(self, blocks):
        functions = sorted({f for b in blocks for f in b.stack if "+0x" not in f and "[" not in f})
        self.parameters = {"metric": random.choice(("allocated", "leaked")), "frames": "all"}
        self.hide, self.show, self.start, self.focus = [], [], [], []
        for name, names, share in (("hide", self.hide, .3), ("focus", self.focus, .2),
                                   ("show", self.show, .3), ("show-from", self.start, .2)):
            while random.random() < share:
                names.append(random.choice(functions))
                self.parameters.setdefault(name, []).append(exactly(names[-1]))
        for name in ("invert", "recursion", "blocks"):
            if random.random() < .4:
                self.parameters[name] = 1
        if random.random() < .3:
            self.parameters["least"] = random.choice((.001, .01, .1, .5))

    def path(self, stack):
        """As the tree shows it; None: it does not count."""
        if self.focus and not any(f in stack for f in self.focus):
            return None
        if self.start and not any(f in stack for f in self.start):
            return None
        path = list(stack)
        while self.start and path[0] not in self.start:
            del path[0]
        whole = len(path)
        path = [f for f in path if f not in self.hide and (not self.show or f in self.show)]
        if not any(not f.startswith("[") for f in path):
            path.append("[none of them]" if self.show else
                        "[hidden]" if len(path) < whole else "[no stack]")
        if "recursion" in self.parameters:
            folded = []
            for f in path:
                folded = folded[:folded.index(f) + 1] if f in folded else folded + [f]
            path = folded
        if "invert" in self.parameters:
            path.reverse()
        return tuple(path)

    def recount(self, blocks):
        own, total, count = defaultdict(int), defaultdict(int), 0
        for b in blocks:
            path = self.path(b.stack)
            if path is None or (self.parameters["metric"] == "leaked" and b.freed):
                continue
            weight = 1 if "blocks" in self.parameters else b.size
            count += 1
            own[path] += weight
            for i in range(len(path) + 1):
                total[path[:i]] += weight
        return own, total, count


def pruned(total, own, least):
    """Replaces small callees by one node."""
    limit = least * total[()]
    small = {p for p in total if p and total[p] < limit}
    kept = {p: total[p] for p in total if p not in small}
    selves = {p: own.get(p, 0) for p in kept}
    top = [p for p in small if p[:-1] not in small]
    for parent in {p[:-1] for p in top}:
        those = [p for p in top if p[:-1] == parent]
        path = parent + ("(%d smaller)" % len(those),)
        kept[path] = selves[path] = sum(total[p] for p in those)
    return kept, selves


PROGRAMS = {
    "recursive": lambda: [program("recursive"), "60"],
    "known": lambda: [program("known"), "3", "4", "300"],
    "perl": lambda: ["perl", "-e", 'my @a; push @a, "x" x $_ for 1..200; print join ",", @a'],
}


@cases(PROGRAMS)
def trees(name):
    """Random questions: paths, selves and totals are those of a recount."""
    random.seed("calls " + name)
    with Folder() as here:
        trace = here / "t.mayfly"
        check(record(PROGRAMS[name](), trace, "--exact").code == 0)
        blocks = blocks_of(trace)
        check(len(blocks) > 50, len(blocks), "blocks")
        for _ in range(QUESTIONS):
            question = Question(blocks)
            own, total, count = question.recount(blocks)
            try:
                tree = Tree(trace, **question.parameters)
                same(tree.answer["samples"][0], count, "blocks")
                if not count:
                    same(tree.nodes, 1, "nodes of no blocks")
                    continue
                total, own = pruned(total, own, question.parameters.get("least", 0))
                same(tree.sums("total"), dict(total), "totals")
                same({p: v for p, v in tree.sums("self").items() if v},
                     {p: v for p, v in own.items() if v}, "selves")
                same(set(tree.answer["total_stderr"]), {0}, "errors of an exact trace")
            except AssertionError as error:
                raise AssertionError("%s: %s" % (question.parameters, error))


def pprof_top(profile, *options):
    """{function: (flat, cum)} in bytes, of what go tool pprof shows."""
    result = run(["go", "tool", "pprof", "-top", "-nodecount=100000", "-nodefraction=0", "-unit=B",
                  "-sample_index=alloc_space", "-symbolize=none", *options, profile],
                 env={**os.environ, "PPROF_TMPDIR": os.path.dirname(profile)})
    check(result.code == 0, "pprof", result.err)
    lines = result.out.decode().split("cum%\n")[1].splitlines()
    found = {}
    for flat, _, _, cum, _, name in (line.split(None, 5) for line in lines):
        found[name.replace(" (inline)", "")] = (float(flat.rstrip("B")), float(cum.rstrip("B")))
    return found


@case
def as_pprof():
    """--show and --show-from are pprof's."""
    need("go")
    with Folder() as here:
        trace, profile = here / "t.mayfly", here / "t.pb.gz"
        check(record([program("recursive"), "60"], trace, "--exact").code == 0)
        check(run([MAYFLY, "export", "--to", "pprof", "--metric", "allocated", "--frames=all",
                   "-o", profile, trace]).code == 0, "export")
        for show, start in (("parse|emit", None), (None, "visit"), ("parse|call", None),
                            (None, "^main$")):
            options = [[o, e] for o, e in (("--show", show), ("--show-from", start)) if e]
            rows = {r["function"]: tuple(r[w]["bytes"]["estimate"] for w in ("self", "total"))
                    for r in report(trace, "--metric", "allocated", "--frames=all",
                                    *sum(options, []))["rows"]}
            if show:
                none = rows.pop("[none of them]", None)
                check(none or show != "parse|emit", "every stack has one of", show)
            theirs = pprof_top(profile, *["%s=%s" % (o.replace("--show-from", "-show_from")
                                                     .replace("--show", "-show"), e)
                                          for o, e in options])
            same(rows, theirs, options)
            exported = here / "cut.pb.gz"
            check(run([MAYFLY, "export", "--force", "--to", "pprof", "--metric", "allocated",
                       "--frames=all", *sum(options, []), "-o", exported, trace]).code == 0, "export")
            if show and none:
                theirs["[none of them]"] = none
            same(pprof_top(exported), theirs, options)


@cases(["folded", "csv", "speedscope", "massif", "flamegraph", "chrome", "perfetto"])
def exports_cut_stacks(format):
    """Callers above the first match are in no file, nor are frames that do not match."""
    with Folder() as here:
        trace = here / "t.mayfly"
        check(record([program("recursive"), "60"], trace, "--exact").code == 0)
        for options, shown in ((["--show-from", "^call$"], True), (["--show", "^parse$"], False)):
            out = here / "out"
            result = run([MAYFLY, "export", "--force", "--to", format, "--frames=all", *options,
                          "-o", out, trace])
            check(result.code == 0, format, result.err)
            with open(out, "rb") as file:
                text = file.read()
            check(b"parse" in text, "parse is not in", format)
            same(b"emit" in text, shown, (format, options, "emit"))
            same(b"__libc_start_main" in text, False, (format, options, "callers"))


@cases(PROGRAMS)
def callers(name):
    """Each block counts once for each caller and callee, also under recursion."""
    random.seed("callers " + name)
    with Folder() as here:
        trace = here / "t.mayfly"
        check(record(PROGRAMS[name](), trace, "--exact").code == 0)
        blocks = blocks_of(trace)
        functions = sorted({f for b in blocks for f in b.stack if "[" not in f})
        for function in ["call", *random.choices(functions, k=12)]:
            expected = {key: defaultdict(lambda: [0, 0]) for key in ("callers", "callees", "function")}
            for b in blocks:
                s = [f for f in b.stack if not f.startswith("[")]
                edges = list(zip(s, s[1:]))
                rows = [("callers", a, (a, f) == tuple(s[-2:])) for a, f in set(edges) if f == function]
                rows += [("callees", f, (a, f) == tuple(s[-2:])) for a, f in set(edges) if a == function]
                rows += [("function", function, s[-1] == function)] if function in s else []
                for key, row, own in rows:
                    expected[key][row][0] += b.size * own
                    expected[key][row][1] += b.size
            answer = ask(trace, "callers", function=function, metric="allocated", **{"frames": "all"})
            got = {key: {row_name(row): [row[which]["bytes"]["estimate"] for which in ("self", "total")]
                         for row in answer[key]} for key in ("callers", "callees")}
            got["function"] = {row_name(answer["function"]):
                               [answer["function"][which]["bytes"]["estimate"]
                                for which in ("self", "total")]} if answer["function"] else {}
            same(got, {key: dict(rows) for key, rows in expected.items()}, function)
            totals = [row["total"]["bytes"]["estimate"] for row in answer["callers"]]
            same(totals, sorted(totals, reverse=True), "order")


def row_name(row):
    """As dumps and trees say it."""
    if row["function"]:
        return row["function"]
    return "%s+0x%x" % (os.path.basename(row["module"]), int(str(row["address"]), 0))


def nested(node, path=()):
    """{path: (self, total)} of the JSON of --by tree; sums are checked."""
    found = {path: (node["self"]["bytes"]["estimate"], node["total"]["bytes"]["estimate"])}
    for callee in node["callees"]:
        found.update(nested(callee, path + (callee["name"],)))
    same(node["total"]["bytes"]["estimate"], node["self"]["bytes"]["estimate"] +
         sum(callee["total"]["bytes"]["estimate"] for callee in node["callees"]), path)
    return found


def text(trace, *options):
    result = run([MAYFLY, "report", *options, trace], env={**os.environ, "LC_ALL": "C.UTF-8"})
    check(result.code == 0, options, result.err)
    return result.out.decode().splitlines()


@case
def tree_in_the_terminal():
    """--by tree, and its JSON; --top and --depth."""
    with Folder() as here:
        trace = here / "t.mayfly"
        check(record([program("recursive"), "60"], trace, "--exact").code == 0)
        whole = Tree(trace, metric="allocated", recursion=1)
        got = nested(report(trace, "--by", "tree", "--metric", "allocated",
                            "--top", "0")["tree"])
        same({p: t for p, (_, t) in got.items()}, whole.sums("total"), "all nodes")
        got = nested(report(trace, "--by", "tree", "--metric", "allocated")["tree"])
        least = Tree(trace, metric="allocated", recursion=1, least=.01)
        same({p: t for p, (_, t) in got.items()}, least.sums("total"), "pruned")
        for top in (1, 5, 12):
            got = nested(report(trace, "--by", "tree", "--metric", "allocated",
                                "--top", str(top))["tree"])
            shown = [p for p in got if p and "smaller)" not in p[-1]]
            check(min(top, whole.nodes - 1) <= len(shown) < top + 6, len(shown), "nodes of --top", top)
        lines = text(trace, "--by", "tree", "--metric", "allocated", "--depth", "5", "--frames=all")
        check("as a tree of calls" in lines[0], lines[0])
        check(re.fullmatch(r" *\S+ (?:[KMG]i)?B +100 %  all", lines[1]), lines[1])
        same(sum(line.endswith(" _start") for line in lines), 1, "lines of _start")
        deepest = max(len(p) for p in got)
        whole = text(trace, "--by", "tree", "--metric", "allocated", "--frames=all")
        check(deepest > 2 and len(lines) < len(whole), "--depth leaves nothing out")
        lines = text(trace, "--by", "tree", "--metric", "allocated")
        check(any("├─ " in line for line in lines) and any("└─ " in line for line in lines), lines)
        for options in (["--churn"], ["--sort", "total"], ["--callers", "call"]):
            check(run([MAYFLY, "report", "--by", "tree", *options, trace]).code != 0, options)


@case
def callers_in_the_terminal():
    with Folder() as here:
        trace = here / "t.mayfly"
        check(record([program("recursive"), "60"], trace, "--exact").code == 0)
        answer = ask(trace, "callers", function="parse", metric="allocated")
        for name in ("parse", "^pars.$"):
            for option in ("--callers", "--callees"):
                got = report(trace, option, name, "--metric", "allocated")
                for key in ("callers", "callees", "function", "total"):
                    same(got[key], answer[key], (option, key))
        several = report(trace, "--callers", "parse|visit", "--metric", "allocated")
        same(several["functions"], 2, "functions")
        # call() is the only one that calls them.
        same([row["function"] for row in several["callers"]], ["call"], "callers of two")
        lines = text(trace, "--callers", "parse", "--metric", "allocated")
        check(lines[0].endswith("callers of parse") and lines[2].split()[-1] == "CALLER"
              and lines[3].split()[-1] == "call" and "100 %" in lines[3], lines)
        check("CALLEE" in text(trace, "--callees", "parse", "--metric", "allocated")[2])
        for name in ("nothing_like_it", "("):
            result = run([MAYFLY, "report", "--callers", name, trace])
            check(result.code != 0 and result.err.count(b"\n") == 1, result)


@case
def sorted_by_total():
    """The first row is the innermost that holds nearly all, not what starts the program."""
    with Folder() as here:
        trace = here / "t.mayfly"
        check(record([program("recursive"), "60"], trace, "--exact").code == 0)
        for by in ("function", "line"):
            options = ["--metric", "allocated", "--sort", "total", "--by", by, "--frames=all"]
            lines, every = text(trace, *options), text(trace, *options, "--all")
            check(not any(line.endswith(("_start", "main")) for line in lines), lines)
            same(lines[2].split()[-1], "call", lines[2])
            end = " ".join(line.strip() for line in lines[-3:])
            check("nearly all of it on: " in end and "--all shows them" in end, end)
            check(any(line.endswith(" _start") for line in every), every)
            check(any(row["function"] == "_start" for row in report(trace, *options)["rows"]), "JSON")


@case
def difference():
    """Two traces as one tree: both sides' sums, and what is significant."""
    with Folder() as here:
        traces = [here / "a.mayfly", here / "b.mayfly"]
        for trace, calls in zip(traces, ("60", "75")):
            check(record([program("recursive"), calls], trace, "--exact").code == 0)
        for how in ({}, {"invert": 1}, {"recursion": 1, "blocks": 1}):
            how["metric"] = "allocated"
            diff = Tree(traces[1], "--base", traces[0], request="difftree", **how)
            before, after = [Tree(trace, **how).sums("total") for trace in traces]
            same({p: v for p, v in diff.sums("total").items() if v}, after, "after")
            same({p: v for p, v in diff.sums("before").items() if v}, before, "before")
            for path, significant in diff.sums("significant").items():
                same(significant, int(before.get(path, 0) != after.get(path, 0)), path)
        for trace, seconds in zip(traces, ("2000", "8000")):
            check(record([program("recursive"), seconds, "20000"], trace, "--interval", "64K").code == 0)
        twice = Tree(traces[0], "--base", traces[0], request="difftree", metric="allocated")
        same(set(twice.answer["significant"]), {0}, "significant changes of a trace to itself")
        more = Tree(traces[1], "--base", traces[0], request="difftree", metric="allocated")
        same(more.answer["significant"][0], 1, "four times as much")
        check(0 in more.answer["significant"], "everything is significant")


@case
def errors_of_samples():
    """A function's total at the root of the tree has the error of its row, and so have selves in the
    inverted tree; everywhere errors are at most the sum of their parts'."""
    with Folder() as here:
        trace = here / "t.mayfly"
        check(record([program("recursive"), "3000", "20000"], trace, "--interval", "16K").code == 0)
        for metric in ("allocated", "peak", "leaked"):
            rows = {r["function"]: r for r in
                    report(trace, "--by", "function", "--metric", metric, "--frames=all")["rows"]}
            for function in ("call", "emit", "main"):
                row = ask(trace, "callers", function=function, metric=metric,
                          **{"frames": "all"})["function"]
                for which in ("self", "total"):
                    for key in ("estimate", "stderr", "low", "high"):
                        same(row[which]["bytes"][key], rows[function][which]["bytes"][key],
                             (function, which, key))
            for unit in ("bytes", "blocks"):
                found = 0
                for invert, which in ((0, "total"), (1, "self")):
                    tree = Tree(trace, metric=metric, invert=invert, blocks=int(unit == "blocks"),
                                **{"frames": "all"})
                    a = tree.answer
                    check(abs(a["total_stderr"][0] - a["all"][unit]["stderr"]) <= .51, "error of all")
                    for i in range(1, tree.nodes):
                        if a["depth"][i] != 1:
                            continue
                        figure = rows[tree.name[i]][which][unit]
                        check(abs(a["total"][i] - figure["estimate"]) <= .51, tree.name[i], "total")
                        check(abs(a["total_stderr"][i] - figure["stderr"]) <= .51, tree.name[i],
                              unit, "error", a["total_stderr"][i], figure["stderr"])
                        same(a["samples"][i], rows[tree.name[i]][which]["samples"], "samples")
                        found += figure["stderr"] > 0
                check(found >= 4, "only", found, "errors")


@case
def lines():
    """Merged by line, a function's node becomes one for each line."""
    trace = os.path.join(SOURCE, "tests", "golden", "exact.mayfly")
    by_function, by_line = Tree(trace), Tree(trace, merge="line")
    same(by_function.answer["total"][0], by_line.answer["total"][0], "total")
    lines = defaultdict(set)
    for i, path in enumerate(by_line.path):
        lines[path].add(by_line.answer["line"][i])
    same(set(lines), set(by_function.path), "paths")
    check(max(len(l) for l in lines.values()) > 1, "no function has two lines")


@case
def kinds():
    """Whose code a node is."""
    trace = os.path.join(SOURCE, "tests", "golden", "exact.mayfly")
    tree = Tree(trace, **{"frames": "all"})
    kind = dict(zip(tree.name, tree.answer["kind"]))
    same((kind["all"], kind["main"], kind["_start"], kind["work"]), (4, 3, 3, 0), "kinds")


if __name__ == "__main__":
    main()
