# SPDX-License-Identifier: Apache-2.0
"""%%mayfly: records the cell of a notebook, and shows below it who has the memory."""
import argparse
import html
import linecache
import os
import shlex
import tempfile

from IPython.core.error import UsageError
from IPython.display import IFrame, display

from . import _program, _recording
from ._text import OWN_FILES, said, size


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise UsageError("%%mayfly: " + message)


def _options(line):
    parser = _Parser(prog="%%mayfly", add_help=False)
    parser.add_argument("-i", "--interval", help="sample one byte in INTERVAL (default: every allocation)")
    parser.add_argument("-m", "--metric", default="peak", help="peak, live, allocated, leaked, temporary")
    parser.add_argument("-b", "--by", default="line", help="line, function, stack, module, thread, size, label:KEY")
    parser.add_argument("-t", "--top", type=int, default=10, help="rows")
    parser.add_argument("-o", "--output", help="keep the trace here")
    parser.add_argument("--html", help="write the page of mayfly view here, and show it")
    return parser.parse_args(shlex.split(line))


class _Answer:
    """What is shown below a cell."""

    def __init__(self, headline, metric, rows):
        self._headline, self._metric, self._rows = headline, metric, rows

    def _lines(self):
        whole = self._rows.total.estimate
        for row in self._rows:
            if row.estimate and row.estimate * 1000 >= whole:  # the least are IPython's
                code = linecache.getline(row.file, row.line).strip() if row.key.get("line") else ""
                yield said(row), "%.0f %%" % (100 * row.estimate / whole), row.name, code

    def __repr__(self):
        return "\n".join([self._headline, ""] + ["%24s %5s  %s  %s" % line for line in self._lines()])

    def _repr_html_(self):
        number, text = "text-align:right; white-space:nowrap", "text-align:left"
        styles = (number, number, text, text + "; font-family:monospace; white-space:pre")
        head = ("%s: %s" % (self._metric, size(self._rows.total.estimate)), "", "where", "")
        lines = [("th", head), *(("td", line) for line in self._lines())]
        table = "".join("<tr>%s</tr>" % "".join(
            "<%s style='padding:0 0.5em; %s'>%s</%s>" % (tag, style, html.escape(word), tag)
            for style, word in zip(styles, line)) for tag, line in lines)
        return "<p><b>%s</b></p><table>%s</table>" % (html.escape(self._headline), table)


def magic(line, cell):
    """Records the cell and shows who has the memory: %%mayfly [-m METRIC] [-b KEY] [-t ROWS] [-i INTERVAL] [-o TRACE]
    [--html PAGE]. Figures are of what the cell allocates. What was there before is in none of them."""
    from IPython import get_ipython
    chosen = _options(line)
    with tempfile.TemporaryDirectory(prefix="mayfly-jupyter.") as folder:
        how = {"interval": chosen.interval} if chosen.interval else {"exact": True}
        try:
            with _recording.start(chosen.output or os.path.join(folder, "cell.mayfly"), **how) as recording:
                get_ipython().run_cell(cell)
                trace = recording.stop()
            question = {"by": chosen.by, "top": chosen.top, "ignore": OWN_FILES, "hide": r"/mayfly/_jupyter\.py$"}
            rows = trace.leaks(**question) if chosen.metric == "leaked" else trace.rows(chosen.metric, **question)
            display(_Answer(trace.headline, chosen.metric, rows))
            if chosen.html:
                trace.page(chosen.html, force=True)
                display(IFrame(chosen.html, width="100%", height=640))
        except _program.Error as error:
            raise UsageError("%%mayfly: " + str(error)) from None
