/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h with libmicrohttpd.
 *
 *	one thread: sockets, headers, checks ──> queue ──> some threads: view_ask()
 *	        ▲                                                  │
 *	        └────────── the connection is resumed <────────────┘
 *
 * The thread of the sockets never waits for an answer, so neither slow requests nor slow clients
 * hold up the others. A view is counted by those who use it: the server, and each request that is
 * being answered.
 */
#include "serve/server.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/percent.h"
#include "serve/request_check.h"

#define WORKERS_LEAST	      2
#define WORKERS_MOST	      4
#define MOST_CONNECTIONS      400u
#define IDLE_SECONDS	      60u
#define CONNECTION_BYTES      ((size_t)32 << 10) /* headers of a request, and its URI */
#define MOST_URI	      8192u
#define URL_TEXT	      80
#define STATUS_UNANSWERED     503u
#define NANOSECONDS_OF_SECOND 1000000000ll

/* The page is one file, with its scripts and styles in it; WebAssembly and workers are for the page
 * that answers itself. */
#define POLICY                                                                                     \
	"default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval' blob:; "                \
	"style-src 'unsafe-inline'; img-src 'self' data: blob:; font-src data:; "                  \
	"connect-src 'self' data: blob:; worker-src blob:; base-uri 'none'; form-action 'none'; "  \
	"frame-ancestors 'none'"

static const struct {
	const char *name, *value;
} heads_of_all[] = {
    {"Content-Security-Policy", POLICY},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cache-Control", "no-store"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
};

/* A view with its users. */
struct shown {
	struct view view;
	size_t users;
	void (*release)(void *context);
	void *context;
};

enum request_state {
	REQUEST_NEW,
	REQUEST_CHECKED,  /* may be answered */
	REQUEST_WAITING,  /* in the queue, or being answered; its connection is suspended */
	REQUEST_ANSWERED, /* has an answer, or will not get one */
};

struct request {
	struct server *server;
	char *uri;	   /* as it was sent */
	const char *asked; /* of the view, or: */
	char *compared;	   /* a path, to be decoded */
	struct MHD_Connection *connection;
	int socket;
	enum request_state state;
	bool answered;
	struct view_answer answer;
	struct request *next;
};

struct server {
	char token[TOKEN_TEXT];
	char url[URL_TEXT];
	uint16_t port;
	const char *page;
	size_t page_size;
	bool (*compare)(void *context, const char *path);
	void *compare_context;
	struct MHD_Daemon *daemon;
	pthread_t worker[WORKERS_MOST];
	size_t workers;

	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t work, idle;
	struct request *first, *last; /* the queue */
	size_t busy;
	struct shown *shown;
	unsigned long generation;
	bool live, stopping;
};

bool server_supported(void)
{
	return true;
}

const char *server_url(const struct server *s)
{
	return s->url;
}

uint16_t server_port(const struct server *s)
{
	return s->port;
}

/* ---- views ---- */

/* With the lock held. */
static struct shown *take_view(struct server *s)
{
	s->shown->users++;
	return s->shown;
}

/* Without the lock. */
static void drop_view(struct server *s, struct shown *shown)
{
	bool unused;

	if (!shown)
		return;
	pthread_mutex_lock(&s->lock);
	assert(shown->users);
	unused = --shown->users == 0;
	pthread_mutex_unlock(&s->lock);
	if (!unused)
		return;
	shown->release(shown->context);
	free(shown);
}

bool server_show(struct server *s, const struct view *view, bool live,
		 void (*release)(void *context), void *context)
{
	struct shown *made = malloc(sizeof(*made)), *before;

	if (!made) {
		release(context);
		return false;
	}
	*made = (struct shown){*view, 1, release, context};
	pthread_mutex_lock(&s->lock);
	before = s->shown;
	s->shown = made;
	s->generation++;
	s->live = live;
	pthread_cond_broadcast(&s->work);
	pthread_mutex_unlock(&s->lock);
	drop_view(s, before);
	return true;
}

void server_settle(struct server *s)
{
	pthread_mutex_lock(&s->lock);
	s->live = false;
	pthread_mutex_unlock(&s->lock);
}

/* ---- answering ---- */

/* With the lock held. */
static struct request *take_request(struct server *s)
{
	struct request *r = s->first;

