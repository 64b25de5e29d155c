/* SPDX-License-Identifier: Apache-2.0 */
/* What a trace does not show: see hints.h. */
#include "answer/hints.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "answer/figures.h"
#include "answer/own_code.h"
#include "answer/text_format.h"
#include "answer/trace_facts.h"
#include "answer/trace_names.h"
#include "format/format.h"

#define FEW_SAMPLES	100 /* of a program that lets others work */
#define SMALL_OBJECT	512 /* up to this, Python takes objects from its own arenas */
#define JIT_WORTH_SHARE 0.05
#define UNNAMED_SHARE	0.2 /* of the frames that are not folded */

/* ---- Python ---- */

static bool runs_python(const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	if (strncmp(path_base(info->program), "python", strlen("python")) == 0)
		return true;
	for (size_t i = 0; i < info->modules; i++)
		if (strncmp(path_base(mayfly_trace_module(trace, i)->path), "libpython3", 10) == 0)
			return true;
	return false;
}

/* For a Python whose allocator could not be followed. With PYTHONMALLOC=malloc, most blocks are small
 * objects. */
static void hint_python(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct mayfly_summary s;

	if (!runs_python(trace) || info->heaps >> MAYFLY_HEAP_POOL_MAPPED & 1 ||
	    mayfly_trace_summary(trace, &s) != 0 ||
	    s.allocated.bytes.estimate < SMALL_OBJECT * s.allocated.blocks.estimate)
		return;
	text_format(
	    buffer, size,
	    "Python takes small objects from arenas that it maps itself, so malloc does not "
	    "see them; record with PYTHONMALLOC=malloc to see them, too");
}

/* ---- other processes ---- */

static uint64_t count_children(const struct mayfly_trace *trace)
{
	static const char *const begins[] = {"fork", "vfork", "spawn"};
	struct mayfly_track_sums *sums;
	struct mayfly_query all;
	uint64_t count = 0;

	mayfly_query_defaults(&all);
	if (!mayfly_trace_info(trace)->track_events ||
	    mayfly_track_sums_run(trace, &all, &sums) != 0)
		return 0;
	for (size_t i = 0; i < sums->rows; i++) {
		const struct mayfly_track_type *type =
		    mayfly_trace_track_type(trace, sums->row[i].type);

		for (size_t k = 0; k < sizeof(begins) / sizeof(*begins); k++)
			if (strcmp(type->category, "process") == 0 &&
			    strcmp(type->name, begins[k]) == 0)
				count += sums->row[i].count;
	}
	mayfly_track_sums_free(sums);
	return count;
}

static void hint_children(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	uint64_t children = info->mode == MAYFLY_SAMPLED && trace_samples(info) < FEW_SAMPLES
				? count_children(trace)
				: 0;

	if (children)
		text_format(buffer, size,
			    "the program started %" PRIu64 " other process%s, which %s not in this "
			    "trace; 'mayfly record --follow' records them, too",
			    children, children == 1 ? "" : "es", children == 1 ? "is" : "are");
}

static void hint_exec(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	if (mayfly_trace_info(trace)->ending == MAYFLY_END_EXEC)
		text_format(
		    buffer, size,
		    "the process became another program by exec; what that one allocated is "
		    "in a trace of its own ('mayfly record --follow')");
}

/* ---- code that was compiled at run time ---- */

/* In no file, and without a name that somebody has given it. */
static bool is_jit(const struct mayfly_trace *trace, const struct mayfly_frame *frame)
{
	const struct mayfly_module *module = mayfly_trace_module(trace, frame->module);

	return frame->kind == MAYFLY_FRAME_CODE && !trace_is_runtime_frame(frame) &&
	       !*frame->location->function && (!module || !strcmp(module->path, TRACE_JIT_MODULE));
}

static bool is_cut(const struct mayfly_frame *frame)
{
	return frame && frame->kind == MAYFLY_FRAME_TRUNCATED;
}

