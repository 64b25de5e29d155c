/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder of one spool: see recorder.h. */
#include "record/recorder.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/array.h"
#include "record/finalise.h"
#include "record/jit_names.h"
#include "record/machine.h"
#include "record/recorder_thin.h"
#include "stream/sender.h"

/* Reading begins at this number of packets: 2 MiB. Smaller spools are quickly read at the end. */
#define DUE_PACKETS 32
/* With this number of packets read but not written, ending a chunk early is worth it. */
#define MANY_HELD 8
/* After a failure to write or to begin: rounds until it is tried again. */
#define RETRY_ROUNDS 64
/* Rounds for a snapshot of a program that records faster than it is read. */
#define MOST_ROUNDS 256
/* A receiver gets new data at least this often, and none at first, as the program may be a short
 * one. */
#define STREAM_FLUSH_NS 5000000000u
#define STREAM_BEGIN_NS 1000000000u
#define FOLLOW_FLUSH_NS 1000000000u
/* The part of the recorder that is finishing, while its spool is still whole. */
static const char *volatile needless_part;

void recorder_abandon(void)
{
	if (needless_part)
		unlink(needless_part);
}

void recorder_clock(const struct spool_header *h, uint64_t *ticks, uint64_t *mono_ns)
{
	if (MACHINE_HAS_TICKS && h->clock == SPOOL_CLOCK_TSC) {
		uint64_t best = UINT64_MAX;

		/* An interruption between the two would set them apart: the quickest of a few. */
		for (int i = 0; i < 4; i++) {
			uint64_t before = machine_ticks(), ns = now_ns(), after = machine_ticks();

			if (after - before >= best)
				continue;
			best = after - before;
			*ticks = before + best / 2;
			*mono_ns = ns;
		}
		return;
	}
	*ticks = *mono_ns = now_ns();
}

/* ---- life ---- */

struct recorder *recorder_new(const char *spool, const char *part, pid_t pid,
			      const struct recorder_options *options)
{
	struct recorder *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->spool = strdup(spool);
	r->part_path = strdup(part);
	r->pid = pid;
	r->process = (struct process_watch){.pid = pid, .fd = -1};
	r->options = *options;
	r->watch.fd = -1;
	runtime_watch_start(&r->runtime);
	jit_files_start(&r->jit);
	r->thin_seed = now_ns() * 0x9e3779b97f4a7c15u ^ (uint64_t)pid;
	if (!r->spool || !r->part_path) {
		recorder_free(r);
		return NULL;
	}
	return r;
}

static void close_stream(struct recorder *r)
{
	spool_stream_close(r->stream);
	trace_writer_free_all(r->writer);
	recording_free(r->tables);
	r->stream = NULL;
	r->writer = NULL;
	r->tables = NULL;
}

static void close_part(struct recorder *r, bool remove_it)
{
	if (!r->part)
		return;
	part_close(r->part, remove_it);
	keys_file_close(&r->keys, remove_it);
	free(r->part);
	r->part = NULL;
}

void recorder_free(struct recorder *r)
{
	if (!r)
		return;
	if (r->stream)
		close_stream(r);
	close_part(r, false);
	if (r->watch.fd >= 0)
		spool_watch_close(&r->watch);
	memory_watch_free(&r->memory);
	thread_watch_free(&r->threads);
	title_watch_free(&r->title);
	runtime_watch_free(&r->runtime);
	jit_files_close(&r->jit);
	free(r->events_path);
	process_watch_close(&r->process);
	for (size_t i = 0; i < r->rules.states; i++)
		watch_state_free(&r->rules.state[i]);
	free(r->rules.state);
	free(r->place.parent_name);
	free(r->place.unrecorded);
	free(r->waiting);
	free(r->spool);
	free(r->part_path);
	free(r);
}

/* Which file it is, for recorder_remove_spool(). */
static int opened(struct recorder *r, int error)
{
	if (!error && fstat(r->watch.fd, &r->spool_file))
		r->spool_file = (struct stat){0};
	return error;
}

