/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as the writer puts it out: layout, escapes, numbers, nulls, dates. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "answer/json_parts.h"
#include "answer/json_writer.h"

#include "test.h"

/* Whether the document is this text; releases it. */
static bool is(struct json *j, const char *text)
{
	bool same = !j->bytes.failed && j->bytes.used == strlen(text) &&
		    memcmp(j->bytes.at, text, j->bytes.used) == 0;

	if (!same)
		printf("# got %.*s\n", (int)j->bytes.used, (const char *)j->bytes.at);
	bytes_free(&j->bytes);
	return same;
}

static struct json nested(bool one_line)
{
	struct json j = {.one_line = one_line};

	json_object(&j, NULL);
	json_unsigned(&j, "a", 1);
	json_array(&j, "list");
	json_null(&j, NULL);
	json_object(&j, NULL);
	json_end(&j);
	json_bool(&j, NULL, true);
	json_end(&j);
	json_array(&j, "empty");
	json_end(&j);
	json_end(&j);
	return j;
}

static void layout(void)
{
	struct json lines = nested(false), line = nested(true);

	CHECK(is(&lines, "{\n  \"a\": 1,\n  \"list\": [\n    null,\n    {},\n    true\n  ],\n"
			 "  \"empty\": []\n}"));
	CHECK(is(&line, "{\"a\":1,\"list\":[null,{},true],\"empty\":[]}"));
}

static void texts(void)
{
	static const struct {
		const char *text, *json;
	} cases[] = {
	    {"", "\"\""},
	    {"a \"b\" \\ /", "\"a \\\"b\\\" \\\\ /\""},
	    {"\b\f\n\r\t\x01\x1f\x7f", "\"\\b\\f\\n\\r\\t\\u0001\\u001F\x7f\""},
	    {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
	    /* Not UTF-8: a lone byte, cut off, overlong, a surrogate, above U+10FFFF. */
	    {"a\xff"
	     "b",
	     "\"a\xef\xbf\xbd"
	     "b\""},
	    {"\xe2\x82", "\"\xef\xbf\xbd\xef\xbf\xbd\""},
	    {"\xc0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\""},
	    {"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
	    {"\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct json j = {0};

		json_text(&j, NULL, cases[i].text);
		CHECK(is(&j, cases[i].json), "case %zu", i);
	}
}

static void numbers(void)
{
	struct json j = {.one_line = true};

	json_array(&j, NULL);
	json_integer(&j, NULL, INT64_MIN);
	json_integer(&j, NULL, INT64_MAX);
	json_unsigned(&j, NULL, UINT64_MAX);
	json_integer(&j, NULL, 0);
	json_real(&j, NULL, 2);
	json_real(&j, NULL, -0.5);
	json_real(&j, NULL, 1e300);
	json_real(&j, NULL, NAN);
	json_real(&j, NULL, INFINITY);
	json_rounded(&j, NULL, -3);
	json_rounded(&j, NULL, 2.5);
	json_rounded(&j, NULL, 1e30);
	json_bound(&j, NULL, INT64_MAX);
	json_end(&j);
	CHECK(is(&j, "[-9223372036854775808,9223372036854775807,9223372036854775807,0,2.0,-0.5,"
		     "1.0000000000000001e+300,null,null,0,3,9223372036854775807,null]"));
}

static void reals_are_read_back(void)
{
	uint64_t state = 1;

	for (int i = 0; i < 20000; i++) {
		struct json j = {0};
		double value;

		state = state * 6364136223846793005u + 1442695040888963407u;
		memcpy(&value, &state, sizeof(value));
		if (!isfinite(value))
			continue;
		json_real(&j, NULL, value);
		bytes_put(&j.bytes, "", 1);
		CHECK(strtod((const char *)j.bytes.at, NULL) == value, "%a", value);
		bytes_free(&j.bytes);
	}
}

static bool is_b(const char *key, uint32_t context)
{
	return context == 7 && strcmp(key, "b") == 0;
}

static void some_keys_are_null(void)
{
	struct json j = {.one_line = true, .is_null = is_b, .null_context = 7};

	json_object(&j, NULL);
	json_object(&j, "b");
	json_array(&j, "b");
	json_text(&j, NULL, "hidden");
	json_end(&j);
	json_end(&j);
	json_object(&j, "c");
	json_unsigned(&j, "b", 5);
	json_unsigned(&j, "d", 6);
	json_end(&j);
	json_end(&j);
	CHECK(is(&j, "{\"b\":null,\"c\":{\"b\":null,\"d\":6}}"));
}

static void dates(void)
{
	for (int64_t day = 0; day < 400 * 366; day++) {
		time_t seconds = day * 86400 + day % 86400;
		char expected[64];
		struct json j = {0};
		struct tm parts;

		gmtime_r(&seconds, &parts);
		strftime(expected, sizeof(expected), "\"%Y-%m-%dT%H:%M:%S.007Z\"", &parts);
		if (seconds > INT64_MAX / 1000000000 - 1)
			break;
		json_real_time(&j, NULL, seconds * 1000000000 + 7999999);
		CHECK(is(&j, expected));
	}
}

int main(void)
{
	RUN(layout);
	RUN(texts);
	RUN(numbers);
	RUN(reals_are_read_back);
	RUN(some_keys_are_null);
	RUN(dates);
	DONE();
}
