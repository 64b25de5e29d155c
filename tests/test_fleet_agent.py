#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""mayfly agent: real processes in a watched folder, a real ClickHouse server, a real socket in systemd's place."""
import contextlib
import math
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import time

from fleet_server import COUNTED, figures, good, server, windows
from harness import (AGENT, MAYFLY, SOURCE, Folder, Skip, case, cases, check, environment, main, need, program, report, run, same,
                     wait_until)
from told import Told, told_program

MB = 1 << 20
ENABLED = 196  # doc/FORMAT.md: control_enabled of a spool's header


def is_on(spool):
    if not os.path.exists(spool):
        return False
    with open(spool, "rb") as file:
        file.seek(ENABLED)
        return struct.unpack("<I", file.read(4))[0] == 1


class Systemd:
    """What the agent says to the socket in NOTIFY_SOCKET."""
    def __init__(self, name):
        self.name = name
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + name[1:] if name.startswith("@") else name)
        self.socket.setblocking(False)
        self.lines = []

    def read(self):
        with contextlib.suppress(BlockingIOError):
            while True:
                self.lines += self.socket.recv(4096).decode().split("\n")

    def wait(self, pattern, process):
        """The next line that matches, of this process; those before it are gone."""
        found = []

        def said():
            ended = process.poll() is not None
            self.read()
            while self.lines and not found:
                line = self.lines.pop(0)
                if re.fullmatch(pattern, line):
                    found.append(line)
            check(found or not ended, "the agent has ended without", pattern)
            return found

        wait_until(said, pattern)
        return found[0]


class Agent:
    def __init__(self, here, text, *options, **changes):
        self.here = here
        self.config = here / "agent.conf"
        self.number = 0
        self.process = None
        self.options = options
        self.changes = changes
        self.write(text)

    def write(self, text):
        self.text = text
        with open(self.config, "w") as file:
            file.write(text)

    def start(self):
        """Returns once its rules are in force."""
        self.number += 1
        name = self.here / ("notify%d" % self.number)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        self.systemd = Systemd(name)
        self.errors = open(self.here / "errors", "ab")
        self.process = subprocess.Popen([MAYFLY, "agent", "--config", self.config, *self.options],
                                        env=environment(NOTIFY_SOCKET=name, **self.changes), stdout=subprocess.DEVNULL,
                                        stderr=self.errors)
        self.wait("READY=1")

    def wait(self, pattern):
        return self.systemd.wait(pattern, self.process)

    def reload(self, text):
        self.write(text)
        self.process.send_signal(signal.SIGHUP)
        self.wait("RELOADING=1")
        self.wait("READY=1")

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        code = self.process.wait()
        self.errors.close()
        self.systemd.socket.close()
        self.process = None
        return code

    def said(self):
        with open(self.here / "errors") as file:
            return file.read()


@contextlib.contextmanager
def agent(here, text, *options, **changes):
    one = Agent(here, text, *options, **changes)
    try:
        one.start()
        yield one
    finally:
        if one.process:
            one.end(signal.SIGKILL)


def config(s, here, *lines, every="1s"):
    return "\n".join(["database = " + s.url(), "every = " + every, "folder = " + here / "spools", *lines, ""])


def rule(share, length="1h", *lines):
    return "\n".join(["[rule]", "share = " + share, "for = " + length, *lines])


@contextlib.contextmanager
def processes(here, count, *settings, of=program("told"), service="api", **changes):
    """Dormant ones, each with its spool; sampled exactly, unless the settings say otherwise."""
    os.makedirs(here / "spools", exist_ok=True)
    variable = ",".join(["output=" + here / "spools/%p.spool", "start=dormant", *(settings or ["exact=1"])])
    started = [subprocess.Popen([of], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(
        LD_PRELOAD=AGENT, MAYFLY=variable, MAYFLY_SERVICE=service, **changes)) for _ in range(count)]
    told = []
    try:
        for one in started:
            one.told = Told(one)
            one.spool = here / ("spools/%d.spool" % one.pid)
            told.append(one)
        yield told
    finally:
        for one in started:
            with contextlib.suppress(BrokenPipeError):
                one.stdin.close()
            one.wait()
            one.stdout.close()


def sums(s, which="1"):
    """The allocated bytes of all windows, which are those of their samples, and the live ones of the last windows."""
    before = s.ask("SELECT count() FROM fleet.windows")
    of_windows = figures(s.ask(
        "SELECT sum(a), sum(l) FROM (SELECT sum(a) AS a, argMax(l, e) AS l FROM (SELECT process, argMin(allocated_bytes, push) AS a, "
        "argMin(live_bytes, push) AS l, argMin(end_ns, push) AS e FROM fleet.windows WHERE %s GROUP BY process, window) "
        "GROUP BY process)" % which))
    samples = figures(s.ask("SELECT sum(allocated_bytes) FROM fleet.samples WHERE push IN (SELECT min(push) FROM fleet.windows "
                            "WHERE %s GROUP BY window)" % which))
    if s.ask("SELECT count() FROM fleet.windows") != before:
        return sums(s, which)
    check(abs(samples[0] - of_windows[0]) <= 1e-9 * max(samples[0], 1), samples, of_windows)
    return of_windows


def ends(one):
    one.stdin.close()
    one.wait()


