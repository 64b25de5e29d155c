/* SPDX-License-Identifier: Apache-2.0 */
/* Prints stacks. */
#ifndef MAYFLY_STACK_LINES_H
#define MAYFLY_STACK_LINES_H

#include "terminal/output.h"

#define STACK_INDENT 5
/* Prints a stack, leaf first, one line for each place; only the first `depth` places, then the
 * number of the others; 0: all. */
void write_stack(FILE *to, const struct output *o, const struct mayfly_place *stack, size_t length,
		 size_t depth);
/* On standard output. */
void print_stack(const struct output *o, const struct mayfly_place *stack, size_t length,
		 size_t depth);

#endif
