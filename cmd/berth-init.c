/* PID 1 of a sandbox. So far it can only say what it is. */
#include <string.h>
#include <unistd.h>

/* Without stdio: half of the program would be printf. */
static int say(int fd, const char *text)
{
	size_t len = strlen(text);

	while (len) {
		ssize_t n = write(fd, text, len);

		if (n <= 0)
			return 1;
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--version") == 0)
		return say(1, "berth-init " BERTH_VERSION "\n");
	if (argc == 2 && strcmp(argv[1], "--help") == 0)
		return say(
			1,
			"Usage: berth-init --version\n\n"
			"Will be the first process of each sandbox. This version can only print\n"
			"its version.\n");
	say(2, "berth-init: only --version and --help are understood\n");
	return 2;
}
