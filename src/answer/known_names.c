/* SPDX-License-Identifier: Apache-2.0 */
/* Names that are not the program's own: see known_names.h. */
#include "answer/known_names.h"

#include <stddef.h>

/* How names of files begin. */
const char *const library_modules[] = {
    "ld-linux",	       "ld-2.",	    "ld-musl",	   "libc.so",	  "libc-2.",	 "libpthread",
    "libdl.so",	       "librt.so",  "libm.so",	   "libresolv.",  "libstdc++.",	 "libc++.so",
    "libc++abi.",      "libgcc_s.", "libunwind.",  "libstd-",	  "libasan.",	 "libtsan.",
    "liblsan.",	       "libubsan.", "libjemalloc", "libtcmalloc", "libmimalloc", "libmayfly.",
    "libmayfly-musl.", NULL};

/* Those among them that only allocate, or load. */
const char *const runtime_modules[] = {"ld-linux",	 "ld-2.",	    "ld-musl",
				       "libjemalloc.so", "libtcmalloc",	    "libmimalloc.",
				       "libmayfly.",	 "libmayfly-musl.", NULL};

const char *const cxx_namespaces[] = {"std::", "__gnu_cxx::", "__cxxabiv1::", NULL};

const char *const rust_crates[] = {
    "std::",   "core::",      "alloc::",       "hashbrown::",	   "backtrace::",
    "gimli::", "addr2line::", "miniz_oxide::", "rustc_demangle::", NULL};

/* The compiler's path of the standard library; its sources when they are installed. */
const char *const rust_paths[] = {"/rustc/", "/usr/src/rustc", NULL};

/* OCaml's own modules, as names of its functions begin. */
const char *const ocaml_modules[] = {"Stdlib.",		  "Stdlib__",	     "CamlinternalFormat.",
				     "CamlinternalLazy.", "CamlinternalOO.", NULL};

/* Functions of OCaml's runtime that allocate and have no prefix; they have no source file. */
const char *const ocaml_runtime[] = {"alloc_custom_gen",
				     "alloc_generic_table",
				     "realloc_generic_table",
				     "expand_heap",
				     "init_gc",
				     "init_static",
				     "intern_alloc",
				     "intern_alloc_storage",
				     "extern_alloc",
				     "unlink_channel",
				     "alloc_shr",
				     "caml",
				     NULL};

/* What Python's objects are allocated by. */
const char *const python_allocators[] = {"_PyMem_RawMalloc",
					 "_PyMem_RawCalloc",
					 "_PyMem_RawRealloc",
					 "_PyMem_DebugRawAlloc",
					 "_PyMem_DebugMalloc",
					 "_PyMem_DebugRealloc",
					 "_PyMem_DebugRawMalloc",
					 "_PyMem_Strdup",
					 "_PyMem_RawStrdup",
					 "_PyMem_RawWcsdup",
					 "_PyMem_DebugRawCalloc",
					 "_PyMem_DebugCalloc",
					 "PyMem_Malloc",
					 "PyMem_Calloc",
					 "PyMem_Realloc",
					 "PyMem_RawMalloc",
					 "PyMem_RawCalloc",
					 "PyMem_RawRealloc",
					 "PyObject_Malloc",
					 "PyObject_Calloc",
					 "PyObject_Realloc",
					 "_PyObject_Malloc",
					 "_PyObject_Calloc",
					 "_PyObject_Realloc",
					 "pymalloc_alloc",
					 "pymalloc_realloc",
					 "new_arena",
					 "allocate_from_new_pool",
					 "_PyObject_ArenaMmap",
					 "_PyObject_ArenaMalloc",
					 "arena_map_get",
					 "arena_map_mark_used",
					 "_PyObject_New",
					 "_PyObject_NewVar",
					 "_PyObject_GC_New",
					 "_PyObject_GC_NewVar",
					 "_PyObject_GC_Malloc",
					 "_PyObject_GC_Alloc",
					 "_PyObject_GC_Resize",
					 "PyObject_GC_Malloc",
					 "gc_alloc",
					 "PyType_GenericAlloc",
					 "_PyType_AllocNoTrack",
					 "_PyObject_MallocWithType",
					 NULL};

/* Functions of well-known programs and libraries that stand for malloc, and duplicate strings: redis,
 * SQLite, jq, GLib, OpenSSL, FFmpeg, PostgreSQL, Perl, Ruby, Lua, PHP, and many of GNU's. */
