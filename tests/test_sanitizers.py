#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The unit tests under the address and undefined-behaviour sanitizers."""
import os

from harness import BUILD, SOURCE, cases, check, environment, main, run
from sanitized import UNIT_TESTS, built


@cases(UNIT_TESTS)
def sanitizers(name):
    folder = built("asan")
    # gcc 13.2's copies of the stack do not keep alignments of 64 (its bug 110027).
    env = environment(ASAN_OPTIONS="detect_leaks=1:abort_on_error=1:detect_stack_use_after_return=0",
                      UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1",
                      MAYFLY_BUILD=BUILD, MAYFLY_SOURCE=SOURCE)
    result = run([os.path.join(folder, "tests", "test_" + name)], env=env,
                 cwd=os.path.join(folder, "tests"))
    failed = [line for line in result.out.decode(errors="replace").splitlines()
              if line.startswith(("not ok", "#"))]
    check(result.code == 0, "\n".join(failed[:40]), result.err.decode(errors="replace")[-4000:])


if __name__ == "__main__":
    main()
