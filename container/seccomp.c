#include "container/seccomp.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/seccomp_calls.h"

#define RULES_MAX 96
/* CLONE_NEWTIME is missing: in clone() its bit belongs to the exit signal. */
#define CLONE_NAMESPACES                                                                           \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |             \
	 CLONE_NEWPID | CLONE_NEWNET)

/* A call that depends on one of its arguments: this happens if (argument & mask) compares so. */
struct seccomp_rule {
	const char *name;
	int error; /* 0: allowed */
	unsigned argument;
	enum scmp_compare compare;
	uint64_t mask; /* SCMP_CMP_MASKED_EQ only */
	uint64_t value;
};

struct rules {
	struct seccomp_rule rule[RULES_MAX];
	unsigned count;
};

static void add(struct rules *rules, struct seccomp_rule rule)
{
	if (rules->count < RULES_MAX)
		rules->rule[rules->count++] = rule;
}

/*
 * Everything but one command. The kernel looks at the lower 32 bits only, "not equal" at all 64,
 * which is a hole; so it is allowed if any one of those bits differs.
 */
static void add_ioctl(struct rules *rules, uint32_t refused)
{
	for (unsigned bit = 0; bit < 32; bit++)
		add(rules, (struct seccomp_rule){"ioctl", 0, 1, SCMP_CMP_MASKED_EQ, 1ULL << bit,
						 ~(uint64_t)refused & (1ULL << bit)});
	add(rules,
	    (struct seccomp_rule){"ioctl", EPERM, 1, SCMP_CMP_MASKED_EQ, UINT32_MAX, refused});
}

static void add_socket(struct rules *rules)
{
	static const int families[] = {AF_UNIX, AF_INET, AF_INET6};

	for (size_t i = 0; i < array_len(families); i++)
		add(rules,
		    (struct seccomp_rule){"socket", 0, 0, SCMP_CMP_EQ, 0, (uint64_t)families[i]});
	/* Of netlink, what getifaddrs() asks (NETLINK_ROUTE) and no other protocol. */
	add(rules, (struct seccomp_rule){"socket", EAFNOSUPPORT, 0, SCMP_CMP_GT, 0, AF_NETLINK});
	for (uint64_t family = AF_UNIX + 2; family < AF_NETLINK; family++)
		if (family != AF_INET6)
			add(rules, (struct seccomp_rule){"socket", EAFNOSUPPORT, 0, SCMP_CMP_EQ, 0,
							 family});
}

static void make_rules(struct rules *rules)
{
	static const uint64_t personalities[] = {0, 8, 0x20000, 0x20008, 0xffffffff};

	rules->count = 0;
	add(rules, (struct seccomp_rule){"clone", 0, 0, SCMP_CMP_MASKED_EQ, CLONE_NAMESPACES, 0});
	for (size_t i = 0; i < array_len(personalities); i++)
		add(rules,
		    (struct seccomp_rule){"personality", 0, 0, SCMP_CMP_EQ, 0, personalities[i]});
	/* Its own limits may be changed, and those of others read: init's must stay. */
	add(rules, (struct seccomp_rule){"prlimit64", 0, 0, SCMP_CMP_EQ, 0, 0});
	add(rules, (struct seccomp_rule){"prlimit64", 0, 2, SCMP_CMP_EQ, 0, 0});
	add_socket(rules);
	add_ioctl(rules, TIOCSTI);
}

static int add_names(scmp_filter_ctx filter, const char *const *names, uint32_t action)
{
	int r = 0;

	for (; *names && r == 0; names++) {
		int call = seccomp_syscall_resolve_name(*names);

		/* Newer than the library: it stays ENOSYS. */
		if (call != __NR_SCMP_ERROR)
			r = seccomp_rule_add_array(filter, action, call, 0, NULL);
	}
	return r;
}

static int fill(scmp_filter_ctx filter)
{
	struct rules rules;
	struct scmp_arg_cmp others_limits[] = {
		{.arg = 0, .op = SCMP_CMP_NE, .datum_a = 0},
		{.arg = 2, .op = SCMP_CMP_NE, .datum_a = 0},
	};
	struct scmp_arg_cmp netlink[] = {
		{.arg = 0, .op = SCMP_CMP_EQ, .datum_a = AF_NETLINK},
		{.arg = 2, .op = SCMP_CMP_EQ, .datum_a = 0},
	};
	int r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);

	/* A tree of comparisons in place of a list of hundreds. */
	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (r == 0)
		r = add_names(filter, seccomp_allowed, SCMP_ACT_ALLOW);
	if (r == 0)
		r = add_names(filter, seccomp_refused, SCMP_ACT_ERRNO(EPERM));
	if (r == 0)
		r = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket),
					   array_len(netlink), netlink);
	if (r == 0)
		r = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(prlimit64),
					   array_len(others_limits), others_limits);
	make_rules(&rules);
	for (unsigned i = 0; i < rules.count && r == 0; i++) {
		const struct seccomp_rule *rule = &rules.rule[i];
		bool is_masked = rule->compare == SCMP_CMP_MASKED_EQ;
		struct scmp_arg_cmp condition = {
			.arg = rule->argument,
			.op = rule->compare,
			.datum_a = is_masked ? rule->mask : rule->value,
			.datum_b = is_masked ? rule->value : 0,
		};
		uint32_t action =
			rule->error ? SCMP_ACT_ERRNO((unsigned)rule->error) : SCMP_ACT_ALLOW;

		r = seccomp_rule_add_array(filter, action, seccomp_syscall_resolve_name(rule->name),
					   1, &condition);
	}
	return r;
}

