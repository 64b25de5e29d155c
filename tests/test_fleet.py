#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""mayfly fleet and push, with a real ClickHouse server that the test starts."""
import contextlib
import http.server
import json
import math
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import threading
import urllib.error
import urllib.request

from harness import (MAYFLY, SOURCE, Folder, Skip, case, cases, check, environment, main, program, record, report, run,
                     same, wait_until)
from told import Told, told_program

CONFIG = """<yandex>
<logger><level>error</level><log>{here}/log</log><errorlog>{here}/errors</errorlog></logger>
<http_port>{http}</http_port><tcp_port>{tcp}</tcp_port><listen_host>127.0.0.1</listen_host>
<path>{here}/data/</path><tmp_path>{here}/tmp/</tmp_path><user_files_path>{here}/files/</user_files_path>
<users_config>{here}/users.xml</users_config><default_profile>default</default_profile>
<default_database>default</default_database><mark_cache_size>10000000</mark_cache_size>
<remote_servers><two>{shards}</two></remote_servers>
</yandex>
"""
USERS = """<yandex>
<profiles><default><max_memory_usage>2000000000</max_memory_usage></default></profiles>
<users>
<default><password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></default>
<pusher><password>so secret</password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></pusher>
</users>
<quotas><default></default></quotas>
</yandex>
"""


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


SHARD = "<shard><replica><host>127.0.0.1</host><port>%d</port></replica></shard>"


