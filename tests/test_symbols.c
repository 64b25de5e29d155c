/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of the symboliser on programs that are compiled here, in a temporary directory.
 *
 * llvm-symbolizer is the independent witness: for thousands of addresses the functions, files,
 * lines and inline chains must agree, but for 0.5 % where compilers write what can be read in two
 * ways. The witness is asked for linkage names, since its demangler prints some things differently;
 * those must be our names after demangling. Functions without a linkage name are compared without
 * scope, parameters and template arguments. Where only the symbol table knows an address the
 * witness names the file of the symbol table, without directory or line; we name none.
 * test_chain checks against what is known by construction.
 */
#include <elf.h>
#include <gelf.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "symbols/demangle.h"
#include "format/format.h"
#include "random_numbers.h"
#include "symbols/elf_file.h"
#include "symbols/names_file.h"
#include "symbols/symbols.h"
#include "test.h"

#define MOST_FRAMES 128
#ifndef LLVM /* of -14 or the like */
#define LLVM ""
#endif
#define WITNESS "llvm-symbolizer" LLVM

struct answer {
	struct symbol *list;
	size_t count;
	int calls;
};

struct frame {
	char *function, *file;
	unsigned line;
};

static char directory[] = "/tmp/mayfly-test-symbols-XXXXXX";

/* ---- tools ---- */

/* Runs a shell command in the temporary directory, silently. */
__attribute__((format(printf, 1, 2))) static bool run(const char *format, ...)
{
	char command[4096], whole[5000];
	va_list list;

	va_start(list, format);
	vsnprintf(command, sizeof(command), format, list);
	va_end(list);
	snprintf(whole, sizeof(whole), "cd %s && ( %s ) >/dev/null 2>&1", directory, command);
	return system(whole) == 0;
}

static bool have(const char *tool)
{
	return run("command -v %s && %s --version", tool, tool);
}

static const char *in_directory(const char *name)
{
	static char path[4][512];
	static int turn;

	turn = (turn + 1) % 4;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", directory, name);
	return path[turn];
}

static bool write_file(const char *name, const void *bytes, size_t size)
{
	FILE *f = fopen(in_directory(name), "w");
	bool good = f && fwrite(bytes, 1, size, f) == size;

	return f && !fclose(f) && good;
}

static bool write_text(const char *name, const char *text)
{
	return write_file(name, text, strlen(text));
}

static const char *base_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path;
}

static void keep(void *context, size_t index, const struct symbol *list, size_t count)
{
	struct answer *a = (struct answer *)context + index;

	a->calls++;
	free(a->list);
	a->list = malloc(count * sizeof(*list));
	memcpy(a->list, list, count * sizeof(*list));
	a->count = count;
}

static struct answer *resolve(struct symbols *s, const char *path, const uint8_t *id, size_t length,
			      const uint64_t *address, size_t count, const char **why)
{
	struct answer *a = calloc(count, sizeof(*a));
	size_t named, expected = 0;

	named = symbols_resolve(s, path, id, length, address, count, keep, a, why);
	for (size_t i = 0; i < count; i++) {
		CHECK(a[i].calls == 1, "index %zu was answered %d times", i, a[i].calls);
		CHECK(a[i].count >= 1);
		expected += a[i].count && a[i].list[0].function;
		for (size_t k = 0; k < a[i].count; k++)
			CHECK(a[i].list[k].inlined == (k + 1 < a[i].count));
	}
	CHECK(named == expected, "%zu, not %zu", named, expected);
	return a;
}

static void free_answers(struct answer *a, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(a[i].list);
	free(a);
}

/* Every step'th address of .text; returns how many. */
static size_t text_addresses(const char *path, size_t most, uint64_t **address)
{
	struct elf_file f;
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	size_t names, count = 0;

	*address = NULL;
	if (elf_file_open(&f, path) != ELF_FILE_OPEN || elf_getshdrstrndx(f.elf, &names))
		return 0;
	while ((section = elf_nextscn(f.elf, section))) {
		const char *name;

		if (!gelf_getshdr(section, &header))
			continue;
		name = elf_strptr(f.elf, names, header.sh_name);
		if (!name || strcmp(name, ".text"))
			continue;
		count = header.sh_size < most ? header.sh_size : most;
		*address = calloc(count, sizeof(**address));
		/* Not in order, to test that too. */
		for (size_t i = 0; i < count; i++)
			(*address)[i * 7919 % count] = header.sh_addr + i * header.sh_size / count;
	}
	elf_file_close(&f);
	return count;
}

static uint64_t symbol_address(const char *path, const char *wanted, uint64_t *size)
{
	struct elf_file f;
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	uint64_t result = 0;

	if (elf_file_open(&f, path) != ELF_FILE_OPEN)
		return 0;
	while ((section = elf_nextscn(f.elf, section))) {
		Elf_Data *data;
		GElf_Sym symbol;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_SYMTAB)
			continue;
		data = elf_getdata(section, NULL);
		for (int i = 0; gelf_getsym(data, i, &symbol); i++) {
			const char *name = elf_strptr(f.elf, header.sh_link, symbol.st_name);

			if (!name || strcmp(name, wanted))
				continue;
			result = symbol.st_value;
			if (size)
				*size = symbol.st_size;
		}
	}
	elf_file_close(&f);
	return result;
}

static size_t read_build_id(const char *path, uint8_t id[64])
{
	struct elf_file f;
	size_t length;

	if (elf_file_open(&f, path) != ELF_FILE_OPEN)
		return 0;
	length = f.build_id_length;
	if (length)
		memcpy(id, f.build_id, length);
	elf_file_close(&f);
	return length;
}

/* ---- programs ---- */

