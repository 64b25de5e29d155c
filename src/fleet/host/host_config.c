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
#include "question/option_row.h"
#include "serve/http_place.h"

#define FILE_MOST	((size_t)1 << 20)
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
	uint32_t given; /* a bit for each key of the section */
	struct error_line error_line;
};

/* ---- values ---- */

static bool take_database(const struct given *given, void *to)
{
	struct server_url url;
	char why[SERVER_URL_WHY];

	if (!server_url_is(given->value))
		return error_say(
		    given->error_line,
		    "database: this is no address as clickhouse://HOST[:PORT]/DATABASE");
	if (!server_url_read(given->value, &url, why))
		return error_say(given->error_line, "database: %s", why);
	return option_take_text(given, to);
}

static bool take_listen(const struct given *given, void *to)
{
	if (!http_place_is(given->value))
		return error_say(given->error_line, "listen: '%s' is not " HTTP_PLACE_FORMS,
				 given->value);
	return option_take_text(given, to);
}

static bool take_folder(const struct given *given, void *to)
{
	struct host_config *c = to;

	if (*given->value != '/')
		return error_say(given->error_line, "folder: '%s' does not begin with '/'",
				 given->value);
	for (size_t i = 0; i < c->folders; i++)
		if (!strcmp(c->folder[i], given->value))
			return error_say(given->error_line, "folder: '%s' is there twice",
					 given->value);
	if (!ARRAY_ADD(c->folder, c->folder_room, c->folders, given->value))
		return error_say(given->error_line, "out of memory");
	return true;
}

static bool take_yes(const struct given *given, void *to)
{
	int answer = yes_or_no(given->value, strlen(given->value));

	*(bool *)to = answer == 1;
	return answer >= 0 || error_say(given->error_line, "%s: '%s' is neither " YES_OR_NO,
					given->option, given->value);
}

/* "1 %", "0.01" */
static bool take_share(const struct given *given, void *to)
{
	size_t length = strlen(given->value), number = length;
	double *share = to;

	if (length && given->value[length - 1] == '%')
		number--;
	while (number && strchr(" \t", given->value[number - 1]))
		number--;
	if (number_read(given->value, number, share)) {
		*share /= given->value[length - 1] == '%' ? 100 : 1;
		if (*share > 0 && *share <= 1)
			return true;
	}
	return error_say(given->error_line, "share: '%s' is not above 0 and at most 100 %%",
			 given->value);
}

static bool take_interval(const struct given *given, void *to)
{
	uint64_t bytes;

	if (!option_take_bytes(given, &bytes))
		return false;
	*(uint32_t *)to = interval_log2_of(bytes, true);
	return true;
}

/* ---- keys ---- */

static const struct option_row general_rows[] = {
    {"database", OPTION_IN(take_database, const char *, struct host_config, database)},
    {"auth", OPTION_TEXT(struct host_config, auth)},
    {"listen", OPTION_IN(take_listen, const char *, struct host_config, listen)},
    {"token", OPTION_TEXT(struct host_config, token)},
    {"host", OPTION_TEXT(struct host_config, host)},
    {"salt", OPTION_TEXT(struct host_config, salt)},
    {"every", .least = LEAST_NS, OPTION_TIME(struct host_config, every_ns)},
    {"largest", OPTION_BYTES(struct host_config, largest)},
    {"remove", OPTION_IN(take_yes, bool, struct host_config, remove)},
    {"folder", OPTION_OWN(take_folder)},
    OPTION_END,
};

static const struct option_row rule_rows[] = {
    {"share", OPTION_IN(take_share, double, struct host_rule, share)},
    {"for", .least = LEAST_NS, OPTION_TIME(struct host_rule, for_ns)},
    {"interval", .least = LEAST_INTERVAL, .most = 1ull << SPOOL_INTERVAL_MAX_LOG2,
     OPTION_IN(take_interval, uint32_t, struct host_rule, interval_log2)},
    OPTION_END,
};

/* Only folders may be several. */
static bool take_key(struct reading *r, const struct option_row *rows, void *into, const char *key,
		     const char *value)
{
	const struct option_row *row = rows;
	uint32_t bit;

	while (row->name && strcmp(row->name, key) != 0)
		row++;
	if (!row->name)
		return error_say(&r->error_line, "%s no key '%s'",
				 r->section == IN_RULE ? "a rule has" : "there is", key);
	bit = 1u << (row - rows);
	if (r->given & bit && row->take != take_folder)
		return error_say(&r->error_line, "'%s' is there twice", key);
	r->given |= bit;
	return row->take(&(struct given){row, key, value, &r->error_line}, (char *)into + row->at);
}

