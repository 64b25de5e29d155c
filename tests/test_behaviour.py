#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Real programs do under `mayfly record` exactly what they do without it: output, error output,
exit status and the files they write. At interval 1 every allocation is recorded; at 512K few."""
import concurrent.futures
import hashlib
import json
import os
import random
import subprocess
import xml.etree.ElementTree

import harness
from harness import (CLANG, Folder, MAYFLY, PYTHON, SOURCE, Skip, case, cases, check, environment, main, need, record, run,
                     same, sane, unchanged, wait_until)

INTERVALS = ["1", "512K"]


def content(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


@cases(INTERVALS)
def clang_compiles(interval):
    need(CLANG)
    with Folder() as here:
        source = os.path.join(SOURCE, "tests", "programs", "templates.cc")
        command = [CLANG, "-std=c++17", "-O1", "-g", "-c", source, "-o", "out.o"]
        plain = run(command, cwd=here.path)
        same(plain.code, 0, "clang alone")
        expected = content(here / "out.o")
        os.unlink(here / "out.o")
        watched = record(command, here / "t.mayfly", "-i", interval, cwd=here.path)
        same((watched.code, watched.out, watched.err), (0, plain.out, plain.err), "clang")
        same(content(here / "out.o"), expected, "object file")
        # The driver runs the compiler in its own process, so this is the whole compilation.
        sane(here / "t.mayfly", 100000 if interval == "1" else 10)


@case
def clang_diagnoses():
    need(CLANG)
    with Folder() as here:
        with open(here / "bad.cc", "w") as file:
            file.write("template <class T> int f(T t) { return t.x; }\n"
                       "int main() { return f(3) + g(\"\") }\n" * 5)
        watched = unchanged([CLANG, "-c", "bad.cc", "-o", "bad.o"], here / "t.mayfly",
                            "-i", "1", cwd=here.path)
        same(watched.code, 1, "exit status")
        check(b"error:" in watched.err, watched)


@cases(INTERVALS)
def gcc_compiles(interval):
    """The driver starts the compiler and the assembler as processes of their own."""
    need("gcc")
    with Folder() as here:
        with open(here / "a.c", "w") as file:
            file.write("#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n")
        command = ["gcc", "-O2", "-pipe", "a.c", "-o", "a"]
        same(run(command, cwd=here.path).code, 0, "gcc alone")
        expected = content(here / "a")
        watched = record(command, here / "t.mayfly", "-f", "-i", interval, cwd=here.path)
        same((watched.code, watched.out, watched.err), (0, b"", b""), "gcc")
        same(content(here / "a"), expected, "executable")
        if interval == "1":
            traces = here.files("t*.mayfly")
            check(len(traces) >= 4, "expected traces of gcc, cc1, as, collect2:", traces)
            for trace in traces:
                sane(trace)


def python_tests(names, folder, trace=None, interval=None):
    """{test: outcome} of python's own tests `names`."""
    os.makedirs(folder)
    results = os.path.join(folder, "results.xml")
    command = ["/usr/bin/python3", "-m", "test", "--junit-xml", results, *names]
    variables = environment(TMPDIR=folder)
    if trace:
        outcome = record(command, trace, "-i", interval, env=variables)
    else:
        outcome = run(command, env=variables)
    if not os.path.exists(results):
        if b"No module named" in outcome.out + outcome.err or b"ModuleNotFoundError" in outcome.out:
            raise Skip("python's own tests are not installed (libpython3.N-testsuite)")
        raise AssertionError("no results: %r" % outcome)
    found = {}
    for test in xml.etree.ElementTree.parse(results).getroot().iter("testcase"):
        state = "passed"
        for child in test:
            if child.tag in ("failure", "error", "skipped"):
                state = child.tag + ": " + (child.text or "")[-1500:]
        if test.get("status") == "notrun":
            state = "skipped"
        name = (test.get("classname") or "") + "." + test.get("name")
        found.setdefault(name, []).append(state)
    check(found, "no test has run:", outcome)
    return found, outcome.code


