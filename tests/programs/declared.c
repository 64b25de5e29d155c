/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks whose types only debug information tells. Says in JSON how many blocks of each type there are and how
 * many bytes they have, and waits until its standard input ends.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SESSIONS 1000
#define BUFFERS	 300
#define NODES	 50000
#define RANKED	 64

enum kind {
	SESSION,
	BUFFER,
	TABLE,
	NODE,
	RULES,
	CHUNK,
	TEXT,
	LOCAL,
	THREAD_LOCAL,
	POINTS,
	OPAQUE,
	KINDS
};

static const char *const names[KINDS] = {"session",    "buffer",  "session *[]", "node",
					 "rule[]",     "chunk",	  "char[]",	 "local_cache",
					 "per_thread", "point[]", "hidden"};
static size_t blocks[KINDS], bytes[KINDS];

static void *make(enum kind kind, size_t size)
{
	char *block = calloc(1, size);

	if (!block)
		abort();
	blocks[kind]++;
	bytes[kind] += malloc_usable_size(block);
	return block;
}

struct buffer {
	size_t length;
	char *text;
	void *anything;
	char inside[80];
};

struct session {
	int number;
	struct {
		struct buffer *in, *out;
	} buffers;
	struct session *next;
	union {
		struct session *peer;
		long code;
	} other;
	char name[60];
};

typedef struct node {
	struct node *next;
	char payload[24];
} node_t;

/* A type without a tag. */
typedef struct {
	int x, y;
	struct buffer *at;
} point;

struct rule {
	long low, high, weight;
	struct buffer *buffer;
	long more[6];
};

/* What follows is as long as it is. */
struct chunk {
	struct chunk *next;
	size_t length;
	struct buffer *in[];
};

struct local_cache {
	struct local_cache *self;
	char data[120];
};

struct per_thread {
	long numbers[19];
};

/* Its definition comes last. */
struct hidden;
struct hidden *make_hidden(void);

struct table {
	size_t count;
	struct session **session;
};

struct table g_table;
node_t *g_list;
static struct rule *volatile s_rules;
static struct chunk *volatile s_chunks[2][3];
point *g_points;
struct hidden *g_hidden;
void *g_anything;
static __thread struct per_thread *volatile t_own;
const struct session *volatile g_first;

static struct buffer *make_buffer(size_t text)
{
	struct buffer *b = make(BUFFER, sizeof(*b));

	b->text = make(TEXT, text);
	b->length = text;
	return b;
}

static void make_sessions(void)
{
	g_table.count = SESSIONS;
	g_table.session = make(TABLE, SESSIONS * sizeof(*g_table.session));
	for (size_t i = 0; i < SESSIONS; i++) {
		struct session *s = make(SESSION, sizeof(*s));

		g_table.session[i] = s;
		if (i < BUFFERS)
			s->buffers.in = make_buffer(100 + i);
		if (i)
			s->next = g_table.session[i - 1];
	}
	/* One that only the member of a union leads to. */
	g_table.session[7]->other.peer = make(SESSION, sizeof(struct session));
	g_first = g_table.session[0];
}

static void make_list(void)
{
	for (size_t i = 0; i < NODES; i++) {
		node_t *n = make(NODE, sizeof(*n));

		n->next = g_list;
		g_list = n;
	}
}

static void make_arrays(void)
{
	s_rules = make(RULES, RANKED * sizeof(*s_rules));
	s_rules[RANKED - 1].buffer = make_buffer(500);
	g_points = make(POINTS, RANKED * sizeof(*g_points));
	g_points[5].at = make_buffer(600);
	for (int i = 0; i < 6; i++) {
		struct chunk *c = make(CHUNK, sizeof(*c) + 8 * (size_t)(i + 2));

		c->in[i + 1] = make_buffer(700);
		s_chunks[i / 3][i % 3] = c;
	}
}

static void keep_local(void)
{
	static struct local_cache *volatile cache;

	cache = make(LOCAL, sizeof(*cache));
	cache->self = cache;
	t_own = make(THREAD_LOCAL, sizeof(*t_own));
}

int main(void)
{
	setvbuf(stdin, NULL, _IONBF, 0);
	setvbuf(stdout, NULL, _IONBF, 0);
	make_sessions();
	make_list();
	make_arrays();
	keep_local();
	g_hidden = make_hidden();
	g_anything = calloc(1, 3000);
	printf("{");
	for (int i = 0; i < KINDS; i++)
		printf("%s\"%s\": [%zu, %zu]", i ? ", " : "", names[i], blocks[i], bytes[i]);
	printf("}\n");
	while (getchar() != EOF)
		;
	return 0;
}

struct hidden {
	struct hidden *other;
	char text[180];
};

struct hidden *make_hidden(void)
{
	struct hidden *h = make(OPAQUE, sizeof(*h));

	h->other = make(OPAQUE, sizeof(*h));
	return h;
}
