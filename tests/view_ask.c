/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view_ask TRACE [--base TRACE] REQUEST...: prints each answer as the page gets it, after a line
 * with its status, type and size.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/export/exporter.h"
#include "view/view.h"

static void *load(const char *path, struct mayfly_trace **trace)
{
	FILE *file = fopen(path, "rb");
	char *data = NULL;
	size_t size = 0, got;

	do {
		data = realloc(data, size + 65536);
		got = file && data ? fread(data + size, 1, 65536, file) : 0;
		size += got;
	} while (got);
	if (!file || mayfly_trace_open(data, size, trace) != 0) {
		fprintf(stderr, "view_ask: cannot open %s\n", path);
		exit(1);
	}
	fclose(file);
	return data;
}

int main(int argc, char **argv)
{
	struct mayfly_trace *trace = NULL, *base = NULL;
	struct view view = {0};
	void *data, *base_data = NULL;
	const char *base_path = NULL;
	int i = 2;

	if (argc < 2)
		return 2;
	data = load(argv[1], &trace);
	if (argc > 3 && strcmp(argv[2], "--base") == 0) {
		base_path = argv[3];
		base_data = load(base_path, &base);
		i = 4;
	}
	view = (struct view){.trace = trace,
			     .base = base,
			     .path = argv[1],
			     .base_path = base_path,
			     .exports = export_formats()};
	for (; i < argc; i++) {
		struct view_answer a;

		view_ask(&view, argv[i], &a);
		printf("%d %s %zu\n", (int)a.status, a.type, a.bytes.used);
		fwrite(a.bytes.at, 1, a.bytes.used, stdout);
		putchar('\n');
		bytes_free(&a.bytes);
	}
	mayfly_trace_close(trace);
	if (base)
		mayfly_trace_close(base);
	free(data);
	free(base_data);
	return 0;
}
