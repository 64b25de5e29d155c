#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The page of mayfly view as it is built: one file that asks nobody, with the native reader's code,
whose answers are the native reader's."""
import array
import glob
import json
import math
import os
import random
import re
import shutil
import struct
import sys

from harness import BUILD, Folder, SOURCE, Skip, case, cases, check, main, need, read, run, same

PAGE = os.path.join(BUILD, "src", "page")
VIEWER = os.path.join(SOURCE, "viewer")
GOLDEN = sorted(glob.glob(os.path.join(SOURCE, "tests", "golden", "*.mayfly")))
MOST_BYTES = 400 * 1000

REQUESTS = ["info", "overview", "rows?by=function&top=20", "rows?by=line&metric=allocated&skip=3",
            "rows?by=stack&metric=leaked", "rows?by=type", "rows?by=holder", "tree?holder=g_sessions",
            "overview?metric=picture&type=Session", "curve?holder=x", "held?focus=parse", "rows?by=holder&at=1s", "rows?by=size&min-size=100",
            "rows?by=function&from=1ms&to=20ms&focus=a", "curve?points=50",
            "series?points=20&top=3", "histogram?classes=size", "histogram?classes=lifetime",
            "spans", "events", "churn", "reallocs", "survival", "rss", "fragmentation", "leaks",
            "source", "source?file=demo.c", "tree", "tree?invert=1&metric=allocated", "counters?points=20",
            "lanes?width=500", "heat", "callers?function=main", "export?format=folded",
            "export?format=csv", "export?format=flamegraph", "nonsense", "rows?by=nonsense"]


def built():
    """The page, if there is one."""
    path = os.path.join(PAGE, "viewer.html")
    if not os.path.exists(path) or not os.path.getsize(path):
        raise Skip("the page is not built")
    return read(path).decode()


@case
def size():
    text = built()
    print("# the page has %d bytes" % len(text))
    check(len(text.encode()) <= MOST_BYTES, "the page has", len(text), "bytes")


@case
def one_file():
    """Nothing in the page names another file, and its policy allows no request but to its server."""
    text = built()
    for address in re.findall(r'(?:src|href|action)\s*=\s*["\']?([^"\'\s>]*)', text.split("<script")[0]):
        check(address.startswith("data:"), "refers to", address)
    check(not re.search(r"<(script|img|iframe|link)[^>]*\bsrc=", text), "loads a file")
    policy, = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    same(rules["default-src"], "'none'", "default-src")
    same(rules["connect-src"], "'self'", "connect-src")
    check("http" not in policy and "*" not in policy and "unsafe-inline" not in rules["script-src"]
          and "'unsafe-eval'" not in rules["script-src"], policy)
    same(text.count("<!-- data -->"), 1, "places for a trace")


@case
def types():
    """tsc finds nothing wrong."""
    need("npm")
    if not os.path.exists(os.path.join(VIEWER, "node_modules", "typescript")):
        raise Skip("npm's typescript is not installed")
    result = run(["npm", "run", "--silent", "check"], cwd=VIEWER)
    check(result.code == 0, result.out.decode())


@case
def needs_nothing_of_its_host():
    """The reader imports the decoder of zstd, and nothing of WASI."""
    built()
    need("node")
    script = ("const m = new WebAssembly.Module(require('fs').readFileSync(process.argv[1]));"
              "console.log(JSON.stringify([WebAssembly.Module.imports(m), "
              "WebAssembly.Module.exports(m)]))")
    result = run(["node", "-e", script, os.path.join(PAGE, "reader.wasm")])
    check(result.code == 0, result)
    imports, exports = json.loads(result.out)
    same([(one["module"], one["name"]) for one in imports], [("env", "zstd_decompress")], "imports")
    found = {one["name"] for one in exports}
    with open(os.path.join(SOURCE, "src", "page", "wasm.h")) as file:
        promised = set(re.findall(r"WASM_EXPORT\((reader_\w+)\)", file.read()))
    same(promised, {name for name in found if name.startswith("reader_")}, "exports")


# ---- the same answers ----

