#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""OCaml programs (tests/programs/ocaml.ml) under `mayfly record`: what they do is the same, what
they are known to allocate lies in the intervals of the estimates, places and names are right, and
programs that cannot be recorded run on with a note that says why."""
import functools
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile

from harness import (Folder, MAYFLY, SOURCE, Skip, case, cases, check, environment, info,
                     main, record, report, rows, run, same, sane, unchanged)
from ocaml_tools import ocaml_version

WORD = 8


@functools.lru_cache(maxsize=None)
def folder():
    return tempfile.TemporaryDirectory(prefix="mayfly-ocaml-")


@functools.lru_cache(maxsize=None)
def built(name, kind="ocamlopt", options=()):
    """tests/programs/ocaml.ml with its stubs, compiled; None: it does not compile so."""
    ocaml_version()
    out = os.path.join(folder().name, name)
    work = out + ".d"
    os.mkdir(work)
    for source in ("ocaml_stubs.c", "ocaml.ml"):
        shutil.copy(os.path.join(SOURCE, "tests", "programs", source), work)
    done = subprocess.run(["ocamlfind", kind, "-thread", "-package", "unix,threads.posix",
                           "-linkpkg", "-g", *options, "ocaml_stubs.c", "ocaml.ml", "-o", out],
                          cwd=work, capture_output=True, text=True)
    if done.returncode and not options:
        raise AssertionError(done.stderr)
    return out if not done.returncode else None


def program():
    return built("ocaml.exe")


def interval(row, slack=1.5):
    low, high, middle = (row["bytes"][k] for k in ("low", "high", "estimate"))
    return middle - slack * (middle - low), middle + slack * (high - middle)


def holds(row, expected, what):
    low, high = interval(row)
    check(low <= expected <= high, what, "is", expected, "and not in", low, high)


def ocaml(trace, *options):
    return rows(trace, "--heap", "ocaml", "--metric", "allocated", "--all", "--frames=all", *options)


# ---- known sizes ----

@cases(["1e-2", "1e-3", "1e-4"])
def lists(rate):
    n = 100000
    with Folder() as here:
        trace = here / "t.mayfly"
        watched = unchanged([program(), "lists", str(n)], trace, "--ocaml=" + rate)
        same(watched.code, 0, "exit status")
        facts = sane(trace)
        same(facts["ocaml_rate"], float(rate), "rate")
        found = ocaml(trace)
        mapped = found["Stdlib.List.map"]
        holds(mapped["self"], 3 * WORD * n, "List.map")
        check(mapped["file"] and mapped["file"].endswith("list.ml"), mapped)
        [count] = [row for name, row in found.items() if name.endswith(".count")]
        holds(count["self"], 3 * WORD * n, "count")
        check(count["file"].endswith("ocaml.ml"), count)
        blocks = mapped["self"]["blocks"]
        check(blocks["low"] * 0.9 <= n <= blocks["high"] * 1.1, "blocks", blocks)


@case
def tables():
    n = 100000
    with Folder() as here:
        trace = here / "t.mayfly"
        unchanged([program(), "tables", str(n)], trace, "--ocaml=1e-3")
        found = ocaml(trace)
        add = found["Stdlib.Map.Make.add"]
        # n insertions into a tree of up to n: between log2 n / 2 and 1.5 log2 n copies each.
        check(n * 6 * WORD * 8 < add["total"]["bytes"]["estimate"] < n * 6 * WORD * 26, add)
        resize = report(trace, "--heap", "ocaml-major", "--metric", "allocated")
        # The table's array doubles up to 65536 words, with a second one to fill it by.
        holds(resize["total"], 2 * sum(WORD * (1 + (16 << k)) for k in range(5, 13)), "table")


@case
def bigarrays():
    n = 500
    with Folder() as here:
        trace = here / "t.mayfly"
        unchanged([program(), "bigarrays", str(n)], trace, "--ocaml=1e-3")
        external = report(trace, "--heap", "external", "--metric", "allocated")
        # Channels are custom blocks with memory outside the heap, too.
        low, high = interval(external["total"])
        check(low <= n * 65536 + 8 * 65536 and high >= n * 65536, external["total"])
        live = report(trace, "--heap", "external", "--metric", "live")["total"]["bytes"]
        check(live["estimate"] < 20 * 65536, "collected arrays count as live", live)
        plain = report(trace, "--heap", "malloc", "--metric", "allocated")["total"]
        check(plain["bytes"]["high"] > n * 65536, "malloc has them, too", plain)


@case
def exceptions():
    with Folder() as here:
        unchanged([program(), "exceptions", "20000"], here / "t.mayfly", "--ocaml=1e-2")
        found = ocaml(here / "t.mayfly")
        [search] = [row for name, row in found.items() if name.endswith(".search")]
        # Found (4 words) and its string (4 words), each time.
        holds(search["total"], 20000 * (4 + 4) * WORD, "search")


@case
def threads():
    n = 20000
    with Folder() as here:
        unchanged([program(), "threads", str(n)], here / "t.mayfly", "--ocaml=1e-3")
        facts = sane(here / "t.mayfly")
        check(facts["threads"] >= 4, facts["threads"], "threads")
        found = ocaml(here / "t.mayfly")
        [arrays] = [row for name, row in found.items() if name.endswith(".make_arrays")]
        holds(arrays["total"], 4 * n * 301 * WORD, "arrays")


@case
def mixed_with_c():
    n = 500
    with Folder() as here:
        trace = here / "t.mayfly"
        unchanged([program(), "mixed", str(n)], trace, "-i", "16K", "--ocaml=1e-2")
        c = rows(trace, "--heap", "malloc", "--metric", "allocated")["take"]
        holds(c["self"], n * 10 * 10000, "C blocks")
        strings = [row for name, row in ocaml(trace).items() if name.endswith(".mixed")]
        low = n * 1008
        check(strings and strings[0]["total"]["bytes"]["high"] > low, strings)
        # A C stack goes on into OCaml, with names of OCaml's.
        stacks = report(trace, "--heap", "malloc", "--by", "stack", "--metric", "allocated")["rows"]
        stack = next(s["stack"] for s in stacks if s["stack"][0]["function"] == "take")
        names = [place["function"] for place in stack]
        check("stub_blocks" in names, names)
        check("Ocaml.mixed" in names, names)
        heaps = {row["heap"]: row for row in report(trace, "--by", "heap")["rows"]}
        check({"malloc", "ocaml-minor"} <= set(heaps), heaps)


@case
def marshalled():
    with Folder() as here:
        unchanged([program(), "marshal", "200000"], here / "t.mayfly", "--ocaml=1e-3")
        found = report(here / "t.mayfly", "--heap", "ocaml", "--metric", "allocated")
        # Twice a list of strings (3 + 2 words each; those above 99999999 do not occur).
        low, high = interval(found["total"])
        check(high > 2 * 200000 * 5 * WORD, found["total"])


@case
def promotions():
    with Folder() as here:
        done = record([program(), "promotions", "1000000"], here / "t.mayfly", "--ocaml=1e-3")
        minor, promoted, major = (float(word) for word in done.err.split()[:3])
        found = report(here / "t.mayfly", "--heap", "ocaml-minor", "--metric", "allocated")
        holds(found["total"], minor * WORD, "what the minor heap got")
        direct = report(here / "t.mayfly", "--heap", "ocaml-major", "--metric", "allocated")
        low, high = interval(direct["total"])
        # OCaml 5 counts blocks of the major heap later: there is the array.
        words = major - promoted if ocaml_version() < (5, 0) else 100001
        check(low <= words * WORD <= high, "major heap", words, low, high)
        dump = run([MAYFLY, "dump", "--json", here / "t.mayfly"]).out
        events = [json.loads(line) for line in dump.splitlines()]
        weights = [e["weight_bytes"] for e in events if e.get("event") == "promote"]
        error = 3 * (sum(w * w for w in weights) ** 0.5)
        check(abs(sum(weights) - promoted * WORD) < error, sum(weights), "and not", promoted * WORD,
              "+-", error)
        state = {}
        for e in events:
            if e.get("event") == "promote":
                same(state.get(e["sample"]), "alloc", "a promoted block")
            if "sample" in e:
                state[e["sample"]] = e["event"]


# ---- stacks ----

def stacks(trace):
    """The OCaml stacks of a trace with their bytes: from the root, and how many frames each lacks."""
    text = run([MAYFLY, "export", "--to", "folded", "--heap", "ocaml", "--metric", "allocated",
                "--frames=all", "-o", "-", trace]).out.decode()
    for line in text.splitlines():
        path, size = line.rsplit(" ", 1)
        yield path.split(";"), sum(map(int, re.findall(r"(\d+) frames left out", path))), int(size)


@case
def whole_stacks():
    """The cells of a list are made on the way back, one at each depth. None is left out, and all have their
    caller, although only both ends of deep stacks are kept."""
    n = 2600 if ocaml_version() < (5, 0) else 2000 # of which OCaml 5 is asked for all
    with Folder() as here:
        unchanged([program(), "lists", str(n)], here / "t.mayfly", "--ocaml=1")
        depths = {}
        for path, missing, size in stacks(here / "t.mayfly"):
            calls = sum(name.endswith(".count") for name in path)
            if path[-1].endswith(".count"):
                same(path[:2], ["caml_program", "Ocaml"], "the root")
                depths[calls + missing] = depths.get(calls + missing, 0) + size
                same(missing > 0, len(path) + missing > 2047, "left out of %d" % len(path))
        depths[1] -= 4 * WORD # the closure of `count`
        other = {depth: size for depth, size in depths.items() if size != 3 * WORD}
        same((sorted(depths), other), (list(range(1, n + 1)), {}), "cells by depth")
        # A sample of malloc in a thread that has no root is no matter of OCaml's.
        cut = [path for path, _, _ in stacks(here / "t.mayfly") if path[0] == "[stack cut]"]
        same((cut, note_of(here / "t.mayfly")), ([], ""), "cut")


@case
def limited_stacks():
    with Folder() as here:
        unchanged([program(), "lists", "3000"], here / "t.mayfly", "--ocaml=1e-2", "--ocaml=frames=100")
        facts = info(here / "t.mayfly")
        check(facts["truncated_stacks"] > 0 and facts["ocaml_rate"] == 0.01, facts)
        check("ocaml_frames=100" in facts["note"], facts["note"])
        longest = max((path for path, _, _ in stacks(here / "t.mayfly")), key=len)
        same((longest[0], len(longest)), ("[stack cut]", 101), "a mark and frames")
        for wrong in "frames=0", "frames=1048577", "frames=x", "frames=":
            refused = run([MAYFLY, "record", "--ocaml=" + wrong, program(), "lists", "1"])
            same(refused.code, 125, wrong)
            check(b"1 to 1048576" in refused.err, refused)


# ---- every block ----

def exact_sum(trace, heap, metric="allocated", *options):
    total = report(trace, "--heap", heap, "--metric", metric, *options)["total"]["bytes"]
    same((total["low"], total["high"]), (total["estimate"],) * 2, "the interval of %s" % heap)
    return total["estimate"]


@case
def every_word_is_counted():
    """As the program alone counts its words: with the sampler, the counters have its words, too."""
    words, recorded_bytes = [], []
    with Folder() as here:
        for n in 22000, 40000: # whose figures have as many digits, which are strings, too
            alone = run([program(), "promotions", str(n)]).err.split()
            words.append(float(alone[0]))
            done = record([program(), "promotions", str(n)], here / "t.mayfly", "-x", "--force")
            same(done.code, 0, "exit status")
            recorded_bytes.append(exact_sum(here / "t.mayfly", "ocaml-minor"))
            same(exact_sum(here / "t.mayfly", "ocaml-major"), WORD * 100001, "the array")
        # OCaml 5 counts words when it collects: there are two cells of 3 words for each number.
        more = words[1] - words[0] if ocaml_version() < (5, 0) else 6 * (40000 - 22000)
        same(recorded_bytes[1] - recorded_bytes[0], WORD * more, "minor words")
        facts = info(here / "t.mayfly")
        same((facts["complete"], facts["mode"], facts["ocaml_rate"]), (True, "exact", 1), "facts")
        state = {}
        for line in run([MAYFLY, "dump", "--json", here / "t.mayfly"]).out.splitlines():
            e = json.loads(line)
            if e.get("event") == "promote":
                same(state.get(e["sample"]), "alloc", "a promoted block")
            if "sample" in e:
                state[e["sample"]] = e["event"]
        check(list(state.values()).count("promote") >= 20000, "half of the cells are kept")


@case
def every_block_of_both():
    n = 300
    with Folder() as here:
        trace = here / "t.mayfly"
        unchanged([program(), "mixed", str(n)], trace, "-x")
        same(rows(trace, "--heap", "malloc", "--metric", "allocated")["take"]["self"]["bytes"]["estimate"],
             n * 10 * 10000, "C blocks")
        unchanged([program(), "mixed", str(n)], here / "c.mayfly", "-x", "--ocaml=off")
        for metric in "allocated", "peak":
            same(rows(trace, "--heap", "malloc", "--metric", metric).get("take"),
                 rows(here / "c.mayfly", "--heap", "malloc", "--metric", metric).get("take"), metric)
        unchanged([program(), "bigarrays", "200"], here / "b.mayfly", "-x")
        same(exact_sum(here / "b.mayfly", "external", "allocated", "--focus", "bigarrays"), 200 * 65536, "Bigarrays")


@case
def exact_children():
    with Folder() as here:
        unchanged([program(), "forks", "2000"], here / "t.mayfly", "-x", "--follow")
        for name in glob.glob(here / "*.mayfly"):
            same(ocaml(name)["Stdlib.List.map"]["self"]["bytes"]["estimate"], 2000 * 3 * WORD, name)
            check(info(name)["complete"], name, "is cut off")


@case
def tables_of_the_sampler():
    """They are mayfly's doing, so no figure of the program has them, and --rss shows them."""
    with Folder() as here:
        for number in range(10):
            trace = here / ("%d.mayfly" % number)
            same(record([program(), "promotions", "50000"], trace, "-x").code, 0, "exit status")
            for metric in "peak", "leaked", "allocated":
                found = report(trace, "--metric", metric, "--focus", "^caml_memprof_", "--frames=all")
                same(found["total"]["bytes"]["estimate"], 0, metric)
            last = report(trace, "--rss")["moments"][-1]["blocks"]
            # OCaml 5 gives everything back at its end, and the last reading may come after that.
            if last["in_use"] > 4096:
                break
        check(last["ocaml_sampler"] > 0, last)
        plain = report(trace, "--metric", "peak")["total"]["bytes"]["estimate"]
        check(plain < 6 << 20, "peak", plain)


