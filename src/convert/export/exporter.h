/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign formats that can be written: a row of a table for each. Commands know only the table. */
#ifndef MAYFLY_EXPORTER_H
#define MAYFLY_EXPORTER_H

#include <mayfly/trace.h>

#include "trace/write/writer.h"

struct export_options {
	const char *purpose; /* one line on what the trace is of, "" for none */
	/* What the user asked for: formats of one metric write this one, those of several the
	 * window and the filters. `hide` are the frames that stacks are shown without. Never NULL.
	 */
	const struct mayfly_query *query;
	bool samples; /* a row for each sample instead of each stack */
};

/* Which of the user's options a format heeds; the others are refused. */
enum export_takes {
	EXPORT_TAKES_BLOCKS = 1u, /* the window, and filters of blocks and stacks */
	EXPORT_TAKES_HIDE = 2u,	  /* frames that are left out */
	EXPORT_TAKES_ROWS = 4u,	  /* export_options.samples */
	EXPORT_TAKES_HEAPS = 8u,  /* query.heaps, and no other choice of blocks */
};

#define EXPORT_METRIC(metric) (1u << (metric))
#define EXPORT_ALL_METRICS    0x1fu

enum export_shape {
	EXPORT_STREAM, /* one file, written from its start to its end: convert() */
	EXPORT_FILE,   /* one file that a library writes by itself: convert_at() */
	EXPORT_FOLDER, /* several files: convert_at() */
};

struct export_format {
	const char *name;   /* as the user says it */
	const char *suffix; /* of files and folders: ".ctf" */
	const char *help;
	const char *missing; /* what this build lacks for it; NULL: nothing */
	enum export_shape shape;
	bool text;	      /* fit for a terminal */
	bool events;	      /* is made of single events, which traces of snapshots do not have */
	bool tracks;	      /* track events are among them: these a trace of snapshots may have */
	unsigned int takes;   /* enum export_takes */
	unsigned int metrics; /* that can be asked for: EXPORT_METRIC() of each */
	/* FOLDER: a file that each such folder holds. Only a folder that has it is replaced. */
	const char *landmark;
	/* Memory does not grow with the number of events but for what is live. */
	int (*convert)(const struct mayfly_trace *trace, const struct export_options *options,
		       trace_sink *sink, void *context);
	/* What the user should know of that is not in the file, a phrase; NULL: nothing. May be
	 * NULL itself. */
	const char *(*left_out)(const struct mayfly_trace *trace,
				const struct export_options *options);
	/* path: an empty file, or an empty folder, under a temporary name. Returns as convert()
	 * does: 0, an errno, or a negative enum mayfly_error. */
	int (*convert_at)(const struct mayfly_trace *trace, const struct export_options *options,
			  const char *path);
};

/* NULL when there is none of this name. */
const struct export_format *export_find(const char *name);
/* The table; ends with a row without name. */
const struct export_format *export_formats(void);

#endif
