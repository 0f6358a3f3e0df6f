/*
 * The normal run's main() for a fuzz target: feeds it every file of its corpus, as a test. The
 * sanitizers are what fails; a corpus that is missing or empty fails too.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path)
{
	cleanup_file FILE *file = fopen(path, "rbe");
	cleanup_free uint8_t *exact = NULL;
	static uint8_t bytes[1 << 22];
	size_t n;

	if (!file)
		return -1;
	n = fread(bytes, 1, sizeof(bytes), file);
	exact = malloc(n ? n : 1); /* of its exact size, so that ASan sees a read past the end */
	if (!exact)
		return -1;
	memcpy(exact, bytes, n);
	return LLVMFuzzerTestOneInput(exact, n);
}

int main(int argc, char **argv)
{
	struct dirent **names;
	int count, failed = 0, n = 0;

	count = argc == 2 ? scandir(argv[1], &names, NULL, alphasort) : -1;
	if (count < 0) {
		fprintf(stderr, "usage: %s CORPUS-DIRECTORY\n", argv[0]);
		return 1;
	}
	for (int i = 0; i < count; i++) {
		char path[4096];

		if (names[i]->d_name[0] != '.') {
			snprintf(path, sizeof(path), "%s/%s", argv[1], names[i]->d_name);
			if (replay(path) != 0)
				failed++;
			n++;
		}
		free(names[i]);
	}
	free(names);
	printf("%s 1 - %d inputs replayed\n1..1\n", failed || !n ? "not ok" : "ok", n);
	return failed || !n;
}
