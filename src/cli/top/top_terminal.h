/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terminal while top runs: lines on it, keys from it. At the end, at an ending signal and at a
 * stop (Ctrl-Z) it is as it was before.
 *
 * Meanwhile standard error goes to a file in memory, so that messages do not garble the screen.
 */
#ifndef MAYFLY_TOP_TERMINAL_H
#define MAYFLY_TOP_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

/* Characters are themselves, one byte each. */
enum screen_key {
	SCREEN_NONE = -1, /* none in the time given */
	SCREEN_UP = 0x1000,
	SCREEN_DOWN,
	SCREEN_PAGE_UP,
	SCREEN_PAGE_DOWN,
	SCREEN_HOME,
	SCREEN_END,
	SCREEN_ENTER,
	SCREEN_BACKSPACE,
	SCREEN_ESCAPE,
	SCREEN_REDRAW,
	SCREEN_OTHER,
};

/* False after a line on stderr: this terminal cannot do it. */
bool screen_begin(bool colour);
void screen_end(void);
void screen_size(size_t *columns, size_t *lines);
/* A line with styles as of top_frame.h; the rest of it is cleared. */
void screen_put(size_t line, const char *text, bool chosen);
/* Shows what was put; the cursor is behind the text of this line, or hidden with SIZE_MAX. */
void screen_show(size_t line);
/* wait_ms < 0: as long as it takes. */
int screen_key(int wait_ms);
/* The last line that was written to standard error since it was asked last; "": none. */
void screen_said(char *text, size_t size);

#endif
