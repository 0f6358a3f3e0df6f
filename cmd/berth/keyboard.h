/*
 * The terminal that we were started on, while a program elsewhere has it: raw, until it is given
 * back; and the keys that leave that program without ending it.
 */
#ifndef BERTH_CMD_KEYBOARD_H
#define BERTH_CMD_KEYBOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

#include "base/str.h"

#define KEYBOARD_KEYS_MAX 16
#define KEYBOARD_USUAL    "ctrl-p,ctrl-q"

struct keyboard {
	struct termios before;
	bool is_raw;
	bool is_alternate; /* the program shows its other screen */
	bool is_styled;    /* it has printed more than plain text */
	char tail[8];      /* of what was printed: a sequence may come in two pieces */
	char keys[KEYBOARD_KEYS_MAX];
	size_t keys_len, matched;
};

/* "ctrl-p,ctrl-q", single characters too; "": none. -EINVAL. */
int keyboard_init(struct keyboard *keyboard, const char *keys);

/* 0 or a negative errno: -ENOTTY when standard input is no terminal. Again after it was given back,
 * it has the screen that it had. */
int keyboard_take(struct keyboard *keyboard);
/* As it was before; also the screen, if its program has left it in the middle of something. */
void keyboard_give_back(struct keyboard *keyboard);

/*
 * What of the typed bytes is for the program, into `ret`, which has room for KEYBOARD_KEYS_MAX
 * more. True: those were the keys to leave.
 */
bool keyboard_filter(struct keyboard *keyboard, struct str typed, char *ret, size_t *ret_len);

/* Looks at what the program prints. */
void keyboard_watch(struct keyboard *keyboard, struct str printed);

#endif
