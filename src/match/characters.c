/* SPDX-License-Identifier: Apache-2.0 */
/* The characters of expressions and texts: see expression.h. */
#include "match/expression_parts.h"

/* How many bytes follow the first of a character; 0: none, or it is no first byte. */
static unsigned followers(unsigned char byte)
{
	return byte >= 0xf0 && byte < 0xf5 ? 3 : byte >= 0xe0 ? byte < 0xf0 ? 2 : 0 : byte >= 0xc2;
}

uint32_t expression_character(const char *at, const char **next)
{
	const unsigned char *p = (const unsigned char *)at;
	unsigned more = followers(*p);
	uint32_t character = *p;

	*next = at + 1;
	if (*p < 0x80)
		return character;
	if (!more)
		return BROKEN_BYTE + *p;
	character &= 0x3fu >> more;
	for (unsigned i = 1; i <= more; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return BROKEN_BYTE + *p;
		character = character << 6 | (p[i] & 0x3f);
	}
	if (character >= BROKEN_BYTE)
		return BROKEN_BYTE + *p;
	*next = at + 1 + more;
	return character;
}

bool expression_is_word(uint32_t c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       c == '_' || (c >= 0x80 && c < BROKEN_BYTE);
}
