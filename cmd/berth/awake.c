#include "cmd/berth/awake.h"

#include <inttypes.h>
#include <time.h>

#include "base/cleanup.h"
#include "proto/time_text.h"

/* A time in short, "4m"; "" where none was told. */
struct span {
	char text[24];
};

int64_t awake_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* In one unit, rounded: who has just said ten minutes wants to read 10m and not 9m. Clocks of two
 * machines may differ: what should be over by now takes no time. */
static struct span span_of(int64_t ms)
{
	int64_t s = ms > 0 ? (ms + 500) / 1000 : 0;
	struct span ret;

	if (s < 60)
		snprintf(ret.text, sizeof(ret.text), "%" PRId64 "s", s);
	else if (s < 3600 - 30)
		snprintf(ret.text, sizeof(ret.text), "%" PRId64 "m", (s + 30) / 60);
	else if (s < 48 * 3600 - 1800)
		snprintf(ret.text, sizeof(ret.text), "%" PRId64 "h", (s + 1800) / 3600);
	else
		snprintf(ret.text, sizeof(ret.text), "%" PRId64 "d", (s + 43200) / 86400);
	return ret;
}

static struct span span_since(struct str at, int64_t now_ms)
{
	struct span ret = {""};
	int64_t ms;

	if (time_text_parse(at, &ms) == 0)
		ret = span_of(now_ms - ms);
	return ret;
}

static struct span span_until(struct str at, int64_t now_ms)
{
	struct span ret = {""};
	int64_t ms;

	if (time_text_parse(at, &ms) == 0)
		ret = span_of(ms - now_ms);
	return ret;
}

static struct screen_text in_words(const char *before, const char *word, const char *after)
{
	struct screen_text ret;

	snprintf(ret.text, sizeof(ret.text), "%s%.100s%s", before, word, after);
	return ret;
}

struct screen_text awake_in_short(const struct sandbox_info *info, int64_t now_ms)
{
	const struct sandbox_hold *holds = info->holds.items;
	struct span until = span_until(info->sleeps_at, now_ms);
	char more[32] = "";

	if (str_eq(info->state, STR("frozen")))
		return in_words("frozen", "", "");
	if (str_eq(info->state, STR("cold")) || str_eq(info->state, STR("failed")))
		return in_words("stopped", "", "");
	if (!str_eq(info->state, STR("running")) || !info->holds_given)
		return in_words("-", "", "");
	if (info->holds.len > 1)
		snprintf(more, sizeof(more), " +%zu", info->holds.len - 1);
	if (info->holds.len)
		return in_words("awake: ", screen_text(holds[0].kind).text, more);
	return until.text[0] ? in_words("sleeps in ", until.text, "") : in_words("awake", "", "");
}

static void print_hold(const char *name, const struct sandbox_hold *hold, int64_t now_ms)
{
	/* clang-format off */
	static const struct {
		const char *kind, *who, *how; /* how long it does what */
		bool is_named;                /* which one it is can be said, and helps */
	} words[] = {
		{ "exec",       "exec",           "has run for",                 true },
		{ "request",    "a request",      "has been under way for",      false },
		{ "process",    "process",        "has been active for",         true },
		{ "terminal",   "terminal",       "has had a viewer for",        true },
		{ "preview",    "a preview",      "has been in use for",         false },
		{ "cpu",        "its processes",  "have used the processor for", false },
		{ "keep_alive", "its keep_alive", "has been set for",            false },
	};
	/* clang-format on */
	struct screen_text who = screen_text(hold->kind), id = screen_text(hold->id);
	bool is_named = hold->id.len;
	const char *how = "has held it for";
	struct span since = span_since(hold->since, now_ms);

	for (size_t i = 0; i < array_len(words); i++) {
		if (str_eq(hold->kind, str_of(words[i].kind))) {
			who = screen_text(str_of(words[i].who));
			how = words[i].how;
			is_named &= words[i].is_named;
		}
	}
	screen_row(name, "%s%s%s%s%s%s%s%s%s%s", who.text, is_named ? " " : "",
		   is_named ? id.text : "", since.text[0] ? " " : "", since.text[0] ? how : "",
		   since.text[0] ? " " : "", since.text, hold->detail.len ? " (" : "",
		   screen_text(hold->detail).text, hold->detail.len ? ")" : "");
}