def compare_python_tests(names, intervals):
    with Folder() as here, concurrent.futures.ThreadPoolExecutor(1 + len(intervals)) as pool:
        plain = pool.submit(python_tests, names, here / "plain")
        watched = {interval: pool.submit(python_tests, names, here / ("at-" + interval),
                                         here / (interval + ".mayfly"), interval)
                   for interval in intervals}
        expected, expected_code = plain.result()
        for interval, job in watched.items():
            got, code = job.result()
            different = ["%s: %s, alone: %s" % (name, got.get(name), expected.get(name))
                         for name in sorted(set(got) | set(expected))
                         if got.get(name) != expected.get(name)]
            check(not different, "at interval", interval + ":", "\n".join(different[:20]))
            same(code, expected_code, "exit status at interval " + interval)
            sane(here / (interval + ".mayfly"), 10)


@case
def python_json():
    compare_python_tests(["test_json"], ["1", "512K"])


@case
def python_ast_re():
    compare_python_tests(["test_ast", "test_re"], ["4K", "512K"])


@case
def python_re_exact():
    compare_python_tests(["test_re"], ["1"])


@case
def python_threading_subprocess():
    compare_python_tests(["test_threading", "test_subprocess"], ["4K", "512K"])


SQL = b"""
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL, grp INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO item SELECT i, 'name ' || (i * 7919 % 10007), i * 1.5, i % 17 FROM n;
CREATE INDEX by_name ON item(name);
SELECT grp, count(*), sum(price), min(name), max(name) FROM item GROUP BY grp ORDER BY grp;
SELECT a.id, b.id FROM item a JOIN item b ON a.name = b.name AND a.id < b.id ORDER BY 1, 2 LIMIT 50;
UPDATE item SET name = upper(name) || id WHERE grp = 3;
DELETE FROM item WHERE grp = 4;
SELECT count(*), length(group_concat(name, ',')) FROM item;
SELECT * FROM nowhere;
SELECT name FROM item ORDER BY price DESC LIMIT 20;
VACUUM;
PRAGMA integrity_check;
"""


@cases(INTERVALS)
def sqlite(interval):
    need("sqlite3")
    with Folder() as here:
        watched = unchanged(["sqlite3", ":memory:"], here / "t.mayfly", "-i", interval, stdin=SQL,
                            cwd=here.path)
        check(b"no such table" in watched.err and b"ok\n" in watched.out, watched)
        sane(here / "t.mayfly", 1000 if interval == "1" else 1)


def make_repository(here):
    """Commits with fixed names and times, so that all runs see the same."""
    variables = environment(HOME=here.path, GIT_CONFIG_NOSYSTEM="1", GIT_AUTHOR_NAME="A",
                            GIT_AUTHOR_EMAIL="a@example.org", GIT_COMMITTER_NAME="C",
                            GIT_COMMITTER_EMAIL="c@example.org", GIT_PAGER="cat",
                            GIT_AUTHOR_DATE="2024-01-01T00:00:00Z",
                            GIT_COMMITTER_DATE="2024-01-01T00:00:00Z")
    chance = random.Random(4)

    def git(*arguments):
        result = run(["git", *arguments], env=variables, cwd=here.path)
        check(result.code == 0, "git", arguments, result)

    git("init", "-q", "-b", "main")
    lines = ["line %d %d" % (i, chance.random() * 1e6) for i in range(2000)]
    for commit in range(12):
        for _ in range(60):
            lines[chance.randrange(len(lines))] = "changed %d" % chance.randrange(10000)
        for part in range(8):
            with open(here / ("file%d.txt" % part), "w") as file:
                file.write("\n".join(lines[part * 250:part * 250 + 250]))
        git("add", ".")
        git("commit", "-q", "-m", "commit %d" % commit)
    return variables


