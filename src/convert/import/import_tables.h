/* SPDX-License-Identifier: Apache-2.0 */
/* What all readers of foreign files need, so that each is only its parser. Errors stick: functions
 * return nothing, and loops end when import_failed(). */
#ifndef MAYFLY_IMPORT_TABLES_H
#define MAYFLY_IMPORT_TABLES_H

#include <stddef.h>
#include <stdint.h>

#include "convert/import/importer.h"
#include "trace/write/recording.h"

/* What import_run() does before and after a reader, for others that make a trace of rows. */
void import_begin(struct import *in);
int import_end(struct import *in);

/* Notes the first error; 0 is none. */
void import_fail(struct import *in, int error);
static inline bool import_failed(const struct import *in)
{
	return in->error || in->tables->failed;
}

/* Takes memory from the budget: MAYFLY_E_TOO_LARGE when it is used up. */
void import_spend(struct import *in, uint64_t bytes);
/* Makes room for one more item; array: the address of the array's pointer. New memory is zero. */
bool import_grow(struct import *in, void *array, size_t used, size_t *room, size_t item);
/* Adds an item, the last argument, to an array of `count` ones. */
#define IMPORT_APPEND(in, array, count, room, ...)                                                 \
	do                                                                                         \
		if (import_grow(in, &(array), count, &(room), sizeof(*(array))))                   \
			(array)[(count)++] = __VA_ARGS__;                                          \
	while (0)

/* Reads all of the file into memory, unpacked: NULL, and no size, after an error. The caller frees it.
 * The report says if the file is cut off. */
uint8_t *import_unpack(struct import *in, size_t *size);

/* Gives each line of the unpacked file, zero-terminated, to take(), until one is impossible, of which
 * take() returns false: the report tells its number then. */
typedef bool import_take_line(void *context, char *line, size_t length);
void import_lines(struct import *in, import_take_line *take, void *context);

/* Adds the words of a command line, which are separated by spaces; `text` is cut into them. */
void import_command(struct import *in, char *text);

/* Adds a module of which path, start, end and build-id are set, and what file offset is mapped at its
 * start. Programs that are not relocated lie low; there addresses are those of the file. */
uint32_t import_module(struct import *in, struct recording_module m, uint64_t offset);
/* The frame of an address in a module, or in RECORDING_NONE. */
uint32_t import_frame(struct import *in, uint32_t module, uint64_t address);

/* Begins the events of an exact trace. */
void import_begin_events(struct import *in);

/* Adds a function to a frame; the earlier ones are inlined into it. No other frame may get one in
 * between. */
void import_function(struct recording *t, uint32_t frame, const struct recording_location *place);
/* Counts the frames with a name, from the file or from the programs on this machine. */
void import_count_named(struct recording *t);
/* What the report says of damage; only the first counts. */
void import_problem(struct import *in, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Sets the note, and whether the trace is complete: it is when the report has no problem. */
void import_describe(struct import *in, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same for a file that has events and no blocks, with all else that is known without blocks, but
 * the pid. what: the kind of file, for the note. */
void import_describe_events(struct import *in, const char *what, uint64_t events,
			    int64_t duration_ns);

#endif
