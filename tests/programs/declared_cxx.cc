// SPDX-License-Identifier: Apache-2.0
// Blocks in containers, whose types only debug information tells. Says in JSON how many blocks of each type there are, and
// waits until its standard input ends.
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace shop {

struct Item {
	long price = 1;
	char text[56] = {};
};

struct Order {
	std::vector<Item> items;
	std::string name;
	Item *gift = nullptr;
	std::unique_ptr<Item> wrapped;
	std::shared_ptr<Item> shared;
};

class Shape {
public:
	virtual ~Shape() = default;
	std::unique_ptr<Item> item;
};

class Circle : public Shape {
public:
	char more[100] = {};
};

template <typename T> struct Cache {
	std::map<std::string, T> entries;
	std::unordered_map<long, Order *> orders;
};

static Cache<Order *> cache;

} // namespace shop

std::map<int, shop::Order> g_orders;
std::set<std::string> g_names;
std::list<shop::Item> g_items;
std::forward_list<long> g_numbers;
std::unordered_set<std::string> g_words;
std::deque<shop::Item> g_queue;
std::vector<std::unique_ptr<shop::Shape>> g_shapes;
std::vector<std::vector<long>> g_rows;
std::shared_ptr<shop::Order> g_made;
std::unique_ptr<std::map<long, long>> g_pointed;

static std::string longer(const char *text, int i)
{
	return std::string(text) + std::string(40, '-') + std::to_string(i);
}

int main()
{
	std::setvbuf(stdin, nullptr, _IONBF, 0);
	std::setvbuf(stdout, nullptr, _IONBF, 0);
	for (int i = 0; i < 10; i++) {
		shop::Order &o = g_orders[i];

		o.items.resize(3);
		o.name = longer("order", i);
		o.gift = new shop::Item;
		o.wrapped.reset(new shop::Item);
		o.shared = std::make_shared<shop::Item>();
	}
	for (int i = 0; i < 20; i++)
		g_names.insert(longer("name", i));
	for (int i = 0; i < 30; i++) {
		g_items.emplace_back();
		g_numbers.push_front(i);
		g_words.insert(longer("word", i));
	}
	for (int i = 0; i < 40; i++)
		g_queue.emplace_back();
	for (int i = 0; i < 50; i++) {
		g_shapes.emplace_back(new shop::Circle);
		g_shapes.back()->item.reset(new shop::Item);
	}
	for (int i = 0; i < 60; i++)
		g_rows.emplace_back(5);
	g_made = std::make_shared<shop::Order>();
	g_made->items.resize(9);
	g_pointed = std::make_unique<std::map<long, long>>();
	(*g_pointed)[7] = 7;
	for (int i = 0; i < 70; i++) {
		auto *o = new shop::Order;

		shop::cache.entries[longer("key", i)] = o;
		shop::cache.orders[i] = o;
	}
	std::printf("{\"std::map<int, shop::Order> node\": 10, \"shop::Item[]\": %d, \"char[]\": %d, \"shop::Item\": 70, "
		    "\"std::set<std::string> node\": 20, \"std::list<shop::Item> node\": 30, "
		    "\"std::forward_list<long> node\": 30, \"std::unordered_set<std::string> node\": 30, "
		    "\"std::unordered_set<std::string> buckets\": 1, \"shop::Item *[]\": 1, "
		    "\"std::unique_ptr<shop::Shape>[]\": 1, \"shop::Circle\": 50, \"std::vector<long>[]\": 1, "
		    "\"long[]\": 60, \"std::map<long, long>\": 1, \"std::map<long, long> node\": 1, "
		    "\"std::map<std::string, shop::Order *> node\": 70, \"shop::Order\": 70, "
		    "\"std::unordered_map<long, shop::Order *> node\": 70, "
		    "\"std::unordered_map<long, shop::Order *> buckets\": 1}\n",
		    10 + 1 + 6, 10 + 20 + 30 + 70);
	while (std::getchar() != EOF)
		;
	return 0;
}
