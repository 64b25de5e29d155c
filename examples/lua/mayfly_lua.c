/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly_lua SCRIPT [ARGUMENT...]: Lua 5.4, as Debian builds it, with mayfly/memprof.h: an example
 * of an interpreter. `mayfly record -- mayfly_lua SCRIPT` shows the functions and lines of SCRIPT.
 *
 *	Lua ──> allocate() ──> heap.c: pages from mmap, so that malloc's hooks see none of it
 *	            │
 *	            └──> the engine: alloc(), freed() ──> call_stack() of a sampled block only
 *
 * Lua tells its allocator neither the stack nor the running coroutine. So the functions that enter a
 * coroutine are wrapped here, and note it.
 */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef WITHOUT_ENGINE /* to measure what it costs */
#include <mayfly/memprof.h>
#endif

#include "heap.h"

/* Coroutines that have been entered: the first is the one that runs. */
struct coroutine {
	lua_State *state;
	struct coroutine *from; /* the one that resumed it; NULL: none */
};
static struct coroutine *running; /* NULL: no script runs */

static int
    stack_moves; /* Lua is having that of a coroutine resized: all that points into it is invalid */

#ifndef WITHOUT_ENGINE

static struct mayfly_memprof *profile;
static struct mayfly_memprof_thread *sampler;

/* ---- codes: the number of a function of the script, and a line in it ---- */

#define LINE_BITS 24
#define BUCKETS	  4096u

struct function {
	struct function *next; /* in its bucket */
	uint64_t number;
	char name[80], file[LUA_IDSIZE];
};

static struct function *buckets[BUCKETS];
static struct function **functions; /* by number */
static uint64_t function_count;

static uint32_t hash_of(const char *name, const char *file)
{
	uint32_t hash = 2166136261u;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	for (; *file; file++)
		hash = (hash ^ (unsigned char)*file) * 16777619u;
	return hash % BUCKETS;
}

static const struct function *add_function(struct function **bucket, const char *name,
					   const char *file)
{
	struct function *made = malloc(sizeof(*made));
	struct function **grown = realloc(functions, (function_count + 1) * sizeof(*functions));

	if (grown)
		functions = grown;
	if (!made || !grown) {
		free(made);
		return NULL;
	}
	*made = (struct function){.next = *bucket, .number = function_count};
	snprintf(made->name, sizeof(made->name), "%s", name);
	snprintf(made->file, sizeof(made->file), "%s", file);
	functions[function_count++] = made;
	return *bucket = made;
}

/* 0: there is no memory for it. */
static uint64_t code_of(const char *name, const char *file, int line)
{
	struct function **bucket = &buckets[hash_of(name, file)];
	const struct function *f = *bucket;

	while (f && (strcmp(f->name, name) || strcmp(f->file, file)))
		f = f->next;
	if (!f)
		f = add_function(bucket, name, file);
	return f ? (f->number + 1) << LINE_BITS | (line > 0 ? (uint64_t)line : 0) : 0;
}

/* ---- what the engine asks ---- */

static uint64_t code_of_frame(const lua_Debug *frame)
{
	char made[80];
	const char *name = frame->name;

	if (!strcmp(frame->what, "main"))
		name = "main chunk";
	else if (!name && !strcmp(frame->what, "C"))
		name = "C function";
	if (!name) {
		snprintf(made, sizeof(made), "function at line %d", frame->linedefined);
		name = made;
	}
	/* Lua's name for the file of functions in C is "[C]". */
	return code_of(name, frame->short_src, frame->currentline);
}

/* Lua functions and, between them, the functions in C that they call or that call them, up to the
 * script's main chunk. */
