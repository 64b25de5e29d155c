/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose resident memory is of a known kind: resident KIND MEGABYTES [FILE]. It makes it,
 * says what it is, "RESIDENT LIVE" (bytes of its own malloc blocks), and waits a little, so that
 * somebody can look. Environment: SMAPS=FILE gets a copy of /proc/self/smaps. With GIVE_BACK, it
 * has the allocator give free memory back instead of waiting, and says what is resident then.
 */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEGABYTE    ((size_t)1 << 20)
#define THREADS	    16
#define SMALL_BLOCK 16384 /* few enough for the agent to ask the allocator again */
#define TINY_BLOCK  120	  /* with its header 128 bytes, 32 in a page */
#define SPARSE	    32	  /* of so many blocks one stays */
#define MOST_STATIC ((size_t)256 << 20)

extern void MallocExtension_ReleaseFreeMemory(void) __attribute__((weak));

static size_t live; /* bytes that malloc has handed out */
static pthread_barrier_t barrier;
static char in_bss[MOST_STATIC];
static char in_data[MEGABYTE] = {1};

static unsigned long resident_bytes(void)
{
	unsigned long size = 0, resident = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (!file || fscanf(file, "%lu %lu", &size, &resident) != 2)
		exit(1);
	fclose(file);
	return resident * (unsigned long)getpagesize();
}

/* No memory from malloc: it would change what is copied. */
static void copy_smaps(const char *path)
{
	static char text[65536];
	int from = open("/proc/self/smaps", O_RDONLY), to = open(path, O_WRONLY | O_CREAT, 0600);
	ssize_t n;

	while ((n = read(from, text, sizeof(text))) > 0)
		if (write(to, text, (size_t)n) != n)
			exit(1);
	close(from);
	close(to);
}

static void say(void)
{
	const char *ms = getenv("PAUSE_MS"), *smaps = getenv("SMAPS");

	printf("%lu %zu\n", resident_bytes(), live);
	fflush(stdout);
	if (getenv("GIVE_BACK")) {
		if (MallocExtension_ReleaseFreeMemory)
			MallocExtension_ReleaseFreeMemory();
		else
			malloc_trim(0);
		printf("%lu\n", resident_bytes());
		return;
	}
	if (smaps)
		copy_smaps(smaps);
	/* The agent only looks when something is allocated. */
	for (int i = 0; i < 14; i++) {
		free(malloc(MEGABYTE));
		usleep(ms ? (useconds_t)atoi(ms) * 100 : 50000);
	}
}

static void *map(size_t bytes, int flags, int fd)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (p == MAP_FAILED)
		exit(1);
	memset(p, 1, bytes);
	return p;
}

static void map_file(const char *path, size_t bytes, int flags)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);

	if (fd < 0 || ftruncate(fd, (off_t)bytes))
		exit(1);
	map(bytes, flags, fd);
}

/* Uses half of its stack of `argument` bytes. */
static void *on_stack(void *argument)
{
	size_t bytes = (size_t)argument / 2;
	volatile char *p = __builtin_alloca(bytes);

	for (size_t i = 0; i < bytes; i += 1024)
		p[i] = 1;
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	return NULL;
}

/* Blocks of which the last one keeps what lies below it. */
static void **fill(size_t bytes)
{
	size_t count = bytes / SMALL_BLOCK;
	void **block = malloc(count * sizeof(*block));

	for (size_t i = 0; i < count; i++)
		block[i] = memset(malloc(SMALL_BLOCK), 1, SMALL_BLOCK);
	return block;
}

static void empty(void **block, size_t bytes)
{
	for (size_t i = 0; i + 1 < bytes / SMALL_BLOCK; i++)
		free(block[i]);
}

/* All threads have their blocks at once. */
static void *in_arena(void *argument)
{
	void **block = fill((size_t)argument);

	pthread_barrier_wait(&barrier);
	empty(block, (size_t)argument);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	return NULL;
}

/* One after the other. */
static void *in_turn(void *argument)
{
	static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&turn);
	empty(fill((size_t)argument), (size_t)argument);
	pthread_mutex_unlock(&turn);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	return NULL;
}

static void with_threads(void *(*function)(void *), size_t bytes)
{
	size_t each = (function == on_stack ? 2 : 1) * bytes / THREADS;
	pthread_t thread[THREADS];
	pthread_attr_t attributes;

	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	pthread_attr_init(&attributes);
	if (function == on_stack)
		pthread_attr_setstacksize(&attributes, each);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], &attributes, function, (void *)each))
			exit(1);
	if (function == in_arena)
		pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	say();
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

