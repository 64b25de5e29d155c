#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Each command of mayfly once, on a real program: the system's Python, which builds an index of words.
What the commands promise in detail is tested elsewhere; this says within seconds that each of them works."""
import atexit
import contextlib
import functools
import http.server
import json
import os
import re
import subprocess
import threading

from attaching import need_attach
from fleet_server import server
from harness import (AGENT, MAYFLY, PYTHON, Folder, Skip, as_json, case, check, environment, info, main, mayfly,
                     program, rows, run, same, sane, wait_until)

# Keeps an index, drops a copy of a half; then as many words more as each line of standard input says.
# It ends with the index in memory.
SCRIPT = r"""
import os, sys
def build_index(count):
    index = {}
    for i in range(count):
        index["word %d" % i] = [i] * 20
    return index
kept = [build_index(20000)]
copy = build_index(10000)
del copy
print("ready", flush=True)
for line in sys.stdin:
    kept.append(build_index(int(line)))
    print("done", flush=True)
os._exit(0)
"""
COMMAND = [*PYTHON, "-c", SCRIPT]

here = Folder()
here.__enter__()
atexit.register(here.__exit__)


class Python:
    """The program while it runs; with `words` before its command or variables, as it is told to be recorded."""

    def __init__(self, *words, **changes):
        self.process = subprocess.Popen([*words, *COMMAND], env=environment(PYTHONMALLOC="malloc", **changes),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self):
        same(self.process.stdout.readline(), b"ready\n")
        return self

    def work(self, words=1000):
        self.process.stdin.write(b"%d\n" % words)
        self.process.stdin.flush()
        same(self.process.stdout.readline(), b"done\n")

    def __exit__(self, *_):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.code = self.process.wait()
        self.process.stdout.close()


@functools.cache
def trace():
    """An exact recording."""
    path = here / "python.mayfly"
    done = run([MAYFLY, "record", "-q", "-x", "-o", path, "--", *COMMAND], env=environment(PYTHONMALLOC="malloc"))
    same((done.code, done.out, done.err), (0, b"ready\n", b""), "record")
    return path


def recorded(path):
    return Python(MAYFLY, "record", "-q", "-x", "-o", path, "--")


def pid_of(path):
    """The process that writes to this trace."""
    return as_json("ctl", "--json", path, "status")["pid"]


def allocated(path):
    return info(path)["allocated"]["bytes"]["estimate"]


@case
def record():
    facts = sane(trace(), samples=100000)
    same(facts["ending"], {"reason": "exited", "code": 0})


@case
def report():
    found = rows(trace(), "--metric", "live")
    check(found["build_index"]["total"]["bytes"]["estimate"] > 20000 * 20 * 8, found["build_index"])


@case
def info_():
    check("python3" in mayfly("info", trace()).text, "no word of the program")


@case
def dump():
    lines = mayfly("dump", trace()).text.splitlines()
    check(len(lines) >= info(trace())["samples"], len(lines), "lines")


@case
def leaks():
    check("build_index" in mayfly("leaks", trace()).text, "the index is kept")


@case
def diff():
    """With another run of the same, which kept more."""
    with recorded(here / "more.mayfly") as one:
        one.work(20000)
    text = mayfly("diff", trace(), here / "more.mayfly").text
    check("build_index" in text, text)


@case
def check_():
    mayfly("check", "--max-peak", "1G", trace())
    check("build_index" in mayfly("check", "--max-peak", "1M", trace(), code=1).text, "the guilty one")


@case
def merge():
    with recorded(here / "another.mayfly"):
        pass
    mayfly("merge", "-o", here / "both.mayfly", trace(), here / "another.mayfly")
    same(allocated(here / "both.mayfly"), allocated(trace()) + allocated(here / "another.mayfly"))


@case
def plan():
    check("512K" in mayfly("plan", trace()).text, "an interval")


@case
def export_and_import():
    """What another tool's file keeps of a trace."""
    mayfly("export", "--to", "pprof", "-o", here / "python.pb.gz", trace())
    mayfly("import", "-o", here / "imported.mayfly", here / "python.pb.gz")
    found, kept = rows(here / "imported.mayfly", "--metric", "allocated"), rows(trace(), "--metric", "allocated")
    same(found["build_index"]["total"]["samples"], kept["build_index"]["total"]["samples"])


@case
def symbolize():
    mayfly("symbolize", "--debuginfod-limit", "0", "-o", here / "named.mayfly", trace())
    same(allocated(here / "named.mayfly"), allocated(trace()))


@case
def view():
    done = run([MAYFLY, "view", "--html", here / "python.html", trace()])
    if b"this build" in done.err:
        raise Skip(done.err.decode().strip())
    same(done.code, 0, done.err)
    with open(here / "python.html") as file:
        check("<!doctype html>" in file.read(1000).lower(), "a page")


