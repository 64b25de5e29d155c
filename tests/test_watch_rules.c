/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about a process's memory: how they are read, when they come true, and cgroups' limits. */
#include "record/watch_rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/units.h"
#include "record/cgroup_limit.h"

#include "test.h"

#define SECOND INT64_C(1000000000)
#define MB     (UINT64_C(1) << 20)

static struct watch_rule rule_of(const char *text)
{
	struct watch_rule rule;
	size_t at;
	const char *wanted = watch_rule_parse(text, &rule, &at);

	CHECK(!wanted, "%s: %s at %zu", text, wanted ? wanted : "", at);
	return rule;
}

static void test_right(void)
{
	struct watch_rule r = rule_of("live>2G");

	CHECK(r.quantity == WATCH_LIVE && r.limit == 0x1p31 && !r.of_cgroup && !r.for_ns);
	r = rule_of("  RSS > 1.5 GiB  for 30 s ");
	CHECK(r.quantity == WATCH_RSS && r.limit == 1.5 * 0x1p30 && r.for_ns == 30 * SECOND);
	r = rule_of("rss>90% of cgroup");
	CHECK(r.of_cgroup && r.limit == 0.9);
	r = rule_of("live>0.5k for 5m");
	CHECK(r.limit == 512 && r.for_ns == 300 * SECOND);
	r = rule_of("live>1000 for 250ms");
	CHECK(r.limit == 1000 && r.for_ns == SECOND / 4);
	r = rule_of("growth>60M/min");
	CHECK(r.quantity == WATCH_GROWTH && r.for_ns == 60 * SECOND &&
	      (uint64_t)(r.limit * 60e9 + 0.5) == 60 * MB);
	r = rule_of("growth>1M/s for 2h");
	CHECK(r.for_ns == 7200 * SECOND);
}

static void check_wrong(const char *text, size_t where, const char *what)
{
	struct watch_rule rule;
	size_t at;
	const char *wanted = watch_rule_parse(text, &rule, &at);

	CHECK(wanted && strstr(wanted, what) && at == where, "%s: %s at %zu", text,
	      wanted ? wanted : "(right)", at);
}

static void test_wrong(void)
{
	check_wrong("", 0, "live, rss or growth");
	check_wrong("heap>2G", 0, "live, rss or growth");
	check_wrong("live", 4, "'>'");
	check_wrong("live<2G", 4, "'>'");
	check_wrong("live>", 5, "a size");
	check_wrong("live>.", 6, "a size");
	check_wrong("live>-2G", 5, "a size");
	check_wrong("live>2X", 6, "a size");
	check_wrong("live>0", 5, "a size");
	check_wrong("live>99999999999T", 5, "a size");
	check_wrong("rss>0% of cgroup", 4, "percent");
	check_wrong("rss>101% of cgroup", 4, "percent");
	check_wrong("rss>90%", 7, "of cgroup");
	check_wrong("rss>90% of memory", 11, "of cgroup");
	check_wrong("live>2G when", 8, "'for'");
	check_wrong("live>2G for", 11, "a time");
	check_wrong("live>2G for 5m now", 15, "nothing more");
	check_wrong("live>2G for 0s", 12, "a time");
	check_wrong("growth>100M", 11, "a rate");
	check_wrong("growth>100M/week", 12, "a rate");
	check_wrong("growth>10%", 9, "a rate");
}

/* Sizes and times are spelled as in options. */
static void test_spellings(void)
{
	static const char *const sizes[] = {"1",   "4096", "1b",   "512k",  "1.5M", "2Gb",
					    "1gI", "3TiB", "2kib", "1e3",   ".5k",  "7P",
					    "1kk", "1 ki", "5d",   "1e-1k", "0x10", "1KBs"};
	static const char *const times[] = {"1",   "2s",   "250ms", "5m",  "5min", "3sec",   "2h",
					    "1d",  "1w",   "1.5H",  ".5s", "1e2",  "9999us", "5M",
					    "5mm", "1 mi", "5y",    "2hr", "1e",   "0x5"};
	struct watch_rule rule;
	char text[64];
	uint64_t bytes;
	int64_t ns;
	size_t at;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		bool good = size_read(sizes[i], strlen(sizes[i]), &bytes);

		snprintf(text, sizeof(text), "live>%s", sizes[i]);
		CHECK(!watch_rule_parse(text, &rule, &at) == good, "%s", text);
		CHECK(!good || (uint64_t)rule.limit == bytes, "%s: %f", text, rule.limit);
	}
	for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
		bool good = time_read(times[i], strlen(times[i]), &ns);

		snprintf(text, sizeof(text), "live>1M for %s", times[i]);
		CHECK(!watch_rule_parse(text, &rule, &at) == good, "%s", text);
		CHECK(!good || rule.for_ns == ns, "%s: %lld", text, (long long)rule.for_ns);
	}
}

static bool look(const struct watch_rule *rule, struct watch_state *state, int64_t seconds,
		 uint64_t live)
{
	struct watch_reading now = {
	    .now_ns = seconds * SECOND,
	    .of = {[WATCH_LIVE] = {true, live}, [WATCH_GROWTH] = {true, live}}};

	return watch_rule_look(rule, state, &now);
}

