/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_labels.c: sets of labels, as rows and as a filter.
 *
 *	set 1: tenant=a			by tenant: slot 1 "a"	by the whole set: slot 1
 *	set 2: tenant=a phase=load		   slot 1			  slot 2
 *	set 3: phase=load			   slot 0 ""			  slot 3
 */
#include "query/query.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* The label of the set with this key that counts, or NULL. */
static const struct mayfly_label *find_label(const struct mayfly_trace *t, size_t set,
					     const char *key)
{
	size_t count;
	const struct mayfly_label *label = mayfly_trace_labels(t, set, &count);

	while (count-- > 0)
		if (strcmp(label[count].key, key) == 0)
			return &label[count];
	return NULL;
}

/* ---- rows ---- */

static const char *row_text(const struct query_state *s, size_t set)
{
	const struct mayfly_label *label;

	if (!s->query->label_key)
		return mayfly_trace_label_text(s->trace, set);
	label = find_label(s->trace, set, s->query->label_key);
	return label ? label->value : "";
}

static bool asks_for_rows(const struct query_state *s)
{
	return s->query->by == MAYFLY_BY_LABEL || (s->site_of && s->site_by == MAYFLY_BY_LABEL);
}

/* Sets with the same text share a slot. */
static bool make_slots(struct query_state *s)
{
	size_t sets = s->info->label_sets;
	struct interner slots = {0};

	s->label_slot = query_zeroed(s, sets, sizeof(*s->label_slot));
	s->label_text = query_zeroed(s, sets, sizeof(*s->label_text));
	for (size_t i = 0; i < sets && !s->error; i++) {
		uint32_t text = query_text(s, row_text(s, i)), slot;
		bool fresh;

		slot = interner_add(&slots, (struct key){{text}}, &fresh);
		if (slot == NONE) {
			query_fail(s, MAYFLY_E_MEMORY);
			break;
		}
		s->label_slot[i] = slot;
		s->label_text[slot] = text;
	}
	s->label_slots = slots.count;
	interner_free(&slots);
	return !s->error;
}

uint32_t query_label_slot(const struct query_state *s, uint32_t set)
{
	return s->label_slot[set < s->info->label_sets ? set : 0];
}

/* ---- the filter ---- */

/* The matcher's result for each label; it is asked once. */
struct verdicts {
	struct interner labels;
	uint8_t *verdict;
	size_t room;
	char *text;
	size_t text_room;
};

static bool labels_ask(struct query_state *s, struct verdicts *v, const struct mayfly_label *label)
{
	const struct mayfly_match *match = &s->query->label;
	size_t key = strlen(label->key), value = strlen(label->value);

	if (!array_reserve(&v->text, &v->text_room, key + value + 1, 1))
		return query_fail(s, MAYFLY_E_MEMORY);
	memcpy(v->text, label->key, key);
	v->text[key] = '=';
	memcpy(v->text + key + 1, label->value, value + 1);
	return match->matches(match->context, v->text) != 0;
}

static bool label_matches(struct query_state *s, struct verdicts *v,
			  const struct mayfly_label *label)
{
	struct key key = {{(uintptr_t)label->key, (uintptr_t)label->value}};
	bool fresh;
	uint32_t number = interner_add(&v->labels, key, &fresh);

	if (number == NONE || !array_reserve(&v->verdict, &v->room, number, 1))
		return query_fail(s, MAYFLY_E_MEMORY);
	if (fresh)
		v->verdict[number] = labels_ask(s, v, label);
	return v->verdict[number];
}

static bool keep_sets(struct query_state *s)
{
	struct verdicts v = {0};

	s->label_kept = query_zeroed(s, s->info->label_sets, 1);
	for (size_t i = 0; i < s->info->label_sets && !s->error; i++) {
		size_t count;
		const struct mayfly_label *label = mayfly_trace_labels(s->trace, i, &count);

		for (size_t k = 0; k < count && !s->error; k++)
			if (find_label(s->trace, i, label[k].key) == &label[k])
				s->label_kept[i] |= label_matches(s, &v, &label[k]);
	}
	interner_free(&v.labels);
	free(v.verdict);
	free(v.text);
	return !s->error;
}

bool query_prepare_labels(struct query_state *s)
{
	if (asks_for_rows(s) && !make_slots(s))
		return false;
	return !s->query->label.matches || keep_sets(s);
}
