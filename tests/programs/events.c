/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events WHAT: emits events, and prints the same lines whether anybody records them or not.
 *
 *	all			one of everything
 *	random THREADS COUNT SEED   the sequences of random_events.h, in threads named events-N
 *	signals COUNT		a timer's handler emits, too; prints how many it did
 *	fork			so do a child, and a child of vfork's kind of exec
 *	plugin PATH		a plugin is opened, used and closed, twice
 *	heirs			a thread ends with a label on it, another one comes after it
 *	exit			a thread's destructor and an atexit function emit
 *	sandbox			emits from a new type after a seccomp filter is in force
 *	strict			the same in seccomp's strict mode, in which there is no clock
 *	pool MAPPED		blocks of a pool of known total
 *	gate			a span ends, and another one begins, after a line that it reads
 *	quiet			does nothing with mayfly but ask
 */
#include <mayfly/mayfly.h>

#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "random_events.h"

#ifdef __cplusplus
#define PROGRAM_LANGUAGE "C++"
#else
#define PROGRAM_LANGUAGE "C"
#endif

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "events: line %d: %s\n", __LINE__, #condition);            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* ---- all ---- */

MAYFLY_SPAN(whole, "whole");
MAYFLY_SPAN(part, "part", MAYFLY_TEXT("name"), MAYFLY_INT("number"));
MAYFLY_INSTANT(nothing, "nothing");
MAYFLY_INSTANT(numbers, "numbers", MAYFLY_INT("int"), MAYFLY_UINT("uint"), MAYFLY_FLOAT("float"),
	       MAYFLY_FLOW("flow"));
MAYFLY_COUNTER(length, "length", "");
MAYFLY_COUNTER_FLOAT(load, "load", "percent");
MAYFLY_POOL(inside, "inside", 0);
MAYFLY_POOL(outside, "outside", MAYFLY_POOL_MAPPED);

static int evaluated;

static int once(int value)
{
	evaluated++;
	return value;
}

static void emit_all(void)
{
	char name[] = "array";
	const char *none = NULL;
	float quarter = 0.25f;
	char *block = (char *)malloc(5000);
	static char own[64];

	errno = 77;
	mayfly_span_begin(&whole);
	mayfly_span_begin(&part, "first", once(1));
	mayfly_instant(&nothing);
	mayfly_instant(&numbers, -1, 2u, 3.5, 4ull);
	mayfly_instant(&numbers, (char)5, (unsigned char)6, quarter, (short)8);
	mayfly_instant(&numbers, 1e300, -1e300, 7);
	mayfly_instant(&numbers, "text", once(9));
	mayfly_span_end(&part);
	mayfly_span_begin(&part, name, -1);
	mayfly_span_end(&part);
	mayfly_span_begin(&part, none, 1l);
	mayfly_span_end(&part);
	mayfly_span_begin(&part, 5, "number");
	mayfly_span_end(&part);
	mayfly_counter(&length, -3);
	mayfly_counter_float(&length, 4.75);
	mayfly_counter(&load, 50);
	mayfly_counter_float(&load, 12.5);
	mayfly_label_push("request", "search");
	mayfly_label_push("user", "somebody");
	mayfly_pool_alloc(&inside, block, 2000);
	mayfly_pool_alloc(&outside, own, sizeof(own));
	mayfly_label_pop();
	mayfly_pool_alloc(&inside, block + 2000, 3000);
	mayfly_pool_free(&inside, block);
	mayfly_pool_free(&inside, NULL);
	mayfly_pool_alloc(&outside, NULL, 10);
	mayfly_pool_free(&inside, block + 2000);
	mayfly_pool_free(&outside, own);
	mayfly_label_pop();
	mayfly_label_pop(); /* one too many */
	mayfly_span_end(&whole);
	CHECK(errno == 77);
	free(block);
	CHECK(evaluated == 2);
	printf("all of it, in " PROGRAM_LANGUAGE "\n");
}

/* ---- random ---- */

MAYFLY_SPAN(type_0, "type 0");
MAYFLY_SPAN(type_1, "type 1", MAYFLY_INT("a"));
MAYFLY_SPAN(type_2, "type 2", MAYFLY_TEXT("a"), MAYFLY_FLOW("b"));
MAYFLY_SPAN(type_3, "type 3", MAYFLY_INT("a"), MAYFLY_UINT("b"), MAYFLY_FLOAT("c"),
	    MAYFLY_TEXT("d"));
