# SPDX-License-Identifier: Apache-2.0
"""Reads traces. Everything comes from `mayfly ... --json`, whose figures these classes hold as they are."""
import datetime
import json
import os
from typing import NamedTuple, Optional

from . import _program


class Figure(NamedTuple):
    """A figure with its 95 % interval. Of an exact trace low = estimate = high, and stderr is 0."""
    estimate: float
    low: float
    high: float
    stderr: float

    @classmethod
    def read(cls, values):
        return cls(values["estimate"], values.get("low"), values.get("high"), values.get("stderr"))


class Estimate(NamedTuple):
    """How much it is: bytes and blocks (a Figure each), and the number of blocks that were recorded for it.
    estimate, low and high are those of the bytes."""
    bytes: Figure
    blocks: Figure
    samples: int

    estimate = property(lambda self: self.bytes.estimate, doc="bytes")
    low = property(lambda self: self.bytes.low, doc="bytes, the lower end of the 95 % interval")
    high = property(lambda self: self.bytes.high, doc="bytes, the upper end of the 95 % interval")

    @classmethod
    def read(cls, values):
        """None where the trace does not know the figure."""
        return values and cls(Figure.read(values["bytes"]), Figure.read(values["blocks"]), values["samples"])


class Frame(NamedTuple):
    """A line of a stack. None: unknown. first_char and last_char: of the expression, from the line's start."""
    function: Optional[str]
    file: Optional[str]
    line: Optional[int]
    module: Optional[str]
    inlined: bool = False
    recursive: bool = False
    first_char: Optional[int] = None
    last_char: Optional[int] = None

    @classmethod
    def read(cls, values):
        return cls(*(values.get(name, default) for name, default in
                     zip(cls._fields, (None,) * 4 + (False, False, None, None))))

    def __str__(self):
        place = self.file and ("%s:%d" % (self.file, self.line) if self.line else self.file) or self.module
        return "%s (%s)" % (self.function or "?", place) if place else self.function or "?"


_FIGURES = ("self", "total", "before", "after", "change")


class Row:
    """One row of an answer.

    self, total: what the row allocates directly, and with all that it calls (an Estimate each).
    estimate, low, high: bytes, those of self; in answers with sort="total" those of total.
    key: what the rows are grouped by, as a dict; its members are attributes, too: row.function, row.file,
    row.line, row.module, row.thread, row.tid, row.size, row.label ... Unknown ones are None.
    stack: with by="stack" a list of Frame, leaf first.
    values: the row as mayfly printed it, with all that this class does not name.
    """

    def __init__(self, values, sort="self"):
        self.values = values
        self.key = {name: value for name, value in values.items()
                    if name not in _FIGURES and not (isinstance(value, list) and name != "stack")}
        if "stack" in values:
            self.key["stack"] = [Frame.read(frame) for frame in values["stack"]]
        for name in _FIGURES[:4]:
            if name in values:
                setattr(self, name, Estimate.read(values[name]))
        self._ranked = "total" if sort == "total" else "self"

    def __getattr__(self, name):
        if name in ("key", "values"):  # while a copy is made
            raise AttributeError(name)
        if name in self.key:
            return self.key[name]
        if name in self.values:  # series: live_bytes ...
            return self.values[name]
        raise AttributeError("this row has no %r; it has %s" % (name, ", ".join(self.values)))

    estimate = property(lambda row: getattr(row, row._ranked).estimate, doc="bytes")
    low = property(lambda row: getattr(row, row._ranked).low, doc="bytes, the lower end of the 95 % interval")
    high = property(lambda row: getattr(row, row._ranked).high, doc="bytes, the upper end of the 95 % interval")
    blocks = property(lambda row: getattr(row, row._ranked).blocks, doc="a Figure")
    samples = property(lambda row: getattr(row, row._ranked).samples, doc="recorded blocks")

    @property
    def name(self):
        """The key in one line: "load (app.py:12)"."""
        if "stack" in self.key:
            return " <- ".join(str(frame) for frame in self.key["stack"]) or "?"
        if "function" in self.key:
            return str(Frame.read(self.key))
        return ", ".join("%s=%s" % (name, value) for name, value in self.key.items())

    def record(self):
        """The row as a flat dict, for tables: the key and all figures (total_bytes_low ...)."""
        result = {name: [str(frame) for frame in value] if name == "stack" else value
                  for name, value in self.key.items()}
        for name in _FIGURES:
            for unit in ("bytes", "blocks"):
                figure = (self.values.get(name) or {}).get(unit)
                if figure is not None:
                    for part, value in figure.items():
                        result["_".join([name, unit] + [part] * (part != "estimate"))] = value
        return result

    def __repr__(self):
        figures = ("%d bytes (%d..%d)" % (self.estimate, self.low, self.high) if hasattr(self, "self") else
                   "%s of %+d bytes" % (self.change.verdict, self.change.bytes["change"]) if "change" in self.values
                   else "")
        return "<Row %s: %s>" % (self.name, figures)


