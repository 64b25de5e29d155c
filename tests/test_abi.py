#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tests/test_abi.py [--write]

libmayfly-trace.so.0: its symbols, and the layout of the structs of <mayfly/trace.h>, are those in
tests/trace_abi.txt. A change there is a change that programs see: src/mayfly-trace.map and the
header's paragraph "Compatibility" say which ones are possible. --write makes the file anew.
"""
import json
import os
import re
import subprocess
import sys

from harness import BUILD, Folder, SOURCE, Skip, case, check, main, need, run, same

HEADER = os.path.join(SOURCE, "include", "mayfly", "trace.h")
LIST = os.path.join(SOURCE, "tests", "trace_abi.txt")
LIBRARY = os.path.join(BUILD, "src", "libmayfly-trace.so.0")


def header():
    with open(HEADER) as file:
        return re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)


def functions():
    """Those that the header declares."""
    text = re.sub(r"static inline.*?\n}", "", header(), flags=re.DOTALL)
    return sorted(set(re.findall(r"\b(mayfly_\w+)\([^()]*(?:\([^()]*\)[^()]*)*\);", text)))


def structs():
    """{struct: [member]}"""
    found = {}
    for name, body in re.findall(r"^struct (mayfly_\w+) \{ *\n(.*?)^\};", header(),
                                 re.DOTALL | re.MULTILINE):
        members = []
        for declaration in body.split(";"):
            function = re.search(r"\(\*(\w+)\)\(", declaration)
            for part in [declaration] if function else declaration.split(","):
                member = function or re.search(r"(\w+)(?:\[\w+\])?\s*$", part)
                if member:
                    members.append(member.group(1))
        found[name] = members
    return found


def layout():
    """What the compiler makes of the header, a line each."""
    lines = ['#include <mayfly/trace.h>', '#include <stdio.h>', 'int main(void) {']
    for name, members in structs().items():
        lines.append('printf("struct %s %%zu\\n", sizeof(struct %s));' % (name, name))
        for member in members:
            lines.append('printf("\\t%s %%zu %%zu\\n", offsetof(struct %s, %s), '
                         'sizeof(((struct %s *)0)->%s));' % (member, name, member, name, member))
    with Folder() as here:
        with open(here / "layout.c", "w") as file:
            file.write("\n".join(lines) + "\nreturn 0; }\n")
        subprocess.run(["cc", "-I" + os.path.join(SOURCE, "include"), "-o", here / "layout",
                        here / "layout.c"], check=True)
        return subprocess.run([here / "layout"], check=True, stdout=subprocess.PIPE).stdout.decode()


def exported():
    nm = run(["nm", "-D", "--defined-only", "--with-symbol-versions", LIBRARY])
    same(nm.code, 0, "nm")
    return sorted(line.split()[-1] for line in nm.out.decode().splitlines())


def described():
    return "".join(name + "\n" for name in exported()) + layout()


@case
def as_listed():
    with open(LIST) as file:
        listed = file.read()
    now = described()
    for line in sorted(set(listed.splitlines()) ^ set(now.splitlines())):
        print("# %s: %s" % ("no longer" if line in listed.splitlines() else "new", line))
    check(now == listed, "the interface has changed; if it may, run tests/test_abi.py --write")


@case
def exports_what_is_declared():
    names = [name.split("@")[0] for name in exported() if not name.startswith("MAYFLY_TRACE_")]
    same(names, functions(), "exported and declared functions")


@case
def all_structs_are_found():
    """The parser above misses none."""
    declared = set(re.findall(r"^struct (mayfly_\w+) \{", header(), re.MULTILINE))
    same(set(structs()), declared, "structs")
    for name, members in structs().items():
        check(members, "no member of", name)


@case
def soname():
    need("readelf")
    dynamic = run(["readelf", "-dW", LIBRARY]).out.decode()
    check("Library soname: [libmayfly-trace.so.0]" in dynamic, dynamic)
    needed = re.findall(r"NEEDED.*\[(.*?)\]", dynamic)
    check(not set(needed) - {"libzstd.so.1", "libm.so.6", "libc.so.6"}, "needs", needed)


@case
def a_program_of_others():
    """It reads through the shared library what the tool says; reserved words are 0."""
    with Folder() as here:
        trace = here / "t.mayfly"
        if run([os.path.join(BUILD, "mayfly"), "record", "-x", "-o", trace, "true"]).code:
            raise Skip("nothing can be recorded here")
        with open(here / "p.c", "w") as file:
            file.write("""
#include <mayfly/trace.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
	FILE *f = fopen(argv[1], "rb");
	static char data[1 << 24];
	size_t size = fread(data, 1, sizeof(data), f);
	struct mayfly_trace *trace;
	struct mayfly_query query;
	struct mayfly_result *result;
	if (argc < 2 || mayfly_trace_open(data, size, &trace)) return 1;
	mayfly_query_defaults(&query);
	for (size_t i = 0; i < sizeof(query.reserved) / sizeof(*query.reserved); i++) if (query.reserved[i]) return 2;
	query.metric = MAYFLY_ALLOCATED;
	if (mayfly_query_run(trace, &query, &result)) return 3;
	printf("%.0f\\n", result->total.bytes.estimate);
	return 0;
}""")
        built = run(["cc", "-I" + os.path.join(SOURCE, "include"), "-o", here / "p", here / "p.c",
                     "-L" + os.path.dirname(LIBRARY), "-l:libmayfly-trace.so.0",
                     "-Wl,-rpath," + os.path.dirname(LIBRARY)])
        same((built.code, built.err), (0, b""), "cc")
        told = run([os.path.join(BUILD, "mayfly"), "info", "--json", trace])
        same(run([here / "p", trace]).out.decode().strip(),
             str(json.loads(told.out)["allocated"]["bytes"]["estimate"]).split(".")[0],
             "allocated bytes")


if sys.argv[1:] == ["--write"]:
    with open(LIST, "w") as output:
        output.write(described())
else:
    main()
