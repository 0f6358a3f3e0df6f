#include "cmd/berth/advisories.h"

#include <assert.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

#define PART_MAX 1000000 /* of a version; more is no version */

/* clang-format off */
const struct advisory advisories[] = {
	{ "runc", "CVE-2019-5736", NULL, { "1.0.0-rc7" }, NULL, NULL,
	  "code in a sandbox can replace runc itself, and so become root of the host" },
	{ "runc", "CVE-2019-16884", NULL, { "1.0.0-rc9" }, NULL, NULL,
	  "an image can mount over /proc and get rid of its AppArmor profile" },
	{ "runc", "CVE-2019-19921", NULL, { "1.0.0-rc10" }, NULL, NULL,
	  "two sandboxes that share a volume can mount over /proc" },
	{ "runc", "CVE-2021-30465", NULL, { "1.0.0-rc95" }, NULL, NULL,
	  "a link that is swapped while mounts are made leads to files of the host" },
	{ "runc", "CVE-2021-43784", NULL, { "1.0.3" }, NULL, NULL,
	  "an overflow in its own messages can turn namespaces off" },
	{ "runc", "CVE-2022-29162", NULL, { "1.1.2" }, NULL, NULL,
	  "processes get inheritable capabilities that they should not have" },
	{ "runc", "CVE-2023-27561", NULL, { "1.1.5" }, NULL, NULL,
	  "a link at /proc can get rid of what hides the kernel's files" },
	{ "runc", "CVE-2024-21626", "1.0.0-rc93", { "1.1.12" }, "1.1.5+ds1-1+deb12u1", NULL,
	  "a leaked descriptor leads code in a sandbox to files of the host" },
	{ "runc", "CVE-2024-45310", NULL, { "1.1.14", "1.2.0-rc.3" }, NULL, NULL,
	  "a sandbox that shares a volume can make empty files on the host" },
	{ "runc", "CVE-2025-31133", NULL, { "1.2.8", "1.3.3", "1.4.0-rc.3" }, NULL, NULL,
	  "a link at /dev/null makes files of the kernel writable, and so root of the host; "
	  "CVE-2025-52565 and CVE-2025-52881 come with it" },
	{ "crun", "CVE-2019-18837", NULL, { "0.10.5" }, NULL, NULL,
	  "links in an image lead mounts to files of the host" },
	{ "crun", "CVE-2022-27650", NULL, { "1.4.4" }, NULL, NULL,
	  "processes get inheritable capabilities that they should not have" },
	{ "crun", "CVE-2025-24965", NULL, { "1.20" }, NULL, "+LIBKRUN",
	  "an image that is run by krun can write to files of the host" },
	{ "linux", "CVE-2022-0185", "5.1", { "5.4.173", "5.10.93", "5.15.16", "5.16.2" }, NULL, NULL,
	  "fsconfig() gives root to whoever may make a user namespace" },
	{ "linux", "CVE-2022-0492", NULL, { "5.4.177", "5.10.97", "5.15.20", "5.16.6" }, NULL, NULL,
	  "release_agent gives root of the host to whoever may mount cgroup v1" },
	{ "linux", "CVE-2022-0847", "5.8", { "5.10.102", "5.15.25", "5.16.11" }, NULL, NULL,
	  "a pipe can write to every file that can be read, /usr of the host too" },
	{ "linux", "CVE-2023-0386", "5.11", { "5.15.91", "6.1.9" }, NULL, NULL,
	  "overlayfs in a user namespace makes set-uid files of the host's root" },
	{ "linux", "CVE-2023-32233", NULL, { "5.10.180", "5.15.111", "6.1.28", "6.2.15", "6.3.2" },
	  NULL, NULL, "nf_tables gives root to whoever may make a user namespace" },
	{ "linux", "CVE-2024-1086", "3.15",
	  { "5.4.269", "5.10.210", "5.15.149", "6.1.76", "6.6.15", "6.7.3" }, NULL, NULL,
	  "nf_tables gives root to whoever may make a user namespace" },
	{ NULL },
};
/* clang-format on */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Takes a number off the front. */
static bool take_number(struct str *text, unsigned *ret)
{
	unsigned value = 0;
	size_t i = 0;

	for (; i < text->len && is_digit(text->at[i]); i++) {
		value = value * 10 + (unsigned)(text->at[i] - '0');
		if (value > PART_MAX)
			return false;
	}
	*text = (struct str){text->at + i, text->len - i};
	*ret = value;
	return i > 0;
}

