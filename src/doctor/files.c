/* SPDX-License-Identifier: Apache-2.0 */
/* Implements doctor/files.h. inspect_*.c read /proc and /sys by it. */
#include "doctor/files.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ori_file_path ori_file_path(const char *root, const char *format, ...)
{
	struct ori_file_path path;
	va_list args;
	int used = snprintf(path.text, sizeof(path.text), "%s", root);

	if (used < 0 || (size_t)used >= sizeof(path.text))
		used = 0;
	va_start(args, format);
	vsnprintf(path.text + used, sizeof(path.text) - (size_t)used, format, args);
	va_end(args);
	return path;
}

bool ori_file_find(struct ori_file_path path, const char *has, char *line, size_t length)
{
	FILE *file = fopen(path.text, "re");
	bool is_found = false;

	if (!file)
		return false;
	while (!is_found && fgets(line, (int)length, file))
		is_found = strstr(line, has) != NULL;
	fclose(file);
	if (is_found)
		line[strcspn(line, "\n")] = '\0';
	return is_found;
}

bool ori_file_line(struct ori_file_path path, char *line, size_t length)
{
	return ori_file_find(path, "", line, length) && line[0];
}

int64_t ori_file_number(struct ori_file_path path)
{
	char line[64], *end;
	long long value;

	if (!ori_file_line(path, line, sizeof(line)))
		return -1;
	value = strtoll(line, &end, 0);
	return end == line || value < 0 ? -1 : value;
}

bool ori_file_exists(struct ori_file_path path)
{
	return access(path.text, F_OK) == 0;
}

static int entry_is_visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

int ori_file_list(struct ori_file_path path, char ***names)
{
	struct dirent **entries;
	int count = scandir(path.text, &entries, entry_is_visible, versionsort);

	if (count < 0)
		return -1;
	*names = calloc((size_t)count + 1, sizeof(**names));
	for (int i = 0; i < count; i++) {
		if (*names)
			(*names)[i] = strdup(entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	for (int i = 0; *names && i < count; i++) {
		if (!(*names)[i]) {
			ori_file_free(*names, count);
			return -1;
		}
	}
	return *names ? count : -1;
}

void ori_file_free(char **names, int count)
{
	for (int i = 0; i < count; i++)
		free(names[i]);
	free(names);
}
