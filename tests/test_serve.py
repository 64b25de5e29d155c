#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`mayfly view`: the page and its answers are served to the user's browser and to nobody else."""
import contextlib
import http.client
import json
import os
import random
import re
import resource
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import urllib.parse

from harness import (AGENT, Folder, MAYFLY, PROGRAMS, PYTHON, Skip, TIMEOUT, case, cases, check, environment, mayfly,
                     main, need, record, run, same, wait_until)

ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/([0-9a-f]{32})/")


def supported():
    result = run([MAYFLY, "view", "/nonexistent"])
    if b"lacks libmicrohttpd" in result.err:
        raise Skip("built without libmicrohttpd")


class View:
    """A running `mayfly view`, or another command that serves the page."""

    def __init__(self, *arguments, command=("view", "--no-browser"), **changes):
        supported()
        self.file = tempfile.TemporaryFile()
        changes.setdefault("SSH_CONNECTION", None)
        changes.setdefault("SSH_TTY", None)
        changes.setdefault("SUDO_USER", None)
        self.process = subprocess.Popen([MAYFLY, *command, *arguments], env=environment(**changes),
                                        stdin=subprocess.DEVNULL, stdout=self.file, stderr=self.file,
                                        start_new_session=True)
        try:
            self.find_address()
        except BaseException:
            self.__exit__()
            raise

    def find_address(self):
        wait_until(lambda: ADDRESS.search(self.said()) or self.process.poll() is not None, "the address")
        found = ADDRESS.search(self.said())
        check(found, "no address:", self.said())
        self.port, self.token = int(found.group(1)), found.group(2)
        self.path = "/%s/" % self.token

    def said(self):
        return os.pread(self.file.fileno(), 1 << 20, 0).decode()

    def get(self, path, method="GET", **heads):
        """(status, headers, body)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        with contextlib.closing(connection):
            connection.putrequest(method, path, skip_host="Host" in heads)
            for name, value in heads.items():
                if value is not None:
                    connection.putheader(name.replace("_", "-"), value)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()

    def ask(self, request):
        status, _, body = self.get(self.path + "ask/" + request)
        same(status, 200, request)
        return json.loads(body)

    def changes(self):
        return json.loads(self.get(self.path + "changes")[2])

    def raw(self, data):
        """What comes back for these bytes until the connection is closed."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT) as s:
            got = b""
            with contextlib.suppress(OSError):
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionError):
                while piece := s.recv(1 << 16):
                    got += piece
            return got

    def end(self, number=signal.SIGINT, code=0):
        self.process.send_signal(number)
        same(self.process.wait(TIMEOUT), code, "exit status; it said " + self.said())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.file.close()


@contextlib.contextmanager
def viewing(*options, **changes):
    with Folder() as here:
        trace = here / "t.mayfly"
        done = record([os.path.join(PROGRAMS, "ugly"), "churn"], trace, "-i", "64")
        same(done.code, 0, repr(done))
        with View(*options, trace, **changes) as view:
            view.folder = here
            view.trace = trace
            yield view
            # Whatever it was sent, it still answers.
            if view.process.poll() is None:
                same(view.get(view.path)[0], 200, "the page, at the end")


def refused(view, status, path, **how):
    got, heads, body = view.get(path, **how)
    same(got, status, path)
    check(len(body) < 20 and view.token.encode() not in body, "reveals", body)
    check(not any(name.startswith("access-control") for name in heads), heads)


@case
def page():
    with viewing() as view:
        status, heads, body = view.get(view.path)
        same(status, 200)
        check(body.lower().startswith(b"<!doctype html>"), body[:200])
        same(heads["content-type"], "text/html; charset=utf-8")
        for name, text in (("content-security-policy", "frame-ancestors 'none'"),
                           ("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer"),
                           ("cache-control", "no-store"),
                           ("cross-origin-resource-policy", "same-origin")):
            check(text in heads.get(name, ""), name, heads)
        check(not any(name.startswith("access-control") for name in heads), heads)
        check("server" not in heads, heads)
        status, heads, body = view.get(view.path, method="HEAD")
        same((status, body), (200, b""), "HEAD")


