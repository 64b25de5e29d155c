/* SPDX-License-Identifier: Apache-2.0 */
/* How OCaml's functions are called: see ocaml_spelling.h. */
#include "format/ocaml_spelling.h"

#include <string.h>

#define STANDARD "Stdlib"

static int is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

size_t ocaml_spelling(char *name, size_t length)
{
	size_t used = 0, i = 0;

	while (i < length && name[i] != '.') {
		int unit = used && i + 2 < length && name[i] == '_' && name[i + 1] == '_';
		/* Only the standard library's units have small letters. */
		int small = unit && i == strlen(STANDARD) &&
			    memcmp(name, STANDARD, strlen(STANDARD)) == 0 && name[i + 2] >= 'a' &&
			    name[i + 2] <= 'z';

		if (small)
			name[i + 2] = (char)(name[i + 2] - 'a' + 'A');
		if (unit && is_upper(name[i + 2])) {
			name[used++] = '.';
			i += 2;
		} else {
			name[used++] = name[i++];
		}
	}
	memmove(name + used, name + i, length - i);
	return used + length - i;
}
