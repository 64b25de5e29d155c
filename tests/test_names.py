#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Names from elsewhere than symbol tables and debug files: maps of code made at run time, the small
symbol tables in stripped programs."""
import os
import platform
import re
import subprocess

from harness import (MAYFLY, SOURCE, TIMEOUT, Folder, Skip, case, cases, check, environment, info, main, mayfly,
                     need, program, record, report, run, same, wait_until)


def need_code():
    if platform.machine() not in ("x86_64", "aarch64"):
        raise Skip("the program writes code of x86-64 and arm64")


def forget(out, folder):
    """Removes the files whose names a program has printed."""
    for path in out.decode().split():
        if os.path.exists(os.path.join(folder, path)):
            os.unlink(os.path.join(folder, path))


def record_jit(here, *options):
    done = run([MAYFLY, "record", "-x", "-o", here / "t.mayfly", "--", program("jit_map"), *options],
               cwd=here / ".")
    forget(done.out, here / ".")
    same(done.code, 0, repr(done))
    return here / "t.mayfly"


def named(trace):
    """All functions made at run time have their names, and the line in the last one."""
    rows = {row["function"]: row for row in
            report(trace, "--metric", "leaked", "--by", "function")["rows"]}
    for name in ("make_block", "compiled", "plain_compiled", "moved"):
        check(name in rows, "no", name, "in", sorted(rows))
        same(rows[name]["total"]["bytes"]["estimate"], 100 * 1000, name)
    check(rows["main"]["total"]["bytes"]["estimate"] >= 100 * 1000, "not whole")
    check("replaced later" not in rows, "an old name is used")
    for name in ("compiled", "plain_compiled", "moved"):
        same(rows[name]["module"], "[jit]", name)
    lines = mayfly("report", "--metric", "leaked", "--by", "line", "--sort", "total",
                   "--frames=all", "--all", trace).out.decode()
    check("my app.js:12" in lines, "no line", lines)
    same(info(trace)["truncated_stacks"], 0, "truncated stacks")
    return lines


HANDLER = """
#include <signal.h>
#include <stdlib.h>
static char *volatile keep[100];
static volatile int count;
static void grow(void) { keep[count++] = malloc(100000); }
static void handler(int number) { (void)number; grow(); }
static void work(void) { for (int i = 0; i < 100; i++) raise(SIGUSR1); }
int main(void) { signal(SIGUSR1, handler); work(); return count != 100; }
"""


@case
def blocks_of_a_signal_handler():
    """A frame tells them from those of the code that the signal has interrupted."""
    need("gcc")
    with Folder() as here:
        with open(here / "p.c", "w", encoding="ascii") as file:
            file.write(HANDLER)
        same(run(["gcc", "-g", "-O0", "-o", here / "p", here / "p.c"]).code, 0)
        done = record([here / "p"], here / "t.mayfly", "-x")
        same((done.code, done.err), (0, b""), done)
        row = report(here / "t.mayfly", "--metric", "leaked", "--by", "stack")["rows"][0]
        same(row["self"]["bytes"]["estimate"], 100 * 100000)
        same([place["function"] for place in row["stack"]][:5], ["grow", "handler", "[signal handler]", "work", "main"])


@cases(["map", "dump", "tmp", "map dump"])
def code_of_a_compiler(files):
    """perf-PID.map, jit-PID.dump where the program is started, and in /tmp."""
    need_code()
    with Folder() as here:
        lines = named(record_jit(here, *files.split()))
        check(files != "map" or "old.js:7" in lines, "no line without a column", lines)


@case
def functions_of_a_compiler_are_the_programs_own():
    need_code()
    with Folder() as here:
        trace = record_jit(here, "dump")
        text = mayfly("report", "--metric", "leaked", "--by", "stack", trace).out.decode()
        for name in ("compiled  ", "plain_compiled  [jit]", "moved  [jit]"):
            check(name in text, name, "is not in", text)
        other, merged = here / "other.mayfly", here / "merged.mayfly"
        os.rename(trace, other)
        mayfly("merge", "-o", merged, record_jit(here, "dump"), other)
        rows = report(merged, "--metric", "leaked", "--by", "function", "--sort", "total")["rows"]
        check(("moved", "[jit]") in [(row["function"], row["module"]) for row in rows], rows)


def record_watched(here, files, inside=()):
    """The files are gone when the program ends: only who opened them before knows the names."""
    command = [MAYFLY, "record", "-q", "-f", "-x", "-o", here / "t.mayfly", "--", *inside,
               program("jit_map"), *files, "wait", "remove"]
    recorder = subprocess.Popen(command, env=environment(), cwd=here / ".",
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def opened():
        links = []
        for name in os.listdir("/proc/%d/fd" % recorder.pid):
            try:
                links.append(os.readlink("/proc/%d/fd/%s" % (recorder.pid, name)))
            except OSError:
                pass
        return all(any("perf-" in link and link.endswith(".map") if file == "map" else
                       "/jit-" in link and link.endswith(".dump") for link in links)
                   for file in files)

    try:
        wait_until(opened, "mayfly to open the files")
    finally:
        open(here / "go", "w").close()
    out, err = recorder.communicate(timeout=TIMEOUT)
    same((recorder.returncode, err), (0, b""), "record")
    return out


@cases(["map", "dump"])
def files_that_the_program_removes(name):
    need_code()
    with Folder() as here:
        record_watched(here, [name])
        named(here / "t.mayfly")


@cases(["map", "dump"])
def files_in_a_container(name):
    """A PID namespace, and a /tmp of its own: the number in the name is that of the namespace."""
    need_code()
    need("unshare", "mount")
    inside = ["unshare", "-Urm", "-p", "-f", "--mount-proc"]
    if run([*inside, "/bin/true"]).code:
        raise Skip("no namespaces may be made here")
    with Folder() as here:
        # What is in our /tmp, such as the build, is found by links. The inner shell becomes the
        # program, with its number; were it recorded too, its recorder might be who opens the files.
        script = """mount --rbind /tmp /mnt && mount -t tmpfs none /tmp && ln -s /mnt/* /tmp &&
            LD_PRELOAD=$AGENT exec "$@" """
        record_watched(here, [name], [
            "sh", "-c", 'export AGENT="$LD_PRELOAD"; unset LD_PRELOAD; exec "$@"', "sh",
            *inside, "sh", "-c", script, "sh"])
        traces = [here / path for path in here.files("*.mayfly")
                  if info(here / path)["command"][0].endswith("jit_map")]
        same(len(traces), 1, "traces")
        named(traces[0])


@cases(["--perf-basic-prof", "--perf-prof"])
def functions_of_node(option):
    """No function is left out of a stack, and most stacks are whole."""
    need("node")
    with Folder() as here:
        # Optimised code has functions inlined, of which no map tells.
        command = ["node", option, "--interpreted-frames-native-stack", "--no-opt",
                   os.path.join(SOURCE, "tests", "programs", "js_chain.js")]
        done = run([MAYFLY, "record", "-q", "-i", "16K", "-o", here / "t.mayfly", "--", *command],
                   cwd=here / ".")
        forget(b"/tmp/perf-%d.map" % info(here / "t.mayfly")["pid"], "/")
        same((done.code, done.err), (0, b""), "record")
        stacks = [[place["function"] for place in row["stack"]] for row in
                  report(here / "t.mayfly", "--metric", "allocated", "--by", "stack", "--frames=all",
                         "--all", "--top", "0")["rows"]]
        whole = cut = 0
        for stack in stacks:
            numbers = [int(name[1:]) for name in stack if re.fullmatch("f[0-9]+", name or "")]
            if not numbers:
                continue
            same(numbers, [numbers[0] - i for i in range(len(numbers))], stack)
            if "cut" in stack[-1]:
                cut += 1
            else:
                same(numbers[-1], 0, stack)
                whole += 1
        print("# %d whole stacks, %d cut" % (whole, cut))
        check(whole > 100, "few whole stacks", whole, cut)


@cases(["", "-XX:TieredStopAtLevel=1"])
def functions_of_java(option):
    """Both compilers' code, and the interpreter's below it: stacks go on to the thread's beginning."""
    need("java", "javac")
    if os.uname().machine != "x86_64":
        raise Skip("Java's frames are known on x86-64")
    with Folder() as here:
        source = os.path.join(SOURCE, "tests", "programs", "JavaChain.java")
        same(run(["javac", "-d", here.path, source]).code, 0, "javac")
        # -Xbatch: stacks whose leaf the interpreter calls are cut, and the compiler in the background may wait for a CPU.
        command = ["java", "-Xbatch", "-XX:+PreserveFramePointer", "-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit",
                   "-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,JavaChain.f*", *option.split(),
                   "-cp", here.path, "JavaChain"]
        done = run([MAYFLY, "record", "-q", "-i", "16K", "-o", here / "t.mayfly", "--", *command], cwd=here / ".")
        forget(b"/tmp/perf-%d.map" % info(here / "t.mayfly")["pid"], "/")
        same(done.code, 0, done)
        rows = report(here / "t.mayfly", "--metric", "allocated", "--by", "stack", "--frames=all", "--all",
                      "--top", "0")["rows"]
        whole = cut = 0
        for row in rows:
            stack = [place["function"] or "" for place in row["stack"]]
            if not any("Unsafe_AllocateMemory" in name for name in stack):
                continue
            if "cut" in stack[-1]:
                cut += row["self"]["samples"]
                continue
            whole += row["self"]["samples"]
            numbers = [int(n) for n in re.findall(r"JavaChain\.f([0-9]+)", " ".join(stack))]
            same(numbers, [numbers[0] - i for i in range(len(numbers))] if numbers else [], stack)
            check(any("JavaMain" in name for name in stack), "main is missing", stack)
        print("# %d samples with whole stacks, %d cut" % (whole, cut))
        check(whole > 2000 and cut < whole / 10, "few whole stacks", whole, cut)


@case
def map_of_somebody_else():
    """Anybody may write /tmp/perf-PID.map. As root, too, it names nothing unless it is the process's user's."""
    need_code()
    if os.geteuid():
        raise Skip("only root can give a file away")
    with Folder() as here:
        recorder = subprocess.Popen([MAYFLY, "record", "-q", "-f", "-x", "-o", here / "t.mayfly", "--",
                                     program("jit_map"), "map", "wait"], env=environment(), cwd=here / ".",
                                    stdout=subprocess.PIPE)
        path = recorder.stdout.readline().decode().strip()
        try:
            os.chown(path, 65534, 65534)
        finally:
            open(here / "go", "w").close()
            recorder.communicate(timeout=TIMEOUT)
            os.unlink(path)
        same(recorder.returncode, 0, "record")
        rows = report(here / "t.mayfly", "--metric", "leaked", "--by", "function")["rows"]
        names = [row["function"] for row in rows]
        check("main" in names and "compiled" not in names, names)


@case
def without_a_map():
    need_code()
    with Folder() as here:
        trace = record_jit(here)
        rows = {row["function"]: row for row in
                report(trace, "--metric", "leaked", "--by", "function")["rows"]}
        same(rows["main"]["total"]["bytes"]["estimate"], 100 * 1000, "main")
        check("compiled" not in rows, "a name from nowhere")


SOURCE_TEXT = """
#include <stdlib.h>
void *kept[100];
static __attribute__((noinline)) void hidden_maker(int i) { kept[i] = malloc(1000); }
void make_all(void) { for (int i = 0; i < 100; i++) hidden_maker(i); }
int main(void) { make_all(); return 0; }
"""


@case
def small_symbol_table():
    """.gnu_debugdata, as Fedora's packages have it: an ELF file with symbols, compressed by xz."""
    need("gcc", "objcopy", "xz", "strip")
    with Folder() as here:
        with open(here / "p.c", "w") as file:
            file.write(SOURCE_TEXT)
        for command in (["gcc", "-O1", "-fno-optimize-sibling-calls", "-o", "p", "p.c"],
                        ["objcopy", "-S", "--remove-section=.comment", "--keep-symbol=hidden_maker",
                         "p", "mini"],
                        ["xz", "mini"],
                        ["strip", "-o", "bare", "p"],
                        ["objcopy", "--add-section", ".gnu_debugdata=mini.xz", "bare", "p"]):
            same(run(command, cwd=here / ".").code, 0, command)
        names = functions_of_program(here)
        check("hidden_maker" in names, "not named", names)
        # A damaged one is as none.
        with open(here / "mini.xz", "r+b") as file:
            middle = os.path.getsize(here / "mini.xz") // 2
            file.seek(middle)
            byte = file.read(1)[0]
            file.seek(middle)
            file.write(bytes([byte ^ 0xff]))
        run(["objcopy", "--add-section", ".gnu_debugdata=mini.xz", "bare", "p"], cwd=here / ".")
        names = functions_of_program(here)
        check("hidden_maker" not in names, "named by a damaged table", names)


def functions_of_program(here):
    record([here / "p"], here / "t.mayfly", "-x", "-f")
    return [row["function"] for row in
            report(here / "t.mayfly", "--metric", "leaked", "--by", "function")["rows"]]


main()
