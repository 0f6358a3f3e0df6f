#include "cmd/berth-init/args.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW)

/* Sealed, so that nobody can change or cut it while we read. */
static int map_lists(struct args *args, int memfd)
{
	int seals = fcntl(memfd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(memfd, &st) < 0 || st.st_size <= 0)
		return -EINVAL;
	if (st.st_size > AGENT_ARGS_MAX)
		return -E2BIG;
	args->lists = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, memfd, 0);
	if (args->lists == MAP_FAILED) {
		args->lists = NULL;
		return -errno;
	}
	args->lists_size = (size_t)st.st_size;
	return 0;
}

static int make_pointers(struct args *args, size_t count)
{
	if (count <= ARGS_FIXED) {
		args->argv = args->fixed;
		return 0;
	}
	args->pointers = mmap(NULL, count * sizeof(char *), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (args->pointers == MAP_FAILED) {
		args->pointers = NULL;
		return -errno;
	}
	args->pointers_size = count * sizeof(char *);
	args->argv = args->pointers;
	return 0;
}

static bool is_variable(const char *entry)
{
	const char *equals = strchr(entry, '=');

	return equals && equals != entry;
}

static int point(struct args *args, struct str argv, struct str env)
{
	int argc = frame_list_count(argv), envc = frame_list_count(env);
	char **at;
	int error;

	if (argc <= 0 || envc < 0)
		return -EINVAL;
	error = make_pointers(args, (size_t)argc + (size_t)envc + 3);
	if (error < 0)
		return error;
	at = args->argv;
	while (argv.len)
		*at++ = (char *)frame_list_next(&argv);
	*at++ = NULL;
	args->envp = at;
	while (env.len) {
		*at = (char *)frame_list_next(&env);
		if (!is_variable(*at++))
			return -EINVAL;
	}
	*at = NULL;
	return 0;
}

int args_init(struct args *args, const struct agent_exec *request, int memfd)
{
	struct str argv = request->argv, env = request->env;
	int error = 0;

	args->lists = args->pointers = NULL;
	if (request->flags & AGENT_EXEC_WORKER) {
		argv = (struct str){ARGS_WORKER, sizeof(ARGS_WORKER)};
		env = (struct str){NULL, 0};
	}
	if (request->flags & AGENT_EXEC_ARGS_IN_FD) {
		if (argv.len || env.len)
			return -EINVAL;
		error = map_lists(args, memfd);
		if (error == 0 && request->argv_size > args->lists_size)
			error = -EINVAL;
		if (error == 0) {
			const char *lists = args->lists;

			argv = (struct str){lists, request->argv_size};
			env = (struct str){lists + argv.len, args->lists_size - argv.len};
		}
	}
	if (error == 0)
		error = point(args, argv, env);
	if (error < 0)
		args_close(args);
	return error;
}

void args_close(struct args *args)
{
	if (args->lists)
		munmap(args->lists, args->lists_size);
	if (args->pointers)
		munmap(args->pointers, args->pointers_size);
	args->lists = args->pointers = NULL;
}

/* point() has left room for it. */
void args_add_env(struct args *args, char *entry)
{
	char **at = args->envp;

	while (*at)
		at++;
	at[0] = entry;
	at[1] = NULL;
}

const char *args_getenv(const struct args *args, const char *name)
{
	size_t len = strlen(name);

	for (char **at = args->envp; *at; at++) {
		if (strncmp(*at, name, len) == 0 && (*at)[len] == '=')
			return *at + len + 1;
	}
	return NULL;
}
