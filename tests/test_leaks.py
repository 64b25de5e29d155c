# SPDX-License-Identifier: Apache-2.0
"""mayfly leaks: what was never freed, and lists of suppressions, checked against LeakSanitizer."""
import json
import os
import re

from harness import MAYFLY, Folder, Skip, case, cases, check, environment, main, record, run, same

folder = Folder()
folder.__enter__()

PROGRAM = r"""
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
void *volatile sink;
__attribute__((noinline)) void lose(size_t size) { char *p = malloc(size); memset(p, 1, size); sink = p; }
__attribute__((noinline)) void alpha_open(void) { for (int i = 0; i < 10; i++) lose(100); }
__attribute__((noinline)) void alpha_close(void) { lose(5000); }
__attribute__((noinline)) void beta(void) { lose(70000); free(sink); lose(300); }
static void *work(void *p) { return p; }
int main(int argc, char **argv)
{
	pthread_t t;
	alpha_open();
	alpha_close();
	beta();
	sink = NULL;
	if (argc > 1) {
		time_t now = 0;
		setlocale(LC_ALL, "C.UTF-8");
		setenv("MADE_UP", "1", 1);
		printf("%s", ctime(&now));
		pthread_create(&t, NULL, work, NULL);
		pthread_join(t, NULL);
	}
	return 0;
}
"""
FLAGS = ["-g", "-O1", "-fno-builtin", "-fno-optimize-sibling-calls", "-fno-inline"]
LEAKED = {"alpha_open": 1000, "alpha_close": 5000, "beta": 300}


def program(*flags):
    path = folder / ("leaky" + "".join(flags))
    if not os.path.exists(path):
        with open(folder / "leaky.c", "w") as file:
            file.write(PROGRAM)
        result = run(["gcc", *FLAGS, *flags, "-o", path, folder / "leaky.c", "-lpthread"])
        if result.code:
            raise Skip("gcc cannot build with " + " ".join(flags))
    return path


def trace(*arguments):
    path = folder / ("leaky%d.mayfly" % len(arguments))
    if not os.path.exists(path):
        same(record([program(), *arguments], path, "-x").code, 0)
    return path


def leaks(*arguments, code=0):
    result = run([MAYFLY, "leaks", *arguments])
    same(result.code, code, "mayfly leaks %s (%r)" % (arguments, result))
    return result


def sites(answer):
    """What each caller of lose() leaks."""
    return {row["stack"][1]["function"]: row["self"]["bytes"]["estimate"] for row in answer["rows"]}


def suppressions(*lines, name="list"):
    path = folder / name
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")
    return path


RECURSIVE = r"""
#include <stdlib.h>
#define KEEP __asm__ volatile("" ::: "memory")
void *volatile sink;
__attribute__((noinline)) void lose(void) { sink = malloc(1000); KEEP; }
void odd(int depth);
__attribute__((noinline)) void even(int depth) { if (depth) odd(depth - 1); else lose(); KEEP; }
__attribute__((noinline)) void odd(int depth) { even(depth - 1); KEEP; }
__attribute__((noinline)) void visit(int depth)
{
	if (!depth)
		lose();
	else if (depth % 3)
		visit(depth - 1);
	else {
		visit(depth - 1);
		KEEP;
	}
	KEEP;
}
int main(void)
{
	for (int i = 0; i < 300; i++) {
		visit(1 + i);
		even(2 + 2 * (i % 50));
	}
	return 0;
}
"""


@case
def recursion_is_folded():
    """Equal leaks at 300 depths are one row; --frames all has each depth."""
    source, path = folder / "recursive.c", folder / "recursive.mayfly"
    with open(source, "w") as file:
        file.write(RECURSIVE)
    same(run(["gcc", *FLAGS, "-o", folder / "recursive", source]).code, 0)
    same(record([folder / "recursive"], path, "-x").code, 0)
    rows = json.loads(leaks("--json", path).out)["rows"]
    found = {tuple((place["function"], place["recursive"]) for place in row["stack"]):
             row["self"]["blocks"]["estimate"] for row in rows}
    same(found, {(("lose", False), ("visit", True), ("main", False)): 300,
                 (("lose", False), ("even", False), ("odd", True), ("even", False), ("main", False)): 300}, "stacks")
    text = leaks(path).out.decode()
    check(re.search(r"visit +\S*recursive\.c:\d+ \(recursive\)", text), text)
    every = json.loads(leaks("--json", "--frames=all", path).out)["rows"]
    check(len(every) >= 300 and not any(place["recursive"] for row in every for place in row["stack"]), len(every))


@case
def what_was_never_freed():
    same(sites(json.loads(leaks("--json", trace()).out)), LEAKED)


@case
def libc_is_suppressed():
    """A program with locales, threads, an environment and stdio leaks only what it lost itself."""
    answer = json.loads(leaks("--json", trace("all")).out)
    same(sites(answer), LEAKED)
    check(answer["suppressed"]["bytes"] > 1000, answer["suppressed"])
    every = json.loads(leaks("--json", "--no-default-suppressions", trace("all")).out)
    same(every["suppressed"]["stacks"], 0)
    same(every["total"]["bytes"]["estimate"],
         answer["total"]["bytes"]["estimate"] + answer["suppressed"]["bytes"], "all leaks")
    same(every["total"]["blocks"]["estimate"],
         answer["total"]["blocks"]["estimate"] + answer["suppressed"]["blocks"], "all blocks")
    listed = sum(s["bytes"] for s in answer["suppressed"]["suppressions"])
    same(listed, answer["suppressed"]["bytes"])
    text = leaks(trace("all")).out.decode()
    check("suppressed: " in text and "alpha_close" in text and "setlocale" not in text, text)


