/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the errors of sums: doc/FORMAT.md, "errs". */
#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "trace/read/reader.h"

static bool read_sum(struct chunk_reader *c, unsigned sum, struct trace_error *error, size_t count)
{
	unsigned step = sum * COLUMN_ERROR_STEP;
	const uint64_t *bytes = chunk_numbers(c, COLUMN_ERROR_BYTES + step, count);
	const uint64_t *blocks = chunk_numbers(c, COLUMN_ERROR_BLOCKS + step, count);
	const uint64_t *samples = chunk_numbers(c, COLUMN_ERROR_SAMPLES + step, count);
	unsigned choice = sum * COLUMN_CHOICE_STEP;
	const uint64_t *choice_bytes = chunk_numbers(c, COLUMN_CHOICE_BYTES + choice, count);
	const uint64_t *choice_blocks = chunk_numbers(c, COLUMN_CHOICE_BLOCKS + choice, count);

	if (!bytes || !blocks || !samples || !choice_bytes || !choice_blocks)
		return false;
	for (size_t i = 0; i < count; i++) {
		/* More samples than that say the same. */
		error[i].of[sum].samples =
		    samples[i] < UINT32_MAX ? (uint32_t)samples[i] : UINT32_MAX;
		error[i].of[sum].bytes = (double)bytes[i];
		error[i].of[sum].blocks = (double)blocks[i] / ERROR_BLOCK;
		error[i].of[sum].choice_bytes = (double)choice_bytes[i];
		error[i].of[sum].choice_blocks = (double)choice_blocks[i] / ERROR_BLOCK;
	}
	return true;
}

static bool read_nodes(struct mayfly_trace *t, struct chunk_reader *c, struct trace_error *error,
		       size_t count)
{
	const uint64_t *node = chunk_numbers(c, COLUMN_ERROR_NODE, count);
	uint64_t next = 0;

	if (!node)
		return false;
	for (size_t i = 0; i < count; i++, next++) {
		if (node[i] >= t->info.nodes || (next += node[i]) >= t->info.nodes) {
			chunk_fail(c, MAYFLY_E_DAMAGED);
			return false;
		}
		error[i].node = (uint32_t)next;
	}
	return true;
}

void errors_read(struct mayfly_trace *t, struct chunk_reader *c)
{
	uint64_t count = varint_u(&c->head);
	struct trace_error *error, *kept = NULL;
	size_t room = 0;
	bool good;

	if (!chunk_columns(c, 0x2aaaaa))
		return;
	if (count > t->info.nodes)
		chunk_fail(c, MAYFLY_E_DAMAGED);
	if (c->error)
		return;
	error = chunk_memory(c, count, sizeof(*error));
	good = error && read_nodes(t, c, error, (size_t)count);
	for (unsigned k = 0; good && k < ERROR_SUMS; k++)
		good = read_sum(c, k, error, (size_t)count);
	if (!good || !chunk_grow(c, GROWING(kept, room, 0), count + 1))
		return;
	if (count)
		memcpy(kept, error, (size_t)count * sizeof(*kept));
	free(t->sum_error);
	t->sum_error = kept;
	t->sum_errors = (size_t)count;
}

void errors_find(struct mayfly_trace *t)
{
	uint64_t allocated = 0, live = 0;

	if (!t->sum_error || !t->info.snapshot_ns || t->info.mode != MAYFLY_SAMPLED) {
		t->sum_errors = 0;
		return;
	}
	for (size_t i = 0; i < t->sum_errors; i++) {
		allocated += t->sum_error[i].of[ERROR_ALLOCATED].samples;
		live += t->sum_error[i].of[ERROR_LIVE].samples;
	}
	t->info.absent &= ~(uint32_t)MAYFLY_ABSENT_ERRORS;
	t->info.samples = allocated;
	t->info.frees = allocated > live ? allocated - live : 0;
}
