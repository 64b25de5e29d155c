/* SPDX-License-Identifier: Apache-2.0 */
/* The answer in one sentence: see headline.h. */
#include "answer/headline.h"

#include <math.h>
#include <string.h>

#include "answer/plain_name.h"
#include "answer/text_format.h"
#include "answer/trace_facts.h"
#include "answer/trace_names.h"

#define MOST	      0.5  /* of the memory: then the sentence says so */
#define NEARLY_ALL    0.95 /* of it: "called by" instead of "mostly called by" */
#define NORMAL_95     1.96
#define LONGEST_OUTER 2048 /* bytes of the name of a function that a closure is written in */
#define LONGEST_NAME  100  /* of a function in the sentence; longer ones lose what is in <> */

/* What the stacks say about one function. */
struct found {
	const struct mayfly_place *place;  /* where it allocates most at once */
	const struct mayfly_place *caller; /* that most of its memory comes through; may be NULL */
	double bytes, through;		   /* of its stacks, and of those with that caller */
};

/*
 * The length of a function's name without what is inside it: a closure says less than the function
 * that it is written in.
 *
 *	r::find::{{closure}}	fill(int)::{lambda()#1}::operator()() const	A.fill.(fun)
 */
static size_t outer_length(const char *name)
{
	static const char *const inside[] = {"::{{closure", "::{closure", "::{lambda", ".(fun"};
	size_t length = strlen(name);

	for (size_t i = 0; i < sizeof(inside) / sizeof(*inside); i++) {
		const char *found = strstr(name, inside[i]);

		if (found && found > name && (size_t)(found - name) < length)
			length = (size_t)(found - name);
	}
	return length;
}

/* Whether one is the other, or written in it. */
static bool same_function(const char *a, const char *b)
{
	size_t length = outer_length(a);

	return *a && length == outer_length(b) && strncmp(a, b, length) == 0;
}

static bool same_place(const struct mayfly_place *a, const struct mayfly_place *b)
{
	return strcmp(a->function, b->function) == 0 &&
	       (*a->function || (a->address == b->address && strcmp(a->module, b->module) == 0));
}

static bool is_of_row(const struct mayfly_row *row, const struct mayfly_place *place)
{
	if (*row->function || *place->function)
		return strcmp(row->function, place->function) == 0;
	return row->stack_length > 0 && same_place(&row->stack[0], place);
}

/* The first own function towards the root that is not the function itself. */
static const struct mayfly_place *caller_on(const struct caller_question *q,
					    const struct mayfly_row *stack)
{
	for (size_t i = 1; i < stack->stack_length; i++) {
		const struct mayfly_place *place = &stack->stack[i];

		if (same_place(place, &stack->stack[0]) ||
		    same_function(place->function, stack->stack[0].function))
			continue;
		if (place->kind != MAYFLY_FRAME_CODE || is_entry(place->function, place->file) ||
		    code_kind(q->own, q->trace, place->function, place->file, place->module) !=
			CODE_OWN)
			continue;
		return place;
	}
	return NULL;
}

static double bytes_through(const struct caller_question *q, const struct mayfly_result *stacks,
			    const struct mayfly_row *row, const struct mayfly_place *caller)
{
	double bytes = 0;

	for (size_t i = 0; i < stacks->rows && i < CALLERS_SEARCH_STACKS; i++) {
		const struct mayfly_row *stack = &stacks->row[i];
		const struct mayfly_place *other;

		if (!stack->stack_length || !is_of_row(row, &stack->stack[0]))
			continue;
		other = caller_on(q, stack);
		if (other && same_place(other, caller))
			bytes += stack->self.bytes.estimate;
	}
	return bytes;
}

