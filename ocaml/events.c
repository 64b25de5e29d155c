/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events and labels of the program: the calls of mayfly/mayfly.h, with types of events that are
 * found by their names. For native programs and bytecode, with any runtime.
 *
 * No primitive here allocates on OCaml's heaps or raises. All run with the runtime lock held.
 */
#include "events.h"

#include <caml/mlvalues.h>
#include <mayfly/mayfly.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- types ---- */

enum kind { KIND_SPAN, KIND_INSTANT, KIND_COUNTER };

struct named {
	struct mayfly_event_type type;
	uint32_t number;
	struct named *next; /* of those with the same hash */
	char texts[];	    /* name, unit */
};

/* The agent has room for 4095 types; a program that invents more names gets no further types. */
#define TYPES_MAX 4096u
#define SLOTS	  1024u

static struct named *slot[SLOTS];
static uint32_t types;
/* Domains of OCaml 5 make types at the same time. */
static pthread_mutex_t types_lock = PTHREAD_MUTEX_INITIALIZER;

/* FNV-1a */
static uint32_t hash_name(uint32_t seed, const char *text, size_t length)
{
	uint32_t h = 2166136261u ^ seed;

	for (size_t i = 0; i < length; i++)
		h = (h ^ (uint8_t)text[i]) * 16777619u;
	return h ^ h >> 15;
}

static bool is_same(const struct named *n, enum kind kind, const char *field, const char *name,
		    const char *unit)
{
	return n->type.kind == kind && n->type.field[0] == field &&
	       strcmp(n->type.name, name) == 0 && strcmp(n->type.unit, unit) == 0;
}

static struct named *make(enum kind kind, const char *field, const char *name, const char *unit)
{
	size_t name_bytes = strlen(name) + 1, unit_bytes = strlen(unit) + 1;
	struct named *n;

	if (types == TYPES_MAX)
		return NULL;
	n = calloc(1, sizeof(*n) + name_bytes + unit_bytes);
	if (!n)
		return NULL;
	types++;
	memcpy(n->texts, name, name_bytes);
	memcpy(n->texts + name_bytes, unit, unit_bytes);
	n->type.number = &n->number;
	n->type.name = n->texts;
	n->type.unit = n->texts + name_bytes;
	n->type.kind = kind;
	n->type.field[0] = field;
	return n;
}

/* With types_lock held. NULL: there are too many. field is as in mayfly.h, and a literal: fields are compared by address. */
static const struct mayfly_event_type *find_or_make(enum kind kind, const char *field, value name,
						    const char *unit)
{
	const char *text = String_val(name);
	struct named **at = &slot[hash_name(kind, text, strlen(text)) % SLOTS];
	struct named *n;

	for (n = *at; n; n = n->next)
		if (is_same(n, kind, field, text, unit))
			return &n->type;
	n = make(kind, field, text, unit);
	if (!n)
		return NULL;
	n->next = *at;
	*at = n;
	return &n->type;
}

static const struct mayfly_event_type *find_type(enum kind kind, const char *field, value name,
						 const char *unit)
{
	const struct mayfly_event_type *type;

	pthread_mutex_lock(&types_lock);
	type = find_or_make(kind, field, name, unit);
	pthread_mutex_unlock(&types_lock);
	return type;
}

/* ---- calls ---- */

static const struct mayfly_agent_calls *calls(void)
{
	const struct mayfly_agent_calls *agent = mayfly_agent_();

	return agent ? agent : events_session();
}

static const struct mayfly_agent_calls *active(void)
{
	const struct mayfly_agent_calls *c = calls();

	return c && c->active() ? c : NULL;
}

CAMLprim value mayfly_ocaml_active(value unit)
{
	(void)unit;
	return Val_bool(active() != NULL);
}

/* The type, to be passed to mayfly_ocaml_span_end(); 0: no span has begun. A pointer from malloc is
 * even; with its lowest bit set it is an integer to OCaml. */
CAMLprim value mayfly_ocaml_span_begin(value name)
{
	const struct mayfly_agent_calls *c = active();
	const struct mayfly_event_type *type = c ? find_type(KIND_SPAN, NULL, name, "") : NULL;

	if (!type)
		return Val_long(0);
	c->span_begin(type, 0, 0, 0, 0);
	return (value)((intptr_t)type | 1);
}

CAMLprim value mayfly_ocaml_span_end(value begun)
{
	const struct mayfly_agent_calls *c = calls();

	if (c)
		c->span_end((const struct mayfly_event_type *)(begun & ~(intptr_t)1));
	return Val_unit;
}

CAMLprim value mayfly_ocaml_instant(value name)
{
	const struct mayfly_agent_calls *c = active();
	const struct mayfly_event_type *type = c ? find_type(KIND_INSTANT, NULL, name, "") : NULL;

	if (type)
		c->instant(type, 0, 0, 0, 0);
	return Val_unit;
}

static value counter(const char *field, value unit, value name, uint64_t bits)
{
	const struct mayfly_agent_calls *c = active();
	const struct mayfly_event_type *type =
	    c ? find_type(KIND_COUNTER, field, name, String_val(unit)) : NULL;

	if (type)
		c->counter(type, bits);
	return Val_unit;
}

CAMLprim value mayfly_ocaml_counter(value unit, value name, value number)
{
	static const char whole[] = MAYFLY_INT("value");

	return counter(whole, unit, name, (uint64_t)Long_val(number));
}

CAMLprim value mayfly_ocaml_counter_float(value unit, value name, double number)
{
	static const char fraction[] = MAYFLY_FLOAT("value");
	uint64_t bits;

	memcpy(&bits, &number, sizeof(bits));
	return counter(fraction, unit, name, bits);
}

CAMLprim value mayfly_ocaml_counter_float_boxed(value unit, value name, value number)
{
	return mayfly_ocaml_counter_float(unit, name, Double_val(number));
}

/* Labels are kept while recording is dormant, too, as later allocations have them. */
CAMLprim value mayfly_ocaml_label_push(value key, value text)
{
	const struct mayfly_agent_calls *c = calls();

	if (c)
		c->label_push(String_val(key), String_val(text));
	return Val_bool(c != NULL);
}

CAMLprim value mayfly_ocaml_label_pop(value unit)
{
	const struct mayfly_agent_calls *c = calls();

	(void)unit;
	if (c)
		c->label_pop();
	return Val_unit;
}
