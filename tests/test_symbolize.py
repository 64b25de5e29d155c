#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""mayfly symbolize: names for a finished trace, from files that come later, by build-id, from servers.
The programs are stripped, and their debug files are put where the command is to find them."""
import contextlib
import http.server
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

from harness import (MAYFLY, SOURCE, Folder, Skip, case, cases, check, environment, info, main,
                     mayfly, need, program, read, record, report, run, same)

sys.path.insert(0, os.path.join(SOURCE, "tests"))
import second_reader  # noqa: E402

PROGRAM = """
#include <stdlib.h>
void *kept[100];
static __attribute__((noinline)) void hidden_maker(int i) { kept[i] = malloc(1000); }
static inline __attribute__((always_inline)) void inlined_one(int i) { hidden_maker(i); }
static __attribute__((noinline)) void make_all(void)
{
	for (int i = 0; i < 100; i++)
		inlined_one(i);
	__asm__ volatile("");
}
int main(void) { make_all(); return 0; }
"""
FULL = "hidden_maker"


def compiled(here, *options, name="p", text=PROGRAM, keep=()):
    """A stripped program; its debug file is NAME.debug, and the whole one NAME.full."""
    need("gcc", "objcopy", "strip")
    with open(here / (name + ".c"), "w") as file:
        file.write(text)
    for command in (["gcc", "-g", "-O1", "-fno-optimize-sibling-calls", *options, "-o",
                     name + ".full", name + ".c"],
                    ["objcopy", "--only-keep-debug", name + ".full", name + ".debug"],
                    ["strip", *keep, "-o", name, name + ".full"]):
        same(run(command, cwd=here / ".").code, 0, command)
    return here / name


def build_id(path):
    found = re.search(r"Build ID: (\w+)", run(["readelf", "-n", path]).out.decode())
    return found.group(1)


def store(folder, debug, identity=None):
    """Puts a debug file into FOLDER/.build-id."""
    identity = identity or build_id(debug)
    place = os.path.join(folder, ".build-id", identity[:2])
    os.makedirs(place, exist_ok=True)
    shutil.copy(debug, os.path.join(place, identity[2:] + ".debug"))


def recorded(here, *options, name="p", env=None):
    trace = here / (name + ".mayfly")
    same(record([here / name], trace, "-x", "--force", *options, env=env).code, 0, "record")
    return trace


@contextlib.contextmanager
def one_recorded():
    """A folder with the stripped program and its trace."""
    with Folder() as here:
        compiled(here)
        yield here, recorded(here)


def functions(trace):
    return {row["function"]: row for row in
            report(trace, "--metric", "leaked", "--by", "function", "--frames=all")["rows"]}


def events(trace):
    """The chunks but those with names. The trace is sound for the second reader, too."""
    data = read(trace)
    if len(data) < 100000:  # it is slow
        check(any(True for _ in second_reader.Trace(data).lines()), "no lines")
    return [c for c in chunk_list(data) if c[0] not in (b"STRS", b"NAME", b"indx")]


def chunk_list(data):
    """All chunks, [(type, bytes)], and the trailer's offset is checked."""
    found, at = [], 24
    while at + 24 < len(data):
        kind, stored = data[at:at + 4], int.from_bytes(data[at + 4:at + 8], "little")
        found.append((kind, data[at:at + 16 + stored]))
        if kind == b"indx":
            same(int.from_bytes(data[-24:-16], "little"), at, "offset in the trailer")
        at += 16 + stored
    return found


def dumped(trace):
    """The events of dump without their stacks."""
    return [re.split(b" (?:flags|temp_bytes)=", line)[0]
            for line in run([MAYFLY, "dump", trace]).out.splitlines()]


def unchanged_but_names(before, after):
    same(events(after), events(before), "chunks other than names")
    one, other = (dumped(t) for t in (before, after))
    check(one == other, "other events")


