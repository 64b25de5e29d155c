/* SPDX-License-Identifier: Apache-2.0 */
/* What threads hold: see thread_roots.h. */
#include "picture/thread_roots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer/plain_name.h"
#include "base/array.h"
#include "base/interner.h"
#include "picture/ended_threads.h"
#include "picture/stack_frames.h"

#define RED_ZONE	 128u
#define THREAD_BYTES	 4096u /* of what the C library keeps behind the thread pointer, at most */
#define TLS_BEFORE_MOST	 (1ull << 20)
#define TLS_NUMBERS_MOST 4096u
#define NAME_MOST	 512u

struct roots {
	struct holder_list *l;
	struct memory_source *s;
	const struct loaded_modules *m;
	struct demangle *names;
	struct symbols *functions;
	/* Holders of (thread, function). */
	struct interner known;
	uint32_t *holder;
	size_t holder_capacity;
};

static const struct process_map *map_of(const struct roots *r, uint64_t address)
{
	return process_maps_at(&r->s->maps, address);
}

static struct holder of_thread(const struct roots *r, size_t thread, enum holder_kind kind)
{
	const struct source_thread *t = &r->s->thread[thread];
	const char *name = *t->name ? t->name : r->s->program;

	name = demangle_intern(r->names, name, strlen(name));
	return (struct holder){.kind = kind,
			       .name = "",
			       .module = "",
			       .tid = t->frozen.tid,
			       .thread = name ? name : ""};
}

/* ---- registers ---- */

static bool add_registers(struct roots *r, size_t thread)
{
	const struct frozen_thread *t = &r->s->thread[thread].frozen;
	struct holder registers = of_thread(r, thread, HOLDER_REGISTERS);
	uint32_t holder;
	bool good;

	registers.rank = HEAP_RANKS - 1;
	holder = holder_list_add(r->l, registers);
	good = holder != HEAP_NONE;
	for (unsigned int i = 0; i < FREEZE_REGISTERS && good; i++)
		good = holder_list_value(r->l, t->registers[i], holder);
	for (size_t i = 0; i < t->word_count && good; i++)
		good = holder_list_value(r->l, t->words[i], holder);
	return good;
}

/* ---- thread-local variables ---- */

static bool add_tls_variables(struct roots *r, size_t thread, const struct loaded_module *m,
			      uint64_t block)
{
	const struct data_symbols *d = &m->symbols;

	for (size_t i = d->thread_local_from; i < d->count; i++) {
		const struct data_symbol *v = &d->symbol[i];
		struct holder holder = of_thread(r, thread, HOLDER_THREAD_LOCAL);
		uint32_t number;

		if (v->start >= d->tls_bytes || v->size > d->tls_bytes - v->start)
			continue;
		holder.name = holder_variable_name(r->names, v->name);
		holder.module = m->name;
		holder.address = block + v->start;
		holder.in_block = v->start;
		number = holder.name ? holder_list_add(r->l, holder) : HEAP_NONE;
		if (number == HEAP_NONE ||
		    !holder_list_claim(r->l, block + v->start, block + v->start + v->size, number))
			return false;
	}
	return true;
}

/* The vector of a thread has a pair of words for each module: the block, and what is freed with it. A block
 * that malloc has is no root: what points to it is. *lowest: the first of those beside the thread pointer. */
static bool add_thread_locals(struct roots *r, size_t thread, uint64_t *lowest)
{
	uint64_t pointer = r->s->thread[thread].frozen.thread_pointer;
	uint64_t vector = memory_source_word(r->s, pointer + 8);

	*lowest = pointer;
	for (size_t i = 0; i < r->m->count; i++) {
		const struct loaded_module *m = &r->m->module[i];
		uint64_t block;

		if (!m->tls_number || m->tls_number > TLS_NUMBERS_MOST)
			continue;
		block = memory_source_word(r->s, vector + 16 * m->tls_number);
		if (block >= pointer || pointer - block > TLS_BEFORE_MOST)
			continue;
		*lowest = block < *lowest ? block : *lowest;
		if (!add_tls_variables(r, thread, m, block))
			return false;
	}
	return true;
}

/* ---- stacks ---- */

struct found_name {
	const char *name;
	struct demangle *names;
};

static void take_name(void *context, size_t index, const struct symbol *list, size_t count)
{
	struct found_name *f = context;
	char text[NAME_MOST];

	(void)index;
	/* The function that has the frame: what is inlined into it comes before. */
	if (!list[count - 1].function)
		return;
	name_collapse(text, sizeof(text), list[count - 1].function, NAME_NO_LEVEL, "");
	f->name = demangle_intern(f->names, text, strlen(text));
}

static const char *function_at(struct roots *r, uint64_t pc, const char **module)
{
	const struct process_map *map = map_of(r, pc);
	struct found_name found = {.name = "", .names = r->names};

	*module = "";
	for (size_t i = 0; map && i < r->m->count; i++) {
		const struct loaded_module *m = &r->m->module[i];
		uint64_t address = pc - m->bias;
		char path[4200];
		const char *why;

		if (strcmp(m->path, map->path) != 0)
			continue;
		snprintf(path, sizeof(path), "%s%s", r->s->root, m->path);
		*module = m->name;
		symbols_resolve(r->functions, path, m->symbols.build_id, m->symbols.build_id_length,
				&address, 1, take_name, &found, &why);
		break;
	}
	return found.name;
}

