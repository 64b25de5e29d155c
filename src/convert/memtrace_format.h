/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of Memtrace's format that reading and writing share.
 *
 * Stacks are coded with a cache of 2^14 buckets. A bucket holds a code and a prediction: the bucket
 * that followed it the last time.
 *
 *	codeword (u16): bucket << 2 | tag
 *	tag	0 HIT	  the frame is slot[bucket]
 *		1 HIT_1	  like HIT, and the next frame is as predicted
 *		2 HIT_N	  like HIT, and the next n (u8) frames are as predicted
 *		3 MISS	  slot[bucket] = the code (u64) that follows; no predictions
 *
 * A prediction starts from the bucket of the previous frame; for the first frame, from bucket 0.
 */
#ifndef MAYFLY_MEMTRACE_FORMAT_H
#define MAYFLY_MEMTRACE_FORMAT_H

#define PACKET_MAGIC	    0xc1fc1fc1u
#define HEADER_BYTES	    66
#define HEADER_BYTES_DOMAIN 2 /* more from version 3 on: the domain */

#define TIME_BITS 25
#define TIME_MASK ((1u << TIME_BITS) - 1)

enum {
	EVENT_INFO = 0,
	EVENT_LOCATION = 1,
	EVENT_ALLOC = 2,
	EVENT_PROMOTE = 3,
	EVENT_COLLECT = 4,
	EVENT_SHORT_ALLOC = 100, /* plus the length, 1 to 16 */
};
#define SHORT_LENGTH_MAX 16

#define VINT_16 253
#define VINT_32 254
#define VINT_64 255

#define CACHE_BITS     14
#define CACHE_SIZE     (1u << CACHE_BITS)
#define CACHE_NO_CHECK 0xffffu

enum { TAG_HIT = 0, TAG_HIT_1 = 1, TAG_HIT_N = 2, TAG_MISS = 3 };

/* Names of files and functions are coded by their places in lists of recent names. */
#define NAMES	 31
#define NAME_NEW 31

#define LINE_BITS  20
#define START_BITS 8
#define END_BITS   10
#define NAME_BITS  5

#endif