MAYFLY_INSTANT(type_4, "type 4");
MAYFLY_INSTANT(type_5, "type 5", MAYFLY_UINT("a"));
MAYFLY_INSTANT(type_6, "type 6", MAYFLY_INT("a"), MAYFLY_UINT("b"));
MAYFLY_INSTANT(type_7, "type 7", MAYFLY_TEXT("a"), MAYFLY_TEXT("b"), MAYFLY_TEXT("c"));
MAYFLY_INSTANT(type_8, "type 8", MAYFLY_FLOAT("a"), MAYFLY_FLOW("b"), MAYFLY_TEXT("c"),
	       MAYFLY_INT("d"));
MAYFLY_INSTANT(type_9, "type 9", MAYFLY_FLOAT("a"), MAYFLY_FLOAT("b"), MAYFLY_FLOAT("c"),
	       MAYFLY_FLOAT("d"));
MAYFLY_COUNTER(type_10, "type 10", "bytes");
MAYFLY_COUNTER_FLOAT(type_11, "type 11", "");

static const struct mayfly_span_type *const spans[] = {&type_0, &type_1, &type_2, &type_3};

static void emit_block(const struct random_event *e)
{
	for (unsigned i = 0; i < e->labels; i++) {
		char value[32];

		snprintf(value, sizeof(value), "%u.%u", i, e->group);
		mayfly_label_push("level", value);
	}
	free(malloc(e->size));
	for (unsigned i = 0; i < e->labels; i++)
		mayfly_label_pop();
}

static void emit(const struct random_event *e)
{
	if (e->kind == RANDOM_BLOCK) {
		emit_block(e);
		return;
	}
	if (e->kind == RANDOM_END) {
		mayfly_span_end(spans[e->type]);
		return;
	}
	switch (e->type) {
	case 0:
		mayfly_span_begin(&type_0);
		break;
	case 1:
		mayfly_span_begin(&type_1, e->value[0].i);
		break;
	case 2:
		mayfly_span_begin(&type_2, e->value[0].text, e->value[1].u);
		break;
	case 3:
		mayfly_span_begin(&type_3, e->value[0].i, e->value[1].u, e->value[2].f,
				  e->value[3].text);
		break;
	case 4:
		mayfly_instant(&type_4);
		break;
	case 5:
		mayfly_instant(&type_5, e->value[0].u);
		break;
	case 6:
		mayfly_instant(&type_6, e->value[0].i, e->value[1].u);
		break;
	case 7:
		mayfly_instant(&type_7, e->value[0].text, e->value[1].text, e->value[2].text);
		break;
	case 8:
		mayfly_instant(&type_8, e->value[0].f, e->value[1].u, e->value[2].text,
			       e->value[3].i);
		break;
	case 9:
		mayfly_instant(&type_9, e->value[0].f, e->value[1].f, e->value[2].f, e->value[3].f);
		break;
	case 10:
		mayfly_counter(&type_10, e->value[0].i);
		break;
	default:
		mayfly_counter_float(&type_11, e->value[0].f);
	}
}

struct worker {
	pthread_t thread;
	unsigned number;
	unsigned long count;
	uint64_t seed, sum;
};

static void *work(void *argument)
{
	struct worker *w = (struct worker *)argument;
	struct random_events r = random_begin(w->seed, w->number);
	static __thread struct random_event e;
	char name[16];

	snprintf(name, sizeof(name), "events-%u", w->number);
	pthread_setname_np(pthread_self(), name);
	for (unsigned long i = 0; i < w->count; i++) {
		random_draw(&r, &e);
		emit(&e);
		w->sum = w->sum * 31 + e.kind;
	}
	return NULL;
}

static void emit_random(unsigned threads, unsigned long count, uint64_t seed)
{
	static struct worker worker[64];

	CHECK(threads <= 64);
	for (unsigned i = 0; i < threads; i++) {
		worker[i].number = i;
		worker[i].count = count;
		worker[i].seed = seed;
		CHECK(!pthread_create(&worker[i].thread, NULL, work, &worker[i]));
	}
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(worker[i].thread, NULL);
		printf("%016llx\n", (unsigned long long)worker[i].sum);
	}
}

