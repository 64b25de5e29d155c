/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types of blocks from what debug information declares, along the pointers:
 *
 *	variable of a type -> its pointers -> blocks of their types -> the pointers in these ...
 *
 * What points to a block's start says what it is. Where several say different things, the nearest to a variable
 * counts, and a table of virtual functions or Python more than all of them. A pointer to the inside
 * gives the block no type, but what is there is followed: a part of an object, or one that std::make_shared()
 * has made.
 *
 * Memory is read page by page, each level in order of addresses. Time is bounded by the words of the heap, whatever the
 * types say. Sixteen bytes for each block of the widest two levels.
 */
#ifndef MAYFLY_HEAP_DECLARED_H
#define MAYFLY_HEAP_DECLARED_H

#include "heap/heap_edges.h"

/* Gives types to blocks that have none. In e->used, a type is behind those of the question and of Python:
 * twice its layout, and 1 more for an array of it. */
bool heap_declared_find(const struct heap_image *image, const struct heap_blocks *b,
			const struct heap_question *q, const struct python_objects *python,
			struct heap_edges *e, struct heap_problem *problem);

#endif
