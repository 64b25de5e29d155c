# SPDX-License-Identifier: Apache-2.0
"""mayfly in Python: read traces, mark what the program does, record this process.

    trace = mayfly.open("run.mayfly")
    for row in trace.rows(by="line", top=5):
        print(row.name, row.estimate, row.low, row.high)

    with mayfly.region("load"), mayfly.label(tenant="acme"):
        ...

    with mayfly.start("part.mayfly"):
        ...

Sizes are in bytes, times in seconds. Figures come with 95 % intervals. doc/PYTHON.md has questions and their commands.
"""
from ._events import active, connect, counter, label, mark, region
from ._program import Error
from ._recording import Recording, snapshot, start, stop
from ._trace import Block, Change, DiffRow, Estimate, Figure, Frame, Row, Rows, Series, Trace, diff, open

__version__ = "0.1.0"


def load_ipython_extension(ipython):
    """%load_ext mayfly: adds the magic %%mayfly."""
    from ._jupyter import magic
    ipython.register_magic_function(magic, "cell", "mayfly")
