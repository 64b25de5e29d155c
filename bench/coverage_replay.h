/* SPDX-License-Identifier: Apache-2.0 */
/* A stream in a file, which bench_coverage writes and bench_replay maps: a head, then the blocks,
 * the stacks and the events, as coverage_scenarios.h has them. */
#ifndef MAYFLY_COVERAGE_REPLAY_H
#define MAYFLY_COVERAGE_REPLAY_H

#include "coverage_scenarios.h"

#define REPLAY_MAGIC 0x79616c7065724d31u

/* The functions that bench_replay has. */
#define REPLAY_FUNCTIONS 24
#define REPLAY_GROUPS	 8

struct replay_head {
	uint64_t magic, blocks, stacks, events;
};

#endif
