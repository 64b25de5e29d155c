#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`mayfly record` as a parent process: exit status, signals, terminals, files and their names, exec and
child processes, and what is left when something is killed or the disk is full."""
import errno
import fcntl
import glob
import json
import os
import pty
import random
import re
import select
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import termios
import time

import harness
from harness import (AGENT, Folder, MAYFLY, Skip, as_json, case, cases, check, descendants, deviation, environment, info,
                     let_it_look, main, need, program, record, report, run, same, state_of, wait_until)

# What the tests run. `blocks N SIZE` allocates N blocks and frees every second one; "ready" is
# printed when a program waits for what the test does to it.
SOURCE = r"""
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t seen[65];
static void *volatile block;

/* Says so: two at a time could become one. */
static void on_signal(int number)
{
	seen[number]++;
	if (write(1, "signal\n", 7) != 7)
		_exit(1);
}

__attribute__((noinline)) void *the_allocator(size_t size)
{
	block = malloc(size);
	return block;
}

static void blocks(int count, size_t size)
{
	for (int i = 0; i < count; i++) {
		void *p = the_allocator(size);
		memset(p, i, size);
		if (i % 2)
			free(p);
	}
}

static void ready(void) { puts("ready"); fflush(stdout); }

/* Counts signals until SIGUSR2, then gives a moment for ones that come twice. */
static int count_signals(void)
{
	static const int numbers[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
	for (int i = 0; i < 6; i++)
		signal(numbers[i], on_signal);
	blocks(10, 1 << 20);
	ready();
	while (!seen[SIGUSR2])
		usleep(10000);
	usleep(100000);
	printf("INT %d QUIT %d TERM %d HUP %d USR1 %d USR2 %d\n", seen[SIGINT], seen[SIGQUIT],
	       seen[SIGTERM], seen[SIGHUP], seen[SIGUSR1], seen[SIGUSR2]);
	return 9;
}

/* Allocates a little at a time until the file is there, then `more` times. */
static int until(const char *file, int more)
{
	blocks(100, 100000);
	ready();
	while (access(file, F_OK)) {
		blocks(10, 100000);
		usleep(5000);
	}
	blocks(100, 100000);
	blocks(more, 16);
	return 5;
}

static void *deep(int depth, size_t size)
{
	void *p = depth ? deep(depth - 1, size) : the_allocator(size);
	__asm__ volatile("" : "+r"(p) : : "memory");
	return p;
}

/* Allocates and frees for so long and so often at least, from stacks of all depths, with 1,000 blocks
 * live, and has some rest now and then. Says how many. */
static int churn(double seconds, long least, int rest)
{
	static void *live[1000];
	struct timespec t;
	double end = 0;
	long count = 0;

	ready();
	for (;;) {
		clock_gettime(CLOCK_MONOTONIC, &t);
		double now = t.tv_sec + t.tv_nsec / 1e9;
		if (!end)
			end = now + seconds;
		if (now > end && count >= least)
			break;
		for (int i = 0; i < 1000; i++) {
			free(live[i]);
			live[i] = deep(i * 7 % 40, 16 + i % 64);
		}
		count += 1000;
		usleep(rest);
	}
	printf("%ld\n", count);
	return 0;
}

/* Blocks of random sizes with random lives; says how many bytes and blocks, and of them live ones. */
static int at_random(long count)
{
	static struct { void *block; long size; } slot[4096];
	unsigned long x = 88172645463325252ul;
	long bytes = 0, live = 0, live_blocks = 0;

	for (long i = 0; i < count; i++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		int at = x >> 20 & 4095;
		if (slot[at].block)
			live -= slot[at].size, live_blocks--;
		free(slot[at].block);
		slot[at].size = 1 + (x >> 40 & 255);
		slot[at].block = the_allocator(slot[at].size);
		bytes += slot[at].size;
		live += slot[at].size, live_blocks++;
	}
	printf("%ld %ld %ld %ld\n", bytes, count, live, live_blocks);
	return 0;
}

/* The child frees what it has inherited, and allocates `more` blocks. */
static int inherit(int blocks_before, int more)
{
	void **kept = malloc(blocks_before * sizeof(*kept));
	for (int i = 0; i < blocks_before; i++)
		kept[i] = the_allocator(100);
	for (int child = 0; child < 3; child++) {
		if (!fork()) {
			for (int i = 0; i < blocks_before; i++)
				free(kept[i]);
			blocks(more, 16);
			_exit(0);
		}
	}
	blocks(more, 16);
	while (wait(NULL) > 0)
		;
	return 0;
}

static int forks(int count)
{
	blocks(20, 1 << 20);
	for (int i = 0; i < count; i++) {
		if (!fork()) {
			blocks(30 + i, 1 << 20);
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
	return 0;
}

static int leave_child(const char *file)
{
	blocks(20, 1 << 20);
	pid_t child = fork();
	if (child)
		return child < 0;
	blocks(30, 1 << 20);
	ready();
	while (access(file, F_OK))
		usleep(10000);
	blocks(10, 1 << 20);
	_exit(0);
}

static int descriptors(const char *file)
{
	FILE *out = fopen(file, "w");
	blocks(10, 1 << 20);
	for (int fd = 0; fd < 20; fd++)
		if (fd != fileno(out) && fcntl(fd, F_GETFD) >= 0)
			fprintf(out, "%d ", fd);
	fclose(out);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	if (!strcmp(what, "blocks")) {
		blocks(atoi(argv[2]), (size_t)atol(argv[3]));
		puts("done");
		return 0;
	}
	if (!strcmp(what, "signals"))
		return count_signals();
	if (!strcmp(what, "until"))
		return until(argv[2], argc > 3 ? atoi(argv[3]) : 0);
	if (!strcmp(what, "churn"))
		return churn(atof(argv[2]), argc > 3 ? atol(argv[3]) : 0, argc > 4 ? atoi(argv[4]) : 500);
	if (!strcmp(what, "random"))
		return at_random(atol(argv[2]));
	if (!strcmp(what, "inherit"))
		return inherit(atoi(argv[2]), atoi(argv[3]));
	if (!strcmp(what, "forks"))
		return forks(atoi(argv[2]));
	if (!strcmp(what, "leave"))
		return leave_child(argv[2]);
	if (!strcmp(what, "descriptors"))
		return descriptors(argv[2]);
	if (!strcmp(what, "preload"))
		return puts(getenv("LD_PRELOAD")) < 0;
	if (!strcmp(what, "maps"))
		return execlp("cat", "cat", "/proc/self/maps", NULL);
	if (!strcmp(what, "kill")) {
		blocks(50, 1 << 20);
		raise(atoi(argv[2]));
	}
	return 2;
}
"""

_built = {}


def compiled(*flags):
    """The program, built once for these flags."""
    need("gcc")
    if flags not in _built:
        folder = tempfile.mkdtemp(prefix="mayfly-test.")
        path = os.path.join(folder, "prog")
        done = run(["gcc", "-g", "-O1", "-fno-builtin", "-w", *flags, "-x", "c", "-", "-o", path], stdin=SOURCE.encode())
        if done.code and "-static" in flags:
            raise Skip("no static C library")
        check(done.code == 0, "compiling:", done)
        os.chmod(folder, 0o755)
        _built[flags] = path
    return _built[flags]


class Started:
    """A mayfly record that runs; its program has printed "ready"."""

    def __init__(self, here, command, *options, env=None, trace="t.mayfly", preexec_fn=None):
        self.process = subprocess.Popen(
            [MAYFLY, "record", "-o", here / trace, *options, "--", *command], cwd=here.path,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True, env=env or environment(), preexec_fn=preexec_fn)
        line = self.process.stdout.readline()
        check(line == b"ready\n", "the program did not start:", line, self.process.poll())

    def children(self):
        with open("/proc/%d/task/%d/children" % (self.process.pid, self.process.pid)) as file:
            return [int(pid) for pid in file.read().split()]

    def child(self):
        """The program's pid: mayfly has no other child."""
        return self.children()[0]

    def error_line(self):
        check(select.select([self.process.stderr], [], [], harness.TIMEOUT)[0], "nothing on standard error")
        return self.process.stderr.raw.readline()

    def end(self):
        out, err = self.process.communicate(timeout=harness.TIMEOUT)
        code = self.process.returncode
        return harness.Run(out, err, 128 - code if code < 0 else code)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.communicate()


class Terminal:
    """mayfly in the foreground of a terminal of its own, as a shell with job control starts it. The
    shell is a process between: it waits for mayfly and tells what it sees through a pipe."""

    def __init__(self, command, cwd, stdout=None, columns=200):
        self.text = b""
        self.closed = False  # nobody can print any more
        report, told = os.pipe()
        self.shell, self.master = pty.fork()
        if not self.shell:
            try:
                self._be_shell(command, cwd, stdout, told)
            finally:
                os._exit(99)
        os.close(told)
        self.report = os.fdopen(report, "r")
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))

    @staticmethod
    def _be_shell(command, cwd, stdout, told):
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        job = os.fork()
        if not job:
            os.setpgid(0, 0)
            os.tcsetpgrp(0, os.getpid())
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)
            os.chdir(cwd)
            if stdout:
                os.dup2(os.open(stdout, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), 1)
            os.execve(command[0], command, environment(TERM="xterm"))
        while True:
            _, status = os.waitpid(job, os.WUNTRACED)
            if os.WIFSTOPPED(status):
                os.tcsetpgrp(0, os.getpgrp())
                os.write(told, b"stopped %d\n" % os.WSTOPSIG(status))
                while True:  # "fg" comes as a line on the terminal
                    if os.read(0, 1) == b"\n":
                        break
                os.tcsetpgrp(0, job)
                os.killpg(job, signal.SIGCONT)
                continue
            code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            os.write(told, b"ended %d\n" % code)
            os._exit(0)

    def pump(self, seconds):
        """Reads what was printed, for so long or until something comes."""
        if not self.closed and select.select([self.master], [], [], seconds)[0]:
            try:
                self.text += os.read(self.master, 65536)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                self.closed = True

    def expect(self, text, times=1):
        end = time.monotonic() + harness.TIMEOUT
        while self.text.count(text) < times:
            check(time.monotonic() < end and not self.closed, "not printed:", text, "but", self.text)
            self.pump(0.05)

    def type(self, data):
        os.write(self.master, data)

    def told(self, expected):
        """The shell's next line."""
        end = time.monotonic() + harness.TIMEOUT
        while not select.select([self.report], [], [], 0 if not self.closed else harness.TIMEOUT)[0]:
            check(time.monotonic() < end, "the shell saw nothing; expected", expected, self.text)
            self.pump(0.05)
        same(self.report.readline(), expected + "\n", "what the shell saw")
        while expected.startswith("ended") and not self.closed:
            check(time.monotonic() < end, "somebody still has the terminal; printed was", self.text)
            self.pump(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in list(descendants(self.shell)) + [self.shell]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        os.waitpid(self.shell, 0)
        os.close(self.master)
        self.report.close()


def ends_within(process, seconds):
    try:
        process.wait(seconds)
        return True
    except subprocess.TimeoutExpired:
        return False


def only_trace(here, *names):
    """No spool and no temporary file is left."""
    same([os.path.basename(f) for f in here.files()], sorted(names), "files")


# ---- exit status and errors ----

@cases([0, 1, 42, 125, 255])
def exit_status(code):
    with Folder() as here:
        done = record(["sh", "-c", "exit %d" % code], here / "t.mayfly")
        same(done.code, code)
        same((done.out, done.err), (b"", b""), "mayfly's output away from a terminal")
        only_trace(here, "t.mayfly")


@cases([signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def killed_by(number):
    with Folder() as here:
        done = record([compiled(), "kill", str(int(number))], here / "t.mayfly")
        same(done.code, 128 + number)
        facts = info(here / "t.mayfly")
        check(facts["samples"] >= 40, facts)
        only_trace(here, "t.mayfly")


@case
def not_found():
    with Folder() as here:
        done = record(["no-such-program-there"], here / "t.mayfly")
        same(done.code, 127)
        same(done.err, b"mayfly: cannot run 'no-such-program-there': not found\n")
        done = record(["./no/such"], here / "t.mayfly", cwd=here.path)
        same(done.code, 127)
        with open(here / "script", "w") as file:
            file.write("#!/no/such/interpreter\n")
        os.chmod(here / "script", 0o755)
        done = record([here / "script"], here / "t.mayfly")
        same(done.code, 127)
        check(b"/no/such/interpreter" in done.err, done)
        only_trace(here, "script")


@case
def not_executable():
    with Folder() as here:
        with open(here / "data", "w") as file:
            file.write("data\n")
        for path, why in (here / "data", b"Permission denied"), (here.path, b"it is a folder"):
            done = record([path], here / "t.mayfly")
            same(done.code, 126, path)
            same(len(done.err.splitlines()), 1, done)
            check(why in done.err, done)
        only_trace(here, "data")


@cases([[], ["--no-such-option", "true"], ["-i", "0", "true"], ["-i", "x", "true"], ["-i", "2T", "true"],
        ["--sampler", "x", "true"], ["-x", "--sampler", "poisson", "true"],
        ["--snapshots", "1", "--sampler", "stratified", "true"], ["--ocaml", "1e-5", "true"],
        ["--ocaml", "off", "true"], ["-o"], ["-o", "", "true"], ["--ocaml=0", "true"], ["--ocaml=2", "true"], ["--ocaml=x", "true"], ["-x", "--ocaml=1e-4", "true"],
        ["-x", "-i", "64", "true"], ["--overhead", "1", "-x", "true"], ["--overhead", "1", "-i", "1", "true"],
        ["--overhead", "0", "true"], ["--overhead", "60", "true"], ["--overhead", "-1", "true"], ["--overhead", "x", "true"],
        ["--snapshots", "0", "true"], ["--snapshots", "-1", "true"], ["--snapshots", "1", "-i", "64K", "true"],
        ["--snapshots", "1", "--overhead", "1", "true"], ["--snapshots", "1", "--max-size", "1M", "true"],
        ["-o", "-", "true"], ["--max-size", "1", "true"], ["--max-size", "x", "true"], ["--max-spool", "64K", "true"]])
def wrong_usage(arguments):
    with Folder() as here:
        done = run([MAYFLY, "record", *arguments], cwd=here.path)
        same(done.code, 125)
        same((len(done.err.splitlines()), done.out), (1, b""), done)
        only_trace(here)


@cases(["-x", "--exact"])
def exact(option):
    with Folder() as here:
        done = record([compiled(), "blocks", "50", "1000"], here / "t.mayfly", option)
        same((done.code, done.out), (0, b"done\n"))
        facts = info(here / "t.mayfly")
        same((facts["mode"], facts["interval_bytes"]), ("exact", 1))
        check(facts["samples"] >= 50, facts["samples"])


@case
def help_text():
    done = run([MAYFLY, "record", "--help", "--all"])
    same((done.code, done.err), (0, b""))
    for option in (b"--output", b"--interval", b"--sampler", b"--follow", b"--quiet", b"--exact", b"--snapshots",
                   b"--overhead", b"--max-size", b"--max-spool"):
        check(option in done.out, option, "is missing")


@case
def options_end_at_the_command():
    with Folder() as here:
        done = run([MAYFLY, "record", "-o", here / "t.mayfly", "--ocaml=off", "echo", "-q", "--", "-o"])
        same((done.code, done.out), (0, b"-q -- -o\n"))


@cases([("600K", 1 << 19), ("800K", 1 << 20), ("1", 1), ("3", 4), ("512K", 1 << 19), ("1T", 1 << 40)])
def interval(pair):
    with Folder() as here:
        done = record([compiled(), "blocks", "10", "100"], here / "t.mayfly", "-i", pair[0])
        same((done.code, done.err), (0, b""))
        same(info(here / "t.mayfly")["interval_bytes"], pair[1])


@case
def settings_of_the_user():
    """MAYFLY's keys go on to the agent; options win over them."""
    with Folder() as here:
        env = environment(MAYFLY="interval=64K,seed=7,output=/nowhere/x")
        for name in ("a", "b"):
            done = record([compiled(), "blocks", "1000", "5000"], here / name, env=env)
            same((done.code, done.err), (0, b""))
        a, b = info(here / "a"), info(here / "b")
        same(a["interval_bytes"], 65536)
        same(a["samples"], b["samples"], "samples of two runs with one seed")
        done = record(["true"], here / "c", "-i", "1M", env=env)
        same((done.code, info(here / "c")["interval_bytes"]), (0, 1 << 20))


@case
def preload_order():
    """What the loader gets; a static program shows it, which the agent cannot tidy up for."""
    with Folder() as here:
        def preload(**changes):
            done = record([compiled("-static"), "preload"], here / "t.mayfly", env=environment(**changes))
            same(done.code, 0, done)
            return done.out.decode().strip()

        agent = os.path.realpath(AGENT)
        cxx = agent.replace("libmayfly.so", "libmayfly-cxx.so")
        jemalloc, harmless = harness.library("libjemalloc.so.2"), harness.library("libz.so.1")
        same(preload(), agent)
        same(preload(LD_PRELOAD=harmless), "%s:%s" % (agent, harmless))
        same(preload(LD_PRELOAD="%s %s" % (harmless, jemalloc)), "%s:%s:%s %s" % (agent, cxx, harmless, jemalloc))


@case
def linked_with_an_allocator():
    """An executable that needs an allocator library with its own operator new."""
    with Folder() as here:
        library = harness.library("libjemalloc.so.2")
        done = run(["gcc", "-x", "c", "-", "-x", "none", "-Wl,--no-as-needed", library, "-o", here / "p"],
                   stdin=b'#include <stdlib.h>\nint main(void) { return system("cat /proc/$PPID/maps"); }\n')
        same(done.code, 0, done)
        done = record([here / "p"], here / "t.mayfly")
        same(done.code, 0, done)
        check(b"/libmayfly.so" in done.out and b"/libmayfly-cxx.so" in done.out, done)
        done = record([compiled(), "maps"], here / "u.mayfly")
        check(b"/libmayfly.so" in done.out and b"/libmayfly-cxx.so" not in done.out, done)


# ---- the output file ----

@case
def default_name():
    with Folder() as here:
        done = run([MAYFLY, "record", "--", "sh", "-c", "echo $$"], cwd=here.path)
        same((done.code, done.err), (0, b""))
        only_trace(here, "mayfly.sh.%d.mayfly" % int(done.out))
        same(info(here.files()[0])["pid"], int(done.out))


@case
def refuses_other_files():
    with Folder() as here:
        with open(here / "main.c", "w") as file:
            file.write("int main(void) { return 0; }\n")
        done = record(["touch", here / "ran"], here / "main.c")
        same(done.code, 125)
        check(b"main.c" in done.err and b"--force" in done.err and len(done.err.splitlines()) == 1, done)
        with open(here / "main.c") as file:
            same(file.read(), "int main(void) { return 0; }\n")
        only_trace(here, "main.c")
        same(record(["true"], here / "main.c", "--force").code, 0)
        info(here / "main.c")
        for path in (here.path, "/dev/null"):
            done = record(["touch", here / "ran"], path, "--force")
            same((done.code, len(done.err.splitlines())), (125, 1), path)
        check(stat.S_ISCHR(os.stat("/dev/null").st_mode), "/dev/null is gone")
        only_trace(here, "main.c")


@case
def replaces_traces():
    with Folder() as here:
        open(here / "t", "w").close()  # as mktemp makes it
        for count in (10, 100):
            done = record([compiled(), "blocks", str(count), "100"], here / "t", "-i", "1")
            same((done.code, done.err), (0, b""))
            check(count <= info(here / "t")["samples"] < count + 50, info(here / "t"))
        only_trace(here, "t", "t.old")


@case
def replaces_through_links():
    with Folder() as here:
        open(here / "real", "w").close()
        os.symlink("real", here / "link")
        same(record(["true"], here / "link").code, 0)
        check(os.path.islink(here / "link"), "the link is gone")
        info(here / "real")


@case
def refuses_old_spools():
    with Folder() as here:
        for name in ("t.mayfly.spool", "t.mayfly.123456.0.spool"):
            with open(here / name, "wb") as file:
                file.write(b"MAYFLYSP" + bytes(70000))
            done = record(["touch", here / "ran"], here / "t.mayfly")
            same((done.code, len(done.err.splitlines())), (125, 1), done)
            check(name.encode() in done.err, done)
            only_trace(here, name)
            same(record(["true"], here / "t.mayfly", "--force").code, 0)
            only_trace(here, "t.mayfly")
            os.unlink(here / "t.mayfly")


@case
def older_traces_are_kept():
    def command(name):
        return info(here / name)["command"]

    with Folder() as here:
        for program in ("true", "ls", "date"):
            same(record([program], here / "t.mayfly").code, 0)
        only_trace(here, "t.mayfly", "t.old.mayfly")
        same([command("t.mayfly"), command("t.old.mayfly")], [["date"], ["ls"]])
        same(record(["true"], here / "t.mayfly", "--force").code, 0)
        same([command("t.mayfly"), command("t.old.mayfly")], [["true"], ["ls"]], "with --force")
        same(record(["no-such-program"], here / "t.mayfly").code, 127)
        same([command("t.mayfly"), command("t.old.mayfly")], [["true"], ["ls"]], "nothing recorded")


@case
def folder_removed():
    """While the program runs: it runs on, and the line says what has happened."""
    with Folder() as here:
        os.mkdir(here / "d")
        done = record(["sh", "-c", "rm -r %s; echo on; exit 7" % (here / "d")], here / "d/t")
        same((done.code, done.out, done.err.count(b"\n")), (7, b"on\n", 1), done)
        check(b"was removed while it ran" in done.err and b"could not start" not in done.err, done)


@cases(["-S", "-SH"])
def little_memory(kind):
    """A limit that the program has is not the recorder's, where that may have more; else it is named."""
    with Folder() as here:
        script = "ulimit %s -d 20480; exec %s record -x -o %s -- sh -c 'ulimit -S -d; exit 7'" % (kind, MAYFLY, here / "t")
        done = run(["bash", "-c", script])
        same(done.out, b"20480\n", done)
        if kind == "-S" or done.code == 7:
            same((done.code, done.err, info(here / "t")["complete"]), (7, b"", True), done)
        else:
            check(done.code == 125 and b"limit on memory (ulimit -d" in done.err, done)


@case
def no_proc():
    """The agent is found without it."""
    need("unshare")
    hidden = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
    if run([*hidden, "true"]).code:
        raise Skip("no mount namespaces")
    with Folder() as here:
        done = run([*hidden, MAYFLY, "record", "-x", "-o", here / "t", "--", "sh", "-c", "exit 7"])
        same((done.code, done.err), (7, b""), done)
        check(info(here / "t")["complete"], "a trace")


@case
def folder_missing():
    with Folder() as here:
        done = record(["touch", here / "ran"], here / "no/t.mayfly")
        same((done.code, len(done.err.splitlines())), (125, 1), done)
        check(b"there is no folder '" in done.err and b"spool" not in done.err, done)
        only_trace(here)


def as_nobody():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def reachable_by_others(path):
    """Whether other users may go there; a build below somebody's home is often out of reach."""
    while path != "/":
        if not os.stat(path).st_mode & stat.S_IXOTH:
            return False
        path = os.path.dirname(path)
    return True


@case
def folder_not_writable():
    if os.getuid() == 0 and not reachable_by_others(MAYFLY):
        raise Skip("other users may not run " + MAYFLY)
    with Folder() as here:
        os.chmod(here.path, 0o555)
        done = record(["true"], here / "t.mayfly", preexec_fn=as_nobody if os.getuid() == 0 else None)
        same((done.code, len(done.err.splitlines())), (125, 1), done)
        check(b"Permission denied" in done.err, done)


@cases(["a,b", "with space", "100%", "%p", "%2c", "ünïcode", "a=b", "-x", r"tab\there", r"new\nline", "it's"])
def odd_names(name):
    name = name.replace(r"\t", "\t").replace(r"\n", "\n")
    with Folder() as here:
        os.mkdir(here / name)
        trace = os.path.join(here.path, name, name)
        same(record([compiled(), "blocks", "50", "1000000"], trace).code, 0)
        check(info(trace)["samples"] >= 40, info(trace))
        same(os.listdir(here / name), [name])
        # Relative to a folder with such a name, too.
        done = run([MAYFLY, "record", "--output=" + name + "2", compiled(), "blocks", "50", "1000000"],
                   cwd=here / name)
        same(done.code, 0, done)
        same(sorted(os.listdir(here / name)), sorted([name, name + "2"]))


@case
def program_changes_folder():
    """A relative output is where mayfly was started, wherever the program goes."""
    with Folder() as here:
        done = run([MAYFLY, "record", "--exec=last", "-o", "t", "--", "sh", "-c", "cd /; exec %s blocks 50 1000000" % compiled()],
                   cwd=here.path)
        same((done.code, done.err), (0, b""))
        only_trace(here, "t")


# ---- signals ----

@case
def signals_are_forwarded():
    with Folder() as here, Started(here, [compiled(), "signals"]) as started:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT, signal.SIGQUIT,
                       signal.SIGUSR2):
            os.kill(started.process.pid, number)
            same(started.process.stdout.readline(), b"signal\n", "after signal %d" % number)
        done = started.end()
        same((done.code, done.out, done.err), (9, b"INT 1 QUIT 1 TERM 1 HUP 1 USR1 1 USR2 1\n", b""))
        check(info(here / "t.mayfly")["samples"] >= 10, "samples")
        only_trace(here, "t.mayfly")


@case
def group_signal_once_from_the_program():
    """The program signals its process group: it must not get the signal back from mayfly."""
    with Folder() as here:
        script = "trap 'n=$((n+1))' TERM; n=0; kill -TERM 0; sleep 0.3; echo $n"
        done = record(["bash", "-c", script], here / "t.mayfly")
        same((done.code, done.out), (0, b"1\n"), done)


@case
def term_ends_program_and_is_recorded():
    with Folder() as here, Started(here, [compiled(), "until", here / "never"]) as started:
        started.process.send_signal(signal.SIGTERM)
        done = started.end()
        same((done.code, done.err), (143, b""))
        check(info(here / "t.mayfly")["samples"] >= 10, "samples")


@case
def signal_state_is_preserved():
    """What mayfly was started with: ignored and blocked signals. /proc alone shows the agent's handler of
    SIGBUS, which no call of the program's sees (SECURITY.md)."""
    def setup():
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGCHLD, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGRTMIN})

    with Folder() as here:
        command = ["grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"]
        plain = run(command, preexec_fn=setup)
        watched = record(command, here / "t.mayfly", preexec_fn=setup)
        caught = re.search(rb"SigCgt:\t([0-9a-f]{16})", plain.out).group(1)
        ours = b"%016x" % (int(caught, 16) | 1 << signal.SIGBUS - 1)
        same((watched.code, watched.out), (0, plain.out.replace(b"SigCgt:\t" + caught, b"SigCgt:\t" + ours)))


