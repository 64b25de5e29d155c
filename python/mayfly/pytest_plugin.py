# SPDX-License-Identifier: Apache-2.0
"""The plugin for pytest: `pytest --mayfly` records each test by itself and holds it to its limits.

A recording begins before the test's function and ends after it, so fixtures are not in it. Each process of xdist
records itself. Figures travel as user_properties of the reports, which JUnit's XML has, too.
"""
import collections
import gc
import json
import os
import re
import tempfile
import threading

import pytest

from . import _program, _recording
from ._text import OWN_FILES, said

_UNITS = "KMGTP"
_METRICS = ("peak", "allocated", "leaked")
_PARTS = ("", "_low", "_high")  # of a property's name
_Found = collections.namedtuple("_Found", "estimate low high")


def pytest_addoption(parser):
    group = parser.getgroup("mayfly", "memory of each test, by mayfly")
    group.addoption("--mayfly", action="store_true", help="record the memory of each test, and check its limits")
    group.addoption("--mayfly-interval", metavar="SIZE",
                    help="sample one byte in SIZE instead of recording every allocation")
    group.addoption("--mayfly-limit", metavar="SIZE",
                    help="limit_memory for all tests without one, such as '100 MB'")
    group.addoption("--mayfly-top", metavar="N", type=int, default=5,
                    help="lines shown of a test above its limit, and tests in the summary (default 5)")
    group.addoption("--mayfly-json", metavar="FILE", help="write the figures of all tests to FILE")
    group.addoption("--mayfly-keep", metavar="FOLDER", help="keep the trace of each test in FOLDER")
    parser.addini("mayfly", "record the memory of each test (as --mayfly)", type="bool", default=False)
    parser.addini("mayfly_limit", "as --mayfly-limit")


def pytest_configure(config):
    config.addinivalue_line("markers", "limit_memory(size, current_thread_only=False): with --mayfly, fail the test if "
                                       "its memory at its peak is more than size, such as '24 MB'")
    config.addinivalue_line("markers", "limit_leaks(size, warmups=0, current_thread_only=False): with --mayfly, fail "
                                       "the test if it leaves more than size, after it has run warmups times")
    if config.getoption("mayfly") or config.getini("mayfly"):
        try:
            config.pluginmanager.register(_Plugin(config), "mayfly-recordings")
        except (ValueError, _program.Error) as error:
            raise pytest.UsageError(str(error))


def _bytes_of(text):
    """The size that a limit says: a number with B, KB, MB, GB, TB or PB, powers of 1024."""
    match = re.fullmatch(r"\s*\+?(\d+(?:\.\d+)?)\s*([KMGTP]?)i?B?\s*", str(text), re.IGNORECASE)
    if not match:
        raise ValueError("'%s' is no size; '24 MB' is one" % text)
    return float(match[1]) * 1024 ** (_UNITS.find(match[2].upper()) + 1 if match[2] else 0)


class _Limit:
    """A limit of a test: of a marker, or the default one."""

    def __init__(self, name, size=None, current_thread_only=False, warmups=0):
        self.name, self.size, self.warmups = name, size, warmups
        self.bytes = _bytes_of(size)
        self.thread = threading.get_native_id() if current_thread_only else None

    @classmethod
    def read(cls, item, name, default=None):
        marker = item.get_closest_marker(name)
        if not marker:
            return default and cls(name, default)
        try:
            return cls(name, *marker.args, **marker.kwargs)
        except (TypeError, ValueError) as error:
            pytest.fail("the marker %s: %s" % (name, error), pytrace=False)

    metric = property(lambda self: "leaked" if self.name == "limit_leaks" else "peak")
    said = property(lambda self: "never freed:" if self.name == "limit_leaks" else "at the peak:")


