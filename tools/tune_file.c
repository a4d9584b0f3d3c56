/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of `oriel tune` (oriel/tune.h): the sizes and names of its lines, what is there of other
 * jobs, and the lines of this. tune.c calls it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tune.h"

#define FILE_PATH 544 /* of a draft */
#define TUNE_LEAST 8u
#define TUNE_STEP 4u /* factor from one size to the next */

const char *tune_collective_name(enum tune_collective which)
{
	static const char *const names[] = {"all-gather", "all-to-all",     "broadcast",
					    "all-reduce", "reduce-scatter", "reduce"};

	return names[which];
}

unsigned tune_collectives(const struct tune_job *job)
{
	if (!job->stream)
		return TUNE_COLLECTIVES;
	return job->info.nodes == 1 ? TUNE_REDUCE : TUNE_ALLREDUCE;
}

size_t tune_size(unsigned index)
{
	size_t bytes = TUNE_LEAST;

	while (index--)
		bytes *= TUNE_STEP;
	return bytes;
}

unsigned tune_sizes(const struct tune_job *job)
{
	unsigned count = 0;

	while (count < TUNE_SIZES && tune_size(count) <= job->most)
		count++;
	return count;
}

static void file_write_row(const struct tune_job *job, FILE *to, unsigned which, const char *bytes,
			   unsigned algorithm)
{
	fprintf(to, "%s %s %u %u %s %s %s\n", tune_collective_name((enum tune_collective)which),
		job->stream ? "gpu" : "host", job->ranks, job->info.nodes, bytes,
		oriel_algorithm_name((enum oriel_algorithm)algorithm), job->info.machine);
}

/* Write the rows of this job; an algorithm changes halfway between two sizes. */
static void file_write_rows(const struct tune_job *job, FILE *to)
{
	unsigned which, i, sizes = tune_sizes(job);
	char bytes[24];

	for (which = 0; which < tune_collectives(job); which++)
		for (i = 0; i < sizes; i++) {
			unsigned best = job->best[which][i];
			bool is_last = i + 1 == sizes;

			if (!is_last && job->best[which][i + 1] == best)
				continue;
			snprintf(bytes, sizeof(bytes), "%zu", tune_size(i) * 2);
			if (!is_last || best != job->rest[which])
				file_write_row(job, to, which, bytes, best);
			if (is_last)
				file_write_row(job, to, which, "any", job->rest[which]);
		}
}

/* Is @line, with its newline, about the measured machine, ranks and memory? */
static bool file_is_ours(const struct tune_job *job, const char *line)
{
	char tail[128], head[48];
	size_t i;

	snprintf(tail, sizeof(tail), " %s\n", job->info.machine);
	if (strlen(line) < strlen(tail) || strcmp(line + strlen(line) - strlen(tail), tail) != 0)
		return false;
	for (i = 0; i < tune_collectives(job); i++) {
		snprintf(head, sizeof(head), "%s %s %u %u ",
			 tune_collective_name((enum tune_collective)i),
			 job->stream ? "gpu" : "host", job->ranks, job->info.nodes);
		if (strncmp(line, head, strlen(head)) == 0)
			return true;
	}
	return false;
}

/* Copy the lines of the file that are about other machines, jobs or memory. */
static void file_keep_others(const struct tune_job *job, const char *path, FILE *to)
{
	FILE *from = fopen(path, "re");
	char line[512];

	fprintf(to, ORIEL_TUNE_HEAD "\n");
	while (from && fgets(line, sizeof(line), from))
		if (strcmp(line, ORIEL_TUNE_HEAD "\n") != 0 && !file_is_ours(job, line))
			fputs(line, to);
	if (from)
		fclose(from);
}

static void file_make_folders(char *path)
{
	char *slash;

	for (slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0755);
		*slash = '/';
	}
}

static int file_failed(const char *file, const char *reason)
{
	fprintf(stderr, "oriel tune: cannot write %s: %s\n", file, reason);
	return -1;
}

/*
 * Open a new file beside @file, which later takes its name; -1: an error was printed. The folder
 * may be one where others write, so the name must not be known before, and a link there is refused.
 */
static int file_open_draft(const char *file, char *draft, size_t room)
{
	struct stat now;
	uint64_t number;
	int fd;

	if (stat(file, &now) == 0 && !S_ISREG(now.st_mode))
		return file_failed(file, "not a regular file");
	if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
		return file_failed(file, strerror(errno));
	if ((size_t)snprintf(draft, room, "%s.%016" PRIx64, file, number) >= room)
		return file_failed(file, strerror(ENAMETOOLONG));
	file_make_folders(draft);
	fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0)
		return file_failed(file, strerror(errno));
	return fd;
}

bool tune_file_check(const char *file)
{
	char draft[FILE_PATH];
	int fd = file_open_draft(file, draft, sizeof(draft));

	if (fd < 0)
		return false;
	close(fd);
	unlink(draft);
	return true;
}

static bool file_fill(const struct tune_job *job, const char *file, int fd)
{
	FILE *to = fdopen(fd, "w");
	bool is_written;

	if (!to) {
		close(fd);
		return false;
	}
	file_keep_others(job, file, to);
	file_write_rows(job, to);
	is_written = !ferror(to);
	return fclose(to) == 0 && is_written;
}

/* A reader finds either the old or the new file. */
bool tune_file_write(const struct tune_job *job, const char *file)
{
	char draft[FILE_PATH];
	int fd = file_open_draft(file, draft, sizeof(draft));

	if (fd < 0)
		return false;
	if (file_fill(job, file, fd) && rename(draft, file) == 0)
		return true;
	file_failed(file, strerror(errno));
	unlink(draft);
	return false;
}
