/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that are not worth showing. */
#include "answer/allocator_frames.h"

#include <string.h>

#include "answer/trace_names.h"
#include "answer/plain_name.h"

/* Names without parameters and template arguments, as name_plain() makes them. */
static const char *const interface_names[] = {
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "__libc_malloc",
    "__libc_calloc",
    "__libc_realloc",
    "__libc_reallocarray",
    "__libc_memalign",
    "__libc_valloc",
    "__libc_pvalloc",
    "__posix_memalign",
    "_int_malloc",
    "_int_realloc",
    "_int_memalign",
    "_mid_memalign",
    "sysmalloc",
    "operator new",
    "operator new[]",
    "std::allocator<>::allocate",
    "std::allocator_traits<>::allocate",
    "std::__new_allocator<>::allocate",
    "__gnu_cxx::new_allocator<>::allocate",
    "__gnu_cxx::__alloc_traits<>::allocate",
    "std::__1::allocator<>::allocate",
    "std::__1::allocator_traits<>::allocate",
    "std::__1::__libcpp_allocate",
    "std::__1::__libcpp_operator_new",
    "std::__1::__libcpp_operator_new<>",
    "std::__1::__allocate_at_least<>",
    "__rust_alloc",
    "__rust_alloc_zeroed",
    "__rust_realloc",
    "__rdl_alloc",
    "__rdl_alloc_zeroed",
    "__rdl_realloc",
    "__rg_alloc",
    "__rg_alloc_zeroed",
    "__rg_realloc",
    "alloc::alloc::alloc",
    "alloc::alloc::alloc_zeroed",
    "alloc::alloc::realloc",
    "alloc::alloc::exchange_malloc",
    "alloc::alloc::Global::alloc_impl",
    "alloc::alloc::Global::grow_impl",
    "<alloc::alloc::Global as core::alloc::Allocator>::allocate",
    "<alloc::alloc::Global as core::alloc::Allocator>::allocate_zeroed",
    "<alloc::alloc::Global as core::alloc::Allocator>::grow",
    "<std::alloc::System as core::alloc::global::GlobalAlloc>::alloc",
    "<std::alloc::System as core::alloc::global::GlobalAlloc>::alloc_zeroed",
    "<std::alloc::System as core::alloc::global::GlobalAlloc>::realloc"};

static bool is_interface_name(const char *plain)
{
	for (size_t i = 0; i < sizeof(interface_names) / sizeof(interface_names[0]); i++) {
		size_t length;

		if (*interface_names[i] != *plain) /* most of them */
			continue;
		length = strlen(interface_names[i]);
		if (strncmp(plain, interface_names[i], length) == 0 &&
		    (plain[length] == 0 || plain[length] == '('))
			return true;
	}
	return false;
}

bool is_allocator_frame(const char *text)
{
	char plain[512];
	const char *space;

	if (text[0] == '/')
		return strcmp(path_base(text), "libmayfly.so") == 0 ||
		       strcmp(path_base(text), "libmayfly-musl.so") == 0;
	if (strlen(text) > 4 * sizeof(plain))
		return false;
	name_plain(plain, sizeof(plain), text);
	if (is_interface_name(plain))
		return true;
	/* Templates of functions are demangled with their result: "void* f<int>()". */
	space = strchr(plain, ' ');
	return space && is_interface_name(space + 1);
}

static int hides(void *context, const char *text)
{
	const struct hidden_frames *hidden = context;

	return (hidden->pattern.matches &&
		hidden->pattern.matches(hidden->pattern.context, text)) ||
	       (hidden->frames != FRAMES_ALL && is_allocator_frame(text));
}

struct mayfly_match hidden_frames_match(struct hidden_frames *hidden)
{
	struct mayfly_match m = {hides, hidden};

	if (hidden->frames == FRAMES_ALL && !hidden->pattern.matches)
		m.matches = NULL;
	return m;
}
