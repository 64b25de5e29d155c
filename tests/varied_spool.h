/* SPDX-License-Identifier: Apache-2.0 */
/* A spool with about everything that one may hold, for tests that damage it. */
#ifndef MAYFLY_VARIED_SPOOL_H
#define MAYFLY_VARIED_SPOOL_H

#include "spool_writer.h"

static const struct spool_writer_type varied_types[] = {
    {1, SPOOL_TYPE_SPAN, "span", "test", "", 2, {{SPOOL_TEXT, "text"}, {SPOOL_FLOW, "flow"}}},
    {2, SPOOL_TYPE_INSTANT, "instant", "", "", 0, {{0}}},
    {3, SPOOL_TYPE_COUNTER, "counter", "", "bytes", 1, {{SPOOL_FLOAT, ""}}},
    {4,
     SPOOL_TYPE_INSTANT,
     "four",
     "",
     "",
     4,
     {{SPOOL_INT, "a"}, {SPOOL_UINT, "b"}, {SPOOL_TEXT, "c"}, {SPOOL_TEXT, "d"}}},
};

/* Each packet says once what its types and labels are. */
static inline void varied_tell(struct spool_writer *w, int64_t ns)
{
	spool_writer_room(w, 700, ns);
	if (w->told)
		return;
	w->told = true;
	for (size_t i = 0; i < sizeof(varied_types) / sizeof(*varied_types); i++)
		spool_writer_type(w, ns, &varied_types[i]);
	spool_writer_label(w, ns, 1, "tenant", "a");
	spool_writer_label(w, ns, 2, "phase", "x");
}

/* Labels change, something happens. */
static inline void varied_track(struct spool_writer *w, int64_t ns, int64_t i,
				const uint64_t *stack, uint32_t depth)
{
	static const uint32_t labels[] = {1, 2, 2, 1};
	static const char text[] = "some text";
	const struct spool_writer_type *t = &varied_types[i / 4 % 4];
	uint64_t value[4];
	uint8_t kind = t->kind == SPOOL_TYPE_INSTANT   ? SPOOL_INSTANT
		       : t->kind == SPOOL_TYPE_COUNTER ? SPOOL_COUNT
		       : i % 2			       ? SPOOL_BEGIN
						       : SPOOL_END;

	for (uint32_t k = 0; k < 4; k++)
		value[k] =
		    t->field[k].type == SPOOL_TEXT ? (uint64_t)(uintptr_t)text : (uint64_t)i << 40;
	varied_tell(w, ns);
	if (i % 8 == 1)
		spool_writer_labels(w, ns, (uint32_t)(i / 8 % 3), labels + i % 2);
	spool_writer_track(w, ns, kind, t, value, i % 5 ? NULL : stack, depth);
}

/* So many blocks, of three threads, and what may come between. */
static inline struct spool_file *varied_spool(bool exact, int64_t blocks)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_TSC, 2.5);
	struct spool_writer *w[3];
	uint64_t id = 0, state = 1;

	spool_file_header(f)->mode = exact ? SPOOL_EXACT : SPOOL_SAMPLED;
	for (uint32_t k = 0; k < 3; k++) {
		w[k] = spool_writer_new(f, 100 + k);
		spool_writer_thread(w[k], k, 100 + k, "worker");
		spool_writer_module(w[k], k, "/lib/x.so", 0x400000, 0x480000, 0x400000);
	}
	for (int64_t i = 0; i < blocks; i++) {
		struct spool_writer *v = w[i % 3];
		uint64_t stack[40], size = (uint64_t)i * 3;
		uint64_t pool = i % 8 == 3 ? SPOOL_ADDRESS_POOL : 0;
		uint32_t depth = 1 + (uint32_t)(i * 7 % 40);

		for (uint32_t k = 0; k < depth; k++) {
			state = state * 6364136223846793005u + 1442695040888963407u;
			stack[k] = 0x400000 + k * 4096 + (state >> 60);
		}
		if (exact)
			spool_writer_alloc(v, i * 100000, id++ * 16 | pool, size, 0, stack, depth);
		else
			spool_writer_sample(v, i * 100000, id++, size, 1,
					    pool ? SPOOL_HEAP_POOL << SPOOL_FLAG_HEAP_SHIFT : 0,
					    stack, depth);
		if (i > 20 && i % 3 && exact)
			spool_writer_release(v, i * 100000 + 50, (id - 15) * 16, i % 2);
		else if (i > 20 && i % 3)
			spool_writer_free(v, i * 100000 + 50, id - 15, 2);
		if (i % 4 == 1)
			varied_track(v, i * 100000 + 55, i, stack, depth / 2 + 1);
		if (i % 100 == 50)
			spool_writer_interval(v, i * 100000 + 60, 12 + (uint32_t)(i / 100));
		if (i % 100 == 70)
			spool_writer_gone(v, i * 100000 + 70, 0x400000);
		if (i % 100 == 90)
			spool_writer_module(v, i * 100000 + 80, "/lib/y.so", 0x400000, 0x490000,
					    0x400000);
		if (i % 100 == 95)
			spool_writer_lost(v, i * 100000 + 85, 1, 2, 3);
		if (i % 300 == 299)
			spool_writer_fork(v, i * 100000 + 90);
	}
	for (size_t k = 0; k < 3; k++)
		free(w[k]);
	return f;
}

#endif