	s->first = r->next;
	if (!s->first)
		s->last = NULL;
	return r;
}

/* The page gives a request up when the user has gone on to another one. */
static bool is_given_up(const struct request *r)
{
	char byte;

	return r->socket >= 0 && recv(r->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Only a program that was told this page's token can name files, and it is the user's. */
static void compare_with(struct server *s, struct request *r)
{
	static const char bad[] = "{\"error\": \"It could not be opened as a trace; the terminal "
				  "says why.\"}\n",
			  good[] = "{\"compared\": true}\n";
	bool done = s->compare && percent_decode(r->compared) &&
		    s->compare(s->compare_context, r->compared);

	r->answer.status = VIEW_OK; /* a file that is no trace is no error of the page */
	r->answer.type = "application/json";
	bytes_put(&r->answer.bytes, done ? good : bad, (done ? sizeof(good) : sizeof(bad)) - 1);
}

static void *answer_requests(void *context)
{
	struct server *s = context;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		struct request *r;
		struct shown *shown;

		while (!s->stopping && (!s->first || !s->shown))
			pthread_cond_wait(&s->work, &s->lock);
		if (s->stopping)
			break;
		r = take_request(s);
		shown = take_view(s);
		s->busy++;
		pthread_mutex_unlock(&s->lock);

		if (!is_given_up(r)) {
			if (r->compared)
				compare_with(s, r);
			else
				view_ask(&shown->view, r->asked, &r->answer);
			r->answered = !r->answer.bytes.failed;
		}
		drop_view(s, shown);
		r->state = REQUEST_ANSWERED;
		/* From now on the request belongs to the thread of the sockets. */
		MHD_resume_connection(r->connection);

		pthread_mutex_lock(&s->lock);
		s->busy--;
		pthread_cond_signal(&s->idle);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* ---- the thread of the sockets ---- */

static enum MHD_Result respond(struct MHD_Connection *connection, unsigned int status,
			       const char *type, struct MHD_Response *response)
{
	enum MHD_Result result = MHD_NO;
	bool good;

	if (!response)
		return MHD_NO;
	good = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES;
	for (size_t i = 0; i < sizeof(heads_of_all) / sizeof(heads_of_all[0]) && good; i++)
		good = MHD_add_response_header(response, heads_of_all[i].name,
					       heads_of_all[i].value) == MHD_YES;
	if (good && status == MHD_HTTP_METHOD_NOT_ALLOWED)
		good = MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD") ==
		       MHD_YES;
	if (good)
		result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result respond_text(struct MHD_Connection *connection, unsigned int status,
				    const char *type, const char *text)
{
	return respond(connection, status, type,
		       MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text,
						       MHD_RESPMEM_MUST_COPY));
}

/* What is refused learns nothing but that. */
static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned int status)
{
	return respond_text(connection, status, "text/plain; charset=utf-8",
			    status == MHD_HTTP_NOT_FOUND ? "Not found\n" : "Refused\n");
}

static enum MHD_Result respond_answer(struct request *r)
{
	struct bytes *b = &r->answer.bytes;
	struct MHD_Response *response;

	if (!r->answered)
		return refuse(r->connection, STATUS_UNANSWERED);
	response = b->at ? MHD_create_response_from_buffer(b->used, b->at, MHD_RESPMEM_MUST_FREE)
			 : MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
	if (response)
		*b = (struct bytes){0};
	return respond(r->connection, (unsigned int)r->answer.status, r->answer.type, response);
}

/* False: the server is about to end. */
static bool put_into_queue(struct request *r)
{
	struct server *s = r->server;
	const union MHD_ConnectionInfo *info =
	    MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	bool good;

	r->socket = info ? info->connect_fd : -1;
	pthread_mutex_lock(&s->lock);
	good = !s->stopping;
	if (good) {
		MHD_suspend_connection(r->connection);
		r->state = REQUEST_WAITING;
		if (s->last)
			s->last->next = r;
		else
			s->first = r;
		s->last = r;
		pthread_cond_signal(&s->work);
	}
	pthread_mutex_unlock(&s->lock);
	return good;
}

static enum MHD_Result respond_changes(struct request *r)
{
	struct server *s = r->server;
	char text[64];

	pthread_mutex_lock(&s->lock);
	snprintf(text, sizeof(text), "{\"generation\": %lu, \"live\": %s}\n", s->generation,
		 s->live ? "true" : "false");
	pthread_mutex_unlock(&s->lock);
	return respond_text(r->connection, MHD_HTTP_OK, "application/json", text);
}

static enum MHD_Result take_head(void *context, enum MHD_ValueKind kind, const char *name,
				 const char *value)
{
	(void)kind;
	request_head(context, name, value);
	return MHD_YES;
}

/* 0: it may be answered. Otherwise the status to refuse it with. */
static unsigned int refusal(const struct request *r, const char *method)
{
	struct request_heads heads = {.port = r->server->port};
	const char *length;

	MHD_get_connection_values(r->connection, MHD_HEADER_KIND, take_head, &heads);
	if (!request_is_ours(&heads))
		return MHD_HTTP_FORBIDDEN;
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return MHD_HTTP_METHOD_NOT_ALLOWED;
	length = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND,
					     MHD_HTTP_HEADER_CONTENT_LENGTH);
	if ((length && strcmp(length, "0") != 0) ||
	    MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND,
					MHD_HTTP_HEADER_TRANSFER_ENCODING))
		return MHD_HTTP_BAD_REQUEST;
	return strlen(r->uri) > MOST_URI ? MHD_HTTP_URI_TOO_LONG : 0;
}

