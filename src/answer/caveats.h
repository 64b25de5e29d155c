/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a reader must know of a trace before trusting its figures: what is missing, uncertain or counted in
 * a special way, and what to do. One list, which the terminal and the page show.
 */
#ifndef MAYFLY_CAVEATS_H
#define MAYFLY_CAVEATS_H

#include <mayfly/trace.h>

#define CAVEAT_BYTES 2048

enum caveat_kind {
	CAVEAT_MAPPED, /* memory that the figures leave out */
	CAVEAT_POOLS,  /* these two: memory that is there twice counts once */
	CAVEAT_COUNTED,
	CAVEAT_STOPPED,
	CAVEAT_SPOOL,
	CAVEAT_INCOMPLETE,
	CAVEAT_DROPPED,
	CAVEAT_THINNED,
	CAVEAT_INHERITED,
	CAVEAT_TRUNCATED,
	CAVEAT_NOT_COUNTED,
	CAVEAT_UNKNOWN, /* what the trace lacks because the file that it was converted from lacks it */
	CAVEAT_MISSED,	/* frees that were not seen */
	CAVEAT_PICTURE, /* that of the heap was taken too late */
	CAVEAT_NOTE,	/* the remark of whoever wrote the trace */
	CAVEAT_FEW_SAMPLES,
	CAVEATS
};

/* The word that stands before it: "Missed". */
const char *caveat_title(enum caveat_kind kind);
/* Writes it in one or a few sentences; "" when it does not apply to the trace. The text may have any
 * character that the trace has. Returns the buffer. */
char *caveat_text(char *buffer, size_t size, const struct mayfly_trace *trace,
		  enum caveat_kind kind);

/* CAVEAT_UNKNOWN of what is absent (enum mayfly_absent); "" when nothing is. Returns the buffer. */
char *caveat_absent(char *buffer, size_t size, uint32_t absent);

/* "1.83 MiB at most, 1.71 MiB at the end", of resident memory; "" when it was not recorded. */
char *resident_text(char *buffer, size_t size, const struct mayfly_trace *trace);

#endif
