/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small HTTP server that reports its activity to mayfly (mayfly/mayfly.h):
 *
 *	accept thread ──> queue ──> workers (a span and a label for each request)
 *	      │             │           ├─ /search?q=WORD   words of an index that contain it
 *	   "accept"      "queue"        ├─ /upload          keeps the body (POST)
 *	   with a flow  (counter)       ├─ /report          lists the uploads
 *	                                └─ /stats           number and size of the uploads
 *
 * Each request has an arena for memory that lives as long as the request; it is a pool in mayfly.
 *
 *	cc -O2 -g -Iinclude examples/server/server.c -o server -lpthread
 *	./server			listens on port 8080 of this host until it is interrupted
 *	./server --port N --threads N
 *	./server --load N		serves N generated requests, prints a summary, exits
 *
 * To see what it does and where its memory goes:
 *
 *	mayfly record -o server.mayfly -- ./server --load 20000
 *	mayfly report --spans server.mayfly
 *	mayfly report --by label:request --metric allocated server.mayfly
 *	mayfly export --to perfetto -o server.pftrace server.mayfly
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* names of threads */
#endif
#include <mayfly/mayfly.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_BYTES   4096
#define MOST_BODY    (1u << 20)
#define QUEUE	     64
#define ARENA_BYTES  65536
#define ARENA_BLOCKS 64
#define MOST_THREADS 64
#define WORDS	     4000

/* Events. The flow of a request leads from the thread that accepts it to the worker. */
MAYFLY_INSTANT(accepted, "accept", MAYFLY_FLOW("request"), MAYFLY_INT("waiting"));
MAYFLY_SPAN(serving, "request", MAYFLY_FLOW("request"), MAYFLY_TEXT("path"));
MAYFLY_SPAN(reading, "read");
MAYFLY_SPAN(searching, "search", MAYFLY_TEXT("word"));
MAYFLY_SPAN(building, "build report");
MAYFLY_SPAN(sending, "send", MAYFLY_UINT("bytes"));
MAYFLY_INSTANT(failed, "error", MAYFLY_INT("status"), MAYFLY_TEXT("path"));
MAYFLY_COUNTER(queued, "queue", "");
MAYFLY_COUNTER(kept, "uploads", "bytes");
MAYFLY_POOL(arenas, "arena", 0);

/* ---- arena: blocks that are freed together ---- */

struct arena {
	size_t used, blocks;
	void *block[ARENA_BLOCKS];
	_Alignas(16) char bytes[ARENA_BYTES];
};

/* NULL if the arena is full. */
static void *arena_take(struct arena *arena, size_t size)
{
	size_t rounded = (size + 15) / 16 * 16;
	char *block = arena->bytes + arena->used;

	if (rounded < size || rounded > ARENA_BYTES - arena->used || arena->blocks == ARENA_BLOCKS)
		return NULL;
	arena->used += rounded;
	arena->block[arena->blocks++] = block;
	mayfly_pool_alloc(&arenas, block, size);
	return block;
}

static char *arena_text(struct arena *arena, const char *text, size_t length)
{
	char *copy = arena_take(arena, length + 1);

	if (copy) {
		memcpy(copy, text, length);
		copy[length] = 0;
	}
	return copy;
}

static void arena_clear(struct arena *arena)
{
	for (size_t i = 0; i < arena->blocks; i++)
		mayfly_pool_free(&arenas, arena->block[i]);
	arena->used = arena->blocks = 0;
}

/* ---- pages ---- */

static char *words[WORDS];

/* Words made of syllables, the same in each run. */
static void make_words(void)
{
	static const char *const syllables[] = {"ma", "ri", "to", "ne", "ka", "lu", "se", "po"};

	for (unsigned i = 0; i < WORDS; i++) {
		char word[32] = "";

		for (unsigned rest = i + 64; rest; rest /= 8)
			strcat(word, syllables[rest % 8]);
		words[i] = strdup(word);
	}
}

struct upload {
	struct upload *next;
	size_t length;
	char body[];
};

static pthread_mutex_t upload_lock = PTHREAD_MUTEX_INITIALIZER;
static struct upload *uploads;
static size_t upload_bytes, upload_count;

static atomic_ulong served[4], errors;

