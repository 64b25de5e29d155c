/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From traces of mayfly to Memtrace's files.
 *
 * In Memtrace every word of the whole run has the same probability r to be sampled, and each sample
 * of a block stands for 1 / r words. Blocks in OCaml's heaps are sampled like this, so their rate
 * and numbers of samples are kept. Any other block, which stands for `bytes`, gets
 *
 *	n = bytes / 8 * r	samples
 *
 * with the r of the shortest interval, rounded up or down at random so that sums stay unbiased.
 * A block with no sample is left out; this can only happen to a block whose weight in the trace is
 * below that of a sample.
 *
 * A frame's code is half of its address in the process, like OCaml's codes; if two frames would get
 * the same code, the second one gets a number that is not an address.
 *
 * The file has domains (version 3) when the trace is of a program with several, else it has version 2.
 * A trace that was made from a Memtrace file gives the same bytes again: with the file's version,
 * domains, and names as the runtime spells them. (Stacks that Memtrace had to cut are an exception.)
 */
#include "convert/export/exports.h"
#include "base/search.h"
#include "convert/export/memtrace_write.h"
#include "convert/export/thread_domains.h"
#include "base/array.h"
#include "base/interner.h"
#include "ocaml_events/ocaml_spelling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BYTES	     8
#define VERSION_WITH_DOMAINS 3
#define CODE_MADE_UP	     ((int64_t)1 << 61) /* above all addresses; fits into 63 bits with sign */

struct export
{
	const struct mayfly_trace *trace;
	const struct mayfly_info *info;
	struct memtrace_writer *writer;
	double rate;
	bool exact; /* rate 1 */
	bool kept;  /* rate and samples are the trace's */
	uint32_t heaps;

	struct interner codes; /* a code's number is its frame */

	int64_t *stack; /* codes of last_node's stack, main first */
	size_t stack_size, depth;
	uint32_t last_node;
	struct thread_domains domains;
	bool has_domains; /* the file: version 3 */
	int64_t *id;	  /* of each sample, -1 for those left out; only with domains */
	size_t ids, ids_size;
	uint64_t *left_out; /* samples, ascending; only without domains */
	size_t left_outs, left_out_size;

	struct memtrace_location *location; /* result of the last locate() */
	size_t location_size;
	char *name; /* names of its functions, where they are not the trace's */
	size_t names, names_size;
	char text[64];
};

/* ---- codes and their meanings ---- */

static struct key key_of(int64_t code)
{
	return (struct key){{1, (uint64_t)code}};
}

static int memtrace_number_frames(struct export *x)
{
	size_t frames = x->info->frames;

	for (size_t i = 0; i < frames; i++) {
		const struct mayfly_frame *f = mayfly_trace_frame(x->trace, i);
		int64_t code = (int64_t)export_address(x->trace, f) >> 1;
		bool is_new;

		if (!code || (code >= CODE_MADE_UP && (uint64_t)(code - CODE_MADE_UP) < frames) ||
		    interner_find(&x->codes, key_of(code)) != INTERNER_NONE)
			code = CODE_MADE_UP + (int64_t)i;
		if (interner_add(&x->codes, key_of(code), &is_new) == INTERNER_NONE)
			return MAYFLY_E_MEMORY;
	}
	return 0;
}

static const char *or_else(const char *text, const char *other)
{
	return *text ? text : other;
}

/* The function's name in the runtime. Room for the names of a frame was made by reserve_names(). */
static const char *name_before(struct export *x, const struct mayfly_location *l)
{
	char *name = x->name + x->names;

	if (!l->respelled ||
	    !ocaml_spelled_before(l->function, l->respelled, name, x->names_size - x->names))
		return or_else(l->function, "??");
	x->names += strlen(name) + 1;
	return name;
}

static bool reserve_names(struct export *x, const struct mayfly_frame *f)
{
	size_t room = 0;

	for (size_t i = 0; i < f->locations; i++)
		room += strlen(f->location[i].function) + (f->location[i].respelled >> 1) + 1;
	x->names = 0;
	return array_reserve(&x->name, &x->names_size, room, 1);
}

