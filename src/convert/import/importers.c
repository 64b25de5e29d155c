/* SPDX-License-Identifier: Apache-2.0 */
/* The table of foreign formats that can be read. A new format is a new file and a row here. */
#include "convert/import/importer.h"

#include "ocaml_events/eventlog.h"
#include "convert/import/imports.h"

static const struct import_format imports[] = {
    /* Before Memtrace: both are CTF and begin with the same bytes. */
    {"OCaml eventlog", eventlog_recognise, eventlog_import, EVENTLOG_METADATA},
    {"OCaml runtime events", runtime_rings_recognise, runtime_events_import, NULL},
    {"Memtrace", memtrace_recognise, memtrace_import, NULL},
    {"heaptrack", heaptrack_recognise, heaptrack_import, NULL},
    {"heap profile", heap_text_recognise, heap_text_import, NULL},
    {"DHAT", dhat_recognise, dhat_import, NULL},
    {"massif", massif_recognise, massif_import, NULL},
    {"pprof", pprof_recognise, pprof_import, NULL},
    /* Last: it has no mark of its own. */
    {"folded stacks", folded_recognise, folded_import, NULL},
};

const struct import_format *import_recognise(const void *data, size_t size)
{
	for (size_t i = 0; i < sizeof(imports) / sizeof(imports[0]); i++)
		if (imports[i].recognise(data, size))
			return &imports[i];
	return NULL;
}
