/* SPDX-License-Identifier: Apache-2.0 */
/* A library with a variable and a thread-local one that hold what they are given. */
void plugin_hold(void *block);
void plugin_hold_locally(void *block);

void *volatile plugin_variable;
static _Thread_local void *volatile plugin_local;

void plugin_hold(void *block)
{
	plugin_variable = block;
}

void plugin_hold_locally(void *block)
{
	plugin_local = block;
}
