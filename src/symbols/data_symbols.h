/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The variables of one object: symbols of data, also local ones, from its symbol table or that of its
 * separate debug file; and where its parts lie when it is loaded.
 */
#ifndef MAYFLY_DATA_SYMBOLS_H
#define MAYFLY_DATA_SYMBOLS_H

#include "symbols/debug_server.h"
#include "symbols/demangle.h"

struct data_symbol {
	uint64_t start, size; /* ELF addresses; of thread-local ones from the begin of the block */
	const char *name;     /* as in the file; lives in the demangle session */
	bool thread_local_one;
};

struct data_part {
	uint64_t offset, start, file_bytes, bytes; /* ELF addresses */
	bool writable;
};

struct data_symbols {
	struct data_symbol *symbol; /* in order of addresses; those of threads behind the others */
	size_t count, thread_local_from;
	struct data_part *part;
	size_t parts;
	uint64_t dynamic;	       /* where its dynamic section is; 0: none */
	uint64_t tls_bytes, tls_align; /* of its thread-local block; 0: none */
	uint8_t build_id[64];
	size_t build_id_length;
	bool is_static_type; /* ET_EXEC: loaded where it says */
	bool has_table;	     /* of all symbols, not only of those that it exports */
};

/* Opens the file at `open_path`; `path`: as it was loaded. False: it cannot be read. All names are in
 * `names`. */
bool data_symbols_read(struct data_symbols *d, const char *open_path, const char *path,
		       const struct debug_files *files, struct demangle *names);
void data_symbols_free(struct data_symbols *d);

/* The symbol of a variable that covers the ELF address; NULL: there is none. */
const struct data_symbol *data_symbols_at(const struct data_symbols *d, uint64_t address);

#endif