static const char c_source[] =
    "#include <stdio.h>\n"
    "#include <stdlib.h>\n"
    "#include <string.h>\n"
    "struct node { struct node *left, *right; int key; char *text; };\n"
    "static inline int compare(int a, int b) { return a < b ? -1 : a > b; }\n"
    "static inline struct node *make(int key)\n"
    "{\n"
    "	struct node *n = calloc(1, sizeof(*n));\n"
    "	char text[32];\n"
    "	if (!n)\n"
    "		abort();\n"
    "	snprintf(text, sizeof(text), \"%d\", key);\n"
    "	n->text = strdup(text);\n"
    "	n->key = key;\n"
    "	return n;\n"
    "}\n"
    "static struct node *insert(struct node *n, int key)\n"
    "{\n"
    "	if (!n)\n"
    "		return make(key);\n"
    "	if (compare(key, n->key) < 0)\n"
    "		n->left = insert(n->left, key);\n"
    "	else if (compare(key, n->key) > 0)\n"
    "		n->right = insert(n->right, key);\n"
    "	return n;\n"
    "}\n"
    "static long sum(const struct node *n)\n"
    "{\n"
    "	return n ? sum(n->left) + sum(n->right) + n->key + (long)strlen(n->text) : 0;\n"
    "}\n"
    "static void drop(struct node *n)\n"
    "{\n"
    "	if (!n)\n"
    "		return;\n"
    "	drop(n->left);\n"
    "	drop(n->right);\n"
    "	free(n->text);\n"
    "	free(n);\n"
    "}\n"
    "int main(int argc, char **argv)\n"
    "{\n"
    "	struct node *root = NULL;\n"
    "	(void)argv;\n"
    "	for (int i = 0; i < 1000; i++)\n"
    "		root = insert(root, i * 7919 % 1009 * argc);\n"
    "	printf(\"%ld\\n\", sum(root));\n"
    "	drop(root);\n"
    "}\n";

static const char cpp_source[] =
    "#include <algorithm>\n"
    "#include <functional>\n"
    "#include <iostream>\n"
    "#include <map>\n"
    "#include <memory>\n"
    "#include <sstream>\n"
    "#include <string>\n"
    "#include <vector>\n"
    "namespace shop {\n"
    "struct item { std::string name; double price; int count; };\n"
    "namespace {\n"
    "	static double discount(const item &i) { return i.count > 10 ? i.price * 0.9 : i.price; }\n"
    "	struct order { bool operator()(const item &a, const item &b) const {\n"
    "		return discount(a) < discount(b) || a.name < b.name; } };\n"
    "}\n"
    "template <typename T, int N> struct ring {\n"
    "	std::vector<T> v;\n"
    "	void push(T t) { if (v.size() == N) v.erase(v.begin()); v.push_back(std::move(t)); }\n"
    "	template <typename F> void each(F f) const { for (auto &x : v) f(x); }\n"
    "};\n"
    "class store {\n"
    "	std::map<std::string, std::vector<item>> shelf;\n"
    "	ring<item, 7> recent;\n"
    "public:\n"
    "	virtual ~store() = default;\n"
    "	virtual void add(item i) { recent.push(i); shelf[i.name.substr(0, 1)].push_back(i); }\n"
    "	double total() const {\n"
    "		double t = 0;\n"
    "		for (auto &s : shelf)\n"
    "			std::for_each(s.second.begin(), s.second.end(),\n"
    "				[&t](const item &i) { t += discount(i) * i.count; });\n"
    "		recent.each([&](const item &i) { t -= i.price / 100; });\n"
    "		return t;\n"
    "	}\n"
    "	void sort() { for (auto &s : shelf) std::sort(s.second.begin(), s.second.end(), order()); "
    "}\n"
    "};\n"
    "struct outlet : store { void add(item i) override { i.price /= 2; store::add(std::move(i)); } "
    "};\n"
    "}\n"
    "static std::string label(int i)\n"
    "{\n"
    "	std::ostringstream s;\n"
    "	s << 'a' + i % 26 << '-' << i;\n"
    "	if (i == 12345)\n"
    "		throw std::runtime_error(\"no label \" + s.str());\n"
    "	return s.str();\n"
    "}\n"
    "int main(int argc, char **)\n"
    "{\n"
    "	std::unique_ptr<shop::store> s(argc > 1 ? new shop::outlet : new shop::store);\n"
    "	std::function<double(int)> f = [&s](int n) {\n"
    "		for (int i = 0; i < n; i++)\n"
    "			s->add({label(i), i * 1.5, i % 20});\n"
    "		s->sort();\n"
    "		return s->total();\n"
    "	};\n"
    "	try { std::cout << f(argc * 100) << '\\n'; }\n"
    "	catch (const std::exception &e) { std::cerr << e.what() << '\\n'; return 1; }\n"
    "}\n";

static const char rust_source[] =
    "use std::collections::{BTreeMap, HashMap};\n"
    "trait Shape { fn area(&self) -> f64; fn name(&self) -> String; }\n"
    "struct Square(f64);\n"
    "struct Named<T> { inner: T, name: String }\n"
    "impl Shape for Square {\n"
    "    fn area(&self) -> f64 { self.0 * self.0 }\n"
    "    fn name(&self) -> String { format!(\"square {}\", self.0) }\n"
    "}\n"
    "impl<T: Shape> Shape for Named<T> {\n"
    "    fn area(&self) -> f64 { self.inner.area() + 1.0 }\n"
    "    fn name(&self) -> String { self.name.clone() + &self.inner.name() }\n"
    "}\n"
    "mod deep { pub mod down {\n"
    "    pub fn count(words: &[String]) -> super::super::HashMap<String, usize> {\n"
    "        let mut m = std::collections::HashMap::new();\n"
    "        for w in words { *m.entry(w.clone()).or_insert(0) += 1; }\n"
    "        m\n"
    "    }\n"
    "} }\n"
    "fn main() {\n"
    "    let n = std::env::args().count() * 50;\n"
    "    let shapes: Vec<Box<dyn Shape>> = (0..n).map(|i| if i % 2 == 0 {\n"
    "        Box::new(Square(i as f64)) as Box<dyn Shape>\n"
    "    } else {\n"
    "        Box::new(Named { inner: Square(i as f64), name: i.to_string() })\n"
    "    }).collect();\n"
    "    let mut sorted: Vec<_> = shapes.iter().map(|s| s.name()).collect();\n"
    "    sorted.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));\n"
    "    let tree: BTreeMap<_, _> = deep::down::count(&sorted).into_iter().collect();\n"
    "    println!(\"{} {:?}\", shapes.iter().map(|s| s.area()).sum::<f64>(), tree.iter().next());\n"
    "}\n";

