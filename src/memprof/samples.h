/* SPDX-License-Identifier: Apache-2.0 */
/* The gaps of a thread. See samples.c. */
#ifndef MAYFLY_SAMPLES_H
#define MAYFLY_SAMPLES_H

#include <stdint.h>

struct thread;

/* Other samples from here on. number: another one for each child of a process. */
void samples_draw_anew(struct thread *t, uint64_t number);

#endif
