# SPDX-License-Identifier: Apache-2.0
"""Sizes as people read them, and what of a recording is mayfly's own."""

# Starting and stopping a recording from inside allocates, too: --ignore leaves that out.
OWN_FILES = r"/mayfly/_(program|recording)\.py$"


def size(count):
    """Bytes as mayfly prints them: "24.5 MiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1000 or unit == "GiB":
            return "%.3g %s" % (count, unit)
        count /= 1024


def said(estimate):
    """An Estimate or a Row with its interval, if it has one."""
    text = size(estimate.estimate)
    return text if estimate.low == estimate.high else "%s (%s..%s)" % (text, size(estimate.low), size(estimate.high))
