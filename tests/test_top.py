#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""mayfly top: what it shows on a terminal, which keys do what, and how it leaves the terminal."""
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

from harness import (MAYFLY, TIMEOUT, Folder, Skip, as_json, case, cases, check, environment, let_it_look, main, program,
                     record, report, run, same, wait_until)
from told import Told, told_program

# ---- a terminal ----

SEQUENCE = re.compile(rb"\x1b(?:\[([0-9;?>]*)([@-~])|[()]([0-9A-Za-z])|([=>78McDEHNOZ]))")


class Screen:
    """What a terminal of type xterm or vt100 shows of the bytes that it gets."""

    def __init__(self, columns, lines):
        self.raw = b""
        self.left = b""
        self.row = self.column = 0
        self.columns = self.lines = 0
        self.cells = []
        self.last = " "
        self.resize(columns, lines)

    def resize(self, columns, lines):
        self.cells = [(row + [" "] * columns)[:columns] for row in self.cells[:lines]]
        self.cells += [[" "] * columns for _ in range(lines - len(self.cells))]
        self.columns, self.lines = columns, lines
        self.scroll = (0, lines - 1)

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.cells)

    def line(self, number):
        return "".join(self.cells[number]).rstrip()

    def take(self, data):
        self.raw += data
        data = self.left + data
        at = 0
        while at < len(data):
            if data[at] == 27:
                found = SEQUENCE.match(data, at)
                if not found:
                    check(len(data) - at < 32, "not known to this terminal:", data[at:at + 32])
                    break
                self.sequence(found)
                at = found.end()
            elif data[at] < 32:
                self.control(data[at])
                at += 1
            else:
                length = 1 if data[at] < 0x80 else 2 if data[at] < 0xe0 else 3 if data[at] < 0xf0 else 4
                if at + length > len(data):
                    break
                self.put(data[at:at + length].decode())
                at += length
        self.left = data[at:]

    def control(self, byte):
        if byte == 13:
            self.column = 0
        elif byte == 8:
            self.column = max(0, min(self.column, self.columns - 1) - 1)
        elif byte == 9:
            self.column = min(self.columns - 1, self.column // 8 * 8 + 8)
        elif byte == 10:
            self.down()

    def down(self):
        first, last = self.scroll
        if self.row == last:
            self.cells[first:last + 1] = self.cells[first + 1:last + 1] + [[" "] * self.columns]
        else:
            self.row = min(self.lines - 1, self.row + 1)

    def put(self, character):
        if self.column >= self.columns:
            self.column = 0
            self.down()
        self.cells[self.row][self.column] = self.last = character
        self.column += 1

    def sequence(self, found):
        kind = (found.group(2) or b"").decode()
        words = [int(w) if w.isdigit() else 0 for w in (found.group(1) or b"").lstrip(b"?>").split(b";")]
        number = max(1, words[0])
        if found.group(4) == b"M":
            first, last = self.scroll
            if self.row == first:
                self.cells[first:last + 1] = [[" "] * self.columns] + self.cells[first:last]
            else:
                self.row -= 1
        elif kind in ("H", "f"):
            self.row, self.column = number - 1, max(1, words[1] if len(words) > 1 else 1) - 1
        elif kind in "ABCD" and kind:
            self.row += {"A": -number, "B": number}.get(kind, 0)
            self.column = min(self.column, self.columns - 1) + {"C": number, "D": -number}.get(kind, 0)
        elif kind == "G":
            self.column = number - 1
        elif kind == "d":
            self.row = number - 1
        elif kind == "r":
            self.scroll = (number - 1, (words[1] if len(words) > 1 and words[1] else self.lines) - 1)
            self.row = self.column = 0
        else:
            self.change(kind, words[0], number)
        self.row = max(0, min(self.lines - 1, self.row))
        self.column = max(0, self.column)

    def change(self, kind, word, number):
        row, column = self.cells[self.row], min(self.column, self.columns - 1)
        first, last = self.row, self.scroll[1]
        if kind == "J":
            for line in range(0 if word == 2 else self.row + 1, self.lines):
                self.cells[line] = [" "] * self.columns
            row = self.cells[self.row]
        if kind in ("J", "K"):
            begin, end = {0: (column, self.columns), 1: (0, column + 1), 2: (0, self.columns)}[word]
            row[begin:end] = [" "] * (end - begin)
        elif kind == "X":
            end = min(self.columns, column + number)
            row[column:end] = [" "] * (end - column)
        elif kind == "P":
            row[column:] = row[column + number:] + [" "] * min(number, self.columns - column)
        elif kind == "@":
            row[column:] = ([" "] * number + row[column:])[:self.columns - column]
        elif kind == "L":
            self.cells[first:last + 1] = ([[" "] * self.columns for _ in range(number)] +
                                          self.cells[first:last + 1])[:last + 1 - first]
        elif kind == "M":
            self.cells[first:last + 1] = (self.cells[first + number:last + 1] +
                                          [[" "] * self.columns for _ in range(number)])[:last + 1 - first]
        elif kind in ("S", "T"):
            for _ in range(number):
                if kind == "S":
                    self.cells[self.scroll[0]:last + 1] = (self.cells[self.scroll[0] + 1:last + 1] +
                                                           [[" "] * self.columns])
                else:
                    self.cells[self.scroll[0]:last + 1] = ([[" "] * self.columns] +
                                                           self.cells[self.scroll[0]:last])
        elif kind == "b":
            for _ in range(number):
                self.put(self.last)
        else:
            check(kind in ("", "m", "h", "l", "t", "n", "c"), "not known to this terminal: CSI", kind)


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, command, columns=80, lines=24, **changes):
        self.screen = Screen(columns, lines)
        self.master, slave = pty.openpty()
        self.size(columns, lines)
        self.modes = termios.tcgetattr(self.master)
        names = dict(TERM="xterm", LC_ALL="C.UTF-8")
        names.update(changes)
        env = environment(**names)
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            if name not in changes:
                env.pop(name, None)

        def own_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen([str(word) for word in command], stdin=slave, stdout=slave, stderr=slave,
                                        env=env, preexec_fn=own_terminal)
        # The slave stays open, so that its modes can be read after the end.
        self.slave = slave

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def size(self, columns, lines):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns, lines):
        self.screen.resize(columns, lines)
        self.size(columns, lines)

    def read(self):
        while select.select([self.master], [], [], 0.01)[0]:
            self.screen.take(os.read(self.master, 65536))

    def until(self, condition, what):
        """Reads until the condition holds for the screen."""
        end = time.monotonic() + TIMEOUT
        while True:
            self.read()
            if condition(self.screen):
                return self
            check(time.monotonic() < end and (self.process.poll() is None or self.ended_now(condition)),
                  "waited in vain for", what, "\n" + self.screen.text())

    def ended_now(self, condition):
        self.read()
        return condition(self.screen)

    def shows(self, *texts):
        return self.until(lambda screen: all(text in screen.text() for text in texts), texts)

    def type(self, text):
        os.write(self.master, text.encode())
        return self

    def end(self):
        """The exit status, when the command ends by itself."""
        def ended():
            self.read()
            return self.process.poll() is not None
        wait_until(ended, "the end of " + str(self.process.args))
        self.read()
        return self.process.returncode

    def restored(self):
        return termios.tcgetattr(self.master) == self.modes


