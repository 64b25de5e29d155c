#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""mayfly attach and detach: a program that runs already is recorded, and runs on."""
import contextlib
import os
import signal
import subprocess

from harness import (AGENT, MAYFLY, PYTHON, TIMEOUT, Folder, Skip, case, cases, check, environment, functions_of, info,
                     main, need, program, report, run, same, wait_until)
from attaching import EXACT, SAMPLED, Subject, is_recorded, need_attach, recorder_of, source
from told import CROWD, Told, crowd_allocated

LIBRARY = os.path.join(os.path.dirname(AGENT), "libmayfly-attach.so")


@contextlib.contextmanager
def started(*command):
    """A program that is not recorded and ends when its standard input does."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env=environment()) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


@contextlib.contextmanager
def told():
    with started(program("told")) as process:
        yield Told(process)
        process.stdin.close()
        same(process.wait(), 0)


@contextlib.contextmanager
def attached(process, *options):
    """mayfly attach, which is told to detach at the end."""
    recorder = recorder_of(process, *options)
    try:
        if recorder.poll() is not None:
            raise AssertionError("the recorder has ended: %s" % recorder.communicate()[1])
        yield recorder
    except BaseException:
        recorder.kill()
        raise
    same(run([MAYFLY, "detach", str(process.pid)]).err, b"")
    err = recorder.communicate(timeout=TIMEOUT)[1]
    same((recorder.returncode, err), (0, b""))


def maps(process):
    with open("/proc/%d/maps" % process.pid) as file:
        return file.read()


def refused(*words):
    with Folder() as here:
        done = run([MAYFLY, "attach", "-o", here / "t.mayfly", *words])
    same((done.code, done.err.count(b"\n")), (1, 1), done)
    return done.err.decode()


def said(text, part):
    check(part in text, text)


@cases(["--exact", "--interval=1"])
def every_block_from_now_on(how):
    """The program's own truth: 30 of 50 blocks of a MB; those from before may be freed."""
    need_attach()
    with Folder() as here, told() as p:
        p.tell("a", 20)
        with attached(p.process, "-o", here / "t.mayfly", how):
            p.tell("b", 30)
            p.tell("f", 5)
            p.tell("-", 1000)
        p.tell("c", 7)
        same(".spool" in maps(p.process), False, "the recording is still mapped")
        allocated = {row["function"]: row["self"]["blocks"]["estimate"] for row in
                     report(here / "t.mayfly", "--metric", "allocated")["rows"]}
        live = {row["function"]: row["self"]["blocks"]["estimate"] for row in
                report(here / "t.mayfly", "--metric", "leaked")["rows"]}
        same((allocated.get("keep_a"), allocated["keep_b"], allocated.get("keep_c")), (None, 30, None))
        same(allocated["churn"], 1000)
        same(live["keep_b"], 25)
        about = info(here / "t.mayfly")
        check("attached while the program ran" in about["note"], about)
        same(about["truncated_stacks"], 0)


@case
def old_blocks_may_go():
    need_attach()
    with Folder() as here, told() as p:
        p.tell("a", 20)
        with attached(p.process, "-o", here / "t.mayfly", "-x"):
            p.tell("f", 20)
            p.tell("b", 1)
        about = info(here / "t.mayfly")
        same((about["samples"], about["missed_frees"]), (1, 0), about)


def oracle_of(command, trace, *options):
    with started(*command) as process:
        same(process.stdout.readline(), b"ready\n")
        for i in range(6):
            how = ["-x"] if i % 2 else ["-i", "16K"]
            done = run([MAYFLY, "attach", "-q", "--force", *how, "--for", "50ms", "--timeout", "60s",
                        "-o", trace, *options, str(process.pid)])
            same((done.code, done.err), (0, b""), "attach number %d" % i)
        process.stdin.write(b"\n")
        process.stdin.close()
        same((process.stdout.read(), process.wait()), (b"good\n", 0))


@cases(["threads", "move", "churn", "fork", "load", "jump"])
def again_and_again(how):
    """Programs that are busy with what is hard stay right, however often something is attached."""
    need_attach()
    with Folder() as here:
        oracle_of([program("busy"), how], here / "t.mayfly")


