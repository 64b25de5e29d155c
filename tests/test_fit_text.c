/* SPDX-License-Identifier: Apache-2.0 */
/* Text cut to columns: with a mark, within the columns, and different names stay different. */
#include "terminal/fit_text.h"
#include "answer/plain_name.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "terminal/output.h"
#include "test.h"

static struct output utf8 = {.width = 80, .utf8 = true};
static struct output ascii = {.width = 80};

static void test_columns(void)
{
	CHECK(text_columns("abc") == 3);
	CHECK(text_columns("Zähler") == 6);
	CHECK(text_columns("計数器") == 6, "wide");
	CHECK(text_columns("e\xcc\x81t") == 2, "combining");
}

static void check_plain(const char *name, const char *expected)
{
	char plain[256];

	name_plain(plain, sizeof(plain), name);
	CHECK(strcmp(plain, expected) == 0, "'%s': '%s'", name, plain);
	name_collapse(plain, sizeof(plain), name, NAME_NO_LEVEL, "");
	CHECK(strstr(name, "<>") || strchr(expected, '<') || strcmp(plain, expected) == 0,
	      "'%s' whole: '%s'", name, plain);
}

/* Brackets that are parts of names, and those that hold arguments. */
static void test_plain(void)
{
	static const char *const whole[] = {"demo/io.(*Reader).Push",
					    "demo.(*List[go.shape.int]).Push.func1",
					    "(anonymous)",
					    "Demo.(anonymous)",
					    "async (anonymous)",
					    "(garbage collector)",
					    "(anonymous class)::run",
					    "Object.<anonymous>",
					    "outer.<locals>.<lambda>",
					    "<module>",
					    "Demo.run.(fun)",
					    NULL};

	for (size_t i = 0; whole[i]; i++)
		check_plain(whole[i], whole[i]);
	check_plain("(anonymous namespace)::f(int)", "(anonymous namespace)::f()");
	check_plain("a<b<c>, d>::f(std::less<c>)", "a<>::f()");
	check_plain("demo::operator()(int)", "demo::operator()()");
	check_plain("f(decltype(sizeof...(Args)))", "f()");
	check_plain("g<sizeof...(T)>(T)", "g<>()");
	check_plain("void f<int>(char const*, ...)", "void f<>()");
	check_plain("demo.(*Reader", "demo.(");
}

/* Nothing is cut without a mark, however little it is. */
static void check_cut(const char *text, size_t columns, const char *expected)
{
	char buffer[256];

	name_fit(buffer, sizeof(buffer), &utf8, text, columns);
	CHECK(strcmp(buffer, expected) == 0, "'%s' in %zu: '%s'", text, columns, buffer);
	CHECK(text_columns(buffer) <= columns);
}

static void test_marks(void)
{
	char buffer[256];

	check_cut("caml_page_table_modify", 22, "caml_page_table_modify");
	check_cut("caml_page_table_modify", 21, "caml_pag…table_modify");
	check_cut("caml_page_table_modify", 20, "caml_pa…table_modify");
	check_cut("計数器計数器計数器", 9, "計…計数器");
	for (size_t columns = 4; columns < 30; columns++) {
		name_fit(buffer, sizeof(buffer), &ascii, "caml_page_table_modify", columns);
		CHECK(text_columns(buffer) <= columns, "%s", buffer);
		CHECK(columns >= 22 || strstr(buffer, "..."), "%s", buffer);
		line_fit(buffer, sizeof(buffer), &utf8, "none of these functions", columns);
		CHECK(text_columns(buffer) <= columns, "%s", buffer);
		CHECK(columns >= 23 || strstr(buffer, "…"), "%s", buffer);
	}
	place_fit(buffer, sizeof(buffer), &utf8, "some_folder/some_file.c:1234", 16);
	CHECK(strcmp(buffer, "some_f…le.c:1234") == 0, "%s", buffer);
}

static void check_apart(const struct output *o, char *const *name, size_t count, size_t columns)
{
	char *fitted[8];

	CHECK(names_fit(fitted, o, name, count, columns));
	for (size_t i = 0; i < count; i++) {
		CHECK(text_columns(fitted[i]) <= columns, "%s", fitted[i]);
		for (size_t j = 0; j < i; j++)
			CHECK(!strcmp(name[i], name[j]) == !strcmp(fitted[i], fitted[j]),
			      "'%s' and '%s' in %zu: '%s'", name[i], name[j], columns, fitted[i]);
	}
	for (size_t i = 0; i < count; i++)
		free(fitted[i]);
}

static void test_names_stay_apart(void)
{
	static char *const names[] = {
	    "std::_Vector_base<int, std::allocator<int> >::_M_allocate(unsigned long)",
	    "std::_Vector_base<Entry, std::allocator<Entry> >::_M_allocate(unsigned long)",
	    "std::_Deque_base<int, std::allocator<int> >::_M_allocate(unsigned long)",
	    "std::_Vector_base<int, std::allocator<int> >::_M_allocate(unsigned long)",
	    "demo::a_function_whose_name_is_rather_long(int)",
	    "demo::a_function_whose_name_is_rather_long(unsigned long)",
	    "demo::a_function_whose_name_was_rather_long(int)",
	};
	char *fitted[2];

	for (size_t columns = 6; columns < 90; columns++) {
		check_apart(&utf8, names, 7, columns);
		check_apart(&ascii, names, 7, columns + 4);
	}
	CHECK(names_fit(fitted, &utf8, names, 2, 24));
	CHECK(strstr(fitted[0], "int") && strstr(fitted[1], "Entry"), "'%s' and '%s'", fitted[0],
	      fitted[1]);
	free(fitted[0]);
	free(fitted[1]);
}

int main(void)
{
	if (!setlocale(LC_CTYPE, "C.UTF-8")) {
		SKIP("fit_text", "no locale C.UTF-8");
		DONE();
	}
	RUN(test_columns);
	RUN(test_plain);
	RUN(test_marks);
	RUN(test_names_stay_apart);
	DONE();
}
