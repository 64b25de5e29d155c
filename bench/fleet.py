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
# Each host's windows of a day, from its one: other numbers, other times, the same samples.
MORE_SAMPLES = """INSERT INTO fleet.samples_local
SELECT day, service, intHash64(bitXor(push, number + 1)), stack, allocated_bytes, allocated_bytes_variance, allocated_blocks,
allocated_blocks_variance, allocated_samples, live_bytes, live_bytes_variance, live_blocks, live_blocks_variance, live_samples,
peak_bytes, peak_bytes_variance, peak_blocks, peak_blocks_variance, peak_samples
FROM (SELECT *, arrayJoin(range(toUInt64({windows} - 1))) AS number FROM fleet.samples_local)"""
MORE_WINDOWS = """INSERT INTO fleet.windows_local
SELECT day, service, version, host, process, intHash64(bitXor(window, number + 1)), intHash64(bitXor(push, number + 1)), program,
command, pid, begin_ns - (number + 1) * {step}, end_ns - (number + 1) * {step}, exact, interval_bytes, samples, allocated_bytes,
live_bytes, peak_bytes, rss_bytes, rss_most_bytes, cpu_ns, labels.key, labels.value, pushed,
share FROM (SELECT *, toInt64(arrayJoin(range(toUInt64({windows} - 1)))) AS number FROM fleet.windows_local)"""


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

    def url(self):
        return "clickhouse://127.0.0.1:%d/fleet" % self.http

    def stop(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def run(tools, *words):
    done = subprocess.run([tools.mayfly, *words], capture_output=True)
    if done.returncode:
        raise RuntimeError("mayfly %s: %s" % (words[0], done.stderr.decode("utf-8", "replace").strip()[-300:]))
    return done.stdout


def traces(tools, work, hosts, progress):
    """Recordings of one program with other samples each: as many as hosts, but for the last factor of ten."""
    made = []
    for i in range(max(hosts // 10, 1)):
        progress("fleet: recording %d" % i)
        path = os.path.join(work, "host%d.mayfly" % i)
        run(tools, "record", "-q", "--force", "-i", "1K", "-o", path, "--", sys.executable, "-c",
            "import json, re, argparse; print(len(json.dumps(list(range(%d)))))" % (1000 + i))
        made.append(path)
    return made


def push_all(tools, servers, paths, hosts, progress):
    """Seconds of mayfly's CPU; the recorded traces again and again, as of other hosts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for host in range(hosts):
        if host % 50 == 0:
            progress("fleet: host %d of %d" % (host, hosts))
        run(tools, "push", "-q", "--to", servers[host % 2].url(), "--service", "service%d" % (host % SERVICES), "--host",
            "host%d" % host, paths[host % len(paths)])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def question(tools, address, rounds):
    times = []
    for _ in range(rounds):
        start = time.monotonic()
        run(tools, "report", "--json", address)
        times.append(time.monotonic() - start)
    return measure.median(times)


def measure_all(tools, rounds, quick, work, progress):
    if not shutil.which("clickhouse-server"):
        return {"rounds": 0, "failed": "clickhouse-server is missing."}
    hosts, windows = (50, 4) if quick else (500, 24)
    servers = [Server(os.path.join(work, "shard%d" % i)) for i in range(2)]
    result = {"rounds": rounds, "hosts": hosts, "windows": windows, "failed": None}
    try:
        for server in servers:
            server.start("".join(SHARD % one.tcp for one in servers))
        for server in servers:
            run(tools, "fleet", "init", "-q", "--cluster", "two", server.url())
        paths = traces(tools, work, hosts, progress)
        result["push_cpu_s"] = push_all(tools, servers, paths, hosts, progress)
        result["pushed_rows"] = int(servers[0].ask("SELECT count() FROM fleet.samples"))
        progress("fleet: a day's windows")
        for server in servers:
            server.ask(MORE_SAMPLES.format(windows=windows))
            server.ask(MORE_WINDOWS.format(windows=windows, step=86400 * 10**9 // windows))
        result["rows"] = int(servers[0].ask("SELECT count() FROM fleet.samples"))
        result["stacks"] = int(servers[0].ask("SELECT uniq(stack) FROM fleet.samples"))
        result["bytes"] = sum(int(server.ask("SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'fleet' "
                                             "AND table = 'samples_local'")) for server in servers)
        for name, ask in (("service", "?service=service7&from=-2d"), ("all", "?from=-2d"),
                          ("service_times", "?service=service7&from=-2d&every=auto"), ("all_times", "?from=-2d&every=auto")):
            progress("fleet: question, " + name)
            result[name + "_s"] = question(tools, servers[0].url() + ask, rounds)
    except (RuntimeError, OSError) as problem:
        result["failed"] = str(problem)
    finally:
        for server in servers:
            server.stop()
        for name in os.listdir(work):
            if name.endswith(".mayfly"):
                os.unlink(os.path.join(work, name))
    return result


def render(part, heading, table):
    data = part["data"]
    lines = heading("A fleet's database", part)
    if data["failed"]:
        return lines + ["", data["failed"], ""]
    rate = data["pushed_rows"] / data["push_cpu_s"]
    return lines + ["", "Debian's clickhouse-server 18.16, two of them on this machine that share the rows. Recordings of python3 "
                    "with samples of their own are pushed as %d hosts of %d services, a process of `mayfly push` each; then each "
                    "host's window is copied to %d of a day." % (data["hosts"], SERVICES, data["windows"]), ""] + \
        table(["", ""], [
            ["rows of samples pushed, by second of mayfly's CPU (start-up, reading the trace and asking for the past included)",
             "%d" % rate],
            ["rows in the day, different stacks", "%d; %d" % (data["rows"], data["stacks"])],
            ["bytes on disk by row of samples", "%.1f" % (data["bytes"] / data["rows"])],
            ["`mayfly report` of one of %d services, a day" % SERVICES, "%.2f s" % data["service_s"]],
            ["`mayfly report` of all services, a day", "%.2f s" % data["all_s"]],
            ["the same over time (every=auto), of one service; of all",
             "%.2f s; %.2f s" % (data["service_times_s"], data["all_times_s"])]])
