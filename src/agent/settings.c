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
 *	last_heap=1	   the recorder takes a picture of the heap before the program exits
 *	attached=1	   the recording began in a program that ran already
 *	instead=PID	   mayfly attach: the recorder of this number has died; this recording takes
 *			   the place of its
 *	handover=KEY	   where the recorder gives spools to processes that cannot open them
 *	filters=N	   the number of seccomp filters that the recorder runs under
 *	owner=UID	   its user, as its user namespace knows it
 *	users=INODE	   that namespace
 *	ocaml_frames=N	   the most frames that OCaml's runtime collects of a stack, from the leaf
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

/* A value, stored at `to`. False: it is wrong, and nothing has changed. */
typedef bool take_value(const char *text, size_t length, void *to);

struct setting {
	const char *key;
	take_value *take;
	void *to;
};

/* "512K" -> 524288 */
static bool take_bytes(const char *text, size_t length, void *to)
{
	uint64_t value;

	if (!size_read(text, length, &value) || value == 0 || value > UINT64_MAX >> 1)
		return false;
	*(uint64_t *)to = value;
	return true;
}

/* "0.5" -> 50, in 1/10000; more than 0, at most 100 %. */
static bool take_percent(const char *text, size_t length, void *to)
{
	double percent;

	if (!number_read(text, length, &percent) ||
	    !(percent >= 0.01 && percent <= SAMPLER_SHARE_ONE / 100))
		return false;
	*(uint32_t *)to = (uint32_t)(percent * 100 + 0.5);
	return true;
}

/* The log2 of the nearest power of two. */
static bool take_interval(const char *text, size_t length, void *to)
{
	uint64_t value;
	uint32_t below;

	if (!take_bytes(text, length, &value) || value > 1ull << SPOOL_INTERVAL_MAX_LOG2)
		return false;
	below = 63 - (uint32_t)__builtin_clzll(value);
	/* Nearest on the scale of the numbers themselves: 3 -> 4, 5 -> 4, 6 -> 8. */
	*(uint32_t *)to =
	    below < SPOOL_INTERVAL_MAX_LOG2 && 2 * (value - (1ull << below)) >= 1ull << below
		? below + 1
		: below;
	return true;
}

static bool take_number(const char *text, size_t length, void *to)
{
	uint64_t value = 0;

	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(text[i] - '0');
	}
	if (length)
		*(uint64_t *)to = value;
	return length > 0;
}

static bool take_pid(const char *text, size_t length, void *to)
{
	uint64_t value;

	if (!take_number(text, length, &value))
		return false;
	*(uint32_t *)to = (uint32_t)value;
	return true;
}

/* Any spelling of yes and no. */
static bool take_yes(const char *text, size_t length, void *to)
{
	int answer = yes_or_no(text, length);

	if (answer >= 0)
		*(bool *)to = answer;
	return answer >= 0;
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

static bool is_off(const char *text, size_t length)
{
	return yes_or_no(text, length) == 0;
}

/* Yes and no, of a field that says the opposite. */
static bool take_no(const char *text, size_t length, void *to)
{
	bool yes;

	if (!take_yes(text, length, &yes))
		return false;
	*(bool *)to = !yes;
	return true;
}

/* ---- keys that are more than a value ---- */

static bool take_output(const char *text, size_t length, void *to)
{
	(void)to;
	take_path(text, length);
	return true;
}

/* A rate ("1e-5", "0.001", "1"), "on", "off". */
static bool take_ocaml(const char *text, size_t length, void *to)
{
	double *rate = to, value;
	int answer = yes_or_no(text, length);

	if (answer == 0)
		*rate = 0;
	else if (number_read(text, length, &value) && value > 0 && value <= 1)
		*rate = value;
	else if (answer == 1)
		*rate = *rate > 0 ? *rate : AGENT_OCAML_RATE;
	else
		return false;
	return true;
}

static bool take_ocaml_frames(const char *text, size_t length, void *to)
{
	uint64_t frames;

	if (!take_number(text, length, &frames) || frames < 1 || frames > SPOOL_OCAML_ASKED)
		return false;
	*(uint32_t *)to = (uint32_t)frames;
	return true;
}

/* to: the interval. */
static bool take_exact(const char *text, size_t length, void *to)
{
	bool exact;

	if (!take_yes(text, length, &exact))
		return false;
	if (exact)
		*(uint32_t *)to = 0;
	return true;
}

static bool take_map_events(const char *text, size_t length, void *to)
{
	if (!is_off(text, length))
		return take_bytes(text, length, to);
	*(uint64_t *)to = AGENT_MAP_EVENTS_OFF;
	return true;
}

static bool take_sampler(const char *text, size_t length, void *to)
{
	bool poisson = word(text, length, "poisson");

	if (!poisson && !word(text, length, "stratified"))
		return false;
	*(uint32_t *)to = poisson ? SPOOL_POISSON : SPOOL_STRATIFIED;
	return true;
}

static bool take_start(const char *text, size_t length, void *to)
{
	bool dormant = word(text, length, "dormant");

	if (!dormant && !word(text, length, "on"))
		return false;
	*(bool *)to = dormant;
	return true;
}

static bool take_key(const char *text, size_t length, void *to)
{
	if (length != HANDOVER_KEY_DIGITS)
		return false;
	memcpy(to, text, length);
	return true;
}

/* attached.c has looked at it. */
static bool take_instead(const char *text, size_t length, void *to)
{
	uint64_t recorder;

	(void)to;
	return take_number(text, length, &recorder);
}

/* ---- the variable ---- */

static const struct setting settings[] = {
    {"output", take_output, NULL},
    {"interval", take_interval, &agent_config.interval_log2},
    {"exact", take_exact, &agent_config.interval_log2},
    {"overhead", take_percent, &agent_config.overhead},
    {"max_spool", take_bytes, &agent_config.max_spool},
    {"map_events", take_map_events, &agent_config.map_events},
    {"ocaml", take_ocaml, &agent_config.ocaml_rate},
    {"ocaml_frames", take_ocaml_frames, &agent_config.ocaml_frames},
    {"python", take_no, &agent_config.no_python},
    {"ruby", take_no, &agent_config.no_ruby},
    {"runtime_events", take_yes, &agent_config.runtime_events},
    {"last_heap", take_yes, &agent_config.last_heap},
    {"sampler", take_sampler, &agent_config.sampler},
    {"pid", take_pid, &agent_config.target_pid},
    {"seed", take_number, &agent_config.seed},
    {"follow", take_yes, &agent_config.follow},
    {"attached", take_yes, &agent_config.attached},
    {"instead", take_instead, NULL},
    {"handover", take_key, agent_config.handover},
    {"filters", take_number, &agent_config.seccomp_filters},
    {"owner", take_number, &agent_config.recorder_owner},
    {"users", take_number, &agent_config.recorder_users},
    {"start", take_start, &agent_config.dormant},
};

static void take_setting(const char *key, size_t key_length, const char *value, size_t length)
{
	const struct setting *s = settings, *end = settings + sizeof(settings) / sizeof(*settings);

	while (s < end && !word(key, key_length, s->key))
		s++;
	if (s == end)
		agent_add_note("unknown key in MAYFLY: ", key, key_length);
	else if (!s->take(value, length, s->to))
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
