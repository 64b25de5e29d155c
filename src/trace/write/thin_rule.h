/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which blocks stay when a recording is thinned, and how they are weighted from then on.
 * doc/FORMAT.md, "Weights", has the reasons.
 *
 * To go from interval R to R' = 2^k R a sample is kept
 *	- surely, when its size is R' or more (it stays, or becomes, exact: hits 0);
 *	- with the probability R / R', when it has hits (its hits stay, its interval becomes R');
 *	- with the probability size / R', when it was exact with R <= size < R' (then hits = 1);
 *	- Poisson: with p(size, R') / p(size, R);
 *	- in a heap of OCaml: with R / R', whatever its size, when it has hits.
 * Blocks of every allocation (R = 1, hits 0) are the second last case.
 */
#ifndef MAYFLY_THIN_RULE_H
#define MAYFLY_THIN_RULE_H

#include "trace/write/writer.h"

/* Decides on one block, by the `coin`, uniform in 64 bits. False: it is dropped. Else block->hits,
 * interval_log2 and flags (MAYFLY_FLAG_THINNED) are those that it has from now on. Does nothing to
 * a block whose interval is at least that. */
bool thin_block(uint32_t sampler, uint32_t interval_log2, uint64_t coin, struct trace_block *block);

/* A good coin for block number `serial` of a recording. */
uint64_t thin_coin(uint64_t seed, uint64_t serial);

#endif