/* Each probe is a global label in code that is inlined three deep. */
static const char chain_source[] =
    "#define PROBE(x) __asm__ volatile(\".globl \" #x \"\\n\" #x \": nop\")\n"
    "#define INLINE inline __attribute__((always_inline))\n"
    "volatile int sink;\n"
    "namespace outer {\n"
    "namespace {\n"
    "	INLINE void hidden(int i) {\n"
    "		PROBE(probe_hidden); sink = i;\n"
    "	}\n"
    "}\n"
    "template <typename T> struct box {\n"
    "	static INLINE void put(T t) {\n"
    "		hidden((int)t);\n"
    "	}\n"
    "};\n"
    "struct thing { __attribute__((noinline)) void work(long l) const; };\n"
    "void thing::work(long l) const {\n"
    "	sink = 1;\n"
    "	box<long>::put(l);\n"
    "}\n"
    "static __attribute__((noinline)) int quiet(int i) {\n"
    "	PROBE(probe_quiet); return i + sink;\n"
    "}\n"
    "}\n"
    "int main() {\n"
    "	outer::thing().work(outer::quiet(3));\n"
    "	auto lambda = [](int i) __attribute__((always_inline)) {\n"
    "		PROBE(probe_lambda); sink = i; };\n"
    "	lambda(1);\n"
    "}\n";

/* ---- the witness ---- */

/* The last part of a function's name, without template arguments and parameters. Returns whether
 * there were parameters. */
static bool plain_name(const char *name, char *plain, size_t size)
{
	const char *word = strstr(name, "operator");
	size_t used = 0, begin = 0;
	int depth = 0;

	if (word && !strchr("abcdefghijklmnopqrstuvwxyz_", word[8])) {
		snprintf(plain, size, "operator");
		return false;
	}
	for (; *name && used + 1 < size; name++) {
		if (!strncmp(name, "(anonymous ", 11)) {
			name = strchr(name, ')');
		} else if (*name == '<') {
			depth++;
		} else if (*name == '>') {
			depth--;
		} else if (depth == 0) {
			if (*name == '(')
				break;
			plain[used++] = *name;
			if (*name == ':' || *name == ' ')
				begin = used;
		}
	}
	memmove(plain, plain + begin, used - begin);
	plain[used - begin] = 0;
	return *name == '(';
}

/* What the compiler split off is named f.cold by the witness, f here. */
static size_t length_without_clone(const char *name)
{
	static const char *const marks[] = {".cold", ".isra.", ".part.", ".constprop."};
	size_t length = strlen(name);

	for (int i = 0; i < 4; i++) {
		const char *mark = strstr(name, marks[i]);

		if (mark && (size_t)(mark - name) < length)
			length = (size_t)(mark - name);
	}
	return length;
}

static bool same_name(struct demangle *d, const char *a, const char *b)
{
	char x[512], y[512];

	if (!a)
		return !strcmp(b, "??");
	b = demangle_name(d, demangle_intern(d, b, length_without_clone(b)));
	if (!strcmp(a, b))
		return true;
	/* With parameters it came from a linkage name, and must be the same. */
	if (plain_name(a, x, sizeof(x)))
		return false;
	plain_name(b, y, sizeof(y));
	return !strcmp(x, y);
}

/* Frames of the next address: pairs of lines up to an empty one. */
static size_t read_frames(FILE *f, struct frame *frame)
{
	char *line = NULL, *colon;
	size_t size = 0, count = 0;
	ssize_t length;

	while (count < MOST_FRAMES && (length = getline(&line, &size, f)) > 1) {
		line[length - 1] = 0;
		frame[count].function = strdup(line);
		length = getline(&line, &size, f);
		if (length < 1)
			break;
		line[length - 1] = 0;
		colon = strrchr(line, ':'); /* of the column */
		if (colon)
			*colon = 0;
		colon = strrchr(line, ':');
		frame[count].line = colon ? (unsigned)atoi(colon + 1) : 0;
		if (colon)
			*colon = 0;
		frame[count++].file = strdup(line);
	}
	free(line);
	return count;
}

static bool agrees(struct demangle *d, const struct answer *a, const struct frame *frame,
		   size_t count)
{
	if (a->count != count)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct symbol *s = &a->list[i];
		const char *file = s->file ? base_name(s->file) : "??";

		if (!same_name(d, s->function, frame[i].function) || s->line != frame[i].line)
			return false;
		if (!s->file && count == 1 && !s->line && !strchr(frame[i].file, '/'))
			continue;
		if (strcmp(file, base_name(frame[i].file)))
			return false;
	}
	return true;
}

static void show(uint64_t address, const struct answer *a, const struct frame *frame, size_t count)
{
	printf("# at 0x%llx\n", (unsigned long long)address);
	for (size_t i = 0; i < a->count; i++)
		printf("#   here    %s %s:%u\n", a->list[i].function ? a->list[i].function : "??",
		       a->list[i].file ? a->list[i].file : "??", a->list[i].line);
	for (size_t i = 0; i < count; i++)
		printf("#   witness %s %s:%u\n", frame[i].function, frame[i].file, frame[i].line);
}

static bool ask_witness(const char *path, const uint64_t *address, size_t count)
{
	FILE *f = fopen(in_directory("addresses"), "w");

	if (!f)
		return false;
	for (size_t i = 0; i < count; i++)
		fprintf(f, "0x%llx\n", (unsigned long long)address[i]);
	return !fclose(f) &&
	       run(WITNESS " --inlines --no-demangle --obj=%s < addresses > frames", path);
}

