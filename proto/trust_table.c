#include "proto/trust_table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "proto/capability.h"

/* clang-format off */
#define AT(member) offsetof(struct trust_preset_words, member)

static const struct json_field preset_fields[] = {
	{ "limits",       JSON_OBJECT,  AT(limits), .fields = settings_limits_fields },
	{ "capabilities", JSON_STRINGS, AT(capabilities), false, AT(capabilities_given) },
	{ "seccomp",      JSON_STRING,  AT(seccomp), false, AT(seccomp_given) },
	{ "runtime",      JSON_STRING,  AT(runtime), false, AT(runtime_given) },
	{ NULL },
};

#define PRESET(trust) offsetof(struct trust_words, presets[trust])

const struct json_field trust_fields[] = {
	{ "high",      JSON_OBJECT, PRESET(TRUST_HIGH),      .fields = preset_fields },
	{ "medium",    JSON_OBJECT, PRESET(TRUST_MEDIUM),    .fields = preset_fields },
	{ "low",       JSON_OBJECT, PRESET(TRUST_LOW),       .fields = preset_fields },
	{ "untrusted", JSON_OBJECT, PRESET(TRUST_UNTRUSTED), .fields = preset_fields },
	{ NULL },
};
/* clang-format on */

/* What installers need, and no more. */
#define FEW                                                                                        \
	(1u << CAPABILITY_CHOWN | 1u << CAPABILITY_DAC_OVERRIDE | 1u << CAPABILITY_FOWNER |        \
	 1u << CAPABILITY_KILL | 1u << CAPABILITY_SETUID | 1u << CAPABILITY_SETGID)

void trust_table_init(struct trust_table *table)
{
	struct trust_preset *presets = table->presets;

	memset(table, 0, sizeof(*table));
	for (enum trust i = 0; i < TRUST_LOW; i++)
		presets[i].capabilities = CAPABILITY_ALL;
	presets[TRUST_MEDIUM].limits = (struct settings_limits){
		.memory_bytes = 1ULL << 30, .cpu_milli = 2000, .pids = 512};
	presets[TRUST_LOW] = (struct trust_preset){
		.limits = {.memory_bytes = 512ULL << 20,
			   .cpu_milli = 1000,
			   .pids = 256,
			   .files = 4096,
			   .file_size = 1ULL << 30},
		.capabilities = FEW,
		.is_strict = true,
		.is_cap = true,
	};
	presets[TRUST_UNTRUSTED] = (struct trust_preset){
		.limits = {.memory_bytes = 256ULL << 20,
			   .cpu_milli = 1000,
			   .pids = 128,
			   .files = 1024,
			   .file_size = 256ULL << 20},
		.is_strict = true,
		.is_cap = true,
	};
}

void trust_words_init(struct trust_words *words, const struct trust_table *table)
{
	*words = (struct trust_words){0};
	for (enum trust i = TRUST_HIGH; i < TRUST_COUNT; i++)
		words->presets[i].limits = settings_limits_give(&table->presets[i].limits);
}

static int take_capabilities(struct json_strings list, uint32_t *ret, struct err *err)
{
	uint32_t set = 0;

	for (size_t i = 0; i < list.len; i++) {
		if (capability_parse(list.items[i], &set) < 0)
			return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
				       "capabilities[%zu] is none that a sandbox can have: of "
				       "CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID, "
				       "CAP_KILL, CAP_SETUID, CAP_SETGID, CAP_SETPCAP and "
				       "CAP_NET_BIND_SERVICE any may be listed, or none",
				       i);
	}
	*ret = set;
	return 0;
}

static int take_preset(struct trust_preset *preset, const struct trust_preset_words *words,
		       struct err *err)
{
	int r = settings_limits_check(&words->limits, err);

	if (r == 0 && words->capabilities_given)
		r = take_capabilities(words->capabilities, &preset->capabilities, err);
	if (r < 0)
		return r;
	if (words->seccomp_given && !str_eq(words->seccomp, STR("strict")) &&
	    !str_eq(words->seccomp, STR("default")))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "seccomp must be \"default\" or \"strict\"");
	if (words->runtime_given &&
	    (!words->runtime.len || words->runtime.len > TRUST_RUNTIME_MAX ||
	     memchr(words->runtime.at, '/', words->runtime.len)))
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "runtime must be a name, such as \"crun\" or \"runc\", and no path");
	preset->limits = settings_limits_take(&words->limits);
	if (words->seccomp_given)
		preset->is_strict = str_eq(words->seccomp, STR("strict"));
	if (words->runtime_given) {
		memset(preset->runtime, 0, sizeof(preset->runtime));
		memcpy(preset->runtime, words->runtime.at, words->runtime.len);
	}
	return 0;
}

int trust_table_take(struct trust_table *table, const struct trust_words *words, struct err *err)
{
	struct trust_table taken = *table;

	for (enum trust i = TRUST_HIGH; i < TRUST_COUNT; i++) {
		int r = take_preset(&taken.presets[i], &words->presets[i], err);

		if (r < 0)
			return err_wrap(err, r, "%s", trust_name(i));
	}
	*table = taken;
	return 0;
}

/* --- a sandbox's limits --- */

