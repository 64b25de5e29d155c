/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ELF files read with libelf. A file is mapped here and passed to libelf as memory, so that no file
 * descriptor stays open and its pages can be released.
 *
 * Symbol tables are neither copied nor sorted: one pass over a table offers each symbol to the
 * sorted wanted addresses. A symbol with a size is offered to the addresses it covers; any symbol
 * is also offered to the first address at or after its start, and elf_file_match_end() carries the
 * nearest one on to the following addresses:
 *
 *   address   10      25      40      41         symbols  f 8..18   g 30.. (no size)
 *   name       f                                 f covers 10
 *   open       f(8)    -     g(30)    -    ->    25: nearest is f, which ended at 18: unknown
 *                                    g(30)       40, 41: nearest is g, without a size: g
 */
#include "symbols/elf_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSTEM_DEBUG_DIR    "/usr/lib/debug"
#define LARGEST_INNER	    ((size_t)64 << 20)
#define INNER_MEMORY	    ((uint64_t)128 << 20) /* for decompression */
#define LONGEST_BUILD_ID    64
#define LARGEST_VDSO	    ((size_t)1 << 20)
#define RANK_FUNCTION	    (1u << 20)
#define RANK_NOT_LOCAL	    (1u << 19)
#define RANK_UNDERSCORES    (1u << 16)
#define RANK_MAX_UNDERSCORE 7u
#define RANK_GLOBAL	    (1u << 15)
#define RANK_MAX_LENGTH	    ((1u << 15) - 1)

static bool note_build_id(struct elf_file *f, Elf_Data *notes)
{
	size_t at = 0, name_at, value_at;
	GElf_Nhdr note;

	while ((at = gelf_getnote(notes, at, &note, &name_at, &value_at)) > 0) {
		if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
		    memcmp((char *)notes->d_buf + name_at, "GNU", 4))
			continue;
		if (!note.n_descsz || note.n_descsz > LONGEST_BUILD_ID)
			continue;
		f->build_id = (uint8_t *)notes->d_buf + value_at;
		f->build_id_length = note.n_descsz;
		return true;
	}
	return false;
}

/* Segments first: stripped files have them too. In a debug file made by objcopy, the segments point
 * at bytes that were left out, and only the section is right. */
static void find_build_id(struct elf_file *f)
{
	Elf_Scn *section = NULL;
	size_t count = 0;
	GElf_Shdr header;
	GElf_Phdr segment;
	Elf_Data *data;

	while ((section = elf_nextscn(f->elf, section))) {
		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_NOTE)
			continue;
		data = elf_getdata(section, NULL);
		if (data && data->d_buf && note_build_id(f, data))
			return;
	}
	if (elf_getphdrnum(f->elf, &count))
		return;
	for (size_t i = 0; i < count && i < INT_MAX; i++) {
		if (!gelf_getphdr(f->elf, (int)i, &segment) || segment.p_type != PT_NOTE)
			continue;
		data = elf_getdata_rawchunk(f->elf, (int64_t)segment.p_offset, segment.p_filesz,
					    segment.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
		if (data && data->d_buf && note_build_id(f, data))
			return;
	}
}

static size_t count_inflated(const struct elf_file *f)
{
	Elf_Scn *section = NULL;
	size_t bytes = 0;
	GElf_Shdr header;
	GElf_Chdr packed;

	while ((section = elf_nextscn(f->elf, section))) {
		if (gelf_getshdr(section, &header) && header.sh_flags & SHF_COMPRESSED &&
		    gelf_getchdr(section, &packed) && packed.ch_size <= SIZE_MAX - bytes)
			bytes += packed.ch_size;
	}
	return bytes;
}

static enum elf_file_status elf_file_begin(struct elf_file *f)
{
	GElf_Ehdr header;

	elf_version(EV_CURRENT);
	f->elf = elf_memory(f->image, f->size);
	if (!f->elf || elf_kind(f->elf) != ELF_K_ELF || !gelf_getehdr(f->elf, &header)) {
		elf_file_close(f);
		return ELF_FILE_NOT_ELF;
	}
	find_build_id(f);
	f->inflated_bytes = count_inflated(f);
	return ELF_FILE_OPEN;
}

