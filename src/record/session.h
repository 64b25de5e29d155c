/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One `mayfly record`: a program, the spools of its processes, and the traces made from them.
 *
 *	session_agent.c		what the program finds in its environment
 *	session_spools.c	while it runs: a spool and a recorder for each image of each process
 *	session_traces.c	afterwards: spools become traces
 *	session_lost.c		what a recorder that has died has left
 *	session_heap.c		pictures of heaps
 *	session_runtime.c	files of OCaml's runtime, read while it runs
 *	session_names.c		the names of traces
 *	session_text.c		texts, and reports to the command
 *	outgoing.c		the receiver elsewhere
 *
 * Nothing here prints: what the user should know goes to record.say, or is left in a piece.
 */
#ifndef MAYFLY_SESSION_H
#define MAYFLY_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/child.h"
#include "base/system/clock.h"
#include "record/handover.h"
#include "record/outgoing.h"
#include "record/process_spool.h"
#include "record/program.h"
#include "record/recorder.h"
#include "record/watch_list.h"

#define MOST_ANCESTORS 64 /* of a child of a child of ... */

/* How often spools are looked after: at first, and then at least. */
#define TICK_SOON_MS 50
#define TICK_MS	     200

struct record {
	/* What the command sets. */
	const char *output;
	const char *debug_dir;
	bool no_debuginfod;
	int64_t debuginfod_ns; /* all requests together may take this long */
	uint32_t interval_log2;
	int sampler; /* enum spool_sampler */
	bool exact;
	bool ocaml_off;
	int runtime_events_off; /* 0 or 1 */
	int last_image_only;	/* 0 or 1: of a process, what it was before an exec is not kept */
	double ocaml_rate;	/* 0: the agent's own */
	uint32_t ocaml_frames;	/* 0: stacks are whole */
	bool force, follow, quiet;
	int64_t snapshot_ns;
	uint64_t max_size, max_spool; /* 0: not given */
	uint32_t overhead;	      /* 1/10000; 0: not given */
	uint64_t map_events;	      /* 0: the agent's own */
	bool map_events_off;
	struct record_stream stream;
	const struct watch_list *rules; /* --when; may be NULL */
	bool last_heap;			/* a picture of the heap is taken at each exit */
	char **argv;
	char *user_settings; /* ",key=value..." of MAYFLY that go on to the agent */
	/* Gets a line for the user, without "mayfly: " and the line's end. */
	void (*say)(void *context, const char *text);
	void *say_context;
	/* Gets what is being downloaded, "" at its end; NULL: nobody wants to know. */
	void (*download_progress)(void *context, const char *text);

	struct program program;
	struct child child;
	struct handover_server handover; /* for processes that cannot open their spools */
	struct recorder **recorder;	 /* the first is of the program as it was started */
	size_t recorders, recorder_room;
	struct symbols *symbols;
	struct debug_server *debug_server;
	struct column_writer *columns; /* of the children's traces; NULL: each has its own */
	struct event_coder *events;    /* the same */
	char *file;		       /* the trace, as the user wrote it */
	char *spool;		       /* beside it */
	char *folder;		       /* in which mayfly was started */
	char *preload;		       /* LD_PRELOAD */
	char *events_folder;	       /* of OCaml's runtimes; NULL: not made */
	int64_t start_ns;
	int64_t found_ns, swept_ns;
	bool unrecorded_said; /* of a child: record_unrecorded() */
	int serving;	      /* a lock by which agents find this recorder; 0: none */
	unsigned long images; /* of the program that followed the first */
	pid_t *settled;	      /* children whose traces were made while others ran */
	size_t settled_count, settled_room;
};

/* Releases all that this struct owns. */
void record_free(struct record *r);

/* ---- session_text.c ---- */

/* NULL: out of memory. */
char *record_format(const char *text, ...) __attribute__((format(printf, 1, 2)));
void record_say(const struct record *r, const char *text, ...)
    __attribute__((format(printf, 2, 3)));
/* Says that memory is short; false. */
bool record_no_memory(const struct record *r);

/* ---- session_agent.c ---- */

extern const char *const record_sampler_names[]; /* by enum spool_sampler; ends with NULL */

/* The path of one of the agent's libraries; NULL: it is neither beside mayfly nor installed. */
char *record_find_agent(const char *name);
/* Sets r->preload. False: record_say() has been told. */
bool record_choose_preload(struct record *r);
/* The value of MAYFLY for the program; NULL: out of memory. */
char *record_agent_settings(const struct record *r);

/* ---- session_runtime.c ---- */

/* Makes the file for the program's runtime where that writes events. Before it starts. */
void record_make_events(struct record *r, struct recorder *first);
/* In the program, before it starts: true when its runtime writes events. */
bool record_set_events(struct record *r);
/* Reports, once, that events cannot be read. */
void record_tell_events(const struct record *r, struct recorder *one);
/* Removes the files, but those of processes that live. */
void record_remove_events(struct record *r);

/* ---- session_spools.c ---- */