/* Frames that stand for an unknown part of a stack have a text instead of a function's name. */
static const struct memtrace_location *locate_gap(struct export *x, const struct mayfly_frame *f)
{
	if (f->kind == MAYFLY_FRAME_ELIDED)
		snprintf(x->text, sizeof(x->text), "[%llu-frames-left-out]",
			 (unsigned long long)f->address);
	else
		snprintf(x->text, sizeof(x->text), "[unknown-callers]");
	x->location[0] = (struct memtrace_location){.function = x->text, .file = "<unknown>"};
	return x->location;
}

static const struct memtrace_location *locate(void *context, int64_t code, size_t *count)
{
	struct export *x = context;
	const struct mayfly_frame *f =
	    mayfly_trace_frame(x->trace, interner_find(&x->codes, key_of(code)));
	const struct mayfly_module *m = f ? mayfly_trace_module(x->trace, f->module) : NULL;

	*count = 0;
	if (!f || !reserve_names(x, f) ||
	    !array_reserve(&x->location, &x->location_size, f->locations, sizeof(*x->location)))
		return NULL;
	if (f->kind != MAYFLY_FRAME_CODE) {
		*count = 1;
		return locate_gap(x, f);
	}
	/* Nothing is known: Memtrace prints the code then, as for its own unknown frames. */
	if (!f->locations || (!*f->location[0].function && !*f->location[0].file))
		return NULL;
	*count = f->locations;
	for (size_t i = 0; i < f->locations; i++) {
		const struct mayfly_location *l = &f->location[f->locations - 1 - i];

		x->location[i] = (struct memtrace_location){
		    .function = name_before(x, l),
		    .file = or_else(l->file, m ? or_else(m->path, "<unknown>") : "<unknown>"),
		    .line = l->line,
		    .start_char = l->first_char,
		    .end_char = l->last_char};
	}
	return x->location;
}

/* ---- rate and samples ---- */

/* Facts about the blocks to be written. */
struct survey {
	const struct export *x;
	double shortest, longest; /* intervals of the sampled blocks */
	bool words;		  /* all blocks are in OCaml's heaps, and sampled */
	bool any;
};

/* Memtrace's files can only say that a block was allocated, which inherited blocks were not. */
static bool is_wanted(const struct export *x, const struct mayfly_event *e)
{
	return x->heaps >> e->heap & 1 && !e->inherited;
}

static int look_at_block(void *context, const struct mayfly_event *e)
{
	struct survey *s = context;

	if (e->kind != MAYFLY_ALLOC || !is_wanted(s->x, e))
		return 0;
	s->any = true;
	s->words = s->words && e->heap != MAYFLY_HEAP_MALLOC && e->hits;
	s->shortest = fmin(s->shortest, e->interval);
	s->longest = fmax(s->longest, e->interval);
	return 0;
}

static int choose_rate(struct export *x)
{
	double rate = x->info->ocaml_rate;
	struct survey s = {.x = x, .shortest = INFINITY, .words = true};
	int error = export_each_event(x->trace, false, look_at_block, &s);

	if (error)
		return error;
	if (!s.any) {
		x->rate = rate > 0 ? fmin(rate, 1)
				   : fmin(WORD_BYTES / (double)x->info->interval_bytes, 1);
		return 0;
	}
	x->kept = s.words && s.shortest == s.longest && s.shortest >= WORD_BYTES;
	x->exact = !x->kept && s.shortest <= WORD_BYTES;
	x->rate = x->exact ? 1 : WORD_BYTES / s.shortest;
	/* If not thinned, take the recorded rate: the division may have rounded. */
	if (x->kept && WORD_BYTES / rate == s.shortest)
		x->rate = rate;
	return 0;
}

/* Memtrace does not count the header of a block. */
static uint64_t words(const struct mayfly_event *e)
{
	uint64_t words = e->size / WORD_BYTES + (e->size % WORD_BYTES != 0);
	bool header = (e->heap == MAYFLY_HEAP_OCAML_MINOR || e->heap == MAYFLY_HEAP_OCAML_MAJOR) &&
		      !(e->flags & MAYFLY_FLAG_NO_HEADER);

	return words - (header && words);
}