enum elf_file_status elf_file_open(struct elf_file *f, const char *path)
{
	/* Do not wait for a FIFO, and do not acquire a controlling terminal. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;

	memset(f, 0, sizeof(*f));
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? ELF_FILE_MISSING : ELF_FILE_UNREADABLE;
	if (fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_size < EI_NIDENT) {
		close(fd);
		return ELF_FILE_NOT_ELF;
	}
	f->size = (size_t)status.st_size;
	/* Writable: libelf marks decompressed sections in the section headers. */
	f->image = mmap(NULL, f->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
	close(fd);
	if (f->image == MAP_FAILED) {
		memset(f, 0, sizeof(*f));
		return ELF_FILE_UNREADABLE;
	}
	f->mapped = true;
	return elf_file_begin(f);
}

/* The length of the image follows from its headers: it ends with the section headers, which come
 * last, or with the longest segment. */
enum elf_file_status elf_file_open_vdso(struct elf_file *f)
{
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);
	const Elf64_Phdr *segment;
	size_t size;

	memset(f, 0, sizeof(*f));
	if (!header)
		return ELF_FILE_MISSING;
	size = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
	segment = (const Elf64_Phdr *)((const char *)header + header->e_phoff);
	for (size_t i = 0; i < header->e_phnum; i++) {
		if (segment[i].p_offset + segment[i].p_filesz > size)
			size = segment[i].p_offset + segment[i].p_filesz;
	}
	if (size < sizeof(*header) || size > LARGEST_VDSO)
		return ELF_FILE_NOT_ELF;
	f->image = malloc(size);
	if (!f->image)
		return ELF_FILE_UNREADABLE;
	memcpy(f->image, header, size);
	f->size = size;
	return elf_file_begin(f);
}

void elf_file_close(struct elf_file *f)
{
	if (f->elf)
		elf_end(f->elf);
	if (f->mapped)
		munmap(f->image, f->size);
	else
		free(f->image);
	memset(f, 0, sizeof(*f));
}

static void release(const struct elf_file *f, uint64_t from, uint64_t to)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	if (to > f->size)
		to = f->size;
	from = (from + page - 1) / page * page;
	to = to / page * page;
	if (from < to)
		madvise((char *)f->image + from, to - from, MADV_DONTNEED);
}

/* Releases all pages except the section headers, which libelf may have modified. */
void elf_file_release_pages(const struct elf_file *f)
{
	GElf_Ehdr header;
	uint64_t end;

	if (!f->mapped || !gelf_getehdr(f->elf, &header) || header.e_shoff > f->size)
		return;
	if (header.e_shoff == 0) {
		release(f, 0, f->size);
		return;
	}
	/* If there are very many sections, the header lacks their number: keep all that follows. */
	end = header.e_shnum ? header.e_shoff + (uint64_t)header.e_shnum * header.e_shentsize
			     : f->size;
	release(f, 0, header.e_shoff);
	release(f, end, f->size);
}

bool elf_file_has_build_id(const struct elf_file *f, const uint8_t *id, size_t length)
{
	return f->build_id && f->build_id_length == length && !memcmp(f->build_id, id, length);
}

static Elf_Scn *find_section(const struct elf_file *f, const char *wanted)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	const char *name;
	size_t names;

	if (elf_getshdrstrndx(f->elf, &names))
		return NULL;
	while ((section = elf_nextscn(f->elf, section))) {
		if (!gelf_getshdr(section, &header))
			continue;
		name = elf_strptr(f->elf, names, header.sh_name);
		if (name && !strcmp(name, wanted))
			return section;
	}
	return NULL;
}

static bool has_section(const struct elf_file *f, const char *name)
{
	Elf_Scn *section = find_section(f, name);
	GElf_Shdr header;

	return section && gelf_getshdr(section, &header) && header.sh_type != SHT_NOBITS &&
	       header.sh_size;
}

