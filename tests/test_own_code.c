/* SPDX-License-Identifier: Apache-2.0 */
/* Which functions are the program's own: names as the demanglers and compilers write them. */
#include "answer/language.h"
#include "answer/own_code.h"
#include "answer/plain_name.h"

#include <stdio.h>
#include <string.h>

#include "test.h"

static struct own_code no_rules;

static enum code_kind kind(const char *function, const char *file, const char *module)
{
	return code_kind(&no_rules, NULL, function, file, module);
}

static void check_all(const char *const *function, bool own)
{
	for (; *function; function++)
		CHECK((kind(*function, "", "/opt/demo/demo") == CODE_OWN) == own, "%s", *function);
}

static void test_jit(void)
{
	CHECK(kind("build", "/srv/app.js", "[jit]") == CODE_OWN);
	CHECK(kind("malloc", "/srv/app.js", "[jit]") == CODE_OWN);
	CHECK(kind("read", "", "[jit]") == CODE_OWN);
	CHECK(kind("py::main:/srv/app.py", "", "[jit]") == CODE_OWN);
	CHECK(kind("FastBuffer", "node:internal/buffer", "[jit]") == CODE_LIBRARY);
	CHECK(kind("java.util.HashMap::resize", "", "[jit]") == CODE_LIBRARY);
	CHECK(kind("Builtin:ArrayPush", "", "[jit]") == CODE_RUNTIME);
	CHECK(kind("Builtins_ArrayPush", "", "/usr/bin/node") == CODE_RUNTIME);
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
	    "zmalloc_statistics",
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
	    "demo::Pooled::operator new(unsigned long, int)",
	    "zmalloc_usable",
	    "sqlite3Malloc.part.0",
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
	    "<demo::Arena as core::alloc::global::GlobalAlloc>::alloc",
	    "demo::_::__rg_realloc",
	    NULL,
	};

	check_all(own, true);
	check_all(library, false);
}

/* Crates that were compiled with the program are libraries, unless it has no other sources: then it is
 * such a crate itself, installed by cargo. */
static void test_rust_dependencies(void)
{
	static const char *const files[] = {
	    "/build/u/.cargo/registry/src/index.crates.io-6f17d22bba15001f/regex-1.9.1/src/lib.rs",
	    "/build/u/.cargo/git/checkouts/regex-0a1b/77/src/lib.rs",
	    "/usr/share/cargo/registry/regex-1.7.1/src/lib.rs",
	    "/build/demo/vendor/regex/src/lib.rs", "vendor/regex/src/lib.rs"};
	struct own_code own = {0};

	for (const struct language *l = languages; l->name; l++)
		if (l->is_dependency)
			own.separate = l;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		CHECK(code_kind(&own, NULL, "regex::compile", files[i], "") == CODE_LIBRARY, "%s",
		      files[i]);
		CHECK(kind("regex::compile", files[i], "") == CODE_OWN, "%s", files[i]);
	}
	CHECK(code_kind(&own, NULL, "demo::load", "src/registry/main.rs", "") == CODE_OWN);
	CHECK(kind("gimli::read::unit::parse", "", "") == CODE_LIBRARY);
	CHECK(kind("backtrace::resolve", "", "") == CODE_LIBRARY);
}

/* A name alone may mislead: the file tells the language, and what is of the program. */
static void test_files(void)
{
	CHECK(kind("core::Engine::run", "src/engine.cc", "") == CODE_OWN);
	CHECK(kind("core::ops::function::FnOnce::call_once", "/rustc/9fc6b/core/src/ops.rs", "") ==
	      CODE_LIBRARY);
	CHECK(kind("<(u8,u16) as core::hash::Hash>::hash", "", "") == CODE_LIBRARY);
	CHECK(kind("__gthread_create(unsigned long*)", "/usr/include/c++/12/x86_64/gthr.h", "") ==
	      CODE_LIBRARY);
	CHECK(kind("expand_heap", "", "") == CODE_RUNTIME);
	CHECK(kind("expand_heap", "src/heap.c", "") == CODE_OWN);
}

