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
	char problem[128];
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
};

struct import_format {
	const char *name; /* for "a ... file" */
	bool (*recognise)(const void *data, size_t size);
	/* Writes the trace. A damaged file is converted up to the damage: this is not an error,
	 * and the report mentions it. Information that the format lacks is marked absent. */
	int (*convert)(const void *data, size_t size, const struct import_options *options,
		       trace_sink *sink, void *context, struct import_report *report);
	/* The name of an additional file in the same folder with more information; a folder with
	 * both files is an input too. NULL: the format has none. */
	const char *beside;
};

/* The format, recognised by the beginning of the file, or NULL. */
const struct import_format *import_recognise(const void *data, size_t size);

#endif