class Server:
    def __init__(self, folder):
        self.folder = folder
        self.http, self.tcp = free_ports(2)
        self.cluster = []
        self.process = None

    def start(self):
        shards = "".join(SHARD % one.tcp for one in self.cluster)
        for name in ("data", "tmp", "files"):
            os.makedirs(self.folder / name, exist_ok=True)
        for name, text in (("config.xml", CONFIG), ("users.xml", USERS)):
            with open(self.folder / name, "w") as file:
                file.write(text.format(here=self.folder.path, http=self.http, tcp=self.tcp, shards=shards))
        self.process = subprocess.Popen(["clickhouse-server", "--config-file", self.folder / "config.xml"],
                                        cwd=self.folder.path, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        wait_until(self.answers, "clickhouse-server to answer")

    def answers(self):
        check(self.process.poll() is None, "clickhouse-server has ended")
        try:
            return self.ask("SELECT 1") == "1"
        except (OSError, urllib.error.URLError):
            return False

    def stop(self):
        if self.process:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process = None

    def ask(self, statement):
        try:
            with urllib.request.urlopen("http://127.0.0.1:%d/" % self.http, statement.encode()) as answer:
                return answer.read().decode("utf-8", "replace").rstrip("\n")
        except urllib.error.HTTPError as error:
            raise AssertionError(statement + ": " + error.read().decode("utf-8", "replace")) from error

    def url(self, database="fleet"):
        return "clickhouse://127.0.0.1:%d/%s" % (self.http, database)


@contextlib.contextmanager
def server():
    if not shutil.which("clickhouse-server"):
        raise Skip("clickhouse-server is not installed")
    with Folder() as here:
        one = Server(here)
        try:
            one.start()
            yield one
        finally:
            one.stop()


@contextlib.contextmanager
def cluster():
    """Two servers that share the rows of their tables, which are made."""
    if not shutil.which("clickhouse-server"):
        raise Skip("clickhouse-server is not installed")
    with Folder() as here, Folder() as there:
        both = [Server(here), Server(there)]
        try:
            for one in both:
                one.cluster = both
                one.start()
            for one in both:
                good("fleet", "init", "-q", "--cluster", "two", one.url())
            yield both
        finally:
            for one in both:
                one.stop()


def good(*command, **changes):
    done = run([MAYFLY, *command], env=environment(**changes))
    same((done.code, done.err), (0, b""), done)
    return done.out.decode()


def fails(*command, **changes):
    """The one line that it says."""
    done = run([MAYFLY, *command], env=environment(**changes))
    same((done.code, done.err.count(b"\n")), (1, 1), done)
    return done.err.decode()


def push(url, *arguments, **changes):
    return good("push", "--to", url, *arguments, **changes)


# As doc/FLEET.md has it: the windows that count, and their samples.
COUNTED = "push IN (SELECT min(push) FROM fleet.windows GROUP BY window)"


# What the functions allocated that called the allocator themselves.
LEAVES = """
SELECT function, sum(bytes), sum(blocks) FROM (
  SELECT frame, bytes, blocks FROM (
    SELECT stack, sum(allocated_bytes) AS bytes, sum(allocated_blocks) AS blocks FROM fleet.samples
    WHERE %s GROUP BY stack
  ) ANY INNER JOIN (SELECT stack, frames[1] AS frame FROM fleet.stacks) USING stack
) ANY INNER JOIN (SELECT frame, function FROM fleet.frames) USING frame
WHERE function LIKE 'keep%%' GROUP BY function ORDER BY function
""" % COUNTED


def traces_of(here, count, *options):
    made = []
    for i in range(count):
        trace = here / ("t%d.mayfly" % i)
        same(record([program("told")], trace, *options, stdin=b"a %d\nb %d\nf 2\n- 500\n" % (3 + i, 40 - i)).code, 0)
        made.append(trace)
    return made


@case
def sums_are_those_of_merge():
    """Three exact traces: every function's sums, and the totals, equal those of their merge."""
    with server() as s, Folder() as here:
        traces = traces_of(here, 3, "-x")
        good("merge", "-o", here / "all.mayfly", *traces)
        good("fleet", "init", s.url())
        push(s.url(), *traces)
        for metric, column in (("allocated", "allocated"), ("leaked", "live")):
            merged = report(here / "all.mayfly", "--metric", metric, "--all", "--all-frames")
            total = s.ask("SELECT sum(%s_bytes), sum(%s_blocks) FROM fleet.samples WHERE %s" % (column, column, COUNTED))
            same([float(word) for word in total.split()],
                 [merged["total"]["bytes"]["estimate"], merged["total"]["blocks"]["estimate"]], metric)
            text = s.ask(LEAVES.replace("allocated_", column + "_"))
            expected = sorted((row["function"], row["self"]["bytes"]["estimate"], row["self"]["blocks"]["estimate"])
                              for row in merged["rows"] if row["function"].startswith("keep"))
            same([(name, float(a), float(b)) for name, a, b in (line.split("\t") for line in text.splitlines())],
                 expected, metric)


@case
def sampled_sums_have_their_variance():
    with server() as s, Folder() as here:
        trace, = traces_of(here, 1, "-i", "4K")
        good("fleet", "init", s.url())
        push(s.url(), trace)
        rows = report(trace, "--metric", "allocated", "--by", "stack", "--top", "0", "--all", "--all-frames")["rows"]
        expected = sorted((row["self"]["bytes"]["estimate"], row["self"]["bytes"]["stderr"],
                           row["self"]["samples"]) for row in rows)
        text = s.ask("SELECT allocated_bytes, sqrt(allocated_bytes_variance), allocated_samples FROM fleet.samples "
                     "WHERE allocated_samples > 0 ORDER BY allocated_bytes, allocated_bytes_variance")
        got = sorted((float(a), float(b), int(c)) for a, b, c in (line.split("\t") for line in text.splitlines()))
        same(len(got), len(expected), "stacks")
        for one, other in zip(got, expected):
            # The report's JSON has whole bytes.
            check(all(math.isclose(a, b, abs_tol=0.51) for a, b in zip(one, other)), one, other)


@case
def twice_counts_once():
    """Pushed again, by two at once, and after an attempt that ended in the middle."""
    with server() as s, Folder() as here:
        traces = traces_of(here, 2, "-x")
        good("fleet", "init", s.url())
        check("already" in good("fleet", "init", s.url()), "a second init")
        pushers = [subprocess.Popen([MAYFLY, "push", "-q", "--to", s.url(), *traces], env=environment())
                   for _ in range(3)]
        same([one.wait() for one in pushers], [0, 0, 0])
        push(s.url(), *traces)
        check("is there already" in push(s.url(), traces[0]), "said")
        # Samples whose push has no row in windows.
        s.ask("INSERT INTO fleet.samples (day, service, push, stack, allocated_bytes) VALUES ('2026-01-01', 'x', 7, 7, 1e9)")
        whole = sum(report(trace, "--metric", "allocated")["total"]["bytes"]["estimate"] for trace in traces)
        same(float(s.ask("SELECT sum(allocated_bytes) FROM fleet.samples WHERE " + COUNTED)), whole)
        same(s.ask("SELECT count(DISTINCT window) FROM fleet.windows"), "2")


@case
def stacks_of_two_hosts_are_one():
    with server() as s, Folder() as here:
        traces = traces_of(here, 2, "-x")
        good("fleet", "init", s.url())
        push(s.url(), "--host", "one", "--label", "ring=canary", traces[0])
        push(s.url(), "--host", "two", "--label", "ring=rest", "--label", "zone=a'b\\\t", "--service", "api", traces[1])
        same(s.ask("SELECT host, service, labels.value[indexOf(labels.key, 'ring')] FROM fleet.windows ORDER BY host"),
             "one\ttold\tcanary\ntwo\tapi\trest")
        same(s.ask("SELECT length(version) > 10, program LIKE '%told', exact FROM fleet.windows LIMIT 1"), "1\t1\t1")
        shared = s.ask("SELECT count() FROM (SELECT stack FROM fleet.samples GROUP BY stack HAVING uniq(push) = 2)")
        check(int(shared) >= 2, "stacks of both", shared)
        same(s.ask("SELECT hex(labels.value[2]) FROM fleet.windows WHERE host = 'two'"), b"a'b\\\t".hex().upper())


@case
def any_bytes_in_names():
    """Quotes, UTF-8, control bytes, and 64 KiB."""
    with server() as s, Folder() as here:
        good("fleet", "init", s.url())
        names = ["o'hara \"\\", "größe\n\t\x01", "x" * 65536, "'); DROP TABLE fleet.windows; --"]
        for i, name in enumerate(names):
            done = run([MAYFLY, "push", "-q", "--to", s.url(), "--service", name, "--host", "h%d" % i,
                        "--label", "n=" + name, traces_of(here, 1, "-x")[0]])
            same((done.code, done.err), (0, b""))
            same(s.ask("SELECT hex(service), hex(labels.value[1]) FROM fleet.windows WHERE host = 'h%d'" % i),
                 "\t".join([name.encode().hex().upper()] * 2))


@case
def the_server_goes_away():
    with server() as s, Folder() as here:
        traces = traces_of(here, 2, "-x")
        good("fleet", "init", s.url())
        push(s.url(), traces[0])
        s.stop()
        said = fails("push", "--to", s.url(), *traces)
        check("refused" in said or "connect" in said.lower(), said)
        s.start()
        out = push(s.url(), *traces)
        check("is there already" in out and "pushed" in out, out)
        same(s.ask("SELECT count(DISTINCT window) FROM fleet.windows"), "2")


def figures(text):
    return [float(word) for word in text.split()]


def whole_of(trace):
    """Bytes and blocks that were allocated, and are live at the end."""
    totals = [report(trace, "--metric", metric)["total"] for metric in ("allocated", "leaked")]
    return [total[what]["estimate"] for total in totals for what in ("bytes", "blocks")]


def asked_for(s):
    """The same of the database's only process, by a question; and by SQL, what its windows allocated."""
    whole = whole_of(s.url())
    same(figures(s.ask("SELECT sum(allocated_bytes), sum(allocated_blocks) FROM fleet.samples WHERE " + COUNTED)),
         whole[:2], "allocated")
    same(figures(s.ask("SELECT sum(a) FROM (SELECT argMin(allocated_bytes, push) AS a FROM fleet.windows GROUP BY window)")),
         whole[:1], "allocated by windows")
    return whole


@contextlib.contextmanager
def told_recording(trace, *options, of=program("told")):
    """The program told under record, and the recorder."""
    recorder = subprocess.Popen([MAYFLY, "record", "-q", "-o", trace, *options, "--", of],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment())
    try:
        yield Told(recorder), recorder
    finally:
        recorder.stdin.close()
        recorder.wait()
        recorder.stdout.close()


def windows(s, which="1"):
    return int(s.ask("SELECT count(DISTINCT window) FROM fleet.windows WHERE " + which))


@cases(["-x", "-i4K"])
def snapshots_of_one_process(*options):
    """Each push adds what the earlier ones do not have; live is what the last one has."""
    with server() as s, Folder() as here:
        good("fleet", "init", s.url())
        with told_recording(here / "t", *options) as (told, recorder):
            for i, (order, count) in enumerate((("a", 5), ("b", 7), ("f", 3))):
                told.tell(order, count)
                told.tell("-", 5000)
                good("ctl", here / "t.spool", "snapshot", "-o", here / ("s%d" % i))
                push(s.url(), here / ("s%d" % i))
            told.tell("c", 2)
        recorder.wait()
        check("already" in push(s.url(), here / "s1"), "an older snapshot")
        push(s.url(), here / "t")
        check("already" in push(s.url(), here / "t"), "the trace again")
        same(windows(s), 4)
        same(s.ask("SELECT uniq(process), uniq(begin_ns) FROM fleet.windows"), "1\t4")
        same([round(value) for value in asked_for(s)], [round(value) for value in whole_of(here / "t")])
        same(s.ask("SELECT count() FROM fleet.samples WHERE allocated_bytes < -1"), "0")
        # A question about the first two windows: what was allocated by then, and live then.
        s.ask("CREATE TABLE fleet.old AS fleet.windows")
        s.ask("INSERT INTO fleet.old SELECT * FROM fleet.windows ORDER BY begin_ns LIMIT 2")
        s.ask("RENAME TABLE fleet.windows TO fleet.all, fleet.old TO fleet.windows")
        same([round(value) for value in asked_for(s)], [round(value) for value in whole_of(here / "s1")])


@cases(["PID", "NAME", "SPOOL", "all"])
def windows_while_it_runs(how):
    """push --every until the program ends: every byte is in one window."""
    with server() as s, Folder() as here:
        good("fleet", "init", s.url())
        name = told_program(here, "fleet-told")
        with told_recording(here / "t", "-x", of=name) as (told, recorder):
            pid = json.loads(good("ctl", here / "t.spool", "status", "--json"))["pid"]
            named = {"PID": [str(pid)], "NAME": ["fleet-told"], "SPOOL": [here / "t.spool"], "all": []}[how]
            pusher = subprocess.Popen([MAYFLY, "push", "--to", s.url(), "--every", "1s", *named], env=environment(),
                                      stdout=subprocess.PIPE, universal_newlines=True)
            its = "pid = %d" % pid  # all: there are also the processes of other tests, whatever they do
            for _ in range(2):
                before = windows(s, its)
                told.tell("a", 3)
                wait_until(lambda: windows(s, its) > before, "a window")
            check(int(s.ask("SELECT min(rss_bytes) FROM fleet.windows")) > 1e6 or how in ("SPOOL", "all"), "RSS")
        recorder.wait()
        check(any("process %d:" % pid in line and "it has ended" in line for line in pusher.stdout), "said")
        if how in ("NAME", "all"):
            pusher.send_signal(signal.SIGTERM)
        pusher.communicate()
        check(pusher.returncode == 0 or how == "all", pusher.returncode)
        same(whole_of(s.url() + "?program=%s" % name), whole_of(here / "t"))
        check(windows(s, its) >= 3, "windows")


@case
def windows_while_the_server_is_away():
    """Nothing is lost, or counted twice, when the server dies, and when the pusher is killed and started again."""
    with server() as s, Folder() as here:
        good("fleet", "init", s.url())
        command = [MAYFLY, "push", "-q", "--to", s.url(), "--every", "1s", "t.spool"]
        with told_recording(here / "t", "-x") as (told, recorder):
            pusher = subprocess.Popen(command, env=environment(), cwd=here.path, stderr=subprocess.PIPE)
            told.tell("a", 3)
            wait_until(lambda: windows(s) > 0, "a window")
            s.stop()
            told.tell("b", 4)
            line = pusher.stderr.readline().decode()
            check("will be longer" in line, line)
            told.tell("-", 1000)
            s.start()
            before = windows(s)
            wait_until(lambda: windows(s) > before, "a window")
            pusher.kill()
            pusher.wait()
            same(pusher.stderr.read(), b"", "says it once")
            pusher.stderr.close()
            told.tell("c", 5)
            pusher = subprocess.Popen(command, env=environment(), cwd=here.path)
            before = windows(s)
            wait_until(lambda: windows(s) > before, "a window")
        recorder.wait()
        same(pusher.wait(), 0)
        same(asked_for(s), whole_of(here / "t"))


@case
def record_pushes():
    """record --push: windows while it runs, the rest at its end; a program that ends at once is pushed, too."""
    with server() as s, Folder() as here:
        good("fleet", "init", s.url())
        options = ["--push", s.url(), "--push-every", "1s", "--service", "shop", "--label", "ring=canary"]
        with told_recording(here / "t", "-x", *options) as (told, recorder):
            told.tell("a", 3)
            wait_until(lambda: windows(s) > 0, "a window")
            told.tell("b", 2)
        same(recorder.wait(), 0)
        same(asked_for(s), whole_of(here / "t"))
        same(s.ask("SELECT DISTINCT service, labels.key[1], labels.value[1] FROM fleet.windows"), "shop\tring\tcanary")
        done = record(["sh", "-c", "exit 7"], here / "short", "-x", "--push", s.url())
        same((done.code, done.err), (7, b""))
        same(s.ask("SELECT uniq(process) FROM fleet.windows"), "2")


def pushers_of(spool):
    """The processes that push it."""
    found = []
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if entry.isdigit() and os.fsencode(spool) in open("/proc/%s/cmdline" % entry, "rb").read().split(b"\0")[1:]:
                found.append(int(entry))
    return found


@case
def record_is_killed_while_it_pushes():
    """The pusher ends, too, after a last window."""
    with server() as s, Folder() as here:
        good("fleet", "init", s.url())
        with told_recording(here / "t", "-x", "--push", s.url(), "--push-every", "1s") as (told, recorder):
            told.tell("a", 3)
            wait_until(lambda: windows(s) > 0, "a window")
            check(pushers_of(here / "t.spool"), "a pusher")
            recorder.kill()
            recorder.wait()
            wait_until(lambda: not pushers_of(here / "t.spool"), "the pusher's end")


@case
def record_pushes_to_a_server_that_is_away():
    """The program, its status and the trace are as without; two lines say what to do."""
    with server() as s, Folder() as here:
        good("fleet", "init", s.url())
        s.stop()
        done = record([program("told")], here / "t", "-x", "--push", s.url(), stdin=b"a 3\n")
        same((done.code, done.out, done.err.count(b"\n")), (0, b"ready\ndone\n", 2), done)
        command = re.search(r"'(mayfly push .*)' adds the rest", done.err.decode()).group(1).split()
        s.start()
        good(*command[1:])
        same(asked_for(s), whole_of(here / "t"))


@cases(["--push here", "--push-every 5s", "--service x", "--push clickhouse://h/d --follow",
        "--push clickhouse://h/d --push-every 1ms", "--push clickhouse://h/d --stream unix:x"])
def push_options_that_are_wrong(options):
    with Folder() as here:
        done = record(["true"], here / "t", *options.split())
        same((done.code, done.err.count(b"\n")), (125, 1), done)
        same(here.files(), [])


@cases(["-x", "-i4K"])
def two_shards(options):
    """Rows are on both servers, and the answers of both are those of one that has all."""
    with cluster() as both, server() as alone, Folder() as here:
        traces = traces_of(here, 12, options)
        good("fleet", "init", alone.url())
        for i, trace in enumerate(traces):
            push(alone.url(), "--label", "ring=%d" % (i % 2), trace)
            push(both[i % 2].url(), "--label", "ring=%d" % (i % 2), trace)
        check("already" in push(both[1].url(), traces[0]), "pushed to the other")
        with told_recording(here / "more", options, "--push", both[0].url(), "--push-every", "1s") as (told, recorder):
            told.tell("a", 3)
            wait_until(lambda: windows(both[1]) > 12, "a window")
            told.tell("b", 2)
        same(recorder.wait(), 0)
        push(alone.url(), here / "more")
        for table in ("windows", "samples", "stacks", "frames"):
            counts = [int(one.ask("SELECT count() FROM fleet.%s_local" % table)) for one in both]
            check(min(counts) > 0, table, counts)
        for question in ("", "?label.ring=1", "?program=nobody"):
            answers = [run([MAYFLY, "report", "--json", "--by", "function", "--top", "0", one.url() + question],
                           env=environment()) for one in (alone, *both)]
            if question.endswith("nobody"):
                same([answer.code for answer in answers], [1, 1, 1])
                continue
            rows = [sorted((row["function"], row["self"]["samples"], round(row["self"]["bytes"]["estimate"]))
                           for row in json.loads(answer.out)["rows"]) for answer in answers]
            check(len(rows[0]) > 2, rows[0])
            same(rows[1:], rows[:1] * 2, question)
        lists = [json.loads(good("fleet", "list", "--by", "label.ring", "--json", one.url())) for one in (alone, *both)]
        for one in lists:
            for group in one["groups"]:
                for key, value in group.items():
                    group[key] = round(value, 3) if isinstance(value, float) else value
        same(lists[1:], lists[:1] * 2)
        same(good("fleet", "trim", "--keep", "30d", both[0].url()).split()[-3:], ["0", "processes", "forgotten"])
        for one in both:
            good("fleet", "trim", "--keep", "1ns", one.url())
        same([both[0].ask("SELECT count() FROM fleet.%s" % table) for table in ("windows", "samples")], ["0", "0"])
        check("without a cluster" in fails("fleet", "init", "--cluster", "two", alone.url()), "another init")


@case
def old_processes_are_forgotten():
    """Whole processes: of one that goes on, nothing, as it would be pushed again."""
    with server() as s, Folder() as here:
        good("fleet", "init", s.url())
        trace, = traces_of(here, 1, "-x")
        push(s.url(), trace)
        s.ask("ALTER TABLE fleet.windows UPDATE end_ns = end_ns - 86400000000000 WHERE 1")
        wait_until(lambda: s.ask("SELECT min(is_done) FROM system.mutations") == "1", "a window of yesterday")
        with told_recording(here / "t", "-x", "--push", s.url(), "--push-every", "1s") as (told, recorder):
            told.tell("a", 3)
            wait_until(lambda: windows(s) > 1, "a window")
            told.tell("b", 3)
            before = windows(s)
            wait_until(lambda: windows(s) > before, "a window")
            check("1 process forgotten" in good("fleet", "trim", "--keep", "12h", s.url()), "one")
            same(s.ask("SELECT uniq(process), uniq(begin_ns) > 1 FROM fleet.windows"), "1\t1")
        same(recorder.wait(), 0)
        same(asked_for(s), whole_of(here / "t"))
        for wrong in (["trim", s.url()], ["trim", "--keep", "2s"], ["list", "--keep", "2s", s.url()],
                      ["trim", "--keep", "2s", "--cluster", "x", s.url()]):
            same(run([MAYFLY, "fleet", *wrong], env=environment()).code, 2, wrong)


@case
def list_of_groups():
    """Sums of groups, and the interval between hosts by the formula."""
    with server() as s, Folder() as here:
        good("fleet", "init", s.url())
        traces = traces_of(here, 5, "-x")
        for i, trace in enumerate(traces):
            push(s.url(), "--service", "api", "--host", "h%d" % (i // 2), "--label", "ring=%d" % (i % 2), trace)
        wholes = [whole_of(trace) for trace in traces]

        def groups(*options):
            return {one["name"]: one for one in json.loads(good("fleet", "list", "--json", *options))["groups"]}

        one = groups(s.url())["api"]
        same((one["processes"], one["hosts"]), (5, 3))
        same((one["allocated_bytes"], one["live_bytes"]), tuple(sum(w[i] for w in wholes) for i in (0, 2)))
        means = [statistics.mean(w[2] for w in wholes[i:i + 2]) for i in (0, 2, 4)]
        check(math.isclose(one["live_bytes_each"], statistics.mean(means)), "mean", one)
        check(math.isclose(one["live_bytes_each_within"], 1.96 * math.sqrt(statistics.variance(means) / 3)), one)
        same(groups("--by", "label.ring", s.url())["1"]["live_bytes"], wholes[1][2] + wholes[3][2])
        same(groups("--by", "host", s.url() + "?label.ring=1")["h1"]["live_bytes"], wholes[3][2])
        same(groups("--by", "host", s.url())["h2"]["live_bytes_each_within"], None)
        check("h2" in good("fleet", "list", "--by", "host", s.url()), "text")
        check("no windows" in fails("fleet", "list", s.url() + "?host=x"), "none")
        same(run([MAYFLY, "fleet", "list", "--by", "nonsense", s.url()], env=environment()).code, 2)


@case
def logins():
    with server() as s, Folder() as here:
        trace, = traces_of(here, 1, "-x")
        right = {"MAYFLY_CLICKHOUSE_USER": "pusher", "MAYFLY_CLICKHOUSE_PASSWORD": "so secret"}
        good("fleet", "init", s.url(), **right)
        said = fails("push", "--to", s.url(), trace, MAYFLY_CLICKHOUSE_USER="pusher", MAYFLY_CLICKHOUSE_PASSWORD="wr0ng")
        check("wr0ng" not in said, said)
        with open(here / "auth", "w") as file:
            file.write("pusher:so secret\n")
        os.chmod(here / "auth", 0o644)
        check("chmod 600" in fails("push", "--to", s.url(), "--auth", here / "auth", trace), "a file that others may read")
        os.chmod(here / "auth", 0o600)
        push(s.url(), "--auth", here / "auth", trace)


@case
def tables_of_another_version():
    with server() as s, Folder() as here:
        trace, = traces_of(here, 1, "-x")
        check("mayfly fleet init" in fails("push", "--to", s.url(), trace), "no tables")
        good("fleet", "init", s.url())
        s.ask("INSERT INTO fleet.mayfly VALUES (99, '')")
        for command in (("push", "--to", s.url(), trace), ("fleet", "init", s.url())):
            check("version 99" in fails(*command), command)


@cases(["clickhouse://", "clickhouse://host", "clickhouse://host/", "clickhouse://host/1db", "clickhouse://host/a-b",
        "clickhouse://host:99999/db", "clickhouse://me:hidden@host/db", "http://host/db", "host/db"])
def addresses_that_are_wrong(address):
    with Folder() as here:
        trace, = traces_of(here, 1, "-x")
        said = fails("push", "--to", address, trace)
        check("hidden" not in said and "clickhouse" in said.lower() or "database" in said or "port" in said, said)


@case
def questions():
    """In the place of a trace: sums equal those of merge, and filters choose windows."""
    with server() as s, Folder() as here:
        traces = traces_of(here, 3, "-x")
        good("merge", "-o", here / "all.mayfly", *traces)
        good("fleet", "init", s.url())
        push(s.url(), "--host", "one", "--service", "o'hara & sons", "--label", "ring=canary", *traces[:2])
        push(s.url(), "--host", "two", "--service", "api", "--label", "ring=rest", traces[2])

        def rows(trace, *options):
            return [(row["function"], row["self"]["bytes"]["estimate"], row["self"]["blocks"]["estimate"]) for row in
                    report(trace, "--all", *options)["rows"]]
        for metric in ("allocated", "leaked"):
            same(rows(s.url(), "--metric", metric), rows(here / "all.mayfly", "--metric", metric), metric)
            same(rows(s.url() + "?from=-1h&to=now&label.ring=rest", "--metric", metric),
                 rows(traces[2], "--metric", metric), metric)
            same(rows(s.url() + "?host=two&service=api&version=" + s.ask("SELECT version FROM fleet.windows LIMIT 1")[:6],
                      "--metric", metric), rows(traces[2], "--metric", metric))
        good("import", "-o", here / "answer.mayfly", s.url())
        same(rows(here / "answer.mayfly"), rows(s.url()), "an answer that was kept")
        check("-o FILE" in fails("import", s.url()), "no name")
        good("merge", "-o", here / "two.mayfly", *traces[:2])
        same(rows(s.url() + "?service=o%27hara %26 sons", "--metric", "leaked"), rows(here / "two.mayfly", "--metric", "leaked"))
        text = good("report", s.url() + "?host=one")
        check("the sum of 2 processes of 1 host" in text and "keep_b" in text, text)
        text = good("diff", s.url() + "?host=one", s.url() + "?host=two")
        check("keep_b" in text, text)
        for question, word in (("?host=three", "no windows"), ("?hots=one", "hots"), ("?from=soon", "soon"),
                               ("?host", "KEY=VALUE"), ("?host=%zz", "KEY=VALUE"), ("?label.=x", "label")):
            check(word in fails("report", s.url() + question), question)


@case
def questions_of_samples():
    """The note has the interval of the sum; each row has its own, as the traces' rows have."""
    with server() as s, Folder() as here:
        traces = traces_of(here, 2, "-i", "4K")
        good("fleet", "init", s.url())
        push(s.url(), *traces)
        whole = sum(report(trace, "--metric", "allocated")["total"]["bytes"]["estimate"] for trace in traces)
        got = report(s.url(), "--metric", "allocated")
        check(abs(got["total"]["bytes"]["estimate"] - whole) < 10, got["total"], whole)
        text = good("info", s.url())
        check(re.search(r"allocated [\d.]+ MB ±0\.\d*[1-9]", text), text)
        rows = {one["function"]: one["self"] for one in report(s.url(), "--metric", "allocated", "--all")["rows"]}
        for name, one in rows.items():
            parts = [row["self"] for trace in traces for row in report(trace, "--metric", "allocated", "--all")["rows"]
                     if row["function"] == name]
            same(one["samples"], sum(part["samples"] for part in parts), name)
            for what in ("bytes", "blocks"):
                error = math.sqrt(sum(part[what]["stderr"] ** 2 for part in parts))
                # A row has samples that exclude each other; sums of windows count them as independent.
                check(error * 0.98 - 1 <= one[what]["stderr"] <= error * 1.2 + 1, name, what, one, parts)
                check(one[what]["low"] <= one[what]["estimate"] <= one[what]["high"], name, one)
        check(rows["churn"]["bytes"]["stderr"] > 0, rows)
        check("±" in good("report", s.url(), "--metric", "allocated"), "no intervals")
        good("merge", "-o", here / "again.mayfly", s.url())
        check(re.search(r"how\s+certain", good("info", here / "again.mayfly")), "a merge does not know them")


@case
def documented_questions_work():
    """The SQL of doc/FLEET.md, as it stands there."""
    with open(os.path.join(SOURCE, "doc", "FLEET.md")) as file:
        statements = re.findall(r"^```sql\n(.*?)^```$", file.read(), re.M | re.S)
    check(len(statements) == 4, statements)
    with server() as s, Folder() as here:
        traces = traces_of(here, 2, "-x")
        good("fleet", "init", s.url())
        push(s.url(), "--service", "api", "--host", "one", traces[0])
        push(s.url(), "--service", "api", "--host", "two", traces[1])
        answers = [s.ask(statement) for statement in statements]
        function, allocated, within, samples = answers[0].splitlines()[0].split("\t")
        same((function, float(allocated), float(within)), ("keep_b", 79 * 2.0 ** 20, 0.0))
        check(all(answers), answers)


@case
def example():
    """examples/fleet/run: the difference of two versions names the endpoint that leaks."""
    for tool in ("clickhouse-server", "cc"):
        if not shutil.which(tool):
            raise Skip(tool + " is not installed")
    with Folder() as here:
        ports = " ".join(map(str, free_ports(4)))
        done = run([os.path.join(SOURCE, "examples", "fleet", "run"), here / "fleet"],
                   env=environment(MAYFLY=MAYFLY, PORTS=ports))
        same(done.code, 0, done)
        check(re.search(r"^ *\+[\d.]+ MB .* list_items$", done.out.decode(), re.M), done.out.decode())


@case
def an_answer_that_is_no_answer():
    """Somebody else's server: one line, whatever it says."""
    class Other(http.server.BaseHTTPRequestHandler):
        text = b""

        def do_POST(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Length", str(len(self.text)))
            self.end_headers()
            self.wfile.write(self.text)

        def log_message(self, *_):
            pass
    with http.server.HTTPServer(("127.0.0.1", 0), Other) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        try:
            for text in (b"", b"1", b"1\n", b"\xff" * 1000, b"1 2 3 4 5", b"1\t1\t1\t1\t1\n", b"\0" * 100000):
                Other.text = text
                done = run([MAYFLY, "report", "clickhouse://127.0.0.1:%d/fleet" % other.server_port])
                check(done.code in (0, 1) and done.err.count(b"\n") <= 1, text[:20], done)
        finally:
            other.shutdown()
            thread.join()


@case
def what_cannot_be_pushed():
    with server() as s, Folder() as here:
        good("fleet", "init", s.url())
        with open(here / "folded", "w") as file:
            file.write("not a trace\n")
        fails("push", "--to", s.url(), here / "folded")
        fails("push", "--to", s.url(), here / "nothing")


if __name__ == "__main__":
    main()