@case
def answers():
    with viewing() as view:
        check("program" in view.ask("info"), "info")
        same(view.changes(), {"generation": 1, "live": False}, "changes")
        status, heads, body = view.get(view.path + "ask/nothing?by=function")
        same(status, 404)
        check("error" in json.loads(body) and heads["content-type"].startswith("application/json"), heads, body)


@cases(["folded", "csv", "flamegraph"])
def exports(name):
    with viewing() as view:
        status, _, body = view.get(view.path + "ask/export?metric=allocated&format=" + name)
        same(status, 200, body[:300])
        expected = mayfly("export", "--to", name, "--metric", "allocated", "-o", "-", view.trace).out
        # The command's title has the program's arguments.
        plain = [re.sub(rb">ugly( churn)?</t", b">ugly</t", text) for text in (body, expected)]
        same(plain[0], plain[1], name)


@case
def one_connection_serves_many_requests():
    with viewing() as view:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", view.port)) as connection:
            connection.connect()
            first = connection.sock
            for path in ["", "ask/info", "changes", "ask/info"] * 5:
                connection.request("GET", view.path + path)
                answer = connection.getresponse()
                answer.read()
                same(answer.status, 200, path)
                check(connection.sock is first, "the connection was closed after", path)


@case
def strangers_with_no_token():
    with viewing() as view:
        wrong = ("0" if view.token[0] != "0" else "1") + view.token[1:]
        for path in ("/", "/index.html", "/%s/" % wrong, "/%s/ask/info" % wrong, "/ask/info", "/favicon.ico",
                     "/" + view.token, "/%s/" % view.token[:-1], "/%s0/" % view.token,
                     "//%s/" % view.token, "/%00" + view.path):
            refused(view, 404, path)


@case
def paths_of_no_meaning():
    with viewing() as view:
        for rest in ("../", "../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e/", "page", "ask", "changes/",
                     "%61sk/info", "ask%2finfo", "/ask/info", "static/../ask/info"):
            refused(view, 404, view.path + rest)
        # Encoded, the token is not the token.
        refused(view, 404, "/%%%02x%s/" % (ord(view.token[0]), view.token[1:]))
        for rest in ("ask/", "ask/../../etc/passwd", "ask/%00", "ask/info%00", "ask/info%", "ask/%ff%fe?%zz=%"):
            status, _, body = view.get(view.path + rest)
            check(status in (400, 404), rest, status)
            check(b"root:" not in body, body)


@cases(["evil.example", "evil.example:PORT", "127.0.0.1", "127.0.0.1:1", "localhost", "127.0.0.1:PORT.evil.example",
        "127.0.0.1.nip.io:PORT", "0.0.0.0:PORT", "[::1]:PORT", "user@127.0.0.1:PORT", " 127.0.0.1:PORT x", ""])
def hosts_of_strangers(host):
    """A name that an attacker lets point to 127.0.0.1 is still the attacker's."""
    with viewing() as view:
        status, _, body = view.get(view.path + "ask/info", Host=host.replace("PORT", str(view.port)))
        check(status in (400, 403), status)
        check(b"program" not in body, body)


@case
def hosts_of_ours():
    with viewing() as view:
        for host in ("127.0.0.1:%d", "localhost:%d", "LOCALHOST:%d"):
            same(view.get(view.path, Host=host % view.port)[0], 200, host)
        # None, and two.
        for heads in (b"", b"Host: 127.0.0.1:%d\r\nHost: evil.example\r\n" % view.port):
            for version in (b"1.0", b"1.1"):
                got = view.raw(b"GET %s HTTP/%s\r\n%s\r\n" % (view.path.encode(), version, heads))
                check(not got or got.split()[1] in (b"400", b"403"), got)


@case
def origins():
    with viewing() as view:
        info = view.path + "ask/info"
        for origin in ("http://evil.example", "null", "https://127.0.0.1:%d" % view.port, "http://127.0.0.1",
                       "http://127.0.0.1:1", "http://127.0.0.1:%d.evil.example" % view.port, "file://", ""):
            refused(view, 403, info, Origin=origin)
        for site in ("cross-site", "same-site", "x"):
            refused(view, 403, info, Sec_Fetch_Site=site)
        for heads in ({"Origin": "http://127.0.0.1:%d" % view.port}, {"Origin": "http://localhost:%d" % view.port},
                      {"Sec_Fetch_Site": "same-origin"}, {"Sec_Fetch_Site": "none"}):
            same(view.get(info, **heads)[0], 200, heads)