class Change(NamedTuple):
    """How a figure differs between two traces: verdict is significant, noise, few_samples, same or unknown;
    bytes and blocks are dicts with before, after, change, stderr, low, high, p and adjusted_p."""
    verdict: str
    bytes: dict
    blocks: dict

    @classmethod
    def read(cls, values):
        return cls(values["verdict"], values["bytes"], values["blocks"])


class DiffRow(Row):
    """A row of a comparison: before and after (Estimates, or None where there is no such row) and change.
    estimate, low and high are those of the change, in bytes."""

    def __init__(self, values):
        super().__init__(values)
        self.change = Change.read(values["change"])

    estimate = property(lambda row: row.change.bytes["change"], doc="bytes: after - before")
    low = property(lambda row: row.change.bytes["low"], doc="bytes")
    high = property(lambda row: row.change.bytes["high"], doc="bytes")


class Rows(list):
    """The rows of an answer, in ranking order, and what all of them have in common.

    total: the sum of all rows (an Estimate; of a comparison a Change)
    time: seconds since the start of the program, the moment that the figures are of, or None
    answer: the whole JSON object that mayfly printed
    """

    def __init__(self, answer, row=Row, total=Estimate.read):
        super().__init__(row(values) for values in answer["rows"])
        self.answer = answer
        self.total = total(answer["total"]) if "total" in answer else None
        self.time = answer["time_ns"] / 1e9 if answer.get("time_ns") is not None else None

    def to_pandas(self):
        """A pandas.DataFrame with a line for each row; Row.record() has the columns."""
        import pandas
        return pandas.DataFrame([row.record() for row in self])


class Series(Rows):
    """Rows over time: row.live_bytes, live_blocks, allocated_bytes and allocated_blocks are lists with a number for
    each moment of `times` (seconds since the start). others has the same lists, summed over all further rows."""

    def __init__(self, answer, sort):
        super().__init__(answer, lambda values: Row(values, sort))
        self.times = [time / 1e9 for time in answer["times_ns"]]
        self.others = answer["others"]

    def to_pandas(self):
        """A pandas.DataFrame of live bytes: a line for each moment, a column for each row, and "others"."""
        import pandas
        columns = {row.name: row.live_bytes for row in self}
        columns["others"] = self.others["live_bytes"]
        return pandas.DataFrame(columns, index=pandas.Index(self.times, name="seconds"))


class Block(NamedTuple):
    """A recorded block.

    number: counted from 0, in the order of allocation
    size: bytes that the program asked for
    weight_bytes, weight_blocks: what the block stands for; sums of weights estimate all blocks. In an exact trace
        they are size and 1.
    allocated, freed: seconds since the start of the program; freed is None for a block that never was
    tid, freed_tid: the threads that did it
    heap: "malloc", "pool", ...
    temporary: freed by its thread before that allocated again
    inherited: allocated by the parent, before a fork
    labels: a dict
    stack: names of functions, leaf first; () without stacks
    """
    number: int
    size: int
    weight_bytes: float
    weight_blocks: float
    allocated: float
    freed: Optional[float]
    tid: int
    freed_tid: Optional[int]
    heap: str
    temporary: bool
    inherited: bool
    labels: dict
    stack: tuple


