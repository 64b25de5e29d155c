/* SPDX-License-Identifier: Apache-2.0 */
/* For fuzz targets of traces: sets the checksums right, or the fuzzer would never get behind them.
 */
#ifndef FUZZ_REPAIR_H
#define FUZZ_REPAIR_H

#include <stdint.h>
#include <string.h>

#include "format/format.h"

static void repair(uint8_t *bytes, size_t size)
{
	size_t at = TRACE_HEADER_BYTES;
	uint32_t crc, stored;

	if (size < at)
		return;
	crc = trace_checksum(0, bytes, 20);
	memcpy(bytes + 20, &crc, 4);
	while (size - at > TRACE_TRAILER_BYTES) {
		memcpy(&stored, bytes + at + 4, 4);
		if (stored > size - at - TRACE_CHUNK_BYTES)
			return;
		crc = trace_checksum(0, bytes + at, 12);
		crc = trace_checksum(crc, bytes + at + TRACE_CHUNK_BYTES, stored);
		memcpy(bytes + at + 12, &crc, 4);
		at += TRACE_CHUNK_BYTES + stored;
	}
}

#endif
