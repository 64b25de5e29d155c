# SPDX-License-Identifier: Apache-2.0
"""What the report's first line and its table of callers name: the program's own function that holds
the memory, not the library below it and not main() above it."""
import json
import os
import re
import shutil

from harness import (MAYFLY, PYTHON, SOURCE, Folder, Skip, case, cases, check, environment as plain, main, need, record,
                     run, same)

folder = Folder()
folder.__enter__()

FLAGS = ["-g", "-O1", "-fno-optimize-sibling-calls", "-pthread"]
# Each shape is the first argument.
C = r"""
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#define KEEP __attribute__((noinline))
void *volatile sink;
KEEP void *get(size_t size) { return sink = memset(malloc(size), 1, size); }
KEEP void load(void) { for (int i = 0; i < 1000; i++) get(1000); }
KEEP void sixty(void) { for (int i = 0; i < 600; i++) get(1000); }
KEEP void forty(void) { for (int i = 0; i < 400; i++) get(1000); }
KEEP void split(void) { sixty(); forty(); }
KEEP void descend(int depth) { get(1000); if (depth) descend(depth - 1); get(500); }
KEEP void mixed(void) { for (int i = 0; i < 500; i++) get(1000); forty(); }
KEEP void direct(void) { for (int i = 0; i < 1000; i++) sink = malloc(1000); }
KEEP void *work(void *unused) { load(); return unused; }
KEEP void run(const char *shape)
{
    pthread_t thread;

    if (!strcmp(shape, "one")) load();
    if (!strcmp(shape, "split")) split();
    if (!strcmp(shape, "recursion")) descend(100);
    if (!strcmp(shape, "mixed")) mixed();
    if (!strcmp(shape, "direct")) direct();
    if (!strcmp(shape, "thread")) {
        pthread_create(&thread, NULL, work, NULL);
        pthread_join(thread, NULL);
    }
    sink = strdup(shape);
}
int main(int count, char **arguments)
{
    if (!strcmp(arguments[1], "main")) {
        for (int i = 0; i < 1000; i++) sink = malloc(1000);
        return 0;
    }
    run(arguments[1]);
    return 0;
}
"""
CXX = r"""
#include <cstring>
#include <map>
#include <thread>
#include <vector>
#define KEEP __attribute__((noinline))
static std::map<int, std::vector<int>> *table;
KEEP void fill(int count) { for (int i = 0; i < count; i++) (*table)[i].assign(500, i); }
struct Cache { KEEP void grow(int count) { fill(count); } };
KEEP void run() { Cache().grow(1000); }
int main(int, char **arguments)
{
    table = new std::map<int, std::vector<int>>;
    if (!strcmp(arguments[1], "main"))
        for (int i = 0; i < 1000; i++) (*table)[i].assign(500, i);
    else if (!strcmp(arguments[1], "thread"))
        std::thread(fill, 1000).join();
    else
        run();
    return 0;
}
"""


def binary(name, compiler, suffix, source):
    path = folder / name
    if not os.path.exists(path):
        if not shutil.which(compiler):
            raise Skip("no " + compiler)
        with open(path + suffix, "w") as file:
            file.write(source)
        same(run([compiler, *FLAGS, "-o", path, path + suffix]).code, 0)
    return path


def report(command, *options, show=()):
    trace = folder / "callers.mayfly"
    same(record(command, trace, *(options or ["-x"])).code, 0)
    return run([MAYFLY, "report", "--wide", *show, trace]).out.decode()


def headline(command, *options):
    return report(command, *options).splitlines()[0]


def named(command, *options):
    """The functions of the table of callers with at least one percent, and their shares."""
    text = report(command, *options)
    table = text.split("The same by function, with all that it calls\n")
    rows = []
    for line in table[1].split("\n\n")[0].splitlines()[1:] if len(table) > 1 else []:
        row = re.match(r" *\S+ \S+ +(?:±\S+ % +)?([0-9.]+) % .*?  (\S[^ ]*(?: [^ ]+)*)$", line)
        if row and float(row[1]) >= 1:
            rows.append((row[2], float(row[1])))
    return rows


def names(rows):
    return [re.sub(r"\(.*", "", name) for name, _ in rows]


SHAPES = {"one": ["load"], "split": ["split", "sixty", "forty"], "recursion": ["descend"],
          "mixed": ["mixed", "forty"], "thread": ["load"], "direct": ["run"], "main": []}


@cases(list(SHAPES))
def of_c(shape):
    """One function holds all, two share it, it calls itself, it holds half itself, in a thread; and
    where the functions that allocate are themselves the answer."""
    same(names(named([binary("c", "gcc", ".c", C), shape])), SHAPES[shape], shape)


@cases(["one", "main", "thread"])
def of_cxx(shape):
    """The library's vector and map allocate. The program's function above them is named."""
    expected = {"one": r"fill\(\) \(cxx\.cc:8\), called by Cache::grow\(\)\.",
                "main": r"main \(cxx\.cc:1[0-9]\)\.", "thread": r"fill\(\) \(cxx\.cc:8\)\."}
    command = [binary("cxx", "g++", ".cc", CXX), shape]
    line = headline(command)
    check(re.fullmatch(r"At the peak, \d+ % of [0-9.]+ MiB was allocated in " + expected[shape], line),
          line)
    same(names(named(command)), ["Cache::grow"] if shape == "one" else [], shape)


