#include "cmd/berth/advisories.h"

#include <limits.h>

#include "tests/unit/tap.h"

static int order(const char *a, const char *b)
{
	struct release first, second;

	if (!release_parse(str_of(a), &first) || !release_parse(str_of(b), &second))
		return 99;
	return release_compare(&first, &second);
}

static void test_order(void)
{
	/* Each is lower than the next one. */
	static const char *const ascending[] = {
		"0.10.5",     "1.0.0-rc5",  "1.0.0-rc10", "1.0.0-rc93", "1.0.0", "1.0.3",
		"1.1.5+ds1",  "1.1.11",     "1.2.0-rc.3", "1.2",        "1.2.8", "1.20",
		"1.21.0~rc1", "1.21.0-rc2", "6.1.76-1",   "6.18.44-fc", "7",     "10.0",
	};
	size_t count = sizeof(ascending) / sizeof(*ascending);

	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < count; j++)
			check(order(ascending[i], ascending[j]) == (i > j) - (i < j));
	check(order("1.2", "1.2.0") == 0);
	check(order("1.4.0-rc.3+dev", "1.4.0-rc3") == 0);
	tap_ok("versions are compared by their numbers, candidates come before releases");
}

static void test_nonsense(void)
{
	static const char *const texts[] = {"", "x", "v1.2", "-1", ".1", "99999999999.1"};
	struct release release;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		check(!release_parse(str_of(texts[i]), &release));
	check(release_parse(STR("1.x.3"), &release) && release.number[1] == 0);
	check(release.candidate == UINT_MAX);
	tap_ok("what is no version is none");
}

static const struct advisory *find(const char *name)
{
	for (const struct advisory *a = advisories; a->name; a++)
		if (strcmp(a->name, name) == 0)
			return a;
	return NULL;
}

static int runtime(const char *name, const char *told)
{
	struct subject subject;

	if (!find(name) || !subject_of_runtime(str_of(told), &subject))
		return -1;
	return (int)advisory_judge(find(name), &subject);
}

static void test_runtimes(void)
{
	const char *debian = "runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1+deb12u1\nspec: 1.0.2\n";
	const char *older = "runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1+deb12u0\nspec: 1.0.2\n";
	const char *newer = "runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1+deb12u10\nspec: 1.0.2\n";
	const char *krun = "crun version 1.19.1\nspec: 1.0.0\n+SYSTEMD +LIBKRUN +YAJL\n";

	check(runtime("CVE-2024-21626", "runc version 1.1.11\n") == ADVISORY_HIT);
	check(runtime("CVE-2024-21626", "runc version 1.1.12\n") == ADVISORY_CLEAR);
	check(runtime("CVE-2024-21626", "runc version 1.0.0-rc92\n") == ADVISORY_CLEAR);
	check(runtime("CVE-2024-21626", "runc version 1.0.0-rc93\n") == ADVISORY_HIT);
	check(runtime("CVE-2024-21626", debian) == ADVISORY_MENDED);
	check(runtime("CVE-2024-21626", newer) == ADVISORY_MENDED);
	check(runtime("CVE-2024-21626", older) == ADVISORY_HIT);
	check(runtime("CVE-2025-31133", debian) == ADVISORY_HIT);
	check(runtime("CVE-2025-31133", "runc version 1.2.7") == ADVISORY_HIT);
	check(runtime("CVE-2025-31133", "runc version 1.2.8") == ADVISORY_CLEAR);
	check(runtime("CVE-2025-31133", "runc version 1.3.2") == ADVISORY_HIT);
	check(runtime("CVE-2025-31133", "runc version 1.3.3") == ADVISORY_CLEAR);
	check(runtime("CVE-2025-31133", "runc version 1.4.0-rc.2") == ADVISORY_HIT);
	check(runtime("CVE-2025-31133", "runc version 1.4.0-rc.3") == ADVISORY_CLEAR);
	check(runtime("CVE-2025-31133", "runc version 1.5.0") == ADVISORY_CLEAR);
	check(runtime("CVE-2019-5736", "runc version 1.0.0-rc6") == ADVISORY_HIT);
	check(runtime("CVE-2019-5736", "crun version 0.1") == ADVISORY_CLEAR);
	check(runtime("CVE-2022-27650", "crun version 1.4.3") == ADVISORY_HIT);
	check(runtime("CVE-2025-24965", "crun version 1.8.1\n+SYSTEMD\n") == ADVISORY_CLEAR);
	check(runtime("CVE-2025-24965", krun) == ADVISORY_HIT);
	check(runtime("CVE-2025-24965", "runc") == -1);
	tap_ok("runtimes have what their versions, packages and features say");
}

static int kernel(const char *name, const char *release, const char *version)
{
	struct subject subject;

	if (!find(name) || !subject_of_kernel(str_of(release), str_of(version), &subject))
		return -1;
	return (int)advisory_judge(find(name), &subject);
}

static void test_kernels(void)
{
	const char *plain = "#1 SMP PREEMPT_DYNAMIC @0";
	const char *old = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.69-1 (2023-12-30)";
	const char *new = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01)";

	check(kernel("CVE-2024-1086", "6.18.44-fc-v445", plain) == ADVISORY_CLEAR);
	check(kernel("CVE-2024-1086", "6.6.14", plain) == ADVISORY_HIT);
	check(kernel("CVE-2024-1086", "6.6.15", plain) == ADVISORY_CLEAR);
	check(kernel("CVE-2024-1086", "6.5.13", plain) == ADVISORY_HIT);
	check(kernel("CVE-2024-1086", "6.1.0-17-amd64", old) == ADVISORY_HIT);
	check(kernel("CVE-2024-1086", "6.1.0-18-amd64", new) == ADVISORY_CLEAR);
	check(kernel("CVE-2024-1086", "5.15.0-91-generic", "#101-Ubuntu SMP") == -1);
	check(kernel("CVE-2022-0847", "5.7.19", plain) == ADVISORY_CLEAR);
	check(kernel("CVE-2022-0847", "5.16.10", plain) == ADVISORY_HIT);
	check(kernel("CVE-2022-0185", "5.17.0", plain) == ADVISORY_CLEAR);
	tap_ok("kernels have what their versions say, where they say something");
}

/* Whoever adds a row makes these mistakes. */
static void test_table(void)
{
	for (const struct advisory *a = advisories; a->name; a++) {
		struct release last = {{0}, 0}, release;

		check(a->fixed[0] && a->what && strncmp(a->name, "CVE-", 4) == 0);
		check(find(a->name) == a);
		check(!a->since || release_parse(str_of(a->since), &release));
		for (int i = 0; a->fixed[i]; i++) {
			check(release_parse(str_of(a->fixed[i]), &release));
			check(release_compare(&last, &release) < 0);
			last = release;
		}
	}
	tap_ok("every row can be read, and its versions ascend");
}

int main(void)
{
	test_order();
	test_nonsense();
	test_runtimes();
	test_kernels();
	test_table();
	return tap_done();
}