# ---- programs ----

@contextlib.contextmanager
def recorded(here, *options, name="keeper"):
    """A program that keeps blocks when it is told to, recorded to here / "t.mayfly"."""
    with subprocess.Popen([MAYFLY, "record", "-q", "-o", here / "t.mayfly", *options, "--",
                           told_program(here, name)],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        kept = Told(process)
        kept.pid = as_json("ctl", "--json", here / "t.mayfly", "status")["pid"]
        yield kept
        if not process.stdin.closed:
            process.stdin.close()
    same(process.returncode, 0)


def top_is_built():
    if b"libncursesw" not in run(["ldd", MAYFLY]).out:
        raise Skip("built without ncurses")


def top(*words, **how):
    top_is_built()
    return Terminal([MAYFLY, "top", *words], **how)


def refused(*words, code=1, said=b"", **changes):
    done = run([MAYFLY, "top", *(str(word) for word in words)], env=environment(**changes))
    same((done.code, done.err.count(b"\n")), (code, 1), done)
    check(said in done.err, done)


# ---- cases ----

@case
def list_of_processes():
    with Folder() as here, recorded(here, "-i", "64K", name="keeper-of-one") as kept:
        listed = [p for p in as_json("top", "--json")["processes"] if p["pid"] == kept.pid]
        same([(p["state"], p["mode"], p["interval_bytes"]) for p in listed], [("on", "sampled", 65536)])
        check(listed[0]["command"].endswith("/keeper-of-one"), listed)
        lines = run([MAYFLY, "top"]).out.decode().splitlines()
        check(any(line.split()[:2] == [str(kept.pid), "on"] and line.endswith("/keeper-of-one") for line in lines),
              lines)
        kept.tell("a", 3)
        for named in ("keeper-of-one", kept.pid, here / "t.mayfly", here / "t.mayfly.spool"):
            facts = as_json("top", "--once", "--json", str(named))
            same((facts["pid"], facts["state"]), (kept.pid, "on"), named)
        with Folder() as there, recorded(there, "-i", "64K", name="keeper-of-one"):
            refused("--once", "keeper-of-one", said=b"2 processes are called 'keeper-of-one'")


@case
def refusals():
    with Folder() as here:
        refused("--once", "no-such-process", said=b"neither a process that is being recorded nor a file")
        refused("--once", os.getpid(), said=b"not being recorded")
        refused("--once", here / "none.mayfly", said=b"neither")
        same(run([program("make_trace"), "sampled", here / "t.mayfly"]).code, 0)
        refused(here / "t.mayfly", code=2, said=b"not a terminal; use --once or --json")
        refused("--once", here / "t.mayfly", "another", code=2)
        refused("--every", "1us", "--once", here / "t.mayfly", code=2)
        with open(here / "t.mayfly", "rb") as file:
            whole = file.read()
        for name, data in (("cut", whole[:100]), ("other", b"no trace at all\n" * 100)):
            with open(here / name, "wb") as file:
                file.write(data)
            refused("--once", here / name)
            with top(here / name) as terminal:
                same(terminal.end(), 1)
                check(terminal.restored() and b"\x1b" not in terminal.screen.raw, terminal.screen.raw)
        for kind in ("dumb", "no-such-terminal"):
            with top(here / "t.mayfly", TERM=kind) as terminal:
                same(terminal.end(), 1, kind)
                check(b"use --once or --json" in terminal.screen.raw, terminal.screen.raw)
                check(b"\x1b" not in terminal.screen.raw, terminal.screen.raw)


@cases(["sampled", "exact", "strange", "none", "deep"])
def traces(kind):
    """Finished traces of all kinds are shown as they are; nothing of them reaches the terminal as a control
    character."""
    with Folder() as here:
        same(run([program("make_trace"), kind, here / "t.mayfly"]).code, 0)
        for by in ("function", "line", "stack", "module", "thread", "size", "label"):
            done = run([MAYFLY, "top", "--once", "--by", by, here / "t.mayfly"])
            same((done.code, done.err), (0, b""), by)
            check(not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", done.out), by, done.out)
        with top(here / "t.mayfly", columns=100, lines=30) as terminal:
            terminal.shows("recorded for", "q")
            for key in "\rtolp2":
                terminal.type(key).read()
            same(terminal.type("qq").end(), 0)


def row(screen, name):
    """The words of the row of a function."""
    return next((line.split() for line in screen.text().splitlines() if line.endswith("  " + name)), None)


@case
def alone_it_shows_the_largest_process():
    """One of those that are listed: others may record here, too."""
    with Folder() as here, recorded(here, "-x") as kept:
        kept.tell("a", 30)
        with top(columns=100, lines=24) as terminal:
            terminal.shows("1-4 sort", "recording")
            pid = int(re.search(r"pid (\d+), recording", terminal.screen.line(0))[1])
            terminal.type("q")
        check(pid == kept.pid or resident(pid) >= resident(kept.pid) // 2, pid, "is not the largest one")


def resident(pid):
    try:
        with open("/proc/%d/statm" % pid) as file:
            return int(file.read().split()[1])
    except OSError:
        return 1 << 40  # it has ended


@cases([(80, 24), (200, 60), (60, 15), (132, 50)])
def sizes(size):
    columns, lines = size
    with Folder() as here, recorded(here, "-x") as kept:
        kept.tell("a", 30)
        kept.tell("b", 10)
        with top(kept.pid, columns=columns, lines=lines) as terminal:
            terminal.shows("keep_a", "keep_b", "LIVE", "30.0 MiB", "10.0 MiB")
            screen = terminal.screen
            check(screen.line(0).endswith("s") and "pid %d, recording" % kept.pid in screen.line(0), screen.text())
            check("Live 40.0 MiB" in screen.line(1) and "RSS" in screen.line(1), screen.text())
            check(screen.line(lines - 1).startswith("1-4 sort"), screen.text())
            check((columns < 72) == (" FREED" not in screen.text()), screen.text())
            check((columns >= 120) == ("told.c" in screen.text()), screen.text())
            # Another size: the last line is the last one there, too.
            terminal.resize(100, 30)
            terminal.until(lambda s: s.line(29).startswith("1-4 sort") and "keep_a" in s.text(), "the new size")
            terminal.resize(30, 6)
            terminal.until(lambda s: s.line(5).startswith("1-4 sort") and "30.0 MiB" in s.text(), "a small size")
            same(terminal.type("q").end(), 0)


@case
def keys():
    with Folder() as here, recorded(here, "-x") as kept:
        kept.tell("a", 30)
        with top(kept.pid, "--every", "200ms", columns=100, lines=40) as terminal:
            terminal.shows("Live by function", "keep_a")
            terminal.type("m").shows("SINCE MARK", "Allocated since the mark")
            kept.tell("b", 20)
            kept.tell("-", 1000)
            terminal.until(lambda s: (row(s, "keep_b") or [])[:3] == ["20.0", "MiB", "20.0"] and
                           not row(s, "keep_a"), "what was allocated since the mark")
            terminal.type("1").until(lambda s: (row(s, "keep_a") or [])[:2] == ["30.0", "MiB"], "all that is live")
            terminal.type("2").shows("Allocated by function").type("3").shows("freed again by function", "churn")
            terminal.type("1").shows("▾LIVE").type("p").shows("▾AT PEAK").type("p").shows("▾LIVE")
            terminal.type("t").shows("by thread").type("t").shows("by function")
            terminal.type("o").shows("by module", "keeper").type("o").shows("by function")
            terminal.type("l").shows("Nothing has labels")
            terminal.type("\r").shows("1. 30.0 MiB", "     keep_a", "     main").type("\r")
            terminal.until(lambda s: "1. 30.0 MiB" not in s.text(), "the stacks to close")
            terminal.type("\x1bOB\r").shows("1. 20.0 MiB", "     keep_b").type("\r")
            terminal.type("/_b\r").shows("Only stacks with /_b/", "20.0 MiB, filtered")
            check(row(terminal.screen, "keep_b") and not row(terminal.screen, "keep_a"), terminal.screen.text())
            terminal.type("f[\r").shows("not a regular expression")
            terminal.type("c").until(lambda s: row(s, "keep_a") and "SINCE" not in s.text(), "all rows")
            terminal.type("h").shows("Any key closes this")
            let_it_look(terminal.process.pid, 8)  # at the program, too
            terminal.read()
            check("Any key closes this" in terminal.screen.text(), terminal.screen.text())
            terminal.type("x").shows("1-4 sort")
            terminal.type(" ").shows("Stopped here")
            kept.tell("c", 40)
            terminal.type("1").shows("Live by function: 50.0 MiB")
            terminal.type(" ").shows("Live by function: 90.0 MiB", "keep_c")
            terminal.type("s").shows("Snapshot to").type(str(here / "s.mayfly") + "\r").shows("s.mayfly has what")
            terminal.type("s").shows("Snapshot to").type(str(here / "s.mayfly") + "\r").shows("exists")
            same(terminal.type("q").end(), 0)
            check(terminal.restored(), "the terminal's modes")
        facts = as_json("report", "--json", "--metric", "live", here / "s.mayfly")
        same(facts["total"]["bytes"]["estimate"] >> 20, 90)


def size_of(words, size):
    """Whether a number and its unit say this many bytes, to three digits."""
    said = float(words[0]) * {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[words[1]]
    return abs(said - size) <= 0.006 * size


@case
def stacks_of_labels():
    """A row of a label's value opens to the stacks that allocated under it, and to no others."""
    with Folder() as here:
        trace = here / "t.mayfly"
        same(record([program("labelled")], trace, "-x").code, 0)
        with top(trace, columns=110, lines=45) as terminal:
            terminal.type("2").shows("Allocated by function")
            for key, values in (("kind", "abc"), ("part", ["parse"])):
                terminal.type("l").shows("Allocated by " + key)
                totals = {}
                for value in values:
                    found = report(trace, "--metric", "allocated", "--label", "%s=%s" % (key, value), "--by", "stack", "--top", "0",)
                    totals[value] = found["total"]["bytes"]["estimate"]
                    largest = found["rows"][0]["self"]["bytes"]["estimate"]
                    text = terminal.screen.text().splitlines()
                    head = next(i for i, line in enumerate(text) if line.endswith("  LABEL"))
                    line = next(i for i, line in enumerate(text) if line.endswith("  " + value))
                    check(size_of(text[line].split()[2:4], totals[value]), text[line], totals)
                    terminal.type("\x1bOA" * 5 + "\x1bOB" * (line - head - 1))
                    terminal.type("\r").until(lambda s: re.search(r"^ *1\. ", s.text(), re.M), "the stacks")
                    first = re.search(r"^ *1\. ([\d.]+) (\w+)", terminal.screen.text(), re.M)
                    check(size_of(first.groups(), largest), first.group(0), largest, terminal.screen.text())
                    terminal.type("\r").until(lambda s: not re.search(r"^ *1\. ", s.text(), re.M), "the stacks to close")
                same(sorted(totals, key=totals.get, reverse=True), list(values), "order of rows")
            same(terminal.type("q").end(), 0)


@cases(["kept", "snapshots"])
def end_of_the_process(kind):
    """The view stays, with the finished trace and a line that says so."""
    with Folder() as here:
        with recorded(here, "-x", *(["--snapshots=10ms"] if kind == "snapshots" else [])) as kept:
            kept.tell("a", 30)
            terminal = top(here / "t.mayfly", columns=120)
            terminal.__enter__()
            terminal.shows("recording", "keep_a")
            kept.tell("b", 5)
        with terminal:
            terminal.shows("The process has ended (exit status 0)", "t.mayfly has", "keep_b", "Live at the end")
            if kind == "snapshots":
                terminal.type("t").shows("not single blocks", "by function")
            terminal.type("s").shows("The recording is over")
            terminal.type("2").shows("Allocated by function")
            same(terminal.type("q").end(), 0)


@case
def nothing_yet():
    """A program that has not allocated anything that is sampled."""
    with Folder() as here, recorded(here, "-i", "1G") as kept:
        with top(kept.pid) as terminal:
            terminal.shows("1-4 sort")
            for key in "m1234ptol\r /c\r":
                terminal.type(key).read()
            same(terminal.type("q").end(), 0)


@cases(["q", "SIGINT", "SIGTERM", "SIGHUP", "^C"])
def terminal_is_restored(how):
    with Folder() as here, recorded(here, "-x") as kept:
        kept.tell("a", 5)
        with top(kept.pid, TERM="xterm-256color") as terminal:
            terminal.shows("keep_a", "1-4 sort")
            check(not terminal.restored() and b"\x1b[?1049h" in terminal.screen.raw, "no screen of its own")
            if how.startswith("SIG"):
                terminal.process.send_signal(getattr(signal, how))
            else:
                terminal.type("\x03" if how == "^C" else how)
            ended = {"q": 0, "^C": -signal.SIGINT}.get(how)
            same(terminal.end(), -getattr(signal, how) if ended is None else ended)
            check(terminal.restored(), "the terminal's modes")
            after = terminal.screen.raw[terminal.screen.raw.rindex(b"\x1b[?1049"):]
            check(after.startswith(b"\x1b[?1049l"), "the screen from before", terminal.screen.raw[-100:])
            check(b"\x1b[?25h" in terminal.screen.raw[-200:] or b"\x1b[?12;25h" in terminal.screen.raw[-200:] or
                  b"\x1b[?12l\x1b[?25h" in terminal.screen.raw[-200:], "the cursor", terminal.screen.raw[-200:])


@case
def stopped_and_continued():
    """Ctrl-Z gives the terminal back, fg takes it again."""
    with Folder() as here, recorded(here, "-x") as kept:
        kept.tell("a", 5)
        script = '"$0" top "$1"; echo "stopped $?"; read line; fg >/dev/null; echo "ended $?"; read line'
        top_is_built()
        with Terminal(["sh", "-mc", script, MAYFLY, kept.pid]) as terminal:
            terminal.shows("keep_a", "1-4 sort")
            terminal.type("\x1a").shows("stopped 1")
            check(terminal.restored() and b"\x1b[?1049l" in terminal.screen.raw, "the terminal's modes")
            kept.tell("b", 5)
            terminal.type("\n").shows("keep_b", "1-4 sort")
            check(not terminal.restored(), "no modes of its own")
            terminal.type("q").shows("ended 0")
            check(terminal.restored(), "the terminal's modes")


@cases(["plain", "NO_COLOR", "vt100", "C"])
def colours(kind):
    changes = {"NO_COLOR": {"NO_COLOR": "1"}, "vt100": {"TERM": "vt100"}, "C": {"LC_ALL": "C"}}.get(kind, {})
    with Folder() as here:
        same(run([program("make_trace"), "sampled", here / "t.mayfly"]).code, 0)
        with top(here / "t.mayfly", columns=120, lines=30, **changes) as terminal:
            terminal.shows("*LIVE" if kind == "C" else "▾LIVE", "1-4 sort")
            coloured = re.search(rb"\x1b\[[0-9;]*3[0-7][0-9;]*m", terminal.screen.raw)
            same(bool(coloured), kind in ("plain", "C"), terminal.screen.raw[:300])
            check(kind != "C" or max(terminal.screen.raw) < 0x80, "UTF-8 in the C locale")
            same(terminal.type("q").end(), 0)
            check(terminal.restored(), "the terminal's modes")


def key_of(line):
    return (line["function"], line["module"]) if "function" in line else line.get("module", line.get("tid"))


def compare(facts, trace, by, *options):
    """The columns are the report's."""
    same(facts["by"], by)
    for column, asked in (("live", ["live"]), ("allocated", ["allocated"]),
                          ("freed", ["allocated", "--max-lifetime", "1000h"])):
        told = as_json("report", "--json", "--by", by, "--top", "0", *options, "--metric", *asked, trace)
        rows = {key_of(line): line["self"] for line in told["rows"]}
        if column == facts["sort"]:
            same(facts["total"], told["total"], column)
        for line in facts["rows"]:
            if line[column]["samples"]:
                same(line[column], rows[key_of(line)], (column, key_of(line)))
            else:
                check(rows.get(key_of(line), {"samples": 0})["samples"] == 0, column, line)


@cases(["sampled", "exact"])
def json_of_a_trace(kind):
    with Folder() as here:
        same(run([program("make_trace"), kind, here / "t.mayfly"]).code, 0)
        for by in ("function", "module", "thread"):
            for sort in ("live", "allocated", "freed"):
                facts = as_json("top", "--once", "--json", "--top", "0", "--by", by, "--sort", sort, here / "t.mayfly")
                compare(facts, here / "t.mayfly", by)
        facts = as_json("top", "--once", "--json", here / "t.mayfly")
        same(facts["summary"], as_json("report", "--json", here / "t.mayfly")["summary"])
        same((facts["state"], facts["rss_bytes"]), ("finished", facts["rss_bytes"]))
        lines = run([MAYFLY, "top", "--json", here / "t.mayfly"]).out.splitlines()
        same(len(lines), 1)


@cases([["-i", "64K"], ["-x"]])
def json_of_a_recording(options):
    """The same as what report says of a snapshot."""
    with Folder() as here, recorded(here, *options) as kept:
        kept.tell("a", 20)
        kept.tell("b", 10)
        kept.tell("-", 100000)
        facts = as_json("top", "--once", "--json", "--top", "0", str(kept.pid))
        same(run([MAYFLY, "ctl", "-o", here / "s.mayfly", str(kept.pid), "snapshot"]).code, 0)
        compare(facts, here / "s.mayfly", "function")
        check(facts["rss_bytes"] > 30 << 20, facts["rss_bytes"])
        text = run([MAYFLY, "top", "--once", str(kept.pid)]).out.decode()
        check("keep_a" in text and "keep_b" in text and "\x1b" not in text, text)


@case
def json_again_and_again():
    """A line for each look, until the process ends."""
    with Folder() as here:
        with recorded(here, "-x") as kept:
            kept.tell("a", 5)
            with subprocess.Popen([MAYFLY, "top", "--json", "--every", "100ms", str(kept.pid)],
                                  stdout=subprocess.PIPE, env=environment()) as process:
                first = json.loads(process.stdout.readline())
                same((first["state"], first["pid"]), ("on", kept.pid))
                kept.tell("b", 25)
                while True:
                    facts = json.loads(process.stdout.readline())
                    if facts["summary"]["live_at_end"]["bytes"]["estimate"] >= 30 << 20:
                        break
                same(run([MAYFLY, "ctl", str(kept.pid), "off"]).code, 0)
                while facts["state"] != "off":
                    facts = json.loads(process.stdout.readline())
                kept.process.stdin.close()
                for line in process.stdout:
                    facts = json.loads(line)
                same(facts["state"], "ended")
            same(process.returncode, 0)


if __name__ == "__main__":
    main()
