/* SPDX-License-Identifier: Apache-2.0 */
/* A picture of a heap as text and as JSON. Each returns an exit status. */
#ifndef MAYFLY_HEAP_PRINT_H
#define MAYFLY_HEAP_PRINT_H

#include "answer/json_writer.h"
#include "cli/heap/heap_rows.h"
#include "terminal/output.h"

enum heap_by { HEAP_BY_HOLDER, HEAP_BY_TYPE };

struct heap_view {
	struct output out;
	enum heap_by by;
	bool by_given;
	bool waste, strings;
	size_t top;
};

/* A cell with a name, cut to so many columns unless lines may be wide. */
#define HEAP_NAME_COLUMNS 34
void heap_put_name(struct table *t, const struct heap_view *view, const char *name, size_t columns);

int heap_print_text(const struct picture *p, const struct heap_view *view);
int heap_print_json(const struct picture *p);
/* Members of an object that is open. */
void heap_json_holder(struct json *j, const struct holder *h);

/* The part of the text that says what is wasted, in place of who holds what. False: out of memory. */
bool heap_print_waste(const struct picture *p, const struct heap_view *view,
		      const struct heap_rows *rows);
struct heap_waste_sum heap_waste_all(const struct picture *p);

#endif