@case
def limits_are_preserved():
    import resource

    def setup():
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_NOFILE, (5, 100))

    with Folder() as here:
        done = record(["sh", "-c", "ulimit -f -n; ulimit -n"], here / "t.mayfly", preexec_fn=setup)
        same((done.code, done.out.split()[-1]), (0, b"5"), done)
        done = record(["sh", "-c", "ulimit -f"], here / "u.mayfly", preexec_fn=setup)
        same((done.code, done.out), (0, b"16\n"), done)


@case
def ignored_children_still_have_a_status():
    with Folder() as here:
        done = record(["sh", "-c", "exit 42"], here / "t.mayfly",
                      preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        same(done.code, 42)


@case
def ctrl_c_ends_both():
    with Folder() as here, Terminal([MAYFLY, "record", "-o", "t.mayfly", "--", compiled(), "until", "x"],
                                    here.path) as terminal:
        terminal.expect(b"ready")
        terminal.type(b"\x03")
        terminal.told("ended 130")
        check(b"samples of" in terminal.text and b"mayfly report t.mayfly" in terminal.text, terminal.text)
        check(info(here / "t.mayfly")["samples"] >= 10, "samples")
        only_trace(here, "t.mayfly")


@case
def ctrl_c_reaches_program_once():
    with Folder() as here, Terminal([MAYFLY, "record", "-o", "t.mayfly", "--", compiled(), "signals"],
                                    here.path) as terminal:
        terminal.expect(b"ready")
        for count, key in enumerate((b"\x03", b"\x1c", b"\x03"), 1):
            terminal.type(key)
            terminal.expect(b"signal\r\n", count)
        mayfly = next(descendants(terminal.shell))
        os.kill(mayfly, signal.SIGUSR2)
        terminal.told("ended 9")
        check(b"INT 2 QUIT 1 TERM 0 HUP 0 USR1 0 USR2 1" in terminal.text, terminal.text)
        info(here / "t.mayfly")


def stop_and_continue(stop):
    with Folder() as here, Terminal([MAYFLY, "record", "-o", "t.mayfly", "--", compiled(), "until", "go"],
                                    here.path) as terminal:
        terminal.expect(b"ready")
        mayfly, program = list(descendants(terminal.shell))[:2]
        for _ in range(3):
            stop(terminal, mayfly, program)
            terminal.told("stopped %d" % signal.SIGTSTP)
            same((state_of(mayfly), state_of(program)), ("T", "T"), "states")
            terminal.type(b"\n")
            wait_until(lambda: state_of(mayfly) != "T" and state_of(program) != "T", "both continue")
            let_it_look(mayfly)
        open(here / "go", "w").close()
        terminal.told("ended 5")
        check(info(here / "t.mayfly")["samples"] >= 10, "samples")


@case
def ctrl_z_stops_both_and_fg_continues():
    stop_and_continue(lambda terminal, mayfly, program: terminal.type(b"\x1a"))


@case
def tstp_for_mayfly_stops_both():
    stop_and_continue(lambda terminal, mayfly, program: os.kill(mayfly, signal.SIGTSTP))


@case
def program_that_stops_itself():
    stop_and_continue(lambda terminal, mayfly, program: os.kill(program, signal.SIGTSTP))


@case
def program_that_ignores_ctrl_z():
    """mayfly must not stop alone: the shell would take the terminal from a program that runs."""
    script = "trap '' TSTP; echo ready; sleep 1; exit 6"
    with Folder() as here, Terminal([MAYFLY, "record", "-o", "t.mayfly", "--", "bash", "-c", script],
                                    here.path) as terminal:
        terminal.expect(b"ready")
        terminal.type(b"\x1a")
        terminal.told("ended 6")


@case
def program_held_from_elsewhere():
    """SIGSTOP and SIGCONT for the program alone, without a terminal: mayfly goes on watching."""
    with Folder() as here, Started(here, [compiled(), "until", here / "go"]) as started:
        program = started.child()
        os.kill(program, signal.SIGSTOP)
        wait_until(lambda: state_of(program) == "T", "the program stops")
        let_it_look(started.process.pid)
        check(state_of(started.process.pid) != "T", "mayfly stopped too")
        os.kill(program, signal.SIGCONT)
        open(here / "go", "w").close()
        same(started.end().code, 5)


# ---- what is shown on a terminal ----

@case
def last_line_on_a_terminal():
    with Folder() as here, Terminal([MAYFLY, "record", "-o", "t.mayfly", "--", compiled(), "blocks", "3000",
                                     "1000000"], here.path) as terminal:
        terminal.told("ended 0")
        lines = terminal.text.decode().split("\r\n")
        same(lines[0], "done")
        check(re.fullmatch(r"mayfly: [\d,]+ samples of \S+ in \S+ \w+ -> t\.mayfly \([^)]*B\); "
                           r"next: mayfly report t\.mayfly", lines[1]), lines)
        check(re.match(r"mayfly: [34],\d\d\d samples", lines[1]), lines)
        check("\033" not in terminal.text.decode(), "a progress line although the program prints there", lines)


@case
def quiet():
    with Folder() as here, Terminal([MAYFLY, "record", "-q", "-o", "t.mayfly", "--", "true"],
                                    here.path) as terminal:
        terminal.told("ended 0")
        same(terminal.text, b"")


@case
def rounded_interval_is_told():
    with Folder() as here, Terminal([MAYFLY, "record", "-i", "600K", "-o", "t", "--", "true"],
                                    here.path) as terminal:
        terminal.told("ended 0")
        check(b"600 KiB" in terminal.text and b"512 KiB" in terminal.text, terminal.text)


@cases(["redirected", "--progress"])
def progress_line(how):
    with Folder() as here:
        redirected = how == "redirected"
        command = [MAYFLY, "record", "-o", "t.mayfly", *([] if redirected else [how]), "--", compiled(),
                   "until", "go"]
        with Terminal(command, here.path, stdout=here / "out" if redirected else None, columns=60) as terminal:
            begin = time.monotonic()
            terminal.expect(b" live about ", 4)
            open(here / "go", "w").close()
            terminal.told("ended 5")
            drawn = re.findall(rb"\r\033\[Kmayfly: ([^\r\033]*live[^\r\033]*)", terminal.text)
            check(4 <= len(drawn) <= 3 + 5 * (time.monotonic() - begin), "drawn", len(drawn), "times",
                  terminal.text)
            check(re.match(rb"[\d.]+ m?s  \d+ samples  live about [\d.]+ (?:[KM]i)?B$", drawn[-1]), drawn)
            check(all(len(line) < 60 for line in drawn), "too wide", drawn)
            # The line is gone before anything else is printed.
            check(re.search(rb"\r\033\[Kmayfly: \d+ samples of ", terminal.text), terminal.text)


# ---- programs that cannot be recorded ----

@case
def static_program():
    with Folder() as here:
        done = record([compiled("-static"), "blocks", "10", "100"], here / "t.mayfly")
        same((done.code, done.out), (0, b"done\n"))
        same(len(done.err.splitlines()), 1, done)
        check(b"statically" in done.err, done)
        only_trace(here)
        done = record([compiled("-static"), "kill", "9"], here / "t.mayfly")
        same(done.code, 137)
        only_trace(here)


@case
def script_with_a_static_interpreter():
    with Folder() as here:
        with open(here / "script", "w") as file:
            file.write("#!%s blocks\n" % compiled("-static"))
        os.chmod(here / "script", 0o755)
        done = record([here / "script"], here / "t.mayfly")
        check(b"script for" in done.err and b"statically" in done.err, done)
        only_trace(here, "script")


@case
def static_program_that_becomes_another():
    """LD_PRELOAD goes on through it, so the next one is recorded."""
    with Folder() as here:
        source = b'#include <unistd.h>\nint main(int c, char **v) { execv(v[1], v + 1); return 1; }\n'
        done = run(["gcc", "-static", "-x", "c", "-", "-o", here / "p"], stdin=source)
        if done.code:
            raise Skip("no static C library")
        done = record([here / "p", compiled(), "blocks", "50", "1000000"], here / "t.mayfly")
        same((done.code, done.out), (0, b"done\n"))
        check(info(here / "t.mayfly")["samples"] >= 40, "samples")


@case
def setuid_program():
    if os.getuid() != 0:
        raise Skip("needs root")
    if not reachable_by_others(MAYFLY):
        raise Skip("other users may not run " + MAYFLY)
    with Folder() as here:
        os.chmod(here.path, 0o777)
        shutil.copy(compiled(), here / "prog")
        os.chmod(here / "prog", 0o4755)
        if os.statvfs(here / "prog").f_flag & os.ST_NOSUID:
            raise Skip("temporary folder is mounted nosuid")
        done = record([here / "prog", "blocks", "10", "100"], here / "t.mayfly", preexec_fn=as_nobody)
        same((done.code, done.out), (0, b"done\n"))
        same(len(done.err.splitlines()), 1, done)
        check(b"set-user-ID" in done.err, done)
        only_trace(here, "prog")
        # Root's own set-user-ID program does not change who it is: it is recorded.
        done = record([here / "prog", "blocks", "50", "1000000"], here / "r.mayfly")
        same((done.code, done.err), (0, b""))
        only_trace(here, "prog", "r.mayfly")


@case
def wrapper_that_clears_the_environment():
    with Folder() as here:
        done = record(["env", "-i", compiled(), "blocks", "50", "1000000"], here / "t.mayfly", "--exec=last")
        same((done.code, done.out), (0, b"done\n"))
        facts = info(here / "t.mayfly")
        same(facts["command"][1], "blocks")
        check(facts["samples"] >= 40, facts)
        only_trace(here, "t.mayfly")


# ---- exec and child processes ----

@case
def exec_chain():
    with Folder() as here:
        script = "exec sh -c 'exec %s blocks 60 1000000'" % compiled()
        done = record(["sh", "-c", script], here / "t.mayfly", "--exec=last")
        same((done.code, done.out, done.err), (0, b"done\n", b""))
        facts = info(here / "t.mayfly")
        same(facts["command"], [compiled(), "blocks", "60", "1000000"])
        check(55 <= facts["samples"] <= 70, facts)
        only_trace(here, "t.mayfly")


@case
def exec_of_a_failing_program():
    """exec that fails: the first image goes on."""
    with Folder() as here:
        script = "exec ./nothing 2>/dev/null; exit 3"
        done = record(["bash", "-c", "shopt -s execfail; " + script], here / "t.mayfly", cwd=here.path)
        same(done.code, 3)
        same(info(here / "t.mayfly")["command"][0], "bash")
        only_trace(here, "t.mayfly")


@case
def children_are_not_followed_by_default():
    with Folder() as here:
        done = record([compiled(), "forks", "3"], here / "t.mayfly")
        same((done.code, done.err), (0, b""))
        only_trace(here, "t.mayfly")
        check(18 <= info(here / "t.mayfly")["samples"] <= 25, info(here / "t.mayfly"))


@case
def follow_forks():
    with Folder() as here:
        done = record([compiled(), "forks", "3"], here / "t.mayfly", "--follow")
        same((done.code, done.err), (0, b""))
        traces = here.files()
        same(len(traces), 4, traces)
        main_pid = info(here / "t.mayfly")["pid"]
        counts = []
        for trace in traces:
            facts = info(trace)
            if trace == here / "t.mayfly":
                continue
            same(os.path.basename(trace), "t.%d.mayfly" % facts["pid"])
            check(facts["pid"] != main_pid, facts)
            counts.append(facts["samples"])
        # 10 of the parent's blocks were live at the fork: they come first in the child's trace.
        same(len(counts), 3)
        for count, own in zip(sorted(counts), (30, 31, 32)):
            check(own + 10 <= count <= own + 15, counts)


@case
def follow_programs():
    with Folder() as here:
        program = compiled()
        script = "%s blocks 40 1000000 & %s blocks 80 1000000 & wait" % (program, program)
        done = record(["sh", "-c", script], here / "out", "-f")
        same((done.code, done.err), (0, b""))
        by_command = {" ".join(info(trace)["command"]): info(trace) for trace in here.files()}
        for count in (40, 80):
            facts = by_command["%s blocks %d 1000000" % (program, count)]
            check(count - 2 <= facts["samples"] <= count + 10, facts)
            check(os.path.exists(here / ("out.%d" % facts["pid"])), here.files())
        check(not here.files("*spool*"), here.files())


@case
def follow_waits_for_children():
    with Folder() as here, Started(here, [compiled(), "leave", here / "go"], "-f") as started:
        wait_until(lambda: not started.children(), "the program's end")
        let_it_look(started.process.pid)
        check(started.process.poll() is None, "did not wait")
        same(here.files("*.mayfly"), [], "a trace too early")
        open(here / "go", "w").close()
        done = started.end()
        same(done.code, 0)
        same(len(here.files("t.*.mayfly")), 1, here.files())
        check(not here.files("*spool*"), here.files())


@case
def follow_stops_waiting_when_interrupted():
    with Folder() as here, Started(here, [compiled(), "leave", here / "go"], "-f") as started:
        line = started.error_line()
        check(b"waiting for 1 child process" in line, line)
        started.process.send_signal(signal.SIGINT)
        line = started.error_line()
        check(b"still runs" in line, line)
        started.process.wait(harness.TIMEOUT)
        same(started.process.returncode, 0)
        info(here / "t.mayfly")
        spools = here.files("t.mayfly.*.0.spool")
        same(len(spools), 1, here.files())
        # Its parent's spool stays too, so that what it inherited is not lost.
        check(os.path.exists(here / "t.mayfly.spool"), here.files())
        check(info(spools[0])["samples"] >= 39, info(spools[0]))
        open(here / "go", "w").close()
        wait_until(lambda: info(spools[0])["samples"] >= 49, "the child goes on")


# ---- killed, full ----

def hold(process):
    """Stops a process; returns when it has."""
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: state_of(process.pid) == "T", "the stop")