struct request {
	int client;
	uint64_t number;
	struct arena *arena;
	char head[HEAD_BYTES];
	char *method, *path, *query;
	char *body;
	size_t body_length;
};

struct page {
	char *text;
	size_t length, size;
};

/* False: out of memory; the page is unchanged. */
static bool add(struct page *page, const char *text)
{
	size_t length = strlen(text);

	if (page->length + length + 1 > page->size) {
		size_t size = 2 * (page->length + length + 1);
		char *bigger = realloc(page->text, size);

		if (!bigger)
			return false;
		page->text = bigger;
		page->size = size;
	}
	memcpy(page->text + page->length, text, length + 1);
	page->length += length;
	return true;
}

static int search(struct request *r, struct page *page)
{
	const char *word = r->query && !strncmp(r->query, "q=", 2) ? r->query + 2 : "";
	char **found = arena_take(r->arena, WORDS / 4 * sizeof(*found));
	size_t count = 0;

	if (!found)
		return 500;
	mayfly_span_begin(&searching, word);
	for (unsigned i = 0; i < WORDS && count < WORDS / 4; i++)
		if (strstr(words[i], word))
			found[count++] = words[i];
	for (size_t i = 0; i < count; i++)
		if (!add(page, found[i]) || !add(page, "\n"))
			break;
	mayfly_span_end(&searching);
	return 200;
}

static int upload(struct request *r, struct page *page)
{
	struct upload *u;

	if (strcmp(r->method, "POST"))
		return 405;
	u = malloc(sizeof(*u) + r->body_length);
	if (!u)
		return 500;
	u->length = r->body_length;
	memcpy(u->body, r->body, r->body_length);
	pthread_mutex_lock(&upload_lock);
	u->next = uploads;
	uploads = u;
	upload_bytes += u->length;
	upload_count++;
	mayfly_counter(&kept, (int64_t)upload_bytes);
	pthread_mutex_unlock(&upload_lock);
	add(page, "kept\n");
	return 200;
}

/* Uploads are only added, at the front, so the list can be read without the lock. */
static int report(struct request *r, struct page *page)
{
	char *line = arena_take(r->arena, 64);
	const struct upload *u;

	if (!line)
		return 500;
	mayfly_span_begin(&building);
	pthread_mutex_lock(&upload_lock);
	u = uploads;
	pthread_mutex_unlock(&upload_lock);
	for (int i = 0; u && i < 1000; u = u->next, i++) {
		snprintf(line, 64, "%d: %zu bytes\n", i, u->length);
		if (!add(page, line))
			break;
	}
	mayfly_span_end(&building);
	return 200;
}

static int stats(struct request *r, struct page *page)
{
	char *line = arena_take(r->arena, 128);

	if (!line)
		return 500;
	pthread_mutex_lock(&upload_lock);
	snprintf(line, 128, "%zu uploads, %zu bytes\n", upload_count, upload_bytes);
	pthread_mutex_unlock(&upload_lock);
	add(page, line);
	return 200;
}

static const struct {
	const char *name, *path;
	int (*serve)(struct request *r, struct page *page);
} kinds[] = {
    {"search", "/search", search},
    {"upload", "/upload", upload},
    {"report", "/report", report},
    {"stats", "/stats", stats},
};
#define KINDS (sizeof(kinds) / sizeof(*kinds))

/* ---- requests ---- */

/* Reads the head, and a body of Content-Length bytes. False: not HTTP, or disconnected. */
static bool read_request(struct request *r)
{
	size_t length = 0, have;
	char *end = NULL, *line_end, *field;

	while (!end && length < HEAD_BYTES - 1) {
		ssize_t got = read(r->client, r->head + length, HEAD_BYTES - 1 - length);

		if (got <= 0)
			return false;
		length += (size_t)got;
		r->head[length] = 0;
		end = strstr(r->head, "\r\n\r\n");
	}
	if (!end)
		return false;
	*end = 0;
	end += 4;
	field = strstr(r->head, "Content-Length: ");
	r->body_length = field ? strtoul(field + 16, NULL, 10) : 0;
	if (r->body_length > MOST_BODY)
		return false;
	have = (size_t)(r->head + length - end);
	if (have > r->body_length)
		have = r->body_length;
	if (r->body_length) {
		r->body = malloc(r->body_length);
		if (!r->body)
			return false;
		memcpy(r->body, end, have);
	}
	while (have < r->body_length) {
		ssize_t got = read(r->client, r->body + have, r->body_length - have);

		if (got <= 0)
			return false;
		have += (size_t)got;
	}
	line_end = strstr(r->head, " HTTP/");
	r->path = strchr(r->head, ' ');
	if (!line_end || !r->path || r->path >= line_end)
		return false;
	r->method = arena_text(r->arena, r->head, (size_t)(r->path - r->head));
	r->path = arena_text(r->arena, r->path + 1, (size_t)(line_end - r->path - 1));
	if (!r->method || !r->path)
		return false;
	r->query = strchr(r->path, '?');
	if (r->query)
		*r->query++ = 0;
	return true;
}

