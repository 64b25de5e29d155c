/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a picture of a heap: see heap_rows.h. */
#include "cli/heap/heap_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer/figures.h"
#include "answer/text_format.h"
#include "base/array.h"

/* ---- rows ---- */

static int compare_rows(const void *a, const void *b)
{
	const struct heap_row *x = a, *y = b;

	if ((x->kind == HEAP_ROW_LOST) != (y->kind == HEAP_ROW_LOST))
		return (x->kind == HEAP_ROW_LOST) - (y->kind == HEAP_ROW_LOST);
	if (x->total.bytes != y->total.bytes)
		return (x->total.bytes < y->total.bytes) - (x->total.bytes > y->total.bytes);
	if (x->kind != y->kind)
		return (int)x->kind - (int)y->kind;
	return (x->holder > y->holder) - (x->holder < y->holder);
}

static bool add_row(struct heap_rows *rows, size_t *capacity, struct heap_row row)
{
	if (!row.total.blocks && row.kind != HEAP_ROW_LOST)
		return true;
	if (!array_reserve(&rows->row, capacity, rows->count, sizeof(*rows->row)))
		return false;
	rows->row[rows->count++] = row;
	return true;
}

static struct heap_total total_of(const struct picture *p, uint32_t holder)
{
	uint32_t number = heap_graph_holder(&p->graph, holder);

	return (struct heap_total){p->graph.retained[number], p->graph.retained_blocks[number]};
}

static bool add_rows(struct heap_rows *rows, const struct picture *p)
{
	size_t capacity = 0;

	for (uint32_t i = 0; i < p->holders.count; i++)
		if (!add_row(rows, &capacity,
			     (struct heap_row){.kind = HEAP_ROW_HOLDER,
					       .holder = i,
					       .group = HEAP_NONE,
					       .total = total_of(p, i)}))
			return false;
	for (uint32_t i = 0; i < p->shared.groups; i++)
		if (!add_row(rows, &capacity,
			     (struct heap_row){
				 .kind = HEAP_ROW_SHARED,
				 .holder = HEAP_NONE,
				 .group = i,
				 .total = {p->shared.group[i].bytes, p->shared.group[i].blocks}}))
			return false;
	return add_row(rows, &capacity,
		       (struct heap_row){.kind = HEAP_ROW_LOST,
					 .holder = (uint32_t)p->holders.count,
					 .group = HEAP_NONE,
					 .total = total_of(p, (uint32_t)p->holders.count)});
}

/* Which row a top belongs to. */
struct slots {
	const struct picture *p;
	uint32_t *of_holder, *of_group;
};

static uint32_t slot_of(void *context, uint32_t top)
{
	const struct slots *s = context;
	uint32_t holder = heap_graph_holder_of(&s->p->graph, top), group;

	if (holder != HEAP_NONE)
		return s->of_holder[holder];
	group = heap_shared_group(&s->p->shared, top);
	return group != HEAP_NONE ? s->of_group[group] : HEAP_NONE;
}

static void free_slots(struct slots *s)
{
	free(s->of_holder);
	free(s->of_group);
}

/* The first of the `wanted` slots belong to the first rows, the last one to what is lost. */
static bool make_slots(struct slots *s, const struct heap_rows *rows, const struct picture *p,
		       size_t wanted)
{
	*s = (struct slots){
	    .p = p,
	    .of_holder = malloc((p->holders.count + 1) * sizeof(uint32_t)),
	    .of_group = malloc((p->shared.groups + 1) * sizeof(uint32_t)),
	};
	if (!s->of_holder || !s->of_group)
		return false;
	for (size_t i = 0; i <= p->holders.count; i++)
		s->of_holder[i] = HEAP_NONE;
	for (size_t i = 0; i < p->shared.groups; i++)
		s->of_group[i] = HEAP_NONE;
	for (uint32_t i = 0; i < rows->count; i++) {
		/* What is lost is the last row. */
		uint32_t slot = rows->row[i].kind == HEAP_ROW_LOST ? (uint32_t)wanted - 1 : i;

		if (i >= wanted - 1 && rows->row[i].kind != HEAP_ROW_LOST)
			continue;
		if (rows->row[i].kind == HEAP_ROW_SHARED)
			s->of_group[rows->row[i].group] = slot;
		else
			s->of_holder[rows->row[i].holder] = slot;
	}
	return true;
}

