#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A second reader of the trace format, written from doc/FORMAT.md (section 3) alone.

It favours plain code over speed and shares nothing with the library, so that test_golden.py can
compare the two: where they differ, the document, the library or this file has an error.

    second_reader.py FILE          prints each event, as `mayfly dump` does
    second_reader.py --facts FILE  prints what is known of the trace, as JSON

Trace(bytes) reads a file; facts() and lines() are what the two commands print.
"""
import copy
import ctypes
import datetime
import json
import math
import struct
import sys
import zlib

MASK = 2 ** 64 - 1
SAMPLED, EXACT = 0, 1
CODE, TRUNCATED, ELIDED = 0, 1, 2
NO_MODULE = MASK  # sorts behind all modules
HEAPS = ["malloc", "ocaml-minor", "ocaml-major", "external", "pool", "pool-mapped", "mmap"]
NOWHERE = {"function": b"", "file": b"", "line": 0, "first_char": 0, "last_char": 0,
           "inlined": False}
SPAN, INSTANT, COUNTER = 0, 1, 2
BEGIN, END = 0, 1
SIGNED, UNSIGNED, FLOAT, TEXT, FLOW = 0, 1, 2, 3, 4
# Chunks without which a trace can be used (3.18), and what each of them changes here.
SIDE = {"cntr": ["counter_names", "points"], "maps": ["mappings"], "frag": ["fragments"], "errs": [], "heap": ["picture"],
        "prom": ["promotions"], "text": ["texts"], "type": ["types"], "labl": ["label_sets"],
        "trak": ["tracks"], "indx": ["index"], "POOL": [], "MMAP": [], "SUMS": ["parts", "tells_inherited"],
        "NAME": ["modules", "threads", "frames", "has_names", "next_reference"]}
NUMBERED = {"text", "type", "labl", "SUMS"}  # where one is missing, later ones do not count


class Damaged(Exception):
    pass


class Refused(Exception):
    """Sound, but of a version or with contents that this reader does not know."""


def need(condition, what):
    if not condition:
        raise Damaged(what)


# ---- numbers, streams and columns (1, 3.2) ----

def unzigzag(v):
    return v >> 1 ^ -(v & 1)


def signed(v):
    v &= MASK
    return v - 2 ** 64 if v >> 63 else v


def as_float(bits):
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


def unzstd(data, size):
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t] * 2
    need(size <= 2 ** 30, "too large")
    out = ctypes.create_string_buffer(size + 1)
    got = library.ZSTD_decompress(out, size, data, len(data))
    need(got == size, "zstd frame")
    return out.raw[:size]


class Input:
    """Bytes that are read from their beginning to their end."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def more(self):
        return self.at < len(self.data)

    def take(self, count):
        need(count <= len(self.data) - self.at, "ends early")
        self.at += count
        return self.data[self.at - count:self.at]

    def byte(self):
        return self.take(1)[0]

    def u(self):
        value = 0
        for i in range(10):
            byte = self.byte()
            value |= (byte & 127) << 7 * i
            if byte < 128:
                break
        need(byte < 128 and value <= MASK, "number")
        return value

    def s(self):
        return unzigzag(self.u())

    def numbers(self, form):
        """Some u and s, as in "uus"."""
        return [self.u() if letter == "u" else self.s() for letter in form]

    def stream(self):
        size = self.u()
        if size & 1:
            return unzstd(self.take(self.u()), size >> 1)
        return self.take(size >> 1)

    def bytes_of(self, count):
        stream = self.stream()
        need(len(stream) == count, "length of a stream")
        return stream

    def end(self):
        need(not self.more(), "more than there should be")


def decode(coding, data, count):
    """The numbers of a column."""
    at = Input(data)
    if coding == 0:
        numbers = [at.u()] * count
    elif coding == 1:
        stream = Input(at.stream())
        numbers = [stream.u() for _ in range(count)]
        stream.end()
    elif coding == 2:
        width = at.byte()
        need(1 <= width <= 8, "width of planes")
        planes = [at.bytes_of(count) for _ in range(width)]
        numbers = [sum(planes[i][n] << 8 * i for i in range(width)) for n in range(count)]
    elif coding == 3:
        numbers = decode_buckets(at, count)
    elif coding == 4:
        runs = at.u()
        need(runs <= count, "runs")
        values, lengths = decode_nested(at, runs), decode_nested(at, runs)
        need(sum(lengths) + runs == count, "lengths of runs")
        numbers = [v for v, length in zip(values, lengths) for _ in range(length + 1)]
    elif coding == 6:
        limit = at.byte()
        small = at.bytes_of(count)
        large = sum(v == limit for v in small)
        need(all(v <= limit for v in small), "split number")
        rest = iter(decode_nested(at, large) if large else [])
        numbers = [v if v < limit else next(rest) + limit for v in small]
    else:
        raise Damaged("coding %d" % coding)
    at.end()
    return numbers


def decode_nested(at, count):
    coding = at.u()
    need(coding <= 3, "coding of a nested column")
    return decode(coding, at.take(at.u()), count)


