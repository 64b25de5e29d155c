/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly dump: every event on a line of its own; for snapshots, every counter. */
#include "cli/cli.h"
#include "cli/input/open_trace.h"
#include "cli/option_table.h"
#include "terminal/terminal.h"
#include "terminal/output.h"
#include "terminal/print_json.h"

#include "answer/json_parts.h"
#include "answer/trace_names.h"
#include "answer/trace_facts.h"
#include "ocaml_events/eventlog.h"
#include "convert/export/memtrace_write.h"
#include "convert/import/memtrace_read.h"
#include "base/array.h"
#include "trace/read/sums.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

struct dump {
	struct frame_texts texts;
	struct path path;
	bool json, stacks;
	bool printed; /* no error, except perhaps one of reading */
	struct mayfly_track_cursor *track;
	struct mayfly_track_event next; /* when there is one */
	bool more;
};

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
	struct bytes text = {0};
	size_t count = frame->locations ? frame->locations : 1;

	/* Inlined functions are frames of their own here: innermost last. */
	for (size_t i = count; i-- > 0;) {
		char name[NAME_BYTES], clean[NAME_BYTES];
		const struct mayfly_location *l = frame->locations ? &frame->location[i] : NULL;

		frame_name(name, sizeof(name), t->trace, frame, l);
		clean_name(clean, sizeof(clean), name);
		bytes_put(&text, ";", text.used > 0);
		bytes_put(&text, clean, strlen(clean));
	}
	bytes_put(&text, "", 1);
	if (text.failed)
		bytes_free(&text);
	return (char *)text.at;
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

		if (!ARRAY_ADD(path->frame, path->room, path->length, n.frame))
			return false;
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

static void print_seconds(int64_t time_ns)
{
	/* Only events that a forked child inherited may be before its start. */
	uint64_t ns = time_ns < 0 ? -(uint64_t)time_ns : (uint64_t)time_ns;

	printf("%s%" PRIu64 ".%09" PRIu64, time_ns < 0 ? "-" : "", ns / 1000000000,
	       ns % 1000000000);
}

/* Root to leaf, with a space in front. */
static bool print_node(struct dump *d, uint32_t node)
{
	struct path *path = &d->path;

	if (!read_path(d->texts.trace, node, path))
		return false;
	if (path->length == 0)
		fputs(" [no stack]", stdout);
	for (size_t i = path->length; i-- > 0;) {
		const char *text = frame_text(&d->texts, path->frame[i]);

		if (!text)
			return false;
		putchar_unlocked(i + 1 == path->length ? ' ' : ';');
		fputs_unlocked(text, stdout);
	}
	return true;
}

static const char *kind_text(uint32_t kind)
{
	return kind == MAYFLY_ALLOC ? "alloc" : kind == MAYFLY_FREE ? "free" : "promote";
}

/* In quotes, which it has none of then. */
static void print_quoted(const char *text)
{
	char clean[NAME_BYTES];

	text_clean(clean, sizeof(clean), text);
	putchar('"');
	for (const char *s = clean; *s; s++) {
		if (*s == '"' || *s == '\\')
			putchar('\\');
		putchar(*s);
	}
	putchar('"');
}

static void print_labels(const struct mayfly_trace *trace, uint32_t set)
{
	fputs(" labels=", stdout);
	print_quoted(mayfly_trace_label_text(trace, set));
}

static bool print_event(struct dump *d, const struct mayfly_event *e)
{
	char flags[8];

	print_seconds(e->time_ns);
	printf(" %s %" PRIu32 " #%" PRIu64 " size=%" PRIu64 " weight=%.0f flags=%s",
	       kind_text(e->kind), tid_of(d->texts.trace, e->thread), e->sample, e->size,
	       e->weight_bytes, flags_text(e->flags, flags));
	if (e->heap)
		printf(" heap=%s", heap_name(e->heap));
	if (e->kind == MAYFLY_ALLOC && e->labels)
		print_labels(d->texts.trace, e->labels);
	if (e->kind == MAYFLY_ALLOC && d->stacks && !print_node(d, e->node))
		return false;
	putchar('\n');
	return true;
}

