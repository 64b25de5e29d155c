#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""mayfly fleet and push, with a real ClickHouse server that the test starts."""
import base64
import contextlib
import http.client
import http.server
import json
import math
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import threading
import urllib.parse
import urllib.request

from fleet_server import (COUNTED, KEEPER, MACROS, cluster, fails, figures, free_ports, good, keeper, newest, on_each_server, push,
                          replicas, server, whole_of, windows)
from harness import (BUILD, MAYFLY, SOURCE, Folder, Skip, case, cases, check, environment, info, main, program, record, report,
                     run, same, wait_until)
from told import told_program, told_recording

# What the functions allocated that called the allocator themselves.
LEAVES = """
SELECT function, sum(bytes), sum(blocks) FROM (
  SELECT frame, bytes, blocks FROM (
    SELECT stack, sum(allocated_bytes) AS bytes, sum(allocated_blocks) AS blocks FROM fleet.samples
    WHERE %s GROUP BY stack
  ) AS sums ALL INNER JOIN (SELECT stack, any(frames[1]) AS frame FROM fleet.stacks GROUP BY stack) AS leaves USING stack
) AS leaves ALL INNER JOIN (SELECT frame, any(function) AS function FROM fleet.frames GROUP BY frame) AS names USING frame
WHERE function LIKE 'keep%%' GROUP BY function ORDER BY function
""" % COUNTED


def traces_of(here, count, *options):
    made = []
    for i in range(count):
        trace = here / ("t%d.mayfly" % i)
        same(record([program("told")], trace, *options, stdin=b"a %d\nb %d\nf 2\n- 500\n" % (3 + i, 40 - i)).code, 0)
        made.append(trace)
    return made


@on_each_server
def sums_are_those_of_merge(server):
    """Three exact traces: every function's sums, and the totals, equal those of their merge."""
    with server() as s, Folder() as here:
        traces = traces_of(here, 3, "-x")
        good("merge", "-o", here / "all.mayfly", *traces)
        good("fleet", "init", s.url())
        push(s.url(), *traces)
        for metric, column in (("allocated", "allocated"), ("leaked", "live")):
            merged = report(here / "all.mayfly", "--metric", metric, "--all", "--frames=all")
            total = s.ask("SELECT sum(%s_bytes), sum(%s_blocks) FROM fleet.samples WHERE %s" % (column, column, COUNTED))
            same([float(word) for word in total.split()],
                 [merged["total"]["bytes"]["estimate"], merged["total"]["blocks"]["estimate"]], metric)
            text = s.ask(LEAVES.replace("allocated_", column + "_"))
            expected = sorted((row["function"], row["self"]["bytes"]["estimate"], row["self"]["blocks"]["estimate"])
                              for row in merged["rows"] if row["function"].startswith("keep"))
            same([(name, float(a), float(b)) for name, a, b in (line.split("\t") for line in text.splitlines())],
                 expected, metric)


@on_each_server
def sampled_sums_have_their_variance(server):
    with server() as s, Folder() as here:
        trace, = traces_of(here, 1, "-i", "4K")
        good("fleet", "init", s.url())
        push(s.url(), trace)
        rows = report(trace, "--metric", "allocated", "--by", "stack", "--top", "0", "--all", "--frames=all")["rows"]
        expected = sorted((row["self"]["bytes"]["estimate"], row["self"]["bytes"]["stderr"],
                           row["self"]["samples"]) for row in rows)
        text = s.ask("SELECT allocated_bytes, sqrt(allocated_bytes_variance), allocated_samples FROM fleet.samples "
                     "WHERE allocated_samples > 0 ORDER BY allocated_bytes, allocated_bytes_variance")
        got = sorted((float(a), float(b), int(c)) for a, b, c in (line.split("\t") for line in text.splitlines()))
        same(len(got), len(expected), "stacks")
        for one, other in zip(got, expected):
            # The report's JSON has whole bytes.
            check(all(math.isclose(a, b, abs_tol=0.51) for a, b in zip(one, other)), one, other)


@on_each_server
def twice_counts_once(server):
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
        # Numbers of pushes: the time of day at the window's end, and what is random.
        part = "intDiv(intDiv(end_ns, 1000000000) % 86400 * 256, 86400)"
        same(s.ask("SELECT count() FROM fleet.windows WHERE bitShiftRight(push, 56) != " + part), "0")
        same(s.ask("SELECT count() = uniq(push) FROM fleet.windows"), "1")


@on_each_server
def stacks_of_two_hosts_are_one(server):
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


@cases(["one server", "two servers"])
def stacks_are_sent_once(servers):
    """Only new ones, of traces in one push and in several."""
    with fleet_of(servers) as both, Folder() as here:
        for one in both:
            one.ask("SYSTEM STOP MERGES")
        traces = traces_of(here, 3, "-x")

        def count(table):
            return int(both[0].ask("SELECT count() FROM fleet." + table))
        push(both[0].url(), "--host", "one", traces[0])
        first = count("stacks"), count("frames")
        push(both[-1].url(), "--host", "two", traces[0])
        same((count("stacks"), count("frames")), first)
        push(both[-1].url(), "--host", "three", *traces)
        same(count("stacks"), int(both[0].ask("SELECT uniqExact(stack) FROM fleet.stacks")))
        same([round(value) for value in whole_of(both[0].url() + "?host=three")],
             [round(sum(values)) for values in zip(*map(whole_of, traces))])
        check("keep_b" in [row["function"] for row in report(both[0].url() + "?host=three")["rows"]], "names")


@on_each_server
def any_bytes_in_names(server):
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


def asked_for(s):
    """The same of the database's only process, by a question; and by SQL, what its windows allocated."""
    whole = whole_of(s.url())
    same(figures(s.ask("SELECT sum(allocated_bytes), sum(allocated_blocks) FROM fleet.samples WHERE " + COUNTED)),
         whole[:2], "allocated")
    same(figures(s.ask("SELECT sum(a) FROM (SELECT argMin(allocated_bytes, push) AS a FROM fleet.windows GROUP BY window)")),
         whole[:1], "allocated by windows")
    return whole


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
            # It may have been killed before it said that the server is back.
            said = pusher.stderr.read().decode()
            check(re.fullmatch(r"(mayfly: .*: takes windows again, at .*\n)?", said), said)
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
        # Many stacks: the hashes of told's four may all belong to one server.
        traces.append(here / "known.mayfly")
        same(record([program("known"), "7", "2", "500"], traces[-1], options).code, 0)
        good("fleet", "init", alone.url())
        for i, trace in enumerate(traces):
            push(alone.url(), "--label", "ring=%d" % (i % 2), trace)
            push(both[i % 2].url(), "--label", "ring=%d" % (i % 2), trace)
        check("already" in push(both[1].url(), traces[0]), "pushed to the other")
        with told_recording(here / "more", options, "--push", both[0].url(), "--push-every", "1s") as (told, recorder):
            told.tell("a", 3)
            wait_until(lambda: windows(both[1]) > len(traces), "a window")
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


def caught_up(*all_servers):
    """Waits until replicas have what was pushed to the others. A delay of 0 is said also of what is younger than 1 s."""
    for one in all_servers:
        wait_until(lambda: one.ask("SELECT count() FROM system.replicas WHERE queue_size > 0 OR is_readonly OR "
                                   "(log_max_index > 0 AND log_pointer <= log_max_index)") == "0", "a replica")


def sum_of(traces):
    return [sum(values) for values in zip(*map(whole_of, traces))]