def split(output):
    """[(status, type, bytes)] of what view_ask and ask_reader.mjs print."""
    found, at = [], 0
    while at < len(output):
        end = output.index(b"\n", at)
        status, kind, size = re.match(r"(\d+) (.*) (\d+)$", output[at:end].decode()).groups()
        found.append((int(status), kind, output[end + 1:end + 1 + int(size)]))
        at = end + int(size) + 2
    return found


def close(a, b):
    """The same number: libm's functions differ in their last bits."""
    return a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)


def compare(a, b, where):
    if isinstance(a, dict) and isinstance(b, dict):
        same(list(a), list(b), where)
        for key in a:
            compare(a[key], b[key], "%s.%s" % (where, key))
    elif isinstance(a, list) and isinstance(b, list):
        same(len(a), len(b), where)
        for i, (x, y) in enumerate(zip(a, b)):
            compare(x, y, "%s[%d]" % (where, i))
    elif isinstance(a, (int, float)) and isinstance(b, (int, float)):
        check(type(a) is type(b) and close(a, b), where, a, b)
    else:
        same(a, b, where)


TYPES = {"u8": "B", "u32": "I", "f32": "f", "f64": "d"}


def compare_arrays(a, b, where):
    """Compares answers that are arrays (src/view/view.h)."""
    heads = []
    for answer in (a, b):
        length, = struct.unpack_from("<I", answer)
        heads.append(json.loads(answer[4:4 + length]))
    compare(*heads, where)
    for name, how in heads[0]["arrays"].items():
        numbers = []
        for answer in (a, b):
            one = array.array(TYPES[how["type"]])
            one.frombytes(answer[how["offset"]:how["offset"] + how["count"] * one.itemsize])
            numbers.append(one)
        check(all(map(close, *numbers)), where, "array", name)


def compare_answers(trace, native, page):
    same(len(native), len(page), "answers")
    for request, (status, kind, a), (other_status, other_kind, b) in zip(REQUESTS, native, page):
        where = "%s: %s" % (os.path.basename(trace), request)
        same((status, kind), (other_status, other_kind), where)
        if kind == "application/json":
            compare(json.loads(a), json.loads(b), where)
        elif kind == "application/octet-stream":
            compare_arrays(a, b, where)
        else:
            same(a, b, where)


def ask_native(trace, *requests):
    return run([os.path.join(BUILD, "tests", "view_ask"), trace, *requests])


def ask_page(trace, *requests):
    return run(["node", os.path.join(SOURCE, "tests", "ask_reader.mjs"), PAGE, trace, *requests])


def same_answers(trace):
    native, page = ask_native(trace, *REQUESTS), ask_page(trace, *REQUESTS)
    if native.code:
        check(b"made by another version of mayfly than this page" in page.err, page)
        return
    same((page.code, page.err), (0, b""), page)
    compare_answers(trace, split(native.out), split(page.out))


@cases([os.path.basename(path) for path in GOLDEN])
def answers(name):
    """Both readers give the same, errors included."""
    built()
    need("node")
    same_answers(os.path.join(SOURCE, "tests", "golden", name))


@case
def pattern_refused():
    """In the words of the libc that compiles it."""
    built()
    need("node")
    answer, = split(ask_page(GOLDEN[0], "rows?focus=(").out)
    same(answer[0], 400, answer)
    check("is not a regular expression" in json.loads(answer[2])["error"], answer)


@case
def difference():
    built()
    need("node")
    trace, base = [os.path.join(SOURCE, "tests", "golden", name + ".mayfly")
                   for name in ("sampled", "exact")]
    requests = ["--base", base, "info", "diff", "difftree"]
    native, page = ask_native(trace, *requests), ask_page(trace, *requests)
    same((native.code, page.code, page.err), (0, 0, b""), page)
    for a, b in zip(split(native.out), split(page.out)):
        same(a[:2], b[:2], requests)
        if a[1] == "application/json":
            compare(json.loads(a[2]), json.loads(b[2]), str(requests))
        else:
            compare_arrays(a[2], b[2], str(requests))


