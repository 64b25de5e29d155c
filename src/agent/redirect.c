/* SPDX-License-Identifier: Apache-2.0 */
/* Leading functions of the executable to ours: see redirect.h. */
#include "agent/redirect.h"

#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "agent/cpu/cpu.h"
#include "agent/cpu/sys.h"

static const struct redirected *done;
static size_t done_count;

#ifdef CPU_NEAR_MOST

#define STUB_BYTES 16u
#define ONE_BYTES  (STUB_BYTES + CPU_MOVED_BYTES)
#define STEP_BYTES ((uintptr_t)1 << 16)

/* /proc/self/task has a folder for each. */
static bool is_sole_thread(void)
{
	long fd = agent_sandboxed ? -1
				  : sys_openat(AT_FDCWD, "/proc/self/task",
					       O_RDONLY | O_CLOEXEC | O_DIRECTORY, 0);
	struct stat status;
	bool sole;

	if (sys_failed(fd))
		return false;
	sole = !sys_failed(sys_fstat((int)fd, &status)) && status.st_nlink == 3;
	sys_close((int)fd);
	return sole;
}

/* Below the executable, since the heap (brk) grows above it. */
static uint8_t *memory_below(uintptr_t address, size_t bytes)
{
	uintptr_t first = address & -STEP_BYTES;

	for (uintptr_t at = first; at > 2 * STEP_BYTES && first - at < CPU_NEAR_MOST;) {
		at -= STEP_BYTES;
		long got = sys_mmap((void *)at, bytes, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (!sys_failed(got) && (uintptr_t)got == at)
			return (uint8_t *)at;
		if (!sys_failed(got))
			sys_munmap((void *)got, bytes); /* a kernel that does not know the flag */
	}
	return NULL;
}

static uintptr_t lowest(const struct redirected *list, size_t count)
{
	uintptr_t least = UINTPTR_MAX;

	for (size_t i = 0; i < count; i++)
		if ((uintptr_t)list[i].entry < least)
			least = (uintptr_t)list[i].entry;
	return least;
}

static bool are_near(const struct redirected *list, size_t count, const uint8_t *page)
{
	for (size_t i = 0; i < count; i++)
		if ((uintptr_t)list[i].entry - (uintptr_t)page > CPU_NEAR_MOST)
			return false;
	return true;
}

static bool move_all(struct redirected *list, size_t count, uint8_t *page)
{
	for (size_t i = 0; i < count; i++) {
		uint8_t *stub = page + i * ONE_BYTES;

		cpu_put_jump(stub, list[i].ours);
		list[i].underneath = stub + STUB_BYTES;
		if (!cpu_move_entry(stub + STUB_BYTES, list[i].entry, list[i].size))
			return false;
	}
	return true;
}

static bool write_entry(uint8_t *entry, const uint8_t *bytes)
{
	uintptr_t page = (uintptr_t)entry & -getauxval(AT_PAGESZ);
	size_t length = (uintptr_t)entry + CPU_NEAR_JUMP_BYTES - page;

	if (sys_failed(sys_mprotect((void *)page, length, PROT_READ | PROT_WRITE | PROT_EXEC)))
		return false;
	memcpy(entry, bytes, CPU_NEAR_JUMP_BYTES);
	sys_mprotect((void *)page, length, PROT_READ | PROT_EXEC);
	return true;
}

static bool change_all(struct redirected *list, size_t count, uint8_t *page)
{
	uint8_t jump[CPU_NEAR_JUMP_BYTES];
	int32_t distance;
	size_t i;

	for (i = 0; i < count; i++) {
		distance = (int32_t)(page + i * ONE_BYTES - (list[i].entry + sizeof(jump)));
		jump[0] = 0xe9;
		memcpy(jump + 1, &distance, sizeof(distance));
		memcpy(list[i].original, list[i].entry, sizeof(jump));
		if (!write_entry(list[i].entry, jump))
			break;
	}
	if (i == count)
		return true;
	while (i--)
		write_entry(list[i].entry, list[i].original);
	return false;
}

bool redirect_functions(struct redirected *list, size_t count)
{
	size_t bytes = count * ONE_BYTES;
	uint8_t *page = count && is_sole_thread() ? memory_below(lowest(list, count), bytes) : NULL;

	if (!page)
		return false;
	if (are_near(list, count, page) && move_all(list, count, page) &&
	    !sys_failed(sys_mprotect(page, bytes, PROT_READ | PROT_EXEC))) {
		done_count = change_all(list, count, page) ? count : 0;
		done = list;
		return done_count != 0;
	}
	sys_munmap(page, bytes);
	return false;
}

#else

bool redirect_functions(struct redirected *list, size_t count)
{
	(void)list, (void)count;
	return false;
}

#endif

void *redirect_underneath(void *function)
{
	for (size_t i = 0; i < done_count; i++)
		if (done[i].entry == function)
			return done[i].underneath;
	return function;
}
