/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly dump: every event, one a line. */
#include "cli.h"
#include "json.h"
#include "open_trace.h"
#include "output.h"
#include "places.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char usage_text[] =
    "Usage: mayfly dump [OPTIONS] FILE\n"
    "\n"
    "Prints every event of a trace in time order, one a line, fields separated by spaces:\n"
    "\n"
    "  SECONDS alloc TID #SAMPLE size=BYTES weight=BYTES flags=FLAGS STACK\n"
    "  SECONDS free TID #SAMPLE size=BYTES weight=BYTES flags=FLAGS\n"
    "\n"
    "SAMPLE numbers the blocks. weight is how many bytes of the program the block stands for.\n"
    "FLAGS: r part of a realloc, t temporary, i inherited from the parent process, - none.\n"
    "STACK: functions from the root to the leaf, separated by ';', to the end of the line.\n"
    "\n"
    "  --no-stacks  without STACK\n"
    "  --json       one JSON object a line\n"
    "  -h, --help   this text\n";

/* Names of frames as they are printed, made when first used. */
struct frame_texts {
	const struct mayfly_trace *trace;
	char **text;
	size_t frames;
};

/* A stack's nodes, leaf first. */
struct path {
	uint32_t *frame;
	size_t length, room;
};

#define NAME_BYTES 65536 /* a longer name is cut */

/* ';' separates frames, so it cannot stay in names (Rust's arrays have it). */
static void clean_name(char *buffer, size_t size, const char *name)
{
	text_clean(buffer, size, name);
	for (char *s = buffer; *s; s++)
		if (*s == ';')
			*s = ',';
}

static char *make_text(const struct frame_texts *t, const struct mayfly_frame *frame)
{
	size_t used = 0, size = 0;
	char *text = NULL;
	size_t count = frame->locations ? frame->locations : 1;

	/* Inlined functions are frames of their own here: innermost last. */
	for (size_t i = count; i-- > 0;) {
		char name[NAME_BYTES], clean[NAME_BYTES];
		const struct mayfly_location *l = frame->locations ? &frame->location[i] : NULL;
		size_t length;

		frame_name(name, sizeof(name), t->trace, frame, l);
		clean_name(clean, sizeof(clean), name);
		length = strlen(clean);
		if (used + length + 2 > size) {
			char *grown = realloc(text, size = (used + length + 2) * 2);

			if (!grown) {
				free(text);
				return NULL;
			}
			text = grown;
		}
		used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ";" : "", clean);
	}
	return text;
}

static const char *frame_text(struct frame_texts *t, uint32_t index)
{
	const struct mayfly_frame *frame = mayfly_trace_frame(t->trace, index);

	if (!frame || index >= t->frames)
		return "[unknown]";
	if (!t->text[index])
		t->text[index] = make_text(t, frame);
	return t->text[index];
}

static bool read_path(const struct mayfly_trace *trace, uint32_t node, struct path *path)
{
	path->length = 0;
	while (node != 0) {
		struct mayfly_node n = mayfly_trace_node(trace, node);

		if (path->length == path->room) {
			size_t room = path->room ? path->room * 2 : 256;
			uint32_t *grown = realloc(path->frame, room * sizeof(*grown));

			if (!grown)
				return false;
			path->frame = grown;
			path->room = room;
		}
		path->frame[path->length++] = n.frame;
		if (n.parent >= node)
			break;
		node = n.parent;
	}
	return true;
}

static const char *flags_text(uint32_t flags, char *buffer)
{
	char *s = buffer;

	if (flags & MAYFLY_FLAG_REALLOC)
		*s++ = 'r';
	if (flags & MAYFLY_FLAG_TEMPORARY)
		*s++ = 't';
	if (flags & MAYFLY_FLAG_INHERITED)
		*s++ = 'i';
	if (s == buffer)
		*s++ = '-';
	*s = 0;
	return buffer;
}

static uint32_t tid_of(const struct mayfly_trace *trace, uint32_t thread)
{
	const struct mayfly_thread *t = mayfly_trace_thread(trace, thread);

	return t ? t->tid : 0;
}

