/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the configuration of mayfly agent: see host_config.h. */
#include "fleet/host/host_config.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "answer/figures.h"
#include "terminal/message.h"
#include "terminal/interval.h"
#include "fleet/http/server_url.h"
#include "base/array.h"
#include "format/spool_format.h"
#include "base/units.h"
#include "question/option_values.h"

#define LINE_BYTES	4096
#define LEAST_NS	1000000000
#define DEFAULT_EVERY	(60ll * 1000000000)
#define DEFAULT_FOR	(600ll * 1000000000)
#define DEFAULT_LARGEST ((uint64_t)256 << 20)
#define LEAST_INTERVAL	8u

enum section { IN_GENERAL, IN_LABELS, IN_RULE };

struct reading {
	struct host_config *config;
	enum section section;
	size_t line;
	uint32_t given, rule_given; /* a bit for each key of the section */
	struct error_line error_line;
};

/* ---- values ---- */

static bool wrong_memory(struct reading *r)
{
	return error_say(&r->error_line, "out of memory");
}

static bool take_text(struct reading *r, const char *value, char **to)
{
	*to = strdup(value);
	return *to || wrong_memory(r);
}

static bool take_time(struct reading *r, const char *key, const char *value, int64_t *to)
{
	return option_time(key, value, to, &r->error_line) &&
	       (*to >= LEAST_NS ||
		error_say(&r->error_line, "%s: '%s' is less than 1s", key, value));
}

static bool take_database(struct reading *r, const char *value)
{
	struct server_url url;
	char why[CLICKHOUSE_WHY];

	if (!server_url_is(value))
		return error_say(
		    &r->error_line,
		    "database: this is no address as clickhouse://HOST[:PORT]/DATABASE");
	if (!server_url_read(value, &url, why))
		return error_say(&r->error_line, "database: %s", why);
	return take_text(r, value, &r->config->database);
}

static bool take_folder(struct reading *r, const char *value)
{
	struct host_config *c = r->config;

	if (*value != '/')
		return error_say(&r->error_line, "folder: '%s' does not begin with '/'", value);
	for (size_t i = 0; i < c->folders; i++)
		if (!strcmp(c->folder[i], value))
			return error_say(&r->error_line, "folder: '%s' is there twice", value);
	if (!array_reserve(&c->folder, &c->folder_room, c->folders, sizeof(*c->folder)))
		return wrong_memory(r);
	return take_text(r, value, &c->folder[c->folders]) && ++c->folders;
}

static bool take_yes(struct reading *r, const char *key, const char *value, bool *to)
{
	int answer = yes_or_no(value, strlen(value));

	*to = answer == 1;
	return answer >= 0 ||
	       error_say(&r->error_line, "%s: '%s' is neither " YES_OR_NO, key, value);
}

/* "1 %", "0.01" */
static bool take_share(struct reading *r, const char *value, double *to)
{
	char *end;

	*to = strtod(value, &end);
	end += strspn(end, " \t");
	if (*end == '%') {
		*to /= 100;
		end++;
	}
	/* strtod() knows hexadecimal numbers, inf and nan, too. */
	return (end != value && !*end && !value[strspn(value, "0123456789.eE-+ \t%")] && *to > 0 &&
		*to <= 1) ||
	       error_say(&r->error_line, "share: '%s' is not above 0 and at most 100 %%", value);
}

static bool take_interval(struct reading *r, const char *value, uint32_t *log2)
{
	uint64_t bytes;

	if (!option_bytes("interval", value, &bytes, &r->error_line))
		return false;
	if (bytes < LEAST_INTERVAL || bytes > 1ull << SPOOL_INTERVAL_MAX_LOG2)
		return error_say(&r->error_line, "interval: '%s' is not from 8 bytes to 1 TiB",
				 value);
	*log2 = interval_log2_of(bytes, true);
	return true;
}

/* ---- keys ---- */

enum general { DATABASE, AUTH, HOST, SALT, EVERY, LARGEST, REMOVE, FOLDER };
static const char *const general_keys[] = {
    [DATABASE] = "database", [AUTH] = "auth",	    [HOST] = "host",	 [SALT] = "salt",
    [EVERY] = "every",	     [LARGEST] = "largest", [REMOVE] = "remove", [FOLDER] = "folder"};
#define GENERAL_KEYS (sizeof(general_keys) / sizeof(*general_keys))

enum of_rule { SHARE, FOR, INTERVAL };
static const char *const rule_keys[] = {[SHARE] = "share", [FOR] = "for", [INTERVAL] = "interval"};
#define RULE_KEYS (sizeof(rule_keys) / sizeof(*rule_keys))