/* ---- signals ---- */

MAYFLY_INSTANT(in_main, "in main", MAYFLY_UINT("number"));
MAYFLY_INSTANT(in_handler, "in handler", MAYFLY_UINT("number"), MAYFLY_TEXT("text"));
MAYFLY_SPAN(handling, "handling");

static volatile unsigned long handled;

static void handle(int signal_number)
{
	(void)signal_number;
	mayfly_span_begin(&handling);
	mayfly_label_push("in", "handler");
	mayfly_instant(&in_handler, handled, "while the agent works, perhaps");
	mayfly_label_pop();
	mayfly_span_end(&handling);
	handled++;
}

/* Until so many signals have been handled. Events and blocks alternate, so that a handler comes
 * while the agent is at work, sooner or later. */
static void emit_in_signals(unsigned long count)
{
	struct itimerval often = {{0, 50}, {0, 50}};
	unsigned long number = 0;

	signal(SIGALRM, handle);
	CHECK(!setitimer(ITIMER_REAL, &often, NULL));
	while (handled < count) {
		mayfly_instant(&in_main, number++);
		mayfly_label_push("in", "main");
		free(malloc(100 + number % 100));
		mayfly_label_pop();
	}
	memset(&often, 0, sizeof(often));
	setitimer(ITIMER_REAL, &often, NULL);
	fprintf(stderr, "%lu %lu\n", number, handled);
}

/* ---- fork ---- */

MAYFLY_INSTANT(in_child, "in child", MAYFLY_TEXT("which"));
MAYFLY_INSTANT(in_parent, "in parent");

static void wait_for(pid_t child)
{
	int status;

	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void emit_in_children(void)
{
	pid_t child;

	mayfly_label_push("who", "parent");
	mayfly_instant(&in_parent);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		mayfly_instant(&in_child, "forked");
		mayfly_instant(&in_parent); /* a type that the parent has numbered */
		free(malloc(3 << 20));
		_exit(0);
	}
	wait_for(child);
	mayfly_instant(&in_parent);
	mayfly_label_pop();
	printf("forked\n");
}

/* ---- plugin ---- */

static void use_plugin(const char *path)
{
#ifdef EVENTS_STATIC
	(void)path;
#else
	for (int i = 0; i < 2; i++) {
		void *plugin = dlopen(path, RTLD_NOW);
		void *found;
		int (*emit_events)(int);

		CHECK(plugin);
		found = dlsym(plugin, "plugin_emit");
		CHECK(found);
		memcpy(&emit_events, &found, sizeof(found));
		printf("plugin %d\n", emit_events(i));
		CHECK(!dlclose(plugin));
		/* What comes to lie where it was must not be taken for its names. */
		munmap(mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1 << 20);
	}
	mayfly_instant(&nothing);
#endif
}

/* ---- heirs ---- */

/* Its writer, and the packet at hand, go to the next thread. */
static void *labelled(void *size)
{
	if ((size_t)size % 2)
		mayfly_label_push("left", "behind");
	mayfly_instant(&nothing);
	free(malloc((size_t)size));
	return NULL;
}

static void emit_by_heirs(void)
{
	for (size_t size = 6001; size <= 6004; size++) {
		pthread_t thread;

		CHECK(!pthread_create(&thread, NULL, labelled, (void *)size));
		pthread_join(thread, NULL);
	}
	printf("inherited\n");
}

/* ---- exit ---- */

MAYFLY_INSTANT(leaving, "leaving", MAYFLY_TEXT("where"));

static pthread_key_t key;

/* Comes again until it is past the agent's own. */
static void destroy(void *round)
{
	intptr_t number = (intptr_t)round;

	mayfly_instant(&leaving, "destructor");
	mayfly_label_push("a", "b");
	free(malloc(100));
	mayfly_label_pop();
	if (number < 3)
		pthread_setspecific(key, (void *)(number + 1));
}

static void at_exit(void)
{
	mayfly_instant(&leaving, "atexit");
}

