/* SPDX-License-Identifier: Apache-2.0 */
/* Prints text in columns, each as wide as its widest cell. The tools' tables use it. */
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

/* Copies @cells[columns]; false without memory, and the table is unchanged. */
bool table_add(struct table *table, const char *const *cells);
void table_print(const struct table *table, FILE *to);
void table_free(struct table *table);

#endif
