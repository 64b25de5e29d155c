/* SPDX-License-Identifier: Apache-2.0 */
/* What is shown, as a file for another tool. */
#include <string.h>

#include "convert/export/exporter.h"
#include "view/answers.h"

static int put_bytes(void *context, const void *bytes, size_t size)
{
	struct bytes *to = context;

	bytes_put(to, bytes, size);
	return to->failed ? MAYFLY_E_MEMORY : 0;
}

static const struct export_format *format_named(const struct request *r)
{
	const struct export_format *f = r->view->exports;

	for (; f && f->name; f++)
		if (r->format && strcmp(f->name, r->format) == 0 && f->shape == EXPORT_STREAM &&
		    !f->missing)
			return f;
	return NULL;
}

static int put_file(struct view_answer *a, const void *file, size_t size)
{
	if (!file)
		return MAYFLY_E_ABSENT;
	a->type = "application/octet-stream";
	bytes_put(&a->bytes, file, size);
	return 0;
}

int view_file(struct request *r, struct view_answer *a)
{
	return put_file(a, r->view->file, r->view->file_size);
}

int view_basefile(struct request *r, struct view_answer *a)
{
	return put_file(a, r->view->base_file, r->view->base_file_size);
}

int view_export(struct request *r, struct view_answer *a)
{
	const struct export_format *format = format_named(r);
	struct export_options options = {"", &r->q.query, false};

	if (!format || !(format->metrics & EXPORT_METRIC(r->q.query.metric)))
		return MAYFLY_E_RANGE;
	/* As in the command's files: other tools get complete stacks. */
	if (r->q.hidden.frames == FRAMES_USUAL)
		r->q.query.fold = (struct mayfly_fold){0};
	a->type = format->text ? "text/plain; charset=utf-8" : "application/octet-stream";
	return export_run(format->convert, r->trace, &options, put_bytes, &a->bytes);
}
