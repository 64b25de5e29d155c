# SPDX-License-Identifier: Apache-2.0
"""What the Python tests share: test cases that print TAP, and running mayfly.

A test file defines functions marked @case and ends with main(). A case fails by any exception
(use check() and same() for readable ones) and is skipped by raising Skip.
The build directory is in MAYFLY_BUILD (default: build, next to tests).
"""
import contextlib
import ctypes
import functools
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.abspath(os.environ.get("MAYFLY_BUILD", os.path.join(SOURCE, "build")))
MAYFLY = os.path.join(BUILD, "src", "cli", "mayfly")
AGENT = os.path.join(BUILD, "src", "agent", "libmayfly.so")
PROGRAMS = os.path.join(BUILD, "tests")
LIBRARIES = "/usr/lib/x86_64-linux-gnu/"
# A Python that does on every machine the same: what packages and users have it run at its start
# (.pth files, sitecustomize) allocates, too, even in a file called <string>. Not -E, as PYTHONMALLOC counts;
# environment() leaves out what the user has set.
PYTHON = ["/usr/bin/python3", "-S"]
# Ends what hangs, with a message, before whoever runs all tests gives up. No time limit decides a
# test: the longest command takes two minutes, on a busy machine five.
TIMEOUT = 20 * 60
# Ends a case that waits otherwise, as for a line that nobody writes any more. Those that repeat something take
# MAYFLY_ROUNDS times as long.
CASE_TIMEOUT = (TIMEOUT + 5 * 60) * int(os.environ.get("MAYFLY_ROUNDS", "1"))

# Whoever started us in the background may have these ignored, and programs would inherit that.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
    signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)

_cases = []


class Skip(Exception):
    """This cannot be tested here; the argument says why."""


class Hang(BaseException):
    """A case goes on for too long. The trace of calls says where it waits."""


def case(function):
    _cases.append((function.__name__, function))
    return function


def cases(arguments):
    """One case for each argument: @cases(["a", "b"]) def each(word): ..."""
    def add(function):
        for argument in arguments:
            name = "%s %s" % (function.__name__, argument)
            _cases.append((name, lambda argument=argument: function(argument)))
        return function
    return add


def patient(function):
    """For tests of what looks at a program from time to time: the program waits PAUSE_MS for it, and
    where that was too short for a slow machine, the case runs again with a longer pause."""
    @functools.wraps(function)
    def attempts(*arguments):
        for pause in (500, 5000, 50000):
            os.environ["PAUSE_MS"] = str(pause)
            try:
                return function(*arguments)
            except Skip:
                raise
            except Exception:  # what was not seen yet may also be missed by what reads it
                if pause == 50000:
                    raise
        return None
    return attempts


def wait_until(condition, what, pause=0.01):
    end = time.monotonic() + TIMEOUT
    while not condition():
        check(time.monotonic() < end, "waited in vain for", what)
        time.sleep(pause)


def descendants(pid):
    """Also those that another thread than the first has started."""
    for task in glob.glob("/proc/%d/task/*/children" % pid):
        with contextlib.suppress(OSError), open(task) as file:
            for child in [int(word) for word in file.read().split()]:
                yield child
                yield from descendants(child)


def state_of(pid):
    """As ps shows it: T is stopped, Z has ended."""
    with open("/proc/%d/stat" % pid) as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def waits_of(pid):
    """How often a process has waited for something so far."""
    with open("/proc/%d/status" % pid) as file:
        return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", file.read(), re.MULTILINE).group(1))


def let_it_look(pid, times=3):
    """Returns when a process that waits in a loop has been round so often: it has seen what there is to be
    seen now. Or when it cannot go on, which is for the caller to check."""
    before = waits_of(pid)
    wait_until(lambda: state_of(pid) in "TZX" or waits_of(pid) >= before + times, "process %d to look" % pid)


class Readers:
    """Counts how often others have read a file, also one of /proc, which is how a recorder looks at a process."""
    IN_CLOSE_NOWRITE = 0x10

    def __init__(self, path):
        self.path = path
        self.count = 0

    def __enter__(self):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK)
        self.file = open(self.path, "rb")  # or /proc might make another inode for it
        check(self.fd >= 0 and libc.inotify_add_watch(self.fd, os.fsencode(self.path), self.IN_CLOSE_NOWRITE) >= 0,
              "inotify:", os.strerror(ctypes.get_errno()))
        return self

    def __exit__(self, *_):
        os.close(self.fd)
        self.file.close()

    def wait(self, times):
        """Until it was read so often more. Readings that follow each other may be one event, so none is counted
        twice."""
        end = self.count + times

        def read_so_often():
            try:
                self.count += len(os.read(self.fd, 4096)) // 16  # an event without a name
            except BlockingIOError:
                pass
            return self.count >= end

        wait_until(read_so_often, "%s to be read" % self.path)


