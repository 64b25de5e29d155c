#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of a runtime that uses mayfly/memprof.h (examples/minigc): by themselves, and recorded."""
import os
import re

from harness import Folder, Skip, case, cases, check, environment, main, program, record, report, run, same

LIST_WORDS = 3 * (1000 + 2000 * 1000)
TREE_NODES = 60 * (2 ** 14 - 1)


def places(*arguments):
    """{(function, line): [words, live words]} that the program's own profiler prints."""
    result = run([program("minigc"), *arguments])
    check(result.code == 0, result)
    rows = re.findall(r"^ *(\d+) +(\d+)  (\w+) \(programs\.c:(\d+)\)$", result.out.decode(), re.M)
    return {(name, int(line)): [int(words), int(live)] for words, live, name, line in rows}


def by_function(found):
    sums = {}
    for (name, _), (words, _) in found.items():
        sums[name] = sums.get(name, 0) + words
    return sums


@case
def everything_sampled():
    """At rate 1 the figures are exact."""
    same(by_function(places("list", "1")), {"cons": LIST_WORDS}, "list")


@case
def combined_objects_have_places_of_their_own():
    """Node and payload come from one check: 4 and 3 words, in two lines."""
    found = places("tree", "1")
    (node, words), (payload, others) = sorted((line, words) for (name, line), (words, _)
                                              in found.items())
    same((words, others), (4 * TREE_NODES, 3 * TREE_NODES), "words of nodes and payloads")
    same(payload, node + 1, "line of the payload")


@case
def sampled():
    """A standard error of 1 %, and one seed."""
    words = by_function(places("list", "0.002"))["cons"]
    check(abs(words / LIST_WORDS - 1) < 0.04, words)


@case
def off():
    same(places("list", "0"), {}, "places")


@case
def recorded():
    """The program's functions and lines are in the trace, with the words of its heap."""
    with Folder() as here:
        plain = run([program("minigc"), "tree"])
        trace = here / "t.mayfly"
        watched = record([program("minigc"), "tree"], trace, "--ocaml=0.001")
        same((watched.code, watched.out), (plain.code, plain.out), "output")
        rows = report(trace, "--metric", "allocated", "--by", "function")["rows"]
        bytes_of = {row["function"]: row["total"]["bytes"]["estimate"] for row in rows}
        for function in ("tree", "run_tree"):
            check(abs(bytes_of[function] / (8 * 7 * TREE_NODES) - 1) < 0.1, function, bytes_of)
        named = {row["label"]: row["total"]["bytes"]["estimate"]
                 for row in report(trace, "--metric", "allocated", "--by", "label:heap", "--heap", "ocaml")["rows"]}
        check(list(named) == ["minigc"] and abs(named["minigc"] / (8 * 7 * TREE_NODES) - 1) < 0.1, named)
        lines = report(trace, "--metric", "allocated", "--by", "line")["rows"]
        check(any("programs.c" in str(row) for row in lines), lines)
        check(b"JIT" not in run([program("../src/cli/mayfly"), "report", trace]).out,
              "frames with names are no unknown code")


@case
def recorded_without_heaps():
    """Nobody wants samples of the program's heap: it runs as ever."""
    with Folder() as here:
        watched = record([program("minigc"), "list"], here / "t.mayfly", "--ocaml=off")
        same((watched.code, watched.out), (0, b"499500\n"), "output")


FORKED_WORDS = 1000


def sums(trace, metric):
    """{function: bytes} of the host's own functions."""
    rows = report(trace, "--metric", metric, "--by", "function", "--all", "--heap", "ocaml")["rows"]
    return {row["function"]: row["self"]["bytes"]["estimate"] for row in rows}


@cases(["memprof_linked", "memprof_linked_static"])
def linked(name):
    """libmayfly.a in the program: MAYFLY alone records its heap, without mayfly record."""
    size = 8 * 1000 * FORKED_WORDS
    if not os.path.exists(program(name)):
        raise Skip(name + " could not be built here")
    with Folder() as here:
        plain = run([program(name), "2", "1000"], cwd=here.path)
        same((plain.code, plain.out, plain.err, here.files("*")), (0, b"child\nchild\nparent\n", b"", []), "without MAYFLY")
        spool = here / "s.spool"
        done = run([program(name), "2", "1000"], env=environment(MAYFLY="ocaml=1,output=%s" % spool))
        same((done.code, done.out, done.err), (0, plain.out, b""), "output")
        same(sums(spool, "allocated"), {"before": size, "parent": size}, "allocated")
        same(sums(spool, "live"), {"before": size, "parent": size}, "live")


@case
def forks_followed():
    """A child's trace has names, what it inherited less what it freed, and only its own allocations."""
    size = 8 * 1000 * FORKED_WORDS
    with Folder() as here:
        done = record([program("memprof_fork"), "2", "1000"], here / "t.mayfly", "--follow", "--ocaml=1")
        same((done.code, done.out), (0, b"child\nchild\nparent\n"), "output")
        same(sums(here / "t.mayfly", "allocated"), {"before": size, "parent": size}, "of the parent")
        same(sums(here / "t.mayfly", "live"), {"before": size, "parent": size}, "the parent's, live")
        children = here.files("t.*.mayfly")
        same(len(children), 2, "children")
        for child in children:
            same(sums(child, "allocated"), {"child": size}, "of a child")
            same(sums(child, "live"), {"before": size / 2, "child": size}, "a child's, live")


@case
def forks_not_followed():
    """Children run as ever, and leave the parent's trace alone."""
    size = 8 * 1000 * FORKED_WORDS
    with Folder() as here:
        done = record([program("memprof_fork"), "2", "1000"], here / "t.mayfly", "--ocaml=1")
        same((done.code, done.out), (0, b"child\nchild\nparent\n"), "output")
        same(sums(here / "t.mayfly", "live"), {"before": size, "parent": size}, "the parent's, live")
        same(here.files("t.*.mayfly"), [], "traces of children")


@case
def children_draw_their_own_samples():
    """Parent and children make the same blocks: 40,000 of a word, at a rate of 1/1,000."""
    lines = run([program("memprof_fork"), "positions", "3"]).out.decode().splitlines()
    same(len(lines), 4, "processes")
    for i, one in enumerate(lines):
        check(len(one.split()) > 10, one)
        for other in lines[:i]:
            shared = set(one.split()) & set(other.split())
            check(len(shared) < 5, "sampled in two processes:", shared)


@case
def no_extra_branch():
    """The allocation of a pair has one conditional jump, the heap's own, and knows no engine."""
    text = run(["objdump", "-d", "--no-show-raw-insn", program("minigc")]).out.decode()
    body = re.search(r"^[0-9a-f]+ <cons>:\n(.*?)\n\n", text, re.M | re.S).group(1)
    jumps = re.findall(r"\t(?:j(?!mp)\w+|b\.\w+|cbn?z|tbn?z)\b.*", body)
    same(len(jumps), 1, "conditional jumps in cons: " + " ".join(jumps))
    check("memprof" not in body, body)


if __name__ == "__main__":
    main()
