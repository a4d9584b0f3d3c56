/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the pages of the processes of a job. Those are files of other processes: what they say is
 * checked, and they are read by pread(), since a file that becomes shorter would kill a reader that
 * maps it.
 */
#include "hang/hang.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/answers.h"

/*
 * A thread that waits hides its note for the microseconds of each poll, so that one look may miss
 * it: a wait is there if one of so many looks finds it.
 */
#define READ_LOOKS 12u
#define READ_PAUSE_NS 1000000u
#define READ_SIZE_MAX (1u << 16)  /* ranks of a communicator */
#define READ_RANKS_MAX (1u << 20) /* of all communicators; a page is another user's, maybe */

struct read_process {
	struct ori_hang_process shown;
	int fd; /* of its page */
	bool is_wanted;
	struct ori_wait_page *page;  /* the latest copy */
	struct ori_wait_slot *waits; /* [ORI_WAIT_SLOTS], found by some look; state FREE: none */
	struct ori_answers_list answers; /* of kernels */
};

struct read_scan {
	struct read_process *list;
	unsigned count;
};

/* The page of process @pid, -1 with errno. ENODATA: it has none. */
static int read_open_page(int pid)
{
	static const char name[] = "/memfd:" ORI_WAIT_PAGE_NAME;
	char path[64], target[64];
	struct dirent *entry;
	ssize_t length;
	int found = -1, error = ENODATA;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (!dir)
		return -1;
	while (found < 0 && (entry = readdir(dir))) {
		length = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
		target[length < 0 ? 0 : length] = '\0';
		if (strncmp(target, name, strlen(name)) != 0)
			continue;
		found = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC);
		error = found < 0 ? errno : 0;
	}
	closedir(dir);
	errno = error;
	return found;
}

