/* SPDX-License-Identifier: Apache-2.0 */
/* Student's distribution: means of few values, whose variance is estimated from these values. */
#ifndef MAYFLY_STUDENT_H
#define MAYFLY_STUDENT_H

/* The chance of a value at least as far from 0 as t. freedom: above 0, not necessarily whole. */
double student_tail(double t, double freedom);
/* The t with this chance, 0 < chance < 1. */
double student_quantile(double chance, double freedom);

#endif
