// SPDX-License-Identifier: Apache-2.0
// A program whose operator new takes its blocks from an array, past malloc: see test_bypass.py.
#include <cstddef>
#include <cstdio>
#include <new>

static char arena[1 << 20];
static std::size_t used;

void *operator new(std::size_t size)
{
	void *block = arena + used;

	used += (size + 15) & ~std::size_t(15);
	if (used > sizeof(arena))
		throw std::bad_alloc();
	return block;
}

void operator delete(void *) noexcept
{
}

void operator delete(void *, std::size_t) noexcept
{
}

int main()
{
	for (int i = 0; i < 1000; i++)
		delete new int(i);
	std::puts("done");
}
