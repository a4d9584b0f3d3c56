/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of the job key's text: it takes the text from the environment, a file or a descriptor.
 * net/key.c and config.c call it.
 */
#include "base/job_key.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config_table.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/secret.h"

#define KEY_NAME "ORIEL_JOB_KEY"
#define KEY_FILE_NAME "ORIEL_JOB_KEY_FILE"

enum key_source {
	KEY_FROM_NOTHING,
	KEY_FROM_ENVIRONMENT,
	KEY_FROM_DESCRIPTOR,
	KEY_FROM_FILE,
};

static struct {
	pthread_mutex_t lock;
	enum key_source source;
	char *text;                         /* secret memory, [ORI_JOB_KEY_TEXT] */
	char path[ORI_CONFIG_TEXT_MAX + 1]; /* the file it was read from */
} key_store = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *key_variable(enum ori_setting which)
{
	return getenv(ori_config_entries[which].name);
}

static bool key_is_word(const char *text, const char *word)
{
	return text && strcmp(text, word) == 0;
}

static bool key_is_digits(const char *text)
{
	return text && *text && !key_is_word(text, ORI_CONFIG_REQUIRED) &&
	       !key_is_word(text, ORI_CONFIG_NO_KEY);
}

static void key_forget_locked(void)
{
	if (key_store.text)
		explicit_bzero(key_store.text, ORI_JOB_KEY_TEXT);
	key_store.source = KEY_FROM_NOTHING;
}

static enum oriel_status key_keep_locked(enum key_source source, const char *text)
{
	if (!key_store.text)
		key_store.text = ori_secret_alloc(ORI_JOB_KEY_TEXT);
	if (!key_store.text)
		return ori_fail_nomem(ORI_JOB_KEY_TEXT, "the job key");
	key_forget_locked();
	memcpy(key_store.text, text, strlen(text));
	key_store.source = source;
	return ORIEL_OK;
}

static enum oriel_status key_is_malformed(const char *where)
{
	return ori_fail(ORIEL_ERR_CONFIG, "%s may be %s, but is not", where,
			ori_config_entries[ORI_SETTING_JOB_KEY].may_be);
}

/* A process may not wait for ever for a pipe that has no writer. */
static bool key_wait(int fd, uint64_t deadline)
{
	struct pollfd polled = {.fd = fd, .events = POLLIN};
	int n;

	do
		n = poll(&polled, 1, 100);
	while ((n == 0 || (n < 0 && errno == EINTR)) && !ori_deadline_passed(deadline));
	if (n == 0)
		errno = ETIMEDOUT;
	return n > 0;
}

/*
 * Read up to a newline or the end; a file from its beginning, since the ranks of a job may share
 * the descriptor. False, with errno.
 */
static bool key_read_all(int fd, char *text, size_t size)
{
	bool is_file = lseek(fd, 0, SEEK_CUR) >= 0;
	uint64_t limit = ORIEL_TIMEOUT_INFINITE, deadline;
	size_t used = 0;
	ssize_t n;

	(void)ori_config_timeout(ori_setting_text(ORI_SETTING_TIMEOUT), &limit);
	deadline = ori_deadline(limit);
	while (used < size - 1 && !memchr(text, '\n', used)) {
		if (!is_file && !key_wait(fd, deadline))
			return false;
		n = is_file ? pread(fd, text + used, size - 1 - used, (off_t)used)
			    : read(fd, text + used, size - 1 - used);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return false;
		if (n == 0)
			break;
		used += n > 0 ? (size_t)n : 0;
	}
	while (used && strchr(" \t\r\n", text[used - 1]))
		used--;
	explicit_bzero(text + used, size - used);
	return true;
}

static enum oriel_status key_keep_read_locked(enum key_source source, const char *where, int fd)
{
	char text[ORI_JOB_KEY_TEXT + 64];
	enum oriel_status status;

	if (!key_read_all(fd, text, sizeof(text)))
		status = ori_fail_errno(ORIEL_ERR_CONFIG, "cannot read the key of %s '%s'",
					KEY_FILE_NAME, where);
	else if (!key_is_digits(text) ||
		 !ori_config_is_valid(&ori_config_entries[ORI_SETTING_JOB_KEY], text))
		status = ori_fail(ORIEL_ERR_CONFIG,
				  "%s '%s' may have an even number of hex digits, 32 to 254, but "
				  "has other text, or none",
				  KEY_FILE_NAME, where);
	else
		status = key_keep_locked(source, text);
	explicit_bzero(text, sizeof(text));
	return status;
}

/* A file that others can read is no secret, and one that they can write is not this user's. */
static enum oriel_status key_check_file(const char *path, int fd)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return ori_fail_errno(ORIEL_ERR_CONFIG, "%s: cannot examine '%s'", KEY_FILE_NAME,
				      path);
	if (!S_ISREG(st.st_mode))
		return ori_fail(ORIEL_ERR_CONFIG, "%s: '%s' is no regular file", KEY_FILE_NAME,
				path);
	if (st.st_uid != geteuid())
		return ori_fail(ORIEL_ERR_CONFIG,
				"%s: '%s' belongs to user %u, but this process is of user %u",
				KEY_FILE_NAME, path, (unsigned)st.st_uid, (unsigned)geteuid());
	if (st.st_mode & (S_IRWXG | S_IRWXO))
		return ori_fail(ORIEL_ERR_CONFIG,
				"%s: '%s' has mode %04o, which gives rights to the group or to "
				"others: chmod 600 it",
				KEY_FILE_NAME, path, (unsigned)(st.st_mode & 07777));
	return ORIEL_OK;
}