@case
def interrupted_while_the_trace_is_made():
    with Folder() as here, Started(here, [compiled(), "until", here / "go", "4000000"], "-x") as started:
        program = started.child()
        hold(started.process)
        open(here / "go", "w").close()
        wait_until(lambda: state_of(program) == "Z", "the program's end")
        started.process.send_signal(signal.SIGCONT)
        while not ends_within(started.process, 0.01):
            started.process.send_signal(signal.SIGINT)
        done = started.end()
        same((done.code, len(done.err.splitlines())), (130, 1), done)
        check(b"t.mayfly.spool" in done.err, done)
        check(here / "t.mayfly.spool" in here.files(), here.files())
        if os.path.exists(here / "t.mayfly.part"):
            check(b"t.mayfly.part" in done.err, done)
            samples = sum(info(here / name)["samples"] for name in ("t.mayfly.part", "t.mayfly.spool"))
        else:
            samples = info(here / "t.mayfly.spool")["samples"]
        check(samples > 4000000, samples)


@case
def mayfly_is_killed():
    """The program runs on and the spool keeps everything."""
    with Folder() as here, Started(here, [compiled(), "until", here / "go"]) as started:
        program = started.child()
        started.process.kill()
        started.process.wait()
        facts = info(here / "t.mayfly.spool")
        check(facts["samples"] >= 10, facts)
        check(os.path.exists("/proc/%d" % program), "the program is gone")
        wait_until(lambda: info(here / "t.mayfly.spool")["samples"] > facts["samples"] + 2, "more samples")
        open(here / "go", "w").close()
        wait_until(lambda: not os.path.exists("/proc/%d" % program), "the program's end")
        # The trace is not there; its spool is read, and said to be.
        done = run([MAYFLY, "info", "--json", here / "t.mayfly"])
        same((done.code, len(done.err.splitlines())), (0, 1), done)
        check(b"is not complete" in done.err and b"t.mayfly.spool" in done.err, done)
        facts = info(here / "t.mayfly.spool")
        same(json.loads(done.out)["samples"], facts["samples"])
        names = harness.functions_of(here / "t.mayfly.spool", "--metric", "allocated")
        check("the_allocator" in names, names)
        only_trace(here, "go", "t.mayfly.spool")


