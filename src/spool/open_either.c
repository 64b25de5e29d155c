/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a trace, or a spool, which becomes a trace in memory first. */
#include <stdlib.h>

#include "spool/spool_convert.h"
#include "spool/spool_packets.h"
#include "trace/read/reader.h"

/* A spool becomes a trace in memory; without symbols, as this library reads no files. */
static int open_as_trace(const void *data, size_t size, struct mayfly_trace **trace)
{
	uint8_t *bytes = NULL;
	size_t length = 0;
	int error =
	    spool_convert(data, size, NULL, 0, NULL, TRACE_LEVEL_FAST, NULL, NULL, &bytes, &length);

	if (!error)
		error = trace_open(bytes, length, trace);
	if (error) {
		free(bytes);
		return error;
	}
	(*trace)->owned = bytes;
	(*trace)->info.file_bytes = size;
	(*trace)->info.spool = true;
	return 0;
}

int mayfly_trace_open(const void *data, size_t size, struct mayfly_trace **trace)
{
	*trace = NULL;
	if (spool_recognise(data, size))
		return open_as_trace(data, size, trace);
	return trace_open(data, size, trace);
}