/* Compares `most` addresses of the program; at least `inlined` frames must be inlined ones. */
static void compare(const char *program, size_t most, size_t inlined)
{
	struct symbols *s = symbols_new(NULL);
	struct demangle *d = demangle_new();
	const char *path = in_directory(program), *why;
	struct frame frame[MOST_FRAMES];
	size_t different = 0, seen = 0;
	struct answer *a;
	uint64_t *address;
	size_t count = text_addresses(path, most, &address);
	FILE *f;

	CHECK(count > 500, "%s has %zu addresses", program, count);
	CHECK(ask_witness(path, address, count));
	f = fopen(in_directory("frames"), "r");
	CHECK(f != NULL);
	a = resolve(s, path, NULL, 0, address, count, &why);
	CHECK(!why, "%s", why);
	for (size_t i = 0; f && i < count; i++) {
		size_t frames = read_frames(f, frame);

		seen += a[i].count - 1;
		if (!agrees(d, &a[i], frame, frames) && different++ < 5)
			show(address[i], &a[i], frame, frames);
		for (size_t k = 0; k < frames; k++) {
			free(frame[k].function);
			free(frame[k].file);
		}
	}
	if (f)
		fclose(f);
	printf("# %s: %zu of %zu differ, %zu inlined\n", program, different, count, seen);
	CHECK(different * 200 <= count, "%s: %zu of %zu differ", program, different, count);
	CHECK(seen >= inlined, "%s: %zu inlined", program, seen);
	free_answers(a, count);
	free(address);
	demangle_free(d);
	symbols_free(s);
}

static void test_c(void)
{
	CHECK(run("gcc -g -O2 c.c -o c"));
	compare("c", 4000, 100);
}

static void test_c_dwarf4_compressed(void)
{
	CHECK(run("gcc -gdwarf-4 -gz -O3 -ffunction-sections -Wl,--gc-sections c.c -o c4"));
	compare("c4", 4000, 100);
}

static void test_cpp(void)
{
	CHECK(run("g++ -g -O2 cpp.cc -o cpp"));
	compare("cpp", 6000, 5000);
}

static void test_cpp_dwarf4(void)
{
	CHECK(run("g++ -gdwarf-4 -O1 -fno-reorder-functions cpp.cc -o cpp4"));
	compare("cpp4", 6000, 5000);
}

static void test_clang(void)
{
	CHECK(run("clang++" LLVM " -g -O2 cpp.cc -o clang"));
	compare("clang", 6000, 5000);
}

static void test_split(void)
{
	CHECK(run("g++ -g -gsplit-dwarf -O2 cpp.cc -o split"));
	compare("split", 4000, 1000);
}

static void test_rust(void)
{
	CHECK(run("rustc -g -C opt-level=2 rust.rs -o rust"));
	compare("rust", 6000, 2000);
}

/* ---- what is known by construction ---- */

static void check_symbol(const struct symbol *s, const char *function, const char *file,
			 uint32_t line)
{
	CHECK(s->function && !strcmp(s->function, function), "%s, not %s", s->function, function);
	CHECK(s->file && !strcmp(s->file, file), "%s, not %s", s->file, file);
	CHECK(s->line == line, "%s: %u, not %u", function, s->line, line);
}

static void check_chain(const char *program, const char *file)
{
	const char *path = in_directory(program), *why;
	const uint64_t address[] = {
	    symbol_address(path, "probe_hidden", NULL),
	    symbol_address(path, "probe_quiet", NULL),
	    symbol_address(path, "probe_lambda", NULL),
	};
	struct symbols *s = symbols_new(NULL);
	struct answer *a = resolve(s, path, NULL, 0, address, 3, &why);

	CHECK(!why);
	CHECK(a[0].count == 3, "%zu", a[0].count);
	if (a[0].count == 3) {
		check_symbol(&a[0].list[0], "outer::(anonymous namespace)::hidden", file, 7);
		check_symbol(&a[0].list[1], "outer::box<long>::put(long)", file, 12);
		check_symbol(&a[0].list[2], "outer::thing::work(long) const", file, 18);
	}
	CHECK(a[1].count == 1, "%zu", a[1].count);
	check_symbol(&a[1].list[0], "outer::quiet", file, 21);
	CHECK(a[2].count == 2, "%zu", a[2].count);
	if (a[2].count == 2) {
		check_symbol(&a[2].list[0], "main::{lambda:26}::operator()", file, 27);
		check_symbol(&a[2].list[1], "main", file, 28);
	}
	free_answers(a, 3);
	symbols_free(s);
}

static void test_chain(void)
{
	/* The file is named by a way round, which must not be seen. */
	CHECK(run("mkdir -p sub && g++ -g -O2 sub/.././chain.cc -o chain"));
	check_chain("chain", in_directory("chain.cc"));
	CHECK(run(
	    "g++ -gdwarf-4 -O1 -fdebug-prefix-map=$PWD=./build/../../src//x chain.cc -o mapped"));
	check_chain("mapped", "../src/x/chain.cc");
}

/* On one line, whichever instruction comes first: Ubuntu's gcc begins with endbr64. */
static const char alias_source[] = "int __impl_thing(int i)\n"
				   "{ return i * 3; }\n"
				   "int thing(int) __attribute__((alias(\"__impl_thing\")));\n"
				   "int main(int c, char **v) { return thing(c) + !v; }\n";

/* DWARF knows the internal name only. */
static void test_alias(void)
{
	struct symbols *s = symbols_new(NULL);
	const char *why;
	uint64_t address;
	struct answer *a;

	CHECK(write_text("alias.c", alias_source));
	CHECK(run("gcc -g -O1 -fno-inline alias.c -o alias"));
	address = symbol_address(in_directory("alias"), "__impl_thing", NULL);
	a = resolve(s, in_directory("alias"), NULL, 0, &address, 1, &why);
	CHECK(address != 0 && a[0].count == 1);
	check_symbol(&a[0].list[0], "thing", in_directory("alias.c"), 2);
	free_answers(a, 1);
	symbols_free(s);
}

/* ---- separate debug files ---- */

/* The answers for `path` must be those for the whole program. */
static void check_same(const struct symbols_options *options, const char *whole, const char *path,
		       const uint8_t *id, size_t length)
{
	struct symbols *s = symbols_new(NULL), *t = symbols_new(options);
	const char *why;
	uint64_t *address;
	size_t count = text_addresses(in_directory(whole), 300, &address), inlined = 0;
	struct answer *a = resolve(s, in_directory(whole), NULL, 0, address, count, &why);
	struct answer *b = resolve(t, path, id, length, address, count, &why);

	CHECK(count > 100);
	CHECK(!why, "%s", why);
	for (size_t i = 0; i < count; i++) {
		CHECK(a[i].count == b[i].count, "%zu, not %zu", b[i].count, a[i].count);
		for (size_t k = 0; k < a[i].count && k < b[i].count; k++) {
			const struct symbol *x = &a[i].list[k], *y = &b[i].list[k];

			CHECK(!x->function == !y->function &&
			      (!x->function || !strcmp(x->function, y->function)));
			CHECK(x->line == y->line && x->column == y->column);
			CHECK(!x->file == !y->file && (!x->file || !strcmp(x->file, y->file)));
		}
		inlined += b[i].count - 1;
	}
	CHECK(inlined > 10, "%zu", inlined);
	free_answers(a, count);
	free_answers(b, count);
	free(address);
	symbols_free(s);
	symbols_free(t);
}

