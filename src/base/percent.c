/* SPDX-License-Identifier: Apache-2.0 */
/* Texts as they stand in a URL: see percent.h. */
#include "base/percent.h"

static int hex_digit(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

bool percent_decode(char *text)
{
	char *to = text;

	for (const char *s = text; *s; s++) {
		int high, low;

		if (*s != '%') {
			*to++ = *s == '+' ? ' ' : *s;
			continue;
		}
		high = hex_digit(s[1]);
		low = high < 0 ? -1 : hex_digit(s[2]);
		if (low < 0 || (high == 0 && low == 0))
			return false;
		*to++ = (char)(high << 4 | low);
		s += 2;
	}
	*to = 0;
	return true;
}