@cases(INTERVALS)
def git(interval):
    need("git")
    with Folder() as here:
        variables = make_repository(here)
        for number, command in enumerate((["log", "-p", "--stat"], ["diff", "HEAD~9", "HEAD"],
                                          ["log", "--oneline", "--graph", "-S", "changed 1"],
                                          ["blame", "file3.txt"], ["fsck", "--full"],
                                          ["repack", "-a", "-d", "-f", "-q"],
                                          ["nonsense"])):
            trace = here / ("%d.mayfly" % number)
            watched = unchanged(["git", *command], trace, "-i", interval, env=variables,
                                cwd=here.path)
            same(watched.code, 1 if command == ["nonsense"] else 0, "git " + command[0])
            sane(trace, 100 if interval == "1" else 0)
            os.unlink(trace)


@cases(INTERVALS)
def jq(interval):
    need("jq")
    chance = random.Random(5)
    data = json.dumps([{"id": i, "name": "n%d" % chance.randrange(1000),
                        "tags": ["t%d" % chance.randrange(50) for _ in range(5)],
                        "deep": {"a": {"b": [i, str(i), None, True, chance.random()]}}}
                       for i in range(3000)]).encode()
    program = 'group_by(.name) | map({name: .[0].name, n: length, tags: (map(.tags[]) | unique)}) ' \
              '| sort_by(-.n) | .[:40], (.[0] | tojson | fromjson)'
    with Folder() as here:
        unchanged(["jq", "-c", program], here / "t.mayfly", "-i", interval, stdin=data)
        sane(here / "t.mayfly", 10000 if interval == "1" else 1)
        watched = unchanged(["jq", "."], here / "e.mayfly", "-i", interval, stdin=b'{"cut": [1,')
        check(watched.code != 0 and b"error" in watched.err, "a parse error:", watched)


@case
def python_memory():
    """The acceptance's example, smaller: PYTHONMALLOC decides which allocator is seen."""
    script = ("import json\n"
              "d = [{'k': i, 'v': [str(i)] * 9} for i in range(20000)]\n"
              "s = json.dumps(d); e = json.loads(s); print(len(s), e == d)\n")
    with Folder() as here:
        for number, allocator in enumerate(("malloc", "pymalloc", "malloc_debug")):
            trace = here / ("%d.mayfly" % number)
            watched = unchanged([*PYTHON, "-c", script], trace, "-i", "1",
                                env=environment(PYTHONMALLOC=allocator))
            check(b"True" in watched.out, watched)
            sane(trace, 10000 if allocator == "malloc" else 100)


@cases(INTERVALS)
def redis(interval):
    """A server with threads, driven through its own client; ended by SIGTERM from the client."""
    need("redis-server", "redis-cli")
    with Folder() as here:
        path = here / "socket"
        command = ["redis-server", "--port", "0", "--unixsocket", path, "--save", "",
                   "--daemonize", "no", "--dir", here.path]
        server = subprocess.Popen([MAYFLY, "record", "-o", here / "t.mayfly", "-i", interval, "--",
                                   *command], env=environment(), stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            wait_until(lambda: os.path.exists(path) or server.poll() is not None, "the server's socket")
            script = "".join("SET key:%d %s\nRPUSH list item%d\nHSET h f%d v\n" %
                             (i, "v" * (i % 200 + 1), i, i) for i in range(3000))
            script += "DBSIZE\nLLEN list\nHLEN h\nGET key:150\nDEL list\nLLEN list\nSHUTDOWN NOSAVE\n"
            answer = run(["redis-cli", "-s", path], stdin=script.encode())
            lines = answer.out.split()
            same(lines[-6:], [b"3002", b"3000", b"3000", b"v" * 151, b"1", b"0"], "answers")
            same(server.wait(harness.TIMEOUT), 0, "exit status")
        finally:
            if server.poll() is None:
                server.kill()
                server.wait()
        sane(here / "t.mayfly", 3000 if interval == "1" else 1)


if __name__ == "__main__":
    main()
