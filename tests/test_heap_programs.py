#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""mayfly heap: who holds the memory of a process, against what the process itself knows."""
import contextlib
import ctypes
import glob
import json
import os
import resource
import pty
import re
import signal
import struct
import subprocess

from harness import (BUILD, MAYFLY, PYTHON, SOURCE, TIMEOUT, Folder, Skip, case, cases, check, environment, main, need, program,
                     run, same, wait_until)
from attaching import need_attach
from picturing import heap, started


def refused(what, *options, code=1):
    done = run([MAYFLY, "heap", *options, str(what)])
    same((done.code, done.out, done.err.count(b"\n")), (code, b"", 1), done)
    return done.err.decode()


def page_tables(process):
    with open("/proc/%d/status" % process.pid) as file:
        return int(next(line.split()[1] for line in file if line.startswith("VmPTE")))


def held(picture, kind, name, key="name"):
    return sorted(row["bytes"] for row in picture["held"] if row["kind"] == kind and row[key] == name)


def check_holders(picture, truth):
    """Every sum to the byte."""
    def variable(name):
        return sum(held(picture, "variable", name))
    same(variable("g_sessions"), truth["sessions"], "g_sessions")
    same(variable("s_cache"), truth["cache"], "s_cache")
    same((variable("g_first"), variable("g_second")), (truth["first"], truth["second"]))
    same(variable("g_inside"), truth["inside"], "g_inside")
    same(variable("g_huge"), truth["huge"], "g_huge")
    same(variable("g_aligned"), truth["aligned"], "g_aligned")
    same(variable("g_sparse"), truth["sparse"], "g_sparse")
    same(held(picture, "mapping", "/memfd:holding"), [truth["in_file"]], "in a page that was never read")
    same([sorted(h["name"] for h in row["holders"]) for row in picture["shared"] if row["bytes"] == truth["shared"]],
         [["g_first", "g_second"]], "what both hold")
    same(held(picture, "thread-local", "t_list"), sorted(truth["local"]), "t_list")
    same(held(picture, "stack", "keep_list"), sorted(truth["stack"]), "keep_list()")
    same(picture["lost"]["directly"]["bytes"], truth["lost_directly"], "lost directly")
    same(picture["lost"]["indirectly"]["bytes"], truth["lost_indirectly"], "lost indirectly")
    malloc = picture["malloc"]
    same(malloc["used_chunk_bytes"] + malloc["cached_chunk_bytes"] + malloc["arena_head_bytes"], truth["chunks"],
         "mallinfo2().uordblks")
    same(malloc["mapped_bytes"], truth["mapped"], "mallinfo2().hblkhd")
    check(malloc["cached_chunk_bytes"] > 10000, "nothing in caches:", malloc)
    same(sum(row["bytes"] for row in picture["held"] + picture["shared"]) + picture["lost"]["bytes"],
         picture["bytes"], "the sum of all rows")


@cases(["copy", "no-stop", "core", "copy of a static program"])
def every_byte_is_held_by_whom_it_is(how):
    need_attach()
    with Folder() as here, started(program("holders_static" if "static" in how else "holders")) as process:
        truth = json.loads(process.said)
        if how == "core":
            need("gcore")
            done = run(["gcore", "-o", here / "core", str(process.pid)])
            same(done.code, 0, done)
            picture = heap(here.files("core.*")[0])
            same((picture["read"], picture["pid"]), ("core file", None))
        else:
            picture = heap(process.pid, *(["--no-stop"] if how == "no-stop" else []))
            check(page_tables(process) < 4096, "what the program has reserved was read in it")
            same(picture["read"], "running" if how == "no-stop" else "copy")
        if how == "no-stop":
            # No registers are known, and so no stacks.
            same(sum(held(picture, "variable", "g_sessions")), truth["sessions"])
        else:
            check_holders(picture, truth)


