#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Small files of other tools, written here from the descriptions of their formats, and readers of
such files that have nothing in common with mayfly's. Run as a program: seeds for fuzz_import."""
import collections
import gzip
import json
import os
import re
import struct
import sys

from harness import check, same

HEAPTRACK = """v 10400 3
X prog one two
I 1000 5e2990
s 4 /x/a
s 4 main
s 3 f.c
s 5 outer
s 5 inner
i 401001 1 2 3 a
t 1 0
i 401101 1 5 3 14 4 3 15
t 2 1
a 10 1
+ 0
c a
R 5d8
a 64 2
+ 1
- 1
+ 0
- 0
c 14
# strings: 5
# ips: 2
"""

HEAPTRACK_0 = """v 10000
s /x/a
s main
i 401001 1 2
t 1 0
c 0
+ 20 1 5000
+ 30 1 6000
- 5000
- 7000
"""

JEMALLOC = """heap_v2/4096
  t*: 13: 40700 [20: 50000]
  t0: 13: 40700 [20: 50000]
@ 0x7f0000001235 0x402001
  t*: 10: 700 [17: 10000]
  t0: 10: 700 [17: 10000]
@ 0x403001 0x402001 0x401001
  t*: 3: 40000 [3: 40000]
  t0: 3: 40000 [3: 40000]

MAPPED_LIBRARIES:
00400000-00500000 r-xp 00000000 fe:00 1    /x/fixed
7f0000000000-7f0000001000 r--p 00000000 fe:00 1    /x/lib.so
7f0000001000-7f0000002000 r-xp 00001000 fe:00 1    /x/lib.so
7ffc3da4f000-7ffc3da70000 rw-p 00000000 00:00 0    [stack]
"""

GPERFTOOLS = """heap profile:      2:      300 [  7:     1000] @ heapprofile
     1:      200 [     3:      600] @ 0x401001 0x402001
     1:      100 [     4:      400] @ 0x403001

MAPPED_LIBRARIES:
00400000-00500000 r-xp 00000000 fe:00 1    /x/fixed
"""

GO = """heap profile: 1: 8 [1: 8] @ heap/2048
1: 8 [1: 8] @ 0x11 0x21
#\t0x10\tmain.inner+0x1\t\t/s/a.go:5
#\t0x10\tmain.outer+0x1\t\t/s/a.go:6
#\t0x20\tmain.main+0x9\t\t/s/a.go:9

# runtime.MemStats
"""

DHAT_RUST = r"""{"dhatFileVersion":2,"mode":"rust-heap","verb":"Allocated","bklt":true,"bkacc":false
,"tu":"\u00b5s","Mtu":"s","tuth":10,"cmd":"target/a","pid":7,"tg":7,"te":9
,"pps":[{"tb":48,"tbk":1,"tl":2,"mb":48,"mbk":1,"gb":48,"gbk":1,"eb":0,"ebk":0,"fs":[1,2]},
{"tb":16,"tbk":1,"tl":2,"mb":16,"mbk":1,"gb":16,"gbk":1,"eb":16,"ebk":1,"fs":[2]}]
,"ftbl":["[root]","0x10: <a::B as c::\"D\">::e\u00E9\ud83d\udc1b (src/e.rs:4:17)","0x20: ???"]}
"""

MASSIF = """desc: (none)
cmd: ./a one
time_unit: ms
#-----------
snapshot=0
#-----------
time=0
mem_heap_B=0
mem_heap_extra_B=0
mem_stacks_B=0
heap_tree=empty
#-----------
snapshot=1
#-----------
time=20
mem_heap_B=1000
mem_heap_extra_B=16
mem_stacks_B=0
heap_tree=detailed
n2: 1000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
 n1: 700 0x10: leaf (l.c:4)
  n0: 600 0x20: main (l.c:7)
 n0: 300 in 3 places, all below massif's threshold (1.00%)
#-----------
snapshot=2
#-----------
time=30
mem_heap_B=1100
mem_heap_extra_B=16
mem_stacks_B=0
heap_tree=empty
#-----------
snapshot=3
#-----------
time=40
mem_heap_B=50
mem_heap_extra_B=16
mem_stacks_B=0
heap_tree=empty
"""

FOLDED = "main;grow;leaf 104950\nmain;churn;operator new(unsigned long, int) 64\nalone 7\n"

def v8_node(name, size, *children, url="file:///s/a.js", line=4):
    return {"callFrame": {"functionName": name, "scriptId": "7", "url": url, "lineNumber": line, "columnNumber": 3},
            "selfSize": size, "id": 1, "children": list(children)}


