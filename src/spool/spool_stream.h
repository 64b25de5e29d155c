/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a spool to a trace, while the spool is being written or afterwards.
 *
 *	packets of many writers --merge by time--> allocations, frees --match--> trace_writer
 *
 * The stream reads each packet once. It keeps only the live blocks (by address or id), the tables,
 * and what the writer holds of the current chunk. So its memory does not grow with the length of
 * the run.
 *
 * Order. One call of spool_stream_advance() is a round. Its caller reads the spool's clock BEFORE
 * it calls; only records older than that are taken, all others wait for a later round. A record
 * that was committed too late for its time is taken in the next round; its time becomes the one
 * that the history has reached by then. So no event comes before its cause: an allocation is
 * committed before any other thread can know the block, a free before the block is really freed.
 */
#ifndef MAYFLY_SPOOL_STREAM_H
#define MAYFLY_SPOOL_STREAM_H

#include "trace/write/recording.h"
#include "trace/write/writer.h"

/* How the stream reads the spool's bytes. Functions report failure only by NULL. */
struct spool_source {
	void *context;
	/* `bytes` bytes at `offset` in the file, that stay readable until the stream is closed or,
	 * for a packet, until it was given to done(); NULL when the file does not have them. */
	const void *(*at)(void *context, uint64_t offset, size_t bytes);
	/* Packet `index` is wholly consumed and its events are in chunks that the trace_writer has
	 * handed to its sink. May be NULL. Not called for a packet that still can grow. */
	void (*done)(void *context, uint64_t index);
};

#define SPOOL_TITLE_BYTES 4096u
#define SPOOL_ENTRY_BYTES 256u

struct spool_ending {	 /* known to the recorder only */
	uint32_t ending; /* enum mayfly_ending */
	int32_t code;
	int64_t duration_ns; /* since spool start, 0 when unknown: then the last event's time */
	/* The spool's clock and CLOCK_MONOTONIC read together by the recorder, late in the run on
	 * the machine that recorded: makes the times of short TSC recordings precise. Or both 0. */
	uint64_t end_ticks, end_mono_ns;
	uint64_t cpu_ns, max_rss_bytes; /* see struct mayfly_info; 0 unknown */
	const char *note;		/* for the trace, after the agent's; NULL: none */
	/* The first SPOOL_TITLE_BYTES bytes of /proc/PID/cmdline when it was last read; NULL: not known */
	const char *title;
	uint32_t title_bytes;
	char entry[SPOOL_ENTRY_BYTES]; /* mayfly_info.entry */
};

struct spool_resume;
struct spool_stream;

struct spool_stream_options {
	/* Live watching: the caller gives clock pairs with each round. Else (false) the spool is
	 * whole and no longer grows: its own clock pairs are collected first. */
	bool online;
	/* For a forked child, the stream of its parent, advanced past the fork: what was live in
	 * it at the fork is live here. NULL: not forked. */
	struct spool_stream *parent;
	const struct spool_ending *ending; /* of a whole spool, when it is known; or NULL */
	/* When packets of the spool were consumed before: the trace made of them, for its modules.
	 * NULL: none were, or the tables have all of it: see resume. */
	const struct mayfly_trace *before;
	/* Where another stream of this spool was (spool_resume.h), whose trace's tables and events the
	 * tables and the writer have; or NULL. Stays the caller's. Not online. */
	const struct spool_resume *resume;
	/* Called when all events that the writer was given are with its sink, before the packets that
	 * they came from are given back: to keep a spool_resume_step(). 0 or an error. May be NULL. */
	int (*mark)(void *context, struct spool_stream *s);
	void *mark_context;
	/* Packets are done() once they are read, even if their events are not in the sink yet: for
	 * snapshots, which may be hours apart. */
	bool release_early;
	bool keep_forks; /* keep what is live at each FORK record, for children's streams */
	/* About the bytes of the trace that track events may take; further events are left out. 0:
	 * no limit. */
	uint64_t event_bytes;
	/* Ticks of the only fork to keep; nothing is read after it. 0: none. */
	uint64_t only_fork;
};