static void hex(const uint8_t *id, size_t length, char *text)
{
	for (size_t i = 0; i < length; i++)
		sprintf(text + 2 * i, "%02x", id[i]);
}

static void test_build_id(void)
{
	char store[512], name[200] = "";
	const char *dirs[] = {store};
	struct symbols_options options = {.debug_dir = dirs, .debug_dirs = 1};
	uint8_t id[64];
	size_t length;

	CHECK(run("gcc -g -O2 -Wl,--build-id=sha1 c.c -o whole"));
	length = read_build_id(in_directory("whole"), id);
	CHECK(length == 20, "%zu", length);
	if (length != 20)
		return;
	hex(id, length, name);
	CHECK(run("mkdir -p store/.build-id/%.2s && objcopy --only-keep-debug whole "
		  "store/.build-id/%.2s/%s.debug && strip -o stripped whole",
		  name, name, name + 2));
	snprintf(store, sizeof(store), "%s", in_directory("store"));
	check_same(&options, "whole", in_directory("stripped"), id, length);
	check_same(&options, "whole", in_directory("stripped"), NULL, 0);
	/* The build-id is enough when the program is gone. */
	check_same(&options, "whole", in_directory("gone"), id, length);
	check_same(&options, "whole", in_directory("stripped (deleted)"), id, length);
	/* Another program in its place does no harm either. */
	check_same(&options, "whole", "/bin/true", id, length);
}

static void test_debuglink(void)
{
	struct symbols *s;
	struct answer *a;
	const char *why;
	uint64_t address;

	CHECK(run("gcc -g -O2 -Wl,--build-id=none c.c -o linked-whole && mkdir -p .debug && "
		  "objcopy --only-keep-debug linked-whole .debug/linked.debug && "
		  "strip -o linked linked-whole && "
		  "objcopy --add-gnu-debuglink=.debug/linked.debug linked"));
	check_same(NULL, "linked-whole", in_directory("linked"), NULL, 0);
	CHECK(run("mv .debug/linked.debug . && ln -s linked linked-link"));
	check_same(NULL, "linked-whole", in_directory("linked"), NULL, 0);
	check_same(NULL, "linked-whole", in_directory("linked-link"), NULL, 0);
	/* A wrong checksum: another file. */
	CHECK(run("printf x >> linked.debug"));
	address = symbol_address(in_directory("linked-whole"), "main", NULL);
	s = symbols_new(NULL);
	a = resolve(s, in_directory("linked"), NULL, 0, &address, 1, &why);
	CHECK(address != 0);
	CHECK(!a[0].list[0].function && !a[0].list[0].file);
	free_answers(a, 1);
	symbols_free(s);
}

static void check_refused(const char *path, const uint8_t *id, size_t length, const char *reason)
{
	struct symbols *s = symbols_new(NULL);
	const uint64_t address[2] = {0x1234, 0x1234};
	const char *why;
	struct answer *a = resolve(s, path, id, length, address, 2, &why);

	CHECK(why && strstr(why, reason), "%s, not %s", why, reason);
	CHECK(why && strstr(why, path), "%s", why);
	CHECK(!a[0].list[0].function && !a[1].list[0].function);
	free_answers(a, 2);
	symbols_free(s);
}

static void test_refusals(void)
{
	uint8_t id[20] = {1, 2, 3};

	CHECK(write_text("text", "This is no ELF file, although it is long enough for one.\n"));
	CHECK(write_text("empty", ""));
	CHECK(run("mkfifo fifo"));
	check_refused("/proc/self/exe", id, sizeof(id), "has changed since the run");
	check_refused(in_directory("nothing"), id, sizeof(id), "is gone");
	check_refused(in_directory("nothing"), NULL, 0, "is gone");
	check_refused("/tmp/x (deleted)", id, sizeof(id), "is gone");
	check_refused(in_directory("text"), NULL, 0, "is not an ELF file");
	check_refused(in_directory("empty"), NULL, 0, "is not an ELF file");
	check_refused(in_directory("fifo"), NULL, 0, "is not an ELF file");
	check_refused("/", NULL, 0, "is not an ELF file");
}

static void test_vdso(void)
{
	struct symbols *s = symbols_new(NULL);
	struct elf_file f;
	const char *why, *const names[] = {"[vdso]", "linux-vdso.so.1"};
	uint64_t address[16384];
	size_t hits = 0;

	CHECK(elf_file_open_vdso(&f) == ELF_FILE_OPEN);
	CHECK(f.build_id_length > 0);
	for (size_t i = 0; i < 16384; i++)
		address[i] = i;
	for (int n = 0; n < 2; n++) {
		struct answer *a =
		    resolve(s, names[n], f.build_id, f.build_id_length, address, 16384, &why);

		CHECK(!why, "%s", why);
		for (size_t i = 0; i < 16384; i++)
			hits += a[i].list[0].function &&
				strstr(a[i].list[0].function, "clock_gettime") != NULL;
		free_answers(a, 16384);
	}
	CHECK(hits > 4, "%zu", hits);
	elf_file_close(&f);
	symbols_free(s);
}

/* ---- symbol tables ---- */