@case
def later_debug_file():
    """The names that were missing, inlined functions and lines; the trace is replaced."""
    with one_recorded() as (here, trace):
        before = read(trace)
        shutil.copy(trace, here / "before")
        os.chmod(trace, 0o640)
        check(FULL not in functions(trace), "already named")
        said = mayfly("symbolize", trace).text
        check("no names could be added; the trace is unchanged" in said, said)
        check(build_id(here / "p") in said, "no build-id", said)
        same(read(trace), before, "the trace")
        store(here / "debug", here / "p.debug")
        said = mayfly("symbolize", "--debug-dir", here / "debug", trace).text
        check(re.search(r"\d frames got a name", said), said)
        check("p: " not in said, "still unnamed", said)
        check(FULL in functions(trace), "not named", functions(trace))
        lines = mayfly("report", "--by", "line", "--metric", "leaked", trace).text
        check("p.c:4" in lines, "no line", lines)
        stacks = mayfly("report", "--by", "stack", "--metric", "leaked", "--frames=all", trace).text
        check("inlined_one" in stacks and "make_all" in stacks, stacks)
        same(os.stat(trace).st_mode & 0o777, 0o640, "mode")
        unchanged_but_names(here / "before", trace)
        same([f for f in here.files() if ".tmp" in f], [], "left files")
        # And once more: nothing to do.
        named = read(trace)
        mayfly("symbolize", "--debug-dir", here / "debug", trace)
        same(read(trace), named, "named twice")


@case
def as_if_recorded_with_them():
    """The same names as those of a recording that had the files."""
    with one_recorded() as (here, trace):
        os.rename(here / "p", here / "stripped")
        os.rename(here / "p.full", here / "p")
        whole = here / "whole.mayfly"
        record([here / "p"], whole, "-x")
        os.rename(here / "stripped", here / "p")
        store(here / "debug", here / "p.debug")
        mayfly("symbolize", "--debug-dir", here / "debug", trace)
        for by in ("function", "line", "stack"):
            one, other = (report(t, "--by", by, "--metric", "leaked")["rows"] for t in (trace, whole))
            same([(r.get("function"), r.get("file"), r.get("line"), r["total"]) for r in one],
                 [(r.get("function"), r.get("file"), r.get("line"), r["total"]) for r in other], by)


@case
def lines_of_named_functions():
    """A program with a symbol table only: its functions keep their names and get lines."""
    with Folder() as here:
        compiled(here, keep=["-g"])
        trace = recorded(here)
        check(FULL in functions(trace), "no symbol table")
        lines = mayfly("report", "--by", "line", "--metric", "leaked", trace).text
        check("p.c" not in lines, lines)
        store(here / "debug", here / "p.debug")
        said = mayfly("symbolize", "--debug-dir", here / "debug", trace).text
        check(re.search(r"\d frames got file and line", said), said)
        lines = mayfly("report", "--by", "line", "--metric", "leaked", trace).text
        check("p.c:4" in lines, lines)


@cases(["exact", "sampled", "snapshots", "many_groups", "follow"])
def kinds(kind):
    """All kinds of traces: one group and many, with an index of events or of sums."""
    options = {"exact": ["-x"], "sampled": ["-i", "256"], "snapshots": ["--snapshots", "1ms"],
               "many_groups": ["-x"], "follow": ["-x", "-f"]}[kind]
    text = PROGRAM
    if kind == "many_groups":
        text = text.replace("return 0; }", "for (int i = 0; i < 140000; i++)"
                            " { void *volatile p = malloc(10 + i % 90); free(p); } return 0; }")
    with Folder() as here:
        compiled(here, text=text)
        trace = here / "p.mayfly"
        same(record([here / "p"], trace, *options).code, 0, "record")
        named = here / "named.mayfly"
        store(here / "debug", here / "p.debug")
        mayfly("symbolize", "--debug-dir", here / "debug", "-o", named, trace)
        check(FULL in functions(named) or kind in ("sampled", "snapshots"), functions(named))
        unchanged_but_names(trace, named)
        facts = info(named)
        check(facts["complete"], "not complete", facts)
        one, other = (info(t) for t in (trace, named))
        for key in ("samples", "frees", "duration_ns", "stacks"):
            same(other.get(key), one.get(key), key)
        a, b = (run([MAYFLY, "report", "--json", "--series", "5", t]).out for t in (trace, named))
        same(len(a) > 0, len(b) > 0, "series")
        if kind == "many_groups":
            check(sum(c[0] == b"EVNT" for c in chunk_list(read(trace))) > 1, "one group")


