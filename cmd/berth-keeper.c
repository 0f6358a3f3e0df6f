/* The hands of Berth. So far it can only say what it is. */
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		printf("berth-keeper %s\n", BERTH_VERSION);
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		printf("Usage: berth-keeper --version\n\n"
		       "Will mount, limit and start the containers of Berth's sandboxes on behalf\n"
		       "of berthd. This version can only print its version.\n");
		return 0;
	}
	fprintf(stderr, "berth-keeper: only --version and --help are understood\n");
	return 2;
}