/* The holder of a function's frames in this thread; depth: from where it began. */
static uint32_t holder_of_function(struct roots *r, size_t thread, uint64_t pc, size_t depth)
{
	struct holder holder = of_thread(r, thread, HOLDER_STACK);
	uint32_t number;
	bool is_new;

	if (pc)
		holder.name = function_at(r, pc, &holder.module);
	if (!holder.name)
		return HEAP_NONE;
	number = interner_add(&r->known, (struct key){{thread, (uintptr_t)holder.name}}, &is_new);
	if (number == INTERNER_NONE ||
	    !array_reserve(&r->holder, &r->holder_capacity, number, sizeof(*r->holder)))
		return HEAP_NONE;
	holder.rank = (uint8_t)(depth + 1 < HEAP_RANKS - 1 ? depth + 1 : HEAP_RANKS - 2);
	if (is_new)
		r->holder[number] = holder_list_add(r->l, holder);
	else if (r->holder[number] != HEAP_NONE &&
		 holder.rank < r->l->holder[r->holder[number]].rank)
		r->l->holder[r->holder[number]].rank = holder.rank;
	return r->holder[number];
}

/* What the function has in registers that its caller did not have there: a local variable, often in no
 * memory at all, or where a function that it calls has put it. */
static bool add_kept(struct holder_list *l, const struct stack_frame *frame, bool has_caller,
		     uint32_t holder)
{
	for (unsigned int i = 0; i < STACK_KEPT; i++)
		if ((!has_caller || frame[0].kept[i] != frame[1].kept[i]) &&
		    !holder_list_value(l, frame[0].kept[i], holder))
			return false;
	return true;
}

static bool claim_frames(struct roots *r, size_t thread, struct stack_frames *frames, uint64_t end)
{
	static struct stack_frame frame[STACK_FRAMES_MOST];
	uint64_t sp = r->s->thread[thread].frozen.registers[7];
	size_t count = frames ? stack_frames_walk(frames, thread, frame) : 0;
	uint64_t at = sp - RED_ZONE < sp ? sp - RED_ZONE : sp;
	uint32_t holder;

	for (size_t i = 0; i < count && at < end; i++) {
		/* A frame ends where that of its caller begins. */
		uint64_t until = i + 1 < count ? frame[i + 1].sp : frame[i].sp;

		if (until > end || until < at)
			break;
		holder = holder_of_function(r, thread, frame[i].pc, count - 1 - i);
		if (holder == HEAP_NONE || !holder_list_claim(r->l, at, until, holder) ||
		    !add_kept(r->l, &frame[i], i + 1 < count, holder))
			return false;
		at = until;
	}
	holder = holder_of_function(r, thread, count ? frame[count - 1].pc : 0, 0);
	return holder != HEAP_NONE && holder_list_claim(r->l, at, end, holder);
}

static int compare_starts(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* What the claims from the first'th on leave of the range, which are all in it. */
static bool claim_between(struct holder_list *l, size_t first, uint64_t start, uint64_t end,
			  uint32_t holder)
{
	size_t last = l->claims;

	if (last > first)
		qsort(l->claim + first, last - first, sizeof(*l->claim), compare_starts);
	for (size_t i = first; i < last; i++) {
		struct claim c = l->claim[i];

		if (c.start > start && !holder_list_claim(l, start, c.start, holder))
			return false;
		start = c.end > start ? c.end : start;
	}
	return holder_list_claim(l, start, end, holder);
}

static bool add_stack(struct roots *r, size_t thread, struct stack_frames *frames)
{
	const struct frozen_thread *t = &r->s->thread[thread].frozen;
	uint64_t sp = t->registers[7], lowest, end;
	const struct process_map *map = map_of(r, sp), *own = map_of(r, t->thread_pointer);
	size_t first = r->l->claims;
	uint32_t holder;

	if (!add_thread_locals(r, thread, &lowest))
		return false;
	holder = holder_list_add(r->l, of_thread(r, thread, HOLDER_THREAD));
	if (holder == HEAP_NONE)
		return false;
	if (own) {
		/* Up to the end of the page. */
		end = (t->thread_pointer + THREAD_BYTES + 4095) & ~4095ull;
		end = end < own->end ? end : own->end;
		if (!claim_between(r->l, first, lowest, end, holder))
			return false;
	}
	if (!map || !map->writable)
		return true;
	/* A stack of the program's own making may be anywhere, also in a block: its mapping is not the
	 * thread's. */
	end = map->end;
	if (map == own && t->thread_pointer > sp)
		end = lowest;
	else if (strcmp(map->path, "[stack]") != 0)
		end = sp + 65536 < map->end ? sp + 65536 : map->end;
	if ((map == own && t->thread_pointer > sp) || !strcmp(map->path, "[stack]"))
		if (!holder_list_claim(r->l, map->start, sp - RED_ZONE, HEAP_NONE))
			return false;
	return claim_frames(r, thread, frames, end);
}

bool thread_roots_find(struct holder_list *l, struct memory_source *s,
		       const struct loaded_modules *m, struct demangle *names,
		       struct symbols *functions)
{
	struct roots r = {.l = l, .s = s, .m = m, .names = names, .functions = functions};
	struct stack_frames *frames = stack_frames_begin(s, m);
	bool good = true;

	for (size_t i = 0; i < s->threads && good; i++)
		good = add_registers(&r, i) && add_stack(&r, i, frames);
	good = good && ended_threads_claim(l, s);
	stack_frames_end(frames);
	interner_free(&r.known);
	free(r.holder);
	return good;
}