/* Sets r->file and r->spool. False: out of memory. */
bool record_choose_names(struct record *r);
/* Spools are given from now on to processes that cannot open them. After record_make_spool(). */
void record_start_handover(struct record *r);
/* NULL: there is none for this spool yet. */
struct recorder *record_find(const struct record *r, const char *spool);
/* The program has another number for itself: it is in another PID namespace. */
bool record_is_foreign(const struct record *r);
/* This spool is of an image of the program, not of a child. */
bool record_is_of_program(const struct record *r, const struct spool_entry *e);
/* NULL: record_say() has been told. */
struct recorder *record_add(struct record *r, const char *spool, pid_t pid);
/* The first spool and its recorder. False: record_say() has been told. */
bool record_make_spool(struct record *r);
/* The recorder of a forked child's parent; NULL when there is none. */
struct recorder *record_parent_of(const struct record *r, struct recorder *child);
/* 0: it was not forked. */
uint64_t record_fork_ticks(struct recorder *one);
/* Both are images of one process. */
bool record_same_process(const struct recorder *a, const struct recorder *b);
/* The forked children that have not been begun, by the time of the fork. NULL: none. */
struct recorder **record_idle_children(const struct record *r, const struct recorder *parent,
				       size_t *count);
/* None of the same process came after it. */
bool record_is_last_image(const struct record *r, const struct recorder *one);
/* What only the recorder knows about how this image ended. */
struct spool_ending record_ending_of(const struct record *r, const struct recorder *one, bool last);
/* A note for the trace of a process if nothing is recorded of a child of it, or of what it has become by
 * exec. The user is told, too, once for all children. NULL: no such thing. last: no image of the process
 * came after it. */
const char *record_unrecorded(struct record *r, struct recorder *one, bool last);
/* Reports, once, that a trace cannot be kept below --max-size. */
void record_tell_thinning(const struct record *r, struct recorder *one);
/* Looks after all spools. Returns the milliseconds after which to do so again. */
unsigned int record_serve(struct record *r);
/* No trace is made of the first spool. */
void record_drop_spool(struct record *r);

/* ---- session_heap.c ---- */

/* From now on, processes wait at their exit until pictures of their heaps are taken, if these are wanted.
 * False: record_say() has been told why they cannot. */
bool record_offer_last_heap(struct record *r);
void record_end_last_heap(struct record *r);
/* Takes the picture that somebody waits for, if so. */
void record_take_heap(const struct record *r, struct recorder *one);
/* Returns when the child has sent a signal, a process waits for its last picture, or after this time. */
void record_wait_for_signal(const struct record *r, int milliseconds);
/* Reports, once, that there is no picture of this process's last moment, if it was wanted. */
void record_tell_last_heap(const struct record *r, struct recorder *one,
			   const struct spool_ending *ending);

/* ---- session_lost.c ---- */

/* The recorder of this spool has died: says where what it recorded is. Where that has the names of this
 * recording's files, it gets others first, unless these are to be replaced. False: record_say() has been
 * told why not. */
bool record_keep_lost(const struct record *r, const struct process_spool *lost);

/* ---- session_traces.c ---- */

/* One spool on its way to a trace. */
struct piece {
	char *spool, *trace;
	pid_t pid;
	unsigned long number; /* of the image */
	struct spool_glance glance;
	bool last;   /* image of its process */
	bool wanted; /* becomes a trace */
	bool alive;  /* its process still writes */
	bool kept;   /* the spool must stay */
	struct recorder *recorder;
};

struct pieces {
	struct piece *piece;
	size_t count, room;
};

void record_free_pieces(struct pieces *list);
/* All spools of this recording that an agent has taken, those of the program first. False: no
 * memory. */
bool record_collect_pieces(struct record *r, struct pieces *list);
/* Whether an image that an exec has replaced gets a trace: it has samples, and is not unwanted. */
bool record_keeps_image(const struct record *r, const struct spool_glance *g);

/* Until those that are followed have ended, or a signal comes. */
void record_wait_for_children(struct record *r);
/* Where a recording is that did not become a trace: "'FILE'; 'mayfly report' reads it". part: what was read
 * of the spool is in a part of the trace. NULL: out of memory. */
char *record_places(const struct recorder *one, bool part);
/* Waits until the receiver, if there is one, has what was sent. */
void record_finish_stream(struct record *r, bool whole);
/* Makes the traces, then removes the spools. False when one failed: its spool stays. */
bool record_finalise_pieces(struct record *r, struct pieces *list);

/* ---- session_names.c ---- */

/* FILE with `tail` before its suffix: out.mayfly and ".12" make out.12.mayfly. */
char *record_name_with(const char *file, const char *tail);
/* Where a trace goes when another takes its name: "run.old.mayfly". NULL: out of memory. */
char *record_old_name(const char *file);
/* The name for the trace of an image of a process. NULL: out of memory. */
char *record_trace_name(const struct record *r, pid_t pid, unsigned long number, bool last);
/* Gives a complete trace its name. False: record_say() has been told. */
bool record_name_trace(const struct record *r, const struct piece *p);

#endif