/* The tables and the writer are the caller's and outlive the stream. The writer's options must be
 * those that spool_stream_writer_options() gave. 0 or a negative enum mayfly_error. A spool that no
 * agent has taken yet (state waiting) is MAYFLY_E_EMPTY. */
int spool_stream_open(const struct spool_source *source, const struct spool_stream_options *options,
		      struct recording *tables, struct trace_writer *writer,
		      struct spool_stream **stream);

/* Fills in what the spool's header says of mode, sampler and interval. */
int spool_stream_writer_options(const struct spool_source *source,
				struct trace_writer_options *options);

/* One round: consumes the records older than `ticks` (of a whole spool, 0: all). mono_ns:
 * CLOCK_MONOTONIC at `ticks`, only used online. *more (may be NULL): the round stopped early, after
 * about a chunk of events, so that the caller can look at other things; call again. */
int spool_stream_advance(struct spool_stream *s, uint64_t ticks, uint64_t mono_ns, bool *more);

/* The last round, after the program's end: consumes all that is there and fills in tables->info
 * (counts, ending, duration, drops). The caller then adds symbols and calls trace_writer_finish().
 * ending may be NULL. */
int spool_stream_finish(struct spool_stream *s, const struct spool_ending *ending);

/* The FORK records that were read and whose children have not been opened. */
size_t spool_stream_forks(const struct spool_stream *s);

/* Adds a track event that the recorder itself has seen (a thread that began, CPU time): of thread
 * `tid`, at this moment of CLOCK_MONOTONIC. It is merged with those of the spool by time; a late
 * one counts as of now. value: as in struct trace_track, but TEXT is a const char *. All is copied.
 * 0 or a negative enum mayfly_error. */
int spool_stream_note(struct spool_stream *s, uint64_t mono_ns, uint32_t tid, uint32_t kind,
		      const struct mayfly_track_type *type, const uint64_t *value);

/* The name of a thread by the recorder. A name from the spool, earlier or later, takes precedence.
 * 0 or a negative enum mayfly_error. */
int spool_stream_name(struct spool_stream *s, uint32_t tid, const char *name);

/* For the progress line and bounds: at the latest round. */
struct spool_stream_status {
	int64_t time_ns;
	uint64_t allocations, frees; /* handed to the writer */
	uint64_t unknown_frees;	     /* ignored: of blocks from before the start, or nested ones */
	uint64_t live_blocks;
	uint64_t live_bytes;   /* their sizes; sampled: their weights */
	uint64_t dropped;      /* records, by the agent */
	uint64_t left_out;     /* track events, beyond event_bytes */
	uint64_t held_packets; /* consumed wholly or in part, but not yet done() */
};
void spool_stream_status(const struct spool_stream *s, struct spool_stream_status *status);

/* After trace_thin() (thin.h) has rewritten the trace: live blocks get their new numbers, the
 * events from now on go to `writer`. renumber(context, serial) gives TRACE_THINNED for a dropped
 * block. */
void spool_stream_renumber(struct spool_stream *s, struct trace_writer *writer,
			   uint64_t (*renumber)(void *context, uint64_t serial), void *context);

/* From now on blocks are thinned to this interval (thin_rule.h) before the writer gets them; it
 * does not get the frees of dropped blocks. If there are many live blocks and no child needs them, the dropped ones
 * are forgotten: live bytes are then those of the others by their weights, and pages are no longer measured. */
void spool_stream_thin(struct spool_stream *s, uint32_t interval_log2, uint64_t seed);

/* How many blocks are known to be live. */
size_t spool_stream_live(const struct spool_stream *s);

/* A block that is live. */
struct spool_name {
	uint64_t serial; /* its number in the trace */
	uint64_t name; /* exact: its address, of a pool with the mark; else the id of its sample */
};

/* Those that are in the trace, by number; the caller frees *name. False: no memory. */
bool spool_stream_names(const struct spool_stream *s, struct spool_name **name, size_t *count);

void spool_stream_close(struct spool_stream *s);

#endif