static void test_ocaml_and_python(void)
{
	static const char *const own[] = {"Demo.fill", "Stdlib_x.f",	 "Stdlibs.f",
					  "camlx_f",   "Camlinternal.f", NULL};
	static const char *const own_of_python[] = {"_PyObject_Call", "list_append", "PyList_New",
						    "_PyEval_EvalFrameDefault", NULL};
	static const char *const runtime[] = {"caml_alloc_shr",
					      "caml_call_gc",
					      "_PyObject_Malloc",
					      "PyMem_Malloc",
					      "pymalloc_alloc.isra.0",
					      "_PyObject_GC_New",
					      NULL};
	static const char *const library[] = {
	    "Stdlib.Bytes.make", "Stdlib.(@)", "Stdlib.List.map.(fun)", "Stdlib",
	    "Stdlib__Map.add",	 "strdup",     "_IO_file_doallocate",	NULL};

	check_all(own, true);
	check_all(own_of_python, true);
	for (const char *const *f = runtime; *f; f++)
		CHECK(kind(*f, "", "/opt/demo/demo") == CODE_RUNTIME, "%s", *f);
	for (const char *const *f = library; *f; f++)
		CHECK(kind(*f, "", "/opt/demo/demo") == CODE_LIBRARY, "%s", *f);
}

static void test_ruby(void)
{
	static const char *const names[] = {
	    "Array#<<",	       "Integer#<=>", "block (2 levels) in Order#load",
	    "block in <main>", "Order.find",  NULL};
	char plain[64];

	CHECK(kind("Order#load", "/srv/shop/app/models/order.rb", "") == CODE_OWN);
	CHECK(kind("_app_views_index", "/srv/shop/app/views/index.html.erb", "") == CODE_OWN);
	CHECK(kind("Array#each", "<cfunc>", "") == CODE_LIBRARY);
	CHECK(kind("Kernel#tap", "<internal:kernel>", "") == CODE_LIBRARY);
	CHECK(kind("Set#add", "/usr/lib/ruby/3.1.0/set.rb", "") == CODE_LIBRARY);
	CHECK(kind("Rack::Builder#call", "/srv/gems/rack-2.2.6/lib/rack.rb", "") == CODE_LIBRARY);
	CHECK(kind("malloc", "/srv/shop/lib/malloc.rb", "") == CODE_OWN);
	CHECK(is_entry("<main>", "app.rb") && is_entry("<top (required)>", "config.ru"));
	for (const char *const *name = names; *name; name++)
		CHECK(strcmp(name_plain(plain, sizeof(plain), *name), *name) == 0, "%s", *name);
}

/* The user's rules come first; the first one that fits decides. */
static void test_rules(void)
{
	static const char rules[] = "# comment\n\n  library ^boost::\n"
				    "mine\t^std::pmr::\r\nlibrary /libz\\.so\nlibrary ^std::pmr::x";
	static const struct {
		const char *text;
		size_t line;
	} bad[] = {{"\nlibrary", 2}, {"mine (", 1}, {"# x\n\nmines x", 3}, {"library   \n", 1}};
	struct own_code own = {0};
	struct own_rules_problem problem;

	CHECK(own_rules_add(&own.rules, rules, sizeof(rules) - 1, &problem), "%s", problem.text);
	CHECK(own.rules.count == 4);
	CHECK(code_kind(&own, NULL, "boost::f()", "", "") == CODE_LIBRARY);
	CHECK(code_kind(&own, NULL, "std::pmr::x::f()", "", "") == CODE_OWN);
	CHECK(code_kind(&own, NULL, "std::f()", "", "") == CODE_LIBRARY);
	CHECK(code_kind(&own, NULL, "inflate", "", "/lib/libz.so.1") == CODE_LIBRARY);
	own_rules_free(&own.rules);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		CHECK(!own_rules_add(&own.rules, bad[i].text, strlen(bad[i].text), &problem));
		CHECK(problem.line == bad[i].line && *problem.text, "%zu: %zu %s", i, problem.line,
		      problem.text);
		own_rules_free(&own.rules);
	}
}

static void test_modules(void)
{
	static const char *const start[] = {"_start",	   "start_thread",	     "clone3",
					    "[stack cut]", "__libc_start_call_main", NULL};

	check_all(start, false);
	CHECK(kind("fopen", "", "/lib/x86_64-linux-gnu/libc.so.6") == CODE_LIBRARY);
	CHECK(kind("", "", "/usr/lib/libstdc++.so.6") == CODE_LIBRARY);
	CHECK(kind("cJSON_Parse", "", "/usr/lib/libcjson.so.1") == CODE_OWN);
	CHECK(kind("", "", "/opt/demo/demo") == CODE_OWN);
	CHECK(kind("load", "", "") == CODE_OWN);
	CHECK(kind("_start", "", "") == CODE_ENTRY && kind("[stack cut]", "", "") == CODE_NONE);
}