static bool find_stages(struct heap_rows *rows, const struct picture *p, size_t most)
{
	size_t wanted = rows->count < most ? rows->count : most;
	struct heap_stage *stage = calloc(wanted + 1, HEAP_STAGES * sizeof(*stage));
	struct slots slots;
	bool good = make_slots(&slots, rows, p, wanted) && stage &&
		    heap_stages_find(&p->graph, slot_of, &slots, wanted, stage);

	for (size_t i = 0; good && i < wanted; i++)
		memcpy(rows->row[i + 1 < wanted ? i : rows->count - 1].stage,
		       stage + i * HEAP_STAGES, HEAP_STAGES * sizeof(*stage));
	free_slots(&slots);
	free(stage);
	return good;
}

static bool find_waste(struct heap_rows *rows, const struct picture *p)
{
	struct heap_waste_sum *sum = calloc(rows->count, sizeof(*sum));
	struct slots slots;
	bool good = make_slots(&slots, rows, p, rows->count) && sum;

	if (good)
		heap_graph_waste(&p->graph, slot_of, &slots, sum);
	for (size_t i = 0; good && i < rows->count; i++)
		rows->row[i].waste = sum[i];
	free_slots(&slots);
	free(sum);
	return good;
}

bool heap_rows_make(struct heap_rows *rows, const struct picture *p, size_t most)
{
	bool good;

	*rows = (struct heap_rows){0};
	good = add_rows(rows, p);
	if (good)
		qsort(rows->row, rows->count, sizeof(*rows->row), compare_rows);
	good = good && find_stages(rows, p, most + 1) &&
	       (!p->graph.waste.blocks || find_waste(rows, p));
	if (!good)
		heap_rows_free(rows);
	return good;
}

void heap_rows_free(struct heap_rows *rows)
{
	free(rows->row);
	*rows = (struct heap_rows){0};
}

/* ---- texts ---- */

const char *heap_holder_kind_word(enum holder_kind kind)
{
	switch (kind) {
	case HOLDER_VARIABLE:
		return "variable";
	case HOLDER_THREAD_LOCAL:
		return "thread-local";
	case HOLDER_UNNAMED:
		return "variables without names";
	case HOLDER_STACK:
		return "stack";
	case HOLDER_REGISTERS:
		return "registers";
	case HOLDER_THREAD:
		return "thread";
	case HOLDER_MAPPING:
		return "mapping";
	}
	return "";
}

char *heap_row_text(char *buffer, size_t size, const struct picture *p, const struct heap_row *row)
{
	switch (row->kind) {
	case HEAP_ROW_HOLDER:
		return holder_text(buffer, size, &p->holders.holder[row->holder]);
	case HEAP_ROW_SHARED:
		return holders_text(buffer, size, p, p->shared.group[row->group].holders);
	case HEAP_ROW_LOST:
		break;
	}
	return text_format(buffer, size, "nothing: lost");
}

char *heap_kind_text(char *buffer, size_t size, const struct picture *p, struct heap_kind kind,
		     const struct heap_total *total)
{
	char bytes[FIGURE_TEXT], least[FIGURE_TEXT];

	if (kind.type)
		return text_format(buffer, size, "%s", p->type_name[kind.type - 1]);
	if (total && total->blocks == 1)
		return text_format(buffer, size, "one block of %s",
				   text_bytes(bytes, sizeof(bytes), (double)total->bytes));
	if (kind.bytes <= HEAP_EXACT_MOST)
		return text_format(buffer, size, "%llu-byte blocks",
				   (unsigned long long)kind.bytes);
	return text_format(buffer, size, "blocks of %s to %s",
			   text_bytes(least, sizeof(least), (double)kind.bytes / 2),
			   text_bytes(bytes, sizeof(bytes), (double)kind.bytes));
}
