/* SPDX-License-Identifier: Apache-2.0 */
/* Reading compressed input: see packed.h. */
#include "convert/import/packed.h"

#include <mayfly/trace.h>

#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/array.h"

#define WINDOW_LOG 27 /* the largest window of zstd's levels; larger ones need an option */
#define GZIP_BITS  (15 + 16)
#define PIECE	   65536

enum packing { PLAIN, ZSTD, GZIP };

struct packed {
	enum packing packing;
	const uint8_t *data;
	size_t size, at;
	ZSTD_DStream *zstd;
	z_stream gzip;
	bool inside; /* a frame or member has begun and not ended */
	const char *problem;
};

static enum packing recognise(const uint8_t *data, size_t size)
{
	static const uint8_t zstd[] = {0x28, 0xb5, 0x2f, 0xfd}, gzip[] = {0x1f, 0x8b, 8};

	if (size >= sizeof(zstd) && memcmp(data, zstd, sizeof(zstd)) == 0)
		return ZSTD;
	return size >= sizeof(gzip) && memcmp(data, gzip, sizeof(gzip)) == 0 ? GZIP : PLAIN;
}

static bool packed_begin(struct packed *p)
{
	if (p->packing == ZSTD) {
		p->zstd = ZSTD_createDStream();
		return p->zstd && !ZSTD_isError(ZSTD_DCtx_setParameter(p->zstd, ZSTD_d_windowLogMax,
								       WINDOW_LOG));
	}
	return p->packing == PLAIN || inflateInit2(&p->gzip, GZIP_BITS) == Z_OK;
}

static void close_packed(struct packed *p)
{
	if (!p)
		return;
	ZSTD_freeDStream(p->zstd);
	if (p->packing == GZIP)
		inflateEnd(&p->gzip);
	free(p);
}

static struct packed *open_packed(const void *data, size_t size)
{
	struct packed *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->packing = recognise(data, size);
	p->data = data;
	p->size = size;
	p->problem = "";
	if (packed_begin(p))
		return p;
	if (p->packing == GZIP)
		p->packing = PLAIN; /* there is no decoder to free */
	close_packed(p);
	return NULL;
}

static size_t read_plain(struct packed *p, void *to, size_t size)
{
	if (size > p->size - p->at)
		size = p->size - p->at;
	if (size)
		memcpy(to, p->data + p->at, size);
	p->at += size;
	return size;
}

static size_t read_zstd(struct packed *p, void *to, size_t size)
{
	ZSTD_outBuffer out = {to, size, 0};
	ZSTD_inBuffer in = {p->data, p->size, p->at};

	/* At the end of the input, no new frame may be begun. */
	while (!out.pos && (p->inside || in.pos < in.size)) {
		size_t taken = in.pos, result = ZSTD_decompressStream(p->zstd, &out, &in);

		if (ZSTD_isError(result)) {
			p->problem = "cannot be unpacked";
			break;
		}
		p->inside = result != 0;
		if (in.pos == in.size && !out.pos) {
			if (p->inside)
				p->problem = "cut off";
			break;
		}
		if (!out.pos && taken == in.pos)
			break;
	}
	p->at = in.pos;
	return out.pos;
}

/* zlib's sizes are unsigned int. */
static unsigned piece(size_t size)
{
	return size > 1u << 30 ? 1u << 30 : (unsigned)size;
}

/* After a member there may be another one, or zeros. */
static bool next_member(struct packed *p)
{
	while (p->at < p->size && p->data[p->at] == 0)
		p->at++;
	if (p->at == p->size)
		return false;
	if (inflateReset(&p->gzip) != Z_OK)
		p->problem = "cannot be unpacked";
	return !*p->problem;
}

static size_t read_gzip(struct packed *p, void *to, size_t size)
{
	z_stream *z = &p->gzip;

	z->next_out = to;
	z->avail_out = piece(size);
	while (z->next_out == (Bytef *)to && !*p->problem) {
		int result;

		if (!p->inside && !next_member(p))
			break;
		p->inside = true;
		z->next_in = (Bytef *)(uintptr_t)(p->data + p->at);
		z->avail_in = piece(p->size - p->at);
		result = inflate(z, Z_NO_FLUSH);
		p->at = (size_t)(z->next_in - p->data);
		if (result == Z_STREAM_END)
			p->inside = false;
		else if (result == Z_BUF_ERROR ||
			 (result == Z_OK && p->at == p->size && z->next_out == (Bytef *)to))
			p->problem = "cut off";
		else if (result != Z_OK)
			p->problem = "cannot be unpacked";
	}
	return (size_t)(z->next_out - (Bytef *)to);
}