static bool print_event(struct frame_texts *t, const struct mayfly_event *e, struct path *path,
			bool stacks)
{
	/* Only what a forked child inherited may be before its start. */
	uint64_t ns = e->time_ns < 0 ? -(uint64_t)e->time_ns : (uint64_t)e->time_ns;
	char flags[8];

	printf("%s%" PRIu64 ".%09" PRIu64 " %s %" PRIu32 " #%" PRIu64 " size=%" PRIu64
	       " weight=%.0f flags=%s",
	       e->time_ns < 0 ? "-" : "", ns / 1000000000, ns % 1000000000,
	       e->kind == MAYFLY_ALLOC ? "alloc" : "free", tid_of(t->trace, e->thread), e->sample,
	       e->size, e->weight_bytes, flags_text(e->flags, flags));
	if (e->kind == MAYFLY_ALLOC && stacks) {
		if (!read_path(t->trace, e->node, path))
			return false;
		if (path->length == 0)
			fputs(" [no stack]", stdout);
		for (size_t i = path->length; i-- > 0;) {
			const char *text = frame_text(t, path->frame[i]);

			if (!text)
				return false;
			putchar_unlocked(i + 1 == path->length ? ' ' : ';');
			fputs_unlocked(text, stdout);
		}
	}
	putchar('\n');
	return true;
}

static json_t *json_stack(struct frame_texts *t, const struct path *path)
{
	json_t *list = json_array();

	for (size_t i = path->length; list && i-- > 0;) {
		const char *text = frame_text(t, path->frame[i]);

		if (!text || json_array_append_new(list, json_text(text)) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static bool print_event_json(struct frame_texts *t, const struct mayfly_event *e, struct path *path,
			     bool stacks)
{
	json_t *o = json_pack(
	    "{s:I, s:s, s:o, s:o, s:o, s:f, s:f, s:b, s:b, s:b}", "time_ns", (json_int_t)e->time_ns,
	    "event", e->kind == MAYFLY_ALLOC ? "alloc" : "free", "tid",
	    json_unsigned(tid_of(t->trace, e->thread)), "sample", json_unsigned(e->sample), "size",
	    json_unsigned(e->size), "weight_bytes", e->weight_bytes, "weight_blocks",
	    e->weight_blocks, "realloc", (e->flags & MAYFLY_FLAG_REALLOC) != 0, "temporary",
	    (e->flags & MAYFLY_FLAG_TEMPORARY) != 0, "inherited",
	    (e->flags & MAYFLY_FLAG_INHERITED) != 0);

	if (o && e->kind == MAYFLY_ALLOC && stacks &&
	    (!read_path(t->trace, e->node, path) ||
	     json_object_set_new(o, "stack", json_stack(t, path)) != 0)) {
		json_decref(o);
		return false;
	}
	return o && json_print_line(o) == CLI_OK;
}

static int dump(const struct opened_trace *file, bool json, bool stacks)
{
	struct frame_texts texts = {file->trace, NULL, file->info->frames};
	struct path path = {0};
	struct mayfly_cursor *cursor;
	struct mayfly_event event;
	bool printed = true;
	int more = mayfly_cursor_open(file->trace, &cursor);

	if (more)
		return cli_error("%s", mayfly_error_text(more));
	texts.text = calloc(texts.frames + 1, sizeof(*texts.text));
	printed = texts.text != NULL;
	while (printed && !ferror(stdout) && (more = mayfly_cursor_next(cursor, &event)) == 1)
		printed = json ? print_event_json(&texts, &event, &path, stacks)
			       : print_event(&texts, &event, &path, stacks);
	mayfly_cursor_close(cursor);
	for (size_t i = 0; texts.text && i < texts.frames; i++)
		free(texts.text[i]);
	free(texts.text);
	free(path.frame);
	if (!printed && !ferror(stdout))
		return cli_error("out of memory");
	if (more < 0)
		return cli_error("the rest of the events: %s", mayfly_error_text(more));
	return cli_finish();
}

int cmd_dump(int argc, char **argv)
{
	static const struct option long_options[] = {{"json", no_argument, NULL, 'j'},
						     {"no-stacks", no_argument, NULL, 'n'},
						     {"help", no_argument, NULL, 'h'},
						     {NULL, 0, NULL, 0}};
	struct opened_trace file;
	bool json = false, stacks = true;
	int option, status;

	opterr = 0;
	while ((option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
		switch (option) {
		case 'j':
			json = true;
			break;
		case 'n':
			stacks = false;
			break;
		case 'h':
			fputs(usage_text, stdout);
			return cli_finish();
		default:
			return cli_bad_option(option, argv);
		}
	}
	if (!one_trace_named(argc, argv))
		return CLI_USAGE;
	if (!open_trace(argv[optind], &file))
		return CLI_FAILED;
	status = dump(&file, json, stacks);
	close_trace(&file);
	return status;
}
