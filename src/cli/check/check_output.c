/* SPDX-License-Identifier: Apache-2.0 */
/* check_output.c: verdicts as text and as JUnit's XML. */
#include "cli/check/check.h"

#include "answer/text_format.h"
#include "base/utf8.h"
#include "cli/target.h"
#include "cli/trace_fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STACK_DEPTH 24

static char *amount(char *buffer, size_t size, const struct limit *limit, double value)
{
	if (limit->metric == LIMIT_BLOCKS)
		return text_count(buffer, size, value);
	return text_bytes(buffer, size, value);
}

/* "68.2 MiB ±15 %" */
static char *found_text(char *buffer, size_t size, const struct report *r,
			const struct limit *limit, const struct mayfly_estimate *e)
{
	const struct mayfly_figure *f = limit_figure(limit, e);
	char low[FIGURE_TEXT], high[FIGURE_TEXT], value[FIGURE_TEXT];

	if (limit->metric != LIMIT_BLOCKS)
		return text_estimate(buffer, size, r->out.utf8, e);
	if (f->low == f->high)
		return text_count(buffer, size, f->estimate);
	return text_format(
	    buffer, size, "%s (%s..%s)", text_count(value, sizeof(value), f->estimate),
	    text_count(low, sizeof(low), f->low), text_count(high, sizeof(high), f->high));
}

/* "peak of ^parse at most 10 % above the baseline": the same for each trace and baseline. */
static char *name_limit(const struct limit *limit)
{
	char bound[FIGURE_TEXT], *text = NULL;
	const char *of = limit->function ? " of " : "";
	const char *function = limit->function ? limit->function : "";
	int length;

	if (limit->relative)
		length =
		    asprintf(&text, "%s%s%s at most %g %% above the baseline",
			     limit_metric_names[limit->metric], of, function, 100 * limit->value);
	else
		length = asprintf(&text, "%s%s%s at most %s", limit_metric_names[limit->metric], of,
				  function, amount(bound, sizeof(bound), limit, limit->value));
	return length < 0 ? NULL : text;
}

/* ", 60.0 MiB": what the limit on an increase comes to. */
static char *bound_text(char *buffer, size_t size, const struct limit *limit)
{
	char bound[FIGURE_TEXT];

	if (!limit->relative)
		return text_format(buffer, size, "%s", "");
	return text_format(buffer, size, ", %s", amount(bound, sizeof(bound), limit, limit->bound));
}

/* "an increase of 43 % or more", "68.2 MiB or more" */
static char *seen_text(char *buffer, size_t size, const struct limit *limit, double figure)
{
	double increase = 100 * limit_increase(limit, figure);
	char least[FIGURE_TEXT];

	if (isfinite(increase))
		return text_format(buffer, size, "an increase of %.*f %% or more",
				   increase < 9.95 ? 1 : 0, fmax(0.1, increase));
	return text_format(buffer, size, "%s or more", amount(least, sizeof(least), limit, figure));
}

/* "use -i 16K or -x", which sees enough. */
static char *remedy_text(char *buffer, size_t size, const struct limit *limit)
{
	char interval[FIGURE_TEXT];
	const char *both = limit->relative ? " for both" : "";

	if (!limit->planned)
		return text_format(buffer, size, "record more finely%s", both);
	if (limit->decides == LIMIT_INTERVALS)
		return text_format(buffer, size, "use -x%s", both);
	return text_format(
	    buffer, size, "use -i %s or -x%s",
	    text_size_option(interval, sizeof(interval), limit_interval(limit->decides)), both);
}

/* Whether it is certain, and if not, why. */
static char *sure_text(char *buffer, size_t size, const struct limit *limit)
{
	char seen[128], remedy[64];

	if (limit->undecided)
		return text_format(buffer, size, "; not decided: this recording sees %s; %s",
				   seen_text(seen, sizeof(seen), limit, limit->sees_from),
				   remedy_text(remedy, sizeof(remedy), limit));
	return text_format(buffer, size, "%s",
			   limit->blind	    ? "; not certain: the file does not say how sure it is"
			   : limit->certain ? ""
			   : limit->exceeded
			       ? "; not certain: it may be chance"
			       : "; not certain: the limit lies within the 95 % interval");
}

/* What was found, by how much that is too much, and whether it is certain. */
static char *limit_verdict_text(const struct report *r, const struct limit *limit)
{
	char found[128], by[FIGURE_TEXT], sure[256], *text = NULL;

	found_text(found, sizeof(found), r, limit, &limit->found);
	if (limit->exceeded)
		amount(by, sizeof(by), limit, limit->excess);
	if (asprintf(&text, "%s%s%s%s%s", found, limit->exceeded ? ", too much by " : "",
		     limit->exceeded ? by : "",
		     limit->function && !limit->found.samples ? "; nothing on a stack matches" : "",
		     sure_text(sure, sizeof(sure), limit)) < 0)
		return NULL;
	return text;
}

