/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heap profiles as text. Both kinds give stacks as addresses in the process and end with its memory
 * map. The numbers of a pair are blocks and bytes; the first pair is what is live, the second what
 * was allocated in total.
 *
 * gperftools: a row is a line. "@ heapprofile": everything was counted; heap_v2/N and heap/N: a
 * sample every N bytes (heap: N / 2). Go uses this form too, with names instead of a map.
 *
 *	heap profile:   13:   104 [  20:   412] @ heap_v2/524288
 *	    2:    64 [     9:      372] @ 0x4005d3 0x4007be ...
 *	#	0x4005d2	main.grow+0xa4		/src/hp.go:6		(Go's)
 *	MAPPED_LIBRARIES:
 *	00400000-00401000 r-xp 00000000 fe:00 332383    /usr/bin/a
 *
 * jemalloc: after the stack, a line for all threads (t*) and one for each thread. What was
 * allocated in total is 0 unless the program ran with prof_accum.
 *
 *	heap_v2/524288
 *	  t*: 3: 28672 [0: 0]
 *	@ 0x7f4e344a2630 0x7f4e344a2d21 ...
 *	  t*: 3: 28672 [0: 0]
 *	  t0: 3: 28672 [0: 0]
 *
 *	MAPPED_LIBRARIES:
 *
 * Addresses are looked up in the files of this machine. The map does not tell which build of a file
 * was loaded: a file that was replaced since then gives wrong names.
 */
#include "convert/import/imports.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "convert/import/heap_profile.h"
#include "convert/import/packed.h"

#define NONE RECORDING_NONE

#define JEMALLOC   "heap_v2/"
#define GPERFTOOLS "heap profile:"

/* Code that is mapped from a file. */
struct heap_text_mapping {
	uint64_t start, end;
	uint32_t module;
};

struct heap_text_input {
	struct import *in;
	struct heap_profile profile;
	bool jemalloc;
	uint64_t interval; /* of samples; 0: everything was counted */
	const char *kind;  /* the allocator, from the header */
	bool header, map_begun;

	struct heap_text_mapping *map;
	size_t maps, map_room;
	bool has_map, has_all, has_total; /* has_all: total allocations are known */
	bool names;			  /* there are comment lines (#) */
	bool named_any;			  /* and some of them are names */
	uint32_t named;			  /* the frame named by the last comment line */
	bool row_open;			  /* jemalloc: a stack has no figures yet */
	struct heap_figures total, sum;
};

/* ---- words ---- */

static const char *skip_space(const char *at)
{
	while (*at == ' ' || *at == '\t' || *at == '\r')
		at++;
	return at;
}

static bool decimal(const char **at, uint64_t *value)
{
	const char *p = skip_space(*at);
	uint64_t v = 0;

	if (*p < '0' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return false;
	*at = p;
	*value = v;
	return true;
}

static bool hexadecimal(const char **at, uint64_t *value)
{
	const char *p = skip_space(*at);
	char *end;

	if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))
		p += 2;
	if (!strchr("0123456789abcdefABCDEF", *p) || !*p ||
	    strspn(p, "0123456789abcdefABCDEF") > 16)
		return false;
	*value = strtoull(p, &end, 16);
	*at = end;
	return true;
}

static bool sign(const char **at, char wanted)
{
	const char *p = skip_space(*at);

	if (*p != wanted)
		return false;
	*at = p + 1;
	return true;
}

/* "3: 28672 [0: 0]" */
static bool figures(const char **at, struct heap_figures *f)
{
	return decimal(at, &f->live) && sign(at, ':') && decimal(at, &f->live_bytes) &&
	       sign(at, '[') && decimal(at, &f->all) && sign(at, ':') &&
	       decimal(at, &f->all_bytes) && sign(at, ']');
}

/* ---- the memory map ---- */

static bool is_map_title(const char *line)
{
	return strncmp(line, "MAPPED_LIBRARIES:", 17) == 0 ||
	       strncmp(line, "--- Memory map:", 15) == 0;
}

