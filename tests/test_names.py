#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Names from elsewhere than symbol tables and debug files: maps of code made at run time, the small
symbol tables in stripped programs."""
import os
import platform

from harness import (Folder, Skip, case, check, info, main, mayfly, need, program, record, report,
                     run, same)


def need_x86():
    if platform.machine() != "x86_64":
        raise Skip("the program writes x86-64 code")


def record_jit(here, *options):
    done = record([program("jit_map"), *options], here / "t.mayfly", "-x")
    path = done.out.decode().strip()
    if path:
        os.unlink(path)
    return here / "t.mayfly"


@case
def code_of_a_compiler():
    need_x86()
    with Folder() as here:
        trace = record_jit(here, "map")
        rows = {row["function"]: row for row in
                report(trace, "--metric", "leaked", "--by", "function")["rows"]}
        for name in ("make_block", "compiled", "plain_compiled"):
            same(rows[name]["total"]["bytes"]["estimate"], 100 * 1000, name)
        check(rows["main"]["total"]["bytes"]["estimate"] >= 100 * 1000, "not whole")
        check("replaced later" not in rows, "an old name is used")
        lines = mayfly("report", "--metric", "leaked", "--by", "line", "--sort", "total",
                       "--all-frames", "--all", trace).out.decode()
        check("my app.js:12" in lines, "no line", lines)
        same(info(trace)["truncated_stacks"], 0, "truncated stacks")


@case
def without_a_map():
    need_x86()
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