@case
def exact_and_thinned():
    """What is kept of every block stands for all."""
    n = 300000
    with Folder() as here:
        done = record([program(), "promotions", str(n)], here / "t.mayfly", "-x", "--max-size=64K")
        same(done.code, 0, "exit status")
        check(info(here / "t.mayfly")["thinned"], "it was not thinned")
        total = report(here / "t.mayfly", "--heap", "ocaml-minor", "--metric", "allocated")["total"]
        holds(total, n * 6 * WORD, "cells")


# ---- the program is not disturbed ----

@cases(["lists", "tables", "bigarrays", "exceptions", "threads", "mixed", "collections", "marshal"])
def rate_1e_2(name):
    n = {"lists": 20000, "tables": 5000, "bigarrays": 300, "collections": 4000}.get(name, 2000)
    with Folder() as here:
        unchanged([program(), name, str(n)], here / "t.mayfly", "--ocaml=1e-2")
        sane(here / "t.mayfly")


@case
def every_word():
    with Folder() as here:
        unchanged([program(), "collections", "1500"], here / "t.mayfly", "--ocaml=1")
        sane(here / "t.mayfly", 1000)


@case
def fails():
    with Folder() as here:
        watched = unchanged([program(), "fails", "100000"], here / "t.mayfly", "--ocaml=1e-3")
        same(watched.code, 2, "exit status")
        check(b"at the end" in (watched.err if isinstance(watched.err, bytes)
                                else watched.err.encode()), watched)
        sane(here / "t.mayfly", 10)