@contextlib.contextmanager
def fleet():
    with server() as s, Folder() as here:
        good("fleet", "init", "-q", s.url())
        os.makedirs(here / "spools")
        yield s, here


@case
def a_share_of_processes():
    """About the share of 200 is switched on; the same ones after a restart, others with another salt; off at the end."""
    with fleet() as (s, here), processes(here, 200) as told:
        def on():
            return {one.pid for one in told if is_on(one.spool)}
        sets = []
        for salt in ("one", "one", "two"):
            with agent(here, config(s, here, "salt = " + salt, rule("20 %"), every="1h")) as a:
                sets.append(on())
                same(a.wait("STATUS=.*"), "STATUS=200 processes, of which %d are recorded now; latest push: none so far" %
                     len(sets[-1]))
                same(a.end(), 0)
            same(on(), set(), "off at the end")
        # 40 of 200; beyond these by chance in one of 10 million.
        check(all(12 <= len(one) <= 71 for one in sets), [len(one) for one in sets])
        same(sets[0], sets[1])
        check(sets[0] != sets[2], "another salt chooses the same")
        same(int(s.ask("SELECT uniq(process) FROM fleet.windows")), len(sets[0] | sets[2]), "only those that were on are pushed")
        same(s.ask("SELECT min(share), max(share) FROM fleet.windows"), "0.2\t0.2")


@case
def each_has_its_turn():
    """With a share of a third, each of 30 is on in one of three periods, and off in the others."""
    with fleet() as (s, here), processes(here, 30) as told:
        with agent(here, config(s, here, rule("33.4 %", "2s"), every="1h")):
            seen = [set() for _ in told]
            def all_were():
                for states, one in zip(seen, told):
                    states.add(is_on(one.spool))
                return all(len(states) == 2 for states in seen)
            wait_until(all_were, "each one's turn, and its end")


@case
def sums_are_unbiased():
    """Over 20 salts, each process counts with 1 / share where it was on, to the byte, and the sum is the truth's but for chance."""
    share, count, rounds = 0.25, 24, 20
    with fleet() as (s, here), processes(here, count) as told:
        def text(salt):
            return config(s, here, "salt = %d" % salt, rule("25 %"), every="1h")
        truth, expected, noise, live = 0, 0, 0, 0
        with agent(here, text(0)) as a:
            for salt in range(rounds):
                a.reload(text(salt))
                for i, one in enumerate(told):
                    size = 1 + (i * 7 + salt) % 5
                    one.told.tell("a", size)
                    truth += size
                    noise += size ** 2
                    if is_on(one.spool):
                        expected += size / share
            same(a.end(), 0)
        allocated, live = (value / MB for value in sums(s))
        same((round(allocated, 6), round(live, 6)), (expected, expected), "what was on counts with 1 / share")
        error = math.sqrt(noise * (1 - share) / share)
        check(abs(allocated - truth) < 5 * error, allocated, truth, error)
        same(s.ask("SELECT min(share), max(share) FROM fleet.windows"), "0.25\t0.25")


@case
def variances_are_scaled():
    """A share of samples: their number stays, sums are divided by the share, variances by its square."""
    with fleet() as (s, here), processes(here, 1, "interval=4K", "seed=1") as (one,):
        lines = {share: config(s, here, rule(share, "1h", "interval = 4K"), every="1h") for share in ("100%", "50%")}
        trace = here / "t"
        with agent(here, lines["100%"]) as a:
            one.told.tell("a", 2)
            one.told.tell("-", 20000)
            good("ctl", one.spool, "snapshot", "-o", trace)
            a.end()
        rows = report(trace, "--metric", "allocated", "--by", "stack", "--top", "0", "--all", "--frames=all")["rows"]
        got = [figures(line) for line in s.ask(
            "SELECT allocated_bytes, sqrt(allocated_bytes_variance), allocated_samples FROM fleet.samples "
            "WHERE allocated_samples > 0 ORDER BY allocated_bytes").splitlines()]
        expected = sorted([row["self"]["bytes"]["estimate"], row["self"]["bytes"]["stderr"], row["self"]["samples"]] for row in rows)
        check(any(row[1] > 0 for row in got), got)
        same(len(got), len(expected))
        check(all(abs(x - y) < 0.51 for a, b in zip(got, expected) for x, y in zip(a, b)), got, expected)
    with fleet() as (s, here), processes(here, 1, "interval=4K", "seed=1") as (one,):
        half = config(s, here, "salt = %d", rule("0.5", "1h", "interval = 4K"), every="1h")
        with agent(here, half % 0) as a:
            for salt in range(1, 200):
                if is_on(one.spool):
                    break
                a.reload(half % salt)
            one.told.tell("a", 2)
            one.told.tell("-", 20000)
            a.end()
        halved = [figures(line) for line in s.ask(
            "SELECT allocated_bytes / 2, sqrt(allocated_bytes_variance) / 2, allocated_samples FROM fleet.samples "
            "WHERE allocated_samples > 0 ORDER BY allocated_bytes").splitlines()]
        # The seed of both is the same, so they have the same samples.
        check(all(math.isclose(x, y, rel_tol=1e-9) for a, b in zip(got, halved) for x, y in zip(a, b)), got, halved)


