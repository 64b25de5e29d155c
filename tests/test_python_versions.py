#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The main tests of test_python.py with each CPython from 3.8 to 3.14 that is found: in PATH, /usr/local, /opt,
pyenv's folder, or named by MAYFLY_PYTHONS (paths with colons between them). doc/PYTHON.md says which were run."""
import functools
import glob
import os

import harness
from harness import SOURCE, Skip, case, cases, check, info, main, record, run, same
import test_python

harness._cases.clear()  # those of test_python run there

VERSIONS = ["3.%d" % minor for minor in range(8, 15)]
TESTS = ["each_line_holds_what_it_allocated", "tracemalloc_says_the_same", "samples_estimate_the_same",
         "sampled_blocks_are_pymallocs_own", "code_that_comes_and_goes_in_the_same_memory",
         "a_generator_stands_below_its_caller", "a_thread_has_its_own_frames", "python_frames_stand_between_c_frames",
         "a_deep_recursion_keeps_both_ends"]
BEHAVIOUR = ["generators", "exceptions", "reused", "forks", "finalisation", "interpreters"]


def candidates():
    found = os.environ.get("MAYFLY_PYTHONS", "").split(":")
    for pattern in (*(os.path.join(p, "python3.*") for p in os.environ["PATH"].split(":")), "/usr/local/bin/python3.*",
                    "/opt/*/bin/python3.*",
                    os.path.join(os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv")), "versions/*/bin/python3.*")):
        found += sorted(glob.glob(pattern))
    return [path for path in found if path and os.access(path, os.X_OK)]


@functools.lru_cache(maxsize=None)
def interpreters():
    """{"3.9": path}; free-threaded ones as "3.13t"."""
    found = {}
    for path in candidates():
        if path.endswith("config") or ".py" in os.path.basename(path)[7:]:
            continue
        done = run([path, "-S", "-c", "import sys, sysconfig as s; "
                    "print('%d.%d%s' % (*sys.version_info[:2], 't' * bool(s.get_config_var('Py_GIL_DISABLED'))))"])
        if done.code == 0 and b"pyenv" not in done.err:
            found.setdefault(done.out.decode().strip(), path)
    return found


def use(version):
    path = interpreters().get(version)
    if not path:
        raise Skip("there is no Python " + version)
    test_python.PYTHON = [path, "-S"]
    test_python.version.cache_clear()
    test_python.has_numpy.cache_clear()
    same("%d.%d" % test_python.version(), version.rstrip("t"), "version")


@cases([version + " " + test for version in VERSIONS for test in TESTS])
def says_the_same(words):
    version, test = words.split()
    use(version)
    getattr(test_python, test)()


@cases([version + " " + word for version in VERSIONS for word in BEHAVIOUR])
def behaves_the_same(words):
    version, word = words.split()
    use(version)
    test_python.behaves_the_same(word)


@cases(["3.6", "3.7", "3.13t", "3.14t"])
def others_are_said_to_be_unknown(version):
    """Older ones, and those whose threads share frames."""
    path = interpreters().get(version)
    if not path:
        raise Skip("there is no Python " + version)
    trace = test_python.folder / ("unknown-%s.mayfly" % version)
    test_python.unchanged([path, "-S", os.path.join(SOURCE, "tests", "programs", "python_app.py"), "lists"], trace, "-x")
    why = "it is a free-threaded build" if version.endswith("t") else "only those of CPython 3.8 to 3.14 are known"
    same(info(trace)["note"], "Python frames are unknown: " + why, "note")


@case
def one_is_found():
    """Else this file shows nothing."""
    if not interpreters():
        raise Skip("there is no Python 3")
    check(set(interpreters()) & set(VERSIONS), interpreters())


main()
