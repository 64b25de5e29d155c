#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`mayfly view` under the thread sanitizer, with eight clients that ask everything at once."""
import glob
import os

from harness import Folder, MAYFLY, PYTHON, SOURCE, Skip, case, cases, check, environment, main, run, same
from sanitized import with_threads

GOLDEN = sorted(os.path.basename(path)[:-len(".mayfly")]
                for path in glob.glob(os.path.join(SOURCE, "tests", "golden", "*.mayfly")))
ROUNDS = int(os.environ.get("MAYFLY_ROUNDS", "1"))


def watched(trace):
    """test_serve.py with the server that is watched."""
    folder, env = with_threads()
    if b"lacks libmicrohttpd" in run([os.path.join(folder, "src", "cli", "mayfly"), "view", "/nonexistent"]).err:
        raise Skip("built without libmicrohttpd")
    env["ASKED_TRACE"] = trace
    for _ in range(ROUNDS):
        result = run([os.path.join(SOURCE, "tests", "test_serve.py"), "asked_at_once"], env=env)
        check(result.code == 0, result.out.decode(errors="replace")[-6000:], result.err.decode(errors="replace")[-4000:])


@cases([name for name in GOLDEN if not name.startswith("v1-")])  # which are refused
def golden(name):
    watched(os.path.join(SOURCE, "tests", "golden", name + ".mayfly"))


@case
def decoded_in_parallel():
    """More than a million events: several threads decode for each request."""
    with Folder() as here:
        done = run([MAYFLY, "record", "-x", "-o", here / "t.mayfly", "--", *PYTHON, "-c",
                    "for i in range(10):\n    x = [bytes(100) for i in range(55000)]"],
                   env=environment(PYTHONMALLOC="malloc"))
        same(done.code, 0, repr(done))
        watched(here / "t.mayfly")


if __name__ == "__main__":
    main()
