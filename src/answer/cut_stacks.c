/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cut_stacks.c: where stacks were cut. A walk ends at the first frame for which there are no rules how
 * to go on. That is the first one below the mark:
 *
 *	root - [stack cut] - decode (libfoo.so) - read_all - malloc's caller
 *	                     ^ counts for the call paths that go through it
 *
 * The trace does not say why there were no rules. What is named here as the cause is the usual one.
 */
#include "answer/cut_stacks.h"

#include "answer/plain_name.h"
#include "answer/text_format.h"
#include "answer/trace_names.h"

#include <stdlib.h>
#include <string.h>

#define MOST_PLACES 3
#define NO_FRAME    UINT32_MAX
#define TEXT_BYTES  1024

/* A module, or all code outside of modules. */
struct place {
	uint64_t paths;	  /* that end in it */
	uint32_t frame;	  /* the one of its frames in which most end */
	uint32_t largest; /* how many */
};

static bool is_cut(const struct mayfly_trace *trace, uint32_t node)
{
	const struct mayfly_frame *frame =
	    node ? mayfly_trace_frame(trace, mayfly_trace_node(trace, node).frame) : NULL;

	return frame && frame->kind == MAYFLY_FRAME_TRUNCATED;
}

/* Counts the nodes below each frame at which a walk ended: top has one for each node, paths one for
 * each frame. */
static void count_paths(const struct mayfly_trace *trace, uint32_t *top, uint32_t *paths)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	for (uint32_t i = 0; i < info->nodes; i++) {
		struct mayfly_node node = mayfly_trace_node(trace, i);

		top[i] = i && node.parent < i ? top[node.parent] : NO_FRAME;
		if (is_cut(trace, node.parent) && node.frame < info->frames)
			top[i] = node.frame;
		if (top[i] != NO_FRAME)
			paths[top[i]]++;
	}
}

/* By module; the last place is that of code outside of modules. */
static void find_places(const struct mayfly_trace *trace, const uint32_t *paths,
			struct place *place)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	for (uint32_t i = 0; i < info->frames; i++) {
		const struct mayfly_frame *frame = mayfly_trace_frame(trace, i);
		struct place *p =
		    &place[frame->module < info->modules ? frame->module : info->modules];

		if (frame->kind != MAYFLY_FRAME_CODE) /* frames that were left out */
			continue;
		p->paths += paths[i];
		if (paths[i] > p->largest) {
			p->largest = paths[i];
			p->frame = i;
		}
	}
}

static int compare_places(const void *a, const void *b)
{
	uint64_t one = ((const struct place *)a)->paths, other = ((const struct place *)b)->paths;

	return (one < other) - (one > other);
}

/* Names a frame, without what makes names long; whether it is compiled code, whose compiler can be told to write
 * unwind tables. */
static bool name_place(char *buffer, size_t size, const struct mayfly_trace *trace, uint32_t index)
{
	const struct mayfly_frame *frame = mayfly_trace_frame(trace, index);
	const struct mayfly_module *module = mayfly_trace_module(trace, frame->module);
	char text[UNKNOWN_FUNCTION], plain[UNKNOWN_FUNCTION];
	const char *file = module ? path_base(module->path) : NULL;
	const char *function = frame->location->function;
	const char *source = frame->location->file, *suffix = source ? strrchr(source, '.') : NULL;
	bool is_go = strstr(function, "asmcgocall"), is_ocaml = suffix && !strcmp(suffix, ".ml");

	name_collapse(
	    plain, sizeof(plain),
	    frame_shown_name(text, sizeof(text), frame->kind, function, file, frame->address), 1,
	    "...");
	text_format(buffer, size, "%s (%s)%s", plain, file ? file : "code made at run time",
		    is_go ? ", which Go calls on another stack" : "");
	return module && !is_go && !is_ocaml;
}

static void say_places(char *buffer, size_t size, const struct mayfly_trace *trace,
		       const struct place *place, size_t places)
{
	char text[TEXT_BYTES] = "", one[TEXT_BYTES / MOST_PLACES];
	bool compiled = false;

	for (size_t i = 0; i < places; i++) {
		compiled |= name_place(one, sizeof(one), trace, place[i].frame);
		text_append(text, sizeof(text), "%s%s",
			    !i		     ? ""
			    : i + 1 < places ? ", "
					     : " and ",
			    one);
	}
	text_format(buffer, size, "the walk ended in %s%s", text,
		    compiled ? "; most often such code was built without unwind tables, which "
			       "-fasynchronous-unwind-tables adds"
			     : "");
}

char *cut_stacks_text(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	uint32_t *top = calloc(info->nodes + 1, sizeof(*top));
	uint32_t *paths = calloc(info->frames + 1, sizeof(*paths));
	struct place *place = calloc(info->modules + 1, sizeof(*place));
	size_t places = 0;

	*buffer = 0;
	if (top && paths && place) {
		count_paths(trace, top, paths);
		find_places(trace, paths, place);
		qsort(place, info->modules + 1, sizeof(*place), compare_places);
		while (places < MOST_PLACES && places <= info->modules && place[places].paths)
			places++;
	}
	if (places)
		say_places(buffer, size, trace, place, places);
	free(place);
	free(paths);
	free(top);
	return buffer;
}
