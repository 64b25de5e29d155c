#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that behave badly (tests/programs/ugly.c) under `mayfly record`: what they print and how
they end must be as without it, and the trace must hold together."""
import os
import resource
import shutil
import signal
import stat
import subprocess

import harness
from harness import (AGENT, Folder, MAYFLY, Skip, as_json, case, cases, check, environment, info,
                     main, need, program, record, report, rows, run, same, sane, unchanged, wait_until)


def ugly(trace, name, *arguments, interval="1", cxx=False, options=(), **how):
    """Runs a case with and without mayfly."""
    command = [program("ugly_cxx" if cxx else "ugly"), name, *arguments]
    return unchanged(command, trace, "-i", interval, *options, **how)


def need_root():
    if os.geteuid() != 0:
        raise Skip("needs root")


# ---- cases that need nothing but to be run; with the samples expected at interval 1 ----

PLAIN = {
    "vfork_exec": 1000, "vfork_allocates": 4000, "spawn": 1000, "end_return": 1000,
    "end_exit": 1000, "end_quick": 1000, "end_now": 1000, "end_abort": 1000, "end_killed": 10000,
    "end_terminated": 1000, "end_crash": 1000, "end_thread_exits": 1000,
    "end_main_thread_first": 1000, "signal_wait": 1600, "signal_stack": 9000, "signal_fault": 200,
    "many_threads": 300000, "wide_threads": 19200, "thread_keys": 30000, "thread_cancel": 200,
    "threads_exchange": 80000, "names": 1300, "coroutines": 10000, "deep": 300, "alloca": 3980,
    "odd_frames": 2200, "jit": 50, "stack_limit": 1300, "churn": 1000, "limit_memory": 20000,
    "close_range": 50000, "sandbox": 1000, "errors": 10, "sizes": 150, "tuning": 5000,
    "nothing": 0,
}
ENDS = {"end_abort": 128 + signal.SIGABRT, "end_killed": 128 + signal.SIGKILL,
        "end_terminated": 128 + signal.SIGTERM, "end_crash": 128 + signal.SIGSEGV,
        "end_return": 3, "end_exit": 4, "end_quick": 5, "end_now": 6, "end_thread_exits": 7}


@cases(sorted(PLAIN))
def exact(name):
    with Folder() as here:
        watched = ugly(here / "t.mayfly", name)
        same(watched.code, ENDS.get(name, 0), "exit status")
        # A sandbox may end the recording, and then says so; it must not end the program.
        sane(here / "t.mayfly", PLAIN[name], allow_drops=name == "sandbox")


@cases(sorted(PLAIN))
def sampled(name):
    with Folder() as here:
        ugly(here / "t.mayfly", name, interval="4K")
        sane(here / "t.mayfly", 0, allow_drops=name == "sandbox")


@cases(["thread_locals", "new_forms", "bad_alloc", "exceptions", "uncaught"])
def cxx(name):
    with Folder() as here:
        for number, interval in enumerate(("1", "1K")):
            trace = here / ("%d.mayfly" % number)
            watched = ugly(trace, name, cxx=True, interval=interval)
            same(watched.code, 128 + signal.SIGABRT if name == "uncaught" else 0, "exit status")
            sane(trace, 200 if interval == "1" else 0)


@cases(["1", "512"])
def poisson(interval):
    with Folder() as here:
        ugly(here / "t.mayfly", "threads_exchange", interval=interval,
             options=["--sampler", "poisson"])
        sane(here / "t.mayfly", 1000)


@case
def rust():
    with Folder() as here:
        watched = unchanged([program("blocks_rs")], here / "t.mayfly", "-i", "1")
        check(b"panicked" in watched.err, watched)
        sane(here / "t.mayfly", 10000)
        names = set(rows(here / "t.mayfly", "--sort", "total"))
        for function in ("blocks::make_lines", "blocks::inner::keep_table"):
            check(any(function in name for name in names), function, "not in", sorted(names)[:50])


# ---- processes ----

@case
def fork_while_threads_allocate():
    with Folder() as here:
        for number in range(3):
            trace = here / ("%d.mayfly" % number)
            ugly(trace, "fork_threads")
            sane(trace, 2000)
            same(here.files("%d.*.mayfly" % number), [], "traces of children without --follow")


def own_bytes(trace, function, *options):
    """What a function itself has allocated of a metric."""
    row = rows(trace, "--frames=all", *options).get(function)
    return row["self"]["bytes"]["estimate"] if row else 0


def children_of(here, name):
    return [f for f in here.files(name + ".*.mayfly") if f != here / (name + ".mayfly")]


@case
def fork_followed():
    """Each child gets a trace that begins with what it inherited."""
    with Folder() as here:
        ugly(here / "t.mayfly", "fork_threads", options=["--follow"])
        parent = sane(here / "t.mayfly", 2000)
        children = children_of(here, "t")
        same(len([c for c in children if "churn_until_stopped" in rows(c, "--metric", "live") or
                  info(c)["command"] == parent["command"]]), 24, "traces of forked children")
        for child in children:
            facts = sane(child, 0)
            check(facts["pid"] != parent["pid"], "pid of the child", facts)
            check(str(facts["pid"]) in os.path.basename(child), "name", child, facts["pid"])
            if facts["command"] == parent["command"]:
                # 500 allocations of churn(), and the block inherited from fork_threads().
                by_name = rows(child, "--metric", "allocated")
                check(by_name["churn"]["self"]["blocks"]["estimate"] >= 500, by_name["churn"])
                same(own_bytes(child, "fork_threads", "--metric", "live", "--at", "0"), 1000,
                     "inherited")
                same(own_bytes(child, "fork_threads", "--metric", "live"), 0, "freed by the child")


@case
def fork_chain_followed():
    with Folder() as here:
        ugly(here / "t.mayfly", "fork_chain", options=["--follow"])
        traces = [here / "t.mayfly"] + children_of(here, "t")
        same(len(traces), 6, "traces")
        inherited = sorted(own_bytes(t, "fork_chain", "--metric", "live", "--at", "0")
                           for t in traces)
        # Child n inherits 1000 + 2000 + ... + n * 1000 bytes.
        same(inherited, [sum(1000 * k for k in range(1, n + 1)) for n in range(6)], "inherited")
        for trace in traces:
            sane(trace, 100)
            same(own_bytes(trace, "fork_chain", "--metric", "live"), 0, "live at the end")


@cases(["vfork_exec", "spawn"])
def children_followed(name):
    with Folder() as here:
        ugly(here / "t.mayfly", name, options=["--follow"])
        sane(here / "t.mayfly", 1000)
        children = children_of(here, "t")
        check(len(children) >= 30, "only", len(children), "traces of children")
        for child in children:
            facts = sane(child, 0)
            check("ugly" not in facts["command"][0], "trace of a child before its exec:", facts)


@case
def exec_of_itself():
    """The trace is that of the program which was asked for, or of the last; it must be one."""
    with Folder() as here:
        watched = ugly(here / "t.mayfly", "exec_self")
        same(watched.code, 5, "exit status")
        sane(here / "t.mayfly", 2000)
        watched = ugly(here / "f.mayfly", "exec_self", options=["--follow"])
        for trace in here.files("f*.mayfly"):
            sane(trace, 2000)


@case
def exec_by_a_thread():
    with Folder() as here:
        ugly(here / "t.mayfly", "exec_threads")
        sane(here / "t.mayfly", 100)


@case
def daemon():
    with Folder() as here:
        plain = run([program("ugly"), "daemonise", here / "plain"])
        watched = record([program("ugly"), "daemonise", here / "watched"], here / "t.mayfly",
                         "-i", "1")
        same((watched.code, watched.out, watched.err), (plain.code, plain.out, plain.err), "daemon")
        sane(here / "t.mayfly", 100)
        wait_until(lambda: all(os.path.exists(here / f) and os.path.getsize(here / f) == 7
                               for f in ("plain", "watched")), "the daemon's file")


# ---- signals over an allocator that allows them ----

@cases(["signal_storm", "signal_flood"])
def handlers_that_allocate(name):
    with Folder() as here:
        for number, interval in enumerate(("1", "64", "4K")):
            trace = here / ("%d.mayfly" % number)
            # The allocator maps its memory in the handler: those events may be dropped, and a line
            # says so; they have tests of their own.
            ugly(trace, name, interval=interval, options=["--map-events", "off"],
                 env=environment(LD_PRELOAD=program("bump_malloc.so")))
            facts = sane(trace, 1000 if interval == "1" else 1)
            if interval == "1" and not facts.get("nested_blocks"):
                names = rows(trace, "--metric", "allocated")
                check("allocate_in_handler" in names, "the handler's blocks are not seen")


# ---- libraries ----

@cases(["libraries", "libraries_threads"])
def dlopen_and_dlclose(name):
    with Folder() as here:
        for number, interval in enumerate(("1", "1K")):
            trace = here / ("%d.mayfly" % number)
            ugly(trace, name, program("plugin_1.so"), program("plugin_2.so"), interval=interval)
            sane(trace, 1000 if interval == "1" else 10)
            if interval != "1":
                continue
            # Both libraries were at the same addresses in turn: names must not be mixed up.
            by_name = rows(trace, "--metric", "allocated")
            each = 2000 if name == "libraries" else 300
            for function in ("plugin_first", "plugin_second"):
                same(by_name[function]["self"]["blocks"]["estimate"], each, function)
            size = 1000 if name == "libraries" else 50
            stacks = report(trace, "--metric", "allocated", "--by", "stack", "--frames=all")["rows"]
            for row in stacks:
                names = [place["function"] for place in row["stack"]]
                if names[0] in ("plugin_first", "plugin_second"):
                    above = names[1:] if names[0] == "plugin_first" else names[6:]
                    expected = ["plugin_make",
                                "libraries" if name == "libraries" else "churn_libraries"]
                    same(above[:2], expected, "callers of " + names[0])
            check(size, "")


@cases(["early.so", "early_ifunc.so"])
def malloc_before_main(name):
    """As the library's neighbour in LD_PRELOAD, ours before and behind it."""
    with Folder() as here:
        ugly(here / "t.mayfly", "churn", "2000", env=environment(LD_PRELOAD=program(name)))
        sane(here / "t.mayfly", 2200)
        begin = rows(here / "t.mayfly", "--metric", "allocated", "--sort", "total").get("begin")
        check(begin is not None, "the constructor's blocks are not seen")
        check(begin["self"]["blocks"]["estimate"] >= 200, begin)
        plain = run([program("ugly"), "churn", "2000"])
        for order in ((AGENT, program(name)), (program(name), AGENT)):
            watched = run([program("ugly"), "churn", "2000"], env=environment(
                LD_PRELOAD=" ".join(order), MAYFLY="interval=1,output=" + (here / "h.spool")))
            same((watched.code, watched.out, watched.err), (plain.code, plain.out, plain.err),
                 "preloaded by hand")
            spools = here.files("h*")
            same(len(spools), 1, "spools")
            sane(spools[0], 2000)
            os.unlink(spools[0])


