/* SPDX-License-Identifier: Apache-2.0 */
/* The user's web browser. */
#ifndef MAYFLY_BROWSER_H
#define MAYFLY_BROWSER_H

#include <stdbool.h>

/* Whether a browser would appear on the screen in front of the user. */
bool browser_is_here(void);

/* The user works on this machine over ssh. */
bool browser_is_elsewhere(void);

/* Starts it and returns at once; reports on stderr, later, when that failed. */
void browser_open(const char *url);

#endif