@case
def two_replicas():
    """What is pushed to one, the other answers, also after either was away for a time; and it counts once."""
    with fleet_of("two replicas") as both, Folder() as here:
        a, b = both
        traces = traces_of(here, 5, "-x")
        check("already" in good("fleet", "init", "--cluster", "two", "--replicas", b.url()), "a second init")

        def agree(count):
            caught_up(*both)
            for one in both:
                same((windows(one), whole_of(one.url())), (count, sum_of(traces[:count])))
                same(float(one.ask("SELECT sum(allocated_bytes) FROM fleet.samples_local WHERE " + COUNTED)),
                     sum_of(traces[:count])[0])
        push(a.url(), *traces[:2])
        agree(2)
        check("already" in push(b.url(), traces[0]), "pushed to the other")

        def at_once():
            # On a very busy machine, each may be behind the other for too long; that is no error of the tables.
            pushers = [subprocess.Popen([MAYFLY, "push", "-q", "--to", one.url(), *traces[:3]], env=environment(),
                                        stderr=subprocess.DEVNULL) for one in both]
            return [one.wait() for one in pushers] == [0, 0]
        wait_until(at_once, "two pushers at once")
        agree(3)
        for away, there, trace, number in ((b, a, traces[3], signal.SIGTERM), (a, b, traces[4], signal.SIGKILL)):
            away.stop(number)
            push(there.url(), trace)
            same(whole_of(there.url()), sum_of(traces[:traces.index(trace) + 1]))
            away.start()
            wait_until(away.has_keeper, "ZooKeeper")
            agree(traces.index(trace) + 1)
        same(a.ask("SELECT total_replicas, engine LIKE 'Replicated%' FROM system.replicas WHERE database = 'fleet'").splitlines(),
             ["2\t1"] * 4)
        same(good("fleet", "trim", "--keep", "30d", a.url()).split()[-3:], ["0", "processes", "forgotten"])
        check("5 processes" in good("fleet", "trim", "--keep", "1ns", a.url()), "all")
        caught_up(*both)
        same([one.ask("SELECT count() FROM fleet.%s_local" % table) for one in both for table in ("windows", "samples")],
             ["0"] * 4)
        check("0 processes" in good("fleet", "trim", "--keep", "1ns", b.url()), "of the other")
        push(b.url(), traces[0])
        caught_up(*both)
        same(whole_of(a.url()), whole_of(traces[0]))


@case
def a_replica_that_is_behind():
    """It is not asked what a process has already, and does not join or forget what it knows a part of."""
    with fleet_of("two replicas") as both, Folder() as here:
        a, b = both
        with told_recording(here / "t", "-x") as (told, recorder):
            for i, order in enumerate("abc"):
                told.tell(order, 3)
                told.tell("-", 1000)
                good("ctl", here / "t.spool", "snapshot", "-o", here / ("s%d" % i))
        recorder.wait()
        push(a.url(), here / "s0")
        caught_up(*both)
        for table in ("windows", "samples", "stacks", "frames"):
            b.ask("SYSTEM STOP FETCHES fleet.%s_local" % table)
        push(a.url(), here / "s1")
        wait_until(lambda: b.ask("SELECT min(absolute_delay) > 4 FROM system.replicas WHERE table IN "
                                 "('windows_local', 'samples_local')") == "1", "it to be behind")
        push(b.url(), here / "s2")
        for job in (["rollup", "--older", "1ns"], ["trim", "--keep", "1ns"]):
            check("lacks rows that other replicas have" in fails("fleet", *job, b.url()), job)
        a.stop(signal.SIGTERM)
        check("replica" in fails("push", "--to", b.url(), here / "t"), "a part of what the process has")
        a.start()
        wait_until(a.has_keeper, "ZooKeeper")
        for table in ("windows", "samples", "stacks", "frames"):
            b.ask("SYSTEM START FETCHES fleet.%s_local" % table)
        caught_up(*both)
        push(b.url(), here / "t")
        caught_up(*both)
        for one in both:
            same((windows(one), asked_for(one)), (4, whole_of(here / "t")))
        same(rolled(b, "--older", "1ns"), (4, 1))
        same(rolled(a, "--older", "1ns"), (0, 0))
        caught_up(*both)
        for one in both:
            same((windows(one), asked_for(one)), (1, whole_of(here / "t")))
            same(one.ask("SELECT uniq(push) FROM fleet.samples"), "1")


@case
def replicas_of_two_shards():
    """Four servers, of which one of each shard is away in turn."""
    with replicas(2) as servers, Folder() as here:
        for one in servers:
            good("fleet", "init", "-q", "--cluster", "two", "--replicas", one.url())
        traces = traces_of(here, 12, "-x")
        for i, trace in enumerate(traces):
            away = servers[i % 4] if i >= 8 else None
            if away:
                away.stop(signal.SIGTERM)
            push(servers[(i + 1) % 4].url(), trace)
            if away:
                away.start()
                wait_until(away.has_keeper, "ZooKeeper")
            caught_up(*servers)
        for one in servers:
            same((windows(one), whole_of(one.url())), (12, sum_of(traces)))
            check("already" in push(one.url(), traces[5]), "again")
        counts = [int(one.ask("SELECT count() FROM fleet.windows_local")) for one in servers]
        same((counts[0], counts[2], counts[0] + counts[2]), (counts[1], counts[3], 12))
        for one in servers[::2]:
            good("fleet", "trim", "--keep", "1ns", one.url())
        caught_up(*servers)
        same([one.ask("SELECT count() FROM fleet.samples_local") for one in servers], ["0"] * 4)


@case
def replicas_that_cannot_be_made():
    """One line, and nothing is made."""
    with server() as s, keeper() as port:
        s.shards = [[s]]

        def refused(word, *options):
            said = fails("fleet", "init", *(options or ("--cluster", "two", "--replicas")), s.url())
            check(word in said, said)
            same(s.ask("SELECT count() FROM system.databases WHERE name = 'fleet'"), "0")

        def restart(more):
            s.stop()
            s.more = more
            s.start()
        restart("")
        refused("names none")
        restart(KEEPER % free_ports(1)[0] + MACROS % (1, "a"))
        refused("replicas need ZooKeeper: ")
        for macros in ("", "<macros><shard>1</shard></macros>"):
            restart(KEEPER % port + macros)
            wait_until(s.has_keeper, "ZooKeeper")
            refused("the macros 'shard' and 'replica'")
        refused("no cluster 'three'", "--cluster", "three")
        good("fleet", "init", "--cluster", "two", s.url())
        check("without replicas" in fails("fleet", "init", "--cluster", "two", "--replicas", s.url()), "there are others")
        for wrong in (["init", "--replicas"], ["list", "--replicas"]):
            same(run([MAYFLY, "fleet", *wrong, s.url()], env=environment()).code, 2, wrong)


@on_each_server
def old_processes_are_forgotten(server):
    """Whole processes: nothing of one that goes on is pushed, as it would be pushed again."""
    with server() as s, Folder() as here:
        good("fleet", "init", s.url())
        put_tables(s, ["f"], ["('2023-11-14', 'api', 'h', 1, 1, 1, 1699920000000000000, 1699920060000000000, 1, 1)"],
                   ["('2023-11-14', 'api', 1, 1, %s)" % ", ".join("1" * 10)])
        with told_recording(here / "t", "-x", "--push", s.url(), "--push-every", "1s") as (told, recorder):
            told.tell("a", 3)
            wait_until(lambda: windows(s) > 1, "a window")
            told.tell("b", 3)
            before = windows(s)
            wait_until(lambda: windows(s) > before, "a window")
            check("1 process forgotten" in good("fleet", "trim", "--keep", "12h", s.url()), "one")
            same(s.ask("SELECT uniq(process), uniq(begin_ns) > 1 FROM fleet.windows"), "1\t1")
            same(s.ask("SELECT count() FROM fleet.samples WHERE push = 1"), "0")
        same(recorder.wait(), 0)
        same(asked_for(s), whole_of(here / "t"))
        for wrong in (["trim", s.url()], ["trim", "--keep", "2s"], ["list", "--keep", "2s", s.url()],
                      ["trim", "--keep", "2s", "--cluster", "x", s.url()]):
            same(run([MAYFLY, "fleet", *wrong], env=environment()).code, 2, wrong)


@on_each_server
def list_of_groups(server):
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


