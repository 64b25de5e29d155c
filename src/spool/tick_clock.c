/* SPDX-License-Identifier: Apache-2.0 */
/* From ticks to nanoseconds: see tick_clock.h. */
#include "spool/tick_clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include <mayfly/trace.h>

#define DEFAULT_TICKS 2.5      /* per ns, when a spool says nothing better */
#define STEADY_GAP    10000000 /* ns between points that are worth a line of their own */
#define LEAST_SPAN    20000    /* ns; a shorter line says nothing */

void tick_clock_begin(struct tick_clock *c, bool tsc, uint64_t start_ticks, uint64_t start_mono_ns)
{
	*c = (struct tick_clock){
	    .tsc = tsc,
	    .start_ticks = start_ticks,
	    .start_mono_ns = start_mono_ns,
	    .last = {.ticks = start_ticks},
	    .ticks_per_ns = tsc ? DEFAULT_TICKS : 1,
	    .from = start_ticks,
	    .to = UINT64_MAX,
	    .most = TICK_CLOCK_LATEST,
	    .ns_per_tick = tsc ? 1 / DEFAULT_TICKS : 1,
	};
}

void tick_clock_free(struct tick_clock *c)
{
	free(c->point);
	c->point = NULL;
	c->points = c->size = 0;
}

int tick_clock_add(struct tick_clock *c, uint64_t ticks, uint64_t mono_ns)
{
	if (!c->tsc || ticks < c->start_ticks || mono_ns < c->start_mono_ns ||
	    mono_ns - c->start_mono_ns > (uint64_t)TICK_CLOCK_LATEST)
		return 0;
	if (!array_reserve(&c->point, &c->size, c->points, sizeof(*c->point)))
		return MAYFLY_E_MEMORY;
	c->point[c->points].ticks = ticks;
	c->point[c->points++].ns = (int64_t)(mono_ns - c->start_mono_ns);
	return 0;
}

static int compare_point(const void *a, const void *b)
{
	const struct tick_clock_point *x = a, *y = b;

	if (x->ticks != y->ticks)
		return x->ticks < y->ticks ? -1 : 1;
	return (x->ns > y->ns) - (x->ns < y->ns);
}

static int compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double slope(const struct tick_clock_point *a, const struct tick_clock_point *b)
{
	return (double)(b->ticks - a->ticks) / (double)(b->ns - a->ns);
}

static bool sensible(double ticks_per_ns)
{
	return ticks_per_ns > 0.01 && ticks_per_ns < 100;
}

/* Drops points that are not at least the gap after the one kept before. */
static size_t thin_points(struct tick_clock_point *point, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		if (kept && (point[i].ns - point[kept - 1].ns < STEADY_GAP ||
			     point[i].ticks <= point[kept - 1].ticks))
			continue;
		point[kept++] = point[i];
	}
	return kept;
}

/* The median of the slopes from point to point, as single points may be far off: the thread may
 * have lost its CPU between reading the one clock and the other. */
static int median_slope(struct tick_clock *c)
{
	double *slopes = malloc(c->points * sizeof(*slopes));

	if (!slopes)
		return MAYFLY_E_MEMORY;
	for (size_t i = 1; i < c->points; i++)
		slopes[i - 1] = slope(&c->point[i - 1], &c->point[i]);
	qsort(slopes, c->points - 1, sizeof(*slopes), compare_double);
	c->ticks_per_ns = slopes[(c->points - 1) / 2];
	free(slopes);
	return 0;
}

/* Drops points that do not lie on a line of about the right slope with the one before, unless the
 * next one lies on such a line with them (the machine slept). NTP changes the slope by at most
 * 500 ppm. */
static size_t reject_outliers(struct tick_clock_point *point, size_t count, double ticks_per_ns)
{
	const double limit = 0.001 * ticks_per_ns;
	struct tick_clock_point odd = {0};
	bool is_odd = false;
	size_t kept = 1;

	for (size_t i = 1; i < count; i++) {
		struct tick_clock_point this = point[i];

		if (fabs(slope(&point[kept - 1], &this) - ticks_per_ns) <= limit) {
			point[kept++] = this;
			is_odd = false;
		} else if (is_odd && fabs(slope(&odd, &this) - ticks_per_ns) <= limit) {
			point[kept++] = odd;
			point[kept++] = this;
			is_odd = false;
		} else {
			odd = this;
			is_odd = true;
		}
	}
	return kept;
}

