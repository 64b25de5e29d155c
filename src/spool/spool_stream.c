/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream: records of many writers become one history. See spool_stream.h.
 *
 *	writer 0:  packet -> packet -> packet	each writer's next record waits at its place
 *	writer 1:  packet			  |
 *	writer 2:  packet -> packet		heap by time of the next record
 *						  |  a run from one writer, until another's is due
 *						apply: live table, tables, trace_writer
 *
 * This file decides whose record comes next. The other parts read the records: spool_internal.h.
 */
#include "spool/spool_stream.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "spool/spool_describe.h"
#include "spool/spool_internal.h"

#define ROUND_RECORDS 65536u /* after about this many, advance() returns once */
/* A chunk with this many events is written at the end of a round, rather than full in the midst of
 * the next one. */
#define NEARLY_FULL  (TRACE_CHUNK_EVENTS - ROUND_RECORDS)
#define INVERSION_NS 1000 /* the largest difference between the ticks of two CPUs */

/* ---- who comes next ---- */

static void sift_writer(struct stream_writer **heap, size_t count, size_t i)
{
	struct stream_writer *w = heap[i];

	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= count)
			break;
		if (child + 1 < count && heap[child + 1]->due < heap[child]->due)
			child++;
		if (heap[child]->due >= w->due)
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = w;
}

/* The ticks up to which the first writer of the heap may go on. */
static uint64_t run_until(const struct spool_stream *s, uint64_t last)
{
	uint64_t until = s->note_due < last ? s->note_due : last;

	for (size_t i = 1; i < 3 && i < s->heaped; i++)
		if (s->heap[i]->due < until)
			until = s->heap[i]->due;
	return until;
}

/* Takes all records up to `last`, oldest first. */
static bool merge_writers(struct spool_stream *s, uint64_t last, uint64_t records)
{
	s->heaped = 0;
	for (size_t i = 0; i < s->writers; i++)
		if (stream_next_record(s, s->writer[i]) && s->writer[i]->due <= last)
			s->heap[s->heaped++] = s->writer[i];
	for (size_t i = s->heaped / 2; i--;)
		sift_writer(s->heap, s->heaped, i);
	while (s->heaped && records && !s->error && !s->stopped) {
		bool more;

		/* The oldest record of all is on top. */
		assert(s->heap[0]->due <= last);
		assert(s->heaped < 2 || s->heap[0]->due <= s->heap[1]->due);
		assert(s->heaped < 3 || s->heap[0]->due <= s->heap[2]->due);
		if (s->note_due < s->heap[0]->due)
			stream_hand_notes(s, s->heap[0]->due - 1);
		more = stream_run_writer(s, s->heap[0], run_until(s, last), &records);

		if (!more || s->heap[0]->due > last)
			s->heap[0] = s->heap[--s->heaped];
		if (s->heaped)
			sift_writer(s->heap, s->heaped, 0);
	}
	if (!s->heaped && !s->stopped)
		stream_hand_notes(s, last);
	return s->heaped != 0;
}

/* A packet that has been found goes into its writer's queue, which is in the order of sequence. */
static int enqueue(void *context, struct spool_queued *q)
{
	struct spool_stream *s = context;
	struct stream_writer *w = stream_find_writer(s, q->packet->writer);
	struct spool_queued **place;

	if (!w || stream_has_taken(s, w->number, q->sequence)) {
		free(q);
		return w ? 0 : MAYFLY_E_MEMORY;
	}
	if (!w->first) {
		w->first = w->last = q;
		w->begun = false;
		return 0;
	}
	assert(w->last && !w->last->next);
	if (w->last->sequence <= q->sequence) {
		w->last->next = q;
		w->last = q;
		return 0;
	}
	/* Not before the current one. */
	place = w->begun ? &w->first->next : &w->first;
	while (*place && (*place)->sequence <= q->sequence)
		place = &(*place)->next;
	q->next = *place;
	*place = q;
	if (!q->next)
		w->last = q;
	return 0;
}