@case
def another_share():
    """SIGHUP with another share: each window has its own, and what is live goes on to count with that of its time."""
    with fleet() as (s, here), processes(here, 1) as (one,):
        with agent(here, config(s, here, rule("100 %"))) as a:
            one.told.tell("a", 10)
            a.reload(config(s, here, rule("50 %")))
            for salt in range(1, 200):
                wait_until(lambda: windows(s, "share = 1") > 0, "the last window of that share")
                if is_on(one.spool) and s.ask("SELECT sum(allocated_bytes) FROM fleet.windows") == str(10 * MB):
                    break
                a.reload(config(s, here, "salt = %d" % salt, rule("50 %")))
            before = windows(s)
            wait_until(lambda: windows(s) > before and is_on(one.spool), "a window of the other share")
            one.told.tell("b", 6)
            a.end()
            same(sums(s), [22 * MB, 22 * MB])
            a.write(config(s, here, rule("100 %")))
            a.start()
            one.told.tell("f", 8)  # all of b, two of a
            one.told.tell("c", 1)
            ends(one)
            wait_until(lambda: sums(s) == [23 * MB, 9 * MB], "the last window")
        same(s.ask("SELECT arraySort(groupUniqArray(share)) FROM fleet.windows WHERE allocated_bytes > 0"),
             "[0.5,1]")


@case
def windows_begin_when_recording_does():
    """Not at the start of a process that was dormant for a while. One that is never on has none."""
    with fleet() as (s, here), processes(here, 2) as (one, other):
        one.told.tell("a", 3)
        with agent(here, config(s, here, every="1h")) as a:
            wait_until(lambda: "2 processes, of which 0" in a.wait("STATUS=.*"), "both")
            before = time.time_ns()
            a.reload(config(s, here, "[rule]\nshare = 100%\nprogram = *told\nservice = a*"))
            check(is_on(one.spool), "on")
            one.told.tell("b", 2)
            wait_until(lambda: sums(s)[0] == 2 * MB, "a window")
            check(int(s.ask("SELECT min(begin_ns) FROM fleet.windows")) >= before, "a window of the time before")
            a.reload(config(s, here, "[rule]\nshare = 100%\nservice = other"))
            check(not is_on(one.spool), "no rule is for it any more")
            one.told.tell("c", 4)
            a.end()
        same(sums(s), [2 * MB, 2 * MB])


@case
def dormant_again():
    """What is live goes on to be told after a process's turn, until there is nothing; what it allocates is not."""
    with fleet() as (s, here), processes(here, 1) as (one,):
        def text(salt):
            return config(s, here, "salt = %d" % salt, rule("50 %", "1h"))
        with agent(here, text(0)) as a:
            salt = 0
            def until(on):
                nonlocal salt
                while is_on(one.spool) != on:
                    salt += 1
                    a.reload(text(salt))
            until(True)
            one.told.tell("a", 6)
            until(False)
            one.told.tell("b", 5)
            one.told.tell("f", 7)  # those five, and two
            until(True)
            one.told.tell("c", 1)
            until(False)
            ends(one)
            wait_until(lambda: sums(s) == [2 * 7 * MB, 2 * 5 * MB], "the last window")


@case
def last_windows():
    """A process that ends sends its last window at once, and its spool goes; all processes send theirs
    when the agent is told to end."""
    with fleet() as (s, here), processes(here, 2) as (one, other):
        with agent(here, config(s, here, "remove = yes", rule("100 %"), every="1h")) as a:
            one.told.tell("a", 3)
            other.told.tell("b", 4)
            ends(one)
            wait_until(lambda: not os.path.exists(one.spool), "the spool's end")
            same(sums(s), [3 * MB, 3 * MB])
            same(windows(s), 1)
            same(a.end(), 0)
            same(sums(s), [7 * MB, 7 * MB])
            check(os.path.exists(other.spool) and not is_on(other.spool), "of one that goes on")
        same(s.ask("SELECT DISTINCT service, length(version) > 10 FROM fleet.windows"), "api\t1")


@case
def the_server_is_away():
    """At the start, then for a while: one line each, one more when it is back, and nothing is lost or counted twice."""
    with fleet() as (s, here), processes(here, 2) as (one, other):
        s.stop()
        with agent(here, config(s, here, rule("100 %"))) as a:
            one.told.tell("a", 3)
            wait_until(lambda: "will be longer" in a.said(), "a line")
            s.start()
            wait_until(lambda: sums(s)[0] == 3 * MB, "a window")
            s.stop()
            other.told.tell("b", 4)
            ends(one)
            wait_until(lambda: a.said().count("will be longer") == 2, "another line")
            a.wait("STATUS=.*the database is away")
            s.start()
            wait_until(lambda: sums(s) == [7 * MB, 7 * MB], "both")
            same(a.end(), 0)
        time_of_day = r"at \d\d:\d\d:\d\d"
        same(len(re.findall(time_of_day + "; the next window will be longer\n", a.said())), 2, a.said())
        same(len(re.findall("takes windows again, " + time_of_day + ", after .*\n", a.said())), 2, a.said())
        same(a.said().count("\n"), 4, a.said())
        same(sums(s), [7 * MB, 7 * MB])


@case
def the_server_is_away_at_the_end():
    """The agent ends all the same, and says so; the next one tells the rest."""
    with fleet() as (s, here), processes(here, 1) as (one,):
        with agent(here, config(s, here, rule("100 %"), every="1h")) as a:
            one.told.tell("a", 3)
            s.stop()
            same(a.end(), 1)
            check(not is_on(one.spool), "off")
            s.start()
            a.start()
            same(a.end(), 0)
        same(sums(s), [3 * MB, 3 * MB])
        same(s.ask("SELECT DISTINCT share FROM fleet.windows"), "1")


