/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign files that can be read: a row of a table for each format. Commands know only the table. */
#ifndef MAYFLY_IMPORTER_H
#define MAYFLY_IMPORTER_H

#include <mayfly/trace.h>

#include "trace/write/writer.h"

/* What the user should know of a file that was read, or why it could not be: phrases to follow the
 * file's name and a colon, "" when there is nothing to say. */
struct import_report {
	char left_out[256];
	char problem[128];
};

/* What readers of foreign files need from outside. */
struct import_options {
	/* Adds names to code frames that lie in modules and have none, from the programs on this
	 * machine; 0 or a negative enum mayfly_error. NULL: there is nobody to ask. */
	int (*symbolise)(void *context, struct recording *tables);
	void *context;
	/* What is in the file import_format.beside; size 0: there is none. */
	const void *beside;
	size_t beside_size;
};

struct import_format {
	const char *name; /* as in "a ... file" */
	bool (*recognise)(const void *data, size_t size);
	/* Writes the trace. What a damaged file holds before the damage is converted: that is no
	 * error, and the report says so. What the format does not have is marked absent. */
	int (*convert)(const void *data, size_t size, const struct import_options *options,
		       trace_sink *sink, void *context, struct import_report *report);
	/* Name of a file that may stand beside such a file and tells more of it; the two in a
	 * folder are then one input, too. NULL: there is none. */
	const char *beside;
};

/* The format that a file begins like, or NULL. */
const struct import_format *import_recognise(const void *data, size_t size);

#endif