@case
def wrong_files_are_refused():
    """A file at the right place whose build-id is another one gives no name."""
    with one_recorded() as (here, trace):
        before = read(trace)
        compiled(here, name="other", text=PROGRAM.replace(FULL, "wrong_name"))
        identity = build_id(here / "p")
        store(here / "debug", here / "other.debug", identity)
        shutil.copy(here / "other.full", here / "debug/p")
        shutil.copy(here / "other.full", here / "p")
        said = mayfly("symbolize", "--debug-dir", here / "debug", trace).text
        check("has changed since the run" in said, said)
        same(read(trace), before, "the trace")


@case
def no_build_id():
    """Nobody can tell which file it was, so none is used."""
    with Folder() as here:
        compiled(here, "-Wl,--build-id=none")
        trace = recorded(here)
        shutil.copy(here / "p.full", here / "p")
        before = read(trace)
        said = mayfly("symbolize", trace).text
        check("no build-id" in said and "/p: " in said, said)
        same(read(trace), before, "the trace")


@cases(["root", "name", "usr_lib_debug", "second"])
def another_machine(where):
    """The program is gone; the folder is the root of another machine, or holds the file alone."""
    with one_recorded() as (here, trace):
        os.unlink(here / "p")
        empty, other = here / "empty", here / "other"
        os.mkdir(empty)
        os.mkdir(other)
        if where == "root":
            os.makedirs(other + os.path.dirname(here / "p"))
            shutil.copy(here / "p.full", other + (here / "p"))
        elif where == "name":
            shutil.copy(here / "p.full", os.path.join(other, "p"))
        else:
            store(os.path.join(other, "usr/lib/debug"), here / "p.debug")
        said = mayfly("symbolize", trace).text
        check("is gone" in said, said)
        dirs = ["--debug-dir", empty] * (where == "second") + ["--debug-dir", other]
        mayfly("symbolize", *dirs, trace)
        check(FULL in functions(trace), functions(trace))


@case
def out_and_refusals():
    with one_recorded() as (here, trace):
        before = read(trace)
        store(here / "debug", here / "p.debug")
        out = here / "out.mayfly"
        mayfly("symbolize", "-o", out, trace)
        same(read(out), before, "a copy")
        said = mayfly("symbolize", "-o", out, trace, code=1, lines=1).message
        check("exists" in said and "--force" in said, said)
        mayfly("symbolize", "--force", "-o", out, "--debug-dir", here / "debug", trace)
        check(FULL in functions(out), functions(out))
        same(read(trace), before, "the trace")
        piped = run([MAYFLY, "symbolize", "-o", "-", "--debug-dir", here / "debug", "-"],
                    stdin=before)
        same(piped.out, read(out), "standard output")
        check(b"got a name" in piped.err, piped)
        mayfly("symbolize", code=2, lines=1)
        mayfly("symbolize", "-", code=2, lines=1)
        mayfly("symbolize", trace, out, code=2, lines=1)
        said = mayfly("symbolize", "--debug-dir", here / "none", trace, code=2, lines=1).message
        check("not a folder" in said, said)
        said = mayfly("symbolize", here / "none", code=1, lines=1).message
        check("no such file" in said, said)
        said = mayfly("symbolize", here / "p.c", code=1, lines=1).message
        check("not a" in said, said)
        # A link stays one.
        os.symlink("p.mayfly", here / "link")
        mayfly("symbolize", "--debug-dir", here / "debug", here / "link")
        check(os.path.islink(here / "link") and FULL in functions(trace), "the link is gone")


@case
def spools_are_refused():
    with Folder() as here:
        spool = here / "a.spool"
        done = run([program("make_spool"), "sampled", spool])
        if done.code:
            done = run([program("make_spool"), spool])
        if done.code:
            env = environment(LD_PRELOAD=os.path.join(os.path.dirname(os.path.dirname(MAYFLY)),
                                                      "agent", "libmayfly.so"),
                              MAYFLY="exact=1,output=" + spool)
            same(run(["/bin/sort", "/dev/null"], env=env).code, 0, "a spool by hand")
        said = mayfly("symbolize", spool, code=1, lines=1).message
        check("spool" in said and "mayfly merge -o" in said, said)
        mayfly("merge", "-o", here / "made.mayfly", spool)
        mayfly("symbolize", here / "made.mayfly")


