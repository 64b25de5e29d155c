/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of foreign formats. A new one is a file of its own and a row here. */
#include "convert/formats.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "convert/import/eventlog.h"
#include "convert/export/exports.h"
#include "convert/import/heap_text.h"
#include "convert/import/heaptrack.h"
#include "convert/memtrace.h"
#include "convert/import/pprof.h"

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

static int import_memtrace(const void *data, size_t size, const struct import_options *options,
			   trace_sink *sink, void *context, struct import_report *report)
{
	struct memtrace_converted converted;
	struct memtrace_reader *r;
	int error = memtrace_open(data, size, &r);

	(void)options; /* names are in the file */
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

static const char *left_out_of_ctf(const struct mayfly_trace *trace,
				   const struct export_options *options)
{
	(void)options;
	return mayfly_trace_info(trace)->snapshot_ns
		   ? "blocks, as a trace of snapshots has none; its other events are in it"
		   : NULL;
}

/* ---- the tables ---- */

static const struct import_format imports[] = {
    /* Begins as Memtrace's do, which are CTF, too. */
    {"OCaml eventlog", eventlog_recognise, eventlog_import, EVENTLOG_METADATA},
    {"Memtrace", memtrace_recognise, import_memtrace, NULL},
    {"heaptrack", heaptrack_recognise, heaptrack_import, NULL},
    {"heap profile", heap_text_recognise, heap_text_import, NULL},
    {"pprof", pprof_recognise, pprof_import, NULL},
};

#ifdef HAVE_SQLITE
#define SQLITE_IN_BUILD .convert_at = export_sqlite
#else
#define SQLITE_IN_BUILD .missing = "SQLite; install libsqlite3-dev and build it again"
#endif

#define TAKES_ALL (EXPORT_TAKES_BLOCKS | EXPORT_TAKES_HIDE)

static const struct export_format exports[] = {
    {.name = "pprof",
     .suffix = ".pb.gz",
     .help = "pprof's profile.proto: for go tool pprof and viewers that read it",
     .takes = TAKES_ALL,
     .metrics = EXPORT_ALL_METRICS,
     .convert = export_pprof},
    {.name = "heap_v2",
     .suffix = ".heap",
     .help = "heap profile of gperftools: for jeprof and google-pprof",
     .text = true,
     .takes = TAKES_ALL,
     .metrics = EXPORT_ALL_METRICS & ~EXPORT_METRIC(MAYFLY_TEMPORARY),
     .convert = export_heap_v2},
    {.name = "folded",
     .suffix = ".folded",
     .help = "a line for each stack: for flamegraph.pl and inferno",
     .text = true,
     .takes = TAKES_ALL,
     .metrics = EXPORT_ALL_METRICS,
     .convert = export_folded},
    {.name = "speedscope",
     .suffix = ".speedscope.json",
     .help = "for www.speedscope.app",
     .text = true,
     .takes = TAKES_ALL,
     .metrics = EXPORT_ALL_METRICS,
     .convert = export_speedscope},
    {.name = "flamegraph",
     .suffix = ".svg",
     .help = "a picture to click through in any browser",
     .text = true,
     .takes = TAKES_ALL,
     .metrics = EXPORT_ALL_METRICS,
     .convert = export_flamegraph},
    {.name = "csv",
     .suffix = ".csv",
     .help = "a table for spreadsheets",
     .text = true,
     .takes = TAKES_ALL | EXPORT_TAKES_ROWS,
     .metrics = EXPORT_ALL_METRICS,
     .convert = export_csv},
    {.name = "chrome",
     .suffix = ".trace.json",
     .help = "the heap over time, spans: for chrome://tracing, ui.perfetto.dev",
     .text = true,
     .takes = TAKES_ALL | EXPORT_TAKES_ROWS,
     .convert = export_chrome},
    {.name = "perfetto",
     .suffix = ".pftrace",
     .help = "the same with heap profiles: for ui.perfetto.dev",
     .takes = TAKES_ALL | EXPORT_TAKES_ROWS,
     .convert = export_perfetto},
    {.name = "massif",
     .suffix = ".massif",
     .help = "for ms_print and massif-visualizer",
     .text = true,
     .takes = TAKES_ALL,
     .convert = export_massif},
    {.name = "ctf",
     .suffix = ".ctf.d",
     .help = "folder of every event: for babeltrace2 and Trace Compass",
     .shape = EXPORT_FOLDER,
     .events = true,
     .tracks = true,
     .landmark = CTF_METADATA,
     .left_out = left_out_of_ctf,
     .convert_at = export_ctf},
    {.name = "sqlite",
     .suffix = ".sqlite",
     .help = "database of every event: any question is a query",
     .shape = EXPORT_FILE,
     .takes = EXPORT_TAKES_HIDE,
     SQLITE_IN_BUILD},
    {.name = "memtrace",
     .suffix = ".ctf",
     .help = "Memtrace, version 2: for its tools and viewer",
     .events = true,
     .takes = EXPORT_TAKES_HEAPS,
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
