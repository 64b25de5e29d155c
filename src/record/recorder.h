/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder of one spool, that is of one image of a process.
 *
 *	recorder_create() or recorder_attach()	a spool is there
 *	recorder_tick()		now and then: space ahead of the agent
 *	recorder_round()	now and then: reads packets, writes FILE.part, gives packets back
 *	recorder_finish()	reads the rest, adds names, completes FILE.part
 *	recorder_become()	FILE.part takes the trace's name
 *
 * Reading begins when the spool has grown beyond a few packets: what is small is read at the end,
 * and until then the spool is whole. It also begins when somebody looks at the recording, because a
 * time that was read does not change any more. Between two rounds FILE.part is a trace, without
 * names, of all that is no longer in the spool.
 */
#ifndef MAYFLY_RECORDER_H
#define MAYFLY_RECORDER_H

#include <sys/stat.h>

#include "record/keys_file.h"
#include "record/jit_files.h"
#include "record/memory_watch.h"
#include "record/part.h"
#include "record/runtime_watch.h"
#include "record/process_watch.h"
#include "record/spool_watch.h"
#include "record/thread_watch.h"
#include "record/title_watch.h"
#include "record/watch_rules.h"
#include "spool/spool_stream.h"

struct column_writer;
struct symbols;
struct stream_sender;

struct recorder_options {
	int64_t snapshot_ns;	 /* 0: events */
	uint64_t max_size;	 /* of the trace; 0: no limit */
	struct symbols *symbols; /* the session of all recorders */
	const char *debug_dir;	 /* where debug files may be, too; NULL: nowhere */
	bool follow;		 /* forked children have spools of their own */
	bool prompt; /* reading begins with the first packet: rules look at what is live */
	/* Receives the trace while it is made; may be NULL. If several recorders share a sender,
	 * only one at a time may be reading, and it must be dropped before the next one starts. */
	struct stream_sender *sender;
	bool no_file; /* only the sender gets the trace */
	struct column_writer
	    *quick; /* one of perhaps many traces: see struct trace_writer_options */
	struct event_coder *quick_events;
};

enum recorder_state {
	RECORDER_IDLE,	   /* nothing read so far */
	RECORDER_READING,  /* rounds are going on */
	RECORDER_FINISHED, /* FILE.part is complete, or all of it is on its way */
	RECORDER_FAILED,   /* no more can be read; `error` says why */
};

/* How the rules stand for this process; watch_list.c's. */
struct recorder_rules {
	struct watch_state *state;
	size_t states;
	uint64_t cgroup_limit; /* when it was last read; 0: none */
	int64_t limit_ns;
};

/* The caller's: where a recorder stands among the others. */
struct recorder_place {
	bool origin_known;
	char *parent_name;   /* of the spool of the process that forked this one; NULL: none */
	uint64_t fork_ticks; /* 0: it was not forked */
	int64_t start_mono_ns;
	unsigned int sweeps; /* since it finished, or since its process has left the spool */
	bool left;	     /* its process has ended, or has left the spool */
	bool last;	     /* when it finished: no image of its process came after it */
	bool settled;	     /* its trace has its name */
	bool unwanted;	     /* no trace is made of it */
	char *unrecorded;    /* a note on what followed it and is not recorded; NULL: none */
};

struct recorder {
	char *spool, *part_path;
	struct stat spool_file; /* zero: it was never open */
	pid_t pid;		/* as the process itself has it */
	struct process_watch process;
	struct recorder_options options;
	enum recorder_state state;
	int error; /* negative: enum mayfly_error; positive: errno */

	struct spool_watch watch;
	struct memory_watch memory;
	struct thread_watch threads;
	struct title_watch title;
	struct runtime_watch runtime;
	struct jit_files jit;
	char *events_path; /* of OCaml's runtime; NULL: not read */
	struct spool_source source;
	struct recording *tables;
	struct trace_writer *writer;
	struct trace_writer_options writer_options;
	struct spool_stream *stream;
	struct part *part;
	struct keys_file keys; /* of the part */

	bool ending;	   /* the program has ended: packets are not needed again */
	bool offline;	   /* reading began after that */
	bool keep_stream;  /* a child may need it */
	uint64_t *waiting; /* packets whose events wait in memory for space on the disk */
	size_t waits, wait_room;
	unsigned int retry;  /* rounds to go until writing is tried again */
	uint64_t flushed_ns; /* when a chunk was last ended early for the receiver */
	uint64_t reached_ns; /* CLOCK_MONOTONIC up to which everything has been read */