/* Before the body, so that nothing of it is read. Answers come after it (there is none): a response
 * that is given at this point closes the connection. */
static enum MHD_Result check(struct request *r, const char *method)
{
	unsigned int refused = refusal(r, method);

	if (refused)
		return refuse(r->connection, refused);
	r->state = REQUEST_CHECKED;
	return MHD_YES;
}

static enum MHD_Result respond_checked(struct request *r)
{
	static const char ask[] = "ask/", compare[] = "compare/";
	const struct server *s = r->server;
	const char *rest = request_after_token(r->uri, s->token);

	if (!rest)
		return refuse(r->connection, MHD_HTTP_NOT_FOUND);
	if (!*rest || *rest == '?')
		return respond(r->connection, MHD_HTTP_OK, "text/html; charset=utf-8",
			       MHD_create_response_from_buffer(s->page_size,
							       (void *)(uintptr_t)s->page,
							       MHD_RESPMEM_PERSISTENT));
	if (strcmp(rest, "changes") == 0)
		return respond_changes(r);
	if (strncmp(rest, compare, sizeof(compare) - 1) == 0)
		r->compared = r->uri + (rest - r->uri) + sizeof(compare) - 1;
	else if (strncmp(rest, ask, sizeof(ask) - 1) == 0)
		r->asked = rest + sizeof(ask) - 1;
	else
		return refuse(r->connection, MHD_HTTP_NOT_FOUND);
	return put_into_queue(r) ? MHD_YES : refuse(r->connection, STATUS_UNANSWERED);
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_bytes, void **own)
{
	struct request *r = *own;

	(void)context;
	(void)url;
	(void)version;
	(void)upload;
	(void)upload_bytes;
	if (!r)
		return MHD_NO;
	r->connection = connection;
	switch (r->state) {
	case REQUEST_NEW:
		return check(r, method);
	case REQUEST_CHECKED:
		return respond_checked(r);
	case REQUEST_WAITING:
		return MHD_YES;
	case REQUEST_ANSWERED:
		return respond_answer(r);
	}
	return MHD_NO;
}

/* The URI before anything in it is decoded. */
static void *begin_request(void *context, const char *uri, struct MHD_Connection *connection)
{
	struct request *r = calloc(1, sizeof(*r));

	(void)connection;
	if (r)
		r->uri = strdup(uri);
	if (!r || !r->uri) {
		free(r);
		return NULL;
	}
	r->server = context;
	return r;
}

static void end_request(void *context, struct MHD_Connection *connection, void **own,
			enum MHD_RequestTerminationCode code)
{
	struct request *r = *own;

	(void)context;
	(void)connection;
	(void)code;
	if (!r)
		return;
	bytes_free(&r->answer.bytes);
	free(r->uri);
	free(r);
	*own = NULL;
}

/* ---- start and end ---- */

