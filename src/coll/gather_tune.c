/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser of tables of `oriel tune`. The format: docs/allgather.md. gather_make.c and
 * gather_choose.c call it.
 */
#include "coll/gather_tune.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/config.h"
#include "base/error.h"
#include "base/handle.h"
#include "base/log.h"
#include "coll/gather_leaders.h"

#define TUNE_FILE_MAX ((size_t)1 << 20)
#define TUNE_RANKS_MAX 1000000u

const char *ori_collective_name(enum ori_collective collective)
{
	static const char *const names[ORI_COLLECTIVES] = {
		[ORI_ALLGATHER] = "all-gather",
		[ORI_ALLTOALL] = "all-to-all",
		[ORI_BCAST] = "broadcast",
		[ORI_ALLREDUCE] = "all-reduce",
		[ORI_REDUCE_SCATTER] = "reduce-scatter",
		[ORI_REDUCE] = "reduce",
		[ORI_GATHER] = "gather",
		[ORI_SCATTER] = "scatter",
	};

	/* A peer may have sent the number. */
	return (unsigned)collective < ORI_COLLECTIVES ? names[collective] : "an unknown one";
}

const char *oriel_algorithm_name(enum oriel_algorithm algorithm)
{
	static const char *const names[] = {
		[ORIEL_ALGORITHM_DEFAULT] = "auto",
		[ORIEL_ALGORITHM_LL] = "ll",
		[ORIEL_ALGORITHM_STORE] = "store",
		[ORIEL_ALGORITHM_CE] = "ce",
		[ORIEL_ALGORITHM_DIRECT] = "direct",
		[ORIEL_ALGORITHM_RING] = "ring",
		[ORIEL_ALGORITHM_BRUCK] = "bruck",
		[ORIEL_ALGORITHM_ONE_SHOT] = "one_shot",
		[ORIEL_ALGORITHM_OWNER] = "owner",
		[ORIEL_ALGORITHM_HIERARCHICAL] = "hierarchical",
		[ORIEL_ALGORITHM_RECURSIVE] = "recursive",
	};

	static_assert(sizeof(names) / sizeof(names[0]) == ORI_ALGORITHMS,
		      "the last algorithm that has a name is the last one");
	return (unsigned)algorithm < ORI_ALGORITHMS ? names[algorithm] : "unknown";
}

/* The current line, and the position in it. */
struct tune_line {
	const char *at;
	const char *end;
	const char *name; /* of the file, for error texts */
	unsigned number;
};

static enum oriel_status tune_bad(const struct tune_line *l, const char *what, const char *word,
				  size_t length)
{
	return ori_fail(ORIEL_ERR_CONFIG, "%s:%u: %s '%.*s'", l->name, l->number, what,
			(int)(length < 64 ? length : 64), word);
}

/* The next word, after blanks; empty at the end of the line. */
static const char *tune_word(struct tune_line *l, size_t *length)
{
	const char *begin;

	while (l->at < l->end && *l->at == ' ')
		l->at++;
	begin = l->at;
	while (l->at < l->end && *l->at != ' ')
		l->at++;
	*length = (size_t)(l->at - begin);
	return begin;
}

static bool word_is(const char *word, size_t length, const char *text)
{
	return strlen(text) == length && memcmp(word, text, length) == 0;
}

static enum oriel_status tune_number(struct tune_line *l, const char *what, uint64_t most,
				     uint64_t *value)
{
	size_t length, i;
	const char *word = tune_word(l, &length);
	uint64_t sum = 0;

	for (i = 0; i < length; i++) {
		unsigned digit = (unsigned)(unsigned char)word[i] - '0';

		if (digit > 9 || sum > (most - digit) / 10)
			return tune_bad(l, what, word, length);
		sum = sum * 10 + digit;
	}
	if (!length || !sum)
		return tune_bad(l, what, word, length);
	*value = sum;
	return ORIEL_OK;
}

static enum oriel_status tune_bytes(struct tune_line *l, uint64_t *bytes)
{
	struct tune_line ahead = *l;
	size_t length;
	const char *word = tune_word(&ahead, &length);

	if (!word_is(word, length, "any"))
		return tune_number(l, "invalid number of bytes", ORI_TUNE_ANY - 1, bytes);
	*l = ahead;
	*bytes = ORI_TUNE_ANY;
	return ORIEL_OK;
}