static const char assembler_source[] =
    "	.text\n"
    "	.globl first, sized, __weak_alias, nice, __libc_nice\n"
    "first:	.skip 16, 0x90\n" /* no size: up to the next symbol */
    "	.type sized, @function\n"
    "sized:	.skip 16, 0x90\n"
    "	.size sized, 16\n"
    "	.skip 32, 0x90\n" /* nobody's */
    "	.type nice, @function\n"
    "	.type __libc_nice, @function\n"
    "	.type local_nice, @function\n"
    "local_nice:\n"
    "__libc_nice:\n"
    "nice:	.skip 16, 0x90\n"
    "	.size nice, 16\n"
    "	.size __libc_nice, 16\n"
    "	.size local_nice, 16\n"
    "	.type resolver, @gnu_indirect_function\n"
    "	.globl resolver\n"
    "resolver: .skip 8, 0x90\n"
    "	.size resolver, 8\n"
    "	.type big, @function\n"
    "	.globl big\n"
    "big:	.skip 8, 0x90\n"
    "inside:	.skip 8, 0x90\n" /* a label in a function is not its own function */
    "	.type nested, @function\n"
    "nested: .skip 8, 0x90\n"
    "	.size nested, 8\n"
    "	.skip 8, 0x90\n"
    "	.size big, 32\n"
    "	.globl last\n"
    "last:	.skip 64, 0x90\n"
    "	.section .text.other, \"ax\"\n"
    "	.skip 16, 0x90\n" /* last ends with its section */
    "	.data\n"
    "	.globl data\n"
    "data:	.quad 0\n"
    "	.section .note.GNU-stack, \"\", @progbits\n";

static void test_symbol_table(void)
{
	static const struct {
		const char *symbol;
		unsigned offset;
		const char *expected;
	} wanted[] = {
	    {"first", 0, "first"},  {"first", 15, "first"}, {"first", 16, "sized"},
	    {"sized", 15, "sized"}, {"sized", 16, NULL},    {"sized", 47, NULL},
	    {"sized", 48, "nice"},  {"nice", 15, "nice"},   {"resolver", 3, "resolver"},
	    {"big", 0, "big"},	    {"big", 8, "big"},	    {"big", 15, "big"},
	    {"big", 16, "nested"},  {"big", 23, "nested"},  {"big", 24, "big"},
	    {"big", 31, "big"},	    {"last", 0, "last"},    {"last", 63, "last"},
	    {"last", 64, NULL},	    {"last", 79, NULL},	    {"last", 100000000, NULL},
	};
	enum { count = sizeof(wanted) / sizeof(wanted[0]) };
	struct symbols *s = symbols_new(NULL);
	uint64_t address[count];
	const char *path = in_directory("assembled"), *why;
	struct answer *a;

	CHECK(write_text("a.S", assembler_source));
	/* A linker script keeps the second section apart. */
	CHECK(write_text("a.ld", "SECTIONS { . = 0x10000; .text : { *(.text) } "
				 ".text.other : { *(.text.other) } .data : { *(.data) } }"));
	CHECK(run("gcc -c a.S -o a.o && ld -T a.ld a.o -o assembled"));
	for (int i = 0; i < count; i++) {
		uint64_t base = symbol_address(path, wanted[i].symbol, NULL);

		CHECK(base != 0, "%s", wanted[i].symbol);
		address[i] = base + wanted[i].offset;
	}
	a = resolve(s, path, NULL, 0, address, count, &why);
	CHECK(!why, "%s", why);
	for (int i = 0; i < count; i++) {
		const char *name = a[i].list[0].function;

		CHECK(!name == !wanted[i].expected && (!name || !strcmp(name, wanted[i].expected)),
		      "%s + %u: %s, not %s", wanted[i].symbol, wanted[i].offset, name,
		      wanted[i].expected);
	}
	free_answers(a, count);
	symbols_free(s);
}

static void test_demangle(void)
{
	static const char *const names[][2] = {
	    {"malloc", "malloc"},
	    {"_ZN3foo3barEi", "foo::bar(int)"},
	    {"_Z3maxIiET_S0_S0_", "max<int>(int, int)"},
	    {"_ZNSt6vectorIiSaIiEE9push_backEOi",
	     "std::vector<int, std::allocator<int> >::push_back(int&&)"},
	    {"_ZN5alloc3vec12Vec$LT$T$GT$4push17h0123456789abcdefE", "alloc::vec::Vec<T>::push"},
	    {"_RNvCs1234_7mycrate3foo", "mycrate::foo"},
	    {"_RNvMNtCs1234_7mycrate3fooNtB2_3Bar3baz", "<mycrate::foo::Bar>::baz"},
	    {"_Znwm", "operator new(unsigned long)"},
	    {"_Zbad", "_Zbad"},
	    {"_start", "_start"},
	    {"_Dmain", "D main"},
	    {"_D3app5cache5Store4growMFmZv", "app.cache.Store.grow(ulong)"},
	    {"_Dynamic", "_Dynamic"},
	    {"__stuff_MOD_grow", "stuff::grow"},
	    {"__a_b_MOD_c_d", "a_b::c_d"},
	    {"__MOD_x", "__MOD_x"},
	    {"__libc_start_main", "__libc_start_main"},
	    {"camlStdlib__list__map_455", "Stdlib.List.map"},
	    {"camlStdlib__map__add_280", "Stdlib.Map.add"},
	    {"camlStdlib__List.map_455", "Stdlib.List.map"},
	    {"camlStdlib.entry", "Stdlib"},
	    {"camlDune__exe__Main.fun_1171", "Dune__exe.Main.(fun)"},
	    {"camlStdlib.$5e_130", "Stdlib.(^)"},
	    {"camlStdlib__$5e_130", "Stdlib.(^)"},
	    {"camlMain__fun_300", "Main.(fun)"},
	    {"camlMain__entry", "Main"},
	    {"camlDune__exe__Main__with_two__parts_7", "Dune__exe.Main.with_two__parts"},
	    {"camlLibrary__Unit__f$27_1234", "Library.Unit.f'"},
	    {"caml_alloc_shr", "caml_alloc_shr"},
	    {"camlM", "camlM"},
	    {"camlM__", "camlM__"},
	    {"camlM.", "camlM."},
	    {"i", "i"},
	};
	struct demangle *d = demangle_new();
	char *longest = malloc(100001);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *name = demangle_name(d, names[i][0]);

		CHECK(!strcmp(name, names[i][1]), "%s, not %s", name, names[i][1]);
		CHECK(demangle_name(d, names[i][0]) == name);
	}
	/* Much nesting must not use up the stack. */
	memset(longest, 'P', 100000);
	memcpy(longest, "_Z1f", 4);
	longest[100000] = 0;
	CHECK(demangle_name(d, longest) != NULL);
	longest[8000] = 'i';
	longest[8001] = 0;
	CHECK(demangle_name(d, longest) != NULL);
	for (int i = 0; i < 100000; i++) {
		char text[16];

		snprintf(text, sizeof(text), "%d", i % 5000);
		if (strcmp(demangle_intern(d, text, strlen(text)), text))
			CHECK(false, "%d", i);
	}
	CHECK(demangle_intern(d, "17", 2) == demangle_intern(d, "177", 2));
	free(longest);
	demangle_free(d);
}