V8 = json.dumps({"head": v8_node("(root)", 0, v8_node("main", 64, v8_node("", 4128), v8_node("gr\u00f6w", 100, line=8)),
                                 v8_node("(V8 API)", 0, v8_node("main", 32), url="", line=-1)),
                 "samples": [{"size": 4128, "nodeId": 3, "ordinal": 1}]}, separators=(",", ":"))


# ---- protocol buffers ----

def varint(value):
    out = bytearray()
    value &= (1 << 64) - 1
    while value >= 0x80:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, value):
    """An int, bytes, or a list of ints (packed)."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, list):
        value = b"".join(varint(v) for v in value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def messages(data):
    """[(field, value)] of a message of protocol buffers: numbers and bytes."""
    at, found = 0, []

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value
    while at < len(data):
        key = number()
        if key & 7 == 0:
            found.append((key >> 3, number()))
        elif key & 7 == 1:
            found.append((key >> 3, int.from_bytes(data[at:at + 8], "little")))
            at += 8
        elif key & 7 == 2:
            length = number()
            if at + length > len(data):
                raise ValueError("a field beyond the end")
            found.append((key >> 3, data[at:at + length]))
            at += length
        else:
            raise ValueError("wire type %d" % (key & 7))
    return found


def packed(data):
    return [value for _, value in messages(b"".join(b"\x08" + v for v in
                                                    re.findall(rb"[\x80-\xff]*[\x00-\x7f]", data)))]


class Pprof:
    """A profile: stacks of (function, file, line) and values by sample type."""

    def __init__(self, data):
        fields = collections.defaultdict(list)
        for field, value in messages(gzip.decompress(data)):
            fields[field].append(value)
        self.strings = [s.decode() for s in fields[6]]
        same(self.strings[0], "", "string 0")
        self.types = [self.strings[dict(messages(t))[1]] for t in fields[1]]
        self.units = [self.strings[dict(messages(t)).get(2, 0)] for t in fields[1]]
        self.comments = [self.strings[c] for c in fields[13]]
        self.default = self.strings[fields[14][0]]
        self.period = fields[12][0]
        self.duration = fields[10][0] if fields[10] else None
        self.mappings = {}
        for message in fields[3]:
            parts = dict(messages(message))
            self.mappings[parts[1]] = (self.strings[parts[5]], self.strings[parts[6]], parts[2],
                                       parts[3])
        functions = {}
        for message in fields[5]:
            parts = dict(messages(message))
            same(parts[2], parts[3], "name and system name")
            functions[parts[1]] = (self.strings[parts[2]], self.strings[parts.get(4, 0)])
        self.locations = {}
        for message in fields[4]:
            parts = messages(message)
            simple = dict(parts)
            lines = [dict(messages(m)) for f, m in parts if f == 4]
            check(simple.get(2) is None or simple[2] in self.mappings, "a mapping that is not there")
            check(simple[1] not in self.locations, "a location twice")
            self.locations[simple[1]] = ([(*functions[m[1]], m[2]) for m in lines],
                                         simple.get(2), simple.get(3))
        self.samples = []
        for message in fields[2]:
            parts = dict(messages(message))
            self.samples.append((packed(parts[1]), packed(parts[2])))
            same(len(self.samples[-1][1]), len(self.types), "values")

    def stacks(self, name):
        """[(functions, leaf first; value)]"""
        at = self.types.index(name)
        return [([line[0] for i in ids for line in self.locations[i][0]], values[at])
                for ids, values in self.samples if values[at]]


def pprof(types, samples, period=524288, drop="", comment="", time=1700000000000000000):
    """samples: a list of (stack, values); a stack is a list of frames, leaf first, and a frame a
    list of (function, file, line), innermost first."""
    texts = [""]

    def text(value):
        if value not in texts:
            texts.append(value)
        return texts.index(value)

    places, functions, rows = [], [], b""
    for stack, values in samples:
        ids = []
        for frame in stack:
            if frame not in places:
                places.append(frame)
            ids.append(places.index(frame) + 1)
        rows += field(2, field(1, ids) + field(2, values))
    locations = b""
    for number, frame in enumerate(places, 1):
        lines = b""
        for function, file, line in frame:
            if (function, file) not in functions:
                functions.append((function, file))
            lines += field(4, field(1, functions.index((function, file)) + 1) + field(2, line))
        locations += field(4, field(1, number) + field(3, 0x1000 * number) + lines)
    out = b"".join(field(1, field(1, text(name)) + field(2, text(unit))) for name, unit in types)
    out += rows + locations
    for number, (function, file) in enumerate(functions, 1):
        out += field(5, field(1, number) + field(2, text(function)) + field(4, text(file)))
    last = field(7, text(drop)) if drop else b""
    last += field(9, time) + field(11, field(1, text("space")) + field(2, text("bytes")))
    last += field(12, period)
    if comment:
        last += field(13, [text(comment)])
    return out + b"".join(field(6, value.encode()) for value in texts) + last


HEAP_TYPES = [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"),
              ("inuse_space", "bytes")]


def heap_dump(pid, time, samples, heap="libc.malloc", interval=4096):
    """A dump of heapprofd: samples are {field: value}, by Perfetto's profile_packet.proto."""
    return field(5, field(1, pid) + field(9, time) + field(11, heap.encode()) + field(12, interval) +
                 b"".join(field(2, b"".join(field(n, v) for n, v in sample.items())) for sample in samples))