@case
def a_server_under_load():
    need_attach()
    need("redis-server", "redis-benchmark", "redis-cli")
    with Folder() as here:
        socket = os.path.join(os.fspath(here / "."), "redis")
        with open(here / "log", "w") as log, subprocess.Popen(
                ["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no"],
                stdout=log, cwd=here / ".") as server:
            try:
                wait_until(lambda: os.path.exists(socket), "redis")
                with subprocess.Popen(["redis-benchmark", "-s", socket, "-n", "150000", "-c", "10", "-t",
                                       "set,lpush", "-r", "10000", "--csv"], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE) as load:
                    for i in range(4):
                        done = run([MAYFLY, "attach", "-q", "--force", "-x" if i % 2 else "-i64K", "--for",
                                    "100ms", "-o", here / "t.mayfly", str(server.pid)])
                        same((done.code, done.err), (0, b""), i)
                    out, err = load.communicate()
                    same((load.returncode, out.count(b"\n"), err), (0, 3, b""), out)
            finally:
                run(["redis-cli", "-s", socket, "shutdown", "nosave"])
                server.wait()
        same(server.returncode, 0)
        same(len(info(here / "t.mayfly")["command"]), 1, "arguments that redis writes its title over")
        names = functions_of(here / "t.mayfly", "--metric", "allocated")
        check("processCommand" in names, names)


@case
def lines_of_python():
    need_attach()
    need("python3")
    script = """
import json, sys, threading, time
def work(i):
    while True:
        json.dumps([str(j) for j in range(100)])
        done[i] += 1
done = [0] * 3
for i in range(len(done)):
    threading.Thread(target=work, args=[i], daemon=True).start()
print("ready", flush=True)
for line in sys.stdin:
    enough = [n + 20 for n in done]
    while any(n < least for n, least in zip(done, enough)):
        time.sleep(0.001)
    print("worked", flush=True)
"""
    with Folder() as here:
        with open(here / "app.py", "w") as file:
            file.write(script)
        with started(*PYTHON, os.fspath(here / "app.py")) as process:
            same(process.stdout.readline(), b"ready\n")
            for i in range(6):
                trace = here / ("%d.mayfly" % i)
                with attached(process, "-q", "-o", trace, *(["-x"] if i % 2 else ["-i", "1K"])):
                    process.stdin.write(b"\n")
                    process.stdin.flush()
                    same(process.stdout.readline(), b"worked\n")
                if info(trace)["note"].count("Python frames are unknown"):
                    raise Skip("this Python's frames are unknown")
                text = run([MAYFLY, "report", "--metric", "allocated", "--by", "line", trace]).out
                check(b"app.py:5" in text, text)


@cases(["attach", "detach"])
def killed_at_any_step(what):
    """The program lives on, and can be attached to, whenever the tracer is killed."""
    need_attach()
    with Folder() as here, told() as p:
        settings = "output=%s,pid=%d,interval=65536" % (here / "s.%p.spool", p.process.pid)
        command = [program("attach_steps"), what, str(p.process.pid), LIBRARY, settings]
        for step in range(100):
            if what == "detach":
                run([program("attach_steps"), "attach", str(p.process.pid), LIBRARY, settings, "-1"])
            done = run([*command, str(step)])
            p.tell("a", 1)
            if done.code != 128 + signal.SIGKILL:
                break
            if what == "attach":
                run([program("attach_steps"), "detach", str(p.process.pid), LIBRARY, settings, "-1"])
            for spool in here.files("*.spool"):
                os.unlink(here / spool)
        check(step > 4, "it was killed in", step, "steps")
        run([program("attach_steps"), "detach", str(p.process.pid), LIBRARY, settings, "-1"])
        with attached(p.process, "-o", here / "t.mayfly", "-x"):
            p.tell("b", 3)
        same(info(here / "t.mayfly")["samples"], 3)


def die(recorder):
    recorder.kill()
    recorder.communicate()


@cases(["there", "removed"])
def the_recorder_is_killed(spool):
    """detach ends the recording."""
    need_attach()
    with Folder() as here, told() as p:
        die(recorder_of(p.process, "-x", "-o", here / "t.mayfly"))
        p.tell("a", 3)
        if spool == "removed":
            os.unlink(here / "t.mayfly.spool")
        done = run([MAYFLY, "detach", str(p.process.pid)])
        same((done.code, done.err.count(b"\n"), b"stays in" in done.err), (0, 1, spool == "there"), done)
        p.tell("b", 3)
        same(".spool" in maps(p.process), False, "the recording is still mapped")
        if spool == "there":
            same(info(here / "t.mayfly.spool")["samples"], 3)


