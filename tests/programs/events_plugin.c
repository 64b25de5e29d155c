/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin with types and labels of its own, whose names are gone when it is closed.
 */
#include <mayfly/mayfly.h>

MAYFLY_SPAN(work, "plugin work", MAYFLY_INT("round"));
MAYFLY_INSTANT(done, "plugin done");

int plugin_emit(int round);

int plugin_emit(int round)
{
	mayfly_label_push("from", "plugin");
	mayfly_span_begin(&work, round);
	mayfly_instant(&done);
	mayfly_span_end(&work);
	mayfly_label_pop();
	return round;
}