@case
def a_process_that_becomes_another():
    """After an exec it has another spool, and another turn."""
    with fleet() as (s, here), processes(here, 1) as (one,):
        with agent(here, config(s, here, rule("100 %"))) as a:
            one.told.tell("a", 2)
            one.stdin.write(b"e 0\n")
            one.stdin.flush()
            one.told = Told(one)
            second = here / ("spools/%d.%d.0.spool" % (one.pid, one.pid))
            wait_until(lambda: is_on(second), "its turn")
            one.told.tell("b", 3)
            wait_until(lambda: sums(s)[0] == 5 * MB, "both")
            ends(one)
            a.end()
        same(sums(s), [5 * MB, 5 * MB])
        same(s.ask("SELECT uniq(process), uniq(pid) FROM fleet.windows"), "2\t1")


@case
def too_large():
    """A line says so, once; those that are small go on."""
    with fleet() as (s, here), processes(here, 2, "interval=64", "seed=1") as (one, other):
        with agent(here, config(s, here, "largest = 200K", rule("100 %", "1h", "interval = 64"))) as a:
            one.told.tell("-", 100000)
            other.told.tell("a", 1)
            wait_until(lambda: "%s: is larger than" % one.spool in a.said(), "a line")
            before = windows(s)
            wait_until(lambda: windows(s) > before + 1, "windows of the other")
            a.end()
            same(a.said().count("\n"), 1, a.said())
        same(s.ask("SELECT DISTINCT pid FROM fleet.windows"), str(other.pid))


@case
def killed_and_started_again():
    """Nothing is counted twice, also of a process that has died meanwhile, whose service only the database knows."""
    with fleet() as (s, here), processes(here, 3, service="shop") as told:
        with agent(here, config(s, here, rule("100 %"))) as a:
            for one in told:
                one.told.tell("a", 3)
            wait_until(lambda: sums(s)[0] == 9 * MB, "windows")
            for one in told:
                one.told.tell("b", 2)
            a.end(signal.SIGKILL)
            check(all(is_on(one.spool) for one in told), "it was killed")
            told[0].told.tell("f", 1)
            ends(told[0])
            told[1].kill()
            a.start()
            wait_until(lambda: sums(s) == [15 * MB, 14 * MB], "the rest")
            a.end()
        same(sums(s), [15 * MB, 14 * MB])
        same(s.ask("SELECT uniq(process), uniq(service) FROM fleet.windows"), "3\t1")


@case
def signals_and_notifications():
    """READY, STATUS, WATCHDOG, RELOADING, STOPPING; a wrong new configuration is refused, and the old one goes on."""
    with fleet() as (s, here), processes(here, 1) as (one,):
        with agent(here, config(s, here, rule("100 %")), WATCHDOG_USEC="2000000") as a:
            a.wait("STATUS=1 processes, of which 1 are recorded now; latest push: .*")
            a.wait("WATCHDOG=1")
            a.wait("WATCHDOG=1")
            a.reload("database = " + s.url() + "\nfoldre = /x\n")
            check(a.said().startswith("mayfly: %s:2: there is no key 'foldre'\n" % a.config), a.said())
            check("goes on" in a.said(), a.said())
            one.told.tell("a", 3)
            wait_until(lambda: sums(s)[0] == 3 * MB, "a window")
            a.process.send_signal(signal.SIGTERM)
            a.wait("STOPPING=1")
            same(a.process.wait(), 0)


@case
def an_abstract_socket():
    with Folder() as here:
        one = Systemd("@mayfly-test-%d" % os.getpid())
        os.makedirs(here / "spools")
        with open(here / "c", "w") as file:
            file.write("database = clickhouse://127.0.0.1:1/x\nfolder = %s\n" % (here / "spools"))
        process = subprocess.Popen([MAYFLY, "agent", "--config", here / "c"], env=environment(NOTIFY_SOCKET=one.name),
                                   stderr=subprocess.DEVNULL)
        one.wait("READY=1", process)
        process.terminate()
        one.wait("STOPPING=1", process)
        process.wait()
        one.socket.close()


GENERAL = "database = clickhouse://h/d\nfolder = /x\n"


@cases(["", "database = clickhouse://h/d", "folder = /x", "database = http://h/d\nfolder = /x", "database = clickhouse://a:b@h/d",
        GENERAL + "every = 1ms", GENERAL + "every = soon", GENERAL + "every =", GENERAL + "= 1s",
        GENERAL + "folder = x", GENERAL + "folder = /x", GENERAL + "database = clickhouse://h/d", GENERAL + "remove = maybe",
        GENERAL + "largest = big", GENERAL + "colour = red", GENERAL + "what is this", GENERAL + "[rules]", GENERAL + "[rule]",
        GENERAL + "[rule]\nshare = 0", GENERAL + "[rule]\nshare = 101 %", GENERAL + "[rule]\nshare = nan", GENERAL + "[rule]\nshare = 0x1p-3",
        GENERAL + "[rule]\nshare = -1%", GENERAL + "[rule]\nshare = 1 %%", GENERAL + "[rule]\nshare = 1%\nshare = 2%",
        GENERAL + "[rule]\nshare = 1%\nfor = 0s", GENERAL + "[rule]\nshare = 1%\ninterval = 1", GENERAL + "[rule]\nshare = 1%\nlabel. = x",
        GENERAL + "[rule]\nshare = 1%\nhost = x", GENERAL + "x" * 5000, GENERAL + "salt = a\0b\n",
        GENERAL + "[labels]\n" + "\n".join("l%d = x" % i for i in range(33)),
        GENERAL + "[rule]\nshare = 1%\n" + "\n".join("label.l%d = x" % i for i in range(17))])
