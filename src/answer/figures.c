/* SPDX-License-Identifier: Apache-2.0 */
/* How figures read. */
#include "answer/figures.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "answer/text_format.h"

/* Three significant digits, never four: what rounds to 1000 is the caller's next unit. */
static char *three_digits(char *buffer, size_t size, double value)
{
	int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;

	if (value == floor(value) && value < 1000)
		decimals = 0;
	return text_format(buffer, size, "%.*f", decimals, value);
}

static double scaled(double value, double step, size_t last, size_t *unit)
{
	for (*unit = 0; *unit < last && value >= 999.5; ++*unit)
		value /= step;
	return value;
}

static char *with_unit(char *buffer, size_t size, double value, double step,
		       const char *const *units, size_t last)
{
	char digits[FIGURE_TEXT];
	size_t unit;

	if (!(value >= 0)) /* also not a number */
		value = 0;
	value = scaled(value, step, last, &unit);
	if (unit == 0)
		value = round(value);
	three_digits(digits, sizeof(digits), value);
	/* Where a column is aligned, "2.00 MiB" among "2.13 MiB" reads better than "2 MiB". */
	if (unit > 0 && !strchr(digits, '.') && value < 99.95)
		text_format(digits, sizeof(digits), "%.*f", value < 9.995 ? 2 : 1, value);
	return text_format(buffer, size, "%s%s%s", digits, *units[unit] ? " " : "", units[unit]);
}

static const char *const byte_units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

char *text_bytes(char *buffer, size_t size, double bytes)
{
	return with_unit(buffer, size, bytes, 1024, byte_units, 6);
}

char *text_size_option(char *buffer, size_t size, uint64_t bytes)
{
	static const char suffixes[] = "\0KMGT";
	size_t i = 0;

	for (; i < 4 && bytes >= 1024 && bytes % 1024 == 0; i++)
		bytes /= 1024;
	return text_format(buffer, size, "%" PRIu64 "%.1s", bytes, suffixes + i);
}

char *text_count(char *buffer, size_t size, double count)
{
	static const char *const units[] = {"", "k", "M", "G", "T"};

	if (count > 0 && count < 0.5)
		count = 1; /* an estimate of part of a block is still a block that was there */
	return with_unit(buffer, size, count, 1000, units, 4);
}

char *text_duration(char *buffer, size_t size, double ns)
{
	static const char *const units[] = {"ns", "us", "ms", "s"};

	if (ns < 600e9)
		return with_unit(buffer, size, ns, 1000, units, 3);
	if (ns < 7200e9)
		return text_format(buffer, size, "%.0f min", ns / 60e9);
	return text_format(buffer, size, "%.1f h", ns / 3600e9);
}

char *text_percent(char *buffer, size_t size, double part, double whole)
{
	double percent = whole > 0 ? 100 * part / whole : 0;

	if (!(percent > 0))
		return text_format(buffer, size, "0 %%");
	if (percent < 0.095)
		return text_format(buffer, size, "<0.1 %%");
	return text_format(buffer, size, percent < 99.95 ? "%.1f %%" : "%.0f %%", percent);
}

static double half_interval(const struct mayfly_figure *f)
{
	return (f->high - f->low) / 2;
}

enum confidence figure_confidence(const struct mayfly_figure *f, uint64_t samples)
{
	if (!(f->estimate > 0))
		return f->high > 0 ? FIGURE_NOTHING : FIGURE_EXACT;
	if (f->stderror <= 0)
		return FIGURE_EXACT;
	/* Few samples can be sure enough when most of the figure was recorded exactly. */
	if (half_interval(f) <= (samples >= 10 ? 1 : 0.7) * f->estimate)
		return FIGURE_GOOD;
	return samples >= 4 ? FIGURE_RANGE : FIGURE_FEW;
}

typedef char *number_text(char *buffer, size_t size, double number);

static char *text_range(char *buffer, size_t size, number_text *text, double low, double high)
{
	char first[FIGURE_TEXT], second[FIGURE_TEXT];
	char *unit_low, *unit_high;

	text(first, sizeof(first), low);
	text(second, sizeof(second), high);
	unit_low = strchr(first, ' ');
	unit_high = strchr(second, ' ');
	if (unit_low && unit_high && strcmp(unit_low, unit_high) == 0)
		*unit_low = 0;
	return text_format(buffer, size, "%s..%s", first, second);
}

static char *text_value(char *buffer, size_t size, number_text *text, const struct mayfly_figure *f,
			uint64_t samples)
{
	char value[FIGURE_TEXT];

	switch (figure_confidence(f, samples)) {
	case FIGURE_NOTHING:
		text_format(buffer, size, "< %s", text(value, sizeof(value), f->high));
		break;
	case FIGURE_FEW:
		text_format(buffer, size, "<= %s", text(value, sizeof(value), f->high));
		break;
	case FIGURE_RANGE:
		text_range(buffer, size, text, f->low, f->high);
		break;
	case FIGURE_GOOD:
	case FIGURE_EXACT:
		text(buffer, size, f->estimate);
		break;
	}
	return buffer;
}

char *text_figure_value(char *buffer, size_t size, const struct mayfly_figure *f, uint64_t samples)
{
	return text_value(buffer, size, text_bytes, f, samples);
}

char *text_count_value(char *buffer, size_t size, const struct mayfly_figure *f, uint64_t samples)
{
	return text_value(buffer, size, text_count, f, samples);
}

char *text_figure_error(char *buffer, size_t size, bool utf8, const struct mayfly_figure *f,
			uint64_t samples)
{
	double percent;

	buffer[0] = 0;
	if (figure_confidence(f, samples) != FIGURE_GOOD)
		return buffer;
	percent = 100 * half_interval(f) / f->estimate;
	if (percent < 0.05)
		return buffer;
	return text_format(buffer, size, "%s%.*f %%", utf8 ? "±" : "+-", percent < 0.95 ? 1 : 0,
			   percent);
}

char *text_figure(char *buffer, size_t size, bool utf8, const struct mayfly_figure *f,
		  uint64_t samples)
{
	char error[FIGURE_TEXT];

	text_figure_value(buffer, size, f, samples);
	text_figure_error(error, sizeof(error), utf8, f, samples);
	return text_append(buffer, size, "%s%s", *error ? " " : "", error);
}

const char *samples_word(uint64_t samples)
{
	return samples == 1 ? "sample" : "samples";
}

char *text_estimate(char *buffer, size_t size, bool utf8, const struct mayfly_estimate *e)
{
	char text[FIGURE_TEXT];

	if (figure_confidence(&e->bytes, e->samples) != FIGURE_FEW)
		return text_figure(buffer, size, utf8, &e->bytes, e->samples);
	return text_format(buffer, size, "at most %s, %" PRIu64 " %s",
			   text_bytes(text, sizeof(text), e->bytes.high), e->samples,
			   samples_word(e->samples));
}