@cases(["exact", "sampled", "made-tracks", "snapshots", "made-picture"])
def damaged(name):
    """Bytes changed at random, and files cut off: the page answers what the native reader does."""
    built()
    need("node")
    whole = read(os.path.join(SOURCE, "tests", "golden", name + ".mayfly"))
    chance = random.Random(name)
    requests = ["info", "rows?by=stack&metric=allocated", "rows?by=holder", "leaks", "churn"]
    with Folder() as here:
        paths = []
        for i in range(40):
            data = bytearray(whole)
            for _ in range(chance.randint(1, 3)):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            if i % 4 == 0:
                del data[chance.randrange(len(data)):]
            paths.append(here / ("%d.mayfly" % i))
            with open(paths[-1], "wb") as file:
                file.write(data)
        asked = [request for path in paths[1:] for request in ["@" + path, *requests]]
        page = ask_page(paths[0], *requests, *asked)
        same(page.code, 0, page)
        found = iter(split(page.out))
        for path in paths:
            native = ask_native(path, *requests)
            if native.code:  # it does not open
                for _ in range(1 + len(requests)):
                    same(next(found)[0], 0, path)
                continue
            for request, (status, kind, text) in zip(requests, split(native.out)):
                other = next(found)
                same((status, kind), other[:2], path + " " + request)
                compare(json.loads(text), json.loads(other[2]), path + " " + request)


@case
def other_files():
    """What only the native reader opens: the page says so."""
    built()
    need("node")
    with Folder() as here:
        files = {"empty": b"", "text": b"Hello", "heaptrack": b"v 10500 3\nx /bin/true\n"}
        spool = os.path.join(SOURCE, "tests", "golden", "made-exact.spool.xz")
        files["spool"] = run(["xz", "-dc", spool]).out
        for name, data in files.items():
            with open(here / name, "wb") as file:
                file.write(data)
            page = ask_page(here / name)
            check(b"mayfly view FILE" in page.err and b": not a mayfly trace" in page.err, page)


# ---- building it ----

@case
def without_libraries():
    """Without npm's libraries the page is empty, the build goes on, and one line says it."""
    need("node")
    with Folder() as here:
        shutil.copytree(VIEWER, here / "viewer", ignore=lambda *_: ["node_modules"])
        os.makedirs(here / "src/page")
        shutil.copy(os.path.join(SOURCE, "src/page/viewer_page.S.in"), here / "src/page")
        os.mkdir(here / "out")
        with open(here / "reader.wasm", "wb"):
            pass
        result = run(["node", here / "viewer/build.mjs", here / "reader.wasm", here / "out"])
        same(result.code, 0, result)
        check(result.out.count(b"\n") == 1 and b"viewer/install" in result.out, result)
        same(read(here / "out/viewer.html"), b"", "page")


@case
def install_without_npm():
    """viewer/install never fails, and says in a line what is missing."""
    with Folder() as here:
        shutil.copytree(VIEWER, here / "viewer", ignore=lambda *_: ["node_modules"])
        os.mkdir(here / "bin")
        for tool in ("sh", "cmp", "dirname", "cp", "rm", "grep", "tail"):
            os.symlink(shutil.which(tool), here / ("bin/" + tool))
        result = run([here / "viewer/install"], env=dict(os.environ, PATH=here / "bin"))
        same(result.code, 0, result)
        check(result.out.count(b"\n") == 1 and b"scripts/setup viewer" in result.out, result)


@case
def install_without_network():
    need("npm")
    with Folder() as here:
        shutil.copytree(VIEWER, here / "viewer", ignore=lambda *_: ["node_modules"])
        # Port 9 of this machine is closed, and npm's cache is empty.
        env = dict(os.environ, npm_config_registry="http://127.0.0.1:9/", npm_config_cache=here / "cache",
                   npm_config_fetch_retries="0")
        result = run([here / "viewer/install"], env=env)
        same(result.code, 0, result)
        check(result.out.count(b"\n") == 2 and b"could not get its libraries" in result.out, result)


if __name__ == "__main__":
    sys.exit(main())
