/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, sizes, times, yes and no, as people write them; what is found in ordered numbers. */
#include "base/search.h"
#include "base/units.h"

#include <math.h>
#include <string.h>

#include "test.h"

static void numbers(void)
{
	static const struct {
		const char *text;
		double value;
	} right[] = {
	    {"0", 0},	      {"17", 17},
	    {".5", .5},	      {"2.", 2},
	    {"1e-5", 1e-5},   {"1E3", 1e3},
	    {"0.001", .001},  {"1.25e+2", 125},
	    {"1e-11", 1e-11}, {"1e999", INFINITY},
	    {"0e999", 0},     {"123456789012345678901234567890", 123456789012345678901234567890.0}};
	static const char *const wrong[] = {"",	   ".",	  "-1", "+1",  " 1",   "1 ",  "0x10",
					    "nan", "inf", "1e", "1e-", "1..2", "1,5", "e5"};
	double value;

	for (size_t i = 0; i < sizeof(right) / sizeof(*right); i++) {
		CHECK(number_read(right[i].text, strlen(right[i].text), &value), "%s",
		      right[i].text);
		CHECK(value == right[i].value || fabs(value - right[i].value) < value * 1e-15,
		      "%s: %.17g", right[i].text, value);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		CHECK(!number_read(wrong[i], strlen(wrong[i]), &value), "%s", wrong[i]);
	CHECK(number_read("1e-5", 1, &value) && value == 1, "no byte beyond the length is read");
}

static void sizes(void)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} right[] = {{"0", 0},
		     {"4096", 4096},
		     {"512K", 512 << 10},
		     {"512kb", 512 << 10},
		     {"1.5M", 3 << 19},
		     {"2GiB", 2ull << 30},
		     {"1t", 1ull << 40},
		     {"7B", 7},
		     {"1e6", 1000000},
		     {"18446744073709551615", UINT64_MAX},
		     {"9007199254740993", 9007199254740993},
		     {"16777215T", 16777215ull << 40}};
	static const char *const wrong[] = {
	    "",	    "K",     "12Q", "-5",	 "0x10",
	    "1KK",  "1 K",   "1i",  "16777216T", "18446744073709551616",
	    "1e20", "1e400", "5s"};
	uint64_t bytes = 0;

	for (size_t i = 0; i < sizeof(right) / sizeof(*right); i++)
		CHECK(size_read(right[i].text, strlen(right[i].text), &bytes) &&
			  bytes == right[i].bytes,
		      "%s: %llu", right[i].text, (unsigned long long)bytes);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		CHECK(!size_read(wrong[i], strlen(wrong[i]), &bytes), "%s", wrong[i]);
}

static void times(void)
{
	static const struct {
		const char *text;
		int64_t ns;
	} right[] = {{"0", 0},
		     {"3", 3000000000},
		     {"250ms", 250000000},
		     {"1.5s", 1500000000},
		     {"10us", 10000},
		     {"100ns", 100},
		     {"5m", 300000000000},
		     {"5min", 300000000000},
		     {"2sec", 2000000000},
		     {"2H", 7200000000000},
		     {"1d", 86400000000000},
		     {"1w", 604800000000000},
		     {"1e-3", 1000000},
		     {"0.0000000015s", 2}};
	static const char *const wrong[] = {"",	   "s",	  "5parsec", "-1s", "nan", "1e400",
					    "5 s", "5mi", "1s1",     "0x5", "1e19"};
	int64_t ns = 0;

	for (size_t i = 0; i < sizeof(right) / sizeof(*right); i++)
		CHECK(time_read(right[i].text, strlen(right[i].text), &ns) && ns == right[i].ns,
		      "%s: %lld", right[i].text, (long long)ns);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		CHECK(!time_read(wrong[i], strlen(wrong[i]), &ns), "%s", wrong[i]);
}

static void answers(void)
{
	static const char *const yes[] = {"yes", "on", "true", "1", "YES", "On", "True"};
	static const char *const no[] = {"no", "off", "false", "0", "NO", "Off", "False"};
	static const char *const neither[] = {"", "y", "2", "01", "yes ", "ye", "yess", "none"};

	for (size_t i = 0; i < sizeof(yes) / sizeof(*yes); i++)
		CHECK(yes_or_no(yes[i], strlen(yes[i])) == 1, "%s", yes[i]);
	for (size_t i = 0; i < sizeof(no) / sizeof(*no); i++)
		CHECK(yes_or_no(no[i], strlen(no[i])) == 0, "%s", no[i]);
	for (size_t i = 0; i < sizeof(neither) / sizeof(*neither); i++)
		CHECK(yes_or_no(neither[i], strlen(neither[i])) == -1, "%s", neither[i]);
}

static void first_of_many(void)
{
	static const int number[] = {3, 5, 5, 5, 8, 9};
	const size_t count = sizeof(number) / sizeof(*number);

	for (size_t from = 0; from <= count; from++)
		for (size_t to = from; to <= count; to++)
			for (int wanted = 2; wanted < 11; wanted++) {
				size_t first = from;

				while (first < to && number[first] < wanted)
					first++;
				CHECK(FIRST_THAT(i, from, to, number[i] >= wanted) == first,
				      "%d from %zu to %zu", wanted, from, to);
			}
}

int main(void)
{
	RUN(first_of_many);
	RUN(numbers);
	RUN(sizes);
	RUN(times);
	RUN(answers);
	DONE();
}
