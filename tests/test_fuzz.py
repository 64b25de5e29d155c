#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Each fuzz target with a seed of its own for each run of the tests, MAYFLY_ROUNDS times."""
import os

from harness import cases, main
from sanitized import FUZZ_TARGETS, INPUTS, fuzz

ROUNDS = int(os.environ.get("MAYFLY_ROUNDS", "1"))
PART = 4  # of what test_hardening.py runs


@cases(FUZZ_TARGETS)
def fuzz_part(name):
    seed = int(os.environ.get("FUZZ_SEED", "0")) or int.from_bytes(os.urandom(3), "little") + 1
    print("# seed %d" % seed)
    fuzz(name, int(os.environ.get("FUZZ_INPUTS", INPUTS[name] // PART)) * ROUNDS, seed)


if __name__ == "__main__":
    main()