int recorder_create(struct recorder *r, const struct spool_settings *settings)
{
	return opened(r, spool_watch_create(&r->watch, r->spool, settings));
}

int recorder_attach(struct recorder *r)
{
	return opened(r, spool_watch_open(&r->watch, r->spool));
}

void recorder_remove_spool(const struct recorder *r)
{
	const struct stat *ours = &r->spool_file;
	struct stat now;

	if (!ours->st_ino)
		spool_remove(r->spool);
	else if (!lstat(r->spool, &now) && now.st_ino == ours->st_ino && now.st_dev == ours->st_dev)
		unlink(r->spool);
}

void recorder_watch_events(struct recorder *r, const char *folder, int fd)
{
	if (asprintf(&r->events_path, "%s/%ld.events", folder, (long)r->pid) < 0)
		r->events_path = NULL;
	r->runtime.fd = fd;
}

void recorder_detach(struct recorder *r)
{
	if (r->watch.header && !r->stream)
		spool_watch_close(&r->watch);
}

void recorder_forget(struct recorder *r)
{
	r->keep_stream = false;
	close_stream(r);
	recorder_detach(r);
}

bool recorder_is_watched(const struct recorder *r)
{
	return r->watch.header && atomic_load(&r->watch.header->state) == SPOOL_RUNNING &&
	       r->state <= RECORDER_READING && !r->ending && r->process.pid;
}

int recorder_tick(struct recorder *r)
{
	if (r->retry)
		r->retry--;
	if (!r->watch.header)
		return 0;
	if (recorder_is_watched(r)) {
		memory_watch_look(&r->memory, r->process.pid, r->spool);
		title_watch_look(&r->title, &r->process, r->spool);
		if (!r->process.foreign)
			thread_watch_look(&r->threads, r->process.pid);
		if (r->events_path)
			runtime_watch_look(&r->runtime, r->events_path);
		jit_files_look(&r->jit, r->process.pid, r->pid);
	}
	return spool_watch_tick(&r->watch);
}

void recorder_last(struct recorder *r)
{
	if (recorder_is_watched(r))
		thread_watch_last(&r->threads, r->process.pid);
}

unsigned int recorder_wait(const struct recorder *r)
{
	if (!r->watch.header)
		return UINT32_MAX;
	return r->events_path && r->runtime.wait_ms < r->watch.wait_ms ? r->runtime.wait_ms
								       : r->watch.wait_ms;
}

static bool fail(struct recorder *r, int error)
{
	r->state = RECORDER_FAILED;
	r->error = error;
	return false;
}

bool recorder_has_part(const struct recorder *r)
{
	return r->part && r->watch.header && spool_has_part(r->watch.header);
}

bool recorder_is_lost(const struct recorder *r)
{
	return r && r->watch.lost && (r->state == RECORDER_IDLE || r->state == RECORDER_FAILED);
}

void recorder_drop(struct recorder *r)
{
	if (r->stream)
		close_stream(r);
	close_part(r, true);
	r->state = RECORDER_FAILED;
}

/* ---- packets ---- */

/* Only a receiver has what is no longer in the spool. */
static bool is_sent_only(const struct recorder *r)
{
	return r->options.sender && r->options.no_file;
}

static void give_back(struct recorder *r, uint64_t index)
{
	spool_watch_give_back(&r->watch, index, !r->ending);
	needless_part = NULL;
}

static void give_back_waiting(struct recorder *r)
{
	for (size_t i = 0; i < r->waits; i++)
		give_back(r, r->waiting[i]);
	assert(r->waits <= r->wait_room);
	r->waits = 0;
}

/* On a full disk, a packet must be given back before its events can be written. While the program
 * runs the packet stays, as mayfly might be killed. */
