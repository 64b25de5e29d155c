/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that are arrays: see view_arrays.h. */
#include "view/view_arrays.h"

#include <string.h>

static const struct {
	const char *name;
	size_t bytes;
} types[] = {[VIEW_U8] = {"u8", 1},
	     [VIEW_U32] = {"u32", 4},
	     [VIEW_F32] = {"f32", 4},
	     [VIEW_F64] = {"f64", 8}};

/* What "arrays" takes at most, for one of them and besides: numbers have up to 20 digits. */
#define ARRAY_TEXT 160
#define ALIGNMENT  8

static size_t aligned(size_t size)
{
	return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arrays are copied as they are");

bool view_arrays(struct json *j, const struct view_array *list, size_t arrays, size_t count,
		 struct bytes *to, union view_items *items)
{
	size_t first, offset;
	uint8_t *at;

	first = offset = aligned(4 + j->bytes.used + (arrays + 1) * ARRAY_TEXT);
	json_object(j, "arrays");
	for (size_t i = 0; i < arrays; i++) {
		json_object(j, list[i].name);
		json_text(j, "type", types[list[i].type].name);
		json_unsigned(j, "offset", offset);
		json_unsigned(j, "count", count);
		json_end(j);
		offset += aligned(count * types[list[i].type].bytes);
	}
	json_end(j);
	json_end(j);
	at = j->bytes.failed || j->bytes.used + 4 > first ? NULL : bytes_extend(to, offset);
	if (at) {
		memset(at, 0, offset);
		for (int i = 0; i < 4; i++)
			at[i] = (uint8_t)(j->bytes.used >> 8 * i);
		memcpy(at + 4, j->bytes.at, j->bytes.used);
		to->used += offset;
	}
	for (size_t i = 0; at && i < arrays; i++) {
		items[i].u8 = at + first;
		first += aligned(count * types[list[i].type].bytes);
	}
	bytes_free(&j->bytes);
	return at != NULL;
}
