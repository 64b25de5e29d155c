/* SPDX-License-Identifier: Apache-2.0 */
/* Coverage and bias as tables and as JSON: see coverage_print.h. */
#include "coverage_print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

double coverage_percent(double part, double whole)
{
	return whole > 0 ? 100 * part / whole : NAN;
}

/* ---- text ---- */

/* With fewer rows a scenario's percentage is mostly chance. */
#define WORST_ROWS 100

static void print_worst(const struct coverage_sheet *sheet, unsigned metric, unsigned figure,
			unsigned class)
{
	double worst = 101;
	const char *name = "";

	for (size_t i = 0; i < coverage_scenario_count; i++) {
		const struct coverage_cell *c = &sheet[i].cell[metric][figure][class];

		if (c->rows >= WORST_ROWS && coverage_percent(c->covered, c->rows) < worst) {
			worst = coverage_percent(c->covered, c->rows);
			name = coverage_scenarios[i].name;
		}
	}
	if (*name)
		printf("   %5.1f %s", worst, name);
}

static void print_cells(const struct coverage_sheet *all, const struct coverage_sheet *each)
{
	printf("%-9s %-6s %-6s %9s %7s %6s %6s %7s   worst scenario\n", "metric", "figure", "n",
	       "rows", "covered", "below", "above", "var/err");
	for (unsigned m = 0; m < COVERAGE_METRICS; m++)
		for (unsigned f = 0; f < COVERAGE_FIGURES; f++)
			for (unsigned k = 0; k < COVERAGE_CLASSES; k++) {
				const struct coverage_cell *c = &all->cell[m][f][k];

				if (c->rows == 0)
					continue;
				printf("%-9s %-6s %-6s %9.0f %7.1f %6.1f %6.1f",
				       coverage_metric_names[m], coverage_figure_names[f],
				       coverage_class_names[k], c->rows,
				       coverage_percent(c->covered, c->rows),
				       coverage_percent(c->below, c->rows),
				       coverage_percent(c->above, c->rows));
				if (c->ratios > 0)
					printf(" %7.2f", exp(c->log_ratio / c->ratios));
				else
					printf(" %7s", "");
				print_worst(each, m, f, k);
				printf("\n");
			}
}

static void print_bias(const struct coverage_sheet *all)
{
	printf("\n%-9s %-6s %6s %7s %7s   %7s %7s %9s\n", "bias", "figure", "rows", "mean z",
	       "rms z", "total z", "rms z", "total off");
	for (unsigned m = 0; m < COVERAGE_METRICS; m++)
		for (unsigned f = 0; f < COVERAGE_FIGURES; f++) {
			const struct coverage_bias *rows = &all->bias[m][f][0];
			const struct coverage_bias *total = &all->bias[m][f][1];

			if (rows->rows + total->rows == 0)
				continue;
			printf("%-9s %-6s %6.0f %7.2f %7.2f   %7.2f %7.2f %8.2f%%\n",
			       coverage_metric_names[m], coverage_figure_names[f], rows->rows,
			       rows->z / rows->rows, sqrt(rows->square / rows->rows),
			       total->z / total->rows, sqrt(total->square / total->rows),
			       100 * all->off[m][f] / all->scenarios);
		}
}

struct place {
	double covered, rows;
	size_t scenario;
	unsigned metric, figure, class;
};

static int by_covered(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return (x->covered > y->covered) - (x->covered < y->covered);
}

/* The lowest percentages of single scenarios. */
static void print_lowest(const struct coverage_sheet *sheet, unsigned most)
{
	static struct place
	    place[COVERAGE_MOST * COVERAGE_METRICS * COVERAGE_FIGURES * COVERAGE_CLASSES];
	size_t places = 0;

	for (size_t i = 0; i < coverage_scenario_count; i++)
		for (unsigned m = 0; m < COVERAGE_METRICS; m++)
			for (unsigned f = 0; f < COVERAGE_FIGURES && m != COVERAGE_PEAK; f++)
				for (unsigned k = 0; k < COVERAGE_CLASSES; k++) {
					const struct coverage_cell *c = &sheet[i].cell[m][f][k];

					if (c->rows >= WORST_ROWS)
						place[places++] = (struct place){
						    coverage_percent(c->covered, c->rows),
						    c->rows,
						    i,
						    m,
						    f,
						    k};
				}
	qsort(place, places, sizeof(*place), by_covered);
	printf("\nlowest, of scenarios with %d rows and more\n", WORST_ROWS);
	for (size_t i = 0; i < places && i < most; i++)
		printf("%6.1f  %-12s %-9s %-6s %-6s %7.0f rows\n", place[i].covered,
		       coverage_scenarios[place[i].scenario].name,
		       coverage_metric_names[place[i].metric],
		       coverage_figure_names[place[i].figure], coverage_class_names[place[i].class],
		       place[i].rows);
}

