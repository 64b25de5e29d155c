/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's settings: the variable MAYFLY, which holds KEY=VALUE, separated by commas.
 *
 *	output=PATH	   the spool; %p in it is the pid, %2c and the like a character
 *	interval=BYTES	   one sample per this number of bytes on average; 1: exact
 *	exact=1		   every allocation and free
 *	sampler=NAME	   stratified or poisson
 *	overhead=PERCENT   the share of a thread's time that samples may cost (1, 0.5, ...); the
 *			   interval grows to keep within it; not in exact mode
 *	max_spool=BYTES	   the limit of the spool's packets; records beyond it are dropped
 *	start=dormant	   nothing is recorded until it is switched on
 *	follow=1	   children are recorded, too
 *	pid=N		   only this process, unless children are followed
 *	seed=N		   of the sampler, for tests
 *	python=off	   neither frames nor blocks of CPython's own are recorded
 *	ruby=off	   no frames of Ruby are recorded
 *	ocaml=RATE	   samples for each word that an OCaml program allocates (1e-5), or off
 *	map_events=BYTES   calls of mmap, munmap and the like for this size or more are recorded
 *			   (1M), or off
 *	runtime_events=1   the recorder reads the events of an OCaml 5 program's runtime
 *	attached=1	   the recording began in a program that ran already
 *	instead=PID	   mayfly attach: the recorder of this number has died; this recording takes
 *			   the place of its
 *	ocaml_frames=N	   the number of frames kept of an OCaml stack (400), from the leaf
 *
 * interval, exact, overhead, max_spool and start fill the header of a spool that the agent makes
 * itself. In one that a recorder has made, the header has them already, and they count. BYTES may
 * end with K, M or G. 1 is also yes, on or true, and off is no, false or 0 (base/units.h); what is
 * neither becomes a note.
 */
#include "agent/settings.h"

#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/cpu/sys.h"
#include "base/units.h"

/* "512K" -> 524288, between 1 and `most`. */
static bool parse_bytes(const char *text, size_t length, uint64_t most, uint64_t *bytes)
{
	uint64_t value;

	if (!size_read(text, length, &value) || value == 0 || value > most)
		return false;
	*bytes = value;
	return true;
}

/* "0.5" -> 50, in 1/10000; more than 0, at most 100 %. */
static bool parse_percent(const char *text, size_t length, uint32_t *share)
{
	double percent;

	if (!number_read(text, length, &percent) ||
	    !(percent >= 0.01 && percent <= SAMPLER_SHARE_ONE / 100))
		return false;
	*share = (uint32_t)(percent * 100 + 0.5);
	return true;
}

/* The log2 of the nearest power of two. */
static bool parse_interval(const char *text, size_t length, uint32_t *log2)
{
	uint64_t value;

	if (!parse_bytes(text, length, 1ull << SPOOL_INTERVAL_MAX_LOG2, &value))
		return false;
	uint32_t below = 63 - (uint32_t)__builtin_clzll(value);
	/* Nearest on the scale of the numbers themselves: 3 -> 4, 5 -> 4, 6 -> 8. */
	*log2 = below < SPOOL_INTERVAL_MAX_LOG2 && 2 * (value - (1ull << below)) >= 1ull << below
		    ? below + 1
		    : below;
	return true;
}

static bool parse_number(const char *text, size_t length, uint64_t *out)
{
	uint64_t value = 0;

	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(text[i] - '0');
	}
	*out = value;
	return length > 0;
}

static int hex(char c)
{
	return c >= '0' && c <= '9'			? c - '0'
	       : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
							: -1;
}

/* "%2c" and the like are that character; "%p" is the pid, put in by make_path. */
static void take_path(const char *text, size_t length)
{
	char *out = agent_config.output;
	size_t n = 0, size = sizeof(agent_config.output) - 1;

	if (text[0] != '/') {
		long got = sys_getcwd(out, size - 1);
		if (got > 0)
			n = strlen(out);
		if (n == 0 || out[n - 1] != '/')
			out[n++] = '/';
	}
	for (size_t i = 0; i < length && n < size; i++) {
		if (text[i] == '%' && i + 2 < length && hex(text[i + 1]) >= 0 &&
		    hex(text[i + 2]) >= 0) {
			out[n++] = (char)(hex(text[i + 1]) * 16 + hex(text[i + 2]));
			i += 2;
		} else if (text[i] == '%' && i + 1 < length && text[i + 1] == 'p') {
			out[n++] = AGENT_PID_MARK;
			i++;
		} else {
			out[n++] = text[i];
		}
	}
	out[n] = 0;
}

static bool word(const char *text, size_t length, const char *expected)
{
	return strlen(expected) == length && !memcmp(text, expected, length);
}

/* "1e-5", "0.001", "1" */
static bool parse_rate(const char *text, size_t length, double *rate)
{
	double value;

	if (!number_read(text, length, &value) || !(value > 0 && value <= 1))
		return false;
	*rate = value;
	return true;
}