static uint32_t call_stack(void *host, uint32_t entry, uint64_t *frames, uint32_t most)
{
	struct coroutine *in = running;
	lua_Debug frame;
	uint32_t n = 0;
	int level = 0;

	(void)host;
	(void)entry;
	if (stack_moves) /* it may be that of any coroutine: the collector shrinks them, too */
		in = NULL;
	while (in && n < most) {
		if (!lua_getstack(in->state, level++, &frame)) {
			in = in->from;
			level = 0;
			continue;
		}
		lua_getinfo(in->state, "Sln", &frame);
		frames[n] = code_of_frame(&frame);
		n += frames[n] != 0;
		if (!strcmp(frame.what, "main"))
			break;
	}
	if (!n && most)
		frames[n++] = code_of(stack_moves ? "Lua's stack" : "Lua itself", "mayfly_lua", 0);
	return n;
}

static uint32_t decode(void *host, uint64_t code, struct mayfly_memprof_place *places,
		       uint32_t most)
{
	const struct function *f = functions[(code >> LINE_BITS) - 1];

	(void)host;
	(void)most;
	places[0].function = f->name;
	places[0].file = f->file;
	places[0].line = code & ((1u << LINE_BITS) - 1);
	return 1;
}

static int start_engine(void)
{
	struct mayfly_memprof_host host = {
	    .unit_bytes = 1,
	    .callstack = call_stack,
	    .decode = decode,
	};

	profile = mayfly_memprof_create(&host);
	sampler = profile ? mayfly_memprof_attach(profile) : NULL;
	if (!sampler)
		return 0;
	mayfly_memprof_set_name(profile, "lua");
	mayfly_memprof_trace(profile); /* does nothing without mayfly record */
	return 1;
}

static inline int passes(size_t bytes)
{
	return mayfly_memprof_passes(sampler, bytes);
}

/* The trace's callbacks run no Lua, so each call is a safe point; only after a sample is there anything to run. */
static void note_allocated(const void *block, size_t bytes)
{
	mayfly_memprof_alloc(sampler, (uintptr_t)block, bytes, 0);
	mayfly_memprof_run(sampler);
}

static void note_freed(const void *block)
{
	mayfly_memprof_freed(profile, sampler, (uintptr_t)block);
	mayfly_memprof_run(sampler);
}

static void end_engine(void)
{
	mayfly_memprof_run(sampler);
}

#else

static int start_engine(void)
{
	return 1;
}

static int passes(size_t bytes)
{
	(void)bytes;
	return 1;
}

static void note_allocated(const void *block, size_t bytes)
{
	(void)block;
	(void)bytes;
}

static void note_freed(const void *block)
{
	(void)block;
}

static void end_engine(void)
{
}

#endif

/* ---- Lua's allocator ---- */

/*
 * A block that is sampled, or that is the stack of a coroutine, has a word in front that says so, and is
 * known by its address modulo 16. So the engine is not asked about the others when they are freed.
 */
#define NOTE_BYTES 8u
enum { NOTE_STACK = 1, NOTE_SAMPLED = 2 };

static inline int is_noted(const void *block)
{
	return (uintptr_t)block % 16 == NOTE_BYTES;
}

static uint64_t notes_of(const void *block)
{
	return is_noted(block) ? ((const uint64_t *)block)[-1] : 0;
}

static void *take_noted(size_t bytes, uint64_t notes)
{
	uint64_t *made = heap_take(bytes + NOTE_BYTES);

	if (!made)
		return NULL;
	*made++ = notes;
	if (notes & NOTE_SAMPLED)
		note_allocated(made, bytes);
	return made;
}

static inline void *take(size_t bytes, uint64_t notes)
{
	if (!passes(bytes))
		return take_noted(bytes, notes | NOTE_SAMPLED);
	return notes ? take_noted(bytes, notes) : heap_take(bytes);
}

static void give_back_noted(void *block, size_t bytes)
{
	if (notes_of(block) & NOTE_SAMPLED)
		note_freed(block);
	heap_give_back((char *)block - NOTE_BYTES, bytes + NOTE_BYTES);
}