SMALL_STACK = b"""
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
static ucontext_t scheduler, coroutine;
static void *volatile kept;
static void run(void)
{
	kept = malloc(1 << 20);
	free(kept);
	kept = mmap(0, 2 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(kept, 2 << 20);
}
int main(void)
{
	char *pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(pages, 4096, PROT_NONE);
	getcontext(&coroutine);
	coroutine.uc_stack.ss_sp = pages + 4096;
	coroutine.uc_stack.ss_size = 4096;
	coroutine.uc_link = &scheduler;
	makecontext(&coroutine, run, 0);
	swapcontext(&scheduler, &coroutine);
	puts("fine");
	return 3;
}
"""


@case
def small_stack():
    """A coroutine of one page, in which the agent meets the program's code for the first time."""
    need("gcc")
    with Folder() as here:
        made = run(["gcc", "-O1", "-x", "c", "-", "-o", here / "p", "-Wl,-z,now"], stdin=SMALL_STACK)
        same((made.code, made.err), (0, b""), "compiling")
        watched = unchanged([here / "p"], here / "t.mayfly")
        same(watched.code, 3, "exit status")
        sane(here / "t.mayfly", 1)


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@case
def valgrind():
    """Its malloc takes the place of any. What we have mapped must not slow its search for leaks."""
    need("valgrind", "gcc")
    with Folder() as here:
        made = run(["gcc", "-x", "c", "-", "-o", here / "p"],
                   stdin=b"#include <stdlib.h>\nvoid *kept;\n"
                         b"int main(void) { kept = malloc(100); kept = 0; return 3; }\n")
        same(made.code, 0, "compiling")
        command = ["valgrind", "-q", "--leak-check=full", "--error-exitcode=9", here / "p"]
        cost, plain = cpu_seconds(), run(command)
        cost = cpu_seconds() - cost
        same(plain.code, 9, "exit status")
        own_cost = cpu_seconds()
        watched = run(command, env=environment(LD_PRELOAD=AGENT, MAYFLY="output=" + (here / "%p.spool")))
        own_cost = cpu_seconds() - own_cost
        check(own_cost < 20 * cost, "it took", own_cost, "s of CPU time, and without us", cost)
        same((watched.code, watched.out), (plain.code, plain.out), "preloaded by hand")