bool elf_file_has_dwarf(const struct elf_file *f)
{
	return has_section(f, ".debug_info") || has_section(f, ".zdebug_info");
}

bool elf_file_is_split(const struct elf_file *f)
{
	return has_section(f, ".gnu_debugaltlink") || has_section(f, ".debug_addr");
}

/* ---- separate debug files ---- */

bool elf_file_open_if(struct elf_file *f, const char *path, const uint8_t *id, size_t length)
{
	if (elf_file_open(f, path) != ELF_FILE_OPEN)
		return false;
	if (elf_file_has_build_id(f, id, length))
		return true;
	elf_file_close(f);
	return false;
}

/* DIR + BELOW/.build-id/12/3456 + ENDING. False: it is too long. */
static bool build_id_path(char path[PATH_MAX], const char *dir, const char *below,
			  const uint8_t *id, size_t length, const char *ending)
{
	int used = snprintf(path, PATH_MAX, "%s%s/.build-id/%02x/", dir, below, id[0]);

	if (used < 0 || (size_t)used + 2 * length + strlen(ending) + 1 > PATH_MAX)
		return false;
	for (size_t i = 1; i < length; i++)
		used += sprintf(path + used, "%02x", id[i]);
	strcpy(path + used, ending);
	return true;
}

static bool open_in_build_id_dir(struct elf_file *f, const char *dir, const char *below,
				 const uint8_t *id, size_t length)
{
	char path[PATH_MAX];

	return build_id_path(path, dir, below, id, length, ".debug") &&
	       elf_file_open_if(f, path, id, length);
}

static bool is_build_id(size_t length)
{
	return length >= 2 && length <= LONGEST_BUILD_ID;
}

bool elf_file_open_by_build_id(struct elf_file *f, const struct debug_dirs *dirs, const uint8_t *id,
			       size_t length)
{
	memset(f, 0, sizeof(*f));
	if (!is_build_id(length))
		return false;
	for (size_t i = 0; i < dirs->count; i++)
		if (open_in_build_id_dir(f, dirs->dir[i], "", id, length) ||
		    open_in_build_id_dir(f, dirs->dir[i], SYSTEM_DEBUG_DIR, id, length))
			return true;
	return open_in_build_id_dir(f, SYSTEM_DEBUG_DIR, "", id, length);
}

bool elf_file_open_elsewhere(struct elf_file *f, const struct debug_dirs *dirs, const char *path,
			     const uint8_t *id, size_t length, char *found)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	memset(f, 0, sizeof(*f));
	if (!is_build_id(length))
		return false;
	for (size_t i = 0; i < dirs->count; i++) {
		const char *dir = dirs->dir[i];

		if (*path == '/' && snprintf(found, PATH_MAX, "%s%s", dir, path) < PATH_MAX &&
		    elf_file_open_if(f, found, id, length))
			return true;
		if (snprintf(found, PATH_MAX, "%s/%s", dir, name) < PATH_MAX &&
		    elf_file_open_if(f, found, id, length))
			return true;
		if (build_id_path(found, dir, "", id, length, "") &&
		    elf_file_open_if(f, found, id, length))
			return true;
	}
	return false;
}

/* Grows with what the stream really holds. NULL: it is damaged, or too large. */
static uint8_t *decompress_xz(const uint8_t *from, size_t size, size_t *used)
{
	lzma_stream xz = LZMA_STREAM_INIT;
	uint8_t *bytes = NULL, *more;
	size_t room = 0;
	lzma_ret status;

	if (lzma_stream_decoder(&xz, INNER_MEMORY, 0) != LZMA_OK)
		return NULL;
	xz.next_in = from;
	xz.avail_in = size;
	do {
		room = room ? 2 * room : (size_t)1 << 16;
		more = room <= LARGEST_INNER ? realloc(bytes, room) : NULL;
		if (!more) {
			status = LZMA_MEM_ERROR;
			break;
		}
		bytes = more;
		xz.next_out = bytes + xz.total_out;
		xz.avail_out = room - xz.total_out;
		status = lzma_code(&xz, LZMA_FINISH);
	} while (status == LZMA_OK && xz.avail_out == 0);
	*used = xz.total_out;
	lzma_end(&xz);
	if (status == LZMA_STREAM_END)
		return bytes;
	free(bytes);
	return NULL;
}