def as_nobody():
    """Root may always fork."""
    if not os.geteuid():
        os.setgroups([])
        os.setuid(65534)


def in_sandbox():
    """With a filter that allows everything."""
    allow = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))
    program_of = ctypes.create_string_buffer(struct.pack("HP", 1, ctypes.addressof(allow)))
    libc = ctypes.CDLL(None, use_errno=True)
    set_no_new_privileges, set_seccomp, mode_filter = 38, 22, 2
    if libc.prctl(set_no_new_privileges, 1, 0, 0, 0) or libc.prctl(set_seccomp, mode_filter, program_of):
        raise OSError(ctypes.get_errno(), "prctl")


@cases(["it may not fork", "it is in a sandbox", "it is in a sandbox, and static"])
def stopped_where_no_copy_can_be_made(why):
    """The memory is copied while the program is stopped, with the same result."""
    need_attach()
    need("prlimit")
    before, said = ((as_nobody, "it could not fork: Resource temporarily unavailable")
                    if why == "it may not fork" else (in_sandbox, "it runs in a sandbox"))
    try:
        with started(program("holders_static" if "static" in why else "holders"), preexec_fn=before) as process:
            truth = json.loads(process.said)
            subprocess.run(["prlimit", "--nproc=1", "--pid", str(process.pid)], preexec_fn=before, check=True)
            picture = heap(process.pid)
            same(picture["read"], "stopped")
            check(page_tables(process) < 4096, "what the program has reserved was read in it")
            check_holders(picture, truth)
            # Less room than what the program has reserved without access.
            done = run([MAYFLY, "heap", "--wide", str(process.pid)],
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40)))
            same((done.code, done.err), (0, b""), done)
            text = " ".join(done.out.decode().split())
            check("as no copy of it could be made: " + said in text, text)
            check(said in refused(process.pid, "--max-stop", "1h"))
    except PermissionError:
        raise Skip("another user does not see the program") from None


@case
def text_names_the_holder():
    need_attach()
    with started(program("holders")) as process:
        done = run([MAYFLY, "heap", str(process.pid)])
        same((done.code, done.err), (0, b""), done)
        text = done.out.decode()
        for part in ("g_huge", "g_sessions", "nothing: lost", "HELD BY", "the program was stopped for",
                     "is held by g_huge, a variable of holders"):
            check(part in text, part, "is not in", text)
        done = run([MAYFLY, "heap", "--by", "type", "-n", "3", str(process.pid)])
        check(b"TYPE OR SIZE" in done.out, done)


@case
def types_of_cxx_objects():
    need_attach()
    with started(program("holders_cxx")) as process:
        truth = json.loads(process.said)
        picture = heap(process.pid)
        types = {row["type"]: row for row in picture["types"] if row["type"]}
        same((types["shop::Order"]["bytes"], types["shop::Order"]["blocks"]), (truth["orders"], 1000))
        same((types["shop::Book"]["bytes"], types["shop::Book"]["blocks"]), (truth["books"], 3000))
        row, = [row for row in picture["held"] if row["name"] == "shop::orders"]
        same([step["type"] for step in row["through"]][:2],
             ["std::map<int, shop::Item *> node", "shop::Order"])
        same(picture["lost"]["bytes"], 0)


INTERPRETERS = [PYTHON[0], "python3.11", "python3.12", "python3.13"]