@case
def a_program_that_cannot_be_stopped_now():
    """The recording ends at least."""
    need_attach()
    with Folder() as here, told() as p:
        die(recorder_of(p.process, "-x", "-o", here / "t.mayfly"))
        p.tell("a", 3)
        os.kill(p.process.pid, signal.SIGSTOP)
        wait_until(lambda: "T (stopped)" in open("/proc/%d/status" % p.process.pid).read(), "the stop")
        done = run([MAYFLY, "detach", str(p.process.pid)])
        same((done.code, b"switched off" in done.err), (0, True), done)
        os.kill(p.process.pid, signal.SIGCONT)
        p.tell("b", 2)
        same(info(here / "t.mayfly.spool")["samples"], 3)
        same(run([MAYFLY, "detach", str(p.process.pid)]).code, 0)
        same(".spool" in maps(p.process), False, "the recording is still mapped")


@cases(["same file", "same file twice", "other file", "--force"])
def attach_after_a_dead_recorder(how):
    """The next recording begins at once, and a line says where the lost one is."""
    need_attach()
    with Folder() as here, told() as p:
        die(recorder_of(p.process, "-x", "-o", here / "t.mayfly"))
        p.tell("a", 3)
        if how == "same file twice":
            die(recorder_of(p.process, "-x", "-o", here / "t.mayfly"))
            p.tell("a", 4)
        recorder = recorder_of(p.process, "-x", "-o", here / ("u.mayfly" if how == "other file" else "t.mayfly"),
                               *([how] if how[0] == "-" else []))
        p.tell("b", 2)
        same(run([MAYFLY, "detach", str(p.process.pid)]).err, b"")
        err = recorder.communicate()[1]
        same((recorder.returncode, err.count(b"\n"), b"the recorder of the process has died" in err), (0, 1, True), err)
        same(allocated_of(here / ("u.mayfly" if how == "other file" else "t.mayfly"))["keep_b"], 2)
        where = {"other file": {"t.mayfly.spool": 3}, "same file": {"t.old.mayfly.spool": 3}, "--force": {},
                 "same file twice": {"t.old.mayfly.spool": 3, "t.old2.mayfly.spool": 4}}[how]
        same([os.path.basename(name) for name in here.files("*.spool")], list(where))
        for name, samples in where.items():
            same(info(here / name)["samples"], samples)
        if where:
            check(list(where)[-1].encode() in err, "it does not say where", err)


@case
def a_lost_part_keeps_its_keys():
    """Renamed, the part and the spool of a recorder that died are one recording all the same."""
    need_attach()
    with Folder() as here, told() as p:
        recorder = recorder_of(p.process, "-x", "-o", here / "t.mayfly")
        p.tell("-", 1000000)
        wait_until(lambda: os.path.exists(here / "t.mayfly.keys") and os.path.getsize(here / "t.mayfly.part"), "the part")
        die(recorder)
        p.tell("-", 5)
        recorder = recorder_of(p.process, "-x", "-o", here / "t.mayfly")
        p.tell("a", 2)
        same(run([MAYFLY, "detach", str(p.process.pid)]).code, 0)
        recorder.communicate()
        same([os.path.basename(name) for name in here.files()],
             ["t.mayfly"] + ["t.old.mayfly." + ending for ending in ("keys", "part", "spool")])
        same(allocated_of(here / "t.old.mayfly.spool")["churn"], 1000005)
        same(run([MAYFLY, "merge", "-o", here / "t.old.mayfly", here / "t.old.mayfly"]).code, 0)
        same(allocated_of(here / "t.old.mayfly")["churn"], 1000005)


@cases(["attach", "record"])
def files_of_a_recording_that_goes_on(command):
    """--force does not take them."""
    need_attach()
    with Folder() as here, told() as p:
        with attached(p.process, "-x", "-o", here / "t.mayfly"):
            last = str(p.process.pid) if command == "attach" else "true"
            done = run([MAYFLY, command, "--force", "-o", here / "t.mayfly", last])
            same((done.code, done.err.count(b"\n")), (1 if command == "attach" else 125, 1), done)
            p.tell("a", 3)
        same(allocated_of(here / "t.mayfly")["keep_a"], 3)


