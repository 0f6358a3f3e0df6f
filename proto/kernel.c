#include "proto/kernel.h"

#include <errno.h>

#include "base/cleanup.h"

static const char *const names[KERNEL_LANGUAGE_COUNT] = {
	[KERNEL_PYTHON] = "python",
	[KERNEL_JAVASCRIPT] = "javascript",
	[KERNEL_TYPESCRIPT] = "typescript",
	[KERNEL_BASH] = "bash",
};

static const struct {
	const char *name;
	enum kernel_language language;
} short_names[] = {
	{"py", KERNEL_PYTHON},       {"python3", KERNEL_PYTHON}, {"js", KERNEL_JAVASCRIPT},
	{"node", KERNEL_JAVASCRIPT}, {"ts", KERNEL_TYPESCRIPT},  {"sh", KERNEL_BASH},
	{"shell", KERNEL_BASH},
};

const char *kernel_language_name(enum kernel_language language)
{
	return names[language];
}

int kernel_language_find(struct str name)
{
	for (int i = 0; i < KERNEL_LANGUAGE_COUNT; i++) {
		if (str_eq(name, str_of(names[i])))
			return i;
	}
	for (size_t i = 0; i < array_len(short_names); i++) {
		if (str_eq(name, str_of(short_names[i].name)))
			return (int)short_names[i].language;
	}
	return -EINVAL;
}

static void write_env(struct json_writer *w, const struct kernel_order *order)
{
	const struct json_map *env = &order->env;

	if (!env->len && !order->env_given)
		return;
	json_key(w, "env");
	json_object(w);
	for (size_t i = 0; i < env->len; i++) {
		json_key_str(w, env->items[i].key);
		json_str(w, env->items[i].value);
	}
	json_object_end(w);
}

static void write_code(struct json_writer *w, const struct kernel_order *order)
{
	json_key(w, order->kind == KERNEL_LOAD ? "load" : "code");
	json_str(w, order->code);
	json_str_if_any(w, "file", order->file);
	json_str_if_any(w, "cwd", order->cwd);
	write_env(w, order);
	if (order->language == KERNEL_TYPESCRIPT)
		json_str_if_any(w, "language", str_of(names[order->language]));
}

static void write_invoke(struct json_writer *w, const struct kernel_order *order)
{
	json_key(w, "invoke");
	json_object(w);
	json_raw_if_any(w, "input", order->input);
	json_raw_if_any(w, "request", order->request);
	json_object_end(w);
}

int kernel_order_write(const struct kernel_order *order, struct buf *out)
{
	struct json_writer w;
	struct buf line;
	int r;

	buf_init(&line, KERNEL_LINE_MAX);
	json_writer_init(&w, false);
	json_object(&w);
	json_key(&w, "call");
	json_int(&w, (int64_t)order->call);
	if (order->kind == KERNEL_INVOKE)
		write_invoke(&w, order);
	else
		write_code(&w, order);
	json_object_end(&w);
	r = json_writer_end(&w, &line);
	json_writer_close(&w);
	if (r == 0)
		r = buf_append_str(&line, STR("\n"));
	if (r == 0)
		r = buf_append(out, buf_at(&line), buf_len(&line));
	buf_close(&line);
	return r;
}
