#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`mayfly record --stream` and `mayfly receive`: the received trace is the recorded one, whatever
connections, receivers, recorders, disks, keys and strangers do."""
import contextlib
import hmac
import json
import os
import random
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading

from harness import (Folder, MAYFLY, TIMEOUT, as_json, case, cases, check, environment, info, let_it_look, main,
                     need, read, run, same, sane, wait_until)

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Blocks of random sizes and lives, so that the trace is not small. */
static void churn(long count)
{
	static void *live[4096];
	static unsigned long seed = 1;

	for (long i = 0; i < count; i++) {
		seed = seed * 6364136223846793005ul + 1442695040888963407ul;
		void **p = &live[seed >> 33 & 4095];
		free(*p);
		*p = malloc(1 + (seed >> 50));
	}
}

static void wait_for(const char *file)
{
	while (access(file, F_OK))
		usleep(2000);
}

/* "N": churns so often; "+FILE": makes the file; "?FILE": waits for it; "!": becomes what follows. */
int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (*argv[i] == '+')
			fclose(fopen(argv[i] + 1, "w"));
		else if (*argv[i] == '?')
			wait_for(argv[i] + 1);
		else if (*argv[i] == '!')
			execv(argv[i + 1], argv + i + 1);
		else
			churn(atol(argv[i]));
	}
	return 7;
}
"""

# How long a side waits for one that does not come back: enough to find it slow, and still there.
SHORT = "4s"

_built = []


def program():
    if not _built:
        need("gcc")
        folder = Folder()
        folder.__enter__()
        _built.append(folder)
        with open(folder / "churn.c", "w") as file:
            file.write(SOURCE)
        result = run(["gcc", "-O1", "-g", "-fno-builtin", "-o", folder / "churn", folder / "churn.c"])
        check(result.code == 0, result)
    return _built[0] / "churn"


def until(what, condition):
    wait_until(condition, what)


def touch(path):
    with open(path, "w"):
        pass


def size(path):
    return os.path.getsize(path) if os.path.exists(path) else 0


def readable(path):
    """The part of a trace that is read, once it has some events."""
    def try_it():
        result = run([MAYFLY, "info", "--json", path]) if size(path) > 10000 else None
        return result and result.code == 0 and json.loads(result.out)["samples"] > 1000
    until("a part that can be read", try_it)


class Process:
    """A mayfly that runs beside the test; what it says on stderr is in .said()."""

    def __init__(self, *arguments, preexec_fn=None):
        self.file = tempfile.TemporaryFile()
        self.process = subprocess.Popen([MAYFLY, *arguments], env=environment(), stderr=self.file,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        preexec_fn=preexec_fn)

    def said(self):
        return os.pread(self.file.fileno(), 1 << 20, 0).decode()

    def says(self, text):
        until("%r in %r" % (text, self.said()),
              lambda: text in self.said() or self.process.poll() is not None)
        check(text in self.said(), "not said:", text, "but", self.said())

    def send(self, number):
        self.process.send_signal(number)

    def end(self, code=0):
        try:
            got = self.process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("still running: " + self.said()) from None
        same(got, code, "exit status; it said " + self.said())
        return self.said()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.file.close()


def receiver(address, trace, *options, **how):
    process = Process("receive", "-o", trace, *options, address, **how)
    process.says("waiting for")
    return process


def recorder(address, *arguments, options=(), code=7):
    """Records the program with these arguments; returns what mayfly said."""
    result = run([MAYFLY, "record", *options, "--stream", address, "--", program(), *arguments])
    same(result.code, code, "exit status (%r)" % result)
    same(result.out, b"", "output")
    return result.err.decode()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def make_key(path, text=b"0123456789abcdef0123456789abcdef"):
    with open(path, "wb") as file:
        file.write(text)
    os.chmod(path, 0o600)
    return path


def is_same(here):
    check(read(here / "got") == read(here / "local"), "the received trace is another one:",
          size(here / "got"), "bytes and", size(here / "local"))
    same([os.path.basename(p) for p in here.files("*.part*") + here.files("*.spool")], [],
         "files left behind")


