# SPDX-License-Identifier: Apache-2.0
"""Messages of protocol buffers as protoc reads them by a published schema. What the schema has not is an error."""
import collections
import gzip
import os
import re

from harness import Skip, check, need, run, same

LINE = re.compile(r'^(\w+)(?:: (".*"|\S+)| \{)$')


def value_of(text):
    if text in ("true", "false"):
        return text == "true"
    if not text.startswith('"'):
        return float(text) if re.search("[.en]", text) else int(text)
    raw = re.sub(rb'\\([0-7]{3}|.)', lambda m: bytes([int(m[1], 8)]) if len(m[1]) == 3 else
                 {b"n": b"\n", b"r": b"\r", b"t": b"\t"}.get(m[1], m[1]), text[1:-1].encode())
    return raw.decode("utf-8", "surrogateescape")


def parse(text):
    """protoc's text: of each message {name: [values]}."""
    top = collections.defaultdict(list)
    open_messages = [top]
    for line in text.splitlines():
        line = line.strip()
        if line == "}":
            open_messages.pop()
            continue
        match = LINE.match(line)
        check(match and not match[1].isdigit(), "a field that the schema has not:", line)
        if match[2] is None:
            open_messages[-1][match[1]].append(collections.defaultdict(list))
            open_messages.append(open_messages[-1][match[1]][-1])
        else:
            open_messages[-1][match[1]].append(value_of(match[2]))
    same(len(open_messages), 1, "messages that are open")
    return top


def one(message, name, default=0):
    values = message.get(name, [default])
    same(len(values), 1, name)
    return values[0]


def decode(data, folder, file, message):
    """A message as {name: [values]}; file: the schema, below the folder."""
    need("protoc")
    done = run(["protoc", "-I" + folder, "--decode=" + message, file], stdin=data)
    same((done.code, done.err), (0, b""), "protoc")
    return parse(done.out.decode())


# The schema of pprof as its project publishes it: Debian's golang-github-google-pprof-dev.
PPROF = "/usr/share/gocode/src/github.com/google/pprof/proto"


class Profile:
    """A profile in pprof's format."""
    def __init__(self, data):
        if not os.path.exists(os.path.join(PPROF, "profile.proto")):
            raise Skip("golang-github-google-pprof-dev is not installed")
        p = decode(gzip.decompress(data), PPROF, "profile.proto", "perftools.profiles.Profile")
        self.strings = p["string_table"]
        same(self.strings[0], "", "string 0")
        self.types = [(self.strings[one(t, "type")], self.strings[one(t, "unit")]) for t in p["sample_type"]]
        self.default = self.strings[one(p, "default_sample_type")]
        self.time, self.duration = one(p, "time_nanos"), one(p, "duration_nanos")
        self.comments = [self.strings[c] for c in p["comment"]]
        functions = {one(f, "id"): self.strings[one(f, "name")] for f in p["function"]}
        self.places = {one(l, "id"): [functions[one(line, "function_id")] for line in l["line"]] for l in p["location"]}
        mappings = {one(m, "id") for m in p["mapping"]}
        for place in p["location"]:
            check(one(place, "mapping_id") in mappings | {0}, "a mapping that is not there", place)
        self.samples = []
        for sample in p["sample"]:
            same(len(sample["value"]), len(self.types), "values")
            check(any(sample["value"]), "a sample of nothing")
            self.samples.append(([f for id in sample["location_id"] for f in self.places[id]], sample["value"]))

    def sums(self, kind):
        """{function: the sum of the stacks in which it is}"""
        at = [name for name, _ in self.types].index(kind)
        found = collections.Counter()
        for stack, values in self.samples:
            for function in set(stack):
                found[function] += values[at]
        return found

    def total(self, kind):
        at = [name for name, _ in self.types].index(kind)
        return sum(values[at] for _, values in self.samples)
