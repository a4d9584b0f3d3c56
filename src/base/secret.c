/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages for secrets, and variables of the environment that have one. The store of the job key, TLS,
 * the bootstrap, the software HCA and new ranks call it.
 */
#include "base/secret.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#define SECRET_STAT 4096

void *ori_secret_alloc(size_t length)
{
	void *secret =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (secret == MAP_FAILED)
		return NULL;
	/*
	 * madvise(2): DONTDUMP since Linux 3.4. A kernel that refuses it must not end the job: the
	 * key is then as safe as any other memory of the process. A child of fork() keeps the key,
	 * for jobs of its own.
	 */
	(void)madvise(secret, length, MADV_DONTDUMP);
	return secret;
}

void ori_secret_free(void *secret, size_t length)
{
	if (!secret)
		return;
	explicit_bzero(secret, length);
	munmap(secret, length);
}

/* A string of putenv() may be constant. The kernel writes there only if the process may, too. */
static bool secret_is_writable(char *text, size_t length)
{
	char first = text[0], last = text[length - 1];
	bool is_writable = getrandom(text + length - 1, 1, GRND_NONBLOCK) == 1 &&
			   getrandom(text, 1, GRND_NONBLOCK) == 1;

	if (is_writable) {
		text[0] = first;
		text[length - 1] = last;
	}
	return is_writable;
}

/* The fields of /proc/self/stat behind the name of the program, which is in parentheses. */
static bool secret_initial_environment(char **start, char **end)
{
	char stat[SECRET_STAT], *at;
	unsigned long first, behind;
	unsigned field;
	ssize_t n;
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);

	n = fd < 0 ? -1 : read(fd, stat, sizeof(stat) - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return false;
	stat[n] = '\0';
	at = strrchr(stat, ')');
	/* proc_pid_stat(5): state is field 3, env_start 50, env_end 51, since Linux 3.5. */
	for (field = 2; at && field < 50; field++)
		at = strchr(at + 1, ' ');
	if (!at || sscanf(at, "%lu %lu", &first, &behind) != 2 || !first || behind <= first)
		return false;
	*start = (char *)(uintptr_t)first;
	*end = (char *)(uintptr_t)behind;
	return true;
}

/*
 * A variable that was set anew since the program began lies elsewhere, but /proc/self/environ
 * still shows the first one. The kernel itself leaves the strings where they are.
 */
static void secret_scrub_initial(const char *name)
{
	size_t length = strlen(name);
	char *at, *end, *next;

	if (!secret_initial_environment(&at, &end))
		return;
	for (; at < end; at = next + 1) {
		next = memchr(at, '\0', (size_t)(end - at));
		if (!next)
			return;
		if ((size_t)(next - at) > length + 1 && strncmp(at, name, length) == 0 &&
		    at[length] == '=' &&
		    secret_is_writable(at + length + 1, next - at - length - 1))
			explicit_bzero(at + length + 1, (size_t)(next - at) - length - 1);
	}
}

void ori_secret_scrub(const char *name)
{
	size_t length = strlen(name);
	bool is_left = false;
	char **variable;

	for (variable = environ; variable && *variable; variable++) {
		char *value = *variable + length + 1;

		if (strncmp(*variable, name, length) != 0 || (*variable)[length] != '=' || !*value)
			continue;
		if (secret_is_writable(value, strlen(value)))
			explicit_bzero(value, strlen(value));
		else
			is_left = true;
	}
	if (is_left)
		(void)setenv(name, "", 1);
	secret_scrub_initial(name);
}