static enum oriel_status tune_names(struct tune_line *l, struct ori_tune_row *row, bool *is_gpu)
{
	size_t length;
	const char *word = tune_word(l, &length);
	unsigned i = 0;

	while (i < ORI_COLLECTIVES &&
	       !word_is(word, length, ori_collective_name((enum ori_collective)i)))
		i++;
	if (i == ORI_COLLECTIVES)
		return tune_bad(l, "unknown collective", word, length);
	row->collective = (enum ori_collective)i;
	word = tune_word(l, &length);
	*is_gpu = word_is(word, length, "gpu");
	if (!*is_gpu && !word_is(word, length, "host"))
		return tune_bad(l, "memory is neither host nor gpu:", word, length);
	return ORIEL_OK;
}

static enum oriel_status tune_algorithm(struct tune_line *l, struct ori_tune_row *row)
{
	size_t length;
	const char *word = tune_word(l, &length);
	unsigned i;

	for (i = ORIEL_ALGORITHM_DEFAULT + 1; i < ORI_ALGORITHMS; i++)
		if (word_is(word, length, oriel_algorithm_name((enum oriel_algorithm)i))) {
			row->algorithm = (enum oriel_algorithm)i;
			return ORIEL_OK;
		}
	return tune_bad(l, "unknown algorithm", word, length);
}

static void tune_digest(struct ori_tune *tune, const struct ori_tune_row *row)
{
	const uint64_t words[] = {(uint64_t)row->collective, (uint64_t)row->algorithm, row->bytes};
	size_t i;

	/* FNV-1a over words. The lowest bit is set, since 0 means no rows. */
	if (!tune->digest)
		tune->digest = 0xcbf29ce484222325u;
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		tune->digest = (tune->digest ^ words[i]) * 0x100000001b3u;
	tune->digest |= 1;
}

static enum oriel_status tune_add(struct tune_line *l, struct ori_tune *tune,
				  const struct ori_tune_row *row)
{
	unsigned i;

	for (i = 0; i < tune->count; i++)
		if (tune->rows[i].collective == row->collective &&
		    tune->rows[i].bytes >= row->bytes)
			return ori_fail(ORIEL_ERR_CONFIG,
					"%s:%u: its bytes are not more than those of line %u",
					l->name, l->number, tune->rows[i].line);
	if (tune->count == ORI_TUNE_ROWS)
		return ori_fail(ORIEL_ERR_CONFIG, "%s:%u: more than %u lines for one machine",
				l->name, l->number, ORI_TUNE_ROWS);
	tune->rows[tune->count++] = *row;
	tune_digest(tune, row);
	return ORIEL_OK;
}

/* Reads one line. The name of the machine is the rest of the line, blanks included. */
static enum oriel_status tune_read_row(struct tune_line *l, const struct ori_tune_key *key,
				       struct ori_tune *tune)
{
	struct ori_tune_row row = {.line = l->number};
	uint64_t ranks = 0, nodes = 0;
	enum oriel_status status;
	bool is_gpu = false;

	status = tune_names(l, &row, &is_gpu);
	if (status == ORIEL_OK)
		status = tune_number(l, "invalid number of ranks", TUNE_RANKS_MAX, &ranks);
	if (status == ORIEL_OK)
		status = tune_number(l, "invalid number of nodes", TUNE_RANKS_MAX, &nodes);
	if (status == ORIEL_OK)
		status = tune_bytes(l, &row.bytes);
	if (status == ORIEL_OK)
		status = tune_algorithm(l, &row);
	if (status != ORIEL_OK)
		return status;
	while (l->at < l->end && *l->at == ' ')
		l->at++;
	if (l->at == l->end)
		return tune_bad(l, "missing name of a machine:", l->at, 0);
	if (is_gpu != key->is_gpu || ranks != key->ranks || nodes != key->nodes ||
	    !word_is(l->at, (size_t)(l->end - l->at), key->machine))
		return ORIEL_OK;
	return tune_add(l, tune, &row);
}

/* The last row of each collective must be for any length, so that a lookup always succeeds. */
static enum oriel_status tune_check_last(const struct ori_tune *tune, const char *name)
{
	const struct ori_tune_row *last;
	unsigned i, k;

