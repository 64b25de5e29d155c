/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_server.h with libmicrohttpd.
 *
 *	one thread: sockets, headers, checks ──> queue ──> some threads: answer()
 *	        ▲                                                  │
 *	        └────────── the connection is resumed <────────────┘
 *
 * The thread of the sockets never waits for an answer, so neither slow requests nor slow clients
 * hold up the others. A request that is to be answered later waits in the queue, in order of time.
 */
#include "serve/http_server.h"

#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "serve/request_check.h"

#define WORKERS_LEAST	      2
#define WORKERS_MOST	      4
#define MOST_CONNECTIONS      400u
#define IDLE_SECONDS	      60u
#define CONNECTION_BYTES      ((size_t)32 << 10) /* headers of a request, and its URI */
#define MOST_URI	      8192u
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

enum request_state {
	REQUEST_NEW,
	REQUEST_CHECKED,  /* may be answered */
	REQUEST_WAITING,  /* in the queue, or being answered; its connection is suspended */
	REQUEST_ANSWERED, /* has an answer, or will not get one */
};

struct request {
	struct http_server *server;
	char *uri; /* as it was sent */
	struct MHD_Connection *connection;
	int socket;
	enum request_state state;
	int64_t due_ns; /* CLOCK_MONOTONIC; 0: at once */
	bool answered;
	struct http_answer answer;
	struct request *next;
};

struct http_server {
	struct http_server_settings with;
	struct http_place place;
	struct request_login login;
	struct MHD_Daemon *daemon;
	pthread_t worker[WORKERS_MOST];
	size_t workers;

	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t work, idle;
	struct request *first; /* the queue, by due_ns */
	size_t busy;
	bool waits, stopping;
};

bool http_server_supported(void)
{
	return true;
}

const struct http_place *http_server_place(const struct http_server *s)
{
	return &s->place;
}

/* ---- answering ---- */

/* With the lock held. */
static struct request *take_request(struct http_server *s)
{
	struct request *r = s->first;

	s->first = r->next;
	return r;
}

/* With the lock held: those that are due earlier, or as early, come first. */
static void add_request(struct http_server *s, struct request *r)
{
	struct request **at = &s->first;

	while (*at && (*at)->due_ns <= r->due_ns)
		at = &(*at)->next;
	r->next = *at;
	*at = r;
}

static struct timespec time_of(int64_t ns)
{
	return (struct timespec){ns / NANOSECONDS_OF_SECOND, ns % NANOSECONDS_OF_SECOND};
}

/* Until there is a request that is due. With the lock held. False: the server ends. */
static bool wait_for_request(struct http_server *s)
{
	while (!s->stopping) {
		struct timespec due;

		if (s->waits || !s->first) {
			pthread_cond_wait(&s->work, &s->lock);
			continue;
		}
		if (s->first->due_ns <= now_ns())
			return true;
		due = time_of(s->first->due_ns);
		pthread_cond_timedwait(&s->work, &s->lock, &due);
	}
	return false;
}