/* The number of a key, that of the keys when it is none; complains about one that was there before. */
static bool find_key(struct reading *r, const char *const *keys, size_t count, uint32_t *given,
		     const char *key, size_t *number)
{
	for (*number = 0; *number < count && strcmp(keys[*number], key) != 0; ++*number)
		;
	if (*number == count || (keys == general_keys && *number == FOLDER))
		return true;
	if (*given >> *number & 1)
		return error_say(&r->error_line, "'%s' is there twice", key);
	*given |= 1u << *number;
	return true;
}

static bool take_general(struct reading *r, const char *key, const char *value)
{
	struct host_config *c = r->config;
	size_t number;

	if (!find_key(r, general_keys, GENERAL_KEYS, &r->given, key, &number))
		return false;
	if (number == GENERAL_KEYS)
		return error_say(&r->error_line, "there is no key '%s'", key);
	switch ((enum general)number) {
	case DATABASE:
		return take_database(r, value);
	case AUTH:
		return take_text(r, value, &c->auth);
	case HOST:
		return take_text(r, value, &c->host);
	case SALT:
		return take_text(r, value, &c->salt);
	case EVERY:
		return take_time(r, key, value, &c->every_ns);
	case LARGEST:
		return option_bytes(key, value, &c->largest, &r->error_line);
	case REMOVE:
		return take_yes(r, key, value, &c->remove);
	case FOLDER:
		return take_folder(r, value);
	}
	return false;
}

static bool take_label(struct reading *r, const char *key, const char *value)
{
	struct host_config *c = r->config;
	struct mayfly_label label = {strdup(key), strdup(value)};

	/* Some places are for the labels that a process has of its own. */
	if (c->labels == HOST_LABELS_MOST || !label.key || !label.value) {
		free((char *)(uintptr_t)label.key);
		free((char *)(uintptr_t)label.value);
		return c->labels == HOST_LABELS_MOST
			   ? error_say(&r->error_line, "there are more than %u labels",
				       HOST_LABELS_MOST)
			   : wrong_memory(r);
	}
	c->label[c->labels++] = label;
	return true;
}

static bool take_match(struct reading *r, struct host_rule *rule, const char *key, const char *glob)
{
	struct host_match match = {strdup(key), strdup(glob)};

	if (rule->matches == HOST_MATCHES_MOST || !match.key || !match.glob) {
		free(match.key);
		free(match.glob);
		return error_say(&r->error_line, "a rule has at most %u of these",
				 HOST_MATCHES_MOST);
	}
	rule->match[rule->matches++] = match;
	return true;
}

static bool take_of_rule(struct reading *r, const char *key, const char *value)
{
	struct host_rule *rule = &r->config->rule[r->config->rules - 1];
	size_t number;

	if (!strcmp(key, "service") || !strcmp(key, "program") || !strcmp(key, "cgroup") ||
	    (!strncmp(key, "label.", 6) && key[6]))
		return take_match(r, rule, key, value);
	if (!find_key(r, rule_keys, RULE_KEYS, &r->rule_given, key, &number))
		return false;
	if (number == RULE_KEYS)
		return error_say(&r->error_line, "a rule has no key '%s'", key);
	switch ((enum of_rule)number) {
	case SHARE:
		return take_share(r, value, &rule->share);
	case FOR:
		return take_time(r, key, value, &rule->for_ns);
	case INTERVAL:
		return take_interval(r, value, &rule->interval_log2);
	}
	return false;
}

/* ---- lines ---- */

static char *trimmed(char *text)
{
	size_t length;

	text += strspn(text, " \t");
	length = strlen(text);
	while (length && strchr(" \t\r\n", text[length - 1]))
		length--;
	text[length] = 0;
	return text;
}

/* A rule says at least its share. */
static bool end_section(struct reading *r)
{
	const struct host_config *c = r->config;

	if (r->section == IN_RULE && !(r->rule_given >> SHARE & 1)) {
		r->line = c->rule[c->rules - 1].line;
		return error_say(&r->error_line, "the rule has no share");
	}
	return true;
}

static bool begin_rule(struct reading *r)
{
	struct host_config *c = r->config;

	if (!array_reserve(&c->rule, &c->rule_room, c->rules, sizeof(*c->rule)))
		return wrong_memory(r);
	c->rule[c->rules++] = (struct host_rule){
	    .line = r->line, .for_ns = DEFAULT_FOR, .interval_log2 = SPOOL_INTERVAL_DEFAULT_LOG2};
	r->rule_given = 0;
	r->section = IN_RULE;
	return true;
}

static bool take_section(struct reading *r, const char *name)
{
	if (!end_section(r))
		return false;
	if (!strcmp(name, "[rule]"))
		return begin_rule(r);
	r->section = IN_LABELS;
	return !strcmp(name, "[labels]") ||
	       error_say(&r->error_line, "'%s' is neither [labels] nor [rule]", name);
}

