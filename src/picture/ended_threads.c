/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of threads that have ended: see ended_threads.h. */
#include "picture/ended_threads.h"

/* A thread's descriptor, struct pthread, where the thread pointer points to. glibc has kept this since 2.3.4, as
 * debuggers rely on it. */
#define SELF	    16u	 /* the descriptor's own address, as in its first word */
#define LIST	    704u /* its neighbours: the next one, the one before */
#define TID	    720u /* 32 bits; 0: it has ended */
#define SIZES_BEGIN 728u /* somewhere from here: where its mapping begins, and its size */
#define SIZES_END   2304u

#define HEADS_APART  16u
#define HEADS	     3 /* on either side */
#define THREADS_MOST 65536u
#define PAGE	     4096u
#define ABOVE_MOST   65536u /* of a mapping behind the descriptor */

static bool is_descriptor(struct memory_source *s, uint64_t at)
{
	return at && memory_source_word(s, at) == at && memory_source_word(s, at + SELF) == at;
}

/* The head of the list that a thread is in; 0: there is none. */
static uint64_t head_of(struct memory_source *s, uint64_t thread)
{
	uint64_t at = thread + LIST;

	if (!is_descriptor(s, thread))
		return 0;
	for (unsigned int i = 0; i < THREADS_MOST; i++) {
		at = memory_source_word(s, at);
		if (!at || !is_descriptor(s, at - LIST))
			return at;
	}
	return 0;
}

/* Is it the head of a list of threads that have all ended? */
static bool heads_ended(struct memory_source *s, uint64_t head)
{
	uint64_t before = head, at = memory_source_word(s, head);

	for (unsigned int i = 0; i < THREADS_MOST; i++) {
		if (!at || memory_source_word(s, at + 8) != before)
			return false;
		if (at == head)
			return true;
		if (!is_descriptor(s, at - LIST) ||
		    (int32_t)memory_source_word(s, at - LIST + TID) > 0)
			return false;
		before = at;
		at = memory_source_word(s, at);
	}
	return false;
}

/* From where its mapping begins to its descriptor. */
static bool claim_stack(struct holder_list *l, struct memory_source *s, uint64_t thread)
{
	for (unsigned int i = SIZES_BEGIN; i < SIZES_END; i += 8) {
		uint64_t start = memory_source_word(s, thread + i);
		uint64_t size = memory_source_word(s, thread + i + 8);

		if (start && start < thread && start % PAGE == 0 && size % PAGE == 0 &&
		    size > thread - start && size - (thread - start) <= ABOVE_MOST)
			return holder_list_claim(l, start, thread, HEAP_NONE);
	}
	return true;
}

bool ended_threads_claim(struct holder_list *l, struct memory_source *s)
{
	uint64_t head = 0, at;

	for (size_t i = 0; i < s->threads && !head; i++)
		head = head_of(s, s->thread[i].frozen.thread_pointer);
	if (!head)
		return true;
	for (int i = -HEADS; i <= HEADS; i++) {
		uint64_t other = head + (uint64_t)(i * (int)HEADS_APART);

		if (!i || !heads_ended(s, other))
			continue;
		for (at = memory_source_word(s, other); at != other; at = memory_source_word(s, at))
			if (!claim_stack(l, s, at - LIST))
				return false;
	}
	return true;
}