# ---- the same trace ----

@cases(["unix", "tcp", "key", "ip6", "name"])
def received_is_local(how):
    with Folder() as here:
        address = {"unix": "unix:" + here / "socket", "ip6": "[::1]:%d",
                   "name": "localhost:%d"}.get(how, ":%d")
        if "%" in address:
            address %= free_port()
        keys = ["--key", make_key(here / "key")] if how == "key" else []
        with receiver(address, here / "got", *keys) as r:
            if how == "unix":
                same(os.stat(here / "socket").st_mode & 0o777, 0o600, "mode of the socket")
            recorder(address, "300000", options=["-x", "-o", here / "local", *keys])
            check("received " in r.end(), r.said())
        is_same(here)
        check(not os.path.exists(here / "socket"), "the socket stays")


@cases([["-x"], ["-i", "4K"], ["--snapshots", "10ms"]])
def nothing_local(options):
    """Without -o the spool is where it should be, and nothing stays."""
    with Folder() as here:
        os.mkdir(here / "spools")
        address = here / "socket"
        with receiver(address, here / "got") as r, \
                Process("record", *options, "--stream", address, "--spool-dir", here / "spools", "--",
                        program(), "200000", "+" + here / "ready", "?" + here / "go", "1000") as p:
            until("the program", lambda: os.path.exists(here / "ready"))
            check(here.files("spools/*.spool"), "no spool in the folder")
            touch(here / "go")
            p.end(7)
            r.end()
        same(here.files("spools/*"), [], "left behind")
        facts = info(here / "got")
        same(facts["dropped_samples"], 0, "dropped")
        if options == ["-x"]:
            check(sane(here / "got")["samples"] >= 201000, facts)


@case
def after_exec():
    """The receiver forgets what came of the images before."""
    with Folder() as here:
        address = here / "socket"
        with receiver(address, here / "got") as r:
            with Process("record", "-x", "-o", here / "local", "--stream", address, "--", program(),
                         "600000", "?" + here / "go", "!", program(), "1000") as p:
                readable(here / "got.part")
                touch(here / "go")
                p.end(7)
            r.end()
        is_same(here)
        check(info(here / "got")["samples"] < 10000, "samples of the image before")


# ---- what breaks ----

class Proxy:
    """Passes connections on, and cuts each after a random number of bytes; or changes one there."""

    def __init__(self, to, flip=False, cuts=8, most=60000):
        self.to, self.flip, self.left, self.most = to, flip, cuts, most
        self.random = random.Random(5)
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(8)
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            with near, socket.socket(socket.AF_UNIX) as far:
                with contextlib.suppress(OSError):
                    far.connect(self.to)
                    self.forward(near, far)

    def forward(self, near, far):
        bytes_left = None
        if self.left:
            self.left -= 1
            bytes_left = self.random.choice([1, 60, 100, 170, 250, self.random.randrange(self.most)])
        while True:
            for end in select.select([near, far], [], [])[0]:
                data = end.recv(65536)
                if not data:
                    return
                if bytes_left is not None and len(data) >= bytes_left:
                    if not self.flip:
                        return
                    data = bytearray(data)
                    data[max(bytes_left - 1, 0)] ^= 1 << self.random.randrange(8)
                    bytes_left = None
                elif bytes_left is not None:
                    bytes_left -= len(data)
                (far if end is near else near).sendall(data)

    def close(self):
        self.listener.close()


@cases(["cut", "cut, buffered", "changed"])
def broken_connections(how):
    """With a key every change of a byte is seen, and the connection begins anew."""
    with Folder() as here:
        key = ["--key", make_key(here / "key")]
        proxy = Proxy(here / "socket", flip=how == "changed")
        output = ["--spool-dir", here.path] if "buffered" in how else ["-o", here / "local"]
        with receiver(here / "socket", here / "got", *key) as r:
            recorder(proxy.address, "300000", options=["-x", *output, *key])
            r.end()
        proxy.close()
        same(proxy.left, 0, "connections not cut")
        if "buffered" not in how:
            is_same(here)
        else:
            same(here.files("*.spool"), [], "spools")
            check(sane(here / "got")["samples"] >= 300000, "too few samples")


