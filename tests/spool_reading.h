/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the spools of spool_writer.h, whole or in rounds; events go to writer_double.h. */
#ifndef MAYFLY_SPOOL_READING_H
#define MAYFLY_SPOOL_READING_H

#include <mayfly/trace.h>

#include <string.h>

#include "spool/spool_stream.h"

#include "spool_writer.h"
#include "test.h"
#include "writer_double.h"

#define MS ((int64_t)1000000)

static const uint64_t deep[] = {0x401000, 0x401100, 0x401200, 0x7f0000001234};

/* A spool, what was made of it, and the stream in between. */
struct reading {
	struct spool_file *f;
	struct recording *t;
	struct trace_writer *w;
	struct spool_stream *s;
	size_t done; /* calls of done() */
	bool wipe;   /* done() gives the packet back to the writers */
	size_t cut;  /* not 0: the file ends here */
};

static inline const void *file_at(void *context, uint64_t offset, size_t bytes)
{
	const struct reading *r = context;
	size_t size = r->cut ? r->cut - 1 : r->f->size;

	return offset <= size && bytes <= size - offset ? r->f->data + offset : NULL;
}

static inline void file_done(void *context, uint64_t index)
{
	struct reading *r = context;
	struct spool_packet *p =
	    (struct spool_packet *)(r->f->data + WRITER_HEADER_BYTES + index * r->f->packet_bytes);

	CHECK(p->magic == SPOOL_PACKET_MAGIC);
	r->done++;
	if (!r->wipe)
		return;
	memset(p, 0xdd, r->f->packet_bytes);
	p->magic = 0;
	r->f->recycled[r->f->recycled_count++] = index;
}

static inline void reading_free(struct reading *r)
{
	spool_stream_close(r->s);
	trace_writer_free_all(r->w);
	recording_free(r->t);
	free(r);
}

/* NULL, and the error, when it cannot be opened. */
static inline struct reading *
open_file(struct spool_file *f, const struct spool_stream_options *options, size_t cut, int *error)
{
	struct reading *r = calloc(1, sizeof(*r));
	struct spool_source source = {r, file_at, file_done};
	struct trace_writer_options writer_options = {0};

	r->f = f;
	r->cut = cut;
	r->t = recording_new();
	*error = spool_stream_writer_options(&source, &writer_options);
	r->w = trace_writer_new(&writer_options, r->t, NULL, NULL);
	if (!*error)
		*error = spool_stream_open(&source, options, r->t, r->w, &r->s);
	if (!*error)
		return r;
	CHECK(!r->s);
	reading_free(r);
	return NULL;
}

static inline struct reading *open_online(struct spool_file *f)
{
	struct spool_stream_options options = {.online = true, .keep_forks = true};
	int error;
	struct reading *r = open_file(f, &options, 0, &error);

	CHECK(r, "%s", mayfly_error_text(error));
	return r;
}

/* A round at this moment of the spool's clock, whole. */
static inline void round_at(struct reading *r, int64_t ns)
{
	bool more = true;

	while (more)
		CHECK(spool_stream_advance(r->s, spool_ticks(r->f, ns),
					   spool_file_header(r->f)->start_mono_ns + (uint64_t)ns,
					   &more) == 0);
}

static inline void finish(struct reading *r, const struct spool_ending *ending)
{
	CHECK(spool_stream_finish(r->s, ending) == 0);
	CHECK(r->t->info.samples == r->w->samples && r->t->info.frees == r->w->frees);
}

static inline struct reading *read_child(struct spool_file *f, const struct spool_ending *ending,
					 struct reading *parent)
{
	struct spool_stream_options options = {.parent = parent ? parent->s : NULL,
					       .keep_forks = true};
	int error;
	struct reading *r = open_file(f, &options, 0, &error);

	CHECK(r, "%s", mayfly_error_text(error));
	if (!r)
		abort();
	finish(r, ending);
	return r;
}

static inline struct reading *read_file(struct spool_file *f, const struct spool_ending *ending)
{
	return read_child(f, ending, NULL);
}

static inline uint64_t unknown(const struct reading *r)
{
	struct spool_stream_status status;

	spool_stream_status(r->s, &status);
	CHECK(status.allocations == r->w->samples && status.frees == r->w->frees);
	CHECK(status.live_blocks == r->w->samples - r->w->frees);
	return status.unknown_frees;
}

static inline const struct recording_frame *leaf(const struct reading *r, size_t sample)
{
	static const struct recording_frame none;
	uint32_t node = r->w->sample[sample].block.node;

	return node ? &r->t->frame[r->t->node[node].frame] : &none;
}

static inline size_t depth_of(const struct recording *t, uint32_t node)
{
	size_t depth = 0;

	for (; node; node = t->node[node].parent)
		depth++;
	return depth;
}

static inline struct spool_file *exact_file(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);

	spool_file_header(f)->mode = SPOOL_EXACT;
	spool_file_header(f)->interval_log2 = 0;
	return f;
}

#endif