/* From 0 to below 1, always the same for a sample. */
static double coin(uint64_t sample)
{
	uint64_t x = sample + 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	x ^= x >> 31;
	return (double)(x >> 11) * 0x1p-53;
}

static int64_t count_samples(const struct export *x, const struct mayfly_event *e)
{
	double samples = e->weight_bytes / WORD_BYTES * x->rate, whole = floor(samples);
	uint64_t all = e->size / WORD_BYTES + (e->size % WORD_BYTES != 0);

	if (x->kept)
		return (int64_t)e->hits;
	/* An exact trace keeps every block, also one of less than a word. */
	if (x->exact && e->hits == 0)
		return all ? (int64_t)all : 1;
	if (!(samples < 0x1p60))
		return (int64_t)1 << 60;
	if (coin(e->sample) < samples - whole)
		whole++;
	return (int64_t)whole;
}

/* ---- events ---- */

static int64_t code_of(const struct export *x, uint32_t frame)
{
	return frame < x->codes.count ? (int64_t)x->codes.key[frame].word[1] : CODE_MADE_UP;
}

static int find_stack(struct export *x, uint32_t node)
{
	size_t count = 0;

	if (node == x->last_node)
		return 0;
	for (uint32_t n = node; n; n = mayfly_trace_node(x->trace, n).parent)
		count++;
	if (!array_reserve(&x->stack, &x->stack_size, count, sizeof(*x->stack)))
		return MAYFLY_E_MEMORY;
	x->last_node = node;
	x->depth = count;
	for (uint32_t n = node; n;) {
		struct mayfly_node at = mayfly_trace_node(x->trace, n);

		x->stack[--count] = code_of(x, at.frame);
		n = at.parent;
	}
	return 0;
}

static int remember_id(struct export *x, int64_t id)
{
	return ARRAY_ADD(x->id, x->ids_size, x->ids, id) ? 0 : MAYFLY_E_MEMORY;
}

static int leave_out(struct export *x, uint64_t sample)
{
	if (x->has_domains)
		return remember_id(x, -1);
	return ARRAY_ADD(x->left_out, x->left_out_size, x->left_outs, sample) ? 0 : MAYFLY_E_MEMORY;
}

/* A block's id; -1: the block was left out. Without domains it is the number of written blocks before
 * it. */
static int64_t memtrace_find_id(const struct export *x, uint64_t sample)
{
	size_t before;

	if (x->has_domains)
		return sample < x->ids ? x->id[sample] : -1;
	before = FIRST_THAT(i, 0, x->left_outs, x->left_out[i] >= sample);
	if (before < x->left_outs && x->left_out[before] == sample)
		return -1;
	return (int64_t)(sample - before);
}

static int change_domain(struct export *x, uint32_t thread)
{
	return memtrace_writer_domain(x->writer, thread_domains_of(&x->domains, thread));
}

static int memtrace_write_alloc(struct export *x, const struct mayfly_event *e, int64_t time_us)
{
	static const enum memtrace_source sources[MAYFLY_HEAPS] = {
	    [MAYFLY_HEAP_MALLOC] = MEMTRACE_EXTERNAL,
	    [MAYFLY_HEAP_OCAML_MINOR] = MEMTRACE_MINOR,
	    [MAYFLY_HEAP_OCAML_MAJOR] = MEMTRACE_MAJOR,
	    [MAYFLY_HEAP_EXTERNAL] = MEMTRACE_EXTERNAL,
	    [MAYFLY_HEAP_POOL] = MEMTRACE_EXTERNAL,
	    [MAYFLY_HEAP_POOL_MAPPED] = MEMTRACE_EXTERNAL,
	    [MAYFLY_HEAP_MAPPING] = MEMTRACE_EXTERNAL,
	};
	int64_t samples = is_wanted(x, e) ? count_samples(x, e) : 0, id;
	int error;

	if (samples < 1)
		return leave_out(x, e->sample);
	error = find_stack(x, e->node);
	if (!error)
		error = change_domain(x, e->thread);
	if (!error)
		error = memtrace_writer_alloc(x->writer, time_us, (int64_t)words(e), samples,
					      sources[e->heap], x->stack, x->depth, &id);
	return error || !x->has_domains ? error : remember_id(x, id);
}

