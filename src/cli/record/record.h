/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly record, in several files; src/record/session.h does the work.
 *
 *	cmd_record.c		runs the program
 *	cmd_attach.c		joins one that runs
 *	record_end.c		makes the traces
 *	record_options.c	what the user asks for
 *	record_stream.c		the same of the receiver elsewhere
 *	record_push.c		windows of it into a fleet's database
 *	record_listen.c		serves profiles of it to collectors
 *	record_progress.c	the line on the terminal
 *	record_result.c		what is reported at the end
 *	record_view.c		shows it in the browser
 */
#ifndef MAYFLY_RECORD_H
#define MAYFLY_RECORD_H

#include "cli/record/download.h"
#include "cli/record/record_push.h"
#include "cli/record/record_stream.h"
#include "cli/record/when.h"
#include "record/session.h"

/* As env, nohup, timeout and others that run a command. */
enum { RECORD_FAILED = 125, RECORD_NOT_EXECUTABLE = 126, RECORD_NOT_FOUND = 127 };

struct given;

struct record_command {
	struct record record;
	struct download download;
	struct when when;
	struct record_push push;
	const char *listen; /* NULL: nobody fetches it */
	bool interval_given, sampler_given, ocaml_given, progress, view;
	bool no_trace;	     /* record_end()'s: the agent never came up */
	size_t view_port;    /* 0: any */
	int64_t progress_ns; /* when the line was last drawn; 0: there is none */
};

/* ---- cmd_record.c ---- */

/* Descriptors 0 to 2 that are closed stay closed for the program, but files of ours must not get
 * these numbers. False: errno says why. */
bool record_occupy_descriptors(void);
/* For record.say. */
void record_say_line(void *command, const char *text);

/* ---- record_end.c ---- */

/* The program has ended, or is no longer recorded. False after a line on stderr: a trace was not made. */
bool record_end(struct record_command *c);

/* ---- record_listen.c ---- */

/* Both do nothing without --listen. When the first fails, it has said so, and the recording goes on. */
void record_listen_start(const struct record_command *c);
/* The program has ended. */
void record_listen_finish(void);

/* ---- record_options.c ---- */

/* -1: go on. Otherwise the exit status. */
int record_take_options(struct record_command *c, int argc, char **argv);
/* --interval, in a row of options: `to` is a struct record. */
bool record_take_interval(const struct given *given, void *to);
/* From MAYFLY in the environment. False after a line on stderr. */
bool record_take_settings(struct record_command *c);

/* ---- record_progress.c ---- */

/* "1,234,567" */
#define COUNT_TEXT 32
char *record_count_text(char buffer[COUNT_TEXT], uint64_t count);
/* Before anything else is written to the terminal. */
void record_clear_progress(struct record_command *c);
/* On a terminal that the program does not write to itself. */
bool record_wants_progress(const struct record_command *c);
void record_show_progress(struct record_command *c);
/* For record.download_progress. */
void record_show_download(void *command, const char *text);

/* ---- record_view.c ---- */

/* Both do nothing without --view. The first is called when the program runs; when it fails, it has
 * said so, and the recording goes on. */
void record_view_start(const struct record_command *c);
/* At the very end: returns when the user wants no more. status: mayfly's, if it ends here. */
void record_view_finish(const struct record_command *c, int status);

/* ---- record_result.c ---- */

/* The one whose trace has the plain name; NULL: the agent never came up. */
const struct piece *record_main_piece(const struct record *r, const struct pieces *list);
void record_say_result(const struct record *r, const struct pieces *list, const struct piece *p);
void record_say_not_attached(const struct record *r, bool removed);

#endif