@case
def spools_are_for_their_owner():
    """Whoever makes the file, and whatever the umask; a trace has the usual mode."""
    def mode(path):
        return oct(os.stat(path).st_mode & 0o777)

    with Folder() as here:
        with Started(here, [compiled(), "until", here / "go"], preexec_fn=lambda: os.umask(0o002)) as started:
            same(mode(here / "t.mayfly.spool"), oct(0o600), "mode of the recorder's spool")
            open(here / "go", "w").close()
            same(started.end().code, 5)
        same(mode(here / "t.mayfly"), oct(0o664), "mode of the trace")
        done = run([compiled(), "blocks", "50", "1000000"], preexec_fn=lambda: os.umask(0),
                   env=environment(LD_PRELOAD=harness.AGENT, MAYFLY="output=" + (here / "own.spool")))
        same(done.code, 0, done)
        same(mode(here / "own.spool"), oct(0o600), "mode of the agent's spool")


@case
def mayfly_is_killed_while_the_spool_grows():
    """The agent reserves space itself when nobody else does."""
    with Folder() as here, Started(here, [compiled(), "until", here / "go", "6000000"], "-i", "1") as started:
        program = started.child()
        before = os.stat(here / "t.mayfly.spool").st_size
        started.process.kill()
        started.process.wait()
        open(here / "go", "w").close()
        wait_until(lambda: not os.path.exists("/proc/%d" % program), "the program's end")
        check(os.stat(here / "t.mayfly.spool").st_size > before, "the spool did not grow")
        facts = info(here / "t.mayfly.spool")
        same(facts["dropped_samples"], 0)
        check(facts["samples"] >= 6000200, facts)


