#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Profiles and metrics that collectors come to fetch while programs run. The readers are real ones: go tool pprof,
Prometheus and promtool, and protoc with the published schema of pprof."""
import base64
import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
import time
import urllib.request

from harness import (AGENT, MAYFLY, PYTHON, SOURCE, TIMEOUT, Folder, case, cases, check, environment, main, mayfly, need, report, run,
                     same, wait_until)
from protoc import Profile
from told import Told, told_program

MB = 1 << 20
ADDRESS = re.compile(rb"profiles and metrics are at (http://[^/]*/|unix:.*)\n")


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=TIMEOUT)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class Served:
    """A process of mayfly that serves, and what it says."""
    def __init__(self, command, here, stdin=None, stdout=None, **changes):
        self.errors = here / "errors"
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen([MAYFLY, *command], stdin=stdin, stdout=stdout, stderr=errors,
                                            env=environment(**changes))
        wait_until(lambda: ADDRESS.search(self.said()) or self.process.poll() is not None, "the address")
        found = ADDRESS.search(self.said())
        check(found, "no address:", self.said())
        self.address = found[1].decode()

    def said(self):
        with open(self.errors, "rb") as file:
            return file.read()

    def connection(self):
        if self.address.startswith("unix:"):
            return Unix(self.address[5:])
        host, port = re.match(r"http://(.*):(\d+)/", self.address).groups()
        return http.client.HTTPConnection(host.strip("[]"), int(port), timeout=TIMEOUT)

    def get(self, path, method="GET", status=200, **heads):
        """The body; heads: a value of None leaves one out."""
        with contextlib.closing(self.connection()) as connection:
            connection.putrequest(method, path, skip_host="Host" in heads)
            for name, value in heads.items():
                if value is not None:
                    connection.putheader(name.replace("_", "-"), value)
            connection.endheaders()
            answer = connection.getresponse()
            body = answer.read()
            same(answer.status, status, "%s of %s %s" % (body[:200], method, path))
            self.heads = {k.lower(): v for k, v in answer.getheaders()}
            return body

    def profile(self, path):
        return Profile(self.get(path))

    def metrics(self):
        """{name and labels: value}"""
        text = self.get("/metrics").decode()
        return {name: float(value) for name, value in re.findall(r"^([^#\n].*) (\S+)$", text, re.M)}


@contextlib.contextmanager
def recorded(*options, here=None, of=None, **changes):
    """The program told, or another that says "ready", under record --listen."""
    with contextlib.ExitStack() as stack:
        here = here or stack.enter_context(Folder())
        if "--listen" not in options:
            options = (*options, "--listen", "127.0.0.1:0")
        served = Served(["record", "-q", "-o", here / "t.mayfly", *options, "--",
                         *(of or [told_program(here)])], here, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **changes)
        served.here = here
        try:
            served.told = Told(served.process)
            yield served
        finally:
            served.process.stdin.close()
            served.process.wait()
            served.process.stdout.close()


def reported(trace, metric="live"):
    return report(trace, "--metric", metric)["total"]["bytes"]["estimate"]


@cases(["sampled", "exact"])
def what_is_fetched_is_what_is_reported(kind):
    """The same recording at the same moment, as the program waits: what another mayfly reports of it."""
    options = ["--exact"] if kind == "exact" else []
    with recorded("--service", "api", *options) as s:
        s.told.tell("a", 30)
        s.told.tell("b", 20)
        s.told.tell("f", 5)
        heap = s.profile("/debug/pprof/heap")
        metrics = s.metrics()
        pid = int(re.search(r"pid=(\d+)", s.get("/").decode())[1])
        mayfly("ctl", str(pid), "snapshot", "-o", s.here / "now.mayfly")
        live, allocated = (reported(s.here / "now.mayfly", metric) for metric in ("live", "allocated"))
        check(live > 40 * MB and allocated > live, live, allocated)
        same((heap.total("inuse_space"), heap.total("alloc_space")), (live, allocated))
        same(metrics['mayfly_live_bytes{service="api"}'], live)
        same(metrics['mayfly_recorded_processes{service="api"}'], 1)
        with open("/proc/%d/statm" % pid) as file:
            resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        check(abs(metrics['mayfly_resident_bytes{service="api"}'] - resident) < MB, metrics, resident)



@case
def a_difference():
    """What is allocated and freed in the seconds, with its sign, and nothing of before or after."""
    with recorded("--exact") as s:
        s.told.tell("a", 40)
        with contextlib.closing(s.connection()) as connection:
            connection.request("GET", "/debug/pprof/allocs?seconds=4")
            s.get("/healthz")  # by the thread that has got that request before
            s.told.tell("f", 25)
            s.told.tell("b", 10)
            profile = Profile(connection.getresponse().read())
        s.told.tell("c", 5)
        same((profile.default, profile.duration), ("alloc_space", 4 * 10**9))
        check(abs(profile.time / 1e9 - time.time()) < 60, "taken at", profile.time)
        functions = ("keep_a", "keep_b", "keep_c")
        same([profile.sums("inuse_objects")[f] for f in functions], [-25, 10, 0], "live")
        same([profile.sums("alloc_objects")[f] for f in functions], [0, 10, 0], "allocated")
        same(profile.sums("inuse_space")["keep_a"], -25 * MB)
        whole = s.profile("/debug/pprof/heap")
        same((whole.default, whole.duration), ("inuse_space", 0))
        same([whole.sums("inuse_objects")[f] for f in functions], [15, 10, 5], "live")
        same([whole.sums("alloc_objects")[f] for f in functions], [40, 10, 5], "allocated")
        same([name for name, _ in whole.types], ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"],
             "Go's names in Go's order")


@case
def go_tool_pprof():
    need("go")
    with recorded("--exact", "--service", "api") as s:
        s.told.tell("a", 30)
        s.told.tell("b", 20)
        for what, kind, expected in (("heap", "inuse_space", {"keep_a": 30, "keep_b": 20}),
                                     ("allocs?service=api", "alloc_space", {"keep_a": 30, "keep_b": 20})):
            done = run(["go", "tool", "pprof", "-top", "-nodefraction=0", "-unit=B", s.address + "debug/pprof/" + what],
                       env=environment(HOME=s.here / ".", PPROF_TMPDIR=s.here / "."))
            same(done.code, 0, done.err)
            check(b"Type: " + kind.encode() in done.out, done.out)
            found = dict(re.findall(r"^ *(\d+)B .* (keep_.)$", done.out.decode(), re.M)[::-1])
            rows = {name: int(value) for value, name in re.findall(r"^ *(\d+)B .* (keep_.)$", done.out.decode(), re.M)}
            same(rows, {name: count * MB for name, count in expected.items()}, found)


@case
def promtool_has_no_complaint():
    need("promtool")
    with recorded("--service", 'q"uo\\te\nd') as s:
        s.told.tell("a", 10)
        text = s.get("/metrics")
        done = run(["promtool", "check", "metrics"], stdin=text)
        same((done.code, done.out, done.err), (0, b"", b""), "promtool")
        check(b'{service="q\\"uo\\\\te\\nd"}' in text, text)
        same(s.heads["content-type"], "text/plain; version=0.0.4; charset=utf-8")


@case
def prometheus_scrapes():
    """The server that people run: its own answer to a question is what the program has live."""
    need("prometheus")
    with recorded("--exact", "--service", "api") as s, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = "127.0.0.1:%d" % free.getsockname()[1]
        free.close()
        s.told.tell("a", 30)
        with open(s.here / "prometheus.yml", "w") as file:
            file.write("scrape_configs: [{job_name: mayfly, scrape_interval: 1s, static_configs: [{targets: ['%s']}]}]"
                       % s.address[7:-1])
        with open(s.here / "log", "wb") as log, subprocess.Popen(
                ["prometheus", "--config.file=" + str(s.here / "prometheus.yml"), "--web.listen-address=" + place,
                 "--storage.tsdb.path=" + str(s.here / "data")], stdout=log, stderr=log) as prometheus:
            def value():
                try:
                    with urllib.request.urlopen("http://%s/api/v1/query?query=mayfly_live_bytes" % place, timeout=TIMEOUT) as a:
                        found = json.load(a)["data"]["result"]
                except OSError:
                    return None
                return found[0] if found else None
            try:
                wait_until(value, "a sample in Prometheus", 0.2)
                found = value()
                same(found["metric"]["service"], "api")
                live = s.profile("/debug/pprof/heap").total("inuse_space")
                same(float(found["value"][1]), live)
            finally:
                prometheus.terminate()


@case
def health():
    with recorded() as s:
        same(s.get("/healthz"), b"ok\n")
        same(s.get("/readyz"), b"ok\n")


@case
def requests_that_are_refused():
    with recorded() as s:
        host = s.address[7:-1]
        port = host.split(":")[1]
        for heads in ({"Host": "evil.example:" + port}, {"Host": None}, {"Host": host, "Origin": "http://evil.example"},
                      {"Host": host, "Sec-Fetch-Site": "cross-site"}):
            for path in ("/metrics", "/debug/pprof/heap", "/healthz"):
                said = s.get(path, status=403 if heads["Host"] else 400, **heads)
                check(not heads["Host"] or said == b"Refused\n", path, said)
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            s.get("/metrics", method=method, status=405)
        s.get("/metrics", Content_Length="5", status=400)
        s.get("/debug/pprof/heap?service=" + "x" * 9000, status=414)
        for path in ("/debug/pprof/goroutine", "/debug/pprof/", "/metrics/", "/../etc/passwd", "/nothing"):
            s.get(path, status=404)
        for question in ("seconds=601", "seconds=-1", "seconds=x", "pid=0", "pid=99999999999999999999", "pid=1x", "service=",
                         "service=%00", "service", "foo=1", "service=" + "x" * 300):
            s.get("/debug/pprof/heap?" + question, status=400)
        for question in ("pid=1", "service=nobody"):
            s.get("/debug/pprof/heap?" + question, status=404)
        check(s.get("/metrics", method="HEAD") == b"", "HEAD has no body")
        # It still answers.
        s.get("/metrics")


@case
def slow_clients_hold_up_nobody():
    with recorded() as s:
        s.told.tell("a", 5)
        host, port = s.address[7:-1].split(":")
        with contextlib.ExitStack() as stack:
            for text in (b"", b"GET /metrics HT", b"GET /debug/pprof/heap?seconds=500 HTTP/1.1\r\nHost: %s:%s\r\n\r\n"
                         % (host.encode(), port.encode())):
                for _ in range(20):
                    one = stack.enter_context(socket.create_connection((host, int(port)), timeout=TIMEOUT))
                    one.sendall(text)
            begun = time.monotonic()
            s.get("/metrics")
            same(s.profile("/debug/pprof/heap").sums("inuse_objects")["keep_a"] > 0, True)
            check(time.monotonic() - begun < 30, "it took", time.monotonic() - begun)


@case
def a_socket_of_unix():
    """Whoever may write to it is admitted, and names no host; a later server takes the place of one that was killed."""
    with Folder() as here:
        path = here / "s.sock"
        for _ in range(2):
            with recorded("--listen", "unix:" + str(path), here=here) as s:
                s.told.tell("a", 10)
                same(os.stat(path).st_mode & 0o777, 0o660)
                check("mayfly_recorded_processes" in s.get("/metrics").decode(), "metrics")
                s.get("/metrics", Origin="http://localhost", status=403)
            check(not os.path.exists(path), "it is removed")
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
        with recorded("--listen", "unix:" + str(path), here=here) as s:
            s.get("/healthz")


TOKEN = "0123456789abcdef0123"


@case
def other_machines_need_a_token():
    with Folder() as here:
        done = run([MAYFLY, "record", "-q", "--listen", "0.0.0.0:0", "-o", here / "t.mayfly", "--", "true"])
        same(done.code, 0)
        check(b"so it needs a token" in done.err, done.err)
        for bad in ("short", "with a space in it", "x" * 200):
            done = run([MAYFLY, "record", "-q", "--listen", "0", "-o", here / "t.mayfly", "--", "true"],
                       env=environment(MAYFLY_LISTEN_TOKEN=bad))
            check(b"a token has 16 to 127 bytes, and no spaces" in done.err and not done.code, done)
            check(bad.encode() not in done.err, "it is said")
    with recorded("--listen", "0.0.0.0:0", MAYFLY_LISTEN_TOKEN=TOKEN) as s:
        s.told.tell("a", 10)
        basic = base64.b64encode(b"mayfly:" + TOKEN.encode()).decode()
        for login in ("Bearer " + TOKEN, "Basic " + basic):
            s.get("/metrics", Authorization=login, Host="api-7.example:9400")
        for login in (None, "Bearer " + TOKEN[:-1], "Bearer " + TOKEN + "x", "Bearer", "Basic " + basic[:-4], TOKEN):
            s.get("/metrics", Authorization=login, status=401)
            s.get("/healthz", Authorization=login, status=401)
        same(s.heads["www-authenticate"], 'Basic realm="mayfly"')
        s.get("/metrics", Authorization="Bearer " + TOKEN, Origin="http://api-7.example:9400", status=403)


@case
def addresses_that_are_wrong():
    for place in ("", "x", "127.0.0.1", "65536", "127.0.0.1:70000", "host.example:1", "[::1", "::1:9400", "unix:relative",
                  "unix:/" + "x" * 200):
        done = run([MAYFLY, "record", "--listen", place, "--", "true"])
        same(done.code, 125, place)
        check(b"is not PORT, ADDRESS:PORT or unix:/PATH" in done.err, done.err)
    with socket.socket() as taken, Folder() as here:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = run([MAYFLY, "record", "-q", "--listen", str(taken.getsockname()[1]), "-o", here / "t.mayfly", "--", "true"])
        same(done.code, 0, "the program runs all the same")
        check(b"Address already in use" in done.err, done.err)


FAMILY = """
import os, sys, time
kept = [bytearray(1 << 20) for _ in range(30)]
if not os.fork():
    kept += [bytearray(1 << 20) for _ in range(20)]
