/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Track events of the events of OCaml's runtime. See runtime_rings.h.
 *
 *	phase			span "minor", "major/slice", ...
 *	counter			counter "minor/promoted", ...
 *	life			instant "domain_spawn", ...
 *	the program's own	span, counter (int) or instant, with the name that the program gave
 *
 * A part of a phase has a '/' in its name: "minor" and "major" are what the program waits for, as
 * in OCaml's eventlog (see is_pause()). The file does not say which OCaml wrote it. Numbers are
 * those of 5.3; later versions only add some.
 */
#include "ocaml_events/runtime_rings.h"

#include <stdlib.h>
#include <string.h>

static const char *const phases[] = {
    "explicit/gc_set",
    "explicit/gc_stat",
    "explicit/gc_minor",
    "explicit/gc_major",
    "explicit/gc_full_major",
    "explicit/gc_compact",
    "major",
    "major/sweep",
    "major/mark_roots",
    "major/memprof_roots",
    "major/mark",
    "minor",
    "minor/local_roots",
    "minor/memprof_roots",
    "minor/memprof_clean",
    "minor/finalized",
    "explicit/gc_major_slice",
    "finalise/update_first",
    "finalise/update_last",
    "interrupt_remote",
    "major/ephe_mark",
    "major/ephe_sweep",
    "major/finish_marking",
    "major/gc_cycle_domains",
    "major/gc_phase_change",
    "major/gc_stw",
    "major/mark_opportunistic",
    "major/slice",
    "major/finish_cycle",
    "minor/clear",
    "minor/finalizers_oldify",
    "minor/global_roots",
    "minor/leave_barrier",
    "stw/api_barrier",
    "stw/handler",
    "stw/leader",
    "major/finish_sweeping",
    "major/memprof_clean",
    "minor/finalizers_admin",
    "minor/remembered_set",
    "minor/remembered_set_promote",
    "minor/local_roots_promote",
    "domain/condition_wait",
    "domain/resize_heap_reservation",
    "compaction",
    "compaction/evacuate",
    "compaction/forward",
    "compaction/release",
    /* 5.4 */
    "empty_minor",
    "minor/ephe_clean",
};

static const char *const counters[] = {
    "force_minor/alloc_small",
    "force_minor/make_vect",
    "force_minor/set_minor_heap_size",
    "force_minor/memprof",
    "minor/promoted",
    "minor/allocated",
    "request_major/alloc_shr",
    "request_major/adjust_gc_speed",
    "request_minor/realloc_ref_table",
    "request_minor/realloc_ephe_ref_table",
    "request_minor/realloc_custom_table",
    "major/heap_pool_words",
    "major/heap_pool_live_words",
    "major/heap_large_words",
    "major/heap_pool_frag_words",
    "major/heap_pool_live_blocks",
    "major/heap_large_blocks",
    "major/heap_words",
    "major/allocated_words",
    "major/allocated_work",
    "major/dependent_work",
    "major/extra_work",
    "major/work_counter",
    "major/alloc_counter",
    "major/slice_target",
    "major/slice_budget",
    /* after 5.4 */
    "minor/allocated_words",
    "minor/promoted_words",
};

