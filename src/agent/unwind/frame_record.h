/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code without unwind rules: what a JIT compiler wrote, or assembler. Whether the base pointer
 * points to the frame record of the function there.
 *
 *	sp            bp
 *	|  locals ... | saved bp | return address | the caller's frame ...
 */
#ifndef MAYFLY_FRAME_RECORD_H
#define MAYFLY_FRAME_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#define FRAME_RECORD_WORDS_MOST 1024u /* the locals of a frame that is looked at */

/* The function that is returned to at pc has its frame record at bp: where its frame ends (the CFA).
 * Memory from sp to the end of the record can be read. Without proof: 0. No system call but for code
 * that is new, and none at all if `sandboxed`. */
uintptr_t frame_record_cfa(uintptr_t pc, uintptr_t sp, uintptr_t bp, bool sandboxed);

#endif
