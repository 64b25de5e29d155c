/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow. */
#ifndef MAYFLY_ARRAY_H
#define MAYFLY_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

/* Makes room for item number `count` of the array that the pointer at `array` points to. False: no
 * memory, and nothing has changed. */
bool array_reserve(void *array, size_t *capacity, size_t count, size_t item_bytes);
/* Adds an item, the last argument, to an array of `count` ones. False: no memory. */
#define ARRAY_ADD(array, capacity, count, ...)                                                     \
	(array_reserve(&(array), &(capacity), count, sizeof(*(array))) &&                          \
	 ((array)[(count)++] = __VA_ARGS__, true))
/* Sets the bytes of new items to `fill`. */
bool array_reserve_filled(void *array, size_t *capacity, size_t count, size_t item_bytes, int fill);

#endif
