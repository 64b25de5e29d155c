/* SPDX-License-Identifier: Apache-2.0 */
/* A page with a trace in it: see view_html.h. */
#include "cli/view/view_html.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "answer/figures.h"
#include "answer/json_writer.h"
#include "answer/text_format.h"
#include "answer/texts.h"
#include "terminal/message.h"
#include "terminal/output.h"
#include "cli/input/source_files.h"
#include "cli/target.h"
#include "cli/view/viewer_page.h"

/* Browsers take strings of up to 512 MiB, and a tab has 4 GiB for the trace and what is asked. */
#define MOST_TRACE_BYTES  200e6
#define MOST_SOURCE_BYTES ((size_t)32 << 20) /* of all files */

struct page_writer {
	struct target target;
	int error; /* an errno; the rest is not written then */
};

static void put(struct page_writer *w, const void *bytes, size_t size)
{
	if (!w->error && size)
		w->error = target_sink(&w->target, bytes, size);
}

static void put_text(struct page_writer *w, const char *text)
{
	put(w, text, strlen(text));
}

/* In an attribute's double quotes. */
static void put_attribute(struct page_writer *w, const char *text)
{
	for (; *text; text++)
		switch (*text) {
		case '&':
			put_text(w, "&amp;");
			break;
		case '"':
			put_text(w, "&quot;");
			break;
		case '<':
			put_text(w, "&lt;");
			break;
		default:
			put(w, text, 1);
		}
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void put_base64(struct page_writer *w, const uint8_t *at, size_t size)
{
	char text[4 * 4096];
	size_t used = 0;

	for (size_t i = 0; i < size; i += 3) {
		size_t left = size - i;
		unsigned int three =
		    at[i] << 16 | (left > 1 ? at[i + 1] << 8 : 0) | (left > 2 ? at[i + 2] : 0);

		text[used++] = digits[three >> 18];
		text[used++] = digits[three >> 12 & 63];
		text[used++] = left > 1 ? digits[three >> 6 & 63] : '=';
		text[used++] = left > 2 ? digits[three & 63] : '=';
		if (used == sizeof(text)) {
			put(w, text, used);
			used = 0;
		}
	}
	put(w, text, used);
}

/* The name without folders: a page is sent to others. */
static const char *file_name(const char *path)
{
	const char *end = strrchr(path, '/');

	if (strcmp(path, "-") == 0)
		return "trace";
	return end && end[1] ? end + 1 : path;
}

static void put_trace(struct page_writer *w, const char *id, const char *path,
		      const struct opened_trace *trace)
{
	put_text(w, "<script type=\"application/octet-stream\" id=\"");
	put_text(w, id);
	put_text(w, "\" data-name=\"");
	put_attribute(w, file_name(path));
	put_text(w, "\">");
	put_base64(w, trace->file.data, trace->file.size);
	put_text(w, "</script>\n");
}

/* As the page does that saves itself. */
static void put_state(struct page_writer *w, const char *state)
{
	put_text(w, "<script type=\"text/plain\" id=\"state\" data-name=\"");
	put_attribute(w, state);
	put_text(w, "\">.</script>\n");
}

/* ---- sources ---- */

struct embedded {
	struct json json;  /* an object that is open */
	struct bytes list; /* of the files, a line each */
	size_t files;
};

static void list_file(struct embedded *e, const char *path, size_t size)
{
	char line[2 * PATH_MAX], clean[PATH_MAX], bytes[FIGURE_TEXT];

	text_clean(clean, sizeof(clean), path);
	text_format(line, sizeof(line), "  %s (%s)\n", clean,
		    text_bytes(bytes, sizeof(bytes), (double)size));
	bytes_put(&e->list, line, strlen(line));
	e->files++;
}

static void add_source(struct embedded *e, const struct view_html *how,
		       const struct mayfly_trace *trace, const char *path)
{
	struct bytes text = {0};
	char found[PATH_MAX];

	if (source_file_read(trace, how->folder, path, &text, found)) {
		size_t size = text.used;

		bytes_put(&text, "", 1);
		if (text.failed) {
			e->json.bytes.failed = true;
		} else if (e->json.bytes.used + text.used <= MOST_SOURCE_BYTES) {
			json_text(&e->json, path, (const char *)text.at);
			list_file(e, found, size);
		} else {
			cli_error("left out, as the sources are too large: %s", path);
		}
	}
	bytes_free(&text);
}

/* "<" in a text could begin a tag that ends the script. */
static void put_json(struct page_writer *w, const struct bytes *json)
{
	const uint8_t *at = json->at, *end = at + json->used;

	while (at < end) {
		const uint8_t *tag = memchr(at, '<', (size_t)(end - at));

		put(w, at, (size_t)((tag ? tag : end) - at));
		if (tag)
			put_text(w, "\\u003c");
		at = tag ? tag + 1 : end;
	}
}

static void put_sources(struct page_writer *w, const struct view_html *how,
			const struct mayfly_trace *trace, struct embedded *e)
{
	struct json *j = &e->json;
	struct texts seen = {0};

	j->one_line = true;
	json_object(j, NULL);
	for (size_t i = 0; i < mayfly_trace_info(trace)->frames; i++) {
		const struct mayfly_frame *frame = mayfly_trace_frame(trace, i);

		for (size_t k = 0; frame && k < frame->locations; k++) {
			const char *file = frame->location[k].file;
			size_t before = seen.count;

			if (texts_number(&seen, file) == TEXTS_FAILED)
				j->bytes.failed = true;
			else if (*file && seen.count > before)
				add_source(e, how, trace, file);
		}
	}
	json_end(j);
	if (j->bytes.failed || e->list.failed)
		w->error = ENOMEM;
	put_text(w, "<script type=\"application/json\" id=\"sources\">");
	put_json(w, &j->bytes);
	put_text(w, "</script>\n");
	bytes_free(&j->bytes);
	texts_free(&seen);
}

/* What whoever gets the page can read. */
static void say_sources(const struct view_html *how, const struct embedded *e)
{
	if (!how->sources)
		return;
	fprintf(stderr, "mayfly: %zu source file%s in %s%s\n", e->files, e->files == 1 ? "" : "s",
		strcmp(how->output, "-") ? how->output : "the page", e->files ? ":" : "");
	fwrite(e->list.at, 1, e->list.used, stderr);
}

/* ---- the page ---- */

static bool fits(const char *path, const struct opened_trace *trace)
{
	char size[FIGURE_TEXT];

	if (!trace || (double)trace->file.size <= MOST_TRACE_BYTES)
		return true;
	return cli_fail("%s: %s are too much for one page; 'mayfly view %s' serves it instead",
			path, text_bytes(size, sizeof(size), (double)trace->file.size), path);
}

int view_write_html(const struct view_html *how, const struct opened_trace *trace,
		    const struct opened_trace *base)
{
	struct page_writer w = {0};
	struct embedded e = {0};
	int status = CLI_FAILED;
	const char *html, *mark;
	size_t size;

	if (!viewer_page(&html, &size))
		return cli_error("--html: this mayfly was built without the viewer's page, which "
				 "needs Node, npm and clang for WebAssembly: run "
				 "'scripts/setup viewer' and build mayfly again");
	mark = memmem(html, size, VIEWER_PAGE_MARK, strlen(VIEWER_PAGE_MARK));
	if (!mark)
		return cli_error("--html: the page that this mayfly was built with is damaged");
	if (strcmp(how->output, "-") == 0 && isatty(STDOUT_FILENO))
		return cli_error("not writing the page to a terminal; use --html FILE");
	if (!fits(how->path, trace) || !fits(how->base_path, base))
		return CLI_FAILED;
	if (!target_open(&w.target, how->output, how->force))
		return CLI_FAILED;
	put(&w, html, (size_t)(mark - html));
	if (trace)
		put_trace(&w, "trace", how->path, trace);
	if (base)
		put_trace(&w, "base", how->base_path, base);
	if (how->state)
		put_state(&w, how->state);
	if (trace && how->sources)
		put_sources(&w, how, trace->trace, &e);
	mark += strlen(VIEWER_PAGE_MARK);
	put(&w, mark, (size_t)(html + size - mark));
	if (w.error)
		target_drop(&w.target, w.error);
	else if (target_finish(&w.target))
		status = CLI_OK;
	if (status == CLI_OK)
		say_sources(how, &e);
	bytes_free(&e.list);
	return status;
}
