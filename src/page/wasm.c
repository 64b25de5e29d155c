/* SPDX-License-Identifier: Apache-2.0 */
/* The reader in the page: see wasm.h. The only file with the state of one reader in variables. */
#include "page/wasm.h"

#include <stdlib.h>
#include <string.h>

#include "page/wasm_exports.h"
#include "trace/read/reader.h"
#include "view/view.h"

struct source {
	struct source *next;
	const char *path, *text;
	size_t size;
};

static struct mayfly_trace *traces[2];
static const char *names[2];
static struct source *sources;
static struct view_answer the_answer;
static const char *the_error = "";

void *reader_room(size_t size)
{
	return malloc(size);
}

/* What a person with a browser can do about it. Spools and files of other tools become traces in the
 * native reader alone: the writer and what reads those would be a fifth of the page. */
static const char *explain(int error)
{
	if (error == MAYFLY_E_NOT_A_TRACE)
		return "not a mayfly trace; 'mayfly view FILE' in a terminal also shows spools of "
		       "recordings and files of other tools";
	if (error == MAYFLY_E_VERSION)
		return "made by another version of mayfly than this page; "
		       "'mayfly view FILE' makes a page that fits";
	if (error == MAYFLY_E_MEMORY)
		return "too large for the browser; 'mayfly view FILE' reads it outside of it";
	return mayfly_error_text(error);
}

int reader_open(int which, const void *data, size_t size, const char *name)
{
	int error = which < 0 || which > 1 || traces[which] ? MAYFLY_E_RANGE : MAYFLY_OK;

	if (!error)
		error = trace_open(data, size, &traces[which]);
	if (error)
		the_error = explain(error);
	else
		names[which] = name;
	return error;
}

const char *reader_error(void)
{
	return the_error;
}

int reader_source(const char *path, const char *text, size_t size)
{
	struct source *s = malloc(sizeof(*s));

	if (!s)
		return MAYFLY_E_MEMORY;
	*s = (struct source){sources, path, text, size};
	sources = s;
	return MAYFLY_OK;
}

static bool find_source(void *context, const char *path, struct bytes *text)
{
	(void)context;
	for (const struct source *s = sources; s; s = s->next)
		if (strcmp(s->path, path) == 0) {
			bytes_put(text, s->text, s->size);
			return !text->failed;
		}
	return false;
}

int reader_ask(char *request)
{
	const struct view view = {
	    .trace = traces[0],
	    .base = traces[1],
	    .path = names[0],
	    .base_path = names[1],
	    .exports = wasm_exports(),
	    .source = sources ? find_source : NULL,
	};

	view_ask(&view, request, &the_answer);
	free(request);
	return the_answer.status;
}

const char *reader_type(void)
{
	return the_answer.type;
}

const void *reader_answer(void)
{
	return the_answer.bytes.at;
}

size_t reader_answer_size(void)
{
	return the_answer.bytes.used;
}

void reader_release(void)
{
	bytes_free(&the_answer.bytes);
}
