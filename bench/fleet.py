# SPDX-License-Identifier: Apache-2.0
"""Traces of many hosts in a ClickHouse database of two servers: what pushing costs, and how long questions take."""

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import measure

SERVICES = 50
CONFIG = """<yandex>
<logger><level>error</level><log>{here}/log</log><errorlog>{here}/errors</errorlog></logger>
<http_port>{http}</http_port><tcp_port>{tcp}</tcp_port><listen_host>127.0.0.1</listen_host>
<path>{here}/data/</path><tmp_path>{here}/tmp/</tmp_path><users_config>{here}/users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>100000000</mark_cache_size><remote_servers><two>{shards}</two></remote_servers>
</yandex>
"""
USERS = """<yandex><profiles><default></default></profiles><users><default><password></password>
<networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>
<quotas><default></default></quotas></yandex>
"""
SHARD = "<shard><replica><host>127.0.0.1</host><port>%d</port></replica></shard>"
# The windows of a day, from what was pushed once: a window of a host has the samples of another recording each time.
# host: the new one, and with it its service, as its number differs by a multiple of their number.
# PUSH: the number that a push of the window would have; its random part is that of the old one and of the copy.
PUSH = """bitOr(bitShiftLeft(toUInt64(intDiv(intDiv({begin} + (w + 1) * {step}, 1000000000) % 86400 * 256, 86400)), 56),
bitShiftRight(intHash64(bitXor(push, one + 1)), 8))"""
NEW = """SELECT *, toUInt64(one % {windows}) AS w, toUInt64(intDiv(one, {windows})) AS copy FROM
(SELECT *, arrayJoin(range(toUInt64({windows} * {copies}))) AS one FROM pushed.{table}_local)"""
MORE_SAMPLES = """INSERT INTO {to}.samples_local
SELECT toDate(intDiv({begin} + w * {step}, 1000000000)), service, {push}, stack, allocated_bytes, allocated_bytes_variance, allocated_blocks,
allocated_blocks_variance, allocated_samples, live_bytes, live_bytes_variance, live_blocks, live_blocks_variance, live_samples,
peak_bytes, peak_bytes_variance, peak_blocks, peak_blocks_variance, peak_samples FROM (%s)""" % NEW
MORE_WINDOWS = """INSERT INTO {to}.windows_local
SELECT toDate(intDiv({begin} + w * {step}, 1000000000)), service, version, concat('host', toString(number)), intHash64(number + 1), intHash64(bitXor(window, one + 1)),
{push}, program, command, pid, toInt64({begin}) + w * {step}, toInt64({begin}) + (w + 1) * {step}, exact,
interval_bytes, samples, allocated_bytes, live_bytes, peak_bytes, rss_bytes, rss_most_bytes, cpu_ns, labels.key, labels.value,
pushed, share FROM (SELECT *, toUInt64((toUInt64(substring(host, 5)) + w * {services}) %% {hosts}) + copy * {hosts} AS number
FROM (%s))""" % NEW