static inline void give_back(void *block, size_t bytes)
{
	if (is_noted(block))
		give_back_noted(block, bytes);
	else
		heap_give_back(block, bytes);
}

/* A block that grows counts as a new one, with the stack of now: a table is the line's that fills it. */
static void *move(void *block, size_t old_bytes, size_t bytes)
{
	uint64_t notes = notes_of(block) & NOTE_STACK;
	void *made;

	stack_moves = notes != 0;
	made = take(bytes, notes);
	stack_moves = 0;
	if (!made) /* Lua requires that shrinking does not fail. */
		return bytes <= old_bytes ? block : NULL;
	memcpy(made, block, old_bytes < bytes ? old_bytes : bytes);
	give_back(block, old_bytes);
	return made;
}

/* The first block without a kind after that of a coroutine is its stack. */
static void *allocate(void *unused, void *block, size_t old_bytes, size_t bytes)
{
	static int stack_comes;

	(void)unused;
	if (!bytes) {
		if (block)
			give_back(block, old_bytes);
		return NULL;
	}
	if (block)
		return move(block, old_bytes, bytes);
	/* old_bytes is the kind of object now. */
	if (stack_comes && !old_bytes) {
		stack_comes = 0;
		return take(bytes, NOTE_STACK);
	}
	stack_comes = old_bytes == LUA_TTHREAD;
	return take(bytes, 0);
}

/* ---- the running coroutine ---- */

/* Calls upvalue 1: coroutine.resume, or what coroutine.wrap gave, which has its coroutine as upvalue 1. */
static int enter(lua_State *L)
{
	struct coroutine entered = {lua_tothread(L, 1), running}, *before = running;
	int good;

	if (lua_getupvalue(L, lua_upvalueindex(1), 1)) {
		entered.state = lua_tothread(L, -1);
		lua_pop(L, 1);
	}
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_insert(L, 1);
	if (entered.state)
		running = &entered;
	good = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0) == LUA_OK;
	running = before;
	return good ? lua_gettop(L) : lua_error(L);
}

/* coroutine.wrap: upvalue 1 is the real one. */
static int wrap(lua_State *L)
{
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_insert(L, 1);
	lua_call(L, lua_gettop(L) - 1, 1);
	lua_pushcclosure(L, enter, 1);
	return 1;
}

static void replace(lua_State *L, const char *name, lua_CFunction with)
{
	lua_getfield(L, -1, name);
	lua_pushcclosure(L, with, 1);
	lua_setfield(L, -2, name);
}

/* ---- the interpreter ---- */

static int run_script(lua_State *L)
{
	char **argv = lua_touserdata(L, 1);
	int given = 0;

	luaL_openlibs(L);
	lua_getglobal(L, "coroutine");
	replace(L, "resume", enter);
	replace(L, "wrap", wrap);
	lua_settop(L, 0);
	if (luaL_loadfile(L, argv[1]))
		return lua_error(L);
	for (; argv[2 + given]; given++)
		lua_pushstring(L, argv[2 + given]);
	lua_call(L, given, 0);
	return 0;
}

int main(int argc, char **argv)
{
	struct coroutine main_one = {0};
	lua_State *L;
	int status;

	if (argc < 2) {
		fputs("usage: mayfly_lua SCRIPT [ARGUMENT...]\n", stderr);
		return 2;
	}
	L = start_engine() ? lua_newstate(allocate, NULL) : NULL;
	if (!L) {
		fputs("mayfly_lua: no memory\n", stderr);
		return 1;
	}
	main_one.state = L;
	running = &main_one;
	lua_pushcfunction(L, run_script);
	lua_pushlightuserdata(L, argv);
	status = lua_pcall(L, 1, 0, 0);
	if (status != LUA_OK)
		fprintf(stderr, "mayfly_lua: %s\n", luaL_tolstring(L, -1, NULL));
	running = NULL;
	lua_close(L);
	end_engine();
	return status != LUA_OK;
}
