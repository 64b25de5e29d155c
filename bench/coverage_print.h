/* SPDX-License-Identifier: Apache-2.0 */
/* What coverage_score.h has measured, for people and for bench/coverage.py. */
#ifndef MAYFLY_COVERAGE_PRINT_H
#define MAYFLY_COVERAGE_PRINT_H

#include "coverage_score.h"

#define COVERAGE_MOST 32 /* scenarios */

double coverage_percent(double part, double whole);

/* each: [coverage_scenario_count]; lowest: the length of the list of lowest percentages. */
void coverage_print(const struct coverage_sheet *all, const struct coverage_sheet *each,
		    unsigned lowest);
/* A member of an object that is open. */
void coverage_json(const struct coverage_sheet *sheet);

#endif