/* What else would have passed, because of the errors of sampled traces; "" when nothing. */
static char *sight_text(char *buffer, size_t size, const struct limit *limit)
{
	double increase = 100 * limit_increase(limit, limit->certain_from);
	char least[FIGURE_TEXT];

	if (limit->exceeded || limit->undecided || limit->blind ||
	    !(limit->certain_from > limit->bound))
		return text_format(buffer, size, "%s", "");
	if (isfinite(increase))
		return text_format(buffer, size,
				   "An increase below about %.*f %% would not have failed; record "
				   "with a smaller --interval to see less.",
				   increase < 9.95 ? 1 : 0, fmax(0.1, increase));
	return text_format(buffer, size,
			   "Less than about %s would not have failed; record with a smaller "
			   "--interval to see less.",
			   amount(least, sizeof(least), limit, limit->certain_from));
}

/* Names are as short as the line, in the JUnit file too; JSON has them whole. */
static void print_plain_stack(FILE *to, const struct output *o, const struct mayfly_row *row)
{
	struct output plain = *o;

	plain.colour = false;
	write_stack(to, &plain, row->stack, row->stack_length, STACK_DEPTH);
}

/* "12.3 MiB +-18 %", "+2.1 MiB, now 12.3 MiB +-18 %" */
static char *guilt_title(char *buffer, size_t size, const struct report *r,
			 const struct limit *limit, const struct guilt *g)
{
	char figure[128], change[FIGURE_TEXT];
	const char *blocks = "";

	found_text(figure, sizeof(figure), r, limit, &g->row->self);
	if (limit->metric == LIMIT_BLOCKS)
		blocks = strcmp(figure, "1") == 0 ? " block" : " blocks";
	if (g->change > 0)
		return text_format(buffer, size, "+%s, now %s%s",
				   amount(change, sizeof(change), limit, g->change), figure,
				   blocks);
	return text_format(buffer, size, "%s%s", figure, blocks);
}

static void print_guilt(const struct report *r, const struct limit *limit)
{
	char title[256];

	for (size_t i = 0; i < limit->guilty; i++) {
		printf("%3zu. %s\n", i + 1,
		       guilt_title(title, sizeof(title), r, limit, &limit->guilt[i]));
		print_plain_stack(stdout, &r->out, limit->guilt[i].row);
	}
}

static void print_limit(const struct report *r, const struct limit *limit, bool fails)
{
	char *name = name_limit(limit), *verdict = limit_verdict_text(r, limit);
	char bound[FIGURE_TEXT + 2], sight[256];

	print_styled(&r->out, fails ? STYLE_MORE : STYLE_LESS,
		     fails		? "FAIL"
		     : limit->undecided ? "ok? "
					: "ok  ");
	printf(" %s%s (%s): %s\n", name ? name : "", bound_text(bound, sizeof(bound), limit),
	       limit->where, verdict ? verdict : "");
	if (*sight_text(sight, sizeof(sight), limit))
		printf("     %s\n", sight);
	print_guilt(r, limit);
	free(name);
	free(verdict);
}

static bool limit_fails(const struct limits *limits, const struct limit *limit)
{
	return limit->exceeded || (limit->undecided && limits->undecided_fails);
}

void check_print_text(const struct report *r, const struct limits *limits)
{
	for (size_t i = 0; i < limits->count; i++)
		print_limit(r, &limits->item[i], limit_fails(limits, &limits->item[i]));
	for (size_t i = 0; i < limits->count; i++)
		if (limits->item[i].metric == LIMIT_LEAKED) {
			print_python_end(&r->out, r->file.info);
			break;
		}
	print_notes(&r->out, r->file.trace);
	printf("%zu of %zu %s exceeded", limits_exceeded(limits), limits->count,
	       limits->count == 1 ? "limit" : "limits");
	if (limits_undecided(limits))
		printf(", %zu not decided", limits_undecided(limits));
	putchar('\n');
}

void check_print_plan(const struct report *r, const struct limits *limits)
{
	for (size_t i = 0; i < limits->count; i++) {
		const struct limit *limit = &limits->item[i];
		char *name = name_limit(limit), remedy[64], text[128];

		printf("%s (%s): ", name ? name : "", limit->where);
		print_styled(&r->out, STYLE_BOLD, remedy_text(remedy, sizeof(remedy), limit));
		putchar('\n');
		for (size_t l = 0; limit->planned && l < LIMIT_INTERVALS; l++)
			printf("%s %5s sees %s\n", l == limit->decides ? ">" : " ",
			       text_size_option(remedy, sizeof(remedy), limit_interval(l)),
			       seen_text(text, sizeof(text), limit, limit->sees_with[l]));
		free(name);
	}
	print_wrapped(
	    &r->out, STYLE_DIM, 0,
	    "An interval sees what about 97 of 100 recordings with it would find; > marks the "
	    "coarsest one that decides the limit.");
	print_notes(&r->out, r->file.trace);
}