/* ---- hostile files ---- */

/* The headers matter most, so they are hit more often. */
static void damage(uint8_t *bytes, size_t size, int round)
{
	size_t hits = 1 + random_number() % 40, zone;

	for (size_t i = 0; i < hits; i++) {
		switch (random_number() % 4) {
		case 0:
			zone = size < 1024 ? size : 1024;
			bytes[random_number() % zone] = (uint8_t)random_number();
			break;
		case 1:
			zone = size < 3000 ? size : 3000;
			bytes[size - 1 - random_number() % zone] = (uint8_t)random_number();
			break;
		default:
			bytes[random_number() % size] =
			    round % 2 ? (uint8_t)random_number() : (uint8_t)(0xff << round % 8);
		}
	}
}

static void resolve_damaged(const uint8_t *whole, size_t size, const uint64_t *address,
			    size_t count, int round)
{
	struct symbols *s = symbols_new(NULL);
	uint8_t *bytes = malloc(size);
	const char *why;
	size_t left = size;

	memcpy(bytes, whole, size);
	damage(bytes, size, round);
	if (round % 5 == 0)
		left = random_number() % size;
	if (!write_file("damaged", bytes, left))
		_exit(3);
	free_answers(resolve(s, in_directory("damaged"), NULL, 0, address, count, &why), count);
	free(bytes);
	symbols_free(s);
}

static int damage_child(const char *program, int rounds)
{
	const char *path = in_directory(program);
	struct elf_file f;
	uint64_t *address;
	size_t count = text_addresses(path, 200, &address);

	if (elf_file_open(&f, path) != ELF_FILE_OPEN || !count)
		return 2;
	for (int i = 0; i < rounds; i++) {
		alarm(3600); /* it hangs */
		resolve_damaged(f.image, f.size, address, count, i);
	}
	elf_file_close(&f);
	free(address);
	return test_bad != 0;
}

/* 500 damaged copies in a child: no crash, no hang, and every address answered once. */
static void check_damaged(const char *program, int rounds)
{
	pid_t child;
	int status = 0;

	fflush(stdout);
	child = fork();
	if (!child)
		_exit(damage_child(program, rounds));
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "status 0x%x", status);
}

static void test_damaged(void)
{
	CHECK(run("gcc -g -O2 chain.cc -o small -lstdc++ && gcc -g -gz -O2 chain.cc -o packed"));
	check_damaged("small", 350);
	check_damaged("packed", 150);
}

/* ---- answers of earlier sessions ---- */

static struct answer *resolve_kept(const char *program, const uint64_t *address, size_t count)
{
	struct symbols_options options = {.cache_folder = in_directory("kept/mayfly")};
	struct symbols *s = symbols_new(&options);
	struct answer *a;
	const char *why;
	uint8_t id[64];
	size_t length = read_build_id(in_directory(program), id);

	CHECK(length > 0);
	a = resolve(s, in_directory(program), id, length, address, count, &why);
	CHECK(!why, "%s", why);
	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < a[i].count; k++) {
			struct symbol *l = &a[i].list[k];

			l->function = l->function ? strdup(l->function) : NULL;
			l->file = l->file ? strdup(l->file) : NULL;
		}
	}
	symbols_free(s);
	return a;
}

static void free_kept(struct answer *a, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < a[i].count; k++) {
			free((char *)a[i].list[k].function);
			free((char *)a[i].list[k].file);
		}
	}
	free_answers(a, count);
}

