/* SPDX-License-Identifier: Apache-2.0 */
/* The variables that debug information declares, and where it defines types. */
#ifndef MAYFLY_DEBUG_VARIABLES_H
#define MAYFLY_DEBUG_VARIABLES_H

#include "picture/debug_types.h"

bool debug_variables_find(struct heap_layouts *l, const uint8_t *points, uint32_t holders);

#endif
