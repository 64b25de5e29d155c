// SPDX-License-Identifier: Apache-2.0
//
// mayfly/mayfly.hpp: mayfly.h for C++11, with spans and labels that end with their scope.
//
//	MAYFLY_SPAN(parse, "parse", MAYFLY_UINT("bytes"), MAYFLY_TEXT("file"));
//
//	void parse_file(const std::string &name)
//	{
//		mayfly::label label("phase", "parsing");
//		mayfly::span span(parse, size(name), name);
//		...
//	}
//
// For everything else use the functions of mayfly.h. Values may also be enumerators, or any object
// with c_str(). Nothing throws.
#ifndef MAYFLY_MAYFLY_HPP
#define MAYFLY_MAYFLY_HPP

#include <type_traits>

#include "mayfly.h"

namespace mayfly {

namespace detail {

template <class T>
typename std::enable_if<!std::is_enum<T>::value && !std::is_class<T>::value, mayfly_given>::type
given(const T &value)
{
	return mayfly_given(value);
}

template <class T>
typename std::enable_if<std::is_enum<T>::value, mayfly_given>::type given(const T &value)
{
	return mayfly_given(static_cast<typename std::underlying_type<T>::type>(value));
}

template <class T> auto given(const T &text) -> decltype(text.c_str(), mayfly_given())
{
	return mayfly_given(static_cast<const char *>(text.c_str()));
}

inline const char *text(const char *chars) { return chars; }
template <class T> auto text(const T &string) -> decltype(string.c_str()) { return string.c_str(); }

} // namespace detail

// A span that lasts as long as this object, which belongs to one thread.
class span
{
      public:
	template <class... Values>
	explicit span(const mayfly_span_type &type, const Values &...values) : type_(&type)
	{
		static_assert(sizeof...(values) <= 4, "a span has at most four fields");
		mayfly_span_begin(type_, detail::given(values)...);
	}
	~span() { mayfly_span_end(type_); }
	span(const span &) = delete;
	span &operator=(const span &) = delete;

      private:
	const mayfly_span_type *type_;
};

// A label on all blocks that the thread allocates while this object exists.
class label
{
      public:
	template <class Key, class Value> label(const Key &key, const Value &value)
	{
		mayfly_label_push(detail::text(key), detail::text(value));
	}
	~label() { mayfly_label_pop(); }
	label(const label &) = delete;
	label &operator=(const label &) = delete;
};

template <class... Values> void instant(const mayfly_instant_type &type, const Values &...values)
{
	static_assert(sizeof...(values) <= 4, "an instant has at most four fields");
	mayfly_instant(&type, detail::given(values)...);
}

} // namespace mayfly

#endif