/* Root to leaf, unless nothing is known. */
static bool put_stack(struct json *j, struct dump *d, uint32_t node)
{
	struct path *path = &d->path;

	if (!read_path(d->texts.trace, node, path))
		return false;
	json_array(j, "stack");
	for (size_t i = path->length; i-- > 0;) {
		const char *text = frame_text(&d->texts, path->frame[i]);

		if (!text)
			return false;
		json_text(j, NULL, text);
	}
	json_end(j);
	return true;
}

static struct json line_document(void)
{
	struct json j = {.one_line = true};

	json_object(&j, NULL);
	return j;
}

/* stack: of this node; 0: none is wanted. */
static bool end_line(struct json *j, struct dump *d, bool stack, uint32_t node)
{
	if (stack && !put_stack(j, d, node)) {
		bytes_free(&j->bytes);
		return false;
	}
	return json_print_line(j) == CLI_OK;
}

static bool print_event_json(struct dump *d, const struct mayfly_event *e)
{
	struct json j = line_document();

	json_integer(&j, "time_ns", e->time_ns);
	json_text(&j, "event", kind_text(e->kind));
	json_text(&j, "heap", heap_name(e->heap));
	json_unsigned(&j, "tid", tid_of(d->texts.trace, e->thread));
	json_unsigned(&j, "sample", e->sample);
	json_unsigned(&j, "size", e->size);
	json_real(&j, "weight_bytes", e->weight_bytes);
	json_real(&j, "weight_blocks", e->weight_blocks);
	json_bool(&j, "realloc", e->flags & MAYFLY_FLAG_REALLOC);
	json_bool(&j, "temporary", e->flags & MAYFLY_FLAG_TEMPORARY);
	json_bool(&j, "inherited", e->flags & MAYFLY_FLAG_INHERITED);
	if (e->kind == MAYFLY_ALLOC && e->labels)
		json_labels(&j, "labels", d->texts.trace, e->labels);
	return end_line(&j, d, e->kind == MAYFLY_ALLOC && d->stacks, e->node);
}

/* ---- beside the blocks ---- */

static const char *track_kind(uint32_t kind)
{
	static const char *const names[] = {"begin", "end", "instant", "count"};

	return names[kind < 4 ? kind : 2];
}

/* A field's name, without characters that separate fields. */
static void print_field_name(const char *text)
{
	char name[NAME_BYTES];

	text_clean(name, sizeof(name), text);
	for (char *s = name; *s; s++)
		if (strchr(" =\"", *s))
			*s = '_';
	printf(" %s=", name);
}

static void print_value(const struct mayfly_track_type *type, const struct mayfly_track_event *e,
			size_t i)
{
	print_field_name(type->field[i].name);
	switch (type->field[i].type) {
	case MAYFLY_FIELD_INT:
		printf("%" PRId64, e->value[i].i);
		break;
	case MAYFLY_FIELD_UINT:
	case MAYFLY_FIELD_FLOW:
		printf("%" PRIu64, e->value[i].u);
		break;
	case MAYFLY_FIELD_FLOAT:
		printf("%.17g", e->value[i].f);
		break;
	case MAYFLY_FIELD_TEXT:
		print_quoted(e->value[i].text);
		break;
	}
}

static bool print_track(struct dump *d, const struct mayfly_track_event *e)
{
	const struct mayfly_track_type *type = mayfly_trace_track_type(d->texts.trace, e->type);

	print_seconds(e->time_ns);
	printf(" %s %" PRIu32 " ", track_kind(e->kind), tid_of(d->texts.trace, e->thread));
	print_quoted(type->name);
	if (*type->category) {
		fputs(" category=", stdout);
		print_quoted(type->category);
	}
	for (size_t i = 0; i < e->values; i++)
		print_value(type, e, i);
	if (d->stacks && e->node && !print_node(d, e->node))
		return false;
	putchar('\n');
	return true;
}

static bool print_track_json(struct dump *d, const struct mayfly_track_event *e)
{
	const struct mayfly_track_type *type = mayfly_trace_track_type(d->texts.trace, e->type);
	struct json j = line_document();

	json_integer(&j, "time_ns", e->time_ns);
	json_text(&j, "event", track_kind(e->kind));
	json_text(&j, "name", type->name);
	json_text_or_null(&j, "category", type->category);
	json_unsigned(&j, "tid", tid_of(d->texts.trace, e->thread));
	json_object(&j, "values");
	for (size_t i = 0; i < e->values; i++)
		json_track_value(&j, type, e, i);
	json_end(&j);
	return end_line(&j, d, e->node && d->stacks, e->node);
}

