/* SPDX-License-Identifier: Apache-2.0 */
/* embed_python local|global TIMES LIBPYTHON ARGUMENT...: so often opens the library (RTLD_LOCAL or
 * RTLD_GLOBAL), runs its python3 with the arguments, closes it, and goes on allocating. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int run_python(const char *path, int mode, int argc, char **argv)
{
	void *library = dlopen(path, RTLD_NOW | mode), *found;
	int (*run)(int, char **), status;

	if (!library || !(found = dlsym(library, "Py_BytesMain"))) {
		fprintf(stderr, "embed_python: %s\n", dlerror());
		exit(1);
	}
	memcpy(&run, &found, sizeof(found));
	status = run(argc, argv);
	dlclose(library);
	return status;
}

int main(int argc, char **argv)
{
	int status = argc > 3 ? 0 : 1;
	size_t kept = 0;

	for (int times = argc > 3 ? atoi(argv[2]) : 0; times && !status; times--) {
		status = run_python(argv[3], strcmp(argv[1], "local") ? RTLD_GLOBAL : RTLD_LOCAL,
				    argc - 3, argv + 3);
		for (size_t i = 0; i < 100; i++) {
			char *block = malloc(1000 + i);

			kept += block != NULL;
			free(block);
		}
	}
	printf("%zu\n", kept);
	return status;
}
