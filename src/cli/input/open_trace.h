/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening the file that a command was given: a trace, a spool of an agent (finalised
 * in memory), a file of another tool (converted in memory), a folder that such a file is in with
 * one that tells more of it, or standard input ("-").
 */
#ifndef MAYFLY_OPEN_TRACE_H
#define MAYFLY_OPEN_TRACE_H

#include <mayfly/trace.h>

#include "convert/import/importer.h"

struct loaded_file {
	void *data;
	size_t size;
	bool mapped;  /* not read */
	void *beside; /* what import_format.beside holds; may be NULL */
	size_t beside_size;
	const char *sample_type; /* import_options.sample_type */
	char *spool;		 /* that was read because the trace is not there yet; or NULL */
};

struct opened_trace {
	struct mayfly_trace *trace;
	const struct mayfly_info *info;
	const char *foreign;		/* the tool whose file it was converted from, or NULL */
	uint64_t foreign_bytes;		/* size of that */
	struct loaded_file file;	/* that the trace is in */
	struct decode_threads *threads; /* that decode it, or NULL */
	struct live_session *names;	/* that its names are of, or NULL */
};

/* From now on, access to a mapped file that became shorter ends the process with a line on stderr, in
 * threads that do not block SIGBUS. Reading a file does this by itself. */
void guard_mapped_files(void);

/* Is exactly one file given after the options, at optind? False after a line on stderr. */
bool one_named(int argc, char **argv, const char *what);

/* False after a line on stderr. Parts of another tool's file that cannot be used are reported on
 * stderr, too. */
bool open_trace(const char *path, struct opened_trace *opened);
void close_trace(struct opened_trace *opened);

/* ---- the same in steps, for commands that want the file as it is ---- */

/* A file that is not empty, the one that a folder is about, or the spool of a trace that is not
 * complete (after a line that says so). False after a line on stderr. */
bool load_file(const char *path, struct loaded_file *file);
/* The spool that load_file() reads for the name of a trace that is not complete, or of its part; the
 * caller frees it. NULL: the file itself is read. */
char *spool_of_recording(const char *path);
void unload_file(struct loaded_file *file);
bool is_trace(const struct loaded_file *file); /* or a spool; damaged or not */
/* Takes the file over, also when it fails. */
bool open_loaded(const char *path, struct loaded_file *file, struct opened_trace *opened);

/* Converts another tool's file. Reports on stderr the parts that cannot be used. 0; an error of the
 * sink (positive); or a negative enum mayfly_error, after a line on stderr. */
int convert_foreign(const char *path, const struct import_format *format,
		    const struct loaded_file *file, trace_sink *sink, void *context);

#endif