static bool take_label(struct reading *r, const char *key, const char *value)
{
	struct host_config *c = r->config;

	/* Some places are for the labels that a process has of its own. */
	if (c->labels == HOST_LABELS_MOST)
		return error_say(&r->error_line, "there are more than %u labels", HOST_LABELS_MOST);
	c->label[c->labels++] = (struct mayfly_label){key, value};
	return true;
}

static bool take_of_rule(struct reading *r, const char *key, const char *value)
{
	struct host_rule *rule = &r->config->rule[r->config->rules - 1];

	if (strcmp(key, "service") != 0 && strcmp(key, "program") != 0 &&
	    strcmp(key, "cgroup") != 0 && (strncmp(key, "label.", 6) != 0 || !key[6]))
		return take_key(r, rule_rows, rule, key, value);
	if (rule->matches == HOST_MATCHES_MOST)
		return error_say(&r->error_line, "a rule has at most %u of these",
				 HOST_MATCHES_MOST);
	rule->match[rule->matches++] = (struct host_match){key, value};
	return true;
}

/* ---- lines ---- */

static char *trimmed(char *text)
{
	size_t length;

	text += strspn(text, " \t");
	length = strlen(text);
	while (length && strchr(" \t\r", text[length - 1]))
		length--;
	text[length] = 0;
	return text;
}

/* A rule says at least its share. */
static bool end_section(struct reading *r)
{
	const struct host_rule *last =
	    r->config->rules ? &r->config->rule[r->config->rules - 1] : NULL;

	if (r->section != IN_RULE || last->share > 0)
		return true;
	r->line = last->line;
	return error_say(&r->error_line, "the rule has no share");
}

static bool begin_rule(struct reading *r)
{
	struct host_config *c = r->config;

	if (!ARRAY_ADD(c->rule, c->rule_room, c->rules,
		       (struct host_rule){.line = r->line,
					  .for_ns = DEFAULT_FOR,
					  .interval_log2 = SPOOL_INTERVAL_DEFAULT_LOG2}))
		return error_say(&r->error_line, "out of memory");
	r->given = 0;
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
		return take_key(r, general_rows, r->config, text, value);
	case IN_LABELS:
		return take_label(r, text, value);
	case IN_RULE:
		return take_of_rule(r, text, value);
	}
	return false;
}

/* All keys and values stay in the file's text, c->text, behind which there is room for the host's name. */
static bool read_lines(struct reading *r, FILE *file)
{
	char *rest = calloc(1, FILE_MOST + 1 + HOST_NAME_MAX + 1);
	size_t size = rest ? fread(rest, 1, FILE_MOST, file) : 0;

	r->config->text = rest;
	if (!rest)
		return error_say(&r->error_line, "out of memory");
	if (ferror(file))
		return error_say(&r->error_line, "%s", strerror(errno));
	if (size == FILE_MOST || memchr(rest, 0, size))
		return error_say(&r->error_line, "the file has a zero byte, or more than 1 MiB");
	while (rest) {
		r->line++;
		if (!take_line(r, strsep(&rest, "\n")))
			return false;
	}
	return true;
}

static bool complete(struct reading *r)
{
	struct host_config *c = r->config;

	if (!end_section(r))
		return false;
	if (!c->database && !c->listen)
		return error_say(&r->error_line, "'database' is missing, or 'listen'");
	if (!c->folders)
		return error_say(&r->error_line, "'folder' is missing");
	if (c->host)
		return true;
	c->host = c->text + FILE_MOST + 1;
	return !gethostname(c->text + FILE_MOST + 1, HOST_NAME_MAX) ||
	       error_say(&r->error_line, "the name of this host: %s", strerror(errno));
}

bool host_config_read(struct host_config *c, const char *path)
{
	struct reading r = {.config = c};
	FILE *file = fopen(path, "re");
	bool good;

	*c =
	    (struct host_config){.salt = "", .every_ns = DEFAULT_EVERY, .largest = DEFAULT_LARGEST};
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
	free(c->text);
	free(c->folder);
	free(c->rule);
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

	if (c->database)
		printf("database\t%s\n", c->database);
	if (c->auth)
		printf("auth\t\t%s\n", c->auth);
	if (c->listen)
		printf("listen\t\t%s\n", c->listen);
	if (c->token)
		printf("token\t\t%s\n", c->token);
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
