/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The border to the terminal, with random bytes in random pieces: no byte that a terminal obeys comes
 * through, our own signs do, and how a text is cut into pieces does not matter.
 */
#include "terminal/border.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#define MOST   4000 /* bytes of a text */
#define ROUNDS 400

static uint64_t state = 20261126;

static unsigned below(unsigned n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(state >> 33) % n;
}

/* Bytes of all kinds; more than their share are those that matter, and whole sequences of them. */
static size_t make_text(char *text)
{
	static const char *const parts[] = {
	    "\033[31m",
	    "\033]0;title\007",
	    "\xc2\x9b"
	    "2J",
	    "\xe2\x80\xae",
	    "\xe2\x81\xa6",
	    "\r",
	    "\b\b",
	    "\x7f",
	    "\xe2\x80", /* cut */
	    "\xf0\x9f\x92",
	    "\xc3\xa4",
	    "plain ",
	    "\n",
	    "\t",
	    "\033",
	    "\xff",
	};
	size_t length = below(MOST - 16), used = 0;

	while (used < length) {
		const char *part = parts[below(sizeof(parts) / sizeof(*parts))];

		if (below(3)) {
			memcpy(text + used, part, strlen(part));
			used += strlen(part);
		} else {
			text[used++] = (char)below(256);
		}
	}
	return used;
}

/* What a process prints that writes the text in such pieces; with a colour of ours before and after. */
static size_t printed(const char *text, size_t size, bool pieces, char *out, size_t room)
{
	int pipes[2];
	size_t used = 0;
	ssize_t got;
	pid_t child;

	fflush(stdout);
	if (pipe(pipes))
		abort();
	child = fork();
	if (!child) {
		dup2(pipes[1], 1);
		close(pipes[0]);
		close(pipes[1]);
		border_begin();
		border_sign(stdout, SIGN_RED);
		for (size_t at = 0; at < size;) {
			size_t n = pieces ? 1 + below(40) : size;

			if (n > size - at)
				n = size - at;
			fwrite(text + at, 1, n, stdout);
			if (pieces && below(2))
				fflush(stdout);
			at += n;
		}
		border_sign(stdout, SIGN_PLAIN);
		fclose(stdout);
		_exit(0);
	}
	close(pipes[1]);
	while (used < room && (got = read(pipes[0], out + used, room - used)) > 0)
		used += (size_t)got;
	close(pipes[0]);
	waitpid(child, NULL, 0);
	return used;
}

/* Written down once more, without the code under test: what may follow in valid UTF-8, and which
 * characters are orders. */
static const char *next_bad(const unsigned char *at, const unsigned char *end)
{
	while (at < end) {
		unsigned more = *at < 0x80 ? 0 : *at < 0xe0 ? 1 : *at < 0xf0 ? 2 : 3;
		uint32_t c = more == 0	 ? *at
			     : more == 1 ? *at & 0x1fu
			     : more == 2 ? *at & 0xfu
					 : *at & 7u;

		if ((*at >= 0x80 && *at < 0xc2) || *at > 0xf4 || more >= (size_t)(end - at))
			return (const char *)at;
		for (unsigned i = 1; i <= more; i++) {
			if ((at[i] & 0xc0) != 0x80)
				return (const char *)at;
			c = c << 6 | (at[i] & 0x3fu);
		}
		if ((c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0) ||
		    (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0x200e ||
		    c == 0x200f || c == 0x61c)
			return (const char *)at;
		at += 1 + more;
	}
	return NULL;
}

static void test_nothing_to_obey(void)
{
	static char text[MOST + 64], whole[4 * MOST + 64], cut[4 * MOST + 64];
	static const char red[] = "\033[31m", plain[] = "\033[0m";

	for (int round = 0; round < ROUNDS; round++) {
		size_t size = make_text(text);
		size_t n = printed(text, size, false, whole, sizeof(whole));
		size_t m = printed(text, size, true, cut, sizeof(cut));
		const char *bad;

		CHECK(n == m && memcmp(whole, cut, n) == 0, "round %d: pieces matter", round);
		CHECK(n >= sizeof(red) + sizeof(plain) - 2 &&
			  memcmp(whole, red, sizeof(red) - 1) == 0 &&
			  memcmp(whole + n - (sizeof(plain) - 1), plain, sizeof(plain) - 1) == 0,
		      "round %d: our colours are missing", round);
		if (n < sizeof(red) + sizeof(plain) - 2)
			continue;
		bad = next_bad((const unsigned char *)whole + sizeof(red) - 1,
			       (const unsigned char *)whole + n - (sizeof(plain) - 1));
		CHECK(!bad, "round %d: byte %02x at %td", round, bad ? (unsigned char)*bad : 0,
		      bad ? bad - whole : 0);
	}
}

/* What may be shown is as it was. */
static void test_plain_text(void)
{
	static const char text[] = "main.c:12\tZ\xc3\xa4hler \xe8\xa8\x88 \xf0\x9f\x90\x9d\n";
	char out[256];
	size_t n = printed(text, sizeof(text) - 1, true, out, sizeof(out));

	CHECK(n == sizeof(text) - 1 + 9 && memcmp(out + 5, text, sizeof(text) - 1) == 0);
}

int main(void)
{
	RUN(test_nothing_to_obey);
	RUN(test_plain_text);
	DONE();
}