static char *encode_base64(const unsigned char *bytes, size_t len)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *text = malloc((len + 2) / 3 * 4 + 1), *to = text;

	for (size_t i = 0; text && i < len; i += 3) {
		size_t left = len - i;
		uint32_t group = (uint32_t)bytes[i] << 16 |
				 (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
				 (left > 2 ? bytes[i + 2] : 0);

		*to++ = digits[group >> 18];
		*to++ = digits[group >> 12 & 63];
		*to++ = left > 1 ? digits[group >> 6 & 63] : '=';
		*to++ = left > 2 ? digits[group & 63] : '=';
	}
	if (text)
		*to = '\0';
	return text;
}

static int export(scmp_filter_ctx filter, char **ret)
{
	cleanup_fd int fd = memfd_create("berth-seccomp", MFD_CLOEXEC);
	cleanup_free unsigned char *bytes = NULL;
	struct stat st;
	int r = fd < 0 ? -errno : seccomp_export_bpf(filter, fd);

	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return -errno;
	bytes = malloc((size_t)st.st_size);
	if (!bytes)
		return -ENOMEM;
	if (pread(fd, bytes, (size_t)st.st_size, 0) != st.st_size)
		return -EIO;
	*ret = encode_base64(bytes, (size_t)st.st_size);
	return *ret ? 0 : -ENOMEM;
}

int seccomp_compile(char **ret, struct err *err)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	int r = filter ? fill(filter) : -ENOMEM;

	if (r == 0)
		r = export(filter, ret);
	if (filter)
		seccomp_release(filter);
	if (r < 0)
		return err_set(err, r, ERR_INTERNAL, "cannot compile the system call filter: %s",
			       strerror(-r));
	return 0;
}

static int write_names(struct buf *out, const char *const *names, const char *rest)
{
	int r = buf_printf(out, "{\"names\":[");

	for (size_t i = 0; names[i] && r == 0; i++)
		r = buf_printf(out, "%s\"%s\"", i ? "," : "", names[i]);
	return r < 0 ? r : buf_printf(out, "],%s},", rest);
}

static int write_rule(struct buf *out, const struct seccomp_rule *rule)
{
	static const char *const words[] = {
		[SCMP_CMP_EQ] = "SCMP_CMP_EQ",
		[SCMP_CMP_GT] = "SCMP_CMP_GT",
		[SCMP_CMP_MASKED_EQ] = "SCMP_CMP_MASKED_EQ",
	};
	bool is_masked = rule->compare == SCMP_CMP_MASKED_EQ;
	int r = buf_printf(out, ",{\"names\":[\"%s\"],", rule->name);

	if (r == 0 && rule->error)
		r = buf_printf(out, "\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":%d,", rule->error);
	else if (r == 0)
		r = buf_printf(out, "\"action\":\"SCMP_ACT_ALLOW\",");
	if (r == 0)
		r = buf_printf(
			out,
			"\"args\":[{\"index\":%u,\"value\":%llu,\"valueTwo\":%llu,\"op\":\"%s\"}]}",
			rule->argument, (unsigned long long)(is_masked ? rule->mask : rule->value),
			(unsigned long long)(is_masked ? rule->value : 0), words[rule->compare]);
	return r;
}

int seccomp_write_json(struct buf *out)
{
	struct rules rules;
	int r = buf_printf(out,
			   "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":%d,"
			   "\"architectures\":[\"SCMP_ARCH_X86_64\"],\"syscalls\":[",
			   ENOSYS);

	if (r == 0)
		r = write_names(out, seccomp_allowed, "\"action\":\"SCMP_ACT_ALLOW\"");
	if (r == 0)
		r = write_names(out, seccomp_refused,
				"\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":1");
	if (r == 0)
		r = buf_printf(out,
			       "{\"names\":[\"socket\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":["
			       "{\"index\":0,\"value\":%d,\"op\":\"SCMP_CMP_EQ\"},"
			       "{\"index\":2,\"value\":0,\"op\":\"SCMP_CMP_EQ\"}]},"
			       "{\"names\":[\"prlimit64\"],\"action\":\"SCMP_ACT_ERRNO\","
			       "\"errnoRet\":1,\"args\":["
			       "{\"index\":0,\"value\":0,\"op\":\"SCMP_CMP_NE\"},"
			       "{\"index\":2,\"value\":0,\"op\":\"SCMP_CMP_NE\"}]}",
			       AF_NETLINK);
	make_rules(&rules);
	for (unsigned i = 0; i < rules.count && r == 0; i++)
		r = write_rule(out, &rules.rule[i]);
	return r < 0 ? r : buf_printf(out, "]}");
}
