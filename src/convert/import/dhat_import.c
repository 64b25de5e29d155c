/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DHAT's profiles, of valgrind and of Rust's dhat: JSON. Valgrind's dhat/dh_main.c describes them.
 *
 *	{"dhatFileVersion":2, "mode":"heap", "tu":"instrs", "cmd":"./a", "pid":1, "te":305402, "tg":297465,
 *	 "pps":[{"tb":104950,"tbk":100, "gb":64,"gbk":1, "eb":43180,"ebk":40, "fs":[1,2,3]}, ...],
 *	 "ftbl":["[root]", "0x109179: leaf (l.c:4)", ...]}
 *
 * A row has bytes and blocks: t in total, g at the peak (t-gmax), e at the end; fs is its stack, leaf
 * first. Frames come after the rows, which have their numbers until then. How often blocks were read
 * and written is left out: a trace has no place for it.
 */
#include "convert/import/imports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/import/heap_profile.h"
#include "convert/import/json_read.h"
#include "convert/import/packed.h"
#include "convert/import/valgrind_place.h"

#define NEWEST_VERSION 2

struct dhat_input {
	struct import *in;
	struct heap_profile profile;
	struct json_in json;
	uint64_t version, pid, end, peak;
	struct json_text mode, unit, command;
	bool has_peak;
	uint32_t *frame; /* of each entry of ftbl */
	size_t frames, frame_room;
};

/* ---- rows ---- */

static void take_stack(struct dhat_input *c)
{
	uint64_t number;

	for (json_open(&c->json, '['); json_item(&c->json) && !c->in->error;) {
		json_take_number(&c->json, &number);
		heap_profile_frame(&c->profile,
				   number < RECORDING_NONE ? (uint32_t)number : RECORDING_NONE);
	}
}

static void take_row(struct dhat_input *c)
{
	struct heap_figures f = {0};
	const struct {
		const char *name;
		uint64_t *value;
	} figures[] = {{"tb", &f.all_bytes}, {"tbk", &f.all},	    {"gb", &f.peak_bytes},
		       {"gbk", &f.peak},     {"eb", &f.live_bytes}, {"ebk", &f.live}};
	const size_t count = sizeof(figures) / sizeof(figures[0]);
	struct json_text key;

	json_open(&c->json, '{');
	while (json_member(&c->json, &key) && !c->in->error) {
		size_t i = 0;

		while (i < count && !json_is(&key, figures[i].name))
			i++;
		if (i < count)
			json_take_number(&c->json, figures[i].value);
		else if (json_is(&key, "fs"))
			take_stack(c);
		else
			json_skip(&c->json);
	}
	heap_profile_row(&c->profile, &f);
}

/* ---- frames ---- */

static void dhat_take_frame(struct dhat_input *c)
{
	struct json_text text;
	char *plain;
	uint32_t frame = RECORDING_NONE;

	json_take_text(&c->json, &text);
	plain = malloc(text.length + 1);
	if (!plain)
		import_fail(c->in, MAYFLY_E_MEMORY);
	else
		frame = valgrind_place(&c->profile, plain, json_unescape(&text, plain));
	free(plain);
	IMPORT_APPEND(c->in, c->frame, c->frames, c->frame_room, frame);
}

/* False: one is not there. */
static bool replace_numbers(struct dhat_input *c)
{
	for (size_t i = 0; i < c->profile.frames; i++) {
		if (c->profile.frame[i] >= c->frames)
			return false;
		c->profile.frame[i] = c->frame[c->profile.frame[i]];
	}
	return true;
}

/* ---- the whole file ---- */

static void take_member(struct dhat_input *c, const struct json_text *key)
{
	struct json_in *j = &c->json;

	if (json_is(key, "dhatFileVersion"))
		json_take_number(j, &c->version);
	else if (json_is(key, "mode"))
		json_take_text(j, &c->mode);
	else if (json_is(key, "tu"))
		json_take_text(j, &c->unit);
	else if (json_is(key, "cmd"))
		json_take_text(j, &c->command);
	else if (json_is(key, "pid"))
		json_take_number(j, &c->pid);
	else if (json_is(key, "te"))
		json_take_number(j, &c->end);
	else if (json_is(key, "tg"))
		json_take_number(j, &c->peak), c->has_peak = true;
	else if (json_is(key, "pps"))
		for (json_open(j, '['); json_item(j) && !c->in->error;)
			take_row(c);
	else if (json_is(key, "ftbl"))
		for (json_open(j, '['); json_item(j) && !c->in->error;)
			dhat_take_frame(c);
	else
		json_skip(j);
}

