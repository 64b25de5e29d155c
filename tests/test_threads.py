#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What has threads, under the thread sanitizer."""
import os

from harness import (MAYFLY, PYTHON, SOURCE, Folder, Skip, case, cases, check, environment, info, main, run, same)
from sanitized import with_threads


@cases(["races", "helper"])
def threads(name):
    """The agent's tables and spool; chunks that are decoded by several threads."""
    folder, env = with_threads()
    result = run([os.path.join(folder, "tests", "test_" + name)], env=env, cwd=os.path.join(folder, "tests"))
    check(result.code == 0, result.out.decode(errors="replace")[-2000:],
          result.err.decode(errors="replace")[-4000:])


@cases(["received_is_local", "broken_connections", "receiver_killed", "slow_receiver", "strangers"])
def threads_of_streams(word):
    """tests/test_stream.py with a mayfly that is watched: its sender is a thread."""
    folder, env = with_threads()
    result = run([os.path.join(SOURCE, "tests", "test_stream.py"), word], env=env)
    check(result.code == 0, result.out.decode(errors="replace")[-6000:],
          result.err.decode(errors="replace")[-4000:])


@case
def threads_that_decode():
    """A trace that is large enough for them: more than a million events."""
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip("one processor: no helpers")
    folder, env = with_threads()
    with Folder() as here:
        done = run([MAYFLY, "record", "-x", "-o", here / "t.mayfly", "--", *PYTHON, "-c",
                    "for i in range(10):\n    x = [bytes(100) for i in range(70000)]"],
                   env=environment(PYTHONMALLOC="malloc"))
        same(done.code, 0, repr(done))
        facts = info(here / "t.mayfly")
        check(facts["samples"] + facts["frees"] > 1000000, facts)
        for arguments in (["--by", "lifetime"], ["--metric", "temporary"], ["--churn"]):
            command = ["report", *arguments, here / "t.mayfly"]
            watched = run([os.path.join(folder, "src", "cli", "mayfly"), *command], env=env)
            same((watched.code, watched.err), (0, b""), "report " + " ".join(arguments))
            same(watched.out, run([MAYFLY, *command]).out, "what it printed")


if __name__ == "__main__":
    main()
