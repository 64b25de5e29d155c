/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly/mayfly.h: lets a program tell mayfly about itself: spans, instants and counters on the
 * timeline, labels on its allocations, blocks of its own allocators. For C11 and C++11.
 *
 *	MAYFLY_SPAN(parse, "parse", MAYFLY_UINT("bytes"), MAYFLY_TEXT("file"));
 *
 *	mayfly_span_begin(&parse, size, name);
 *	...
 *	mayfly_span_end(&parse);
 *
 * The program links nothing for this. When it runs under "mayfly record" (or with the agent
 * preloaded) the calls record. Otherwise each call is one test of a pointer that is NULL, so calls
 * may stay in released programs. They work in executables of every kind, shared libraries and
 * plugins. In static programs without libmayfly.a, and where no agent exists (other than
 * Linux on x86-64 and arm64), they do nothing.
 *
 * Threads and signals: any thread may make any call at any time, also in signal handlers, before
 * main(), in a forked child, and while the program exits. No call takes a lock, blocks, changes
 * errno or calls malloc. The events of a thread stay in order.
 *
 * Errors: there are none to handle. Events that cannot be recorded (a signal handler interrupts the
 * agent's own work, the spool is full, there are more than 4095 types of events) are dropped and
 * counted; "mayfly info" has the number. While the recording is dormant, events are not recorded
 * and not counted as dropped.
 *
 * Memory: each call copies the names and texts that it is given. Types are static objects; a plugin
 * that has defined some may be closed.
 *
 * Texts are UTF-8 and end with a zero; NULL is "". Texts, names, units, and keys and values of
 * labels are cut off after 255 bytes. Times come from the agent; the caller passes none.
 */
#ifndef MAYFLY_MAYFLY_H
#define MAYFLY_MAYFLY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C++" {
#endif

/*
 * ---- types of events ----
 *
 * At file scope or in a function, once for each type:
 *
 *	MAYFLY_SPAN(variable, "name", fields...);
 *	MAYFLY_INSTANT(variable, "name", fields...);
 *	MAYFLY_COUNTER(variable, "name", "unit");
 *	MAYFLY_COUNTER_FLOAT(variable, "name", "unit");
 *
 * Each defines a static object, `variable`. Names are literals; several types may have the same
 * name. Fields: up to four of
 *
 *	MAYFLY_INT("name")	int64_t
 *	MAYFLY_UINT("name")	uint64_t
 *	MAYFLY_FLOAT("name")	double
 *	MAYFLY_TEXT("name")	const char *
 *	MAYFLY_FLOW("name")	uint64_t: events with the same number belong together, such as a
 *				request that one thread accepts and another one works on
 *
 * unit: "bytes", "ns", or "" for plain numbers; others are shown as they are. A counter belongs to
 * the process: any thread may give its next value.
 */
#define MAYFLY_INT(name)   "i" name
#define MAYFLY_UINT(name)  "u" name
#define MAYFLY_FLOAT(name) "f" name
#define MAYFLY_TEXT(name)  "t" name
#define MAYFLY_FLOW(name)  "w" name

#define MAYFLY_SPAN(variable, ...)                                                                 \
	MAYFLY_DEFINE_(mayfly_span_type, variable, 0, "", __VA_ARGS__, MAYFLY_NULL_, MAYFLY_NULL_, \
		       MAYFLY_NULL_, MAYFLY_NULL_, MAYFLY_NULL_)
#define MAYFLY_INSTANT(variable, ...)                                                              \
	MAYFLY_DEFINE_(mayfly_instant_type, variable, 1, "", __VA_ARGS__, MAYFLY_NULL_,            \
		       MAYFLY_NULL_, MAYFLY_NULL_, MAYFLY_NULL_, MAYFLY_NULL_)
#define MAYFLY_COUNTER(variable, name, unit)                                                       \
	MAYFLY_DEFINE_(mayfly_counter_type, variable, 2, unit, name, "ivalue", MAYFLY_NULL_,       \
		       MAYFLY_NULL_, MAYFLY_NULL_, MAYFLY_NULL_)
#define MAYFLY_COUNTER_FLOAT(variable, name, unit)                                                 \
	MAYFLY_DEFINE_(mayfly_counter_type, variable, 2, unit, name, "fvalue", MAYFLY_NULL_,       \
		       MAYFLY_NULL_, MAYFLY_NULL_, MAYFLY_NULL_)

/* A type may also be made at run time, by filling in this structure. It must then stay where it is,
 * unchanged, and `number` must point to a word of its own that is 0. */
struct mayfly_event_type {
	uint32_t *number; /* the agent's */
	const char *name;
	const char *unit;     /* of a counter, else "" */
	uint32_t kind;	      /* 0 span, 1 instant, 2 counter */
	uint32_t reserved;    /* 0 */
	const char *field[4]; /* the letter of its type, then its name; NULL after the last */
};

struct mayfly_span_type {
	struct mayfly_event_type type;
};
struct mayfly_instant_type {
	struct mayfly_event_type type;
};
struct mayfly_counter_type {
	struct mayfly_event_type type;
};

#define MAYFLY_DEFINE_(structure, variable, kind, unit, name, a, b, c, d, ...)                     \
	static uint32_t variable##_number_;                                                        \
	static const struct structure variable MAYFLY_UNUSED_ = {                                  \
	    {&variable##_number_, name, unit, kind, 0, {a, b, c, d}}}

/*
 * ---- pools: the program's own allocators ----
 *
 *	MAYFLY_POOL(variable, "name", flags);
 *
 * Their blocks are sampled like those of malloc, with the stack of the function that calls
 * mayfly_pool_alloc(), and reported apart ("--heap pool"), with the label pool=name. flags: 0 when
 * the pool gets its memory from malloc, so its blocks are inside blocks that mayfly knows;
 * MAYFLY_POOL_MAPPED when it gets memory from elsewhere (mmap, static, a device).
 */
#define MAYFLY_POOL_MAPPED 1u

#define MAYFLY_POOL(variable, name, flags)                                                         \
	static uint32_t variable##_number_;                                                        \
	static const struct mayfly_pool variable MAYFLY_UNUSED_ = {&variable##_number_, name,      \
								   flags, 0}

struct mayfly_pool {
	uint32_t *number; /* the agent's */
	const char *name;
	uint32_t flags;
	uint32_t reserved; /* 0 */
};

/*
 * ---- an allocator that takes the place of malloc ----
 *
 * For one that is built into the program (a Rust #[global_allocator], an operator new of its own, a
 * static jemalloc) and gets its memory from the system: its blocks are recorded as if malloc had
 * handed them out, with the stack of the function that calls mayfly_allocator_alloc(). Where the
 * allocator passes single blocks on to malloc, mayfly sees those already: report nothing.
 *
 *	block = its_alloc(size);	mayfly_allocator_free(block);
 *	mayfly_allocator_alloc(block, size);	its_free(block);
 *
 *	struct mayfly_resize resize;
 *
 *	mayfly_allocator_resize_begin(&resize, block);
 *	result = its_realloc(block, size);
 *	mayfly_allocator_resize_end(&resize, result, size);
 *
 * Report a block before another thread can know it, and its end before its address can be handed
 * out again. A result of NULL says that the resize failed and the block is as it was; with size 0,
 * that it is gone. A NULL block of resize_begin says that there was none. alloc and free ignore
 * NULL. The calls may be made in a signal handler, but a begin and its end in one thread, with no
 * other of these calls of that thread between them. An allocator in a language without C headers
 * finds the table `mayfly_agent_allocator` as the code below does; examples/rust shows how.
 */
struct mayfly_resize {
	uint64_t words[16]; /* the agent's */
};

/*
 * ---- calls ----
 *
 *	void mayfly_span_begin(const struct mayfly_span_type *type, values...);
 *	void mayfly_span_end(const struct mayfly_span_type *type);
 *	void mayfly_instant(const struct mayfly_instant_type *type, values...);
 *	void mayfly_counter(const struct mayfly_counter_type *type, int64_t value);
 *	void mayfly_counter_float(const struct mayfly_counter_type *type, double value);
 *	void mayfly_label_push(const char *key, const char *value);
 *	void mayfly_label_pop(void);
 *	void mayfly_pool_alloc(const struct mayfly_pool *pool, const void *block, size_t size);
 *	void mayfly_pool_free(const struct mayfly_pool *pool, const void *block);
 *	void mayfly_allocator_alloc(const void *block, size_t size);
 *	void mayfly_allocator_free(const void *block);
 *	void mayfly_allocator_resize_begin(struct mayfly_resize *resize, const void *block);
 *	void mayfly_allocator_resize_end(const struct mayfly_resize *resize, const void *result,
 *					 size_t size);
 *	int mayfly_active(void);
 *
 * values: one for each field of the type, in order: texts, or numbers of any type. Numbers are
 * converted to the field's type as in an assignment; a double that no integer can hold becomes the
 * nearest one. A missing value is 0 or ""; so is a text for a number, and a number for a text.
 *
 * Spans of one thread nest: an end closes the thread's latest open span of its type. For work that
 * ends in another thread than it began in, use two spans with the same MAYFLY_FLOW.
 *
 * Labels tell what the thread is doing ("request"="search"): each block allocated meanwhile has
 * them ("mayfly report --by label"). A thread has at most 16 at once, the outermost first; for each
 * key the innermost counts. Use values for groups, not as numbers of single requests: 65535
 * different ones are kept.
 *
 * Call mayfly_pool_free() before the block can be handed out again. A NULL block is ignored.
 *
 * mayfly_active() tells whether an event would be recorded now. Use it before computing costly
 * values.
 */

/* ---- how it works: programs must not use anything below ---- */

#ifdef __cplusplus
#define MAYFLY_NULL_		nullptr
#define MAYFLY_AS_(type, value) static_cast<type>(value)
#else
#define MAYFLY_NULL_		NULL
#define MAYFLY_AS_(type, value) ((type)(value))
#endif

#ifdef __GNUC__
#define MAYFLY_UNUSED_		  __attribute__((unused))
#define MAYFLY_INLINE_		  static inline __attribute__((always_inline))
#define MAYFLY_RARELY_(condition) __builtin_expect(!!(condition), 0)
#else
#define MAYFLY_UNUSED_
#define MAYFLY_INLINE_		  static inline
#define MAYFLY_RARELY_(condition) (condition)
#endif

/* The agent exports this. Members may be added at the end. */
struct mayfly_agent_calls {
	void (*span_begin)(const struct mayfly_event_type *type, uint64_t a, uint64_t b, uint64_t c,
			   uint64_t d);
	void (*span_end)(const struct mayfly_event_type *type);
	void (*instant)(const struct mayfly_event_type *type, uint64_t a, uint64_t b, uint64_t c,
			uint64_t d);
	void (*counter)(const struct mayfly_event_type *type, uint64_t value);
	void (*label_push)(const char *key, const char *value);
	void (*label_pop)(void);
	void (*pool_alloc)(const struct mayfly_pool *pool, const void *block, size_t size);
	void (*pool_free)(const struct mayfly_pool *pool, const void *block);
	int (*active)(void);
	/* Points to a pointer to a word that is 0 while events are not recorded. Pointer and word
	 * may change at any time. */
	const uint32_t *const *awake;
};

/* The agent exports this, too. An agent whose table is smaller than a member's end lacks it. */
struct mayfly_agent_allocator {
	size_t size; /* of this table */
	void (*alloc)(const void *block, size_t size);
	void (*free)(const void *block);
	void (*resize_begin)(struct mayfly_resize *resize, const void *block);
	void (*resize_end)(const struct mayfly_resize *resize, const void *result, size_t size);
};

/* A table of the agent's, or NULL. A weak symbol accessed through the global offset table: the
 * loader then fills it in for executables that are not position independent, too, and the linker
 * lets it be NULL. */
#if defined(__GNUC__) && defined(__linux__) && defined(__x86_64__) && defined(__LP64__)
#define MAYFLY_TABLE_(table, name)                                                                 \
	__asm__("{movq " name "@GOTPCREL(%%rip), %0|mov %0, QWORD PTR " name                       \
		"@GOTPCREL[rip]}\n\t.weak " name                                                   \
		: "=r"(table))
#elif defined(__GNUC__) && defined(__linux__) && defined(__aarch64__) && defined(__LP64__)
#define MAYFLY_TABLE_(table, name)                                                                 \
	__asm__("adrp %0, :got:" name "\n\tldr %0, [%0, #:got_lo12:" name "]\n\t.weak " name       \
		: "=r"(table))
#else
#define MAYFLY_TABLE_(table, name) ((table) = MAYFLY_NULL_)
#endif

MAYFLY_INLINE_ const struct mayfly_agent_calls *mayfly_agent_(void)
{
	const struct mayfly_agent_calls *calls;

	MAYFLY_TABLE_(calls, "mayfly_agent_calls");
	return calls;
}

MAYFLY_INLINE_ const struct mayfly_agent_allocator *mayfly_allocator_(void)
{
	const struct mayfly_agent_allocator *allocator;

	MAYFLY_TABLE_(allocator, "mayfly_agent_allocator");
	return allocator;
}

/* For events: the same, but also NULL while the recording is dormant. */
MAYFLY_INLINE_ const struct mayfly_agent_calls *mayfly_awake_(void)
{
	const struct mayfly_agent_calls *calls = mayfly_agent_();

#ifdef __GNUC__
	if (MAYFLY_RARELY_(calls) &&
	    !__atomic_load_n(__atomic_load_n(calls->awake, __ATOMIC_RELAXED), __ATOMIC_RELAXED))
		return MAYFLY_NULL_;
#endif
	return calls;
}

/* A value as the caller passed it. */
struct mayfly_given {
	char type; /* 'i', 'u', 'f' or 't' */
	union {
		int64_t i;
		uint64_t u;
		double f;
		const char *text;
	} value;
#ifdef __cplusplus
#define MAYFLY_FROM_(given, letter, member)                                                        \
	mayfly_given(given x) : type(letter)                                                       \
	{                                                                                          \
		value.member = x;                                                                  \
	}
	mayfly_given() : type('i')
	{
		value.i = 0;
	}
	MAYFLY_FROM_(bool, 'i', i)
	MAYFLY_FROM_(char, 'i', i)
	MAYFLY_FROM_(signed char, 'i', i)
	MAYFLY_FROM_(short, 'i', i)
	MAYFLY_FROM_(int, 'i', i)
	MAYFLY_FROM_(long, 'i', i)
	MAYFLY_FROM_(long long, 'i', i)
	MAYFLY_FROM_(unsigned char, 'u', u)
	MAYFLY_FROM_(unsigned short, 'u', u)
	MAYFLY_FROM_(unsigned int, 'u', u)
	MAYFLY_FROM_(unsigned long, 'u', u)
	MAYFLY_FROM_(unsigned long long, 'u', u)
	mayfly_given(float x) : type('f')
	{
		value.f = MAYFLY_AS_(double, x);
	}
	MAYFLY_FROM_(double, 'f', f)
	MAYFLY_FROM_(const char *, 't', text)
#undef MAYFLY_FROM_
#endif
};

MAYFLY_INLINE_ int64_t mayfly_whole_(double number)
{
	if (number >= 9223372036854775808.0)
		return INT64_MAX;
	if (number >= -9223372036854775808.0)
		return MAYFLY_AS_(int64_t, number);
	return number < 0 ? INT64_MIN : 0;
}

MAYFLY_INLINE_ uint64_t mayfly_whole_unsigned_(double number)
{
	if (number >= 18446744073709551616.0)
		return UINT64_MAX;
	return number > 0 ? MAYFLY_AS_(uint64_t, number) : 0;
}

/* The value in the field's type. The type is a constant, so the compiler does all of this. */
MAYFLY_INLINE_ uint64_t mayfly_bits_(const char *field, struct mayfly_given given)
{
	union {
		uint64_t bits;
		double number;
	} both;

	if (!field)
		return 0;
	if (field[0] == 't')
		return given.type == 't' ? given.value.u : 0;
	if (given.type == 't')
		return 0;
	if (field[0] == 'f') {
		both.number = given.type == 'f'	  ? given.value.f
			      : given.type == 'i' ? MAYFLY_AS_(double, given.value.i)
						  : MAYFLY_AS_(double, given.value.u);
		return both.bits;
	}
	if (given.type != 'f')
		return given.value.u;
	return field[0] == 'i' ? MAYFLY_AS_(uint64_t, mayfly_whole_(given.value.f))
			       : mayfly_whole_unsigned_(given.value.f);
}

#ifdef __cplusplus
#define MAYFLY_ABSENT_	   = mayfly_given()
#define mayfly_span_begin_ mayfly_span_begin
#define mayfly_instant_	   mayfly_instant
#else
#define MAYFLY_ABSENT_
#endif

/* Values are converted only if the call is made. */
#define MAYFLY_CALL_WITH_(call, type)                                                              \
	do {                                                                                       \
		const struct mayfly_agent_calls *calls = mayfly_awake_();                          \
		if (MAYFLY_RARELY_(calls))                                                         \
			calls->call(type, mayfly_bits_((type)->field[0], a),                       \
				    mayfly_bits_((type)->field[1], b),                             \
				    mayfly_bits_((type)->field[2], c),                             \
				    mayfly_bits_((type)->field[3], d));                            \
	} while (0)

MAYFLY_INLINE_ void mayfly_span_begin_(const struct mayfly_span_type *span,
				       struct mayfly_given a MAYFLY_ABSENT_,
				       struct mayfly_given b MAYFLY_ABSENT_,
				       struct mayfly_given c MAYFLY_ABSENT_,
				       struct mayfly_given d MAYFLY_ABSENT_)
{
	MAYFLY_CALL_WITH_(span_begin, &span->type);
}

MAYFLY_INLINE_ void mayfly_instant_(const struct mayfly_instant_type *instant,
				    struct mayfly_given a MAYFLY_ABSENT_,
				    struct mayfly_given b MAYFLY_ABSENT_,
				    struct mayfly_given c MAYFLY_ABSENT_,
				    struct mayfly_given d MAYFLY_ABSENT_)
{
	MAYFLY_CALL_WITH_(instant, &instant->type);
}

#undef MAYFLY_CALL_WITH_
#undef MAYFLY_ABSENT_
#ifdef __cplusplus
#undef mayfly_span_begin_
#undef mayfly_instant_
#else

MAYFLY_INLINE_ struct mayfly_given mayfly_given_int_(int64_t number)
{
	struct mayfly_given given = {'i', {.i = number}};

	return given;
}

MAYFLY_INLINE_ struct mayfly_given mayfly_given_unsigned_(uint64_t number)
{
	struct mayfly_given given = {'u', {.u = number}};

	return given;
}

MAYFLY_INLINE_ struct mayfly_given mayfly_given_float_(double number)
{
	struct mayfly_given given = {'f', {.f = number}};

	return given;
}

MAYFLY_INLINE_ struct mayfly_given mayfly_given_text_(const char *text)
{
	struct mayfly_given given = {'t', {.text = text}};

	return given;
}

#define MAYFLY_GIVEN_(x)                                                                           \
	_Generic((x), float                                                                        \
		 : mayfly_given_float_, double                                                     \
		 : mayfly_given_float_, char *                                                     \
		 : mayfly_given_text_, const char *                                                \
		 : mayfly_given_text_, unsigned char                                               \
		 : mayfly_given_unsigned_, unsigned short                                          \
		 : mayfly_given_unsigned_, unsigned int                                            \
		 : mayfly_given_unsigned_, unsigned long                                           \
		 : mayfly_given_unsigned_, unsigned long long                                      \
		 : mayfly_given_unsigned_, default                                                 \
		 : mayfly_given_int_)(x)
#define MAYFLY_NONE_ mayfly_given_int_(0)

#define MAYFLY_CALL_0_(function, type)                                                             \
	function(type, MAYFLY_NONE_, MAYFLY_NONE_, MAYFLY_NONE_, MAYFLY_NONE_)
#define MAYFLY_CALL_1_(function, type, a)                                                          \
	function(type, MAYFLY_GIVEN_(a), MAYFLY_NONE_, MAYFLY_NONE_, MAYFLY_NONE_)
#define MAYFLY_CALL_2_(function, type, a, b)                                                       \
	function(type, MAYFLY_GIVEN_(a), MAYFLY_GIVEN_(b), MAYFLY_NONE_, MAYFLY_NONE_)
#define MAYFLY_CALL_3_(function, type, a, b, c)                                                    \
	function(type, MAYFLY_GIVEN_(a), MAYFLY_GIVEN_(b), MAYFLY_GIVEN_(c), MAYFLY_NONE_)
#define MAYFLY_CALL_4_(function, type, a, b, c, d)                                                 \
	function(type, MAYFLY_GIVEN_(a), MAYFLY_GIVEN_(b), MAYFLY_GIVEN_(c), MAYFLY_GIVEN_(d))
#define MAYFLY_SIXTH_(a, b, c, d, e, sixth, ...) sixth
#define MAYFLY_CALL_(function, ...)                                                                \
	MAYFLY_SIXTH_(__VA_ARGS__, MAYFLY_CALL_4_, MAYFLY_CALL_3_, MAYFLY_CALL_2_, MAYFLY_CALL_1_, \
		      MAYFLY_CALL_0_, 0)                                                           \
	(function, __VA_ARGS__)

#define mayfly_span_begin(...) MAYFLY_CALL_(mayfly_span_begin_, __VA_ARGS__)
#define mayfly_instant(...)    MAYFLY_CALL_(mayfly_instant_, __VA_ARGS__)

#endif

MAYFLY_INLINE_ void mayfly_span_end(const struct mayfly_span_type *span)
{
	const struct mayfly_agent_calls *calls = mayfly_awake_();

	if (MAYFLY_RARELY_(calls))
		calls->span_end(&span->type);
}

/* mayfly/trace.h has a structure of this name; g++ warns about that. */
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

MAYFLY_INLINE_ void mayfly_counter(const struct mayfly_counter_type *counter, int64_t value)
{
	const struct mayfly_agent_calls *calls = mayfly_awake_();
	union {
		uint64_t bits;
		double number;
	} both;

	if (counter->type.field[0][0] == 'f')
		both.number = MAYFLY_AS_(double, value);
	else
		both.bits = MAYFLY_AS_(uint64_t, value);
	if (MAYFLY_RARELY_(calls))
		calls->counter(&counter->type, both.bits);
}

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

MAYFLY_INLINE_ void mayfly_counter_float(const struct mayfly_counter_type *counter, double value)
{
	const struct mayfly_agent_calls *calls = mayfly_awake_();
	union {
		uint64_t bits;
		double number;
	} both;

	if (counter->type.field[0][0] == 'f')
		both.number = value;
	else
		both.bits = MAYFLY_AS_(uint64_t, mayfly_whole_(value));
	if (MAYFLY_RARELY_(calls))
		calls->counter(&counter->type, both.bits);
}

MAYFLY_INLINE_ void mayfly_label_push(const char *key, const char *value)
{
	const struct mayfly_agent_calls *calls = mayfly_agent_();

	if (MAYFLY_RARELY_(calls))
		calls->label_push(key, value);
}

MAYFLY_INLINE_ void mayfly_label_pop(void)
{
	const struct mayfly_agent_calls *calls = mayfly_agent_();

	if (MAYFLY_RARELY_(calls))
		calls->label_pop();
}

/* A macro, so that the block's stack ends in the function that uses it. */
#ifdef __GNUC__
#define mayfly_pool_alloc(pool, block, size)                                                       \
	__extension__({                                                                            \
		const struct mayfly_pool *mayfly_pool_ = (pool);                                   \
		const void *mayfly_block_ = (block);                                               \
		size_t mayfly_size_ = (size);                                                      \
		const struct mayfly_agent_calls *mayfly_calls_ = mayfly_agent_();                  \
		if (MAYFLY_RARELY_(mayfly_calls_))                                                 \
			mayfly_calls_->pool_alloc(mayfly_pool_, mayfly_block_, mayfly_size_);      \
	})
#else
#define mayfly_pool_alloc(pool, block, size) ((void)(pool), (void)(block), (void)(size))
#endif

MAYFLY_INLINE_ void mayfly_pool_free(const struct mayfly_pool *pool, const void *block)
{
	const struct mayfly_agent_calls *calls = mayfly_agent_();

	if (MAYFLY_RARELY_(calls))
		calls->pool_free(pool, block);
}

/* Macros for the same reason. */
#ifdef __GNUC__
#define mayfly_allocator_alloc(block, size)                                                        \
	__extension__({                                                                            \
		const void *mayfly_block_ = (block);                                               \
		size_t mayfly_size_ = (size);                                                      \
		const struct mayfly_agent_allocator *mayfly_allocator__ = mayfly_allocator_();     \
		if (MAYFLY_RARELY_(mayfly_allocator__))                                            \
			mayfly_allocator__->alloc(mayfly_block_, mayfly_size_);                    \
	})
#define mayfly_allocator_resize_end(resize, result, size)                                          \
	__extension__({                                                                            \
		const struct mayfly_resize *mayfly_resize_ = (resize);                             \
		const void *mayfly_block_ = (result);                                              \
		size_t mayfly_size_ = (size);                                                      \
		const struct mayfly_agent_allocator *mayfly_allocator__ = mayfly_allocator_();     \
		if (MAYFLY_RARELY_(mayfly_allocator__))                                            \
			mayfly_allocator__->resize_end(mayfly_resize_, mayfly_block_,              \
						       mayfly_size_);                              \
	})
#else
#define mayfly_allocator_alloc(block, size) ((void)(block), (void)(size))
#define mayfly_allocator_resize_end(resize, result, size)                                          \
	((void)(resize), (void)(result), (void)(size))
#endif

MAYFLY_INLINE_ void mayfly_allocator_free(const void *block)
{
	const struct mayfly_agent_allocator *allocator = mayfly_allocator_();

	if (MAYFLY_RARELY_(allocator))
		allocator->free(block);
}

MAYFLY_INLINE_ void mayfly_allocator_resize_begin(struct mayfly_resize *resize, const void *block)
{
	const struct mayfly_agent_allocator *allocator = mayfly_allocator_();

	if (MAYFLY_RARELY_(allocator))
		allocator->resize_begin(resize, block);
}

MAYFLY_INLINE_ int mayfly_active(void)
{
	const struct mayfly_agent_calls *calls = mayfly_awake_();

	return MAYFLY_RARELY_(calls) && calls->active();
}

#ifdef __cplusplus
}
#endif

#endif