@case
def a_recorder_that_does_not_answer():
    need_attach()
    with Folder() as here, told() as p:
        recorder = recorder_of(p.process, "-x", "-o", here / "t.mayfly")
        os.kill(recorder.pid, signal.SIGSTOP)
        done = run([MAYFLY, "detach", "--timeout", "2s", str(p.process.pid)])
        same((done.code, b"did not answer" in done.err), (0, True), done)
        p.tell("a", 3)
        same(".spool" in maps(p.process), False, "the recording is still mapped")
        os.kill(recorder.pid, signal.SIGCONT)
        recorder.communicate(timeout=TIMEOUT)


def replace(path):
    with open(path + ".new", "wb") as file:
        file.write(b"precious")
    os.rename(path + ".new", path)


@cases(["removed", "replaced"])
def the_spool_is_taken_away(how):
    """The recorder has it open; a file that has its name is not ours."""
    need_attach()
    with Folder() as here, told() as p:
        with attached(p.process, "-x", "-o", here / "t.mayfly"):
            p.tell("a", 3)
            (os.unlink if how == "removed" else replace)(here / "t.mayfly.spool")
            p.tell("b", 2)
        same(info(here / "t.mayfly")["samples"], 5)
        same([os.path.basename(name) for name in here.files()],
             ["t.mayfly"] + ["t.mayfly.spool"] * (how == "replaced"))


@cases(["C, removed", "C, replaced", "Python, removed"])
def a_recording_ends_by_itself(how):
    """The hooks and wrappers of one that the agent has given up do not get into the way of the next one."""
    need_attach()
    command = [program("answering")] if how[0] == "C" else [*PYTHON, "-W", "ignore", source("answering.py")]
    with Folder() as here:
        s = Subject(command, here)
        try:
            s.start()
            for mode in (EXACT, SAMPLED):
                s.attach(EXACT)
                check(s.lose_recorder(os.unlink if "removed" in how else replace), "the agent goes on")
                if "replaced" in how:
                    with open(s.spool(), "rb") as file:
                        same(file.read(), b"precious", "the file that has the spool's name")
                s.mode = mode
                s.attach_again()
                s.work()
                s.ask("fork", "forked")
            s.finish()
        finally:
            s.stop()


@cases(["goes on", "recorder killed", "detached"])
def a_forked_child(how):
    """It inherits hooks and wrappers, and can be attached to itself."""
    need_attach()
    need("python3")
    script = "import os, sys\nprint('ready', flush=True)\nsys.stdin.readline()\nchild = os.fork()\n" \
             "if child:\n    print(child, flush=True)\n    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n" \
             "for line in iter(sys.stdin.readline, ''):\n    print(len([[i] for i in range(10000)]), flush=True)\n" \
             "sys.exit(5)\n"
    with Folder() as here, started(*PYTHON, "-c", script) as process:
        same(process.stdout.readline(), b"ready\n")
        parent = recorder_of(process, "-x", "-o", here / "p.mayfly")
        process.stdin.write(b"\n")
        process.stdin.flush()
        pid = process.stdout.readline().decode().strip()
        if how == "recorder killed":
            die(parent)
        elif how == "detached":
            same(run([MAYFLY, "detach", str(process.pid)]).err, b"")
        for number, mode in enumerate(["-x", "-i64", "-x"]):
            done = run([MAYFLY, "attach", "-q", mode, "--for", "100ms", "-o", here / ("c%d.mayfly" % number), pid])
            same((done.code, done.err), (0, b""))
            process.stdin.write(b"work\n")
            process.stdin.flush()
            same(process.stdout.readline(), b"10000\n")
        process.stdin.close()
        same(process.wait(), 5)
        parent.communicate(timeout=TIMEOUT)


@case
def tracemalloc_around_the_wrappers():
    """An allocator that keeps a copy of ours must not become the one that ours calls."""
    need_attach()
    need("python3")
    script = "import sys, tracemalloc\nprint('ready', flush=True)\n" \
             "for line in iter(sys.stdin.readline, ''):\n    exec(line)\n" \
             "    print(len([[i] for i in range(10000)]), flush=True)\n"

    def tell(process, line):
        process.stdin.write(line + b"\n")
        process.stdin.flush()
        same(process.stdout.readline(), b"10000\n", line)

    with Folder() as here, started(*PYTHON, "-c", script) as process:
        same(process.stdout.readline(), b"ready\n")
        for number, how in enumerate(["-x", "-i64", "-x"]):
            with attached(process, how, "-o", here / ("t%d.mayfly" % number)):
                tell(process, b"tracemalloc.start()")
            with attached(process, "-x", "-o", here / ("u%d.mayfly" % number)):
                tell(process, b"pass")
                tell(process, b"tracemalloc.stop()")
            tell(process, b"tracemalloc.start()")
            with attached(process, how, "-o", here / ("v%d.mayfly" % number)):
                tell(process, b"pass")
            tell(process, b"tracemalloc.stop()")
        process.stdin.close()
        same(process.wait(), 0)


