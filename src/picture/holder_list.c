/* SPDX-License-Identifier: Apache-2.0 */
/* Who may hold blocks: see holder_list.h. */
#include "picture/holder_list.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

uint32_t holder_list_add(struct holder_list *l, struct holder holder)
{
	if (l->count >= HEAP_HOLDERS_MOST - 1 ||
	    !array_reserve(&l->holder, &l->capacity, l->count, sizeof(*l->holder)))
		return HEAP_NONE;
	l->holder[l->count] = holder;
	return (uint32_t)l->count++;
}

bool holder_list_claim(struct holder_list *l, uint64_t start, uint64_t end, uint32_t holder)
{
	if (start >= end)
		return true;
	return ARRAY_ADD(l->claim, l->claim_capacity, l->claims,
			 (struct claim){start, end, holder});
}

bool holder_list_value(struct holder_list *l, uint64_t value, uint32_t holder)
{
	return ARRAY_ADD(l->value, l->value_capacity, l->values,
			 (struct heap_value){value, holder});
}

/* ---- variables ---- */

const char *holder_variable_name(struct demangle *names, const char *name)
{
	const char *readable = demangle_name(names, name);
	size_t length = readable ? strlen(readable) : 0, at = length;

	while (at && isdigit((unsigned char)readable[at - 1]))
		at--;
	if (at > 1 && at < length && readable[at - 1] == '.')
		return demangle_intern(names, readable, at - 1);
	return readable;
}

static bool is_writable(const struct data_symbols *d, uint64_t address)
{
	for (size_t i = 0; i < d->parts; i++)
		if (d->part[i].writable && address >= d->part[i].start &&
		    address - d->part[i].start < d->part[i].bytes)
			return true;
	return false;
}

static bool claim_variables(struct holder_list *l, const struct loaded_module *m,
			    struct demangle *names)
{
	const struct data_symbols *d = &m->symbols;

	for (size_t i = 0; i < d->thread_local_from; i++) {
		const struct data_symbol *v = &d->symbol[i];
		uint64_t start = m->bias + v->start;
		uint32_t holder;

		if (!is_writable(d, v->start) || (i && v->start == d->symbol[i - 1].start))
			continue;
		holder =
		    holder_list_add(l, (struct holder){.kind = HOLDER_VARIABLE,
						       .name = holder_variable_name(names, v->name),
						       .module = m->name,
						       .address = start,
						       .thread = ""});
		if (holder == HEAP_NONE || !l->holder[holder].name ||
		    !holder_list_claim(l, start, start + v->size, holder))
			return false;
	}
	return true;
}

bool holder_list_variables(struct holder_list *l, const struct loaded_modules *m,
			   struct demangle *names)
{
	for (size_t i = 0; i < m->count; i++)
		if (!claim_variables(l, &m->module[i], names))
			return false;
	return true;
}

/* ---- what is left of each mapping ---- */

/* Where the variables of a module are in the process. */
struct span {
	uint64_t start, end;
	const struct loaded_module *module;
	uint32_t holder; /* of what no symbol names */
};

struct spans {
	struct span *span;
	size_t count, capacity;
};

