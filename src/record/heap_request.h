/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A picture of the heap of a program that is being recorded, asked for by the control words of its spool
 * (mayfly ctl PID heap):
 *
 *	the program is frozen: a copy of it, and the moment
 *	the copy's heap is read; the program records on, and its spool grows
 *	the spool is read up to that moment, and no further
 *	what is live then is joined with the picture (heap_held.h), which goes into the trace
 */
#ifndef MAYFLY_HEAP_REQUEST_H
#define MAYFLY_HEAP_REQUEST_H

#include "record/recorder.h"

/* Somebody waits for a picture. */
bool heap_request_waits(const struct recorder *r);
/* Takes the picture when the recorder reads; does nothing before. False: why[] says why there is none, and so
 * does the spool. To be called between two rounds, by the thread that reads. */
#define HEAP_WHY sizeof(((struct spool_header *)0)->heap_text)
bool heap_request_answer(struct recorder *r, char why[HEAP_WHY]);

/* The program waits for it at its exit, and ends afterwards. */
bool heap_request_is_last(const struct recorder *r);

/* Asks for a picture; returns the number of the request. */
uint32_t heap_request(struct spool_header *h);
/* Whether it has been answered; then *why is the reason when there is no picture, else "". */
bool heap_request_done(const struct spool_header *h, uint32_t request, char *why, size_t size);

#endif