@cases(INTERPRETERS)
def pymalloc_agrees(python):
    """Used blocks of each size, as the interpreter counts them."""
    need_attach()
    need(python)
    script = ("import os, sys\n"
              "keep = {i: [str(i)] * (i % 40) for i in range(30000)}\n"
              "for i in range(0, 30000, 3): del keep[i]\n"
              "sys._debugmallocstats()\n"
              "os.write(1, b'ready\\n')\n"
              "os.read(0, 1)\n")
    with Folder() as here:
        with open(here / "statistics", "wb") as statistics, \
                started(python, "-S", "-c", script, stderr=statistics) as process:
            picture = heap(process.pid)
        with open(here / "statistics") as file:
            lines = [line.split() for line in file]
    counted = {int(line[1]): int(line[3]) for line in lines
               if len(line) == 5 and all(word.isdigit() for word in line)}
    check(sum(counted.values()) > 30000, counted)
    pools = picture["python"]
    found = {row["block_bytes"]: row["blocks"] for row in pools["size_classes"]}
    # It has counted, then taken a block for the text that it says.
    check(all(abs(counted.get(size, 0) - found.get(size, 0)) <= 2 for size in {*counted, *found}), counted, found)
    same((pools["known"], pools["damaged_pools"]), (True, 0))
    same((pools["blocks"], pools["bytes"]),
         (sum(found.values()), sum(size * blocks for size, blocks in found.items())))
    # Arenas hold nothing by themselves.
    arenas = {"mapping of %.1f MiB" % (i / 10) for i in range(10, 400)}
    same([row["name"] for row in picture["held"] if row["name"] in arenas], [])


@cases([python + " " + allocator for python in INTERPRETERS for allocator in ("default", "malloc", "default core")])
def python_objects_by_name(how):
    """Who holds them, against the sizes that Python tells; names of variables and of types."""
    need_attach()
    python, allocator, where = (how + " process").split()[:3]
    need(python)
    script = os.path.join(SOURCE, "tests", "programs", "holding.py")
    with Folder() as here, \
            started(python, "-S", script, PYTHONMALLOC=allocator, PYTHONHASHSEED="0") as process:
        truth = json.loads(process.said)
        if where == "core":
            need("gcore")
            done = run(["gcore", "-o", here / "core", str(process.pid)])
            same(done.code, 0, done)
        picture = heap(here.files("core.*")[0] if where == "core" else process.pid)

    def row(name, *types):
        """Memory that C has not set yet may point to the same by chance: then both hold it together. "others" can
        be this holder only if it is named in no row, as 63 others share more."""
        def names_it(row):
            return any(h["name"] == name and h["module"] == "Python" for h in row.get("holders", [row]))

        unnamed = not any(names_it(row) for row in picture["shared"])
        rows = [row for row in picture["held"] + picture["shared"]
                if [step["type"] for step in row["through"]][:len(types)] == list(types) and
                (names_it(row) or unnamed and row.get("others"))]
        check(rows, name, types)
        return max(rows, key=lambda row: row["bytes"])

    # What malloc adds to a block; pymalloc only rounds up.
    extra = 16 if allocator == "malloc" else 0
    types = {row["type"]: row for row in picture["types"]}
    orders = types["__main__.Order"]
    check(truth["orders"] <= orders["blocks"] <= 2 * truth["orders"], orders)
    same(types["__main__.Slotted"]["blocks"], truth["slotted"])
    row("__main__.SLOTTED", "list", "__main__.Slotted")
    row("__main__.counter", "function", "tuple", "cell", "set")
    row("rows in __main__.work()", "list", "tuple")
    known = row("__main__.Registry.known", "dict", "str")
    # The dictionary itself, its table, and keys that are numbers.
    least = truth["known"] + truth["known_table"]
    check(least <= known["bytes"] <= least + 5000 + known["blocks"] * extra + truth["numbers"], least, known)
    check(abs(known["blocks"] - 2 * truth["known_count"]) < 300, truth, known)
    check(row("__main__.CACHE", "dict", "__main__.Order")["bytes"] > truth["cache"], truth)
    # After a collection, nothing is lost: not what only the collector's lists and weak references lead to.
    same(picture["lost"]["bytes"], 0)