static void test_python(void)
{
	static const char *const own[] = {"/srv/app.py", "app.py", "/srv/lib/python3_tools/a.py",
					  NULL};
	static const char *const library[] = {
	    "/usr/lib/python3.11/json/decoder.py",
	    "/usr/lib/python3/dist-packages/numpy/core/numeric.py",
	    "/srv/venv/lib/python3.13/site-packages/demo/a.py",
	    "/usr/lib/python313.zip/json/decoder.py",
	    "<frozen importlib._bootstrap>",
	    NULL,
	};

	for (size_t i = 0; own[i]; i++)
		CHECK(kind("Demo.f", own[i], "") == CODE_OWN, "%s", own[i]);
	for (size_t i = 0; library[i]; i++)
		CHECK(kind("Demo.f", library[i], "") == CODE_LIBRARY, "%s", library[i]);
	CHECK(kind("<module>", "/srv/app.py", "") == CODE_OWN, "a file's code");
	CHECK(is_entry("<module>", "/srv/app.py"), "a file's code");
	CHECK(kind("_start", "/srv/app.py", "") == CODE_OWN, "not the program's entry");
}

/* The packages that a command line of Python runs, in their order, with a space after each. */
static const char *packages(const char *words, const char *entry)
{
	static char text[256], found[256];
	const char *command[16];
	struct mayfly_info info = {.command = command, .entry = entry};
	struct run_packages run;

	snprintf(text, sizeof(text), "%s", words);
	for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
		command[info.command_count++] = word;
	python_find_run(&run, &info);
	*found = 0;
	for (size_t i = 0; i < run.count; i++)
		snprintf(found + strlen(found), sizeof(found) - strlen(found), "%.*s ",
			 (int)run.package[i].length, run.package[i].name);
	return found;
}

static void test_python_command(void)
{
	static const struct {
		const char *words, *entry, *packages;
	} commands[] = {
	    {"python3 -m shop.web --fast", "", "shop "},
	    {"python3 -um shop", "", "shop "},
	    {"python3 -mshop", "", "shop "},
	    {"python3 -X dev -W error -Xutf8 -E -m shop", "", "shop "},
	    {"python3 --check-hash-based-pycs never -m shop", "", "shop "},
	    {"python3 -c pass -m shop", "", ""},
	    {"python3 -", "", ""},
	    {"python3 -m", "", ""},
	    {"python3 -X", "", ""},
	    {"python3", "", ""},
	    {"", "", ""},
	    {"python3 app.py -m shop", "", ""},
	    {"python3 /v/lib/python3.11/site-packages/shop/tool.py", "", "shop "},
	    {"python3 /v/bin/serve-it -m x", "shop.web", "shop "},
	    {"python3 /v/bin/shop", "", "shop "},
	    {"python3 /v/bin/serve-it", "", ""},
	    {"python3 /v/bin/gunicorn -b localhost:8000 -k gevent shop.web:app",
	     "gunicorn.app.wsgiapp", "shop "},
	    {"python3 /v/bin/gunicorn shop.web", "", "shop "},
	    {"python3 -m gunicorn -b unix:/tmp/s shop.web:make() -w 2", "", "shop "},
	    {"python3 -m uvicorn --reload shop.main:make() --port 80", "", "shop "},
	    {"python3 -m celery -A shop worker", "", "shop "},
	    {"python3 -m celery --app=shop.tasks:app worker -c 2", "", "shop "},
	    {"python3 /v/bin/celery -Ashop worker", "celery.__main__", "shop "},
	    {"uwsgi --http :80 -w shop.wsgi -p 4", "", "shop "},
	    {"/usr/sbin/uwsgi --module=shop.wsgi", "", "shop "},
	    {"python3 -m pytest -q --pyargs shop", "", "shop shop "},
	    {"python3 -m pytest tests/test_a.py::test_b", "", ""},
	    {"python3 -m pytest /v/lib/python3/dist-packages/shop/tests", "", "shop "},
	    {"python3 -m unittest shop.tests.test_a", "", "shop "},
	    {"python3 -m coverage run --branch -m shop.web", "", "shop "},
	    {"python3 -m cProfile -o out -m pytest --pyargs shop", "", "shop shop "},
	    {"python3 -m cProfile app.py shop", "", ""},
	};

	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		const char *found = packages(commands[i].words, commands[i].entry);

		CHECK(strcmp(found, commands[i].packages) == 0, "%s: '%s'", commands[i].words,
		      found);
	}
}

