#include "container/confine.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>

#include "base/cleanup.h"

static const cap_value_t kept[] = {
	CAP_SYS_ADMIN,    CAP_CHOWN,     CAP_DAC_OVERRIDE,     CAP_FOWNER,  CAP_FSETID,
	CAP_SETUID,       CAP_SETGID,    CAP_SETFCAP,          CAP_SETPCAP, CAP_KILL,
	CAP_SYS_RESOURCE, CAP_NET_ADMIN, CAP_NET_BIND_SERVICE,
};

static bool is_kept(cap_value_t cap)
{
	for (size_t i = 0; i < array_len(kept); i++)
		if (kept[i] == cap)
			return true;
	return false;
}

static int drop(cap_t caps, cap_value_t cap)
{
	/* Root of a container may not have SETPCAP itself: then what it was given is all there is.
	 */
	if (cap_get_bound(cap) == 1 && cap_drop_bound(cap) < 0 && errno != EPERM)
		return -errno;
	if (cap_set_flag(caps, CAP_EFFECTIVE, 1, &cap, CAP_CLEAR) < 0 ||
	    cap_set_flag(caps, CAP_PERMITTED, 1, &cap, CAP_CLEAR) < 0 ||
	    cap_set_flag(caps, CAP_INHERITABLE, 1, &cap, CAP_CLEAR) < 0)
		return -errno;
	return 0;
}

static int reduce(void)
{
	cap_t caps = cap_get_proc();
	int r = caps ? 0 : -errno;

	/* cap_get_bound() knows which the kernel has. */
	for (cap_value_t cap = 0; r == 0 && cap_get_bound(cap) >= 0; cap++)
		if (!is_kept(cap))
			r = drop(caps, cap);
	if (r == 0 && cap_set_proc(caps) < 0)
		r = -errno;
	if (caps)
		cap_free(caps);
	return r;
}

int confine_keeper(struct err *err)
{
	int r = reduce();

	if (r == 0 && (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
		       prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0))
		r = -errno;
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "capabilities cannot be given up: %s",
			       strerror(-r));
	return 0;
}
