/* SPDX-License-Identifier: Apache-2.0 */
/* Distinct texts: see texts.h. */
#include "answer/texts.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"

static uint64_t hash_of_text(const void *texts, uint32_t number)
{
	return hash_string(((const struct texts *)texts)->text[number]);
}

static bool text_equals(const void *texts, uint32_t number, const void *text)
{
	return strcmp(((const struct texts *)texts)->text[number], text) == 0;
}

uint32_t texts_number(struct texts *t, const char *text)
{
	uint32_t *slot;

	if (!hash_index_reserve(&t->index, t->count, hash_of_text, t))
		return TEXTS_FAILED;
	slot = hash_index_find(&t->index, hash_string(text), text_equals, t, text);
	if (*slot)
		return *slot - 1;
	if (!array_reserve(&t->text, &t->capacity, t->count, sizeof(*t->text)))
		return TEXTS_FAILED;
	t->text[t->count] = strdup(text);
	if (!t->text[t->count])
		return TEXTS_FAILED;
	*slot = (uint32_t)++t->count;
	return (uint32_t)t->count - 1;
}

void texts_free(struct texts *t)
{
	for (size_t i = 0; i < t->count; i++)
		free(t->text[i]);
	free(t->text);
	free(t->index.slot);
	*t = (struct texts){0};
}
