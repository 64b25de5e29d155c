#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""OpenTelemetry profiles, and pushes to collectors and to Pyroscope. Neither is in Debian: protoc reads
the profiles by the published schema, and a server of this test speaks HTTP as the two do."""
import atexit
import base64
import collections
import contextlib
import datetime
import gzip
import http.server
import json
import os
import re
import socket
import ssl
import struct
import subprocess
import threading
import time
import urllib.parse

from harness import (AGENT, MAYFLY, SOURCE, Folder, case, cases, check, environment, info, main, need, program,
                     record, report, run, same, unfolded, wait_until)
from profiles import Pprof, field, pprof
from protoc import decode, one
from told import Told, told_recording

folder = Folder()
folder.__enter__()
atexit.register(folder.__exit__)


def trace(kind="sampled"):
    path = folder / (kind + ".mayfly")
    if not os.path.exists(path):
        same(run([program("make_trace"), kind, path]).code, 0, "make_trace")
    return path


# ---- a reader of OTLP ----

class Otlp:
    """A request: profiles by type, stacks of functions, facts of the process."""

    def __init__(self, data):
        request = decode(data, os.path.join(SOURCE, "tests"), "otlp.proto", "otlp.Request")
        self.tables = one(request, "dictionary", None)
        self.used = collections.defaultdict(set)
        resource = one(request, "resource_profiles", None)
        self.facts = {}
        for pair in one(resource, "resource", {}).get("attributes", []):
            check(one(pair, "key", "") not in self.facts, "a key twice", pair)
            self.facts[one(pair, "key", "")] = self.any_value(one(pair, "value", None))
        scope = one(resource, "scope_profiles", None)
        same(one(one(scope, "scope", None), "name"), "mayfly", "scope")
        self.profiles = {}
        self.order = []
        for profile in scope["profiles"]:
            kind = one(profile, "sample_type", None)
            name = self.string(one(kind, "type_strindex"))
            self.order.append((name, self.string(one(kind, "unit_strindex"))))
            self.profiles[name] = profile
            profile["facts"] = self.attributes(profile["attribute_indices"])
            period = one(profile, "period_type", None)
            same([self.string(one(period, key)) for key in ("type_strindex", "unit_strindex")],
                 ["memory", "bytes"], "period, by whose type Pyroscope files it")
        same(len(self.order), len(set(self.order)), "a type twice")
        self.samples = {name: self.samples_of(profile) for name, profile in self.profiles.items()}
        self.check_tables()

    def item(self, table, index):
        table += "_table"
        check(0 <= index < len(self.tables[table]), table, "has no", index)
        self.used[table].add(index)
        return self.tables[table][index]

    def string(self, index):
        return self.item("string", index)

    def any_value(self, value):
        (kind, (found,)), = value.items()
        check(isinstance(found, {"string_value": str, "int_value": int, "double_value": (int, float)}[kind]), value)
        return found

    def attributes(self, indices):
        found = {}
        for index in indices:
            check(index, "attribute 0")
            item = self.item("attribute", index)
            key = self.string(one(item, "key_strindex"))
            check(key and key not in found, "a key twice", key)
            found[key] = (self.any_value(one(item, "value", None)), self.string(one(item, "unit_strindex")))
        return found

    def location(self, index):
        """[(function, file, line)], mapping or None, address"""
        check(index, "location 0")
        item = self.item("location", index)
        lines = []
        for line in item["lines"]:
            check(one(line, "function_index"), "function 0")
            function = self.item("function", one(line, "function_index"))
            check(one(function, "name_strindex"), "a function without a name")
            lines.append((self.string(one(function, "name_strindex")), self.string(one(function, "filename_strindex")),
                          one(line, "line")))
        check(lines, "a location without a line")
        mapping = None
        if one(item, "mapping_index"):
            it = self.item("mapping", one(item, "mapping_index"))
            ids = self.attributes(it["attribute_indices"])
            mapping = (self.string(one(it, "filename_strindex")), one(it, "memory_start"), one(it, "memory_limit"),
                       ids.get("process.executable.build_id.gnu", ("", ""))[0])
        return lines, mapping, one(item, "address")

    def samples_of(self, profile):
        """[(locations, leaf first; labels; value)]"""
        found, seen = [], set()
        for sample in profile["samples"]:
            check(one(sample, "stack_index"), "stack 0")
            identity = (one(sample, "stack_index"), frozenset(sample["attribute_indices"]))
            check(identity not in seen, "a sample twice", identity)
            seen.add(identity)
            value = one(sample, "values")
            check(value > 0, "a value", value)
            stack = self.item("stack", one(sample, "stack_index"))
            labels = self.attributes(sample["attribute_indices"])
            found.append(([self.location(i) for i in stack["location_indices"]],
                          {key: text for key, (text, _) in labels.items()}, value))
        return found

    def check_tables(self):
        """Number 0 of each is empty; no item twice, none that nothing refers to."""
        for name in ("mapping", "location", "function", "attribute", "stack"):
            same(self.tables[name + "_table"][0], {}, name + " 0")
        same(self.tables["string_table"][0], "", "string 0")
        zero, = self.tables["link_table"]
        same([one(zero, key) for key in ("trace_id", "span_id")], ["\0" * 16, "\0" * 8], "link 0")
        for name, table in self.tables.items():
            texts = [json.dumps(item, sort_keys=True) for item in table]
            same(len(texts), len(set(texts)), "an item twice in " + name)
            if name != "link_table":
                same(sorted(set(range(1, len(table))) - self.used[name]), [], "orphans in " + name)

    def total(self, name):
        return sum(value for _, _, value in self.samples[name])

    def by_function(self, name):
        """{function: (self, total)}"""
        own, total = collections.Counter(), collections.Counter()
        for stack, _, value in self.samples[name]:
            names = [line[0] for lines, _, _ in stack for line in lines]
            own[names[0]] += value
            for function in set(names):
                total[function] += value
        return {function: (own[function], total[function]) for function in total}


def export(path, *options, **changes):
    done = run([MAYFLY, "export", "--to", "otlp", "-o", "-", *options, path], env=environment(**changes))
    same((done.code, done.err), (0, b""), done)
    return Otlp(done.out)


QUESTIONS = [[], ["--metric", "live"], ["--at", "0.5"], ["--metric", "allocated"], ["--metric", "leaked"],
             ["--metric", "temporary"], ["--focus", "parse"], ["--metric", "allocated", "--ignore", "grow", "--hide", "^parse$"],
             ["--metric", "allocated", "--from", "0.2", "--to", "0.4"], ["--frames=all"],
             ["--metric", "allocated", "--thread", "worker"], ["--focus", "no such function"]]
NAMES = {"allocated": "alloc", "leaked": "leaked", "temporary": "temporary"}
KINDS = ["sampled", "exact", "thinned", "groups", "deep", "snapshots", "none", "quotes", "strange", "inherited",
         "inherited-exact", "inherited-snapshots"]


@cases(KINDS)
def totals(kind):
    """The totals of the user's metric, and of what was allocated or live at the peak, are the report's."""
    for options in QUESTIONS if kind in ("sampled", "exact") else QUESTIONS[:4]:
        metric = options[1] if options[:1] == ["--metric"] else "peak"
        if kind.endswith("snapshots") and run([MAYFLY, "report", *options, trace(kind)]).code:
            continue
        got = export(trace(kind), *options)
        name = NAMES.get(metric, "inuse")
        same([kind for kind, _ in got.order][:2], [name + "_space", name + "_objects"], "the user's is first")
        same([unit for _, unit in got.order], ["bytes", "count"] * (len(got.order) // 2), "units")
        total = report(trace(kind), *options)["total"]
        same([got.total(name + "_space"), got.total(name + "_objects")],
             [total["bytes"]["estimate"], total["blocks"]["estimate"]], options)
        if "--metric" in options and options[1] == "live" and len(options) == 2:
            total = report(trace(kind), "--metric", "allocated")["total"]
            same([got.total("alloc_space"), got.total("alloc_objects")],
                 [total["bytes"]["estimate"], total["blocks"]["estimate"]], "allocated")


@cases(["sampled", "exact", "thinned", "deep", "quotes", "inherited-exact"])
def functions(kind):
    """What each function allocates, and what it allocates with its callees, is as in the report."""
    for metric, name in (("peak", "inuse_space"), ("allocated", "alloc_space")):
        expected = {row["function"]: [row[key]["bytes"]["estimate"] for key in ("self", "total")]
                    for row in unfolded(trace(kind), "--metric", metric)["rows"]}
        found = export(trace(kind), "--metric", metric).by_function(name)
        found = {function: values for function, values in found.items() if not function.startswith("[")}
        if kind != "quotes":  # which has a byte that is not UTF-8
            same(sorted(found), sorted(function for function in expected if expected[function][1]), "functions")
        for function in set(found) & set(expected):
            for got, wanted in zip(found[function], expected[function]):
                check(abs(got - wanted) <= len(found), kind, metric, function, got, wanted)


@case
def facts_of_a_process():
    got = export(trace())
    same(got.order, [("inuse_space", "bytes"), ("inuse_objects", "count"), ("alloc_space", "bytes"),
                     ("alloc_objects", "count")], "types")
    same(got.facts, {"service.name": "demo", "process.executable.name": "demo", "process.pid": 4242,
                     "process.executable.path": "/opt/demo/bin/demo",
                     "process.executable.build_id.gnu": "abcd0102" + "00" * 16}, "the resource")
    same(export(trace(), MAYFLY_SERVICE="shop").facts["service.name"], "shop", "MAYFLY_SERVICE")
    named = export(trace(), "--service", "api", "--host", "one", MAYFLY_SERVICE="shop").facts
    same((named["service.name"], named["host.name"]), ("api", "one"))
    locations = [place for stack, _, _ in got.samples["alloc_space"] for place in stack]
    mappings = {mapping for _, mapping, _ in locations if mapping}
    check(("/opt/demo/bin/demo", 0x400000, 0x500000, "abcd0102" + "00" * 16) in mappings, mappings)
    check([("inline_push", "/src/demo/lib/inline.h", 7), ("outer_push", "/src/demo/lib/outer.c", 70)] in
          [lines for lines, _, _ in locations], "inlined functions, innermost first")
    addresses = {lines[0][0]: address for lines, _, address in locations}
    same((addresses["main"], addresses["[stack cut]"]), (0x401000, 0), "addresses")


def start_of(path):
    """In ns since 1970, of which info gives whole ms."""
    text = info(path)["start_time"].replace("Z", "+00:00")
    return round(datetime.datetime.fromisoformat(text).timestamp() * 1000) * 10 ** 6


@case
def times_of_a_profile():
    start = start_of(trace())

    def times(*options):
        found = {((one(p, "time_unix_nano") - start) // 10 ** 6, one(p, "duration_nano"), one(p, "period"))
                 for p in export(trace(), *options).profiles.values()}
        same(len(found), 1, "profiles differ")
        return found.pop()
    same(times(), (0, 2 * 10 ** 9, 65536), "of all of it")
    same(times("--metric", "allocated", "--from", "0.5", "--to", "0.75"), (500, 25 * 10 ** 7, 65536), "of a window")
    profile = Pprof(run([MAYFLY, "export", "--to", "pprof", "-o", "-", "--from", "0.5", trace()]).out)
    same(profile.duration, 15 * 10 ** 8, "pprof")


@case
def certainty():
    """What is a sum, and its standard error."""
    for metric, name in (("peak", "inuse"), ("allocated", "alloc")):
        total = report(trace(), "--metric", metric)["total"]
        profiles = export(trace(), "--metric", metric).profiles
        for key, kind, unit in (("bytes", "space", "By"), ("blocks", "objects", "{block}")):
            facts = profiles["%s_%s" % (name, kind)]["facts"]
            same(facts["mayfly.samples"], (total["samples"], ""), metric)
            error, its_unit = facts["mayfly.standard_error"]
            check(abs(error - total[key]["stderr"]) <= 0.51 and error > 0, error, total)
            same(its_unit, unit)
    same(profiles["inuse_space"]["facts"]["mayfly.metric"][0], "live at the peak, %.3f s" %
         (report(trace())["time_ns"] / 1e9))
    exact = export(trace("exact")).profiles["inuse_space"]["facts"]
    same(list(exact), ["mayfly.metric"], "of an exact trace")


def labelled():
    """A program whose blocks have labels."""
    path = folder / "labels.mayfly"
    if not os.path.exists(path):
        same(record([program("labelled")], path, "-x").code, 0, "labels")
    return path


@case
def labels_of_blocks():
    keys = {tuple(labels.items()) for _, labels, _ in export(labelled()).samples["alloc_space"]}
    check(len(keys) > 2, keys)
    for key in {key for pairs in keys for key, _ in pairs}:
        wanted = {row["label"]: row["self"]["bytes"]["estimate"] for row in
                  report(labelled(), "--metric", "allocated", "--by", "label:" + key)["rows"] if row.get("label")}
        found = collections.Counter()
        for _, labels, value in export(labelled()).samples["alloc_space"]:
            if key in labels:
                found[labels[key]] += value
        same(dict(found), wanted, key)


@case
def a_profile_without_numbers_of_blocks():
    path = folder / "spaces.pb.gz"
    with open(path, "wb") as file:
        file.write(gzip.compress(pprof([("inuse_space", "bytes")], [([[("f", "f.c", 1)]], [4096])])))
    got = export(path)
    same([name for name, _ in got.order], ["inuse_space"])
    same((got.total("inuse_space"), list(got.profiles["inuse_space"]["facts"])), (4096, ["mayfly.metric"]))


@case
def hostile_names():
    for name in ("o'hara \"\\", "größe\n\t\x01", "x" * 65536, "\udcff\udcfe"):
        got = export(trace("quotes"), "--service", name, "--host", name).facts
        wanted = name.replace("\udcff", "\ufffd").replace("\udcfe", "\ufffd")
        same((got["service.name"], got["host.name"]), (wanted, wanted))


@case
def options_that_do_not_fit():
    for options in (["--to", "csv", "--service", "x"], ["--to", "pprof", "--host", "x"], ["--to", "otlp", "--rows", "samples"]):
        done = run([MAYFLY, "export", "-o", "-", *options, trace()])
        same((done.code, done.out, done.err.count(b"\n")), (2, b"", 1), options)


# ---- a server ----

class Server:
    """Takes POSTs, and answers each as the next one of `script` says, or 200."""

    def __init__(self, context=None):
        self.requests, self.script = [], collections.deque()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                step = outer.script.popleft() if outer.script else (200, b"", "")
                if step == "close":
                    self.rfile.read(1)
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if step[0] == 200:
                    outer.requests.append((self.path, self.headers, body))
                self.send_response(step[0])
                self.send_header("Content-Type", step[2])
                self.send_header("Content-Length", str(len(step[1])))
                self.end_headers()
                self.wfile.write(step[1])

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.handle_error = lambda *_: None
        if context:
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
        self.port = self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def url(self, kind):
        return "%s://127.0.0.1:%d" % (kind, self.port)

    def otlp(self):
        return [Otlp(gzip.decompress(body)) for _, _, body in self.requests]


@contextlib.contextmanager
def server(context=None):
    s = Server(context)
    try:
        yield s
    finally:
        s.http.shutdown()
        s.http.server_close()


def push(*options, **changes):
    return run([MAYFLY, "push", *options], env=environment(**changes))


def good(*options, **changes):
    done = push(*options, **changes)
    same((done.code, done.err), (0, b""), done)
    return done.out.decode()


def fails(*options, **changes):
    """The one line that it says."""
    done = push(*options, **changes)
    same((done.code, done.err.count(b"\n")), (1, 1), done)
    return done.err.decode("utf-8", "surrogateescape")


def named(path):
    """What Pyroscope reads from a request: the service, labels, and the other parameters. As its parser does: a
    label ends with ',' or '}', and nothing counts after '}'."""
    address = urllib.parse.urlsplit(path)
    query = urllib.parse.parse_qs(address.query, keep_blank_values=True, errors="strict")
    match = re.match(r"^([A-Za-z0-9_./-]+)\{(.*)\}$", query["name"][0], re.S)
    check(match, query["name"])
    labels = {}
    for pair in match[2].split(","):
        key, value = pair.split("=", 1)
        check(re.match(r"^[A-Za-z0-9_.]+$", key) and "}" not in value, pair)
        labels[key] = value
    return address.path, match[1], labels, {key: value[0] for key, value in query.items()}


@case
def push_to_a_collector():
    with server() as s:
        out = good("--to", s.url("otlp"), "--service", "api", "--host", "one", "--label", "ring=canary", "--label",
                   "process.pid=none", trace(), trace("exact"), POD_NAME="pod-7")
        same(out.count("pushed"), 2, out)
        path, headers, body = s.requests[0]
        same((path, headers["Content-Type"], headers["Content-Encoding"]),
             ("/v1development/profiles", "application/x-protobuf", "gzip"))
        check("Authorization" not in headers and "Expect" not in headers, headers)
        sampled, exact = s.otlp()
        for got, kind in ((sampled, "sampled"), (exact, "exact")):
            for metric, name in (("peak", "inuse"), ("allocated", "alloc")):
                total = report(trace(kind), "--metric", metric)["total"]
                same([got.total(name + "_space"), got.total(name + "_objects")],
                     [total["bytes"]["estimate"], total["blocks"]["estimate"]], metric)
        same({key: sampled.facts[key] for key in ("service.name", "host.name", "ring", "pod", "process.pid")},
             {"service.name": "api", "host.name": "one", "ring": "canary", "pod": "pod-7", "process.pid": "none"})
        good("--to", s.url("otlp") + "/prefix/x/", "-q", trace())
        same((s.requests[-1][0], s.otlp()[-1].facts["host.name"]), ("/prefix/x/v1development/profiles", socket.gethostname()))


@case
def push_to_pyroscope():
    with server() as s:
        good("--to", s.url("pyroscope"), "--service", "my api/2", "--host", "one", "--label", "ring=a,b}{=c\n", trace())
        path, service, labels, query = named(s.requests[0][0])
        same((path, service, query["format"]), ("/ingest", "my_api/2", "pprof"))
        same(labels, {"hostname": "one", "version": "abcd0102" + "00" * 16, "ring": "a_b_{=c_"})
        start = start_of(trace())
        same((int(query["from"]), int(query["until"])), (start // 10 ** 9, (start + 2 * 10 ** 9) // 10 ** 9 + 1))
        check("Content-Encoding" not in s.requests[0][1], "the body is a gzip file")
        profile = Pprof(s.requests[0][2])
        for metric, name in (("peak", "inuse"), ("allocated", "alloc")):
            total = report(trace(), "--metric", metric)["total"]
            same([sum(value for _, value in profile.stacks(name + kind)) for kind in ("_space", "_objects")],
                 [total["bytes"]["estimate"], total["blocks"]["estimate"]], metric)
        # An empty service, names that are not UTF-8, and such of 64 KiB: never a name that the parser reads otherwise.
        for name in ("", "\udcff", "größe \"", "{}", "a" * 40000):
            before = len(s.requests)
            done = push("-q", "--to", s.url("pyroscope"), "--service", name, "--host", "h" + name, "--label",
                        "k%s=%s" % (name[:5], name), trace())
            if done.code:
                check(len(name) == 40000 and b"HTTP status 414" in done.err, done)
            else:
                named(s.requests[before][0])


@case
def logins():
    with server() as s, Folder() as here:
        def sent(*options, **changes):
            good("-q", "--to", s.url("otlp"), *options, trace(), **changes)
            return s.requests[-1][1]["Authorization"]

        def write(text, mode=0o600):
            with open(here / "auth", "w") as file:
                file.write(text)
            os.chmod(here / "auth", mode)
            return "--auth", here / "auth"
        basic = "Basic " + base64.b64encode(b"me:so: secret").decode()
        same(sent(MAYFLY_PUSH_USER="me", MAYFLY_PUSH_PASSWORD="so: secret"), basic)
        same(sent(MAYFLY_PUSH_TOKEN="t0ken"), "Bearer t0ken")
        same(sent(*write("me:so: secret\nmore\n"), MAYFLY_PUSH_TOKEN="t0ken"), basic)
        same(sent(*write("Bearer a.b:c\n")), "Bearer a.b:c")
        same(sent(MAYFLY_CLICKHOUSE_USER="me", MAYFLY_CLICKHOUSE_PASSWORD="wr0ng"), None)
        for text, mode, word in (("Bearer wr0ng", 0o640, "chmod 600"), ("wr0ng", 0o600, "USER:PASSWORD or Bearer TOKEN")):
            said = fails("--to", s.url("otlp"), *write(text, mode), trace())
            check(word in said and "wr0ng" not in said, said)
        check("No such file" in fails("--to", s.url("otlp"), "--auth", here / "none", trace()), "no file")
        check("Is a directory" in fails("--to", s.url("otlp"), "--auth", here.path, trace()), "a folder")
        said = fails("--to", s.url("otlp"), trace(), MAYFLY_PUSH_TOKEN="wr0ng\r\nX: y")
        check("line break" in said and "wr0ng" not in said, said)
        s.script.append((401, b"who are you", "text/plain"))
        said = fails("--to", s.url("pyroscope"), trace(), MAYFLY_PUSH_USER="me", MAYFLY_PUSH_PASSWORD="wr0ng")
        check("401: who are you" in said and "wr0ng" not in said, said)


PART = field(1, field(1, 3) + field(2, b"too old\nreally"))
STATUS = field(1, 3) + field(2, b"no \x1b[31mprofiles today\nsorry")


@case
def what_servers_say():
    """One line with their reason, without control bytes; a server that takes nothing now ends it."""
    with server() as s:
        for kind, step, words, goes_on in (
                ("otlp", (400, STATUS, "application/x-protobuf"), "HTTP status 400: no ?[31mprofiles today\n", True),
                ("otlp", (200, PART, "application/x-protobuf"), "did not take all of it: too old\n", True),
                ("otlp", (400, b"\xff" * 9, "application/x-protobuf"), "HTTP status 400\n", True),
                ("otlp", (413, b"x" * 5000, "text/plain"), "HTTP status 413: " + "x" * 300, True),
                ("pyroscope", (422, b'{"message":"bad"}\n', "application/json"), 'HTTP status 422: {"message":"bad"}\n', True),
                ("pyroscope", (500, b"", "text/plain"), "HTTP status 500\n", True),
                ("pyroscope", (302, b"", "text/plain"), "HTTP status 302\n", True),
                ("otlp", (503, b"later", "text/plain"), "HTTP status 503: later\n", False),
                ("otlp", (429, b"", "text/plain"), "HTTP status 429\n", False),
                ("pyroscope", (404, b"404 page not found", "text/plain"), "HTTP status 404: 404 page", False),
                ("otlp", "close", "", False), ("pyroscope", "close", "", False)):
            s.requests.clear()
            s.script.append(step)
            done = push("-q", "--to", s.url(kind), trace(), trace("exact"))
            said = done.err.decode()
            same((done.code, said.count("\n")), (1, 1), said)
            check(words in said and "sampled.mayfly" in said and s.url(kind) in said and len(said) < 800, said)
            same(len(s.requests), (2 if step[0] == 200 else 1) if goes_on else 0, "requests that it took")
        # A message that only warns is no error.
        s.script.append((200, field(1, field(2, b"be careful")), "application/x-protobuf"))
        good("-q", "--to", s.url("otlp"), trace())
        away = s.url("otlp")
    said = fails("--to", away, trace(), trace("exact"))
    check("connect" in said.lower(), said)


@case
def a_certificate_that_nobody_signed():
    need("openssl")
    with Folder() as here:
        done = run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1", "-keyout",
                    here / "key", "-out", here / "certificate"])
        same(done.code, 0, done)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(here / "certificate", here / "key")
        with server(context) as s:
            for kind in ("otlps", "pyroscopes"):
                said = fails("--to", s.url(kind), trace())
                check("certificate" in said.lower() or "ssl" in said.lower(), said)
            same(s.requests, [])


@cases(["otlp://", "otlp:///x", "otlp://host:0", "otlp://host:99999", "otlp://me:hidden@host", "otlp://host/a?b=c",
        "otlp://host#x", "pyroscope://host/a b", "otlp://host/" + "x" * 300, "http://host", "otlp:host", ""])
def addresses_that_are_wrong(address):
    said = fails("--to", address, trace())
    check("hidden" not in said and re.search("address|otlp://HOST", said), said)
    done = record(["true"], folder / "unused", "--push", address)
    check(done.code == 125 or address.startswith(("otlp://", "pyroscope://")), done)


@case
def traces_that_cannot_be_pushed():
    with server() as s, Folder() as here:
        with open(here / "other.pb.gz", "wb") as file:
            file.write(gzip.compress(pprof([("inuse_space", "bytes")], [([[("f", "f.c", 1)]], [4096])], time=0)))
        check("when it was recorded" in fails("--to", s.url("otlp"), here / "other.pb.gz"), "no start")
        check("no such file" in fails("--to", s.url("otlp"), here / "none"), "no file")
        for command in (["report"], ["info"], ["fleet", "init"], ["fleet", "list"]):
            done = run([MAYFLY, *command, s.url("otlp")], env=environment())
            same((done.code, done.err.count(b"\n")), (1, 1), done)
            check(b"only takes what is pushed" in done.err, done)
        same(push("--to", s.url("otlp"), "--from-start", trace()).code, 2, "--from-start without --every")
        same(s.requests, [])


# ---- while programs run ----

def pushes(s, spool, *options):
    return subprocess.Popen([MAYFLY, "push", "-q", "--to", s.url("otlp"), "--every", "1s", *options, spool],
                            env=environment(), stderr=subprocess.PIPE)


def totals_of(path):
    return {kind: report(path, "--metric", metric)["total"]["bytes"]["estimate"]
            for kind, metric in (("alloc", "allocated"), ("inuse", "leaked"))}


def check_windows(s, path):
    """Each byte is in one window; each begins where the one before ends; the last has what is live at the end."""
    got = s.otlp()
    check(len(got) >= 2, "windows", len(got))
    expected = totals_of(path)
    exact = info(path)["mode"] == "exact"  # else each window's sum is rounded
    allocated = sum(window.total("alloc_space") for window in got)
    check(abs(allocated - expected["alloc"]) <= (0 if exact else len(got)), "allocated", allocated, expected)
    same(got[-1].total("inuse_space"), expected["inuse"], "live")
    start = at = one(got[0].profiles["alloc_space"], "time_unix_nano")
    same(start // 10 ** 6 * 10 ** 6, start_of(path), "the start")
    for window in got:
        profile = window.profiles["alloc_space"]
        same(one(profile, "time_unix_nano"), at, "begins")
        at += one(profile, "duration_nano")
        same({one(p, "time_unix_nano") for p in window.profiles.values()}, {one(profile, "time_unix_nano")})
    same(at - start, info(path)["duration_ns"], "the end")


def waits_for(s, count):
    wait_until(lambda: len(s.requests) >= count, "a window")


def is_back(pusher):
    """It has said no more than that."""
    said = pusher.communicate()[1].decode()
    check(re.fullmatch(r"mayfly: \S+: takes windows again, at \d\d:\d\d:\d\d, after [^\n]+\n", said), said)
    same(pusher.returncode, 0)


@cases(["-x", "-i4K"])
def windows_of_a_process(mode):
    """With a server that is away for a while: the window after that is longer."""
    with server() as s, Folder() as here:
        with told_recording(here / "t", mode) as (told, recorder):
            pusher = pushes(s, here / "t.spool", "--from-start")
            told.tell("a", 3)
            waits_for(s, 1)
            told.tell("f", 1)
            s.script.extend([(503, b"later", "text/plain"), "close"])
            told.tell("b", 4)
            line = pusher.stderr.readline().decode()
            check("503: later" in line and "will be longer" in line, line)
            wait_until(lambda: not s.script, "a second try")
            told.tell("-", 5000)
            waits_for(s, len(s.requests) + 1)
            told.tell("c", 2)
        is_back(pusher)
        check_windows(s, here / "t")


@case
def an_outage_is_said_once():
    """Although a process that has nothing to tell is not pushed, and so meets no server that is away."""
    with server() as s, Folder() as here:
        with told_recording(here / "t", "-x") as (told, _), told_recording(here / "u", "-x"):
            pusher = pushes(s, here / "t.spool", here / "u.spool", "--from-start")
            told.tell("a", 1)
            waits_for(s, 1)
            s.script.extend([(503, b"later", "text/plain")] * 3)
            told.tell("b", 1)
            check(re.search("at \\d\\d:\\d\\d:\\d\\d; the next window will be longer", pusher.stderr.readline().decode()),
                  "the line of the outage")
            wait_until(lambda: not s.script, "three tries")
            told.tell("c", 1)
        is_back(pusher)


@case
def a_window_that_is_refused():
    """It is lost, and said so; the next one begins after it."""
    with server() as s, Folder() as here:
        with told_recording(here / "t", "-x") as (told, recorder):
            pusher = pushes(s, here / "t.spool", "--from-start")
            s.script.append((400, STATUS, "application/x-protobuf"))
            told.tell("a", 3)
            line = pusher.stderr.readline().decode()
            check("profiles today" in line and "this window is lost" in line, line)
            told.tell("b", 4)
            waits_for(s, 1)
        same((pusher.communicate()[1], pusher.returncode), (b"", 1))
        allocated = sum(window.total("alloc_space") for window in s.otlp())
        check(4 << 20 <= allocated < totals_of(here / "t")["alloc"], allocated)
        same(s.otlp()[-1].total("inuse_space"), totals_of(here / "t")["inuse"], "live")


@case
def a_process_that_ran_before():
    """Who knows what others have pushed of it? It is pushed from now on."""
    with server() as s, Folder() as here:
        with told_recording(here / "t", "-x") as (told, recorder):
            told.tell("a", 3)
            began = time.time()
            wait_until(lambda: time.time() > began + 1.5, "time to pass")
            wait_until(lambda: report(here / "t.spool", "--metric", "allocated")["total"]["bytes"]["estimate"] >= 3 << 20,
                       "the recorder to have seen them")
            pusher = pushes(s, here / "t.spool")
            line = pusher.stderr.readline().decode()
            check("until now is not pushed" in line, line)
            told.tell("b", 4)
            waits_for(s, 1)
        same((pusher.communicate()[1], pusher.returncode), (b"", 0))
        first, last = (window.profiles["alloc_space"] for window in (s.otlp()[0], s.otlp()[-1]))
        start = one(first, "time_unix_nano")
        length = one(last, "time_unix_nano") + one(last, "duration_nano") - start
        after = report(here / "t", "--metric", "allocated", "--from", "%dns" % (info(here / "t")["duration_ns"] - length))
        same(sum(window.total("alloc_space") for window in s.otlp()), after["total"]["bytes"]["estimate"], "from then on")
        check(4 << 20 <= after["total"]["bytes"]["estimate"] < totals_of(here / "t")["alloc"], start, after["total"])
        same(s.otlp()[-1].total("inuse_space"), totals_of(here / "t")["inuse"], "all that is live")


@case
def snapshots_have_no_windows():
    """This is said, and another process is pushed all the same."""
    with server() as s, Folder() as here:
        with told_recording(here / "t", "--snapshots=100ms") as (told, _), told_recording(here / "u", "-x") as (other, _):
            pusher = pushes(s, here / "u.spool", "--from-start", here / "t.spool")
            told.tell("a", 3)
            other.tell("a", 3)
            waits_for(s, 1)
        said = pusher.communicate()[1]
        same((pusher.returncode, said.count(b"\n"), b"snapshots" in said), (1, 1, True), said)
        same(sum(window.total("alloc_space") for window in s.otlp() if window.facts["process.pid"] == info(here / "u")["pid"]),
             totals_of(here / "u")["alloc"])
        good("-q", "--to", s.url("otlp"), here / "t")
        same(s.otlp()[-1].total("alloc_space"), totals_of(here / "t")["alloc"])


@cases(["otlp", "pyroscope"])
def record_pushes(kind):
    """Windows while it runs and the rest at its end; a program that ends at once is pushed whole."""
    with server() as s, Folder() as here:
        options = ["--push", s.url(kind), "--push-every", "1s", "--service", "shop", "--label", "ring=canary"]
        with told_recording(here / "t", "-x", *options) as (told, recorder):
            told.tell("a", 3)
            waits_for(s, 1)
            told.tell("b", 2)
        same(recorder.wait(), 0)
        if kind == "otlp":
            check_windows(s, here / "t")
            same([s.otlp()[-1].facts[key] for key in ("service.name", "ring")], ["shop", "canary"])
        else:
            profiles = [Pprof(body) for _, _, body in s.requests]
            same(sum(count for profile in profiles for _, count in profile.stacks("alloc_space")), totals_of(here / "t")["alloc"])
            same(sum(count for _, count in profiles[-1].stacks("inuse_space")), totals_of(here / "t")["inuse"])
            same(named(s.requests[0][0])[1], "shop")
        s.requests.clear()
        done = record(["sh", "-c", "exit 7"], here / "short", "-x", *options)
        same((done.code, done.err, len(s.requests)), (7, b"", 1))
        s.script.append((503, b"later", "text/plain"))
        done = record(["sh", "-c", "exit 7"], here / "other", "-x", *options)
        same((done.code, done.err.count(b"\n"), len(s.requests)), (7, 2, 1), done)
        check(b"adds the rest" in done.err, done)


# ---- what was read once never changes ----

def blocks_of(path):
    """The moments of its allocations, in order."""
    lines = run([MAYFLY, "dump", path], env=environment()).out.decode().splitlines()
    return [line.split(" ", 1)[0] for line in lines if " alloc " in line]


def move_anchor(spool):
    """What comes later may move the line from ticks to times: here, another rate of the counter. False: it has none."""
    with open(spool, "r+b") as file:
        head = file.read(64)
        header, packet = struct.unpack_from("<II", head, 12)
        mono, ticks, clock = struct.unpack_from("<QQI", head, 40)
        count = (os.fstat(file.fileno()).st_size - header) // packet
        for at in range(header, header + packet * count, packet) if clock == 0 else ():
            file.seek(at)
            if file.read(4) != bytes(4):
                file.seek(at + 40)
                file.write(struct.pack("<QQ", ticks + 10 ** 10, mono + 5 * 10 ** 9))
    return clock == 0


@cases(["-x", "-i4K"])
def looks_agree(mode):
    """Those at a recording that goes on, and the finished trace, whatever the clocks say meanwhile."""
    with Folder() as here:
        with told_recording(here / "t", mode) as (told, _):
            told.tell("a", 3)
            told.tell("-", 500)
            looks = [blocks_of(here / "t.spool")]
            check(len(looks[0]) >= 3, looks)
            for number in range(2):
                move_anchor(here / "t.spool")
                told.tell("b", 2)
                looks.append(blocks_of(here / "t.spool"))
            done = run([MAYFLY, "ctl", here / "t.spool", "snapshot", "-o", here / "s"], env=environment())
            same((done.code, done.err), (0, b""))
            if mode != "-x":  # which is rounded anew
                looks.append(blocks_of(here / "s"))
        looks.append(blocks_of(here / "t"))
        for earlier, later in zip(looks, looks[1:]):
            same(later[:len(earlier)], earlier)
        check(len(looks[-1]) >= 7, looks[-1])


@case
def looks_without_a_recorder():
    """The clock of such a spool is the system's, which needs no line."""
    with Folder() as here:
        spool = here / "t.spool"
        process = subprocess.Popen([program("told")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env=environment(LD_PRELOAD=AGENT, MAYFLY="output=%s,interval=4096" % spool))
        told = Told(process)
        told.tell("a", 3)
        first = blocks_of(spool)
        check(len(first) >= 3 and not move_anchor(spool), first)
        told.tell("b", 2)
        same(blocks_of(spool)[:len(first)], first)
        process.stdin.close()
        process.wait()
        process.stdout.close()
        same(blocks_of(spool)[:len(first)], first)


@cases(["-x", "-i4K"])
def windows_while_clocks_move(mode):
    with server() as s, Folder() as here:
        with told_recording(here / "t", mode) as (told, _):
            pusher = pushes(s, here / "t.spool", "--from-start")
            for number in range(3):
                told.tell("ab"[number % 2], 3)
                waits_for(s, len(s.requests) + 1)
                move_anchor(here / "t.spool")
        same((pusher.communicate()[1], pusher.returncode), (b"", 0))
        check_windows(s, here / "t")


if __name__ == "__main__":
    main()
