/* SPDX-License-Identifier: Apache-2.0 */
/* Places in code as valgrind writes them, which DHAT and massif have in common. */
#ifndef MAYFLY_VALGRIND_PLACE_H
#define MAYFLY_VALGRIND_PLACE_H

#include "convert/import/heap_profile.h"

/* The frame of "0x109179: leaf (l.c:4)", "0x4848899: malloc (in /usr/lib/x.so)", or "0x1234: ???". */
uint32_t valgrind_place(struct heap_profile *p, const char *text, size_t length);

#endif