static int compare_spans(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static bool list_spans(struct holder_list *l, const struct loaded_modules *m, struct spans *s)
{
	for (size_t i = 0; i < m->count; i++) {
		const struct loaded_module *module = &m->module[i];
		uint32_t holder = holder_list_add(l, (struct holder){.kind = HOLDER_UNNAMED,
								     .name = "",
								     .module = module->name,
								     .thread = ""});

		if (holder == HEAP_NONE)
			return false;
		for (size_t k = 0; k < module->symbols.parts; k++) {
			const struct data_part *p = &module->symbols.part[k];
			uint64_t start = (module->bias + p->start) & ~4095ull;
			uint64_t end = (module->bias + p->start + p->bytes + 4095) & ~4095ull;

			if (!p->writable || end <= start)
				continue;
			if (!ARRAY_ADD(s->span, s->capacity, s->count,
				       (struct span){start, end, module, holder}))
				return false;
		}
	}
	if (s->count)
		qsort(s->span, s->count, sizeof(*s->span), compare_spans);
	return true;
}

static bool add_map(struct holder_list *l, uint64_t start, uint64_t end, enum heap_map_kind kind)
{
	if (start >= end)
		return true;
	return ARRAY_ADD(l->map, l->map_capacity, l->maps, (struct heap_map){start, end, kind});
}

static bool add_root(struct holder_list *l, uint64_t start, uint64_t end, uint32_t holder)
{
	if (start >= end || holder == HEAP_NONE)
		return true;
	return ARRAY_ADD(l->root, l->root_capacity, l->roots,
			 (struct heap_root){start, end, holder});
}

/* A part of a mapping, without what is claimed. *next: the first claim that may be in it. */
static bool add_rest(struct holder_list *l, uint64_t start, uint64_t end, uint32_t holder,
		     size_t *next)
{
	uint64_t at = start;

	for (; *next < l->claims && l->claim[*next].start < end; (*next)++) {
		const struct claim *c = &l->claim[*next];
		uint64_t from = c->start > at ? c->start : at;
		uint64_t until = c->end < end ? c->end : end;

		if (c->end <= at)
			continue;
		if (!add_root(l, at, from, holder) || !add_root(l, from, until, c->holder))
			return false;
		at = until;
		if (c->end > end)
			break; /* it goes on in the next part */
	}
	return add_root(l, at, end, holder);
}

static int compare_claims(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;

	if (x->start != y->start)
		return (x->start > y->start) - (x->start < y->start);
	return (x->end < y->end) - (x->end > y->end);
}

static int compare_roots(const void *a, const void *b)
{
	const struct heap_root *x = a, *y = b;

	if (x->holder != y->holder)
		return (x->holder > y->holder) - (x->holder < y->holder);
	return (x->start > y->start) - (x->start < y->start);
}

static int compare_values(const void *a, const void *b)
{
	const struct heap_value *x = a, *y = b;

	return (x->holder > y->holder) - (x->holder < y->holder);
}

/* The holder of what nobody has claimed of a mapping. */
static uint32_t holder_of_map(struct holder_list *l, const struct process_map *m,
			      struct demangle *names)
{
	char text[4200];
	bool has_name = *m->path;

	if (*m->path && *m->path != '[')
		snprintf(text, sizeof(text), "%s", m->path);
	else if (!strcmp(m->path, "[heap]"))
		snprintf(text, sizeof(text), "memory from brk()");
	else if (!strcmp(m->path, "[stack]"))
		snprintf(text, sizeof(text), "the first stack");
	else
		snprintf(text, sizeof(text),
			 "mapping of %.1f MiB", /* no address: it is for traces */
			 (double)(m->end - m->start) / (1 << 20));
	return holder_list_add(l,
			       (struct holder){.kind = HOLDER_MAPPING,
					       .name = demangle_intern(names, text, strlen(text)),
					       .module = "",
					       .address = has_name ? 0 : m->start,
					       .thread = ""});
}

static enum heap_map_kind kind_of_map(const struct process_map *m)
{
	if (!strcmp(m->path, "[heap]"))
		return HEAP_MAP_BREAK;
	return process_map_is_anonymous(m) ? HEAP_MAP_ANONYMOUS : HEAP_MAP_OTHER;
}

static bool add_map_parts(struct holder_list *l, const struct process_map *m,
			  const struct spans *spans, struct demangle *names, size_t *next)
{
	uint64_t at = m->start;
	uint32_t rest = HEAP_NONE;

	while (at < m->end) {
		const struct span *in = NULL;
		uint64_t until = m->end;

		for (size_t i = 0; i < spans->count; i++) {
			const struct span *s = &spans->span[i];

			if (s->end <= at || s->start >= m->end)
				continue;
			if (s->start > at)
				until = s->start;
			else
				in = s;
			break;
		}
		if (in)
			until = in->end < m->end ? in->end : m->end;
		if (!in && !m->writable) {
			at = until;
			continue;
		}
		if (!in && rest == HEAP_NONE)
			rest = holder_of_map(l, m, names);
		if (!in && rest == HEAP_NONE)
			return false;
		if (!add_map(l, at, until,
			     !in		   ? kind_of_map(m)
			     : in->module->is_libc ? HEAP_MAP_LIBC
						   : HEAP_MAP_DATA) ||
		    !add_rest(l, at, until, in ? in->holder : rest, next))
			return false;
		at = until;
	}
	return true;
}

bool holder_list_finish(struct holder_list *l, const struct memory_source *s,
			const struct loaded_modules *m, struct demangle *names)
{
	struct spans spans = {0};
	size_t next = 0;
	bool good = list_spans(l, m, &spans);

	if (l->claims)
		qsort(l->claim, l->claims, sizeof(*l->claim), compare_claims);
	for (size_t i = 0; i < s->maps.count && good; i++) {
		const struct process_map *map = &s->maps.map[i];

		if (!process_maps_has_pointers(&s->maps, i))
			continue;
		good = add_map_parts(l, map, &spans, names, &next);
	}
	free(spans.span);
	if (good && l->roots)
		qsort(l->root, l->roots, sizeof(*l->root), compare_roots);
	if (good && l->values)
		qsort(l->value, l->values, sizeof(*l->value), compare_values);
	return good;
}

void holder_list_free(struct holder_list *l)
{
	free(l->holder);
	free(l->claim);
	free(l->value);
	free(l->root);
	free(l->map);
	*l = (struct holder_list){0};
}