@case
def audited():
    """With LD_AUDIT the loader has little room left for the thread-local variables of libraries."""
    need("gcc")
    with Folder() as here:
        made = run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", here / "audit.so"],
                   stdin=b"unsigned la_version(unsigned version) { return version; }\n")
        same(made.code, 0, "compiling")
        watched = record([program("ugly"), "churn"], here / "t.mayfly", "-i", "1",
                         env=environment(LD_AUDIT=here / "audit.so"))
        same((watched.code, watched.err), (0, b""), "with LD_AUDIT")
        sane(here / "t.mayfly", 1000)


@case
def own_dlsym():
    """A program that stands in for dlsym, through which the agent must not look for malloc."""
    need("gcc")
    with Folder() as here:
        made = run(["gcc", "-w", "-x", "c", "-", "-o", here / "p"],
                   stdin=b"#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdlib.h>\n"
                         b"void *dlsym(void *h, const char *name) {\n"
                         b"void *(*next)(void *, const char *) = dlvsym(RTLD_NEXT, \"dlsym\", \"GLIBC_2.34\");\n"
                         b"return next(h, name); }\n"
                         b"int main(void) { free(malloc(100)); return dlsym(RTLD_DEFAULT, \"puts\") ? 3 : 4; }\n")
        same((made.code, made.err), (0, b""), "compiling")
        watched = unchanged([here / "p"], here / "t.mayfly", "-i", "1")
        same(watched.code, 3, "exit status")


