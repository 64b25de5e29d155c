/* SPDX-License-Identifier: Apache-2.0 */
/* Debug files from debuginfod servers: see debug_server.h. */
#include "symbols/debug_server.h"

#include "base/array.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/dlopen_note.h"

#define LIBRARY		 "libdebuginfod.so.1"
#define LONGEST_BUILD_ID 64
#define SECOND_NS	 1000000000ll
#define LOOK_NS		 (SECOND_NS / 5) /* between two looks at a download */
/* A request that is given up hears of it at its library's next look, about every second. */
#define GIVE_UP_NS (3 * SECOND_NS / 2)
#define LEAST_NS   (SECOND_NS / 10) /* a request with less time is not worth it */

DLOPEN_NOTE(debuginfod_note, LIBRARY, "debuginfod", "debug files from servers", "suggested");

typedef struct debuginfod_client client;

/* What is used of libdebuginfod (elfutils). Loaded once, never unloaded: libcurl and what it needs do
 * not expect that. */
static struct {
	bool loaded, failed;
	client *(*begin)(void);
	void (*end)(client *c);
	int (*find)(client *c, const unsigned char *id, int length, char **path);
	void (*set_progress)(client *c, int (*progress)(client *c, long a, long b));
	void (*set_data)(client *c, void *data);
	void *(*data)(client *c);
} library;

/* A request that a thread makes. Who of the two is done last frees it. */
struct job {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint8_t id[LONGEST_BUILD_ID];
	int length;
	bool done;
	bool stop;	/* the library is to end */
	bool abandoned; /* nobody waits any more */
	long got, of;	/* bytes */
	int result;	/* a file descriptor, or a negative errno */
	char *path;
};

struct answer {
	uint8_t id[LONGEST_BUILD_ID];
	size_t length;
	char *path; /* in the cache; NULL: there is none */
};

struct debug_server {
	int64_t left_ns, limit_ns;
	debug_server_progress *progress;
	void *context;
	struct answer *answer;
	size_t answers, room;
	size_t left_out; /* files that were not asked for, or whose download was given up */
	int error;	 /* the last one of a server that is not "no such file"; an errno */
	char problem[256];
};

struct debug_server *debug_server_new(int64_t limit_ns, debug_server_progress *progress,
				      void *context)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	struct debug_server *d;

	if (!urls || !urls[strspn(urls, " \t\n")])
		return NULL;
	d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	d->limit_ns = d->left_ns = limit_ns;
	d->progress = progress;
	d->context = context;
	return d;
}

void debug_server_free(struct debug_server *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->answers; i++)
		free(d->answer[i].path);
	free(d->answer);
	free(d);
}

/* ---- the library ---- */

static bool load_library(void)
{
	void *handle;

	if (library.loaded || library.failed)
		return library.loaded;
	library.failed = true;
	handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return false;
	library.begin = (client * (*)(void)) dlsym(handle, "debuginfod_begin");
	library.end = (void (*)(client *))dlsym(handle, "debuginfod_end");
	library.find = (int (*)(client *, const unsigned char *, int, char **))dlsym(
	    handle, "debuginfod_find_debuginfo");
	library.set_progress = (void (*)(client *, int (*)(client *, long, long)))dlsym(
	    handle, "debuginfod_set_progressfn");
	library.set_data = (void (*)(client *, void *))dlsym(handle, "debuginfod_set_user_data");
	library.data = (void *(*)(client *))dlsym(handle, "debuginfod_get_user_data");
	library.loaded = library.begin && library.end && library.find && library.set_progress &&
			 library.set_data && library.data;
	library.failed = !library.loaded;
	return library.loaded;
}

/* ---- one request ---- */

static void job_free(struct job *j)
{
	if (j->done && j->result >= 0)
		close(j->result);
	free(j->path);
	pthread_cond_destroy(&j->changed);
	pthread_mutex_destroy(&j->lock);
	free(j);
}

/* The library calls it about every second; not 0: give up. */
static int job_progress(client *c, long got, long of)
{
	struct job *j = library.data(c);
	bool stop;

	pthread_mutex_lock(&j->lock);
	j->got = got;
	j->of = of;
	stop = j->stop;
	pthread_mutex_unlock(&j->lock);
	return stop;
}

static void *job_run(void *context)
{
	struct job *j = context;
	client *c = library.begin();
	char *path = NULL;
	int result = -ENOMEM;
	bool abandoned;

	if (c) {
		library.set_data(c, j);
		library.set_progress(c, job_progress);
		result = library.find(c, j->id, j->length, &path);
		library.end(c);
	}
	pthread_mutex_lock(&j->lock);
	j->done = true;
	j->result = result;
	j->path = result >= 0 ? path : NULL;
	abandoned = j->abandoned;
	pthread_cond_signal(&j->changed);
	pthread_mutex_unlock(&j->lock);
	if (abandoned)
		job_free(j);
	return NULL;
}

static struct job *job_start(const uint8_t *id, size_t length)
{
	struct job *j = calloc(1, sizeof(*j));
	sigset_t all, before;
	pthread_t thread;
	int error;

