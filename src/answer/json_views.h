/* SPDX-License-Identifier: Apache-2.0 */
/* The answers of <mayfly/trace.h> as JSON: members of an object that is open. */
#ifndef MAYFLY_JSON_VIEWS_H
#define MAYFLY_JSON_VIEWS_H

#include <mayfly/trace.h>

#include "answer/json_writer.h"

void json_series(struct json *j, const struct mayfly_trace *trace, const struct mayfly_query *query,
		 const struct mayfly_series *s);
/* classes: of sizes or of lifetimes. */
void json_histogram(struct json *j, const struct mayfly_trace *trace,
		    const struct mayfly_query *query, enum mayfly_by classes,
		    const struct mayfly_histogram *h);
void json_churn(struct json *j, const struct mayfly_trace *trace, const struct mayfly_query *query,
		const struct mayfly_churn *c);
void json_reallocs(struct json *j, const struct mayfly_trace *trace,
		   const struct mayfly_query *query, const struct mayfly_reallocs *a);
/* The first `top` ranked rows; 0: all that allocated something. */
void json_survival(struct json *j, const struct mayfly_trace *trace,
		   const struct mayfly_query *query, const struct mayfly_survival *s, size_t top);

/* Whether there are enough samples to rank the row. */
bool survival_is_ranked(const struct mayfly_survival_row *row);

/* How often each live byte was replaced; infinite when nothing lived for a time that was seen. */
double churn_rate(double bytes, double mean_live);
/* How long a byte lived, within the time that is asked for. */
double churn_lifetime(const struct mayfly_churn *c, double bytes, double mean_live);

#endif