/* Characters that XML 1.0 cannot have become question marks; bytes that are not UTF-8, U+FFFD. */
static void put_xml(FILE *to, const char *text)
{
	while (*text) {
		size_t length = utf8_length(text);

		if (length == 0)
			fputs(UTF8_REPLACEMENT, to);
		else if (*text == '&')
			fputs("&amp;", to);
		else if (*text == '<')
			fputs("&lt;", to);
		else if (*text == '>')
			fputs("&gt;", to);
		else if (*text == '"')
			fputs("&quot;", to);
		else if ((unsigned char)*text < 0x20 && !strchr("\t\n", *text))
			fputc('?', to);
		else
			fwrite(text, 1, length, to);
		text += length ? length : 1;
	}
}

static void put_xml_stack(FILE *to, const struct report *r, const struct mayfly_row *row)
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		return;
	print_plain_stack(stream, &r->out, row);
	if (fclose(stream) == 0)
		put_xml(to, text);
	free(text);
}

/* "peak at most 10 % above the baseline, 60.0 MiB: 63.1 MiB, too much by 3.1 MiB" */
static void put_verdict(FILE *to, const struct report *r, const struct limit *limit,
			const char *name)
{
	char *verdict = limit_verdict_text(r, limit), bound[FIGURE_TEXT + 2];

	put_xml(to, name);
	put_xml(to, bound_text(bound, sizeof(bound), limit));
	fputs(": ", to);
	put_xml(to, verdict ? verdict : "");
	free(verdict);
}

static void put_failure(FILE *to, const struct report *r, const struct limit *limit,
			const char *name)
{
	char title[256];

	fputs("      <failure type=\"limit\" message=\"", to);
	put_verdict(to, r, limit, name);
	fputs("\">", to);
	for (size_t i = 0; i < limit->guilty; i++) {
		fprintf(to, "\n%3zu. ", i + 1);
		put_xml(to, guilt_title(title, sizeof(title), r, limit, &limit->guilt[i]));
		fputc('\n', to);
		put_xml_stack(to, r, limit->guilt[i].row);
	}
	fputs("</failure>\n", to);
}

/* Nothing is on a stack of what is undecided. */
static void put_skipped(FILE *to, const struct report *r, const struct limit *limit,
			const char *name, bool fails)
{
	fputs(fails ? "      <failure type=\"undecided\" message=\"" : "      <skipped message=\"",
	      to);
	put_verdict(to, r, limit, name);
	fputs("\"/>\n", to);
}

static void put_case(FILE *to, const struct report *r, const struct limit *limit,
		     const char *program, bool fails)
{
	char *text = name_limit(limit), sight[256];
	const char *name = text ? text : "";

	fputs("    <testcase classname=\"", to);
	put_xml(to, program);
	fputs("\" name=\"", to);
	put_xml(to, name);
	fputs("\" time=\"0\">\n", to);
	if (limit->exceeded) {
		put_failure(to, r, limit, name);
	} else if (limit->undecided) {
		put_skipped(to, r, limit, name, fails);
	} else {
		fputs("      <system-out>", to);
		put_verdict(to, r, limit, name);
		if (*sight_text(sight, sizeof(sight), limit)) {
			fputc('\n', to);
			put_xml(to, sight);
		}
		fputs("</system-out>\n", to);
	}
	fputs("    </testcase>\n", to);
	free(text);
}

int check_write_junit(const char *path, const struct report *r, const struct limits *limits)
{
	size_t undecided = limits_undecided(limits);
	char program[4096];
	struct target target;

	/* The report of a test run replaces the previous one. */
	if (!target_open(&target, path, true))
		return CLI_FAILED;
	command_line(program, sizeof(program), r->file.info);
	fprintf(target.file, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
	fprintf(target.file,
		"  <testsuite name=\"mayfly check\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" "
		"skipped=\"%zu\" time=\"%.3f\">\n",
		limits->count, limits_exceeded(limits) + (limits->undecided_fails ? undecided : 0),
		limits->undecided_fails ? 0 : undecided, (double)r->file.info->duration_ns / 1e9);
	for (size_t i = 0; i < limits->count; i++)
		put_case(target.file, r, &limits->item[i], program,
			 limit_fails(limits, &limits->item[i]));
	fprintf(target.file, "  </testsuite>\n</testsuites>\n");
	return target_finish(&target) ? CLI_OK : CLI_FAILED;
}