/* The last module if it is from this file, otherwise a new one. */
static uint32_t heap_text_find_module(struct heap_text_input *c, const char *path, size_t length,
				      uint64_t start, uint64_t offset)
{
	struct recording *t = c->in->tables;
	struct recording_module fresh = {.start = start, .end = start};

	fresh.path = recording_string(t, path, length);
	if (t->modules && t->module[t->modules - 1].path == fresh.path)
		return (uint32_t)t->modules - 1;
	return import_module(c->in, fresh, offset);
}

/* "7f4e34844000-7f4e3484e000 r-xp 00027000 fe:00 332383   /usr/lib/a.so"; other lines are ignored.
 */
static void take_mapping(struct heap_text_input *c, const char *at)
{
	struct recording *t = c->in->tables;
	struct heap_text_mapping m;
	uint64_t offset;
	const char *rights;
	size_t length;

	if (!hexadecimal(&at, &m.start) || !sign(&at, '-') || !hexadecimal(&at, &m.end))
		return;
	rights = skip_space(at);
	at = rights + strcspn(rights, " ");
	if (!hexadecimal(&at, &offset))
		return;
	at = strpbrk(at, "/[");
	if (!at || (*at == '[' && strncmp(at, "[vdso]", 6) != 0) || m.end <= m.start)
		return;
	length = strlen(at);
	while (length && (at[length - 1] == ' ' || at[length - 1] == '\r'))
		length--;
	m.module = heap_text_find_module(c, at, length, m.start, offset);
	if (t->module[m.module].end < m.end)
		t->module[m.module].end = m.end;
	if (memchr(rights, 'x', strcspn(rights, " ")))
		IMPORT_APPEND(c->in, c->map, c->maps, c->map_room, m);
}