/* Which nodes lie on a stack whose outermost known frame is such code. NULL: none. */
static bool *find_jit(const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	bool *ends = calloc(info->nodes + 1, sizeof(*ends)), found = false;

	for (size_t i = 1; ends && i < info->nodes; i++) {
		struct mayfly_node node = mayfly_trace_node(trace, i);
		struct mayfly_node above = mayfly_trace_node(trace, node.parent);
		const struct mayfly_frame *frame = mayfly_trace_frame(trace, node.frame);
		bool cut = node.parent != 0 && above.parent == 0 &&
			   is_cut(mayfly_trace_frame(trace, above.frame));

		ends[i] =
		    node.parent == 0 || cut ? frame && is_jit(trace, frame) : ends[node.parent];
		found |= ends[i];
	}
	if (!found) {
		free(ends);
		return NULL;
	}
	return ends;
}

static void hint_jit(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	struct mayfly_node_sums *sums;
	struct mayfly_query all;
	char percent[FIGURE_TEXT];
	bool *ends = find_jit(trace);
	double bytes = 0;

	if (!ends)
		return;
	mayfly_query_defaults(&all);
	all.metric = MAYFLY_ALLOCATED;
	if (mayfly_node_sums_run(trace, &all, &sums) == 0) {
		for (size_t i = 0; i < sums->count; i++)
			if (ends[sums->sum[i].node])
				bytes += sums->sum[i].self.bytes.estimate;
		if (bytes > JIT_WORTH_SHARE * sums->total.bytes.estimate)
			text_format(
			    buffer, size,
			    "the stacks of %s of all allocated bytes end at code that was "
			    "compiled at run time (JIT) and keeps no frame pointers, so its "
			    "callers are not known; it has names if the program writes "
			    "/tmp/perf-PID.map (node --perf-basic-prof)",
			    text_percent(percent, sizeof(percent), bytes,
					 sums->total.bytes.estimate));
		mayfly_node_sums_free(sums);
	}
	free(ends);
}

/* ---- files without symbols ---- */

/* Frames of code that reports do not fold. In a trace that was made of another tool's file, only
 * those of modules with a build-id can get names afterwards, and only if their addresses are known. */
struct names {
	size_t frames, unnamed;
	bool whole; /* some file has no names at all */
};

static bool can_be_named(const struct mayfly_trace *trace, const struct mayfly_module *module)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	return trace_is_recorded(info) ||
	       (module->build_id_length && !(info->absent & MAYFLY_ABSENT_MODULES));
}

static struct names count_names(const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	bool *named = calloc(info->modules + 1, sizeof(*named));
	bool *used = calloc(info->modules + 1, sizeof(*used));
	struct own_code own = {0};
	struct names n = {0};

	for (size_t i = 0; named && used && i < info->frames; i++) {
		const struct mayfly_frame *f = mayfly_trace_frame(trace, i);
		const struct mayfly_location *l = f->location;

		if (f->kind != MAYFLY_FRAME_CODE || f->module >= info->modules ||
		    code_kind(&own, trace, l->function, l->file,
			      mayfly_trace_module(trace, f->module)->path) != CODE_OWN)
			continue;
		if (!can_be_named(trace, mayfly_trace_module(trace, f->module)))
			continue;
		n.frames++;
		used[f->module] = true;
		if (*l->function)
			named[f->module] = true;
		else
			n.unnamed++;
	}
	for (size_t i = 0; named && used && i < info->modules; i++)
		n.whole |= used[i] && !named[i] && mayfly_trace_module(trace, i)->build_id_length;
	free(named);
	free(used);
	return n;
}

static void hint_names(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	struct names n = count_names(trace);

	if (n.unnamed && (n.whole || (double)n.unnamed > UNNAMED_SHARE * (double)n.frames))
		text_format(buffer, size,
			    "%zu of the %zu code addresses that reports show have no function "
			    "name: install debug symbols, or use debuginfod, and run 'mayfly "
			    "symbolize TRACE'; 'mayfly info' says for which modules",
			    n.unnamed, n.frames);
}

char *hint_text(char *buffer, size_t size, const struct mayfly_trace *trace, unsigned which)
{
	static const struct {
		void (*write)(char *, size_t, const struct mayfly_trace *);
		bool recorded; /* it says how the program could be recorded */
	} hints[HINTS] = {{hint_python, true},
			  {hint_children, true},
			  {hint_exec, true},
			  {hint_jit, true},
			  {hint_names, false}};

	*buffer = 0;
	if (which < HINTS &&
	    (!hints[which].recorded || trace_is_recorded(mayfly_trace_info(trace))))
		hints[which].write(buffer, size, trace);
	return buffer;
}
