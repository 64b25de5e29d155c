/* SPDX-License-Identifier: Apache-2.0 */
/* check_output.c: verdicts as text, JSON and JUnit's XML. */
#include "cli/check.h"

#include "cli/target.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STACK_DEPTH 24

/* ---- pieces ---- */

static char *amount(char *buffer, size_t size, const struct limit *limit, double value)
{
	if (limit->metric == CHECK_BLOCKS)
		return text_count(buffer, size, value);
	return text_bytes(buffer, size, value);
}

/* "68.2 MB ±15 %" */
static char *found_text(char *buffer, size_t size, const struct report *r,
			const struct limit *limit, const struct mayfly_estimate *e)
{
	const struct mayfly_figure *f = limit_figure(limit, e);
	char low[FIGURE_TEXT], high[FIGURE_TEXT], value[FIGURE_TEXT];

	if (limit->metric != CHECK_BLOCKS)
		return report_say_figure(buffer, size, &r->out, e);
	if (f->low == f->high)
		return text_count(buffer, size, f->estimate);
	snprintf(buffer, size, "%s (%s..%s)", text_count(value, sizeof(value), f->estimate),
		 text_count(low, sizeof(low), f->low), text_count(high, sizeof(high), f->high));
	return buffer;
}

/* "peak at most 60.0 MB", "peak of ^parse at most 10 % above the baseline, 60.0 MB" */
static char *name_limit(const struct limit *limit)
{
	char bound[FIGURE_TEXT], *text = NULL;
	const char *of = limit->function ? " of " : "";
	const char *function = limit->function ? limit->function : "";
	int length;

	amount(bound, sizeof(bound), limit, limit->bound);
	if (limit->relative)
		length = asprintf(&text, "%s%s%s at most %g %% above the baseline, %s",
				  check_metric_names[limit->metric], of, function,
				  100 * limit->value, bound);
	else
		length = asprintf(&text, "%s%s%s at most %s", check_metric_names[limit->metric], of,
				  function, bound);
	return length < 0 ? NULL : text;
}

/* What is to be said of it besides: how far above, and whether that is certain. */
static char *verdict_text(const struct report *r, const struct limit *limit)
{
	char found[128], by[FIGURE_TEXT], *text = NULL;
	const char *sure = limit->blind ? "; not certain: the file does not say how sure it is"
			   : !limit_straddles(limit) ? ""
			   : limit->exceeded
			       ? "; not certain: the limit lies within the 95 % interval"
			   : limit->excess > 0
			       ? "; above, but not certain: the limit lies within the 95 % interval"
			       : "; not certain: the limit lies within the 95 % interval";

	found_text(found, sizeof(found), r, limit, &limit->found);
	if (limit->exceeded)
		amount(by, sizeof(by), limit, limit->excess);
	if (asprintf(&text, "%s%s%s%s%s", found, limit->exceeded ? ", too much by " : "",
		     limit->exceeded ? by : "",
		     limit->function && !limit->found.samples ? "; nothing on a stack matches" : "",
		     sure) < 0)
		return NULL;
	return text;
}

