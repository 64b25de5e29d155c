/* SPDX-License-Identifier: Apache-2.0 */
/* heaptrack's files, as heaptrack_interpret writes them: versions 0 to 3, zstd, gzip or plain. */
#ifndef MAYFLY_HEAPTRACK_H
#define MAYFLY_HEAPTRACK_H

#include "convert/import/importer.h"

bool heaptrack_recognise(const void *data, size_t size);
int heaptrack_import(const void *data, size_t size, const struct import_options *options,
		     trace_sink *sink, void *context, struct import_report *report);

#endif