@case
def cut_off_traces():
    """Wherever a trace ends: refused in one line, or read as far as it is sound; never changed."""
    with one_recorded() as (here, trace):
        whole = read(trace)
        store(here / "debug", here / "p.debug")
        for size in range(0, len(whole), max(1, len(whole) // 60)):
            with open(trace, "wb") as file:
                file.write(whole[:size])
            result = run([MAYFLY, "symbolize", "--debug-dir", here / "debug", trace])
            check(result.code in (0, 1), "at", size, result)
            same(read(trace), whole[:size], "the trace of %d bytes" % size)
            check(result.err or b"no names" in result.out or b"already" in result.out, result)


@case
def damaged_traces():
    """One byte in the middle is wrong."""
    with one_recorded() as (here, trace):
        whole = read(trace)
        store(here / "debug", here / "p.debug")
        for at in range(24, len(whole), 37):
            with open(trace, "wb") as file:
                file.write(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1:])
            result = run([MAYFLY, "symbolize", "--debug-dir", here / "debug", "-o", here / "o",
                          "--force", trace])
            check(result.code in (0, 1), "at", at, result)


def limited(size):
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return limit


@case
def disk_full():
    with one_recorded() as (here, trace):
        before = read(trace)
        store(here / "debug", here / "p.debug")
        for size in (0, 100, len(before) // 2):
            result = run([MAYFLY, "symbolize", "--debug-dir", here / "debug", trace],
                         preexec_fn=limited(size))
            same(result.code, 1, "exit status (%r)" % result)
            same(result.err.count(b"\n"), 1, "lines of %r" % result)
            same(read(trace), before, "the trace")
        same([f for f in here.files() if ".tmp" in f], [], "left files")


# ---- debuginfod ----

class Server:
    """A debuginfod server: what it was asked, and the files that it gives."""

    def __init__(self, files=None, status=404):
        asked = self.asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append((self.path, dict(self.headers)))
                match = re.fullmatch(r"/buildid/(\w+)/debuginfo", self.path)
                path = (files or {}).get(match.group(1)) if match else None
                self.send_response(200 if path else status)
                body = read(path) if path else b""
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d" % self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def need_client():
    if run(["sh", "-c", "ldconfig -p | grep -q libdebuginfod.so.1"]).code:
        raise Skip("libdebuginfod1 is not installed")


def asking(here, url, **more):
    return environment(DEBUGINFOD_URLS=url, HOME=here / ".",
                       **{"DEBUGINFOD_CACHE_PATH": here / "cache", **more})


@case
def names_from_a_server():
    need_client()
    with one_recorded() as (here, trace):
        identity = build_id(here / "p")
        with Server({identity: here / "p.debug"}) as server:
            env = asking(here, server.url)
            result = run([MAYFLY, "symbolize", "--debuginfod-limit", "0", trace], env=env)
            same((result.code, server.asked), (0, []), "asked with --debuginfod-limit 0")
            result = run([MAYFLY, "symbolize", trace], env=env)
            same((result.code, result.err), (0, b""), "symbolize")
            paths = [path for path, _ in server.asked]
            same(paths.count("/buildid/%s/debuginfo" % identity), 1, "requests for the program")
            for path in paths:
                check(re.fullmatch(r"/buildid/[0-9a-f]+/debuginfo", path), "asked for", path)
        check(FULL in functions(trace), functions(trace))


@case
def a_recording_asks_once():
    """Also for a program that runs many times in one recording."""
    need_client()
    with Folder() as here:
        compiled(here)
        identity = build_id(here / "p")
        with Server({identity: here / "p.debug"}) as server:
            command = ["sh", "-c", "for i in 1 2 3 4; do %s; done" % (here / "p")]
            result = record(command, here / "t.mayfly", "-x", "-f", env=asking(here, server.url))
            same(result.code, 0, result)
            paths = [path for path, _ in server.asked]
            same(sorted(paths), sorted(set(paths)), "files asked for twice")
            check("/buildid/%s/debuginfo" % identity in paths, "not asked", paths)
            children = here.files("t.*.mayfly")
            same(len(children), 4, "traces")
            for trace in children:
                check(FULL in functions(trace), trace)
            del server.asked[:]
            record([here / "p"], here / "off.mayfly", "-x", "--debuginfod-limit", "0",
                   env=asking(here, server.url, DEBUGINFOD_CACHE_PATH=here / "other"))
            same(server.asked, [], "asked with --debuginfod-limit 0")
            record([here / "p"], here / "unset.mayfly", "-x")
            same(server.asked, [], "asked without DEBUGINFOD_URLS")


@case
def a_wrong_answer():
    """A server that sends another file, no ELF file, or an error."""
    need_client()
    with one_recorded() as (here, trace):
        before = read(trace)
        compiled(here, name="other", text=PROGRAM.replace(FULL, "wrong_name"))
        identity = build_id(here / "p")
        for number, given in enumerate((here / "other.debug", here / "p.c", None)):
            with Server({identity: given}, status=500) as server:
                env = asking(here, server.url, DEBUGINFOD_CACHE_PATH=here / ("cache%d" % number))
                result = run([MAYFLY, "symbolize", trace], env=env)
                same(result.code, 0, "exit status of %r" % result)
                check(server.asked, "not asked")
            same(read(trace), before, "the trace")


@cases(["refuses", "silent", "trickles"])
def a_dead_server(way):
    """It costs the limit at most, and the command says that files are missing."""
    need_client()
    with one_recorded() as (here, trace):
        before = read(trace)
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        if way != "refuses":
            listener.listen(50)
        stop = threading.Event()

        def trickle():
            while not stop.is_set():
                try:
                    peer = listener.accept()[0]
                except OSError:
                    return
                try:
                    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
                    while not stop.wait(0.1):
                        peer.sendall(b"x")
                except OSError:
                    pass

        if way == "trickles":
            threading.Thread(target=trickle, daemon=True).start()
        env = asking(here, "http://127.0.0.1:%d" % listener.getsockname()[1])
        result = run([MAYFLY, "symbolize", "--debuginfod-limit", "3s", trace], env=env)
        stop.set()
        listener.close()
        same(result.code, 0, "exit status of %r" % result)
        same(read(trace), before, "the trace")
        check(b"debuginfod" in result.err, result)
        if way != "refuses":
            check(b"not downloaded within the limit of 3 s" in result.err, result)


@case
def other_commands_load_nothing():
    """Neither the client's library nor libcurl."""
    with Folder() as here:
        text = run(["readelf", "-dW", MAYFLY]).out.decode()
        check("debuginfod" not in text and "curl" not in text, text)
        compiled(here)
        trace = recorded(here)
        env = environment(DEBUGINFOD_URLS="http://127.0.0.1:9", LD_DEBUG="files")
        result = run([MAYFLY, "report", trace], env=env)
        check(b"debuginfod" not in result.err, "loaded by report")


@case
def interrupted():
    """While a server is waited for: the trace stays as it is, and nothing is left."""
    need_client()
    with one_recorded() as (here, trace):
        before = read(trace)
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(50)
        env = asking(here, "http://127.0.0.1:%d" % listener.getsockname()[1])
        process = subprocess.Popen([MAYFLY, "symbolize", trace], env=env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        peer = listener.accept()[0]
        process.send_signal(signal.SIGINT)
        process.communicate()
        same(process.returncode, -signal.SIGINT, "exit status")
        peer.close()
        listener.close()
        same(read(trace), before, "the trace")
        same([f for f in here.files() if ".tmp" in f], [], "left files")


@case
def hints_name_the_command():
    with one_recorded() as (here, trace):
        for command in ("info", "report"):
            text = " ".join(mayfly(command, trace).text.split())
            check("mayfly symbolize TRACE" in text or command == "report", command, text)
        store(here / "debug", here / "p.debug")
        mayfly("symbolize", "--debug-dir", here / "debug", trace)
        text = " ".join(mayfly("info", trace).text.split())
        check("mayfly symbolize" not in text, text)


main()
