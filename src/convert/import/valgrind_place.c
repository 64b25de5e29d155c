/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places in code: see valgrind_place.h.
 *
 *	0x109179: leaf(int, char) (src/l.cc:4)		Rust's dhat has the column, too (l.rs:4:17)
 *	0x4848899: malloc (in /usr/lib/x.so)		no debug information
 *
 * Nothing tells which build of a file it was, nor where it began. So functions are told apart by name and
 * line, and addresses only count where there is no name.
 */
#include "convert/import/valgrind_place.h"

#include <stdlib.h>
#include <string.h>

#define NONE RECORDING_NONE

struct word {
	const char *at;
	size_t length;
};

static bool is_unknown(struct word w)
{
	return !w.length || (w.length == 3 && memcmp(w.at, "???", 3) == 0);
}

static uint32_t intern(struct heap_profile *p, struct word w)
{
	import_spend(p->in, w.length / 16 + 1);
	return is_unknown(w) ? 0 : recording_string(p->in->tables, w.at, w.length);
}

/* Cuts off ":digits" at the end. */
static bool cut_number(struct word *w, uint32_t *number)
{
	size_t at = w->length;
	uint64_t value = 0;

	while (at && w->at[at - 1] >= '0' && w->at[at - 1] <= '9')
		at--;
	if (!at || at == w->length || w->at[at - 1] != ':' || w->length - at > 9)
		return false;
	for (size_t i = at; i < w->length; i++)
		value = value * 10 + (uint64_t)(w->at[i] - '0');
	*number = (uint32_t)value;
	w->length = at - 1;
	return true;
}

#define PATHS 64

/* Paths are few, so only the last of them are looked at. */
static uint32_t module_of(struct heap_profile *p, struct word path)
{
	struct recording *t = p->in->tables;
	uint32_t name = intern(p, path);

	for (size_t i = t->modules; i && t->modules - i < PATHS; i--)
		if (t->module[i - 1].path == name)
			return (uint32_t)i - 1;
	return import_module(p->in, (struct recording_module){.path = name}, 0);
}

/* What is in parentheses: "in PATH" or "FILE:LINE". */
static uint32_t take_where(struct heap_profile *p, struct word where,
			   struct recording_location *place)
{
	uint32_t column;

	if (where.length > 3 && memcmp(where.at, "in ", 3) == 0)
		return module_of(p, (struct word){where.at + 3, where.length - 3});
	if (cut_number(&where, &place->line) && cut_number(&where, &column))
		place->line = column; /* this was the line, and that the column */
	place->file = intern(p, where);
	return NONE;
}

/* Cuts off " (...)" at the end; a path may have parentheses itself. */
static struct word cut_where(struct word *name)
{
	struct word where = {"", 0};
	const char *open = name->at + name->length;
	unsigned depth = 0;

	if (!name->length || open[-1] != ')')
		return where;
	do {
		open--;
		depth += *open == ')';
		depth -= *open == '(';
	} while (open > name->at && depth);
	if (open <= name->at + 1 || open[-1] != ' ')
		return where;
	where = (struct word){open + 1, (size_t)(name->at + name->length - open) - 2};
	name->length = (size_t)(open - 1 - name->at);
	return where;
}

uint32_t valgrind_place(struct heap_profile *p, const char *text, size_t length)
{
	struct recording_location place = {0};
	struct word name = {text, length};
	const char *colon = memmem(text, length, ": ", 2);
	uint64_t address = 0;
	uint32_t module;

	if (length > 2 && memcmp(text, "0x", 2) == 0 && colon) {
		for (const char *at = text + 2; at < colon; at++)
			address = address << 4 | (uint64_t)((*at & 15) + (*at > '9' ? 9 : 0));
		name = (struct word){colon + 2, length - (size_t)(colon + 2 - text)};
	}
	module = take_where(p, cut_where(&name), &place);
	if (is_unknown(name))
		return import_frame(p->in, module, address);
	place.function = intern(p, name);
	return heap_profile_named(p, module, &place);
}