static void refuse(struct dhat_input *c, int error, const char *why)
{
	if (import_failed(c->in))
		return;
	snprintf(c->in->report.problem, sizeof(c->in->report.problem), "%s", why);
	import_fail(c->in, error);
}

/* Frames are at the end, so nothing can be told of a file that was cut off. */
static void check_whole(struct dhat_input *c)
{
	if (c->version < 1 || c->version > NEWEST_VERSION)
		refuse(c, MAYFLY_E_VERSION, "made by an unsupported newer version of DHAT");
	if (c->mode.length && !json_is(&c->mode, "heap") && !json_is(&c->mode, "rust-heap"))
		refuse(c, MAYFLY_E_ABSENT,
		       "but not of the heap; run valgrind --tool=dhat with --mode=heap");
	if (c->json.bad || !c->frames)
		refuse(c, MAYFLY_E_DAMAGED, "cut off before the names of its functions");
	if (!import_failed(c->in) && !replace_numbers(c))
		refuse(c, MAYFLY_E_DAMAGED, "with a function that it does not name");
}

static void take_command(struct dhat_input *c)
{
	char *plain = malloc(c->command.length + 1);

	if (!plain) {
		import_fail(c->in, MAYFLY_E_MEMORY);
		return;
	}
	plain[json_unescape(&c->command, plain)] = 0;
	import_command(c->in, plain);
	free(plain);
}

static int64_t dhat_time(uint64_t units, uint64_t ns)
{
	const uint64_t most = (uint64_t)HEAP_PROFILE_LATEST_NS / ns;

	return (int64_t)((units < most ? units : most) * ns);
}

static void dhat_describe(struct dhat_input *c)
{
	/* Rust's dhat counts microseconds. */
	bool counts = json_is(&c->unit, "instrs");
	uint64_t ns = counts ? 1 : 1000;
	struct recording *t = c->in->tables;

	t->info.duration_ns = dhat_time(c->end, ns);
	t->info.pid = c->pid <= INT32_MAX ? (uint32_t)c->pid : 0;
	c->profile.is_cut = heap_profile_is_allocator;
	c->profile.has_peak = c->has_peak;
	c->profile.peak_ns = dhat_time(c->peak, ns);
	c->profile.absent = MAYFLY_ABSENT_START | MAYFLY_ABSENT_MODULES;
	c->profile.known = MAYFLY_ABSENT_PROCESS;
	if (c->command.length)
		take_command(c);
	else
		c->profile.absent |= MAYFLY_ABSENT_COMMAND;
	import_describe(c->in, "converted from a DHAT file, every block counted%s",
			counts ? "; times count instructions, a nanosecond for each" : "");
}

void dhat_import(struct import *in)
{
	struct dhat_input c = {.in = in};
	struct json_text key;
	size_t size = 0;
	uint8_t *plain = import_unpack(in, &size);

	heap_profile_begin(&c.profile, in);
	c.json = json_begin(plain, size);
	json_open(&c.json, '{');
	while (json_member(&c.json, &key) && !in->error)
		take_member(&c, &key);
	check_whole(&c);
	if (!import_failed(in)) {
		dhat_describe(&c);
		heap_profile_write(&c.profile);
	}
	heap_profile_end(&c.profile);
	free(c.frame);
	free(plain);
}

bool dhat_recognise(const void *data, size_t size)
{
	char begin[64];
	struct json_in j = json_begin(begin, packed_peek(data, size, begin, sizeof(begin)));
	struct json_text key;

	json_open(&j, '{');
	return json_member(&j, &key) && json_is(&key, "dhatFileVersion");
}