@cases(["-o", "buffered"])
def receiver_killed(how):
    """Another receiver goes on with the part that it left."""
    with Folder() as here:
        address = here / "socket"
        output = ["-o", here / "local"] if how == "-o" else ["--spool-dir", here.path]
        with receiver(address, here / "got") as r, \
                Process("record", "-x", *output, "--stream", address, "--", program(), "600000",
                        "?" + here / "go", "300000") as p:
            readable(here / "got.part")
            r.send(signal.SIGKILL)
            r.end(-signal.SIGKILL)
            check(info(here / "got.part")["samples"] > 1000, "the part cannot be read")
            touch(here / "go")
            with receiver(address, here / "got") as again:
                p.end(7)
                check("going on with" in again.end(), again.said())
        if how == "-o":
            is_same(here)
        check(sane(here / "got")["samples"] >= 900000, "too few samples")


@case
def receiver_interrupted():
    """Ctrl-C: what has come is a trace that is cut off."""
    with Folder() as here:
        address = here / "socket"
        with receiver(address, here / "none") as r:
            r.send(signal.SIGINT)
            check("no trace has arrived" in r.end(1), r.said())
        same(here.files("none*"), [], "left behind")
        with receiver(address, here / "got") as r, \
                Process("record", "-x", "-o", here / "local", "--stream", address,
                        "--stream-timeout", SHORT, "--", program(), "600000", "?" + here / "go") as p:
            readable(here / "got.part")
            r.send(signal.SIGINT)
            check("cut off" in r.end(1), r.said())
            check(info(here / "got.part")["samples"] > 1000, "the part cannot be read")
            touch(here / "go")
            check("all of it is in" in p.end(7), p.said())
        check(sane(here / "local")["samples"] >= 600000, "the local trace is not whole")


@case
def recorder_killed():
    with Folder() as here:
        address = here / "socket"
        with receiver(address, here / "got", "--timeout", SHORT) as r, \
                Process("record", "-x", "--stream", address, "--spool-dir", here.path, "--",
                        program(), "600000", "?" + here / "go") as p:
            readable(here / "got.part")
            p.send(signal.SIGKILL)
            p.end(-signal.SIGKILL)
            touch(here / "go")
            said = r.end(1)
            check("has not come back" in said and "got.part" in said, said)
        check(info(here / "got.part")["samples"] > 1000, "the part cannot be read")


@case
def receiver_late():
    """It may come when the program has nearly ended."""
    with Folder() as here:
        address = ":%d" % free_port()
        with Process("record", "-x", "-o", here / "local", "--stream", address, "--", program(),
                     "300000", "+" + here / "ready", "?" + here / "go") as p:
            until("the program", lambda: os.path.exists(here / "ready"))
            with receiver(address, here / "got") as r:
                touch(here / "go")
                p.end(7)
                r.end()
        is_same(here)


@cases(["small", "fits", "read before", "-o"])
def receiver_never(how):
    """The program has its exit status, and the recording stays where it can."""
    with Folder() as here:
        output = {"-o": ["-o", here / "local"], "small": []}.get(how, ["--spool-dir", here.path])
        said = recorder(here / "socket", "300" if how == "small" else "300000",
                        options=["-x", "--stream-timeout", "100ms", "--stream-buffer",
                                 "8M" if how == "fits" else "64K", *output])
        check("no receiver is listening" in said, said)
        if how == "-o":
            check("all of it is in" in said and sane(here / "local"), said)
        elif how == "small":
            trace = re.search(r"all of it is in '([^']*)'", said).group(1)
            try:
                check(trace.startswith("/dev/shm/"), trace)
                check(sane(trace)["samples"] >= 300, "too few samples")
            finally:
                os.unlink(trace)
        elif how == "fits":
            check("all of it is in" in said, said)
            trace, = here.files("mayfly.*")
            check(sane(trace)["samples"] >= 300000, "too few samples")
        else:
            check("the recording stays in" in said, said)
            spool, = here.files("*.spool")
            check(as_json("info", spool, "--json")["samples"] > 1000, "the spool cannot be read")