/* Whoever asked has gone on to something else. */
static bool is_given_up(const struct request *r)
{
	char byte;

	return r->socket >= 0 && recv(r->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static void *answer_requests(void *context)
{
	struct http_server *s = context;

	pthread_mutex_lock(&s->lock);
	while (wait_for_request(s)) {
		struct request *r = take_request(s);

		s->busy++;
		pthread_mutex_unlock(&s->lock);
		if (!is_given_up(r))
			r->answered = s->with.answer(s->with.context, r->uri, &r->answer) &&
				      !r->answer.bytes.failed;
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
	if (good && status == MHD_HTTP_UNAUTHORIZED)
		good = MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
					       "Basic realm=\"mayfly\"") == MHD_YES;
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
	struct http_answer *a = &r->answer;
	struct bytes *b = &a->bytes;
	struct MHD_Response *response;

	if (!r->answered)
		return refuse(r->connection, STATUS_UNANSWERED);
	if (b->at)
		response = MHD_create_response_from_buffer(b->used, b->at, MHD_RESPMEM_MUST_FREE);
	else
		response = MHD_create_response_from_buffer(
		    a->kept ? a->kept_size : 0, (void *)(uintptr_t)(a->kept ? a->kept : ""),
		    MHD_RESPMEM_PERSISTENT);
	if (response)
		*b = (struct bytes){0};
	return respond(r->connection, a->status, a->type, response);
}

/* False: the server is about to end. */
static bool put_into_queue(struct request *r)
{
	struct http_server *s = r->server;
	const union MHD_ConnectionInfo *info =
	    MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	bool good;

	r->socket = info ? info->connect_fd : -1;
	pthread_mutex_lock(&s->lock);
	good = !s->stopping;
	if (good) {
		MHD_suspend_connection(r->connection);
		r->state = REQUEST_WAITING;
		add_request(s, r);
		pthread_cond_signal(&s->work);
	}
	pthread_mutex_unlock(&s->lock);
	return good;
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
	const struct http_server *s = r->server;
	struct request_heads heads = {.any_name = !s->place.loopback,
				      .v6 = s->place.address.any.sa_family == AF_INET6,
				      .port = http_place_port(&s->place),
				      .login = s->with.token ? &s->login : NULL};
	const char *length;

	MHD_get_connection_values(r->connection, MHD_HEADER_KIND, take_head, &heads);
	if (!request_is_ours(&heads))
		return MHD_HTTP_FORBIDDEN;
	if (!request_is_allowed(&heads))
		return MHD_HTTP_UNAUTHORIZED;
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
	const struct http_server *s = r->server;
	int64_t delay_ns = 0;

	r->answer.asked_ns = now_ns();
	switch (s->with.route(s->with.context, r->uri, &r->answer, &delay_ns)) {
	case HTTP_NOTHING:
		break;
	case HTTP_ANSWERED:
		r->answered = !r->answer.bytes.failed;
		return respond_answer(r);
	case HTTP_ASK:
		r->due_ns = delay_ns ? r->answer.asked_ns + delay_ns : 0;
		return put_into_queue(r) ? MHD_YES : refuse(r->connection, STATUS_UNANSWERED);
	}
	return refuse(r->connection, MHD_HTTP_NOT_FOUND);
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

static size_t workers_wanted(void)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	if (processors < WORKERS_LEAST)
		return WORKERS_LEAST;
	return processors > WORKERS_MOST ? WORKERS_MOST : (size_t)processors;
}

static int start_daemon(struct http_server *s)
{
	int fd = -1, error = http_place_listen(&s->place, &fd);

	if (error)
		return error;
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
	http_place_leave(&s->place);
	close(fd);
	return error;
}

static void free_server(struct http_server *s)
{
	pthread_cond_destroy(&s->work);
	pthread_cond_destroy(&s->idle);
	pthread_mutex_destroy(&s->lock);
	explicit_bzero(&s->login, sizeof(s->login));
	free(s);
}

/* Signals are for the thread that started the server, but for those that its own accesses raise. */
static int start_threads(struct http_server *s)
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
static bool wait_until_idle(struct http_server *s, unsigned int milliseconds)
{
	struct timespec end = time_of(now_ns() + milliseconds * 1000000ll);
	int error = 0;

	while (s->busy && !error)
		error = pthread_cond_timedwait(&s->idle, &s->lock, &end);
	return !s->busy;
}

void http_server_go(struct http_server *s)
{
	pthread_mutex_lock(&s->lock);
	s->waits = false;
	pthread_cond_broadcast(&s->work);
	pthread_mutex_unlock(&s->lock);
}

bool http_server_stop(struct http_server *s, unsigned int milliseconds)
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
	if (s->daemon) {
		http_place_leave(&s->place);
		MHD_stop_daemon(s->daemon);
	}
	free_server(s);
	return true;
}

int http_server_start(const struct http_server_settings *settings, struct http_server **out)
{
	struct http_server *s = calloc(1, sizeof(*s));
	pthread_condattr_t monotonic;
	int error = 0;

	*out = NULL;
	if (!s)
		return ENOMEM;
	s->with = *settings;
	s->place = settings->place;
	s->waits = settings->waits;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->work, &monotonic);
	pthread_cond_init(&s->idle, &monotonic);
	pthread_condattr_destroy(&monotonic);
	if (settings->token && !request_login_make(&s->login, settings->token))
		error = EINVAL;
	if (!error)
		error = start_threads(s);
	if (error)
		http_server_stop(s, 0);
	else
		*out = s;
	return error;
}