/* ---- snapshots ---- */

/* The counters of one stack in one interval. */
struct counts {
	int64_t from_ns, to_ns;
	uint32_t node;
	uint64_t allocs, alloc_bytes, frees, free_bytes, temps, temp_bytes;
	uint64_t inherited, inherited_bytes; /* not in allocs */
};

static bool print_counts(struct dump *d, const struct counts *c)
{
	print_seconds(c->from_ns);
	putchar(' ');
	print_seconds(c->to_ns);
	printf(" counts #%" PRIu32 " allocs=%" PRIu64 " alloc_bytes=%" PRIu64 " frees=%" PRIu64
	       " free_bytes=%" PRIu64 " temps=%" PRIu64 " temp_bytes=%" PRIu64,
	       c->node, c->allocs, c->alloc_bytes, c->frees, c->free_bytes, c->temps,
	       c->temp_bytes);
	if (c->inherited)
		printf(" inherited=%" PRIu64 " inherited_bytes=%" PRIu64, c->inherited,
		       c->inherited_bytes);
	if (d->stacks && !print_node(d, c->node))
		return false;
	putchar('\n');
	return true;
}

static bool print_counts_json(struct dump *d, const struct counts *c)
{
	struct json j = line_document();

	json_integer(&j, "from_ns", c->from_ns);
	json_integer(&j, "to_ns", c->to_ns);
	json_unsigned(&j, "node", c->node);
	json_unsigned(&j, "allocs", c->allocs);
	json_unsigned(&j, "alloc_bytes", c->alloc_bytes);
	json_unsigned(&j, "frees", c->frees);
	json_unsigned(&j, "free_bytes", c->free_bytes);
	json_unsigned(&j, "temps", c->temps);
	json_unsigned(&j, "temp_bytes", c->temp_bytes);
	json_unsigned(&j, "inherited", c->inherited);
	json_unsigned(&j, "inherited_bytes", c->inherited_bytes);
	return end_line(&j, d, d->stacks, c->node);
}

/* ---- the command ---- */

static int next_track(struct dump *d)
{
	int more = mayfly_track_cursor_next(d->track, &d->next);

	d->more = more == 1;
	return more < 0 ? more : 0;
}

static int begin_tracks(struct dump *d)
{
	int error = mayfly_track_cursor_open(d->texts.trace, &d->track);

	return error ? error : next_track(d);
}

/* Prints those before this number of events and this time. */
static int dump_tracks(struct dump *d, uint64_t events, int64_t to_ns)
{
	int error = 0;

	while (!error && d->more && d->printed && !ferror(stdout) &&
	       d->next.events_before <= events && d->next.time_ns <= to_ns) {
		d->printed = d->json ? print_track_json(d, &d->next) : print_track(d, &d->next);
		error = next_track(d);
	}
	return error;
}

static void dump_part(struct dump *d, const struct sums_part *part)
{
	for (size_t i = 0; d->printed && !ferror(stdout) && i < part->nodes; i++) {
		struct counts c = {
		    .from_ns = part->from_ns,
		    .to_ns = part->to_ns,
		    .node = part->node[i],
		    .allocs = part->allocs[i] - part->inherited[i],
		    .alloc_bytes = part->alloc_bytes[i] - part->inherited_bytes[i],
		    .frees = part->frees[i],
		    .free_bytes = part->free_bytes[i],
		    .temps = part->temps[i],
		    .temp_bytes = part->temp_bytes[i],
		    .inherited = part->inherited[i],
		    .inherited_bytes = part->inherited_bytes[i],
		};

		d->printed = d->json ? print_counts_json(d, &c) : print_counts(d, &c);
	}
}

/* Both return the result of reading: 0, or a negative error. */
static int dump_snapshots(struct dump *d)
{
	struct sums_cursor *cursor;
	struct sums_part part;
	int error = 0, more = sums_cursor_open(d->texts.trace, &cursor);

	if (more)
		return more;
	while (d->printed && !ferror(stdout) && (more = sums_cursor_next(cursor, &part)) == 1) {
		error = dump_tracks(d, UINT64_MAX, part.from_ns);
		if (error)
			break;
		dump_part(d, &part);
	}
	sums_cursor_close(cursor);
	return error ? error : more < 0 ? more : 0;
}