/* The largest stacks come first: a caller with more than half is among the first different ones. */
static struct found find_on_stacks(const struct caller_question *q,
				   const struct mayfly_result *stacks, const struct mayfly_row *row)
{
	struct found f = {0};
	double votes = 0;

	for (size_t i = 0; i < stacks->rows && i < CALLERS_SEARCH_STACKS; i++) {
		const struct mayfly_row *stack = &stacks->row[i];
		const struct mayfly_place *caller;
		double bytes = stack->self.bytes.estimate;

		if (!stack->stack_length || !is_of_row(row, &stack->stack[0]))
			continue;
		if (!f.place)
			f.place = &stack->stack[0];
		f.bytes += bytes;
		caller = caller_on(q, stack);
		if (f.caller && caller && same_place(f.caller, caller)) {
			votes += bytes;
		} else if (bytes > votes) {
			f.caller = caller;
			votes = bytes - votes;
		} else {
			votes -= bytes;
		}
	}
	if (f.caller)
		f.through = bytes_through(q, stacks, row, f.caller);
	if (f.through < MOST * f.bytes)
		f.caller = NULL;
	return f;
}

/* ---- words ---- */

static void append_function(char *buffer, size_t size, const char *name)
{
	char plain[4 * LONGEST_NAME], outer[LONGEST_OUTER];
	size_t length = outer_length(name);

	/* Templates can have names of any length: a part of one would end inside its brackets. */
	if (name[length] && length < sizeof(outer)) {
		memcpy(outer, name, length);
		outer[length] = 0;
		name = outer;
	}
	name_collapse(plain, sizeof(plain), name, NAME_NO_LEVEL, "");
	if (strlen(plain) > LONGEST_NAME)
		name_collapse(plain, sizeof(plain), name, 1, "...");
	text_append(buffer, size, "%s", plain);
}

static void append_location(char *buffer, size_t size, const struct mayfly_place *place)
{
	if (!*place->file || !*place->function)
		return;
	text_append(buffer, size, " (%s", path_base(place->file));
	if (place->line)
		text_append(buffer, size, ":%u", place->line);
	text_append(buffer, size, ")");
}

/* The error of a part's share in a whole that includes it. */
static double share_error(const struct mayfly_figure *part, const struct mayfly_figure *whole)
{
	double share = part->estimate / whole->estimate;
	double own = part->stderror * part->stderror;
	double rest = fmax(whole->stderror * whole->stderror - own, 0);

	return NORMAL_95 * sqrt((1 - share) * (1 - share) * own + share * share * rest) /
	       whole->estimate;
}

static void append_share(char *buffer, size_t size, bool utf8, const struct mayfly_estimate *part,
			 const struct mayfly_estimate *whole)
{
	double share = 100 * part->bytes.estimate / whole->bytes.estimate;
	double error = 100 * share_error(&part->bytes, &whole->bytes);

	text_append(buffer, size, share < 9.95 ? "%.1f %%" : "%.0f %%", share);
	if (error >= 0.5)
		text_append(buffer, size, " (%s%.0f)", utf8 ? "±" : "+-", error);
}

static const char *moment_text(const struct mayfly_query *q)
{
	switch (q->metric) {
	case MAYFLY_PEAK:
		return "At the peak, ";
	case MAYFLY_LIVE:
		return q->at_ns == MAYFLY_AT_END    ? "At the end, "
		       : q->at_ns == MAYFLY_AT_PEAK ? "At the peak, "
						    : "";
	case MAYFLY_ALLOCATED:
	case MAYFLY_LEAKED:
	case MAYFLY_TEMPORARY:
	case MAYFLY_SURVIVED:
		break;
	case MAYFLY_IN_PICTURE:
		return "When the picture was taken, ";
	}
	return "";
}

/* The function that is largest by itself among those whose figures are sure enough. */
static const struct mayfly_row *largest_row(const struct mayfly_query *q,
					    const struct mayfly_result *functions)
{
	const struct mayfly_row *largest = NULL;
	struct mayfly_query by_self = *q;

	by_self.sort = MAYFLY_SORT_SELF;
	for (size_t i = 0; i < functions->rows; i++) {
		const struct mayfly_row *row = &functions->row[i];

		if (row_confidence(&by_self, row) >= FIGURE_RANGE &&
		    (!largest || row->self.bytes.estimate > largest->self.bytes.estimate))
			largest = row;
	}
	return largest;
}