bool elf_file_open_inner(struct elf_file *inner, const struct elf_file *f)
{
	Elf_Scn *section = find_section(f, ".gnu_debugdata");
	Elf_Data *data = section ? elf_rawdata(section, NULL) : NULL;

	memset(inner, 0, sizeof(*inner));
	if (!data || !data->d_buf)
		return false;
	inner->image = decompress_xz(data->d_buf, data->d_size, &inner->size);
	return inner->image && elf_file_begin(inner) == ELF_FILE_OPEN;
}

static uint32_t crc32_of(const uint8_t *bytes, size_t size)
{
	uint32_t table[256], crc = ~0u;

	for (uint32_t i = 0; i < 256; i++) {
		table[i] = i;
		for (int bit = 0; bit < 8; bit++)
			table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320u : 0);
	}
	for (size_t i = 0; i < size; i++)
		crc = table[(crc ^ bytes[i]) & 255] ^ crc >> 8;
	return ~crc;
}

/* A debug file fits if the build-ids are equal, or, if one file has none, the link's checksum. */
static bool open_link_target(struct elf_file *debug, const struct elf_file *f, const char *path,
			     uint32_t crc)
{
	if (elf_file_open(debug, path) != ELF_FILE_OPEN)
		return false;
	if (f->build_id && debug->build_id) {
		if (elf_file_has_build_id(debug, f->build_id, f->build_id_length))
			return true;
	} else if (crc32_of(debug->image, debug->size) == crc) {
		elf_file_release_pages(debug);
		return true;
	}
	elf_file_close(debug);
	return false;
}

bool elf_file_open_debuglink(struct elf_file *debug, const struct elf_file *f, const char *path,
			     const struct debug_dirs *dirs)
{
	Elf_Scn *section = find_section(f, ".gnu_debuglink");
	Elf_Data *data = section ? elf_rawdata(section, NULL) : NULL;
	char directory[PATH_MAX], candidate[PATH_MAX];
	const char *name, *slash;
	size_t length;
	uint32_t crc;

	memset(debug, 0, sizeof(*debug));
	if (!data || !data->d_buf)
		return false;
	name = data->d_buf;
	length = strnlen(name, data->d_size);
	if (!length || strchr(name, '/') ||
	    data->d_size < ((length + 4) & ~(size_t)3) + sizeof(crc))
		return false;
	memcpy(&crc, name + ((length + 4) & ~(size_t)3), sizeof(crc));
	/* The debug directory mirrors real paths: /bin/x may be /usr/bin/x. */
	if (!realpath(path, directory))
		return false;
	slash = strrchr(directory, '/');
	if (!slash)
		return false;

	for (size_t i = 0; i < 3 + dirs->count; i++) {
		static const char *const places[] = {"", "", SYSTEM_DEBUG_DIR};
		const char *prefix = i < 3 ? places[i] : dirs->dir[i - 3];

		if ((size_t)snprintf(candidate, sizeof(candidate), "%s%.*s%s/%.*s", prefix,
				     (int)(slash - directory), directory, i == 1 ? "/.debug" : "",
				     (int)length, name) >= sizeof(candidate))
			continue;
		if (open_link_target(debug, f, candidate, crc))
			return true;
	}
	return false;
}

/* ---- symbol tables ---- */