@on_each_server
def tables_of_another_version(server):
    with server() as s, Folder() as here:
        trace, = traces_of(here, 1, "-x")
        check("mayfly fleet init" in fails("push", "--to", s.url(), trace), "no tables")
        good("fleet", "init", s.url())
        s.ask("INSERT INTO fleet.mayfly VALUES (99, '')")
        for command in (("push", "--to", s.url(), trace), ("fleet", "init", s.url())):
            check("version 99" in fails(*command), command)


# What mayfly fleet init made once.
VERSION_1 = {
    "frames": ("frame UInt64, function String, file String, line UInt32, module String, address UInt64",
               "ReplacingMergeTree() ORDER BY frame", "frame"),
    "stacks": ("stack UInt64, frames Array(UInt64)", "ReplacingMergeTree() ORDER BY stack", "stack"),
    "samples": ("day Date, service String, push UInt64, stack UInt64, " + ", ".join(
        "%s_bytes Float64, %s_bytes_variance Float64, %s_blocks Float64, %s_blocks_variance Float64, %s_samples UInt64" % (
            (metric,) * 5) for metric in ("allocated", "live", "peak")),
        "MergeTree() PARTITION BY day ORDER BY (service, push, stack)", "push"),
    "windows": ("day Date, service String, version String, host String, process UInt64, window UInt64, push UInt64, "
                "program String, command String, pid UInt32, begin_ns Int64, end_ns Int64, exact UInt8, "
                "interval_bytes UInt64, samples UInt64, allocated_bytes Float64, live_bytes Float64, peak_bytes Float64, "
                "rss_bytes UInt64, rss_most_bytes UInt64, cpu_ns UInt64, labels Nested(key String, value String), "
                "pushed DateTime", "MergeTree() PARTITION BY day ORDER BY (service, version, host, begin_ns, window)", "push"),
}


def make_version_1(s, database, cluster="", replicated=False):
    s.ask("CREATE DATABASE " + database)
    for name, (columns, engine, part_by) in VERSION_1.items():
        if replicated:
            engine = "Replicated" + engine.replace("()", "('/clickhouse/tables/{shard}/%s/%s', '{replica}')" % (database, name))
        s.ask("CREATE TABLE %s.%s%s (%s) ENGINE = %s" % (database, name, "_local" if cluster else "", columns, engine))
        if cluster:
            s.ask("CREATE TABLE %s.%s (%s) ENGINE = Distributed('%s', '%s', '%s_local', %s)" % (
                database, name, columns, cluster, database, name, part_by))
    s.ask("CREATE TABLE %s.mayfly (version UInt32, cluster String) ENGINE = MergeTree() ORDER BY version" % database)
    s.ask("INSERT INTO %s.mayfly VALUES (1, '%s')" % (database, cluster))


def copy_as_version_1(s, database):
    """What fleet has, into tables that have fewer columns."""
    for name in VERSION_1:
        columns = s.ask("SELECT name FROM system.columns WHERE database = '%s' AND table = '%s'" % (database, name))
        columns = ", ".join(columns.splitlines())
        s.ask("INSERT INTO %s.%s (%s) SELECT %s FROM fleet.%s" % (database, name, columns, columns, name))


@cases(["one server", "two servers", "two replicas"])
def tables_of_an_older_version(servers):
    """fleet init adds what they lack; what they have is answered as before, and windows go on from there."""
    two = servers != "one server"
    options = [] if not two else ["--cluster", "two"] if servers == "two servers" else ["--cluster", "two", "--replicas"]
    with fleet_of(servers) as both, Folder() as here:
        s = both[0]
        traces = traces_of(here, 3, "-x")
        push(s.url(), *traces[:2])
        for one in both:
            make_version_1(one, "old", "two" if two else "", "--replicas" in options)
        copy_as_version_1(s, "old")
        for command in (("push", "--to", s.url("old"), traces[2]), ("report", s.url("old")), ("fleet", "list", s.url("old")),
                        ("fleet", "trim", "--keep", "1d", s.url("old"))):
            check("have version 1; 'mayfly fleet init %s' brings" % s.url("old") in fails(*command), command)
        # As if an earlier attempt had ended in the middle.
        s.ask("ALTER TABLE old.windows%s ADD COLUMN share Float64 DEFAULT 1" % ("_local" if two else ""))
        check("mayfly's version" in good("fleet", "init", s.url("old")), "brought up to date")
        for one in both[1:]:
            good("fleet", "init", "-q", *options, one.url("old"))
        for one in both:
            check("already" in good("fleet", "init", *options, one.url("old")), "twice")
        for one in both:
            wait_until(lambda: one.ask("SELECT count(), min(share), max(share) FROM old.windows") == "2\t1\t1", "all rows")
        caught_up(*both)
        same(report(s.url("old"))["rows"], report(s.url())["rows"])
        check("already" in push(s.url("old"), traces[1]), "a window of before")
        for database in ("old", "fleet"):
            push(both[-1].url(database), traces[2])
        caught_up(*both)
        same(report(s.url("old"))["rows"], report(s.url())["rows"])
        describe = "DESCRIBE TABLE %s.windows" + ("_local" if two else "")
        same(s.ask(describe % "old"), s.ask(describe % "fleet"))


@cases(["clickhouse://", "clickhouse://host", "clickhouse://host/", "clickhouse://host/1db", "clickhouse://host/a-b",
        "clickhouse://host:99999/db", "clickhouse://me:hidden@host/db", "http://host/db", "host/db"])
def addresses_that_are_wrong(address):
    with Folder() as here:
        trace, = traces_of(here, 1, "-x")
        said = fails("push", "--to", address, trace)
        check("hidden" not in said and "clickhouse" in said.lower() or "database" in said or "port" in said, said)


@case
def samples_of_any_sampler():
    """The database does not say which one chose them, so the report does not, either."""
    with server() as s, Folder() as here:
        traces = traces_of(here, 2, "-i4K")
        good("fleet", "init", s.url())
        push(s.url(), *traces)
        for command in ("report", "info"):
            text = run([MAYFLY, command, s.url()], env=environment()).out.decode()
            check(re.search("(?i)sampled.*1 byte in", text) and not re.search("Poisson|stratified", text), text)
        same(info(s.url())["sampler"], None)
        check("sampler" in info(s.url())["absent"], info(s.url()))


@on_each_server
def questions(server):
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
        mean = report(s.url() + "?host=one&per=process", "--metric", "allocated", "--all")
        whole = report(s.url() + "?host=one", "--metric", "allocated", "--all")
        for one, other in zip(mean["rows"], whole["rows"]):
            check(abs(one["self"]["bytes"]["estimate"] - other["self"]["bytes"]["estimate"] / 2) <= 1, one, other)
        text = good("check", "--max-increase", "allocated=50%", "--baseline", s.url() + "?host=one&per=process", traces[2])
        base = float(re.search(r"baseline, ([\d.]+) MiB", text).group(1))
        check(abs(base - mean["total"]["bytes"]["estimate"] * 1.5 / 2 ** 20) < 0.2, text, mean["total"])
        check("add per=process" in run([MAYFLY, "check", "--max-increase", "1%", "--baseline", s.url(), traces[2]],
                                       env=environment()).err.decode(), "a sum as baseline")
        for by in ("host", "version", "service", "label.ring"):
            same(good("report", "--by", by, s.url()), good("fleet", "list", "--by", by, s.url()), by)
        same(run([MAYFLY, "report", "--by", "host", traces[0]], env=environment()).code, 2)
        for question, word in (("?per=host", "is not 'process'"), ("?per=process&every=1h", "do not go together"), ("?host=three", "no windows"), ("?hots=one", "hots"), ("?from=soon", "soon"),
                               ("?every=5", "'5' is not a length"), ("?every=0s", "'0s' is not"), ("?every=-1h", "'-1h' is"),
                               ("?host", "KEY=VALUE"), ("?host=%zz", "KEY=VALUE"), ("?label.=x", "label")):
            check(word in fails("report", s.url() + question), question)
        for options in (["--series", "3"], ["--metric", "live", "--at", "1ms"]):
            check("every=5m is answered over time" in fails("report", *options, s.url()), options)
        same(run([MAYFLY, "fleet", "list", s.url() + "?every=5m"], env=environment()).code, 2)
        same(report(s.url() + "?every=auto", "--metric", "allocated")["total"], report(s.url(), "--metric", "allocated")["total"])
        s.ask("INSERT INTO fleet.windows (day, service, process, window, push, begin_ns, end_ns) VALUES "
              "('2020-01-01', 'old', 1, 1, 1, 1577836800000000000, 1577836900000000000)")
        check("1000 is the most" in fails("report", s.url() + "?every=1h"), "an hour's steps of years")
        report(s.url() + "?every=auto", "--series", "5")


