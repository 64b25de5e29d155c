/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans and labels of C++ (mayfly/mayfly.hpp), which end with their scope, also by an exception.
 */
#include <mayfly/mayfly.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace {

enum class color : unsigned char { red = 3 };
enum plain { first = 7 };

MAYFLY_SPAN(outer, "outer", MAYFLY_TEXT("name"), MAYFLY_UINT("size"));
MAYFLY_SPAN(inner, "inner", MAYFLY_INT("color"), MAYFLY_FLOAT("part"), MAYFLY_INT("plain"));
MAYFLY_INSTANT(thrown, "thrown", MAYFLY_TEXT("what"));
MAYFLY_COUNTER(depth, "depth", "");

template <int N> int nested(const std::string &name)
{
	MAYFLY_SPAN(in_template, "in template", MAYFLY_INT("depth"));
	mayfly::span span(in_template, N);
	mayfly::label label("depth", std::to_string(N));

	mayfly_counter(&depth, N);
	std::free(std::malloc(100 + N));
	return nested<N - 1>(name) + 1;
}

template <> int nested<0>(const std::string &name)
{
	mayfly::span span(inner, color::red, 0.5f, first);

	throw std::runtime_error(name);
}

} // namespace

int main()
{
	std::string name = "a string";

	errno = 5;
	try {
		mayfly::label label("language", "C++");
		mayfly::span span(outer, name, name.size());

		nested<3>(name);
	} catch (const std::exception &e) {
		mayfly::instant(thrown, e.what());
	}
	std::puts("thrown through 5 spans");
	return errno == 5 ? 0 : 1;
}
