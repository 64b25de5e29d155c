/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the things of a trace are called: frames, locations, programs, endings; and which frames are
 * not worth showing. Text functions write into the caller's buffer and return it.
 */
#ifndef MAYFLY_PLACES_H
#define MAYFLY_PLACES_H

#include "cli/options.h"
#include "cli/output.h"

/* "function", or "module+0x1234" when it is unknown, or "[stack cut]", "[12 frames left out]". */
char *place_name(char *buffer, size_t size, const struct mayfly_place *place);
char *row_name(char *buffer, size_t size, const struct mayfly_row *row);
char *frame_name(char *buffer, size_t size, const struct mayfly_trace *trace,
		 const struct mayfly_frame *frame, const struct mayfly_location *location);

/* "folder/file.c:12", the whole path when `wide`; the module when the file is unknown. */
char *location_text(char *buffer, size_t size, const char *file, uint32_t line, const char *module,
		    bool wide);

char *command_line(char *buffer, size_t size, const struct mayfly_info *info);
char *start_text(char *buffer, size_t size, const struct mayfly_info *info);
char *ending_text(char *buffer, size_t size, const struct mayfly_info *info);

/* Whether each block counts for itself, so that figures have no error. */
const char *heap_name(uint32_t heap); /* enum mayfly_heap; as options say it */
bool trace_is_exact(const struct mayfly_info *info);
/* Whether no block of it is of malloc: a file of Memtrace's. */
bool trace_is_ocaml_alone(const struct mayfly_info *info);
/* Whether it has blocks of malloc that OCaml's blocks lie in. */
bool trace_overlaps(const struct mayfly_info *info);
/* Whether it has blocks of malloc that those of a pool of the program's lie in. */
bool trace_has_pools(const struct mayfly_info *info);
/* For traces with memory that is there twice: what is summed. twice: all blocks of both. */
void print_overlap(const struct output *o, const struct mayfly_info *info, bool twice);
/* How many intervals a trace of snapshots has counters for; 0 of other traces. */
size_t trace_snapshots(const struct mayfly_trace *trace);
/* "1 byte in 512 KB", and how far the interval was raised. */
char *interval_text(char *buffer, size_t size, const struct mayfly_trace *trace);
/* The same for traces that were converted and lack something. */
char *mode_text(char *buffer, size_t size, const struct mayfly_trace *trace);
const char *samples_word(uint64_t samples); /* "sample" or "samples" */

/* Shortens a line that is no name: cleaned, its end left out. */
char *line_fit(char *buffer, size_t size, const struct output *o, const char *text, size_t columns);

/* What lowers the quality of a trace, a field each; nothing when there is nothing to say. */
void print_notes(const struct output *o, const struct mayfly_info *info);

/* Code addresses on stacks that lie in a module, and those of them with a function name. */
struct module_frames {
	size_t frames, named;
};

/* An array with an item for each module, to be freed; NULL when out of memory. */
struct module_frames *count_module_frames(const struct mayfly_trace *trace);

/* How many distinct stacks allocated. */
size_t trace_stacks(const struct mayfly_trace *trace);

#define STACK_INDENT 5
/* Prints a stack, leaf first, a line for each place; only the first `depth`, and how many more
 * there are; 0: all. */
void write_stack(FILE *to, const struct output *o, const struct mayfly_place *stack, size_t length,
		 size_t depth);
/* On standard output. */
void print_stack(const struct output *o, const struct mayfly_place *stack, size_t length,
		 size_t depth);

/* Frames that are left out of all stacks: those that match the user's pattern and, unless
 * all_frames, those of the allocator's interface (operator new, std::allocator, malloc). */
struct hidden_frames {
	struct pattern *pattern;
	bool all_frames;
};

struct mayfly_match hidden_frames_match(struct hidden_frames *hidden);

#endif
