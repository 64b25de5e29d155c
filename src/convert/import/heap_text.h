/* SPDX-License-Identifier: Apache-2.0 */
/* Heap profiles as text: jemalloc's (heap_v2) and gperftools'. */
#ifndef MAYFLY_HEAP_TEXT_H
#define MAYFLY_HEAP_TEXT_H

#include "convert/import/importer.h"

bool heap_text_recognise(const void *data, size_t size);
int heap_text_import(const void *data, size_t size, const struct import_options *options,
		     trace_sink *sink, void *context, struct import_report *report);

#endif