size_t elf_file_lower_bound(const uint64_t *address, size_t count, uint64_t value)
{
	size_t low = 0;

	while (count) {
		size_t half = count / 2;

		if (address[low + half] < value) {
			low += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	return low;
}

/* Decides which of several symbols at one place is shown: functions before labels, global before
 * local, `write` before `__write`, strong before weak, the shorter name. */
static uint32_t symbol_rank(const GElf_Sym *symbol, const char *name)
{
	unsigned bind = GELF_ST_BIND(symbol->st_info), type = GELF_ST_TYPE(symbol->st_info);
	size_t underscores = strspn(name, "_"), length = strlen(name);
	uint32_t rank = 0;

	if (!strncmp(name, "_Z", 2) || !strncmp(name, "_R", 2))
		underscores = 0;
	if (underscores > RANK_MAX_UNDERSCORE)
		underscores = RANK_MAX_UNDERSCORE;
	if (length > RANK_MAX_LENGTH)
		length = RANK_MAX_LENGTH;
	if (type == STT_FUNC || type == STT_GNU_IFUNC)
		rank |= RANK_FUNCTION;
	if (bind != STB_LOCAL)
		rank |= RANK_NOT_LOCAL;
	rank |= (RANK_MAX_UNDERSCORE - (uint32_t)underscores) * RANK_UNDERSCORES;
	if (bind == STB_GLOBAL)
		rank |= RANK_GLOBAL;
	return rank + RANK_MAX_LENGTH - (uint32_t)length;
}

static bool better(uint64_t start, uint32_t rank, const char *name, uint64_t old_start,
		   uint32_t old_rank, const char *old_name)
{
	if (!old_name || start != old_start)
		return !old_name || start > old_start;
	if (rank != old_rank)
		return rank > old_rank;
	return strcmp(name, old_name) < 0;
}

static void offer(const GElf_Sym *symbol, const char *name, uint64_t section_end,
		  const uint64_t *address, size_t count, struct elf_match *match)
{
	uint64_t start = symbol->st_value, end = start + symbol->st_size;
	size_t first = elf_file_lower_bound(address, count, start);
	uint32_t rank;
	struct elf_match *m;

	/* No wanted address lies in the section at or after the start. */
	if (first == count || address[first] >= section_end)
		return;
	if (end < start || end > section_end)
		end = section_end;
	rank = symbol_rank(symbol, name);
	if (symbol->st_size) {
		for (size_t i = first; i < count && address[i] < end; i++) {
			m = &match[i];
			if (!better(start, rank, name, m->start, m->rank, m->name))
				continue;
			m->name = name;
			m->start = start;
			m->rank = rank;
		}
	}
	m = &match[first];
	if (better(start, rank, name, m->open_start, m->open_rank, m->open_name)) {
		m->open_name = name;
		m->open_start = start;
		m->open_rank = rank;
		m->open_end = symbol->st_size ? end : section_end;
	}
}

/* For each section its end if it is executable, otherwise 0. */
static uint64_t *section_ends(const struct elf_file *f, size_t *count)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	uint64_t *end;
	size_t number;

	if (elf_getshdrnum(f->elf, count) || !*count)
		return NULL;
	end = calloc(*count, sizeof(*end));
	if (!end)
		return NULL;
	while ((section = elf_nextscn(f->elf, section))) {
		number = elf_ndxscn(section);
		if (number >= *count || !gelf_getshdr(section, &header) ||
		    !(header.sh_flags & SHF_EXECINSTR))
			continue;
		if (header.sh_size <= UINT64_MAX - header.sh_addr)
			end[number] = header.sh_addr + header.sh_size;
	}
	return end;
}

/* The labels around the code of an OCaml unit: code after the last one belongs to something else.
 */
static bool bounds_ocaml_unit(const char *name)
{
	/* OCaml 4 separates with "__", OCaml 5 with "." */
	static const char *const label[] = {"__code_begin", "__code_end", ".code_begin",
					    ".code_end"};
	size_t length = strlen(name);

	if (strncmp(name, "caml", 4) != 0)
		return false;
	for (size_t i = 0; i < sizeof(label) / sizeof(*label); i++)
		if (length > strlen(label[i]) &&
		    !strcmp(name + length - strlen(label[i]), label[i]))
			return true;
	return false;
}

static bool is_code_name(const GElf_Sym *symbol, const char *name)
{
	switch (GELF_ST_TYPE(symbol->st_info)) {
	case STT_FUNC:
	case STT_GNU_IFUNC:
		return name[0] != 0;
	case STT_NOTYPE:
		/* Skip assemblers' mapping symbols ($x) and labels (.L1). */
		return name[0] != 0 && name[0] != '$' && name[0] != '.' && !bounds_ocaml_unit(name);
	default:
		return false;
	}
}

static bool match_table(const struct elf_file *f, Elf_Scn *section, const GElf_Shdr *header,
			const uint64_t *address, size_t count, struct elf_match *match)
{
	Elf_Data *data = elf_getdata(section, NULL);
	size_t sections, symbols;
	uint64_t *ends;

	if (!data || !data->d_buf || !header->sh_entsize)
		return false;
	ends = section_ends(f, &sections);
	if (!ends)
		return false;
	symbols = data->d_size / header->sh_entsize;
	for (size_t i = 1; i < symbols && i < INT_MAX; i++) {
		GElf_Sym symbol;
		const char *name;

		if (!gelf_getsym(data, (int)i, &symbol))
			break;
		if (symbol.st_shndx >= sections || symbol.st_value >= ends[symbol.st_shndx])
			continue;
		name = elf_strptr(f->elf, header->sh_link, symbol.st_name);
		if (name && is_code_name(&symbol, name))
			offer(&symbol, name, ends[symbol.st_shndx], address, count, match);
	}
	free(ends);
	return true;
}

bool elf_file_match(const struct elf_file *f, uint32_t type, const uint64_t *address, size_t count,
		    struct elf_match *match)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	bool any = false;

	while ((section = elf_nextscn(f->elf, section))) {
		if (gelf_getshdr(section, &header) && header.sh_type == type)
			any |= match_table(f, section, &header, address, count, match);
	}
	return any;
}

