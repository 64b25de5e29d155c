/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file format of speedscope (https://www.speedscope.app/file-format-schema.json): frames, and
 * profiles that refer to them. Each profile is "evented": a walk of the call tree from left to
 * right, where the width of a function is what it allocated,
 *
 *	{"type":"O","frame":0,"at":0}, {"type":"O","frame":5,"at":0}, {"type":"C","frame":5,
 *	"at":4096}, ...
 *
 * so the file is proportional to the tree. Lists of whole stacks ("sampled") would be proportional
 * to the sum of their depths.
 */
#include "convert/export/call_tree.h"
#include "convert/export/exports.h"
#include "convert/out.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/interner.h"

struct speedscope {
	struct export_job *job;
	struct out *out; /* that of `job` */
	struct call_tree tree;
	struct interner frames; /* by name and file */
	uint32_t *frame_of;	/* node of the tree -> frame */
};

static void speedscope_number_frames(struct speedscope *s)
{
	bool is_new, done;

	s->frame_of = calloc(s->tree.count + 1, sizeof(*s->frame_of));
	done = s->frame_of;
	for (size_t i = 1; done && i < s->tree.count; i++) {
		const struct call_node *n = &s->tree.node[i];
		struct key key = {{1, n->name, n->file}};

		s->frame_of[i] = interner_add(&s->frames, key, &is_new);
		done = s->frame_of[i] != INTERNER_NONE;
	}
	out_fail(s->out, done ? 0 : MAYFLY_E_MEMORY);
}

static void print_frames(struct speedscope *s)
{
	struct out *o = s->out;

	out_text(o, "\"shared\":{\"frames\":[");
	for (size_t i = 0; i < s->frames.count; i++) {
		const char *file = shown_text(&s->job->stacks, (uint32_t)s->frames.key[i].word[2]);

		out_text(o, i ? ",\n{\"name\":" : "\n{\"name\":");
		out_json(o, shown_text(&s->job->stacks, (uint32_t)s->frames.key[i].word[1]));
		if (*file) {
			out_text(o, ",\"file\":");
			out_json(o, file);
		}
		out_char(o, '}');
	}
	out_text(o, "\n]}");
}

static void print_event(struct speedscope *s, char type, uint32_t node, uint64_t at, bool *any)
{
	out_format(s->out, "%s{\"type\":\"%c\",\"frame\":", *any ? ",\n" : "\n", type);
	out_unsigned(s->out, s->frame_of[node]);
	out_text(s->out, ",\"at\":");
	out_unsigned(s->out, at);
	out_char(s->out, '}');
	*any = true;
}

/* A node begins with its own allocations, followed by its children. Returns its end. */
static uint64_t print_events(struct speedscope *s, int value)
{
	const struct call_tree *t = &s->tree;
	struct rounding at = {0};
	bool any = false;
	size_t left;

	for (uint32_t i = call_tree_next(t, 0, &left); i != CALL_NONE;) {
		uint32_t next = call_tree_next(t, i, &left);

		print_event(s, 'O', i, at.given, &any);
		rounding_next(&at, t->node[i].self[value]);
		for (uint32_t end = i; left > 0; left--, end = t->node[end].parent)
			print_event(s, 'C', end, at.given, &any);
		i = next;
	}
	return at.given;
}

static void print_profile(struct speedscope *s, const char *metric, bool blocks, int column)
{
	int value = blocks ? CALL_BLOCKS(column) : CALL_BYTES(column);
	char name[512];
	uint64_t end;

	out_fail(s->out, call_tree_sort(&s->tree, value));
	if (s->out->error)
		return;
	snprintf(name, sizeof(name), "%s: %s", metric, blocks ? "blocks" : "bytes");
	out_text(s->out, "{\"type\":\"evented\",\"name\":");
	out_json(s->out, name);
	out_format(s->out, ",\"unit\":\"%s\",\"startValue\":0,\"events\":[",
		   blocks ? "none" : "bytes");
	end = print_events(s, value);
	out_text(s->out, "\n],\"endValue\":");
	out_unsigned(s->out, end);
	out_char(s->out, '}');
}

static void print_file(struct speedscope *s)
{
	const struct stack_sums *sums = &s->job->sums;
	char metric[128];

	out_text(s->out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n"
			 "\"exporter\":\"mayfly " MAYFLY_VERSION "\",\"name\":");
	out_json(s->out, export_title(s->job->options, s->job->trace));
	out_text(s->out, ",\"activeProfileIndex\":0,\n");
	print_frames(s);
	out_text(s->out, ",\n\"profiles\":[\n");
	for (int i = 0; i < CALL_VALUES && !s->out->error; i++) {
		bool blocks = i % 2;

		if (!sums->of[i / 2] ||
		    (blocks && !export_knows(s->job->trace, MAYFLY_ABSENT_BLOCKS)))
			continue;
		if (i > 0)
			out_text(s->out, ",\n");
		export_metric_text(metric, sizeof(metric), s->job->trace, &s->job->asked[i / 2],
				   sums->of[i / 2]->time_ns);
		print_profile(s, metric, blocks, i / 2);
	}
	out_text(s->out, "\n]}\n");
}

void export_speedscope(struct export_job *j)
{
	struct speedscope s = {.job = j, .out = &j->out};

	export_sums(j, true);
	export_stacks(j);
	if (!j->out.error)
		out_fail(&j->out, call_tree_make(&s.tree, &j->stacks, &j->sums, true));
	speedscope_number_frames(&s);
	if (!j->out.error)
		print_file(&s);
	call_tree_free(&s.tree);
	interner_free(&s.frames);
	free(s.frame_of);
}
