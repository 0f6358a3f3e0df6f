#include "cmd/berth/running.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/berth/screen.h"
#include "proto/preview_url.h"
#include "proto/units.h"

/* By what is there: there are many ways to write a path. */
static bool is_same_file(struct str told, const char *wanted)
{
	char path[PATH_MAX];
	struct stat a, b;

	if (str_eq(told, str_of(wanted)))
		return true;
	if (snprintf(path, sizeof(path), "%.*s", STR_ARGS(told)) >= (int)sizeof(path))
		return false;
	return stat(path, &a) == 0 && stat(wanted, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

/* Port 0 is content with any. */
static bool is_same_address(struct str told, const char *wanted)
{
	struct host_port a, b;

	if (host_port_parse(told, &a) < 0 || host_port_parse(str_of(wanted), &b) < 0)
		return str_eq(told, str_of(wanted));
	return strcmp(a.host, b.host) == 0 && (b.port == 0 || a.port == b.port);
}

static bool is_same_preview(struct str told, const char *wanted)
{
	return strcmp(wanted, "none") == 0 ? !told.len : is_same_address(told, wanted);
}

static bool is_same_url(struct str told, const char *wanted)
{
	char text[PREVIEW_URL_SIZE];
	struct preview_url url;

	if (preview_url_parse(str_of(wanted), &url) < 0)
		return false;
	preview_url_format(&url, "", text);
	return str_eq(told, str_of(text));
}

static bool is_same_runtime(const struct info *info, const char *wanted)
{
	return strchr(wanted, '/') ? is_same_file(info->runtime.path, wanted)
				   : str_eq(info->runtime.name, str_of(wanted));
}

static int differs(const struct info *info, const char *what, struct str told, const char *wanted,
		   struct err *err)
{
	return err_set(err, -EEXIST, ERR_CONFLICT,
		       "berthd (pid %d) already runs with %s %.150s, not %.150s: stop it with "
		       "`berth down` first",
		       (int)info->pid, what, told.len ? screen_text(told).text : "(none)",
		       screen_text(str_of(wanted)).text);
}

/* An older daemon may not say. */
static int compare_settings(const struct info *info, const struct wanted *wanted, struct err *err)
{
	const struct passwd *user = getpwuid((uid_t)info->uid);
	const char *unknown = wanted->config         ? "--config"
			      : wanted->token_file   ? "--token-file"
			      : wanted->socket_group ? "--socket-group"
			      : wanted->log_level    ? "--log-level"
			      : wanted->user         ? "--user"
						     : NULL;

	if (unknown && (!info->log_level.len || !info->uid_given))
		return err_set(
			err, -EEXIST, ERR_CONFLICT,
			"berthd (pid %d) already runs and does not say with which %s: stop it "
			"with `berth down` first",
			(int)info->pid, unknown);
	if (wanted->config && !is_same_file(info->config, wanted->config))
		return differs(info, "--config", info->config, wanted->config, err);
	if (wanted->token_file && !is_same_file(info->token_file, wanted->token_file))
		return differs(info, "--token-file", info->token_file, wanted->token_file, err);
	if (wanted->socket_group && !str_eq(info->socket_group, str_of(wanted->socket_group)))
		return differs(info, "--socket-group", info->socket_group, wanted->socket_group,
			       err);
	if (wanted->log_level && !str_eq(info->log_level, str_of(wanted->log_level)))
		return differs(info, "--log-level", info->log_level, wanted->log_level, err);
	/* Nobody but root can become another. */
	if (wanted->user && str_eq(info->mode, STR("root")) &&
	    !(user && strcmp(user->pw_name, wanted->user) == 0))
		return differs(info, "--user", str_of(user ? user->pw_name : "another"),
			       wanted->user, err);
	return 0;
}

static bool is_wanted_bind(const struct wanted *wanted, struct str told)
{
	for (char *const *bind = wanted->allow_bind; *bind; bind++) {
		if (str_eq(told, str_of(*bind)))
			return true;
	}
	return false;
}

/* More than was asked for. A file of the daemon's may have named it, too, and that is not told. */
static int compare_more_binds(const struct info *info, const struct wanted *wanted, struct err *err)
{
	if (!wanted->allow_bind || !*wanted->allow_bind || info->config.len)
		return 0;
	for (size_t i = 0; i < info->allow_bind.len; i++) {
		if (!is_wanted_bind(wanted, info->allow_bind.items[i]))
			return err_set(
				err, -EEXIST, ERR_CONFLICT,
				"berthd (pid %d) already runs with --allow-bind %.150s, too: "
				"stop it with `berth down` first",
				(int)info->pid, screen_text(info->allow_bind.items[i]).text);
	}
	return 0;
}

static int compare_binds(const struct info *info, const struct wanted *wanted, struct err *err)
{
	for (char *const *bind = wanted->allow_bind; bind && *bind; bind++) {
		bool is_there = false;

		for (size_t i = 0; i < info->allow_bind.len && !is_there; i++)
			is_there = str_eq(info->allow_bind.items[i], str_of(*bind));
		if (!is_there)
			return err_set(err, -EEXIST, ERR_CONFLICT,
				       "berthd (pid %d) already runs without --allow-bind %.150s: "
				       "stop it with `berth down` first",
				       (int)info->pid, screen_text(str_of(*bind)).text);
	}
	return compare_more_binds(info, wanted, err);
}

int running_compare(const struct info *info, const struct wanted *wanted, struct err *err)
{
	/* An older daemon may not say where it lives; that it listens nowhere is an answer. */
	if (wanted->state_dir && info->state_dir.len &&
	    !is_same_file(info->state_dir, wanted->state_dir))
		return differs(info, "--state-dir", info->state_dir, wanted->state_dir, err);
	if (wanted->run_dir && info->run_dir.len && !is_same_file(info->run_dir, wanted->run_dir))
		return differs(info, "--run-dir", info->run_dir, wanted->run_dir, err);
	if (wanted->listen && !is_same_address(info->listen, wanted->listen))
		return differs(info, "--listen", info->listen, wanted->listen, err);
	if (wanted->preview && !is_same_preview(info->preview, wanted->preview))
		return differs(info, "--preview", info->preview, wanted->preview, err);
	if (wanted->preview_url && !is_same_url(info->preview_url, wanted->preview_url))
		return differs(info, "--preview-url", info->preview_url, wanted->preview_url, err);
	if (wanted->runtime && !is_same_runtime(info, wanted->runtime))
		return differs(info, "--runtime", info->runtime.path, wanted->runtime, err);
	return compare_binds(info, wanted, err) < 0 ? -EEXIST : compare_settings(info, wanted, err);
}

bool running_is_outdated(pid_t pid)
{
	char link[32], path[PATH_MAX];
	const char deleted[] = " (deleted)";
	ssize_t n, end = sizeof(deleted) - 1;

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	n = readlink(link, path, sizeof(path));
	return n > end && memcmp(path + n - end, deleted, (size_t)end) == 0;
}
