/* SPDX-License-Identifier: Apache-2.0 */
/* What a spool's header says of the recording as a whole: into tables->info and its texts. */
#ifndef MAYFLY_SPOOL_DESCRIBE_H
#define MAYFLY_SPOOL_DESCRIBE_H

#include "spool/tick_clock.h"
#include "format/spool_format.h"
#include "spool/spool_stream.h"

/* 0 or MAYFLY_E_MEMORY. beginning_missing: packets of it are in a trace already. */
int spool_describe(const struct spool_source *source, const struct spool_header *copy,
		   bool beginning_missing, struct recording *tables);

struct spool_totals { /* that the stream has counted */
	uint64_t allocations, frees, inherited, truncated;
	uint64_t lost_samples, lost_frees, lost_events;
	uint64_t missed_frees;	/* exact mode; those whose records were dropped are among them */
	uint64_t unkept_events; /* not the agent's fault */
	uint64_t mapped_bytes, mapped_blocks, mapped_peak; /* 0: not known */
	int64_t last_ns;				   /* the latest event */
	bool damaged, beginning_missing;
};

int spool_describe_end(const struct spool_source *source, const struct spool_header *mapped,
		       struct tick_clock *clock, const struct spool_ending *ending,
		       const struct spool_totals *totals, struct recording *tables);

/* Samples for each word of OCaml's heaps; 0: they are not recorded, so far. The interval of the
 * samples is 8 / that, and its log2, rounded down, the header's. */
double spool_ocaml_rate(const struct spool_header *mapped);

#endif