# ---- programs that cannot be watched ----

def not_watched(command, **how):
    """The program runs as ever, and mayfly says in one line that it could not look."""
    with Folder() as here:
        plain = run(command, **how)
        watched = record(command, here / "t.mayfly", "-i", "1", **how)
        same(watched.code, plain.code, "exit status (%r)" % watched)
        same(watched.out, plain.out, "output")
        lines = watched.err.decode().splitlines()
        same(len(lines), 1, "one line from mayfly: %r" % watched.err)
        check(lines[0].startswith("mayfly"), lines)
        return lines[0]


@case
def static_program():
    check("static" in not_watched([program("static"), "x"]))


@case
def address_sanitizer():
    """Its runtime ends a program in which another library was loaded before it."""
    with Folder() as here:
        made = run(["gcc", "-fsanitize=address", "-x", "c", "-", "-o", here / "p"],
                   stdin=b"#include <stdlib.h>\n#include <stdio.h>\n"
                         b"int main(void) { free(malloc(100000)); puts(\"fine\"); return 3; }\n")
        if made.code:
            raise Skip("gcc has no AddressSanitizer here")
        not_watched([here / "p"])


@case
def setuid_program():
    need_root()
    with Folder() as here:
        os.chmod(here.path, 0o755)
        copy = here / "setuid"
        shutil.copy(program("plain"), copy)
        os.chown(copy, 65534, 65534)
        os.chmod(copy, 0o4755 | stat.S_ISUID)
        plain = run([copy])
        if plain.out != b"- 0\n":
            raise Skip("setuid is without effect here (nosuid)")
        text = not_watched([copy])
        check("setuid" in text or "privilege" in text or "secure" in text, text)


