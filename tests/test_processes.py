#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Many processes, short ones, those in namespaces, and those that the agent cannot be loaded into."""
import fcntl
import os
import re
import shutil
import struct
import subprocess

import harness
from harness import (AGENT, MAYFLY, PYTHON, Folder, Readers, Skip, as_json, case, cases, check, descendants, deviation,
                     environment, info, main, need, program, read, record, report, run, same, wait_until)

NAMESPACE = ["unshare", "-Ur", "-p", "-f", "--mount-proc"]


def namespaces():
    need("unshare")
    if run(NAMESPACE + ["/bin/true"]).code:
        raise Skip("no namespaces may be made here")


@cases([1, 3])
def pid_namespaces(count):
    """Their processes have numbers that others have here: the recording ends all the same."""
    namespaces()
    with Folder() as here:
        script = "for i in %s; do %s /bin/bash -c '/bin/true; exit 0'; done" % (
            " ".join(str(i) for i in range(count)), " ".join(NAMESPACE))
        done = record(["sh", "-c", script], here / "t.mayfly", "--follow", "-x")
        same((done.code, done.err), (0, b""))
        same([name for name in here.files() if not name.endswith(".mayfly")], [], "left")
        commands = [info(trace)["command"] for trace in here.files()]
        same(commands.count(["/bin/true"]), count, commands)


@case
def pid_namespace_that_is_waited_for():
    """A process of a namespace that outlives the program."""
    namespaces()
    with Folder() as here:
        script = "%s bash -c 'while ! test -e %s; do sleep .05; done; exit 0' & exit 0" % (
            " ".join(NAMESPACE), here / "go")
        recorder = subprocess.Popen([MAYFLY, "record", "-q", "-f", "-o", here / "t.mayfly", "--", "bash", "-c", script],
                                    env=environment(), stderr=subprocess.PIPE)
        wait_until(lambda: any(b"test -e" in harness.read(path) for path in here.files("*.1.*spool")), "the namespace")
        check(recorder.poll() is None, "did not wait")
        open(here / "go", "w").close()
        same((recorder.communicate(timeout=harness.TIMEOUT)[1], recorder.returncode), (b"", 0))
        same([name for name in here.files("t*") if not name.endswith(".mayfly")], [], "left")


@case
def children_end_one_by_one():
    """A child's trace has its name and its functions while the others run, and its spool is gone."""
    with Folder() as here:
        os.mkfifo(here / "go")
        script = "%s --version > %s; read word < %s; exit 0" % (MAYFLY, here / "out", here / "go")
        with subprocess.Popen([MAYFLY, "record", "-q", "-f", "-x", "-o", here / "t.mayfly", "--", "bash", "-c", script],
                              env=environment()) as recorder:
            try:
                def first():
                    return [t for t in here.files("t.*.mayfly") if info(t)["command"][0] == MAYFLY]
                wait_until(first, "the child's trace")
                check(recorder.poll() is None, "the program has ended")
                facts = info(first()[0])
                wait_until(lambda: not here.files("t.mayfly.%d.*" % facts["pid"]), "the end of its spool")
                check("main" in harness.functions_of(first()[0], "--metric", "allocated", "--all", "--top", "0",
                                                     "--sort", "total"), "no names")
            finally:
                with open(here / "go", "w") as go:
                    go.write("on\n")
            same(recorder.wait(harness.TIMEOUT), 0)
        same([name for name in here.files("t*") if not name.endswith(".mayfly")], [], "left")


