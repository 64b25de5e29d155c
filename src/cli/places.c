/* SPDX-License-Identifier: Apache-2.0 */
/* How the things of a trace are called. */
#include "cli/places.h"

#include "cli/absent.h"
#include "answer/plain_name.h"
#include "answer/shown_stacks.h"
#include "trace/read/sums.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAME_BYTES  65536 /* for one name; C++ has names of many KB */
#define FEW_SAMPLES 100	  /* fewer say little about anything but the total */

/* ---- frames ---- */

static char *name_of(char *buffer, size_t size, uint32_t kind, const char *function,
		     const char *module, uint64_t address)
{
	char made[NAME_BYTES];

	snprintf(buffer, size, "%s",
		 frame_shown_name(made, sizeof(made), kind, function, module, address));
	return buffer;
}

char *place_name(char *buffer, size_t size, const struct mayfly_place *place)
{
	return name_of(buffer, size, place->kind, place->function, place->module, place->address);
}

char *row_name(char *buffer, size_t size, const struct mayfly_row *row)
{
	/* A row without a function has its address in its only place. */
	if (!*row->function && row->stack_length > 0)
		return place_name(buffer, size, &row->stack[0]);
	if (!*row->function && *row->module)
		snprintf(buffer, size, "[no symbols in %s]", path_base(row->module));
	else
		snprintf(buffer, size, "%s", *row->function ? row->function : "[unknown]");
	return buffer;
}

char *frame_name(char *buffer, size_t size, const struct mayfly_trace *trace,
		 const struct mayfly_frame *frame, const struct mayfly_location *location)
{
	const struct mayfly_module *module = mayfly_trace_module(trace, frame->module);

	return name_of(buffer, size, frame->kind, location ? location->function : "",
		       module ? module->path : "", frame->address);
}

char *location_text(char *buffer, size_t size, const char *file, uint32_t line, const char *module,
		    bool wide)
{
	if (!file || !*file)
		snprintf(buffer, size, "%s", module ? wide ? module : path_base(module) : "");
	else if (line)
		snprintf(buffer, size, "%s:%" PRIu32, wide ? file : path_tail(file), line);
	else
		snprintf(buffer, size, "%s", wide ? file : path_tail(file));
	return buffer;
}

/* ---- programs ---- */

/* Characters that a shell takes as they are. */
static bool is_plain_word(const char *text)
{
	if (!*text)
		return false;
	for (; *text; text++)
		if (!isalnum((unsigned char)*text) && !strchr("_-+=./:,@%", *text))
			return false;
	return true;
}

char *command_line(char *buffer, size_t size, const struct mayfly_info *info)
{
	size_t used = 0;

	buffer[0] = 0;
	if (info->command_count == 0)
		snprintf(buffer, size, "%s", *info->program ? info->program : "unknown");
	for (size_t i = 0; i < info->command_count && used < size; i++) {
		const char *word = i == 0 ? path_base(info->command[0]) : info->command[i];
		const char *quote = is_plain_word(word) ? "" : "'";
		int added = snprintf(buffer + used, size - used, "%s%s%s%s", i ? " " : "", quote,
				     word, quote);

		used += added > 0 ? (size_t)added : 0;
	}
	return buffer;
}

char *start_text(char *buffer, size_t size, const struct mayfly_info *info)
{
	time_t seconds = (time_t)(info->start_real_ns / 1000000000);
	struct tm parts;

	if (info->start_real_ns < 0 || !localtime_r(&seconds, &parts) ||
	    !strftime(buffer, size, "%Y-%m-%d %H:%M:%S %Z", &parts))
		snprintf(buffer, size, "at an unknown time");
	return buffer;
}

char *ending_text(char *buffer, size_t size, const struct mayfly_info *info)
{
	const char *signal_name;

	switch (info->ending) {
	case MAYFLY_END_EXITED:
		snprintf(buffer, size, "exit status %" PRId32, info->ending_code);
		break;
	case MAYFLY_END_KILLED:
		signal_name = sigabbrev_np(info->ending_code);
		if (signal_name)
			snprintf(buffer, size, "killed by SIG%s", signal_name);
		else
			snprintf(buffer, size, "killed by signal %" PRId32, info->ending_code);
		break;
	case MAYFLY_END_OFF:
		snprintf(buffer, size, "recording stopped before the program ended");
		break;
	case MAYFLY_END_EXEC:
		snprintf(buffer, size, "went on with another program (exec)");
		break;
	default:
		snprintf(buffer, size, "how it ended is not known");
	}
	return buffer;
}

