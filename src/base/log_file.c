/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of ORIEL_LOG_FILE: its name with host and process, opening and lines. base/log.c
 * writes to it.
 */
#include "base/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fork.h"

static struct {
	pthread_mutex_t lock; /* guards the others; nothing else is locked under it */
	char name[ORI_LOG_FILE_NAME];
	int fd; /* -1: none */
	dev_t device;
	ino_t inode;
} file = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

bool ori_log_file_name(const char *pattern, char name[ORI_LOG_FILE_NAME])
{
	char host[256] = "", process[16];
	size_t used = 0, length;
	const char *part;

	(void)gethostname(host, sizeof(host) - 1);
	snprintf(process, sizeof(process), "%d", (int)getpid());
	for (; *pattern; pattern++) {
		part = pattern;
		length = 1;
		if (*pattern == '%') {
			switch (*++pattern) {
			case 'h':
				part = host;
				break;
			case 'p':
				part = process;
				break;
			case '%':
				part = "%";
				break;
			default:
				return false;
			}
			length = strlen(part);
		}
		if (length >= ORI_LOG_FILE_NAME - used)
			return false;
		memcpy(name + used, part, length);
		used += length;
	}
	name[used] = '\0';
	return true;
}

static void file_explain(char why[ORI_LOG_FILE_WHY])
{
	char text[ORI_LOG_FILE_WHY];

	snprintf(why, ORI_LOG_FILE_WHY, "%s", strerror_r(errno, text, sizeof(text)));
}

/*
 * Is the descriptor still that of the file? A program may have closed every descriptor that it
 * did not open, and then opened a file of its own under that number.
 */
static bool file_is_open_locked(void)
{
	struct stat st;

	return file.fd >= 0 && fstat(file.fd, &st) == 0 && st.st_dev == file.device &&
	       st.st_ino == file.inode;
}

/* O_NONBLOCK: open() would wait for the reader of a FIFO. */
static bool file_open_locked(const char *name, char why[ORI_LOG_FILE_WHY])
{
	const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	struct stat st = {0};

	if (file_is_open_locked()) {
		if (strcmp(name, file.name) == 0)
			return true;
		close(file.fd);
	}
	file.fd = open(name, flags | O_NOCTTY, S_IRUSR | S_IWUSR);
	if (file.fd >= 0 && fstat(file.fd, &st) == 0 && S_ISREG(st.st_mode)) {
		memcpy(file.name, name, sizeof(file.name));
		file.device = st.st_dev;
		file.inode = st.st_ino;
		return true;
	}
	if (file.fd >= 0)
		snprintf(why, ORI_LOG_FILE_WHY, "it is not a regular file");
	else if (errno == ELOOP)
		snprintf(why, ORI_LOG_FILE_WHY, "it is a symbolic link");
	else
		file_explain(why);
	if (file.fd >= 0)
		close(file.fd);
	file.fd = -1;
	return false;
}

static bool file_write_locked(const char *lines, size_t length, char why[ORI_LOG_FILE_WHY])
{
	ssize_t n;

	if (!length)
		return true;
	do {
		n = write(file.fd, lines, length);
	} while (n < 0 && errno == EINTR);
	if (n == (ssize_t)length)
		return true;
	if (n >= 0)
		errno = ENOSPC; /* the file system took a part */
	file_explain(why);
	return false;
}

bool ori_log_file_write(const char *pattern, const char *lines, size_t length,
			char why[ORI_LOG_FILE_WHY])
{
	static const struct ori_fork_hook hook = {.lock = &file.lock};
	char name[ORI_LOG_FILE_NAME] = "";
	bool is_done;

	if (!ori_log_file_name(pattern, name)) {
		snprintf(why, ORI_LOG_FILE_WHY, "its name is invalid");
		return false;
	}
	ori_fork_add(ORI_FORK_LOG_FILE, &hook);
	pthread_mutex_lock(&file.lock);
	is_done = file_open_locked(name, why) && file_write_locked(lines, length, why);
	pthread_mutex_unlock(&file.lock);
	return is_done;
}
