/* SPDX-License-Identifier: Apache-2.0 */
/* What grew from picture to picture, as text and as JSON. Each returns an exit status; there is a picture. */
#ifndef MAYFLY_HEAP_GROWTH_PRINT_H
#define MAYFLY_HEAP_GROWTH_PRINT_H

#include "cli/heap/heap_growth.h"
#include "cli/heap/heap_print.h"

int heap_growth_print_text(const struct heap_growth *g, const struct heap_view *view);
int heap_growth_print_json(const struct heap_growth *g, pid_t pid);

#endif