/* The innermost function that holds most of the memory by what it calls, unless the sentence names
 * it already. */
static const struct mayfly_row *holder(const struct headline_answers *a,
				       const struct mayfly_row *largest, const struct found *f)
{
	const struct mayfly_row *innermost = NULL;

	for (size_t i = 0; i < a->callers->rows; i++) {
		const struct mayfly_row *row = a->callers->row[i];

		if (row->total.bytes.estimate < MOST * a->functions->total.bytes.estimate)
			break;
		if (row == largest || same_function(row->function, largest->function) ||
		    (f->caller && is_of_row(row, f->caller)) || is_entry(row->function, row->file))
			continue;
		innermost = row;
	}
	return innermost;
}

static void append_caller(char *buffer, size_t size, const struct found *f)
{
	char name[UNKNOWN_FUNCTION];

	if (!f->caller)
		return;
	text_append(buffer, size,
		    f->through >= NEARLY_ALL * f->bytes ? ", called by " : ", mostly called by ");
	append_function(buffer, size, place_function(name, sizeof(name), f->caller));
}

static void append_answer(char *buffer, size_t size, bool utf8,
			  const struct caller_question *question,
			  const struct headline_answers *answers)
{
	const struct mayfly_estimate *whole = &answers->functions->total;
	const struct mayfly_row *row = largest_row(question->query, answers->functions), *outer;
	char name[UNKNOWN_FUNCTION], bytes[FIGURE_TEXT];
	struct found f;

	if (!row || !(whole->bytes.estimate > 0) || !(row->self.bytes.estimate > 0) ||
	    figure_confidence(&whole->bytes, whole->samples) < FIGURE_RANGE)
		return;
	f = find_on_stacks(question, answers->stacks, row);
	text_append(buffer, size, "%s", moment_text(question->query));
	append_share(buffer, size, utf8, &row->self, whole);
	text_append(buffer, size, " of %s was allocated in %s",
		    text_bytes(bytes, sizeof(bytes), whole->bytes.estimate),
		    *row->function ? "" : "an unnamed function, ");
	append_function(buffer, size, row_function(name, sizeof(name), row));
	if (f.place)
		append_location(buffer, size, f.place);
	append_caller(buffer, size, &f);
	outer = holder(answers, row, &f);
	if (outer) {
		text_append(buffer, size, "; ");
		append_share(buffer, size, utf8, &outer->total, whole);
		text_append(buffer, size, " in ");
		append_function(buffer, size, row_function(name, sizeof(name), outer));
		text_append(buffer, size, " and all that it calls");
	}
	text_append(buffer, size, ".");
}

/* If the figures leave out more than they have. */
static void append_mapped(char *buffer, size_t size, const struct caller_question *question,
			  double whole)
{
	const struct mayfly_query *q = question->query;
	uint64_t mapped = mayfly_trace_info(question->trace)->mapped_peak_bytes;
	char bytes[FIGURE_TEXT];

	if (q->heaps || !(q->metric == MAYFLY_PEAK || q->metric == MAYFLY_LIVE) ||
	    !((double)mapped > whole))
		return;
	text_append(buffer, size,
		    "%sMappings of the program's own took up to %s beside the heap (--heap mmap).",
		    *buffer ? " " : "", text_bytes(bytes, sizeof(bytes), (double)mapped));
}

char *headline_text(char *buffer, size_t size, bool utf8, const struct caller_question *question,
		    const struct headline_answers *answers)
{
	if (*trace_lost_text(buffer, size, mayfly_trace_info(question->trace))) {
		text_append(buffer, size, ": the figures are not the program's.");
		return buffer;
	}
	append_answer(buffer, size, utf8, question, answers);
	append_mapped(buffer, size, question, answers->functions->total.bytes.estimate);
	return buffer;
}
