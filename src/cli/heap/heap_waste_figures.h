/* SPDX-License-Identifier: Apache-2.0 */
/* Waste as figures with their intervals. */
#ifndef MAYFLY_HEAP_WASTE_FIGURES_H
#define MAYFLY_HEAP_WASTE_FIGURES_H

#include <mayfly/trace.h>

#include "heap/heap_waste.h"

/* The copies of a sum. */
struct mayfly_estimate heap_waste_copies(const struct heap_waste *w,
					 const struct heap_waste_sum *sum);
/* What rows are ordered by: all of it, about. */
double heap_waste_weight(const struct heap_waste_sum *sum);

#endif