@on_each_server
def questions_of_samples(server):
    """The note has the interval of the sum; each row has its own, as the traces' rows have."""
    with server() as s, Folder() as here:
        traces = traces_of(here, 2, "-i", "4K")
        good("fleet", "init", s.url())
        push(s.url(), *traces)
        whole = sum(report(trace, "--metric", "allocated")["total"]["bytes"]["estimate"] for trace in traces)
        got = report(s.url(), "--metric", "allocated")
        check(abs(got["total"]["bytes"]["estimate"] - whole) < 10, got["total"], whole)
        text = good("info", s.url())
        check(re.search(r"allocated [\d.]+ MiB ±0\.\d*[1-9]", text), text)
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


WINDOW_COLUMNS = "day, service, host, process, window, push, begin_ns, end_ns, exact, interval_bytes"
SAMPLE_COLUMNS = ("day, service, push, stack, allocated_bytes, allocated_blocks, live_bytes, live_blocks, "
                  "allocated_bytes_variance, allocated_blocks_variance, allocated_samples, live_bytes_variance, "
                  "live_blocks_variance, live_samples")


def put_rows(s, table, columns, rows):
    for first in range(0, len(rows), 2000):
        s.ask("INSERT INTO fleet.%s (%s) VALUES %s" % (table, columns, ", ".join(rows[first:first + 2000])))
    wait_until(lambda: s.ask("SELECT count() FROM fleet." + table) == str(len(rows)), table + " in all servers")


def put_tables(s, names, windows, samples):
    """Straight into the tables. A stack is a function."""
    put_rows(s, "frames", "frame, function", ["(%d, '%s')" % (i + 1001, name) for i, name in enumerate(names)])
    put_rows(s, "stacks", "stack, frames", ["(%d, [%d])" % (i + 1, i + 1001) for i in range(len(names))])
    put_rows(s, "windows", WINDOW_COLUMNS, windows)
    put_rows(s, "samples", SAMPLE_COLUMNS, samples)


# What a process has live counts until its next window ends, or for one and a half of the last one's length.
def live_at(of, at):
    known = [w for w in of if w["end"] <= at]
    last = max(known, key=lambda w: w["end"]) if known else None
    return last if last and at <= last["end"] + (last["end"] - last["begin"]) * 3 // 2 else None


STACKS = ("grow", "steady", "rare")


def random_fleet(chance):
    """Processes as lists of windows, whose figures are per stack: allocated bytes and blocks, live bytes and blocks."""
    fleet = []
    for number in range(chance.randint(4, 9)):
        end = 1_700_000_000_000_000_000 + chance.randint(0, 200_000_000_000)
        live = {name: (0, 0) for name in STACKS}
        fleet.append([])
        for _ in range(chance.randint(1, 20)):
            begin, end = end, end + chance.randint(4_000_000_000, 16_000_000_000)
            sums = {}
            for name in STACKS:
                blocks = chance.choice((0, chance.randint(1, 50)))
                size = blocks * chance.randint(16, 5000)
                left = chance.random() if name != "grow" else 1
                live[name] = (int((live[name][0] + size) * left), math.ceil((live[name][1] + blocks) * left))
                if live[name][0] == 0:
                    live[name] = (0, 0)
                sums[name] = (size, blocks, *live[name])
            fleet[-1].append({"process": number, "begin": begin, "end": end, "sums": sums})
    return fleet


def put_fleet(s, fleet, exact, between=1):
    """A push of each window that does not count has wrong figures."""
    windows, samples, push = [], [], 0
    for of in fleet:
        for w in of:
            for wrong in (0, 1):
                push += between
                windows.append("('2023-11-14', 'api', 'host%d', %d, %d, %d, %d, %d, %d, 1000)" % (
                    w["process"], w["process"], push - wrong * between, push, w["begin"], w["end"], exact))
                for i, name in enumerate(STACKS):
                    sums = [(1 + 3 * wrong) * value for value in w["sums"][name]]
                    errors = [0 if exact else value for value in (sums[0] * 500, sums[1] / 2, sums[1],
                                                                  sums[2] * 500, sums[3] / 2, sums[3])]
                    samples.append("('2023-11-14', 'api', %d, %d, %s)" % (push, i + 1, ", ".join(
                        str(value) for value in (*sums, *errors))))
    put_tables(s, STACKS, windows, samples)


@contextlib.contextmanager
def fleet_of(servers):
    """One server or two, with tables; the first is asked."""
    with contextlib.ExitStack() as stack:
        if servers in ("one server", "the newest server"):
            both = [stack.enter_context(newest() if servers == "the newest server" else server())]
            good("fleet", "init", "-q", both[0].url())
        elif servers == "two replicas":
            both = stack.enter_context(replicas())
            for one in both:
                good("fleet", "init", "-q", "--cluster", "two", "--replicas", one.url())
        else:
            both = stack.enter_context(cluster())
        yield both


def rolled(s, *options):
    """The numbers that it says."""
    words = good("fleet", "rollup", *options, s.url()).split()
    return int(words[1]), int(words[-1])


def rolled_state(s):
    """What must not change: sums of all and of the last windows, by function, and what the windows say."""
    def rows(*options):
        return sorted((row["function"], row["self"]["samples"], *(row["self"][what][key] for what in ("bytes", "blocks")
                       for key in ("estimate", "low", "high"))) for row in
                      report(s.url(), "--all", "--frames=all", *options)["rows"])
    return (rows("--metric", "allocated"), rows("--metric", "live"),
            json.loads(good("fleet", "list", "--json", "--by", "host", s.url())),
            figures(s.ask("SELECT sum(allocated_bytes), sum(allocated_blocks), sum(allocated_samples), "
                          "sum(allocated_bytes_variance) FROM fleet.samples WHERE " + COUNTED.replace("IN", "GLOBAL IN"))))