static bool let_wait(struct recorder *r, uint64_t index)
{
	if (!array_reserve(&r->waiting, &r->wait_room, r->waits, sizeof(*r->waiting)))
		return false;
	r->waiting[r->waits++] = index;
	return true;
}

static void packet_done(void *context, uint64_t index)
{
	struct recorder *r = context;

	assert(r->part && r->watch.header);
	if (r->part->used && !r->part->error)
		part_flush(r->part);
	if (!r->part->used) {
		/* A spool that is read at the end stays whole until its trace is. */
		if (!r->offline)
			give_back(r, index);
	} else if (r->offline && is_sent_only(r)) {
		return; /* likewise */
	} else if (r->ending && !r->options.follow && !is_sent_only(r)) {
		give_back(r, index);
		spool_watch_punch(&r->watch, index);
		part_flush(r->part);
	} else if (!let_wait(r, index)) {
		give_back(r, index); /* neither memory nor disk is left: keep the rest */
	}
}

static const void *packet_at(void *context, uint64_t offset, size_t bytes)
{
	struct recorder *r = context;

	return spool_watch_at(&r->watch, offset, bytes);
}

/* ---- reading ---- */

static bool is_due_for_receiver(const struct recorder *r)
{
	return r->options.sender && now_ns() - r->watch.header->start_mono_ns > STREAM_BEGIN_NS;
}

/* Somebody looks at the recording while it goes on. */
static bool is_followed(const struct recorder *r)
{
	return atomic_load(&r->watch.header->followed_until_ns) > (uint64_t)now_ns();
}

bool recorder_is_due(const struct recorder *r)
{
	const struct spool_header *h = r->watch.header;

	return r->state == RECORDER_IDLE && h && !r->retry &&
	       atomic_load(&h->state) != SPOOL_WAITING &&
	       (atomic_load(&h->packets_claimed) >= (r->options.prompt ? 1 : DUE_PACKETS) ||
		r->watch.full || memory_watch_is_full(&r->memory) ||
		thread_watch_is_full(&r->threads) || runtime_watch_is_full(&r->runtime) ||
		is_due_for_receiver(r) || is_followed(r) ||
		atomic_load(&h->heaps_asked) != atomic_load(&h->heaps_done));
}

static int mark(void *context, struct spool_stream *s)
{
	struct recorder *r = context;

	keys_file_step(&r->keys, s, r->part);
	return 0;
}

static int recorder_open_stream(struct recorder *r, struct recorder *parent, bool online,
				const struct spool_ending *ending)
{
	struct spool_stream_options options = {
	    .online = online,
	    .ending = ending,
	    .release_early = r->options.snapshot_ns != 0,
	    .parent = parent ? parent->stream : NULL,
	    .keep_forks = r->options.follow,
	    .event_bytes = r->options.max_size / 2, /* blocks have the other half */
	    .mark = r->keys.path ? mark : NULL,
	    .mark_context = r,
	};
	int error;

	r->source = (struct spool_source){r, packet_at, packet_done};
	memset(&r->writer_options, 0, sizeof(r->writer_options));
	error = spool_stream_writer_options(&r->source, &r->writer_options);
	if (error)
		return error;
	r->writer_options.snapshot_ns = r->options.snapshot_ns;
	r->writer_options.quick = r->options.quick;
	r->writer_options.quick_events = r->options.quick_events;
	r->tables = recording_new();
	if (!r->tables)
		return MAYFLY_E_MEMORY;
	r->writer = trace_writer_new(&r->writer_options, r->tables, part_sink, r->part);
	if (!r->writer)
		return MAYFLY_E_MEMORY;
	return spool_stream_open(&r->source, &options, r->tables, r->writer, &r->stream);
}

static int recorder_open_part(struct recorder *r)
{
	int error;

	if (is_sent_only(r)) {
		part_open_stream(r->part, r->options.sender);
		return 0;
	}
	error = part_open(r->part, r->part_path);
	if (!error && r->options.sender) {
		error = part_stream(r->part, r->options.sender);
		if (error)
			part_close(r->part, true);
	}
	return error;
}

