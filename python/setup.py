# SPDX-License-Identifier: Apache-2.0
"""Builds the fast half of mayfly/_events.py, for Python 3.10 and later: in mayfly's sources, where its header is, and if
there are a compiler and Python's headers. Without it the package is pure Python."""
import os
import sys

from setuptools import Extension, setup

INCLUDE = os.path.join("..", "include")
compiled = sys.version_info >= (3, 10) and os.path.exists(os.path.join(INCLUDE, "mayfly", "mayfly.h"))

setup(ext_modules=[Extension("mayfly._spans", ["mayfly/_spans.c"], include_dirs=[INCLUDE], optional=True,
                             py_limited_api=True)] if compiled else [],
      options={"bdist_wheel": {"py_limited_api": "cp310"}} if compiled else {})