# What was in blocks before: a tuple of four, or a list's array of 65, has its last pointer where the block ends, of which
# a text, or a set's table of 32 places, needs less.
BEFORE_AND_AFTER = {
    "text": ("(i, i, i, TARGET)", "'name %012d' % i"),
    "set": ("[TARGET] * 65", "set(range(i, i + 10))"),
}
BEHIND = """
import sys
TARGET = {"bytes": bytes(1 << 20)}
before = [%s for i in range(5000)]
del before
AFTER = [%s for i in range(5000)]
print("ready", flush=True)
sys.stdin.read()
"""


@cases([python + " " + what for python in INTERPRETERS for what in BEFORE_AND_AFTER])
def nothing_is_behind_an_object(how):
    """What an object leaves unused of its block may have the pointers of another one: they count for nothing."""
    need_attach()
    python, what = how.split()
    need(python)
    with Folder() as here:
        with open(here / "behind.py", "w", encoding="ascii") as file:
            file.write(BEHIND % BEFORE_AND_AFTER[what])
        with started(python, "-S", here / "behind.py", PYTHONMALLOC="malloc") as process:
            picture = heap(process.pid)
    row, = [row for row in picture["held"] if row["name"] == "__main__.TARGET"]
    check(row["bytes"] > 1 << 20, row)


@case
def links_of_the_cache_hold_nothing():
    """A block that nobody has written to since malloc took it from its cache seems to point into another one."""
    need_attach()
    with started(program("links")) as process:
        links, size = map(int, process.said.split())
        if not links:
            raise Skip("this libc leaves no such links")
        picture = heap(process.pid)
    # Where addresses are low, numbers elsewhere may point to it by chance.
    row, = [row for row in picture["held"] + picture["shared"] if row["bytes"] >= size]
    names = [holder["name"] for holder in row.get("holders", [row])]
    check("g_large" in names and "g_links" not in names, names, links)


@case
def malloc_agrees_in_python():
    """A real program: what malloc itself counts, asked by the program."""
    need_attach()
    script = ("import ctypes, sys\n"
              "class Info(ctypes.Structure):\n"
              "    _fields_ = [(n, ctypes.c_size_t) for n in 'arena ordblks smblks hblks hblkhd usmblks fsmblks "
              "uordblks fordblks keepcost'.split()]\n"
              "f = ctypes.CDLL(None).mallinfo2\n"
              "f.restype = Info\n"
              "keep = {i: [str(i)] * 3 for i in range(50000)}\n"
              "i = f()\n"
              "sys.stdout.write('%d %d\\n' % (i.uordblks, i.hblkhd)); sys.stdout.flush()\n"
              "sys.stdin.read()\n")
    with started(*PYTHON, "-S", "-c", script, PYTHONMALLOC="malloc") as process:
        chunks, mapped = map(int, process.said.split())
        malloc = heap(process.pid)["malloc"]
        found = malloc["used_chunk_bytes"] + malloc["cached_chunk_bytes"]
        # What it has allocated since it asked: the text that it says, and a buffer to read.
        check(abs(found - chunks) < 100000, found, chunks)
        same(malloc["mapped_bytes"], mapped)


@case
def nothing_of_the_program_changes():
    """No system call is interrupted, no child or signal is seen, nothing stays open; 20 times."""
    need_attach()
    with started(program("frozen")) as process:
        for _ in range(20):
            heap(process.pid)
        same(glob.glob("/proc/%d/task/*/children" % process.pid) != [], True)
        children = "".join(open(path).read() for path in glob.glob("/proc/%d/task/*/children" % process.pid))
        same(children, "", "children that are left")
    same(process.rest, b"interrupted 0, children 0, handlers 0, wrong 0\n")


