/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the stream share. See spool_stream.h for what it does.
 *
 *	spool_stream.c	 the spool; rounds: who comes next
 *	stream_resume.c	 going on after the reader was killed
 *	spool_records.c	 one writer's records, one after the other
 *	spool_tracks.c	 types, labels, track events; what the recorder notes itself
 *	open_spans.c	 which spans are open
 *	spool_blocks.c	 allocations and frees; what is live; forks
 *	stream_keys.c	 keys of blocks for stream_resume.c
 *	spool_state.c	 writers and threads by their numbers
 *
 * Each uses only those below it.
 */
#ifndef MAYFLY_SPOOL_INTERNAL_H
#define MAYFLY_SPOOL_INTERNAL_H

#include "spool/live_table.h"
#include "base/bytes.h"
#include "base/interner.h"
#include "format/spool_format.h"
#include "spool/spool_packets.h"
#include "spool/spool_stacks.h"
#include "spool/spool_stream.h"
#include "spool/tick_clock.h"

#define STREAM_MOST_WAITING 64u
#define STREAM_MOST_FORKS   64u

/* What the types or labels of a packet mean, by their ids. Each packet begins a new epoch; slots of
 * older ones are free. */
struct stream_id {
	uint32_t id, epoch;
	uint32_t first, second; /* type: in the tables, its layout; label: strings */
};

struct stream_ids {
	struct stream_id *slot;
	size_t size, used;
	uint32_t epoch; /* not 0 */
};

/* Spans of a thread that are open, in the order of their begins: see open_spans.c. */
struct stream_open {
	struct stream_span {
		uint32_t type; /* of the tables */
		bool kept, doubted;
	} * span;
	uint32_t tid, count, size;
};

struct stream_writer {
	uint32_t number;
	uint32_t tid, thread;		   /* thread: in the tables, RECORDING_NONE until needed */
	struct spool_queued *first, *last; /* first: the current one */
	bool begun;			   /* the state for the first one has been set up */
	bool over;			   /* the packet is at its end, or damaged */
	const uint8_t *at, *end, *limit;   /* limit: of all bytes that may be read */
	uint64_t ticks, turned, id;
	uint32_t interval_log2;
	uint32_t labels;       /* set of the tables */
	uint64_t due;	       /* ticks of the next record */
	const uint8_t *fields; /* of a record with a tag, after its time */
	uint8_t flags;	       /* before its time */
	uint64_t moving;       /* key of a block whose realloc has no outcome yet, 0: none */
	bool moved; /* its address was taken by another, so the next record's RELEASE is done */
	struct spool_stack stack;
	struct stream_ids types, label_ids;
	struct stream_open open;
	uint64_t told_sequence; /* its place in the latest step */
	uint32_t told_bytes;
	bool resumed; /* its open spans are those of the part */
};

/* An ALLOC or RELEASE that has been decoded. Its block already has the form that the writer takes:
 * made just before it is used, reading it would have to wait for the stores. */
struct stream_waiting {
	uint64_t ticks, key;
	struct trace_block block; /* RELEASE: only thread and flags */
	bool release;
};

/* What is known of a thread number. */
struct stream_thread {
	uint32_t tid, index, name;
	bool told; /* the name, by the spool */
};

/* What was live at a FORK record, by serial. */
struct stream_fork {
	uint64_t ticks;
	struct live_block *block;
	size_t blocks;
};

/* What the next step of spool_resume.h says; only with options.mark. */
struct stream_marks {
	uint64_t *key; /* of each block since the step before, by serial; 0: freed */
	size_t keys, key_room;
	uint64_t first_serial, told_serial;
	struct bytes forks_told;
	size_t forks;
	uint64_t chunks; /* of the writer, at the step before */
};

/* What the recorder has noted. */
struct stream_note {
	int64_t ns;
	uint32_t tid, kind, type, values;
	uint64_t value[SPOOL_EVENT_VALUES];
};

struct spool_stream {
	struct spool_stream_options options;
	struct spool_header header; /* the constant fields count */
	struct spool_packets packets;
	struct tick_clock clock;
	struct spool_stacks stacks;
	struct recording *tables;
	struct trace_writer *trace; /* NULL: only what is live is wanted */
	bool exact, final;
	bool settled;	 /* the clock of a whole spool */
	bool unfinished; /* the current round was left early: the next call goes on with it */
	bool beginning_missing;
	bool
	    passing; /* records that are in the part already: they only change the writer's state */
	struct stream_marks marks;
	int error; /* sticks */

	struct stream_writer **writer;
	size_t writers, writers_size;
	struct interner writer_numbers;
	struct stream_writer **heap;
	size_t heaped, heap_size;