@case
def the_cxx_library_is_suppressed():
    """It keeps memory for exceptions; a C++ program that frees all has no leak."""
    source, binary, path = (folder / name for name in ("clean.cc", "clean", "clean.mayfly"))
    with open(source, "w") as file:
        file.write("#include <iostream>\n#include <vector>\n"
                   "int main() { std::vector<int> v(1000, 1); std::cout << v[3] << std::endl; }\n")
    if run(["g++", "-O1", "-o", binary, source]).code:
        raise Skip("no C++ compiler")
    same(record([binary], path, "-x").code, 0)
    same(json.loads(leaks("--json", path).out)["rows"], [])
    same(run([MAYFLY, "check", "--max-leaked", "0", path]).code, 0, "check")
    every = json.loads(leaks("--json", "--no-default-suppressions", path).out)
    check(every["total"]["bytes"]["estimate"] >= 1024, every["total"])


@case
def the_list_can_be_read_back():
    """--print-suppressions prints what a file may hold; it does what the built-in list does."""
    path = folder / "printed"
    with open(path, "wb") as file:
        file.write(leaks("--print-suppressions").out)
    answer = json.loads(leaks("--json", "--no-default-suppressions", "--suppressions", path,
                              trace("all")).out)
    same(sites(answer), LEAKED)
    check(all(s["file"] == path and s["line"] > 0 for s in answer["suppressed"]["suppressions"]),
          answer["suppressed"])


PATTERNS = ["alpha", "^alpha_open$", "a_*e$", "^*beta", "pha_c", "^pha", "beta$", "bet$", "open",
            "lose", "leaky", "^leaky", "leaky.c$", "*", "main", "^main$", "a*a*c", "o*n$", "nothing"]


def lsan_bytes(pattern):
    """What LeakSanitizer says of the same program with the same list."""
    result = run([program("-fsanitize=leak")], env=environment(
        LSAN_OPTIONS="suppressions=%s:print_suppressions=0:exitcode=0:fast_unwind_on_malloc=0" %
        suppressions("leak:" + pattern, name="lsan")))
    if b"does not work under ptrace" in result.err or b"Tracer caught" in result.err:
        raise Skip("LeakSanitizer does not work here")
    match = re.search(rb"SUMMARY: LeakSanitizer: (\d+) byte", result.err)
    return int(match.group(1)) if match else 0


@case
def patterns_are_those_of_lsan():
    program("-fsanitize=leak")
    if lsan_bytes("nothing") != sum(LEAKED.values()):
        raise Skip("LeakSanitizer does not work here")
    for pattern in PATTERNS:
        answer = json.loads(leaks("--json", "--no-default-suppressions", "--suppressions",
                                  suppressions("leak:" + pattern), trace()).out)
        # Both programs are called leaky..., and come from leaky.c.
        same(answer["total"]["bytes"]["estimate"], lsan_bytes(pattern), pattern)


@case
def several_lists():
    first = suppressions("# the first", "", "  leak:alpha_open  ", name="first")
    second = suppressions("leak:^beta$", "leak:never_there", name="second")
    answer = json.loads(leaks("--json", "--suppressions", first, "--suppressions", second,
                              trace()).out)
    same(sites(answer), {"alpha_close": 5000})
    used = {s["pattern"]: (s["file"], s["line"], s["bytes"], s["blocks"])
            for s in answer["suppressed"]["suppressions"]}
    same(used, {"alpha_open": (first, 3, 1000, 10), "^beta$": (second, 1, 300, 1)})


@case
def together_with_filters():
    answer = json.loads(leaks("--json", "--ignore", "alpha_open", "--suppressions",
                              suppressions("leak:beta"), trace()).out)
    same(sites(answer), {"alpha_close": 5000})
    answer = json.loads(leaks("--json", "--focus", "alpha", "--min-size", "1K", trace()).out)
    same(sites(answer), {"alpha_close": 5000})


@case
def exit_codes():
    leaks(trace())
    leaks("--exit-code", "23", trace(), code=23)
    leaks("--exit-code", "23", "--suppressions", suppressions("leak:lose"), trace())
    for arguments, said in ((["--exit-code", "256"], b"0 to 255"),
                            (["--suppressions", "/nowhere"], b"/nowhere: No such file")):
        result = run([MAYFLY, "leaks", *arguments, trace()])
        check(result.code and said in result.err and result.err.count(b"\n") == 1, result)


@cases(["race:x", "leak:", "leak", "alpha", "leak=alpha"])
def bad_lists(line):
    path = suppressions("leak:good", line, name="bad")
    result = run([MAYFLY, "leaks", "--suppressions", path, trace()])
    check(result.code == 1 and (path + ":2: ").encode() in result.err, result)
    same(result.err.count(b"\n"), 1, result.err)


@case
def a_sampled_trace():
    """Suppressing needs no exact trace."""
    path = folder / "sampled.mayfly"
    same(record([program()], path, "-i", "4K").code, 0)
    answer = json.loads(leaks("--json", "--suppressions", suppressions("leak:alpha_close"), path).out)
    check("alpha_close" not in sites(answer), answer)
    same(answer["suppressed"]["bytes"], 5000, "a block above the interval is exact")


if __name__ == "__main__":
    main()