def allocated_of(trace):
    return {row["function"]: row["self"]["blocks"]["estimate"] for row in
            report(trace, "--metric", "allocated")["rows"]}


@cases(["detach", "end"])
def becomes_another_program(how):
    """An exec: the recording goes on in the next program, from its start."""
    need_attach()
    with Folder() as here, told() as p:
        recorder = subprocess.Popen([MAYFLY, "attach", "-x", "-o", here / "t.mayfly", str(p.process.pid)],
                                    env=environment(), stderr=subprocess.PIPE)
        try:
            wait_until(lambda: is_recorded(p.process), "mayfly to attach")
            p.tell("a", 2)
            for _ in range(2):
                p.process.stdin.write(b"e0\n")
                p.process.stdin.flush()
                same(p.process.stdout.readline(), b"ready\n")
            p.tell("b", 30)
            if how == "detach":
                same(run([MAYFLY, "detach", str(p.process.pid)]).err, b"")
            elif how == "end":
                p.process.stdin.close()
            same((recorder.communicate(timeout=TIMEOUT)[1], recorder.returncode), (b"", 0))
        finally:
            recorder.kill()
        if how == "detach":
            p.tell("c", 1)
        allocated = allocated_of(here / "t.mayfly")
        same((allocated.get("keep_a"), allocated["keep_b"], allocated.get("keep_c")), (None, 30, None))
        check("attached while" not in (info(here / "t.mayfly").get("note") or ""), "it was recorded from its start")
        earlier = [allocated_of(here / name) for name in here.files("t.?*.mayfly")]
        same([one["keep_a"] for one in earlier if "keep_a" in one], [2])


@case
def becomes_a_program_that_cannot_be_recorded():
    need_attach()
    with Folder() as here:
        with started(*PYTHON, "-c", "import os; os.read(0, 1); os.execv(%r, ['static'])" % program("static")) as p:
            recorder = subprocess.Popen([MAYFLY, "attach", "-x", "-o", here / "t.mayfly", str(p.pid)],
                                        env=environment())
            wait_until(lambda: is_recorded(p), "mayfly to attach")
            p.stdin.write(b"x")
            p.stdin.close()
            p.wait()
        same(recorder.wait(TIMEOUT), 0)
        check("attached while" in info(here / "t.mayfly")["note"], "the trace of python3")


@cases(["alone", "--follow"])
def starts_a_program(how):
    """What posix_spawn starts is recorded with --follow."""
    need_attach()
    with Folder() as here, told() as p:
        with attached(p.process, "-x", "-o", here / "t.mayfly", *([how] if how[0] == "-" else [])):
            p.tell("s", 5)
            p.tell("b", 3)
        same(allocated_of(here / "t.mayfly")["keep_b"], 3)
        children = [allocated_of(here / name) for name in here.files("t.?*.mayfly")]
        same([one["keep_a"] for one in children], [5] if how[0] == "-" else [])


@case
def the_program_ends():
    need_attach()
    with Folder() as here:
        with told() as p:
            recorder = subprocess.Popen([MAYFLY, "attach", "-x", "-o", here / "t.mayfly",
                                         str(p.process.pid)], env=environment())
            wait_until(lambda: is_recorded(p.process), "mayfly to attach")
            p.tell("a", 3)
        same(recorder.wait(TIMEOUT), 0)
        same(info(here / "t.mayfly")["samples"], 3)


@case
def sleeps_are_as_long():
    """A wait that the stop interrupts goes on with what is left of it, and does not fail."""
    need_attach()
    script = "import time\nprint('ready', flush=True)\nt = time.monotonic()\ntime.sleep(2)\n" \
             "print('good' if 2 <= time.monotonic() - t else 'short')"
    with Folder() as here, started(*PYTHON, "-c", script) as process:
        same(process.stdout.readline(), b"ready\n")
        done = run([MAYFLY, "attach", "-q", "--for", "1ms", "-o", here / "t.mayfly", str(process.pid)])
        same((done.code, done.err), (0, b""))
        same((process.stdout.read(), process.wait()), (b"good\n", 0))


