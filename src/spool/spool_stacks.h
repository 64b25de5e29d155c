/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the addresses in a spool to the tables' modules, frames and nodes.
 *
 *	packet's cache slot --> address, frame
 *	      literal address --> table of addresses --> frame     (entries are as old as an epoch)
 *	                               `--> mapped ranges --> module, address in its file
 *	node of the frames below, frame --> node
 *
 * The mappings change when modules are loaded and unloaded. Each change begins a new epoch, and a
 * frame that was found in an older epoch is looked up again.
 */
#ifndef MAYFLY_SPOOL_STACKS_H
#define MAYFLY_SPOOL_STACKS_H

#include "trace/write/recording.h"
#include "format/spool_format.h"
#include "base/varint.h"
#include "trace/write/writer.h"

/* Part of the address space that belongs to a module. */
struct stacks_range {
	uint64_t start, end;
	uint32_t module;
};

struct stacks_address {
	uint64_t address;
	uint32_t frame;
	uint32_t epoch; /* 0: free slot */
};

/* A frame in no module so far. Its module may come before the frame is written. */
struct stacks_pending {
	uint64_t address;
	uint64_t chunks; /* written when the frame was made */
	uint32_t frame;
};

struct spool_stacks {
	struct recording *tables;
	const struct trace_writer *writer; /* NULL: frames are never written */
	struct stacks_range *range;	   /* apart, ascending */
	size_t ranges, ranges_size;
	struct stacks_address *address;
	size_t addresses, addresses_size;
	struct stacks_pending *pending;
	size_t pendings, pendings_size;
	uint32_t inherited; /* modules of the parent's, the tables' first; not mapped until seen */
	uint32_t epoch;
};

void stacks_begin(struct spool_stacks *t, struct recording *tables,
		  const struct trace_writer *writer);
void stacks_free(struct spool_stacks *t);

struct stacks_module {
	uint64_t start, end, bias;
	const uint8_t *path, *build_id;
	size_t path_length, build_id_length;
};

/* False: out of memory. */
bool stacks_module_seen(struct spool_stacks *t, const struct stacks_module *m, int64_t now_ns);
bool stacks_module_gone(struct spool_stacks *t, uint64_t start, int64_t now_ns);
/* To be called first: the tables' modules are those that were mapped and have not gone since. */
bool stacks_resume(struct spool_stacks *t);

/* One writer's stack, and the cache of its packet. */
struct stack_frame {
	uint64_t address;
	uint32_t node; /* of this frame, below those before it */
};

struct spool_stack {
	struct stacks_address *cache; /* [SPOOL_CACHE_SIZE], NULL until used; epoch 0: empty */
	struct stack_frame *frame;
	uint32_t depth;
	size_t size;
	uint32_t epoch;
	bool used;    /* the cache is in use */
	int64_t work; /* frames that may still be looked up again in this packet */
};

void stack_begin_packet(struct spool_stack *s, size_t packet_bytes);
void stack_free(struct spool_stack *s);

enum stack_result { STACK_DONE, STACK_DAMAGED, STACK_MEMORY };

/* Applies pop and push; the pushed frames are read from in. */
enum stack_result stack_change(struct spool_stacks *t, struct spool_stack *s, uint64_t pop,
			       uint64_t push, struct varint_in *in);

/* Reads the rest of a PLACE record: names that the program's runtime gives the code at this
 * address. */
enum stack_result stacks_place(struct spool_stacks *t, uint64_t address, struct varint_in *in);

static inline uint32_t stack_node(const struct spool_stack *s)
{
	return s->depth ? s->frame[s->depth - 1].node : 0;
}

/* The root-most frames are unknown. */
static inline bool stack_truncated(const struct spool_stack *s)
{
	return s->depth && s->frame[0].address & SPOOL_MARK_BIT &&
	       SPOOL_MARK_KIND(s->frame[0].address) == SPOOL_MARK_TRUNCATED;
}

/* ---- what a forked child takes over ---- */

struct stacks_heritage; /* the child's index of the parent's modules, frames, nodes, threads */

/* tables: the child's, still empty. NULL: out of memory. */
struct stacks_heritage *heritage_begin(struct spool_stacks *child, const struct recording *parent);
/* RECORDING_NONE: no such thing. */
uint32_t heritage_node(struct stacks_heritage *h, uint32_t node);
bool heritage_truncated(const struct stacks_heritage *h, uint32_t node); /* the parent's node */
void heritage_end(struct stacks_heritage *h);

#endif