def configurations_that_are_wrong(text):
    with Folder() as here:
        with open(here / "c", "w") as file:
            file.write(text)
        for check_only in ([], ["--check"]):
            done = run([MAYFLY, "agent", "--config", here / "c", *check_only])
            same((done.code, done.err.count(b"\n"), done.out), (2, 1, b""), done)
            check(re.match(r"mayfly: \S+/c:\d+: .", done.err.decode()), done.err)
            check(b"a:b" not in done.err, done.err)


@case
def what_a_configuration_means():
    with Folder() as here:
        path = os.path.join(SOURCE, "packaging", "agent.conf")
        out = good("agent", "--check", "--config", path)
        for words in ("database\tclickhouse", "every\t\t60.0 s", "folder\t\t/run/mayfly", "1 % of service=api*", "for 10 min"):
            check(words in out, words, out)
        done = run([MAYFLY, "agent", "--config", here / "none"])
        same((done.code, done.err.count(b"\n")), (2, 1), done)
        same(run([MAYFLY, "agent"]).code, 2)


@case
def rules_match():
    """The first rule that matches counts: by service, program, cgroup, and labels of the environment and the configuration."""
    cgroup = open("/proc/self/cgroup").read().strip().split("\n")
    path = next((line for line in cgroup if line.startswith("0::")), cgroup[0]).split(":", 2)[2]
    everything = ["service = a?i", "program = */told", "label.pod = web-*", "label.ring = canary", "cgroup = %s*" % path[:4]]
    with fleet() as (s, here), processes(here, 1, POD_NAME="web-1", POD_NAMESPACE="prod") as (one,):
        def text(*lines):
            return config(s, here, "[labels]\nring = canary\npod = mine" if "label.pod = mine" in lines else "[labels]\nring = canary",
                          "[rule]\nshare = 100 %", *lines)
        with agent(here, text("service = other")) as a:
            check(not is_on(one.spool), "another service")
            for lines, on in ((everything, True), (everything[:2] + ["label.ring = rest"], False), (everything[3:4], True),
                              (["label.node = *"], False), (["cgroup = nothing"], False), (["label.namespace = prod"], True),
                              (["label.pod = web-1"], True), (["label.pod = mine"], True), (["program = told"], False)):
                a.reload(text(*lines))
                same(is_on(one.spool), on, lines)
            a.reload(config(s, here, "[rule]\nservice = api\nshare = 0.0000001 %\n[rule]\nshare = 100 %"))
            check(not is_on(one.spool), "the first rule")
            a.reload(text("service = api"))
            one.told.tell("a", 1)
            a.end()
        same(s.ask("SELECT DISTINCT labels.key, labels.value FROM fleet.windows"),
             "['ring','pod','namespace']\t['canary','web-1','prod']")


@case
def those_that_are_started_on():
    """No rule is for them: they are recorded for certain."""
    with fleet() as (s, here), processes(here, 1, "start=on", "exact=1") as (one,):
        one.told.tell("a", 2)
        with agent(here, config(s, here, rule("0.00001 %"))) as a:
            check(is_on(one.spool), "on")
            one.told.tell("b", 1)
            ends(one)
            whole = [report(one.spool, "--metric", metric)["total"]["bytes"]["estimate"] for metric in ("allocated", "leaked")]
            check(whole[0] >= 3 * MB, whole)
            wait_until(lambda: sums(s) == whole, "all of it")
            a.end()
        same(s.ask("SELECT DISTINCT share FROM fleet.windows"), "1")


@case
def what_lies_in_the_folder():
    """Garbage, links, pipes, folders, cut spools, spools of mayfly record: none of them is touched or followed, or stops the rest."""
    with fleet() as (s, here), processes(here, 1) as (one,):
        folder = here / "spools"
        with open(here / "victim", "wb") as file:
            file.write(b"MAYFLYSP" + bytes(200000))
        secret = open(here / "victim", "rb").read()
        shutil.copy(one.spool, here / "elsewhere")
        os.symlink(here / "victim", folder + "/link.spool")
        os.symlink(here / "elsewhere", folder + "/to-a-spool.spool")
        os.link(here / "elsewhere", folder + "/two-names.spool")
        os.mkfifo(folder + "/pipe.spool")
        os.mkdir(folder + "/folder.spool")
        for name, content in (("empty", b""), ("garbage", os.urandom(100000)), ("short", open(one.spool, "rb").read(3000))):
            with open(folder + "/%s.spool" % name, "wb") as file:
                file.write(content)
        with open(folder + "/packets.spool", "wb") as file:
            file.write(open(one.spool, "rb").read(65536).replace(b"\0" * 64, b"\xff" * 64))
        recorder = subprocess.Popen([MAYFLY, "record", "-q", "-x", "-o", folder + "/t", "--", program("told")],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment())
        recorded = Told(recorder)
        recorded.tell("a", 1)
        with agent(here, config(s, here, "remove = yes", rule("100 %"))) as a:
            one.told.tell("a", 3)
            wait_until(lambda: sums(s)[0] == 3 * MB, "a window")
            wait_until(lambda: a.said().count("is no spool") == 8, a.said())
            os.truncate(one.spool, 70000)
            one.kill()
            one.wait()
            before = set(os.listdir(folder))
            wait_until(lambda: not os.path.exists(one.spool), "its end")
            same(a.end(), 0)
        same(before - set(os.listdir(folder)), {os.path.basename(one.spool)}, "only what was pushed is removed")
        same(open(here / "victim", "rb").read(), secret)
        check(not is_on(here / "elsewhere"), "a link was followed")
        same(sums(s), [3 * MB, 3 * MB])
        recorder.stdin.close()
        same(recorder.wait(), 0)
        recorder.stdout.close()