def interned(kind, iid, **fields):
    """{number: value} of an entry of InternedData."""
    return field(kind, field(1, iid) + b"".join(field(int(name[1:]), value) for name, value in fields.items()))


def perfetto(dumps, sequence=3):
    """A trace of Perfetto with the stacks 1 (leaf, grow, main) and 2 (an address in a library, main)."""
    data = interned(5, 1, f2=b"main") + interned(5, 2, f2=b"grow") + interned(5, 3, f2=b"leaf")
    data += interned(17, 1, f2=b"usr") + interned(17, 2, f2=b"libx.so") + interned(16, 1, f2=b"\xab\xcd")
    data += interned(18, 1, f2=b"src/a.c")
    data += field(19, field(1, 1) + field(2, 1) + field(4, 0x7f0000001000) + field(5, 0x7f0000009000) +
                  field(7, 1) + field(7, 2) + field(8, 0x1000))
    data += interned(6, 1, f2=1) + interned(6, 2, f2=2) + interned(6, 3, f2=3, f5=1, f6=7) + interned(6, 4, f3=1, f4=0x1800)
    data += interned(7, 1, f2=[1, 2, 3]) + field(7, field(1, 2) + field(2, 1) + field(2, 4))
    packets = [field(8, 1) + field(10, sequence), *(field(10, sequence) + field(37, dump) for dump in dumps),
               field(12, data) + field(10, sequence)]
    return b"".join(field(1, packet) for packet in packets)


def small_perfetto():
    """Two dumps of a process, the first in two packets and of two heaps, and one of another."""
    return perfetto([heap_dump(7, 1000, [{1: 1, 2: 900, 3: 100, 5: 9, 6: 1}]) + field(6, 1),
                     heap_dump(7, 1000, [{1: 2, 2: 50}]) + heap_dump(7, 1000, [{1: 2, 2: 30}], heap="own"),
                     heap_dump(8, 1000, [{1: 1, 2: 5555}]),
                     heap_dump(7, 5000, [{1: 1, 2: 1000, 3: 990}, {1: 2, 2: 60}]) + heap_dump(7, 5000, [{1: 2, 2: 30}], heap="own")])


def small_pprof():
    main, both = [("main", "f.c", 9)], [("inner", "f.c", 20), ("outer", "f.c", 21)]
    return pprof(HEAP_TYPES, [([both, main], [10, 1000, 4, 400]), ([main], [5, 50, 0, 0])],
                 comment="made")


# ---- readers ----

def heaptrack_facts(text):
    """What a heaptrack file of version 1 or later adds up to: a dictionary."""
    kinds, live, peak, when, now = [], 0, 0, 0, 0
    allocs = frees = temporary = 0
    last = None
    for line in text.splitlines():
        words = line.split(" ")
        if words[0] == "a":
            kinds.append(int(words[1], 16))
        elif words[0] == "+":
            last = int(words[1], 16)
            allocs += 1
            live += kinds[last]
            if live > peak:
                peak, when = live, now
        elif words[0] == "-":
            kind = int(words[1], 16)
            frees += 1
            live -= kinds[kind]
            temporary += kind == last
            last = None
        elif words[0] == "c":
            now = int(words[1], 16)
    return {"allocs": allocs, "frees": frees, "live": live, "peak": peak, "peak_ms": when,
            "temporary": temporary, "ms": now}


def text_rows(text):
    """The rows of a heap profile: [(live, live_bytes, all, all_bytes, addresses)]."""
    figures = r"(\d+):\s+(\d+)\s+\[\s*(\d+):\s+(\d+)\]"
    rows = []
    if text.startswith("heap_v2"):
        for stack, rest in re.findall(r"^@ (.*)\n  t\*: (.*)$", text, re.M):
            rows.append([int(n) for n in re.match(figures.replace(r"\s+", r"\s*"), rest).groups()]
                        + [stack.split()])
    else:
        for match in re.finditer(r"^\s*" + figures + r" @ (0x.*)$", text, re.M):
            rows.append([int(n) for n in match.groups()[:4]] + [match.group(5).split()])
    return rows