@cases(["one server, exact", "one server, sampled", "two servers, sampled", "the newest server, sampled"])
def old_windows_are_joined(what):
    """Sums are what they were: while rows are still there that do not count, after it was killed then, and at the end."""
    servers, how = what.split(", ")
    with fleet_of(servers) as both:
        s = both[0]
        fleet = random_fleet(random.Random(5))
        put_fleet(s, fleet, how == "exact", 1 << 40)
        before = rolled_state(s)
        minutes = {(w["process"], w["begin"] // 60_000_000_000) for of in fleet for w in of}
        same(rolled(s, "--older", "30000d"), (0, 0))
        if servers == "the newest server":
            rolled(s, "--older", "1d", "--to", "1m")
        else:
            for one in both:
                one.ask("SYSTEM STOP MERGES")
            stuck = subprocess.Popen([MAYFLY, "fleet", "rollup", "-q", "--older", "1d", "--to", "1m", s.url()], env=environment())
            wait_until(lambda: s.ask("SELECT count() FROM system.mutations WHERE NOT is_done") != "0", "rows to be deleted")
            same(rolled_state(s), before)
            check(s.ask("SELECT count() FROM fleet.windows WHERE exact = 2") != "0", "rows in the place of others")
            stuck.kill()
            stuck.wait()
            for one in both:
                one.ask("SYSTEM START MERGES")
        for one in both + both:
            same(rolled(one, "--older", "1d", "--to", "1m"), (0, 0))
        same(rolled_state(s), before)
        same(int(s.ask("SELECT count() FROM fleet.windows")), len(minutes))
        same(s.ask("SELECT uniq(push) FROM fleet.samples WHERE push GLOBAL NOT IN (SELECT push FROM fleet.windows)"), "0")
        joined = rolled(s, "--older", "1d", "--to", "1d")
        same(joined, (sum(1 for process in {m[0] for m in minutes} for m in minutes if m[0] == process and
                          sum(n[0] == process for n in minutes) > 1),
                      sum(sum(n[0] == process for n in minutes) > 1 for process in {m[0] for m in minutes})))
        for one in both + both:
            rolled(one, "--older", "1d", "--to", "1d")
        same(rolled_state(s), before)
        same(int(s.ask("SELECT count() FROM fleet.windows")), len(fleet))


class Between(http.server.BaseHTTPRequestHandler):
    """Between mayfly and a server: change(path, body) returns the path that is asked in place of one."""
    protocol_version = "HTTP/1.1"
    port = change = None

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("POST", self.change(self.path, body), body,
                           {name: value for name, value in self.headers.items() if name[0] in "CX"})
        answer = connection.getresponse()
        text = answer.read()
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def between(s, change):
    """The address of such a one."""
    handler = type("BetweenThem", (Between,), {"port": s.http, "change": staticmethod(change)})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        try:
            yield "clickhouse://127.0.0.1:%d/fleet" % proxy.server_port
        finally:
            proxy.shutdown()
            thread.join()


@on_each_server
def windows_are_joined_while_it_is_asked(server):
    """A question is many requests: it begins again when windows that it is about do not count any more."""
    with server() as s:
        good("fleet", "init", "-q", s.url())
        put_fleet(s, random_fleet(random.Random(6)), True, 1 << 40)
        lengths = ["30s", "1m", "1h"]

        def join_meanwhile(path, _):
            if "allocated_bytes_variance" in path and lengths:
                rolled(s, "--older", "1d", "--to", lengths.pop(0))
            return path
        before = whole_of(s.url())
        with between(s, join_meanwhile) as address:
            windows_then = windows(s)
            check("joined or removed" in fails("report", address), "joined each time")
            check(windows(s) < windows_then and not lengths, "nothing was joined")
            same(whole_of(address), before)
            s.ask("DROP DATABASE fleet")
            good("fleet", "init", "-q", s.url())
            put_fleet(s, random_fleet(random.Random(6)), True, 1 << 40)
            lengths.append("1m")
            same(whole_of(address), before)
            check(not lengths, "joined once")


@on_each_server
def windows_of_several_shares_stay(server):
    """They say when the share changed."""
    with server() as s:
        good("fleet", "init", "-q", s.url())
        put_rows(s, "windows", WINDOW_COLUMNS + ", share", [
            "('2023-11-14', 'api', 'host', %d, %d, %d, %d, %d, 0, 1000, %g)" % (
                process, process * 8 + i, (process * 8 + i) << 40, i * SECOND, (i + 1) * SECOND, share)
            for process, shares in ((1, (1, 0.5, 1)), (2, (0.5, 0.5))) for i, share in enumerate(shares)])
        same(rolled(s, "--older", "1d", "--to", "1m"), (2, 1))
        same(s.ask("SELECT process, share, begin_ns FROM fleet.windows WHERE exact < 2 ORDER BY process, begin_ns").splitlines(),
             ["1\t1\t0", "1\t0.5\t%d" % SECOND, "1\t1\t%d" % (2 * SECOND), "2\t0.5\t0"])


@cases(["-x", "-i4K"])
def windows_are_joined_while_they_come(options):
    """Two at once, again and again beside pushes of the same process: it counts once."""
    with server() as s, Folder() as here:
        good("fleet", "init", s.url())
        with told_recording(here / "t", options, "--push", s.url(), "--push-every", "1s") as (told, recorder):
            for i in range(3):
                before = int(s.ask("SELECT max(end_ns) FROM fleet.windows"))
                told.tell("ab"[i % 2], 3)
                wait_until(lambda: int(s.ask("SELECT max(end_ns) FROM fleet.windows")) > before, "a window")
                both = [subprocess.Popen([MAYFLY, "fleet", "rollup", "-q", "--older", "1ns", s.url()], env=environment())
                        for _ in range(2)]
                same([one.wait() for one in both], [0, 0])
        same(recorder.wait(), 0)
        rolled(s, "--older", "1ns", "--to", "1d")
        same([round(value) for value in asked_for(s)], [round(value) for value in whole_of(here / "t")])
        check("already" in push(s.url(), here / "t"), "the trace again")
        for wrong in (["rollup", s.url()], ["rollup", "--older", "1d", "--to", "7h", s.url()],
                      ["trim", "--keep", "1d", "--older", "2s", s.url()], ["list", "--to", "1h", s.url()]):
            same(run([MAYFLY, "fleet", *wrong], env=environment()).code, 2, wrong)


@cases(["INSERT INTO fleet.samples", "AS after UNION ALL"])
def joins_that_lose_rows(word):
    """A rollup says so, and replaces and deletes nothing. Joins lose rows in statements with that word, as ANY INNER
    JOIN does since ClickHouse 20.1: all but one of the rows that would be joined."""
    plan, less = (urllib.parse.quote("(SELECT * FROM plan%s)" % where, "") for where in ("", " WHERE is_first = 1"))

    def lose(path, _):
        if word not in urllib.parse.unquote(path):
            return path
        check(plan in path, path)
        return path.replace(plan, less)

    with fleet_of("one server") as (s,):
        put_fleet(s, random_fleet(random.Random(6)), False, 1 << 40)
        before, rows = rolled_state(s), s.ask("SELECT * FROM fleet.windows ORDER BY push")
        with between(s, lose) as address:
            said = fails("fleet", "rollup", "--older", "1d", "--to", "1d", address)
        check("other sums" in said, said)
        same(s.ask("SELECT * FROM fleet.windows ORDER BY push"), rows)
        same(rolled_state(s), before)
        rolled(s, "--older", "1d", "--to", "1d")
        same(rolled_state(s), before)


@contextlib.contextmanager
def held(s, word):
    """A rollup whose first statement with a word waits. Yields what lets it go to its end."""
    waits, go = threading.Event(), threading.Event()

    def wait(path, body):
        if word in urllib.parse.unquote(path) + body.decode("latin-1") and not waits.is_set():
            waits.set()
            go.wait()
        return path

    with between(s, wait) as address:
        one = subprocess.Popen([MAYFLY, "fleet", "rollup", "-q", "--older", "1d", "--to", "1d", address], env=environment())
        try:
            wait_until(waits.is_set, word)

            def finish():
                go.set()
                same(one.wait(), 0)
            yield finish
        finally:
            go.set()
            one.wait()


@cases(["DELETE of windows", "a late window"])
def two_rollups_at_once(what):
    """One joins while the other deletes what it planned to join, or has joined a window that came after the plan."""
    with fleet_of("one server") as (s,):
        put_fleet(s, random_fleet(random.Random(6)), False, 1 << 40)
        with held(s, "INSERT INTO fleet.samples") as first:
            if what == "a late window":
                end = "max(end_ns)"
                s.ask("INSERT INTO fleet.windows (%s) SELECT '2023-11-14', 'api', any(host), process, process + 100, "
                      "bitShiftLeft(process + 10000, 40), %s, %s + 1000000000, 0, 1000 FROM fleet.windows GROUP BY process" % (
                          WINDOW_COLUMNS, end, end))
                s.ask("INSERT INTO fleet.samples (day, service, push, stack, allocated_bytes, live_bytes) SELECT '2023-11-14', 'api', "
                      "push, 1, 1000, 500 FROM fleet.windows WHERE window = process + 100")
            before = rolled_state(s)
            with held(s, "ALTER TABLE fleet.windows" if what != "a late window" else "ALTER TABLE fleet.samples") as second:
                first()
                second()
        same(rolled_state(s), before)
        rolled(s, "--older", "1d", "--to", "1d")
        same(rolled_state(s), before)


def over_time(fleet, step):
    """Each step's moment, and by function what was allocated up to it, and what is live then, in bytes and blocks."""
    end = max(w["end"] for of in fleet for w in of)
    begin = min(w["begin"] for of in fleet for w in of)
    steps = -(-(end - begin) // step)
    moments = [end - (steps - 1 - k) * step for k in range(steps)]
    answer = []
    for at in moments:
        last = [live_at(of, at) for of in fleet]
        answer.append({name: [sum(w["sums"][name][i] for of in fleet for w in of if w["end"] <= at) for i in (0, 1)] +
                       [sum(w["sums"][name][i] for w in last if w) for i in (2, 3)] for name in STACKS})
    return answer


@cases(["one server, exact", "one server, sampled", "two servers, sampled", "the newest server, sampled"])
def questions_over_time(what):
    """every=: what each step allocated, and what runs at its end has live, as a loop over the windows tells."""
    servers, how = what.split(", ")
    with contextlib.ExitStack() as stack:
        one = {"one server": server, "the newest server": newest}.get(servers)
        s = stack.enter_context(one()) if one else stack.enter_context(cluster())[0]
        for seed in range(3):
            if one:
                s.ask("DROP DATABASE IF EXISTS fleet")
                good("fleet", "init", "-q", s.url())
            elif seed:
                break
            fleet = random_fleet(random.Random(seed))
            put_fleet(s, fleet, how == "exact")
            for every, step in (("10s", 10), ("45s", 45), ("1h", 3600)):
                expected = over_time(fleet, step * 1_000_000_000)
                address = s.url() + "?service=api&every=" + every
                got = report(address, "--series", str(len(expected)), "--all", "--frames=all", "--metric", "allocated")
                rows = {row["function"]: row for row in got["rows"]}
                for name in STACKS:
                    for i, key in enumerate(("allocated_bytes", "allocated_blocks", "live_bytes", "live_blocks")):
                        same(rows[name][key], [one[name][i] for one in expected],
                             (seed, every, name, key))
                whole = report(address, "--metric", "allocated")["total"]
                same((whole["bytes"]["estimate"], whole["blocks"]["estimate"]),
                     tuple(sum(expected[-1][name][i] for name in STACKS) for i in (0, 1)), (seed, every))
                # In these fleets every variance is in proportion to its sum, which is what a reader takes other moments'
                # to be: so each one is known.
                for k in {0, len(expected) // 2, len(expected) - 1}:
                    at = report(address, "--metric", "live", "--at", "%dns" % got["times_ns"][k], "--all", "--frames=all")
                    rows = {row["function"]: row["self"]["bytes"] for row in at["rows"]}
                    for name in STACKS:
                        live = expected[k][name][2]
                        one = rows.get(name, {"estimate": 0, "stderr": 0})
                        same(one["estimate"], live, (seed, every, k, name))
                        error = 0 if how == "exact" else math.sqrt(live * 500)
                        check(abs((one.get("stderr") or 0) - error) <= 1 + error * 0.01, seed, every, k, name, one, error)


SECOND = 1_000_000_000


def sampled_fleet(chance, stacks, processes, windows, interval):
    """Blocks of random sizes and lives, each sampled by its size. Windows, rows of samples, and what is true: for each
    stack what is live at the end of each window's second, and what is allocated in it."""
    rows, window_rows = [], []
    live, allocated = ([[0] * windows for _ in range(stacks)] for _ in range(2))
    for process in range(processes):
        for w in range(windows):
            push = process * windows + w + 1
            window_rows.append("('2023-11-14', 'api', 'host%d', %d, %d, %d, %d, %d, 0, %d)" % (
                process, process, push, push, w * 10 * SECOND, (w + 1) * 10 * SECOND, interval))
        for stack in range(stacks):
            sums = [[0.0] * 10 for _ in range(windows)]
            for w in range(windows):
                for _ in range(chance.randint(0, 12)):
                    size = int(interval / 4 * (1 + stack % 4) * math.exp(chance.gauss(0, 0.5)))
                    until = min(windows, w + int(chance.expovariate(0.3)))
                    seen = -math.expm1(-size / interval)
                    allocated[stack][w] += size
                    for at in range(w, until):
                        live[stack][at] += size
                    if chance.random() >= seen:
                        continue
                    each = (size / seen, 1 / seen, (size / seen) ** 2 * (1 - seen), (1 - seen) / seen ** 2, 1)
                    for at, first in [(w, (0, 1, 4, 5, 6))] + [(at, (2, 3, 7, 8, 9)) for at in range(w, until)]:
                        for i, value in zip(first, each):
                            sums[at][i] += value
            for w in range(windows):
                rows.append("('2023-11-14', 'api', %d, %d, %s)" % (process * windows + w + 1, stack + 1,
                                                                   ", ".join("%.17g" % one for one in sums[w])))
    return window_rows, rows, live, allocated


@case
def intervals_over_time():
    """At moments before the end, and of parts of the time: 95 % of the intervals have the truth, and nothing is biased."""
    stacks, windows = 300, 9
    window_rows, rows, live, allocated = sampled_fleet(random.Random(1), stacks, 5, windows, 10000)
    with server() as s:
        good("fleet", "init", "-q", s.url())
        put_tables(s, ["f%03d" % i for i in range(stacks)], window_rows, rows)
        address = s.url() + "?every=10s"
        for options, true in ((["--metric", "live", "--at", "20s"], [one[1] for one in live]),
                              (["--metric", "live", "--at", "50s"], [one[4] for one in live]),
                              (["--metric", "live", "--at", "end"], [one[8] for one in live]),
                              (["--metric", "allocated", "--from", "20s", "--to", "30s"], [one[2] for one in allocated]),
                              (["--metric", "allocated"], [sum(one) for one in allocated])):
            rows = {row["function"]: row["self"] for row in
                    report(address, *options, "--all", "--frames=all", "--top", "0")["rows"]}
            within = [rows["f%03d" % i]["bytes"]["low"] <= true[i] <= rows["f%03d" % i]["bytes"]["high"]
                      for i in range(stacks) if "f%03d" % i in rows]
            check(len(within) > 0.95 * stacks, options, len(within))
            check(0.92 <= sum(within) / len(within) <= 0.995, options, sum(within) / len(within))
            got = sum(row["bytes"]["estimate"] for row in rows.values())
            error = math.sqrt(sum(row["bytes"]["stderr"] ** 2 for row in rows.values()))
            check(abs(got - sum(true)) < 3 * error, options, got, sum(true), error)


def put_hosts(s, chance, service, hosts, changed):
    """Hosts with 1 to 3 processes each, whose functions have what differs from host to host; changed ones twice as much."""
    windows, samples = [], []
    for host in range(hosts):
        each = [math.exp(chance.gauss(0, 0.5)) for _ in range(FUNCTIONS)]
        for _ in range(chance.randint(1, 3)):
            push = chance.getrandbits(60)
            windows.append("('2023-11-14', '%s', 'host%d', %d, %d, %d, 0, 1000000000, 0, 1000)" % (
                service, host, push, push, push))
            for i in range(FUNCTIONS):
                blocks = round(2000 * each[i] * math.exp(chance.gauss(0, 0.2)) * (2 if i in changed else 1))
                sums = [blocks * 100, blocks]
                samples.append("('2023-11-14', '%s', %d, %d, %s)" % (service, push, i + 1, ", ".join(
                    str(value) for value in (*sums, *sums, blocks * 1e5, blocks * 10, blocks // 10, blocks * 1e5, blocks * 10,
                                             blocks // 10))))
    return windows, samples


def poisson(chance, mean):
    count, left = 0, math.exp(-mean)
    product = chance.random()
    while product > left:
        count, product = count + 1, product * chance.random()
    return count


@case
def intervals_of_chosen_processes():
    """200 fleets of which a share of the processes was recorded: 95 % of the intervals hold what all of them have, also of
    a function with two stacks, whose sums depend on the same choice; and nothing is biased."""
    chance, interval, fleets = random.Random(3), 10000, 200
    windows, samples, true = [], [], []
    for fleet in range(fleets):
        share = chance.choice((0.2, 0.5, 0.8))
        true.append([0.0, 0.0])
        for process in range(40):
            each = math.exp(chance.gauss(0, 0.4)) * 100000
            sizes = (each, each * 0.7, each * chance.choice((0, 1)))
            true[-1][0] += sizes[0] + sizes[1]
            true[-1][1] += sizes[2]
            if chance.random() >= share:
                continue
            push = fleet * 1000 + process + 1
            windows.append("('2023-11-14', 's%d', 'host%d', %d, %d, %d, 0, %d, 0, %d, %g)" % (
                fleet, process, push, push, push, 10 * SECOND, interval, share))
            for stack, size in enumerate(sizes):
                count = poisson(chance, size / interval)
                sums = (count * interval / share, count * 10 / share)
                errors = (count * (interval / share) ** 2, count * (10 / share) ** 2, count)
                samples.append("('2023-11-14', 's%d', %d, %d, %s)" % (fleet, push, stack + 1, ", ".join(
                    "%.17g" % one for one in (*sums, *sums, *errors, *errors))))
    with server() as s:
        good("fleet", "init", "-q", s.url())
        put_rows(s, "frames", "frame, function, line", ["(1, 'f', 1)", "(2, 'f', 2)", "(3, 'g', 3)"])
        put_rows(s, "stacks", "stack, frames", ["(1, [1])", "(2, [2])", "(3, [3])"])
        put_rows(s, "windows", WINDOW_COLUMNS + ", share", windows)
        put_rows(s, "samples", SAMPLE_COLUMNS, samples)
        held, biased = [0, 0], [[], []]
        for fleet in range(fleets):
            rows = {row["function"]: row["self"]["bytes"] for row in report(
                s.url() + "?service=s%d" % fleet, "--metric", ("allocated", "leaked")[fleet % 2], "--all",
                "--frames=all")["rows"]}
            for i, name in enumerate("fg"):
                one = rows.get(name, {"estimate": 0, "low": 0, "high": 0})
                held[i] += one["low"] <= true[fleet][i] <= one["high"]
                biased[i].append(one["estimate"] / true[fleet][i])
        for i in (0, 1):
            check(0.90 <= held[i] / fleets <= 0.99, "intervals", held, fleets)
            mean, error = statistics.mean(biased[i]), statistics.stdev(biased[i]) / math.sqrt(fleets)
            check(abs(mean - 1) < 3 * error, "bias", i, mean, error)
        text = good("report", s.url() + "?service=s0")
        check("±" in text, text)


def nearly(one, other):
    """Values of JSON whose numbers are equal but for the order of sums."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(nearly(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(nearly, one, other))
    if isinstance(one, float) or isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    return one == other


@case
def servers_answer_alike():
    """The oldest and the newest one, of processes of which a share was chosen, before and after a rollup."""
    with server() as oldest, newest() as youngest:
        def asked():
            answers = []
            for s in (oldest, youngest):
                answers.append([[(key, value) for key, value in json.loads(good(*command, s.url() + question)).items()
                                 if key in ("total", "rows", "groups")] for command, question in (
                    (("report", "--json", "--all", "--frames", "all", "--metric", "allocated"), ""),
                    (("report", "--json", "--all", "--frames", "all", "--metric", "leaked"), ""),
                    (("report", "--json", "--all", "--frames", "all"), "?per=process&host=host1"),
                    (("fleet", "list", "--json", "--by", "host"), "?from=2023-01-01T00:00:00"))])
                text = good("diff", s.url() + "?host=host0", s.url() + "?host=host1")
                answers[-1].append(text[text.index("Change of"):])
            for one, other in zip(*answers):
                check(nearly(one, other), one, other)
            return answers[0]
        for s in (oldest, youngest):
            good("fleet", "init", "-q", s.url())
            put_fleet(s, random_fleet(random.Random(8)), False, 1 << 40)
            s.ask("CREATE TABLE fleet.kept AS fleet.windows")
            s.ask("INSERT INTO fleet.kept SELECT * FROM fleet.windows")
            s.ask("DROP TABLE fleet.windows")
            s.ask("CREATE TABLE fleet.windows AS fleet.kept")
            s.ask("INSERT INTO fleet.windows (%s, share) SELECT %s, 0.5 FROM fleet.kept" % (WINDOW_COLUMNS, WINDOW_COLUMNS))
        before = asked()
        same(rolled(oldest, "--older", "1d", "--to", "1m"), rolled(youngest, "--older", "1d", "--to", "1m"))
        check(nearly(asked()[:2], before[:2]), "the sums after the rollup")


@case
def processes_take_turns():
    """Each records one period in three, and stands for three. It allocates 1,000 bytes in each period and keeps them; what it
    keeps from its turns is known on."""
    with server() as s:
        good("fleet", "init", "-q", s.url())
        put_rows(s, "frames", "frame, function", ["(1, 'f')"])
        put_rows(s, "stacks", "stack, frames", ["(1, [1])"])
        windows, samples = [], []
        for process in range(30):
            known = 0
            for turn in range(6):
                on = (process + turn) % 3 == 0
                known += on
                if not known:
                    continue
                push = process * 10 + turn + 1
                windows.append("('2023-11-14', 'api', 'host', %d, %d, %d, %d, %d, 1, 1, %.17g, %d, %d)" % (
                    process, push, push, turn * 10 * SECOND, (turn + 1) * 10 * SECOND, 1 / 3, known * 3000, on))
                samples.append("('2023-11-14', 'api', %d, 1, %d, %d, %d, %d, 0, 0, %d, 0, 0, %d)" % (
                    push, on * 3000, on * 30, known * 3000, known * 30, on * 10, known * 10))
        put_rows(s, "windows", WINDOW_COLUMNS + ", share, live_bytes, samples", windows)
        put_rows(s, "samples", SAMPLE_COLUMNS, samples)
        for metric in ("leaked", "allocated"):
            one = report(s.url(), "--metric", metric, "--all", "--frames=all")["rows"][0]["self"]["bytes"]
            same(one["estimate"], 30 * 6000, metric)
            check(abs(one["stderr"] - math.sqrt(30 * 6000 ** 2 * 2 / 3)) <= 1, metric, one)
        live = report(s.url() + "?every=10s", "--series", "6", "--all", "--frames=all")["rows"][0]["live_bytes"]
        same(live, [30000 * (k + 1) for k in range(6)])
        group, = json.loads(good("fleet", "list", "--json", s.url()))["groups"]
        same((group["processes"], group["live_bytes"], group["live_bytes_each"]), (30, 180000, 6000))
        d = json.loads(good("diff", "--json", s.url(), s.url()))
        check(math.isclose(d["per"]["before"], 30) and d["total"]["verdict"] in ("same", "noise"), d["per"], d["total"])


FUNCTIONS = 50


@case
def difference_between_hosts():
    """Services of which nothing but their hosts differ: few rows are called a change, though each has hundreds of samples.
    What has doubled is found."""
    chance = random.Random(2)
    changed = set(range(0, FUNCTIONS, 5))
    with server() as s:
        good("fleet", "init", "-q", s.url())
        windows, samples = [], []
        for number in range(8):
            more = put_hosts(s, chance, "s%d" % number, (12, 20)[number % 2], ())
            windows, samples = windows + more[0], samples + more[1]
        for service, count, of in (("many", 40, ()), ("twice", 20, changed)):
            more = put_hosts(s, chance, service, count, of)
            windows, samples = windows + more[0], samples + more[1]
        put_tables(s, ["f%02d" % i for i in range(FUNCTIONS)], windows, samples)

        def compare(one, other, *options):
            return json.loads(good("diff", "--json", "--metric", "allocated", "--by", "function", "--frames=all", *options,
                                   s.url() + "?service=" + one, s.url() + "?service=" + other))
        small, holding, tested, false = 0, 0, 0, 0
        for number in range(0, 8, 2):
            d = compare("s%d" % number, "s%d" % (number + 1))
            same((d["hosts"]["before"]["hosts"], d["hosts"]["after"]["groups"]), (12, 20))
            same(d["per"]["before"], d["hosts"]["before"]["processes"])
            same(len(d["rows"]), FUNCTIONS)
            for row in d["rows"]:
                figure = row["change"]["bytes"]
                tested += 1
                small += figure["p"] < 0.05
                holding += figure["low"] <= 0 <= figure["high"]
                false += row["change"]["verdict"] == "significant"
            of = [sum(float(x) for x in s.ask("SELECT sum(allocated_bytes) FROM fleet.samples WHERE service = 's%d'" % k).split())
                  / int(s.ask("SELECT count() FROM fleet.windows WHERE service = 's%d'" % k)) for k in (number, number + 1)]
            check(math.isclose(d["total"]["bytes"]["change"], of[1] - of[0], rel_tol=1e-6), d["total"], of)
        check(small / tested < 0.10 and holding / tested > 0.90 and false <= 2, small, holding, false, tested)
        d = compare("many", "twice")
        check(d["hosts"]["before"]["hosts"] == 40 and 8 <= d["hosts"]["before"]["groups"] <= 16, d["hosts"])
        found = {row["function"] for row in d["rows"] if row["change"]["verdict"] == "significant"}
        wanted = {"f%02d" % i for i in changed}
        check(len(found & wanted) >= 7 and len(found - wanted) <= 2, found)
        text = good("diff", s.url() + "?service=many", s.url() + "?service=twice")
        check("means of a process" in text and "of 40 hosts before" in text, text)
        one = compare("many", "twice", "--per", "1")
        check(math.isclose(one["total"]["bytes"]["before"], d["total"]["bytes"]["before"] * d["per"]["before"], rel_tol=1e-6), one)
        text = good("diff", s.url() + "?service=many&host=host1", s.url() + "?service=twice&host=host1")
        check("cannot be told from one host" in text.replace("\n             ", " "), text)
        # Times and a file: by sampling, as of any two traces.
        d = compare("many", "twice&every=auto")
        same(("hosts" in d, d["per"]["before"]), (False, 1))


@on_each_server
def documented_questions_work(server):
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


def grafana(s, name, service, begin, end, interval):
    """The answer to a file of examples/fleet/grafana, with what Grafana puts in the place of its variables and macros."""
    with open(os.path.join(SOURCE, "examples", "fleet", "grafana", name)) as file:
        text = file.read()
    for word, value in (("$__fromTime", "toDateTime(%d)" % begin), ("$__toTime", "toDateTime(%d)" % end),
                        ("$__interval_s", str(interval)), ("$service", service)):
        text = text.replace(word, value)
    check("$" not in text, text)
    return [line.split("\t") for line in s.ask(text).splitlines()]


@on_each_server
def grafana_panels(server):
    """A flame graph is the tree of all stacks, in the panel's order, and a series has the sums of windows."""
    with server() as s, Folder() as here:
        good("fleet", "init", s.url())
        traces = traces_of(here, 3, "-x")
        for i, trace in enumerate(traces):
            push(s.url(), "--service", "api" if i else "other", "--host", "host%d" % i, trace)
        begin, end = (int(word) for word in s.ask(
            "SELECT intDiv(min(end_ns), 1000000000) - 1, intDiv(max(end_ns), 1000000000) + 1 FROM fleet.windows").split())
        tree = {}
        stacks = s.ask("SELECT stack, frames FROM fleet.stacks GROUP BY stack, frames").splitlines()
        frames = dict(line.split("\t") for line in s.ask(
            "SELECT frame, any(if(function = '', module, function)) FROM fleet.frames GROUP BY frame").splitlines())
        live = {}
        for line in s.ask("SELECT stack, live_bytes FROM fleet.samples WHERE service = 'api' AND live_bytes > 0").splitlines():
            stack, value = line.split("\t")
            live[stack] = live.get(stack, 0) + float(value)
        for line in stacks:
            stack, of = line.split("\t")
            names = [frames[frame] for frame in of.strip("[]").split(",")][::-1]
            for depth in range(len(names) + 1):
                one = tree.setdefault(tuple(names[:depth]), [0, 0])
                one[0] += live.get(stack, 0)
                one[1] += live.get(stack, 0) if depth == len(names) else 0
        expected = [[len(path), value, own, path[-1] if path else "all"] for path, (value, own) in
                    sorted(tree.items(), key=lambda item: [name.encode() for name in item[0]]) if value > 0]
        got = [[int(level), float(value), float(own), label] for level, value, own, label in
               grafana(s, "flame_graph.sql", "api", begin, end, 60)]
        same(got, expected)
        check(any(row[3] == "keep_b" for row in got), got)
        whole = sum(report(trace, "--metric", "leaked")["total"]["bytes"]["estimate"] for trace in traces[1:])
        same(got[0], [0, whole, 0, "all"])
        same(grafana(s, "flame_graph.sql", "api", 1000, 2000, 60), [])
        points = grafana(s, "live_over_time.sql", "api", begin, end, 7200)
        same((sum(float(point[2]) for point in points), {point[1] for point in points}),
             (whole, {s.ask("SELECT any(substring(version, 1, 12)) FROM fleet.windows")}), points)


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
        check(re.search(r"^ *\+[\d.]+ MiB .* list_items$", done.out.decode(), re.M), done.out.decode())
        check(re.search(r"^Live by function at 4 moments", done.out.decode(), re.M), done.out.decode())
        page = os.path.join(BUILD, "src", "page", "viewer.html")
        if os.path.exists(page) and os.path.getsize(page):
            with open(os.path.join(here / "fleet", "api.html")) as file:
                trace = re.search(r'id="trace"[^>]*>([^<]*)<', file.read()).group(1)
            with open(here / "in_page.mayfly", "wb") as file:
                file.write(base64.b64decode(trace, validate=True))
            rows = report(here / "in_page.mayfly", "--series", "10")["rows"]
            live = next(row["live_bytes"] for row in rows if row["function"] == "list_items")
            # A busy machine pushes few windows in the time that the example takes.
            check(max(live) > 2 * min(live), "the leak over time", live)


@contextlib.contextmanager
def somebody_elses(says):
    """A server that is no database, and answers a statement as says() does; its address."""
    class Other(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            text = says(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass
    with http.server.HTTPServer(("127.0.0.1", 0), Other) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        try:
            yield "clickhouse://127.0.0.1:%d/fleet" % other.server_port
        finally:
            other.shutdown()
            thread.join()


@case
def an_answer_that_is_no_answer():
    """One line, whatever it says."""
    for text in (b"", b"1", b"1\n", b"\xff" * 1000, b"1 2 3 4 5", b"1\t1\t1\t1\t1\n", b"\0" * 100000):
        with somebody_elses(lambda statement: text) as address:
            done = run([MAYFLY, "report", address])
            check(done.code in (0, 1) and done.err.count(b"\n") <= 1, text[:20], done)


@case
def versions_that_were_never_tried():
    """init names them, and no others."""
    for version, tried in ((b"18.16.1\n", True), (b"26.7.2.1\n", True), (b"26.70.1\n", False), (b"24.3.5.46\n", False),
                           (b"\x1b[2J\n", True), (b"", True)):
        answers = {b"max(version)": b"2\t\n", b"version()": version}
        with somebody_elses(lambda statement: next((text for words, text in answers.items() if words in statement), b"")) as address:
            said = good("fleet", "init", address)
            same("ClickHouse %s was never tried" % version.decode().strip() in said, not tried, said)
            check("\x1b" not in said, said)
            same(good("fleet", "init", "-q", address), "")


@case
def days_that_are_no_days():
    """A rollup ends, whatever the server says of its days."""
    answers = {b"max(version)": b"2\t\n", b"toUInt16(day)": b"no days\n", b"count()": b"0\n"}
    with somebody_elses(lambda statement: next((text for words, text in answers.items() if words in statement), b"")) as address:
        run([MAYFLY, "fleet", "rollup", "--older", "1d", address])


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