	uint32_t thin_log2; /* events are thinned to this interval; 0: not thinned */
	uint64_t thin_next; /* thin when the file has grown to this */
	int thin_error;	    /* like `error`: the trace grows beyond max_size */
	bool thin_said;	    /* the caller's: it has reported thin_error */
	uint64_t thin_seed;

	uint64_t read_ns; /* time spent reading */
	int64_t late_ns;  /* of it, after the program's end */
	struct recorder_place place;
	struct recorder_rules rules;
	struct spool_stream_status status;
	bool no_space;						     /* the spool could not grow */
	uint64_t dropped, dropped_events, missed_frees, trace_bytes; /* of the complete trace */
	char note[512];						     /* of the agent's */
	bool last_heap;	     /* a picture was taken at its exit */
	bool last_heap_told; /* the caller's: it has reported that there is none */
	bool kept_old;	     /* a trace of the same name, under another one */
};

/* NULL: no memory. The spool is at `spool`, the trace grows at `part`. */
struct recorder *recorder_new(const char *spool, const char *part, pid_t pid,
			      const struct recorder_options *options);
void recorder_free(struct recorder *r);

/* Makes the spool, or takes one that is there. 0 or an errno. */
int recorder_create(struct recorder *r, const struct spool_settings *settings);
int recorder_attach(struct recorder *r);
/* Unless its name is another file's by now. */
void recorder_remove_spool(const struct recorder *r);

/* The process may have a file PID.events in this folder. fd: that file, which is then the watch's, or
 * -1. */
void recorder_watch_events(struct recorder *r, const char *folder, int fd);

/* Undoes them, as long as nothing has been read. */
void recorder_detach(struct recorder *r);

/* 0, or the errno when space for the spool has run out for the first time. */
int recorder_tick(struct recorder *r);

/* Its process is there, and an agent in it that records. */
bool recorder_is_watched(const struct recorder *r);

/* What is live now, about, as the progress line has it. False: that is not known, in exact mode
 * before reading has begun. */
bool recorder_live_bytes(const struct recorder *r, uint64_t *bytes);

/* Reads what there is now and writes it to FILE.part, if reading has begun, so that the spool, or
 * the part, has all. 0 or an errno or a negative enum mayfly_error. */
int recorder_write_out(struct recorder *r);

/* To be called when the process has ended but has not been waited for. */
void recorder_last(struct recorder *r);

/* The spool is large enough for reading to begin, and it has not begun. */
bool recorder_is_due(const struct recorder *r);

/* Begins to read. parent: of a forked child, else NULL; it must be reading or finished. False:
 * r->error says why; the spool stays as it is. */
bool recorder_begin(struct recorder *r, struct recorder *parent);

/* The same after the program's end, for one that recorder_finish() will be called for next, after
 * its forked children were. */
bool recorder_begin_last(struct recorder *r, struct recorder *parent,
			 const struct spool_ending *ending);

/* Reads records older than this moment of the spool's clock. */
void recorder_read_until(struct recorder *r, uint64_t ticks);

/* The picture of its heap becomes a part of the trace; the recorder is reading. 0 or an errno or a negative enum
 * mayfly_error. */
int recorder_put_picture(struct recorder *r, const struct mayfly_picture *picture);

/* True: there is more to read at once. */
bool recorder_round(struct recorder *r);

/* Milliseconds after which the next look at this spool is worth it. */
unsigned int recorder_wait(const struct recorder *r);

/* The program has ended (or this image of it). Works from any state but FINISHED. False: r->error
 * says why; spool and part stay. */
bool recorder_finish(struct recorder *r, struct recorder *parent,
		     const struct spool_ending *ending);

/* The trace takes its name, and a file that has it gets the name `old`, unless that is NULL. The
 * caller removes the spool. 0 or an errno. */
int recorder_become(struct recorder *r, const char *trace, const char *old);

/* No child will need it any more. */
void recorder_forget(struct recorder *r);

/* Nothing of it is wanted: removes the part. */
void recorder_drop(struct recorder *r);

/* The spool is lost, and nothing of it is in a trace. NULL: false. */
bool recorder_is_lost(const struct recorder *r);

/* Some of the recording is in the part and no longer in the spool. */
bool recorder_has_part(const struct recorder *r);

/* For a signal handler: removes a part whose contents are also in the spool. */
void recorder_abandon(void);

/* A moment on the spool's clock and on CLOCK_MONOTONIC. */
void recorder_clock(const struct spool_header *h, uint64_t *ticks, uint64_t *mono_ns);

#endif
