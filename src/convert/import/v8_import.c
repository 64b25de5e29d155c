/* SPDX-License-Identifier: Apache-2.0 */
/*
 * V8's sampling heap profiles (.heapprofile), of node --heap-prof and of Chrome: JSON, a tree of
 * calls from the root to the leaves, each node with the bytes that it allocated itself and that are
 * live. V8 has weighted its samples.
 *
 *	{"head": {"callFrame": {"functionName": "grow", "url": "file:///a.js", "lineNumber": 4, ...},
 *		  "selfSize": 4128, "id": 2, "children": [{"callFrame": ...}, ...]},
 *	 "samples": [{"size": 4128, "nodeId": 2, "ordinal": 1}, ...]}
 *
 * Nodes lie in each other as deep as they like, so their way from the root is kept here, not on the
 * stack of C. Lines count from 0.
 */
#include "convert/import/imports.h"

#include <stdlib.h>
#include <string.h>

#include "convert/import/heap_profile.h"
#include "convert/import/json_read.h"
#include "convert/import/packed.h"

struct v8_node {
	uint32_t frame;
	uint64_t bytes;
};

struct v8_input {
	struct import *in;
	struct heap_profile profile;
	struct json_in json;
	struct v8_node *open; /* the way from the root to the current node */
	size_t opens, open_room;
};

static uint32_t take_name(struct v8_input *c)
{
	struct json_text text;
	uint32_t name = 0;
	char *plain;

	json_take_text(&c->json, &text);
	if (text.length > 7 && strncmp(text.at, "file://", 7) == 0)
		text = (struct json_text){text.at + 7, text.length - 7};
	import_spend(c->in, text.length / 16 + 1);
	plain = malloc(text.length + 1);
	if (plain)
		name = recording_string(c->in->tables, plain, json_unescape(&text, plain));
	else
		import_fail(c->in, MAYFLY_E_MEMORY);
	free(plain);
	return name;
}

static void take_call_frame(struct v8_input *c)
{
	struct recording_location place = {0};
	struct json_in *j = &c->json;
	struct json_text key;
	uint64_t line = 0;

	json_open(j, '{');
	while (json_member(j, &key))
		if (json_is(&key, "functionName"))
			place.function = take_name(c);
		else if (json_is(&key, "url"))
			place.file = take_name(c);
		else if (json_is(&key, "lineNumber"))
			json_take_number(j, &line);
		else
			json_skip(j);
	if (place.file && line < UINT32_MAX)
		place.line = (uint32_t)line + 1;
	if (!place.function)
		place.function = recording_name(c->in->tables, "(anonymous)");
	c->open[c->opens - 1].frame = heap_profile_named(&c->profile, RECORDING_NONE, &place);
}

static void open_node(struct v8_input *c)
{
	json_open(&c->json, '{');
	IMPORT_APPEND(c->in, c->open, c->opens, c->open_room,
		      (struct v8_node){.frame = RECORDING_NONE});
}

/* The root itself is no function. One that was cut off before its name has no row. */
static void close_node(struct v8_input *c)
{
	const struct v8_node *n = &c->open[c->opens - 1];
	struct heap_figures f = {.live_bytes = n->frame == RECORDING_NONE ? 0 : n->bytes};

	for (size_t i = c->opens; f.live_bytes && i > 1; i--)
		heap_profile_frame(&c->profile, c->open[i - 1].frame);
	if (f.live_bytes)
		heap_profile_row(&c->profile, &f);
	c->opens--;
}

/* Reads on in a node until one of its children begins, or it ends. False: it is no node. */
static bool read_node(struct v8_input *c)
{
	struct json_in *j = &c->json;
	struct v8_node *n = &c->open[c->opens - 1];
	struct json_text key;
	bool named;

	while (json_member(j, &key)) {
		if (json_is(&key, "callFrame")) {
			take_call_frame(c);
		} else if (json_is(&key, "selfSize")) {
			json_take_number(j, &n->bytes);
		} else if (json_is(&key, "children")) {
			json_open(j, '[');
			if (!json_item(j))
				continue;
			named = n->frame != RECORDING_NONE;
			open_node(c);
			return named;
		} else {
			json_skip(j);
		}
	}
	if (j->bad || n->frame == RECORDING_NONE)
		return false;
	close_node(c);
	return true;
}

/* What was read of a tree that is cut off counts. */
static void read_tree(struct v8_input *c)
{
	struct json_in *j = &c->json;
	bool good = true;

	open_node(c);
	while (c->opens && good && !import_failed(c->in)) {
		size_t before = c->opens;

		good = read_node(c);
		/* After the end of a node comes its sibling, or more of its parent. */
		if (good && c->opens && c->opens < before && json_item(j))
			open_node(c);
	}
	j->bad |= !good;
	while (c->opens && !import_failed(c->in))
		close_node(c);
}

static void read_profile(struct v8_input *c)
{
	struct json_text key;

	json_open(&c->json, '{');
	while (json_member(&c->json, &key))
		if (json_is(&key, "head"))
			read_tree(c);
		else
			json_skip(&c->json);
	if (c->json.bad)
		import_problem(c->in, "cut off");
}

void v8_import(struct import *in)
{
	struct v8_input c = {.in = in};
	size_t size = 0;
	uint8_t *plain = import_unpack(in, &size);

	heap_profile_begin(&c.profile, in);
	c.json = json_begin(plain, size);
	read_profile(&c);
	if (!import_failed(in)) {
		import_describe(
		    in,
		    "converted from a V8 heap profile; what is live, as V8 weights its samples");
		c.profile.interval = 1; /* the file does not say */
		c.profile.absent = MAYFLY_ABSENT_START | MAYFLY_ABSENT_COMMAND |
				   MAYFLY_ABSENT_BLOCKS | MAYFLY_ABSENT_ALLOCATED;
		heap_profile_write(&c.profile);
	}
	heap_profile_end(&c.profile);
	free(c.open);
	free(plain);
}

bool v8_recognise(const void *data, size_t size)
{
	char begin[128];
	struct json_in j = json_begin(begin, packed_peek(data, size, begin, sizeof(begin)));
	struct json_text key;

	json_open(&j, '{');
	if (!json_member(&j, &key) || !json_is(&key, "head"))
		return false;
	json_open(&j, '{');
	return json_member(&j, &key) && json_is(&key, "callFrame");
}