/* Once, and again after it was false. */
static void test_level(void)
{
	struct watch_rule rule = rule_of("live>2M"), lasting = rule_of("live>2M for 10s");
	struct watch_state a = {0}, b = {0};

	CHECK(!look(&rule, &a, 1, 2 * MB) && look(&rule, &a, 2, 2 * MB + 1));
	CHECK(!look(&rule, &a, 3, 3 * MB) && !look(&rule, &a, 4, 2 * MB) &&
	      look(&rule, &a, 5, 3 * MB));
	CHECK(!look(&lasting, &b, 1, 3 * MB) && !look(&lasting, &b, 10, 3 * MB));
	CHECK(!look(&lasting, &b, 11, MB) && !look(&lasting, &b, 12, 3 * MB));
	CHECK(look(&lasting, &b, 22, 3 * MB) && !look(&lasting, &b, 40, 3 * MB));
	watch_state_free(&a);
	watch_state_free(&b);
}

static void test_growth(void)
{
	struct watch_rule rule = rule_of("growth>1M/s for 10s");
	struct watch_state steep = {0}, flat = {0}, jump = {0};
	unsigned int times = 0, jumps = 0;

	for (int64_t t = 0; t < 100; t++) {
		bool now = look(&rule, &steep, t, (uint64_t)t * 2 * MB);

		CHECK(now == (t == 10), "%d", (int)t);
		CHECK(!look(&rule, &flat, t, (uint64_t)t * MB / 2), "%d", (int)t);
		/* 20 MB at once, at 30 s and at 60 s. */
		jumps += look(&rule, &jump, t, (uint64_t)(t / 30 < 3 ? t / 30 : 2) * 20 * MB);
		times += now;
	}
	CHECK(times == 1 && jumps == 2, "%u %u", times, jumps);
	/* Not looked at for a long time: the average over all of it counts. */
	CHECK(!look(&rule, &steep, 1000, 99 * 2 * MB + 100 * MB));
	watch_state_free(&steep);
	watch_state_free(&flat);
	watch_state_free(&jump);
}

static void test_unknown(void)
{
	struct watch_rule live = rule_of("live>1"), rss = rule_of("rss>50% of cgroup");
	struct watch_state a = {0}, b = {0};
	struct watch_reading now = {
	    .now_ns = SECOND, .of = {[WATCH_RSS] = {true, 6 * MB}, [WATCH_LIVE] = {false, MB}}};

	CHECK(!watch_rule_look(&live, &a, &now) && !watch_rule_look(&rss, &b, &now));
	now.cgroup_limit = 12 * MB;
	CHECK(!watch_rule_look(&rss, &b, &now));
	now.of[WATCH_RSS].bytes++;
	CHECK(watch_rule_look(&rss, &b, &now));
}

/* ---- cgroups ---- */

static char root[] = "/tmp/mayfly-cgroup-XXXXXX";

static void put(const char *folder, const char *file, const char *text)
{
	char path[256], *slash;
	FILE *to;

	snprintf(path, sizeof(path), "%s%s/%s", root, folder, file);
	for (slash = path + strlen(root); (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		mkdir(path, 0700);
		*slash = '/';
	}
	to = fopen(path, "w");
	CHECK(to && fputs(text, to) >= 0 && !fclose(to));
}

static void test_cgroup(void)
{
	char command[64];

	CHECK(mkdtemp(root));
	CHECK(cgroup_limit_of("0::/a/b\n", root) == 0);
	put("/a/b", "memory.max", "max\n");
	put("/a", "memory.max", "3000000\n");
	put("", "memory.max", "5000000\n");
	CHECK(cgroup_limit_of("0::/a/b\n", root) == 3000000);
	CHECK(cgroup_limit_of("0::/a/b", root) == 3000000);
	CHECK(cgroup_limit_of("0::/\n", root) == 5000000);
	CHECK(cgroup_limit_of("0::/../other/a\n", root) == 5000000);
	CHECK(cgroup_limit_of("0::/of/the/host/only\n", root) == 5000000);
	put("/memory/x/y", "memory.limit_in_bytes", "9223372036854771712\n");
	CHECK(cgroup_limit_of("4:memory:/x/y\n", root) == 0);
	put("/memory/x", "memory.limit_in_bytes", "400000\n");
	CHECK(cgroup_limit_of("9:cpu:/\n4:hugetlb,memory:/x/y\n0::/a\n", root) == 400000);
	CHECK(cgroup_limit_of("1:name=memory:/x\n5:cpu:/x\n\n:::\nxyz", root) == 0);
	snprintf(command, sizeof(command), "rm -r %s", root);
	CHECK(system(command) == 0);
}

int main(void)
{
	RUN(test_right);
	RUN(test_wrong);
	RUN(test_spellings);
	RUN(test_level);
	RUN(test_growth);
	RUN(test_unknown);
	RUN(test_cgroup);
	DONE();
}