@cases(["alone", "followed"])
def forks(how):
    options = ["--follow"] if how == "followed" else []
    with Folder() as here:
        unchanged([program(), "forks", "100000"], here / "t.mayfly", "--ocaml=1e-3", *options)
        traces = sorted(glob.glob(here / "*.mayfly"))
        same(len(traces), 2 if options else 1, "traces %r" % traces)
        for name in traces:
            found = ocaml(name)
            holds(found["Stdlib.List.map"]["self"], 100000 * 3 * WORD, name)


@case
def stripped():
    with Folder() as here:
        bare = here / "bare"
        shutil.copy(program(), bare)
        subprocess.run(["strip", bare], check=True)
        unchanged([bare, "lists", "100000"], here / "t.mayfly", "--ocaml=1e-3")
        found = ocaml(here / "t.mayfly")
        holds(found["Stdlib.List.map"]["self"], 100000 * 3 * WORD, "List.map")
        # The runtime's own functions have lost their names; the labels around the units of the
        # standard library, which lies before it, are no names for them.
        unchanged([bare, "lists", "1000"], here / "all.mayfly", "-x")
        dump = run([MAYFLY, "dump", here / "all.mayfly"])
        check(b"caml_startup" in dump.out and b"code_end" not in dump.out
              and b"code_begin" not in dump.out, dump)