	for (i = 0; i < ORI_COLLECTIVES; i++) {
		last = NULL;
		for (k = 0; k < tune->count; k++)
			if (tune->rows[k].collective == (enum ori_collective)i)
				last = &tune->rows[k];
		if (last && last->bytes != ORI_TUNE_ANY)
			return ori_fail(
				ORIEL_ERR_CONFIG,
				"%s:%u: the last line of this machine's %s is not for 'any' "
				"bytes",
				name, last->line, ori_collective_name((enum ori_collective)i));
	}
	return ORIEL_OK;
}

enum oriel_status ori_tune_parse(const char *text, size_t length, const char *name,
				 const struct ori_tune_key *key, struct ori_tune *tune)
{
	struct tune_line line = {.name = name, .end = text};
	const char *limit = text + length;
	enum oriel_status status = ORIEL_OK;

	*tune = (struct ori_tune){.count = 0};
	while (line.end < limit && status == ORIEL_OK) {
		line.at = line.number ? line.end + 1 : text;
		if (line.at == limit)
			break;
		line.number++;
		line.end = memchr(line.at, '\n', (size_t)(limit - line.at));
		if (!line.end)
			line.end = limit;
		if (line.number == 1) {
			if (!word_is(line.at, (size_t)(line.end - line.at), ORIEL_TUNE_HEAD))
				status = tune_bad(&line, "expected '" ORIEL_TUNE_HEAD "', found",
						  line.at, (size_t)(line.end - line.at));
		} else if (line.at < line.end && *line.at != '#') {
			status = tune_read_row(&line, key, tune);
		}
	}
	if (status == ORIEL_OK && !line.number)
		status = ori_fail(ORIEL_ERR_CONFIG, "%s:1: the file is empty", name);
	return status == ORIEL_OK ? tune_check_last(tune, name) : status;
}

const struct ori_tune_row *ori_tune_row(const struct ori_tune *tune, enum ori_collective collective,
					uint64_t bytes)
{
	unsigned i;

	for (i = 0; i < tune->count; i++)
		if (tune->rows[i].collective == collective && bytes <= tune->rows[i].bytes)
			return &tune->rows[i];
	return NULL;
}

static bool tune_user_path(char *path, size_t length)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int needed = -1;

	if (cache && *cache == '/')
		needed = snprintf(path, length, "%s/oriel/tune", cache);
	else if (home && *home == '/')
		needed = snprintf(path, length, "%s/.cache/oriel/tune", home);
	return needed > 0 && (size_t)needed < length;
}

/*
 * Opens @path without blocking, which open() would do for a FIFO without a writer. Returns -1 with
 * errno where open() fails, and -1 with ORIEL_ERR_CONFIG in *@status for a file of another type.
 */
static int tune_open(const char *path, enum oriel_status *status)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat file;

	*status = ORIEL_OK;
	if (fd < 0)
		return -1;
	if (fstat(fd, &file) != 0)
		*status = ori_fail_errno(ORIEL_ERR_CONFIG, "%s, a table of oriel tune", path);
	else if (!S_ISREG(file.st_mode))
		*status = ori_fail(ORIEL_ERR_CONFIG,
				   "%s, a table of oriel tune, is not a regular file", path);
	if (*status == ORIEL_OK)
		return fd;
	close(fd);
	return -1;
}

static enum oriel_status tune_fill(int fd, const char *path, char *text, size_t *length)
{
	ssize_t n;

	for (*length = 0; *length < TUNE_FILE_MAX; *length += (size_t)n) {
		n = read(fd, text + *length, TUNE_FILE_MAX - *length);
		if (n == 0)
			return ORIEL_OK;
		if (n < 0 && errno != EINTR)
			return ori_fail_errno(ORIEL_ERR_CONFIG, "%s: read error", path);
		if (n < 0)
			n = 0;
	}
	return ori_fail(ORIEL_ERR_CONFIG, "%s: the file is longer than %zu bytes", path,
			TUNE_FILE_MAX - 1);
}

