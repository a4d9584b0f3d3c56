/* SPDX-License-Identifier: Apache-2.0 */
/* Reads small files of /proc and /sys. The files inspect_*.c call it. */
#ifndef ORI_DOCTOR_FILES_H
#define ORI_DOCTOR_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORI_FILE_PATH 512

struct ori_file_path {
	char text[ORI_FILE_PATH];
};

/* The path of @root followed by the formatted text. */
struct ori_file_path ori_file_path(const char *root, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Read the first line without its newline; false if the file is missing or empty. */
bool ori_file_line(struct ori_file_path path, char *line, size_t length);

/*
 * Read a decimal number, or a hexadecimal one with 0x; -1 if there is none, or if it is negative.
 */
int64_t ori_file_number(struct ori_file_path path);

/* Find the first line that contains @has; false if there is none. */
bool ori_file_find(struct ori_file_path path, const char *has, char *line, size_t length);

bool ori_file_exists(struct ori_file_path path);

/* List the entries of a directory, sorted; -1 if it is missing. ori_file_free() frees @names. */
int ori_file_list(struct ori_file_path path, char ***names);
void ori_file_free(char **names, int count);

#endif
