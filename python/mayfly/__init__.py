# SPDX-License-Identifier: Apache-2.0
"""mayfly in Python: read traces, mark what the program does, record this process.

    trace = mayfly.open("run.mayfly")
    for row in trace.rows(by="line", top=5):
        print(row.name, row.estimate, row.low, row.high)

Sizes are in bytes, times in seconds. Figures come with 95 % intervals. doc/PYTHON.md has questions and their commands.
"""
from ._program import Error
from ._trace import Block, Change, DiffRow, Estimate, Figure, Frame, Row, Rows, Series, Trace, diff, open

__version__ = "0.1.0"