static int memtrace_write_event(void *context, const struct mayfly_event *e)
{
	struct export *x = context;
	int64_t time_us = e->time_ns > 0 ? e->time_ns / 1000 : 0, id;
	int error;

	if (e->kind == MAYFLY_ALLOC)
		return memtrace_write_alloc(x, e, time_us);
	id = memtrace_find_id(x, e->sample);
	if (id < 0)
		return 0;
	error = change_domain(x, e->thread);
	if (error)
		return error;
	if (e->kind != MAYFLY_PROMOTE)
		return memtrace_writer_collect(x->writer, time_us, id);
	error = memtrace_writer_promote(x->writer, time_us, id);
	return error == MAYFLY_E_RANGE
		   ? 0
		   : error; /* by another domain: the format has no such event */
}

static int export(struct export *x, const char *purpose, trace_sink *sink, void *context)
{
	struct memtrace_info info = {.version = x->has_domains && !x->info->memtrace_version
						    ? VERSION_WITH_DOMAINS
						    : x->info->memtrace_version,
				     .domain = x->info->memtrace_domain,
				     .word_size = WORD_BYTES * 8,
				     .executable = x->info->program,
				     .host = x->info->host,
				     .runtime_parameters = x->info->runtime_parameters,
				     .context = *purpose ? purpose : x->info->context,
				     .pid = x->info->pid,
				     .start_us = x->info->start_real_ns / 1000};
	int error = memtrace_number_frames(x);

	if (!error)
		error = choose_rate(x);
	if (error)
		return error;
	info.sample_rate = x->rate;
	error = memtrace_writer_new(&info, locate, x, sink, context, &x->writer);
	if (!error)
		error = export_each_event(x->trace, true, memtrace_write_event, x);
	return error ? error : memtrace_writer_finish(x->writer);
}

/* `asked`, or the heaps that 0 stands for. */
static uint32_t memtrace_heaps(const struct mayfly_info *info, uint32_t asked)
{
	const uint32_t all =
	    (1u << MAYFLY_HEAPS) - 1 - (1u << MAYFLY_HEAP_POOL | 1u << MAYFLY_HEAP_MAPPING);

	if (asked)
		return asked;
	return info->heaps & MAYFLY_HEAPS_OCAML ? MAYFLY_HEAPS_OCAML : all;
}

int memtrace_from_trace(const struct mayfly_trace *trace, const char *purpose, uint32_t heaps,
			trace_sink *sink, void *context)
{
	struct export x = {.trace = trace, .info = mayfly_trace_info(trace)};
	int error = thread_domains_find(&x.domains, trace);

	x.has_domains = x.domains.domain;
	x.heaps = memtrace_heaps(x.info, heaps);
	if (!error)
		error = export(&x, purpose, sink, context);

	memtrace_writer_free(x.writer);
	thread_domains_free(&x.domains);
	interner_free(&x.codes);
	free(x.stack);
	free(x.left_out);
	free(x.location);
	free(x.name);
	free(x.id);
	return error;
}

/* ---- for the table of exporters ---- */

static int to_out(void *out, const void *bytes, size_t size)
{
	out_bytes(out, bytes, size);
	return ((struct out *)out)->error;
}

void memtrace_export(struct export_job *j)
{
	out_fail(&j->out, memtrace_from_trace(j->trace, j->options->purpose, j->query->heaps,
					      to_out, &j->out));
}

const char *memtrace_left_out(const struct mayfly_trace *trace,
			      const struct export_options *options)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	bool heaps =
	    info->heaps & ~memtrace_heaps(info, options->query->heaps) && !options->query->heaps;

	if (info->inherited)
		return heaps ? "malloc's blocks, as Memtrace's files have one rate, and inherited "
			       "blocks, which were not allocated here; OCaml's own are in it"
			     : "blocks inherited from the parent process, as Memtrace's files only "
			       "have blocks that were allocated";
	return heaps ? "malloc's blocks, as Memtrace's files have one rate; OCaml's are in it"
		     : NULL;
}