static bool take_line(struct reading *r, char *line)
{
	char *text = trimmed(line), *equals = strchr(text, '='), *value;

	if (!*text || *text == '#')
		return true;
	if (*text == '[')
		return take_section(r, text);
	if (!equals)
		return error_say(&r->error_line, "'%s' is neither KEY = VALUE nor a section", text);
	*equals = 0;
	text = trimmed(text);
	value = trimmed(equals + 1);
	if (!*text || !*value)
		return error_say(&r->error_line, "%s",
				 *text ? "the value is missing" : "the key is missing");
	switch (r->section) {
	case IN_GENERAL:
		return take_general(r, text, value);
	case IN_LABELS:
		return take_label(r, text, value);
	case IN_RULE:
		return take_of_rule(r, text, value);
	}
	return false;
}

static bool read_lines(struct reading *r, FILE *file)
{
	char line[LINE_BYTES];

	while (fgets(line, sizeof(line), file)) {
		size_t length = strlen(line);

		r->line++;
		if (!length || (line[length - 1] != '\n' && !feof(file)))
			return error_say(&r->error_line,
					 "the line has a zero byte, or more than %d bytes",
					 LINE_BYTES - 2);
		if (!take_line(r, line))
			return false;
	}
	return !ferror(file) || error_say(&r->error_line, "%s", strerror(errno));
}

static bool complete(struct reading *r)
{
	struct host_config *c = r->config;
	char name[HOST_NAME_MAX + 1] = "";

	if (!end_section(r))
		return false;
	if (!c->database || !c->folders)
		return error_say(&r->error_line, "'%s' is missing",
				 c->database ? "folder" : "database");
	gethostname(name, sizeof(name) - 1);
	if (!c->host && !take_text(r, name, &c->host))
		return false;
	return c->salt || take_text(r, "", &c->salt);
}

bool host_config_read(struct host_config *c, const char *path)
{
	struct reading r = {.config = c};
	FILE *file = fopen(path, "re");
	bool good;

	*c = (struct host_config){.every_ns = DEFAULT_EVERY, .largest = DEFAULT_LARGEST};
	if (!file)
		return cli_fail("%s: %s", path, strerror(errno));
	good = read_lines(&r, file) && complete(&r);
	fclose(file);
	if (good)
		return true;
	host_config_free(c);
	return cli_fail("%s:%zu: %s", path, r.line, r.error_line.text);
}

void host_config_free(struct host_config *c)
{
	for (size_t i = 0; i < c->folders; i++)
		free(c->folder[i]);
	for (size_t i = 0; i < c->labels; i++) {
		free((char *)(uintptr_t)c->label[i].key);
		free((char *)(uintptr_t)c->label[i].value);
	}
	for (size_t i = 0; i < c->rules; i++)
		for (size_t k = 0; k < c->rule[i].matches; k++) {
			free(c->rule[i].match[k].key);
			free(c->rule[i].match[k].glob);
		}
	free(c->folder);
	free(c->rule);
	free(c->database);
	free(c->auth);
	free(c->host);
	free(c->salt);
	*c = (struct host_config){0};
}

/* ---- what it says ---- */

static void print_rule(const struct host_rule *r)
{
	char time[FIGURE_TEXT], interval[FIGURE_TEXT];

	printf("rule\t\t%.6g %% of", r->share * 100);
	for (size_t i = 0; i < r->matches; i++)
		printf("%s %s=%s", i ? " and" : "", r->match[i].key, r->match[i].glob);
	printf("%s, for %s, a sample for each %s\n", r->matches ? "" : " all dormant processes",
	       text_duration(time, sizeof(time), (double)r->for_ns),
	       text_bytes(interval, sizeof(interval), (double)(1ull << r->interval_log2)));
}

void host_config_print(const struct host_config *c)
{
	char time[FIGURE_TEXT], bytes[FIGURE_TEXT];

	printf("database\t%s\n", c->database);
	if (c->auth)
		printf("auth\t\t%s\n", c->auth);
	printf("every\t\t%s\n", text_duration(time, sizeof(time), (double)c->every_ns));
	printf("host\t\t%s\n", c->host);
	for (size_t i = 0; i < c->folders; i++)
		printf("folder\t\t%s%s\n", c->folder[i],
		       access(c->folder[i], R_OK | X_OK) ? " (cannot be read now)" : "");
	printf("largest\t\t%s\n", text_bytes(bytes, sizeof(bytes), (double)c->largest));
	printf("remove\t\t%s\n", c->remove ? "yes" : "no");
	if (*c->salt)
		printf("salt\t\t%s\n", c->salt);
	for (size_t i = 0; i < c->labels; i++)
		printf("label\t\t%s=%s\n", c->label[i].key, c->label[i].value);
	for (size_t i = 0; i < c->rules; i++)
		print_rule(&c->rule[i]);
}