@case
def script_and_missing():
    with Folder() as here:
        with open(here / "script", "w") as file:
            file.write("#!/bin/sh\necho $0 $*; exit 9\n")
        os.chmod(here / "script", 0o755)
        watched = unchanged([here / "script", "a", "b c"], here / "t.mayfly", "-i", "1")
        same(watched.code, 9, "exit status")
        sane(here / "t.mayfly", 1)
        same(record([here / "nowhere"], here / "n.mayfly").code, 127, "not found")
        same(record([here.path], here / "n.mayfly").code, 126, "not executable")


# ---- limits ----

def limited(which, value):
    return lambda: resource.setrlimit(which, (value, value))


@case
def limit_memory_before():
    """200 MB of address space from the first instruction on."""
    with Folder() as here:
        plain = run([program("ugly"), "churn", "20000"],
                    preexec_fn=limited(resource.RLIMIT_AS, 200 << 20))
        command = ["sh", "-c", "ulimit -v 204800; exec %s churn 20000" % program("ugly")]
        watched = record(command, here / "t.mayfly", "-i", "1")
        same((watched.code, watched.out, watched.err), (plain.code, plain.out, plain.err),
             "under ulimit -v")
        sane(here / "t.mayfly", 1, allow_drops=True)


@cases(["0", "1000000", "65536"])
def limit_file_size(value):
    """The limit must hit nobody by surprise: SIGXFSZ would kill the program."""
    with Folder() as here:
        ugly(here / "t.mayfly", "limit_file_size", value)
        if os.path.exists(here / "t.mayfly"):
            facts = sane(here / "t.mayfly", 0, allow_drops=True)
            check(facts["samples"] + facts["dropped_samples"] > 0, facts)


@cases(["1024", "0"])
def limit_file_size_before(blocks):
    with Folder() as here:
        command = ["sh", "-c", "ulimit -f %s; exec %s churn 100000" % (blocks, program("ugly"))]
        unchanged(command, here / "t.mayfly", "-i", "1")
        sane(here / "t.mayfly", 0, allow_drops=True)


@cases(["3", "0", "4"])
def limit_descriptors(value):
    with Folder() as here:
        ugly(here / "t.mayfly", "limit_files", value)
        sane(here / "t.mayfly", 50000)


@case
def limit_descriptors_before():
    """With no descriptor to be had the agent may stay off; the program must not notice."""
    with Folder() as here:
        program("ugly")
        for limit in ("3", "4", "5", "8"):
            # Without dlopen there is a file to open before the loader is done: the agent and libc
            # need one more descriptor than 0, 1 and 2. With less even a plain program fails.
            command = ["sh", "-c", "ulimit -n %s; exec %s churn 50000" % (limit, program("ugly"))]
            if run(command).code != 0:
                continue
            unchanged(command, here / (limit + ".mayfly"), "-i", "1")


@case
def closes_all_descriptors():
    with Folder() as here:
        watched = record([program("ugly"), "close_all", here / "mine"], here / "t.mayfly", "-i", "1")
        same((watched.code, watched.out, watched.err), (0, b"", b""), "exit status and output")
        with open(here / "mine", "rb") as file:
            same(file.read(), b"mine alone\n", "the program's file")
        sane(here / "t.mayfly", 70000)


@case
def standard_descriptors_closed():
    """Started without any descriptor open, the program gets 0 for its first own."""
    with Folder() as here:
        command = ["sh", "-c", "exec %s close_all %s <&- >&- 2>&-" % (program("ugly"), here / "m")]
        watched = record(command, here / "t.mayfly", "-i", "1")
        same((watched.code, watched.out, watched.err), (0, b"", b""), "exit status and output")
        with open(here / "m", "rb") as file:
            same(file.read(), b"mine alone\n", "the program's file")


@case
def wiped_environment():
    with Folder() as here:
        ugly(here / "t.mayfly", "wipe_environment")
        sane(here / "t.mayfly", 2000)
        ugly(here / "f.mayfly", "wipe_environment", options=["--follow"])
        sane(here / "f.mayfly", 2000)


@case
def changed_directory():
    with Folder() as here:
        os.mkdir(here / "elsewhere")
        watched = unchanged([program("ugly"), "change_directory", "elsewhere"], "t.mayfly",
                            "-i", "1", cwd=here.path)
        same(watched.code, 0, "exit status")
        sane(here / "t.mayfly", 20000)
        same(os.listdir(here / "elsewhere"), [], "files in the program's new folder")