char *line_fit(char *buffer, size_t size, const struct output *o, const char *text, size_t columns)
{
	const char *mark = o->utf8 ? "…" : "...";
	size_t mark_columns = text_columns(mark);
	size_t column = 0;
	char *s = buffer;

	text_clean(buffer, size, text);
	if (o->wide || text_columns(buffer) <= columns)
		return buffer;
	while (column + mark_columns < columns || (*s & 0xc0) == 0x80)
		column += (*++s & 0xc0) != 0x80;
	if ((size_t)(s - buffer) + strlen(mark) < size)
		strcpy(s, mark);
	else
		*s = 0;
	return buffer;
}

/* ---- how it was recorded ---- */

const char *heap_name(uint32_t heap)
{
	static const char *const name[MAYFLY_HEAPS] = {"malloc",   "ocaml-minor", "ocaml-major",
						       "external", "pool",	  "pool-mapped"};

	return name[heap < MAYFLY_HEAPS ? heap : 0];
}

bool trace_is_exact(const struct mayfly_info *info)
{
	return (info->mode == MAYFLY_EXACT && !info->thinned) || info->snapshot_ns;
}

bool trace_is_ocaml_alone(const struct mayfly_info *info)
{
	return info->heaps && !(info->heaps & ~MAYFLY_HEAPS_OCAML);
}

bool trace_overlaps(const struct mayfly_info *info)
{
	const uint32_t malloc_heap = 1u << MAYFLY_HEAP_MALLOC;

	/* A trace that was cut off does not say which heaps it has. */
	return info->ocaml_interval_bytes &&
	       (!info->heaps || (info->heaps & malloc_heap && info->heaps & MAYFLY_HEAPS_OCAML));
}

bool trace_has_pools(const struct mayfly_info *info)
{
	return info->heaps >> MAYFLY_HEAP_POOL & info->heaps >> MAYFLY_HEAP_MALLOC & 1;
}

void print_overlap(const struct output *o, const struct mayfly_info *info, bool twice)
{
	if (trace_has_pools(info))
		print_field(o, "Pools", "their blocks lie in blocks of malloc: %s",
			    twice		? "do not add them up"
			    : info->snapshot_ns ? "sums leave them out"
						: "sums leave them out, --heap pool shows them");
	if (!trace_overlaps(info))
		return;
	if (twice)
		print_field(o, "Overlap",
			    "malloc's blocks include the memory that OCaml's heaps lie in, and "
			    "external memory that malloc gave: do not add them up");
	else
		print_field(o, "Counted",
			    "each byte once: as OCaml's block where there is one, else as "
			    "malloc's; --by heap shows all heaps beside each other");
}

size_t trace_snapshots(const struct mayfly_trace *trace)
{
	return mayfly_trace_info(trace)->snapshot_ns ? trace_sums_parts(trace) : 0;
}

/* The largest interval that was in force; 0: nothing was sampled. */
static double largest_interval(const struct mayfly_trace *trace)
{
	struct mayfly_cursor *cursor;
	struct mayfly_event event;
	double largest = 0;

	if (mayfly_cursor_open(trace, &cursor) != 0)
		return 0;
	while (mayfly_cursor_next(cursor, &event) == 1)
		if (event.kind == MAYFLY_ALLOC && event.heap == MAYFLY_HEAP_MALLOC &&
		    event.interval > largest)
			largest = event.interval;
	mayfly_cursor_close(cursor);
	return largest;
}

char *interval_text(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	char first[FIGURE_TEXT], last[FIGURE_TEXT];
	double largest = largest_interval(trace);

	text_bytes(first, sizeof(first), (double)info->interval_bytes);
	if (largest > (double)info->interval_bytes)
		snprintf(buffer, size, "1 byte in %s at the start, in up to %s later", first,
			 text_bytes(last, sizeof(last), (double)largest));
	else
		snprintf(buffer, size, "1 byte in %s", first);
	return buffer;
}

