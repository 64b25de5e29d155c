# SPDX-License-Identifier: Apache-2.0
"""Runs the program mayfly, which answers all questions: no figure is computed in Python."""
import json
import os
import shutil
import subprocess


class Error(Exception):
    """What mayfly says when it cannot do something, in one line."""


def program():
    """The path of the program: the variable MAYFLY_PROGRAM, or `mayfly` in PATH."""
    path = os.environ.get("MAYFLY_PROGRAM") or shutil.which("mayfly")
    if not path:
        raise Error("the program mayfly is not in PATH: install it, or name it in the variable MAYFLY_PROGRAM")
    return path


def environment():
    """Without what loads the agent into this process: mayfly itself is not to be recorded with it."""
    result = {name: value for name, value in os.environ.items() if name not in ("MAYFLY", "LD_PRELOAD")}
    others = [path for path in os.environ.get("LD_PRELOAD", "").replace(":", " ").split()
              if not os.path.basename(path).startswith("libmayfly")]
    if others:
        result["LD_PRELOAD"] = ":".join(others)
    return result


def start(*arguments, **how):
    """A child that runs mayfly, with its output in a pipe."""
    try:
        return subprocess.Popen([program(), *arguments], env=environment(), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)
    except OSError as error:
        raise Error("cannot run %s: %s" % (program(), error.strerror)) from None


def check(code, errors):
    """Raises what a child said when it failed."""
    if code:
        lines = errors.decode("utf-8", "replace").strip().splitlines()
        raise Error(lines[-1] if lines else "mayfly ended with status %d" % code)


def text(*arguments):
    """What a command prints."""
    with start(*arguments) as child:
        out, errors = child.communicate()
    check(child.returncode, errors)
    return out.decode("utf-8", "replace")


def ask(*arguments):
    """The JSON object that a command prints with --json."""
    return json.loads(text(*arguments, "--json"))


def options(**given):
    """Keywords as options of the command line: min_size=4096 is --min-size=4096. True stands for an option
    without a value, a list for one that is repeated. A final underscore is for words of Python's: from_."""
    for name, value in given.items():
        name = "--" + name.rstrip("_").replace("_", "-")
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is True:
                yield name
            elif one is not None and one is not False:
                yield "%s=%s" % (name, one)
