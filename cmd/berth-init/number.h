/* Numbers as text, without printf. */
#ifndef BERTH_INIT_NUMBER_H
#define BERTH_INIT_NUMBER_H

#include <stddef.h>

#define NUMBER_SIZE 12 /* an int's longest text and its NUL */

/* Returns the length of the text. */
static inline size_t number_put(char at[NUMBER_SIZE], int number)
{
	unsigned rest = number < 0 ? 0u - (unsigned)number : (unsigned)number;
	char digits[NUMBER_SIZE];
	size_t count = 0, len = 0;

	do
		digits[count++] = (char)('0' + rest % 10);
	while (rest /= 10);
	if (number < 0)
		at[len++] = '-';
	while (count)
		at[len++] = digits[--count];
	at[len] = '\0';
	return len;
}

#endif