class _Plugin:
    def __init__(self, config):
        self._config = config
        self._top = config.getoption("mayfly_top")
        self._limit = config.getoption("mayfly_limit") or config.getini("mayfly_limit")
        if self._limit:
            _bytes_of(self._limit)
        interval = config.getoption("mayfly_interval")
        self._how = {"interval": interval} if interval else {"exact": True}
        self._keep = config.getoption("mayfly_keep")
        self._excess = {}  # of the test that runs: what the report is to say
        self._tests = {}
        if self._keep:
            os.makedirs(self._keep, exist_ok=True)
        _program.program()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item):
        memory, leaks = _Limit.read(item, "limit_memory", self._limit), _Limit.read(item, "limit_leaks")
        for _ in range(leaks.warmups if leaks else 0):
            item.runtest()
        with tempfile.TemporaryDirectory(prefix="mayfly-pytest.") as folder:
            name = re.sub(r"[^\w.-]+", "_", item.nodeid)[-200:] + ".mayfly"
            path = os.path.join(self._keep or folder, name)
            gc.collect()
            try:
                recording = _recording.start(path, **self._how)
            except _program.Error as error:
                pytest.exit("mayfly cannot record: %s" % error, returncode=pytest.ExitCode.USAGE_ERROR)
            try:
                yield
            finally:
                gc.collect()
                trace = recording.stop()
            self._take(item, trace, [limit for limit in (memory, leaks) if limit])

    def _rows(self, trace, metric, thread=None):
        question = {"by": "line", "ignore": OWN_FILES, "top": self._top, "thread": thread}
        return trace.leaks(**question) if metric == "leaked" else trace.rows(metric, **question)

    def _take(self, item, trace, limits):
        """Notes the figures of a test, and what exceeds its limits: certainly, that is with the whole interval."""
        for metric in _METRICS:
            total = self._rows(trace, metric).total
            for part in _PARTS:
                item.user_properties.append(("mayfly_%s_bytes%s" % (metric, part),
                                             round(getattr(total, part[1:] or "estimate"))))
        lines = []
        for limit in limits:
            rows = self._rows(trace, limit.metric, limit.thread)
            if rows.total.low > limit.bytes:
                lines.append("%s %s, more than %s(%r)" % (limit.said, said(rows.total), limit.name, limit.size))
                lines += ["    %s  %s" % (said(row.self).rjust(10), row.name) for row in rows if row.estimate]
        if lines and self._keep:
            lines.append("trace: " + trace.path)
        self._excess[item.nodeid] = lines

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = (yield).get_result()
        lines = self._excess.pop(item.nodeid, None) if call.when == "call" else None
        if lines:
            if report.passed:
                report.outcome, report.longrepr = "failed", "\n".join(lines)
            else:
                report.sections.append(("mayfly", "\n".join(lines)))

    def pytest_runtest_logreport(self, report):
        figures = {name: value for name, value in report.user_properties if str(name).startswith("mayfly_")}
        if report.when == "call" and figures:
            self._tests[report.nodeid] = dict(outcome=report.outcome, **figures)

    def pytest_terminal_summary(self, terminalreporter):
        if not self._tests:
            return
        terminalreporter.section("memory of tests (mayfly)")
        order = sorted(self._tests.items(), key=lambda test: -test[1]["mayfly_peak_bytes"])
        lines = [[metric.upper() for metric in _METRICS] + ["TEST"]]
        for nodeid, figures in order[:self._top]:
            lines.append([said(_Found(*(figures["mayfly_%s_bytes%s" % (metric, part)] for part in _PARTS)))
                          for metric in _METRICS] + [nodeid])
        widths = [max(10, *(len(line[column]) for line in lines)) for column in range(len(_METRICS))]
        for line in lines:
            terminalreporter.line("  ".join([word.rjust(width) for word, width in zip(line, widths)] + line[-1:]))
        if len(order) > self._top:
            terminalreporter.line("and %d other tests (--mayfly-top shows more)" % (len(order) - self._top))

    def pytest_sessionfinish(self):
        path = self._config.getoption("mayfly_json")
        if path and not hasattr(self._config, "workerinput"):
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"tests": self._tests}, file, indent=2)
                file.write("\n")
