/* SPDX-License-Identifier: Apache-2.0 */
/* embed_python LIBPYTHON ARGUMENT...: opens the library, runs its python3 with the arguments, closes it,
 * and goes on allocating. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL, *found;
	int (*run)(int, char **), status;
	size_t kept = 0;

	if (!library || !(found = dlsym(library, "Py_BytesMain"))) {
		fprintf(stderr, "embed_python: %s\n", dlerror());
		return 1;
	}
	memcpy(&run, &found, sizeof(found));
	status = run(argc - 1, argv + 1);
	dlclose(library);
	for (size_t i = 0; i < 100; i++) {
		char *block = malloc(1000 + i);

		kept += block != NULL;
		free(block);
	}
	printf("%zu\n", kept);
	return status;
}
