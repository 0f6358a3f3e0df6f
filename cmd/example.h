/* A pair of texts that help and the manual pages show in two columns. */
#ifndef BERTH_CMD_EXAMPLE_H
#define BERTH_CMD_EXAMPLE_H

/* A table of examples, exit codes, files and the like ends with a line of NULL. */
struct example {
	const char *line;
	const char *meaning;
};

#endif
