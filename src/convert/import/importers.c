/* SPDX-License-Identifier: Apache-2.0 */
/* The table of foreign formats that can be read. A new format is a new file and a row here. What is
 * refused has a row with the way round. */
#include "convert/import/importer.h"

#include <stdio.h>
#include <string.h>

#include "ocaml_events/eventlog.h"
#include "convert/import/imports.h"
#include "convert/import/packed.h"

#define BEGINS(text) .begins = (text), .begins_bytes = sizeof(text) - 1

static const struct import_format imports[] = {
    /* Before Memtrace: both are CTF and begin with the same bytes. */
    {"OCaml eventlog", eventlog_recognise, eventlog_import, EVENTLOG_METADATA},
    {"OCaml runtime events", runtime_rings_recognise, runtime_events_import},
    {"Memtrace", memtrace_recognise, memtrace_import},
    {"heaptrack", heaptrack_recognise, heaptrack_import},
    {"heap profile", heap_text_recognise, heap_text_import},
    {"DHAT", dhat_recognise, dhat_import},
    {"massif", massif_recognise, massif_import},
    {"V8 heap profile", v8_recognise, v8_import},
    {"pprof", pprof_recognise, pprof_import, .sample_types = true},
    {"Perfetto", perfetto_recognise, perfetto_import},

    {"raw heaptrack", heaptrack_raw_recognise,
     .instead = "which heaptrack_interpret has to read first: zstd -dc FILE | "
		"/usr/lib/heaptrack/libexec/heaptrack_interpret > NEW"},
    {"JFR", BEGINS("FLR\0"),
     .instead = "which async-profiler's jfrconv makes folded stacks of: "
		"jfrconv --alloc --total -o collapsed FILE NEW (or --live)"},
    {"memray", BEGINS("memray\0"),
     .instead = "which only memray reads; record the program: mayfly record -- PROGRAM"},
    {"Java heap dump", BEGINS("JAVA PROFILE "),
     .instead = "which says what is live and not what allocated it; record the program with "
		"async-profiler"},
    {"V8 heap snapshot", BEGINS("{\"snapshot\":{"),
     .instead = "which has no stacks; run node with --heap-prof"},
    {"callgrind", BEGINS("# callgrind format"),
     .instead = "which is not read; run valgrind --tool=dhat or --tool=massif"},

    /* Last: it has no mark of its own. */
    {"folded stacks", folded_recognise, folded_import},
};

static bool is_of(const struct import_format *format, const void *data, size_t size)
{
	char begin[32];

	if (format->recognise)
		return format->recognise(data, size);
	return packed_peek(data, size, begin, sizeof(begin)) >= format->begins_bytes &&
	       memcmp(begin, format->begins, format->begins_bytes) == 0;
}

const struct import_format *import_recognise(const void *data, size_t size)
{
	for (size_t i = 0; i < sizeof(imports) / sizeof(imports[0]); i++)
		if (is_of(&imports[i], data, size))
			return &imports[i];
	return NULL;
}

int import_file(struct import *in, const struct import_format *format)
{
	const char *refused = format->instead;

	if (format->convert && in->options.sample_type && !format->sample_types)
		refused = "which has no sample types to choose from; leave out --sample-type";
	if (!refused)
		return import_run(in, format->convert);
	in->report = (struct import_report){.left_out = ""};
	snprintf(in->report.problem, sizeof(in->report.problem), "%s", refused);
	return MAYFLY_E_ABSENT;
}
