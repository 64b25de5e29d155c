/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work of OCaml's garbage collector, as spans and counters of the thread that it runs in. The
 * runtime calls hooks, which are variables that any program may set:
 *
 *	caml_minor_gc_begin_hook, ..._end_hook		span "minor"
 *	caml_major_slice_begin_hook, ..._end_hook	span "major"
 *	caml_finalise_begin_hook, ..._end_hook		span "finalise"
 *
 * OCaml's eventlog calls these phases "minor" and "major", too. A hook that was set before is
 * called from ours; one that is set later takes our place, or calls us. In OCaml 5 each domain
 * calls them in its own thread.
 *
 * In OCaml 4, after each collection, counters give the figures that have changed, named as in Gc.stat. They are
 * read from the runtime's memory: asking the runtime would allocate, which a hook must not.
 */
#include "agent/ocaml/ocaml_gc.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "agent/events/tracks.h"
#include "agent/ocaml/ocaml_look_up.h"

typedef void timing_hook(void);

/* ---- figures ---- */

/* In Caml_state of 4.13 and 4.14 every field takes 8 bytes. */
enum {
	STATE_PROMOTED_WORDS = 38, /* a double */
	STATE_MINOR_COLLECTIONS = 40,
	STATE_MAJOR_COLLECTIONS = 41,
	STATE_HEAP_WORDS = 42,
	STATE_COMPACTIONS = 44,
};

#define COUNTER(text)                                                                              \
	{                                                                                          \
		.name = (text), .category = "ocaml", .unit = "", .kind = SPOOL_TYPE_COUNTER,       \
		.fields = 1, .field = {{SPOOL_UINT, "value"}},                                     \
	}

static struct figure {
	uint32_t at; /* field of Caml_state */
	bool is_double;
	uint64_t last;
	struct track_type type;
} figures[] = {
    {.at = STATE_MINOR_COLLECTIONS, .type = COUNTER("minor_collections")},
    {.at = STATE_PROMOTED_WORDS, .is_double = true, .type = COUNTER("promoted_words")},
    {.at = STATE_MAJOR_COLLECTIONS, .type = COUNTER("major_collections")},
    {.at = STATE_HEAP_WORDS, .type = COUNTER("heap_words")},
    {.at = STATE_COMPACTIONS, .type = COUNTER("compactions")},
};

static uint64_t *const *state; /* Caml_state; NULL: where its figures lie is not known */

static uint64_t read_figure(const struct figure *f)
{
	uint64_t bits = (*state)[f->at];
	double number;

	if (!f->is_double)
		return bits;
	memcpy(&number, &bits, sizeof(number));
	return number >= 0 && number < 0x1p63 ? (uint64_t)number : 0;
}

static void add_figures(void)
{
	if (!state || !tracks_wanted())
		return;
	for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++) {
		struct figure *f = &figures[i];
		uint64_t value = read_figure(f);

		if (value == f->last)
			continue;
		f->last = value;
		tracks_add(SPOOL_COUNT, &f->type, &value, NULL);
	}
}

/* ---- hooks ---- */

#define PHASE(text)                                                                                \
	{                                                                                          \
		.name = (text), .category = "ocaml", .unit = "", .kind = SPOOL_TYPE_SPAN           \
	}

static struct phase {
	const char *begin_name, *end_name;
	timing_hook *begin_before, *end_before; /* of somebody else, or NULL */
	struct track_type type;
} minor = {"caml_minor_gc_begin_hook", "caml_minor_gc_end_hook", NULL, NULL, PHASE("minor")},
  major = {"caml_major_slice_begin_hook", "caml_major_slice_end_hook", NULL, NULL, PHASE("major")},
  finalise = {"caml_finalise_begin_hook", "caml_finalise_end_hook", NULL, NULL, PHASE("finalise")};

static void begin_phase(struct phase *p)
{
	tracks_add(SPOOL_BEGIN, &p->type, NULL, NULL);
	if (p->begin_before)
		p->begin_before();
}

static void end_phase(struct phase *p)
{
	if (p->end_before)
		p->end_before();
	tracks_add(SPOOL_END, &p->type, NULL, NULL);
}

void (*ocaml_gc_minor_begun)(void);
void (*ocaml_gc_minor_ended)(void);

static void minor_begins(void)
{
	begin_phase(&minor);
	if (ocaml_gc_minor_begun)
		ocaml_gc_minor_begun();
}

static void minor_ends(void)
{
	end_phase(&minor);
	add_figures();
	if (ocaml_gc_minor_ended)
		ocaml_gc_minor_ended();
}

static void major_begins(void)
{
	begin_phase(&major);
}

static void major_ends(void)
{
	end_phase(&major);
	add_figures();
}

/* A finaliser that raises an exception ends the phase without a call of the end hook. */
static __thread bool in_finalise;

static void finalise_begins(void)
{
	if (in_finalise)
		tracks_add(SPOOL_END, &finalise.type, NULL, NULL);
	in_finalise = true;
	begin_phase(&finalise);
}

static void finalise_ends(void)
{
	in_finalise = false;
	end_phase(&finalise);
}

/* Sets both hooks or none, as half of a span is useless. Our hook must not be kept as the one that
 * it calls. */
static void set_hooks(struct phase *p, timing_hook *on_begin, timing_hook *on_end)
{
	timing_hook **begin_hook = ocaml_look_up(p->begin_name, NULL);
	timing_hook **end_hook = ocaml_look_up(p->end_name, NULL);

	if (!begin_hook || !end_hook || *begin_hook == on_begin || *end_hook == on_end)
		return;
	p->begin_before = *begin_hook;
	p->end_before = *end_hook;
	__atomic_store_n(end_hook, on_end, __ATOMIC_RELEASE);
	__atomic_store_n(begin_hook, on_begin, __ATOMIC_RELEASE);
}

void ocaml_gc_start(bool with_figures)
{
	if (with_figures)
		state = ocaml_look_up("Caml_state", NULL);
	set_hooks(&minor, minor_begins, minor_ends);
	set_hooks(&major, major_begins, major_ends);
	set_hooks(&finalise, finalise_begins, finalise_ends);
}
