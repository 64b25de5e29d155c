/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign formats that can be read: each is a row of a table. Commands use only the table. */
#ifndef MAYFLY_IMPORTER_H
#define MAYFLY_IMPORTER_H

#include <mayfly/trace.h>

#include "trace/write/writer.h"

/* What the user should know about a file that was read, or why reading failed: phrases that follow
 * the file's name and a colon; "" if there is nothing to tell. */
struct import_report {
	char left_out[256];
	char problem[256];
	char repaired[128]; /* what was put right while reading */
};

/* Inputs of readers besides the file itself. */
struct import_options {
	/* Names code frames that lie in modules and have no name, from the programs on this
	 * machine; 0 or a negative enum mayfly_error. NULL: names are not looked up. */
	int (*symbolise)(void *context, struct recording *tables);
	void *context;
	/* The content of the file import_format.beside; size 0: there is no such file. */
	const void *beside;
	size_t beside_size;
	const char
	    *sample_type; /* the name of the values to take; NULL: those that are of the heap */
};

/* A file that is read, and what has been made of it. The caller sets what is above the line. */
struct import {
	const void *data;
	size_t size;
	struct import_options options;
	trace_sink *sink;
	void *context;
	/* ---- */
	struct import_report report;
	int error; /* the first one: what comes after it does not matter */
	struct recording *tables;
	struct trace_writer *writer; /* NULL: not yet begun */
	uint64_t
	    budget; /* bytes of memory that are left, so that a small file cannot claim a lot */
};

/* Reads the file and writes the trace. A damaged file is converted up to the damage: this is no
 * error, and the report mentions it. Information that the format lacks is marked absent. */
typedef void import_convert(struct import *in);

struct import_format {
	const char *name; /* for "a ... file" */
	bool (*recognise)(const void *data, size_t size);
	import_convert *convert; /* NULL: it is refused */
	/* The name of an additional file in the same folder with more information; a folder with
	 * both files is an input too. NULL: the format has none. */
	const char *beside;
	bool sample_types; /* whether it has several values, with names */
	/* A format that is refused has what to do instead, and how files begin if they are not recognised
	 * otherwise. */
	const char *begins;
	size_t begins_bytes;
	const char *instead;
};

/* Makes the trace: 0, what the sink said, or a negative enum mayfly_error; in->report in any case. */
int import_run(struct import *in, import_convert *convert);
/* The same; MAYFLY_E_ABSENT for a format that is refused, and the report says what to do instead. */
int import_file(struct import *in, const struct import_format *format);

/* The format, recognised by the beginning of the file, or NULL. */
const struct import_format *import_recognise(const void *data, size_t size);

#endif
