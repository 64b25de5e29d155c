/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly record, in several files:
 *
 *	cmd_record.c		runs the program
 *	record_options.c	what the user asks for
 *	record_agent.c		what the program finds in its environment
 *	record_spools.c		while it runs: a spool and a recorder for each image of each process
 *	record_stream.c		the receiver elsewhere
 *	record_progress.c	the line on the terminal
 *	record_traces.c		afterwards: spools become traces
 *	record_result.c		what is said of that
 */
#ifndef MAYFLY_RECORD_H
#define MAYFLY_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "record/child.h"
#include "record/clock.h"
#include "record/program.h"
#include "cli/record_stream.h"
#include "record/recorder.h"

/* As env, nohup, timeout and others that run a command. */
enum { RECORD_FAILED = 125, RECORD_NOT_EXECUTABLE = 126, RECORD_NOT_FOUND = 127 };

#define MOST_ANCESTORS 64 /* of a child of a child of ... */

/* How often spools are looked after: at first, and then at least. */
#define TICK_SOON_MS 50
#define TICK_MS	     200

struct record {
	/* options */
	const char *output;
	const char *debug_dir;
	uint32_t interval_log2;
	int sampler; /* enum spool_sampler */
	bool interval_given, sampler_given, exact;
	bool ocaml, ocaml_off; /* --ocaml was given, with off */
	double ocaml_rate;     /* 0: the agent's own */
	bool force, follow, quiet, progress;
	int64_t snapshot_ns;
	uint64_t max_size, max_spool; /* 0: not given */
	uint32_t overhead;	      /* 1/10000; 0: not given */
	uint64_t map_events;	      /* 0: the agent's own */
	bool map_events_off;
	struct record_stream stream;
	char **argv;

	struct program program;
	struct child child;
	struct recorder **recorder; /* the first is of the program as it was started */
	size_t recorders;
	struct symbols *symbols;
	char *file;	     /* the trace, as the user wrote it */
	char *spool;	     /* beside it */
	char *folder;	     /* in which mayfly was started */
	char *preload;	     /* LD_PRELOAD */
	char *user_settings; /* ",key=value..." of MAYFLY that go on to the agent */
	int64_t start_ns;
	int64_t progress_ns; /* when the line was last drawn; 0: there is none */
	int64_t found_ns, swept_ns;
	unsigned long images; /* of the program that followed the first */
};

extern const char *const record_sampler_names[]; /* by enum spool_sampler; ends with NULL */

/* Never fails: without memory for a path nothing can be recorded, and nothing is lost by ending. */
char *record_format(const char *text, ...) __attribute__((format(printf, 1, 2)));

/* ---- record_options.c ---- */

/* -1: go on. Otherwise the exit status. */
int record_take_options(struct record *r, int argc, char **argv);
/* From MAYFLY in the environment. False after a line on stderr. */
bool record_take_settings(struct record *r);

/* ---- record_agent.c ---- */

/* Sets r->preload. False after a line on stderr. */
bool record_choose_preload(struct record *r);
/* The value of MAYFLY for the program. */
char *record_agent_settings(const struct record *r);

/* ---- record_spools.c ---- */

/* Sets r->file and r->spool. */
void record_choose_names(struct record *r);
const char *record_base_name(const char *path);
/* NULL: there is none for this spool yet. */
struct recorder *record_find(const struct record *r, const char *spool);
/* NULL after a line on stderr. */
struct recorder *record_add(struct record *r, const char *spool, pid_t pid);
/* The first spool and its recorder. False after a line on stderr. */
bool record_make_spool(struct record *r);
/* Of a forked child: the recorder of the process that it came from. NULL when there is none. */
struct recorder *record_parent_of(const struct record *r, const struct recorder *child);
/* 0: it was not forked. */
uint64_t record_fork_ticks(const struct recorder *one);
/* The forked children that have not been begun, by the time of the fork. NULL: none. */
struct recorder **record_idle_children(const struct record *r, const struct recorder *parent,
				       size_t *count);
/* None of the same process came after it. */
bool record_is_last_image(const struct record *r, const struct recorder *one);
/* What only the recorder knows about how this image ended. */
struct spool_ending record_ending_of(const struct record *r, const struct recorder *one, bool last);
/* Returns when the child has sent a signal, or after this time. */
void record_wait_for_signal(const struct record *r, int milliseconds);
/* Reports, once, that a trace cannot be kept below --max-size. */
void record_tell_thinning(struct record *r, struct recorder *one);
/* Looks after all spools. Returns the milliseconds after which to do so again. */
unsigned int record_serve(struct record *r);
/* No trace is made of the first spool. */
void record_drop_spool(struct record *r);

/* ---- record_progress.c ---- */

/* "1,234,567" */
char *record_count_text(uint64_t count);
/* Before anything else is written to the terminal. */
void record_clear_progress(struct record *r);
/* On a terminal that the program does not write to itself. */
bool record_wants_progress(const struct record *r);
void record_show_progress(struct record *r);

/* ---- record_traces.c ---- */

/* One spool on its way to a trace. */
struct piece {
	char *spool, *trace;
	pid_t pid;
	struct spool_glance glance;
	bool last;   /* image of its process */
	bool wanted; /* becomes a trace */
	bool alive;  /* its process still writes */
	bool kept;   /* the spool must stay */
	struct recorder *recorder;
};

struct pieces {
	struct piece *piece;
	size_t count;
};

void record_free_pieces(struct pieces *list);
/* FILE with `tail` before its suffix: out.mayfly and ".12" make out.12.mayfly. */
char *record_name_with(const char *file, const char *tail);
/* All spools of this recording that an agent has taken, those of the program first. False: no
 * memory. */
bool record_collect_pieces(struct record *r, struct pieces *list);
/* Until those that are followed have ended, or a signal comes. */
void record_wait_for_children(struct record *r);
/* From now on a signal ends mayfly, with a line that says where the recording is. */
void record_allow_interruption(struct record *r);
/* Makes the traces, then removes the spools. False when one failed: its spool stays. */
bool record_finalise_pieces(struct record *r, struct pieces *list);

/* ---- record_result.c ---- */

/* The one whose trace has the plain name; NULL: the agent never came up. */
const struct piece *record_main_piece(const struct record *r, const struct pieces *list);
void record_say_result(const struct record *r, const struct pieces *list, const struct piece *p);
void record_say_not_attached(const struct record *r);

#endif