static void write_all(int to, const char *text, size_t length)
{
	while (length) {
		ssize_t written = write(to, text, length);

		if (written <= 0)
			return;
		text += written;
		length -= (size_t)written;
	}
}

static void send_page(struct request *r, int status, const struct page *page)
{
	char head[128];
	int length =
	    snprintf(head, sizeof(head),
		     "HTTP/1.0 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n\r\n",
		     status, status == 200 ? "OK" : "Error", page->length);

	mayfly_span_begin(&sending, page->length);
	write_all(r->client, head, (size_t)length);
	write_all(r->client, page->text, page->length);
	mayfly_span_end(&sending);
}

static void answer(struct request *r)
{
	struct page page = {NULL, 0, 0};
	int status = 404;
	size_t kind = 0;

	while (kind < KINDS && strcmp(r->path, kinds[kind].path))
		kind++;
	mayfly_span_begin(&serving, r->number, r->path);
	mayfly_label_push("request", kind < KINDS ? kinds[kind].name : "other");
	if (kind < KINDS) {
		status = kinds[kind].serve(r, &page);
		served[kind]++;
	}
	if (status != 200) {
		errors++;
		mayfly_instant(&failed, status, r->path);
	}
	send_page(r, status, &page);
	free(page.text);
	mayfly_label_pop();
	mayfly_span_end(&serving);
}

static void serve(int client, uint64_t number, struct arena *arena)
{
	struct request *r = malloc(sizeof(*r));
	bool good;

	if (r) {
		r->client = client;
		r->number = number;
		r->arena = arena;
		r->body = NULL;
		mayfly_span_begin(&reading);
		good = read_request(r);
		mayfly_span_end(&reading);
		if (good)
			answer(r);
		else
			errors++;
		free(r->body);
		free(r);
	}
	arena_clear(arena);
	close(client);
}

/* ---- threads ---- */

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_filled = PTHREAD_COND_INITIALIZER;
static pthread_cond_t queue_emptied = PTHREAD_COND_INITIALIZER;
static int queue[QUEUE];
static uint64_t queue_head, queue_tail; /* total requests added, total requests taken */
static bool over;

static void put(int client)
{
	pthread_mutex_lock(&queue_lock);
	while (queue_head - queue_tail == QUEUE)
		pthread_cond_wait(&queue_emptied, &queue_lock);
	queue[queue_head % QUEUE] = client;
	mayfly_instant(&accepted, queue_head, queue_head - queue_tail);
	queue_head++;
	mayfly_counter(&queued, (int64_t)(queue_head - queue_tail));
	pthread_cond_signal(&queue_filled);
	pthread_mutex_unlock(&queue_lock);
}

/* Returns -1 when there are no more requests. */
static int take(uint64_t *number)
{
	int client = -1;

	pthread_mutex_lock(&queue_lock);
	while (queue_head == queue_tail && !over)
		pthread_cond_wait(&queue_filled, &queue_lock);
	if (queue_head != queue_tail) {
		*number = queue_tail;
		client = queue[queue_tail++ % QUEUE];
		mayfly_counter(&queued, (int64_t)(queue_head - queue_tail));
		pthread_cond_signal(&queue_emptied);
	}
	pthread_mutex_unlock(&queue_lock);
	return client;
}

static void *work(void *unused)
{
	struct arena *arena = malloc(sizeof(*arena));
	uint64_t number;
	int client;

	pthread_setname_np(pthread_self(), "worker");
	if (!arena)
		return unused;
	arena->used = arena->blocks = 0;
	while ((client = take(&number)) >= 0)
		serve(client, number, arena);
	free(arena);
	return unused;
}

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
	(void)number;
	interrupted = 1;
}

