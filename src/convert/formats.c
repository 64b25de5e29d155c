/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of foreign formats. A new one is a file of its own and a row here. */
#include "convert/formats.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "convert/memtrace.h"

/* ---- Memtrace ---- */

static void append(char *text, size_t size, uint64_t count, const char *one, const char *many)
{
	size_t used = strlen(text);

	if (count)
		snprintf(text + used, size - used, "%s%" PRIu64 " %s", used ? ", " : "", count,
			 count == 1 ? one : many);
}

static void report_memtrace(const struct memtrace_reader *r,
			    const struct memtrace_converted *converted,
			    struct import_report *report)
{
	struct memtrace_skipped skipped = memtrace_skipped(r);
	char *text = report->left_out;
	size_t size = sizeof(report->left_out);

	append(text, size, skipped.wrong_pid, "packet of another process",
	       "packets of other processes");
	append(text, size, skipped.misplaced, "packet that does not follow the one before",
	       "packets that do not follow the ones before");
	append(text, size, skipped.truncated, "packet that is cut off", "packets that are cut off");
	snprintf(report->problem, sizeof(report->problem), "%s", converted->problem);
}

static int import_memtrace(const void *data, size_t size, trace_sink *sink, void *context,
			   struct import_report *report)
{
	struct memtrace_converted converted;
	struct memtrace_reader *r;
	int error = memtrace_open(data, size, &r);

	if (error == MAYFLY_E_VERSION)
		snprintf(report->problem, sizeof(report->problem),
			 "made by a newer version of Memtrace than is known here");
	if (error)
		return error;
	error = memtrace_to_trace(r, sink, context, &converted);
	report_memtrace(r, &converted, report);
	memtrace_close(r);
	return error;
}

static int export_memtrace(const struct mayfly_trace *trace, const struct export_options *options,
			   trace_sink *sink, void *context)
{
	return memtrace_from_trace(trace, options->purpose, options->query->heaps, sink, context);
}

static const char *left_out_of_memtrace(const struct mayfly_trace *trace,
					const struct export_options *options)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	if (!(info->heaps & ~memtrace_heaps(info, options->query->heaps)) || options->query->heaps)
		return NULL;
	return "malloc's blocks, as Memtrace's files have one rate; OCaml's are in it";
}

/* ---- the tables ---- */

static const struct import_format imports[] = {
    {"Memtrace", memtrace_recognise, import_memtrace},
};

static const struct export_format exports[] = {
    {.name = "memtrace",
     .suffix = ".ctf",
     .help = "Memtrace, version 2: for its tools and viewer",
     .events = true,
     .convert = export_memtrace,
     .left_out = left_out_of_memtrace},
    {NULL},
};

const struct import_format *import_recognise(const void *data, size_t size)
{
	for (size_t i = 0; i < sizeof(imports) / sizeof(imports[0]); i++)
		if (imports[i].recognise(data, size))
			return &imports[i];
	return NULL;
}

const struct export_format *export_find(const char *name)
{
	for (const struct export_format *f = exports; f->name; f++)
		if (strcmp(f->name, name) == 0)
			return f;
	return NULL;
}

const struct export_format *export_formats(void)
{
	return exports;
}
