/* SPDX-License-Identifier: Apache-2.0 */
/* The plate of the heat example as a rose window, and as a PNG file. */
#include <math.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>

#include "heat_picture.h"

struct ring {
	double inner;
	double outer;
	double panes;
	double lamp; /* its radius */
	double heat; /* its temperature */
};

static const struct ring rings[] = {
	{0.00, 0.17, 1, 0.070, 1.00},
	{0.17, 0.42, 8, 0.060, 0.84},
	{0.42, 0.70, 16, 0.050, 1.00},
	{0.70, 0.96, 32, 0.032, 0.80},
};

static const double glass = 0.5, stone = 0.15; /* initial temperatures */
static const double bar = 0.012;               /* width of the lead */

/* A window of the first @count rings around (0, 0). */
static double picture_window(double x, double y, unsigned count, bool *is_fixed)
{
	const double turn = 2 * acos(-1.0);
	double radius = hypot(x, y), angle = atan2(y, x) / turn + 1;
	double pane, along, middle, to_spoke;
	const struct ring *ring = rings;

	*is_fixed = false;
	while (radius > ring->outer)
		if (++ring == rings + count)
			return stone;

	/* Distances to the middle of the pane, along the ring and to its spokes. */
	pane = angle * ring->panes + (ring - rings) % 2 / 2.0;
	along = (pane - floor(pane) - 0.5) * turn / ring->panes;
	to_spoke = ring->panes > 1 ? (turn / ring->panes / 2 - fabs(along)) * radius : radius + bar;
	middle = ring->panes > 1 ? (ring->inner + ring->outer) / 2 : 0;

	*is_fixed = true;
	if (hypot(radius - middle, along * middle) < ring->lamp)
		return ring->heat;
	if (ring->outer - radius < bar || to_spoke < bar / 2)
		return 0;
	*is_fixed = false;
	return glass;
}

double heat_rose(double x, double y, bool *is_fixed)
{
	const double corner_x = 1.12, corner_y = 0.78, shrink = 2;
	double to_corner = hypot(fabs(x) - corner_x, fabs(y) - corner_y);

	if (to_corner * shrink < rings[1].outer)
		return picture_window((fabs(x) - corner_x) * shrink, (fabs(y) - corner_y) * shrink,
				      2, is_fixed);
	return picture_window(x, y, sizeof(rings) / sizeof(rings[0]), is_fixed);
}

/* Colours of 0, 1/8 .. 1, from dark to bright: night, violet, ember, gold, white. */
static const unsigned char colours[][3] = {
	{6, 5, 20},    {38, 16, 78},   {88, 22, 110},  {140, 38, 104},  {190, 55, 82},
	{228, 90, 48}, {248, 142, 28}, {252, 200, 74}, {255, 250, 208},
};

static unsigned char colour_of(double cell, unsigned channel)
{
	const double last = sizeof(colours) / sizeof(colours[0]) - 1;
	double place = fmin(fmax(cell, 0), 1) * last;
	unsigned low = (unsigned)fmin(place, last - 1);
	double part = place - low;

	return (unsigned char)(colours[low][channel] * (1 - part) +
			       colours[low + 1][channel] * part + 0.5);
}

bool heat_write_png(const char *file, unsigned width, unsigned height, const double *cells)
{
	png_image image = {.version = PNG_IMAGE_VERSION,
			   .width = width,
			   .height = height,
			   .format = PNG_FORMAT_RGB};
	size_t i, count = (size_t)width * height;
	unsigned char *pixels = malloc(count * 3);
	bool is_written = false;

	if (!pixels) {
		fprintf(stderr, "heat: no memory for the image\n");
		return false;
	}
	for (i = 0; i < count * 3; i++)
		pixels[i] = colour_of(cells[i / 3], i % 3);
	is_written = png_image_write_to_file(&image, file, 0, pixels, 0, NULL);
	if (!is_written)
		fprintf(stderr, "heat: cannot write %s: %s\n", file, image.message);
	free(pixels);
	return is_written;
}