static const char *const lives[] = {
    "ring_start",  "ring_stop",	 "ring_pause",	 "ring_resume",
    "fork_parent", "fork_child", "domain_spawn", "domain_terminate",
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum list { PHASES, COUNTERS, LIVES, OWN_SPANS, OWN_COUNTERS, OWN_INSTANTS, LISTS };

struct named_type {
	struct mayfly_track_type type;
	char name[RUNTIME_NAME_BYTES];
};

/* The phases that a domain is in. */
struct lane {
	uint64_t last_ns;
	size_t depth;
	const struct mayfly_track_type *open[RUNTIME_DEPTH];
};

struct runtime_types {
	struct named_type **type[LISTS]; /* RUNTIME_NUMBERS of each, NULL until needed */
	struct mayfly_track_type lost;
	uint32_t domains;
	struct lane lane[];
};

struct runtime_types *runtime_types_new(uint32_t domains)
{
	struct runtime_types *t = calloc(1, sizeof(*t) + domains * sizeof(*t->lane));

	if (!t)
		return NULL;
	t->domains = domains;
	t->lost = (struct mayfly_track_type){
	    .name = RUNTIME_EVENTS_LOST,
	    .category = "ocaml",
	    .unit = "",
	    .kind = MAYFLY_TYPE_INSTANT,
	    .fields = 1,
	    .field = {{"words", MAYFLY_FIELD_UINT}},
	};
	return t;
}

void runtime_types_free(struct runtime_types *t)
{
	if (!t)
		return;
	for (int list = 0; list < LISTS; list++) {
		for (size_t i = 0; t->type[list] && i < RUNTIME_NUMBERS; i++)
			free(t->type[list][i]);
		free(t->type[list]);
	}
	free(t);
}

/* ---- types ---- */

static const char *known_name(enum list list, uint32_t number)
{
	switch (list) {
	case PHASES:
		return number < COUNT(phases) ? phases[number] : NULL;
	case COUNTERS:
		return number < COUNT(counters) ? counters[number] : NULL;
	case LIVES:
		return number < COUNT(lives) ? lives[number] : NULL;
	case OWN_SPANS:
	case OWN_COUNTERS:
	case OWN_INSTANTS:
	case LISTS:
		break;
	}
	return NULL;
}

/* "phase 99". The word is short. */
static void name_by_number(char *name, const char *word, uint32_t number)
{
	char digits[10];
	size_t used = 0;

	do
		digits[used++] = (char)('0' + number % 10);
	while (number /= 10);
	name = strcpy(name, word) + strlen(word);
	*name++ = ' ';
	while (used)
		*name++ = digits[--used];
	*name = 0;
}

static void name_type(struct named_type *n, const struct runtime_rings *r, enum list list,
		      uint32_t number)
{
	static const char *const words[LISTS] = {"phase", "counter", "life",
						 "event", "event",   "event"};
	const char *known = known_name(list, number);

	if (known)
		strcpy(n->name, known);
	else if (list >= OWN_SPANS)
		runtime_rings_name(r, number, n->name);
	if (!*n->name)
		name_by_number(n->name, words[list], number);
}

static const struct mayfly_track_type *
find_type(struct runtime_types *t, const struct runtime_rings *r, enum list list, uint32_t number)
{
	static const uint32_t kinds[LISTS] = {
	    [PHASES] = MAYFLY_TYPE_SPAN,	  [COUNTERS] = MAYFLY_TYPE_COUNTER,
	    [LIVES] = MAYFLY_TYPE_INSTANT,	  [OWN_SPANS] = MAYFLY_TYPE_SPAN,
	    [OWN_COUNTERS] = MAYFLY_TYPE_COUNTER, [OWN_INSTANTS] = MAYFLY_TYPE_INSTANT,
	};
	struct named_type *n;

	if (!t->type[list])
		t->type[list] = calloc(RUNTIME_NUMBERS, sizeof(*t->type[list]));
	if (!t->type[list])
		return NULL;
	if (t->type[list][number])
		return &t->type[list][number]->type;
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	name_type(n, r, list, number);
	n->type.name = n->name;
	n->type.category = list < OWN_SPANS ? "ocaml" : "";
	n->type.unit = "";
	n->type.kind = kinds[list];
	if (kinds[list] == MAYFLY_TYPE_COUNTER) {
		n->type.fields = 1;
		n->type.field[0].name = "value";
		n->type.field[0].type = list == COUNTERS ? MAYFLY_FIELD_UINT : MAYFLY_FIELD_INT;
	}
	t->type[list][number] = n;
	return &n->type;
}

static const struct mayfly_track_type *event_type(struct runtime_types *t,
						  const struct runtime_rings *r,
						  const struct runtime_event *e, uint32_t *kind)
{
	static const struct {
		enum list list;
		uint32_t kind;
	} ways[] = {
	    [RUNTIME_LIFE] = {LIVES, MAYFLY_TRACK_INSTANT},
	    [RUNTIME_BEGIN] = {PHASES, MAYFLY_TRACK_BEGIN},
	    [RUNTIME_END] = {PHASES, MAYFLY_TRACK_END},
	    [RUNTIME_COUNTER] = {COUNTERS, MAYFLY_TRACK_COUNT},
	    [RUNTIME_USER_UNIT] = {OWN_INSTANTS, MAYFLY_TRACK_INSTANT},
	    [RUNTIME_USER_INT] = {OWN_COUNTERS, MAYFLY_TRACK_COUNT},
	    [RUNTIME_USER_BEGIN] = {OWN_SPANS, MAYFLY_TRACK_BEGIN},
	    [RUNTIME_USER_END] = {OWN_SPANS, MAYFLY_TRACK_END},
	    [RUNTIME_USER_CUSTOM] = {OWN_INSTANTS, MAYFLY_TRACK_INSTANT},
	};

	*kind = ways[e->kind].kind;
	return find_type(t, r, ways[e->kind].list, e->number);
}

/* ---- phases in phases ---- */

/* Ends phases, the innermost first, until the domain is in `depth` of them. */
static size_t end_phases(struct lane *l, size_t depth, const struct runtime_track *like,
			 struct runtime_track *track)
{
	size_t count = 0;

	while (l->depth > depth) {
		track[count] = *like;
		track[count].kind = MAYFLY_TRACK_END;
		track[count].type = l->open[--l->depth];
		track[count++].value = 0;
	}
	return count;
}

size_t runtime_types_take(struct runtime_types *t, const struct runtime_rings *r,
			  const struct runtime_event *event,
			  struct runtime_track track[RUNTIME_TRACKS])
{
	struct runtime_track one = {
	    .mono_ns = event->mono_ns, .value = event->value, .domain = event->domain};
	struct lane *l;

	if (event->domain >= t->domains || event->number >= RUNTIME_NUMBERS)
		return 0;
	one.type = event_type(t, r, event, &one.kind);
	if (!one.type)
		return 0;
	l = &t->lane[event->domain];
	l->last_ns = event->mono_ns;
	if (event->kind == RUNTIME_END) {
		size_t depth = l->depth;

		while (depth && l->open[depth - 1] != one.type)
			depth--;
		return depth ? end_phases(l, depth - 1, &one, track) : 0;
	}
	if (event->kind == RUNTIME_BEGIN) {
		if (l->depth == RUNTIME_DEPTH)
			return 0;
		l->open[l->depth++] = one.type;
	}
	track[0] = one;
	return 1;
}

size_t runtime_types_lost(struct runtime_types *t, uint32_t domain, uint64_t words,
			  struct runtime_track track[RUNTIME_TRACKS])
{
	struct runtime_track one = {
	    .value = words, .domain = domain, .type = &t->lost, .kind = MAYFLY_TRACK_INSTANT};
	struct lane *l;
	size_t count;

	if (domain >= t->domains)
		return 0;
	l = &t->lane[domain];
	one.mono_ns = l->last_ns;
	count = end_phases(l, 0, &one, track);
	track[count++] = one;
	return count;
}
