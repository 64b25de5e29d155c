/* SPDX-License-Identifier: Apache-2.0 */
/*
 * top_sites TRACE: prints the ten lines of the program that hold the most memory at its peak, with
 * the interval in which the true figure lies in 95 of 100 traces.
 *
 *	cc -O2 top_sites.c -o top_sites $(pkg-config --cflags --libs mayfly)
 */
#include <mayfly/trace.h>

#include <stdio.h>
#include <stdlib.h>

#define MOST_ROWS 10

/* The whole file, as the library does no input; NULL: it cannot be read, or is empty. */
static void *read_file(const char *path, size_t *size)
{
	FILE *file = fopen(path, "rb");
	char *data = NULL;
	long end;

	if (file && !fseek(file, 0, SEEK_END) && (end = ftell(file)) > 0) {
		rewind(file);
		*size = (size_t)end;
		data = malloc(*size);
		if (data && fread(data, 1, *size, file) != *size) {
			free(data);
			data = NULL;
		}
	}
	if (file)
		fclose(file);
	return data;
}

static void print_sites(const struct mayfly_result *result)
{
	printf("%.0f bytes at the peak, after %.3f s\n", result->total.bytes.estimate,
	       (double)result->time_ns / 1e9);
	for (size_t i = 0; i < result->rows && i < MOST_ROWS; i++) {
		const struct mayfly_row *row = &result->row[i];
		const struct mayfly_figure *bytes = &row->self.bytes;

		if (row->self.samples)
			printf("%12.0f  (%.0f to %.0f)  %s %s:%u\n", bytes->estimate, bytes->low,
			       bytes->high, row->function, row->file, row->line);
	}
}

int main(int argc, char **argv)
{
	size_t size = 0;
	void *data;
	struct mayfly_trace *trace = NULL;
	struct mayfly_result *result;
	struct mayfly_query query;
	int error;

	if (argc != 2) {
		fprintf(stderr, "usage: top_sites TRACE\n");
		return 2;
	}
	data = read_file(argv[1], &size);
	if (!data) {
		fprintf(stderr, "top_sites: cannot read %s\n", argv[1]);
		return 1;
	}
	mayfly_query_defaults(&query); /* all blocks that were live at the peak */
	query.by = MAYFLY_BY_LINE;
	error = mayfly_trace_open(data, size, &trace);
	if (!error)
		error = mayfly_query_run(trace, &query, &result);
	if (error) {
		fprintf(stderr, "top_sites: %s: %s\n", argv[1], mayfly_error_text(error));
	} else {
		print_sites(result);
		mayfly_result_free(result);
	}
	mayfly_trace_close(trace);
	free(data);
	return error != 0;
}