static enum oriel_status key_take_file_locked(const char *path)
{
	enum oriel_status status;
	int fd;

	if (key_store.source == KEY_FROM_FILE && strcmp(key_store.path, path) == 0 &&
	    key_store.text[0])
		return ORIEL_OK;
	/* The open of a FIFO without a writer would wait; it is refused below. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return ori_fail_errno(ORIEL_ERR_CONFIG, "%s: cannot open '%s'", KEY_FILE_NAME,
				      path);
	status = key_check_file(path, fd);
	if (status == ORIEL_OK)
		status = key_keep_read_locked(KEY_FROM_FILE, path, fd);
	close(fd);
	if (status == ORIEL_OK)
		snprintf(key_store.path, sizeof(key_store.path), "%s", path);
	return status;
}

/* The number is of no use once the key is read, and children of the process shall not have it. */
static enum oriel_status key_take_descriptor_locked(const char *file)
{
	uint64_t fd = 0;
	enum oriel_status status;

	(void)ori_config_digits(file + strlen(ORI_CONFIG_KEY_FD), INT32_MAX, &fd);
	status = key_keep_read_locked(KEY_FROM_DESCRIPTOR, file, (int)fd);
	if (status != ORIEL_OK)
		return status;
	if (fd > STDERR_FILENO)
		close((int)fd);
	ori_secret_scrub(KEY_FILE_NAME);
	return ORIEL_OK;
}

static enum oriel_status key_check_locked(void)
{
	const char *text = key_variable(ORI_SETTING_JOB_KEY);
	const char *file = key_variable(ORI_SETTING_JOB_KEY_FILE);

	if (text && *text && !ori_config_is_valid(&ori_config_entries[ORI_SETTING_JOB_KEY], text))
		return key_is_malformed(KEY_NAME);
	if (key_is_digits(text) && file && *file)
		return ori_fail(ORIEL_ERR_CONFIG,
				"%s and %s are both set: only one of them may have the key",
				KEY_NAME, KEY_FILE_NAME);
	return ORIEL_OK;
}

/* Does the environment still have the variable that the stored key came from, emptied? */
static bool key_is_stored_locked(const char *text, const char *file)
{
	if (key_store.source == KEY_FROM_ENVIRONMENT)
		return text && !*text;
	return key_store.source == KEY_FROM_DESCRIPTOR && file && !*file;
}

/* Make the store what the settings say. */
static enum oriel_status key_take_locked(void)
{
	const char *text = key_variable(ORI_SETTING_JOB_KEY);
	const char *file = key_variable(ORI_SETTING_JOB_KEY_FILE);
	enum oriel_status status = key_check_locked();

	if (status != ORIEL_OK)
		return status;
	if (key_is_digits(text)) {
		status = key_keep_locked(KEY_FROM_ENVIRONMENT, text);
		if (status == ORIEL_OK)
			ori_secret_scrub(KEY_NAME);
		return status;
	}
	if (file && *file)
		return strncmp(file, ORI_CONFIG_KEY_FD, strlen(ORI_CONFIG_KEY_FD)) == 0
			       ? key_take_descriptor_locked(file)
			       : key_take_file_locked(file);
	if (!key_is_stored_locked(text, file))
		key_forget_locked();
	return ORIEL_OK;
}

static void key_lock(void)
{
	static const struct ori_fork_hook hook = {.lock = &key_store.lock};

	ori_fork_add(ORI_FORK_KEY, &hook);
	pthread_mutex_lock(&key_store.lock);
}

enum oriel_status ori_job_key_text(char text[ORI_JOB_KEY_TEXT])
{
	enum oriel_status status;

	key_lock();
	status = key_take_locked();
	memset(text, 0, ORI_JOB_KEY_TEXT);
	if (status == ORIEL_OK && key_store.source != KEY_FROM_NOTHING)
		memcpy(text, key_store.text, ORI_JOB_KEY_TEXT);
	pthread_mutex_unlock(&key_store.lock);
	return status;
}

enum oriel_status ori_job_key_check(void)
{
	enum oriel_status status;

	key_lock();
	status = key_check_locked();
	pthread_mutex_unlock(&key_store.lock);
	return status;
}

bool ori_job_key_is_set(void)
{
	const char *text, *file;
	bool is_set;

	key_lock();
	text = key_variable(ORI_SETTING_JOB_KEY);
	file = key_variable(ORI_SETTING_JOB_KEY_FILE);
	is_set = key_is_digits(text) || (file && *file) || key_is_stored_locked(text, file);
	pthread_mutex_unlock(&key_store.lock);
	return is_set;
}

static bool key_variable_is(const char *word)
{
	bool is_word;

	key_lock();
	is_word = key_is_word(key_variable(ORI_SETTING_JOB_KEY), word);
	pthread_mutex_unlock(&key_store.lock);
	return is_word;
}

bool ori_job_key_is_required(void)
{
	return key_variable_is(ORI_CONFIG_REQUIRED);
}

bool ori_job_key_is_none(void)
{
	return key_variable_is(ORI_CONFIG_NO_KEY);
}

bool ori_job_key_is_taken(void)
{
	bool is_taken;

	key_lock();
	is_taken = key_store.source == KEY_FROM_ENVIRONMENT &&
		   key_is_stored_locked(key_variable(ORI_SETTING_JOB_KEY), NULL);
	pthread_mutex_unlock(&key_store.lock);
	return is_taken;
}