const char *awake_mode_word(struct str mode)
{
	return str_eq(mode, STR("freeze")) ? "frozen" : "stopped";
}

struct screen_text awake_kept(const struct json_strings *kept)
{
	struct screen_text ret = {""};
	size_t used = 0;

	for (size_t i = 0; i < kept->len && used < sizeof(ret.text) / 2; i++) {
		const char *before = i == 0               ? "; it kept its "
				     : i + 1 == kept->len ? " and "
							  : ", ";

		used += (size_t)snprintf(ret.text + used, sizeof(ret.text) - used, "%s%.100s",
					 before, screen_text(kept->items[i]).text);
	}
	return ret;
}

static void print_last_sleep(const struct sandbox_receipt *sleep, int64_t now_ms)
{
	static const struct {
		const char *reason, *words;
	} reasons[] = {
		{"asked", ", as was asked for"},
		{"idle", ", as it was idle"},
		{"max_awake", ", as its max_awake was over"},
		{"stop_after", ", as it had been frozen for its stop_after"},
		{"capacity", ", to make room for another one"},
		{"memory", ", as the host was short of memory"},
		{"failed", ", as it went away by itself"},
	};
	struct span since = span_since(sleep->at, now_ms);
	const char *why = "";

	for (size_t i = 0; i < array_len(reasons); i++)
		if (str_eq(sleep->reason, str_of(reasons[i].reason)))
			why = reasons[i].words;
	screen_row("last sleep", "%s%s%s%s%s%s", awake_mode_word(sleep->mode),
		   since.text[0] ? " " : "", since.text, since.text[0] ? " ago" : "", why,
		   awake_kept(&sleep->kept).text);
}

static void print_last_wake(const struct sandbox_receipt *wake, int64_t now_ms)
{
	struct span since = span_since(wake->at, now_ms);
	bool is_adopted = str_eq(wake->from, STR("adopted"));

	screen_row("last wake", "%s%s%s%s%s%s, generation %" PRIu64,
		   is_adopted ? "found running by a new berthd" : "from ",
		   is_adopted ? "" : screen_text(wake->from).text, since.text[0] ? " " : "",
		   since.text, since.text[0] ? " ago" : "", awake_kept(&wake->kept).text,
		   wake->generation);
}

void awake_print(const struct sandbox_info *info, int64_t now_ms)
{
	const struct sandbox_hold *holds = info->holds.items;
	struct span until = span_until(info->sleeps_at, now_ms);
	struct span removal = span_until(info->deletes_at, now_ms);
	struct span alarm = span_until(info->next_alarm_at, now_ms);

	for (size_t i = 0; i < info->holds.len; i++)
		print_hold(i ? "" : "awake because", &holds[i], now_ms);
	/* What holds it does not hold against max_awake; but who is busy is so from look to look.
	 */
	if (until.text[0])
		screen_row("sleeps", "in %s%s", until.text,
			   !info->holds.len                    ? " if nothing happens"
			   : str_eq(holds[0].kind, STR("cpu")) ? " unless they go on"
							       : " at the latest");
	if (alarm.text[0])
		screen_row("alarm", "in %s (`berth alarm ls`)", alarm.text);
	if (removal.text[0])
		screen_row("is removed", "in %s if nobody uses it", removal.text);
	if (info->last_sleep.mode.len)
		print_last_sleep(&info->last_sleep, now_ms);
	if (info->last_wake.from.len)
		print_last_wake(&info->last_wake, now_ms);
}