@case
def many_samples():
    """Far more than was reserved at first, at full speed."""
    with Folder() as here:
        done = record([compiled(), "blocks", "1000000", "16"], here / "t.mayfly", "-i", "1")
        same((done.code, done.out, done.err), (0, b"done\n", b""))
        facts = info(here / "t.mayfly")
        same(facts["dropped_samples"], 0)
        check(1000000 <= facts["samples"] <= 1000100, facts)
        only_trace(here, "t.mayfly")


def memory_of(pid, field):
    with open("/proc/%d/status" % pid) as file:
        return int(re.search(field + r":\s*(\d+) kB", file.read()).group(1)) << 10


@case
def spool_and_memory_stay_small():
    """However much a program allocates: it is read while it runs."""
    with Folder() as here, Started(here, [compiled(), "churn", "3", "3000000"], "-x") as started:
        spool = memory = 0
        program = started.child()
        wait_until(lambda: glob.glob(here / "t.mayfly.part"), "the recorder to read along")
        before = memory_of(started.process.pid, "VmRSS")
        try:
            while state_of(program) not in "ZX" and not ends_within(started.process, 0.05):
                spool = max(spool, os.stat(here / "t.mayfly.spool").st_blocks * 512)
                memory = memory_of(started.process.pid, "VmRSS")
        except FileNotFoundError:
            pass
        done = started.end()
        same((done.code, done.err), (0, b""))
        count = int(done.out)
        facts = info(here / "t.mayfly")
        same((facts["mode"], facts["dropped_samples"]), ("exact", 0))
        check(count <= facts["samples"] <= count + 100, count, facts["samples"])
        # A third of 40 frames changes on average, 2 bytes each; then there is a free.
        written = 34 * count
        print("# %d allocations: spool at most %d MiB, memory %d then %d MiB" % (
            count, spool >> 20, before >> 20, memory >> 20))
        check(spool <= 64 << 20 and 1.3 * spool <= written, "the spool grew to", spool, "of", written)
        check(memory <= 128 << 20, "mayfly's memory grew to", memory)
        only_trace(here, "t.mayfly")