EVENTLOG_METADATA = b"""/* CTF 1.8 */
enum gc_phase : uint16_t { "minor" = 24, "several" = 25 ... 27, "last", };
enum gc_counter : uint16_t { "alloc_jump", "request_one" = 13 };
"""


def small_eventlog():
    """Each kind of event, requests in a row, and two processes that took turns."""
    out = struct.pack("<IHH", 0xc1fc1fc1, 1, 0)
    for start in (1000, 900, 5000, 4000):
        for i in range(6):
            head = struct.pack("<QI", start + 100 * i, 4711)
            out += head + struct.pack("<IH", i % 2, 24 + i // 2)
            out += head + struct.pack("<IQH", 2, i, 12) + head + struct.pack("<IQB", 3, i, i)
            out += 2 * (head + struct.pack("<IQH", 2, 1, 13))
        out += struct.pack("<QIIQ", start + 700, 4711, 4, 20)
    return out


def runtime_event(kind, number, time, *values, own=False):
    """One event of OCaml's runtime, in words."""
    length = 2 + len(values)
    return [length << 54 | own << 53 | kind << 49 | number << 36, time, *values]


def runtime_events(rings, version=1, words=64, names=(), before=0):
    """A file of OCaml 5's runtime_events: a ring of `words` words for each list of events. Each ring
    begins at the position `before`; as in the runtime, what is older than its size is overwritten."""
    heads, data = b"", b""
    for events in rings:
        ring, head, tail, lengths = [0] * words, before, before, []
        for event in events:
            left = words - tail % words
            parts = ([[left << 54]] if left < len(event) else []) + [event]
            for part in parts:
                size = left if part is not event else len(event)
                while tail + size - head >= words:
                    head += lengths.pop(0)
                ring[tail % words:tail % words + len(part)] = part
                lengths.append(size)
                tail += size
        heads += struct.pack("<10Q", head, tail, *[0] * 8)
        data += struct.pack("<%dQ" % words, *ring)
    rings_at = 64 + len(heads)
    return struct.pack("<8Q", version, len(rings), 80, 8 * words, words, 64, rings_at,
                       rings_at + len(data)) + heads + data + \
        b"".join(name.encode().ljust(128, b"\0") for name in names)


def small_runtime_events():
    """Each kind of event, in two domains."""
    first = [runtime_event(1, 0, 1000, 4711), runtime_event(2, 11, 1100), runtime_event(2, 12, 1150),
             runtime_event(4, 4, 1200, 800), runtime_event(3, 12, 1250), runtime_event(3, 11, 1300),
             runtime_event(2, 0, 1400, own=True), runtime_event(1, 1, 1500, 7, own=True),
             runtime_event(3, 0, 1600, own=True), runtime_event(0, 2, 1650, own=True),
             runtime_event(4, 3, 1700, 1, 2, 3, own=True), runtime_event(5, 0, 1750, 1, 2, 3)]
    second = [runtime_event(1, 6, 1050, 4711), runtime_event(2, 6, 1350), runtime_event(3, 6, 1450),
              runtime_event(1, 7, 1800, 4711)]
    return runtime_events([first, second, []], words=128,
                          names=["step", "items", "done", "custom"])


def main():
    for name, first, data in (("heaptrack", b"h", HEAPTRACK.encode()),
                              ("heaptrack_0", b"h", HEAPTRACK_0.encode()),
                              ("jemalloc", b"t", JEMALLOC.encode()),
                              ("gperftools", b"t", GPERFTOOLS.encode()),
                              ("go", b"t", GO.encode()),
                              ("dhat", b"d", DHAT_RUST.encode()),
                              ("massif", b"m", MASSIF.encode()),
                              ("folded", b"f", FOLDED.encode()),
                              ("v8", b"8", V8.encode()),
                              ("perfetto", b"q", small_perfetto()),
                              ("pprof", b"p", small_pprof()),
                              ("eventlog", b"e" + struct.pack("<H", len(EVENTLOG_METADATA)),
                               EVENTLOG_METADATA + small_eventlog()),
                              ("eventlog_alone", b"", small_eventlog()),
                              ("runtime_events", b"r", small_runtime_events()),
                              ("pprof.gz", b"", gzip.compress(small_pprof(), mtime=0))):
        with open(os.path.join(sys.argv[1], name), "wb") as f:
            f.write(first + data)


if __name__ == "__main__":
    main()
