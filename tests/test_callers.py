# SPDX-License-Identifier: Apache-2.0
"""What the report's table of callers names: the program's own function that holds the memory, not the
library below it and not main() above it."""
import os
import re
import shutil

from harness import MAYFLY, Folder, Skip, case, cases, main, need, record, run, same

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


def named(command, *options):
    """The functions of the table of callers with at least one percent, and their shares."""
    trace = folder / "callers.mayfly"
    same(record(command, trace, *(options or ["-x"])).code, 0)
    text = run([MAYFLY, "report", "--wide", trace]).out.decode()
    table = text.split("The same by function, with all that it calls\n")
    rows = []
    for line in table[1].split("\n\n")[0].splitlines()[1:] if len(table) > 1 else []:
        row = re.match(r" *\S+ \S+ +(?:±\S+ % +)?([0-9.]+) % .*?  (\S[^ ]*(?: [^ ]+)*)$", line)
        if row and float(row[1]) >= 1:
            rows.append((row[2], float(row[1])))
    return rows


def names(rows):
    return [re.sub(r"\(.*", "", name) for name, _ in rows]


SHAPES = {"one": ["load"], "split": ["sixty", "forty"], "recursion": ["descend"],
          "mixed": ["mixed", "forty"], "thread": ["load"], "direct": ["run"], "main": []}


@cases(list(SHAPES))
def of_c(shape):
    """One function holds all, two share it, it calls itself, it holds half itself, in a thread; and
    where the functions that allocate are themselves the answer."""
    same(names(named([binary("c", "gcc", ".c", C), shape])), SHAPES[shape], shape)


@cases(["one", "main", "thread"])
def of_cxx(shape):
    """The library's vector and map allocate. The program's function above them is named."""
    function = "main" if shape == "main" else "fill"
    same(names(named([binary("cxx", "g++", ".cc", CXX), shape])), [function], shape)


@case
def of_samples():
    same(names(named([binary("cxx", "g++", ".cc", CXX), "one"], "-i", "16K")), ["fill"])


@case
def of_python():
    """A foreign program: main() and the start of threads are not in the table, libc is not."""
    need("python3")
    rows = names(named(["python3", "-c", "x = [str(i) * 20 for i in range(100000)]"], "-i", "16K"))
    for name in ("main", "_start", "__libc_start_main", "__libc_start_call_main"):
        same(name in rows, False, name)


if __name__ == "__main__":
    main()
