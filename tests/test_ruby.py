#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Ruby 3.1 under `mayfly record` and `mayfly attach` (tests/programs/ruby_app: routes, models, a view): which lines hold
the memory, compared with the program's own truth and with objspace; stacks of C and Ruby; and that the interpreter does
what it does without mayfly, also while its collector moves objects."""
import collections
import functools
import glob
import json
import os
import re
import subprocess

import harness
from attaching import is_recorded, need_attach
from harness import (Folder, MAYFLY, SOURCE, Skip, case, cases, check, info, main, mayfly, record, report, run, same, sane,
                     unchanged, wait_until)

APP = os.path.join(SOURCE, "tests", "programs", "ruby_app")
RUBY = ["/usr/bin/ruby3.1", "-W0"]
HEADER = "/usr/include/*/ruby-3.1.0/rb_mjit_min_header-3.1.*.h"
# What the named lines hold at the end: strings of malloc, with the byte that ends each.
HELD = {"router": 5 * 500, "defined": 8 * 2000, "missing": 4 * 3000, "module": 4000, "struct": 15 * 5000,
        "load": 15 * 6000, "block": 30 * 7000, "ensure": 5 * 8000, "rescue": 9000, "singleton": 10000,
        "route": 4 * 11000, "view": 3 * 12000}
MORE = {"threads": 20 * 13000, "fibers": 9 * 14000, "enumerator": 15000, "ractors": 12 * 16000, "deep": 18000,
        "compacting": 30 * 19000}
folder = Folder()
folder.__enter__()


@functools.lru_cache(maxsize=None)
def need_ruby():
    if not os.path.exists(RUBY[0]):
        raise Skip("ruby3.1 is not installed")


def app(*words, options=()):
    need_ruby()
    return [*RUBY, *options, os.path.join(APP, "app.rb"), *words]


@functools.lru_cache(maxsize=None)
def names_of_lines():
    """{(file, line): name}"""
    names = {}
    for path in glob.glob(APP + "/**/*.*rb", recursive=True):
        with open(path) as file:
            for number, line in enumerate(file, 1):
                match = re.search(r"#@ (\w+)", line)
                if match:
                    names[os.path.realpath(path), number] = match[1]
    return names


def recorded(*words, options=("-x",), ruby=(), **how):
    trace = folder / "t.mayfly"
    if os.path.exists(trace):
        os.unlink(trace)
    done = record(app(*words, options=ruby), trace, *options, **how)
    same(done.code, 0, "exit status: %r" % done)
    return trace


def by_name(trace, metric="live"):
    """{name: (bytes, {functions})} of the named lines; at the end, if the metric is of live blocks."""
    held = collections.defaultdict(lambda: [collections.Counter(), set()])
    at = ["--at", "end"] if metric == "live" else []
    for row in report(trace, "--metric", metric, *at, "--by", "line", "--all")["rows"]:
        name = names_of_lines().get((row["file"], row["line"]))
        if name:
            held[name][0].update(row["self"]["bytes"])
            held[name][1].add(row["function"])
    return held


def near(got, expected, what, share=0.02):
    check(abs(got - expected) <= share * expected + 400, what, "is", got, "and not near", expected)


def holds(trace, expected, slack=0.02):
    held = by_name(trace)
    for name, size in expected.items():
        near(held[name][0]["estimate"], size, name, slack)


def only(words):
    expected = dict(HELD)
    for word in words:
        expected.update({name: MORE[name] for name in ([word, "enumerator"] if word == "fibers" else [word])})
    return expected


# ---- what the lines hold ----

@case
def each_line_holds_what_it_allocated():
    words = ["threads", "fibers", "deep"]
    trace = recorded(*words)
    sane(trace, 1000)
    holds(trace, only(words))
    held = by_name(trace)
    for name, functions in {
            "router": {"Router#call"}, "defined": {"Order#title_text", "Order#note_text"},
            "missing": {"Record#method_missing"}, "module": {"Priced#price"}, "struct": {"Line#label"},
            "load": {"block in Order#load"}, "block": {"block (2 levels) in Order#load"}, "ensure": {"Order#load"},
            "rescue": {"rescue in Order#check"}, "singleton": {"Order.count"},
            "route": {"Orders#GET /orders/:id"}, "deep": {"Object#deep"},
            "threads": {"block in Object#in_threads"}}.items():
        check(functions <= held[name][1], "functions of the line", name, held[name][1])


@case
def ruby_says_the_same():
    """objspace knows the line of each string, and how much it has outside of its slot."""
    trace = recorded("truth", "threads", "fibers")
    theirs = json.loads(run(app("truth", "threads", "fibers")).out)
    ours = by_name(trace)
    compared = 0
    for (file, line), name in names_of_lines().items():
        size = theirs.get("%s:%d" % (file, line))
        if name == "view":  # objspace counts lines of a template differently than backtraces
            size = sum(size for place, size in theirs.items() if "orders.html.erb" in place)
        if size:
            near(ours[name][0]["estimate"], size, name)
            compared += 1
    check(compared >= 14, "only", compared, "lines compared:", theirs)


@case
def samples_estimate_the_same():
    trace = recorded("threads", "fibers", options=["--interval=1024"])
    sane(trace, 100)
    held = by_name(trace)
    for name, size in only(["threads", "fibers"]).items():
        got = held[name][0]
        slack = 2 * (got["high"] - got["low"]) + 4096
        check(got["low"] - slack <= size <= got["high"] + slack, name, "is", got, "not", size)


@case
def ractors_have_their_own_frames():
    trace = recorded("ractors")
    holds(trace, only(["ractors"]))


@case
def ruby_off():
    trace = recorded(env=harness.environment(MAYFLY="ruby=off"))
    rows = report(trace, "--metric", "allocated", "--by", "line", "--all")["rows"]
    check(rows and not any(str(row["file"]).endswith(".rb") for row in rows), "lines of Ruby")


# ---- stacks ----

def stacks_at(trace, name):
    """The stacks whose innermost line of the application has the name, from the leaf: [[(function, file, line)]]."""
    (file, line), = [place for place, found in names_of_lines().items() if found == name]
    found = []
    for row in report(trace, "--metric", "allocated", "--by", "stack", "--all", "--frames=all", "--depth", "0", "--focus",
                      re.escape(os.path.basename(file)))["rows"]:
        stack = [(f.get("function") or "?", f.get("file") or "", f.get("line")) for f in row["stack"]]
        inner = [f for f in stack if f[1].startswith(APP) and not f[0].endswith("#keep")]
        if inner and inner[0][1:] == (file, line):
            found.append(stack)
    check(found, "no stack at", name)
    return found


def ruby_part(stack):
    return [f[0] for f in stack if f[1].startswith((APP, "<cfunc>"))]


@case
def ruby_frames_stand_between_c_frames():
    stack = stacks_at(recorded(), "block")[0]
    names = [f[0] for f in stack]
    same(ruby_part(stack)[:8],
         ["String#*", "block (2 levels) in Order#load", "Integer#times", "block in Order#load", "Array#each", "Order#load",
          "block in Record.find", "Record.find"], "frames of Ruby")
    for inner, outer in (("block (2 levels) in Order#load", "Integer#times"), ("block in Order#load", "Array#each")):
        between = names[names.index(inner):names.index(outer)]
        check("rb_vm_exec" in between, "no evaluator between", inner, "and", outer, stack)
    between = names[names.index("block in Order#load"):names.index("Array#each")]
    check("rb_ary_each" in between, "the function of C is not inside its method:", between)
    check(names.index("<main>") < len(names) - 3, "the root is C:", stack)


@case
def a_thread_has_its_own_frames():
    for stack in stacks_at(recorded("threads"), "threads"):
        if "String#*" in ruby_part(stack):
            check("<main>" not in ruby_part(stack), "a thread under the script:", stack)


@case
def a_deep_recursion_keeps_both_ends():
    names = [f[0] for f in stacks_at(recorded("deep"), "deep")[0]]
    check("String#*" in names[:20] and names[-1] == "_start", "an end is missing:", names[:5], names[-5:])
    check(names.count("Object#deep") > 1000, "only", names.count("Object#deep"), "calls")


@case
def the_report_names_the_line():
    trace = recorded(options=["--interval=1024"])
    text = mayfly("report", "--by", "line", "--metric", "allocated", trace).text
    number = {name: line for (_, line), name in names_of_lines().items()}
    check(re.search(r"models/order\.rb:%d +block in Order#load" % number["load"], text), text)
    check("<cfunc>" not in text, "Ruby's own functions are not folded:", text)
    text = mayfly("report", "--metric", "live", "--at", "end", trace).text
    check("block (2 levels) in Order#load" in text, text)


# ---- code that moves, and code that dies ----

@cases(["compacting", "compacting auto"])
def objects_move(words):
    for option in ("-x", "--interval=256"):
        trace = folder / "moving.mayfly"
        unchanged(app(*words.split()), trace, option)
        sane(trace, 100)
        got = by_name(trace)["compacting"][0]["estimate"]
        near(got, MORE["compacting"], "%s %s" % (words, option), 0.02 if option == "-x" else 0.2)


@case
def libc_allocates_while_objects_move():
    trace = folder / "unlocked.mayfly"
    unchanged(app("unlocked"), trace, "-x")
    got = by_name(trace, "allocated")["unlocked"]
    check(got[0]["estimate"] > 100 * 4000, "the line allocates", got)


@case
def code_that_comes_and_goes_in_the_same_memory():
    trace = recorded("replacing")
    found = collections.Counter()
    for row in report(trace, "--metric", "allocated", "--by", "line", "--all")["rows"]:
        if (row["file"] or "").startswith("replaced_"):
            same(row["line"], 7, "line")
            found[row["file"]] += row["self"]["bytes"]["estimate"]
    same(sorted(found), ["replaced_0.rb", "replaced_1.rb"], "files")
    for k in (0, 1):
        least = sum(30001 + i for i in range(k, 2000, 2))
        # Besides the string, the line compiles the code.
        check(least <= found["replaced_%d.rb" % k] <= least + 1000 * 12000, found, least)


# ---- the interpreter does what it does ----

@cases(["", "threads fibers", "ractors", "child", "deep", "replacing"])
def behaves_the_same(words):
    trace = folder / "same.mayfly"
    unchanged(app(*words.split()), trace, "-x")
    sane(trace, 100)


@cases(["--yjit", "--mjit"])
def compiled_code_has_its_lines(option):
    """Frames of Ruby do not depend on how the code is run, nor on whether the native stack can be walked."""
    done = run([*RUBY, option, "-e", "1"]) if os.path.exists(RUBY[0]) else None
    if done and done.code:
        raise Skip("this Ruby has no " + option)
    soon = {"--yjit": "--yjit-call-threshold=1", "--mjit": "--mjit-min-calls=1"}[option]
    held = by_name(recorded(ruby=[option, soon]))
    for name, size in HELD.items():  # compilers take memory on the line that they compile
        check(size <= held[name][0]["estimate"] <= size + 50000, name, "is", held[name], "and not near", size)


@case
def a_forked_child_has_its_frames():
    done = record(app("child"), folder / "forks.mayfly", "-x", "--follow")
    same(done.code, 0, "exit status: %r" % done)
    traces = folder.files("forks*.mayfly")
    held = [by_name(trace) for trace in traces]
    near(max(h["child"][0]["estimate"] for h in held), 17000, "the child's string")
    same(sum(h["block"][0]["estimate"] > 200000 for h in held), 2, "processes with what was there before the fork")


@cases(["-x", "--interval=256"])
def a_ruby_that_runs_is_attached_to(option):
    """Its lines are there from then on."""
    need_ruby()
    need_attach()
    trace = folder / "attached.mayfly"
    script = ("puts 'ready'\n$stdout.flush; $stdin.gets\nKEPT = []\ndef filled\n"
              "  20.times { KEPT << 'x' * 29999 }\nend\nfilled\nputs 'done'\n$stdout.flush\n$stdin.gets\n")
    path = folder / "attached.rb"
    with open(path, "w") as file:
        file.write(script)
    with subprocess.Popen([*RUBY, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        same(process.stdout.readline(), b"ready\n", "what the program prints")
        attached = subprocess.Popen([MAYFLY, "attach", option, "-o", trace, str(process.pid)], stdout=subprocess.DEVNULL,
                                    stderr=subprocess.PIPE)
        wait_until(lambda: is_recorded(process) or attached.poll() is not None, "the recording")
        process.stdin.write(b"go\n")
        process.stdin.flush()
        same(process.stdout.readline(), b"done\n", "what the program prints")
        process.stdin.write(b"end\n")
        process.stdin.flush()
        same(process.wait(), 0, "exit status of the program")
        same(attached.wait(), 0, attached.stderr.read())
        attached.stderr.close()
    rows = [row for row in report(trace, "--metric", "live", "--at", "end", "--by", "line", "--all")["rows"]
            if row["file"] == path and row["line"] == 5]
    near(sum(row["self"]["bytes"]["estimate"] for row in rows), 20 * 30000, "the line", 0.02 if option == "-x" else 0.2)
    check("block in Object#filled" in {row["function"] for row in rows}, "functions:", rows)


# ---- versions ----

@case
def an_unknown_ruby_is_said_to_be_unknown():
    source, program = folder / "other.c", folder / "other"
    with open(source, "w") as file:
        file.write("#include <stdlib.h>\nvoid *ruby_current_vm_ptr;\nconst char ruby_version[] = \"3.9.0\";\n"
                   "int main(void) { return !malloc(10000000); }\n")
    done = run(["cc", "-rdynamic", "-o", program, source])
    if done.code:
        raise Skip("no C compiler")
    trace = folder / "other.mayfly"
    done = record([program], trace)
    same(done.code, 0, "exit status")
    same(info(trace)["note"], "Ruby frames are unknown: only those of Ruby 3.1 are known", "note")


LATE = """#include <dlfcn.h>
#include <string.h>
static void *library;
static void *find(const char *name) { return dlsym(library, name); }
int main(int argc, char **argv)
{
	library = dlopen("libruby-3.1.so.3.1", RTLD_NOW | RTLD_LOCAL);
	((void (*)(int *, char ***))find("ruby_sysinit"))(&argc, &argv);
	((void (*)(void))find("ruby_init"))();
	return ((int (*)(void *))find("ruby_run_node"))(((void *(*)(int, char **))find("ruby_options"))(argc, argv));
}
"""


@case
def a_libruby_that_is_opened_later_is_said_to_be_unknown():
    need_ruby()
    with open(folder / "late.c", "w") as file:
        file.write(LATE)
    if run(["cc", "-o", folder / "late", folder / "late.c", "-ldl"]).code:
        raise Skip("no C compiler")
    trace = folder / "late.mayfly"
    unchanged([folder / "late", "-W0", os.path.join(APP, "app.rb")], trace, "-x")
    same(info(trace)["note"], "Ruby frames are unknown: its library was opened by the program", "note")


# What the names of ruby.c's table stand for.
FIELDS = {
    "ec": "struct rb_execution_context_struct", "frame": "rb_control_frame_t", "tag": "struct rb_vm_tag",
    "thread": "rb_thread_t", "vm": "rb_vm_t", "iseq": "rb_iseq_t", "body": "struct rb_iseq_constant_body",
    "method": "rb_method_entry_t", "definition": "rb_method_definition_t", "class": "struct RClass",
    "extension": "struct rb_classext_struct", "table": "struct st_table"}
MEMBERS = {
    "ec_stack": "vm_stack", "ec_stack_size": "vm_stack_size", "ec_frame": "cfp", "ec_tag": "tag",
    "ec_thread": "thread_ptr", "frame_pc": "pc", "frame_iseq": "iseq", "frame_ep": "ep", "tag_label": "buf[1]",
    "tag_previous": "prev", "thread_vm": "vm", "thread_ec": "ec", "thread_blocking": "blocking_region_buffer",
    "vm_ractors": "ractor.cnt", "vm_marked": "mark_object_ary", "vm_objects": "objspace", "iseq_body": "body",
    "body_size": "iseq_size", "body_code": "iseq_encoded", "body_path": "location.pathobj",
    "body_base_label": "location.base_label", "body_label": "location.label", "body_line": "location.first_lineno",
    "body_lines": "insns_info.body", "body_lines_count": "insns_info.size",
    "body_lines_index": "insns_info.succ_index_table", "method_definition": "def", "method_owner": "owner",
    "definition_name": "original_id", "class_extension": "ptr", "extension_variables": "iv_tbl",
    "table_bound": "entries_bound", "table_entries": "entries"}
# Members of a struct of gc.c, which no header has: rb_during_gc() and rb_gc_count() read them.
OF_THE_COLLECTOR = {"objects_flags", "objects_count"}


def offsets():
    """{field of ruby.c's table: its value as C}"""
    with open(os.path.join(SOURCE, "src", "agent", "ruby", "ruby.c")) as file:
        return dict(re.findall(r"\.([a-z_]+) = (\d[^,;]*),", file.read()))


@case
def offsets_are_those_of_rubys_header():
    headers = glob.glob(HEADER)
    if not headers:
        raise Skip("ruby3.1-dev is not installed")
    table = offsets()
    expressions = {"frame_size": "sizeof(rb_control_frame_t)", "line_size": "sizeof(struct iseq_insn_info_entry)",
                   "last_operator": "tLAST_OP_ID"}
    for name, member in MEMBERS.items():
        expressions[name] = "__builtin_offsetof(%s, %s)" % (FIELDS[name.split("_")[0]], member)
    same(sorted(table), sorted(set(expressions) | OF_THE_COLLECTOR), "fields of the table")
    source = folder / "offsets.c"
    with open(source, "w") as file:
        file.write("#include \"%s\"\n" % headers[0])
        for name, expression in sorted(expressions.items()):
            file.write("_Static_assert(%s == %s, \"%s\");\n" % (expression, table[name], name))
    done = run(["cc", "-w", "-fsyntax-only", source])
    same(done.code, 0, done)


@case
def the_collectors_offsets_are_what_its_functions_read():
    """rb_gc_count() returns the count, rb_during_gc() a bit of the flags."""
    libraries = glob.glob("/usr/lib/*/libruby-3.1.so.3.1")
    harness.need("objdump")
    if not libraries or os.uname().machine != "x86_64":
        raise Skip("there is no libruby 3.1 for x86-64")
    table = {name: eval(value.replace("sizeof(pthread_mutex_t)", "40")) for name, value in offsets().items()}
    for function, field in (("rb_gc_count", "objects_count"), ("rb_during_gc", "objects_flags")):
        code = run(["objdump", "-d", "--disassemble=" + function, libraries[0]]).out.decode()
        read = [int(number, 16) for number in re.findall(r"\b(?:mov|movzbl) +0x([0-9a-f]+)\(%r", code)]
        same([number for number in read if number < 0x10000][-2:], [table["vm_objects"], table[field]], function)


if __name__ == "__main__":
    main()
