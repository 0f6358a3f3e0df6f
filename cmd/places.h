/* Where things are if no flag says otherwise; for the help of berth and of berthd. */
#ifndef BERTH_CMD_PLACES_H
#define BERTH_CMD_PLACES_H

#include "cmd/example.h"

extern const struct example places_table[];

#endif
