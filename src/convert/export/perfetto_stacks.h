/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks in Perfetto's traces: each string, mapping, frame and stack is written once, with a number
 * (iid) by which later packets of the sequence refer to it.
 *
 *	callstack {iid, frame_ids, root first}
 *	frame     {iid, function_name_id, mapping_id, rel_pc, source_path_iid, line_number}
 *	mapping   {iid, build_id, start, end, path_string_ids}
 *
 * An iid is an existing number plus one, since 0 means none: for a stack the number of its node,
 * for a frame that of its shown line, for a mapping that of its module.
 */
#ifndef MAYFLY_PERFETTO_STACKS_H
#define MAYFLY_PERFETTO_STACKS_H

#include "convert/export/protobuf.h"
#include "answer/shown_stacks.h"
#include "base/rank_set.h"

struct perfetto_stacks {
	struct shown_stacks shown;
	struct rank_set stack_known, line_known, module_known; /* bits: has it been written? */
	struct rank_set name_known, file_known;		       /* of texts */
	struct bytes fresh; /* InternedData added since the caller last took it */
	struct bytes inner, ids;
	uint32_t *line_frame; /* shown line -> its frame in the trace */
};

/* 0 or a negative enum mayfly_error; call perfetto_stacks_end() in both cases. */
int perfetto_stacks_begin(struct perfetto_stacks *s, const struct mayfly_trace *trace,
			  const struct mayfly_query *query);
void perfetto_stacks_end(struct perfetto_stacks *s);

/* The iid of a stack; new parts of it are added to s->fresh. 0: out of memory. */
uint64_t perfetto_stack(struct perfetto_stacks *s, uint32_t node);

#endif