static bool recorder_start_reading(struct recorder *r, struct recorder *parent, bool online,
				   const struct spool_ending *ending)
{
	int error;

	assert(r->state == RECORDER_IDLE && !r->part && !r->stream);
	r->part = calloc(1, sizeof(*r->part));
	if (!r->part) {
		r->error = MAYFLY_E_MEMORY;
		return false;
	}
	error = recorder_open_part(r);
	if (error) {
		free(r->part);
		r->part = NULL;
		r->error = error;
		return false;
	}
	if (!online)
		needless_part = r->part->path ? r->part_path : NULL; /* NULL: it is only sent */
	/* Nobody can go on with sums of intervals, or with what only a receiver has. */
	if (online && !is_sent_only(r) && !r->options.snapshot_ns &&
	    !keys_file_begin(&r->keys, r->part_path)) {
		close_part(r, true);
		r->error = MAYFLY_E_MEMORY;
		return false;
	}
	error = recorder_open_stream(r, parent, online, ending);
	if (error) {
		needless_part = NULL;
		close_stream(r);
		close_part(r, true);
		r->error = error;
		return false;
	}
	assert(r->watch.header);
	r->offline = !online;
	if (r->watch.header->seed)
		r->thin_seed = r->watch.header->seed;
	r->state = RECORDER_READING;
	return true;
}

bool recorder_begin(struct recorder *r, struct recorder *parent)
{
	if ((r->watch.header || !recorder_attach(r)) &&
	    recorder_start_reading(r, parent, true, NULL))
		return true;
	r->retry = RETRY_ROUNDS;
	return false;
}

/* ---- rounds ---- */

static bool can_write(struct recorder *r)
{
	if (!r->part->error)
		return true;
	if (!r->ending && r->retry && !is_sent_only(r))
		return false;
	r->retry = RETRY_ROUNDS;
	if (part_flush(r->part))
		return false;
	give_back_waiting(r);
	return true;
}

/* Where the spool is limited to little, packets must not wait for a whole chunk of events. */
static int give_more(struct recorder *r)
{
	uint64_t most = atomic_load(&r->watch.header->control_max_packets);

	if (!most || r->status.held_packets < most / 2 || r->status.held_packets < MANY_HELD)
		return 0;
	return trace_writer_flush(r->writer);
}

/* 0 also when the part cannot be written now: it is tried again. */
static int write_all(struct recorder *r)
{
	int error = trace_writer_flush(r->writer);

	if (!error && !r->part->error && !part_flush(r->part) && r->part->path && r->reached_ns)
		atomic_store(&r->watch.header->written_until_ns, r->reached_ns);
	return error;
}

/* Sends what is known to the receiver from time to time, even if it is little; or writes it for
 * somebody who looks at the part. */
static int tell_receiver(struct recorder *r)
{
	uint64_t now = now_ns();

	if (!(r->options.sender && now - r->flushed_ns >= STREAM_FLUSH_NS) &&
	    !(is_followed(r) && now - r->flushed_ns >= FOLLOW_FLUSH_NS))
		return 0;
	r->flushed_ns = now;
	return write_all(r);
}

static int hand_memory(struct recorder *r)
{
	return memory_watch_hand(&r->memory, (int64_t)r->watch.header->start_mono_ns, r->tables,
				 r->writer);
}

/* To be called before the round that takes records of the same age. */
static int hand_threads(struct recorder *r)
{
	uint64_t start_ns = r->watch.header->start_mono_ns;
	int error = thread_watch_hand(&r->threads, (int64_t)start_ns, r->stream);

	if (r->events_path)
		runtime_watch_look(&r->runtime, r->events_path);
	return error ? error : runtime_watch_hand(&r->runtime, start_ns, r->stream);
}

