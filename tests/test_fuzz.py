#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Each fuzz target for a number of inputs, from small real ones: with the same seed each time, so that a
failure is the fault of the change at hand, and with a seed of its own for each run of the tests,
MAYFLY_ROUNDS times."""
import os

from harness import cases, main
from sanitized import FUZZ_TARGETS, INPUTS, fuzz

ROUNDS = int(os.environ.get("MAYFLY_ROUNDS", "1"))
PART = 4  # of the inputs, with a seed of its own
SEED = int(os.environ.get("FUZZ_SEED", "0"))


def inputs(name):
    return int(os.environ.get("FUZZ_INPUTS", INPUTS[name]))


@cases(FUZZ_TARGETS)
def same_seed(name):
    fuzz(name, inputs(name), SEED or 1)


@cases(FUZZ_TARGETS)
def own_seed(name):
    seed = SEED or int.from_bytes(os.urandom(3), "little") + 1
    print("# seed %d" % seed)
    fuzz(name, inputs(name) // PART * ROUNDS, seed)


if __name__ == "__main__":
    main()
