/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options, one row each, and what takes their values. A command's table (cli/option_table.h) and the
 * parameters of the page's requests are made of them.
 *
 *	struct settings { const char *output; bool force; uint64_t size; };
 *
 *	static const struct option_row rows[] = {
 *	    {"output", 'o', "FILE", OPTION_TEXT(struct settings, output), .words = OPTION_FILES,
 *	     .help = "write to FILE"},
 *	    {"force", .help = "replace FILE", OPTION_FLAG(struct settings, force)},
 *	    {"size", .argument = "BYTES", OPTION_BYTES(struct settings, size), .least = 1,
 *	     .help = "..."},
 *	    OPTION_END,
 *	};
 */
#ifndef MAYFLY_OPTION_ROW_H
#define MAYFLY_OPTION_ROW_H

#include <stddef.h>
#include <stdint.h>

#include "question/option_values.h"

struct option_row;

/* An option with its value. */
struct given {
	const struct option_row *row;
	const char *option; /* as the user knows it, "--top", for messages */
	const char *value;  /* NULL: without one */
	struct error_line *error_line;
};

/* Stores a value. `to` is the command's struct plus row->at. False: *given->error_line says why, or
 * its text is empty and a line on stderr has said it. */
typedef bool option_take(const struct given *given, void *to);

struct option_row {
	const char *name;     /* NULL: a heading in the help, a group, or the end of the table */
	char letter;	      /* 0: none */
	const char *argument; /* "FILE"; NULL: takes no value; "[=RATE]": the value may be absent */
	option_take *take;
	size_t at;
	size_t given; /* 1 + where a bool is set when the option is given; 0: nowhere */
	const char *const *choices; /* of OPTION_CHOICE */
	uint64_t least, most;	    /* of bytes, times (ns) and counts; most = 0: no limit */
	const char *words;	  /* for the completion: "peak end", OPTION_FILES; NULL: nothing */
	void (*list_words)(void); /* when the words are not known at compile time */
	const char *help;
	const struct option_row *group; /* the rows of a struct that lies at `at` */
	bool rare;			/* only --help --all lists it */
	/* It exists no more: what there is instead. A line on stderr says it, and the command goes on;
	 * `take` may be NULL. Neither help nor completion has it. */
	const char *gone;
};

#define OPTION_FILES   "@files"
#define OPTION_FOLDERS "@folders"
#define OPTION_LIST    "@list" /* before the words: any number of them, with commas between */

#define OPTION_AT(kind, type, field)                                                               \
	(offsetof(type, field) +                                                                   \
	 0 * sizeof(                                                                               \
		 char[__builtin_types_compatible_p(__typeof__(((type *)0)->field), kind) ? 1       \
											 : -1]))

#define OPTION_FLAG(type, field) .take = option_take_flag, .at = OPTION_AT(bool, type, field)
#define OPTION_TEXT(type, field)                                                                   \
	.take = option_take_text, .at = OPTION_AT(const char *, type, field)
/* A text that is not empty. */
#define OPTION_FILE(type, field)                                                                   \
	.take = option_take_file, .at = OPTION_AT(const char *, type, field)
#define OPTION_BYTES(type, field) .take = option_take_bytes, .at = OPTION_AT(uint64_t, type, field)
#define OPTION_TIME(type, field)  .take = option_take_time, .at = OPTION_AT(int64_t, type, field)
#define OPTION_COUNT(type, field) .take = option_take_count, .at = OPTION_AT(size_t, type, field)
#define OPTION_PATTERN(type, field)                                                                \
	.take = option_take_pattern, .at = OPTION_AT(struct pattern, type, field)
/* Stores the index of the name in a list that ends with NULL, in an int or an enum. */
#define OPTION_CHOICE(list, type, field)                                                           \
	.take = option_take_choice, .choices = list,                                               \
	.at = offsetof(type, field) +                                                              \
	      0 * sizeof(char[sizeof(((type *)0)->field) == sizeof(int) ? 1 : -1])
/* A function of the command's own, which gets a field or the whole struct. */
#define OPTION_IN(function, kind, type, field) .take = function, .at = OPTION_AT(kind, type, field)
#define OPTION_OWN(function)		       .take = function

#define OPTION_GIVEN(type, field) .given = 1 + OPTION_AT(bool, type, field)
#define OPTION_HEADING(text)                                                                       \
	{                                                                                          \
		.help = text                                                                       \
	}
#define OPTION_GROUP(rows, type, field)                                                            \
	{                                                                                          \
		.group = rows, .at = offsetof(type, field)                                         \
	}
#define OPTION_END                                                                                 \
	{                                                                                          \
		0                                                                                  \
	}

/* Rows that many commands have. */
#define OPTION_WIDE(type, field)                                                                   \
	{                                                                                          \
		"wide", .help = "print names in full, in lines of any length",                     \
			OPTION_FLAG(type, field)                                                   \
	}
#define OPTION_JSON(type, field)                                                                   \
	{                                                                                          \
		"json", .help = "print one JSON object", OPTION_FLAG(type, field)                  \
	}

option_take option_take_flag, option_take_text, option_take_file, option_take_bytes,
    option_take_time, option_take_count, option_take_pattern, option_take_choice;

/* A row and where the struct that it stores into lies in the command's; headings and the rows of
 * groups, too. */
struct flat_row {
	const struct option_row *row;
	size_t base;
};

#define MOST_OPTIONS 80

/* Adds the rows and those of their groups to flat[], which has room for MOST_OPTIONS; returns the
 * number of all. */
size_t option_rows_flatten(const struct option_row *rows, size_t base, struct flat_row *flat,
			   size_t used);
/* Has the row take a value; said: the option as the user knows it. */
bool option_row_take(const struct flat_row *f, const char *said, const char *value, void *into,
		     struct error_line *c);

/* Takes a value that is not an option on the command line, so `given` is not set. False: it is none
 * of the rows (then the text of *c is empty), or the value is wrong. */
bool option_rows_take(const struct option_row *rows, const char *name, const char *said,
		      const char *value, void *into, struct error_line *c);

#endif
