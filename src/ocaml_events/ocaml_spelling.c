/* SPDX-License-Identifier: Apache-2.0 */
/* How OCaml's functions are called: see ocaml_spelling.h. */
#include "ocaml_events/ocaml_spelling.h"

#include <string.h>

#define STANDARD	  "Stdlib"
#define CHANGED_UNITS_MAX 0x7fff

static int is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

size_t ocaml_spelling(char *name, size_t length, uint16_t *change)
{
	size_t used = 0, i = 0;

	*change = 0;
	while (i < length && name[i] != '.') {
		int unit = used && i + 2 < length && name[i] == '_' && name[i + 1] == '_' &&
			   *change >> 1 < CHANGED_UNITS_MAX;
		/* Only the standard library's units have small letters. */
		int small = unit && i == strlen(STANDARD) &&
			    memcmp(name, STANDARD, strlen(STANDARD)) == 0 && name[i + 2] >= 'a' &&
			    name[i + 2] <= 'z';

		if (small) {
			name[i + 2] = (char)(name[i + 2] - 'a' + 'A');
			*change |= 1;
		}
		if (unit && is_upper(name[i + 2])) {
			name[used++] = '.';
			*change = (uint16_t)(*change + 2);
			i += 2;
		} else {
			name[used++] = name[i++];
		}
	}
	memmove(name + used, name + i, length - i);
	return used + length - i;
}

bool ocaml_spelled_before(const char *name, uint16_t change, char *out, size_t size)
{
	unsigned units = change >> 1, small = change & 1;
	size_t length = strlen(name), used = 0;

	if (length + units >= size)
		return false;
	for (const char *at = name; *at; at++) {
		if (*at != '.' || !units) {
			out[used++] = *at;
			continue;
		}
		units--;
		out[used++] = '_';
		out[used++] = '_';
		if (small && is_upper(at[1])) {
			out[used++] = (char)(*++at - 'A' + 'a');
			small = 0;
		}
	}
	out[used] = 0;
	return !units && !small;
}
