/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes: see hash.h. */
#include "base/hash.h"

uint64_t hash_string(const char *text)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001b3u;
	return hash_mix(h);
}
