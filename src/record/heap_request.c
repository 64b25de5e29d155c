/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures of the heap of a recorded program: see heap_request.h. */
#include "record/heap_request.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "record/heap_held.h"
#include "symbols/names_file.h"

bool heap_request_waits(const struct recorder *r)
{
	const struct spool_header *h = r->watch.header;

	return h && atomic_load(&h->heaps_asked) != atomic_load(&h->heaps_done) &&
	       recorder_is_watched(r);
}

bool heap_request_is_last(const struct recorder *r)
{
	const struct spool_header *h = r->watch.header;

	return h && atomic_load(&h->last_heap) == SPOOL_LAST_ASKED;
}

uint32_t heap_request(struct spool_header *h)
{
	return atomic_fetch_add(&h->heaps_asked, 1) + 1;
}

bool heap_request_done(const struct spool_header *h, uint32_t request, char *why, size_t size)
{
	if ((int32_t)(atomic_load(&h->heaps_done) - request) < 0)
		return false;
	snprintf(why, size, "%.*s", (int)sizeof(h->heap_text), h->heap_text);
	return true;
}

/* ---- taking it ---- */

struct taking {
	struct recorder *r;
	uint32_t asked;
	struct heap_samples samples;
};

static bool look(void *context, struct memory_source *source)
{
	struct taking *t = context;
	const struct spool_header *h = t->r->watch.header;

	heap_samples_free(&t->samples); /* of a try that has failed */
	return h->mode == SPOOL_EXACT || heap_samples_read(&t->samples, h, source);
}

/* The program records on, and needs space. */
static bool meanwhile(void *context, const char *what, double done)
{
	struct taking *t = context;

	(void)what, (void)done;
	spool_watch_tick(&t->r->watch);
	return true;
}

static void all_read(void *context)
{
	struct taking *t = context;

	atomic_store(&t->r->watch.header->heaps_read, t->asked);
}

struct clock_pair {
	uint64_t ticks, mono_ns;
};

static struct clock_pair read_clock(const struct recorder *r)
{
	struct clock_pair c = {0};

	recorder_clock(r->watch.header, &c.ticks, &c.mono_ns);
	return c;
}

/* A moment between two pairs, on the spool's clock. */
static uint64_t ticks_at(struct clock_pair a, struct clock_pair b, int64_t mono_ns)
{
	double share = (double)((uint64_t)mono_ns - a.mono_ns) / (double)(b.mono_ns - a.mono_ns);

	return a.ticks + (uint64_t)((double)(b.ticks - a.ticks) * share);
}

static bool says(char *why, size_t size, const char *text)
{
	snprintf(why, size, "%s", text);
	return false;
}

/* The picture becomes a part of the trace. */
static bool join(struct taking *t, const struct picture *p, char *why, size_t size)
{
	struct recorder *r = t->r;
	struct spool_stream_status status;
	struct mayfly_picture joined;
	bool exact = r->watch.header->mode == SPOOL_EXACT;
	int error;

	if (r->state != RECORDER_READING)
		return says(why, size, "the recording cannot be read any more");
	spool_stream_status(r->stream, &status);
	if (!heap_held_find(&joined, p, r->stream, exact ? NULL : &t->samples))
		return says(why, size, "out of memory");
	joined.time_ns = status.time_ns;
	error = recorder_put_picture(r, &joined);
	heap_held_free(&joined);
	if (error)
		snprintf(why, size, "it cannot be written: %s",
			 error > 0 ? strerror(error) : mayfly_error_text(error));
	return !error;
}

static bool take(struct recorder *r, uint32_t asked, char *why, size_t size)
{
	struct taking t = {.r = r, .asked = asked};
	char cache_folder[PATH_MAX];
	struct picture_wishes wishes = {
	    .source.hold = heap_request_is_last(r),
	    .files.dirs = {.dir = &r->options.debug_dir, .count = r->options.debug_dir != NULL},
	    .symbol_cache = names_cache_folder(cache_folder),
	    .progress = meanwhile,
	    .look = look,
	    .all_read = all_read,
	    .context = &t,
	};
	struct clock_pair before = read_clock(r), after;
	struct picture p;
	bool good;

	if (r->options.snapshot_ns)
		return says(why, size,
			    "it records sums of intervals, not blocks; record without --snapshots");
	if (!picture_of_process(&p, r->process.pid, &wishes, why, size)) {
		heap_samples_free(&t.samples);
		return false;
	}
	after = read_clock(r);
	recorder_read_until(r, ticks_at(before, after, p.frozen_ns) + 1);
	good = join(&t, &p, why, size);
	heap_samples_free(&t.samples);
	picture_free(&p);
	return good;
}

bool heap_request_answer(struct recorder *r, char why[HEAP_WHY])
{
	struct spool_header *h = r->watch.header;
	bool last = heap_request_is_last(r), good;
	uint32_t asked = atomic_load(&h->heaps_asked);

	memset(why, 0, HEAP_WHY);
	if (r->state != RECORDER_READING)
		return true;
	good = take(r, asked, why, HEAP_WHY);
	if (good)
		*why = 0;
	r->last_heap = good && last;
	memcpy(h->heap_text, why, HEAP_WHY);
	atomic_store(&h->heaps_read, asked);
	atomic_store(&h->heaps_done, asked);
	return good;
}
