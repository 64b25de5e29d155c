/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where pointers are in a type: its members, those of its bases, of what is in these, and of arrays. Of a union only if
 * a single member has any: which one is in use is not known. The library's containers are known by
 * name, as pointers to their nodes do not say what is in these.
 */
#ifndef MAYFLY_DEBUG_LAYOUTS_H
#define MAYFLY_DEBUG_LAYOUTS_H

#include "picture/debug_types.h"

/* The layout of a type; *layout INTERNER_NONE: it has none, as void has not. False: out of memory. */
bool debug_layouts_find(struct debug_types *d, Dwarf_Die *type, uint32_t *layout);
bool debug_layouts_complete(struct heap_layouts *l, uint32_t layout);

#endif
