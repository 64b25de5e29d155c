/* SPDX-License-Identifier: Apache-2.0 */
/* How commands use a terminal: colour, and a pager for what is longer than the screen. */
#ifndef MAYFLY_TERMINAL_H
#define MAYFLY_TERMINAL_H

#include "question/option_row.h"

/* --color and --no-pager; they belong to no struct. */
extern const struct option_row terminal_rows[];

/* Whether standard output gets colours: --color, else a terminal without NO_COLOR. */
bool terminal_has_colour(void);

/* From here on standard output goes through the pager, if it is a terminal and a pager is wanted. To
 * be called when there is something to show, so that errors before that need none. */
void pager_start(void);
/* At the end of a command with this exit status: returns mayfly's when the user has left the pager.
 */
int pager_finish(int status);

#endif