def check(condition, *message):
    if not condition:
        raise AssertionError(" ".join(str(m) for m in message) or "check failed")


def same(got, expected, what=""):
    if got != expected:
        raise AssertionError("%s: got %s, expected %s" % (what, shorten(got), shorten(expected)))


def shorten(value, limit=3000):
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "... (%d characters)" % len(text)


def newest_clang():
    """Its name: that of the newest version, of one that can fuzz if there is such a one."""
    versions = {path[len("/usr/bin/clang-"):] for path in glob.glob("/usr/bin/clang-[0-9]*")}
    fuzzer = "/usr/lib/llvm-%s/lib/clang/*/lib/linux/libclang_rt.fuzzer*"
    return "clang-" + max(versions, key=lambda n: (bool(glob.glob(fuzzer % n)), float(n))) if versions else "clang"


CLANG = newest_clang()


def need(*programs):
    for program in programs:
        if not shutil.which(program, path="/usr/bin:/bin:/usr/sbin:/sbin"):
            raise Skip(program + " is not installed")


def cpu_seconds():
    """What this process and its children that have ended took."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def end_case(*_):
    """Kills what the case has started, too, or its clean-up would wait for that."""
    for pid in list(descendants(os.getpid())):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    raise Hang("still running after %d s" % CASE_TIMEOUT)


def main():
    """Runs the cases whose name contains one of the words of the command line, or all."""
    words = sys.argv[1:]
    chosen = [c for c in _cases if not words or any(word in c[0] for word in words)]
    failures = 0
    signal.signal(signal.SIGALRM, end_case)
    print("1..%d" % len(chosen))
    for number, (name, function) in enumerate(chosen, 1):
        # One line, without what TAP has before a directive.
        name = " ".join(name.replace("#", "(hash)").split())
        begin, cpu_begin = time.monotonic(), cpu_seconds()
        signal.setitimer(signal.ITIMER_REAL, CASE_TIMEOUT, 60)
        try:
            function()
            print("ok %d - %s" % (number, name))
        except Skip as skip:
            print("ok %d - %s # SKIP %s" % (number, name, skip))
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            failures += 1
            text = str(error) if isinstance(error, AssertionError) and str(error) \
                else traceback.format_exc()
            print("not ok %d - %s" % (number, name))
            for line in text.splitlines():
                print("# " + line)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if time.monotonic() - begin > 5:
            print("# %s took %.1f s, %.1f s of CPU" % (name, time.monotonic() - begin, cpu_seconds() - cpu_begin))
        sys.stdout.flush()
    sys.exit(1 if failures else 0)


class Folder:
    """A temporary folder, removed at the end of a `with`."""

    def __init__(self):
        self.path = None

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="mayfly-test.")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def __truediv__(self, name):
        return os.path.join(self.path, name)

    def files(self, pattern="*"):
        return sorted(glob.glob(os.path.join(self.path, pattern)))


# What mayfly keeps of names. Each test file begins without.
CACHE = tempfile.TemporaryDirectory(prefix="mayfly-test.")


def environment(**changes):
    """A plain environment: what leads a program to other files or modes is left out."""
    result = {k: v for k, v in os.environ.items()
              if not k.startswith(("LD_", "MAYFLY", "PYTHON", "PERL", "NODE_", "JAVA_", "OCAMLRUNPARAM", "CAMLRUNPARAM",
                                   "MALLOC_", "ASAN_", "UBSAN_", "GIT_", "RUST_", "DEBUGINFOD_"))
              and k not in ("TERM", "COLUMNS", "LINES")}
    result["PATH"] = "/usr/bin:/bin:/usr/sbin:/sbin"
    result["LC_ALL"] = "C.UTF-8"
    result["MAYFLY_PAGER"] = ""
    result["XDG_CACHE_HOME"] = CACHE.name
    for name, value in changes.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = value
    return result


class Run:
    """A finished program: out, err (bytes), code (128+N when signal N ended it, as in a shell)."""

    def __init__(self, out, err, code):
        self.out, self.err, self.code = out, err, code

    def __repr__(self):
        return "exit status %d, output %s, errors %s" % (self.code, shorten(self.out, 1500),
                                                         shorten(self.err, 1500))


def run(command, env=None, cwd=None, stdin=b"", timeout=TIMEOUT, preexec_fn=None):
    process = subprocess.Popen(command, env=env or environment(), cwd=cwd, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               start_new_session=True, preexec_fn=preexec_fn)
    try:
        out, err = process.communicate(stdin, timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError("still running after %d s: %s\noutput so far: %s %s" % (
            timeout, " ".join(command), shorten(out), shorten(err)))
    code = process.returncode
    return Run(out, err, 128 - code if code < 0 else code)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def record(command, trace, *options, **how):
    """Runs command under mayfly record. How: as run()."""
    return run([MAYFLY, "record", "-o", trace, *options, "--", *command], **how)


def unchanged(command, trace, *options, normalise=lambda text: text, **how):
    """Runs command with and without mayfly and checks that the program behaves the same."""
    plain = run(command, **how)
    watched = record(command, trace, *options, **how)
    same(watched.code, plain.code, "exit status (%r)" % watched)
    same(normalise(watched.out), normalise(plain.out), "output")
    same(normalise(watched.err), normalise(plain.err), "error output")
    return watched


def mayfly(*arguments, code=0, lines=0, stdin=b""):
    """Runs mayfly; checks the exit status and how many lines it says on standard error."""
    result = run([MAYFLY, *arguments], stdin=stdin)
    same(result.code, code, "exit status of mayfly %s (%r)" % (" ".join(arguments), result))
    same(result.err.count(b"\n"), lines, "lines on standard error of %s (%r)" % (arguments, result))
    result.text = result.out.decode("utf-8", "replace")
    result.message = result.err.decode("utf-8", "replace")
    return result


def as_json(*arguments):
    result = run([MAYFLY, *arguments])
    check(result.code == 0, "mayfly", " ".join(arguments), result)
    return json.loads(result.out)


def info(trace):
    return as_json("info", "--json", trace)


def report(trace, *options):
    return as_json("report", "--json", *options, trace)


def unfolded(trace, *options):
    """The same without folding libraries into their callers, as exports have their stacks."""
    return report(trace, "--mine", os.path.join(SOURCE, "tests", "all_is_mine"), *options)


def sane(trace, samples=1, allow_drops=False):
    """Checks that a trace holds together; returns its info."""
    check(os.path.exists(trace), "no trace", trace)
    facts = info(trace)
    check(facts["samples"] >= samples, "only", facts["samples"], "samples, expected", samples)
    check(facts["frees"] <= facts["samples"], "more frees than samples", facts)
    check(facts["duration_ns"] >= 0, "ends before it begins", facts)
    check("damaged" not in facts, "written damaged:", facts.get("damaged"))
    if not allow_drops:
        # Another tool's file does not say.
        foreign = bool(facts.get("absent"))
        same(facts["dropped_samples"], None if foreign else 0, "dropped samples")
        same(facts["missed_frees"], None if foreign else 0, "missed frees")
    live = report(trace, "--metric", "live")
    peak = report(trace, "--metric", "peak")
    allocated = report(trace, "--metric", "allocated")
    live, peak, allocated = (r["total"]["bytes"]["estimate"] for r in (live, peak, allocated))
    slack = 1 + allocated * 1e-9
    check(0 <= live <= peak + slack, "live at the end", live, "is above the peak", peak)
    # What a forked child inherits is live, but not allocated.
    check(peak <= allocated + slack or facts["inherited"], "peak", peak, "is above allocated",
          allocated)
    if facts["interval_bytes"] == 1 and not allow_drops:
        remaining = report(trace, "--metric", "live")["total"]["samples"]
        same(facts["frees"], facts["samples"] - remaining, "frees, given samples and live at end")
    if facts["samples"] < 50000:
        dump = run([MAYFLY, "dump", trace])
        check(dump.code == 0, "dump:", dump.err)
    return facts


def rows(trace, *options):
    """{function: row} of a report by function."""
    return {row["function"]: row for row in report(trace, "--by", "function", *options)["rows"]}


def program(name):
    path = os.path.join(PROGRAMS, name)
    if not os.path.exists(path):
        raise Skip(name + " was not built")
    return path


def library(name):
    path = LIBRARIES + name
    if not os.path.exists(path) and name == "libmimalloc.so.2":
        path = LIBRARIES + "libmimalloc.so.3"  # Debian 13's
    if not os.path.exists(path):
        raise Skip(name + " is not installed")
    return path


def deviation(found, truth, stderr):
    """How many standard errors an estimate is off. Where chance finds little, the error that is stated with
    it is small, too, so that 4 of these come far more often than of the errors around the truth; the larger
    one of the two counts."""
    return (found - truth) / max(1, stderr, stderr * (truth / found) ** .5 if found else 0)


def functions_of(trace, *options):
    text = json.dumps(report(trace, "--by", "function", *options)["rows"])
    return set(re.findall(r'"function": "([^"]*)"', text))