def check_waste(picture, truth):
    """Every sum to the byte, and nothing else of what these variables hold."""
    rows = {row["name"]: row["waste"] for row in picture["held"] if row["kind"] == "variable"}
    nothing = [0, 0]

    def sums(name):
        waste = rows[name]
        copies = waste["copies"]
        same(copies["bytes"]["low"], copies["bytes"]["high"], name)
        return [[waste["zero"]["bytes"], waste["zero"]["blocks"]],
                [waste["zero_end"]["bytes"], waste["zero_end"]["blocks"]],
                [copies["bytes"]["estimate"], copies["blocks"]["estimate"]]]
    same(sums("g_zeros"), [truth["zeros"], nothing, nothing])
    same(sums("g_vectors"), [nothing, truth["ends"], nothing])
    same(sums("g_large"), [nothing, truth["large"], nothing])
    same(sums("g_names"), [nothing, nothing, truth["names"]])
    same(sums("g_records"), [nothing, nothing, truth["records"]])
    same(sums("g_other"), [nothing, nothing, nothing])
    same(picture["waste_interval_bytes"], None)
    for key, part in (("zero", "bytes"), ("zero", "blocks"), ("zero_end", "bytes"), ("zero_end", "blocks")):
        whole = picture["waste"][key][part]
        same(sum(row["waste"][key][part] for row in picture["held"] + picture["shared"] + [picture["lost"]]), whole)
        same(sum(row["waste"][key][part] for row in picture["types"]), whole)


@cases(["copy", "core"])
def waste_to_the_byte(how):
    need_attach()
    with Folder() as here, started(program("waste")) as process:
        truth = json.loads(process.said)
        if how == "core":
            need("gcore")
            same(run(["gcore", "-o", here / "core", str(process.pid)]).code, 0)
            check_waste(heap(here.files("core.*")[0], "--waste"), truth)
            return
        check_waste(heap(process.pid, "--waste"), truth)
        same("waste" in heap(process.pid), False)
        done = run([MAYFLY, "heap", "--waste", str(process.pid)])
        same((done.code, done.err), (0, b""), done)
        for part in ("Zero from begin to end", "Copies of equal blocks", "HELD BY", "g_large", "Zeros can be data"):
            check(part in done.out.decode(), part, "is not in", done)
        check("number 1" not in done.out.decode(), "contents are printed:", done)
        done = run([MAYFLY, "heap", "--waste", "--by", "type", "-n", "3", str(process.pid)])
        check(b"TYPE OR SIZE" in done.out and b"2040-byte blocks" not in done.out, done)


def on_a_terminal(command):
    """What it prints to one, and its status."""
    master, slave = pty.openpty()
    out = b""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave,
                          env=environment(TERM="dumb", COLUMNS="100")) as process:
        os.close(slave)
        with contextlib.suppress(OSError):
            while chunk := os.read(master, 4096):
                out += chunk
    os.close(master)
    return process.returncode, out.decode()


@case
def texts_in_several_blocks():
    """How they begin, on a terminal alone, with all their copies."""
    need_attach()
    with started(program("waste")) as process:
        truth = json.loads(process.said)
        command = [MAYFLY, "heap", "--waste=strings", "--top", "100", str(process.pid)]
        status, out = on_a_terminal(command)
        same(status, 0, out)
        rows = re.findall(r'^  "((?:a |somewhat |very much )?longer text, number (\d+), in ü)" .* (\d+)\r?$', out, re.M)
        same(sorted(int(number) for _, number, _ in rows), list(range(30)), out)
        same(sum(int(copies) for _, _, copies in rows), truth["names"][1])
        status, out = on_a_terminal(command[:3] + ["--json", command[-1]])
        check(status == 2 and "longer text" not in out, out)
        done = run(command)
        same((done.code, done.out), (2, b""), done)
        check(b"only on a terminal" in done.err, done)