/* Small blocks, of which one in SPARSE stays: one in each page. */
static void **scatter(size_t bytes)
{
	size_t count = bytes / TINY_BLOCK;
	void **block = malloc(count * sizeof(*block));

	live += count * sizeof(*block);
	for (size_t i = 0; i < count; i++)
		block[i] = memset(malloc(TINY_BLOCK), 1, TINY_BLOCK);
	live += count * TINY_BLOCK;
	for (size_t i = 0; i < count; i++) {
		if (i % SPARSE == SPARSE - 1)
			continue;
		free(block[i]);
		live -= TINY_BLOCK;
	}
	return block;
}

static void make_static(size_t bytes)
{
	memset(in_bss, 1, bytes < MOST_STATIC ? bytes : MOST_STATIC);
	memset(in_data, 2, sizeof(in_data));
}

/* Memory that begins where .bss ends, so that the kernel makes one mapping of both. */
static void make_beside(size_t bytes)
{
	extern char _end[];
	uintptr_t at = ((uintptr_t)_end + 4095) & ~(uintptr_t)4095;
	char *p;

	memset(in_bss, 1, bytes);
	p = mmap((void *)at, bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (p != (void *)at)
		exit(77);
	memset(p, 1, bytes / 2);
}

static void make_blocks(size_t bytes)
{
	for (size_t i = 0; i < bytes / 65536; i++)
		memset(malloc(65536), 1, 65536);
	live += bytes;
}

static void make_large(size_t bytes)
{
	memset(malloc(bytes), 1, bytes);
	live += bytes;
}

static void make_untouched(size_t bytes)
{
	if (!malloc(bytes))
		exit(1);
	live += bytes;
}

/* All but the last one are free: whole pages in the middle. */
static void make_freed(size_t bytes)
{
	empty(fill(bytes), bytes);
}

/* All are free, and the allocator is told to keep them. */
static void make_top(size_t bytes)
{
	void **block;

	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	block = fill(bytes);
	empty(block, bytes);
	free(block[bytes / SMALL_BLOCK - 1]);
}

static void make_anonymous(size_t bytes)
{
	map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

/* The second half is never written to. */
static void make_half(size_t bytes)
{
	char *p = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(p, 1, bytes);
}

__attribute__((noinline)) static void map_first(char *at, size_t bytes)
{
	if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) != at)
		exit(1);
}

__attribute__((noinline)) static void map_second(char *at, size_t bytes)
{
	if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) != at)
		exit(1);
}

/* Two parts by two functions, which the kernel makes one mapping of: the first a third of it. */
static void make_pair(size_t bytes, size_t touched)
{
	char *p = mmap(NULL, bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	map_first(p + 4096, bytes / 3 / 4096 * 4096);
	map_second(p + 4096 + bytes / 3 / 4096 * 4096, bytes - bytes / 3 / 4096 * 4096);
	memset(p + 4096, 1, touched);
}

static void make_whole_pair(size_t bytes)
{
	make_pair(bytes, bytes);
}

static void make_half_pair(size_t bytes)
{
	make_pair(bytes, bytes / 2);
}

static void make_shared(size_t bytes)
{
	map(bytes, MAP_SHARED | MAP_ANONYMOUS, -1);
}

/* Static data beside a block that nobody writes to. */
static void make_mixed(size_t bytes)
{
	make_static(bytes);
	make_untouched(bytes);
}

static void make_fragmented(size_t bytes)
{
	scatter(bytes);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*make)(size_t bytes);
	} kinds[] = {{"anonymous", make_anonymous}, {"half", make_half},
		     {"pair", make_whole_pair},	    {"half-pair", make_half_pair},
		     {"large", make_large},	    {"beside", make_beside},
		     {"shared", make_shared},	    {"static", make_static},
		     {"mixed", make_mixed},	    {"fragmented", make_fragmented},
		     {"freed", make_freed},	    {"top", make_top},
		     {"blocks", make_blocks},	    {"untouched", make_untouched}};
	const char *kind = argc > 2 ? argv[1] : "";
	size_t bytes = argc > 2 ? (size_t)atoi(argv[2]) * MEGABYTE : 0;

	if (!strcmp(kind, "stacks"))
		return with_threads(on_stack, bytes), 0;
	if (!strcmp(kind, "arenas"))
		return with_threads(in_arena, bytes), 0;
	if (!strcmp(kind, "turns"))
		return with_threads(in_turn, bytes), 0;
	if (argc > 3 && (!strcmp(kind, "file") || !strcmp(kind, "copies"))) {
		map_file(argv[3], bytes, *kind == 'f' ? MAP_SHARED : MAP_PRIVATE);
		return say(), 0;
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (strcmp(kind, kinds[i].name) != 0)
			continue;
		kinds[i].make(bytes);
		return say(), 0;
	}
	return 2;
}