TWICE = b"""
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>

/* Each entry twice, as a folder that changes may have one. */
struct dirent64 *readdir64(DIR *dir)
{
	static struct dirent64 *(*next)(DIR *), *latest;
	static int odd;

	if (!next)
		next = (struct dirent64 *(*)(DIR *))dlsym(RTLD_NEXT, "readdir64");
	odd = !odd;
	if (odd || !latest)
		latest = next(dir);
	return latest;
}
"""


@case
def a_folder_that_has_spools_twice():
    need("gcc")
    with fleet() as (s, here), processes(here, 2) as two:
        made = run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", here / "twice.so"], stdin=TWICE)
        same(made.code, 0, made)
        with agent(here, config(s, here, rule("100 %")), LD_PRELOAD=here / "twice.so") as a:
            line = a.wait("STATUS=.*recorded now.*")
            check("=2 processes, of which 2 are" in line, line)
            for one in two:
                one.told.tell("a", 3)
            wait_until(lambda: sums(s)[0] == 6 * MB, "a window of each")
            for one in two:
                one.told.tell("b", 2)
            wait_until(lambda: sums(s)[0] == 10 * MB, "another one")
            same(a.end(), 0)


@case
def another_user():
    """Its spools are read with its rights."""
    if os.getuid():
        raise Skip("not root")
    nobody = 65534
    with fleet() as (s, here):
        os.chmod(here.path, 0o711)
        os.chmod(here / "spools", 0o1777)
        name = told_program(here)
        with open(here / "run", "w") as file:
            file.write("#!/bin/sh\nexec setpriv --reuid=%d --regid=%d --clear-groups env LD_PRELOAD=$AGENT %s\n" % (nobody, nobody, name))
        os.chmod(here / "run", 0o755)
        need("setpriv")
        with contextlib.ExitStack() as stack:
            for part in os.path.dirname(AGENT), AGENT:
                while part != "/":
                    if not os.stat(part).st_mode & 0o001:
                        raise Skip("others cannot reach " + AGENT)
                    part = os.path.dirname(part)
            (one,) = stack.enter_context(processes(here, 1, of=here / "run", AGENT=AGENT))
            spools = [here / ("spools/" + name) for name in os.listdir(here / "spools")]
            mine = [spool for spool in spools if os.stat(spool).st_uid == nobody]
            check(mine, spools)
            with agent(here, config(s, here, "remove = yes", rule("100 %"))) as a:
                check(any(is_on(spool) for spool in mine), "on")
                one.told.tell("a", 3)
                ends(one)
                wait_until(lambda: sums(s) == [3 * MB, 3 * MB], "its window")
                same(s.ask("SELECT count() FROM fleet.frames WHERE function = 'keep_a'"), "1")
                wait_until(lambda: not any(os.path.exists(spool) for spool in mine), "its end")
                a.end()


@case
def a_process_of_somebody_else():
    """A spool whose header names it tells nothing of it: its owner has written what the header says."""
    if os.getuid():
        raise Skip("not root")
    nobody = 65534
    with fleet() as (s, here):
        os.chmod(here.path, 0o711)
        os.makedirs(here / "private")
        os.chmod(here / "spools", 0o1777)
        with open(here / "run", "w") as file:
            file.write("#!/bin/sh\nLD_PRELOAD= exec unshare -m sh -c 'mount --bind %s %s && LD_PRELOAD=%s exec %s'\n" % (
                here / "private", here / "spools", AGENT, program("told")))
        os.chmod(here / "run", 0o755)
        if run(["unshare", "-m", "true"]).code:
            raise Skip("no mount namespaces")
        # Its own spool lies where only it sees it, by a name that is another user's elsewhere.
        with processes(here, 1, "exact=1,start=on", of=here / "run", service="secret") as (one,):
            one.told.tell("a", 1)
            (name,) = [each for each in os.listdir(here / "private") if each.endswith("%d.spool" % one.pid)]
            shutil.copy(here / ("private/" + name), here / "new")
            os.chown(here / "new", nobody, nobody)
            os.rename(here / "new", here / ("spools/" + name))
            with agent(here, config(s, here)) as a:
                wait_until(lambda: name in a.said() or s.ask("SELECT count() FROM fleet.windows") != "0", "a line about it")
                check("another user" in a.said(), a.said())
                a.end()
            same(s.ask("SELECT count() FROM fleet.windows"), "0")


