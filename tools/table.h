/* SPDX-License-Identifier: Apache-2.0 */
/* Text in columns that are as wide as their widest cell. */
#ifndef ORIEL_TABLE_H
#define ORIEL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TABLE_COLUMNS 16

/* All zero is an empty table without columns: set @columns, then add rows. */
struct table {
	unsigned columns;
	size_t rows;
	size_t room;
	char **cells; /* [rows][columns], owned */
};

/* Copies @cells[columns]; false without memory, which leaves the table as it was. */
bool table_add(struct table *table, const char *const *cells);
void table_print(const struct table *table, FILE *to);
void table_free(struct table *table);

#endif
