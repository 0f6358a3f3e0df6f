#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/berth-init/work.h"
#include "cmd/berth-init/work_path.h"

int work_stat(struct work *w)
{
	bool is_followed = !(w->request.flags & FILE_NO_FOLLOW);
	cleanup_fd int fd =
		path_open(AT_FDCWD, w->path, O_PATH | (is_followed ? 0 : O_NOFOLLOW), 0);
	struct stat st;
	ssize_t len;

	if (fd < 0)
		return work_at(w, FILE_AT_PATH, fd);
	if (fstat(fd, &st) < 0)
		return work_at(w, FILE_AT_PATH, -errno);
	work_set_stat(&w->result.stat, &st);
	if (!S_ISLNK(st.st_mode))
		return 0;
	len = readlinkat(fd, "", w->where, FILE_PATH_MAX);
	if (len < 0)
		return work_at(w, FILE_AT_PATH, -errno);
	w->result.where = (struct str){w->where, (size_t)len};
	return 0;
}