@case
def receiver_gone():
    """What it had and what is kept here are the trace."""
    with Folder() as here:
        address = here / "socket"
        os.mkdir(here / "spools")
        with receiver(address, here / "got") as r, \
                Process("record", "-x", "--stream", address, "--spool-dir", here / "spools",
                        "--stream-timeout", SHORT, "--", program(), "600000", "?" + here / "go",
                        "300000") as p:
            readable(here / "got.part")
            r.send(signal.SIGKILL)
            r.end(-signal.SIGKILL)
            touch(here / "go")
            said = p.end(7)
        first = int(re.search(r"follows its first (\d+) bytes", said).group(1))
        rest, = here.files("spools/*")
        check(rest.endswith(".rest") and rest in said, said)
        with open(here / "joined", "wb") as file:
            file.write(read(here / "got.part")[:first] + read(rest))
        check(sane(here / "joined")["samples"] >= 900000, "too few samples")


@case
def slow_receiver():
    """What there is no place for is dropped by the agent and counted; the program never waits."""
    with Folder() as here:
        address = here / "socket"
        with receiver(address, here / "got") as r, \
                Process("record", "-x", "--max-spool", "1M", "--stream-buffer", "64K", "--stream",
                        address, "--spool-dir", here.path, "--", program(), "?" + here / "go",
                        "3000000", "+" + here / "done", "?" + here / "end") as p:
            r.send(signal.SIGSTOP)
            touch(here / "go")
            until("the program", lambda: os.path.exists(here / "done"))
            check(max(map(size, here.files("*.spool"))) < 3 << 20, "the spool is too large")
            touch(here / "end")
            r.send(signal.SIGCONT)
            said = p.end(7)
            r.end()
        check(" dropped" in said, said)
        facts = sane(here / "got", allow_drops=True)
        check(facts["dropped_samples"] > 1000, facts)
        check(facts["samples"] > 1000, facts)