static size_t read_packed(struct packed *p, void *to, size_t size)
{
	if (*p->problem || !size)
		return 0;
	switch (p->packing) {
	case ZSTD:
		return read_zstd(p, to, size);
	case GZIP:
		return read_gzip(p, to, size);
	case PLAIN:
		break;
	}
	return read_plain(p, to, size);
}

size_t packed_peek(const void *data, size_t size, void *to, size_t want)
{
	struct packed *p = open_packed(data, size);
	size_t used = 0, more = 1;

	while (p && more && used < want) {
		more = read_packed(p, (char *)to + used, want - used);
		used += more;
	}
	close_packed(p);
	return used;
}

int packed_all(const void *data, size_t size, size_t most, uint8_t **bytes, size_t *used,
	       const char **problem)
{
	struct packed *p = open_packed(data, size);
	size_t room = 0, more = 1;
	int error = p ? 0 : MAYFLY_E_MEMORY;

	*bytes = NULL;
	*used = 0;
	*problem = "";
	while (!error && more) {
		if (*used > most)
			error = MAYFLY_E_TOO_LARGE;
		else if (!array_reserve(bytes, &room, *used + PIECE, 1))
			error = MAYFLY_E_MEMORY;
		if (error)
			break;
		more = read_packed(p, *bytes + *used, room - *used);
		*used += more;
	}
	if (!error)
		*problem = p->problem;
	close_packed(p);
	if (!error)
		return 0;
	free(*bytes);
	*bytes = NULL;
	*used = 0;
	return error;
}

/* ---- by lines ---- */

bool packed_lines_open(struct packed_lines *l, const void *data, size_t size)
{
	*l = (struct packed_lines){.packed = open_packed(data, size), .problem = ""};
	if (l->packed) {
		l->room = 256 << 10;
		l->buffer = malloc(l->room + 1);
	}
	if (l->buffer)
		return true;
	packed_lines_close(l);
	l->error = MAYFLY_E_MEMORY;
	return false;
}

void packed_lines_close(struct packed_lines *l)
{
	close_packed(l->packed);
	free(l->buffer);
	l->packed = NULL;
	l->buffer = NULL;
}

/* Appends more bytes to the buffer; false: there are no more. */
static bool packed_fill(struct packed_lines *l)
{
	size_t more;

	if (l->begin) {
		memmove(l->buffer, l->buffer + l->begin, l->end - l->begin);
		l->end -= l->begin;
		l->begin = 0;
	}
	if (l->end == l->room) {
		char *bigger =
		    l->room < PACKED_LINE_MAX ? realloc(l->buffer, l->room * 2 + 1) : NULL;

		if (!bigger) {
			if (l->room < PACKED_LINE_MAX)
				l->error = MAYFLY_E_MEMORY;
			l->problem = "a line that is too long";
			return false;
		}
		l->buffer = bigger;
		l->room *= 2;
	}
	more = read_packed(l->packed, l->buffer + l->end, l->room - l->end);
	l->end += more;
	if (!more)
		l->problem = l->packed->problem;
	return more > 0;
}

char *packed_lines_next(struct packed_lines *l, size_t *length)
{
	size_t looked = 0;
	char *line, *end;

	while (!l->ended) {
		line = l->buffer + l->begin;
		end = memchr(line + looked, '\n', l->end - l->begin - looked);
		looked = l->end - l->begin;
		if (!end && packed_fill(l))
			continue;
		if (!end) {
			/* The last line may lack its end, unless the input was cut off. */
			l->ended = true;
			if (*l->problem || l->begin == l->end)
				break;
			line = l->buffer + l->begin;
			end = l->buffer + l->end;
			l->begin = l->end;
		} else {
			l->begin = (size_t)(end - l->buffer) + 1;
		}
		*end = 0;
		*length = (size_t)(end - line);
		l->number++;
		return line;
	}
	return NULL;
}