@cases(["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "CONNECT", "get", "X" * 100])
def methods(method):
    with viewing() as view:
        for path in (view.path, view.path + "ask/info"):
            status, heads, body = view.get(path, method=method)
            same(status, 405)
            check(b"program" not in body and len(body) < 20, body)
            check(not any(name.startswith("access-control") for name in heads), heads)


@case
def bodies():
    with viewing() as view:
        heads = b"GET %sask/info HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % (view.path.encode(), view.port)
        for more in (b"Content-Length: 5\r\n\r\nhello", b"Content-Length: 99999999999999\r\n\r\n",
                     b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", b"Content-Length: -1\r\n\r\n"):
            got = view.raw(heads + more)
            check(b"program" not in got and b" 200 " not in got[:20], more, got)


@case
def bombs():
    """Too long, too many, too large, or not HTTP at all."""
    with viewing() as view:
        host = b"Host: 127.0.0.1:%d\r\n" % view.port
        begin = b"GET %s" % view.path.encode()
        whole = begin + b" HTTP/1.1\r\n" + host
        for data in (begin + b"ask/info?" + b"a" * 10000 + b" HTTP/1.1\r\n" + host + b"\r\n",
                     begin + b"ask/info?" + b"a" * 3000000 + b" HTTP/1.1\r\n" + host + b"\r\n",
                     whole + b"X: " + b"y" * 3000000 + b"\r\n\r\n",
                     whole + b"".join(b"X-%d: y\r\n" % i for i in range(100000)) + b"\r\n",
                     whole + b"X" * 100000, b"\0" * 100000, b"\r\n" * 100000, b"GET\r\n\r\n", b"",
                     b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 500):
            got = view.raw(data)
            check(b" 200 " not in got[:20], data[:100], got[:300])
            same(view.ask("info"), view.ask("info"))


@case
def random_requests():
    """Nothing that follows the token ends the server."""
    words = ["info", "overview", "rows", "tree", "callers", "curve", "series", "counters", "lanes", "histogram", "heat",
             "spans", "events", "churn", "reallocs", "survival", "rss", "fragmentation", "leaks", "source", "diff",
             "difftree", "export", "by", "function", "metric", "live", "peak", "at", "from", "to", "2s", "-1", "top",
             "points", "0", "99999999999999999999", "width", "classes", "size", "file", "focus", "(", "[a-", "%", "%0",
             "%00", "%ff", "+", "&", "=", "?", "&&", ";", "#", "/", "..", "folded", "csv", "pprof", "flamegraph"]
    dice = random.Random(13)
    with viewing() as view:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", view.port)) as connection:
            for _ in range(400):
                text = dice.choice(words[:23])
                if dice.random() < 0.9:
                    text += "?" + "&".join("%s=%s" % (dice.choice(words), dice.choice(words))
                                           for _ in range(dice.randrange(5)))
                if dice.random() < 0.3:
                    at = dice.randrange(len(text) + 1)
                    text = text[:at] + dice.choice(words) + text[at:]
                connection.request("GET", view.path + "ask/" + text)
                answer = connection.getresponse()
                answer.read()
                check(answer.status in (200, 400, 404, 422), answer.status, text)


@case
def slow_clients_hold_up_nobody():
    """Hundreds of connections that send nothing, or a byte."""
    with viewing() as view, contextlib.ExitStack() as stack:
        for i in range(200):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", view.port)))
            slow.sendall(b"GET %sask/info HTTP/1.1\r\nX: " % view.path.encode() if i % 2 else b"G")
        for _ in range(10):
            view.ask("info")


@case
def requests_that_are_given_up():
    with viewing() as view:
        for _ in range(300):
            with socket.create_connection(("127.0.0.1", view.port)) as s:
                s.sendall(b"GET %sask/info HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % (view.path.encode(), view.port))
        view.ask("info")


def listening(pid):
    """(address, port) of all sockets on which a process listens."""
    inodes = set()
    for fd in os.listdir("/proc/%d/fd" % pid):
        with contextlib.suppress(OSError):
            inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink("/proc/%d/fd/%s" % (pid, fd))))
    found = []
    for name in ("tcp", "tcp6", "udp", "udp6"):
        if not os.path.exists("/proc/net/" + name):
            continue
        with open("/proc/net/" + name) as file:
            for line in file.readlines()[1:]:
                fields = line.split()
                if fields[9] in inodes and (fields[3] == "0A" or name.startswith("udp")):
                    address, port = fields[1].split(":")
                    found.append((address, int(port, 16)))
    return found


@case
def only_loopback_is_bound():
    with viewing() as view:
        same(listening(view.process.pid), [("0100007F", view.port)], "sockets")


@case
def addresses_differ():
    with viewing() as view, View(view.trace) as other:
        check(other.token != view.token and other.port != view.port, view.said(), other.said())
        refused(other, 404, view.path)


@case
def port():
    with viewing() as view:
        result = mayfly("view", "--no-browser", "--port", str(view.port), view.trace, code=1, lines=1)
        check("port %d is in use" % view.port in result.message, result.message)
        for wrong in ("0", "65536", "x", "-1"):
            mayfly("view", "--port", wrong, view.trace, code=2, lines=1)
        view.get(view.path)
        view.end()
        # At once the same port again.
        with View("--no-browser", "--port", str(view.port), view.trace, command=("view",)) as again:
            same(again.port, view.port)


@cases(["INT", "TERM", "HUP"])
def signals_end_it(name):
    with viewing() as view:
        with socket.create_connection(("127.0.0.1", view.port)) as idle:
            idle.sendall(b"GET ")
            before = set(os.listdir(view.folder.path))
            view.end(getattr(signal, "SIG" + name))
        same(set(os.listdir(view.folder.path)), before, "files")
        same(view.said().strip().count("\n"), 0, "lines of " + view.said())


@cases(["INT", "TERM", "HUP"])
def signals_end_slow_reading(name):
    number = getattr(signal, "SIG" + name)
    with Folder() as here:
        os.mkfifo(here / "pipe")
        with subprocess.Popen([MAYFLY, "view", "--no-browser", here / "pipe"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL) as process:
            with open(here / "pipe", "wb"):  # it has opened the other end
                process.send_signal(number)
                same(process.wait(TIMEOUT), -number, "exit status")


@case
def file_that_becomes_shorter():
    """The threads that answer read it by a mapping, too."""
    with Folder() as here:
        trace = here / "t.mayfly"
        same(record([os.path.join(PROGRAMS, "ugly"), "churn"], trace, "-i", "1").code, 0)
        with View(trace) as view:
            os.truncate(trace, 0)
            with contextlib.suppress(OSError, http.client.HTTPException):
                for by in ("function", "thread", "size"):
                    view.get(view.path + "ask/rows?metric=allocated&by=" + by + "&min-size=1")
            same(view.process.wait(TIMEOUT), 1, "exit status; it said " + view.said())
            check("became shorter" in view.said(), view.said())


@case
def bad_files():
    supported()
    with Folder() as here:
        with open(here / "text", "w") as file:
            file.write("not a trace\n")
        for name in ("text", "missing.mayfly"):
            result = mayfly("view", "--no-browser", here / name, code=1, lines=1)
            check(name in result.message and not result.text, result.message)
        mayfly("view", code=2, lines=1)
        mayfly("view", "a", "b", code=2, lines=1)
        with viewing() as view:
            result = mayfly("view", "--no-browser", "--base", here / "text", view.trace, code=1, lines=1)
            check("text" in result.message, result.message)


@case
def options_that_exclude_each_other():
    for options in (["--force"], ["--embed-sources"], ["--html", "out", "--port", "1"], ["--html", "out", "--no-browser"]):
        mayfly("view", *options, "x", code=2, lines=1)
    mayfly("view", "--html", "out", "--embed-sources", code=2, lines=1)
    with Folder() as here:
        mayfly("view", "--html", here / "out", here / "missing", code=1, lines=1)
        same(here.files(), [], "files")


# ---- the browser ----


def script(path, text):
    with open(path, "w") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, stat.S_IRWXU)


def browsing(here, browser, trace, **changes):
    return View(trace, command=("view",), DISPLAY=":77", BROWSER=browser, **changes)


@contextlib.contextmanager
def some_trace():
    with Folder() as here:
        same(record(["/bin/true"], here / "t.mayfly", "-i", "1").code, 0)
        yield here, here / "t.mayfly"


def content(path):
    with contextlib.suppress(FileNotFoundError), open(path) as file:
        return file.read()
    return ""


@case
def browser_is_opened():
    with some_trace() as (here, trace):
        script(here / "browser", 'printf "%%s" "$*" >%s/got.new; mv %s/got.new %s/got\n' % ((here.path,) * 3))
        for command, expected in (("browser", "URL"), ("browser --new %s -x", "--new URL -x"),
                                  ("nothing-of-that-name:browser", "URL")):
            with browsing(here, command, trace, PATH=here.path + ":/usr/bin:/bin") as view:
                wait_until(lambda: content(here / "got"), "the browser")
                same(content(here / "got"), expected.replace("URL", "http://127.0.0.1:%d%s" % (view.port, view.path)))
                check("ssh" not in view.said(), view.said())
                view.end()
            os.unlink(here / "got")


@case
def browser_that_fails():
    with some_trace() as (here, trace):
        for command in ("false", "/nonexistent/browser"):
            with browsing(here, command, trace) as view:
                wait_until(lambda: "no browser" in view.said(), "the message")
                same(view.get(view.path)[0], 200)
                view.end()


@case
def browser_that_stays():
    """It outlives mayfly, and while both live there is no zombie."""
    with some_trace() as (here, trace):
        script(here / "browser", "echo $$ >%s/pid.new; mv %s/pid.new %s/pid; exec sleep 1000\n" % ((here.path,) * 3))
        with browsing(here, here / "browser", trace) as view:
            wait_until(lambda: content(here / "pid"), "the browser")
            pid = int(content(here / "pid"))
            same(view.get(view.path)[0], 200)
            os.killpg(view.process.pid, signal.SIGINT)
            same(view.process.wait(TIMEOUT), 0, "exit status")
            os.kill(pid, signal.SIGKILL)


@cases({"ssh": {"SSH_CONNECTION": "192.0.2.1 1 192.0.2.2 22"}, "no display": {"DISPLAY": None},
        "sudo": {"SUDO_USER": "somebody"}})
def browser_is_not_opened(name):
    changes = {"ssh": {"SSH_CONNECTION": "192.0.2.1 1 192.0.2.2 22"}, "no display": {"DISPLAY": None},
               "sudo": {"SUDO_USER": "somebody"}}[name]
    with some_trace() as (here, trace):
        script(here / "browser", "touch %s/called\n" % here.path)
        changes = {"DISPLAY": ":77", "BROWSER": here / "browser", **changes}
        with View(trace, command=("view",), **changes) as view:
            wait_until(lambda: "ssh -L %d:127.0.0.1:%d" % (view.port, view.port) in view.said(), "how to forward")
            view.end()
            check(not os.path.exists(here / "called"), "the browser was started")


# ---- many at once ----

EVERYTHING = ["info", "rows?top=1", "curve?points=400", "rss", "overview", "rows?top=20&by=stack", "rows?by=lifetime",
              "heat", "churn", "spans", "events", "source", "leaks", "lanes?width=100", "callers?function=main"]


def answers(view, requests):
    """What each of them gets, asked by a client of its own at the same time as the others."""
    got, start = {}, threading.Barrier(len(requests))

    def ask(client, request):
        start.wait()
        got[client] = view.get(view.path + "ask/" + request)[::2]

    clients = [threading.Thread(target=ask, args=one) for one in enumerate(requests)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return got


@case
def asked_at_once():
    """Eight clients ask everything: the server lives, and each gets what it gets alone. The trace is so large
    that other threads decode it; they are started by the first requests."""
    need("python3")
    with Folder() as here:
        trace = os.environ.get("ASKED_TRACE")
        if not trace:
            trace = here / "t.mayfly"
            done = record([*PYTHON, "-c", "for i in range(10):\n    x = [bytes(100) for i in range(55000)]"],
                          trace, "-x", env=environment(PYTHONMALLOC="malloc"))
            same(done.code, 0, repr(done))
        wanted = {}
        for first in range(0, 3):
            with View(trace) as view:
                eight = (EVERYTHING[5 * first:] + EVERYTHING)[:8]
                for client, answer in answers(view, eight).items():
                    # 422: the trace does not hold what is asked for.
                    check(answer[0] in (200, 400, 404, 422), eight[client], answer)
                for request in set(eight) - set(wanted):
                    wanted[request] = view.get(view.path + "ask/" + request)[::2]
                got = answers(view, eight)
                for client, request in enumerate(eight):
                    same(got[client], wanted[request], request)
                view.end()


@case
def hostile_expressions():
    """Typed as a filter: refused at once in one line, in little memory."""
    with viewing() as view:
        resource.prlimit(view.process.pid, resource.RLIMIT_AS, (1 << 30, 1 << 30))
        for text, why in (("((a{1,255}){1,255}){1,255}", "too large"), ("(" * 1000, "nested"), ("(a)\\1", "back-ref")):
            status, _, body = view.get(view.path + "ask/rows?focus=" + urllib.parse.quote(text))
            check(status == 400 and why in body.decode(), status, body)
        for text in ("(a*)*b", "(.*)*(.*)*x", "(a|a)*$"):
            same(view.get(view.path + "ask/rows?focus=" + urllib.parse.quote(text))[0], 200, text)
        with open("/proc/%d/status" % view.process.pid) as file:
            most = int(re.search(r"VmHWM:\s+(\d+) kB", file.read()).group(1))
        check(most < 200 << 10, most)
        view.end()


# ---- source files ----

SOURCE = r"""
#include <stdlib.h>
int main(void)
{
	for (int i = 0; i < 100; i++)
		*(char *volatile *)malloc(sizeof(char *)) = 0;
	return 0;
}
"""


@case
def sources():
    """Only files that the trace names are read, and only where they are text."""
    need("gcc")
    with Folder() as here:
        with open(here / "marked.c", "w") as file:
            file.write(SOURCE)
        done = run(["gcc", "-g", "-O0", "-o", here / "marked", here / "marked.c"])
        same(done.code, 0, repr(done))
        same(record([here / "marked"], here / "t.mayfly", "-i", "1").code, 0)
        with open(here / "secret", "w") as file:
            file.write("secret text\n")
        named = here / "marked.c"

        def got(view, path):
            return view.get(view.path + "ask/source?file=" + path)[2].decode()

        with View(here / "t.mayfly") as view:
            check("volatile" in got(view, named), got(view, named))
            for path in (here / "secret", "/etc/passwd", "../../etc/passwd", "marked.c", "./marked.c",
                         here.path + "/./marked.c", here.path + "/../" + named, "", "/proc/self/environ", "/dev/zero"):
                text = got(view, path)
                check("secret text" not in text and "root:" not in text and "volatile" not in text, path, text)
            # What is named is read as it is now: not when it is no text.
            for change in (lambda: os.mkfifo(named), lambda: os.symlink("/dev/zero", named), lambda: os.mkdir(named),
                           lambda: open(named, "wb").write(b"volatile\0"), lambda: os.symlink("nothing", named)):
                os.rmdir(named) if os.path.isdir(named) and not os.path.islink(named) else os.unlink(named)
                change()
                check("volatile" not in got(view, named), got(view, named))
            os.unlink(named)
            view.end()
        # The trace of another machine: the file below the current directory.
        os.mkdir(here / "elsewhere")
        with open(here / "elsewhere/marked.c", "w") as file:
            file.write("volatile here\n")
        before = os.getcwd()
        os.chdir(here / "elsewhere")
        try:
            with View(here / "t.mayfly") as view:
                check("volatile here" in got(view, named), got(view, named))
        finally:
            os.chdir(before)


# ---- recordings that go on ----

STEPS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((noinline)) static void step(long count)
{
	for (long i = 0; i < count; i++)
		*(char *volatile *)malloc(100) = 0;
}

/* A number on standard input: so many blocks. "exec": the program starts anew. */
int main(int argc, char **argv)
{
	char line[100];

	(void)argc;
	setvbuf(stdin, NULL, _IONBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		if (line[0] == 'e')
			execv(argv[0], argv);
		step(atol(line));
		puts("done");
		fflush(stdout);
	}
	return 7;
}
"""

_built = []


def steps_program():
    if not _built:
        need("gcc")
        folder = Folder()
        folder.__enter__()
        _built.append(folder)
        with open(folder / "steps.c", "w") as file:
            file.write(STEPS)
        done = run(["gcc", "-g", "-O0", "-o", folder / "steps", folder / "steps.c"])
        same(done.code, 0, repr(done))
    return _built[0] / "steps"


class Steps:
    """A program that allocates when it is told to."""

    def __init__(self, *command, **changes):
        self.process = subprocess.Popen([*command, steps_program()], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, env=environment(**changes))
        self.write("1")

    def write(self, text):
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()
        if text != "exec":
            same(self.process.stdout.readline(), b"done\n", "the program's output")

    def end(self):
        self.process.stdin.close()
        same(self.process.wait(TIMEOUT), 7, "the program's exit status")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(TIMEOUT)


def steps_of(view):
    """Blocks that step() has allocated."""
    rows = view.ask("rows?metric=allocated&by=function")["rows"]
    return sum(row["self"]["samples"] for row in rows if row["function"] == "step")


def follows(view, blocks):
    wait_until(lambda: steps_of(view) == blocks, "%d blocks" % blocks)


def settles(view):
    wait_until(lambda: not view.changes()["live"], "the last change")


def follow_to_the_end(view, program, counts=(1000, 1000, 300000)):
    """The last is more than the recorder leaves in the spool."""
    total = 1
    follows(view, total)
    generation = view.changes()["generation"]
    for count in counts:
        program.write(str(count))
        total += count
        follows(view, total)
        now = view.changes()
        check(now["live"] and now["generation"] > generation, now, generation)
        generation = now["generation"]
    program.end()
    settles(view)
    same(steps_of(view), total, "blocks at the end")


@cases(["spool", "trace to come", "process", "recorder"])
def live(named):
    supported()
    with Folder() as here:
        trace = here / "t.mayfly"
        with Steps(MAYFLY, "record", "-x", "-o", trace, "--") as program:
            if named in ("process", "recorder"):
                pid = program.process.pid
                if named == "process":
                    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
                        pid = int(file.read())
                name = str(pid)
            else:
                name = trace + (".spool" if named == "spool" else "")
            with View(name) as view:
                check("recorded" in view.said(), view.said())
                follow_to_the_end(view, program)
                same(view.ask("info")["summary"] is not None, True, "the page still works")
                view.end()
        same([os.path.basename(path) for path in here.files()], ["t.mayfly"], "files")


@case
def live_without_a_recorder():
    supported()
    with Folder() as here:
        with Steps(LD_PRELOAD=AGENT, MAYFLY="exact=1,output=" + here / "t.spool") as program:
            with View(here / "t.spool") as view:
                follow_to_the_end(view, program)
                view.end()


@case
def live_across_an_exec():
    supported()
    with Folder() as here:
        with Steps(MAYFLY, "record", "-x", "-o", here / "t.mayfly", "--") as program:
            with View(here / "t.mayfly") as view:
                program.write("500")
                follows(view, 501)
                program.write("exec")
                program.write("700")
                follows(view, 700)
                program.end()
                settles(view)
                same(steps_of(view), 700, "blocks at the end")


@case
def live_until_all_is_killed():
    """What is left is a spool, which says what it knows."""
    supported()
    with Folder() as here:
        with Steps(MAYFLY, "record", "-x", "-o", here / "t.mayfly", "--") as program:
            pid = program.process.pid
            with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
                child = int(file.read())
            with View(here / "t.mayfly") as view:
                program.write("500")
                follows(view, 501)
                program.process.kill()
                os.kill(child, signal.SIGKILL)
                settles(view)
                same(steps_of(view), 501, "blocks at the end")
                view.end()
            # Afterwards, under the name of the trace that never came to be.
            with View(here / "t.mayfly") as view:
                same(steps_of(view), 501, "blocks of the spool")
                same(view.changes()["live"], False)
                view.end()


@case
def processes_that_are_not_recorded():
    supported()
    with Folder() as here:
        before = os.getcwd()
        os.chdir(here.path)
        try:
            for pid in (str(os.getpid()), str(2 ** 31 - 1)):
                result = mayfly("view", "--no-browser", pid, code=1, lines=1)
                check("process " + pid in result.message, result.message)
            # A file of that name is meant.
            same(record(["/bin/true"], here / "1", "-i", "1").code, 0)
            with View("1") as view:
                same(view.changes(), {"generation": 1, "live": False})
                view.end()
        finally:
            os.chdir(before)


@case
def record_view():
    """Follows the program that it starts; the program's output and exit status are its own."""
    supported()
    with Folder() as here:
        reader, writer = os.pipe()
        done_reader, done_writer = os.pipe()

        class Recorded(View):
            def __init__(self):
                self.file = tempfile.TemporaryFile()
                self.process = subprocess.Popen(
                    [MAYFLY, "record", "--view", "-x", "-o", here / "t.mayfly", "--", steps_program()],
                    env=environment(DISPLAY=None, WAYLAND_DISPLAY=None), stdin=reader, stdout=done_writer,
                    stderr=self.file, start_new_session=True)
                self.find_address()

        with Recorded() as view, os.fdopen(writer, "wb", 0) as orders, os.fdopen(done_reader, "rb", 0) as out:
            os.close(reader)
            os.close(done_writer)
            total = 0
            for count in (10, 1000, 300000):
                orders.write(b"%d\n" % count)
                same(out.read(5), b"done\n")
                total += count
                follows(view, total)
                check(view.changes()["live"], view.changes())
            orders.close()
            wait_until(lambda: "has ended" in view.said(), "the end")
            same(out.read(), b"", "the rest of the program's output")
            same(view.changes()["live"], False)
            same(steps_of(view), total)
            same([os.path.basename(path) for path in here.files()], ["t.mayfly"], "files")
            view.end(code=7)


@case
def record_view_of_what_cannot_be_shown():
    supported()
    with Folder() as here:
        result = run([MAYFLY, "record", "--view", "--stream", "unix:" + here / "socket", "--", "/bin/true"])
        check(result.code == 125 and result.err.count(b"\n") == 1 and b"--view" in result.err, result)
        # There is no trace, so nothing stays.
        result = record([here / "missing"], here / "t.mayfly", "--view")
        same(result.code, 127, repr(result))
        if os.path.exists(os.path.join(PROGRAMS, "static")):
            result = record([os.path.join(PROGRAMS, "static")], here / "t.mayfly", "--view")
            check(b"not recorded" in result.err and result.code < 125, result)


@case
def record_view_port():
    supported()
    with socket.socket() as free, Folder() as here:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
        # Others may not have it meanwhile, so mayfly may not either: the program runs all the same.
        free.listen()
        result = record(["/bin/true"], here / "t.mayfly", "--view=" + port)
        same(result.code, 0, repr(result))
        check(b"port %s is in use" % port.encode() in result.err, result.err)
        same(here.files("*.mayfly"), [here / "t.mayfly"])
        result = record(["/bin/true"], here / "u.mayfly", "--view=65536")
        check(result.code == 125 and b"--view: '65536'" in result.err, result)


@case
def record_view_at_a_port():
    supported()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with Folder() as here:
        command = ("record", "--view=%d" % port, "-o", here / "t.mayfly", "--", "/bin/true")
        with View(command=command, DISPLAY=None, WAYLAND_DISPLAY=None) as view:
            same(view.port, port)
            wait_until(lambda: "has ended" in view.said(), "the end")
            view.end()


@case
def process_of_another_user():
    supported()
    if os.geteuid() != 0:
        raise Skip("only root can become another user")
    with subprocess.Popen(["sleep", "infinity"]) as process:
        try:
            result = subprocess.run([MAYFLY, "view", "--no-browser", str(process.pid)], user=65534, group=65534,
                                    extra_groups=[], env=environment(), capture_output=True, check=False,
                                    timeout=TIMEOUT)
        except PermissionError as error:
            raise Skip("others may not run this mayfly") from error
        finally:
            process.kill()
    same(result.returncode, 1)
    check(b"process %d: it belongs to user root; run mayfly as" % process.pid in result.stderr, result.stderr)


if __name__ == "__main__":
    main()