bool recorder_round(struct recorder *r)
{
	uint64_t ticks = 0, mono_ns = 0, from = now_ns();
	bool more = false;
	int error;

	if (r->state != RECORDER_READING || !can_write(r))
		return false;
	assert(r->part && r->stream && r->writer && r->tables);
	recorder_clock(r->watch.header, &ticks, &mono_ns);
	error = hand_threads(r);
	if (!error)
		error = spool_stream_advance(r->stream, ticks, mono_ns, &more);
	if (!error)
		error = hand_memory(r);
	if (error)
		return fail(r, error);
	if (r->options.max_size)
		recorder_keep_size(r);
	spool_stream_status(r->stream, &r->status);
	if (!more) {
		r->reached_ns = mono_ns;
		error = give_more(r);
	}
	if (!error)
		error = tell_receiver(r);
	if (error)
		return fail(r, error);
	r->read_ns += now_ns() - from;
	return more;
}

bool recorder_live_bytes(const struct recorder *r, uint64_t *bytes)
{
	const struct spool_header *h = r->watch.header;
	int64_t live = h ? atomic_load(&h->live_bytes) : 0;

	if (h && h->mode == SPOOL_SAMPLED)
		*bytes = live > 0 ? (uint64_t)live : 0;
	else
		*bytes = r->status.live_bytes;
	return h && (h->mode == SPOOL_SAMPLED || r->state == RECORDER_READING);
}

int recorder_write_out(struct recorder *r)
{
	unsigned int rounds = 0;
	int error;

	while (recorder_round(r) && rounds < MOST_ROUNDS)
		rounds++;
	if (r->state != RECORDER_READING)
		return r->state == RECORDER_FAILED ? r->error : 0;
	error = write_all(r);
	if (error)
		fail(r, error);
	return error ? error : part_flush(r->part);
}

/* CLOCK_MONOTONIC at a moment between the start and now, about. */
static uint64_t mono_at(const struct recorder *r, uint64_t ticks)
{
	const struct spool_header *h = r->watch.header;
	uint64_t now_ticks = 0, now_mono = 0;

	recorder_clock(h, &now_ticks, &now_mono);
	if (ticks <= h->start_ticks || ticks >= now_ticks)
		return ticks >= now_ticks ? now_mono : h->start_mono_ns;
	return h->start_mono_ns +
	       (uint64_t)((double)(ticks - h->start_ticks) / (double)(now_ticks - h->start_ticks) *
			  (double)(now_mono - h->start_mono_ns));
}

void recorder_read_until(struct recorder *r, uint64_t ticks)
{
	bool more = true;
	int error;

	while (more && r->state == RECORDER_READING && can_write(r)) {
		error = spool_stream_advance(r->stream, ticks, mono_at(r, ticks), &more);
		if (error)
			fail(r, error);
		else if (r->options.max_size)
			recorder_keep_size(r);
	}
}

int recorder_put_picture(struct recorder *r, const struct mayfly_picture *picture)
{
	int error = trace_writer_picture(r->writer, picture);

	if (error) {
		fail(r, error);
		return error;
	}
	if (r->keys.path)
		keys_file_step(&r->keys, r->stream, r->part);
	return part_flush(r->part);
}

/* ---- the end ---- */

/* Bytes for which the receiver's buffer has no room wait in memory, and nothing more is read until
 * they are sent. 0 or an errno. */
static int wait_for_receiver(struct recorder *r)
{
	if (!r->part->error)
		return 0;
	stream_sender_ending(r->options.sender);
	if (!part_flush(r->part))
		give_back_waiting(r);
	return r->part->error;
}