static enum oriel_status tune_read(const char *path, bool is_requested,
				   const struct ori_tune_key *key, struct ori_tune *tune)
{
	enum oriel_status status;
	size_t length = 0;
	char *text;
	int fd = tune_open(path, &status);

	if (status != ORIEL_OK || (fd < 0 && errno == ENOENT && !is_requested))
		return status;
	if (fd < 0)
		return ori_fail_errno(ORIEL_ERR_CONFIG, "cannot open %s, a table of oriel tune",
				      path);
	text = malloc(TUNE_FILE_MAX);
	if (text)
		status = tune_fill(fd, path, text, &length);
	else
		status = ori_fail_nomem(TUNE_FILE_MAX, "the text of %s", path);
	if (status == ORIEL_OK)
		status = ori_tune_parse(text, length, path, key, tune);
	free(text);
	close(fd);
	return status;
}

enum oriel_status ori_tune_read(const char *path, bool is_requested, const struct ori_tune_key *key,
				struct ori_tune *tune)
{
	static atomic_flag has_warned = ATOMIC_FLAG_INIT;
	struct ori_error before;
	enum oriel_status status;

	*tune = (struct ori_tune){.count = 0};
	ori_error_save(&before);
	status = tune_read(path, is_requested, key, tune);
	if (status != ORIEL_ERR_CONFIG || is_requested)
		return ori_error_end(&before, status);
	/* No setting names this file: it may be that of another user, or half written. */
	*tune = (struct ori_tune){.count = 0};
	if (!atomic_flag_test_and_set(&has_warned))
		ori_log(ORIEL_LOG_WARN,
			"%s; the library's own choices are used instead (ORIEL_TUNE"
			"=off leaves the file alone)",
			oriel_last_error());
	ori_error_restore(&before);
	return ORIEL_OK;
}

/* The model name that Linux reports for the first CPU. */
static void machine_cpu(char *name, size_t length)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char line[256], *value;

	snprintf(name, length, "unknown CPU");
	while (file && fgets(line, sizeof(line), file)) {
		value = strchr(line, ':');
		if (strncmp(line, "model name", 10) != 0 || !value)
			continue;
		value += strspn(value, ": ");
		value[strcspn(value, "\n")] = '\0';
		if (*value)
			snprintf(name, length, "%.63s", value);
		break;
	}
	if (file)
		fclose(file);
}

enum oriel_status ori_tune_load(const struct oriel_comm *comm, bool is_gpu, unsigned nodes,
				struct ori_tune *tune, struct oriel_tune_info *info)
{
	const char *setting = ori_setting_text(ORI_SETTING_TUNE);
	struct ori_tune_key key = {.machine = info->machine,
				   .is_gpu = is_gpu,
				   .ranks = oriel_comm_size(comm),
				   .nodes = nodes};
	enum oriel_status status = ORIEL_OK;

	*tune = (struct ori_tune){.count = 0};
	*info = (struct oriel_tune_info){.nodes = nodes};
	if (!is_gpu)
		machine_cpu(info->machine, sizeof(info->machine));
	else if (oriel_comm_gpu_name(comm))
		snprintf(info->machine, sizeof(info->machine), "%s", oriel_comm_gpu_name(comm));
	if (strcmp(setting, "off") == 0)
		return ORIEL_OK;
	if (*setting)
		snprintf(info->path, sizeof(info->path), "%s", setting);
	else if (!tune_user_path(info->path, sizeof(info->path)))
		info->path[0] = '\0';
	if (info->path[0])
		status = ori_tune_read(info->path, *setting != '\0', &key, tune);
	info->rows = tune->count;
	info->digest = tune->digest;
	return status;
}

enum oriel_status oriel_tune_find(struct oriel_comm *comm, bool is_gpu,
				  struct oriel_tune_info *info)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	struct oriel_tune_info found;
	struct ori_tune tune;
	uint32_t *leaders;
	unsigned nodes;

	if (status == ORIEL_OK)
		status = ori_info_check("oriel_tune_info", info);
	if (status != ORIEL_OK)
		return status;
	if (is_gpu && !oriel_comm_gpu_name(comm))
		return ori_fail(ORIEL_ERR_INVALID,
				"a communicator without ORIEL_COMM_GPU has no table for GPUs");
	status = ori_leaders_find(comm, is_gpu, &leaders);
	if (status != ORIEL_OK)
		return status;
	nodes = ori_leaders_count(leaders, oriel_comm_size(comm));
	free(leaders);
	status = ori_tune_load(comm, is_gpu, nodes, &tune, &found);
	if (status == ORIEL_OK)
		ori_info_write(info, &found, sizeof(found));
	return status;
}