const char *const malloc_wrappers[] = {"xmalloc",
				       "xcalloc",
				       "xrealloc",
				       "xzalloc",
				       "xnmalloc",
				       "xstrdup",
				       "xstrndup",
				       "xmemdup",
				       "xmallocz",
				       "zmalloc",
				       "zcalloc",
				       "zrealloc",
				       "zmalloc_usable",
				       "zcalloc_usable",
				       "zrealloc_usable",
				       "ztrymalloc_usable",
				       "ztrycalloc_usable",
				       "ztryrealloc_usable",
				       "ztrymalloc_usable_internal",
				       "zrealloc_usable_internal",
				       "zstrdup",
				       "sqlite3MemMalloc",
				       "sqlite3MemRealloc",
				       "sqlite3Malloc",
				       "sqlite3MallocZero",
				       "sqlite3Realloc",
				       "sqlite3_malloc",
				       "sqlite3_malloc64",
				       "sqlite3_realloc",
				       "sqlite3_realloc64",
				       "mallocWithAlarm",
				       "sqlite3DbMallocRaw",
				       "sqlite3DbMallocRawNN",
				       "sqlite3DbMallocZero",
				       "sqlite3DbRealloc",
				       "sqlite3DbReallocOrFree",
				       "dbMallocRawFinish",
				       "dbReallocFinish",
				       "sqlite3DbStrDup",
				       "sqlite3DbStrNDup",
				       "jv_mem_alloc",
				       "jv_mem_alloc_unguarded",
				       "jv_mem_calloc",
				       "jv_mem_calloc_unguarded",
				       "jv_mem_realloc",
				       "jv_mem_strdup",
				       "g_malloc",
				       "g_malloc0",
				       "g_realloc",
				       "g_malloc_n",
				       "g_malloc0_n",
				       "g_realloc_n",
				       "g_try_malloc",
				       "g_try_malloc0",
				       "g_try_realloc",
				       "g_slice_alloc",
				       "g_slice_alloc0",
				       "g_strdup",
				       "g_strndup",
				       "g_memdup",
				       "g_memdup2",
				       "CRYPTO_malloc",
				       "CRYPTO_zalloc",
				       "CRYPTO_realloc",
				       "CRYPTO_memdup",
				       "CRYPTO_strdup",
				       "CRYPTO_strndup",
				       "av_malloc",
				       "av_mallocz",
				       "av_calloc",
				       "av_realloc",
				       "palloc",
				       "palloc0",
				       "palloc_extended",
				       "repalloc",
				       "MemoryContextAlloc",
				       "MemoryContextAllocZero",
				       "MemoryContextAllocZeroAligned",
				       "MemoryContextAllocExtended",
				       "AllocSetAlloc",
				       "AllocSetAllocLarge",
				       "AllocSetAllocFromNewBlock",
				       "AllocSetRealloc",
				       "Perl_safesysmalloc",
				       "Perl_safesyscalloc",
				       "Perl_safesysrealloc",
				       "ruby_xmalloc",
				       "ruby_xmalloc2",
				       "ruby_xcalloc",
				       "ruby_xrealloc",
				       "ruby_xrealloc2",
				       "objspace_xmalloc0",
				       "objspace_xcalloc",
				       "objspace_xrealloc",
				       "luaM_malloc_",
				       "luaM_realloc_",
				       "luaM_saferealloc_",
				       "luaM_growaux_",
				       "l_alloc",
				       "_emalloc",
				       "_ecalloc",
				       "_erealloc",
				       "_estrdup",
				       "_safe_emalloc",
				       NULL};

/* How names begin of code that a runtime compiles for itself, and of functions in its libraries. */
const char *const python_generated[] = {"py_trampoline", NULL};
const char *const v8_generated[] = {
    "Builtin:", "BytecodeHandler:", "Bytecode Handler:", "Stub:", NULL};
const char *const node_generated[] = {"node:", NULL};
const char *const java_generated_runtime[] = {"Interpreter", "StubRoutines", "vtable ",
					      "itable ",     "I2C/C2I ",     NULL};
const char *const java_generated[] = {"java.",	    "javax.",	"jdk.",	 "sun.",  "Ljava/util",
				      "Ljava/lang", "Ljava/io", "Ljdk/", "Lsun/", NULL};