static int dump_event(struct dump *d, const struct mayfly_event *event, uint64_t *events)
{
	int error = dump_tracks(d, *events, INT64_MAX);

	*events += event->kind != MAYFLY_PROMOTE;
	if (!error && d->printed)
		d->printed = d->json ? print_event_json(d, event) : print_event(d, event);
	return error;
}

static int dump_events(struct dump *d)
{
	struct mayfly_cursor *cursor;
	struct mayfly_event event;
	uint64_t events = 0;
	int error = 0, more = mayfly_cursor_open(d->texts.trace, &cursor);

	if (more)
		return more;
	mayfly_cursor_promotions(cursor);
	while (!error && d->printed && !ferror(stdout) &&
	       (more = mayfly_cursor_next(cursor, &event)) == 1)
		error = dump_event(d, &event, &events);
	mayfly_cursor_close(cursor);
	return error ? error : more < 0 ? more : 0;
}

static int dump_all(struct dump *d)
{
	int error = begin_tracks(d);

	if (!error)
		error = mayfly_trace_info(d->texts.trace)->snapshot_ns ? dump_snapshots(d)
								       : dump_events(d);
	if (!error)
		error = dump_tracks(d, UINT64_MAX, INT64_MAX);
	mayfly_track_cursor_close(d->track);
	return error;
}

static int dump(const struct opened_trace *file, bool json, bool stacks)
{
	struct dump d = {.json = json, .stacks = stacks};
	int error = 0;

	d.texts = (struct frame_texts){file->trace, NULL, file->info->frames};
	d.texts.text = calloc(d.texts.frames + 1, sizeof(*d.texts.text));
	d.printed = d.texts.text != NULL;
	if (d.printed)
		error = dump_all(&d);
	for (size_t i = 0; d.texts.text && i < d.texts.frames; i++)
		free(d.texts.text[i]);
	free(d.texts.text);
	free(d.path.frame);
	if (!d.printed && !ferror(stdout))
		return cli_error("out of memory");
	if (error)
		return cli_error("the rest of the events: %s", mayfly_error_text(error));
	return cli_finish();
}

/* ---- as Memtrace does ---- */

static int to_stdout(void *context, const void *bytes, size_t size)
{
	(void)context;
	return fwrite_unlocked(bytes, 1, size, stdout) == size ? 0 : 1;
}

static int print_memtrace_events(struct memtrace_reader *r)
{
	struct memtrace_event event;
	int more;

	while ((more = memtrace_next(r, &event)) == 1) {
		more = memtrace_print(r, &event, to_stdout, NULL);
		if (more)
			break;
	}
	return more;
}

static void say_left_out(const char *path, const struct memtrace_reader *r)
{
	struct memtrace_skipped skipped = memtrace_skipped(r);

	if (skipped.wrong_pid + skipped.misplaced + skipped.truncated)
		cli_error("%s: left out: %" PRIu64 " packets of other processes, %" PRIu64
			  " that do not follow the ones before, %" PRIu64 " cut off",
			  path, skipped.wrong_pid, skipped.misplaced, skipped.truncated);
}

static int print_memtrace(const char *path, const void *data, size_t size)
{
	struct memtrace_reader *r;
	int error = memtrace_open(data, size, &r), status;

	if (error)
		return cli_error("%s: a Memtrace file: %s", path, mayfly_error_text(error));
	error = print_memtrace_events(r);
	status = cli_finish();
	if (error < 0 && *memtrace_problem(r))
		status = cli_error("%s: damaged: %s; what comes before that is printed", path,
				   memtrace_problem(r));
	else if (error < 0)
		status =
		    cli_error("%s: the rest of the events: %s", path, mayfly_error_text(error));
	say_left_out(path, r);
	memtrace_close(r);
	return status;
}

