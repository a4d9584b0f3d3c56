/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes ustar archives (POSIX.1-2017, pax, "ustar Interchange Format"), for `oriel field-report`.
 * Owner, group and time are left out: they are names, too.
 */
#include <errno.h>
#include <string.h>

#include "field.h"

#define TAR_BLOCK 512u

/* The fields that are not zero, by their offsets in the format. */
enum {
	TAR_NAME = 0,
	TAR_MODE = 100,
	TAR_UID = 108,
	TAR_GID = 116,
	TAR_SIZE = 124,
	TAR_TIME = 136,
	TAR_SUM = 148,
	TAR_TYPE = 156,
	TAR_MAGIC = 257,
	TAR_NAME_MOST = 100,
};

static void tar_octal(char *to, unsigned digits, size_t value)
{
	for (to += digits; digits; digits--, value >>= 3)
		*--to = (char)('0' + (value & 7));
}

static bool tar_write(FILE *to, const char *data, size_t length)
{
	static const char zeros[TAR_BLOCK];
	size_t rest = (TAR_BLOCK - length % TAR_BLOCK) % TAR_BLOCK;

	return fwrite(data, 1, length, to) == length && fwrite(zeros, 1, rest, to) == rest;
}

bool field_tar_add(FILE *to, const char *name, const char *data, size_t length)
{
	char head[TAR_BLOCK] = {0};
	size_t sum = 0;

	if (strlen(name) >= TAR_NAME_MOST || length >> 33) {
		errno = ENAMETOOLONG;
		return false;
	}
	memcpy(head + TAR_NAME, name, strlen(name));
	tar_octal(head + TAR_MODE, 7, 0644);
	tar_octal(head + TAR_UID, 7, 0);
	tar_octal(head + TAR_GID, 7, 0);
	tar_octal(head + TAR_SIZE, 11, length);
	tar_octal(head + TAR_TIME, 11, 0);
	head[TAR_TYPE] = '0';
	memcpy(head + TAR_MAGIC, "ustar\00000", 8);
	/* The sum counts its own field as blanks. */
	memset(head + TAR_SUM, ' ', 8);
	for (size_t i = 0; i < sizeof(head); i++)
		sum += (unsigned char)head[i];
	tar_octal(head + TAR_SUM, 6, sum);
	head[TAR_SUM + 6] = '\0';
	return tar_write(to, head, sizeof(head)) && tar_write(to, data, length);
}

bool field_tar_end(FILE *to)
{
	static const char zeros[2 * TAR_BLOCK];

	return tar_write(to, zeros, sizeof(zeros)) && fflush(to) == 0;
}
