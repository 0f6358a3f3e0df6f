/* The three descriptors that every program counts on. */
#ifndef BERTH_BASE_DESCRIPTORS_H
#define BERTH_BASE_DESCRIPTORS_H

/*
 * Opens /dev/null on each of 0, 1 and 2 that is closed: else the next file or socket would get its
 * number, and be written to by a log or closed by a library. First thing in main().
 */
int descriptors_fill_standard(void);

/* Puts /dev/null in its place. */
int descriptors_silence(int fd);

#endif