def decode_buckets(at, count):
    m = at.byte()
    need(m <= 2, "buckets")
    classes = at.bytes_of(count)
    stream = at.stream()
    bits, at_bit, numbers = int.from_bytes(stream, "little"), 0, []
    for c in classes:
        q = c >> m
        r = q - 1 if q > 1 else 0
        rest = bits >> at_bit & (1 << r) - 1
        at_bit += r
        numbers.append(c - (r << m) << r | rest)
        need(numbers[-1] <= MASK, "class")
    need((at_bit + 7) // 8 == len(stream), "bits of buckets")
    return numbers


class Columns:
    """What follows the head of a chunk."""

    def __init__(self, at, odd):
        self.column = {}
        while at.more():
            number, coding = at.u(), at.u()
            need(number not in self.column, "a column comes twice")
            if number % 2 and number not in odd:
                raise Refused("column %d" % number)
            self.column[number] = (coding, at.take(at.u()))

    def numbers(self, number, count):
        if number not in self.column:
            return [0] * count
        return decode(*self.column[number], count)

    def signed(self, number, count):
        return [unzigzag(v) for v in self.numbers(number, count)]

    def bytes(self, number):
        if number not in self.column:
            return b""
        coding, data = self.column[number]
        need(coding == 5, "column of bytes")
        at = Input(data)
        stream = at.stream()
        at.end()
        return stream


def sums(deltas, start=0):
    """Numbers of their differences, modulo 2^64."""
    result = []
    for delta in deltas:
        start = start + delta & MASK
        result.append(start)
    return result


def split_texts(data, count):
    texts = data.split(b"\0")
    need(texts.pop() == b"" and len(texts) == count, "texts")
    return texts


class TwoSizes:
    """The last two sizes of each place (3.7, column 9)."""

    def __init__(self, new):
        self.pair, self.new = {}, iter(new)

    def last(self, place):
        return self.pair.get(place, (0, 0))[0]

    def set_last(self, place, size):
        self.pair[place] = (size, self.last(place))

    def next(self, place, code):
        last, before = self.pair.get(place, (0, 0))
        need(code <= 2, "code of a size")
        if code:
            self.pair[place] = (before if code == 1 else next(self.new), last)
        return self.last(place)


# ---- the trace ----

INFO = {  # id: name, kind
    1: ("mode", "u"), 3: ("sampler", "u"), 5: ("snapshot_ns", "s"), 2: ("pid", "u"),
    4: ("parent_pid", "u"), 6: ("interval_bytes", "u"), 8: ("start_real_ns", "s"),
    10: ("duration_ns", "s"), 12: ("ending", "u"), 14: ("ending_code", "s"), 16: ("seed", "u"),
    18: ("truncated_stacks", "u"), 20: ("dropped_samples", "u"), 22: ("dropped_frees", "u"),
    24: ("nested_blocks", "u"), 26: ("nested_bytes", "u"), 28: ("command", "t"),
    30: ("program", "t"), 32: ("mayfly_version", "t"), 34: ("off_text", "t"), 36: ("note", "t"),
    38: ("recorded", "u"), 40: ("spool", "u"), 42: ("thinned", "u"), 44: ("program_cpu_ns", "u"),
    46: ("program_max_rss_bytes", "u"), 48: ("ocaml_interval_bytes", "u"), 50: ("absent", "u"),
    52: ("ocaml_rate_bits", "u"), 54: ("heaps", "u"), 56: ("dropped_events", "u"),
    58: ("grouped", "u"), 60: ("missed_frees", "u"), 62: ("memtrace_version", "u"),
    64: ("memtrace_domain", "u"), 66: ("host", "t"), 68: ("runtime_parameters", "t"),
    70: ("context", "t"), 72: ("title", "t"), 74: ("processes", "u"),
    76: ("entry", "t"), 78: ("python_end_ns", "s"),
    80: ("mapped_peak_bytes", "u"), 82: ("mapped_bytes", "u"), 84: ("mapped_blocks", "u"),
    86: ("mapped_samples", "u"), 88: ("mapped_frees", "u"), 90: ("mapped_inherited", "u"),
}


class Event:
    """An allocation, a free or a promotion of a block; `alloc` is the block's allocation."""
    kind = node = thread = size = hits = log2 = flags = labels = sample = time = alloc = None

    def heap(self):
        return self.alloc.flags >> 4 & 7


class Part:
    """Counters of each node over a part of the history (3.8)."""


class Trace:
    def __init__(self, data):
        self.data = data
        self.info = {name: b"" if kind == "t" else 0 for name, kind in INFO.values()}
        self.strings, self.modules, self.threads, self.frames = [b""], [], [], []
        self.next_reference = 1
        self.parent, self.frame_of, self.chain_end = [0], [None], []
        self.followed = {}  # frame -> frames that followed it
        self.has_names = False
        self.first_chain = 0  # the first one after the last EVNT
        self.events, self.promotions, self.chunks, self.allocs = [], [], [], []
        self.tells_inherited = False
        self.chunk_offsets, self.error_ns = [], 0
        self.parts = []
        self.texts, self.types, self.label_sets, self.tracks = [b""], [], [[]], []
        self.counter_names, self.points, self.fragments = [], {}, {}
        self.mappings, self.picture = {}, None
        self.index, self.index_offset = None, None
        self.bad = []  # (type, offset) of chunks that were left out
        self.read_chunks()

    # ---- header, chunks, trailer (3.1) ----

    def read_chunks(self):
        need(len(self.data) >= 24 and self.data[:8] == b"MAYFLYTR", "not a trace")
        version, size, features, crc = struct.unpack("<IIII", self.data[8:24])
        need(crc == zlib.crc32(self.data[:20]), "CRC of the header")
        if version != 2 or features:
            raise Refused("version %d, features %x" % (version, features))
        need(size == 24, "size of the header")
        self.offset = 24
        kinds = []
        while True:
            chunk = self.chunk_at(self.offset)
            if not chunk:
                break
            kind, sound, size = chunk
            need(kinds or kind == "INFO", "INFO is not the first chunk")
            if not sound and not (kinds and self.goes_on(self.offset)):
                break
            if self.is_side(kind):
                self.read_side(kind, sound)
            else:
                self.read_chunk(kind)
            kinds.append(kind)
            self.offset += size
            if kind == "indx":
                break
        self.trailer = self.sound_trailer()
        self.index = self.index if self.trailer else None
        usable = {"SUMS"} if self.info["snapshot_ns"] else {"EVNT"}
        need(self.trailer or (usable | {"trak"}) & set(kinds), "nothing usable")
        self.adjust_times()

    def chunk_at(self, offset):
        """Its type, whether its CRC is right, and its size in the file; None: it is cut off."""
        head = self.data[offset:offset + 16]
        if len(head) < 16:
            return None
        kind, stored, _, crc = struct.unpack("<4sIII", head)
        contents = self.data[offset + 16:offset + 16 + stored]
        if len(contents) < stored:
            return None
        return kind.decode("latin-1"), zlib.crc32(head[:12] + contents) == crc, 16 + stored

    def read_chunk(self, kind):
        method = getattr(self, "read_" + kind, None)
        if not method and kind[0].isupper():
            raise Refused("chunk " + kind)
        if method:
            stored, plain = struct.unpack("<II", self.data[self.offset + 4:self.offset + 12])
            contents = self.data[self.offset + 16:self.offset + 16 + stored]
            at = Input(unzstd(contents, plain) if plain else contents)
            method(at)
            at.end()

    # ---- chunks without which the trace can be used (3.18) ----

    def is_side(self, kind):
        return kind in SIDE and not (kind == "SUMS" and self.info["snapshot_ns"])

    def goes_on(self, offset):
        """Whether a sound chunk, or the trailer, is behind unsound ones of such types."""
        while True:
            kind, sound, size = self.chunk_at(offset) or (None, False, 0)
            if sound:
                return True
            if not kind or not self.is_side(kind):
                return False
            if kind == "indx":
                return self.data[offset + size + 16:] == b"MAYFLYND"
            offset += size

    def lost(self, kind):
        return any(kind == bad for bad, _ in self.bad)

    def read_side(self, kind, sound):
        before = {name: copy.deepcopy(getattr(self, name)) for name in SIDE[kind]}
        if kind == "indx":
            self.index_offset = self.offset
        try:
            if kind == "SUMS" and self.lost(kind):
                return
            need(sound and not (kind in NUMBERED and self.lost(kind)), "left out")
            self.read_chunk(kind)
        except (Damaged, Refused, IndexError, OverflowError):
            for name, value in before.items():
                setattr(self, name, value)
            self.bad.append((kind, self.offset))

    def sound_trailer(self):
        trailer = self.data[self.offset:]
        if len(trailer) != 24 or trailer[16:] != b"MAYFLYND" or self.index_offset is None:
            return False
        where, crc, zero = struct.unpack("<QII", trailer[:16])
        return crc == zlib.crc32(trailer[:8]) and zero == 0 and where == self.index_offset

    # ---- INFO (3.3) ----

    def read_INFO(self, at):
        while at.more():
            number = at.u()
            field = Input(at.take(at.u()))
            if number not in INFO:
                if number % 2:
                    raise Refused("INFO %d" % number)
                continue
            name, kind = INFO[number]
            if kind == "t":
                value = field.data
            else:
                value = field.u() if kind == "u" else field.s()
                field.end()
            self.info[name] = value

    # ---- tables (3.4 to 3.6) ----

    def read_STRS(self, at):
        count = at.u()
        self.strings += split_texts(Columns(at, {1}).bytes(1), count)

    def references(self, codes):
        """A column of references to strings."""
        last, texts = 0, []
        for code in codes:
            if code == 1:
                number = self.next_reference
                self.next_reference += 1
            else:
                number = [0, None, last][code] if code <= 2 else code - 3
            need(number < len(self.strings), "reference")
            last = number or last
            texts.append(self.strings[number])
        return texts

    def read_MODS(self, at):
        count, unit = at.numbers("uu")
        c = Columns(at, {1, 3, 5, 7, 9, 13, 15})
        paths = self.references(c.numbers(1, count))
        starts = sums(c.signed(3, count), self.modules[-1]["start"] if self.modules else 0)
        ids = Input(c.bytes(15))
        for path, start, size, bias, since, length in zip(
                paths, starts, c.numbers(5, count), c.signed(7, count), c.signed(9, count),
                c.numbers(13, count)):
            self.modules.append({
                "path": path, "start": start, "end": start + size & MASK,
                "bias": start + bias & MASK, "from_ns": since * unit, "to_ns": None,
                "build_id": ids.take(length), "problem": b""})
        ids.end()

    def read_THRD(self, at):
        count = at.u()
        c = Columns(at, {1, 3, 4})
        first = len(self.threads)
        last = self.threads[-1]["tid"] if self.threads else 0
        tids = [tid & 0xffffffff for tid in sums(c.signed(1, count), last)]
        self.threads += [{"tid": tid, "name": name}
                         for tid, name in zip(tids, self.references(c.numbers(3, count)))]
        for number, back in enumerate(c.numbers(4, count), first):
            need(back <= number, "row of a thread")
            self.threads[number]["row"] = self.threads[number - back]["row"] if back else number

    def read_FRMS(self, at):
        count = at.u()
        c = Columns(at, {1, 3, 5})
        before = None
        for kind, module, address in zip(c.numbers(1, count), c.numbers(3, count),
                                         c.numbers(5, count)):
            need(kind <= 2 and module <= len(self.modules), "frame")
            if before and (before["kind"], before["module"]) == (kind, module - 1 & MASK):
                address = address + before["address"] & MASK
            before = {"kind": kind, "module": module - 1 & MASK, "address": address,
                      "locations": []}
            self.frames.append(before)

    def read_NAME(self, at):
        need(not self.has_names, "NAME comes twice")
        self.has_names = True
        count, unit = at.numbers("uu")
        c = Columns(at, {1, 3, 5, 7, 9, 11, 13, 15})
        modules, threads = len(self.modules), len(self.threads)
        problems = self.references(c.numbers(3, modules))
        for module, to, problem in zip(self.modules, c.numbers(1, modules), problems):
            module["problem"] = problem
            if to:
                module["to_ns"] = module["from_ns"] + unzigzag(to - 1) * unit
        renamed = [(t, code - 1) for t, code in zip(self.threads, c.numbers(5, threads)) if code]
        for (thread, _), name in zip(renamed, self.references([code for _, code in renamed])):
            thread["name"] = name
        functions = self.references(c.numbers(9, count))
        files = self.references(c.numbers(11, count))
        lines, last_line = c.signed(13, count), {}
        odd_inlined, first = c.numbers(15, count), c.numbers(16, count)
        length, respelled = c.signed(18, count), c.numbers(20, count)
        at_location = 0
        order = sorted(range(len(self.frames)), key=lambda i: (
            self.frames[i]["kind"], self.frames[i]["module"], self.frames[i]["address"], i))
        jit = [i for i, module in enumerate(self.modules) if module["path"] == b"[jit]"]
        if jit and any(frame["module"] == jit[0] for frame in self.frames):
            jit = []
        for i, locations in zip(order, c.numbers(7, len(self.frames))):
            need(locations <= count - at_location, "locations")
            if jit and locations and (self.frames[i]["kind"], self.frames[i]["module"]) == (
                    0, NO_MODULE):
                self.frames[i]["module"] = jit[0]
            for j in range(at_location, at_location + locations):
                file = files[j]
                last_line[file] = last_line.get(file, 0) + lines[j] & 0xffffffff
                self.frames[i]["locations"].append({
                    "function": functions[j], "file": file, "line": last_line[file],
                    "inlined": (j + 1 < at_location + locations) != bool(odd_inlined[j]),
                    "first_char": first[j], "last_char": first[j] + length[j],
                    "respelled": respelled[j]})
            at_location += locations
        need(at_location == count, "locations")

    def read_TREE(self, at):
        nodes, chains, firsts, further = at.numbers("uuuu")
        c = Columns(at, {1, 3, 5, 7, 9})
        back, lengths = c.numbers(1, chains), c.numbers(3, chains)
        ranks = c.numbers(5, nodes)
        firsts, further = iter(c.numbers(7, firsts)), iter(c.signed(9, further))
        need(sum(lengths) + chains == nodes, "chains")
        new = 0
        for back, length in zip(back, lengths):
            for i in range(length + 1):
                node = len(self.parent)
                parent = node - 1 - (back if i == 0 else 0)
                need(parent >= 0, "parent")
                followed = self.followed.setdefault(self.frame_of[parent], [])
                rank = ranks[new]
                new += 1
                if rank:
                    need(rank <= min(len(followed), 64), "rank of a frame")
                    frame = followed.pop(rank - 1)
                else:
                    frame = followed[0] + next(further) if followed else next(firsts)
                need(0 <= frame < len(self.frames), "frame of a node")
                followed.insert(0, frame)
                self.parent.append(parent)
                self.frame_of.append(frame)
            self.chain_end.append(len(self.parent) - 1)
        need(next(firsts, None) is None and next(further, None) is None, "frames")

    # ---- events (3.7) ----

    def read_POOL(self, at):
        pass

    def read_MMAP(self, at):
        pass

    def read_EVNT(self, at):
        head = at.numbers("uuuuuuuuuuuuuuus")
        (events, allocs, first, form, way, kinds, sites, explicit, pairs, new_sizes, runs, old,
         parts, unit, error, base) = head
        c = Columns(at, set(range(1, 48, 2)))
        need(first == len(self.allocs) and allocs <= events <= 262144 and form <= 2 and way <= 4,
             "head of EVNT")
        self.error_ns = max(self.error_ns, error)
        frees = events - allocs
        nodes = self.nodes_of_sites(c.numbers(5, sites), iter(c.numbers(7, explicit)))
        site_of, size_of = self.sites_and_sizes(c, form, allocs, nodes, pairs, new_sizes)
        logs, hits = c.numbers(17, allocs), c.numbers(15, allocs)
        flags, labels = c.numbers(19, allocs), c.numbers(50, allocs)
        blocks = []
        for i in range(allocs):
            e = Event()
            e.kind, e.alloc, e.sample = "alloc", e, first + i
            e.node, e.size, e.log2, e.flags = nodes[site_of[i]], size_of[i], logs[i], flags[i]
            need(e.log2 <= 40, "interval")
            e.hits = hits[i]
            if form == 0:
                e.hits = unzigzag(hits[i]) + (e.size < 1 << e.log2)
            blocks.append(e)
        if form:
            last = {}
            for e, site in zip(blocks, site_of):
                e.flags ^= last.get(site, 0)
                last[site] = e.flags
        self.allocs += blocks
        chunk = self.order_of_events(c, events, frees, way, kinds, runs, old, blocks)
        self.set_threads(c, form, chunk, blocks, labels)
        self.set_free_flags(c, form, chunk)
        self.set_times(c, form, chunk, parts, unit, base)
        self.first_chain = len(self.chain_end)
        self.chunks.append(chunk)
        self.chunk_offsets.append(self.offset)
        self.events += chunk

    def nodes_of_sites(self, codes, explicit):
        """Column 5."""
        nodes, chain = [], self.first_chain
        for code in codes:
            if code == 1:
                node = next(explicit)
            else:
                number = chain if code == 0 else chain - 1 - (code - 2)
                need(0 <= number < len(self.chain_end), "chain of a site")
                node = self.chain_end[number]
                chain += code == 0
            need(node < len(self.parent), "node of a site")
            nodes.append(node)
        return nodes

    def sites_and_sizes(self, c, form, allocs, nodes, pairs, new_sizes):
        """The site and the size of each allocation."""
        if form == 2:
            pair_site, next_site = [], 0
            for code in c.numbers(41, pairs):
                pair_site.append(next_site - code)
                next_site += code == 0
            sizes, pair = c.numbers(43, pairs), c.numbers(47, allocs)
            return [pair_site[p] for p in pair], [sizes[p] for p in pair]
        site_of = c.numbers(39, allocs) if form else list(range(allocs))
        two, sizes = TwoSizes(c.numbers(11, new_sizes)), []
        for site, code in zip(site_of, c.numbers(9, allocs)):
            sizes.append(two.next(site if form else self.frame_of[nodes[site]], code))
        return site_of, sizes

    def order_of_events(self, c, events, frees, way, kinds, runs, old, blocks):
        """The events in order; frees with their blocks."""
        first = len(self.allocs) - len(blocks)
        ranks, by_age = iter(c.numbers(21, frees if way in (2, 3) else 0)), way in (0, 3)
        count = old if way in (2, 3, 4) else frees
        deltas = iter(c.signed(25, count if way in (1, 2, 4) else 0))
        ages = iter(c.numbers(23, count if way in (0, 3) else 0))
        until_free = c.numbers(27, len(blocks)) if way == 4 else None
        if kinds:
            bits = c.numbers(33, (events + 7) // 8)
            is_free = iter([bits[i >> 3] >> (i & 7) & 1 for i in range(events)])
        else:
            is_free = iter([i & 1 for i, run in enumerate(c.numbers(1, runs)) for _ in range(run)])
        freed_at, live, chunk = {}, [], []
        new, named, allocated = iter(blocks), first, 0
        for position in range(events):
            if position in freed_at:
                block = freed_at.pop(position)
            elif not next(is_free):
                e = next(new)
                if until_free and until_free[e.sample - first]:
                    end = position + until_free[e.sample - first]
                    need(end < events and end not in freed_at, "end of a block")
                    freed_at[end] = e
                live.append(e)
                allocated += 1
                chunk.append(e)
                continue
            else:
                rank = next(ranks) if way in (2, 3) else 64
                if rank < 64:
                    need(rank < len(live), "rank of a block")
                    block = live[-1 - rank]
                else:
                    named = first + allocated - 1 - next(ages) if by_age else named + next(deltas)
                    need(0 <= named < len(self.allocs), "number of a block")
                    block = self.allocs[named]
            e = Event()
            e.kind, e.alloc, e.sample = "free", block, block.sample
            need(not hasattr(block, "freed"), "freed twice")
            block.freed = e
            if block.sample >= first:
                live.remove(block)
            chunk.append(e)
        need(next(new, None) is None and next(is_free, None) is None, "kinds of events")
        return chunk

    def set_threads(self, c, form, chunk, blocks, labels):
        if form:
            for e, thread in zip(chunk, c.numbers(45, len(chunk))):
                e.thread = thread
        else:
            for e, thread in zip(blocks, c.numbers(13, len(blocks))):
                e.thread = thread
            codes, before = iter(c.numbers(29, len(chunk) - len(blocks))), 0
            for e in chunk:
                if e.kind == "free":
                    code = next(codes)
                    e.thread = code - 1 if code else \
                        e.alloc.thread if e.sample >= len(self.allocs) - len(blocks) else before
                before = e.thread
        need(all(e.thread < len(self.threads) for e in chunk), "thread")
        last = {}
        for e, code in zip(blocks, labels):
            e.labels = code - 1 if code else last.get(e.thread, 0)
            if self.lost("labl") and e.labels >= len(self.label_sets):
                e.labels = 0
            need(e.labels < len(self.label_sets), "labels")
            last[e.thread] = e.labels

    @staticmethod
    def set_free_flags(c, form, chunk):
        flags = iter(c.numbers(31, sum(e.kind == "free" for e in chunk)))
        last = {}
        for e, after in zip(chunk, chunk[1:] + [None]):
            if e.kind == "alloc":
                last[e.thread] = e
                continue
            e.flags = next(flags)
            if form:
                e.flags ^= after is not None and after.kind == "alloc" and after.flags & 1
                e.flags ^= 2 * (last.get(e.thread) is e.alloc)

    @staticmethod
    def set_times(c, form, chunk, parts, unit, base):
        if form == 0:
            times = sums(c.numbers(3, len(chunk)), base)
            times = [signed(t) * unit for t in times]
        else:
            start = base * unit
            times = [start]
            for n, t in zip(c.numbers(35, parts), c.numbers(37, parts)):
                times += [start + k * t * unit // (n + 1) for k in range(1, n + 2)]
                start += t * unit
            need(len(times) == len(chunk), "parts of times")
        for e, time in zip(chunk, times):
            e.time = time

    def read_prom(self, at):
        count, unit = at.numbers("uu")
        c = Columns(at, {1, 3, 5})
        before = sums(c.numbers(1, count))
        samples = [signed(v) for v in sums(c.signed(3, count))]
        times = [signed(v) * unit for v in sums(c.signed(5, count))]
        need(self.chunks, "prom without EVNT")
        self.promotions.append((len(self.chunks) - 1, list(zip(before, samples, times))))

    # ---- sums, index (3.8, 3.9) ----

    def read_SUMS(self, at):
        heads = [at.numbers("uuusuu") for _ in range(at.u())]
        need(len(heads) <= 2, "parts of SUMS")
        c = Columns(at, set(range(1, 20, 2)))
        self.tells_inherited |= 20 in c.column
        ends, others = sum(h[0] for h in heads), sum(h[1] for h in heads)
        chains, nodes = iter(c.numbers(1, ends)), iter(c.numbers(3, others))
        entries, time = [], 0
        for head in heads:
            ends, others, events, since, length, most = head
            part = Part()
            part.events, part.most = events, most
            part.start = time + since
            part.end = time = part.start + length
            mine = [self.chain_end[i] for i in ascending(chains, ends)] + list(
                ascending(nodes, others))
            part.node = {node: [] for node in sorted(mine)}
            need(len(part.node) == len(mine), "a node twice")
            entries += part.node.items()
            self.parts.append(part)
        self.read_entries(c, entries)

    def read_entries(self, c, entries):
        allocs = c.numbers(5, len(entries))
        live = c.signed(13, len(entries))
        frees = [signed(a - l) for a, l in zip(allocs, live)]
        with_allocs, with_frees = sum(a != 0 for a in allocs), sum(f != 0 for f in frees)
        codes = c.numbers(7, with_allocs)
        two = TwoSizes(c.numbers(9, codes.count(2)))
        codes = iter(codes)
        extra = iter(c.numbers(11, with_allocs))
        freed, temps = iter(c.signed(15, with_frees)), iter(c.numbers(17, with_frees))
        temporary = c.numbers(17, with_frees)
        temp_bytes = iter(c.signed(19, sum(t != 0 for t in temporary)))
        inherited = c.numbers(20, with_allocs)
        inherited_bytes = iter(c.signed(22, sum(i != 0 for i in inherited)))
        inherited = iter(inherited)
        for (node, counts), a, f in zip(entries, allocs, frees):
            place = self.frame_of[node]
            a_bytes = f_bytes = t = t_bytes = i = i_bytes = 0
            if a:
                a_bytes = a * two.next(place, next(codes)) + next(extra) & MASK
                i = next(inherited)
                if i:
                    expected = a_bytes if i == a else i * two.last(place)
                    i_bytes = next(inherited_bytes) + expected & MASK
                    need(i <= a, "inherited blocks")
            if f:
                expected = a_bytes if f == a else f * two.last(place)
                difference = next(freed)
                f_bytes = expected + difference & MASK
                if not a and difference:
                    two.set_last(place, f_bytes // f)
                t = next(temps)
                if t:
                    expected = f_bytes if t == f else t * two.last(place)
                    t_bytes = next(temp_bytes) + expected & MASK
            counts += [a, a_bytes, f, f_bytes, t, t_bytes, i, i_bytes]

    def read_indx(self, at):
        count, unit = at.numbers("uu")
        more = "uu" if self.info["mode"] == EXACT or self.info["snapshot_ns"] else ""
        self.index_offset, self.index = self.offset, []
        offset = time = 0
        for _ in range(count):
            step, events, allocs, inherited, since, length, *rest = at.numbers("uuuusu" + more)
            offset += step
            first = time + since
            time = first + length
            self.index.append({"offset": offset, "events": events, "allocs": allocs,
                               "inherited": inherited, "first": first * unit, "last": time * unit,
                               "live": rest})

    def adjust_times(self):
        """Moves rounded times into what the index says of their chunk."""
        if self.index is None or self.info["snapshot_ns"]:
            return
        need(len(self.index) == len(self.chunks), "chunks of the index")
        for chunk, entry in zip(self.chunks, self.index):
            need(len(chunk) == entry["events"], "events of the index")
            for e in chunk:
                e.time = min(max(e.time, entry["first"]), entry["last"])
            if chunk:
                chunk[0].time, chunk[-1].time = entry["first"], entry["last"]

    # ---- counters (3.10) ----

    def read_cntr(self, at):
        new, series, moments, points, unit = at.numbers("uuuuu")
        c = Columns(at, {1, 3, 5, 7, 9, 11, 13})
        texts = split_texts(c.bytes(1), 2 * new) if new else []
        if not self.lost("cntr"):
            self.counter_names += zip(texts[::2], texts[1::2])
        times = [signed(t) * unit for t in sums(c.signed(9, moments))]
        moment_steps, values = iter(c.numbers(11, points)), iter(c.numbers(13, points))
        counters = ascending(iter(c.numbers(3, series)), series)
        for counter, count, form in zip(counters, c.numbers(5, series), c.numbers(7, series)):
            need(counter < len(self.counter_names) or self.lost("cntr"), "counter")
            last = 0
            for moment in ascending(moment_steps, count + 1):
                code = next(values)
                last = last ^ code if form else last + unzigzag(code) & MASK
                if counter < len(self.counter_names):
                    self.points.setdefault(counter, []).append(
                        (times[moment], as_float(last) if form else last))

    def read_frag(self, at):
        kind, unit, time, page, blocks, size, pages, nodes = at.numbers("uusuuuuu")
        c = Columns(at, {1, 3, 5, 7, 9, 10})
        rows = zip(ascending(iter(c.numbers(1, nodes)), nodes),
                   *(c.numbers(i, nodes) for i in (3, 5, 7, 9)))
        self.fragments[kind] = {"time_ns": time * unit, "page_bytes": page, "blocks": blocks,
                                "bytes": size, "pages": pages, "runs": c.numbers(10, 1)[0],
                                "rows": list(rows)}

    def read_maps(self, at):
        kind, unit, time, resident, names, rows = at.numbers("uusuuu")
        c = Columns(at, {1, 3, 5, 7, 9, 11})
        texts = [b""] + (split_texts(c.bytes(1), names) if names else [])
        kinds, starts = c.numbers(3, rows), sums(c.numbers(5, rows))
        sizes, amounts, numbers = (c.numbers(i, rows) for i in (7, 9, 11))
        need(all(n < len(texts) for n in numbers), "name of a mapping")
        need(all(a <= b for a, b in zip(starts, starts[1:])), "order of mappings")
        self.mappings[kind] = {"time_ns": time * unit, "resident": resident, "rows": [
            (k, start, size, amount, texts[n])
            for k, start, size, amount, n in zip(kinds, starts, sizes, amounts, numbers)]}

    # ---- the picture of the heap (3.19) ----

    def read_heap(self, at):
        unit, time, how, stopped, blocks, size, texts, holders, types, rows = at.numbers("usuuuuuuuu")
        c = Columns(at, {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23})
        texts = [b""] + (split_texts(c.bytes(1), texts) if texts else [])

        def named(column, count):
            numbers = c.numbers(column, count)
            need(all(n < len(texts) for n in numbers), "text of the picture")
            return [texts[n] for n in numbers]

        held = list(zip(ascending(iter(c.numbers(17, rows)), rows),
                        *(c.numbers(i, rows) for i in (19, 21, 23))))
        need(all(holder <= holders and kind <= types for _, holder, _, kind in held), "holder or type of a block")
        self.picture = {"time_ns": time * unit, "how": min(how, 2), "stopped_ns": stopped * unit, "blocks": blocks,
                        "bytes": size, "types": named(15, types), "held": held,
                        "holders": list(zip((min(k, 9) for k in c.numbers(3, holders)), named(5, holders),
                                            named(7, holders), *(c.numbers(i, holders) for i in (9, 11, 13))))}

    # ---- track events and labels (3.12, 3.13) ----

    def steps_of_texts(self, steps):
        numbers = sums(steps)
        need(all(n < len(self.texts) for n in numbers), "text")
        return [self.texts[n] for n in numbers]

    def read_text(self, at):
        count = at.u()
        self.texts += split_texts(Columns(at, {1}).bytes(1), count)

    def read_type(self, at):
        count, fields = at.numbers("uu")
        c = Columns(at, {1, 3, 5, 7, 9, 11, 13})
        field = iter(list(zip(self.steps_of_texts(c.signed(11, fields)), c.numbers(13, fields))))
        for name, kind, category, unit, mine in zip(
                self.steps_of_texts(c.signed(1, count)), c.numbers(3, count),
                self.steps_of_texts(c.signed(5, count)), self.steps_of_texts(c.signed(7, count)),
                c.numbers(9, count)):
            self.types.append({"name": name, "kind": kind, "category": category, "unit": unit,
                               "fields": [next(field) for _ in range(mine)]})

    def read_labl(self, at):
        count, labels = at.numbers("uu")
        c = Columns(at, {1, 3, 5})
        label = zip(self.steps_of_texts(c.signed(3, labels)),
                    self.steps_of_texts(c.signed(5, labels)))
        label = iter(list(label))
        for mine in c.numbers(1, count):
            self.label_sets.append([next(label) for _ in range(mine)])

    def read_trak(self, at):
        count, types, next_text, time, before = at.numbers("uuusu")
        c = Columns(at, {1, 3, 5, 7, 9, 11, 13, 15, 17})
        need(types <= len(self.types), "types of trak")
        events = []
        for code, later, passed, thread, node in zip(*(c.numbers(i, count)
                                                       for i in (1, 3, 5, 7, 9))):
            time, before = time + later, before + passed
            need(code >> 2 < types and thread < len(self.threads) and node < len(self.parent),
                 "track event")
            events.append({"type": self.types[code >> 2], "kind": code & 3, "time": time,
                           "before": before, "thread": thread, "node": node, "values": []})
        # Which events have a value of each field; and so how long the columns are.
        fields = [(t, kind) for t in self.types[:types] for _, kind in t["fields"]]
        with_values = [[e for e in events if e["type"] is t and e["kind"] != END]
                       for t, _ in fields]
        forms = c.numbers(17, len(fields))
        column = [15 if kind == TEXT else 13 if kind == FLOAT and form == 0 else 11
                  for (_, kind), form in zip(fields, forms)]
        values = {i: iter(c.numbers(i, sum(len(with_values[f]) for f in range(len(fields))
                                           if column[f] == i))) for i in (11, 13, 15)}
        for (_, kind), form, i, having in zip(fields, forms, column, with_values):
            last = 0
            for e in having:
                v = next(values[i])
                if kind == TEXT:
                    if v == 0:
                        v, next_text = next_text, next_text + 1
                    else:
                        v -= 1
                    need(v < len(self.texts), "text of a value")
                    e["values"].append(self.texts[v])
                    continue
                if i == 13:
                    last ^= v
                    e["values"].append(as_float(last))
                    continue
                if form == 1:
                    v = last = last + unzigzag(v) & MASK
                elif form == 2 or kind == SIGNED:
                    v = unzigzag(v)
                if kind == SIGNED:
                    v = signed(v)
                elif kind == FLOAT:
                    v = float(signed(v))
                e["values"].append(v)
        self.tracks += events

    # ---- weights (4) ----

    def ocaml_rate(self):
        return as_float(self.info["ocaml_rate_bits"]) or \
            8 / (self.info["ocaml_interval_bytes"] or 8)

    def weight(self, e):
        """The bytes that a block stands for."""
        size, interval = max(e.size, 1) if e.hits else e.size, float(1 << e.log2)
        if 1 <= e.heap() <= 3:
            fraction, _ = math.frexp(8 / self.ocaml_rate())
            return e.hits * interval * fraction * 2
        if e.hits == 0:
            return float(size)
        if self.info["sampler"] == 0:
            return e.hits * interval
        return size / -math.expm1(-size / interval)

    # ---- what the file says twice ----

    def check(self):
        """The sums and the index must be what the events add up to."""
        if self.info["snapshot_ns"] or self.bad:
            return
        position, live = 0, 0
        for part in self.parts:
            events = self.events[position:position + part.events]
            position += part.events
            node, live, most = add_up(events, live)
            if not self.tells_inherited:  # an older version
                node = {n: counts[:6] + [0, 0] for n, counts in node.items()}
            need(node == part.node, "SUMS and events")
            need(most == part.most, "largest moment of SUMS")
            need(abs(events[0].time - part.start) <= self.error_ns and
                 abs(events[-1].time - part.end) <= self.error_ns, "times of SUMS")
        need(self.info["mode"] == SAMPLED or self.index is None or position == len(self.events),
             "SUMS do not have all events")
        live = 0
        for chunk, offset, entry in zip(self.chunks, self.chunk_offsets, self.index or []):
            _, live, most = add_up(chunk, live)
            allocs = [e for e in chunk if e.kind == "alloc"]
            need((len(chunk), len(allocs), sum(e.flags >> 2 & 1 for e in allocs)) ==
                 (entry["events"], entry["allocs"], entry["inherited"]), "counts of the index")
            need(entry["live"] in ([], [live, most]), "live bytes of the index")
            need(offset == entry["offset"], "offset of a chunk")

    # ---- what is printed ----

    def counts(self, prefix, of_heap):
        events = [e for e in self.events if of_heap(e.heap())]
        allocs = [e for e in self.allocs if of_heap(e.heap())]
        return {prefix + "samples": len(allocs), prefix + "frees": len(events) - len(allocs),
                prefix + "inherited": sum(e.flags >> 2 & 1 for e in allocs)}

    def facts(self):
        """What `mayfly info --json` says and does not have to work out."""
        i = self.info
        kinds = [e["type"]["kind"] for e in self.tracks]
        start = datetime.datetime.fromtimestamp(i["start_real_ns"] // 10 ** 9,
                                                datetime.timezone.utc)
        facts = {name: i[name] for name, kind in INFO.values() if kind != "t"}
        facts.update({
            "grouped": i["grouped"] if i["pid"] or i["processes"] else 0,
            "format_version": 2, "file_bytes": len(self.data),
            "mayfly_version": text(i["mayfly_version"]), "program": text(i["program"]),
            "command": [text(word) for word in i["command"].split(b"\0")[:-1]],
            "start_time": start.strftime("%Y-%m-%dT%H:%M:%S") +
                          ".%03dZ" % (i["start_real_ns"] // 10 ** 6 % 1000),
            "ending": {"reason": ["unknown", "exited", "killed", "off", "exec", "ended"][i["ending"]],
                       "code": i["ending_code"]},
            "off_text": text(i["off_text"]) or None, "note": text(i["note"]) or None,
            "mode": ["sampled", "exact"][i["mode"]],
            "sampler": ["stratified", "poisson"][i["sampler"]],
            "ocaml_rate": self.ocaml_rate() if i["ocaml_interval_bytes"] else None,
            "thinned": bool(i["thinned"]), "spool": bool(i["spool"]),
            "complete": bool(self.trailer and i["recorded"] and not self.bad),
            **self.counts("", lambda heap: heap != 6), **self.counts("mapped_", lambda heap: heap == 6),
            "stacks": len({e.node for e in self.allocs}),
            "snapshots": len(self.parts) if i["snapshot_ns"] else 0,
            "threads": len(self.threads),
            "thread_list": [{"tid": t["tid"], "name": text(t["name"])} for t in self.threads],
            "modules": len(self.modules),
            "module_list": [{
                "path": text(m["path"]), "build_id": m["build_id"].hex() or None,
                "start": m["start"], "end": m["end"], "problem": text(m["problem"]) or None,
                **count_frames(f for f in self.frames if f["module"] == number)}
                            for number, m in enumerate(self.modules)],
            "counters": len(self.counter_names), "label_sets": len(self.label_sets) - 1,
            "track_events": len(self.tracks), "track_types": len(self.types),
            "spans": sum(e["kind"] == BEGIN for e in self.tracks),
            "instants": kinds.count(INSTANT), "counter_values": kinds.count(COUNTER)})
        facts.update(count_frames(self.frames))
        if self.picture:
            facts["picture"] = {
                **{key: self.picture[key] for key in ("time_ns", "stopped_ns", "bytes", "blocks")},
                "how": ["copy", "stopped", "running"][self.picture["how"]], "recorded_blocks": len(self.picture["held"]),
                "holders": len(self.picture["holders"]), "types": len(self.picture["types"])}
        if i["python_end_ns"]:
            facts["python_end_ns"] = i["python_end_ns"]
        if i["title"]:
            facts["title"] = text(i["title"])
        if i["snapshot_ns"]:
            counts = [counts for part in self.parts for counts in part.node.values()]
            facts["samples"] = sum(c[0] for c in counts)
            facts["frees"] = sum(c[2] for c in counts)
            facts["inherited"] = sum(e["inherited"] for e in self.index) if self.index else \
                sum(c[6] for c in counts)
            facts["stacks"] = len({node for part in self.parts for node in part.node})
        return facts

    def stack(self, node):
        names = []
        while node:
            names = frame_names(self.frames[self.frame_of[node]], self.modules)[::-1] + names
            node = self.parent[node]
        return ";".join(names) or "[no stack]"

    def places(self):
        """What is on stacks that allocated, and where that is."""
        nodes = {e.node for e in self.allocs if not e.flags >> 2 & 1} | {
            node for part in self.parts for node, counts in part.node.items()
            if not self.events and counts[0] > counts[6]}
        places = set()
        for node in nodes:
            while node:
                frame = self.frames[self.frame_of[node]]
                module = b"" if frame["module"] == NO_MODULE else \
                    self.modules[frame["module"]]["path"]
                places |= {(name, text(l["file"]), l["line"], l["first_char"], l["last_char"],
                            text(module), l["inlined"]) for name, l in
                           zip(frame_names(frame, self.modules), frame["locations"] or [NOWHERE])}
                node = self.parent[node]
        return places

    def line_of(self, e):
        letters = "".join(letter for i, letter in enumerate("rti") if e.flags >> i & 1)
        line = "%s %s %d #%d size=%d weight=%.0f flags=%s" % (
            seconds(e.time), e.kind, self.threads[e.thread]["tid"], e.sample, e.alloc.size,
            self.weight(e.alloc), letters or "-")
        if e.heap():
            line += " heap=" + HEAPS[e.heap()]
        if e.kind == "alloc":
            if e.labels:
                line += " labels=" + quoted(b", ".join(
                    key + b"=" + value for key, value in last_of_keys(self.label_sets[e.labels])))
            line += " " + self.stack(e.node)
        return line

    def track_line(self, e):
        kind = e["type"]
        line = "%s %s %d %s" % (seconds(e["time"]), ["begin", "end", "instant", "count"][e["kind"]],
                                self.threads[e["thread"]]["tid"], quoted(kind["name"]))
        if kind["category"]:
            line += " category=" + quoted(kind["category"])
        for (name, _), v in zip(kind["fields"], e["values"]):
            name = clean(name).translate({ord(c): "_" for c in ' ="'})
            line += " %s=%s" % (name, quoted(v) if isinstance(v, bytes) else
                                "%d" % v if isinstance(v, int) else float_text(v))
        return line + (" " + self.stack(e["node"]) if e["node"] else "")

    def lines(self):
        """All events in order, as `mayfly dump` prints them."""
        if self.info["snapshot_ns"]:
            yield from self.snapshot_lines()
            return
        tracks, number = self.tracks, 0
        for e in self.with_promotions():
            while tracks and tracks[0]["before"] <= number:
                yield self.track_line(tracks[0])
                tracks = tracks[1:]
            number += e.kind != "promote"
            yield self.line_of(e)
        yield from map(self.track_line, tracks)

    def snapshot_lines(self):
        tracks = self.tracks
        for part in self.parts:
            while tracks and tracks[0]["time"] <= part.start:
                yield self.track_line(tracks[0])
                tracks = tracks[1:]
            for node, counts in part.node.items():
                a, a_bytes, *others, i, i_bytes = counts
                yield "%s %s counts #%d allocs=%d alloc_bytes=%d frees=%d free_bytes=%d temps=%d " \
                    "temp_bytes=%d%s %s" % (
                        seconds(part.start), seconds(part.end), node, a - i, a_bytes - i_bytes,
                        *others, " inherited=%d inherited_bytes=%d" % (i, i_bytes) if i else "",
                        self.stack(node))
        yield from map(self.track_line, tracks)

    def with_promotions(self):
        """Events, with promotions of live blocks between them."""
        promotions, live = dict(self.promotions), set()
        for number, chunk in enumerate(self.chunks):
            waiting = promotions.get(number, [])
            for position in range(len(chunk) + 1):
                while waiting and waiting[0][0] <= position:
                    _, sample, later = waiting.pop(0)
                    if sample not in live:
                        continue
                    p = Event()
                    p.kind, p.sample, p.alloc, p.flags = "promote", sample, self.allocs[sample], 0
                    p.thread, p.time = p.alloc.thread, chunk[0].time + later
                    if position:
                        p.time = max(p.time, chunk[position - 1].time)
                    if position < len(chunk):
                        p.time = min(p.time, chunk[position].time)
                    yield p
                if position < len(chunk):
                    e = chunk[position]
                    (live.add if e.kind == "alloc" else live.discard)(e.sample)
                    yield e


def ascending(steps, count):
    """Numbers of which each is the one before + 1 + a step."""
    last = -1
    for _ in range(count):
        last += 1 + next(steps)
        yield last


def add_up(events, live):
    """What events add up to: for each node its counters; live bytes at the end, and at most."""
    node, most = {}, 0
    for e in events:
        if e.heap() not in (4, 6):
            freed = e.kind == "free"
            counts = node.setdefault(e.alloc.node, [0] * 8)
            temporary = freed and e.flags >> 1 & 1
            inherited = not freed and e.flags >> 2 & 1
            for i in [2, 4] if temporary else [2] if freed else [0, 6] if inherited else [0]:
                counts[i] += 1
                counts[i + 1] += e.alloc.size
            live += -e.alloc.size if freed else e.alloc.size
        most = max(most, live)
    return dict(sorted(node.items())), live, most


def count_frames(frames):
    """How many, and how many of them have a name for the innermost function."""
    named = [bool(f["locations"] and f["locations"][0]["function"]) for f in frames]
    return {"frames": len(named), "frames_symbolized": sum(named)}


def frame_names(frame, modules):
    """The functions of a frame as they are printed, the innermost first."""
    if frame["kind"] == TRUNCATED:
        return ["[stack cut]"]
    if frame["kind"] == ELIDED:
        about = "about " if frame["address"] >= 16 else ""
        return ["[%s%d frames left out]" % (about, frame["address"])]
    unknown = "0x%x" % frame["address"]
    if frame["module"] != NO_MODULE and modules[frame["module"]]["path"]:
        path = clean(modules[frame["module"]]["path"]).replace(";", ",")
        unknown = path.split("/")[-1] + "+" + unknown
    return [clean(l["function"]).replace(";", ",") or unknown
            for l in frame["locations"] or [NOWHERE]]


def clean(data):
    """Text without control characters and what is not UTF-8."""
    characters = data.decode("utf-8", "surrogateescape")
    return "".join("?" if c < " " or c == "\x7f" or "\ud800" <= c <= "\udfff" else c
                   for c in characters)


def float_text(v):
    return ("-" if math.isnan(v) and math.copysign(1, v) < 0 else "") + "%.17g" % v


def last_of_keys(labels):
    return [(key, value) for i, (key, value) in enumerate(labels)
            if key not in [k for k, _ in labels[i + 1:]]]


def quoted(data):
    return '"%s"' % clean(data).replace("\\", "\\\\").replace('"', '\\"')


def text(data):
    return data.decode("utf-8", "replace")


def seconds(ns):
    return "%s%d.%09d" % ("-" if ns < 0 else "", abs(ns) // 10 ** 9, abs(ns) % 10 ** 9)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    with open(sys.argv[-1], "rb") as file:
        trace = Trace(file.read())
    if sys.argv[1] == "--facts":
        print(json.dumps(trace.facts(), indent=2))
    else:
        sys.stdout.writelines(line + "\n" for line in trace.lines())


if __name__ == "__main__":
    main()
