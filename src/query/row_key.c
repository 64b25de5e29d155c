/* SPDX-License-Identifier: Apache-2.0 */
/* Equal rows of two answers: see row_key.h. */
#include "query/row_key.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int compare_words(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare_names(const char *a, const char *b)
{
	return a == b ? 0 : strcmp(a ? a : "", b ? b : "");
}

static int compare_places(const struct mayfly_place *a, const struct mayfly_place *b)
{
	int order = compare_words(a->address, b->address);

	if (!order)
		order = compare_words(a->line, b->line);
	if (!order)
		order = compare_words(a->kind, b->kind);
	if (!order)
		order = compare_words(a->inlined, b->inlined);
	if (!order)
		order = compare_words(a->first_char, b->first_char);
	if (!order)
		order = compare_words(a->last_char, b->last_char);
	if (!order)
		order = compare_names(a->function, b->function);
	if (!order)
		order = compare_names(a->file, b->file);
	return order ? order : compare_names(a->module, b->module);
}

static int compare_stacks(const struct mayfly_row *a, const struct mayfly_row *b)
{
	int order = compare_words(a->stack_length, b->stack_length);

	for (size_t i = 0; !order && i < a->stack_length; i++)
		order = compare_places(&a->stack[i], &b->stack[i]);
	return order;
}

/* File and module of a function are shown only where all its places agree, which two answers may see
 * differently: they are no part of its key, unless it has no name. */
static int compare_keys(const struct mayfly_row *a, const struct mayfly_row *b, enum mayfly_by by)
{
	int order = compare_names(a->function, b->function);

	if (!order)
		order = compare_words(a->line, b->line);
	if (!order)
		order = compare_words((uint64_t)a->low, (uint64_t)b->low);
	if (!order)
		order = compare_words((uint64_t)a->high, (uint64_t)b->high);
	if (!order)
		order = compare_words(a->thread, b->thread);
	if (!order)
		order = compare_words(a->free_thread, b->free_thread);
	if (!order && by == MAYFLY_BY_LINE)
		order = compare_names(a->file, b->file);
	if (!order && (by == MAYFLY_BY_MODULE || !*a->function))
		order = compare_names(a->module, b->module);
	return order ? order : compare_stacks(a, b);
}

struct keyed {
	const struct mayfly_row *row;
	size_t index;
	enum mayfly_by by;
};

static int compare_keyed(const void *x, const void *y)
{
	const struct keyed *a = x, *b = y;

	return compare_keys(a->row, b->row, a->by);
}

size_t *rows_pair(const struct mayfly_row *a, size_t a_rows, const struct mayfly_row *b,
		  size_t b_rows, enum mayfly_by by)
{
	struct keyed *sorted = calloc(b_rows + 1, sizeof(*sorted));
	size_t *pair = calloc(a_rows + 1, sizeof(*pair));

	if (!sorted || !pair) {
		free(sorted);
		free(pair);
		return NULL;
	}
	for (size_t i = 0; i < b_rows; i++)
		sorted[i] = (struct keyed){&b[i], i, by};
	if (b_rows)
		qsort(sorted, b_rows, sizeof(*sorted), compare_keyed);
	for (size_t i = 0; i < a_rows; i++) {
		struct keyed key = {&a[i], i, by}, *found = NULL;

		if (b_rows)
			found = bsearch(&key, sorted, b_rows, sizeof(*sorted), compare_keyed);
		pair[i] = found ? found->index : SIZE_MAX;
	}
	free(sorted);
	return pair;
}