@case
def recorder_that_is_held():
    """It cannot read along: the spool grows to its limit, the program goes on, drops are counted."""
    with Folder() as here, Started(here, [compiled(), "until", here / "go", "4000000"], "-x", "--max-spool",
                                   "4M") as started:
        program = started.child()
        hold(started.process)
        open(here / "go", "w").close()
        wait_until(lambda: state_of(program) == "Z", "the program's end")
        size = os.stat(here / "t.mayfly.spool").st_size
        check(size <= (4 << 20) + 65536, "the spool has", size)
        started.process.send_signal(signal.SIGCONT)
        done = started.end()
        same((done.code, len(done.err.splitlines())), (5, 1), done)
        check(b"dropped" in done.err and b"--max-spool" in done.err, done)
        facts = info(here / "t.mayfly")
        check(facts["dropped_samples"] > 1000000, facts)
        total = facts["samples"] + facts["dropped_samples"]
        check(4000200 <= total <= 4010000, "recorded and dropped:", total)
        only_trace(here, "go", "t.mayfly")
        said = r"%.1f %% of the allocations were dropped while recording" % (100 * facts["dropped_samples"] / total)
        shown = run([MAYFLY, "report", here / "t.mayfly"]).out.decode()
        check(shown.startswith(said), "the first line", shown)
        checked = run([MAYFLY, "check", "--max-peak", "1T", here / "t.mayfly"])
        same((checked.code, checked.out, said.encode() in checked.err), (2, b"", True), checked)


@case
def events_are_dropped():
    """Held, with no blocks to drop: of events it says the same."""
    events = program("events")
    with Folder() as here, Started(here, ["/bin/sh", "-c", "echo ready; while [ ! -e go ]; do sleep .01; done; exec %s random 2 200000 1"
                                          % events], "--max-spool", "1M", "--exec=last") as started:
        child = started.child()
        hold(started.process)
        open(here / "go", "w").close()
        wait_until(lambda: state_of(child) == "Z", "the program's end")
        started.process.send_signal(signal.SIGCONT)
        done = started.end()
        same((done.code, len(done.err.splitlines())), (0, 1), done)
        check(b" events dropped" in done.err and b"--max-spool" in done.err, done)
        facts = info(here / "t.mayfly")
        check(facts["dropped_events"] > 100000, facts)
        # 1 of 32 is a block instead.
        total = facts["track_events"] + facts["dropped_events"]
        check(385000 <= total <= 389000, "recorded and dropped:", total)
        only_trace(here, "go", "t.mayfly")


@case
def recorder_catches_up():
    """What it could not read at once is read later, nothing is lost."""
    with Folder() as here, Started(here, [compiled(), "until", here / "go", "4000000"], "-x") as started:
        program = started.child()
        hold(started.process)
        open(here / "go", "w").close()
        wait_until(lambda: state_of(program) == "Z", "the program's end")
        started.process.send_signal(signal.SIGCONT)
        done = started.end()
        same((done.code, done.err), (5, b""))
        facts = info(here / "t.mayfly")
        same(facts["dropped_samples"], 0)
        check(facts["samples"] >= 4000200, facts)
        only_trace(here, "go", "t.mayfly")


@case
def mayfly_is_killed_while_it_reads():
    """The part of the trace that is there and the rest of the spool are one recording, and hold all."""
    with Folder() as here, Started(here, [compiled(), "churn", "2"], "-x") as started:
        program = started.child()
        part, spool = here / "t.mayfly.part", here / "t.mayfly.spool"
        wait_until(lambda: os.path.exists(part) and os.stat(part).st_size > 0, "the first part")
        started.process.kill()
        started.process.wait()
        wait_until(lambda: not os.path.exists("/proc/%d" % program), "the program's end")
        count = int(started.process.stdout.read())
        # By either name it is one recording, with each allocation once.
        for name in (part, spool):
            facts = info(name)
            check(count <= facts["samples"] <= count + 1000, count, facts)
            same(facts["dropped_samples"], 0)
        names = harness.functions_of(spool, "--metric", "allocated")
        check("the_allocator" in names, names)
        run([MAYFLY, "report", part])
        only_trace(here, "t.mayfly.keys", "t.mayfly.part", "t.mayfly.spool")
        done = record(["true"], here / "t.mayfly")
        same((done.code, len(done.err.splitlines())), (125, 1), done)
        same(record(["true"], here / "t.mayfly", "--force").code, 0)
        only_trace(here, "t.mayfly")


