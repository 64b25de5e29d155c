/* SPDX-License-Identifier: Apache-2.0 */
/* Heap profiles of pprof: profile.proto, gzip or plain. */
#ifndef MAYFLY_PPROF_H
#define MAYFLY_PPROF_H

#include "convert/import/importer.h"

bool pprof_recognise(const void *data, size_t size);
int pprof_import(const void *data, size_t size, const struct import_options *options,
		 trace_sink *sink, void *context, struct import_report *report);

#endif