print("ready", flush=True)
sys.stdin.read()
"""


@case
def children_are_served():
    """Each by its number, and all of a service as one: then it is the sum of them."""
    with recorded("--exact", "--follow", "--service", "api", of=[*PYTHON, "-c", FAMILY]) as s:
        same(s.process.stdout.readline(), b"ready\n", "the other")
        wait_until(lambda: s.metrics()['mayfly_live_bytes{service="api"}'] > 80 * MB, "what both have")
        pids = re.findall(r"pid=(\d+)", s.get("/").decode())
        same(len(pids), 2, s.get("/"))
        each = [s.profile("/debug/pprof/heap?pid=" + pid).total("inuse_space") for pid in pids]
        check(min(each) > 30 * MB and max(each) > 50 * MB, each)
        same(s.profile("/debug/pprof/heap?service=api").total("inuse_space"), sum(each), "the service")
        same(s.profile("/debug/pprof/heap").total("inuse_space"), sum(each), "all")
        metrics = s.metrics()
        same(metrics['mayfly_live_bytes{service="api"}'], sum(each))
        same(metrics['mayfly_recorded_processes{service="api"}'], 2)
        same(json.loads(s.get("/targets")), [{"targets": [s.address[7:-1]],
                                              "labels": {"__param_service": "api", "service_name": "api"}}])


# ---- the agent of a host ----

@contextlib.contextmanager
def watched(*lines, token=None):
    """mayfly agent with a folder, and a function that starts the program told there."""
    with Folder() as here, contextlib.ExitStack() as stack:
        os.mkdir(here / "spools")
        os.chmod(here / "spools", 0o1777)
        os.chmod(here / ".", 0o755)
        with open(here / "agent.conf", "w") as file:
            file.write("\n".join(["folder = %s" % (here / "spools"), *lines]))
        served = Served(["agent", "--config", here / "agent.conf"], here)
        served.here, served.started, told = here, [], told_program(here)

        def start(service, user=None):
            settings = "output=%s/%%p.spool,exact=yes" % (here / "spools")
            process = stack.enter_context(subprocess.Popen(
                [told], stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=user,
                env=environment(LD_PRELOAD=AGENT, MAYFLY=settings, MAYFLY_SERVICE=service)))
            served.started.append(process)
            return Told(process)

        served.start = start
        try:
            yield served
            served.process.terminate()
            same(served.process.wait(TIMEOUT), 0, served.said())
        finally:
            served.process.kill()
            served.process.wait()
            for process in served.started:
                process.kill()


@case
def an_agent_serves_its_processes():
    """Without a database; each process with its owner's rights."""
    with watched("listen = 127.0.0.1:0") as s:
        wait_until(lambda: s.get("/readyz"), "readiness")
        s.get("/debug/pprof/heap", status=404)
        check(b"mayfly_recorded_processes{" not in s.get("/metrics"), "no service so far")
        first, second, third = s.start("api"), s.start("api"), s.start("web", user=65534 if os.geteuid() == 0 else None)
        first.tell("a", 30)
        second.tell("a", 10)
        third.tell("b", 20)
        wait_until(lambda: s.get("/").count(b"heap?pid=") == 3, "the processes")
        metrics = s.metrics()
        spools = {service: [s.here / "spools/%d.spool" % p.pid for p in processes]
                  for service, processes in (("api", s.started[:2]), ("web", s.started[2:]))}
        for service, paths in spools.items():
            live = sum(reported(path) for path in paths)
            check(live > 20 * MB, live)
            same(metrics['mayfly_live_bytes{service="%s"}' % service], live)
            same(s.profile("/debug/pprof/heap?service=" + service).total("inuse_space"), live, service)
            same(metrics['mayfly_recorded_processes{service="%s"}' % service], len(paths))
        check("mayfly_push_failures_total" not in metrics, "it pushes nothing")
        same({t["labels"]["__param_service"] for t in json.loads(s.get("/targets"))}, {"api", "web"})
        samples = metrics['mayfly_samples_total{service="api"}']
        s.started[1].kill()
        s.started[1].wait()
        wait_until(lambda: s.metrics()['mayfly_recorded_processes{service="api"}'] == 1, "its end")
        same(s.metrics()['mayfly_samples_total{service="api"}'], samples, "what only grows")
        same(s.profile("/debug/pprof/heap?service=api").sums("inuse_objects")["keep_a"], 30)