class Server:
    def __init__(self, folder):
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        for name in ("data", "tmp"):
            os.makedirs(os.path.join(folder, name))
        sockets = [socket.socket() for _ in range(2)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        self.http, self.tcp = (one.getsockname()[1] for one in sockets)
        for one in sockets:
            one.close()

    def start(self, shards):
        for name, text in (("config.xml", CONFIG), ("users.xml", USERS)):
            with open(os.path.join(self.folder, name), "w") as f:
                f.write(text.format(here=self.folder, http=self.http, tcp=self.tcp, shards=shards))
        self.process = subprocess.Popen(["clickhouse-server", "--config-file", os.path.join(self.folder, "config.xml")],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        while True:
            try:
                return self.ask("SELECT 1")
            except OSError:
                if self.process.poll() is not None:
                    raise RuntimeError("clickhouse-server has ended")
                time.sleep(0.1)

    def ask(self, statement):
        try:
            with urllib.request.urlopen("http://127.0.0.1:%d/" % self.http, statement.encode()) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode("utf-8", "replace")[:300]) from error

    def cpu_s(self):
        with open("/proc/%d/stat" % self.process.pid) as f:
            words = f.read().rsplit(")", 1)[1].split()
        return sum(map(int, words[11:13])) / os.sysconf("SC_CLK_TCK")

    def wait_for_merges(self):
        while self.ask("SELECT count() FROM system.merges") != "0\n":
            time.sleep(1)

    def url(self, database):
        return "clickhouse://127.0.0.1:%d/%s" % (self.http, database)

    def stop(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def run(tools, *words):
    done = subprocess.run([tools.mayfly, *words], capture_output=True)
    if done.returncode:
        raise RuntimeError("mayfly %s: %s" % (words[0], done.stderr.decode("utf-8", "replace").strip()[-300:]))
    return done.stdout


def traces(tools, work, count, progress):
    """Recordings of one program; the sampler draws other samples each time."""
    made = []
    for i in range(count):
        progress("fleet: recording %d of %d" % (i, count))
        path = os.path.join(work, "host%d.mayfly" % i)
        run(tools, "record", "-q", "--force", "-i", "1K", "-o", path, "--", sys.executable, "-c",
            "import json, re, argparse; print(len(json.dumps(list(range(1000)))))")
        made.append(path)
    return made


def cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def push_each(tools, servers, paths, hosts, progress):
    """Seconds of mayfly's CPU; the recorded traces again and again, as of other hosts, a process each."""
    before = cpu_s()
    for host in range(hosts):
        if host % 50 == 0:
            progress("fleet: host %d of %d" % (host, hosts))
        run(tools, "push", "-q", "--to", servers[host % 2].url("pushed"), "--service", "service%d" % (host % SERVICES),
            "--host", "host%d" % host, paths[host % len(paths)])
    return cpu_s() - before


def push_together(tools, server, paths):
    """The same with one process for all traces."""
    before = cpu_s()
    run(tools, "push", "-q", "--to", server.url("together"), *paths)
    return cpu_s() - before


def rows_of(server, database):
    return int(server.ask("SELECT count() FROM %s.samples" % database))


def make_day(servers, to, hosts, windows, copies):
    """All windows of hosts times copies hosts."""
    step = 86400 * 10**9 // windows
    times = {"begin": int(time.time()) * 10**9 - windows * step, "step": step}
    for server in servers:
        for table, statement in (("samples", MORE_SAMPLES), ("windows", MORE_WINDOWS)):
            server.ask(statement.format(to=to, table=table, windows=windows, copies=copies, hosts=hosts, services=SERVICES,
                                        push=PUSH.format(**times), **times))
        for table in ("stacks", "frames"):
            server.ask("INSERT INTO {0}.{1}_local SELECT * FROM pushed.{1}_local".format(to, table))


def question(tools, servers, address, rounds):
    """Seconds until the answer; of these, the servers' and mayfly's CPU time."""
    taken = []
    for _ in range(rounds):
        start, served, used = time.monotonic(), sum(one.cpu_s() for one in servers), cpu_s()
        run(tools, "report", "--json", address)
        taken.append((time.monotonic() - start, sum(one.cpu_s() for one in servers) - served, cpu_s() - used))
    return [measure.median(times) for times in zip(*taken)]


QUESTIONS = (("service", "?service=service7&from=-2d"), ("all", "?from=-2d"),
             ("service_times", "?service=service7&from=-2d&every=auto"), ("all_times", "?from=-2d&every=auto"))


def measure_day(tools, servers, hosts, windows, copies, rounds, progress):
    """A database of hosts times copies hosts: its size, and how long questions take."""
    name = "fleet%d" % (hosts * copies)
    for server in servers:
        run(tools, "fleet", "init", "-q", "--cluster", "two", server.url(name))
    progress("fleet: a day of %d hosts" % (hosts * copies))
    start = time.monotonic()
    make_day(servers, name, hosts, windows, copies)
    day = {"hosts": hosts * copies, "windows": windows, "rows": rows_of(servers[0], name),
           "made_s": time.monotonic() - start,
           "stacks": int(servers[0].ask("SELECT uniq(stack) FROM %s.samples" % name)),
           "bytes": sum(int(server.ask("SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = '%s' "
                                       "AND table = 'samples_local'" % name)) for server in servers)}
    for server in servers:
        server.wait_for_merges()
    for key, ask in QUESTIONS:
        progress("fleet: %d hosts, question %s" % (hosts * copies, key))
        day[key + "_s"], *day[key + "_cpu_s"] = question(tools, servers, servers[0].url(name) + ask, rounds)
    return day


def measure_all(tools, rounds, quick, work, progress):
    if not shutil.which("clickhouse-server"):
        return {"rounds": 0, "failed": "clickhouse-server is missing."}
    hosts, days = (50, ((4, 1), (2, 2))) if quick else (1000, ((24, 1), (2, 10)))
    servers = [Server(os.path.join(work, "shard%d" % i)) for i in range(2)]
    result = {"rounds": rounds, "hosts": hosts, "load": os.getloadavg()[1], "failed": None}
    try:
        for server in servers:
            server.start("".join(SHARD % one.tcp for one in servers))
        for server in servers:
            for name in ("pushed", "together"):
                run(tools, "fleet", "init", "-q", "--cluster", "two", server.url(name))
        paths = traces(tools, work, 7 if quick else 97, progress)
        result["together_cpu_s"] = push_together(tools, servers[0], paths)
        result["together_rows"] = rows_of(servers[0], "together")
        result["each_cpu_s"] = push_each(tools, servers, paths, hosts, progress)
        result["each_rows"] = rows_of(servers[0], "pushed")
        result["days"] = [measure_day(tools, servers, hosts, windows, copies, rounds, progress) for windows, copies in days]
    except (RuntimeError, OSError) as problem:
        result["failed"] = str(problem)
    finally:
        for server in servers:
            server.stop()
        for name in os.listdir(work):
            if name.endswith(".mayfly"):
                os.unlink(os.path.join(work, name))
    return result


def said(day, key):
    return "%.2f s" % day[key + "_s"] + (" (%.2f + %.2f)" % tuple(day[key + "_cpu_s"]) if key + "_cpu_s" in day else "")


def render(part, heading, table):
    data = part["data"]
    lines = heading("A fleet's database", part)
    if data["failed"]:
        return lines + ["", data["failed"], ""]
    days = data["days"]
    rows = [["", *("%d hosts, %d windows each" % (day["hosts"], day["windows"]) for day in days)]]
    return lines + ["", "Debian's clickhouse-server 18.16, two of them on this machine that share the rows (load before: %.1f). "
                    "Recordings of python3, each with samples of its own, are pushed as %d hosts of %d services. A day is made of "
                    "what was pushed in the servers: each window of a host has the samples of another recording. In brackets: "
                    "CPU time of both servers, and of mayfly."
                    % (data["load"], data["hosts"], SERVICES), ""] + \
        table(["", ""], [
            ["rows of samples pushed, by second of mayfly's CPU, a process of `mayfly push` for each trace (start-up, reading "
             "the trace and asking for the past included)", "%d" % (data["each_rows"] / data["each_cpu_s"])],
            ["one process for all traces, with an empty database at first", "%d" % (data["together_rows"] / data["together_cpu_s"])],
        ]) + [""] + table(rows[0], [
            ["rows of samples", *("%d" % day["rows"] for day in days)],
            ["different stacks", *("%d" % day["stacks"] for day in days)],
            ["bytes on disk by row of samples", *("%.1f" % (day["bytes"] / day["rows"]) for day in days)],
            ["`mayfly report` of one of %d services" % SERVICES, *(said(day, "service") for day in days)],
            ["`mayfly report` of all services", *(said(day, "all") for day in days)],
            ["of one service over time (every=auto)", *(said(day, "service_times") for day in days)],
            ["of all services over time", *(said(day, "all_times") for day in days)]])