@case
def frees_are_told():
    """Nothing but the last list is live when all else has been collected."""
    with Folder() as here:
        unchanged([program(), "collections", "4000"], here / "t.mayfly", "--ocaml=1e-2")
        facts = info(here / "t.mayfly")
        check(facts["frees"] > facts["samples"] / 2, facts["frees"], facts["samples"])


# ---- what is not recorded says so ----

def note_of(trace):
    return info(trace)["note"] or ""


@case
def bytecode():
    ocaml_version()
    with Folder() as here:
        with open(here / "b.ml", "w") as f:
            f.write("let () = print_int (List.length (List.init 100000 string_of_int))")
        done = subprocess.run(["ocamlfind", "ocamlc", "-o", here / "b.byte", here / "b.ml"])
        same(done.returncode, 0, "ocamlc")
        unchanged(["ocamlrun", here / "b.byte"], here / "t.mayfly")
        check("bytecode" in note_of(here / "t.mayfly"), note_of(here / "t.mayfly"))
        same(info(here / "t.mayfly")["ocaml_rate"], None, "rate")


@case
def statically_linked():
    out = built("ocaml.static", options=("-ccopt", "-static"))
    if not out:
        raise Skip("static linking does not work here")
    with Folder() as here:
        plain = run([out, "lists", "1000"])
        watched = record([out, "lists", "1000"], here / "t.mayfly")
        same((watched.code, watched.out), (plain.code, plain.out), "behaviour")


