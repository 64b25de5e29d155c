/* SPDX-License-Identifier: Apache-2.0 */
/* What C++ adds to ugly.c: ugly_cxx CASE. */
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

namespace
{

template <class T> T *opaque(T *pointer)
{
	__asm__ volatile("" : "+r"(pointer) : : "memory");
	return pointer;
}

/* Allocates before main and after it. */
struct Global {
	std::map<int, std::string> names;

	Global()
	{
		for (int i = 0; i < 100; i++)
			names[i] = std::string(50 + i, 'a');
	}
	~Global()
	{
		names[1000] = std::string(500, 'z');
		std::printf("global: %zu\n", names.size());
	}
};

Global global;

/* Allocates when its thread ends. */
struct PerThread {
	std::vector<std::string> lines;

	PerThread()
	{
		lines.emplace_back(100, 'x');
	}
	~PerThread()
	{
		for (int i = 0; i < 20; i++)
			lines.push_back(std::string(100 + i, 'y'));
		delete opaque(new std::string(300, 'q'));
	}
};

thread_local PerThread per_thread;

int thread_locals()
{
	size_t sum = 0;

	for (int i = 0; i < 300; i++) {
		std::thread one([&sum] { sum += per_thread.lines.size(); });
		one.join();
	}
	sum += per_thread.lines.size();
	std::printf("%zu\n", sum);
	return 0;
}

struct Wide {
	alignas(128) char bytes[256];
};

struct Checked {
	int number;
	std::string text;
	explicit Checked(int n) : number(n), text(100, 'c')
	{
		if (n == 7)
			throw std::runtime_error("seven");
	}
};

int new_forms()
{
	for (int i = 0; i < 50; i++) {
		delete opaque(new int(3));
		delete[] opaque(new int[100]);
		delete opaque(new (std::nothrow) double(1));
		delete[] opaque(new (std::nothrow) double[10]);
		Wide *wide = opaque(new Wide);
		if (reinterpret_cast<uintptr_t>(wide) % 128)
			return 1;
		delete wide;
		delete[] opaque(new Wide[3]);
		::operator delete(opaque(::operator new(33)));
		::operator delete(opaque(::operator new(64, std::align_val_t(64))),
				  std::align_val_t(64));
		::operator delete(opaque(::operator new(0)));
		std::make_shared<Checked>(1);
	}
	int caught = 0;
	for (int i = 0; i < 10; i++) {
		try {
			std::unique_ptr<Checked> one(new Checked(i));
			caught += one->number == 7;
		} catch (const std::runtime_error &error) {
			caught += 100 + int(std::strlen(error.what()));
		}
	}
	std::printf("%d\n", caught);
	return 0;
}

int bad_alloc()
{
	struct rlimit limit = {512u << 20, 512u << 20};
	volatile size_t huge = size_t(1) << 60;
	int caught = 0;

	setrlimit(RLIMIT_AS, &limit);
	for (int i = 0; i < 20; i++) {
		try {
			delete[] opaque(new char[huge]);
		} catch (const std::bad_alloc &) {
			caught++;
		}
		caught += opaque(new (std::nothrow) char[huge]) == nullptr;
		try {
			std::vector<std::string> strings;
			strings.reserve(huge >> 7);
		} catch (const std::exception &) {
			caught++;
		}
	}
	static int handler_calls;
	std::set_new_handler([] {
		if (++handler_calls == 3)
			throw std::bad_alloc();
	});
	try {
		delete[] opaque(new char[huge]);
	} catch (const std::bad_alloc &) {
		caught++;
	}
	std::printf("%d %d\n", caught, handler_calls);
	return 0;
}

__attribute__((noinline)) int throws(int depth)
{
	std::string local(100 + size_t(depth), 'l');

	if (depth == 0)
		throw std::out_of_range(local);
	return throws(depth - 1) + int(local.size());
}

int exceptions()
{
	int caught = 0;

	for (int i = 0; i < 500; i++) {
		std::function<int(int)> call = [i, text = std::string(60, 'f')](int n) {
			return n == 0 ? throws(i % 40) : n;
		};
		try {
			caught += call(i % 2);
		} catch (const std::out_of_range &error) {
			caught += int(std::strlen(error.what()));
		}
	}
	std::printf("%d\n", caught);
	return 0;
}

int uncaught()
{
	struct rlimit none = {0, 0};

	setrlimit(RLIMIT_CORE, &none);
	std::printf("before\n");
	std::fflush(stdout);
	return throws(5);
}

const struct {
	const char *name;
	int (*run)();
} cases[] = {
	{"thread_locals", thread_locals}, {"new_forms", new_forms},   {"bad_alloc", bad_alloc},
	{"exceptions", exceptions},	  {"uncaught", uncaught},
};

} // namespace

int main(int argc, char **argv)
{
	for (const auto &one : cases)
		if (argc > 1 && std::strcmp(argv[1], one.name) == 0)
			return one.run();
	std::fprintf(stderr, "usage: ugly_cxx CASE\n");
	return 2;
}