/* Names are as short as the line, in the JUnit file too; JSON has them whole. */
static char *stack_text(const struct output *o, const struct mayfly_row *row)
{
	struct output plain = *o;
	char *text = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		return NULL;
	plain.colour = false;
	write_stack(to, &plain, row->stack, row->stack_length, STACK_DEPTH);
	if (fclose(to) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

bool check_add_guilt(const struct report *r, struct limit *limit, const struct mayfly_row *row,
		     double change)
{
	struct guilt *bigger = realloc(limit->guilt, (limit->guilty + 1) * sizeof(*bigger));
	struct guilt *g;

	if (!bigger)
		return false;
	limit->guilt = bigger;
	g = &bigger[limit->guilty++];
	*g = (struct guilt){row->self, change, stack_text(&r->out, row), NULL};
	if (r->json)
		g->places = json_places(row->stack, row->stack_length);
	return g->text && (!r->json || g->places);
}

/* "12.3 MB +-18 %", "+2.1 MB, now 12.3 MB +-18 %" */
static char *guilt_title(char *buffer, size_t size, const struct report *r,
			 const struct limit *limit, const struct guilt *g)
{
	char figure[128], change[FIGURE_TEXT];
	const char *blocks = "";

	found_text(figure, sizeof(figure), r, limit, &g->estimate);
	if (limit->metric == CHECK_BLOCKS)
		blocks = strcmp(figure, "1") == 0 ? " block" : " blocks";
	if (g->change > 0)
		snprintf(buffer, size, "+%s, now %s%s",
			 amount(change, sizeof(change), limit, g->change), figure, blocks);
	else
		snprintf(buffer, size, "%s%s", figure, blocks);
	return buffer;
}

/* ---- text ---- */

static void print_guilt(const struct report *r, const struct limit *limit)
{
	char title[256];

	for (size_t i = 0; i < limit->guilty; i++) {
		printf("%3zu. %s\n", i + 1,
		       guilt_title(title, sizeof(title), r, limit, &limit->guilt[i]));
		fputs(limit->guilt[i].text, stdout);
	}
}

void check_print_text(const struct report *r, const struct limits *limits)
{
	size_t failed = 0;

	for (size_t i = 0; i < limits->count; i++) {
		const struct limit *limit = &limits->item[i];
		char *name = name_limit(limit), *verdict = verdict_text(r, limit);

		failed += limit->exceeded;
		print_styled(&r->out, limit->exceeded ? STYLE_MORE : STYLE_LESS,
			     limit->exceeded ? "FAIL" : "ok  ");
		printf(" %s (%s): %s\n", name ? name : "", limit->where, verdict ? verdict : "");
		print_guilt(r, limit);
		free(name);
		free(verdict);
	}
	print_notes(&r->out, r->file.info);
	printf("%zu of %zu %s exceeded\n", failed, limits->count,
	       limits->count == 1 ? "limit" : "limits");
}

/* ---- JSON ---- */

static json_t *json_number(double value)
{
	return json_integer(fabs(value) < 0x1p62 ? (json_int_t)llround(value) : INT64_MAX);
}

static json_t *json_guilt(const struct limit *limit)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < limit->guilty; i++) {
		const struct guilt *g = &limit->guilt[i];
		json_t *change = limit->relative ? json_number(g->change) : json_null();
		bool blocks = limit->metric == CHECK_BLOCKS;

		if (json_array_append_new(
			list, json_pack("{s:O, s:o, s:o, s:o}", "stack", g->places, "self",
					json_estimate(&g->estimate), "change_bytes",
					blocks ? json_null() : change, "change_blocks",
					blocks ? change : json_null())) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *json_limit(const struct limit *limit)
{
	json_t *function = limit->function ? json_text(limit->function) : json_null();
	json_t *base = limit->relative ? json_estimate(&limit->base) : json_null();
	json_t *increase = limit->relative ? json_real(limit->value) : json_null();

	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:{s:o, s:o, s:o}, s:b, s:b, s:o}",
			 "metric", check_metric_names[limit->metric], "function", function, "where",
			 json_text(limit->where), "limit", json_number(limit->bound),
			 "max_increase", increase, "found", json_estimate(&limit->found),
			 "baseline", base, "excess", "estimate", json_number(limit->excess), "low",
			 json_number(limit->excess_low), "high", json_number(limit->excess_high),
			 "exceeded", (int)limit->exceeded, "certain", !limit_straddles(limit),
			 "stacks", json_guilt(limit));
}

int check_print_json(const struct report *r, const struct limits *limits, bool confident)
{
	json_t *list = json_array();
	size_t failed = 0;

	for (size_t i = 0; i < limits->count; i++) {
		failed += limits->item[i].exceeded;
		if (json_array_append_new(list, json_limit(&limits->item[i])) != 0) {
			json_decref(list);
			list = NULL;
		}
	}
	return json_print(json_pack("{s:b, s:b, s:o, s:b, s:o}", "passed", failed == 0, "confident",
				    (int)confident, "exceeded", json_unsigned(failed), "complete",
				    (int)r->file.info->complete, "limits", list));
}

/* ---- JUnit ---- */

/* Characters that XML 1.0 cannot have, and bytes that are not UTF-8, become question marks. */
static void put_xml(FILE *to, const char *text)
{
	json_t *valid = json_text(text);

	text = valid ? json_string_value(valid) : "";
	for (; *text; text++) {
		switch (*text) {
		case '&':
			fputs("&amp;", to);
			break;
		case '<':
			fputs("&lt;", to);
			break;
		case '>':
			fputs("&gt;", to);
			break;
		case '"':
			fputs("&quot;", to);
			break;
		default:
			fputc((unsigned char)*text < 0x20 && !strchr("\t\n", *text) ? '?' : *text,
			      to);
		}
	}
	json_decref(valid);
}

static void put_case(FILE *to, const struct report *r, const struct limit *limit,
		     const char *program)
{
	char *name = name_limit(limit), *verdict = verdict_text(r, limit), title[256];

	fputs("    <testcase classname=\"", to);
	put_xml(to, program);
	fputs("\" name=\"", to);
	put_xml(to, name ? name : "");
	fputs("\" time=\"0\"", to);
	if (limit->exceeded) {
		fputs(">\n      <failure type=\"limit\" message=\"", to);
		put_xml(to, verdict ? verdict : "");
		fputs("\">", to);
		for (size_t i = 0; i < limit->guilty; i++) {
			fprintf(to, "\n%3zu. ", i + 1);
			put_xml(to, guilt_title(title, sizeof(title), r, limit, &limit->guilt[i]));
			fputc('\n', to);
			put_xml(to, limit->guilt[i].text);
		}
		fputs("</failure>\n    </testcase>\n", to);
	} else {
		fputs(">\n      <system-out>", to);
		put_xml(to, verdict ? verdict : "");
		fputs("</system-out>\n    </testcase>\n", to);
	}
	free(name);
	free(verdict);
}

int check_write_junit(const char *path, const struct report *r, const struct limits *limits)
{
	char program[4096];
	struct target target;
	size_t failed = 0;

	/* A report of a test run replaces the one before. */
	if (!target_open(&target, path, true))
		return CLI_FAILED;
	for (size_t i = 0; i < limits->count; i++)
		failed += limits->item[i].exceeded;
	command_line(program, sizeof(program), r->file.info);
	fprintf(target.file, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
	fprintf(target.file,
		"  <testsuite name=\"mayfly check\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" "
		"skipped=\"0\" time=\"%.3f\">\n",
		limits->count, failed, (double)r->file.info->duration_ns / 1e9);
	for (size_t i = 0; i < limits->count; i++)
		put_case(target.file, r, &limits->item[i], program);
	fprintf(target.file, "  </testsuite>\n</testsuites>\n");
	return target_finish(&target) ? CLI_OK : CLI_FAILED;
}