int tick_clock_settle(struct tick_clock *c)
{
	struct tick_clock_point last;
	int error;

	if (!c->tsc)
		return 0;
	c->to = c->from; /* no line yet */
	error = tick_clock_add(c, c->start_ticks, c->start_mono_ns);
	if (error)
		return error;
	qsort(c->point, c->points, sizeof(*c->point), compare_point);
	last = c->point[c->points - 1];
	if (last.ns < STEADY_GAP) {
		/* Too short for more than one line. */
		c->points = 1;
		if (last.ns >= LEAST_SPAN)
			c->ticks_per_ns = slope(&c->point[0], &last);
	} else {
		c->points = thin_points(c->point, c->points);
		if (c->points > 1) {
			error = median_slope(c);
			if (error)
				return error;
			c->points = reject_outliers(c->point, c->points, c->ticks_per_ns);
		}
	}
	if (!sensible(c->ticks_per_ns))
		c->ticks_per_ns = DEFAULT_TICKS;
	return 0;
}

void tick_clock_find_line(struct tick_clock *c, uint64_t ticks)
{
	const struct tick_clock_point *a;
	size_t low = 0, high = c->points;

	if (!c->points) /* one line; earlier ticks count as its beginning */
		return;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (c->point[middle].ticks <= ticks)
			low = middle;
		else
			high = middle;
	}
	a = &c->point[low];
	c->from = a->ticks;
	c->base = a->ns;
	if (low + 1 == c->points) {
		c->to = UINT64_MAX;
		c->most = TICK_CLOCK_LATEST;
		c->ns_per_tick = 1 / c->ticks_per_ns;
	} else {
		c->to = a[1].ticks;
		c->most = a[1].ns;
		c->ns_per_tick = 1 / slope(a, a + 1);
	}
}

int64_t tick_clock_past_ns(struct tick_clock *c, uint64_t ticks)
{
	if (c->points || ticks >= c->from || ticks <= c->start_ticks)
		return tick_clock_ns(c, ticks);
	return (int64_t)((double)c->base * (double)(ticks - c->start_ticks) /
			 (double)(c->from - c->start_ticks));
}

uint64_t tick_clock_ticks(const struct tick_clock *c, int64_t ns)
{
	struct tick_clock_point from = {c->from, c->base};
	double ns_per_tick = c->ns_per_tick, ticks;
	size_t low = 0, high = c->points;

	if (c->points) {
		while (high - low > 1) {
			size_t middle = low + (high - low) / 2;

			if (c->point[middle].ns <= ns)
				low = middle;
			else
				high = middle;
		}
		from = c->point[low];
		ns_per_tick =
		    1 / (low + 1 < c->points ? slope(&from, &c->point[low + 1]) : c->ticks_per_ns);
	}
	if (ns <= from.ns)
		return from.ticks;
	ticks = (double)(ns - from.ns) / ns_per_tick;
	return ticks < (double)(UINT64_MAX - from.ticks) ? from.ticks + (uint64_t)ticks
							 : UINT64_MAX;
}

void tick_clock_now(struct tick_clock *c, uint64_t ticks, uint64_t mono_ns)
{
	struct tick_clock_point now = {.ticks = ticks};
	double ticks_per_ns;

	if (!c->tsc || mono_ns < c->start_mono_ns ||
	    mono_ns - c->start_mono_ns > (uint64_t)TICK_CLOCK_LATEST)
		return;
	now.ns = (int64_t)(mono_ns - c->start_mono_ns);
	/* Too soon after the last one: the line goes on as it is. */
	if (ticks <= c->last.ticks || now.ns - c->last.ns < LEAST_SPAN)
		return;
	ticks_per_ns = slope(&c->last, &now);
	c->from = c->last.ticks;
	c->to = UINT64_MAX;
	c->base = c->last.ns;
	c->most = TICK_CLOCK_LATEST;
	c->ns_per_tick = 1 / ticks_per_ns;
	c->last = now;
	if (sensible(ticks_per_ns))
		c->ticks_per_ns = ticks_per_ns;
}
