/* SPDX-License-Identifier: Apache-2.0 */
/* Small files of /proc and /sys. */
#ifndef ORI_DOCTOR_FILES_H
#define ORI_DOCTOR_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORI_FILE_PATH 512

struct ori_file_path {
	char text[ORI_FILE_PATH];
};

/* @root and what @format makes. */
struct ori_file_path ori_file_path(const char *root, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The first line without its end; false if there is no such file or nothing in it. */
bool ori_file_line(struct ori_file_path path, char *line, size_t length);

/* Decimal, or hexadecimal with 0x; -1 if it is none, or negative. */
int64_t ori_file_number(struct ori_file_path path);

/* A line that @has text; false if there is none. */
bool ori_file_find(struct ori_file_path path, const char *has, char *line, size_t length);

bool ori_file_exists(struct ori_file_path path);

/* Entries of a folder, in order of name. -1 without it; names are freed by the other. */
int ori_file_list(struct ori_file_path path, char ***names);
void ori_file_free(char **names, int count);

#endif
