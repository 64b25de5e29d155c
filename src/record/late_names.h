/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names for the frames of a trace that was written without them:
 *
 *	frames of the trace, by module --> symbols_resolve() --> location[], name[]
 *
 * for trace_name_late(), which gives them to the open trace, or trace_replace_names(), which writes
 * them to a copy.
 */
#ifndef MAYFLY_LATE_NAMES_H
#define MAYFLY_LATE_NAMES_H

#include "trace/read/reader.h"

enum late_wanted {
	LATE_UNNAMED,	    /* frames without a function */
	LATE_WITHOUT_LINES, /* the same and those without a file, in modules with a build-id */
};

struct late_module {
	size_t unnamed;	  /* frames that had no function */
	size_t named;	  /* those of them that have got one */
	size_t unlined;	  /* frames that had a function, but no file */
	size_t lined;	  /* those of them that have got one */
	const char *why;  /* of symbols_resolve(); NULL: none. Lives as long as the session. */
	bool no_build_id; /* nobody could tell its file from another: left out */
};

struct late_names {
	struct mayfly_location *location; /* texts live as long as the session of symbols */
	struct late_name *name;
	size_t locations, names;
	struct late_module *module; /* as in the trace */
	/* Private. */
	size_t location_room, name_room;
	const struct mayfly_trace *trace;
	enum late_wanted wanted;
	const size_t *frame; /* of each address that is asked for */
	struct late_module *current;
	bool failed;
};

struct symbols;

/* Returns 0 or MAYFLY_E_MEMORY. late_names_free() in any case. */
int late_names_find(struct late_names *n, const struct mayfly_trace *t, struct symbols *session,
		    enum late_wanted wanted);
void late_names_free(struct late_names *n);

#endif
