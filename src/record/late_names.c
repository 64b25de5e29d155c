/* SPDX-License-Identifier: Apache-2.0 */
/* Names for a trace that was written without them: see late_names.h. */
#include "record/late_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "symbols/symbols.h"

static bool add_locations(struct late_names *n, const struct symbol *list, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!array_reserve(&n->location, &n->location_room, n->locations,
				   sizeof(*n->location)))
			return false;
		n->location[n->locations++] = (struct mayfly_location){
		    .function = list[i].function ? list[i].function : "",
		    .file = list[i].file ? list[i].file : "",
		    .line = list[i].line,
		    .inlined = list[i].inlined && i + 1 < count,
		};
	}
	return true;
}

/* What the trace has is kept where the answer is not more. */
static bool is_more(struct late_names *n, const struct mayfly_frame *f, const struct symbol *list,
		    size_t count)
{
	bool function = list[count - 1].function != NULL, file = list[count - 1].file != NULL;

	if (*f->location->function) {
		n->current->lined += function && file;
		return function && file;
	}
	n->current->named += function;
	return function || (file && n->wanted == LATE_UNNAMED);
}

static void late_found(void *context, size_t index, const struct symbol *list, size_t count)
{
	struct late_names *n = context;
	size_t frame = n->frame[index], first = n->locations;

	if (n->failed || !is_more(n, &n->trace->frame[frame], list, count))
		return;
	n->failed = !array_reserve(&n->name, &n->name_room, n->names, sizeof(*n->name)) ||
		    !add_locations(n, list, count);
	if (!n->failed)
		n->name[n->names++] = (struct late_name){frame, first, count};
}

struct wanted {
	uint32_t module;
	uint64_t address;
	size_t frame;
};

static int compare_wanted(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;

	if (x->module != y->module)
		return x->module < y->module ? -1 : 1;
	return (x->frame > y->frame) - (x->frame < y->frame);
}

/* Whether the frame's module is to be asked about it. */
static bool is_wanted(struct late_names *n, const struct mayfly_frame *f)
{
	struct late_module *m;
	bool named, lined;

	if (f->kind != MAYFLY_FRAME_CODE || f->module >= n->trace->info.modules)
		return false;
	m = &n->module[f->module];
	named = *f->location->function;
	lined = f->locations > 1 || *f->location->file;
	m->unnamed += !named;
	m->unlined += named && !lined;
	if (n->wanted == LATE_UNNAMED)
		return !named;
	m->no_build_id = !n->trace->module[f->module].build_id_length;
	return (!named || !lined) && !m->no_build_id;
}

static struct wanted *list_wanted(struct late_names *n, size_t *count)
{
	const struct mayfly_trace *t = n->trace;
	struct wanted *list = malloc((t->info.frames + 1) * sizeof(*list));

	*count = 0;
	for (size_t i = 0; list && i < t->info.frames; i++) {
		const struct mayfly_frame *f = &t->frame[i];

		if (is_wanted(n, f))
			list[(*count)++] = (struct wanted){f->module, f->address, i};
	}
	if (list)
		qsort(list, *count, sizeof(*list), compare_wanted);
	return list;
}

static void name_module(struct late_names *n, struct symbols *session, const struct wanted *list,
			size_t count)
{
	const struct mayfly_module *m = &n->trace->module[list->module];
	uint64_t *address = malloc(count * sizeof(*address));
	size_t *frame = malloc(count * sizeof(*frame));

	for (size_t i = 0; address && frame && i < count; i++) {
		address[i] = list[i].address;
		frame[i] = list[i].frame;
	}
	n->frame = frame;
	n->current = &n->module[list->module];
	n->failed |= !address || !frame;
	if (!n->failed)
		symbols_resolve(session, m->path, m->build_id_length ? m->build_id : NULL,
				m->build_id_length, address, count, late_found, n,
				&n->current->why);
	free(address);
	free(frame);
}

int late_names_find(struct late_names *n, const struct mayfly_trace *t, struct symbols *session,
		    enum late_wanted wanted)
{
	struct wanted *list = NULL;
	size_t count = 0, end;

	*n = (struct late_names){.trace = t, .wanted = wanted};
	n->module = calloc(t->info.modules + 1, sizeof(*n->module));
	if (n->module)
		list = list_wanted(n, &count);
	if (!list)
		return MAYFLY_E_MEMORY;
	for (size_t i = 0; i < count; i = end) {
		for (end = i + 1; end < count && list[end].module == list[i].module;)
			end++;
		name_module(n, session, list + i, end - i);
	}
	free(list);
	return n->failed ? MAYFLY_E_MEMORY : 0;
}

void late_names_free(struct late_names *n)
{
	free(n->location);
	free(n->name);
	free(n->module);
	*n = (struct late_names){0};
}
