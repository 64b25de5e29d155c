#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Random questions to exact traces of real programs, recounted the long way.

What mayfly report answers is held against a recount of every event of mayfly dump, which knows
nothing of how questions are answered. What Python's interpreter freed at its end is known from the second reader.
Questions are seeded: a failure names its command.
"""
import copy
import os
import random
import re
import sys
from collections import defaultdict

import second_reader
from harness import (MAYFLY, PYTHON, Folder, case, cases, check, main, need, program, read, record, report, run,
                     same)

QUESTIONS = 250  # to each of four programs
FOREVER = 2**63 - 1


class Block:
    __slots__ = ("born", "died", "lifetime", "size", "tid", "freed_by", "stack", "inherited", "temporary",
                 "number", "first", "last")

    def __init__(self, time, size, tid, stack, number, event, inherited):
        self.born, self.size, self.tid, self.stack = time, size, tid, stack
        self.number, self.first, self.last = number, event, FOREVER
        self.died = self.lifetime = FOREVER
        self.freed_by = None
        self.temporary, self.inherited = False, inherited


def kept_by_python(trace):
    """Numbers of the blocks that its interpreter freed when it had begun to end, with one of its frames on the stack."""
    trace = second_reader.Trace(read(trace))

    def is_interpreted(node):
        while node:
            frame = trace.frames[trace.frame_of[node]]
            if frame["kind"] == second_reader.CODE and frame["module"] == second_reader.NO_MODULE and (
                    frame["locations"] and frame["locations"][0]["file"]):
                return True
            node = trace.parent[node]
        return False

    end = trace.info["python_end_ns"]
    return {e.sample for e in trace.events if e.kind == "free" and e.flags & 16 and e.alloc.time < end
            and is_interpreted(e.alloc.node)}


def never_freed(block):
    block = copy.copy(block)
    block.died = block.lifetime = block.last = FOREVER
    block.freed_by, block.temporary = None, False
    return block


class History:
    """The events of a dump."""

    def __init__(self, trace):
        result = run([MAYFLY, "dump", trace])
        check(result.code == 0, "dump", result.err)
        self.blocks, self.times = [], []
        self.chains = []  # (last block, sizes)
        self.peak_event, live, most = 0, 0, 0
        sizes, waiting = {}, {}  # of chains of realloc: by block, by thread
        for line in result.out.decode().splitlines():
            if line.split(" ", 2)[1] not in ("alloc", "free"):
                continue  # what happened beside the blocks
            seconds, kind, tid, number, size, _, flags, *stack = line.split(" ", 7)
            time = int(seconds.replace(".", ""))
            tid, number, size = int(tid), int(number[1:]), int(size[5:])
            event = len(self.times)
            self.times.append(time)
            if kind == "alloc":
                same(number, len(self.blocks), "number of a block")
                stack = re.sub("^heap=[^ ]* ", "", stack[0])
                frames = () if stack == "[no stack]" else tuple(sys.intern(f) for f in stack.split(";"))
                self.blocks.append(Block(time, size, tid, frames, number, event, "i" in flags[6:]))
                live += size
                before = waiting.pop(tid, None)
                if "r" in flags[6:] and before:
                    sizes[number] = before + [size]
            else:
                block = self.blocks[number]
                block.died, block.freed_by, block.last = time, tid, event
                block.lifetime = time - block.born
                block.temporary = "t" in flags[6:]
                live -= size
                chain = sizes.pop(number, None)
                if "r" in flags[6:]:
                    waiting[tid] = chain or [size]
                elif chain:
                    self.chains.append((block, chain))
            if live > most:
                most, self.peak_event = live, event + 1
        self.chains += [(self.blocks[number], chain) for number, chain in sizes.items()]
        self.duration = self.times[-1] if self.times else 0
        kept = kept_by_python(trace)
        self.as_leaks = [never_freed(block) if block.number in kept else block for block in self.blocks]
        self.functions = sorted({f for b in self.blocks for f in b.stack
                                 if "+0x" not in f and "[" not in f})

    def moment(self, at):
        """How many events there are up to this time."""
        if at == "peak":
            return self.peak_event
        return sum(1 for time in self.times if time <= at)


def exactly(name):
    """An extended regular expression for this name and no other."""
    return "^" + re.sub(r"[.\[\]{}()*+?|^$\\]", lambda m: "\\" + m.group(), name) + "$"


class Question:
    """A random one: its options, and what it asks of the blocks."""

    def __init__(self, history, random):
        self.history = history
        self.metric = random.choice(("live", "peak", "allocated", "leaked", "temporary", "survived"))
        self.by = random.choice(("function", "stack", "thread", "size", "lifetime", "freeing-thread",
                                 "threads"))
        self.view = random.choice(("rows", "rows", "histogram size", "histogram lifetime", "churn",
                                   "reallocs"))
        if self.view in ("churn", "reallocs"):
            self.metric = "allocated"
        self.at = self.start = 0
        self.end = self.max_size = self.max_lifetime = FOREVER
        self.min_size = self.min_lifetime = 0
        self.focus, self.ignore, self.hide, self.threads = [], [], [], []
        self.show, self.show_from = [], []
        self.options = ["--by", self.by, "--frames=all"]
        if self.view.startswith("histogram"):
            self.options += ["--histogram", self.view.split()[1], "--top", "0"]
        elif self.view != "rows":
            self.options += ["--" + self.view, "--top", "0"]
        if self.view not in ("churn", "reallocs"):
            self.options += ["--metric", self.metric]
        self.choose_times(random)
        self.choose_blocks(random)
        self.choose_names(random)

    def option(self, name, value, text=None):
        self.options += ["--" + name, text or str(value)]
        return value

    def choose_times(self, random):
        times = self.history.times
        if self.metric == "live":
            self.at = random.choice(("peak", FOREVER, random.choice(times), random.randint(0, times[-1])))
            self.option("at", self.at, self.at if self.at == "peak" else
                        "end" if self.at == FOREVER else "%dns" % self.at)
        if random.random() < .3:
            self.start = random.choice(times[:len(times) * 2 // 3 + 1])
            self.option("from", self.start, "%dns" % self.start)
        if random.random() < .3:
            later = [t for t in random.choices(times, k=20) if t > self.start]
            if later:
                self.end = self.option("to", later[0], "%dns" % later[0])

    def choose_blocks(self, random):
        some = random.choices(self.history.blocks, k=4)
        if random.random() < .3:
            self.min_size = self.option("min-size", some[0].size)
        if random.random() < .3:
            self.max_size = self.option("max-size", max(some[1].size, self.min_size))
        if random.random() < .2 and some[2].lifetime < FOREVER:
            self.min_lifetime = some[2].lifetime
            self.option("min-lifetime", 0, "%dns" % self.min_lifetime)
        if random.random() < .3 and FOREVER > some[3].lifetime >= self.min_lifetime:
            self.max_lifetime = some[3].lifetime
            self.option("max-lifetime", 0, "%dns" % self.max_lifetime)

    def choose_names(self, random):
        for name, share in (("focus", .3), ("ignore", .2), ("hide", .3), ("show", .1),
                            ("show-from", .1)):
            while self.history.functions and random.random() < share:
                function = random.choice(self.history.functions)
                self.option(name, 0, exactly(function))
                getattr(self, name.replace("-", "_")).append(function)
        if random.random() < .2:
            self.threads.append(self.option("thread", random.choice(self.history.blocks).tid))

    def keeps(self, block):
        return (self.min_size <= block.size <= self.max_size
                and self.min_lifetime <= block.lifetime <= self.max_lifetime
                and self.start <= block.born < self.end
                and (not self.threads or block.tid in self.threads)
                and (not self.focus or any(f in block.stack for f in self.focus))
                and (not self.show_from or any(f in block.stack for f in self.show_from))
                and not any(f in block.stack for f in self.ignore))

    def blocks(self):
        """Those that count."""
        all_blocks = self.history.as_leaks if self.metric == "leaked" else self.history.blocks
        kept = [b for b in all_blocks if self.keeps(b)
                and not (b.inherited and self.metric in ("allocated", "temporary", "survived"))]
        if self.metric == "leaked":
            return [b for b in kept if b.died == FOREVER]
        if self.metric == "temporary":
            return [b for b in kept if b.temporary]
        if self.metric == "allocated":
            return kept
        at = {"peak": "peak", "survived": self.end}.get(self.metric, self.at)
        moment = self.history.moment(at)
        return [b for b in kept if b.first < moment <= b.last]

    def keys(self, block):
        """The row of its own, and all rows that it counts for."""
        if self.by == "thread":
            return block.tid, {block.tid}
        if self.by == "freeing-thread":
            return block.freed_by, {block.freed_by}
        if self.by == "threads":
            return (block.tid, block.freed_by), {(block.tid, block.freed_by)}
        if self.by in ("size", "lifetime"):
            key = class_of(self.by, block)
            return key, {key}
        stack = list(block.stack)
        while self.show_from and stack and stack[0] not in self.show_from:
            del stack[0]
        places = [f for f in stack if f not in self.hide and (not self.show or f in self.show)]
        code = [f for f in places if not f.startswith("[")]
        if self.by == "stack":
            if not code and (len(places) < len(stack) or not places):
                places = ["[none of them]" if self.show else
                          "[hidden]" if len(places) < len(stack) else "[no stack]"]
            return tuple(reversed(places)), {tuple(reversed(places))}
        if not code:
            key = "[none of them]" if self.show else \
                "[hidden]" if len(places) < len(stack) else "[no stack]"
            return key, {key}
        return code[-1], set(code)


def class_of(by, block):
    """Its bounds."""
    if by == "size":
        low, high = 0, 1
        while high < block.size:
            low, high = high, high * 2
        return low, high
    if block.lifetime == FOREVER:
        return FOREVER, None
    low, high = 0, 10
    while high <= block.lifetime:
        low, high = high, high * 10
    return low, high


def row_key(by, row):
    if by == "function":
        return row["function"]
    if by == "stack":
        return tuple(place["function"] for place in row["stack"])
    if by == "thread":
        return row["tid"]
    if by == "freeing-thread":
        return row["freeing_tid"]
    if by == "threads":
        return row["tid"], row["freeing_tid"]
    ends = row[by]
    return (ends["low"], ends["high"]) if by == "size" else \
        (FOREVER if ends["low_ns"] is None else ends["low_ns"], ends["high_ns"])


def figures(estimate):
    same(estimate["bytes"]["low"], estimate["bytes"]["high"], "the interval of an exact figure")
    same(estimate["samples"], estimate["blocks"]["estimate"], "samples")
    return [estimate["bytes"]["estimate"], estimate["blocks"]["estimate"]]


def sums(question, blocks):
    """{key: [bytes, blocks]} of own blocks, and of all that count."""
    own, total = defaultdict(lambda: [0, 0]), defaultdict(lambda: [0, 0])
    for block in blocks:
        key, keys = question.keys(block)
        for place, name in [(own, key)] + [(total, name) for name in keys]:
            place[name][0] += block.size
            place[name][1] += 1
    return own, total


def check_rows(question, answer, blocks):
    own, total = sums(question, blocks)
    same(figures(answer["total"]), [sum(b.size for b in blocks), len(blocks)], "total")
    got_own, got_total = defaultdict(lambda: [0, 0]), {}
    for row in answer["rows"]:
        key = row_key(question.by, row)
        for i, figure in enumerate(figures(row["self"])):
            got_own[key][i] += figure
        got_total[key] = figures(row["total"])
    same({k: v for k, v in got_own.items() if v != [0, 0]}, dict(own), "self")
    # Stacks that differ in lines alone have names in common.
    if question.by != "stack":
        same(got_total, dict(total), "totals")


def check_histogram(question, answer, blocks):
    by = question.view.split()[1]
    expected, got = defaultdict(lambda: [0, 0]), defaultdict(lambda: [0, 0])
    ends = [(c["low"], c["high"]) if by == "size" else (c["low_ns"], c["high_ns"])
            for c in answer["classes"]]
    for block in blocks:
        cell = expected[question.keys(block)[0], class_of(by, block)]
        cell[0] += block.size
        cell[1] += 1
    for row in answer["rows"]:
        for i, end in enumerate(ends):
            cell = got[row_key(question.by, row), end]
            cell[0] += row["bytes"][i]
            cell[1] += row["blocks"][i]
            same(row["blocks"][i], row["samples"][i], "samples")
    same({k: v for k, v in got.items() if v != [0, 0]}, dict(expected), "cells")
    same(set(answer["others"]["samples"]) - {0}, set(), "what no row has")


def check_churn(question, answer, blocks):
    start, end = answer["from_ns"], answer["to_ns"]
    lived = defaultdict(int)
    for block in blocks:
        lived[question.keys(block)[0]] += block.size * max(0, min(block.died, end) - block.born)
    got = defaultdict(int)
    for row in answer["rows"]:
        got[row_key(question.by, row)] += row["mean_live_bytes"]
        bytes = row["self"]["bytes"]["estimate"]
        if row["mean_live_bytes"] > 1000:
            check(abs(row["churn"] * row["mean_live_bytes"] / bytes - 1) < .001, "churn", row)
    for key in set(got) | set(lived):
        rows = sum(1 for row in answer["rows"] if row_key(question.by, row) == key)
        check(abs(got[key] - lived[key] / (end - start)) <= .51 * max(1, rows), "mean live of", key,
              got[key], lived[key] / (end - start))
    check_rows(question, answer, blocks)


def check_reallocs(question, answer, _):
    names = ("chains", "reallocs", "copied_bytes", "first_bytes", "last_bytes")
    expected, got = defaultdict(lambda: [0] * 6), defaultdict(lambda: [0] * 6)
    for block, sizes in question.history.chains:
        if not question.keeps(block):
            continue
        copied = sum(min(pair) for pair in zip(sizes, sizes[1:]))
        row = expected[question.keys(block)[0]]
        for i, n in enumerate((1, len(sizes) - 1, copied, sizes[0], sizes[-1])):
            row[i] += n
        row[5] = max(row[5], len(sizes) - 1)
    for row in answer["rows"]:
        cell = got[row_key(question.by, row)]
        for i, name in enumerate(names):
            cell[i] += row[name]
        cell[5] = max(cell[5], row["longest_chain"])
    same({k: v for k, v in got.items() if v[0]}, dict(expected), "chains")
    same([answer["total"][name] for name in names],
         [sum(row[i] for row in expected.values()) for i in range(5)], "total")


# The child frees, grows and keeps what it inherits, and makes blocks of its own.
FORKS = '''my @a; push @a, "x" x $_ for 1..200; if (fork) { wait; exit; }
splice @a, 0, 50; $_ .= "y" x 500 for @a[0..40]; push @a, "z" x $_ for 1..300; print join ",", @a'''

PROGRAMS = {
    "known": lambda: [program("known"), "3", "4", "300"],
    "perl": lambda: ["perl", "-e", 'my @a; push @a, "x" x $_ for 1..200; print join ",", @a'],
    "python": lambda: [*PYTHON, "-c", "pass"],
    "forked": lambda: ["perl", "-e", FORKS],
    "ls": lambda: ["ls", "-l", "/"],
}


@cases(PROGRAMS)
def questions(name):
    command = PROGRAMS[name]()
    need(os.path.basename(command[0])) if "/" not in command[0] else None
    random.seed("brute force " + name)
    with Folder() as here:
        trace = here / "t.mayfly"
        result = record(command, trace, "--exact", *(["--follow"] if name == "forked" else []))
        check(result.code == 0, name, result)
        if name == "forked":
            trace, = here.files("t.*.mayfly")
        history = History(trace)
        check(len(history.blocks) > 100, name, "allocated", len(history.blocks), "blocks")
        found = 0
        for _ in range(QUESTIONS):
            question = Question(history, random)
            blocks = question.blocks()
            try:
                answer = report(trace, *question.options)
                {"rows": check_rows, "churn": check_churn, "reallocs": check_reallocs}.get(
                    question.view, check_histogram)(question, answer, blocks)
            except AssertionError as error:
                raise AssertionError("report %s: %s" % (" ".join(question.options), error))
            found += len(blocks) > 0
        check(found > QUESTIONS / 3, "only", found, "questions have an answer")
        same(sum(b.inherited for b in history.blocks) > 1000, name == "forked", "inherited blocks")
        if name in ("known", "perl"):
            check(len(history.chains) > 10, "chains of realloc:", len(history.chains))


@case
def a_whole_of_parts():
    """What is temporary in two halves of the run, and shorter or longer than a time, is all of it."""
    with Folder() as here:
        trace = here / "t.mayfly"
        check(record([program("known"), "5", "2", "2000"], trace, "--exact").code == 0)
        history = History(trace)
        middle = history.times[len(history.times) // 2]
        lifetimes = sorted(b.lifetime for b in history.blocks if b.temporary)
        check(len(lifetimes) > 100, len(lifetimes), "temporary blocks")
        limit = lifetimes[len(lifetimes) // 2]
        parts = [report(trace, "--metric", "temporary", *window, *lifetime)["total"]["samples"]
                 for window in (["--to", "%dns" % middle], ["--from", "%dns" % middle])
                 for lifetime in (["--max-lifetime", "%dns" % limit],
                                  ["--min-lifetime", "%dns" % (limit + 1)])]
        same(sum(parts), len(lifetimes), "temporary blocks")
        same(parts[0] + parts[2], sum(1 for life in lifetimes if life <= limit), "short ones")


if __name__ == "__main__":
    main()