char *mode_text(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	const char *what = info->absent & MAYFLY_ABSENT_LIVE	    ? "every allocation"
			   : info->absent & MAYFLY_ABSENT_ALLOCATED ? "every live block"
								    : "every allocation";
	char interval[160] = "";

	if (info->mode == MAYFLY_EXACT) {
		snprintf(buffer, size, "%s", what);
		return buffer;
	}
	if (info->interval_bytes > 1)
		interval_text(interval, sizeof(interval), trace);
	else
		snprintf(interval, sizeof(interval), "how finely is not known");
	snprintf(buffer, size, "%s%s", interval,
		 info->absent & MAYFLY_ABSENT_ERRORS ? "; estimates as the file has them"
						     : " (Poisson)");
	return buffer;
}

const char *samples_word(uint64_t samples)
{
	return samples == 1 ? "sample" : "samples";
}

/* ---- notes ---- */

/* With every allocation recorded, losses are the one thing that can make figures wrong. */
static void note_lost_records(const struct output *o, const struct mayfly_info *info)
{
	if (info->dropped_samples && info->dropped_frees)
		print_field(o, "Dropped",
			    "%" PRIu64 " allocations and %" PRIu64
			    " frees are missing: what is allocated is a lower bound, what is live "
			    "may be too high or too low; record with more --max-spool",
			    info->dropped_samples, info->dropped_frees);
	else if (info->dropped_samples)
		print_field(o, "Dropped",
			    "%" PRIu64 " allocations are missing: all figures are lower bounds; "
			    "record with more --max-spool",
			    info->dropped_samples);
	else
		print_field(o, "Dropped",
			    "%" PRIu64 " frees are missing: what is live or leaked is too high; "
			    "record with more --max-spool",
			    info->dropped_frees);
}

static void note_losses(const struct output *o, const struct mayfly_info *info)
{
	char bytes[FIGURE_TEXT];

	if ((info->dropped_samples || info->dropped_frees) && trace_is_exact(info))
		note_lost_records(o, info);
	else if (info->dropped_samples || info->dropped_frees)
		print_field(o, "Dropped",
			    "%" PRIu64 " samples, %" PRIu64
			    " frees: the figures are too low (samples) or too high (frees)",
			    info->dropped_samples, info->dropped_frees);
	if (info->thinned)
		print_field(o, "Thinned",
			    "part of the samples was dropped to keep within --max-size, and the "
			    "others count for them: the figures are right on average, their errors "
			    "show the price");
	if (info->truncated_stacks)
		print_field(o, "Truncated", "%" PRIu64 " %s root part", info->truncated_stacks,
			    info->truncated_stacks == 1 ? "stack lacks its" : "stacks lack their");
	if (info->nested_blocks)
		print_field(o, "Not counted",
			    "%s in %" PRIu64 " blocks that signal handlers allocated",
			    text_bytes(bytes, sizeof(bytes), (double)info->nested_bytes),
			    info->nested_blocks);
}

static uint64_t finer_interval(const struct mayfly_info *info)
{
	uint64_t interval = info->interval_bytes;

	/* Down to what would have given about ten times the few samples. */
	for (uint64_t samples = info->samples ? info->samples : 1;
	     samples < 10 * FEW_SAMPLES && interval > 256; samples *= 2)
		interval /= 2;
	return interval;
}

static void text_option_bytes(char *buffer, size_t size, uint64_t bytes)
{
	static const char suffixes[] = "\0KMGT";
	size_t i = 0;

	for (; i < 4 && bytes >= 1024 && bytes % 1024 == 0; i++)
		bytes /= 1024;
	snprintf(buffer, size, "%" PRIu64 "%.1s", bytes, suffixes + i);
}

static void note_remedies(const struct output *o, const struct mayfly_info *info)
{
	char interval[FIGURE_TEXT], finer[FIGURE_TEXT];

	/* Nobody can record it again with these options. */
	bool recorded = !trace_is_ocaml_alone(info) && !info->absent;

	if (recorded && info->mode == MAYFLY_SAMPLED && info->samples < FEW_SAMPLES) {
		text_bytes(interval, sizeof(interval), (double)info->interval_bytes);
		text_option_bytes(finer, sizeof(finer), finer_interval(info));
		print_field(o, "Hint",
			    "an interval of %s gave only %" PRIu64
			    " samples; for more detail record again with -i %s",
			    interval, info->samples, finer);
	}
	if (info->frames && info->frames_symbolized < info->frames * 0.8)
		print_field(
		    o, "Hint",
		    "%zu of %zu code addresses have no function name: install debug symbols; "
		    "'mayfly info' says for which modules",
		    info->frames - info->frames_symbolized, info->frames);
}