/* ---- the stream ---- */

static int add_clock_points(struct spool_stream *s)
{
	int error = tick_clock_add(&s->clock, atomic_load(&s->packets.header->end_ticks),
				   atomic_load(&s->packets.header->end_mono_ns));

	for (size_t i = 0; i < s->writers; i++)
		for (struct spool_queued *q = s->writer[i]->first; q && !error; q = q->next) {
			const struct spool_packet *p = q->packet;

			if (!atomic_load(&p->used))
				continue;
			error = tick_clock_add(&s->clock, p->ticks, p->mono_ns);
			if (!error)
				error = tick_clock_add(&s->clock, atomic_load(&p->late_ticks),
						       atomic_load(&p->late_mono_ns));
		}
	return error;
}

/* Finds all packets and all clock pairs of a whole spool. */
static int take_whole(struct spool_stream *s)
{
	int error = packets_find(&s->packets, true, enqueue, s);

	return error ? error : add_clock_points(s);
}

/* The MODULE records of consumed packets are no longer in the spool; the trace has their modules.
 * */
static int know_modules(struct spool_stream *s, const struct mayfly_trace *before)
{
	size_t modules = before ? mayfly_trace_info(before)->modules : 0;

	for (size_t i = 0; i < modules; i++) {
		const struct mayfly_module *m = mayfly_trace_module(before, i);
		struct stacks_module known = {.start = m->start,
					      .end = m->end,
					      .bias = m->bias,
					      .path = (const uint8_t *)m->path,
					      .path_length = strlen(m->path),
					      .build_id = m->build_id,
					      .build_id_length = m->build_id_length};

		if (m->to_ns == INT64_MAX && m->start <= m->end &&
		    !stacks_module_seen(&s->stacks, &known, m->from_ns))
			return MAYFLY_E_MEMORY;
	}
	return 0;
}

static int set_up(struct spool_stream *s, const struct spool_source *source)
{
	const struct spool_header *mapped;
	int error = spool_read_header(source, &mapped, &s->header);

	if (error)
		return error;
	s->exact = s->header.mode == SPOOL_EXACT;
	s->beginning_missing = atomic_load(&s->header.consumed_packets) != 0 && !s->options.resume;
	packets_begin(&s->packets, source, mapped, &s->header);
	tick_clock_begin(&s->clock, s->header.clock == SPOOL_CLOCK_TSC, s->header.start_ticks,
			 s->header.start_mono_ns);
	stacks_begin(&s->stacks, s->tables, s->trace);
	error = spool_describe(source, &s->header, s->beginning_missing, s->tables);
	if (!error)
		error = know_modules(s, s->options.before);
	if (!error && s->options.resume)
		error = stacks_resume(&s->stacks) ? stream_resume(s) : MAYFLY_E_MEMORY;
	else if (!error)
		error = stream_inherit(s, s->options.parent);
	s->options.parent = NULL;
	if (!error && !s->options.online)
		error = take_whole(s);
	return error;
}

int spool_stream_open(const struct spool_source *source, const struct spool_stream_options *options,
		      struct recording *tables, struct trace_writer *writer,
		      struct spool_stream **stream)
{
	struct spool_stream *s = calloc(1, sizeof(*s));
	int error;

	*stream = NULL;
	if (!s)
		return MAYFLY_E_MEMORY;
	s->options = *options;
	s->tables = tables;
	s->trace = writer;
	s->note_due = UINT64_MAX;
	error = set_up(s, source);
	if (error) {
		spool_stream_close(s);
		return error;
	}
	*stream = s;
	return 0;
}

int spool_stream_writer_options(const struct spool_source *source,
				struct trace_writer_options *options)
{
	const struct spool_header *mapped;
	struct spool_header header;
	int error = spool_read_header(source, &mapped, &header);