/* proc(5): the name is in parentheses, and may have some itself. */
static void read_stat(struct ori_hang_process *process)
{
	char path[64], text[512], *end, *begin;
	ssize_t length;
	int fd;

	process->state = '?';
	snprintf(path, sizeof(path), "/proc/%d/stat", process->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[length < 0 ? 0 : length] = '\0';
	begin = strchr(text, '(');
	end = strrchr(text, ')');
	if (!begin || !end || end < begin || end[1] != ' ' || !end[2])
		return;
	process->state = end[2];
	*end = '\0';
	snprintf(process->name, sizeof(process->name), "%s", begin + 1);
}

static bool read_page(struct read_process *p, struct ori_wait_page *page)
{
	return pread(p->fd, page, sizeof(*page), 0) == (ssize_t)sizeof(*page) &&
	       page->magic == ORI_WAIT_MAGIC && page->version == ORI_WAIT_VERSION &&
	       page->process == p->shown.pid && page->comms == ORI_WAIT_COMMS &&
	       page->slots == ORI_WAIT_SLOTS;
}

static void read_drop(struct read_process *p)
{
	if (p->fd >= 0)
		close(p->fd);
	free(p->page);
	free(p->waits);
	ori_answers_list_free(&p->answers);
}

/* False, with errno: process @pid cannot be read. ENODATA: it has no page of this version. */
static bool read_add(struct read_scan *scan, int pid)
{
	struct read_process p = {.shown.pid = pid, .fd = read_open_page(pid)}, *list;
	int error = errno;

	if (p.fd < 0)
		return errno = error, false;
	p.page = malloc(sizeof(*p.page));
	p.waits = calloc(ORI_WAIT_SLOTS, sizeof(*p.waits));
	list = realloc(scan->list, (scan->count + 1) * sizeof(*list));
	if (list)
		scan->list = list;
	error = p.page && p.waits && list ? ENODATA : ENOMEM;
	if (error == ENOMEM || !read_page(&p, p.page)) {
		read_drop(&p);
		return errno = error, false;
	}
	read_stat(&p.shown);
	list[scan->count++] = p;
	return true;
}

static enum oriel_status read_refuse(int pid, int error)
{
	struct stat owner;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (stat(path, &owner) != 0)
		return ori_fail(ORIEL_ERR_INVALID, "there is no process %d", pid);
	if (error == EACCES || error == EPERM)
		return ori_fail(ORIEL_ERR_SYSTEM,
				"process %d is of uid %u, and uid %u may not read it: run `oriel "
				"hang` as that user",
				pid, owner.st_uid, geteuid());
	if (error == ENODATA)
		return ori_fail(ORIEL_ERR_INVALID,
				"process %d has no communicator of this version of Oriel", pid);
	errno = error;
	return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot read process %d", pid);
}

/* Process @pid is the first one, and all others of this host follow. */
static enum oriel_status read_scan(struct read_scan *scan, int pid)
{
	struct dirent *entry;
	int other;
	DIR *dir;

	if (!read_add(scan, pid))
		return read_refuse(pid, errno);
	scan->list[0].is_wanted = true;
	dir = opendir("/proc");
	if (!dir)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot read /proc");
	while ((entry = readdir(dir))) {
		other = atoi(entry->d_name);
		if (other > 0 && other != pid)
			(void)read_add(scan, other);
	}
	closedir(dir);
	return ORIEL_OK;
}

static bool read_is_valid(const struct ori_wait_comm *comm)
{
	return comm->key && comm->size && comm->size <= READ_SIZE_MAX && comm->rank < comm->size;
}

static bool read_is_same(const struct ori_wait_comm *comm, const struct ori_hang_comm *known)
{
	return read_is_valid(comm) && comm->size == known->size &&
	       memcmp(comm->id, known->id, sizeof(known->id)) == 0;
}

static enum oriel_status read_add_comm(struct ori_hang *hang, const struct ori_wait_comm *comm)
{
	struct ori_hang_comm *list, *made;
	unsigned i, ranks = comm->size;

	for (i = 0; i < hang->comm_count; i++) {
		if (read_is_same(comm, &hang->comms[i]))
			return ORIEL_OK;
		ranks += hang->comms[i].size;
	}
	if (ranks > READ_RANKS_MAX)
		return ori_fail(ORIEL_ERR_RANGE, "the processes claim %u ranks, at most %u", ranks,
				READ_RANKS_MAX);
	list = realloc(hang->comms, (hang->comm_count + 1) * sizeof(*list));
	if (list)
		hang->comms = list;
	if (!list)
		return ori_fail_nomem(sizeof(*list), "communicators");
	made = &list[hang->comm_count];
	*made = (struct ori_hang_comm){.size = comm->size};
	memcpy(made->id, comm->id, sizeof(made->id));
	made->ranks = calloc(comm->size, sizeof(*made->ranks));
	made->cycle = calloc(comm->size + 1u, sizeof(*made->cycle));
	hang->comm_count++;
	if (!made->ranks || !made->cycle)
		return ori_fail_nomem(comm->size * sizeof(*made->ranks), "%u ranks", comm->size);
	return ORIEL_OK;
}

static bool read_shares(const struct read_process *p, const struct ori_hang *hang)
{
	unsigned i, k;

	for (i = 0; i < ORI_WAIT_COMMS; i++)
		for (k = 0; k < hang->comm_count; k++)
			if (read_is_same(&p->page->comm[i], &hang->comms[k]))
				return true;
	return false;
}

/* Processes that share a communicator with one that is wanted are wanted, too. */
static enum oriel_status read_close_over(struct read_scan *scan, struct ori_hang *hang)
{
	enum oriel_status status = ORIEL_OK;
	bool has_grown = true;
	unsigned i, k;

	while (has_grown && status == ORIEL_OK) {
		has_grown = false;
		for (i = 0; i < scan->count; i++) {
			struct read_process *p = &scan->list[i];

			if (!p->is_wanted && read_shares(p, hang))
				p->is_wanted = has_grown = true;
			for (k = 0; p->is_wanted && k < ORI_WAIT_COMMS && status == ORIEL_OK; k++)
				if (read_is_valid(&p->page->comm[k]))
					status = read_add_comm(hang, &p->page->comm[k]);
		}
		/* The first process brings the first communicators, which others may share. */
		if (status == ORIEL_OK && !has_grown)
			for (i = 0; i < scan->count && !has_grown; i++)
				has_grown = !scan->list[i].is_wanted &&
					    read_shares(&scan->list[i], hang);
	}
	return status;
}

/*
 * Two copies with one turn: the owner has not written the slot between them. Pages are read one
 * after the other, and a rank of a job that flows goes on to its next wait meanwhile: a wait counts
 * if it had begun at @moment, before all looks, so that those of a cycle were there together.
 */
static void read_look(struct read_process *p, struct ori_wait_page *again, uint64_t moment)
{
	unsigned i;

	if (!read_page(p, p->page) || !read_page(p, again))
		return;
	for (i = 0; i < ORI_WAIT_SLOTS; i++) {
		const struct ori_wait_slot *a = &p->page->slot[i], *b = &again->slot[i];

		if (a->state == ORI_WAIT_BUSY && !(a->turn & 1) && a->turn == b->turn &&
		    a->note.begun <= moment)
			p->waits[i] = *a;
	}
}

/* A file of process @p that is a memfd, -1: none. No other one is opened: the page may name any. */
static int read_open_memfd(const struct read_process *p, int fd, int flags)
{
	char path[64], target[16];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", p->shown.pid, fd);
	if (readlink(path, target, sizeof(target)) < 7 || memcmp(target, "/memfd:", 7) != 0)
		return -1;
	return open(path, flags | O_CLOEXEC | O_NONBLOCK);
}

/* Kernels of a communicator whose file cannot be opened are not asked. */
static void read_ask(struct read_process *p, uint64_t moment)
{
	unsigned i;

	for (i = 0; i < ORI_WAIT_COMMS; i++) {
		const struct ori_wait_comm *comm = &p->page->comm[i];

		if (read_is_valid(comm) && comm->answers_at)
			ori_answers_list_ask(&p->answers, comm,
					     read_open_memfd(p, comm->health_fd, O_RDWR), moment);
	}
}

static enum oriel_status read_waits(struct read_scan *scan)
{
	const struct timespec pause = {0, READ_PAUSE_NS};
	struct ori_wait_page *again = malloc(sizeof(*again));
	uint64_t moment = ori_clock_ns();
	unsigned looks = READ_LOOKS, look, i;

	if (!again)
		return ori_fail_nomem(sizeof(*again), "a page of waits");
	for (i = 0; i < scan->count; i++) {
		if (scan->list[i].is_wanted)
			read_ask(&scan->list[i], moment);
		if (scan->list[i].answers.count)
			looks = ORI_ANSWERS_READS;
	}
	for (look = 0; look < looks; look++) {
		nanosleep(&pause, NULL);
		for (i = 0; i < scan->count; i++) {
			if (scan->list[i].is_wanted)
				read_look(&scan->list[i], again, moment);
			ori_answers_list_read(&scan->list[i].answers);
		}
	}
	for (i = 0; i < scan->count; i++)
		ori_answers_list_end(&scan->list[i].answers);
	free(again);
	return ORIEL_OK;
}

static enum oriel_status read_give(struct ori_hang_comm *comm, struct ori_hang_rank *rank,
				   const struct ori_wait_note *note, int thread)
{
	struct ori_hang_wait *list;
	uint64_t now = ori_clock_ns();

	if (note->peer >= comm->size && note->peer != ORIEL_DEV_NO_RANK)
		return ORIEL_OK;
	list = realloc(rank->waits, (rank->wait_count + 1) * sizeof(*list));
	if (!list)
		return ori_fail_nomem(sizeof(*list), "waits");
	rank->waits = list;
	list[rank->wait_count++] = (struct ori_hang_wait){
		.note = *note,
		.age_ns = now > note->begun ? now - note->begun : 0,
		.thread = thread,
	};
	return ORIEL_OK;
}

static void read_health(const struct read_process *p, int fd, struct oriel_dev_fault *health)
{
	struct oriel_dev_fault found;
	int file = read_open_memfd(p, fd, O_RDONLY);

	if (file < 0)
		return;
	if (pread(file, &found, sizeof(found), 0) == (ssize_t)sizeof(found) &&
	    found.state == ORIEL_DEV_FAULT_FULL)
		*health = found;
	close(file);
}

/* The answers of kernels of the communicator of @entry. */
static enum oriel_status read_give_answers(const struct read_process *p,
					   const struct ori_wait_comm *entry,
					   struct ori_hang_comm *comm, struct ori_hang_rank *rank)
{
	enum oriel_status status = ORIEL_OK;
	unsigned i, k;

	for (i = 0; i < p->answers.count; i++) {
		const struct ori_answers *a = &p->answers.of[i];

		for (k = 0; a->comm.key == entry->key && k < a->count && status == ORIEL_OK; k++)
			status = read_give(comm, rank, &a->notes[k], 0);
	}
	return status;
}

/* The ranks of process @p that are in @comm, with their waits. */
static enum oriel_status read_place(const struct read_process *p,
				    const struct ori_hang_process *shown,
				    struct ori_hang_comm *comm)
{
	enum oriel_status status = ORIEL_OK;
	unsigned i, k;

	for (i = 0; i < ORI_WAIT_COMMS; i++) {
		const struct ori_wait_comm *entry = &p->page->comm[i];
		struct ori_hang_rank *rank;

		if (!read_is_same(entry, comm) || comm->ranks[entry->rank].process)
			continue;
		rank = &comm->ranks[entry->rank];
		rank->process = shown;
		read_health(p, entry->health_fd, &rank->health);
		for (k = 0; k < ORI_WAIT_SLOTS && status == ORIEL_OK; k++)
			if (p->waits[k].state == ORI_WAIT_BUSY &&
			    p->waits[k].note.comm == entry->key)
				status = read_give(comm, rank, &p->waits[k].note,
						   p->waits[k].thread);
		if (status == ORIEL_OK)
			status = read_give_answers(p, entry, comm, rank);
	}
	return status;
}

static enum oriel_status read_fill(const struct read_scan *scan, struct ori_hang *hang)
{
	enum oriel_status status = ORIEL_OK;
	unsigned i, k;

	hang->processes = calloc(scan->count, sizeof(*hang->processes));
	if (!hang->processes)
		return ori_fail_nomem(scan->count * sizeof(*hang->processes), "processes");
	for (i = 0; i < scan->count; i++)
		if (scan->list[i].is_wanted)
			hang->processes[hang->process_count++] = scan->list[i].shown;
	for (k = 0; k < hang->comm_count; k++) {
		const struct ori_hang_process *shown = hang->processes;

		for (i = 0; i < scan->count && status == ORIEL_OK; i++)
			if (scan->list[i].is_wanted)
				status = read_place(&scan->list[i], shown++, &hang->comms[k]);
		if (status == ORIEL_OK)
			status = ori_hang_judge(&hang->comms[k]);
	}
	return status;
}

enum oriel_status ori_hang_read(int pid, struct ori_hang *hang)
{
	struct read_scan scan = {0};
	enum oriel_status status;
	unsigned i;

	*hang = (struct ori_hang){0};
	status = read_scan(&scan, pid);
	if (status == ORIEL_OK)
		status = read_close_over(&scan, hang);
	if (status == ORIEL_OK && !hang->comm_count)
		status = read_refuse(pid, ENODATA);
	if (status == ORIEL_OK)
		status = read_waits(&scan);
	if (status == ORIEL_OK)
		status = read_fill(&scan, hang);
	for (i = 0; i < scan.count; i++)
		read_drop(&scan.list[i]);
	free(scan.list);
	if (status != ORIEL_OK)
		ori_hang_free(hang);
	return status;
}

void ori_hang_free(struct ori_hang *hang)
{
	unsigned i, rank;

	for (i = 0; i < hang->comm_count; i++) {
		for (rank = 0; hang->comms[i].ranks && rank < hang->comms[i].size; rank++)
			free(hang->comms[i].ranks[rank].waits);
		free(hang->comms[i].ranks);
		free(hang->comms[i].cycle);
	}
	free(hang->comms);
	free(hang->processes);
	*hang = (struct ori_hang){0};
}