static bool take_char(struct str *text, const char *any)
{
	if (!text->len || !memchr(any, text->at[0], strlen(any)))
		return false;
	*text = (struct str){text->at + 1, text->len - 1};
	return true;
}

bool release_parse(struct str text, struct release *ret)
{
	struct release release = {.candidate = UINT_MAX};
	struct str rest;

	if (!take_number(&text, &release.number[0]))
		return false;
	for (int i = 1; i < 3; i++) {
		rest = text;
		if (!take_char(&rest, ".") || !take_number(&rest, &release.number[i]))
			break;
		text = rest;
	}
	if (take_char(&text, "-~") && str_starts_with(text, STR("rc"))) {
		text = (struct str){text.at + 2, text.len - 2};
		take_char(&text, ".");
		if (!take_number(&text, &release.candidate))
			release.candidate = 0;
	}
	*ret = release;
	return true;
}

int release_compare(const struct release *a, const struct release *b)
{
	for (int i = 0; i < 3; i++)
		if (a->number[i] != b->number[i])
			return a->number[i] < b->number[i] ? -1 : 1;
	if (a->candidate != b->candidate)
		return a->candidate < b->candidate ? -1 : 1;
	return 0;
}

bool subject_of_runtime(struct str told, struct subject *ret)
{
	struct str rest = told, line = str_cut(&rest, '\n');
	struct subject subject = {.told = told};

	subject.program = str_cut(&line, ' ');
	if (!str_eq(str_cut(&line, ' '), STR("version")) || !release_parse(line, &subject.release))
		return false;
	/* Debian's runc tells its package as the commit. */
	while (rest.len) {
		line = str_cut(&rest, '\n');
		if (str_starts_with(line, STR("commit: ")))
			subject.package = (struct str){line.at + 8, line.len - 8};
	}
	*ret = subject;
	return true;
}

bool subject_of_kernel(struct str release, struct str version, struct subject *ret)
{
	struct subject subject = {.program = STR("linux")};
	struct str rest = version;

	while (rest.len)
		if (str_eq(str_cut(&rest, ' '), STR("Debian")) &&
		    release_parse(str_cut(&rest, ' '), &subject.release)) {
			*ret = subject;
			return true;
		}
	if (!release_parse(release, &subject.release))
		return false;
	/* "5.15.0-91-generic" is what a distribution calls its interface, with many fixes. */
	if (subject.release.number[2] == 0 && subject.release.candidate == UINT_MAX &&
	    memchr(release.at, '-', release.len))
		return false;
	*ret = subject;
	return true;
}

/* Both are the same up to the number at their end, and that is at least as high. */
static bool is_package(struct str package, const char *mended)
{
	struct str want = str_of(mended);
	unsigned have_number = 0, want_number = 0;
	size_t stem = want.len;
	struct str rest;

	while (stem && is_digit(want.at[stem - 1]))
		stem--;
	if (package.len < stem || memcmp(package.at, want.at, stem) != 0)
		return false;
	rest = (struct str){package.at + stem, package.len - stem};
	want = (struct str){want.at + stem, want.len - stem};
	return take_number(&rest, &have_number) && take_number(&want, &want_number) &&
	       have_number >= want_number;
}

static struct release release_of(const char *text)
{
	struct release release = {0};
	bool is_good = release_parse(str_of(text), &release);

	assert(is_good);
	return release;
}

static bool has_version(const struct advisory *advisory, const struct release *release)
{
	struct release fixed = {0};

	if (advisory->since) {
		struct release since = release_of(advisory->since);

		if (release_compare(release, &since) < 0)
			return false;
	}
	for (int i = 0; advisory->fixed[i]; i++) {
		fixed = release_of(advisory->fixed[i]);
		if (fixed.number[0] == release->number[0] && fixed.number[1] == release->number[1])
			break;
	}
	return release_compare(release, &fixed) < 0;
}

enum advisory_verdict advisory_judge(const struct advisory *advisory, const struct subject *subject)
{
	if (!str_eq(subject->program, str_of(advisory->program)) ||
	    !has_version(advisory, &subject->release))
		return ADVISORY_CLEAR;
	if (advisory->feature && !memmem(subject->told.at, subject->told.len, advisory->feature,
					 strlen(advisory->feature)))
		return ADVISORY_CLEAR;
	if (advisory->package && is_package(subject->package, advisory->package))
		return ADVISORY_MENDED;
	return ADVISORY_HIT;
}
