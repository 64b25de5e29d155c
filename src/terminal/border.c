/* SPDX-License-Identifier: Apache-2.0 */
/* The border to the terminal: see border.h. */
#include "terminal/border.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "terminal/fit_text.h"

#define KEY_BYTES    16 /* of a sign, after its ESC: digits that nobody else knows */
#define SIGN_BYTES   (1 + KEY_BYTES + 1)
#define CHUNK_BYTES  4096
#define BUFFER_BYTES 65536

static const char *const sequences[BORDER_SIGNS] = {"\033[0m",	"\033[1m",  "\033[2m",	"\033[36m",
						    "\033[33m", "\033[31m", "\033[32m", "\r\033[K"};

struct side {
	int fd;
	/* The begin of a character or of a sign, whose rest has not come. */
	char held[SIGN_BYTES];
	size_t holds;
};

static char key[KEY_BYTES + 1];
static struct side out = {.fd = STDOUT_FILENO}, err = {.fd = STDERR_FILENO};
static FILE *true_stdout;
static bool out_is_terminal;

/* ---- what passes ---- */

static bool write_all(int fd, const char *from, size_t size)
{
	while (size) {
		ssize_t n = write(fd, from, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		from += n;
		size -= (size_t)n;
	}
	return true;
}

/* The sign that these bytes are; -1: they are none. */
static int sign_at(const char *at, size_t size)
{
	if (size < SIGN_BYTES || *at != '\033' || memcmp(at + 1, key, KEY_BYTES) != 0)
		return -1;
	return at[SIGN_BYTES - 1] - 'a';
}

/* The length of the UTF-8 character at `at`, as its first byte tells it. */
static size_t character_bytes(const char *at)
{
	const unsigned char first = (unsigned char)*at;

	return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 1;
}

/* Whether these bytes are the beginning of a sign or of a character. */
static bool is_begin(const char *at, size_t size)
{
	size_t all = character_bytes(at);

	if (*at == '\033')
		return size < SIGN_BYTES &&
		       memcmp(at + 1, key, size - 1 < KEY_BYTES ? size - 1 : KEY_BYTES) == 0;
	for (size_t i = 1; i < size && i < all; i++)
		if (((unsigned char)at[i] & 0xc0) != 0x80)
			return false;
	return size < all;
}

/* One character, or sign. Returns how many bytes it was; 0: the rest has not come. */
static size_t pass_one(const char *at, size_t size, bool last, char *to, size_t *used)
{
	size_t length = text_shown(at, size);
	int sign = sign_at(at, size);

	if (sign >= 0 && sign < BORDER_SIGNS) {
		memcpy(to + *used, sequences[sign], strlen(sequences[sign]));
		*used += strlen(sequences[sign]);
		return SIGN_BYTES;
	}
	if (length) {
		memcpy(to + *used, at, length);
		*used += length;
		return length;
	}
	if (!last && is_begin(at, size))
		return 0;
	to[(*used)++] = '?';
	/* A character that is not shown is one mark. */
	for (length = 1; length < size && length < character_bytes(at); length++)
		if (((unsigned char)at[length] & 0xc0) != 0x80)
			break;
	return length;
}

/* How many bytes at the beginning pass as they are, at most `room`: nearly always all. */
static size_t plain_bytes(const char *at, size_t size, size_t room)
{
	size_t n = 0;

	while (n < size && n < room &&
	       ((at[n] >= 0x20 && at[n] < 0x7f) || at[n] == '\n' || at[n] == '\t'))
		n++;
	return n;
}

static bool pass(struct side *s, const char *from, size_t size, bool last)
{
	char to[CHUNK_BYTES];
	size_t used = 0;

	while (size) {
		size_t taken = plain_bytes(from, size, sizeof(to) - 16 - used);

		memcpy(to + used, from, taken);
		used += taken;
		if (!taken)
			taken = pass_one(from, size, last, to, &used);
		if (!taken)
			break;
		from += taken;
		size -= taken;
		if (used >= sizeof(to) - 16) {
			if (!write_all(s->fd, to, used))
				return false;
			used = 0;
		}
	}
	memcpy(s->held, from, size);
	s->holds = size;
	return write_all(s->fd, to, used);
}

/* Writes for a stream: all of it or, on failure, nothing, as the stream's buffer keeps no part. */
static ssize_t write_side(void *context, const char *from, size_t size)
{
	struct side *s = context;
	char first[2 * SIGN_BYTES];
	size_t begin = size < SIGN_BYTES ? size : SIGN_BYTES, held = s->holds;

	if (!held)
		return pass(s, from, size, false) ? (ssize_t)size : 0;
	memcpy(first, s->held, held);
	memcpy(first + held, from, begin);
	s->holds = 0;
	/* First what was held and the bytes that complete it, then the rest. */
	if (!pass(s, first, held + begin, false))
		return 0;
	if (begin == size)
		return (ssize_t)size;
	begin -= s->holds;
	return pass(s, from + begin, size - begin, false) ? (ssize_t)size : 0;
}

static int close_side(void *context)
{
	struct side *s = context;

	return pass(s, s->held, s->holds, true) ? 0 : -1;
}

/* ---- the streams ---- */

static void make_key(void)
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random)) {
		struct timespec now;

		clock_gettime(CLOCK_MONOTONIC, &now);
		random = (uint64_t)now.tv_nsec * 0x9e3779b97f4a7c15 ^ (uintptr_t)&now ^
			 (uint64_t)getpid() << 40;
	}
	snprintf(key, sizeof(key), "%0*" PRIx64, KEY_BYTES, random);
}

static FILE *open_side(struct side *s)
{
	return fopencookie(s, "w",
			   (cookie_io_functions_t){.write = write_side, .close = close_side});
}

void border_begin(void)
{
	FILE *filtered = open_side(&out), *errors = open_side(&err);

	make_key();
	true_stdout = stdout;
	out_is_terminal = isatty(STDOUT_FILENO);
	if (!filtered || !errors)
		_exit(125); /* nothing may be printed without it */
	setvbuf(filtered, NULL, out_is_terminal ? _IOLBF : _IOFBF, BUFFER_BYTES);
	setvbuf(errors, NULL, _IONBF, 0);
	stdout = filtered;
	stderr = errors;
}

void border_sign(FILE *to, enum border_sign sign)
{
	fprintf(to, "\033%s%c", key, 'a' + (int)sign);
}

void border_replace_line(const char *text)
{
	struct winsize window;
	int columns = 80;

	if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &window) && window.ws_col)
		columns = window.ws_col;
	fprintf(stderr, "\033%s%c%.*s", key, 'a' + (int)SIGN_CLEAR_LINE, columns - 1, text);
	fflush(stderr);
}

FILE *border_data(void)
{
	return out_is_terminal ? stdout : true_stdout;
}

FILE *border_terminal(void)
{
	return true_stdout;
}

int border_flush(void)
{
	int error = 0;

	if (fflush(stdout) || ferror(stdout) || fflush(true_stdout) || ferror(true_stdout))
		error = errno ? errno : EIO;
	return error;
}
