/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's settings: see settings.c. */
#ifndef MAYFLY_SETTINGS_H
#define MAYFLY_SETTINGS_H

/* Reads the variable MAYFLY into agent_config. What is wrong with it becomes a note. */
void settings_read(void);
/* The same of a text like that variable's value. */
void settings_take(const char *text);

#endif