static int print_as_memtrace(const char *path, const struct opened_trace *file)
{
	struct trace_buffer made = {0};
	int error, status;

	if (file->info->snapshot_ns)
		return cli_error("%s: a trace of snapshots has no single blocks; 'mayfly dump' "
				 "without --like-memtrace prints its counters",
				 path);
	if (trace_has_no_blocks(file->info))
		return cli_error("%s: has no blocks, which Memtrace's tool prints; 'mayfly dump' "
				 "without --like-memtrace prints its events",
				 path);
	error = memtrace_from_trace(file->trace, "", 0, trace_buffer_sink, &made);
	if (error)
		status = cli_error("%s: %s", path,
				   mayfly_error_text(error < 0 ? error : MAYFLY_E_MEMORY));
	else
		status = print_memtrace(path, made.bytes, made.used);
	free(made.bytes);
	return status;
}

static int dump_like_memtrace(const char *path)
{
	struct opened_trace opened;
	struct loaded_file file;
	int status = CLI_FAILED;

	if (!load_file(path, &file))
		return CLI_FAILED;
	pager_start();
	/* Eventlogs begin as Memtrace's files do, which are CTF, too. */
	if (memtrace_recognise(file.data, file.size) && !eventlog_recognise(file.data, file.size)) {
		status = print_memtrace(path, file.data, file.size);
		unload_file(&file);
	} else if (open_loaded(path, &file, &opened)) {
		status = print_as_memtrace(path, &opened);
		close_trace(&opened);
	}
	return status;
}

struct settings {
	bool json, no_stacks, like_memtrace;
};

static const struct option_row dump_rows[] = {
    {"no-stacks", .help = "leave STACK out", OPTION_FLAG(struct settings, no_stacks)},
    {"json", .help = "print one JSON object on each line", OPTION_FLAG(struct settings, json)},
    {"like-memtrace", .help = "print what Memtrace's own tool prints; traces are converted",
     OPTION_FLAG(struct settings, like_memtrace)},
    OPTION_END,
};

const struct option_table dump_option_table = {
    .usage = "dump [OPTIONS] FILE",
    .about =
	"Prints every event of a trace in time order, one per line, fields separated by spaces:\n"
	"\n"
	"  SECONDS alloc TID #SAMPLE size=BYTES weight=BYTES flags=FLAGS STACK\n"
	"  SECONDS free TID #SAMPLE size=BYTES weight=BYTES flags=FLAGS\n"
	"\n"
	"SAMPLE numbers the blocks. weight is how many bytes of the program the block stands for.\n"
	"FLAGS: r part of a realloc, t temporary, i inherited from the parent process, - none.\n"
	"After them: heap=HEAP when it is not malloc's, and labels=\"KEY=VALUE, ...\" of an "
	"alloc.\n"
	"STACK: functions from the root to the leaf, separated by ';', to the end of the line.\n"
	"\n"
	"Other events stand between them, in time order:\n"
	"\n"
	"  SECONDS begin|end|instant|count TID \"NAME\" category=\"CATEGORY\" FIELD=VALUE ...\n"
	"      STACK    (all on one line)\n"
	"\n"
	"begin and end are of spans, count of counters. Texts are in double quotes, with \\\" and\n"
	"\\\\ for a quote and a backslash.\n"
	"\n"
	"A trace of snapshots has no blocks. For it, each line is what a stack did in an "
	"interval:\n"
	"\n"
	"  FROM TO counts #NODE allocs=N alloc_bytes=BYTES frees=N free_bytes=BYTES\n"
	"      temps=N temp_bytes=BYTES inherited=N inherited_bytes=BYTES STACK\n"
	"      (all on one line)\n"
	"\n"
	"NODE numbers the stacks. temps: frees of temporary blocks. The inherited blocks of a\n"
	"forked process are in no other count; both fields are missing where there are none.\n",
    .rows = dump_rows,
};

int cmd_dump(int argc, char **argv)
{
	struct settings set = {0};
	struct opened_trace file;
	int status = options_take(&dump_option_table, &set, argc, argv);

	if (status != OPTIONS_TAKEN)
		return status;
	if (!one_named(argc, argv, "trace"))
		return CLI_USAGE;
	if (set.like_memtrace && (set.json || set.no_stacks))
		return cli_usage("--like-memtrace cannot be combined with other options");
	if (set.like_memtrace)
		return dump_like_memtrace(argv[optind]);
	if (!open_trace(argv[optind], &file))
		return CLI_FAILED;
	pager_start();
	status = dump(&file, set.json, !set.no_stacks);
	close_trace(&file);
	return status;
}
