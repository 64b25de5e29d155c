// SPDX-License-Identifier: Apache-2.0
// Much work for a C++ compiler in few lines; test_behaviour.py has it compiled. Self-contained, so
// that compiling it depends on no header.
namespace work
{

template <class... T> struct list {
};

template <int N, class... T> struct make : make<N - 1, list<T...>, T...> {
};
template <class... T> struct make<0, T...> {
	using type = list<T...>;
};

template <class T> struct count;
template <class... T> struct count<list<T...>> {
	static constexpr unsigned value = sizeof...(T);
};

template <unsigned N> struct fibonacci {
	static constexpr unsigned long value = fibonacci<N - 1>::value + fibonacci<N - 2>::value;
};
template <> struct fibonacci<0> {
	static constexpr unsigned long value = 0;
};
template <> struct fibonacci<1> {
	static constexpr unsigned long value = 1;
};

template <class Key, class Value, unsigned Size> class table
{
	struct entry {
		Key key;
		Value value;
		bool used;
	} entries[Size] = {};

      public:
	Value &operator[](const Key &key)
	{
		unsigned at = static_cast<unsigned>(key) % Size;
		while (entries[at].used && entries[at].key != key)
			at = (at + 1) % Size;
		entries[at].used = true;
		entries[at].key = key;
		return entries[at].value;
	}
	template <class Function> void each(Function function)
	{
		for (entry &e : entries)
			if (e.used)
				function(e.key, e.value);
	}
};

template <unsigned A, unsigned B> unsigned long mix(unsigned long seed)
{
	table<unsigned long, unsigned long, 16 + A * 3 + B> counts;
	for (unsigned i = 0; i < A + B; i++)
		counts[(seed * (A + 1) + i) % (B + 2)] += i ^ A;
	unsigned long sum = fibonacci<A + B>::value;
	counts.each([&](unsigned long key, unsigned long &value) {
		auto inner = [key](auto x) { return x * 3 + key; };
		sum += inner(value) ^ B;
	});
	return sum;
}

template <unsigned A, unsigned B> struct rows {
	static unsigned long sum(unsigned long seed)
	{
		return mix<A, B>(seed) + rows<A, B - 1>::sum(seed + 1);
	}
};
template <unsigned A> struct rows<A, 0> {
	static unsigned long sum(unsigned long seed)
	{
		return mix<A, 0>(seed);
	}
};
template <unsigned A, unsigned B> struct square {
	static unsigned long sum(unsigned long seed)
	{
		return rows<A, B>::sum(seed) * 31 + square<A - 1, B>::sum(seed + 2);
	}
};
template <unsigned B> struct square<0, B> {
	static unsigned long sum(unsigned long seed)
	{
		return rows<0, B>::sum(seed);
	}
};

} // namespace work

unsigned long entry(unsigned long seed)
{
	return work::square<14, 14>::sum(seed) + work::count<work::make<8, int>::type>::value +
	       work::fibonacci<80>::value;
}
