/* SPDX-License-Identifier: Apache-2.0 */
/* What holders are called: see holder_text.h. */
#include "picture/holder_text.h"

#include "answer/text_format.h"

#define SHARERS_SHOWN 3u

char *holder_text(char *buffer, size_t size, const struct holder *h)
{
	switch (h->kind) {
	case HOLDER_VARIABLE:
	case HOLDER_THREAD_LOCAL:
		return text_format(buffer, size, "%s", h->name);
	case HOLDER_UNNAMED:
		return text_format(buffer, size, "variables of %s", h->module);
	case HOLDER_STACK:
		return text_format(buffer, size, "stack of '%s' %d", h->thread, (int)h->tid);
	case HOLDER_REGISTERS:
		return text_format(buffer, size, "registers of '%s' %d", h->thread, (int)h->tid);
	case HOLDER_THREAD:
		return text_format(buffer, size, "thread '%s' %d", h->thread, (int)h->tid);
	case HOLDER_MAPPING:
		return text_format(buffer, size, "%s", h->name);
	}
	return text_format(buffer, size, "?");
}

char *holder_where(char *buffer, size_t size, const struct holder *h)
{
	switch (h->kind) {
	case HOLDER_VARIABLE:
		return text_format(buffer, size, "%s", h->module);
	case HOLDER_THREAD_LOCAL:
		return text_format(buffer, size, "%s, thread '%s' %d", h->module, h->thread,
				   (int)h->tid);
	case HOLDER_UNNAMED:
		return text_format(buffer, size, "no symbol names them");
	case HOLDER_STACK:
		return text_format(buffer, size, "%s%s", *h->name ? h->name : "?",
				   *h->name ? "()" : "");
	case HOLDER_REGISTERS:
	case HOLDER_MAPPING:
		break;
	case HOLDER_THREAD:
		return text_format(buffer, size, "what libc keeps of it");
	}
	return text_format(buffer, size, "%s", "");
}

char *holders_text(char *buffer, size_t size, const struct picture *p, uint64_t holders)
{
	unsigned int shown = 0, others = holders & HEAP_OTHER_SHARERS ? 1 : 0;

	text_format(buffer, size, "%s", "");
	for (unsigned int i = 0; i < p->shared.sharers; i++) {
		char name[HOLDER_TEXT];

		if (!(holders >> i & 1))
			continue;
		if (shown == SHARERS_SHOWN) {
			others++;
			continue;
		}
		holder_text(name, sizeof(name), &p->holders.holder[p->shared.sharer[i]]);
		text_append(buffer, size, "%s%s", shown++ ? ", " : "", name);
	}
	if (!shown)
		return text_append(buffer, size, "several holders, together");
	if (others)
		return text_append(buffer, size, " and %u more, together", others);
	return text_append(buffer, size, ", together");
}
