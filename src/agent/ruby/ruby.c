/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of Ruby in the stacks of an unmodified ruby.
 *
 *	native frames		tags, by `previous`	frames of the VM's stack
 *	main						(dummy)
 *	rb_vm_exec	   <──	tag		   <──	<main>			begins a call: FINISH
 *	  rb_ary_each					Order#load
 *	  rb_ensure	   <──	tag, of no group	Array#each		of C
 *	rb_vm_exec	   <──	tag		   <──	block in Order#load	begins a call: FINISH
 *	malloc
 *
 * One native call of rb_vm_exec() runs a group of frames; the first of them has the flag FINISH. Each
 * call has a tag on its C stack, which tells which native frame the group belongs to. Others have tags,
 * too: those of rb_vm_exec() return into its code when they are jumped to (__builtin_setjmp).
 *
 * Only the thread's own context is read, which changes only in the thread's own code. While the thread
 * has released Ruby's lock, or the collector moves objects and has protected their pages, objects are
 * read by a system call that fails where a load would. Nothing of Ruby is called.
 */
#include <pthread.h>
#include <string.h>

#include "agent/interpreter/interpreter.h"
#include "agent/ruby/ruby_code.h"

#define FRAMES_MOST	  200000u
#define TAGS_MOST	  200000u
#define THREAD_LOCAL_MOST 65536u

/* In the first word of a frame's environment. */
#define FLAG_FINISH    0x20u
#define FLAG_BMETHOD   0x40u
#define FLAG_CFRAME    0x80u
#define TYPE_MASK      0x7fff0001u
#define TYPE_CFUNCTION 0x55550001u
#define TYPE_DUMMY     0x79990001u /* the outermost frame of a thread, which runs nothing */

/* objspace->flags */
#define GC_MODE	      3u
#define GC_MARKING    1u
#define GC_COMPACTING 0x40u

static const struct ruby_layout layouts[] = {
    {
	.version = "3.1.",
	.ec_stack = 0,
	.ec_stack_size = 8,
	.ec_frame = 16,
	.ec_tag = 24,
	.ec_thread = 48,
	.frame_size = 64,
	.frame_pc = 0,
	.frame_iseq = 16,
	.frame_ep = 32,
	.tag_label = 24,
	.tag_previous = 56,
	.thread_vm = 32,
	.thread_ec = 40,
	.thread_blocking = 168,
	.vm_ractors = 24,
	.vm_marked = 248 + 2 * sizeof(pthread_mutex_t),
	.vm_objects = 984 + 3 * sizeof(pthread_mutex_t),
	.objects_flags = 16,
	.objects_count = 440,
	.iseq_body = 16,
	.body_size = 4,
	.body_code = 8,
	.body_path = 64,
	.body_base_label = 72,
	.body_label = 80,
	.body_line = 88,
	.body_lines = 120,
	.body_lines_count = 136,
	.body_lines_index = 144,
	.line_size = 12,
	.method_definition = 16,
	.method_owner = 32,
	.definition_name = 32,
	.class_extension = 24,
	.extension_variables = 8,
	.table_bound = 40,
	.table_entries = 48,
	.last_operator = 169,
    },
};

static uintptr_t evaluator, evaluator_size; /* rb_vm_exec() */
static intptr_t context_offset;		    /* of ruby_current_ec, from the thread's pointer */

static inline uintptr_t word_at(uintptr_t object, uint32_t offset)
{
	return *(const uintptr_t *)(object + offset);
}

/* ---- the thread's context ---- */

/* Is the thread in the evaluator? Before and after its life as a thread of Ruby it may have a context
 * that was freed. */
static bool is_running(const struct interpreter_stack *s)
{
	const struct walk *walk = &s->w->walk;
	uintptr_t i = s->own[0]; /* where it was found lately */

	if (i < walk->depth && walk->frames[i].address - evaluator < evaluator_size)
		return true;
	for (i = 0; i < walk->depth; i++)
		if (walk->frames[i].address - evaluator < evaluator_size) {
			s->own[0] = i;
			return true;
		}
	return false;
}

/* The same where the native stack is cut, as by Ruby's own compiled code: is this a context? */
static bool is_context(uintptr_t context)
{
	uintptr_t thread, there, vm;

	return ruby_peek(true, context + ruby.at->ec_thread, &thread, sizeof(thread)) &&
	       ruby_peek(true, thread + ruby.at->thread_ec, &there, sizeof(there)) &&
	       there == context && ruby_peek(true, thread + ruby.at->thread_vm, &vm, sizeof(vm)) &&
	       vm == (uintptr_t)*ruby.vm;
}

static uintptr_t own_context(const struct interpreter_stack *s)
{
	uintptr_t context = *(const uintptr_t *)(cpu_thread_pointer() + (uintptr_t)context_offset);

	if (!context || !*ruby.vm || (context & 7))
		return 0;
	if (is_running(s))
		return context;
	return s->w->walk.truncated && is_context(context) ? context : 0;
}

/* Objects are freed only after a later marking than that under way, and moved only while the collector
 * compacts. While it marks, one that is on the stack now may be gone at the marking's end. */
static struct ruby_reading reading_of(const struct interpreter_stack *s, uintptr_t context)
{
	uintptr_t thread = word_at(context, ruby.at->ec_thread);
	uintptr_t vm = (uintptr_t)*ruby.vm, objects = word_at(vm, ruby.at->vm_objects);
	uint32_t flags = *(const uint32_t *)(objects + ruby.at->objects_flags);
	bool compacts = flags & GC_COMPACTING, marks = (flags & GC_MODE) == GC_MARKING;
	bool others = *(const uint32_t *)(vm + ruby.at->vm_ractors) > 1;