static void serve_port(unsigned port)
{
	int one = 1, client, listener = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in address = {
	    .sin_family = AF_INET,
	    .sin_port = htons((uint16_t)port),
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) ||
	    listen(listener, 64)) {
		fprintf(stderr, "server: port %u: %s\n", port, strerror(errno));
		exit(1);
	}
	printf("http://localhost:%u/search?q=mari\n", port);
	fflush(stdout);
	while (!interrupted)
		if ((client = accept(listener, NULL, NULL)) >= 0)
			put(client);
	close(listener);
}

/* ---- load: built-in clients, without a network ---- */

static uint64_t dice(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* Mostly searches; uploads of up to 16 KB; occasionally a report, or a page that does not exist. */
static size_t write_request(char *out, uint64_t *state)
{
	static const char body[16384];
	uint64_t d = dice(state), kind = d % 100;
	size_t length = (size_t)(d >> 8) % sizeof(body);
	int head;

	if (kind < 70)
		return (size_t)sprintf(out, "GET /search?q=%.3s HTTP/1.0\r\n\r\n",
				       words[(d >> 8) % WORDS]);
	if (kind < 72)
		return (size_t)sprintf(out, "GET /report HTTP/1.0\r\n\r\n");
	if (kind < 74)
		return (size_t)sprintf(out, "GET /stats HTTP/1.0\r\n\r\n");
	if (kind < 75)
		return (size_t)sprintf(out, "GET /nowhere HTTP/1.0\r\n\r\n");
	head = sprintf(out, "POST /upload HTTP/1.0\r\nContent-Length: %zu\r\n\r\n", length);
	memcpy(out + head, body, length);
	return (size_t)head + length;
}

static void *client_work(void *argument)
{
	unsigned long count = *(unsigned long *)argument;
	char *request = malloc(32768), *answer_bytes = malloc(65536);
	uint64_t state = 1;

	pthread_setname_np(pthread_self(), "client");
	while (count-- && request && answer_bytes) {
		size_t length = write_request(request, &state);
		int pair[2];

		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) {
			perror("server: socketpair");
			exit(1);
		}
		put(pair[1]);
		write_all(pair[0], request, length);
		while (read(pair[0], answer_bytes, 65536) > 0)
			;
		close(pair[0]);
	}
	free(request);
	free(answer_bytes);
	return NULL;
}

static void serve_load(unsigned long count)
{
	pthread_t client[2];

	count /= 2;
	for (int i = 0; i < 2; i++)
		pthread_create(&client[i], NULL, client_work, &count);
	for (int i = 0; i < 2; i++)
		pthread_join(client[i], NULL);
	for (size_t i = 0; i < KINDS; i++)
		printf("%s %lu\n", kinds[i].name, served[i]);
	printf("errors %lu\n%zu bytes kept\n", errors, upload_bytes);
}

static void usage(void)
{
	fprintf(stderr, "usage: server [--port N] [--threads N] [--load N]\n");
	exit(2);
}

int main(int argc, char **argv)
{
	unsigned long port = 8080, threads = 4, load = 0;
	pthread_t worker[MOST_THREADS];

	for (int i = 1; i < argc; i += 2) {
		unsigned long number = i + 1 < argc ? strtoul(argv[i + 1], NULL, 10) : 0;

		if (!number)
			usage();
		if (!strcmp(argv[i], "--port") && number < 65536)
			port = number;
		else if (!strcmp(argv[i], "--threads") && number <= MOST_THREADS)
			threads = number;
		else if (!strcmp(argv[i], "--load"))
			load = number;
		else
			usage();
	}
	signal(SIGPIPE, SIG_IGN);
	sigaction(SIGINT, &(struct sigaction){.sa_handler = interrupt}, NULL);
	make_words();
	for (unsigned long i = 0; i < threads; i++)
		pthread_create(&worker[i], NULL, work, NULL);
	if (load)
		serve_load(load);
	else
		serve_port((unsigned)port);
	pthread_mutex_lock(&queue_lock);
	over = true;
	pthread_cond_broadcast(&queue_filled);
	pthread_mutex_unlock(&queue_lock);
	for (unsigned long i = 0; i < threads; i++)
		pthread_join(worker[i], NULL);
	return 0;
}
