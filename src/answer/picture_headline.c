/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds the most, in one sentence: see picture_headline.h. */
#include "answer/picture_headline.h"

#include "answer/figures.h"
#include "answer/text_format.h"

bool holder_is_lost(enum mayfly_holder_kind kind)
{
	return kind == MAYFLY_HOLDER_LOST || kind == MAYFLY_HOLDER_LOST_BY;
}

static void append_holder(char *buffer, size_t size, const struct mayfly_holder *h)
{
	switch (h->kind) {
	case MAYFLY_HOLDER_VARIABLE:
		text_append(buffer, size, "is held by %s, a variable of %s.", h->name, h->place);
		return;
	case MAYFLY_HOLDER_THREAD_LOCAL:
		text_append(buffer, size, "is held by %s, a thread-local variable.", h->name);
		return;
	case MAYFLY_HOLDER_STACK:
		text_append(buffer, size, "is held by the %s, in %s.", h->name, h->place);
		return;
	case MAYFLY_HOLDER_LOST:
	case MAYFLY_HOLDER_LOST_BY:
	case MAYFLY_HOLDER_TOGETHER:
	case MAYFLY_HOLDER_UNNAMED:
	case MAYFLY_HOLDER_REGISTERS:
	case MAYFLY_HOLDER_THREAD:
	case MAYFLY_HOLDER_MAPPING:
	case MAYFLY_HOLDER_KINDS:
		break;
	}
	text_append(buffer, size, "is held by %s.", h->name);
}

char *picture_headline_text(char *buffer, size_t size, const struct mayfly_picture *p)
{
	const struct mayfly_holder *largest = NULL;
	char part[FIGURE_TEXT], bytes[FIGURE_TEXT];
	uint64_t lost = 0;

	*buffer = 0;
	for (size_t i = 0; i < p->holders; i++) {
		const struct mayfly_holder *h = &p->holder[i];

		if (holder_is_lost(h->kind))
			lost += h->bytes;
		else if (!largest || h->bytes > largest->bytes)
			largest = h;
	}
	if (!p->bytes || (!largest && !lost))
		return buffer;
	text_percent(part, sizeof(part),
		     (double)(largest && largest->bytes >= lost ? largest->bytes : lost),
		     (double)p->bytes);
	text_append(buffer, size, "%s of %s ", part,
		    text_bytes(bytes, sizeof(bytes), (double)p->bytes));
	if (largest && largest->bytes >= lost)
		append_holder(buffer, size, largest);
	else
		text_append(buffer, size, "is lost: nothing points to it.");
	return buffer;
}