	return (struct ruby_reading){
	    .stack = s,
	    .careful = compacts || others || word_at(thread, ruby.at->thread_blocking),
	    .version =
		compacts || marks ? 0 : (uint32_t)word_at(objects, ruby.at->objects_count) + 1,
	};
}

/* ---- frames ---- */

/* The tags of the context, which lie on the C stack from its present end on, inner ones first. */
struct tags {
	uintptr_t at, low, high;
	bool careful; /* not all of that may be mapped */
	uint32_t left;
};

static struct tags tags_of(const struct interpreter_stack *s, uintptr_t context)
{
	const struct walk *walk = &s->w->walk;
	bool careful = walk->truncated || walk->interrupted;

	return (struct tags){
	    .at = word_at(context, ruby.at->ec_tag),
	    .low = (uintptr_t)__builtin_frame_address(0),
	    .high = careful ? UINTPTR_MAX : walk->frames[0].cfa,
	    .careful = careful,
	    .left = TAGS_MOST,
	};
}

/* Where the C stack has the next call of the evaluator; 0: unknown. */
static uintptr_t next_anchor(struct tags *t)
{
	uintptr_t label, previous, here;

	while (t->left && t->at > t->low && t->at < t->high && !(t->at & 7)) {
		here = t->low = t->at;
		if (here + ruby.at->tag_previous + 8u > t->high ||
		    !ruby_peek(t->careful, here + ruby.at->tag_label, &label, sizeof(label)) ||
		    !ruby_peek(t->careful, here + ruby.at->tag_previous, &previous,
			       sizeof(previous)))
			break;
		t->at = previous;
		t->left--;
		if (label - evaluator < evaluator_size)
			return here;
	}
	t->at = 0;
	t->left = 0;
	return 0;
}

static void take_frame(const struct ruby_reading *r, uintptr_t at, struct tags *tags)
{
	struct ruby_frame frame = {
	    .pc = word_at(at, ruby.at->frame_pc),
	    .iseq = word_at(at, ruby.at->frame_iseq),
	    .ep = (const uintptr_t *)word_at(at, ruby.at->frame_ep),
	};
	uint64_t address = 0;
	uintptr_t flags;

	if (!frame.ep || (uintptr_t)frame.ep & 7)
		return;
	flags = frame.ep[0];
	if ((flags & TYPE_MASK) == TYPE_DUMMY)
		return;
	if (flags & FLAG_CFRAME)
		frame.pc = 0;
	frame.is_method = flags & FLAG_BMETHOD;
	if (frame.pc ? frame.iseq != 0 : (flags & TYPE_MASK) == TYPE_CFUNCTION)
		address = ruby_code_address(r, &frame);
	if (address)
		mixed_put(r->stack->chain, address);
	if ((flags & (FLAG_FINISH | FLAG_CFRAME)) == FLAG_FINISH)
		mixed_end_group(r->stack->chain, next_anchor(tags));
}

static void take(const struct interpreter_stack *s)
{
	uintptr_t context = own_context(s), frame, end;
	struct ruby_reading r;
	struct tags tags;

	if (!context)
		return;
	frame = word_at(context, ruby.at->ec_stack);
	end = frame + 8 * word_at(context, ruby.at->ec_stack_size);
	if (!frame || word_at(context, ruby.at->ec_frame) < frame)
		return;
	frame = word_at(context, ruby.at->ec_frame);
	r = reading_of(s, context);
	tags = tags_of(s, context);
	codes_begin(s->codes, r.version);
	for (uint32_t i = 0; i < FRAMES_MOST && frame + ruby.at->frame_size <= end; i++) {
		take_frame(&r, frame, &tags);
		frame += ruby.at->frame_size;
	}
}

/* ---- versions ---- */

#define UNKNOWN_VERSION "only those of Ruby 3.1 are known"

/* The variable has the same distance from each thread's pointer if it lies in the memory that threads are
 * started with, as for all libraries that the program was started with. */
static const char *find_context(const struct interpreter_library *in)
{
	const Elf64_Sym *symbol = image_symbol(&in->image, "ruby_current_ec");
	uintptr_t block = (uintptr_t)in->thread_block, thread = cpu_thread_pointer();

	if (!symbol || ELF64_ST_TYPE(symbol->st_info) != STT_TLS)
		return "the thread's context was not found";
	if (!block)
		return "its library was opened by the program";
	context_offset = (intptr_t)(block + symbol->st_value - thread);
	if ((uintptr_t)(context_offset + (intptr_t)THREAD_LOCAL_MOST) >= 2 * THREAD_LOCAL_MOST)
		return "its library was opened by the program";
	return NULL;
}

static const char *find_ruby(const struct interpreter_library *in)
{
	const Elf64_Sym *exec = image_symbol(&in->image, "rb_vm_exec");
	const char *version = image_find(&in->image, "ruby_version");

	for (size_t i = 0; version && i < sizeof(layouts) / sizeof(*layouts); i++)
		if (!strncmp(version, layouts[i].version, strlen(layouts[i].version)))
			ruby.at = &layouts[i];
	if (!ruby.at)
		return UNKNOWN_VERSION;
	ruby.vm = image_find(&in->image, "ruby_current_vm_ptr");
	if (!exec || !exec->st_size || !ruby.vm)
		return "its functions were not found";
	evaluator = in->image.bias + exec->st_value;
	evaluator_size = exec->st_size;
	return find_context(in);
}

const struct interpreter interpreter_ruby = {
    .language = "Ruby",
    .symbol = "ruby_current_vm_ptr",
    .unwanted = &agent_config.no_ruby,
    .find = find_ruby,
    .take = take,
};