@case
def an_agent_with_a_token():
    with Folder() as there:
        with open(there / "token", "w") as file:
            file.write(TOKEN + "\n")
        os.chmod(there / "token", 0o600)
        with watched("listen = 0.0.0.0:0", "token = %s" % (there / "token")) as s:
            s.get("/metrics", status=401)
            s.get("/metrics", Authorization="Bearer " + TOKEN)
            s.start("api").tell("a", 1)
            wait_until(lambda: b"heap?pid=" in s.get("/", Authorization="Bearer " + TOKEN), "the process")
            targets = json.loads(s.get("/targets", Authorization="Bearer " + TOKEN))[0]["targets"]
            same(targets, [socket.gethostname() + s.address[len("http://0.0.0.0"):-1]], "a name that others know")
        os.chmod(there / "token", 0o644)
        with open(there / "agent.conf", "w") as file:
            file.write("folder = /tmp\nlisten = 0\ntoken = %s\n" % (there / "token"))
        done = run([MAYFLY, "agent", "--config", there / "agent.conf"])
        check(done.code == 1 and b"others may read it" in done.err, done)


@case
def pushes_that_fail():
    """Counted, and nobody who asks waits for the database."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with watched("listen = 127.0.0.1:0", "every = 1s", "database = clickhouse://127.0.0.1:%d/fleet"
                     % closed.getsockname()[1]) as s:
            s.start("api").tell("a", 10)
            wait_until(lambda: s.metrics().get("mayfly_push_failures_total", 0) >= 2, "two failures")
            metrics = s.metrics()
            same(metrics["mayfly_pushed_windows_total"], 0)
            check("mayfly_push_last_success_age_seconds" not in metrics, "there was none")
            same(s.said().count(b"the next window will be longer"), 1, s.said())
            check(re.search(rb", at \d\d:\d\d:\d\d; the next window", s.said()), s.said())
            s.process.terminate()
            same(s.process.wait(TIMEOUT), 1, "the last windows are missing")
            s.process = subprocess.Popen(["true"])
            s.process.wait()


SCRAPE = os.path.join(SOURCE, "examples/fleet/scrape")


def scalars(text):
    """{path: [values]} of a YAML text with maps, lists and plain values only: enough for these files."""
    found, path = {}, []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        depth = len(line) - len(line.lstrip(" -"))
        while path and path[-1][0] >= depth:
            path.pop()
        key, value = re.fullmatch(r"[ -]*([a-z_]+):(?: (.*))?", line).groups()
        path.append((depth, key))
        if value is not None:
            found.setdefault(".".join(name for _, name in path), []).append(value)
    return found


@case
def configurations_of_collectors():
    """Prometheus' own reader takes its file; those of Parca and Alloy fetch what there is and nothing else."""
    need("promtool")
    done = run(["promtool", "check", "config", "--syntax-only", os.path.join(SCRAPE, "prometheus.yml")])
    same(done.code, 0, done)
    with open(os.path.join(SCRAPE, "parca.yaml")) as file:
        parca = scalars(file.read())
    below = "scrape_configs.profiling_config.pprof_config."
    with open(os.path.join(SCRAPE, "config.alloy")) as file:
        alloy = {name: dict(re.findall(r"(\w+) += +(\S+)", body))
                 for name, body in re.findall(r"profile\.(\w+) \{(.*?)\}", file.read(), re.S)}
    for kind in ("memory", "block", "goroutine", "mutex", "process_cpu"):
        enabled = "true" if kind == "memory" else "false"
        same(parca[below + kind + ".enabled"], [enabled], kind)
        same(alloy[kind]["enabled"], enabled, kind)
    same(parca[below + "memory.path"], ["/debug/pprof/allocs"])
    same(alloy["memory"]["path"], '"/debug/pprof/allocs"')
    check(parca["scrape_configs.http_sd_configs.url"][0].endswith(":9400/targets"), parca)
    with watched("listen = 127.0.0.1:0") as s:
        for path in (parca[below + "memory.path"][0], "/targets"):
            s.get(path, status=404 if "pprof" in path else 200)


main()