class Trace:
    """A trace, or another file that mayfly reads: a spool, the heap profile of another tool.

    Questions run the program mayfly on the file; the trace is not kept in memory. All sizes are in bytes, all times in
    seconds since the start of the program. Keywords are options of mayfly-report(1): focus="load",
    min_size="4K", from_=1.5, label="^tenant=acme$".
    """

    def __init__(self, path):
        self.path = os.fspath(path)
        self.info = _program.ask("info", self._file())

    def _file(self):
        return "./" + self.path if self.path.startswith("-") else self.path

    def __repr__(self):
        return "<mayfly.Trace %s of %s>" % (self.path, " ".join(self.command) or "?")

    command = property(lambda self: self.info["command"], doc="argv, a list")
    pid = property(lambda self: self.info["pid"])
    duration = property(lambda self: self.info["duration_ns"] / 1e9, doc="seconds")
    exact = property(lambda self: self.info["mode"] == "exact", doc="whether every allocation was recorded")
    interval = property(lambda self: self.info["interval_bytes"], doc="the mean bytes between samples")
    peak = property(lambda self: Estimate.read(self.info["peak"]), doc="live when that was most: an Estimate")
    allocated = property(lambda self: Estimate.read(self.info["allocated"]), doc="an Estimate")
    live_at_end = property(lambda self: Estimate.read(self.info["live_at_end"]), doc="an Estimate")
    temporary = property(lambda self: Estimate.read(self.info["temporary"]), doc="an Estimate")

    @property
    def start(self):
        """When the program started: a datetime in UTC, or None."""
        text = self.info.get("start_time")
        return text and datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))

    @property
    def headline(self):
        """The report's first sentence."""
        return " ".join(_program.text("report", "--top=1", self._file()).partition("\n\n")[0].split("\n"))

    def report(self, **options):
        """The report as mayfly prints it, a text."""
        return _program.text("report", *_program.options(**options), self._file())

    def rows(self, metric="peak", by="function", sort="self", **options):
        """Who has the memory: Rows of Row, the largest first.

        metric: live, peak, allocated, leaked, temporary, survived or picture
        by: function, line, stack, module, thread, size, lifetime, heap, freeing-thread, threads, label, label:KEY, ...
        sort: self, or total: with callees
        options: at="end", focus="load", thread="worker", min_size=4096, top=5, all_frames=True, ...
        """
        return Rows(_program.ask("report", *_program.options(metric=metric, by=by, sort=sort, **options), self._file()),
                    lambda values: Row(values, sort))

    def stacks(self, metric="peak", **options):
        """rows() by stack."""
        return self.rows(metric, "stack", **options)

    def series(self, points=100, metric="peak", by="function", sort="self", top=20, **options):
        """Who has the memory over time: a Series of the first `top` rows at evenly spaced moments."""
        return Series(_program.ask("report", *_program.options(series=points, metric=metric, by=by, sort=sort, top=top,
                                                               **options), self._file()), sort)

    def leaks(self, by="stack", **options):
        """What was never freed: Rows, without what libc and other suppressed code keep. With a picture of the
        heap in the trace, use leaks().lost: Rows that nothing pointed to, and leaks().held."""
        answer = _program.ask("leaks", *_program.options(by=by, **options), self._file())
        if "lost" not in answer:
            return Rows(answer)
        result = Rows(answer["lost"])
        result.answer, result.lost, result.held = answer, result, Rows(answer["held"])
        return result

    def diff(self, after, **options):
        """What changed from this trace to a later one: Rows of DiffRow, as mayfly-diff(1) has them."""
        after = after if isinstance(after, Trace) else Trace(after)
        answer = _program.ask("diff", *_program.options(**options), self._file(), after._file())
        return Rows(answer, DiffRow, Change.read)

    def events(self, stacks=True):
        """All allocations, frees, spans, instants and counter values in the order of time, as the dicts of
        mayfly-dump(1). They are read while the iterator is used."""
        child = _program.start("dump", "--json", *_program.options(no_stacks=not stacks), self._file())
        try:
            for line in child.stdout:
                yield json.loads(line)
            errors = child.stderr.read()
            _program.check(child.wait(), errors)
        finally:
            child.kill()
            child.stdout.close()
            child.stderr.close()
            child.wait()

    def blocks(self, stacks=True):
        """The recorded blocks, a Block each: a freed one at its free, the others at the end. A trace of snapshots
        has none."""
        live = {}
        for event in self.events(stacks):
            if event["event"] == "alloc":
                live[event["sample"]] = event
            elif event["event"] == "free" and event["sample"] in live:
                yield _block(live.pop(event["sample"]), event)
        for event in live.values():
            yield _block(event, None)

    def page(self, path, force=False):
        """Writes the page of `mayfly view` with this trace in it: one HTML file."""
        _program.text("view", "--html=" + os.fspath(path), *_program.options(force=force), self._file())


def _block(made, freed):
    return Block(made["sample"], made["size"], made["weight_bytes"], made["weight_blocks"], made["time_ns"] / 1e9,
                 freed and freed["time_ns"] / 1e9, made["tid"], freed and freed["tid"], made["heap"],
                 bool(freed and freed["temporary"]), made["inherited"],
                 {label["key"]: label["value"] for label in made.get("labels", ())},
                 tuple(reversed(made.get("stack", ()))))


def open(path):
    """Opens a trace: mayfly.open("run.mayfly").rows(by="line")."""
    return Trace(path)


def diff(before, after, **options):
    """What changed between two traces, paths or Trace: Rows of DiffRow. Options: metric, by, per, ..."""
    return (before if isinstance(before, Trace) else Trace(before)).diff(after, **options)