static void *leave(void *unused)
{
	pthread_setspecific(key, (void *)1);
	mayfly_instant(&leaving, "thread");
	return unused;
}

static void emit_at_exit(void)
{
	pthread_t thread;

	atexit(at_exit);
	CHECK(!pthread_key_create(&key, destroy));
	CHECK(!pthread_create(&thread, NULL, leave, NULL));
	pthread_join(thread, NULL);
	printf("left\n");
}

__attribute__((destructor)) static void destructor(void)
{
	mayfly_instant(&leaving, "fini");
}

MAYFLY_INSTANT(early, "early");

__attribute__((constructor)) static void constructor(void)
{
	mayfly_instant(&early);
}

/* ---- sandbox ---- */

MAYFLY_INSTANT(sandboxed, "sandboxed");

/* Any system call but write and exit is the end. */
static void set_filter(void)
{
	static struct sock_filter code[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 1, 0),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(*code), code};

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0));
}

static void emit_in_sandbox(int strict)
{
	mayfly_instant(&nothing);
	free(malloc(100)); /* so that the one below needs no memory from the kernel */
	if (strict)
		CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0));
	else
		set_filter();
	mayfly_label_push("in", "sandbox");
	for (int i = 0; i < 1000; i++) {
		mayfly_instant(&sandboxed);
		free(malloc(100));
	}
	mayfly_label_pop();
	CHECK(write(STDOUT_FILENO, "sandbox\n", 8) == 8);
	syscall(SYS_exit, 0);
}

/* ---- pool ---- */

/* An arena: blocks of 48 to 1071 bytes one behind the other, every second one is freed. */
static void use_pool(int mapped)
{
	const size_t count = 400000, bytes = count * 1100;
	char *arena = mapped ? (char *)mmap(NULL, bytes, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
			     : (char *)malloc(bytes);
	const struct mayfly_pool *pool = mapped ? &outside : &inside;
	struct random_events r = random_begin(5, 0);
	unsigned long long allocated = 0, live = 0;

	CHECK(arena && arena != MAP_FAILED);
	for (size_t i = 0, at = 0; i < count; i++) {
		size_t size = 48 + (random_next(&r) & 1023);

		mayfly_label_push("parity", i % 2 ? "odd" : "even");
		mayfly_pool_alloc(pool, arena + at, size);
		mayfly_label_pop();
		allocated += size;
		if (i % 2)
			mayfly_pool_free(pool, arena + at);
		else
			live += size;
		at += size;
	}
	printf("%llu %llu\n", allocated, live);
}

/* ---- gate ---- */

static void wait_at_gate(const char *where)
{
	char line[8];

	printf("%s\n", where);
	fflush(stdout);
	CHECK(fgets(line, sizeof(line), stdin));
}

static void emit_at_gate(void)
{
	mayfly_span_begin(&part, "first", 1);
	wait_at_gate("inside");
	mayfly_span_end(&part);
	wait_at_gate("outside");
	mayfly_span_begin(&part, "second", 2);
	mayfly_span_end(&part);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "all";

	if (!strcmp(what, "all"))
		emit_all();
	else if (!strcmp(what, "random") && argc == 5)
		emit_random((unsigned)atoi(argv[2]), strtoul(argv[3], NULL, 10),
			    strtoull(argv[4], NULL, 10));
	else if (!strcmp(what, "signals") && argc == 3)
		emit_in_signals(strtoul(argv[2], NULL, 10));
	else if (!strcmp(what, "fork"))
		emit_in_children();
	else if (!strcmp(what, "plugin") && argc == 3)
		use_plugin(argv[2]);
	else if (!strcmp(what, "heirs"))
		emit_by_heirs();
	else if (!strcmp(what, "exit"))
		emit_at_exit();
	else if (!strcmp(what, "sandbox"))
		emit_in_sandbox(0);
	else if (!strcmp(what, "strict"))
		emit_in_sandbox(1);
	else if (!strcmp(what, "pool") && argc == 3)
		use_pool(atoi(argv[2]));
	else if (!strcmp(what, "gate"))
		emit_at_gate();
	else if (!strcmp(what, "quiet"))
		fprintf(stderr, "%s\n", mayfly_active() ? "active" : "not active");
	else
		return 2;
	return 0;
}