	struct live_table live;
	struct stream_waiting waiting[STREAM_MOST_WAITING];
	size_t waiting_count;
	struct stream_thread *thread;
	size_t threads, threads_size;
	struct interner thread_tids;
	uint64_t *last_key; /* [tables' threads]: of the thread's latest allocation, 0 none */
	size_t last_keys;

	struct stream_fork fork[STREAM_MOST_FORKS];
	size_t forks, fork_blocks;
	bool stopped; /* nothing more is read */

	size_t label_texts;	 /* strings that labels have brought */
	struct stream_ids ahead; /* types defined after the current realloc */

	struct stream_note *note; /* by time; those before first_note are with the writer */
	size_t first_note, notes, notes_size;
	uint64_t note_due; /* ticks of the first one; UINT64_MAX: none */

	int64_t now_ns;
	uint64_t ticks; /* of the latest round */
	uint64_t inversion_ticks;
	uint64_t allocations, frees, inherited, truncated, unknown_frees;
	uint64_t lost_samples, lost_frees, lost_events;
	uint64_t
	    missed_frees; /* of blocks whose address was handed out again while they were live */
	uint64_t unkept_events;		/* read or noted, but invalid or too many */
	uint64_t event_bytes, left_out; /* see struct spool_stream_options */
	uint64_t unmeasured;		/* events whose bytes are only estimated in event_bytes */
	/* Mappings, whether they stay in a thinned trace or not. */
	uint64_t mapped_bytes, mapped_blocks, mapped_peak;
	bool mapped_unknown; /* the recording was resumed */
	double live_bytes;
	double most_live, measured_live; /* largest so far, and at the last look at pages */
	uint32_t thin_log2;		 /* 0: all blocks are handed over */
	uint64_t thin_seed;
	bool forgets; /* exact: blocks that are dropped are not in `live` */
};

/* ---- spool_state.c ---- */

/* The writer of this number, which may be new. NULL: no memory. */
struct stream_writer *stream_find_writer(struct spool_stream *s, uint32_t number);

/* The latest name counts. */
void stream_name_thread(struct spool_stream *s, uint32_t tid, const void *name, size_t length);
/* A thread is listed once it has an event. */
uint32_t stream_index_thread(struct spool_stream *s, uint32_t tid);
/* The tables have it already. */
void stream_know_thread(struct spool_stream *s, uint32_t index);

void stream_write_track(struct spool_stream *s, const struct trace_track *event);
/* What happened now on the writer's thread. */
void stream_hand_track(struct spool_stream *s, struct stream_writer *w, struct trace_track *event);

static inline void stream_fail(struct spool_stream *s, int error)
{
	if (!s->error)
		s->error = error;
}

static inline void stream_damaged(struct spool_stream *s, struct stream_writer *w)
{
	s->packets.damaged = true;
	w->over = true;
}

static inline uint32_t stream_this_thread(struct spool_stream *s, struct stream_writer *w)
{
	if (w->thread == RECORDING_NONE)
		w->thread = stream_index_thread(s, w->tid);
	return w->thread;
}

/* The moment of a record; never before that of an event that the writer has already. */
static inline int64_t stream_moment(struct spool_stream *s, uint64_t ticks)
{
	int64_t ns = tick_clock_ns(&s->clock, ticks);

	if (ns > s->now_ns)
		s->now_ns = ns;
	return s->now_ns;
}

/* ---- spool_records.c ---- */

/* Goes to the writer's next record and sets when it is due. False: there is none yet. */
bool stream_next_record(struct spool_stream *s, struct stream_writer *w);

/* Takes records of one writer that are due up to `last`. True: it goes on with a later one. */
bool stream_run_writer(struct spool_stream *s, struct stream_writer *w, uint64_t last,
		       uint64_t *records);

/* ---- stream_keys.c ---- */

/* Keys that are written one after the other. */
struct stream_key_out {
	struct bytes *to;
	uint64_t serial, turned;
};
void stream_put_key(struct stream_key_out *o, uint64_t serial, uint64_t key);

void stream_note_key(struct spool_stream *s, const struct live_block *b);
void stream_note_fork(struct spool_stream *s, const struct stream_fork *f);

/* ---- spool_blocks.c ---- */

/* Applies the waiting events. To be called before anything that depends on them. */
void stream_apply_waiting(struct spool_stream *s);

/* The table's block for a new allocation, with its key, thread and flags. NULL: s->error is set. */
struct live_block *stream_new_block(struct spool_stream *s, uint64_t key, int64_t ns,
				    uint32_t thread, uint32_t flags);
/* Gives the writer a block of which all fields but the serial are set. block: the same in the
 * writer's form. */
void stream_hand_alloc(struct spool_stream *s, int64_t ns, struct live_block *b,
		       struct trace_block *block);
