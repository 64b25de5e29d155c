/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a process, looked at through a window: see heap_image.h. */
#include "heap/heap_image.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/search.h"

#define FIRST_BYTES 4096u /* of a window that nothing was read before */

const struct heap_map *heap_map_at(const struct heap_image *image, uint64_t address)
{
	size_t low = FIRST_THAT(i, 0, image->maps, image->map[i].end > address);

	return low < image->maps && image->map[low].start <= address ? &image->map[low] : NULL;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct heap_range *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

void heap_ranges_sort(struct heap_ranges *r)
{
	qsort(r->range, r->count, sizeof(*r->range), compare_ranges);
}

bool heap_window_begin(struct heap_window *w, const struct heap_image *image)
{
	*w = (struct heap_window){.image = image, .at = malloc(HEAP_WINDOW_BYTES)};
	return w->at != NULL;
}

void heap_window_end(struct heap_window *w)
{
	free(w->at);
	w->at = NULL;
}

const uint8_t *heap_window_see(struct heap_window *w, uint64_t address, size_t bytes,
			       uint64_t limit)
{
	uint64_t wanted = HEAP_WINDOW_BYTES, end;

	if (address >= w->start && address <= w->end && bytes <= w->end - address)
		return w->at + (address - w->start);
	if (bytes > HEAP_WINDOW_BYTES || __builtin_add_overflow(address, bytes, &end))
		return NULL;
	/* Far from the last look, more than is asked for may be wasted. */
	if (address < w->start || address > w->end + FIRST_BYTES)
		wanted = bytes > FIRST_BYTES ? bytes : FIRST_BYTES;
	if (limit > end && wanted > bytes)
		wanted = limit - address < wanted ? limit - address : wanted;
	else
		wanted = bytes;
	if (!w->image->read(w->image->context, address, w->at, (size_t)wanted)) {
		wanted = bytes;
		if (!w->image->read(w->image->context, address, w->at, bytes)) {
			w->start = w->end = 0;
			return NULL;
		}
	}
	w->start = address;
	w->end = address + wanted;
	return w->at;
}

bool heap_window_word(struct heap_window *w, uint64_t address, uint64_t limit, uint64_t *word)
{
	const uint8_t *at = heap_window_see(w, address, sizeof(uint64_t), limit);

	if (at)
		*word = bytes_load(at);
	return at != NULL;
}