@case
def follow_forks_exactly():
    """What a child has inherited, and frees, is known in its trace, read while all run."""
    with Folder() as here:
        done = record([compiled(), "inherit", "100000", "300000"], here / "t.mayfly", "-x", "--follow")
        same((done.code, done.err), (0, b""))
        traces = here.files()
        same(len(traces), 4, traces)
        for trace in traces:
            facts = info(trace)
            same((facts["mode"], facts["dropped_samples"]), ("exact", 0))
            check(400000 <= facts["samples"] <= 400100, trace, facts)
            live = harness.report(trace, "--metric", "live")["total"]["blocks"]["estimate"]
            child = trace != here / "t.mayfly"
            check(0 <= live - (150000 if child else 250000) <= 100, trace, live)
        only_trace(here, *[os.path.basename(trace) for trace in traces])


@case
def exec_in_exact_mode():
    """Each image with samples has a trace; with --exec=last the last one only."""
    with Folder() as here:
        command = ["sh", "-c", "exec %s blocks 1000000 16" % compiled()]
        done = record(command, here / "t.mayfly", "-x", "--exec=last")
        same((done.code, done.out, done.err), (0, b"done\n", b""))
        check(1000000 <= info(here / "t.mayfly")["samples"] <= 1000100, "samples")
        check("--exec=last" in info(here / "t.mayfly")["note"], "note")
        only_trace(here, "t.mayfly")
        done = record(command, here / "k.mayfly", "-x")
        same((done.code, done.out, done.err), (0, b"done\n", b""))
        check("beside this one" in info(here / "k.mayfly")["note"], "note")
        earlier = here.files("k.*.0.mayfly")
        same(len(earlier), 1, here.files())
        same(info(earlier[0])["ending"]["reason"], "exec", "how the first one ended")
        done = record(command, here / "t.mayfly", "-x", "-f", "--force")
        same((done.code, done.out, done.err), (0, b"done\n", b""))
        check(1000000 <= info(here / "t.mayfly")["samples"] <= 1000100, "samples")
        same(len(here.files("t.*.0.mayfly")), 1, here.files())


def within(trace, out):
    """What a thinned trace says of the program "random" is as near to the truth as it promises."""
    bytes_, blocks_, live, live_blocks = (int(word) for word in out.split())
    for metric, truth in (("allocated", (bytes_, blocks_)), ("live", (live, live_blocks))):
        total = harness.report(trace, "--metric", metric, "--focus", "the_allocator")["total"]
        for unit, true in zip(("bytes", "blocks"), truth):
            figure = total[unit]
            check(figure["stderr"] > 0, metric, unit, figure)
            # 4 standard errors, and for few samples what the interval says.
            check(abs(deviation(figure["estimate"], true, figure["stderr"])) <= 4 or
                  figure["low"] <= true <= figure["high"], metric, unit, "is", true, "but", figure)


@cases(["-x 128K", "-x 1M", "-x 3M", "-i 16 256K", "-i 64 64K"])
def max_size(what):
    """The trace stays within it, and what it tells within what it promises."""
    *options, size = what.split()
    limit = int(size[:-1]) << (10 if size[-1] == "K" else 20)
    with Folder() as here:
        done = record([compiled(), "random", "2000000"], here / "t.mayfly", *options, "--max-size", size)
        same((done.code, done.err), (0, b""))
        facts = info(here / "t.mayfly")
        length = os.stat(here / "t.mayfly").st_size
        check(limit / 8 <= length <= limit, "a trace of", length, "bytes with a limit of", limit)
        same((facts["complete"], facts["mode"], facts["thinned"]), (True, "sampled", True))
        within(here / "t.mayfly", done.out)
        only_trace(here, "t.mayfly")


NAMED = """
#include <stdlib.h>
%s
int main(void)
{
	for (int i = 0; i < 200; i++) {
%s
	}
	return 0;
}
"""


@case
def max_size_with_long_names():
    """Names that take more than mayfly expects are within the limit, too; and where they leave no room for
    samples, it says so."""
    chance = random.Random(1)
    names = ["f" + "".join(chance.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(100)) for _ in range(1000)]
    source = NAMED % ("\n".join("void %s(void) { static void *p; free(p); p = malloc(%d); }" % (name, 16 + 8 * (k % 9))
                                for k, name in enumerate(names)),
                      "\n".join("\t\t%s();" % name for name in names))
    need("gcc")
    with Folder() as here:
        same(run(["gcc", "-g", "-O1", "-fno-builtin", "-x", "c", "-", "-o", here / "named"], stdin=source.encode()).code, 0)
        for limit in (90, 100, 110, 120):
            done = record([here / "named"], here / "t.mayfly", "-x", "--force", "--max-size", "%dK" % limit)
            same((done.code, done.err), (0, b""))
            length = os.stat(here / "t.mayfly").st_size
            check(length <= limit << 10, "a trace of", length, "bytes with a limit of", limit << 10)
            total = harness.report(here / "t.mayfly", "--metric", "allocated", "--focus", "^f[a-z]{100}$")["total"]["blocks"]
            check(abs(deviation(total["estimate"], 200000, total["stderr"])) <= 4, total)
        done = record([here / "named"], here / "t.mayfly", "-x", "--force", "--max-size", "64K")
        same((done.code, len(done.err.splitlines())), (0, 1), done)
        check(b"stacks and names" in done.err, done)
        check(info(here / "t.mayfly")["samples"] >= 100, info(here / "t.mayfly"))


MANY = """
#include <stdio.h>
#include <stdlib.h>
struct block { struct block *next; };
int main(int argc, char **argv)
{
	unsigned long long state = 88172645463325252ull, bytes = 0;
	struct block *list = NULL;

	puts("ready");
	fflush(stdout);
	for (long i = 0; i < atol(argv[1]); i++) {
		state = state * 6364136223846793005ull + 1442695040888963407ull;
		size_t size = 16 + (state >> 33) % 48;
		struct block *b = malloc(size);
		b->next = list;
		list = b;
		bytes += size;
	}
	printf("%llu\\n", bytes);
	return list == NULL;
}
"""


@case
def memory_with_max_size():
    """The recorder needs at most 256 MiB, however many blocks are live."""
    count = 6000000
    need("gcc")
    with Folder() as here:
        same(run(["gcc", "-g", "-O1", "-fno-builtin", "-x", "c", "-", "-o", here / "many"], stdin=MANY.encode()).code, 0)
        with Started(here, [here / "many", str(count)], "-x", "--max-size", "100M") as started:
            most = 0
            while not ends_within(started.process, 0.01):
                with open("/proc/%d/status" % started.process.pid) as f:
                    most = max([most] + [int(line.split()[1]) << 10 for line in f if line.startswith("RssAnon:")])
            done = started.end()
        same((done.code, done.err), (0, b""))
        check(10 << 20 <= most <= 256 << 20, "the recorder had", most, "bytes of memory of its own")
        facts = info(here / "t.mayfly")
        same((facts["thinned"], facts["dropped_samples"]), (True, 0))
        for metric in "live", "peak":
            total = harness.report(here / "t.mayfly", "--metric", metric, "--focus", "main")["total"]
            for unit, truth in ("bytes", int(done.out)), ("blocks", count):
                score = deviation(total[unit]["estimate"], truth, total[unit]["stderr"])
                check(abs(score) <= 4, metric, total, truth)


@case
def max_size_with_events():
    """They leave half of it to the blocks; what is left out is counted, and no fault."""
    with Folder() as here:
        done = record([program("events"), "random", "2", "50000", "1"], here / "t.mayfly", "-i", "4K", "--max-size",
                      "128K")
        same((done.code, done.err), (0, b""))
        facts = info(here / "t.mayfly")
        length = os.stat(here / "t.mayfly").st_size
        check((16 << 10) <= length <= (128 << 10), "a trace of", length, "bytes")
        check(facts["track_events"] > 1000 and facts["dropped_events"] > 50000, facts)
        same((facts["complete"], facts["thinned"]), (True, False))
        only_trace(here, "t.mayfly")


@case
def max_size_that_is_not_reached():
    with Folder() as here:
        done = record([compiled(), "blocks", "1000", "48"], here / "t.mayfly", "-x", "--max-size", "64K")
        same((done.code, done.err), (0, b""))
        facts = info(here / "t.mayfly")
        same(facts["mode"], "exact")
        check(facts["samples"] >= 1000, facts)


@case
def snapshots_far_apart():
    """The spool need not wait for the next one."""
    with Folder() as here, Started(here, [compiled(), "churn", "0", "1000000", "3000"], "--snapshots", "1h",
                                   "--max-spool", "12M") as started:
        done = started.end()
        same((done.code, done.err), (0, b""))
        facts = info(here / "t.mayfly")
        same((facts["dropped_samples"], facts["complete"]), (0, True))
        total = harness.report(here / "t.mayfly", "--metric", "allocated", "--focus", "the_allocator")["total"]
        same(total["blocks"]["estimate"], int(done.out))