# A name of 10,000 bytes, most of it in brackets.
LONG = r"""
#include <cstdlib>
#include <utility>
template <int N> struct Twice { using type = std::pair<typename Twice<N - 1>::type, typename Twice<N - 1>::type>; };
template <> struct Twice<0> { using type = int; };
template <class Kind> __attribute__((noinline)) void *fill(Kind *) { return malloc(1000); }
int main()
{
    void *volatile sink;
    for (int i = 0; i < 1000; i++) sink = fill(static_cast<Twice<9>::type *>(nullptr));
}
"""


@case
def of_a_long_name():
    line = headline([binary("long", "g++", ".cc", LONG)])
    check(re.fullmatch(r"At the peak, \d+ % of [0-9.]+ [KM]iB was allocated in fill<\.\.\.>\(\) "
                       r"\(long\.cc:6\)\.", line), line)


@case
def of_the_library():
    """The library's frames are folded, unless the user wants to see them; both say the same total."""
    command = [binary("cxx", "g++", ".cc", CXX), "one"]
    folded, all_frames = report(command), report(command, show=["--frames=all"])
    check("std::" not in folded and "--frames all shows them" in folded, folded)
    same(folded.count("folded"), 1, "said once")
    check("std::" in all_frames and "folded" not in all_frames, all_frames)
    check(" fill(int)" in all_frames.splitlines()[0] or "fill()" in all_frames, all_frames)
    totals = [re.search(r"by function: (.*)", text)[1] for text in (folded, all_frames)]
    same(totals[0], totals[1], "total")


@case
def of_rules():
    """A rule makes a function of the program a library's, another takes one of the library's back;
    the file at home applies after those that are named. A wrong file is an error that says where."""
    command = [binary("cxx", "g++", ".cc", CXX), "one"]
    rules = folder / "rules"

    def first(text, *options, **environment):
        with open(rules, "w") as file:
            file.write(text)
        report(command)
        return run([MAYFLY, "report", "--json", *options, folder / "callers.mayfly"],
                   env=plain(**environment))

    def functions(result):
        same(result.code, 0, result.err)
        return [re.sub(r"\(.*", "", row["function"]) for row in json.loads(result.out)["rows"]]

    same(functions(first("library ^fill", "--mine", rules))[0], "Cache::grow")
    check(any("_M_" in name or "std::" in name for name in
              functions(first("# all\nmine ^std::", "--mine", rules))), "std:: is not taken back")
    settings = os.path.join(folder / "home", "mayfly")
    os.makedirs(settings, exist_ok=True)
    with open(os.path.join(settings, "mine"), "w") as file:
        file.write("library fill\n")
    home = {"XDG_CONFIG_HOME": folder / "home"}
    same(functions(first("", **home))[0], "Cache::grow")
    same(functions(first("mine ^fill", "--mine", rules, **home))[0], "fill")
    wrong = first("\nlibrary fill\nour fill", "--mine", rules)
    check(wrong.code != 0 and b"rules:3: 'our fill' is no rule" in wrong.err, wrong)


NOTES = {
    "python": ("python3", "x = [str(i) * 20 for i in range(100000)]", {}, None),
    "python-malloc": ("python3", "x = [str(i) * 20 for i in range(100000)]",
                      {"PYTHONMALLOC": "malloc"}, None),
    "wrapper": ("sh", "/bin/true; exit 0", {}, "started 1 other process.*--follow"),
    "exec": ("perl", "@a = map {'x' x 1000} 1..9999; exec 'sh', '-c', 'exit 0'", {},
             "another program before this one.*beside"),
}


@cases(list(NOTES))
def notes(name):
    """What the trace does not show is said, with what to do."""
    program, text, environment, said = NOTES[name]
    need(program)
    trace = folder / "notes.mayfly"
    result = run([MAYFLY, "record", "-q", "-o", trace, program,
                  {"perl": "-e", "python3": "-Sc"}.get(program, "-c"), text], env=plain(**environment))
    same(result.code, 0, result.err)
    shown = " ".join(run([MAYFLY, "report", trace]).out.decode().split())
    check(re.search(said, shown) if said else "PYTHONMALLOC" not in shown, shown)


@case
def of_samples():
    line = headline([binary("cxx", "g++", ".cc", CXX), "one"], "-i", "16K")
    check(re.match(r"At the peak, (100|9\d) % (\(±\d+\) )?of [0-9.]+ MiB was allocated in fill\(\) \(cxx",
                   line), line)


@case
def of_python():
    """A foreign program: main() and the start of threads are not in the table, libc is not."""
    need("python3")
    rows = names(named([*PYTHON, "-c", "x = [str(i) * 20 for i in range(100000)]"], "-i", "16K"))
    for name in ("main", "_start", "__libc_start_main", "__libc_start_call_main"):
        same(name in rows, False, name)


@cases(["function", "line", "stack"])
def stacks_that_begin_at_folded_frames(by):
    """--show-from a function of the standard library, which is folded: it stands for what it calls."""
    trace = os.path.join(SOURCE, "tests", "golden", "made-events.mayfly")
    answers = [run([MAYFLY, "report", "--json", "--metric", "allocated", "--by", by, "--show-from", "^std::",
                    *more, trace]) for more in ([], ["--frames=all"])]
    same([a.code for a in answers], [0, 0], answers[0].err)
    totals = [json.loads(a.out)["total"] for a in answers]
    check(totals[0]["samples"], "no samples")
    same(totals[0], totals[1], "total")


if __name__ == "__main__":
    main()