void stream_hand_free(struct spool_stream *s, int64_t ns, const struct live_block *b,
		      uint32_t thread, uint32_t flags);
struct trace_block stream_block(const struct spool_stream *s, const struct live_block *b);

/* To be called when thin_log2 has changed. With many live blocks, those that were dropped go, and those to
 * come will not be in the table. */
void stream_forget_thinned(struct spool_stream *s);

/* Hands on a block with an id in an exact spool: OCaml's, or a mapping. */
void stream_take_block(struct spool_stream *s, struct stream_waiting *e);
/* A mapping has lost so many bytes: it ends, and where something is left, a block with its stack begins. */
void stream_shrink(struct spool_stream *s, uint64_t key, uint64_t ticks, uint64_t bytes,
		   uint32_t thread, uint32_t flags);

/* From now on nothing is known of the blocks in OCaml's heaps, so the trace frees them here. */
void stream_end_ocaml(struct spool_stream *s, int64_t ns, uint32_t thread);

/* Which stacks hold nearly empty pages now. */
void stream_measure_pages(struct spool_stream *s, enum fragments_kind kind);

void stream_keep_fork(struct spool_stream *s, uint64_t ticks);
void stream_forget_fork(struct spool_stream *s, size_t index);
/* What was live in the parent at the fork is live here. */
int stream_inherit(struct spool_stream *s, struct spool_stream *parent);
/* A block of the table that was live before. */
void stream_count_live(struct spool_stream *s, const struct live_block *b);

#define STREAM_KEY_OF_ID (1ull << 60)

/* A key for a number; 0 would mark a free place. */
static inline uint64_t stream_key(uint64_t number)
{
	return number ? number : UINT64_MAX;
}

/* As far apart as addresses are. */
static inline uint64_t stream_id_key(uint64_t id)
{
	return stream_key((id + 1) << 4);
}

/* The key of a block that has an id. In an exact spool that is a block of OCaml's or a mapping: the others
 * have their addresses, which are without this bit. */
static inline uint64_t stream_block_key(const struct spool_stream *s, uint64_t id)
{
	return s->exact ? stream_id_key(id) | STREAM_KEY_OF_ID : stream_id_key(id);
}

static inline uint64_t stream_key_id(uint64_t key)
{
	return (key >> 4) - 1;
}

/* ---- stream_resume.c ---- */

/* Takes up options.resume. */
int stream_resume(struct spool_stream *s);
/* All of this packet is in the part; else, the bytes of the writer's current one that are. */
bool stream_has_taken(const struct spool_stream *s, uint32_t writer, uint64_t sequence);
uint32_t stream_taken_bytes(const struct spool_stream *s, const struct stream_writer *w);
/* To be called with the writer's first packet. */
void stream_resume_spans(struct spool_stream *s, struct stream_writer *w);

/* ---- spool_tracks.c ---- */

/* TYPE, LABEL, LABELS: what comes after their tags. */
void stream_read_type(struct spool_stream *s, struct stream_writer *w, struct varint_in *in);
void stream_read_label(struct spool_stream *s, struct stream_writer *w, struct varint_in *in);
void stream_read_labels(struct spool_stream *s, struct stream_writer *w, struct varint_in *in);
/* TRACK: what comes after its first byte. */
void stream_read_track(struct spool_stream *s, struct stream_writer *w, uint8_t tag,
		       struct varint_in *in);

/* To be called before looking past records that are not about blocks, in this packet or in the
 * next: forgets what the last look has found. */
void stream_look_ahead(struct spool_stream *s);
/* Goes past a TYPE, LABEL, LABELS or TRACK record. known: types of the current packet, or NULL.
 * False: it is none of these. */
bool stream_skip_track(struct spool_stream *s, const struct stream_ids *known,
		       struct varint_in *in);

/* A packet begins: no types, no labels. */
void stream_forget_ids(struct stream_writer *w);
void stream_free_ids(struct stream_writer *w);

/* Sets when the first note is due, by the clock's current line. */
void stream_time_notes(struct spool_stream *s);
/* Gives the writer the notes due up to `last`. */
void stream_hand_notes(struct spool_stream *s, uint64_t last);

/* open_spans.c. type: of the tables. */
enum stream_end {
	STREAM_END_UNKNOWN, /* no such span is open */
	STREAM_END_KEPT,
	STREAM_END_LEFT_OUT,
};
void stream_open_begin(struct spool_stream *s, struct stream_writer *w, uint32_t type, bool kept);
enum stream_end stream_open_end(struct spool_stream *s, struct stream_writer *w, uint32_t type);
void stream_open_doubt(struct stream_writer *w); /* to be called when events are lost */

#endif