static bool equal_texts(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static size_t count_differences(const struct answer *a, const struct answer *b, size_t count)
{
	size_t different = 0;

	for (size_t i = 0; i < count; i++) {
		bool same = a[i].count == b[i].count;

		for (size_t k = 0; same && k < a[i].count; k++) {
			const struct symbol *x = &a[i].list[k], *y = &b[i].list[k];

			same = equal_texts(x->function, y->function) &&
			       equal_texts(x->file, y->file) && x->line == y->line &&
			       x->column == y->column && x->inlined == y->inlined;
		}
		different += !same;
	}
	return different;
}

/* The only file in kept/mayfly/names; its bytes are malloc'ed. */
static uint8_t *read_kept(char path[1024], size_t *size)
{
	FILE *f = NULL;
	uint8_t *bytes = malloc(1 << 20);

	CHECK(run("ls kept/mayfly/names/* >kept.list && [ $(wc -l <kept.list) = 1 ]"));
	f = fopen(in_directory("kept.list"), "r");
	path[0] = 0;
	if (f && fgets(path, 1024, f))
		path[strcspn(path, "\n")] = 0;
	if (f)
		fclose(f);
	f = fopen(in_directory(path), "r");
	CHECK(f != NULL);
	*size = f ? fread(bytes, 1, 1 << 20, f) : 0;
	if (f)
		fclose(f);
	return bytes;
}

/* Bytes that are damaged, with a right checksum: nothing is read beyond them. */
static void damage_kept(const uint8_t *bytes, size_t size, const char *content)
{
	uint8_t *copy = malloc(size);
	size_t taken = 0;
	uint32_t random = 1;

	for (int round = 0; round < 3000; round++) {
		struct demangle *names = demangle_new();
		struct symbol_cache cache = {0};
		size_t rest = round % 2 ? size : size - (size_t)round % (size - 16);
		uint32_t sum;

		memcpy(copy, bytes, rest);
		for (int change = 0; change < 1 + round % 3; change++) {
			random = random * 1664525 + 1013904223;
			copy[16 + random % (rest - 16)] = (uint8_t)(random >> 24);
		}
		sum = trace_checksum(0, copy + 16, rest - 16);
		for (int i = 0; i < 4; i++)
			copy[12 + i] = (uint8_t)(sum >> 8 * i);
		taken += names_bytes_read(copy, rest, content, names, &cache, content);
		symbol_cache_free(&cache);
		demangle_free(names);
	}
	CHECK(taken > 0 && taken < 3000, "%zu of 3000 damaged files were taken", taken);
	free(copy);
}

static void test_names_file(void)
{
	struct answer *first, *again, *stripped;
	uint64_t *address;
	size_t count, size, later;
	uint8_t *bytes, *changed;
	char path[1024], content[64];
	struct stat st;

	CHECK(run("rm -rf kept; gcc -g -gz -O2 -Wl,--build-id chain.cc -o kept-program -lstdc++"));
	count = text_addresses(in_directory("kept-program"), 600, &address);
	first = resolve_kept("kept-program", address, count);
	again = resolve_kept("kept-program", address, count);
	CHECK(count_differences(first, again, count) == 0);
	free_kept(again, count);

	/* They are taken from the file: another name in it is another answer. */
	bytes = read_kept(path, &size);
	CHECK(size > 100 && !stat(in_directory("kept-program"), &st));
	snprintf(content, sizeof(content), "%llu 0", (unsigned long long)st.st_size);
	changed = memmem(bytes, size, "main", 4);
	CHECK(changed != NULL);
	memcpy(changed, "niam", 4);
	for (uint32_t i = 0, sum = trace_checksum(0, bytes + 16, size - 16); i < 4; i++)
		bytes[12 + i] = (uint8_t)(sum >> 8 * i);
	CHECK(write_file(path, bytes, size));
	again = resolve_kept("kept-program", address, count);
	CHECK(count_differences(first, again, count) > 0);
	free_kept(again, count);
	damage_kept(bytes, size, content);

	/* A damaged file is replaced. */
	bytes[size / 2] ^= 1;
	CHECK(write_file(path, bytes, size));
	again = resolve_kept("kept-program", address, count);
	CHECK(count_differences(first, again, count) == 0);
	free_kept(again, count);
	free(bytes);
	bytes = read_kept(path, &later);
	CHECK(later == size);
	free(bytes);

	/* Another file with this build-id: what was found in the first does not count. */
	CHECK(run("cp kept-program whole && strip kept-program"));
	stripped = resolve_kept("kept-program", address, count);
	CHECK(count_differences(first, stripped, count) > count / 2);
	free_kept(stripped, count);
	CHECK(run("cp whole kept-program"));
	again = resolve_kept("kept-program", address, count);
	CHECK(count_differences(first, again, count) == 0);
	free_kept(again, count);

	/* More is found out later, and what was known stays. */
	CHECK(run("rm -r kept"));
	free_kept(resolve_kept("kept-program", address, count / 2), count / 2);
	free(read_kept(path, &size));
	free_kept(resolve_kept("kept-program", address + count / 2, count - count / 2),
		  count - count / 2);
	free(read_kept(path, &later));
	CHECK(later > size, "%zu, then %zu bytes", size, later);
	again = resolve_kept("kept-program", address, count);
	CHECK(count_differences(first, again, count) == 0);
	free_kept(again, count);

	/* The folder is bounded: what was not used for longest goes. */
	CHECK(run("cd kept/mayfly/names && truncate -s 40M old older && touch -d @1 older && touch "
		  "-d @2 old"));
	free_kept(resolve_kept("kept-program", address, count), count);
	CHECK(run("[ -e kept/mayfly/names/older ]")); /* nothing was written */
	CHECK(run("rm kept/mayfly/names/[0-9a-f]*[0-9a-f]"));
	free_kept(resolve_kept("kept-program", address, count), count);
	CHECK(run("cd kept/mayfly/names && [ ! -e older ] && [ -e old ] && [ $(ls | wc -l) = 2 ]"));

	/* A folder that cannot be made. */
	CHECK(run("rm -r kept && touch kept"));
	again = resolve_kept("kept-program", address, count);
	CHECK(count_differences(first, again, count) == 0);
	free_kept(again, count);
	free_kept(first, count);
	free(address);
}

/* ---- */

static const char *missing(const char *const *tools)
{
	for (; *tools; tools++) {
		if (!have(*tools))
			return *tools;
	}
	return NULL;
}

#define RUN_WITH(function, ...)                                                                    \
	do {                                                                                       \
		const char *const tools[] = {__VA_ARGS__, NULL};                                   \
		const char *lacks = missing(tools);                                                \
		if (lacks)                                                                         \
			SKIP(#function, lacks);                                                    \
		else                                                                               \
			RUN(function);                                                             \
	} while (0)

int main(void)
{
	if (!mkdtemp(directory)) {
		perror(directory);
		return 1;
	}
	write_text("c.c", c_source);
	write_text("cpp.cc", cpp_source);
	write_text("rust.rs", rust_source);
	write_text("chain.cc", chain_source);
	RUN(test_demangle);
	RUN(test_refusals);
	RUN(test_vdso);
	RUN_WITH(test_symbol_table, "gcc", "ld");
	RUN_WITH(test_chain, "g++");
	RUN_WITH(test_alias, "gcc");
	RUN_WITH(test_build_id, "gcc", "objcopy", "strip");
	RUN_WITH(test_debuglink, "gcc", "objcopy", "strip");
	RUN_WITH(test_damaged, "gcc");
	RUN_WITH(test_names_file, "gcc", "strip");
	RUN_WITH(test_c, WITNESS, "gcc");
	RUN_WITH(test_c_dwarf4_compressed, WITNESS, "gcc");
	RUN_WITH(test_cpp, WITNESS, "g++");
	RUN_WITH(test_cpp_dwarf4, WITNESS, "g++");
	RUN_WITH(test_split, WITNESS, "g++");
	RUN_WITH(test_clang, WITNESS, "clang++" LLVM);
	RUN_WITH(test_rust, WITNESS, "rustc");
	run("rm -rf %s", directory);
	DONE();
}
