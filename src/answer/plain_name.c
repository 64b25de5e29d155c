/* SPDX-License-Identifier: Apache-2.0 */
/* Names of functions without what makes them long: see plain_name.h. */
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

/* Bytes from a bracket at `s` to the one that closes it; 0: none does. */
static size_t bracket_length(const char *s)
{
	const char open = *s, close = open == '(' ? ')' : '>';
	size_t depth = 0;

	for (size_t i = 0; s[i]; i++) {
		depth += s[i] == open;
		depth -= s[i] == close;
		if (!depth)
			return i + 1;
	}
	return 0;
}

/*
 * A bracket that is no list of arguments but a part of the name:
 *
 *	(anonymous namespace)::f   (anonymous)	  (garbage collector)
 *	demo.(*Reader).Push	   Demo.(fun)	  f.<locals>.g	 Object.<anonymous>
 *	block (2 levels) in <main>
 *
 * but not sizeof...(T)
 */
static bool is_named_bracket(const char *s, const char *name)
{
	if (s == name)
		return *s == '(';
	if (s[-1] == '.')
		return s - name < 2 || s[-2] != '.';
	return strncmp(s, "(anonymous", strlen("(anonymous")) == 0 ||
	       (s - name >= 4 && strncmp(s - 4, " in ", 4) == 0) ||
	       (strncmp(name, "block (", strlen("block (")) == 0 && s - name == 6);
}

/* Bytes at `s`, inside a name, that are no bracket although they hold one; 0 when there are none. */
static size_t literal_length(const char *s, const char *name)
{
	bool word_start = s == name || !(isalnum((unsigned char)s[-1]) || s[-1] == '_');

	switch (*s) {
	case 'o':
		return word_start ? operator_length(s) : 0;
	case '-':
		return s[1] == '>' ? 2 : 0;
	case '<':
		if (s > name && s[-1] == '#') /* "Array#<<", "Integer#<=>" */
			return strspn(s, "<=>");
		return is_named_bracket(s, name) ? bracket_length(s) : 0;
	case '>':
		return s > name && s[-1] == '#' ? strspn(s, "<=>") : 0;
	case '(':
		return is_named_bracket(s, name) ? bracket_length(s) : 0;
	default:
		return 0;
	}
}

unsigned name_collapse(char *buffer, size_t size, const char *name, unsigned level,
		       const char *inside)
{
	unsigned depth = 0, deepest = 0, parentheses = 0;
	size_t used = 0;

	for (const char *s = name; *s && used + 8 < size;) {
		size_t literal = literal_length(s, name);
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
