/* SPDX-License-Identifier: Apache-2.0 */
/* Which functions are the program's own: names as the demanglers and compilers write them. */
#include "answer/own_code.h"

#include "test.h"

static void check_all(const char *const *function, bool own)
{
	for (; *function; function++)
		CHECK(is_own_code(*function, "/opt/demo/demo") == own, "%s", *function);
}

static void test_cxx(void)
{
	static const char *const own[] = {
	    "main",
	    "demo::load(std::vector<int, std::allocator<int> >&)",
	    "std::vector<int, std::allocator<int> > demo::A::g<int>()",
	    "demo::A::operator std::__cxx11::basic_string<char>() const",
	    "std::ostream& demo::operator<< <int>(std::ostream&, int)",
	    "demo::(anonymous namespace)::H::f(std::string)",
	    "(anonymous namespace)::f(std::string)",
	    "decltype ({parm#1}+(1)) demo::k<int>(int)",
	    "decltype(auto) demo::k<int>(int)",
	    "main::{lambda(auto:1)#2}::operator()(int) const",
	    "standard::f(int)",
	    "core::Engine::run(int)", /* a namespace of the program, as parameters tell */
	    "alloc::Pool::get(std::size_t)",
	    "std_init",
	    NULL,
	};
	static const char *const library[] = {
	    "std::vector<demo::A, std::allocator<demo::A> >::push_back(demo::A&&)",
	    "void std::vector<int>::_M_realloc_insert<int const&>(int const&)",
	    "std::basic_ostream<char>& std::operator<< <std::char_traits<char> >(char const*)",
	    "decltype(auto) std::__do_visit<int, main::{lambda(auto:1)#2}>(int)",
	    "main::{lambda()#1} const& std::_Any_data::_M_access<main::{lambda()#1}>() const",
	    "__gnu_cxx::new_allocator<int>::allocate(unsigned long, void const*)",
	    "std::function<void ()>::operator()() const",
	    "operator new(unsigned long)",
	    "malloc",
	    NULL,
	};

	check_all(own, true);
	check_all(library, false);
}

static void test_rust(void)
{
	static const char *const own[] = {
	    "demo::main",
	    "demo::load::{{closure}}",
	    "<demo::Table as core::clone::Clone>::clone",
	    "<&mut demo::Table as core::fmt::Write>::write_str",
	    "<T as demo::Load>::load",
	    "core_demo::run",
	    NULL,
	};
	static const char *const library[] = {
	    "alloc::vec::Vec<T,A>::push",
	    "core::ops::function::FnOnce::call_once",
	    "<alloc::vec::Vec<demo::A> as core::clone::Clone>::clone",
	    "<T as alloc::string::ToString>::to_string",
	    "hashbrown::raw::RawTable<T,A>::reserve_rehash",
	    "std::rt::lang_start::{{closure}}",
	    NULL,
	};

	check_all(own, true);
	check_all(library, false);
}

static void test_modules(void)
{
	static const char *const start[] = {"_start",	   "start_thread",	     "clone3",
					    "[stack cut]", "__libc_start_call_main", NULL};

	check_all(start, false);
	CHECK(!is_own_code("fopen", "/lib/x86_64-linux-gnu/libc.so.6"));
	CHECK(!is_own_code("libstdc++.so.6+0xa57b9", "/usr/lib/libstdc++.so.6"));
	CHECK(is_own_code("cJSON_Parse", "/usr/lib/libcjson.so.1"));
	CHECK(is_own_code("demo+0x1234", "/opt/demo/demo"));
	CHECK(is_own_code("load", NULL) && is_own_code("load", ""));
}

static void test_entry(void)
{
	CHECK(is_entry("main") && is_entry("demo::main"));
	CHECK(!is_entry("main_loop") && !is_entry("domain") &&
	      !is_entry("demo::main::{{closure}}"));
}

int main(void)
{
	RUN(test_cxx);
	RUN(test_rust);
	RUN(test_modules);
	RUN(test_entry);
	DONE();
}
