/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers that are arrays: view.h says how they look.
 *
 *	length | JSON {..., "arrays": {"parent": {"type", "offset", "count"}, ...}} | 0 | parent | ...
 */
#ifndef MAYFLY_VIEW_ARRAYS_H
#define MAYFLY_VIEW_ARRAYS_H

#include "answer/json_writer.h"

enum view_type { VIEW_U8, VIEW_U32, VIEW_F32, VIEW_F64 };

struct view_array {
	const char *name;
	enum view_type type;
};

/* One of them, where it lies in the answer: aligned for its type. */
union view_items {
	uint8_t *u8;
	uint32_t *u32;
	float *f32;
	double *f64;
};

/* Ends the document, whose outermost object is open, and moves it to *to, with room for the arrays:
 * `count` items each, all zero; items[i]: of list[i]. False: out of memory. */
bool view_arrays(struct json *j, const struct view_array *list, size_t arrays, size_t count,
		 struct bytes *to, union view_items *items);

#endif
