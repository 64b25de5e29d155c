/* SPDX-License-Identifier: Apache-2.0 */
/* The file of rings in which OCaml 5's runtime writes its events, by the runtime's parameters. Without libc's
 * memory. Source: runtime/runtime_events.c of OCaml 5.3. */
#ifndef MAYFLY_OCAML_RINGS_H
#define MAYFLY_OCAML_RINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define OCAML_RINGS_START  "OCAML_RUNTIME_EVENTS_START"
#define OCAML_RINGS_FOLDER "OCAML_RUNTIME_EVENTS_DIR"

#define RUNTIME_DOMAINS	   4096u /* the most; OCaml's own limit is 128 unless the user raises it */
#define RUNTIME_NUMBERS	   8192u
#define RUNTIME_NAME_BYTES 128u

/* The runtime makes room for an event, and for a filler as long before it, by moving the ring's start. When the ring is
 * smaller than both, the start passes the end, and the runtime can wait there for ever. The longest event is one that a
 * program writes, of 1024 bytes and three words. */
#define OCAML_RINGS_LEAST_LOG2 9

enum ocaml_rings { OCAML_RINGS_GOOD, OCAML_RINGS_SMALL, OCAML_RINGS_UNKNOWN };

/* The number after "e=" or "d=". False: it is something else. */
static inline bool ocaml_rings_number(const char *text, char key, uint64_t most, uint64_t *number)
{
	while (text && *text) {
		if (text[0] == key && text[1] == '=') {
			char *end;

			*number = strtoull(text + 2, &end, 10);
			if (end == text + 2 || (*end && *end != ',') || *number > most || !*number)
				return false;
		}
		text += strcspn(text, ",");
		text += *text == ',';
	}
	return true;
}

/* bytes: the size of the file that the runtime makes in this environment. */
static inline enum ocaml_rings ocaml_rings_size(uint64_t *bytes)
{
	const char *parameters = getenv("OCAMLRUNPARAM");
	uint64_t log2_words = 16, domains = 128;

	if (!parameters)
		parameters = getenv("CAMLRUNPARAM");
	if (!ocaml_rings_number(parameters, 'e', 20, &log2_words) ||
	    !ocaml_rings_number(parameters, 'd', RUNTIME_DOMAINS, &domains))
		return OCAML_RINGS_UNKNOWN;
	*bytes = 64 + domains * (80 + ((uint64_t)8 << log2_words)) +
		 RUNTIME_NUMBERS * RUNTIME_NAME_BYTES;
	return log2_words < OCAML_RINGS_LEAST_LOG2 ? OCAML_RINGS_SMALL : OCAML_RINGS_GOOD;
}

#endif
