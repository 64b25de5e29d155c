#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Memtrace's files through the commands: import, export, dump --like-memtrace, and every command on
such a file directly."""
import glob
import gzip
import json
import os
import re
import struct
import subprocess

from harness import (MAYFLY, PROGRAMS, SOURCE, Folder, Skip, case, cases, check, environment, main,
                     mayfly, program, read, record, run, same)

TOOL = os.path.join(PROGRAMS, "memtrace_tool")
DATA = os.environ.get("MAYFLY_DATA", os.path.join(SOURCE, "..", "shared", "data"))
EMPTY_EVENTS = 66  # bytes of a packet without events

folder = Folder()
folder.__enter__()


def memtrace_file():
    path = folder / "made.ctf"
    if not os.path.exists(path):
        result = run([TOOL, "make", path])
        same(result.code, 0, "memtrace_tool %r" % result)
    return path


def native_trace(kind="sampled"):
    path = folder / (kind + ".mayfly")
    if not os.path.exists(path):
        same(run([program("make_trace"), kind, path]).code, 0, "make_trace")
    return path


def failing(*arguments, code, said, stdin=b""):
    result = mayfly(*arguments, code=code, lines=1, stdin=stdin)
    check(result.message.startswith("mayfly"), result.message)
    for word in said:
        check(word in result.message, repr(word), "is not in", repr(result.message))
    same(result.out, b"", "standard output")


def facts(path):
    return json.loads(mayfly("info", "--json", path).text)


def write(name, data):
    path = folder / name
    with open(path, "wb") as f:
        f.write(data)
    return path


def without(kept, *names):
    return {key: value for key, value in kept.items() if key not in names}


# ---- reading ----

@case
def clock_that_is_set_back():
    """Every later packet is used; the first line says so, and so does the note of the trace."""
    made = read(memtrace_file())
    data, at, step = bytearray(made), 0, 3 << 25  # of which the events' own bits show nothing
    while at < len(data):
        size = struct.unpack_from("<I", data, at + 4)[0] // 8
        times = struct.unpack_from("<qq", data, at + 8)
        if at > len(data) // 2:
            struct.pack_into("<qq", data, at + 8, times[0] - step, times[1] - step)
        at += size
    path = write("stepped.ctf", bytes(data))
    want = facts(memtrace_file())
    for command in ("report", "info"):
        result = mayfly(command, path, lines=1)
        check(re.match(r"mayfly: \S*stepped.ctf: the program's clock was set back by 100\.\d+ s in all; times after "
                       "that are moved on\n", result.message), result.message)
    same(mayfly("dump", path, lines=1).text.count("\n"), mayfly("dump", memtrace_file()).text.count("\n"), "events")
    mayfly("import", "--force", "-o", folder / "stepped.mayfly", path, lines=1)
    got = facts(folder / "stepped.mayfly")
    same((got["samples"], got["frees"], got["complete"]), (want["samples"], want["frees"], want["complete"]), "events")
    check(got["note"].startswith("converted from a Memtrace file whose clock was set back by 100"), got["note"])


@case
def import_makes_the_trace_that_commands_make():
    made = folder / "made.ctf.mayfly"
    same(mayfly("import", memtrace_file()).out, b"", "standard output")
    direct, imported = facts(memtrace_file()), facts(made)
    same(without(direct, "file_bytes", "converted_from"),
         without(imported, "file_bytes", "converted_from"), "info")
    same(direct["converted_from"], "Memtrace", "of the file")
    same(imported["converted_from"], None, "of the trace")
    same(direct["file_bytes"], os.path.getsize(memtrace_file()), "size of the file")
    same(imported["file_bytes"], os.path.getsize(made), "size of the trace")
    for command in ("report", "dump"):
        same(mayfly(command, memtrace_file()).text, mayfly(command, made).text, command)
    os.unlink(made)


@case
def samples_among_all_blocks_keep_their_weight():
    """Exact and sampled traces, merged and exported: the file has rate 1, and blocks that stand for
    others. Read again, the sums are those of the merged trace."""
    path, exported = folder / "mixed.mayfly", folder / "mixed.ctf"
    mayfly("merge", "-o", path, native_trace("sampled"), native_trace("exact"))
    mayfly("export", "--to", "memtrace", "--heap", "all", "-o", exported, path)
    query = ("report", "--json", "--heap", "all", "--metric", "allocated")
    want = json.loads(mayfly(*query, path).text)["total"]["bytes"]
    got = json.loads(mayfly(*query, exported).text)["total"]["bytes"]
    check(abs(got["estimate"] - want["estimate"]) <= want["estimate"] / 100, got, want)
    same(got["stderr"], None, "which blocks are samples is not in the file")
    check("temporary" in facts(exported)["absent"], facts(exported)["absent"])


@case
def info_says_where_it_comes_from():
    found = facts(memtrace_file())
    same((found["pid"], found["samples"], found["mode"]), (1234, 300, "sampled"), "facts")
    same(found["interval_bytes"], 8000, "bytes that the rate 1e-3 of words of 8 bytes is once in")
    same((found["ocaml_rate"], found["ocaml_interval_bytes"]), (1e-3, 8000), "rate")
    for word in ("Memtrace", "version 2", "rate 0.001", "host host", "context made",
                 "OCAMLRUNPARAM s=256k"):
        check(word in found["note"], word, "is not in", found["note"])
    text = mayfly("info", memtrace_file()).text
    check(re.search("^File .*, of Memtrace$", text, re.M), text)
    check("Mode         sampled, blocks of OCaml alone\n" in text, text)
    check("OCaml heap   sampled, 0.001 per word: 1 byte in 7.81 KiB\n" in text, text)
    # Nobody can record it again with mayfly's options.
    check("record again" not in text, text)


@case
def standard_input_and_output():
    data = read(memtrace_file())
    path = folder / "named.mayfly"
    mayfly("import", "-o", path, memtrace_file())
    same(mayfly("import", "-", stdin=data).out, read(path), "the trace")
    same(mayfly("import", "-o", "-", memtrace_file()).out, read(path), "the trace")
    same(mayfly("report", "-", stdin=data).text, mayfly("report", path).text, "report")
    exported = mayfly("export", "--to", "memtrace", "-", stdin=read(path)).out
    same(exported, mayfly("export", "--to", "memtrace", "-o", "-", path).out, "the export")
    same(exported[:4], struct.pack("<I", 0xc1fc1fc1), "its first bytes")


@case
def what_was_left_out_is_said():
    data = read(memtrace_file())
    first = struct.unpack_from("<I", data, 4)[0] // 8
    cut = write("cut.ctf", data[:-10])
    result = mayfly("info", cut, lines=1)
    check("cut.ctf: left out: 1 packet that is cut off" in result.message, result.message)
    check("could not be used" in result.text, result.text)
    result = mayfly("dump", "--like-memtrace", cut, lines=1)
    check("1 cut off" in result.message, result.message)
    # The same packets again: neither their times nor their blocks follow.
    twice = write("twice.ctf", data + data[first:])
    result = mayfly("import", "-o", "-", twice, lines=1)
    check("that do not follow the ones before" in result.message, result.message)
    other = bytearray(data)
    struct.pack_into("<Q", other, first + 30, 99)
    result = mayfly("report", write("other.ctf", other), lines=1)
    check("1 packet of another process" in result.message, result.message)


@case
def damaged_files():
    data = bytearray(read(memtrace_file()))
    first = struct.unpack_from("<I", data, 4)[0] // 8
    data[first + EMPTY_EVENTS + 3] = 0x7f  # the code of the first event
    damaged = write("damaged.ctf", data)
    for command in (["info"], ["import", "-o", "-"], ["report"]):
        result = mayfly(*command, damaged, lines=1)
        check("damaged.ctf: damaged: " in result.message, result.message)
    result = mayfly("dump", "--like-memtrace", damaged, code=1, lines=1)
    check("what comes before that is printed" in result.message, result.message)
    version = bytearray(read(memtrace_file()))
    struct.pack_into("<H", version, 28, 4)
    failing("info", write("new.ctf", version), code=1, said=["newer version of Memtrace"])
    failing("report", write("short.ctf", data[:40]), code=1, said=["short.ctf: a Memtrace file"])
    failing("import", write("short.ctf", data[:40]), code=1, said=["short.ctf: a Memtrace file"])
    same(folder.files("short.ctf.mayfly"), [], "what a failed import leaves")


@case
def cut_anywhere():
    data = read(memtrace_file())
    for end in range(1, len(data), max(1, len(data) // 40)):
        result = run([MAYFLY, "import", "-o", "-", write("cut", data[:end])])
        check(result.code in (0, 1) and result.err.count(b"\n") <= 2, end, "bytes:", result)


# ---- writing ----

def lines(path):
    return mayfly("dump", "--like-memtrace", path).text.splitlines()


@case
def export_of_an_import_is_the_same():
    back = folder / "back.ctf"
    mayfly("export", "--to", "memtrace", "-o", back, memtrace_file())
    before = lines(memtrace_file())
    check({"alloc", "alloc_major", "alloc_ext", "promote", "collect"} <=
          {line.split()[2] for line in before}, "the file that was made lacks a kind of event")
    check(any(re.search(r":[1-9]\d*-[1-9]\d*", line) for line in before), "characters")
    same(lines(back), before, "events")
    same(without(facts(back), "file_bytes", "note", "command"),
         without(facts(memtrace_file()), "file_bytes", "note", "command"), "facts")


@cases(["1", "2", "3"])
def every_byte_of_a_file_comes_back(version):
    """Host, OCAMLRUNPARAM, context, domains and their ids, and names as the runtime has them."""
    made = folder / ("made-%s.ctf" % version)
    same(run([TOOL, "make", made, version]).code, 0, "memtrace_tool")
    trace = folder / ("made-%s.mayfly" % version)
    mayfly("import", "-o", trace, made)
    back = mayfly("export", "--to", "memtrace", "-o", "-", trace).out
    with open(made, "rb") as f:
        check(back == f.read(), "the file differs after import and export", len(back))
    if version == "3":
        found = {line.split(" dom=")[1].split()[0] for line in lines(made) if " dom=" in line}
        same(found, {"0", "7", "300"}, "domains")


@case
def heaps_and_promotions_are_kept():
    events = [json.loads(line) for line in mayfly("dump", "--json", memtrace_file()).text.splitlines()]
    text = lines(memtrace_file())
    names = {"alloc": "ocaml-minor", "alloc_major": "ocaml-major", "alloc_ext": "external"}
    same([e["heap"] for e in events if e["event"] == "alloc"],
         [names[line.split()[2]] for line in text if " alloc" in line], "heaps")
    kinds = {"promote": "promote", "collect": "free"}
    same([(e["event"], e["sample"]) for e in events if e["event"] != "alloc"],
         [(kinds[line.split()[2]], int(line.split()[1])) for line in text if " alloc" not in line],
         "promotions and ends")
    same([e["time_ns"] for e in events], [1000 * int(line.split()[0]) for line in text], "times")
    # Each sample stands for 1 / rate words, of a rate whose interval is no power of two.
    for e, line in zip([e for e in events if e["event"] == "alloc"],
                       [line.split() for line in text if " alloc" in line]):
        check(abs(e["weight_bytes"] - int(line[3]) * 8 / 1e-3) < 1e-6 * e["weight_bytes"], e, line)


@cases(["sampled", "exact"])
def export_of_a_native_trace(kind):
    trace = native_trace(kind)
    out = folder / (kind + ".ctf")
    same(mayfly("export", "--to", "memtrace", trace).out, b"", "standard output")
    same(mayfly("dump", "--like-memtrace", trace).text, mayfly("dump", "--like-memtrace", out).text,
         "dump of the trace and of the file")
    events = [json.loads(line) for line in mayfly("dump", "--json", trace).text.splitlines()]
    allocs = [e for e in events if e["event"] == "alloc"]
    found = [line.split() for line in lines(out)]
    written = [line for line in found if line[2].startswith("alloc")]
    same(len(written), len(allocs), "blocks")
    for line, event in zip(written, allocs):
        same(int(line[4][4:]), (event["size"] + 7) // 8, "words of %r" % line)
        names = ["$" if "+0x" in name else
                 "[unknown-callers]" if name == "[stack cut]" else
                 name.replace(" ", "-") if "frames left out" in name else name
                 for name in event["stack"]]
        text = re.sub(r"@\S+:\d+:\d+-\d+(?= |$)", "", " ".join(line[6:]))
        same(re.sub(r"\$\d+", "$", text), " ".join(names).replace(";", " "), "stack")
    same(len([line for line in found if line[2] == "collect"]), len(events) - len(allocs), "frees")
    rate = 8 / facts(trace)["interval_bytes"]
    samples = sum(int(line[3]) for line in written)
    wanted = sum(event["weight_bytes"] for event in allocs) / 8 * min(rate, 1)
    if kind == "exact":
        same(samples, sum(max(1, (event["size"] + 7) // 8) for event in allocs), "words")
    else:
        check(abs(samples - wanted) <= len(allocs), samples, "samples, expected", wanted)
    os.unlink(out)


@case
def export_of_a_recording():
    """The functions and lines of a real program."""
    trace, out = folder / "known.mayfly", folder / "known.ctf"
    done = record([program("planned")], trace, "-i", "4K", "--quiet")
    same(done.code, 0, "record %r" % done)
    mayfly("export", "--to", "memtrace", trace)
    text = mayfly("dump", "--like-memtrace", out).text
    check(re.search(r" main@\S*planned\.c:[1-9]\d*:\d+-\d+", text), text[:500])
    check(" alloc_ext " in text and " collect" in text, text[:500])
    same(sorted(facts(out)["command"]), [os.path.realpath(program("planned"))], "program")
    copied = write("copied.ctf", run([TOOL, "copy", out]).out)
    same(read(copied), read(out), "the file decoded and coded again")


@case
def snapshots_have_no_blocks():
    trace = folder / "snapshots.mayfly"
    done = record([program("planned")], trace, "-x", "--snapshots=10ms", "--quiet")
    same(done.code, 0, "record %r" % done)
    failing("export", "--to", "memtrace", trace, code=1, said=["snapshots.mayfly", "no single blocks"])
    failing("dump", "--like-memtrace", trace, code=1, said=["no single blocks"])
    same(folder.files("snapshots.ctf"), [], "files")


# ---- files ----

@cases([["import"], ["export", "--to", "memtrace"]])
def files_are_not_overwritten(command):
    with Folder() as here:
        precious, empty, link = here / "precious", here / "empty", here / "link"
        with open(precious, "w") as f:
            f.write("years of work")
        open(empty, "w").close()
        os.chmod(precious, 0o640)
        os.symlink("precious", link)
        given = memtrace_file()
        failing(*command, "-o", precious, given, code=1, said=["precious' exists", "--force"])
        failing(*command, "-o", link, given, code=1, said=["link' exists"])
        same(read(precious), b"years of work", "contents")
        mayfly(*command, "-o", empty, given)
        mayfly(*command, "-o", link, "--force", given)
        check(os.path.islink(link), "the link was replaced")
        same(read(precious), read(empty), "what was written")
        same(facts(precious)["samples"], 300, "samples")
        failing(*command, "-o", here.path, given, code=1, said=["is a folder"])
        failing(*command, "-o", here / "no/where", given, code=1, said=["cannot write"])
        same(sorted(os.listdir(here.path)), ["empty", "link", "precious"], "files")


@cases([["import"], ["export", "--to", "memtrace"]])
def a_file_may_replace_what_it_is_made_of(command):
    path = write("self.ctf", read(memtrace_file()))
    mayfly(*command, "--force", "-o", path, path)
    same(facts(path)["samples"], 300, "samples")


@cases([["import"], ["export", "--to", "memtrace"]])
def nothing_is_left_of_a_failure(command):
    if not os.path.exists("/dev/full"):
        raise Skip("no /dev/full")
    failing(*command, "-o", "/dev/full", memtrace_file(), code=1,
            said=["/dev/full", "No space left on device"])
    with open("/dev/full", "wb") as full:
        result = subprocess.run([MAYFLY, *command, "-o", "-", memtrace_file()], stdout=full,
                                stderr=subprocess.PIPE, env=environment())
    same(result.returncode, 1, "exit status")
    check(b"mayfly: standard output: No space left" in result.stderr, result.stderr)
    with Folder() as here:
        garbage = here / "garbage"
        with open(garbage, "wb") as f:
            f.write(b"no trace" * 100)
        result = run([MAYFLY, *command, garbage])
        same((result.code, result.err.count(b"\n")), (1, 1), "exit status and lines")
        same(os.listdir(here.path), ["garbage"], "files")


@case
def a_pipe_is_written_to():
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    process = subprocess.Popen([MAYFLY, "import", "-o", pipe, memtrace_file()], env=environment())
    data = read(pipe)
    same(process.wait(), 0, "exit status")
    same(data, mayfly("import", "-o", "-", memtrace_file()).out, "what came out")
    os.unlink(pipe)


# ---- arguments ----

@case
def arguments():
    given = memtrace_file()
    failing("export", given, code=2, said=["--to", "memtrace"])
    failing("export", "--to", "sheet", given, code=2, said=["'sheet'", "memtrace"])
    failing("export", "--to", "memtrace", code=2, said=["no trace given"])
    failing("export", "--to", "memtrace", "-o", "", given, code=2, said=["empty"])
    failing("export", "--to", "memtrace", given, "b", code=2, said=["'b'"])
    failing("export", "--frobnicate", code=2, said=["--frobnicate"])
    failing("import", code=2, said=["no input"])
    failing("import", given, "b", code=2, said=["'b'"])
    failing("import", "-o", "", given, code=2, said=["empty"])
    failing("import", native_trace(), code=1, said=["is already a trace of mayfly"])
    failing("import", write("garbage", b"garbage" * 10), code=1, said=["not a file of a kind that 'mayfly import --help' lists"])
    failing("import", folder / "missing", code=1, said=["no such file"])
    failing("dump", "--like-memtrace", "--json", given, code=2, said=["--like-memtrace"])
    failing("dump", "--like-memtrace", "--no-stacks", given, code=2, said=["--like-memtrace"])
    failing("dump", "--like-memtrace", write("garbage", b"garbage" * 10), code=1,
            said=["not a mayfly trace"])


@case
def plan_takes_only_exact_files():
    failing("plan", memtrace_file(), code=1, said=["made.ctf"])


# ---- real files ----

def with_domains(path, text):
    """The dumps of the collection were made before Memtrace printed domains."""
    version3 = path.endswith("_v3.ctf")
    return re.sub(rb"( len=\d+)", rb"\1 dom=0", text) if version3 else text


@case
def dumps_of_real_files():
    found = sorted(glob.glob(os.path.join(DATA, "memtrace-corpus", "*.ctf")))
    if not found:
        raise Skip("the collection of real files is not here")
    for path in found:
        with gzip.open(path[:-len(".ctf")] + ".dump.txt.gz") as f:
            expected = f.read()
        same(mayfly("dump", "--like-memtrace", path).out, with_domains(path, expected), path)
        imported = facts(write("real.mayfly", mayfly("import", "-o", "-", path).out))
        same(imported["samples"], expected.count(b" alloc"), "blocks of " + path)
        check(imported["frees"] <= expected.count(b" collect\n"), "frees of " + path)


@case
def exports_of_real_files():
    """Each file comes back byte for byte from its import."""
    found = sorted(glob.glob(os.path.join(DATA, "memtrace-corpus", "*.ctf")))
    if not found:
        raise Skip("the collection of real files is not here")
    for path in found:
        # Memtrace had to cut stacks of this one: what they were is not in the file.
        if "deepcut" in path:
            continue
        trace = write("real.mayfly", mayfly("import", "-o", "-", path).out)
        back = mayfly("export", "--to", "memtrace", "-o", "-", trace).out
        with open(path, "rb") as f:
            check(f.read() == back, path)


if __name__ == "__main__":
    main()