void print_notes(const struct output *o, const struct mayfly_info *info)
{
	char text[NAME_BYTES];

	if (*info->off_text)
		print_field(o, "Stopped", "%s", text_clean(text, sizeof(text), info->off_text));
	if (info->spool)
		print_field(o, "Spool",
			    "read from what the agent left behind; 'mayfly record' did not end it");
	if (!info->complete && !info->spool)
		print_field(o, "Incomplete",
			    "the file was cut off or damaged; what is whole of it is shown");
	note_losses(o, info);
	print_absent(o, info);
	if (*info->note)
		print_field(o, "Note", "%s", text_clean(text, sizeof(text), info->note));
	note_remedies(o, info);
}

struct module_frames *count_module_frames(const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct module_frames *count = calloc(info->modules + 1, sizeof(*count));

	for (size_t i = 0; count && i < info->frames; i++) {
		const struct mayfly_frame *f = mayfly_trace_frame(trace, i);

		if (f->kind != MAYFLY_FRAME_CODE || f->module >= info->modules)
			continue;
		count[f->module].frames++;
		count[f->module].named += f->locations > 0 && *f->location[0].function;
	}
	return count;
}

static void mark_nodes_of_events(const struct mayfly_trace *trace, bool *seen, size_t nodes)
{
	struct mayfly_cursor *cursor;
	struct mayfly_event event;

	if (mayfly_cursor_open(trace, &cursor) != 0)
		return;
	while (mayfly_cursor_next(cursor, &event) == 1)
		if (event.kind == MAYFLY_ALLOC && event.node < nodes)
			seen[event.node] = true;
	mayfly_cursor_close(cursor);
}

static void mark_nodes_of_counters(const struct mayfly_trace *trace, bool *seen, size_t nodes)
{
	struct sums_cursor *cursor;
	struct sums_part part;

	if (sums_cursor_open(trace, &cursor) != 0)
		return;
	while (sums_cursor_next(cursor, &part) == 1)
		for (size_t i = 0; i < part.nodes; i++)
			if (part.allocs[i] && part.node[i] < nodes)
				seen[part.node[i]] = true;
	sums_cursor_close(cursor);
}

size_t trace_stacks(const struct mayfly_trace *trace)
{
	size_t nodes = mayfly_trace_info(trace)->nodes, stacks = 0;
	bool *seen = calloc(nodes + 1, sizeof(*seen));

	if (!seen)
		return 0;
	if (trace_sums_parts(trace))
		mark_nodes_of_counters(trace, seen, nodes);
	else
		mark_nodes_of_events(trace, seen, nodes);
	for (size_t i = 0; i < nodes; i++)
		stacks += seen[i];
	free(seen);
	return stacks;
}

/* ---- hidden frames ---- */

/* Names without parameters and template arguments, as name_plain() makes them. */
static const char *const interface_names[] = {
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "__libc_malloc",
    "__libc_calloc",
    "__libc_realloc",
    "__libc_reallocarray",
    "__libc_memalign",
    "__libc_valloc",
    "__libc_pvalloc",
    "__posix_memalign",
    "_int_malloc",
    "_int_realloc",
    "_int_memalign",
    "_mid_memalign",
    "sysmalloc",
    "operator new",
    "operator new[]",
    "std::allocator<>::allocate",
    "std::allocator_traits<>::allocate",
    "std::__new_allocator<>::allocate",
    "__gnu_cxx::new_allocator<>::allocate",
    "__gnu_cxx::__alloc_traits<>::allocate",
    "std::__1::allocator<>::allocate",
    "std::__1::allocator_traits<>::allocate",
    "std::__1::__libcpp_allocate",
    "std::__1::__libcpp_operator_new",
    "std::__1::__libcpp_operator_new<>",
    "std::__1::__allocate_at_least<>",
    "__rust_alloc",
    "__rust_alloc_zeroed",
    "__rust_realloc",
    "__rdl_alloc",
    "__rdl_alloc_zeroed",
    "__rdl_realloc",
    "__rg_alloc",
    "__rg_alloc_zeroed",
    "__rg_realloc",
    "alloc::alloc::alloc",
    "alloc::alloc::alloc_zeroed",
    "alloc::alloc::realloc",
    "alloc::alloc::exchange_malloc",
    "alloc::alloc::Global::alloc_impl",
    "alloc::alloc::Global::grow_impl",
    "<alloc::alloc::Global as core::alloc::Allocator>::allocate",
    "<alloc::alloc::Global as core::alloc::Allocator>::allocate_zeroed",
    "<alloc::alloc::Global as core::alloc::Allocator>::grow",
    "<std::alloc::System as core::alloc::global::GlobalAlloc>::alloc",
    "<std::alloc::System as core::alloc::global::GlobalAlloc>::alloc_zeroed",
    "<std::alloc::System as core::alloc::global::GlobalAlloc>::realloc"};

