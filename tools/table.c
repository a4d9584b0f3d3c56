/* SPDX-License-Identifier: Apache-2.0 */
/* Prints columns, each as wide as its widest cell. The tools call it. */
#include "table.h"

#include <stdlib.h>
#include <string.h>

static bool table_grow(struct table *table)
{
	size_t room = table->room ? 2 * table->room : 32;
	char **cells;

	if (table->rows < table->room)
		return true;
	cells = realloc(table->cells, room * table->columns * sizeof(*cells));
	if (!cells)
		return false;
	table->cells = cells;
	table->room = room;
	return true;
}

bool table_add(struct table *table, const char *const *cells)
{
	char **row;
	unsigned i;

	if (!table_grow(table))
		return false;
	row = table->cells + table->rows * table->columns;
	for (i = 0; i < table->columns; i++) {
		row[i] = strdup(cells[i]);
		if (row[i])
			continue;
		while (i-- > 0)
			free(row[i]);
		return false;
	}
	table->rows++;
	return true;
}

static int table_width(const struct table *table, unsigned column)
{
	size_t width = 0;
	size_t row;

	for (row = 0; row < table->rows; row++) {
		size_t length = strlen(table->cells[row * table->columns + column]);

		width = length > width ? length : width;
	}
	return (int)width;
}

void table_print(const struct table *table, FILE *to)
{
	int widths[TABLE_COLUMNS];
	unsigned column;
	size_t row;

	for (column = 0; column < table->columns; column++)
		widths[column] = table_width(table, column);
	for (row = 0; row < table->rows; row++) {
		char **cells = table->cells + row * table->columns;

		for (column = 0; column + 1 < table->columns; column++)
			fprintf(to, "  %-*s", widths[column], cells[column]);
		fprintf(to, "  %s\n", cells[column]);
	}
}

void table_free(struct table *table)
{
	size_t i;

	for (i = 0; i < table->rows * table->columns; i++)
		free(table->cells[i]);
	free(table->cells);
}
