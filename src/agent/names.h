/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of the program's texts: names of types, labels. They are kept for good, since the plugin
 * that they came from may be closed.
 *
 * There are no locks that a signal handler or a forked child could find taken.
 */
#ifndef MAYFLY_NAMES_H
#define MAYFLY_NAMES_H

#include "agent/agent.h"

/* The number of bytes of the text that are kept; NULL is "". */
uint32_t names_length(const char *text);

/* A copy of `length` bytes, at most SPOOL_TEXT_BYTES, that ends with a zero. NULL: no memory. */
const char *names_keep(const char *text, uint32_t length);

#endif