	if (!j)
		return NULL;
	memcpy(j->id, id, length);
	j->length = (int)length;
	pthread_mutex_init(&j->lock, NULL);
	pthread_cond_init(&j->changed, NULL);
	/* Signals are for the threads that expect them. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	error = pthread_create(&thread, NULL, job_run, j);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!error) {
		pthread_detach(thread);
		return j;
	}
	job_free(j);
	return NULL;
}

static int64_t server_now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * SECOND_NS + now.tv_nsec;
}

/* Waits, with the lock held, until the job changes or this time is over. */
static void wait_a_little(struct job *j, int64_t ns)
{
	int64_t until = server_now_ns(CLOCK_REALTIME) + ns;
	struct timespec end = {.tv_sec = until / SECOND_NS, .tv_nsec = until % SECOND_NS};

	pthread_cond_timedwait(&j->changed, &j->lock, &end);
}

static void tell_progress(const struct debug_server *d, const char *path, long got, long of)
{
	const char *slash = strrchr(path, '/');
	char text[256];
	int used;

	used = snprintf(text, sizeof(text), "debuginfod: %s", slash ? slash + 1 : path);
	if (got > 0 && of >= got && used > 0 && (size_t)used < sizeof(text))
		snprintf(text + used, sizeof(text) - (size_t)used, " %ld of %ld MB", got / 1000000,
			 of / 1000000);
	d->progress(d->context, text);
}

/* Waits for the job until the limit, tells it to end then, and gives it that long to end. True: it is
 * done. */
static bool job_wait(struct debug_server *d, struct job *j, const char *path)
{
	int64_t begin = server_now_ns(CLOCK_MONOTONIC), limit = d->left_ns, used = 0;
	bool shown = false, done;

	pthread_mutex_lock(&j->lock);
	while (!j->done && used < limit) {
		long got = j->got, of = j->of;

		if (d->progress && used >= LOOK_NS) {
			pthread_mutex_unlock(&j->lock);
			tell_progress(d, path, got, of);
			shown = true;
			pthread_mutex_lock(&j->lock);
		}
		if (!j->done)
			wait_a_little(j, limit - used < LOOK_NS ? limit - used : LOOK_NS);
		used = server_now_ns(CLOCK_MONOTONIC) - begin;
		/* The last part of the time is for giving up. */
		j->stop = used >= limit - GIVE_UP_NS && used >= limit / 2;
	}
	d->left_ns = j->done && !j->stop ? limit - used : 0;
	done = j->done;
	j->abandoned = !done;
	pthread_mutex_unlock(&j->lock);
	if (shown)
		d->progress(d->context, "");
	return done;
}

/* The path of the file in the cache, or NULL. */
static char *ask(struct debug_server *d, const char *path, const uint8_t *id, size_t length)
{
	struct job *j;
	char *found;

	if (!load_library())
		return NULL;
	if (d->left_ns < LEAST_NS) {
		d->left_out++;
		return NULL;
	}
	j = job_start(id, length);
	if (!j)
		return NULL;
	if (!job_wait(d, j, path)) {
		d->left_out++;
		return NULL; /* the thread frees it */
	}
	if (j->result < 0 && j->stop)
		d->left_out++;
	else if (j->result < 0 && j->result != -ENOENT)
		d->error = -j->result;
	found = j->path;
	j->path = NULL;
	job_free(j);
	return found;
}

/* ---- all of them ---- */

static struct answer *new_answer(struct debug_server *d, const uint8_t *id, size_t length)
{
	if (!ARRAY_ADD(d->answer, d->room, d->answers, (struct answer){.length = length}))
		return NULL;
	memcpy(d->answer[d->answers - 1].id, id, length);
	return &d->answer[d->answers - 1];
}

bool debug_server_open(struct debug_server *d, struct elf_file *f, const char *path,
		       const uint8_t *id, size_t length)
{
	struct answer *a = NULL;

	memset(f, 0, sizeof(*f));
	if (!d || length < 2 || length > LONGEST_BUILD_ID)
		return false;
	for (size_t i = 0; i < d->answers && !a; i++)
		if (d->answer[i].length == length && !memcmp(d->answer[i].id, id, length))
			a = &d->answer[i];
	if (!a) {
		a = new_answer(d, id, length);
		if (!a)
			return false;
		a->path = ask(d, path, id, length);
	}
	if (!a->path || elf_file_open(f, a->path) != ELF_FILE_OPEN)
		return false;
	/* Whoever the server is: never a wrong file. */
	if (elf_file_has_build_id(f, id, length))
		return true;
	elf_file_close(f);
	return false;
}

bool debug_files_open(const struct debug_files *files, struct elf_file *f,
		      const struct elf_file *object, const char *path)
{
	return elf_file_open_by_build_id(f, &files->dirs, object->build_id,
					 object->build_id_length) ||
	       elf_file_open_debuglink(f, object, path, &files->dirs) ||
	       (object->build_id_length &&
		debug_server_open(files->server, f, path, object->build_id,
				  object->build_id_length));
}

const char *debug_server_problem(struct debug_server *d)
{
	if (!d)
		return NULL;
	if (library.failed && d->answers)
		snprintf(d->problem, sizeof(d->problem),
			 "DEBUGINFOD_URLS is set, but " LIBRARY " cannot be loaded; install "
			 "libdebuginfod1, or use --no-debuginfod");
	else if (d->left_out)
		snprintf(d->problem, sizeof(d->problem),
			 "debuginfod: %zu file%s not downloaded within the limit of %lld s",
			 d->left_out, d->left_out == 1 ? " was" : "s were",
			 (long long)(d->limit_ns / SECOND_NS));
	else if (d->error)
		snprintf(d->problem, sizeof(d->problem),
			 "debuginfod: a file was not downloaded: %s", strerror(d->error));
	else
		return NULL;
	return d->problem;
}
