# SPDX-License-Identifier: Apache-2.0
"""Tells mayfly what the program does: regions, labels, counters and marks, as <mayfly/mayfly.h> does for C.

The agent exports a table of functions, which is called by ctypes and with the GIL held, since no call blocks; regions
call it by _spans.c, if that was built. Without an agent nothing is called.
"""
import contextlib
import ctypes
import functools
import inspect
import os

try:
    from . import _spans
except ImportError:
    _spans = None

_SPAN, _INSTANT, _COUNTER = range(3)
_ZERO = ctypes.c_uint64(0)


class _Type(ctypes.Structure):
    """struct mayfly_event_type"""
    _fields_ = [("number", ctypes.POINTER(ctypes.c_uint32)), ("name", ctypes.c_char_p), ("unit", ctypes.c_char_p),
                ("kind", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("field", ctypes.c_char_p * 4)]


class _Table(ctypes.Structure):
    """struct mayfly_agent_calls"""
    _fields_ = [(name, ctypes.c_void_p) for name in
                ("span_begin", "span_end", "instant", "counter", "label_push", "label_pop", "pool_alloc", "pool_free",
                 "active", "awake")]


def _utf8(text):
    """A text for the agent. What cannot be in UTF-8 becomes question marks: no name may fail the program."""
    return str(text).encode("utf-8", "replace")


class _Agent:
    """The functions of the agent in this process. All are None while there is no agent."""
    span_begin = span_end = instant = counter = label_push = label_pop = active = None


def _preloaded():
    with contextlib.suppress(ValueError):
        return _Table.in_dll(ctypes.CDLL(None), "mayfly_agent_calls")
    return None


def _attached():
    """The table of an agent that mayfly attach has loaded, which no other library sees."""
    with contextlib.suppress(OSError, ValueError), open("/proc/self/maps", "rb") as file:
        for line in file:
            if line.rstrip().endswith(b"/libmayfly-attach.so"):
                path = os.fsdecode(line[line.index(b"/"):].rstrip())
                return _Table.in_dll(ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_NOLOAD), "mayfly_agent_calls")
    return None


def connect():
    """Looks for the agent in this process, and returns whether it is there. `import mayfly` and mayfly.start() do
    that; a program that another process may attach to calls it when it likes."""
    table = None if _Agent.active else _preloaded() or _attached()
    if table:
        if _spans:
            _spans.connect(ctypes.addressof(table))
        _Agent.label_push = ctypes.PYFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p)(table.label_push)
        _Agent.active = ctypes.PYFUNCTYPE(ctypes.c_int)(table.active)
        for name in ("span_begin", "span_end", "instant", "counter", "label_pop"):
            setattr(_Agent, name, ctypes.PYFUNCTYPE(None)(getattr(table, name)))
    return _Agent.active is not None


@functools.lru_cache(maxsize=None)
def _type(kind, name, unit="", fields=()):
    """A type of events, in memory that stays. It is to be passed as it is."""
    made = _Type(ctypes.pointer(ctypes.c_uint32(0)), _utf8(name), _utf8(unit), kind, 0)
    for number, field in enumerate(fields):
        made.field[number] = _utf8(field)
    return ctypes.byref(made)


class _CtypesSpan:
    """What _spans.Span does, where that is not built."""
    __slots__ = ("_type",)

    def __new__(cls, name):
        made = super().__new__(cls)
        made._type = _type(_SPAN, name)
        return made

    def __enter__(self):
        if _Agent.span_begin:
            _Agent.span_begin(self._type, _ZERO, _ZERO, _ZERO, _ZERO)
        return self

    def __exit__(self, *_):
        if _Agent.span_end:
            _Agent.span_end(self._type)


def _check_stays(function):
    """Regions and labels belong to a thread, which does something else while the function is suspended."""
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function) or \
            inspect.isasyncgenfunction(function):
        raise TypeError("%s suspends: use regions and labels inside it, where nothing awaits or yields"
                        % function.__qualname__)


class _Region(_spans.Span if _spans else _CtypesSpan):
    """A stretch of the program's time. It may be entered again, also by other threads, while it is open."""
    __slots__ = ("name",)

    def __init__(self, name):
        self.name = name

    def __call__(self, function):
        """Makes each call of the function such a region."""
        _check_stays(function)

        @functools.wraps(function)
        def inside(*arguments, **keywords):
            with self:
                return function(*arguments, **keywords)
        return inside


@functools.lru_cache(maxsize=None)
def region(name):
    """A region of the program, for `with` or as a decorator:

        with mayfly.region("load"):
            ...

    `mayfly report --spans` says how often each took place, how long it took, what was allocated inside, and how much of
    that is still live. Regions of a thread nest. Names are kept, so use few (at most 4095): what differs between
    single requests is for mark(). Not across await or yield, where the thread does something else meanwhile.
    """
    return _Region(_utf8(name).decode())


class _Labels:
    """Labels for one `with`, or of a function."""

    def __init__(self, labels):
        self._labels = labels
        self._pushed = False

    def __enter__(self):
        self._pushed = bool(_Agent.label_push)
        if self._pushed:
            for key, value in self._labels:
                _Agent.label_push(key, value)
        return self

    def __exit__(self, *_):
        if self._pushed:
            for _ in self._labels:
                _Agent.label_pop()

    def __call__(self, function):
        """Puts the labels on what each call of the function allocates."""
        _check_stays(function)

        @functools.wraps(function)
        def inside(*arguments, **keywords):
            with _Labels(self._labels):
                return function(*arguments, **keywords)
        return inside


def label(**labels):
    """Labels on all that this thread allocates inside, for `with` or as a decorator:

        with mayfly.label(tenant="acme"):
            ...

    `mayfly report --by label:tenant` sums by them. Use values for groups, not for single requests: 65535 different
    ones are kept. A thread has at most 16 at once. Each `with` needs a label() of its own. Not across await or yield.
    """
    return _Labels([(_utf8(key), _utf8(value)) for key, value in labels.items()])


def counter(name, value, unit=""):
    """Sets a counter of the process to a number, from now on. unit: "bytes", "ns", or "" for plain numbers."""
    if _Agent.counter:
        _Agent.counter(_type(_COUNTER, name, unit, ("fvalue",)), _bits(ctypes.c_double(value)))


def mark(name, **values):
    """Marks this moment, with up to four values: numbers or texts.

        mayfly.mark("request", path="/orders", size=4711)

    `mayfly report --events` counts them, `mayfly view` and mayfly.open(...).events() show each.
    """
    if len(values) > 4:
        raise TypeError("a mark has at most four values")
    if _Agent.instant:
        fields, words, texts = [], [_ZERO] * 4, []
        for number, (key, value) in enumerate(values.items()):
            if hasattr(value, "__index__"):  # also numpy's numbers
                letter, words[number] = "i", ctypes.c_int64(max(-1 << 63, min(int(value), (1 << 63) - 1)))
            elif hasattr(value, "__float__"):
                letter, words[number] = "f", _bits(ctypes.c_double(value))
            else:
                texts.append(_utf8(value))
                letter, words[number] = "t", ctypes.c_char_p(texts[-1])
            fields.append(letter + key)
        _Agent.instant(_type(_INSTANT, name, "", tuple(fields)), *words)


def active():
    """Whether events are recorded now. Ask before computing costly values."""
    return bool(_Agent.active and _Agent.active())


def _bits(number):
    return ctypes.c_uint64.from_buffer(number)


connect()