@case
def memtrace_is_asked_for():
    with Folder() as here:
        env = environment(MEMTRACE=here / "m.ctf")
        unchanged([program(), "lists", "1000"], here / "t.mayfly", env=env)
        check("MEMTRACE" in note_of(here / "t.mayfly"), note_of(here / "t.mayfly"))


@case
def program_uses_memprof():
    with Folder() as here:
        watched = unchanged([program(), "own_memprof", "10000"], here / "t.mayfly", "--ocaml=1e-2")
        same(watched.code, 0, "exit status")
        check("Gc.Memprof itself" in note_of(here / "t.mayfly"), note_of(here / "t.mayfly"))
        live = report(here / "t.mayfly", "--heap", "ocaml,external", "--metric", "live")
        same(live["total"]["samples"], 0, "OCaml blocks after the end of their recording")


@case
def not_exact():
    """C alone is exact; half of it is refused; a hand-made setting is told."""
    with Folder() as here:
        unchanged([program(), "lists", "1000"], here / "t.mayfly", "-x", "--ocaml=off")
        same((info(here / "t.mayfly")["ocaml_rate"], note_of(here / "t.mayfly")), (None, ""), "off")
        unchanged([program(), "lists", "1000"], here / "s.mayfly", "--snapshots=1s")
        check("every allocation" in note_of(here / "s.mayfly"), note_of(here / "s.mayfly"))
        for options in (["-x", "--ocaml=1e-3"], ["-i", "1", "--ocaml=0.5"], ["--snapshots=1s", "--ocaml=1"]):
            refused = run([MAYFLY, "record", *options, program(), "lists", "1"])
            same((refused.code, b"--ocaml" in refused.err), (125, True), options)


