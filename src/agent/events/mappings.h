/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program maps and gives back itself, beside malloc: see mappings.c.
 */
#ifndef MAYFLY_MAPPINGS_H
#define MAYFLY_MAPPINGS_H

#include <stdint.h>

#define MAPPINGS_OFF UINT64_MAX

/* Finds the functions underneath; until then the kernel is called directly. */
void mappings_look_up(void);

/* From now on changes of so many bytes or more are recorded. */
void mappings_start(uint64_t least);

#endif