@case
def changed_root():
    need_root()
    with Folder() as here:
        os.mkdir(here / "empty")
        ugly(here / "t.mayfly", "change_root", here / "empty")
        sane(here / "t.mayfly", 100000)
        same(os.listdir(here / "empty"), [], "files in the program's new root")


@case
def dropped_rights():
    need_root()
    with Folder() as here:
        ugly(here / "t.mayfly", "drop_rights")
        sane(here / "t.mayfly", 100000)


@case
def sandbox_by_system_call():
    with Folder() as here:
        ugly(here / "t.mayfly", "sandbox", "syscall")
        sane(here / "t.mayfly", 1000, allow_drops=True)


@case
def disk_full():
    """A file system of 1 MB: the recording ends and says why, the program goes on."""
    need_root()
    need("mount", "umount")
    with Folder() as here:
        os.mkdir(here / "small")
        if run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", here / "small"]).code != 0:
            raise Skip("cannot mount a tmpfs")
        try:
            for count in ("1000", "300000"):
                trace = os.path.join(here / "small", count + ".mayfly")
                plain = run([program("ugly"), "churn", count])
                watched = record([program("ugly"), "churn", count], trace, "-i", "1")
                same((watched.code, watched.out), (plain.code, plain.out), "the program")
                if count == "1000":
                    sane(trace, 1000)
                    os.unlink(trace)
                else:
                    check(watched.err, "not a word of the full disk")
            try:
                with open(os.path.join(here / "small", "fill"), "wb", buffering=0) as file:
                    while True:
                        file.write(b"x" * 4096)
            except OSError:
                pass
            watched = record([program("ugly"), "churn", "1000"],
                             os.path.join(here / "small", "none.mayfly"), "-i", "1")
            check(watched.code in (0, 125), "on a disk that is full already", watched)
        finally:
            run(["umount", here / "small"])


@case
def output_cannot_be_written():
    with Folder() as here:
        watched = record([program("ugly"), "churn"], here / "no/such/folder/t.mayfly")
        same((watched.code, watched.out), (125, b""), "exit status, and the program was not run")
        check(b"no/such/folder" in watched.err, watched)


# ---- ends of the recorder ----

def start_recorder(trace, *command):
    return subprocess.Popen([MAYFLY, "record", "-i", "1", "-o", trace, "--", *command],
                            env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, start_new_session=True)


def child_of(pid):
    """The recorded program, once it runs."""
    found = []

    def look():
        with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
            for child in file.read().split():
                try:
                    if "ugly" in os.path.basename(os.readlink("/proc/%s/exe" % child)):
                        found.append(int(child))
                except OSError:
                    pass
        return found

    wait_until(look, "the program to be started")
    return found[0]


def program_of(pid):
    """Which program a process runs; None: it has ended."""
    try:
        return os.path.basename(os.readlink("/proc/%d/exe" % pid))
    except OSError:
        return None


@case
def recorder_killed():
    """The spool remains, with what has been read of it so far, and every command reads both."""
    with Folder() as here:
        left = [here / "t.mayfly"]
        while left == [here / "t.mayfly"]:  # the program had ended already
            recorder = start_recorder(here / "t.mayfly", program("ugly"), "many_threads")
            child = child_of(recorder.pid)
            wait_until(lambda: program_of(child) in ("ugly", None), "the program")
            recorder.kill()
            recorder.communicate()
            wait_until(lambda: not os.path.exists("/proc/%d" % child), "the program's end without its recorder")
            left = sorted(str(f) for f in here.files())
            if left == [here / "t.mayfly"]:
                os.unlink(here / "t.mayfly")
        # What had been read by then is in the other file.
        check([f.rsplit(".", 1)[1] for f in left] in (["spool"], ["part", "spool"]), "files left:", left)
        texts = [run([MAYFLY, "report", f]) for f in left if os.path.getsize(f)]
        check(all(text.code == 0 for text in texts), texts)
        check(any(b"churn" in text.out for text in texts), texts)
        if len(left) == 1:
            sane(left[0], 10000)