@case
def refusals():
    need_attach()
    said(refused("999999999"), "there is no such process")
    with started(program("busy"), "traced") as process:
        process.stdout.readline()
        wait_until(lambda: "TracerPid:\t0" not in open("/proc/%d/status" % process.pid).read(), "the tracer")
        said(refused(str(process.pid)), "traces it already")
        process.stdin.close()
    with started(program("busy"), "filter") as process:
        process.stdout.readline()
        wait_until(lambda: "Seccomp:\t2" in open("/proc/%d/status" % process.pid).read(), "the filter")
        said(refused(str(process.pid)), "seccomp")
        process.stdin.close()
    with started(program("busy"), "jump") as process:
        process.stdout.readline()
        os.kill(process.pid, signal.SIGSTOP)
        wait_until(lambda: "T (stopped)" in open("/proc/%d/status" % process.pid).read(), "the stop")
        said(refused(str(process.pid)), "it is stopped")
        os.kill(process.pid, signal.SIGCONT)
        process.stdin.close()
    same(run([MAYFLY, "attach", "no-number"]).code, 2)
    same(run([MAYFLY, "detach", str(os.getpid())]).code, 1)


@case
def an_executable_with_its_own_malloc():
    """What helps is said: mayfly record."""
    need_attach()
    need("gcc")
    with Folder() as here:
        with open(here / "p.c", "w") as file:
            file.write("#include <stddef.h>\nstatic char room[1 << 22];\nstatic size_t used;\n"
                       "void *malloc(size_t n) { size_t at = used; used += (n + 15) & ~15ul; return room + at; }\n"
                       "void free(void *p) { (void)p; }\n"
                       "int getchar(void);\nint puts(const char *);\nint fflush(void *);\n"
                       "int main(void) { puts(\"ready\"); fflush(0); return getchar() == 0; }\n")
        same(run(["gcc", "-rdynamic", "-fno-builtin", here / "p.c", "-o", here / "p"]).code, 0)
        with started(here / "p") as process:
            process.stdout.readline()
            text = refused(str(process.pid))
            said(text, "brings its own malloc")
            said(text, "'mayfly record' sees all calls of jemalloc and tcmalloc")
            process.stdin.close()


@case
def recorded_already():
    need_attach()
    with Folder() as here:
        with told() as p, attached(p.process, "-o", here / "t.mayfly"):
            said(refused(str(p.process.pid)), "already being recorded")
        with started(MAYFLY, "record", "-q", "-o", here / "r.mayfly", program("busy"), "churn") as recorder:
            recorder.stdout.readline()
            inside = int(open("/proc/%d/task/%d/children" % (recorder.pid, recorder.pid)).read().split()[0])
            said(refused(str(inside)), "mayfly ctl")
            done = run([MAYFLY, "detach", str(inside)])
            same((done.code, b"mayfly record" in done.err), (1, True), done)
            recorder.stdin.close()


@case
def no_bytes_lost_between():
    """Threads that were recorded before keep their place; nothing is lost where an attachment begins. A
    thread that lost half an interval at each would take away 30 % of all; the standard error is under 2 %."""
    need_attach()
    with Folder() as here, started(program("crowd"), str(CROWD)) as process:
        crowd = Told(process)
        traces = [here / ("%d.mayfly" % i) for i in range(8)]
        for i, trace in enumerate(traces):
            with attached(process, "-q", "-i", "8K" if i % 2 else "64K", "-o", trace):
                crowd.tell("a", 60)
            crowd.tell("b", 50 * i)
        process.stdin.close()
        same(process.wait(), 0)
        crowd_allocated(traces, 8 * 60)
        crowd_allocated(traces, 0, "site_b")


@case
def another_users():
    need_attach()
    need("setpriv")
    if os.geteuid():
        raise Skip("needs root")
    with Folder() as here, told() as p:
        done = run(["setpriv", "--reuid", "65534", "--clear-groups", MAYFLY, "attach", "-o", "/tmp/none",
                    str(p.process.pid)])
        if b"Permission denied" in done.err:
            raise Skip("another user does not see mayfly")
        same((done.code, b"belongs to user root" in done.err), (1, True), done)


if __name__ == "__main__":
    main()
