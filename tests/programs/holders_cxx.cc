// SPDX-License-Identifier: Apache-2.0
// Objects of C++ whose types their first word tells, in a map that a variable holds.
#include <cstdio>
#include <malloc.h>
#include <map>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

namespace shop {
struct Item {
	virtual ~Item() = default;
	long price = 1;
};
struct Book : Item {
	std::string title = std::string(100, 'b');
};
struct Base {
	virtual ~Base() = default;
	long base = 2;
};
// A pointer to its second base leads inside.
struct Order : Base, Item {
	std::vector<std::unique_ptr<Item>> items;
};
std::map<int, Item *> orders;
} // namespace shop

int main()
{
	size_t order_bytes = 0, book_bytes = 0;

	for (int i = 0; i < 1000; i++) {
		auto *order = new shop::Order;

		order_bytes += malloc_usable_size(order);
		for (int k = 0; k < 3; k++) {
			order->items.push_back(std::make_unique<shop::Book>());
			book_bytes += malloc_usable_size(order->items.back().get());
		}
		shop::orders[i] = order;
	}
	printf("{\"orders\": %zu, \"books\": %zu}\n", order_bytes, book_bytes);
	fflush(stdout);
	char rest;
	while (read(0, &rest, 1) > 0)
		;
}
