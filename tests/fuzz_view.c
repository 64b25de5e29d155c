/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: any text as a request of the page, to one of some traces with everything in it, which are
 * compared with each other. The answer is one that a page can read. */
#include "random_tracks.h"

#include "convert/export/exporter.h"
#include "base/utf8.h"
#include "view/view.h"

#include "fuzz_main.h"

#define TRACES 4u

static struct opened traces[TRACES];

static void open_traces(void)
{
	(void)test_number;
	(void)test_failures;
	for (uint32_t i = 0; i < TRACES; i++) {
		struct source source = random_source(100 + i);
		bool snapshots = source.mode == MAYFLY_EXACT && i % 2;

		add_track_types(source.r, 5);
		traces[i] = open_source(&source, snapshots ? 50000000 : 0, 100);
		free_source(&source);
	}
}

/* JSON is UTF-8, and ends where it begins. */
static void check_json(const struct bytes *b)
{
	const char *at = (const char *)b->at;
	size_t left = b->used, depth = 0;
	bool quoted = false;

	while (left) {
		char character[5] = "";
		size_t length;

		memcpy(character, at, left < 4 ? left : 4);
		length = utf8_length(character);
		if (!length)
			abort();
		if (quoted && *at == '\\')
			length++;
		else if (*at == '"')
			quoted = !quoted;
		else if (!quoted && (*at == '{' || *at == '['))
			depth++;
		else if (!quoted && (*at == '}' || *at == ']') && !depth--)
			abort();
		if (length > left)
			abort();
		at += length;
		left -= length;
	}
	if (depth || quoted)
		abort();
}

static void check_answer(const struct view_answer *a)
{
	switch (a->status) {
	case VIEW_OK:
	case VIEW_BAD_REQUEST:
	case VIEW_NOT_FOUND:
	case VIEW_ABSENT:
	case VIEW_FAILED:
		break;
	}
	if (a->bytes.failed)
		return;
	if (!a->type || (a->status != VIEW_OK && strcmp(a->type, "application/json") != 0))
		abort();
	if (strcmp(a->type, "application/json") == 0)
		check_json(&a->bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *request = malloc(size + 1);
	struct view_answer answer;
	struct view view = {.path = "a", .base_path = "b", .exports = export_formats()};

	if (!traces[0].trace)
		open_traces();
	if (!size || !request) {
		free(request);
		return 0;
	}
	view.trace = traces[*data % TRACES].trace;
	view.base = *data & 16 ? traces[*data / 32 % TRACES].trace : NULL;
	memcpy(request, data + 1, size - 1);
	request[size - 1] = 0;
	view_ask(&view, request, &answer);
	check_answer(&answer);
	bytes_free(&answer.bytes);
	free(request);
	return 0;
}
