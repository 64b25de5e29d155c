/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions: the same answers as libc's for random expressions and texts, what libc cannot be
 * asked, and how much time and memory hostile ones take.
 */
#include "match/expression.h"
#include "random_numbers.h"
#include "test.h"

#include <locale.h>
#include <regex.h>
#include <stdint.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>

static bool matches(const char *expression, const char *text)
{
	const char *why = "";
	struct expression *e = expression_new(expression, &why);
	bool found;

	CHECK(e);
	if (!e) {
		printf("# %s: %s\n", expression, why);
		return false;
	}
	found = expression_matches(e, text);
	expression_free(e);
	return found;
}

static bool refused(const char *expression)
{
	const char *why = NULL;
	struct expression *e = expression_new(expression, &why);

	expression_free(e);
	return !e && why && *why;
}

/* Pieces that hit each other often. */
static const char *const pieces[] = {"a",	"b",	  "ab",	  "c",
				     "_",	" ",	  ".",	  "*",
				     "+",	"?",	  "|",	  "(",
				     ")",	"(",	  ")",	  "^",
				     "$",	"[ab]",	  "[^a]", "{2}",
				     "{0,2}",	"{1,}",	  "{,2}", "\\b",
				     "\\B",

				     "\\w",	"\\W",	  "\\s",  "[[:alpha:]_]",
				     "[b-c]",	"\\.",	  "[]a]", "\\S",
				     "{0}",	"[^]a-]", "()",	  "{3,4}",
				     "[[.a.]]", "\\`",	  "\\'",  "ü",
				     "[üß]"};

static void random_expression(char *to, size_t size)
{
	*to = 0;
	for (uint32_t i = 1 + below(9); i > 0; i--)
		strncat(to, pieces[below(sizeof(pieces) / sizeof(*pieces))], size - strlen(to) - 1);
}

static void random_text(char *to, size_t size)
{
	static const char *const letters[] = {"a", "b", "c", "a", "b", "_", " ", ".", "ü", "]"};

	*to = 0;
	for (uint32_t i = below(9); i > 0; i--)
		strncat(to, letters[below(sizeof(letters) / sizeof(*letters))],
			size - strlen(to) - 1);
}

static void as_libc(void)
{
	unsigned compared = 0, differ = 0;

	for (unsigned i = 0; i < 60000; i++) {
		char expression[128], text[64];
		const char *why;
		struct expression *e;
		regex_t libc;

		random_expression(expression, sizeof(expression));
		e = expression_new(expression, &why);
		if (regcomp(&libc, expression, REG_EXTENDED | REG_NOSUB)) {
			if (e && differ++ < 10)
				printf("# only here: %s\n", expression);
			expression_free(e);
			continue;
		}
		if (!e && differ++ < 10)
			printf("# only in libc: %s: %s\n", expression, why);
		for (unsigned k = 0; e && k < 8; k++) {
			bool found, wanted;

			random_text(text, sizeof(text));
			found = expression_matches(e, text);
			wanted = regexec(&libc, text, 0, NULL, 0) == 0;
			compared++;
			if (found != wanted && differ++ < 10)
				printf("# %s in '%s': %d\n", expression, text, found);
		}
		regfree(&libc);
		expression_free(e);
	}
	printf("# %u compared\n", compared);
	CHECK(compared > 50000);
	CHECK(differ == 0, "%u differ", differ);
}

static void syntax(void)
{
	CHECK(matches("^std::(vector|map)<.*>$", "std::map<int, int>"));
	CHECK(!matches("^std::(vector|map)<.*>$", "std::set<int>"));
	CHECK(matches("a{2,3}b", "caaab") && !matches("^a{2,3}b", "aaaab"));
	CHECK(matches("x{0}y", "y") && matches("(ab){0,2}c", "ababc"));
	CHECK(matches("^.$", "ß") && matches("^.$", "\xff") && !matches("^.$", "\xc3\x9f\xc3"));
	CHECK(matches("[à-ü]", "é") && !matches("[à-ü]", "ÿ"));
	CHECK(matches("\\<b\\>", "a b") && !matches("\\<b", "ab") && !matches("b\\>", "bc"));
	CHECK(matches("", "") && matches("^$", "") && !matches("^$", "\n"));
	CHECK(matches("a)", "a)") && matches("\\bß\\b", "a ß") && !matches("\\Bß", "ß"));
	CHECK(refused("(a") && refused("[a") && refused("a{") && refused("a{2") &&
	      refused("a{3,2}"));
	CHECK(refused("*") && refused("a|*") && refused("(+)") && refused("{2}") && refused("^*"));
	CHECK(refused("[[:nosuch:]]") && refused("[b-a]") && refused("a\\") &&
	      refused("[[:alpha:"));
	CHECK(refused("(a)\\1"));
}

static void hostile(void)
{
	char *text = malloc(1000001), deep[1201];
	struct rusage before, after;

	memset(text, 'a', 1000000);
	text[1000000] = 0;
	getrusage(RUSAGE_SELF, &before);
	CHECK(refused("((a{1,255}){1,255}){1,255}"));
	CHECK(refused("(((((((((a{9}){9}){9}){9}){9}){9}){9}){9}){9}"));
	CHECK(refused("a{4000}") && refused("a{99999}") && refused("((((a*)+){999})+){999}"));
	CHECK(matches("(){32767}", "") && matches("((){32767}){32767}", ""));
	memset(deep, '(', sizeof(deep) - 1);
	deep[sizeof(deep) - 1] = 0;
	CHECK(refused(deep));
	/* Exponential by trying one way after the other. */
	CHECK(!matches("(a*)*(a*)*(a*)*b", text));
	CHECK(!matches("(a|a|a?)+$b", text));
	/* 300 steps for each character. */
	text[100000] = 0;
	CHECK(!matches("(a?){100}(a?){100}c", text));
	getrusage(RUSAGE_SELF, &after);
	CHECK(after.ru_maxrss - before.ru_maxrss < 16384); /* KB */
	free(text);
}

int main(void)
{
	setlocale(LC_CTYPE, "C.UTF-8");
	RUN(as_libc);
	RUN(syntax);
	RUN(hostile);
	DONE();
}