@case
def snapshots():
    with Folder() as here:
        done = record([compiled(), "churn", "1.5"], here / "t.mayfly", "--snapshots", "0.1")
        same((done.code, done.err), (0, b""))
        count = int(done.out.split()[1])
        facts = info(here / "t.mayfly")
        same(facts["mode"], "exact")
        check(os.stat(here / "t.mayfly").st_size < 100000, here.files())
        options = ("--focus", "the_allocator")
        for metric, least in (("allocated", count), ("live", 1000)):
            total = harness.report(here / "t.mayfly", "--metric", metric, *options)["total"]
            same(total["blocks"]["estimate"], least, metric)
        same(harness.report(here / "t.mayfly", "--metric", "live", *options)["total"]["bytes"]["estimate"],
             sum(16 + i % 64 for i in range(1000)))
        only_trace(here, "t.mayfly")


@case
def program_is_killed():
    with Folder() as here, Started(here, [compiled(), "until", "x"]) as started:
        os.kill(started.child(), signal.SIGKILL)
        same(started.end().code, 137)
        check(info(here / "t.mayfly")["samples"] >= 10, info(here / "t.mayfly"))
        only_trace(here, "t.mayfly")


class SmallDisk:
    """A file system of so many KiB."""

    def __init__(self, kib):
        self.kib = kib

    def __enter__(self):
        if os.getuid() != 0:
            raise Skip("needs root to mount a small file system")
        self.here = Folder().__enter__()
        done = run(["mount", "-t", "tmpfs", "-o", "size=%dk" % self.kib, "mayfly-test", self.here.path])
        if done.code:
            os.rmdir(self.here.path)
            raise Skip("cannot mount a tmpfs here: %r" % done.err)
        return self.here

    def __exit__(self, *_):
        run(["umount", "-l", self.here.path])
        os.rmdir(self.here.path)


@case
def disk_full_while_mayfly_is_held():
    """The spool takes all space that there is. It makes room for its trace in the end."""
    with SmallDisk(8192) as here, Started(here, [compiled(), "until", here / "go", "3000000"], "-x") as started:
        program = started.child()
        hold(started.process)
        open(here / "go", "w").close()
        wait_until(lambda: state_of(program) == "Z", "the program's end")
        started.process.send_signal(signal.SIGCONT)
        done = started.end()
        same(done.code, 5, done)
        check(1 <= len(done.err.splitlines()) <= 3, done)
        check(b"space" in done.err or b"dropped" in done.err, done)
        facts = info(here / "t.mayfly")
        check(facts["samples"] >= 50000, facts)
        check(facts["complete"], facts)
        only_trace(here, "go", "t.mayfly")


@case
def small_disk_is_enough():
    """The spool would not fit on it as a whole."""
    with SmallDisk(12288) as here:
        done = record([compiled(), "churn", "1"], here / "t.mayfly", "-x")
        same(done.code, 0, done)
        count = int(done.out.split()[1])
        facts = info(here / "t.mayfly")
        lost = count - facts["samples"]
        check(lost <= 0 or done.err, "lost without a word:", lost, done)
        check(facts["complete"], facts)
        only_trace(here, "t.mayfly")


@case
def disk_too_small_for_the_trace():
    """The program ends as it would, what there is stays readable, and a line says so."""
    with SmallDisk(4096) as here:
        done = record([compiled(), "churn", "3"], here / "t.mayfly", "-x")
        check(done.code in (0, 125), done)
        check(done.out.startswith(b"ready\n") and int(done.out.split()[1]) > 0, done)
        check(1 <= len(done.err.splitlines()) <= 4, done)
        check(b"space" in done.err or b"dropped" in done.err, done)
        names = [name for name in here.files() if not name.endswith(".spool")]
        check(names, here.files())
        check(info(names[0])["samples"] >= 50000, info(names[0]))


@case
def disk_too_small_for_the_spool():
    """What is dropped is not for want of --max-spool."""
    with SmallDisk(300) as here:
        done = record([compiled(), "churn", "3"], here / "t.mayfly", "-x")
        same(done.code, 0, done)
        check(b"dropped, as the spool had no space" in done.err and b"--max-spool" not in done.err, done)


@cases([600, 1100, 2200])
def disk_full_before_mayfly_looks(kib):
    """The program has dropped records by the time that the recorder finds the disk full: the cause is the same."""
    with SmallDisk(kib) as here:
        done = record([program("zero")], here / "t.mayfly", "-x")
        same(done.code, 0, done)
        check(b"dropped, as the spool had no space" in done.err and b"--max-spool" not in done.err, done)


@case
def the_loader_runs_the_program():
    """ld.so is an executable without a loader of its own, but it preloads."""
    with Folder() as here:
        loader = "/lib64/ld-linux-x86-64.so.2"
        if not os.path.exists(loader):
            raise Skip("no " + loader)
        done = record([loader, program("privileges"), "blocks"], here / "t.mayfly", "-x")
        same((done.code, done.err), (0, b""), done)
        check(report(here / "t.mayfly", "--metric", "leaked")["total"]["bytes"]["estimate"] >= 12500000)


@case
def disk_full_at_the_start():
    with SmallDisk(512) as here:
        filler = os.open(here / "filler", os.O_WRONLY | os.O_CREAT)
        try:
            while os.write(filler, bytes(4096)):
                pass
        except OSError as error:
            same(error.errno, errno.ENOSPC)
        os.close(filler)
        done = record(["true"], here / "t.mayfly")
        same((done.code, len(done.err.splitlines())), (125, 1), done)
        check(b"No space left" in done.err, done)
        check(not os.path.exists(here / "t.mayfly.spool"), "the spool stays")


@case
def disk_nearly_full():
    """Less than is reserved usually is enough to start with."""
    with SmallDisk(600) as here:
        done = record([compiled(), "blocks", "50", "1000000"], here / "t.mayfly")
        same((done.code, done.out), (0, b"done\n"), done)
        check(info(here / "t.mayfly")["samples"] >= 40, done)


# ---- descriptors ----

@case
def input_is_passed_through():
    with Folder() as here:
        data = bytes(range(256)) * 1000
        done = record(["cat"], here / "t.mayfly", stdin=data)
        same((done.code, done.out == data), (0, True))


@cases(["", "<&-", ">&-", "2>&-", "<&- >&- 2>&-", "7</dev/null"])
def descriptors(redirection):
    """The program has exactly those that it has without mayfly."""
    with Folder() as here:
        program = compiled()
        plain = run(["sh", "-c", "exec %s descriptors %s %s" % (program, here / "plain", redirection)])
        watched = run(["sh", "-c", "exec %s record -o %s -- %s descriptors %s %s" % (
            MAYFLY, here / "t.mayfly", program, here / "watched", redirection)])
        same((watched.code, plain.code), (0, 0), watched)
        with open(here / "plain") as a, open(here / "watched") as b:
            same(b.read(), a.read(), "open descriptors")
        only_trace(here, "plain", "t.mayfly", "watched")


@case
def environment_is_passed_through():
    with Folder() as here:
        for changes in ({}, {"LD_PRELOAD": harness.library("libz.so.1")}):
            command = ["env", "-0"]
            plain = run(command, env=environment(**changes))
            watched = record(command, here / "t.mayfly", env=environment(**changes))
            same(sorted(watched.out.split(b"\0")), sorted(plain.out.split(b"\0")), "environment")


@case
def debug_folder():
    """--debug-dir is searched for separate debug files."""
    need("objcopy", "strip", "readelf")
    with Folder() as here:
        done = run(["gcc", "-g", "-O1", "-fno-builtin", "-w", "-Wl,--build-id", "-x", "c", "-", "-o", here / "prog"],
                   stdin=SOURCE.encode())
        same(done.code, 0, done)
        notes = run(["readelf", "-n", here / "prog"]).out.decode()
        build_id = re.search(r"Build ID: ([0-9a-f]+)", notes).group(1)
        os.makedirs(here / ("debug/.build-id/" + build_id[:2]))
        debug = here / ("debug/.build-id/%s/%s.debug" % (build_id[:2], build_id[2:]))
        same(run(["objcopy", "--only-keep-debug", here / "prog", debug]).code, 0)
        same(run(["strip", here / "prog"]).code, 0)
        for name, options in (("without", []), ("with", ["--debug-dir", here / "debug"])):
            record([here / "prog", "blocks", "50", "1000000"], here / name, *options)
            names = harness.functions_of(here / name, "--metric", "allocated")
            same("the_allocator" in names, name == "with", (name, names))


if __name__ == "__main__":
    try:
        main()
    finally:
        for built in _built.values():
            shutil.rmtree(os.path.dirname(built), ignore_errors=True)