def most_memory(here, count):
    """The largest RSS of a recorder whose program runs that many children with much DWARF, in KiB."""
    folder = here / str(count)
    os.mkdir(folder)
    recorder = subprocess.Popen([MAYFLY, "record", "-q", "-f", "-x", "-o", folder + "/t.mayfly", "--", "bash", "-c",
                                 "for ((i = 0; i < %d; i++)); do %s --version; done" % (count, MAYFLY)],
                                env=environment(), stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(recorder.pid, 0)
    same(status, 0)
    check(any(info(folder + "/" + name)["command"] == [MAYFLY, "--version"]
              for name in os.listdir(folder)), "no trace of a child")
    same(len([name for name in os.listdir(folder) if not name.endswith(".mayfly")]), 0, "left")
    return usage.ru_maxrss


@case
def memory_of_many_children():
    """mayfly's own does not grow with their number: it was 2 MB for each."""
    with Folder() as here:
        few, many = most_memory(here, 20), most_memory(here, 200)
        print("# %d KiB with 20, %d KiB with 200" % (few, many))
        check(many < few + 40 * 1024, few, "KiB with 20 children,", many, "KiB with 200")


@cases(["followed", "alone"])
def execs_of_the_program(how):
    """Each image of the program has a trace, however many follow; nothing else is left."""
    script = "/bin/true; exec nice nice nice sh -c exit"
    options = ["-f"] if how == "followed" else []
    with Folder() as here:
        done = record(["bash", "-c", script], here / "t.mayfly", "-x", *options)
        same((done.code, done.out, done.err), (0, b"", b""))
        files = here.files()
        same([name for name in files if not name.endswith(".mayfly")], [], "left")
        pid = info(here / "t.mayfly")["pid"]
        images = here.files("t.%d.*.mayfly" % pid)
        same(len(images), 4, files)
        for image in images:
            same(info(image)["ending"]["reason"], "exec", image)


@cases(["", "-x"])
def second_image_seen_first(option):
    """A listing of the folder has missed a child's first spool: its second image stays the last one."""
    with Folder() as here:
        os.mkfifo(here / "go")
        with subprocess.Popen([MAYFLY, "record", "-q", "-f", *option.split(), "-o", here / "t.mayfly", "--",
                               "bash", "-c", "(exec cat %s); exit 0" % (here / "go")],
                              env=environment(LD_PRELOAD=program("late_listing.so")), stderr=subprocess.PIPE) as recorder:
            def opened():
                links = "/proc/%d/fd" % recorder.pid
                return any(re.search(r"\.1\.spool$", os.readlink(links + "/" + fd)) for fd in os.listdir(links)
                           if os.path.lexists(links + "/" + fd))
            try:
                wait_until(opened, "the second image")
            finally:
                open(here / "go", "w").close()
            same((recorder.communicate(timeout=harness.TIMEOUT)[1], recorder.returncode), (b"", 0))
        traces = here.files("t.*.mayfly")
        last, = [trace for trace in traces if re.search(r"/t\.\d+\.mayfly$", trace)]
        same((info(last)["command"][0], info(last)["ending"]["reason"]), ("cat", "exited"), traces)


@cases(["followed", "alone"])
def library_that_is_not_there(how):
    """A program that chroot has led away from the agent starts without a word of ld.so. mayfly says so."""
    need("chroot", "unshare", "ldd")
    if run(["unshare", "-Ur", "/bin/true"]).code:
        raise Skip("no namespaces may be made here")
    with Folder() as here:
        root = here / "root"
        for path in ["/bin/true"] + [word for word in run(["ldd", "/bin/true"]).out.decode().split() if word[0] == "/"]:
            os.makedirs(root + os.path.dirname(path), exist_ok=True)
            shutil.copy(path, root + path)
        options = ["--follow"] if how == "followed" else []
        done = record(["unshare", "-Ur", "chroot", root, "/bin/true"], here / "t.mayfly", *options)
        same(done.code, 0)
        check(re.fullmatch(rb"mayfly: process \d+: by exec it became '/bin/true', of which nothing is recorded: .*\n",
                           done.err), done)


@cases(["exec", "spawn"])
def another_libc(how):
    """musl's loader would refuse the agent, and end."""
    need("musl-gcc")
    with Folder() as here:
        with open(here / "p.c", "w") as file:
            file.write('#include <stdio.h>\nint main(void) { return puts("runs") < 0; }\n')
        same(run(["musl-gcc", here / "p.c", "-o", here / "p"]).code, 0)
        with open(here / "script", "w") as file:
            file.write("#!%s\n" % (here / "p"))
        os.chmod(here / "script", 0o755)
        program = "import os; os.waitpid(os.posix_spawn('%s', ['p'], os.environ), 0)"
        for name in ("p", "script"):
            command = ["sh", "-c", "%s; exit 0" % (here / name)]
            if how == "spawn":
                command = [*PYTHON, "-c", program % (here / name)]
            done = record(command, here / "t.mayfly", "--follow")
            same((done.code, done.out, done.err), (0, b"runs\n", b""), name)


ENDINGS = """
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void none(void) {}

int main(int count, char **word)
{
	free(malloc(1000));
	if (!strcmp(word[1], "main"))
		return 3;
	if (!strcmp(word[1], "exit"))
		exit(0x104);
	if (!strcmp(word[1], "handlers")) {
		for (int i = 0; i < 100; i++)
			atexit(none);
		exit(5);
	}
	if (!strcmp(word[1], "_exit"))
		_exit(6);
	if (!strcmp(word[1], "_Exit"))
		_Exit(7);
	if (!strcmp(word[1], "quick_exit"))
		quick_exit(8);
	if (!strcmp(word[1], "fork")) {
		if (!fork()) {
			free(malloc(1000));
			_exit(9);
		}
		wait(NULL);
		exit(10);
	}
	/* The child of a vfork has the memory of its parent. */
	if (!vfork())
		_exit(77);
	wait(NULL);
	while (count == 3 && access(word[2], F_OK))
		usleep(10000);
	kill(getpid(), SIGTERM);
}
"""


def program_of_endings(here):
    with open(here / "p.c", "w") as file:
        file.write(ENDINGS)
    same(run(["cc", "-w", "-o", here / "p", here / "p.c"]).code, 0)
    return here / "p"


def endings(here, program):
    """{the child's word: how it ended}, of all whose command is the program."""
    found = {}
    for trace in here.files("*.mayfly"):
        facts = info(trace)
        if facts["command"][0] == program:
            found.setdefault(facts["command"][1], []).append((facts["ending"]["reason"], facts["ending"]["code"]))
    return {word: sorted(which) for word, which in found.items()}


@case
def exit_status_of_children():
    """However they exit, and however short they are."""
    expected = {"main": [3], "exit": [4], "handlers": [5], "_exit": [6], "_Exit": [7], "quick_exit": [8], "fork": [9, 10]}
    with Folder() as here:
        program = program_of_endings(here)
        script = "; ".join("%s %s" % (program, word) for word in expected) + "; exit 0"
        done = record(["sh", "-c", script], here / "t.mayfly", "-q", "--follow", "-x")
        same((done.code, done.err), (0, b""))
        same(endings(here, program), {word: [("exited", code) for code in codes] for word, codes in expected.items()})
        rows = as_json("report", "--json", here.path)["processes"]
        for codes in expected.values():
            for code in codes:
                check("exit %d" % code in [row["ended_by"] for row in rows], code, rows)


@case
def children_that_a_signal_ends():
    """The first one ends before mayfly can see it, the second one when it is watched."""
    with Folder() as here:
        program = program_of_endings(here)
        script = "%s vfork; %s vfork %s; exit 0" % (program, program, here / "go")

        def watched():
            """The recorder has stored its own number, after it has opened the process."""
            return [spool for spool in here.files("t.mayfly.*.spool")
                    if b"/go\0" in harness.read(spool)[:65536] and harness.read(spool)[204:208] != bytes(4)]

        with subprocess.Popen([MAYFLY, "record", "-q", "-f", "-x", "-o", here / "t.mayfly", "--", "sh", "-c", script],
                              env=environment(), stderr=subprocess.DEVNULL) as recorder:
            try:
                wait_until(watched, "the second child")
            finally:
                open(here / "go", "w").close()
            same(recorder.wait(harness.TIMEOUT), 0)
        found = endings(here, program)["vfork"]
        same(len(found), 2, found)
        check(set(found) <= {("killed", 15), ("ended", 0)}, found)
        if kernel_keeps_status():
            check(("killed", 15) in found, found)


def kernel_keeps_status():
    """Linux 6.15 and later: a pidfd tells how the process ended, also when its parent has waited for it."""
    child = os.posix_spawn("/bin/true", ["true"], os.environ)
    fd = os.pidfd_open(child)
    os.waitpid(child, 0)
    try:
        return fcntl.ioctl(fd, 0xc040ff0b, struct.pack("<Q56x", 8))[0] & 8
    except OSError:
        return False
    finally:
        os.close(fd)


@case
def exit_status_without_a_recorder():
    with Folder() as here:
        program = program_of_endings(here)
        done = run([program, "main"], env=environment(LD_PRELOAD=AGENT, MAYFLY="output=%s" % (here / "t")))
        same((done.code, done.err), (3, b""))
        spool, = here.files("t*")
        same(info(spool)["ending"], {"reason": "exited", "code": 3})


def of_function(trace, function):
    """Allocated: its row, or what stands in place of one."""
    for row in report(trace, "--metric", "allocated", "--top", "0", "--all")["rows"]:
        if row["function"] == function:
            return row["self"]
    return {"bytes": {"estimate": 0, "stderr": 0}, "blocks": {"estimate": 0}, "samples": 0}


def record_clones(here, how, children, blocks, *options):
    """The traces of the parent and of its children."""
    same(record([program("clones"), how, str(children), str(blocks)], here / "t.mayfly", "-q", *options).code, 0)
    return here / "t.mayfly", here.files("t.*.mayfly")


OWN_MEMORY = ["clone", "syscall", "clone3", "fork", "_Fork", "asm"]
LATE = "made by a system call that mayfly does not see"


@cases(OWN_MEMORY)
def children_that_libc_does_not_know(how):
    """Each block is in the trace of the process that allocated it, and each process has one."""
    with Folder() as here:
        parent, children = record_clones(here, how, 5, 300, "--follow", "-x")
        same([of_function(parent, name)["blocks"]["estimate"] for name in ("parent_block", "child_block")], [500, 0])
        same([of_function(child, "child_block")["blocks"]["estimate"] for child in children], 5 * [300])
    with Folder() as here:
        parent, children = record_clones(here, how, 5, 0, "--follow")
        same([LATE in (info(child)["note"] or "") for child in children], 5 * [how == "asm"], "without a block")
    with Folder() as here:
        parent, children = record_clones(here, how, 5, 300, "-x")
        same((of_function(parent, "child_block")["blocks"]["estimate"], children), (0, []), "not followed")


@cases([how for how in OWN_MEMORY if how != "asm"])
def samples_in_such_children(how):
    """They draw for themselves, and lose nothing where they begin."""
    with Folder() as here:
        _, children = record_clones(here, how, 80, 100, "--follow", "-i", "64K", "--sampler", "poisson")
        same(len(children), 80)
        rows = [of_function(child, "child_block") for child in children]
        truth, found = 80 * 100 * 1000, sum(row["bytes"]["estimate"] for row in rows)
        score = deviation(found, truth, sum(row["bytes"]["stderr"] ** 2 for row in rows) ** .5)
        check(abs(score) < 4, found, truth, score)


@cases(["shared", "thread", "vfork"])
def children_in_the_memory_of_their_parent(how):
    with Folder() as here:
        parent, children = record_clones(here, how, 5, 300, "--follow", "-x")
        same((of_function(parent, "child_block")["blocks"]["estimate"], children), (1500, []))


TITLE = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **word)
{
	char *go = strdup(word[1]), *end = word[count - 1] + strlen(word[count - 1]);

	free(malloc(1000));
	memset(word[0], 0, (size_t)(end - word[0]));
	strcpy(word[0], "worker: idle");
	while (access(go, F_OK))
		usleep(10000);
	if (count == 3)
		execl("/bin/true", "true", "other", NULL);
	return 0;
}
"""


def titled(parent, title):
    """The process below this one that calls itself so."""
    found = []

    def look():
        for pid in descendants(parent):
            try:
                if read("/proc/%d/cmdline" % pid).startswith(title):
                    found.append(pid)
            except OSError:
                pass
        return found

    wait_until(look, "a process %r" % title)
    return found[0]


@cases(["", "exec"])
def title_of_a_child(how):
    """What a child has called itself, but not the arguments of what replaced it."""
    with Folder() as here:
        with open(here / "p.c", "w") as file:
            file.write(TITLE)
        same(run(["cc", "-w", "-o", here / "p", here / "p.c"]).code, 0)
        script = "%s %s %s; exit 0" % (here / "p", here / "go", how)
        with subprocess.Popen([MAYFLY, "record", "-q", "-f", "-x", "-o", here / "t.mayfly", "--", "sh", "-c", script],
                              env=environment()) as recorder:
            worker = titled(recorder.pid, b"worker: idle")
            with Readers("/proc/%d/cmdline" % worker) as readers:
                readers.wait(2)  # what was read first was kept when it is read again
            open(here / "go", "w").close()
            same(recorder.wait(harness.TIMEOUT), 0)
        traces = here.files("t*.mayfly")
        same({info(trace).get("title") for trace in traces}, {None, "worker: idle"})
        own, = [trace for trace in traces if info(trace).get("title")]
        same(info(own)["command"][0], here / "p")
        check(b"worker: idle" in run([MAYFLY, "info", own]).out, own)
        check(b"worker: idle" in run([MAYFLY, "report", *traces]).out, traces)
        rows = as_json("report", "--json", *traces)["processes"]
        same([row["title"] for row in rows if row["file"] == own], ["worker: idle"])


@cases(["", "-f"])
def empty_preload(option):
    """LD_PRELOAD that is set and empty stays so."""
    with Folder() as here:
        for value, expected in (("", b"LD_PRELOAD=\n"), (None, b"")):
            done = record(["sh", "-c", "exec env | grep ^LD_PRELOAD"], here / "t.mayfly", *option.split(),
                          env=environment(LD_PRELOAD=value))
            if option:
                check(done.out.startswith(b"LD_PRELOAD=" + AGENT.encode()), done)
            else:
                same(done.out, expected, "LD_PRELOAD %r" % value)


main()