static int read_rest(struct recorder *r, const struct spool_ending *ending)
{
	uint64_t ticks = 0, mono_ns = 0, from = now_ns();
	bool more = true;
	int error = 0;

	r->no_space |= spool_watch_was_short(&r->watch);
	if (!r->offline)
		recorder_clock(r->watch.header, &ticks, &mono_ns);
	error = hand_threads(r);
	while (more && !error) {
		error = spool_stream_advance(r->stream, ticks, mono_ns, &more);
		if (!error && r->options.max_size)
			recorder_keep_size(r);
		if (!error && is_sent_only(r))
			error = wait_for_receiver(r);
	}
	if (!error)
		error = hand_memory(r);
	memory_watch_hand_rows(&r->memory, (int64_t)r->watch.header->start_mono_ns, r->writer);
	if (!error)
		error = spool_stream_finish(r->stream, ending);
	if (!error && r->options.max_size) {
		error = trace_writer_flush(r->writer);
		if (!error)
			recorder_keep_size(r);
	}
	r->late_ns = (int64_t)(now_ns() - from);
	r->read_ns += (uint64_t)r->late_ns;
	spool_stream_status(r->stream, &r->status);
	r->dropped = r->tables->info.dropped_samples;
	snprintf(r->note, sizeof(r->note), "%s", recording_text(r->tables, r->tables->note));
	r->missed_frees = r->tables->info.missed_frees;
	r->dropped_events = r->tables->info.dropped_events - r->status.left_out;
	return error;
}

/* All that the spool had is in memory or in the part: it can make room, piece by piece. */
static int recorder_make_room(struct recorder *r)
{
	uint64_t packets = atomic_load(&r->watch.header->packets_reserved);
	int error = r->part->error;

	if (is_sent_only(r))
		return wait_for_receiver(r);
	for (uint64_t i = 0; error && i < packets && !r->options.follow; i++) {
		if (!spool_watch_at(&r->watch, SPOOL_HEADER_BYTES + i * SPOOL_PACKET_BYTES,
				    SPOOL_PACKET_BYTES))
			continue;
		give_back(r, i);
		spool_watch_punch(&r->watch, i);
		error = part_flush(r->part);
	}
	return error;
}

static int complete(struct recorder *r, const struct spool_ending *ending)
{
	int error = read_rest(r, ending);

	if (!error)
		error = finalise_symbols(r->tables, r->options.symbols);
	if (!r->process.foreign)
		jit_files_last(&r->jit, r->pid);
	if (!error)
		error = jit_names_add(r->tables, &r->jit);
	jit_files_close(&r->jit);
	if (!error)
		error = recorder_finish_within_size(r);
	if (!error && part_flush(r->part))
		error = recorder_make_room(r);
	return error;
}

bool recorder_begin_last(struct recorder *r, struct recorder *parent,
			 const struct spool_ending *ending)
{
	int error;

	if (r->state != RECORDER_IDLE)
		return r->state != RECORDER_FAILED;
	if (!r->watch.header) {
		error = recorder_attach(r);
		if (error)
			return fail(r, error);
	}
	return recorder_start_reading(r, parent, false, ending) || fail(r, r->error);
}

bool recorder_finish(struct recorder *r, struct recorder *parent, const struct spool_ending *ending)
{
	int error;

	if (r->state == RECORDER_FINISHED)
		return true;
	if (!recorder_begin_last(r, parent, ending))
		return false;
	r->ending = true;
	if (!recorder_has_part(r))
		needless_part = r->part->path ? r->part_path : NULL; /* NULL: it is only sent */
	error = complete(r, ending);
	needless_part = NULL;
	if (error) {
		part_flush(r->part);
		/* The spool is still whole, so the part made from it is not needed. */
		if (error < 0 && !recorder_has_part(r))
			close_part(r, true);
		return fail(r, error);
	}
	r->state = RECORDER_FINISHED;
	if (!r->keep_stream || !spool_stream_forks(r->stream))
		recorder_forget(r);
	return true;
}

int recorder_become(struct recorder *r, const char *trace, const char *old)
{
	int error;

	assert(r->state == RECORDER_FINISHED && r->part);
	error = part_become(r->part, trace, old, &r->kept_old);

	r->trace_bytes = r->part->written;
	if (error)
		return error;
	keys_file_close(&r->keys, true);
	close_part(r, false);
	return 0;
}