static int compare_mapping(const void *a, const void *b)
{
	const struct heap_text_mapping *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* The map is at the end but needed first. */
static bool take_map_line(void *context, char *line, size_t length)
{
	struct heap_text_input *c = context;

	(void)length;
	if (c->has_map)
		take_mapping(c, line);
	else
		c->has_map = is_map_title(line);
	return true;
}

static void read_map(struct heap_text_input *c)
{
	import_lines(c->in, take_map_line, c);
	*c->in->report.problem = 0; /* found again by the next reading */
	if (c->maps)
		qsort(c->map, c->maps, sizeof(*c->map), compare_mapping);
}

static const struct heap_text_mapping *find_mapping(const struct heap_text_input *c,
						    uint64_t address)
{
	size_t low = FIRST_THAT(i, 0, c->maps, c->map[i].end > address);

	return low < c->maps && c->map[low].start <= address ? &c->map[low] : NULL;
}

/* ---- rows: functions that take a line return false when it is damaged ---- */

/* Adds a return address. */
static void add_address(struct heap_text_input *c, uint64_t address)
{
	struct recording *t = c->in->tables;
	uint64_t call = address ? address - 1 : 0;
	const struct heap_text_mapping *m = find_mapping(c, call);
	uint64_t bias = m ? t->module[m->module].bias : 0;

	heap_profile_frame(&c->profile, import_frame(c->in, m ? m->module : NONE, call - bias));
}

static bool add_stack(struct heap_text_input *c, const char *at)
{
	uint64_t address;

	while (hexadecimal(&at, &address))
		add_address(c, address);
	return !*skip_space(at);
}

static bool add_overflows(uint64_t *sum, uint64_t more)
{
	return __builtin_add_overflow(*sum, more, sum);
}

static bool heap_text_add_row(struct heap_text_input *c, struct heap_figures f)
{
	if (add_overflows(&c->sum.live, f.live) || add_overflows(&c->sum.all, f.all) ||
	    add_overflows(&c->sum.live_bytes, f.live_bytes) ||
	    add_overflows(&c->sum.all_bytes, f.all_bytes))
		return false;
	c->has_all |= f.all != 0 || f.all_bytes != 0;
	heap_profile_row(&c->profile, &f);
	return true;
}

/* "  t*: 3: 28672 [0: 0]"; before the first stack it is the total. Lines of single threads add up
 * to it and are ignored. */
static bool take_threads(struct heap_text_input *c, const char *at)
{
	struct heap_figures f;

	if (at[1] != '*')
		return true;
	at += 2;
	if (!sign(&at, ':') || !figures(&at, &f))
		return false;
	if (c->row_open) {
		c->row_open = false;
		return heap_text_add_row(c, f);
	}
	if (c->has_total)
		return false;
	c->total = f;
	c->has_total = true;
	return true;
}

/* "0x4b3f44	main.grow+0xa4		/src/hp.go:6": the next function, innermost first; the
 * address is that of the call. Other comment lines are ignored. */
static void heap_text_take_name(struct heap_text_input *c, const char *at)
{
	struct recording *t = c->in->tables;
	struct recording_location place = {0};
	const char *name, *file, *end;
	size_t frames = t->frames;
	uint64_t address, line;
	uint32_t frame;

	c->names = true;
	if (!hexadecimal(&at, &address) || *at != '\t')
		return;
	name = skip_space(at);
	end = name + strcspn(name, "\t");
	file = skip_space(end);
	at = strrchr(file, ':');
	while (end > name && *end != '+')
		end--;
	if (!at || end == name)
		return;
	import_spend(c->in, 256);
	place.function = recording_string(t, name, (size_t)(end - name));
	place.file = recording_string(t, file, (size_t)(at - file));
	at++;
	if (decimal(&at, &line) && line <= UINT32_MAX)
		place.line = (uint32_t)line;
	frame = recording_frame(t, MAYFLY_FRAME_CODE, NONE, address);
	/* The frame is on no stack, or was named with an earlier stack. */
	if (t->frames > frames || (t->frame[frame].locations && frame != c->named))
		return;
	c->named = frame;
	c->named_any = true;
	import_function(t, frame, &place);
}

static bool heap_text_take_line(struct heap_text_input *c, const char *line)
{
	const char *at = skip_space(line);
	struct heap_figures f;

	if (!*at)
		return true;
	if (c->jemalloc && *at == 't')
		return take_threads(c, at);
	if (c->jemalloc && *at == '@') {
		if (c->row_open)
			return false;
		c->row_open = true;
		return add_stack(c, at + 1);
	}
	if (!c->jemalloc && *at == '#') {
		heap_text_take_name(c, at + 1);
		return true;
	}
	if (c->jemalloc || !figures(&at, &f) || !sign(&at, '@'))
		return false;
	c->named = NONE;
	return add_stack(c, at) && heap_text_add_row(c, f);
}

/* ---- the header ---- */

/* With jemalloc and an interval of 1, every block is a sample and weights are 1. (The tools weight
 * even these, and programs that write gperftools' header rely on it: there a block of one byte
 * counts as 1.6.) */
static bool take_period(struct heap_text_input *c, const char *at, uint64_t divide)
{
	if (!decimal(&at, &c->interval) || c->interval / divide > (uint64_t)1 << 50)
		return false;
	c->interval /= divide;
	if (c->interval == 1 && c->jemalloc)
		c->interval = 0;
	return true;
}

static bool take_header(struct heap_text_input *c, const char *line)
{
	const char *at = line, *slash;

	if (strncmp(at, JEMALLOC, strlen(JEMALLOC)) == 0) {
		c->jemalloc = true;
		c->kind = "jemalloc";
		return take_period(c, at + strlen(JEMALLOC), 1);
	}
	c->kind = "gperftools";
	if (strncmp(at, GPERFTOOLS, strlen(GPERFTOOLS)) != 0)
		return false;
	at += strlen(GPERFTOOLS);
	if (!figures(&at, &c->total))
		return false;
	c->has_total = true;
	if (!sign(&at, '@'))
		return true;
	at = skip_space(at);
	slash = at + strcspn(at, "/");
	if (strncmp(at, "growth", 6) == 0) {
		c->kind = "gperftools growth";
		c->profile.absent |= MAYFLY_ABSENT_LIVE;
	}
	if (strncmp(at, "heapprofile", 11) == 0 || !memmem(at, (size_t)(slash - at), "heap", 4))
		return true;
	return *slash &&
	       take_period(c, slash + 1, memmem(at, (size_t)(slash - at), "_v2", 3) ? 1 : 2);
}

/* ---- the whole file ---- */

static bool heap_text_line(void *context, char *line, size_t length)
{
	struct heap_text_input *c = context;

	(void)length;
	if (!c->kind && !take_header(c, line))
		import_fail(c->in, MAYFLY_E_DAMAGED);
	else if (!c->header)
		c->header = true;
	else if (is_map_title(line))
		c->map_begun = true;
	else if (!c->map_begun)
		return heap_text_take_line(c, line);
	return true;
}

static void read_rows(struct heap_text_input *c)
{
	import_lines(c->in, heap_text_line, c);
	if (!c->header)
		import_fail(c->in, MAYFLY_E_EMPTY);
	if ((!c->has_map && !c->names) || c->row_open)
		import_problem(c->in, "cut off");
}

/* gperftools writes into a buffer of 1 MiB and silently drops what does not fit. */
static void heap_text_say_left_out(struct heap_text_input *c)
{
	struct import_report *report = &c->in->report;

	if (c->has_total && c->sum.live_bytes < c->total.live_bytes)
		snprintf(report->left_out, sizeof(report->left_out),
			 "%" PRIu64 " of the %" PRIu64
			 " live bytes, whose stacks %s did not write to the file",
			 c->total.live_bytes - c->sum.live_bytes, c->total.live_bytes, c->kind);
	else if (c->has_total && c->has_all && c->sum.all_bytes < c->total.all_bytes)
		snprintf(report->left_out, sizeof(report->left_out),
			 "%" PRIu64 " of the %" PRIu64
			 " allocated bytes, whose stacks %s did not write to the file",
			 c->total.all_bytes - c->sum.all_bytes, c->total.all_bytes, c->kind);
}

/* Go does not name the frames of its runtime at the leaf. */
static bool is_runtime(const void *context, const struct recording *t, uint32_t frame)
{
	(void)context;
	return !t->frame[frame].locations;
}

static void heap_text_describe(struct heap_text_input *c)
{
	char how[96] = "every block counted";
	const char *left_out = c->in->report.left_out;

	if (c->interval)
		snprintf(how, sizeof(how), "sampled at 1 in %" PRIu64 " bytes", c->interval);
	import_describe(c->in, "converted from a %s heap profile, %s%s%s", c->kind, how,
			*left_out ? "; left out " : "", left_out);
	c->profile.interval = c->interval;
	c->profile.plain_counts = true;
	c->profile.cut_only_leaves = c->named_any;
	c->profile.is_cut = c->named_any ? is_runtime : heap_profile_is_allocator;
	c->profile.absent |= MAYFLY_ABSENT_START | MAYFLY_ABSENT_COMMAND;
	if (!c->has_all && !(c->profile.absent & MAYFLY_ABSENT_LIVE))
		c->profile.absent |= MAYFLY_ABSENT_ALLOCATED;
}

void heap_text_import(struct import *in)
{
	struct heap_text_input c = {.in = in};

	heap_profile_begin(&c.profile, in);
	read_map(&c);
	read_rows(&c);
	if (!import_failed(in)) {
		heap_text_say_left_out(&c);
		heap_text_describe(&c);
		heap_profile_write(&c.profile);
	}
	heap_profile_end(&c.profile);
	free(c.map);
}

bool heap_text_recognise(const void *data, size_t size)
{
	char text[64];
	size_t used = packed_peek(data, size, text, sizeof(text) - 1);

	text[used] = 0;
	return strncmp(text, GPERFTOOLS, strlen(GPERFTOOLS)) == 0 ||
	       (strncmp(text, JEMALLOC, strlen(JEMALLOC)) == 0 && strchr("0123456789", text[8]) &&
		text[8]);
}