@case
def signals_passed_on():
    """SIGTERM to mayfly ends the program, and the trace is written."""
    with Folder() as here:
        for number in (signal.SIGTERM, signal.SIGHUP):
            trace = here / ("%d.mayfly" % number)
            recorder = start_recorder(trace, "sh", "-c", "echo ready; exec sleep 9999")
            recorder.stdout.readline()
            recorder.send_signal(number)
            recorder.communicate(timeout=harness.TIMEOUT)
            code = recorder.returncode
            same(code if code >= 0 else 128 - code, 128 + number, "exit status")
            info(trace)


@case
def interrupted_from_the_terminal():
    """Ctrl-C reaches the whole group: the program ends by it, the trace is written."""
    with Folder() as here:
        recorder = start_recorder(here / "t.mayfly", "sh", "-c", "echo ready; exec sleep 9999")
        recorder.stdout.readline()
        os.killpg(recorder.pid, signal.SIGINT)
        recorder.communicate(timeout=harness.TIMEOUT)
        code = recorder.returncode
        same(code if code >= 0 else 128 - code, 128 + signal.SIGINT, "exit status")
        info(here / "t.mayfly")


@case
def read_while_it_runs():
    """The spool of a running program is readable at any time."""
    with Folder() as here:
        variables = environment(LD_PRELOAD=AGENT, MAYFLY="interval=1,output=" + (here / "s.spool"))
        process = subprocess.Popen([program("ugly"), "many_threads"], env=variables,
                                   stdout=subprocess.DEVNULL)
        try:
            seen = []
            while process.poll() is None and len(seen) < 8:
                spools = here.files()
                if spools:
                    seen.append(info(spools[0])["samples"])
                    wait_until(lambda: process.poll() is not None or info(spools[0])["samples"] != seen[-1],
                               "other samples")
            check(seen and seen == sorted(seen), "samples seen while it ran:", seen)
        finally:
            process.wait(harness.TIMEOUT)
        facts = sane(here.files()[0], 300000)
        check(facts["samples"] >= seen[-1], facts, seen)


@case
def names_of_threads():
    with Folder() as here:
        ugly(here / "t.mayfly", "names")
        found = {row["thread"] for row in report(here / "t.mayfly", "--by", "thread", "--metric",
                                                 "allocated")["rows"]}
        text = " ".join(str(name) for name in found)
        check("ugly main" in text and "ugly second" in text, found)


@case
def deep_stacks():
    """100,000 frames: leaf and root part are there, and what is missing is said."""
    with Folder() as here:
        ugly(here / "t.mayfly", "deep")
        stacks = report(here / "t.mayfly", "--by", "stack", "--metric", "allocated", "--frames=all")["rows"]
        deepest = max(stacks, key=lambda row: len(row["stack"]))
        names = [place["function"] for place in deepest["stack"]]
        check(len(names) >= 1024, "only", len(names), "frames")
        check(names[:2] == ["churn", "descend"] or names[0] == "descend", "leaf", names[:5])
        check("descend_far" in names, "root", names[-5:])
        facts = info(here / "t.mayfly")
        same(facts["truncated_stacks"], 0, "stacks without their root")


@case
def coroutine_stacks():
    """Coroutines' stacks are complete up to their first function."""
    with Folder() as here:
        ugly(here / "t.mayfly", "coroutines")
        stacks = report(here / "t.mayfly", "--by", "stack", "--metric", "allocated")["rows"]
        inside = [[p["function"] for p in row["stack"]] for row in stacks
                  if row["stack"][0]["function"] == "nest"]
        check(inside, "no allocation inside of a coroutine was seen")
        for names in inside:
            check("run_coroutine" in names, names)
            check("coroutines" not in names[:names.index("run_coroutine")], names)


@case
def generated_code():
    """No unwind information: the stack is marked as truncated, or goes on rightly; never wrong."""
    with Folder() as here:
        ugly(here / "t.mayfly", "jit")
        stacks = report(here / "t.mayfly", "--by", "stack", "--metric", "allocated")["rows"]
        unknown = [row for row in stacks if row["stack"][0]["function"].startswith("0x")]
        check(unknown, "no stack begins in code without a name")
        facts = info(here / "t.mayfly")
        known = any("jit" == place["function"] for row in unknown for place in row["stack"])
        check(known or facts["truncated_stacks"] >= 50, facts)


