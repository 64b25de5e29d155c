/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of the things of a trace: frames, locations, programs, heaps, threads, types of events. Text
 * functions write into the caller's buffer and return it.
 */
#ifndef MAYFLY_TRACE_NAMES_H
#define MAYFLY_TRACE_NAMES_H

#include <mayfly/trace.h>

#define NAME_BYTES 65536 /* for one name, which may have many KB in C++; a longer one is cut */

/* The function, or what stands for one: "module+0x1234", "[stack cut]", "[12 frames left out]".
 * Returns the function itself, or text that it may have written into the buffer. */
const char *frame_shown_name(char *buffer, size_t size, uint32_t kind, const char *function,
			     const char *module, uint64_t address);
/* The same for a place, and for a row by function or line, without a copy of a long name. */
#define UNKNOWN_FUNCTION 256 /* bytes of the buffer: a name made of a module and an address */
const char *place_function(char *buffer, size_t size, const struct mayfly_place *place);
const char *row_function(char *buffer, size_t size, const struct mayfly_row *row);
/* The same, copied, of a place, of a row (whose module may be all that is known), and of a frame. */
char *place_name(char *buffer, size_t size, const struct mayfly_place *place);
char *row_name(char *buffer, size_t size, const struct mayfly_row *row);
char *frame_name(char *buffer, size_t size, const struct mayfly_trace *trace,
		 const struct mayfly_frame *frame, const struct mayfly_location *location);

/* "folder/file.c:12", the whole path when `wide`; the module when the file is unknown. */
char *location_text(char *buffer, size_t size, const char *file, uint32_t line, const char *module,
		    bool wide);

const char *path_base(const char *path);

char *command_line(char *buffer, size_t size, const struct mayfly_info *info);
const char *holder_kind_word(enum mayfly_holder_kind kind); /* for JSON */
const char *heap_name(uint32_t heap); /* enum mayfly_heap; as options say it */
/* "worker (4711)"; "domain 1" of a line that is no thread of the kernel */
char *thread_name(char *buffer, size_t size, const struct mayfly_trace *trace, uint32_t index);

/* A counter's value in its unit. */
char *track_number(char *buffer, size_t size, const char *unit, double value);
/* "parse", with the unit when track_number() does not say it: "queue (requests)". */
char *track_type_name(char *buffer, size_t size, const struct mayfly_track_type *type);

#endif
