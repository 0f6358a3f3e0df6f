#include "cmd/berth-keeper/options.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IDLE_MS 30000

/* clang-format off */
static const struct option flags[] = {
	{"state-dir",  required_argument, NULL, 's'},
	{"run-dir",    required_argument, NULL, 'r'},
	{"daemon-uid", required_argument, NULL, 'u'},
	{"daemon-gid", required_argument, NULL, 'g'},
	{"runtime",    required_argument, NULL, 'c'},
	{"init",       required_argument, NULL, 'i'},
	{"cgroup",     required_argument, NULL, 'd'},
	{"allow-bind", required_argument, NULL, 'b'},
	{"ready-fd",   required_argument, NULL, 'f'},
	{"idle-ms",    required_argument, NULL, 'w'},
	{"log-level",  required_argument, NULL, 'l'},
	{"help",       no_argument,       NULL, 'h'},
	{"version",    no_argument,       NULL, 'V'},
	{NULL,         0,                 NULL, 0},
};
/* clang-format on */

void options_print_help(FILE *out)
{
	fputs("Usage: berth-keeper --state-dir DIR --run-dir DIR --daemon-uid N --daemon-gid N\n"
	      "                    [OPTION...]\n\n"
	      "Mounts, limits, starts and ends the containers of Berth's sandboxes on behalf of\n"
	      "berthd, which starts it. Prints \"ready\" when DIR/keeper.sock serves, or one\n"
	      "sentence why it cannot. Runs as root, or as a user with ids in /etc/subuid.\n\n"
	      "  --state-dir DIR   images and disks of the sandboxes\n"
	      "  --run-dir DIR     sockets, and what is gone after a reboot\n"
	      "  --daemon-uid N    berthd's user: the only one, beside root, that may connect\n"
	      "  --daemon-gid N    berthd's group\n"
	      "  --runtime PATH    an OCI runtime (default: crun, else runc)\n"
	      "  --init PATH       berth-init (default: the one beside this program)\n"
	      "  --cgroup PATH     a delegated v2 cgroup that all sandboxes are to be in\n"
	      "  --allow-bind DIR[:ro]  let sandboxes mount this folder and those in it, or (:ro)\n"
	      "                    read them; may be given more than once\n"
	      "  --ready-fd N      where to say \"ready\" (default: standard output)\n"
	      "  --idle-ms N       end after N ms without berthd and sandboxes (default: 30000)\n"
	      "  --log-level LEVEL error, warn, info or debug (default: info)\n"
	      "  --version         print the version\n"
	      "  --help            print this\n\n"
	      "SIGTERM ends it and leaves the sandboxes running; the next start adopts them.\n",
	      out);
}

static int read_number(const char *flag, const char *text, uint64_t max, uint64_t *ret,
		       struct err *err)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || text[0] < '0' || text[0] > '9' || value > max)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "--%s needs a number up to %llu, not \"%s\"", flag,
			       (unsigned long long)max, text);
	*ret = value;
	return 0;
}

static int read_dir(const char *flag, const char *text, const char **ret, struct err *err)
{
	if (text[0] != '/' || strlen(text) >= PATH_MAX)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "--%s needs an absolute path, not \"%s\"", flag, text);
	*ret = text;
	return 0;
}

static int read_init(struct options *ret, const char *text, struct err *err)
{
	if (text[0] != '/' || snprintf(ret->init_path, PATH_MAX, "%s", text) >= PATH_MAX)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "--init needs an absolute path, not \"%s\"", text);
	return 0;
}

static int read_allowed(struct options *ret, const char *text, struct err *err)
{
	struct mounts_allowed allowed;

	if (mounts_allowed_parse(str_of(text), &allowed) < 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "--allow-bind needs " MOUNTS_ALLOWED_WANT ", not \"%s\"", text);
	if (ret->allow_bind_count == MOUNTS_ALLOWED_MAX)
		return err_set(err, -E2BIG, ERR_INVALID_REQUEST,
			       "--allow-bind can be given %d times at most", MOUNTS_ALLOWED_MAX);
	ret->allow_bind[ret->allow_bind_count++] = text;
	return 0;
}

static int find_init(struct options *ret, struct err *err)
{
	char self[PATH_MAX], *slash;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n > 0) {
		self[n] = '\0';
		slash = strrchr(self, '/');
		if (slash && snprintf(ret->init_path, PATH_MAX, "%.*s/berth-init",
				      (int)(slash - self), self) < PATH_MAX)
			return 0;
	}
	return err_set(err, -ENOENT, ERR_INVALID_REQUEST,
		       "berth-init is not beside us; say --init PATH");
}

/* One flag with its value. */
static int read_flag(struct options *ret, int flag, const char *value, struct err *err)
{
	uint64_t number = 0;
	int r;

	switch (flag) {
	case 's':
		return read_dir("state-dir", value, &ret->state_dir, err);
	case 'r':
		return read_dir("run-dir", value, &ret->run_dir, err);
	case 'c':
		return read_dir("runtime", value, &ret->runtime, err);
	case 'd':
		return read_dir("cgroup", value, &ret->cgroup, err);
	case 'b':
		return read_allowed(ret, value, err);
	case 'i':
		return read_init(ret, value, err);
	case 'u':
		r = read_number("daemon-uid", value, UINT32_MAX - 1, &number, err);
		ret->daemon_uid = (uid_t)number;
		return r;
	case 'g':
		r = read_number("daemon-gid", value, UINT32_MAX - 1, &number, err);
		ret->daemon_gid = (gid_t)number;
		return r;
	case 'f':
		r = read_number("ready-fd", value, INT_MAX, &number, err);
		ret->ready_fd = (int)number;
		return r;
	case 'l':
		if (log_level_parse(str_of(value), &ret->log_level) == 0)
			return 0;
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "--log-level needs error, warn, info or debug, not \"%s\"", value);
	case 'w':
		return read_number("idle-ms", value, 86400000, &ret->idle_ms, err);
	default:
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "a flag that is unknown or lacks its value; see --help");
	}
}

static int check(const struct options *options, bool has_ids, struct err *err)
{
	if (!options->state_dir || !options->run_dir || !has_ids)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "--state-dir, --run-dir, --daemon-uid and --daemon-gid are needed");
	if (fcntl(options->ready_fd, F_GETFD) < 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "--ready-fd %d is not open",
			       options->ready_fd);
	if (geteuid() != 0 && options->daemon_uid != geteuid())
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "without root, berthd must be the user that we are: --daemon-uid %u",
			       (unsigned)geteuid());
	return 0;
}

int options_parse(int argc, char **argv, struct options *ret, enum options_action *ret_action,
		  struct err *err)
{
	bool has_uid = false, has_gid = false;
	int flag, r;

	*ret = (struct options){
		.ready_fd = STDOUT_FILENO, .idle_ms = IDLE_MS, .log_level = LOG_INFO_LEVEL};
	*ret_action = OPTIONS_RUN;
	opterr = 0;
	while ((flag = getopt_long(argc, argv, "", flags, NULL)) != -1) {
		if (flag == 'h' || flag == 'V') {
			*ret_action = flag == 'h' ? OPTIONS_HELP : OPTIONS_VERSION;
			return 0;
		}
		r = read_flag(ret, flag, optarg, err);
		if (r < 0)
			return r;
		has_uid |= flag == 'u';
		has_gid |= flag == 'g';
	}
	if (optind < argc)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "unexpected argument \"%s\"",
			       argv[optind]);
	r = check(ret, has_uid && has_gid, err);
	return r < 0 || ret->init_path[0] ? r : find_init(ret, err);
}