static bool is_interface_name(const char *plain)
{
	for (size_t i = 0; i < sizeof(interface_names) / sizeof(interface_names[0]); i++) {
		size_t length = strlen(interface_names[i]);

		if (strncmp(plain, interface_names[i], length) == 0 &&
		    (plain[length] == 0 || plain[length] == '('))
			return true;
	}
	return false;
}

static bool is_allocator_frame(const char *text)
{
	char plain[512];
	const char *space;

	if (text[0] == '/')
		return strcmp(path_base(text), "libmayfly.so") == 0;
	if (strlen(text) > 4 * sizeof(plain))
		return false;
	name_plain(plain, sizeof(plain), text);
	if (is_interface_name(plain))
		return true;
	/* Templates of functions are demangled with their result: "void* f<int>()". */
	space = strchr(plain, ' ');
	return space && is_interface_name(space + 1);
}

static int is_hidden(void *context, const char *text)
{
	const struct hidden_frames *hidden = context;

	return pattern_matches(hidden->pattern, text) ||
	       (!hidden->all_frames && is_allocator_frame(text));
}

struct mayfly_match hidden_frames_match(struct hidden_frames *hidden)
{
	struct mayfly_match m = {is_hidden, hidden};

	if (hidden->all_frames && hidden->pattern->count == 0)
		m.matches = NULL;
	return m;
}

/* ---- stacks ---- */

static void write_place(FILE *to, const struct output *o, const struct mayfly_place *place)
{
	char name[NAME_BYTES], fitted[NAME_BYTES], location[NAME_BYTES], shown[NAME_BYTES];
	size_t room = (size_t)o->width - STACK_INDENT, used = 0;
	const char *inlined = place->inlined ? " (inlined)" : "";

	place_name(name, sizeof(name), place);
	location[0] = 0;
	if (place->kind == MAYFLY_FRAME_CODE && *place->function)
		location_text(location, sizeof(location), place->file, place->line, place->module,
			      o->wide);
	if (place->last_char && place->line) {
		size_t end = strlen(location);

		snprintf(location + end, sizeof(location) - end, ":%" PRIu32 "-%" PRIu32,
			 place->first_char, place->last_char);
	}
	line_fit(shown, sizeof(shown), o, location, room / 2);
	if (*shown)
		used += 2 + text_columns(shown);
	used += strlen(inlined);
	fprintf(to, "%*s", STACK_INDENT, "");
	write_styled(to, o, place->kind == MAYFLY_FRAME_CODE ? STYLE_PLAIN : STYLE_NOTE,
		     name_fit(fitted, sizeof(fitted), o, name, room > used ? room - used : 1));
	if (*shown) {
		fputs("  ", to);
		write_styled(to, o, STYLE_DIM, shown);
	}
	write_styled(to, o, STYLE_DIM, inlined);
	fputc('\n', to);
}

void write_stack(FILE *to, const struct output *o, const struct mayfly_place *stack, size_t length,
		 size_t depth)
{
	size_t shown = length;

	/* A line that says "1 more" takes the place of what it leaves out. */
	if (depth && shown > depth + 1)
		shown = depth;
	for (size_t i = 0; i < shown; i++)
		write_place(to, o, &stack[i]);
	if (length == 0)
		fprintf(to, "%*s[no frames]\n", STACK_INDENT, "");
	if (shown < length) {
		char text[64];

		snprintf(text, sizeof(text), "[%zu more frames]", length - shown);
		fprintf(to, "%*s", STACK_INDENT, "");
		write_styled(to, o, STYLE_DIM, text);
		fputc('\n', to);
	}
}

void print_stack(const struct output *o, const struct mayfly_place *stack, size_t length,
		 size_t depth)
{
	write_stack(stdout, o, stack, length, depth);
}