/* libc's functions are in the program's own file when it is static. */
const char *const libc_functions[] = {"strdup",
				      "__strdup",
				      "strndup",
				      "__strndup",
				      "wcsdup",
				      "asprintf",
				      "__asprintf",
				      "vasprintf",
				      "__vasprintf_internal",
				      "fopen",
				      "fopen64",
				      "__fopen_internal",
				      "fdopen",
				      "open_memstream",
				      "getline",
				      "getdelim",
				      "__getdelim",
				      "opendir",
				      "__opendir",
				      "fdopendir",
				      "__alloc_dir",
				      "realpath",
				      "__realpath",
				      "getcwd",
				      "__getcwd",
				      "setlocale",
				      "qsort",
				      "qsort_r",
				      "__qsort_r",
				      "bsearch",
				      "scandir",
				      "__scandir",
				      "popen",
				      "getaddrinfo",
				      "setenv",
				      "putenv",
				      "__add_to_environ",
				      "atexit",
				      "__cxa_atexit",
				      "__new_exitfn",
				      "pthread_create",
				      "__pthread_create_2_1",
				      "allocate_stack",
				      "allocate_dtv",
				      NULL};

const char *const libc_prefixes[] = {"_IO_", "_dl_", "__libc_", "_nl_", "__gconv_", NULL};

/* In a static program these are in its own file. */
const char *const start_functions[] = {"_start",
				       "__libc_start_main",
				       "__libc_start_main_impl",
				       "__libc_start_call_main",
				       "__libc_csu_init",
				       "call_init",
				       "_dl_init",
				       "_dl_start",
				       "_dl_start_user",
				       "_dl_start_final",
				       "_dl_sysdep_start",
				       "dl_main",
				       "start_thread",
				       "clone",
				       "clone3",
				       "__clone",
				       "__clone3",
				       "thread_start",
				       "caml_main",
				       "caml_startup",
				       "caml_startup_exn",
				       "caml_startup_common",
				       "caml_start_program",
				       "caml_program",
				       NULL};

const char *const rust_start[] = {"std::rt::lang_start",
				  "std::sys_common::backtrace::__rust_begin_short_backtrace",
				  "std::sys::backtrace::__rust_begin_short_backtrace", NULL};

/* What an OCaml program is started by: its main() is not the program's. */
const char *const ocaml_starts[] = {"caml_main", "caml_startup_common", NULL};
const char *const ocaml_libraries[] = {"libasmrun", "libcamlrun", NULL};

/* What Python does before it runs the script. */
const char *const python_entries[] = {"_PyEval_EvalFrameDefault",
				      "_PyEval_EvalFrame",
				      "_PyEval_Vector",
				      "PyEval_EvalCode",
				      "Py_BytesMain",
				      "Py_Main",
				      "pymain_main",
				      "Py_RunMain",
				      "pymain_run_python",
				      NULL};
const char *const python_inside[] = {"<frozen ", NULL};
const char *const python_evaluators[] = {"_PyEval_EvalFrameDefault", NULL};
const char *const python_inner_sources[] = {"Objects/", "Python/",   "Modules/", "Parser/",
					    "Include/", "Programs/", NULL};

/* How files of code begin that has none: what is typed in; what libraries make; functions of dataclasses. */
const char *const python_typed[] = {"<stdin>", "<console>", "<input>", "<ipython-",
				    "<cell",   "<doctest ", NULL};
const char *const python_made[] = {
    "<__array_function__", "<attrs generated ", "<decorator-gen", "<makefun", "<template>", NULL};
const char *const python_made_functions[] = {"__create_fn__.", NULL};

/* Files of Ruby; what has none; of that, what belongs to Ruby itself; folders of installed ones. */
const char *const ruby_suffixes[] = {".rb", ".erb", ".ru", ".rake", ".gemspec", NULL};
const char *const ruby_without_file[] = {"<internal:", "<cfunc>", "(eval", "(erb)", NULL};
const char *const ruby_inside[] = {"<internal:", "<cfunc>", NULL};
const char *const ruby_evaluators[] = {"rb_vm_exec", "vm_exec_core", NULL};
const char *const ruby_folders[] = {"/lib/ruby/", "/ruby/3.",	   "/gems/",
				    "/rubygems/", "/vendor_ruby/", "/rubygems-integration/",
				    NULL};

/* A script, a file that is loaded, and what Ruby does before. */
const char *const ruby_entries[] = {"<main>",	     "<top (required)>", "rb_vm_exec",
				    "ruby_run_node", "ruby_exec_node",	 NULL};
