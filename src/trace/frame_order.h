/* SPDX-License-Identifier: Apache-2.0 */
/* The order of frames in a group of FRMS and in NAME: by kind, module, address. */
#ifndef MAYFLY_FRAME_ORDER_H
#define MAYFLY_FRAME_ORDER_H

#include <stddef.h>
#include <stdint.h>

struct frame_key {
	uint64_t address;
	uint32_t kind, module, index; /* index: the frame's number, for the caller */
};

void frame_keys_sort(struct frame_key *key, size_t count);

#endif