@case
def waste_of_many_blocks_is_sampled():
    """The interval of the copies has the truth in it, and is the same the next time."""
    need_attach()
    with started(program("waste"), "1200000") as process:
        truth = json.loads(process.said)
        first = heap(process.pid, "--waste")
        again = heap(process.pid, "--waste")
        done = run([MAYFLY, "heap", "--waste", str(process.pid)])
    check(first["waste_interval_bytes"] >= 32, first["waste_interval_bytes"])
    check(b"contents are known of one byte in" in done.out, done)
    row, = [row for row in first["held"] if row["name"] == "g_many"]
    for part, whole in zip(("bytes", "blocks"), truth["many"]):
        figure = row["waste"]["copies"][part]
        check(figure["low"] <= whole <= figure["high"], figure, "has not", whole)
        check(figure["low"] < figure["high"] < 1.1 * whole, figure, whole)
    zeros, = [row["waste"]["zero"] for row in first["held"] if row["name"] == "g_zeros"]
    same([zeros["bytes"], zeros["blocks"]], truth["zeros"], "zeros are exact")
    same([row["waste"] for row in again["held"] if row["name"] == "g_many"], [row["waste"]], "the second picture")


def check_growth(growth, truth):
    """Rows add up in each picture, and what grows is found by holder and by type."""
    pictures, rows = growth["pictures"], {row["name"]: row for row in growth["held"]}
    check(len(pictures) >= 2, pictures)
    times = [picture["time_ns"] for picture in pictures]
    same(times, sorted(set(times)))
    for i, picture in enumerate(pictures):
        same(sum(row["bytes"][i] for row in growth["held"] + growth["shared"] + [growth["lost"]]), picture["bytes"])
        same(sum(row["blocks"][i] for row in growth["types"]), picture["blocks"])
    same(rows["g_entries"]["bytes"], [truth["entries"]] * len(pictures))
    same(rows["g_entries"]["growing"], False)
    for name, size in (("g_sessions", truth["session"]), ("t_orders", truth["order"])):
        row = rows[name]
        # On its way into the list, a block is held by the function that puts it there.
        check(all(size * blocks == total for blocks, total in zip(row["blocks"], row["bytes"])), row, size)
        same(row["bytes"], sorted(row["bytes"]))
        last = len(pictures) - 1
        half, quarter = row["bytes"][last // 2], row["bytes"][(3 * last + 3) // 4]
        same(row["growing"], half < quarter and (quarter < row["bytes"][-1] or (3 * last + 3) // 4 == last), row)
        check(row["bytes"][0] < row["bytes"][-1], row)
        kind, = [kind for kind in growth["types"] if kind["block_bytes"] == size]
        check(all(a >= b for a, b in zip(kind["bytes"], row["bytes"])), kind, row)
    check(rows["t_orders"]["tid"], rows["t_orders"])


@case
def growth_by_holder_and_type():
    need_attach()
    with started(program("growing")) as process:
        truth = json.loads(process.said)
        growth = heap(process.pid, "--every", "100ms", "--for", "800ms")
        check_growth(growth, truth)
        check(growth["pictures"][-1]["time_ns"] >= 800000000, growth["pictures"])
        done = run([MAYFLY, "heap", "--every", "300ms", "--for", "600ms", str(process.pid)])
        same((done.code, done.err), (0, b""), done)
        for part in ("pictures of growing in", "HELD BY", "g_sessions", "TYPE OR SIZE", "still growing, "):
            check(part in done.out.decode(), part, "is not in", done)
        check("g_entries" not in done.out.decode(), done)
        done = run([MAYFLY, "heap", "--every", "300ms", "--for", "300ms", "--by", "type", str(process.pid)])
        check(b"HELD BY" not in done.out and b"TYPE OR SIZE" in done.out, done)


@cases(["Ctrl-C", "end of the program"])
def pictures_end_well(how):
    """What there is is shown."""
    need_attach()
    with started(program("growing")) as process:
        truth = json.loads(process.said)
        master, slave = pty.openpty()
        with subprocess.Popen([MAYFLY, "heap", "--json", "--every", "100ms", str(process.pid)], stderr=slave,
                              stdout=subprocess.PIPE, env=environment()) as mayfly:
            os.close(slave)
            shown = b""
            # Behind what clears the line.
            while not re.search(rb"K([3-9]|\d\d+) pictures; the next one in", shown):
                shown += os.read(master, 4096)
            if how == "Ctrl-C":
                mayfly.send_signal(signal.SIGINT)
            else:
                process.stdin.close()
            with contextlib.suppress(OSError):
                while os.read(master, 4096):
                    pass
            out = mayfly.stdout.read()
            same(mayfly.wait(), 0, "the exit status")
        os.close(master)
    check_growth(json.loads(out), truth)


@case
def options_that_exclude_each_other():
    check("--for needs --every" in refused(os.getpid(), "--for", "1s", code=2))
    check("--every needs a process" in refused("core.1", "--every", "1s", code=2))
    check("choose one" in refused(os.getpid(), "--every", "1s", "--waste", code=2))


def children_of(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        return file.read().split()


def state_of(pid):
    with open("/proc/%s/stat" % pid) as file:
        return file.read().rsplit(")", 1)[1].split()[0]


@case
def killed_at_any_step():
    """The program runs on, and no copy of it is left that is not dead."""
    need_attach()
    step = 0
    while True:
        with started(program("frozen")) as process:
            done = run([os.path.join(BUILD, "tests", "freeze_steps"), str(process.pid), str(step)])
            check(done.code in (0, 128 + signal.SIGKILL), done)
            # The end of its tracer kills a copy.
            wait_until(lambda: all(state_of(child) == "Z" for child in children_of(process.pid)),
                       "the end of the copy after step %d" % step)
        check(b"children 0, handlers 0" in process.rest, step, process.rest)
        if done.code == 0:
            break
        step += 1
    check(step > 10, "only", step, "steps")


@case
def the_program_is_killed_at_any_step():
    """All of its threads are waited for, so that it ends for its parent, too."""
    need_attach()
    step = code = 0
    while code == 0:
        with subprocess.Popen([program("frozen")], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            with subprocess.Popen([os.path.join(BUILD, "tests", "freeze_steps"), str(process.pid), str(step), "program"],
                                  stdout=subprocess.DEVNULL) as tracer:
                try:
                    wait_until(lambda: tracer.poll() is not None or process.poll() is not None, "step %d" % step)
                    if process.poll() is None:
                        code = tracer.wait(TIMEOUT)
                        process.kill()
                    else:
                        same((process.returncode, tracer.wait(TIMEOUT)), (-signal.SIGKILL, 0), "step %d" % step)
                finally:
                    tracer.kill()
                    process.kill()
        step += 1
    check(step > 10, "only", step, "steps")


@cases(["no process", "text", "cut core", "stop too long", "other allocator"])
def refusals(what):
    with Folder() as here:
        if what == "no process":
            check("there is no such process" in refused(4194303))
        elif what == "text":
            with open(here / "text", "w") as file:
                file.write("hello\n")
            check("neither the number of a process nor a core file" in refused(here / "text"))
        elif what == "cut core":
            need("gcore")
            need_attach()
            with started(program("holders")) as process:
                same(run(["gcore", "-o", here / "core", str(process.pid)]).code, 0)
            path = here.files("core.*")[0]
            size = os.path.getsize(path)
            for part in (1000, size // 3, size // 2):
                os.truncate(path, min(part, os.path.getsize(path)))
                done = run([MAYFLY, "heap", path])
                same((done.code, done.err.count(b"\n")), (1, 1), done)
        elif what == "stop too long":
            need_attach()
            with started(program("holders")) as process:
                check("would be stopped for about" in refused(process.pid, "--max-stop", "1us"))
        else:
            need("redis-server")
            need_attach()
            with subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", here / "s", "--save", ""],
                                  stdout=subprocess.PIPE) as process:
                while b"ready" not in process.stdout.readline().lower():
                    pass
                check("its allocator is jemalloc" in refused(process.pid))
                process.terminate()


if __name__ == "__main__":
    main()