	if (error)
		return error;
	options->mode = header.mode == SPOOL_EXACT ? MAYFLY_EXACT : MAYFLY_SAMPLED;
	options->sampler = header.sampler;
	options->interval_log2 = header.interval_log2;
	return 0;
}

static int release_packets(struct spool_stream *s)
{
	/* Without a writer, packets need not wait. */
	bool waits = s->trace && !s->options.release_early;

	return packets_release(&s->packets, waits ? trace_writer_chunks(s->trace) : UINT64_MAX);
}

/* To be called between two records, before packets are given back. */
static int mark_place(struct spool_stream *s)
{
	uint64_t chunks;
	int error;

	if (!s->options.mark || !s->trace)
		return 0;
	chunks = trace_writer_chunks(s->trace);
	if (chunks == s->marks.chunks && trace_writer_waiting(s->trace) < NEARLY_FULL)
		return 0;
	error = trace_writer_flush(s->trace);
	if (!error)
		error = s->options.mark(s->options.mark_context, s);
	s->marks.chunks = trace_writer_chunks(s->trace);
	return error;
}

/* Takes what is due up to `last`. */
static bool take_due(struct spool_stream *s, uint64_t last, uint64_t records)
{
	bool more;
	int error;

	if (s->error)
		return false;
	stream_time_notes(s);
	s->inversion_ticks = (uint64_t)(INVERSION_NS * s->clock.ticks_per_ns);
	more = merge_writers(s, last, records);
	stream_apply_waiting(s);
	error = s->error ? 0 : s->tables->failed ? MAYFLY_E_MEMORY : mark_place(s);
	stream_fail(s, error ? error : release_packets(s));
	return more && !s->error && !s->stopped;
}

/* All events up to the round's time have been taken, so the history has come to that time. */
static void reach_round(struct spool_stream *s)
{
	stream_moment(s, s->ticks);
	stream_fail(s, s->trace ? trace_writer_time(s->trace, s->now_ns) : 0);
}

/* To be called with the first record, or with what the recorder knows of the end. */
static void settle_clock(struct spool_stream *s, const struct spool_ending *ending)
{
	int error = 0;

	if (s->options.online || s->settled)
		return;
	s->settled = true;
	if (ending && ending->end_ticks)
		error = tick_clock_add(&s->clock, ending->end_ticks, ending->end_mono_ns);
	stream_fail(s, error ? error : tick_clock_settle(&s->clock));
}

int spool_stream_advance(struct spool_stream *s, uint64_t ticks, uint64_t mono_ns, bool *more)
{
	uint64_t last = ticks ? ticks - 1 : UINT64_MAX;
	bool goes_on;

	if (more)
		*more = false;
	if (s->error || s->stopped)
		return s->error;
	/* The clock's line must stay for the rest of a round: it only reaches back to the one
	 * before. */
	if (s->options.online && !s->unfinished) {
		if (ticks > s->ticks)
			s->ticks = ticks;
		if (!s->ticks)
			return 0;
		tick_clock_now(&s->clock, ticks, mono_ns);
		stream_fail(s, packets_find(&s->packets, false, enqueue, s));
	}
	settle_clock(s, NULL);
	if (s->options.online)
		last = s->ticks - 1;
	goes_on = take_due(s, last, ROUND_RECORDS);
	s->unfinished = goes_on;
	if (!goes_on && s->options.online && !s->error)
		reach_round(s);
	if (more)
		*more = goes_on || (s->options.online && !s->error && ticks > s->ticks);
	return s->error;
}

size_t spool_stream_forks(const struct spool_stream *s)
{
	return s->forks;
}

