#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that no loader or no malloc leads to the agent: static ones that have it linked into
them, and those whose allocator reports its blocks (mayfly/mayfly.h, examples/rust)."""
import json
import os
import subprocess

from harness import (Folder, Skip, case, cases, check, environment, info, main, mayfly, program,
                     record, report, run, same, sane)


def need(name):
    if not os.path.exists(program(name)):
        raise Skip(name + " could not be built here")
    return program(name)


def recorded(here, command, *options, env=None):
    """The trace; the program prints and returns what it does without mayfly."""
    env = env or environment()
    plain = run(command, env=env)
    trace = here / "t.mayfly"
    watched = record(command, trace, *options, env=env)
    same((watched.code, watched.out, watched.err), (plain.code, plain.out, plain.err), command)
    return trace, plain.out.decode()


def figures(trace, metric):
    """{function: [bytes, blocks]} of the blocks that functions and what they call allocate."""
    rows = report(trace, "--metric", metric, "--by", "function")["rows"]
    return {row["function"]: [row["total"]["bytes"]["estimate"], row["total"]["blocks"]["estimate"]]
            for row in rows}


def truth_of(text):
    """What reporting prints: {function: ([bytes, blocks], [live bytes, live blocks])}."""
    lines = [line.split() for line in text.splitlines()]
    return {name: ([int(a), int(b)], [int(c), int(d)]) for name, a, b, c, d in lines}


REPORTING = ["reporting", "reporting_malloc", "linked_reporting", "linked_reporting_pie"]


@cases("%s %d" % (name, threads) for name in REPORTING for threads in (1, 4))
def reported_exactly(what):
    name, threads = what.split()
    need(name)
    with Folder() as here:
        trace, out = recorded(here, [program(name), threads], "-x")
        allocated, leaked = figures(trace, "allocated"), figures(trace, "leaked")
        for function, (all_of, live) in truth_of(out).items():
            same(allocated[function], all_of, "allocated by " + function)
            same(leaked[function], live, "leaked by " + function)
        same(info(trace)["note"], None, "note")
        heaps = report(trace, "--heap", "malloc", "--by", "function")["rows"]
        check(any(row["function"] == "keep_some" for row in heaps), "not in the heap of malloc")


@cases(REPORTING)
def reported_sampled(name):
    need(name)
    with Folder() as here:
        trace, out = recorded(here, [program(name), "4"], "-i", "4K", env=environment(MAYFLY="seed=7"))
        sane(trace)
        for metric, at in (("allocated", 0), ("leaked", 1)):
            for row in report(trace, "--metric", metric, "--by", "function")["rows"]:
                if row["function"] in truth_of(out):
                    true = truth_of(out)[row["function"]][at][0]
                    figure = row["total"]["bytes"]
                    check(abs(figure["estimate"] - true) <= 5 * figure["stderr"], metric, "by",
                          row["function"], figure, "not", true)


@case
def rust():
    demo = need("rust_demo")
    with Folder() as here:
        trace, _ = recorded(here, [demo], "-x")
        rows = {row["function"]: row for row in
                report(trace, "--metric", "leaked", "--by", "function")["rows"]}
        kept = rows["demo::keep_pages"]["total"]
        same([kept["bytes"]["estimate"], kept["blocks"]["estimate"]],
             [3000 * 4096 + 3000 * 8, 3001], "pages that are kept")
        text = mayfly("report", "--metric", "allocated", trace).out.decode()
        check("grow_text" in text, text)
        check("GlobalAlloc" not in text, "the allocator's frames are shown:", text)


@cases(["linked_known", "linked_known_pie"])
def linked(name):
    """The same figures as the program knows."""
    need(name)
    with Folder() as here:
        trace, out = recorded(here, [program(name), "3", "1", "3000"], "-x")
        truth = json.loads(out)
        for metric, key in (("allocated", "allocated"), ("leaked", "live"), ("peak", "peak")):
            found = figures(trace, metric)
            for function, known in truth.items():
                same(found.get(function, [0, 0]), known[key], "%s by %s" % (metric, function))
        sane(trace)
        same(info(trace)["note"], None, "note")


@case
def linked_deep():
    with Folder() as here:
        trace, _ = recorded(here, [need("linked_recursive")], "-x")
        # gcc 14's start-up code allocates below a function that has no unwind information.
        same([event for event in mayfly("dump", trace).text.splitlines()
              if "[stack cut]" in event and "[stack cut];frame_dummy;" not in event], [],
             "stacks that were cut")


@case
def linked_alone():
    """Without mayfly the linked agent does nothing, whatever is in the environment."""
    with Folder() as here:
        plain = run([need("static"), "x"])
        for env in (environment(), environment(MAYFLY="output=/nonexistent/%p")):
            done = run([program("linked_static"), "x"], env=env, cwd=str(here / "."))
            same((done.code, done.out, done.err), (plain.code, plain.out, plain.err), env)
        same(os.listdir(str(here / ".")), [], "files")


@case
def linked_by_hand():
    """MAYFLY alone records it, as it does a preloaded program."""
    with Folder() as here:
        spool = here / "s.spool"
        run([need("linked_static")], env=environment(MAYFLY="exact=1,output=%s" % spool))
        rows = report(spool, "--metric", "allocated", "--by", "function")["rows"]
        own = [row["self"] for row in rows if row["function"] == "main"][0]
        same([own["bytes"]["estimate"], own["blocks"]["estimate"]],
             [sum(100 * i for i in range(1000)), 1000], "blocks of main")


@case
def not_linked():
    with Folder() as here:
        done = run([os.environ["MAYFLY_BUILD"] + "/mayfly", "record", "-o", here / "t.mayfly", "--",
                    need("static")])
        check(b"libmayfly.a" in done.err, done.err)


@case
def one_object():
    """It shows the program nothing but the hooks and the tables."""
    archive = os.path.join(os.environ["MAYFLY_BUILD"], "src", "agent", "libmayfly.a")
    done = subprocess.run(["nm", "-g", "--defined-only", archive], stdout=subprocess.PIPE, check=True)
    names = [line.split()[-1] for line in done.stdout.decode().splitlines() if len(line.split()) == 3]
    for name in names:
        check(name.startswith("__wrap_") or name in
              ("mayfly_agent_calls", "mayfly_agent_allocator", "mayfly_agent_heaps", "free_sized", "free_aligned_sized",
               "reallocarray"), name)


main()
