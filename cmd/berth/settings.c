#include "cmd/berth/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "proto/json.h"
#include "proto/settings.h"
#include "proto/units.h"

/* Nothing else that strtod() takes: "0x1", "1e3", "inf", blanks. */
static bool parse_decimal(const char *text, double max, double *ret)
{
	char *end;

	errno = 0;
	*ret = strtod(text, &end);
	return !errno && end != text && !text[strspn(text, "0123456789.")] && !*end && *ret <= max;
}

static int parse_cpus(const char *text, double *ret, struct err *err)
{
	if (!parse_decimal(text, 1000, ret))
		return err_set(err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
			       "--cpus wants a number such as 1.5, or 0 for the default");
	return 0;
}

static int parse_threshold(const char *text, double *ret, struct err *err)
{
	if (!parse_decimal(text, 1, ret))
		return err_set(err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
			       "--memory-threshold wants a part of the memory such as 0.8, or 0 "
			       "for none");
	return 0;
}

static int parse_cpu_time(const char *text, uint64_t *ret, struct err *err)
{
	*ret = 0;
	if (strcmp(text, "0") != 0 &&
	    (duration_parse(str_of(text), ret) < 0 || *ret > INT64_MAX / 1000))
		return err_set(err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
			       "--cpu-time wants a duration such as 500ms, 30s or 10m, or 0 for "
			       "as much as it likes");
	return 0;
}

static int parse_count(const char *flag, const char *text, int64_t *ret, struct err *err)
{
	char *end;

	errno = 0;
	*ret = strtol(text, &end, 10);
	if (errno || end == text || *end || *ret < 0 || *ret > UINT32_MAX)
		return err_set(err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
			       "%s wants a number such as 256, or 0 for the default", flag);
	return 0;
}

static int check_duration(const char *flag, const char *text, struct err *err)
{
	uint64_t ms;

	if (!text || str_eq(str_of(text), STR("never")) || duration_parse(str_of(text), &ms) == 0)
		return 0;
	return err_set(err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
		       "%s wants a duration such as 30s, 10m or 2h, or never", flag);
}

static int check_size(const char *flag, const char *text, const char *such, struct err *err)
{
	uint64_t bytes;

	if (!text || size_parse(str_of(text), &bytes) == 0)
		return 0;
	return err_set(err, -EDESTADDRREQ, ERR_INVALID_REQUEST, "%s wants a size such as %s", flag,
		       such);
}

/* Only whether they can mean anything: how much is too much the daemon knows. */
static int check_words(const struct settings_flags *flags, struct err *err)
{
	const struct {
		const char *flag, *text;
	} durations[] = {
		{"--sleep-after", flags->sleep_after}, {"--max-awake", flags->max_awake},
		{"--stop-after", flags->stop_after},   {"--delete-after", flags->delete_after},
		{"--stop-grace", flags->stop_grace},
	};
	const struct {
		const char *flag, *text, *such;
	} sizes[] = {
		{"--memory", flags->memory, "512M or 2G, or 0 for the default"},
		{"--disk", flags->disk, "512M or 10G, or 0 for the default"},
		{"--io-read", flags->io_read, "1M or 10M, or 0 for any speed"},
		{"--io-write", flags->io_write, "1M or 10M, or 0 for any speed"},
	};
	enum sleep_mode mode;
	enum trust trust;
	int r = 0;

	for (size_t i = 0; i < array_len(durations) && r == 0; i++)
		r = check_duration(durations[i].flag, durations[i].text, err);
	for (size_t i = 0; i < array_len(sizes) && r == 0; i++)
		r = check_size(sizes[i].flag, sizes[i].text, sizes[i].such, err);
	if (r == 0 && flags->sleep_mode && sleep_mode_parse(str_of(flags->sleep_mode), &mode) < 0)
		r = err_set(err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
			    "--sleep-mode wants freeze, stop or auto");
	if (r == 0 && flags->trust && trust_parse(str_of(flags->trust), &trust) < 0)
		r = err_set(err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
			    "--trust wants high, medium, low or untrusted");
	return r;
}

static void write_text(struct json_writer *w, const char *key, const char *value)
{
	if (!value)
		return;
	json_key(w, key);
	json_text(w, value);
}

static void write_switch(struct json_writer *w, const char *key, bool is_given)
{
	if (!is_given)
		return;
	json_key(w, key);
	json_bool(w, true);
}

struct numbers {
	double cpus, memory_threshold;
	int64_t pids, inodes, io_read_ops, io_write_ops;
	uint64_t cpu_time_ms;
};

