/* SPDX-License-Identifier: Apache-2.0 */
/* Names of C++ and Rust functions without what makes them long: see plain_name.h. */
#include "answer/plain_name.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

/* Length of the operator's name at `s` when it holds brackets ("operator<<", "operator()"). */
static size_t operator_length(const char *s)
{
	static const char *const names[] = {
	    "<<=", ">>=", "<=>", "->*", "<<", ">>", "<=", ">=", "->", "()", "<", ">", NULL};

	if (strncmp(s, "operator", 8) != 0)
		return 0;
	for (size_t i = 0; names[i]; i++)
		if (strncmp(s + 8, names[i], strlen(names[i])) == 0)
			return 8 + strlen(names[i]);
	return 0;
}

#define ANONYMOUS "(anonymous namespace)"
#define CLOSURE	  ".(fun)" /* a function of OCaml without a name */

/* Bytes at `s` that are no bracket although they hold one; 0 when there are none. */
static size_t literal_length(const char *s, bool word_start)
{
	const char *literal;

	switch (*s) {
	case 'o':
		return word_start ? operator_length(s) : 0;
	case '-':
		literal = "->";
		break;
	case '(':
		literal = ANONYMOUS;
		break;
	case '.':
		literal = CLOSURE;
		break;
	default:
		return 0;
	}
	return strncmp(s, literal, strlen(literal)) == 0 ? strlen(literal) : 0;
}

unsigned name_collapse(char *buffer, size_t size, const char *name, unsigned level,
		       const char *inside)
{
	unsigned depth = 0, deepest = 0, parentheses = 0;
	size_t used = 0;

	for (const char *s = name; *s && used + 8 < size;) {
		bool word_start = s == name || !(isalnum((unsigned char)s[-1]) || s[-1] == '_');
		size_t literal = literal_length(s, word_start);
		size_t length = literal ? literal : 1;
		bool hidden = depth >= level || parentheses > 0;

		if (!literal && *s == '<' && s != name) {
			depth++;
			if (parentheses == 0 && depth > deepest)
				deepest = depth;
		} else if (!literal && *s == '>' && depth > 0) {
			if (depth-- == level && parentheses == 0)
				used = (size_t)(stpcpy(buffer + used, inside) - buffer);
			hidden = depth >= level || parentheses > 0;
		} else if (!literal && *s == '(' && depth < level) {
			parentheses++;
		} else if (!literal && *s == ')' && parentheses > 0 && depth < level) {
			parentheses--;
			hidden = parentheses > 0;
		}
		for (size_t i = 0; !hidden && i < length && used + 8 < size; i++)
			buffer[used++] = s[i];
		s += length;
	}
	buffer[used] = 0;
	return deepest;
}

char *name_plain(char *buffer, size_t size, const char *name)
{
	name_collapse(buffer, size, name, 1, "");
	return buffer;
}
