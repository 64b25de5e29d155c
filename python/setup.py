# SPDX-License-Identifier: Apache-2.0
"""Builds the fast half of mayfly/_events.py, where there are a compiler and Python's headers, for 3.10 and later."""
import sys

from setuptools import Extension, setup

setup(ext_modules=[Extension("mayfly._spans", ["mayfly/_spans.c"], include_dirs=["../include"], optional=True,
                             py_limited_api=True)] if sys.version_info >= (3, 10) else [],
      options={"bdist_wheel": {"py_limited_api": "cp310"}} if sys.version_info >= (3, 10) else {})
