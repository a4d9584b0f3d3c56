/* SPDX-License-Identifier: Apache-2.0 */
/* The key of a job that `oriel run` starts: new, or from a descriptor. The job and its hosts call
 * it. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "run.h"
#include "tool.h"

#define KEY_BYTES 32 /* of a new key */
#define KEY_FD "fd:"

static const char *key_variable(const char *name)
{
	const char *text = getenv(name);

	return text ? text : "";
}

/* A descriptor may be a pipe, which only one process can read. */
static int key_read(char text[RUN_KEY_TEXT + 1], const char *number)
{
	char *end;
	unsigned long fd = strtoul(number, &end, 10);
	size_t used = 0;
	ssize_t n = 1;

	if (end == number || *end || fd > INT_MAX) {
		fprintf(stderr,
			"oriel run: ORIEL_JOB_KEY_FILE is 'fd:%s', which is no descriptor\n",
			number);
		return TOOL_FAILED;
	}
	while (n > 0 && used < RUN_KEY_TEXT && !memchr(text, '\n', used)) {
		n = read((int)fd, text + used, RUN_KEY_TEXT - used);
		if (n < 0 && errno == EINTR) {
			n = 1;
		} else if (n < 0) {
			fprintf(stderr,
				"oriel run: cannot read the key of ORIEL_JOB_KEY_FILE: %s\n",
				strerror(errno));
			return TOOL_FAILED;
		} else {
			used += (size_t)n;
		}
	}
	text[used] = '\0';
	text[strcspn(text, " \t\r\n")] = '\0';
	if (fd > STDERR_FILENO)
		close((int)fd);
	if (*text)
		return TOOL_OK;
	fprintf(stderr, "oriel run: ORIEL_JOB_KEY_FILE is 'fd:%s', which has no key\n", number);
	return TOOL_FAILED;
}

int run_key_make(char text[RUN_KEY_TEXT + 1])
{
	const char *key = key_variable("ORIEL_JOB_KEY");
	const char *file = key_variable("ORIEL_JOB_KEY_FILE");
	unsigned char bytes[KEY_BYTES];
	unsigned i;

	/* The ranks read a key that they can read themselves, and say what is wrong with it. */
	text[0] = '\0';
	if (*key && strcmp(key, "required") != 0)
		return TOOL_OK;
	if (*file && strncmp(file, KEY_FD, strlen(KEY_FD)) != 0)
		return TOOL_OK;
	if (*file)
		return key_read(text, file + strlen(KEY_FD));
	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
		fprintf(stderr, "oriel run: cannot get random bytes: %s\n", strerror(errno));
		return TOOL_FAILED;
	}
	for (i = 0; i < KEY_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	return TOOL_OK;
}

void run_key_forget(char text[RUN_KEY_TEXT + 1])
{
	char *key = getenv("ORIEL_JOB_KEY");

	if (key)
		explicit_bzero(key, strlen(key));
	explicit_bzero(text, RUN_KEY_TEXT + 1);
}