@case
def off():
    with Folder() as here:
        unchanged([program(), "lists", "100000"], here / "t.mayfly", "--ocaml=off")
        facts = info(here / "t.mayfly")
        same((facts["ocaml_rate"], facts["note"]), (None, None), "rate, note")


# ---- real programs ----

def allocated(trace, *heap):
    return report(trace, "--metric", "allocated", *heap)["total"]["bytes"]["estimate"]


@case
def merged():
    """Traces of the same rate, or of twice it, add up; of another, they are refused. A line tells
    when a trace without OCaml's blocks has their memory."""
    with Folder() as here:
        part = {rate: here / (rate + ".mayfly") for rate in ("1e-3", "2e-3", "3e-3", "off")}
        for rate, path in part.items():
            same(record([program(), "lists", "100000"], path, "--ocaml=" + rate).code, 0, rate)
        whole = here / "whole.mayfly"
        done = run([MAYFLY, "merge", "-o", whole, part["1e-3"], part["2e-3"]])
        same((done.code, done.err), (0, b""), "merge")
        for heap in ((), ("--heap", "ocaml"), ("--heap", "malloc")):
            want = sum(allocated(part[rate], *heap) for rate in ("1e-3", "2e-3"))
            check(abs(allocated(whole, *heap) - want) <= 2 + 1e-9 * want, heap, want)
        refused = run([MAYFLY, "merge", "-o", here / "no.mayfly", part["3e-3"], part["1e-3"]])
        same(refused.code, 1, "other rates")
        for word in "3e-3.mayfly", "1e-3.mayfly", "0.003", "--ocaml=RATE":
            check(word in refused.err.decode(), word, "is not in", refused.err)
        check(not os.path.exists(here / "no.mayfly"), "it was written")
        done = run([MAYFLY, "merge", "--force", "-o", whole, part["off"], part["1e-3"]])
        same(done.code, 0, "without blocks")
        # OCaml 5 maps its heaps.
        around = b"off.mayfly has memory around OCaml's heaps" in done.err
        same(around, ocaml_version() < (5, 0), "told, %r" % done.err)


@case
def compiler():
    ocaml_version()
    compiler_path = shutil.which("ocamlopt.opt")
    if not compiler_path:
        raise Skip("ocamlopt.opt is not installed")
    with Folder() as here:
        source = here / "big.ml"
        with open(source, "w") as f:
            for i in range(800):
                f.write("let f%d x = match x with | Some (y, z) when y > %d -> List.map "
                        "(fun k -> k + y * %d) z | _ -> [ %d ]\n" % (i, i, i, i))
        for k in ("o", "cmx", "cmi"):
            if os.path.exists(here / ("big." + k)):
                os.unlink(here / ("big." + k))
        same(run([compiler_path, "-c", source]).code, 0, "without")
        plain = open(here / "big.o", "rb").read()
        watched = record([compiler_path, "-c", source], here / "t.mayfly", "--ocaml=1e-4")
        same(watched.code, 0, "exit status")
        check(open(here / "big.o", "rb").read() == plain, "another object file")
        found = ocaml(here / "t.mayfly", "--top", "0")
        placed = [r for r in found.values() if r["file"] and r["file"].endswith(".ml")]
        check(len(placed) > 20, "functions with a place:", len(placed), "of", len(found))
        lines = report(here / "t.mayfly", "--heap", "ocaml", "--by", "line", "--metric",
                       "allocated")["rows"]
        check(any(r["line"] for r in lines), lines[:3])
        same([r for r in found if r.startswith("caml") and "__" in r], [], "unreadable names")


if __name__ == "__main__":
    main()
