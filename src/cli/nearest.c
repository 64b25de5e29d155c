/* SPDX-License-Identifier: Apache-2.0 */
/* Which word a user may have meant: see nearest.h. */
#include "cli/nearest.h"

#include <stdbool.h>
#include <string.h>

#define LONGEST_GUESS 32

/* The number of letters that must be inserted, deleted, changed or swapped with the next to get
 * from one word to the other (Damerau-Levenshtein distance). */
static size_t distance(const char *a, const char *b)
{
	size_t rows[3][LONGEST_GUESS + 1];
	size_t *before = rows[0], *last = rows[1], *now = rows[2];
	size_t length = strlen(b);

	if (length > LONGEST_GUESS || strlen(a) > LONGEST_GUESS)
		return LONGEST_GUESS;
	for (size_t j = 0; j <= length; j++)
		last[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		now[0] = i;
		for (size_t j = 1; j <= length; j++) {
			size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);

			if (last[j] + 1 < best)
				best = last[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    before[j - 2] + 1 < best)
				best = before[j - 2] + 1;
			now[j] = best;
		}
		size_t *free_row = before;

		before = last;
		last = now;
		now = free_row;
	}
	return last[length];
}

/* Changes that may be a typing error in a word of this length. */
static size_t most_changes(size_t length)
{
	return length <= 4 ? 1 : length <= 8 ? 2 : 3;
}

struct nearest nearest_to(const char *word)
{
	return (struct nearest){word, NULL, LONGEST_GUESS};
}

void nearest_offer(struct nearest *n, const char *candidate)
{
	size_t d = distance(n->word, candidate), length = strlen(candidate);
	/* "tpo" is as near to "to", but letters are swapped more often. */
	bool swapped = d == n->least && length == strlen(n->word);

	if ((d < n->least || swapped) && d <= most_changes(length)) {
		n->least = d;
		n->best = candidate;
	}
}
