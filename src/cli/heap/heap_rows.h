/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a picture of a heap: each holder, what several hold together, and what is lost. */
#ifndef MAYFLY_HEAP_ROWS_H
#define MAYFLY_HEAP_ROWS_H

#include "picture/holder_text.h"

enum heap_row_kind { HEAP_ROW_HOLDER, HEAP_ROW_SHARED, HEAP_ROW_LOST };

struct heap_row {
	enum heap_row_kind kind;
	uint32_t holder; /* in picture.holders */
	uint32_t group;	 /* in picture.shared */
	struct heap_total total;
	struct heap_stage stage[HEAP_STAGES];
	struct heap_waste_sum waste;
};

struct heap_rows {
	struct heap_row *row; /* the largest first, then what is lost */
	size_t count;
};

/* At most `most` rows have their stages. False: out of memory. */
bool heap_rows_make(struct heap_rows *rows, const struct picture *p, size_t most);
void heap_rows_free(struct heap_rows *rows);

/* Texts into a caller's buffer, which they return. */
#define HEAP_NAME_TEXT HOLDER_TEXT
/* "g_a, g_b and 2 others together" */
char *heap_row_text(char *buffer, size_t size, const struct picture *p, const struct heap_row *row);
/* "Session", "48-byte blocks" */
char *heap_kind_text(char *buffer, size_t size, const struct picture *p, struct heap_kind kind,
		     const struct heap_total *total);
const char *heap_holder_kind_word(enum holder_kind kind); /* for JSON */

#endif