int spool_stream_finish(struct spool_stream *s, const struct spool_ending *ending)
{
	struct spool_totals totals;
	int error;

	if (s->error)
		return s->error;
	s->final = true;
	settle_clock(s, ending);
	if (s->options.online) {
		if (ending && ending->end_ticks)
			tick_clock_now(&s->clock, ending->end_ticks, ending->end_mono_ns);
		stream_fail(s, packets_find(&s->packets, true, enqueue, s));
	}
	take_due(s, UINT64_MAX, UINT64_MAX);
	assert(!s->heaped || s->error || s->stopped);
	stream_measure_pages(s, FRAGMENTS_END);
	if (s->error)
		return s->error;
	totals = (struct spool_totals){
	    .allocations = s->allocations,
	    .frees = s->frees,
	    .inherited = s->inherited,
	    .truncated = s->truncated,
	    .lost_samples = s->lost_samples,
	    .lost_frees = s->lost_frees,
	    .lost_events = s->lost_events,
	    .missed_frees = s->exact ? s->missed_frees : 0,
	    .unkept_events = s->unkept_events + s->left_out,
	    .mapped_bytes = s->mapped_unknown ? 0 : s->mapped_bytes,
	    .mapped_blocks = s->mapped_unknown ? 0 : s->mapped_blocks,
	    .mapped_peak = s->mapped_unknown ? 0 : s->mapped_peak,
	    .last_ns = s->now_ns,
	    .damaged = s->packets.damaged,
	    .beginning_missing = s->beginning_missing,
	};
	error = spool_describe_end(&s->packets.source, s->packets.header, &s->clock, ending,
				   &totals, s->tables);
	if (!error && s->trace)
		error = trace_writer_time(s->trace, s->tables->info.duration_ns);
	return error;
}

void spool_stream_status(const struct spool_stream *s, struct spool_stream_status *status)
{
	const struct spool_header *h = s->packets.header;

	*status = (struct spool_stream_status){
	    .time_ns = s->now_ns,
	    .allocations = s->allocations,
	    .frees = s->frees,
	    .unknown_frees = s->unknown_frees,
	    .live_blocks = s->live.used,
	    .live_bytes = s->live_bytes > 0 ? (uint64_t)s->live_bytes : 0,
	    .dropped = atomic_load(&h->dropped_samples) + atomic_load(&h->dropped_frees) +
		       atomic_load(&h->dropped_events),
	    .left_out = s->left_out,
	    .held_packets = s->packets.held,
	};
}

void spool_stream_renumber(struct spool_stream *s, struct trace_writer *writer,
			   uint64_t (*renumber)(void *context, uint64_t serial), void *context)
{
	s->trace = writer;
	s->stacks.writer = writer;
	s->marks.first_serial = trace_writer_allocs(writer);
	s->marks.chunks = trace_writer_chunks(writer);
	s->marks.keys = 0;
	for (size_t i = 0; i < s->live.high; i++) {
		struct live_block *b = &s->live.block[i];

		if (b->key && b->serial != LIVE_THINNED)
			b->serial = renumber(context, b->serial) & LIVE_THINNED;
	}
}

void spool_stream_thin(struct spool_stream *s, uint32_t interval_log2, uint64_t seed)
{
	s->thin_log2 = interval_log2;
	s->thin_seed = seed;
	stream_forget_thinned(s);
}

size_t spool_stream_live(const struct spool_stream *s)
{
	return s->live.used;
}

void spool_stream_close(struct spool_stream *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->writers; i++) {
		struct stream_writer *w = s->writer[i];

		while (w->first) {
			struct spool_queued *next = w->first->next;

			free(w->first);
			w->first = next;
		}
		stack_free(&w->stack);
		stream_free_ids(w);
		free(w);
	}
	while (s->forks)
		stream_forget_fork(s, s->forks - 1);
	packets_free(&s->packets);
	tick_clock_free(&s->clock);
	stacks_free(&s->stacks);
	live_free(&s->live);
	free(s->writer);
	interner_free(&s->writer_numbers);
	free(s->heap);
	free(s->thread);
	interner_free(&s->thread_tids);
	free(s->last_key);
	free(s->note);
	free(s->ahead.slot);
	free(s->marks.key);
	bytes_free(&s->marks.forks_told);
	free(s);
}
