/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps a trace that grows within the size that the user gave (--max-size), by sampling what it has more
 * coarsely, and likewise what comes.
 *
 *	FILE.part ──> trace_thin() at a larger interval ──> FILE.part.thin, which becomes FILE.part
 *
 * What fails is kept in r->thin_error: the recording goes on, and its trace grows beyond the size.
 */
#ifndef MAYFLY_RECORDER_THIN_H
#define MAYFLY_RECORDER_THIN_H

#include "record/recorder.h"

/* After each round: keeps the trace below its size, and what the recorder knows of live blocks in bounded
 * memory. */
void recorder_keep_size(struct recorder *r);

/* Ends the trace, within its size. 0 or an errno or a negative enum mayfly_error. */
int recorder_finish_within_size(struct recorder *r);

#endif