enum unit { UNIT_BYTES, UNIT_NUMBER, UNIT_MILLI };

/* One of the limits: what was asked for, and what the preset has; 0 says nothing. */
struct bound {
	const char *field;
	enum unit unit;
	bool can;  /* the host can hold it */
	bool none; /* what is not said is none of it, so that 0 of a preset is a limit, too */
	size_t at, size;
};

#define ROW(name, unit, member, ...)                                                               \
	{                                                                                          \
		.field = name, UNIT_##unit, __VA_ARGS__,                                           \
		.at = offsetof(struct settings_limits, member),                                    \
		.size = sizeof(((struct settings_limits *)0)->member)                              \
	}

static uint64_t get(const struct settings_limits *limits, const struct bound *bound)
{
	const char *at = (const char *)limits + bound->at;
	uint64_t value = 0;
	uint32_t narrow;

	if (bound->size == sizeof(value)) {
		memcpy(&value, at, sizeof(value));
	} else {
		memcpy(&narrow, at, sizeof(narrow));
		value = narrow;
	}
	return value;
}

static int refuse(const struct bound *bound, uint64_t limit, const char *name, struct err *err)
{
	bool is_mega = bound->unit == UNIT_BYTES && limit % (1 << 20) == 0;
	char most[32];

	if (!limit)
		return err_set(err, -EPERM, ERR_FORBIDDEN,
			       "limits.%s may not be asked for: trust \"%s\" allows none",
			       bound->field, name);
	if (bound->unit == UNIT_MILLI)
		snprintf(most, sizeof(most), "%g", (double)limit / 1000);
	else
		snprintf(most, sizeof(most), "%llu%s",
			 (unsigned long long)(is_mega ? limit >> 20 : limit), is_mega ? "M" : "");
	return err_set(err, -EPERM, ERR_FORBIDDEN,
		       "limits.%s may be at most %s: trust \"%s\" allows no more", bound->field,
		       most, name);
}

static void fill(struct settings_limits *limits, const struct settings_limits *preset,
		 const struct bound *bound)
{
	if (bound->can && !get(limits, bound))
		memcpy((char *)limits + bound->at, (const char *)preset + bound->at, bound->size);
}

int trust_apply(const struct trust_table *table, enum trust trust, const struct trust_means *means,
		struct settings_limits *limits, struct err *err)
{
	const struct settings_limits *preset = &table->presets[trust].limits;
	/* clang-format off */
	const struct bound bounds[] = {
		ROW("memory",           BYTES,  memory_bytes,           means->memory),
		ROW("memory_threshold", MILLI,  memory_threshold_milli, means->memory),
		ROW("swap",             BYTES,  swap_bytes,             means->swap, true),
		ROW("cpus",             MILLI,  cpu_milli,              means->cpus),
		ROW("cpu_time_ms",      NUMBER, cpu_time_ms,            means->cpu_time),
		ROW("pids",             NUMBER, pids,                   true),
		ROW("files",            NUMBER, files,                  preset->files <= means->files),
		ROW("file_size",        BYTES,  file_size,              true),
		ROW("disk",             BYTES,  disk_bytes,             means->disk),
		ROW("inodes",           NUMBER, inodes,                 means->inodes),
		ROW("io_read",          BYTES,  io_read,                means->reads),
		ROW("io_write",         BYTES,  io_write,               means->writes),
		ROW("io_read_ops",      NUMBER, io_read_ops,            means->reads),
		ROW("io_write_ops",     NUMBER, io_write_ops,           means->writes),
		ROW("output_bytes",     BYTES,  output_bytes,           true),
	};
	/* clang-format on */

	for (size_t i = 0; i < array_len(bounds) && table->presets[trust].is_cap; i++) {
		uint64_t most = get(preset, &bounds[i]);

		if ((most || bounds[i].none) && get(limits, &bounds[i]) > most)
			return refuse(&bounds[i], most, trust_name(trust), err);
	}
	for (size_t i = 0; i < array_len(bounds); i++)
		fill(limits, preset, &bounds[i]);
	return 0;
}

/* --- what is told of it --- */

static void write_preset(const struct trust_preset *preset, struct json_writer *w)
{
	json_object(w);
	settings_limits_write(&preset->limits, w);
	json_key(w, "capped");
	json_bool(w, preset->is_cap);
	json_key(w, "capabilities");
	json_array(w);
	for (unsigned i = 0; i < CAPABILITY_COUNT; i++) {
		if (preset->capabilities & UINT32_C(1) << i)
			json_text(w, capability_names[i]);
	}
	json_array_end(w);
	json_key(w, "seccomp");
	json_text(w, preset->is_strict ? "strict" : "default");
	json_key(w, "runtime");
	if (preset->runtime[0])
		json_text(w, preset->runtime);
	else
		json_null(w);
	json_object_end(w);
}

void trust_table_write(const struct trust_table *table, struct json_writer *w)
{
	json_key(w, "trust");
	json_object(w);
	for (enum trust i = TRUST_HIGH; i < TRUST_COUNT; i++) {
		json_key(w, trust_name(i));
		write_preset(&table->presets[i], w);
	}
	json_object_end(w);
}
