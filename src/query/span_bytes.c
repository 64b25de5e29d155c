/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of bytes of single spans: see span_bytes.h and span_costs.h. */
#include "query/span_costs.h"

#include <math.h>
#include <string.h>

int64_t span_bytes_class(size_t number)
{
	if (number == 0)
		return 0;
	return number >= SPAN_BYTES_CLASSES ? INT64_MAX : (int64_t)1 << (number - 1);
}

static size_t class_of(int64_t bytes)
{
	size_t number = bytes > 0 ? 64 - (size_t)__builtin_clzll((uint64_t)bytes) : 0;

	return number < SPAN_BYTES_CLASSES ? number : SPAN_BYTES_CLASSES - 1;
}

/* Spans that cost the same: the first one stays first. */
static void keep_worst(struct span_bytes *b, const struct worst_span *span)
{
	size_t at = b->worst_count;

	if (!(span->bytes > 0))
		return;
	while (at > 0 && b->worst[at - 1].bytes < span->bytes)
		at--;
	if (at == SPAN_WORST)
		return;
	if (b->worst_count < SPAN_WORST)
		b->worst_count++;
	memmove(&b->worst[at + 1], &b->worst[at], (b->worst_count - at - 1) * sizeof(b->worst[0]));
	b->worst[at] = *span;
}

int span_costs_add(struct span_costs *c, const struct worst_span *span, uint64_t *budget)
{
	int64_t bytes = span->bytes < 0x1p62 ? llround(span->bytes) : (int64_t)1 << 62;

	c->bytes.in_class[class_of(bytes)]++;
	c->sum += span->bytes;
	keep_worst(&c->bytes, span);
	return durations_add(&c->values, bytes, budget);
}

struct span_bytes span_costs_finish(struct span_costs *c, uint32_t type)
{
	durations_sort(&c->values);
	c->bytes.type = type;
	c->bytes.spans = c->values.count;
	c->bytes.mean = c->values.count ? c->sum / (double)c->values.count : 0;
	c->bytes.p50 = durations_percentile(&c->values, 50);
	c->bytes.p99 = durations_percentile(&c->values, 99);
	c->bytes.most = c->values.max_ns;
	return c->bytes;
}

void span_costs_free(struct span_costs *c)
{
	durations_free(&c->values);
}
