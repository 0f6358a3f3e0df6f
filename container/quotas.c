#include "container/quotas.h"

#include <errno.h>
#include <sys/resource.h>

#include "base/cleanup.h"

int quotas_halve(void)
{
	static const int quotas[] = {RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE, RLIMIT_MEMLOCK};

	for (size_t i = 0; i < array_len(quotas); i++) {
		struct rlimit limit;

		if (getrlimit(quotas[i], &limit) < 0)
			return -errno;
		if (limit.rlim_cur != RLIM_INFINITY)
			limit.rlim_cur /= 2;
		if (setrlimit(quotas[i], &limit) < 0)
			return -errno;
	}
	return 0;
}
