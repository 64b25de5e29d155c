/* SPDX-License-Identifier: Apache-2.0 */
/* The imports, each a recognise() and a convert() of struct import_format. */
#ifndef MAYFLY_IMPORTS_H
#define MAYFLY_IMPORTS_H

#include "convert/import/importer.h"

typedef bool import_recognises(const void *data, size_t size);
import_recognises eventlog_recognise, memtrace_recognise, heaptrack_recognise, heap_text_recognise,
    pprof_recognise, runtime_rings_recognise, dhat_recognise, massif_recognise, folded_recognise,
    heaptrack_raw_recognise, v8_recognise, perfetto_recognise;

import_convert eventlog_import, memtrace_import, heaptrack_import, heap_text_import, pprof_import,
    runtime_events_import, dhat_import, massif_import, folded_import, v8_import, perfetto_import;

#endif
