/* SPDX-License-Identifier: Apache-2.0 */
/* Distinct texts: see texts.h. */
#include "answer/texts.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"

static size_t first_slot(const struct texts *t, const char *text)
{
	return (size_t)hash_string(text) & (t->slots - 1);
}

static bool grow(struct texts *t)
{
	size_t slots = t->slots ? t->slots * 2 : 256;
	uint32_t *slot = calloc(slots, sizeof(*slot));

	if (!slot)
		return false;
	free(t->slot);
	t->slot = slot;
	t->slots = slots;
	for (size_t i = 0; i < t->count; i++) {
		size_t at = first_slot(t, t->text[i]);

		while (slot[at])
			at = (at + 1) & (slots - 1);
		slot[at] = (uint32_t)i + 1;
	}
	return true;
}

uint32_t texts_number(struct texts *t, const char *text)
{
	size_t at;

	if (t->count * 2 >= t->slots && !grow(t))
		return TEXTS_FAILED;
	for (at = first_slot(t, text); t->slot[at]; at = (at + 1) & (t->slots - 1))
		if (strcmp(t->text[t->slot[at] - 1], text) == 0)
			return t->slot[at] - 1;
	if (!array_reserve(&t->text, &t->capacity, t->count, sizeof(*t->text)))
		return TEXTS_FAILED;
	t->text[t->count] = strdup(text);
	if (!t->text[t->count])
		return TEXTS_FAILED;
	t->slot[at] = (uint32_t)++t->count;
	return (uint32_t)t->count - 1;
}

void texts_free(struct texts *t)
{
	for (size_t i = 0; i < t->count; i++)
		free(t->text[i]);
	free(t->text);
	free(t->slot);
	*t = (struct texts){0};
}
