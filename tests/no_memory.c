/* SPDX-License-Identifier: Apache-2.0 */
/*
 * no_memory FILE [BESIDE]: makes a trace of a file of another tool (with BESIDE, the file that
 * belongs to it), or of a spool and its part, again and again: the first allocation fails, or it and
 * all later ones do, then the second, and so on, in steps that become larger, until none fails. Each
 * time there must be a trace, or the error that says that memory is missing, and all memory must be
 * freed. Prints how many times, and what was wrong; exit status 1 if anything was.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/import/importer.h"
#include "record/finalise.h"
#include "record/rejoin.h"

/* ---- an allocator that fails ---- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void __libc_free(void *block);

static unsigned long allocations, fail_at; /* 0: none fails */
static bool fail_on;			   /* the later ones fail, too */
static long blocks;

static bool fails(void)
{
	allocations++;
	if (!fail_at || allocations < fail_at || (allocations > fail_at && !fail_on))
		return false;
	errno = ENOMEM;
	return true;
}

static void *counted(void *block)
{
	blocks += block != NULL;
	return block;
}

void *malloc(size_t size)
{
	return fails() ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t count, size_t size)
{
	return fails() ? NULL : counted(__libc_calloc(count, size));
}

void *realloc(void *old, size_t size)
{
	if (fails())
		return NULL;
	return old ? __libc_realloc(old, size) : counted(__libc_realloc(old, size));
}

void *reallocarray(void *old, size_t count, size_t size)
{
	size_t bytes;

	return __builtin_mul_overflow(count, size, &bytes) ? NULL : realloc(old, bytes);
}

void free(void *block)
{
	blocks -= block != NULL;
	__libc_free(block);
}

/* ---- one time ---- */

struct input {
	const char *path;
	struct mapped_file file, beside;
	const struct import_format *format; /* NULL: a spool */
};

static int make_trace(const struct input *input, struct finalised *made)
{
	const struct finalise_options options = {.path = input->path, .no_symbols = true};
	struct trace_buffer buffer = {0};
	struct import in = {
	    .data = input->file.data,
	    .size = input->file.size,
	    .options = {.beside = input->beside.data, .beside_size = input->beside.size},
	    .sink = trace_buffer_sink,
	    .context = &buffer,
	};
	int error;

	if (!input->format)
		return finalise_spool(in.data, in.size, &options, made);
	error = import_file(&in, input->format);
	*made = (struct finalised){buffer.bytes, buffer.used};
	return error;
}

/* "" or what is wrong. *failed: an allocation did. */
static const char *run_once(const struct input *input, bool *failed)
{
	struct finalised made = {0};
	const long before = blocks;
	struct mayfly_trace *trace;
	const char *wrong = "";
	int error;

	allocations = 0;
	error = make_trace(input, &made);
	*failed = allocations >= fail_at;
	fail_at = 0;
	if (error && (error != MAYFLY_E_MEMORY || !*failed))
		wrong = mayfly_error_text(error);
	else if (!error && mayfly_trace_open(made.bytes, made.size, &trace))
		wrong = "the trace cannot be read";
	else if (!error)
		mayfly_trace_close(trace);
	free(made.bytes);
	return *wrong || blocks == before ? wrong : "memory is not freed";
}

int main(int argc, char **argv)
{
	struct input input = {.path = argv[1]};
	unsigned long times = 0, wrongs = 0;
	bool failed = true;

	if (argc < 2 || !map_whole_file(argv[1], &input.file) ||
	    (argc > 2 && !map_whole_file(argv[2], &input.beside)))
		return 2;
	input.format = import_recognise(input.file.data, input.file.size);
	for (unsigned long at = 1; failed; at += 1 + at / 30)
		for (int way = 0; way < 2; way++) {
			const char *wrong;

			fail_at = at;
			fail_on = way;
			wrong = run_once(&input, &failed);
			times++;
			if (*wrong && ++wrongs <= 20)
				fprintf(stderr, "allocation %lu%s: %s\n", at,
					way ? " and later ones" : "", wrong);
		}
	printf("%lu times\n", times);
	return wrongs > 0;
}