@case
def ctl():
    path = here / "steered.mayfly"
    with recorded(path) as one:
        mayfly("ctl", path, "off")
        same(as_json("ctl", "--json", path, "status")["state"], "off")
        one.work()
        mayfly("ctl", path, "on")
        mayfly("ctl", path, "mark", "on again")
        one.work()
        mayfly("ctl", "-o", here / "snapshot.mayfly", path, "snapshot")
    same(one.code, 0)
    check(0 < allocated(here / "snapshot.mayfly") <= allocated(path), "what was allocated before the snapshot")
    check("switched off" in info(path)["note"], "no word of the gap")


@case
def top():
    path = here / "watched.mayfly"
    with recorded(path) as one:
        one.work()
        facts = as_json("top", "--once", "--json", str(pid_of(path)))
    check(facts["total"]["bytes"]["estimate"] > 21000 * 20 * 8 and facts["rows"], facts)


@case
def attach_and_detach():
    need_attach()
    path = here / "attached.mayfly"
    with Python() as one:
        pid = str(one.process.pid)
        with subprocess.Popen([MAYFLY, "attach", "-q", "-x", "-o", path, pid], env=environment(),
                              stderr=subprocess.PIPE) as attach:
            def recording():
                check(attach.poll() is None, "attach has ended")
                done = run([MAYFLY, "ctl", pid, "status"])
                return done.code == 0 and b"waiting" not in done.out

            wait_until(recording, "the recording to begin")
            one.work()
            mayfly("detach", pid)
            said = attach.stderr.read()
        same((attach.returncode, said), (0, b""), "attach")
        one.work()
    same(one.code, 0)
    check(rows(path)["build_index"]["total"]["samples"] >= 1000, "what it did meanwhile")


@case
def heap():
    """Python's own allocator takes its memory from mappings; its large blocks are malloc's."""
    need_attach()
    with Python() as one:
        one.work()
        facts = as_json("heap", "--json", str(one.process.pid))
    same(one.code, 0)
    check(facts["read"] == "copy" and facts["blocks"] > 100 and facts["held"], facts)
    same(sum(row["bytes"] for row in facts["held"] + facts["shared"]) + facts["lost"]["bytes"], facts["bytes"])


@case
def receive():
    address, path = "unix:" + (here / "socket"), here / "received.mayfly"
    with subprocess.Popen([MAYFLY, "receive", "-q", "-o", path, address], env=environment(),
                          stderr=subprocess.PIPE) as receiver:
        wait_until(lambda: os.path.exists(here / "socket"), "the receiver's socket")
        done = run([MAYFLY, "record", "-q", "-x", "--stream", address, "--", *COMMAND],
                   env=environment(PYTHONMALLOC="malloc"))
        same((done.code, done.err), (0, b""), "record")
        said = receiver.stderr.read()
    same((receiver.returncode, said), (0, b""), "receive")
    sane(path, samples=100000)


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes what is pushed to OpenTelemetry collectors."""

    def do_POST(self):
        self.server.taken.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@case
def push():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
        collector.taken = []
        thread = threading.Thread(target=collector.serve_forever)
        thread.start()
        done = run([MAYFLY, "push", "-q", "--to", "otlp://127.0.0.1:%d" % collector.server_address[1], trace()])
        collector.shutdown()
        thread.join()
    if b"this build" in done.err:
        raise Skip(done.err.decode().strip())
    same((done.code, done.err), (0, b""), "push")
    check(collector.taken and collector.taken[0][1], "nothing arrived")


@case
def fleet_and_agent():
    """A host's agent pushes windows of what runs there to a database, which lists them."""
    with server() as database:
        mayfly("fleet", "init", "-q", database.url())
        os.mkdir(here / "spools")
        with open(here / "agent.conf", "w") as file:
            file.write("database = %s\nevery = 1s\nfolder = %s\n" % (database.url(), here / "spools"))
        with Python(LD_PRELOAD=AGENT, MAYFLY="output=%s/%%p.spool,exact=1" % (here / "spools"),
                    MAYFLY_SERVICE="words") as one:
            agent = subprocess.Popen([MAYFLY, "agent", "--config", here / "agent.conf"], env=environment())
            try:
                one.work()
                wait_until(lambda: database.ask("SELECT count() > 0 FROM fleet.windows") == "1", "a window")
            finally:
                agent.terminate()
                agent.wait()
        same(agent.returncode, 0, "the agent")
        check("words" in mayfly("fleet", "list", database.url()).text, "the service")


@case
def help_and_version():
    """Whose list is this test's."""
    text = mayfly("help").text
    listed = re.findall(r"^  ([a-z]+) ", text.split("Commands:\n")[1].split("\n\n")[0], re.MULTILINE)
    check(re.match(r"mayfly \d+\.\d+", mayfly("version").text), "version")
    with open(__file__) as file:
        tested = {word for name in re.findall(r"^@case\ndef (\w+)", file.read(), re.MULTILINE)
                  for word in name.rstrip("_").split("_and_")}
    same(sorted(tested), sorted(listed), "commands with a case here")


if __name__ == "__main__":
    main()