void elf_file_match_end(const uint64_t *address, size_t count, struct elf_match *match)
{
	for (size_t i = 0; i < count; i++) {
		struct elf_match *m = &match[i];

		if (i && m[-1].open_name &&
		    better(m[-1].open_start, m[-1].open_rank, m[-1].open_name, m->open_start,
			   m->open_rank, m->open_name)) {
			m->open_name = m[-1].open_name;
			m->open_start = m[-1].open_start;
			m->open_rank = m[-1].open_rank;
			m->open_end = m[-1].open_end;
		}
		if (!m->name && m->open_name && address[i] < m->open_end) {
			m->name = m->open_name;
			m->start = m->open_start;
		}
	}
}

/* ---- code ---- */

/* NULL: these bytes are not in the file. */
static const uint8_t *code_at(const struct elf_file *f, uint64_t address, size_t bytes)
{
	GElf_Phdr p;
	size_t count;

	if (!f->elf || elf_getphdrnum(f->elf, &count))
		return NULL;
	for (size_t i = 0; i < count; i++) {
		uint64_t offset;

		if (!gelf_getphdr(f->elf, (int)i, &p) || p.p_type != PT_LOAD ||
		    address < p.p_vaddr || address - p.p_vaddr >= p.p_filesz)
			continue;
		offset = address - p.p_vaddr + p.p_offset;
		return offset >= p.p_offset && offset < f->size && bytes <= f->size - offset
			   ? (const uint8_t *)f->image + offset
			   : NULL;
	}
	return NULL;
}

bool elf_file_returns_from_signal(const struct elf_file *f, uint64_t address)
{
	static const struct {
		uint16_t machine;
		uint16_t bytes;
		const char *code;
	} known[] = {
	    {EM_X86_64, 9, "\x48\xc7\xc0\x0f\0\0\0\x0f\x05"}, /* mov $15, %rax; syscall */
	    {EM_AARCH64, 8, "\x68\x11\x80\xd2\x01\0\0\xd4"},  /* mov x8, 139; svc 0 */
	};
	GElf_Ehdr header;

	if (!f->elf || !gelf_getehdr(f->elf, &header))
		return false;
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		const uint8_t *code = header.e_machine == known[i].machine
					  ? code_at(f, address, known[i].bytes)
					  : NULL;

		if (code && !memcmp(code, known[i].code, known[i].bytes))
			return true;
	}
	return false;
}
