#include "cmd/berth-init/user.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

/* Decimal and nothing else. The largest id is the kernel's "none". */
static int parse_id(struct str text, uint32_t *ret)
{
	uint64_t value = 0;

	if (!text.len || text.len > 10)
		return -EINVAL;
	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] < '0' || text.at[i] > '9')
			return -EINVAL;
		value = value * 10 + (uint64_t)(text.at[i] - '0');
	}
	if (value >= UINT32_MAX)
		return -EINVAL;
	*ret = (uint32_t)value;
	return 0;
}

static bool is_name(struct str text)
{
	if (!text.len || text.at[0] == '-' || (text.at[0] >= '0' && text.at[0] <= '9'))
		return false;
	for (size_t i = 0; i < text.len; i++) {
		char c = text.at[i];

		if ((unsigned char)c <= ' ' || c == 0x7f || strchr(":,/", c))
			return false;
	}
	return true;
}

int user_parse(struct str text, struct user *ret)
{
	struct str gid = text, uid = str_cut(&gid, ':');
	int error;

	ret->kind = USER_OWN;
	ret->name = (struct str){NULL, 0};
	ret->group_count = 0;
	if (!text.len)
		return 0;
	if (is_name(text)) {
		ret->kind = USER_NAMED;
		ret->name = text;
		return 0;
	}
	error = parse_id(uid, &ret->uid);
	if (error < 0)
		return error;
	ret->kind = uid.len == text.len ? USER_UID : USER_UID_GID;
	if (ret->kind == USER_UID_GID)
		return parse_id(gid, &ret->gid);
	return 0;
}

struct line {
	struct str name, home;
	uint32_t uid, gid;
};

/* name:password:uid:gid:comment:home:..., taken apart; lines that are none are passed over. */
static bool parse_line(struct str text, struct line *ret)
{
	ret->name = str_cut(&text, ':');
	str_cut(&text, ':');
	if (!ret->name.len || parse_id(str_cut(&text, ':'), &ret->uid) < 0 ||
	    parse_id(str_cut(&text, ':'), &ret->gid) < 0)
		return false;
	str_cut(&text, ':');
	ret->home = str_cut(&text, ':');
	return true;
}

static bool is_home(struct str path)
{
	return path.len && path.len <= USER_HOME_MAX && path.at[0] == '/' &&
	       !memchr(path.at, '\0', path.len);
}

int user_find(struct user *user, struct str passwd)
{
	struct line line;

	user->home = STR("/");
	while (passwd.len) {
		if (!parse_line(str_cut(&passwd, '\n'), &line))
			continue;
		if (user->kind == USER_NAMED ? str_eq(line.name, user->name)
					     : line.uid == user->uid) {
			user->uid = line.uid;
			if (user->kind != USER_UID_GID)
				user->gid = line.gid;
			if (is_home(line.home))
				user->home = line.home;
			return 0;
		}
	}
	if (user->kind == USER_NAMED)
		return -ENOENT;
	if (user->kind == USER_UID)
		user->gid = user->uid;
	return 0;
}

static bool has_member(struct str members, struct str name)
{
	while (members.len) {
		if (str_eq(str_cut(&members, ','), name))
			return true;
	}
	return false;
}

static int add_group(struct user *user, uint32_t gid)
{
	for (uint32_t i = 0; i < user->group_count; i++) {
		if (user->groups[i] == gid)
			return 0;
	}
	if (user->group_count == USER_GROUPS_MAX)
		return -E2BIG;
	user->groups[user->group_count++] = gid;
	return 0;
}

int user_add_groups(struct user *user, struct str group)
{
	int error = add_group(user, user->gid);

	while (error == 0 && user->kind == USER_NAMED && group.len) {
		struct str line = str_cut(&group, '\n');
		struct str name = str_cut(&line, ':');
		uint32_t gid;

		str_cut(&line, ':');
		if (name.len && parse_id(str_cut(&line, ':'), &gid) == 0 &&
		    has_member(line, user->name))
			error = add_group(user, gid);
	}
	return error;
}

int user_read_file(const char *path, char *bytes, struct str *ret)
{
	struct open_how how = {
		.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
		.resolve = RESOLVE_NO_MAGICLINKS,
	};
	cleanup_fd int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	struct stat st;
	size_t used = 0;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (st.st_size > USER_FILE_MAX)
		return -EFBIG;
	/* Not past the size that was looked at: files of proc, that can do anything, have none. */
	while (used < (size_t)st.st_size) {
		ssize_t n = read(fd, bytes + used, (size_t)st.st_size - used);

		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		used += (size_t)n;
	}
	*ret = (struct str){bytes, used};
	return 0;
}
