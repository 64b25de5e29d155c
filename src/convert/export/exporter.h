/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign formats that can be written: each is a row of a table. Commands use only the table. */
#ifndef MAYFLY_EXPORTER_H
#define MAYFLY_EXPORTER_H

#include <mayfly/trace.h>

#include "trace/write/writer.h"

/* What a trace does not say of its process, for formats that tell processes apart. */
struct export_process {
	const char *service, *host; /* NULL: not known */
	const struct mayfly_label *label;
	size_t labels;
};

struct export_options {
	const char *purpose; /* one line that describes the traced run, or "" */
	/* The user's query, never NULL. Formats with one metric write this one; formats with
	 * several use its window and filters. Stacks are shown as `hide`, `show` and `show_from`
	 * say. */
	const struct mayfly_query *query;
	bool samples; /* a row for each sample instead of each stack */
	/* The query's window is one of many of a program that runs, and its metric LIVE: what is live at
	 * at_ns is of all blocks, what was allocated is of the window. */
	bool window;
	/* For pprof alone, with `window`: it was taken at this moment, in ns since 1970 (0: it says when its window
	 * began); what is live in this question's answer is subtracted (NULL: nothing); and tools show
	 * first what was allocated. */
	int64_t taken_ns;
	const struct mayfly_query *before;
	bool allocated_first;
	struct export_process process;
};

/* The options of the user that a format supports; others are refused. */
enum export_takes {
	EXPORT_TAKES_BLOCKS = 1u,   /* the window, and filters of blocks and stacks */
	EXPORT_TAKES_HIDE = 2u,	    /* frames to leave out */
	EXPORT_TAKES_ROWS = 4u,	    /* export_options.samples */
	EXPORT_TAKES_HEAPS = 8u,    /* query.heaps, but no other filter of blocks */
	EXPORT_TAKES_PROCESS = 16u, /* export_options.process */
};

/* Writes one file: exports.h has what it is given. */
struct export_job;
typedef void export_convert(struct export_job *job);
int export_run(export_convert *convert, const struct mayfly_trace *trace,
	       const struct export_options *options, trace_sink *sink, void *context);

#define EXPORT_METRIC(metric) (1u << (metric))
#define EXPORT_ALL_METRICS    0x1fu

enum export_shape {
	EXPORT_STREAM, /* one file, written sequentially: convert() */
	EXPORT_FILE,   /* one file, written by a library: convert_at() */
	EXPORT_FOLDER, /* several files: convert_at() */
};

struct export_format {
	const char *name;   /* on the command line */
	const char *suffix; /* of files and folders: ".ctf" */
	const char *help;
	const char *missing; /* what this build lacks to write it; NULL: nothing */
	enum export_shape shape;
	bool text;	      /* may be written to a terminal */
	bool events;	      /* needs single events, which traces of snapshots do not have */
	bool tracks;	      /* track events suffice, which a trace of snapshots may have */
	unsigned int takes;   /* enum export_takes */
	unsigned int metrics; /* the selectable metrics: EXPORT_METRIC() of each */
	/* FOLDER: a file in each such folder. An existing folder without it is not replaced. */
	const char *landmark;
	/* Memory depends on the number of live blocks, not on the number of events. */
	export_convert *convert; /* for export_run() */
	/* A phrase that tells the user what the file does not contain, or NULL. The pointer may
	 * be NULL. */
	const char *(*left_out)(const struct mayfly_trace *trace,
				const struct export_options *options);
	/* path: an empty file or folder with a temporary name. Returns, like export_run(), 0, an
	 * errno, or a negative enum mayfly_error. */
	int (*convert_at)(const struct mayfly_trace *trace, const struct export_options *options,
			  const char *path);
};

/* NULL: there is no format with this name. */
const struct export_format *export_find(const char *name);
/* The table; it ends with a row without a name. */
const struct export_format *export_formats(void);

#endif
