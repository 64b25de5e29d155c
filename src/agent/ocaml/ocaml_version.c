/* SPDX-License-Identifier: Apache-2.0 */
/* Which of OCaml's runtimes the program has: see ocaml_version.h. */
#include "agent/ocaml/ocaml_version.h"

#include <stdlib.h>

#include "agent/agent.h"
#include "agent/ocaml/memprof.h"
#include "agent/ocaml/ocaml_look_up.h"

static enum ocaml_version version_by_names(void)
{
	if (ocaml_look_up("caml_local_realloc", NULL) ||
	    ocaml_look_up("caml_alloc_mixed_shr_check_gc", NULL) ||
	    ocaml_look_up("caml_get_local_arenas", NULL))
		return OCAML_OXCAML;
	if (ocaml_look_up("caml_memprof_sample_block", NULL))
		return OCAML_5_3;
	if (ocaml_look_up("caml_domain_spawn", NULL))
		return OCAML_5_0;
	if (!ocaml_look_up("caml_erfc", NULL))
		return OCAML_OTHER;
	return ocaml_look_up("caml_ml_set_buffered", NULL) ? OCAML_4_14 : OCAML_4_13;
}

struct ocaml_domain_lock ocaml_domain_lock;

static bool find_functions(enum ocaml_version version)
{
	if (!ocaml_look_up("caml_memprof_start", &memprof_runtime.start) ||
	    !ocaml_look_up("caml_memprof_stop", &memprof_runtime.stop) ||
	    !ocaml_look_up("caml_debuginfo_extract", &memprof_runtime.debuginfo) ||
	    !ocaml_look_up("caml_debuginfo_next", &memprof_runtime.debuginfo_next) ||
	    !ocaml_look_up("caml_debuginfo_location", &memprof_runtime.debuginfo_location))
		return false;
	if (version != OCAML_5_3)
		return true;
	ocaml_look_up("caml_ml_domain_id", &memprof_runtime.domain_id);
	return (ocaml_look_up("caml_c_call", &memprof_runtime.c_call) &&
		ocaml_look_up("caml_state", NULL) &&
		ocaml_look_up("caml_num_domains_running", &ocaml_domain_lock.domains) &&
		ocaml_look_up("caml_leave_blocking_section",
			      &ocaml_domain_lock.leave_blocking_section) &&
		ocaml_look_up("caml_enter_blocking_section_no_pending",
			      &ocaml_domain_lock.enter_blocking_section));
}

enum ocaml_version ocaml_version_find(void)
{
	enum ocaml_version version = version_by_names();

	if (version == OCAML_OXCAML || version == OCAML_5_0 || find_functions(version))
		return version;
	return OCAML_OTHER;
}

/* In OCaml 4, and in OCaml 5. */
bool ocaml_is_bytecode(void)
{
	return ocaml_look_up("caml_interprete", NULL) ||
	       ocaml_look_up("caml_bytecode_interpreter", NULL);
}

/* Why this OCaml program's blocks are not recorded; NULL: they can be. */
const char *ocaml_objection(enum ocaml_version version)
{
	if (ocaml_is_bytecode())
		return "OCaml blocks are not recorded: the program is bytecode";
	if (version == OCAML_5_0)
		return "OCaml blocks are not recorded: the program's runtime is that of OCaml 5.0, "
		       "5.1 or 5.2, which cannot sample; 4.13, 4.14, and 5.3 and later can";
	if (version == OCAML_OXCAML)
		return "OCaml blocks are not recorded: the program's runtime is OxCaml's";
	if (version == OCAML_OTHER)
		return "OCaml blocks are not recorded: the program's runtime is not that of "
		       "OCaml 4.13, 4.14, or 5.3 and later";
	if (getenv("MEMTRACE") && *getenv("MEMTRACE"))
		return "OCaml blocks are not recorded: MEMTRACE is set, the program traces them "
		       "itself";
	if (agent_exact && agent_config.ocaml_rate < 1)
		return "OCaml blocks are not recorded: they would be sampled, and this is a "
		       "recording of every allocation; ocaml=1 records all of them";
	return NULL;
}

bool ocaml_collector_is_known(enum ocaml_version version)
{
	return !ocaml_is_bytecode() &&
	       (version == OCAML_4_13 || version == OCAML_4_14 || version == OCAML_5_3);
}