/* Any spelling of yes and no. */
static bool parse_yes(const char *text, size_t length, bool *yes)
{
	int answer = yes_or_no(text, length);

	if (answer >= 0)
		*yes = answer;
	return answer >= 0;
}

static bool is_off(const char *text, size_t length)
{
	return yes_or_no(text, length) == 0;
}

/* A rate, "on", "off". */
static bool take_ocaml(const char *text, size_t length)
{
	if (is_off(text, length)) {
		agent_config.ocaml_rate = 0;
		return true;
	}
	if (parse_rate(text, length, &agent_config.ocaml_rate))
		return true;
	if (yes_or_no(text, length) != 1)
		return false;
	if (agent_config.ocaml_rate == 0)
		agent_config.ocaml_rate = AGENT_OCAML_RATE;
	return true;
}

static bool take_exact(const char *text, size_t length)
{
	bool exact = false;

	if (!parse_yes(text, length, &exact))
		return false;
	if (exact)
		agent_config.interval_log2 = 0;
	return true;
}

static bool take_unless(const char *text, size_t length, bool *without)
{
	bool with = true;

	if (!parse_yes(text, length, &with))
		return false;
	*without = !with;
	return true;
}

static void take_setting(const char *key, size_t key_length, const char *value, size_t length)
{
	uint64_t number = 0;
	bool good = true;

	if (word(key, key_length, "output")) {
		take_path(value, length);
	} else if (word(key, key_length, "interval")) {
		good = parse_interval(value, length, &agent_config.interval_log2);
	} else if (word(key, key_length, "exact")) {
		good = take_exact(value, length);
	} else if (word(key, key_length, "overhead")) {
		good = parse_percent(value, length, &agent_config.overhead);
	} else if (word(key, key_length, "max_spool")) {
		good = parse_bytes(value, length, UINT64_MAX >> 1, &agent_config.max_spool);
	} else if (word(key, key_length, "map_events")) {
		if (is_off(value, length))
			agent_config.map_events = AGENT_MAP_EVENTS_OFF;
		else
			good =
			    parse_bytes(value, length, UINT64_MAX >> 1, &agent_config.map_events);
	} else if (word(key, key_length, "ocaml")) {
		good = take_ocaml(value, length);
	} else if (word(key, key_length, "python")) {
		good = take_unless(value, length, &agent_config.no_python);
	} else if (word(key, key_length, "ruby")) {
		good = take_unless(value, length, &agent_config.no_ruby);
	} else if (word(key, key_length, "runtime_events")) {
		good = parse_yes(value, length, &agent_config.runtime_events);
	} else if (word(key, key_length, "ocaml_frames")) {
		good = parse_number(value, length, &number) && number >= 1 &&
		       number <= SPOOL_OCAML_FRAMES;
		if (good)
			agent_config.ocaml_frames = (uint32_t)number;
	} else if (word(key, key_length, "sampler")) {
		agent_config.sampler =
		    word(value, length, "poisson") ? SPOOL_POISSON : SPOOL_STRATIFIED;
		good = agent_config.sampler || word(value, length, "stratified");
	} else if (word(key, key_length, "pid")) {
		good = parse_number(value, length, &number);
		agent_config.target_pid = (uint32_t)number;
	} else if (word(key, key_length, "seed")) {
		good = parse_number(value, length, &agent_config.seed);
	} else if (word(key, key_length, "follow")) {
		good = parse_yes(value, length, &agent_config.follow);
	} else if (word(key, key_length, "attached")) {
		good = parse_yes(value, length, &agent_config.attached);
	} else if (word(key, key_length, "instead")) {
		good = parse_number(value, length, &number); /* attached.c has looked at it */
	} else if (word(key, key_length, "start")) {
		agent_config.dormant = word(value, length, "dormant");
		good = agent_config.dormant || word(value, length, "on");
	} else {
		agent_add_note("unknown key in MAYFLY: ", key, key_length);
	}
	if (!good)
		agent_add_note("bad value in MAYFLY: ", key, (size_t)(value + length - key));
}

void settings_take(const char *text)
{
	take_path("mayfly.%p.spool", 15);
	while (*text) {
		size_t length = strcspn(text, ",");
		const char *equals = memchr(text, '=', length);
		if (equals)
			take_setting(text, (size_t)(equals - text), equals + 1,
				     (size_t)(text + length - equals - 1));
		else if (length)
			agent_add_note("unknown key in MAYFLY: ", text, length);
		text += length + (text[length] == ',');
	}
}

void settings_read(void)
{
	const char *text = NULL;

	for (char **e = environ; *e; e++) {
		if (!strncmp(*e, "MAYFLY=", 7))
			text = *e + 7;
	}
	settings_take(text ? text : "");
}
