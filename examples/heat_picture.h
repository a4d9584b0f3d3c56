/* SPDX-License-Identifier: Apache-2.0 */
/* The plate of the heat example, and its image. */
#ifndef HEAT_PICTURE_H
#define HEAT_PICTURE_H

#include <stdbool.h>

/*
 * A rose window of radius 1: the temperature at a point, and whether it is fixed there: lead bars
 * are cold, each pane has a lamp behind it.
 */
double heat_rose(double x, double y, bool *is_fixed);

/* Cells from 0 (dark) to 1 (bright). A failure is reported on standard error. */
bool heat_write_png(const char *file, unsigned width, unsigned height, const double *cells);

#endif