/* All metrics but the peak at its true moment; and the peak's total. */
static void print_scenarios(const struct coverage_sheet *sheet)
{
	printf("\n%-12s rows covered, bytes / blocks, by number of samples; peak: its total\n", "");
	printf("%-12s", "scenario");
	for (unsigned k = 0; k < COVERAGE_CLASSES; k++)
		printf(" %11s", coverage_class_names[k]);
	printf(" %7s %7s\n", "peak", "off");
	for (size_t i = 0; i < coverage_scenario_count; i++) {
		const struct coverage_cell *peak =
		    &sheet[i].cell[COVERAGE_PEAK][COVERAGE_BYTES][COVERAGE_WHOLE];

		if (sheet[i].scenarios == 0)
			continue;
		printf("%-12s", coverage_scenarios[i].name);
		for (unsigned k = 0; k < COVERAGE_CLASSES; k++) {
			struct coverage_cell sum[COVERAGE_FIGURES] = {{0}};

			for (unsigned m = 0; m < COVERAGE_METRICS; m++)
				for (unsigned f = 0; f < COVERAGE_FIGURES && m != COVERAGE_PEAK;
				     f++) {
					sum[f].rows += sheet[i].cell[m][f][k].rows;
					sum[f].covered += sheet[i].cell[m][f][k].covered;
				}
			if (sum[0].rows > 0)
				printf(" %5.1f/%5.1f",
				       coverage_percent(sum[0].covered, sum[0].rows),
				       coverage_percent(sum[1].covered, sum[1].rows));
			else
				printf(" %11s", "-");
		}
		printf(" %7.1f %+6.1f%%\n", coverage_percent(peak->covered, peak->rows),
		       100 * sheet[i].off[COVERAGE_PEAK][COVERAGE_BYTES]);
	}
}

void coverage_print(const struct coverage_sheet *all, const struct coverage_sheet *each,
		    unsigned lowest)
{
	print_cells(all, each);
	print_bias(all);
	print_scenarios(each);
	print_lowest(each, lowest);
}

/* ---- JSON ---- */

static void json_number(const char *name, double value, const char *end)
{
	printf("\"%s\": ", name);
	if (isfinite(value))
		printf("%.9g%s", value, end);
	else
		printf("null%s", end);
}

static void json_metric(const struct coverage_sheet *sheet, unsigned m, unsigned f)
{
	const char *separator = "";

	printf("{\"metric\": \"%s\", \"figure\": \"%s\", ", coverage_metric_names[m],
	       coverage_figure_names[f]);
	json_number("off", sheet->off[m][f], ", ");
	json_number("least", sheet->least[m][f], ", ");
	for (unsigned k = 0; k < 2; k++) {
		printf("\"%s\": {", k ? "bias_total" : "bias_rows");
		json_number("rows", sheet->bias[m][f][k].rows, ", ");
		json_number("z", sheet->bias[m][f][k].z, ", ");
		json_number("square", sheet->bias[m][f][k].square, "}, ");
	}
	printf("\"classes\": {");
	for (unsigned k = 0; k < COVERAGE_CLASSES; k++) {
		const struct coverage_cell *c = &sheet->cell[m][f][k];

		printf("%s\"%s\": {", separator, coverage_class_names[k]);
		json_number("rows", c->rows, ", ");
		json_number("covered", c->covered, ", ");
		json_number("below", c->below, ", ");
		json_number("above", c->above, ", ");
		json_number("log_ratio", c->log_ratio, ", ");
		json_number("ratios", c->ratios, "}");
		separator = ", ";
	}
	printf("}}");
}

void coverage_json(const struct coverage_sheet *sheet)
{
	printf("\"figures\": [");
	for (unsigned m = 0; m < COVERAGE_METRICS; m++)
		for (unsigned f = 0; f < COVERAGE_FIGURES; f++) {
			printf("%s", m || f ? ",\n  " : "\n  ");
			json_metric(sheet, m, f);
		}
	printf("]");
}
