/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of damaged parts: see bad_chunks.h. */
#include "answer/bad_chunks.h"

#include <inttypes.h>

#include "answer/text_format.h"

#define MOST_NAMED 4

char *bad_chunks_text(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	size_t count = mayfly_trace_info(trace)->bad_chunks;

	*buffer = 0;
	for (size_t i = 0; i < count && i < MOST_NAMED; i++) {
		const struct mayfly_bad_chunk *bad = mayfly_trace_bad_chunk(trace, i);

		text_append(buffer, size, "%s%s at byte %" PRIu64 " (%s)",
			    i ? ", " : "damaged: ", bad->type, bad->offset, bad->holds);
	}
	if (count > MOST_NAMED)
		text_append(buffer, size, " and %zu more", count - MOST_NAMED);
	if (count)
		text_append(buffer, size, "; all else is used");
	return buffer;
}
