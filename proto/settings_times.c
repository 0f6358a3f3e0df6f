#include "proto/settings_times.h"

#include <errno.h>

#include "base/cleanup.h"
#include "proto/units.h"

#define SLEEP_AFTER_DEFAULT_MS (10 * 60 * 1000)
#define TIME_MAX_MS            (3650ULL * 24 * 3600 * 1000) /* a sum with any date still fits */

/* What is idle for less than this is only between two requests. */
#define SLEEP_AFTER_MIN_MS 100
#define TIME_MIN_MS        1000

#define STOP_GRACE_DEFAULT_MS 10000
#define STOP_GRACE_MAX_MS     (3600 * 1000)

/* clang-format off */
#define WORD(member) offsetof(struct settings_times_words, member)
#define TIME(member) offsetof(struct settings_times, member)

static const struct time_rule {
	const char *field;
	size_t word, time; /* where they stand */
	uint64_t min_ms, max_ms;
	bool is_sure; /* it cannot be "never" */
} time_rules[] = {
	{ "sleep_after",  WORD(sleep_after),  TIME(sleep_after),  SLEEP_AFTER_MIN_MS, TIME_MAX_MS },
	{ "max_awake",    WORD(max_awake),    TIME(max_awake),    TIME_MIN_MS, TIME_MAX_MS },
	{ "stop_after",   WORD(stop_after),   TIME(stop_after),   TIME_MIN_MS, TIME_MAX_MS },
	{ "delete_after", WORD(delete_after), TIME(delete_after), TIME_MIN_MS, TIME_MAX_MS },
	{ "stop_grace",   WORD(stop_grace),   TIME(stop_grace),   0, STOP_GRACE_MAX_MS, true },
};

static const char *const mode_names[SLEEP_MODES] = {
	[SLEEP_AUTO]   = "auto",
	[SLEEP_FREEZE] = "freeze",
	[SLEEP_STOP]   = "stop",
};
/* clang-format on */

void settings_times_init(struct settings_times *times)
{
	*times = (struct settings_times){
		.sleep_after = SLEEP_AFTER_DEFAULT_MS,
		.max_awake = SETTINGS_NEVER,
		.stop_after = SETTINGS_NEVER,
		.delete_after = SETTINGS_NEVER,
		.stop_grace = STOP_GRACE_DEFAULT_MS,
	};
}

const char *sleep_mode_name(enum sleep_mode mode)
{
	return mode_names[mode];
}

int sleep_mode_parse(struct str word, enum sleep_mode *ret)
{
	for (size_t i = 0; i < array_len(mode_names); i++) {
		if (str_eq(word, str_of(mode_names[i]))) {
			*ret = (enum sleep_mode)i;
			return 0;
		}
	}
	return -EINVAL;
}

static int read_time(const struct time_rule *rule, struct str word, uint64_t *ret, struct err *err)
{
	char bound[DURATION_TEXT_SIZE];
	uint64_t ms = SETTINGS_NEVER;
	bool is_never = !rule->is_sure && str_eq(word, STR("never"));
	const char *or_never = rule->is_sure ? "" : "\"never\" or ";
	int r = is_never ? 0 : duration_parse(word, &ms);
	bool is_short = r == 0 && ms < rule->min_ms;

	if (r == -EINVAL)
		return err_set(err, r, ERR_INVALID_REQUEST,
			       "%s must be %sa duration such as \"90s\", \"10m\" or \"2h\"",
			       rule->field, or_never);
	if (is_short || r < 0 || (ms > rule->max_ms && !is_never)) {
		duration_format(is_short ? rule->min_ms : rule->max_ms, bound);
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST, "%s must be %sat %s %s",
			       rule->field, or_never, is_short ? "least" : "most", bound);
	}
	*ret = ms;
	return 0;
}

int settings_times_read(const struct settings_times_words *words, struct settings_times *times,
			enum sleep_mode *mode, struct err *err)
{
	struct settings_times read = *times;
	enum sleep_mode read_mode = *mode;

	for (size_t i = 0; i < array_len(time_rules); i++) {
		const struct time_rule *rule = &time_rules[i];
		const struct str *word = (const void *)((const char *)words + rule->word);
		int r = word->at ? read_time(rule, *word, (void *)((char *)&read + rule->time), err)
				 : 0;

		if (r < 0)
			return r;
	}
	if (words->sleep_mode.at && sleep_mode_parse(words->sleep_mode, &read_mode) < 0)
		return err_set(err, -EINVAL, ERR_INVALID_REQUEST,
			       "sleep_mode must be \"auto\", \"freeze\" or \"stop\"");
	*times = read;
	*mode = read_mode;
	return 0;
}

void settings_times_write(const struct settings *settings, struct json_writer *w)
{
	for (size_t i = 0; i < array_len(time_rules); i++) {
		const char *base = (const char *)&settings->times;
		uint64_t ms = *(const uint64_t *)(const void *)(base + time_rules[i].time);
		char text[DURATION_TEXT_SIZE] = "never";

		if (ms != SETTINGS_NEVER)
			duration_format(ms, text);
		json_key(w, time_rules[i].field);
		json_text(w, text);
	}
	json_key(w, "sleep_mode");
	json_text(w, sleep_mode_name(settings->sleep_mode));
	json_key(w, "keep_alive");
	json_bool(w, settings->keep_alive);
}
