/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the resident memory consists of, at two moments at which the mappings were read:
 *
 *	rows	resident pages of mappings: heap, static data, ...	they add up to RSS
 *	facts	blocks: live, free, in pages of their own, ...		never added to pages
 *
 * The kernel counts pages that were touched, the allocator counts what it has handed out. 80 MiB of
 * live blocks may be in 80 MiB of resident pages or in none, and no trace says which. So no row of
 * pages is called live blocks; what can be concluded is a bound (FACT_ABSENT, FACT_EMPTY).
 */
#ifndef MAYFLY_RSS_H
#define MAYFLY_RSS_H

#include <mayfly/trace.h>

#include "answer/json_writer.h"
#include "answer/mapped.h"

#define RSS_MOMENTS MAPPED_MOMENTS

enum rss_kind {
	RSS_HEAP,
	RSS_ARENAS,
	RSS_ALLOCATOR,
	RSS_ANONYMOUS,
	RSS_DATA,
	RSS_STACKS,
	RSS_COPIES,
	RSS_FILES,
	RSS_SHARED,
	RSS_OTHER,
	RSS_OWN,
	RSS_UNEXPLAINED,
	RSS_KINDS
};

enum rss_fact {
	FACT_LIVE,	 /* our own figure; the estimate is in rss_moment.live */
	FACT_SAMPLER,	 /* of that what OCaml's sampler has for mayfly */
	FACT_IN_USE,	 /* these are the allocator's own: */
	FACT_LARGE,	 /* of that in mappings of their own */
	FACT_FREE,	 /* kept */
	FACT_TOP,	 /* of that at the end of the heap */
	FACT_CACHED,	 /* free, in its caches */
	FACT_FRAGMENTED, /* free, in pages with live blocks */
	FACT_METADATA,
	FACT_COMMITTED,
	FACT_ABSENT, /* bytes of live blocks that are not resident, at least */
	FACT_EMPTY,  /* bytes of resident pages that malloc_trim() would return, at least */
	FACTS
};

/* In JSON, and in tables. */
struct rss_name {
	const char *key, *name;
};
extern const struct rss_name rss_kind_names[RSS_KINDS], rss_fact_names[FACTS];

struct rss_row {
	enum rss_kind kind;
	const char *name;		 /* file, module or name of the mapping; "" */
	const struct mapped_row *mapper; /* ANONYMOUS and ALLOCATOR: by whom; NULL: not known */
	bool several;			 /* by several, and the pages cannot be told apart */
	double resident[RSS_MOMENTS];
};

struct rss_moment {
	const char *which;
	int64_t time_ns;
	double rss, kind[RSS_KINDS];
	double fact[FACTS]; /* NAN: unknown */
	struct mayfly_estimate live;
	double arenas, stacks; /* their numbers */
	double besides_two;    /* resident in arenas but for the two largest */
	int64_t allocator_ns;  /* time of the allocator's figures; < 0: none */
	bool at_end;
};

struct rss {
	const struct mayfly_trace *trace;
	const char *allocator; /* or NULL */
	struct rss_moment moment[RSS_MOMENTS];
	size_t moments;
	struct mapped mapped; /* at these moments */
	bool by_kind;	      /* kinds of mappings are known, not only files and the rest */
	bool by_mapping;      /* and so are rows */
	bool data_apart;      /* static data is a kind of its own, as in all but old traces */
	struct rss_row *row;
	size_t rows, row_room;
	double highest;	  /* the kernel's own maximum; 0: unknown */
	double live_peak; /* the most that was ever live: upper end of its interval; < 0: unknown */
};

/* Whether the trace records resident memory. */
bool rss_is_known(const struct mayfly_trace *trace);
/* For such traces. 0 or a negative enum mayfly_error; call rss_end() in both cases. */
int rss_begin(struct rss *r, const struct mayfly_trace *trace);
void rss_end(struct rss *r);

/* rss_rows.c: the rows, and the kinds of each moment. False: no memory. */
bool rss_find_rows(struct rss *r);

/* What the trace shows can be done about the part that matters most. False: nothing. */
bool rss_advice(const struct rss *r, const struct rss_moment *m, char *text, size_t size);

/* "function  file.c:12" of who called mmap. */
char *rss_mapper(char *buffer, size_t size, const struct rss *r, const struct mapped_row *row,
		 bool wide);

/* Members of an object that is open. */
void json_rss(struct json *j, const struct rss *r);

#endif