static int parse_numbers(const struct settings_flags *flags, struct numbers *ret, struct err *err)
{
	int r = 0;

	if (flags->cpus)
		r = parse_cpus(flags->cpus, &ret->cpus, err);
	if (r == 0 && flags->pids)
		r = parse_count("--pids", flags->pids, &ret->pids, err);
	if (r == 0 && flags->memory_threshold)
		r = parse_threshold(flags->memory_threshold, &ret->memory_threshold, err);
	if (r == 0 && flags->cpu_time)
		r = parse_cpu_time(flags->cpu_time, &ret->cpu_time_ms, err);
	if (r == 0 && flags->inodes)
		r = parse_count("--inodes", flags->inodes, &ret->inodes, err);
	if (r == 0 && flags->io_read_ops)
		r = parse_count("--io-read-ops", flags->io_read_ops, &ret->io_read_ops, err);
	if (r == 0 && flags->io_write_ops)
		r = parse_count("--io-write-ops", flags->io_write_ops, &ret->io_write_ops, err);
	return r;
}

static bool has_limits(const struct settings_flags *f)
{
	return f->memory || f->memory_threshold || f->cpus || f->cpu_time || f->pids || f->disk ||
	       f->inodes || f->io_read || f->io_write || f->io_read_ops || f->io_write_ops;
}

static void write_count(struct json_writer *w, const char *key, const char *flag, int64_t value)
{
	if (!flag)
		return;
	json_key(w, key);
	json_int(w, value);
}

static void write_limits(struct json_writer *w, const struct settings_flags *flags,
			 const struct numbers *numbers)
{
	if (!has_limits(flags))
		return;
	json_key(w, "limits");
	json_object(w);
	write_text(w, "memory", flags->memory);
	if (flags->memory_threshold) {
		json_key(w, "memory_threshold");
		json_double(w, numbers->memory_threshold);
	}
	if (flags->cpus) {
		json_key(w, "cpus");
		json_double(w, numbers->cpus);
	}
	if (flags->cpu_time) {
		json_key(w, "cpu_time_ms");
		json_int(w, (int64_t)numbers->cpu_time_ms);
	}
	write_count(w, "pids", flags->pids, numbers->pids);
	write_text(w, "disk", flags->disk);
	write_count(w, "inodes", flags->inodes, numbers->inodes);
	write_text(w, "io_read", flags->io_read);
	write_text(w, "io_write", flags->io_write);
	write_count(w, "io_read_ops", flags->io_read_ops, numbers->io_read_ops);
	write_count(w, "io_write_ops", flags->io_write_ops, numbers->io_write_ops);
	json_object_end(w);
}

int settings_limits_write(struct json_writer *w, const struct settings_flags *flags,
			  struct err *err)
{
	struct numbers numbers = {0};
	int r = check_words(flags, err);

	if (r == 0)
		r = parse_numbers(flags, &numbers, err);
	if (r == 0)
		write_limits(w, flags, &numbers);
	return r;
}

int settings_unwritten(int error, struct err *err)
{
	if (error == -ENOMEM)
		return err_set(err, error, ERR_INTERNAL, "out of memory");
	return err_set(err, -EDESTADDRREQ, ERR_INVALID_REQUEST,
		       error == -EILSEQ ? "the arguments are no text (UTF-8)"
					: "the arguments are too long");
}

int settings_body(const struct settings_flags *flags, const char *id, bool start, struct buf *out,
		  struct err *err)
{
	cleanup(json_writer_close) struct json_writer w;
	struct numbers numbers = {0};
	int r = check_words(flags, err);

	json_writer_init(&w, false);
	if (r == 0)
		r = parse_numbers(flags, &numbers, err);
	if (r < 0)
		return r;
	json_object(&w);
	write_text(&w, "id", id);
	write_text(&w, "image", flags->image);
	write_text(&w, "trust", flags->trust);
	write_limits(&w, flags, &numbers);
	write_text(&w, "sleep_after", flags->sleep_after);
	write_text(&w, "sleep_mode", flags->sleep_mode);
	write_text(&w, "max_awake", flags->max_awake);
	write_text(&w, "stop_after", flags->stop_after);
	write_text(&w, "delete_after", flags->delete_after);
	write_text(&w, "stop_grace", flags->stop_grace);
	write_switch(&w, "keep_alive", flags->keep_alive);
	write_switch(&w, "hold_open_sockets", flags->hold_open_sockets);
	write_switch(&w, "read_only", flags->read_only);
	write_switch(&w, "ephemeral", flags->ephemeral);
	write_switch(&w, "start", start);
	r = mounts_write(&flags->mounts, &w, err);
	json_object_end(&w);
	if (r < 0)
		return r;
	r = json_writer_end(&w, out);
	return r < 0 ? settings_unwritten(r, err) : 0;
}
