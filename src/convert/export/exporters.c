/* SPDX-License-Identifier: Apache-2.0 */
/* The table of foreign formats that can be written. A new format is a new file and a row here. */
#include "convert/export/exporter.h"

#include <string.h>

#include "convert/export/exports.h"

#ifdef HAVE_SQLITE
#define SQLITE_IN_BUILD .convert_at = export_sqlite
#else
#define SQLITE_IN_BUILD .missing = "SQLite; install libsqlite3-dev and build mayfly again"
#endif

#define TAKES_ALL (EXPORT_TAKES_BLOCKS | EXPORT_TAKES_HIDE)

static const struct export_format exports[] = {
    {.name = "pprof",
     .suffix = ".pb.gz",
     .help = "pprof's profile.proto: for go tool pprof and compatible viewers",
     .takes = TAKES_ALL,
     .metrics = EXPORT_ALL_METRICS,
     .convert = export_pprof},
    {.name = "otlp",
     .suffix = ".otlp",
     .help = "OpenTelemetry profiles (development version): for collectors",
     .takes = TAKES_ALL | EXPORT_TAKES_PROCESS,
     .metrics = EXPORT_ALL_METRICS,
     .convert = export_otlp},
    {.name = "heap_v2",
     .suffix = ".heap",
     .help = "gperftools heap profile: for jeprof and google-pprof",
     .text = true,
     .takes = TAKES_ALL,
     .metrics = EXPORT_ALL_METRICS & ~EXPORT_METRIC(MAYFLY_TEMPORARY),
     .convert = export_heap_v2},
    {.name = "folded",
     .suffix = ".folded",
     .help = "one line per stack: for flamegraph.pl and inferno",
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
     .help = "interactive picture (SVG) for any browser",
     .text = true,
     .takes = TAKES_ALL,
     .metrics = EXPORT_ALL_METRICS,
     .convert = export_flamegraph},
    {.name = "csv",
     .suffix = ".csv",
     .help = "table for spreadsheets",
     .text = true,
     .takes = TAKES_ALL | EXPORT_TAKES_ROWS,
     .metrics = EXPORT_ALL_METRICS,
     .convert = export_csv},
    {.name = "chrome",
     .suffix = ".trace.json",
     .help = "heap over time, spans: for chrome://tracing, ui.perfetto.dev",
     .text = true,
     .takes = TAKES_ALL | EXPORT_TAKES_ROWS,
     .convert = export_chrome},
    {.name = "perfetto",
     .suffix = ".pftrace",
     .help = "the same plus heap profiles: for ui.perfetto.dev",
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
     .help = "folder with every event: for babeltrace2 and Trace Compass",
     .shape = EXPORT_FOLDER,
     .events = true,
     .tracks = true,
     .landmark = CTF_METADATA,
     .left_out = ctf_left_out,
     .convert_at = export_ctf},
    {.name = "sqlite",
     .suffix = ".sqlite",
     .help = "database with every event, for any SQL query",
     .shape = EXPORT_FILE,
     .takes = EXPORT_TAKES_HIDE,
     SQLITE_IN_BUILD},
    {.name = "memtrace",
     .suffix = ".ctf",
     .help = "Memtrace version 2: for its tools and viewer",
     .events = true,
     .takes = EXPORT_TAKES_HEAPS,
     .convert = memtrace_export,
     .left_out = memtrace_left_out},
    {NULL},
};

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