/* An errno, or 0 with a socket that listens on 127.0.0.1, and the port that it got. */
static int listen_here(uint16_t *port, int *out)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				      .sin_port = htons(*port)};
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1, error;

	if (fd < 0)
		return errno;
	/* A port that is given is free again as soon as the server before has ended. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, SOMAXCONN) ||
	    getsockname(fd, (struct sockaddr *)&address, &size)) {
		error = errno;
		close(fd);
		return error;
	}
	*port = ntohs(address.sin_port);
	*out = fd;
	return 0;
}

static int make_token(char *text)
{
	uint8_t random[(TOKEN_TEXT - 1) / 2];
	ssize_t got;

	do
		got = getrandom(random, sizeof(random), 0);
	while (got < 0 && errno == EINTR);
	if (got != (ssize_t)sizeof(random))
		return got < 0 ? errno : EIO;
	for (size_t i = 0; i < sizeof(random); i++)
		sprintf(text + 2 * i, "%02x", random[i]);
	return 0;
}

static size_t workers_wanted(void)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	if (processors < WORKERS_LEAST)
		return WORKERS_LEAST;
	return processors > WORKERS_MOST ? WORKERS_MOST : (size_t)processors;
}

static int start_daemon(struct server *s)
{
	int fd = -1, error = listen_here(&s->port, &fd);

	if (error)
		return error;
	snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%u/%s/", s->port, s->token);
	errno = 0;
	s->daemon = MHD_start_daemon(
	    MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, handle, s,
	    MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_URI_LOG_CALLBACK, begin_request, s,
	    MHD_OPTION_NOTIFY_COMPLETED, end_request, s, MHD_OPTION_CONNECTION_LIMIT,
	    MOST_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS,
	    MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1,
	    MHD_OPTION_END);
	if (s->daemon)
		return 0;
	error = errno ? errno : ENOMEM;
	close(fd);
	return error;
}

static void free_server(struct server *s)
{
	drop_view(s, s->shown);
	pthread_cond_destroy(&s->work);
	pthread_cond_destroy(&s->idle);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* Signals are for the thread that started the server, but for those that its own accesses raise. */
static int start_threads(struct server *s)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	error = start_daemon(s);
	for (size_t wanted = workers_wanted(); !error && s->workers < wanted; s->workers++)
		error = pthread_create(&s->worker[s->workers], NULL, answer_requests, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

/* With the lock held. */
static bool wait_until_idle(struct server *s, unsigned int milliseconds)
{
	struct timespec end;
	int error = 0;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += milliseconds / 1000;
	end.tv_nsec += milliseconds % 1000 * 1000000l;
	if (end.tv_nsec >= NANOSECONDS_OF_SECOND) {
		end.tv_nsec -= NANOSECONDS_OF_SECOND;
		end.tv_sec++;
	}
	while (s->busy && !error)
		error = pthread_cond_timedwait(&s->idle, &s->lock, &end);
	return !s->busy;
}

bool server_stop(struct server *s, unsigned int milliseconds)
{
	bool idle;

	if (!s)
		return true;
	pthread_mutex_lock(&s->lock);
	s->stopping = true;
	pthread_cond_broadcast(&s->work);
	idle = wait_until_idle(s, milliseconds);
	pthread_mutex_unlock(&s->lock);
	if (!idle)
		return false;
	for (size_t i = 0; i < s->workers; i++)
		pthread_join(s->worker[i], NULL);
	/* Connections that are suspended cannot be closed. */
	while (s->first) {
		struct request *r = take_request(s);

		r->state = REQUEST_ANSWERED;
		MHD_resume_connection(r->connection);
	}
	if (s->daemon)
		MHD_stop_daemon(s->daemon);
	free_server(s);
	return true;
}

int server_start(const struct server_settings *settings, struct server **out)
{
	struct server *s = calloc(1, sizeof(*s));
	pthread_condattr_t monotonic;
	int error;

	*out = NULL;
	if (!s)
		return ENOMEM;
	s->port = settings->port;
	s->live = true; /* the first view comes */
	s->page = settings->page;
	s->page_size = settings->page_size;
	s->compare = settings->compare;
	s->compare_context = settings->context;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->work, NULL);
	pthread_cond_init(&s->idle, &monotonic);
	pthread_condattr_destroy(&monotonic);
	error = make_token(s->token);
	if (!error)
		error = start_threads(s);
	if (error)
		server_stop(s, 0);
	else
		*out = s;
	return error;
}
