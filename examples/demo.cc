/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small program with typical memory problems, for `make demo`: it counts, sorts and looks up the
 * words of a log for some seconds. What a memory profile should find:
 *
 *	index_words	keeps a map until the end: most of the memory live at the peak
 *	split_line	copies every word into a string that is freed at once: temporary
 *	Cache::find	never evicts an answer: grows as long as the program runs
 *	sort_counts	needs a copy of all words for a short time: the peak
 */
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace demo
{

/* The same text in each run. */
class Random
{
	std::uint64_t state = 88172645463325252u;

      public:
	std::uint64_t next(std::uint64_t below)
	{
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		return state % below;
	}
};

std::string make_line(Random &random)
{
	static const char *const syllables[] = {"ka", "to", "mi", "ren", "sul", "ba", "ne", "or"};
	std::string line;

	for (std::uint64_t word = 0; word < 12; word++) {
		for (std::uint64_t left = 2 + random.next(6); left > 0; left--)
			line += syllables[random.next(8)];
		line += ' ';
	}
	return line;
}

std::vector<std::string> split_line(const std::string &line)
{
	std::vector<std::string> words;
	std::size_t begin = 0;

	for (std::size_t end; (end = line.find(' ', begin)) != std::string::npos; begin = end + 1)
		words.emplace_back(line, begin, end - begin);
	return words;
}

using Index = std::unordered_map<std::string, std::vector<std::uint32_t>>;

void index_words(Index &index, const std::string &line, std::uint32_t number)
{
	for (const std::string &word : split_line(line))
		index[word].push_back(number);
}

std::vector<std::pair<std::size_t, std::string>> sort_counts(const Index &index)
{
	std::vector<std::pair<std::size_t, std::string>> counts;

	for (const auto &entry : index)
		counts.emplace_back(entry.second.size(), entry.first);
	std::sort(counts.rbegin(), counts.rend());
	return counts;
}

class Cache
{
	struct Answer {
		std::string text;
		std::uint32_t lines[16];
	};
	std::map<std::string, std::unique_ptr<Answer>> answers;

      public:
	const std::string &find(const Index &index, const std::string &word)
	{
		std::unique_ptr<Answer> &answer = answers[word];

		if (!answer) {
			answer = std::make_unique<Answer>();
			answer->text = word + ": " + std::to_string(index.at(word).size());
		}
		return answer->text;
	}
};

} // namespace demo

int main()
{
	demo::Random random;
	demo::Index index;
	demo::Cache cache;
	std::vector<std::string> log;
	std::size_t length = 0;

	for (std::uint32_t number = 0; number < 60000; number++) {
		log.push_back(demo::make_line(random));
		demo::index_words(index, log.back(), number);
	}
	std::vector<std::pair<std::size_t, std::string>> top = demo::sort_counts(index);
	top.resize(10);
	for (int round = 0; round < 200000; round++) {
		const std::string &line = log[random.next(log.size())];
		for (const std::string &word : demo::split_line(line))
			if (random.next(8) == 0)
				length += cache.find(index, word).size();
	}
	std::printf("%zu words, the most frequent is \"%s\" (%zu times); %zu bytes answered\n",
		    index.size(), top[0].second.c_str(), top[0].first, length);
	return 0;
}
