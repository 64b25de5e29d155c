/* SPDX-License-Identifier: Apache-2.0 */
/* The code of Ruby's frames: their addresses, names and lines. */
#ifndef MAYFLY_RUBY_CODE_H
#define MAYFLY_RUBY_CODE_H

#include "agent/interpreter/interpreter.h"

/* Offsets in the structures of a version of Ruby, on 64-bit systems. */
struct ruby_layout {
	const char *version; /* how ruby_version begins */
	/* rb_execution_context_t, rb_control_frame_t, struct rb_vm_tag */
	uint16_t ec_stack, ec_stack_size, ec_frame, ec_tag, ec_thread;
	uint16_t frame_size, frame_pc, frame_iseq, frame_ep;
	uint16_t tag_label, tag_previous; /* label: where __builtin_setjmp() returns again */
	/* rb_thread_t, rb_vm_t, rb_objspace_t */
	uint16_t thread_vm, thread_ec, thread_blocking;
	uint16_t vm_ractors, vm_marked, vm_objects, objects_flags, objects_count;
	/* rb_iseq_t, struct rb_iseq_constant_body, struct iseq_insn_info_entry */
	uint16_t iseq_body;
	uint16_t body_size, body_code, body_path, body_base_label, body_label, body_line;
	uint16_t body_lines, body_lines_count, body_lines_index, line_size;
	/* rb_method_entry_t, rb_method_definition_t */
	uint16_t method_definition, method_owner, definition_name;
	/* struct RClass, rb_classext_t, st_table */
	uint16_t class_extension, extension_variables;
	uint16_t table_bound, table_entries;
	uint16_t last_operator; /* the largest number of a symbol that is an operator */
};

struct ruby {
	const struct ruby_layout *at;
	const char *const *vm; /* ruby_current_vm_ptr */
};
extern struct ruby ruby;

/* How memory is read in this stack. */
struct ruby_reading {
	const struct interpreter_stack *stack;
	/* Other threads may be moving or changing objects: each read is a system call that fails where
	 * memory is protected or gone. */
	bool careful;
	uint32_t
	    version; /* of code_objects.h: objects have not been freed since; 0: they may have been */
};

/* A frame as it is on the stack. */
struct ruby_frame {
	uintptr_t pc; /* 0: of a function of C */
	uintptr_t iseq;
	const uintptr_t *ep;
	bool is_method; /* the block is a method: define_method */
};

uint64_t ruby_code_find(const struct ruby_reading *r, const struct ruby_frame *frame,
			const void *object, uintptr_t instruction);

/* The address that stands for the frame's instruction; 0: it cannot be read. Writes its place to the
 * spool when it is new there. */
static inline uint64_t ruby_code_address(const struct ruby_reading *r,
					 const struct ruby_frame *frame)
{
	/* The method's entry stands for a function of C, and for a block that is a method. */
	const void *object =
	    (const void *)(frame->pc && !frame->is_method ? frame->iseq : frame->ep[-2]);
	uintptr_t instruction = (frame->pc ? frame->pc : frame->ep[-2]) / 4;
	uint64_t address = codes_latest_address(r->stack->codes, object, instruction);

	return LIKELY(address) ? address : ruby_code_find(r, frame, object, instruction);
}

/* Stands for the file of functions of C. */
#define RUBY_C_FILE "<cfunc>"

/* Copies memory of the process; false: there is none to be read. */
bool ruby_peek(bool careful, uintptr_t from, void *to, size_t bytes);

#endif