static void test_run_package(void)
{
	static const char *const own[] = {
	    "/v/lib/python3.11/site-packages/shop/web.py",
	    "/v/lib/python3.11/site-packages/shop.py",
	    "/v/lib/python3.11/site-packages/shop.cpython-311-x86_64-linux-gnu.so",
	    "/v/lib/python3.11/site-packages/shop-1.0-py3.11.egg/shop/web.py",
	    "/v/site-packages/site-packages/shop/web.py",
	    "/usr/lib/python3.11/shop/web.py",
	};
	static const char *const library[] = {
	    "/v/lib/python3.11/site-packages/shop_tools/web.py",
	    "/v/lib/python3.11/site-packages/shop.libs/libz.so.1",
	    "/v/lib/python3.11/site-packages/numpy/shop/web.py",
	    "/srv/shop/web.py",
	    "/usr/lib/python3.11/json/shop.py",
	};
	struct run_packages run = {.package = {{"shop", 4}}, .count = 1};

	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		CHECK(python_is_run(&run, own[i]), "%s", own[i]);
	for (size_t i = 0; i < sizeof(library) / sizeof(*library); i++)
		CHECK(!python_is_run(&run, library[i]), "%s", library[i]);
}

/* Code without a file: what is typed in, what libraries make, and what depends on its callers. */
static void test_python_without_file(void)
{
	static const char *const text_of[] = {"python3", "-c", "pass"};
	const struct mayfly_info text = {.command = text_of, .command_count = 3, .entry = ""};
	struct own_code own = {0};

	CHECK(kind("<module>", "<stdin>", "") == CODE_OWN);
	CHECK(kind("f", "<ipython-input-1-ab>", "") == CODE_OWN);
	CHECK(kind("append", "<__array_function__ internals>", "") == CODE_LIBRARY);
	CHECK(kind("__init__", "<attrs generated init shop.Order>", "") == CODE_LIBRARY);
	CHECK(kind("__create_fn__.<locals>.__init__", "<string>", "") == CODE_LIBRARY);
	CHECK(kind("f", "<string>", "") == CODE_LIBRARY, "no own code calls it");
	python_find_run(&own.run, &text);
	CHECK(code_kind(&own, NULL, "f", "<string>", "") == CODE_OWN);
	CHECK(code_kind(&own, NULL, "<lambda>", "<string>", "") == CODE_OWN);
	CHECK(code_kind(&own, NULL, "__create_fn__.<locals>.__init__", "<string>", "") ==
	      CODE_LIBRARY);
}

/* What stands for a stack without own code: the higher answer. */
static void test_ranks(void)
{
	static const struct {
		const char *function, *file, *module;
	} places[] = {
	    {"caml_main", "", "/srv/shop"},
	    {"caml_thread_start", "", "/srv/shop"},
	    {"Stdlib.List.map", "list.ml", "/srv/shop"},
	};
	struct own_code own = {0};
	struct mayfly_fold fold = own_code_fold(&own);
	unsigned before = 0;

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		unsigned rank = fold.folds(fold.context, NULL, places[i].function, places[i].file,
					   places[i].module);

		CHECK(rank > before, "%s: %u", places[i].function, rank);
		before = rank;
	}
	CHECK(before < MAYFLY_FOLD_INNERMOST);
	CHECK(fold.folds(fold.context, NULL, "strdup", "", "/lib/libc.so.6") ==
		  fold.folds(fold.context, NULL, "caml_thread_start", "", "/srv/shop"),
	      "libc says no more than the runtime that calls it");
	CHECK(fold.folds(fold.context, NULL, "start_thread", "", "") ==
	      fold.folds(fold.context, NULL, "caml_main", "", "/srv/shop"));
	CHECK(fold.folds(fold.context, NULL, "main", "", "/srv/shop") == 0);
}

static void test_entry(void)
{
	CHECK(is_entry("main", "") && is_entry("demo::main", "src/main.rs"));
	CHECK(is_entry("Demo", "demo.ml") && is_entry("Dune.exe.Demo", "bin/demo.ml"));
	CHECK(!is_entry("main_loop", "") && !is_entry("domain", "") &&
	      !is_entry("demo::main::{{closure}}", "src/main.rs") && !is_entry("Demo", "demo.c") &&
	      !is_entry("Demo.run", "demo.ml"));
}

int main(void)
{
	RUN(test_cxx);
	RUN(test_jit);
	RUN(test_rust);
	RUN(test_rust_dependencies);
	RUN(test_files);
	RUN(test_ocaml_and_python);
	RUN(test_rules);
	RUN(test_modules);
	RUN(test_python);
	RUN(test_python_command);
	RUN(test_run_package);
	RUN(test_python_without_file);
	RUN(test_ruby);
	RUN(test_ranks);
	RUN(test_entry);
	DONE();
}