@case
def a_thousand_spools():
    """One process, with memory that does not grow with their number. Those that were never on are not pushed."""
    with fleet() as (s, here), processes(here, 1) as (one,):
        dormant = open(one.spool, "rb").read(65536)
        with agent(here, config(s, here, rule("100 %"))) as a:
            one.told.tell("a", 1)
            one.told.tell("b", 1)
            wait_until(lambda: sums(s)[0] == 2 * MB, "a window")
            def most():
                return int(re.search(r"VmHWM:\s+(\d+)", open("/proc/%d/status" % a.process.pid).read()).group(1)) << 10
            before = most()
            recorded = open(one.spool, "rb").read().rstrip(b"\0") + b"\0" * 65536
            for i in range(1000):
                with open(here / "new", "wb") as file:
                    file.write(dormant if i % 20 else recorded)
                    file.seek(32)  # start_real_ns
                    file.write(struct.pack("<Q", time.time_ns() - 10 ** 12 + i * 1000))
                os.rename(here / "new", here / ("spools/x%d.spool" % i))
            wait_until(lambda: int(s.ask("SELECT uniq(process) FROM fleet.windows")) == 51, "all of them")
            a.reload(a.text)  # it has looked at all
            check(most() - before < 20 * MB, before, most())
            same(subprocess.run(["pgrep", "-P", str(a.process.pid)], stdout=subprocess.PIPE, check=False).stdout, b"", "children")
            a.end()


CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static long step(void)
{
	FILE *f = fopen(getenv("STEP"), "r");
	long s = 0;
	if (f) { if (fscanf(f, "%ld", &s) != 1) s = 0; fclose(f); }
	return s;
}
int clock_gettime(clockid_t clock, struct timespec *t)
{
	static int (*real)(clockid_t, struct timespec *);
	int result;
	if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	result = real(clock, t);
	if (clock == CLOCK_REALTIME) t->tv_sec += step();
	return result;
}
time_t time(time_t *to)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	if (to) *to = t.tv_sec;
	return t.tv_sec;
}
"""


@case
def the_clock_is_set():
    """By a day forwards and backwards: windows go on to follow each other, with the times of before."""
    need("cc")
    with fleet() as (s, here), processes(here, 1) as (one,):
        with open(here / "clock.c", "w") as file:
            file.write(CLOCK)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", here / "clock.so", here / "clock.c", "-ldl"], check=True)
        with agent(here, config(s, here, rule("100 %")), LD_PRELOAD=here / "clock.so", STEP=here / "step") as a:
            total = 0
            for step in (0, 86400, -86400):
                with open(here / "step", "w") as file:
                    file.write(str(step))
                total += 2
                one.told.tell("a", 2)
                wait_until(lambda total=total: sums(s)[0] == total * MB, "a window")
            a.end()
        same(s.ask("SELECT max(abs(intDiv(toInt64(pushed) * 1000000000 - end_ns, toInt64(86400000000000)))) FROM fleet.windows"), "1", "steps")
        rows = [line.split("\t") for line in s.ask("SELECT begin_ns, end_ns FROM fleet.windows ORDER BY begin_ns").splitlines()]
        same([row[0] for row in rows[1:]], [row[1] for row in rows[:-1]])
        check(all(0 < int(end) - int(begin) < 3600 * 10 ** 9 for begin, end in rows), rows)


@case
def nothing_can_be_written():
    """It goes on when standard output and the disk are full."""
    with fleet() as (s, here), processes(here, 1) as (one,):
        with open(here / "c", "w") as file:
            file.write(config(s, here, rule("100 %")))
        with open("/dev/full", "w") as full:
            process = subprocess.Popen([MAYFLY, "agent", "-v", "--config", here / "c"], stdout=full, stderr=full,
                                       env=environment(HOME="/nothing", XDG_CACHE_HOME="/dev/full"))
        wait_until(lambda: is_on(one.spool), "its turn")
        for i in range(2):
            one.told.tell("a", 2)
            wait_until(lambda i=i: sums(s)[0] == (i + 1) * 2 * MB, "a window")
        process.terminate()
        same(process.wait(), 0)


@case
def unit_is_right():
    """systemd finds nothing wrong with it."""
    need("systemd-analyze")
    with Folder() as here:
        with open(os.path.join(SOURCE, "packaging", "mayfly-agent.service.in")) as file:
            text = file.read().replace("@bindir@", os.path.dirname(MAYFLY))
        with open(here / "mayfly-agent.service", "w") as file:
            file.write(text)
        done = run(["systemd-analyze", "verify", "--man=no", here / "mayfly-agent.service"])
        check("mayfly-agent" not in done.err.decode() and done.code == 0, done)


# A copy of this machine's files, in which systemd runs as process 1. $1: the test's folder; $2, $3: the folders of the programs.
# Control groups of its own are under one that is removed at the end.
MACHINE = r"""
set -e
here=$1 root=$1/mount/root
mount --make-rprivate /
mkdir $here/groups && mount -t cgroup2 cgroup2 $here/groups
group=$here/groups$(sed -n s/^0:://p /proc/self/cgroup)/mayfly-test.$$
mkdir $group
trap 'find $group -depth -type d -exec rmdir {} +' EXIT
cat >$here/inner <<'END'
set -e
mkdir $here/mount && mount -t tmpfs tmpfs $here/mount && mkdir $here/mount/upper $here/mount/work $root
mount -t overlay overlay -o lowerdir=/,upperdir=$here/mount/upper,workdir=$here/mount/work $root
mount -t proc proc $root/proc
mount -t sysfs -o ro sysfs $root/sys
mount -t cgroup2 cgroup2 $root/sys/fs/cgroup
for folder in run dev tmp; do mount -t tmpfs -o mode=755 tmpfs $root/$folder; done
for device in null zero full random urandom tty; do touch $root/dev/$device; mount --bind /dev/$device $root/dev/$device; done
mkdir $root/dev/pts $root/dev/shm $root/dev/mqueue $root/dev/hugepages
mount -t devpts devpts $root/dev/pts
ln -s pts/ptmx $root/dev/ptmx
mkdir $root/tmp/out && mount --bind $here/out $root/tmp/out
: >$root/etc/machine-id
mkdir -p $root/usr/lib/mayfly-test $root/etc/mayfly
cp $2/mayfly $3/told $here/libmayfly.so $here/api $root/usr/lib/mayfly-test
cp $here/agent.conf $root/etc/mayfly
cp $here/units/* $root/etc/systemd/system
exec chroot $root env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=mayfly-test.target
END
export here root
(echo 0 >$group/cgroup.procs; exec timeout -s KILL 900 unshare --mount --pid --uts --ipc --cgroup --fork --kill-child sh $here/inner "$@") || true
"""

# What is done with the unit. Each step leaves a line.
STEPS = r"""
cd /tmp/out
touch begun
say() { echo "$*" >>steps; }
is() { systemctl show -p $1 --value mayfly-agent; }
until_said() { until is StatusText | grep -q "$1"; do sleep 0.1; done; }
systemctl start mayfly-agent
say started $(is ActiveState)
systemctl start api
until_said '^1 processes, of which 1 are recorded now'
say recorded $(ls /run/mayfly | wc -l) $(stat -c %a /run/mayfly)
sleep 3
main=$(is MainPID)
echo nonsense >>/etc/mayfly/agent.conf
systemctl reload mayfly-agent
until grep -q 'goes on' errors; do sleep 0.1; done
sed -i '$d' /etc/mayfly/agent.conf
systemctl reload mayfly-agent
say reloaded $(is ActiveState) $(($(is MainPID) == main))
kill -KILL $main
until [ $(is NRestarts) = 1 ] && [ $(is ActiveState) = active ]; do sleep 0.1; done
until_said '^1 processes, of which 1 are recorded now'
say restarted $(ls /run/mayfly | wc -l)
systemctl stop api
until [ -z "$(ls /run/mayfly)" ]; do sleep 0.1; done
systemctl stop mayfly-agent
say stopped $(is ActiveState) $(is Result) $(is ExecMainStatus)
systemctl --force --force poweroff
"""


@case
def under_systemd():
    """The unit as it is, in a machine of its own whose process 1 is a real systemd; a process of another user is recorded."""
    need("unshare", "mount", "chroot")
    if os.geteuid() or not os.path.exists("/lib/systemd/systemd"):
        raise Skip("needs root rights and systemd")
    with fleet() as (s, here):
        os.makedirs(here / "out")
        os.makedirs(here / "units")
        with open(os.path.join(SOURCE, "packaging", "mayfly-agent.service.in")) as file:
            unit = file.read().replace("@bindir@", "/usr/lib/mayfly-test")
        shutil.copy(AGENT, here / "libmayfly.so")
        texts = {
            "units/mayfly-agent.service": unit.replace("[Service]\n", "[Service]\nStandardError=append:/tmp/out/errors\n"),
            "units/mayfly-test.target": "[Unit]\nWants=steps.service\n",
            "units/steps.service": "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nExecStart=/bin/sh /tmp/out/script\n",
            "units/api.service": "[Unit]\nDefaultDependencies=no\n[Service]\nUser=daemon\n"
                                 "ExecStart=/bin/sh /usr/lib/mayfly-test/api\n",
            "api": "cd /usr/lib/mayfly-test; while echo a 1; do sleep 0.2; done | LD_PRELOAD=$PWD/libmayfly.so MAYFLY_SERVICE=api "
                   "MAYFLY=output=/run/mayfly/%p.spool,start=dormant,max_spool=64M exec ./told\n",
            "agent.conf": "database = %s\nfolder = /run/mayfly\nevery = 1s\nremove = yes\n[rule]\nservice = api\n"
                          "share = 100 %%\nfor = 1h\ninterval = 4K\n" % s.url(),
            "out/script": STEPS,
            "machine": MACHINE,
        }
        for name, text in texts.items():
            with open(here / name, "w") as file:
                file.write(text)
        done = run(["unshare", "--mount", "sh", here / "machine", here.path, os.path.dirname(MAYFLY),
                    os.path.dirname(program("told"))])
        if not os.path.exists(here / "out/begun"):
            raise Skip("no systemd can be started here: " + (done.err.decode().strip().split("\n") or ["?"])[-1])
        with open(here / "out/steps") as file:
            same(file.read().splitlines(), ["started active", "recorded 1 1777", "reloaded active 1", "restarted 1",
                                            "stopped inactive success 0"])
        check(sums(s, "service = 'api'")[0] > 2 * MB, "what it allocated", sums(s))


if __name__ == "__main__":
    main()