@case
def by_hand():
    """LD_PRELOAD and MAYFLY set by hand, %p in the output, an unknown key."""
    with Folder() as here:
        plain = run([program("ugly"), "churn", "5000"])
        watched = run([program("ugly"), "churn", "5000"], env=environment(
            LD_PRELOAD=AGENT, MAYFLY="nonsense=3,interval=1,output=%s/a.%%p.spool" % here.path))
        same((watched.code, watched.out, watched.err), (plain.code, plain.out, plain.err), "program")
        files = here.files()
        same(len(files), 1, "files")
        facts = sane(files[0], 5000)
        check(str(facts["pid"]) in os.path.basename(files[0]), files)
        text = run([MAYFLY, "info", files[0]])
        check(b"nonsense" in text.out + text.err, "the unknown key is not reported", text)


@case
def yes_and_no_by_hand():
    """Each setting that is yes or no takes the same words, and what is neither is noted in the report."""
    with Folder() as here:
        for number, (word, exact) in enumerate((("1", True), ("yes", True), ("ON", True), ("true", True),
                                                ("0", False), ("off", False), ("No", False), ("false", False))):
            spool = here / ("%d.spool" % number)
            run([program("ugly"), "churn", "500"], env=environment(LD_PRELOAD=AGENT, MAYFLY=(
                "exact=%s,follow=%s,runtime_events=%s,attached=0,python=%s,ruby=%s,output=%s" % ((word,) * 5 + (spool,)))))
            facts = info(spool)
            same((facts["mode"], facts["note"]), ("exact" if exact else "sampled", None), word)
        for key in ("exact", "follow", "runtime_events", "attached", "python", "ruby"):
            spool = here / (key + ".spool")
            run([program("ugly"), "churn", "500"], env=environment(
                LD_PRELOAD=AGENT, MAYFLY="%s=maybe,output=%s" % (key, spool)))
            check(b"bad value in MAYFLY: %s=maybe" % key.encode() in run([MAYFLY, "report", spool]).out, key)
            made = here / (key + ".mayfly")
            recorded = run([MAYFLY, "record", "-o", made, "--", program("ugly"), "churn", "500"],
                           env=environment(MAYFLY=key + "=maybe"))
            check(b"%s" % key.encode() in recorded.err and b"maybe" in recorded.err and recorded.code == 125
                  if not os.path.exists(made) else "%s=maybe" % key in info(made)["note"], key, recorded)
        for word in ("true", "On", "yes", "1"):
            made = here / (word + ".mayfly")
            run([MAYFLY, "record", "-o", made, "--", program("ugly"), "churn", "500"],
                env=environment(MAYFLY="exact=" + word))
            same(info(made)["mode"], "exact", word)


@case
def dormant():
    """start=dormant: no sample, and no disturbance."""
    with Folder() as here:
        plain = run([program("ugly"), "churn", "5000"])
        watched = run([program("ugly"), "churn", "5000"], env=environment(
            LD_PRELOAD=AGENT, MAYFLY="start=dormant,interval=1,output=" + (here / "d.spool")))
        same((watched.code, watched.out, watched.err), (plain.code, plain.out, plain.err), "program")
        same(as_json("info", "--json", here.files()[0])["samples"], 0, "samples")


@cases(["-x", "--interval=64"])
def a_return_address_that_is_none(option):
    """The stack ends there, and no record is lost."""
    with Folder() as here:
        unchanged([program("cut_stack")], here / "t.mayfly", option)
        facts = sane(here / "t.mayfly", 3000)
        check(facts["complete"], "the spool was damaged")
        check(facts["truncated_stacks"] >= 3000, "only", facts["truncated_stacks"], "stacks are cut")
        check("allocate" in rows(here / "t.mayfly", "--metric", "allocated"), "the frame before is not known")
        text = " ".join(run([MAYFLY, "report", here / "t.mayfly"]).out.decode().split())
        check("lack their root part: the walk ended in allocate (cut_stack); most often" in text, text)


if __name__ == "__main__":
    main()
