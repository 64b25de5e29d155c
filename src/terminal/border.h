/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The border to the terminal: whatever is printed to stdout and stderr passes through it.
 *
 *	printf() ──> stdout ──> border.c: what a terminal would obey becomes '?' ──> 1
 *	border_sign() ──> a sign that only border.c can make ──────────────────────> an escape sequence
 *
 * Names come from untrusted files, so no command has to think of this, and none can forget it.
 * Newlines and tabs pass: a name that must stay on its line needs text_clean().
 */
#ifndef MAYFLY_BORDER_H
#define MAYFLY_BORDER_H

#include <stdio.h>

/* In the order of enum style (output.h), then others. */
enum border_sign {
	SIGN_PLAIN, /* ends the styles */
	SIGN_BOLD,
	SIGN_DIM,
	SIGN_CYAN,
	SIGN_YELLOW,
	SIGN_RED,
	SIGN_GREEN,
	SIGN_CLEAR_LINE,
	BORDER_SIGNS,
};

/* At the beginning of main(). */
void border_begin(void);

/* An escape sequence of our own, to stdout or stderr. */
void border_sign(FILE *to, enum border_sign sign);

/* A line of stderr in place of the one before, no longer than the terminal is wide: a line that wraps could not be
 * taken back. One write, so that nothing of another program comes in between. */
void border_replace_line(const char *text);

/* For files and JSON on standard output, whose bytes must stay: stdout itself if that is a terminal,
 * otherwise a stream that changes nothing. */
FILE *border_data(void);

/* For what draws on the terminal itself. */
FILE *border_terminal(void);

/* Writes what is left; an errno. */
int border_flush(void);

#endif