@case
def receivers_disk_full():
    with Folder() as here:
        address = here / "socket"

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100000, resource.RLIM_INFINITY))

        with receiver(address, here / "got", preexec_fn=limit) as r, \
                Process("record", "-x", "-o", here / "local", "--stream", address, "--", program(),
                        "300000") as p:
            r.says("cannot write")
            resource.prlimit(r.process.pid, resource.RLIMIT_FSIZE,
                             (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            r.says("can be written again")
            p.end(7)
            r.end()
        is_same(here)


# ---- strangers ----

def message(kind, payload, length=None):
    return struct.pack("<II", len(payload) if length is None else length, kind) + payload


def hello(first=0, generation=0, identity=b"i" * 16, features=0, version=1):
    return message(1, b"MAYFLYST" + struct.pack("<II", version, features) + identity +
                   struct.pack("<IIQ", generation, 0, first) + b"n" * 32)


START = message(4, b"")
STRANGE = [
    b"", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\xff" * 200, b"\0" * 200,
    message(1, b"", length=0xffffffff), message(1, b"x" * 80), hello()[:50], hello(version=9),
    hello(features=1), hello(first=1 << 40) + START, START, message(6, b"x" * 100),
    hello() + message(6, b"x" * 100), hello() + hello(), message(200, b""),
    hello() + message(3, struct.pack("<Q", 4)),
]
# These begin a recording.
HOSTILE = [
    START + message(6, struct.pack("<Q", 1) + b"data"),
    START + message(6, struct.pack("<Q", 0)),
    START + message(6, b"", length=1 << 20),
    START + message(8, struct.pack("<QQ", 99, 1)), START + message(8, struct.pack("<QQ", 0, 2)),
    START + message(7, b"") * 1000 + message(2, b"x" * 40), START + START,
    START + message(10, b"") + message(6, b"x" * 20), START + message(9, b"12345678"),
]


def speak(path, data):
    """Says that and reads until the other side closes, or for a moment."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        s.settimeout(5)
        with contextlib.suppress(OSError):
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            while s.recv(65536):
                pass


@case
def strangers():
    """Garbage, half messages and idlers neither end nor hinder a receiver."""
    with Folder() as here, contextlib.ExitStack() as stack:
        address = here / "socket"
        r = stack.enter_context(receiver(address, here / "got"))
        for data in STRANGE:
            speak(address, data)
        for _ in range(40):
            idle = stack.enter_context(socket.socket(socket.AF_UNIX))
            idle.connect(address)
        recorder(address, "3000", options=["-x", "-o", here / "local"])
        r.end()
        is_same(here)


def set_few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12))


@case
def no_descriptor_is_left():
    """Then the receiver waits, and does not use a whole CPU to ask again and again."""
    with Folder() as here, contextlib.ExitStack() as stack:
        address = here / "socket"
        r = stack.enter_context(receiver(address, here / "got", preexec_fn=set_few_files))
        for _ in range(14):
            idle = stack.enter_context(socket.socket(socket.AF_UNIX))
            idle.connect(address)
        until("12 files", lambda: len(os.listdir("/proc/%d/fd" % r.process.pid)) == 12)
        let_it_look(r.process.pid)


@case
def hostile_sender():
    """One that has begun a recording, and then says what it must not."""
    with Folder() as here:
        for data in HOSTILE:
            with receiver(here / "socket", here / "got", "--timeout", "100ms") as r:
                speak(here / "socket", hello() + data)
                check("no trace has arrived" in r.end(1), r.said())
        same(here.files("got*"), [], "files")


class Sender:
    """A sender after doc/FORMAT.md, section 5, in another language."""

    def __init__(self, path, key, identity=b"i" * 16, generation=0):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(TIMEOUT)
        self.socket.connect(path)
        self.numbers = [0, 0]
        greeting = hello(features=1, identity=identity, generation=generation)
        self.socket.sendall(greeting)
        head, payload, tag = self.read_message()
        same(head[4], 2, "type of the answer")
        same(payload[:8], struct.pack("<II", 1, 1), "version and features")
        session = hmac.digest(key, b"mayfly stream 1" + greeting[8:] + payload, "sha256")
        self.keys = [hmac.digest(session, who, "sha256") for who in (b"sender", b"receiver")]
        self.check_tag(head, payload, tag)

    def tag(self, side, data):
        self.numbers[side] += 1
        return hmac.digest(self.keys[side], struct.pack("<Q", self.numbers[side] - 1) + data, "sha256")

    def check_tag(self, head, payload, tag):
        same(tag, self.tag(1, head + payload), "tag")

    def read_bytes(self, count):
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            check(more, "the receiver closed the connection")
            data += more
        return data

    def read_message(self):
        head = self.read_bytes(8)
        payload = self.read_bytes(struct.unpack("<I", head[:4])[0])
        return head, payload, self.read_bytes(32)

    def hear(self, kind):
        """The number in the next message of that kind."""
        while True:
            head, payload, tag = self.read_message()
            self.check_tag(head, payload, tag)
            if head[4] == kind:
                return struct.unpack("<Q", payload)[0]

    def say(self, kind, payload=b"", spoil=0):
        data = message(kind, payload)
        tag = bytearray(self.tag(0, data))
        tag[31] ^= spoil
        self.socket.sendall(data + tag)

    def closed(self):
        """The other side has enough of this."""
        with contextlib.suppress(ConnectionResetError):
            while self.socket.recv(4096):
                pass
        self.socket.close()


@case
def as_documented():
    """Another program that knows no more than FORMAT.md can send a trace."""
    with Folder() as here:
        key = b"k" * 20
        result = run([MAYFLY, "record", "-x", "-o", here / "local", "--", program(), "3000"])
        same(result.code, 7, repr(result))
        trace = read(here / "local")
        with receiver(here / "socket", here / "got", "--key", make_key(here / "key", key + b"\n")) as r:
            sender = Sender(here / "socket", key)
            sender.say(4)
            same(sender.hear(5), 0, "where to begin")
            sender.say(6, struct.pack("<Q", 0) + trace[:1000])
            same(sender.hear(5), 1000, "stored")
            sender.say(6, struct.pack("<Q", 1000) + trace[1000:1500], spoil=1)
            sender.closed()
            # Nothing of the spoilt one was taken; a message that was good before is not, again.
            sender = Sender(here / "socket", key)
            sender.say(4)
            same(sender.hear(5), 1000, "where to go on")
            sender.numbers[0] -= 1
            sender.say(6, struct.pack("<Q", 1000) + trace[1000:])
            sender.closed()
            # What is of a later generation replaces what came.
            sender = Sender(here / "socket", key, generation=3)
            sender.say(4)
            same(sender.hear(5), 0, "where the new generation begins")
            for at in range(0, len(trace), 5000):
                sender.say(6, struct.pack("<Q", at) + trace[at:at + 5000])
            sender.say(7)
            sender.say(8, struct.pack("<QQ", len(trace), 1))
            same(sender.hear(9), len(trace), "all")
            sender.say(10)
            sender.closed()
            r.end()
        is_same(here)


@case
def another_recording():
    """It is refused, and takes nothing of the first one."""
    with Folder() as here:
        address = here / "socket"
        with receiver(address, here / "got") as r, \
                Process("record", "-x", "-o", here / "local", "--stream", address, "--", program(),
                        "600000", "?" + here / "go") as p:
            readable(here / "got.part")
            said = recorder(address, "100", options=["-x", "-o", here / "other", "--stream-timeout", SHORT])
            check("busy with another recording" in said, said)
            touch(here / "go")
            p.end(7)
            check("another recording" in r.end(), r.said())
        is_same(here)


# ---- keys and addresses ----

@cases(["other", "none", "receiver none"])
def wrong_key(how):
    with Folder() as here:
        address = ":%d" % free_port()
        own = ["--key", make_key(here / "key")]
        other = ["--key", make_key(here / "other", b"fedcba9876543210")]
        mine, theirs = {"other": (own, other), "none": ([], own), "receiver none": (own, [])}[how]
        with receiver(address, here / "got", *theirs) as r:
            said = recorder(address, "1000", options=["-x", "-o", here / "local", "--stream-timeout",
                                                      SHORT, *mine])
            check({"other": "has another key", "none": "needs a key",
                   "receiver none": "has no key"}[how] in said, said)
            r.says("refused 127.0.0.1")
            r.send(signal.SIGTERM)
            r.end(1)
        same(here.files("got*"), [], "files")


@case
def key_files():
    with Folder() as here:
        key = make_key(here / "key")

        def refused(word):
            for arguments in (["receive", "-o", here / "got", here / "socket"],
                              ["record", "--stream", here / "socket", "--", program()]):
                result = run([MAYFLY, arguments[0], "--key", key, *arguments[1:]])
                check(result.code in (1, 125) and result.err.count(b"\n") == 1, result)
                check(word in result.err.decode(), result)

        os.chmod(key, 0o644)
        refused("is not secret")
        make_key(key, b"too short")
        refused("too short")
        make_key(key, b"k" * 5000)
        refused("too long")
        os.unlink(key)
        refused("No such file")
        os.mkdir(key)
        refused("not a regular file")


@case
def other_machines_need_a_key():
    with Folder() as here:
        ran = here / "ran"
        for arguments, code in ((["receive", "0.0.0.0:%d" % free_port()], 2),
                                (["receive", "[::]:%d" % free_port()], 2),
                                (["record", "--stream", "192.0.2.1:9", "--", program(), "+" + ran], 125)):
            result = run([MAYFLY, *arguments])
            same(result.code, code, repr(result))
            check(b"both ends need the same key" in result.err and result.err.count(b"\n") == 1, result)
        check(not os.path.exists(ran), "the program ran")
        with receiver("0.0.0.0:%d" % free_port(), here / "got", "--key", make_key(here / "key")) as r:
            r.send(signal.SIGINT)
            r.end(1)


@cases(["", "somewhere", ":", ":0", ":70000", "::1:80", "unix:", "/" + "x" * 200, "host:80x", "host:-1"])
def bad_addresses(address):
    for command, code in ((["receive", address], 2), (["record", "--stream", address, "--", "true"], 125)):
        result = run([MAYFLY, *command])
        same(result.code, code, repr(result))
        same(result.err.count(b"\n"), 1, repr(result))


@case
def bad_options():
    with Folder() as here:
        socket_path = here / "socket"
        for options in (["--follow"], ["--max-size", "1M"], ["--stream-buffer", "1"],
                        ["--stream-timeout", "0"], ["--stream-timeout", "soon"],
                        ["-o", here / "x", "--spool-dir", here.path], ["--spool-dir", here / "none"]):
            result = run([MAYFLY, "record", "--stream", socket_path, *options, "--", "true"])
            same(result.code, 125, repr(result))
            same(result.err.count(b"\n"), 1, repr(result))
        for options in (["--key", "x"], ["--stream-buffer", "1M"], ["--stream-timeout", "1s"]):
            result = run([MAYFLY, "record", *options, "--", "true"])
            check(result.code == 125 and b"needs --stream" in result.err, result)
        for arguments in ([], [":1", ":2"], ["--timeout", "x", ":1"], ["-o", "", ":1"], ["-o", "-", ":1"],
                          ["--what", ":1"]):
            result = run([MAYFLY, "receive", *arguments])
            check(result.code == 2 and result.err.count(b"\n") == 1, result)


@case
def places_that_are_taken():
    """A port, a socket, a file that is no socket, a trace's name, a part that another one writes."""
    with Folder() as here:
        port = ":%d" % free_port()
        with receiver(port, here / "a"), receiver(here / "socket", here / "b"):
            for address in (port, here / "socket"):
                result = run([MAYFLY, "receive", "-o", here / "c", address])
                check(result.code == 1 and b"in use" in result.err, result)
            result = run([MAYFLY, "receive", "-o", here / "a", here / "socket2"])
            check(result.code == 1 and b"another 'mayfly receive'" in result.err, result)
        with open(here / "text", "w") as file:
            file.write("not a trace")
        result = run([MAYFLY, "receive", here / "text"])
        check(result.code == 1 and b"a file of that name" in result.err, result)
        result = run([MAYFLY, "receive", "-o", here / "text", here / "socket3"])
        check(result.code == 1 and b"is not a trace" in result.err, result)
        same(read(here / "text"), b"not a trace")
        # A receiver that was killed leaves its socket, which the next one takes.
        with receiver(here / "socket4", here / "d") as r:
            r.send(signal.SIGKILL)
            r.end(-signal.SIGKILL)
        check(os.path.exists(here / "socket4"), "no socket was left")
        with receiver(here / "socket4", here / "d"):
            pass


def write_corpus(folder):
    """Seeds for fuzz_stream."""
    number = 0
    answer = message(2, struct.pack("<II", 1, 0) + b"n" * 32)
    acks = [message(5, struct.pack("<Q", n)) for n in (10, 110, 210)]
    seeds = [b"\0" + data for data in STRANGE] + [b"\0" + hello() + data for data in HOSTILE]
    seeds += [b"\1" + hello(features=1), b"\2" + answer + b"".join(acks), b"\3", b"\3" + b"\0" * 60,
              b"\2" + message(3, struct.pack("<Q", 5)), b"\3" + b"\0" * 30 + b"\1\7\1" * 10]
    for seed in seeds:
        with open(os.path.join(folder, "%02d" % number), "wb") as file:
            file.write(seed)
        number += 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--corpus"]:
        write_corpus(sys.argv[2])
        sys.exit(0)
    try:
        main()
    finally:
        for built in _built:
            shutil.rmtree(built.path, ignore_errors=True)
