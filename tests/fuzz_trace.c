/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: opens any bytes as a trace, goes through it, and asks the common questions. */
#include <mayfly/trace.h>

#include <stdlib.h>
#include <string.h>

#include "trace/format.h"

#include "fuzz_main.h"

/* Sets the checksums right, or the fuzzer would never get behind them. */
static void repair(uint8_t *bytes, size_t size)
{
	size_t at = TRACE_HEADER_BYTES;
	uint32_t crc, stored;

	if (size < at)
		return;
	crc = trace_checksum(0, bytes, 20);
	memcpy(bytes + 20, &crc, 4);
	while (size - at > TRACE_TRAILER_BYTES) {
		memcpy(&stored, bytes + at + 4, 4);
		if (stored > size - at - TRACE_CHUNK_BYTES)
			return;
		crc = trace_checksum(0, bytes + at, 12);
		crc = trace_checksum(crc, bytes + at + TRACE_CHUNK_BYTES, stored);
		memcpy(bytes + at + 12, &crc, 4);
		at += TRACE_CHUNK_BYTES + stored;
	}
}

static void walk(const struct mayfly_trace *t)
{
	const struct mayfly_info *info = mayfly_trace_info(t);
	struct mayfly_cursor *c;
	struct mayfly_event e;
	size_t sum = strlen(info->program) + strlen(info->note) + strlen(info->off_text);
	volatile size_t sink;
	int result;

	for (size_t i = 0; i < info->command_count; i++)
		sum += strlen(info->command[i]);
	for (size_t i = 0; i < info->modules; i++)
		sum += strlen(mayfly_trace_module(t, i)->path);
	for (size_t i = 0; i < info->frames; i++) {
		const struct mayfly_frame *f = mayfly_trace_frame(t, i);

		for (size_t k = 0; k < f->locations; k++)
			sum += f->location[k].function[0] + f->location[k].file[0];
	}
	sink = sum;
	(void)sink;
	if (mayfly_cursor_open(t, &c))
		return;
	while ((result = mayfly_cursor_next(c, &e)) == 1)
		if (e.node >= info->nodes || e.thread >= info->threads || e.sample >= info->samples)
			abort();
	/* Opening has been through all events: what it accepted is sound. */
	if (result < 0 && result != MAYFLY_E_MEMORY)
		abort();
	mayfly_cursor_close(c);
}

static void ask(const struct mayfly_trace *t)
{
	struct mayfly_result *result;
	struct mayfly_summary summary;
	struct mayfly_query query;
	double points[16];

	mayfly_trace_summary(t, &summary);
	mayfly_timeline(t, 16, points);
	for (int by = MAYFLY_BY_FUNCTION; by <= MAYFLY_BY_LIFETIME; by++) {
		mayfly_query_defaults(&query);
		query.by = (enum mayfly_by)by;
		query.metric = (enum mayfly_metric)(by % 5);
		if (mayfly_query_run(t, &query, &result) == 0)
			mayfly_result_free(result);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mayfly_trace *t;
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		return 0;
	if (size)
		memcpy(copy, data, size);
	repair(copy, size);
	if (mayfly_trace_open(copy, size, &t) == 0) {
		walk(t);
		if (mayfly_trace_info(t)->samples < 20000)
			ask(t);
		mayfly_trace_close(t);
	}
	free(copy);
	return 0;
}
