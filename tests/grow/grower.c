/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank for grow_test.py: grower NAME [TEXT [stop]]. It makes a communicator by its
 * environment, or joins one by ORIEL_INVITATION, and then obeys the lines of standard input:
 *
 *	invite		makes an invitation, whose text it prints
 *	grow COUNT	takes COUNT new ranks in, and goes on with the new communicator
 *	merge TEXT	joins with all ranks of its communicator by an invitation, and goes on
 *	shrink		goes on with the ranks that are left
 *	play		puts to all ranks, and prints the epoch and the names of all in order
 *	origins		prints the ranks before of all ranks
 *	count		prints how many descriptors, mappings, threads and bytes the process has
 *	again		joins by the invitation of its environment once more
 *	hold		does not destroy communicators that it goes on from
 *
 * Each answer is one line: "ORIEL_OK ..." or the status and the text. The process ends, or stops,
 * itself where its log has TEXT.
 */
#include <oriel/oriel.h>

#include <dirent.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS 64u
#define BYTES 4096u
#define LINE 1024u

static char invitation_text[ORIEL_INVITATION_TEXT];
static const char *last_words;
static int last_signal = SIGKILL;
static unsigned name;
static struct oriel_comm *comm, *held;
static bool has_hold;

static void die(void *context, enum oriel_log_level level, const char *message)
{
	(void)context, (void)level;
	if (getenv("GROWER_TRACE"))
		fprintf(stderr, "%u: %s\n", name, message);
	if (last_words && strstr(message, last_words))
		raise(last_signal);
}

static void answer(enum oriel_status status, const char *text)
{
	printf("%s %s\n", oriel_status_name(status),
	       status == ORIEL_OK ? text : oriel_last_error());
	fflush(stdout);
}

static void expect(bool claim, const char *what)
{
	if (claim)
		return;
	printf("broken: %s: %s\n", what, oriel_last_error());
	exit(2);
}

/* The old communicator is destroyed; on a failure it stays. */
static void replace(enum oriel_status status, struct oriel_comm *made)
{
	if (status == ORIEL_OK) {
		if (has_hold)
			held = comm;
		else
			expect(oriel_comm_destroy(comm) == ORIEL_OK, "it is not destroyed");
		comm = made;
	}
	answer(status, "");
}

static void invite(void)
{
	struct oriel_invitation invitation;
	char text[ORIEL_INVITATION_TEXT];
	enum oriel_status status = oriel_comm_invite(comm, &invitation);

	if (status == ORIEL_OK)
		status = oriel_invitation_text(&invitation, text);
	answer(status, text);
}

static void merge(const char *text)
{
	struct oriel_invitation invitation;
	struct oriel_comm *made = NULL;
	enum oriel_status status = oriel_invitation_read(text, &invitation);

	if (status == ORIEL_OK)
		status = oriel_comm_merge(comm, &invitation, NULL, &made);
	replace(status, made);
}

/* Each rank puts its name to all, and finds those of all others. */
static enum oriel_status play(unsigned *of)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .length = BYTES, .signals = 1};
	unsigned rank = oriel_comm_rank(comm), size = oriel_comm_size(comm), peer;
	struct oriel_window *window = NULL;
	enum oriel_status status;
	uint64_t word = name;
	void *memory;

	status = oriel_comm_all_gather(comm, &name, of, sizeof(*of));
	if (status == ORIEL_OK)
		status = oriel_window_create(comm, &attr, &window);
	if (status == ORIEL_OK)
		status = oriel_window_buffer(window, 0, &memory, NULL);
	for (peer = 0; peer < size && status == ORIEL_OK; peer++)
		status = oriel_window_put(window, peer, rank * sizeof(word), &word, sizeof(word));
	if (status == ORIEL_OK)
		status = oriel_window_flush(window, 0);
	if (status == ORIEL_OK)
		status = oriel_window_barrier(window, 0, 0);
	for (peer = 0; peer < size && status == ORIEL_OK; peer++)
		expect(((uint64_t *)memory)[peer] == of[peer], "another rank wrote there");
	expect(oriel_window_destroy(window) == ORIEL_OK, "a window is not destroyed");
	return status;
}

static void show_play(void)
{
	unsigned of[RANKS], rank;
	enum oriel_status status = play(of);
	char text[LINE];
	size_t length =
		(size_t)snprintf(text, sizeof(text), "%" PRIu64 ":", oriel_comm_epoch(comm));

	for (rank = 0; status == ORIEL_OK && rank < oriel_comm_size(comm); rank++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, " %u", of[rank]);
	answer(status, text);
}

/* That of each wait, in seconds. */
static void show_limit(void)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .length = BYTES};
	struct oriel_window *window = NULL;
	struct oriel_dev_window handle;
	enum oriel_status status = oriel_window_create(comm, &attr, &window);
	char text[LINE] = "";

	if (status == ORIEL_OK)
		status = oriel_window_device(window, &handle);
	if (status == ORIEL_OK)
		snprintf(text, sizeof(text), "%" PRIu64, handle.timeout_ns / 1000000000u);
	expect(oriel_window_destroy(window) == ORIEL_OK, "a window is not destroyed");
	answer(status, text);
}

static void show_origins(void)
{
	char text[LINE] = "";
	size_t length = 0;
	unsigned rank, origin;

	for (rank = 0; rank < oriel_comm_size(comm); rank++) {
		expect(oriel_comm_origin(comm, rank, &origin) == ORIEL_OK, "no origin");
		length +=
			(size_t)snprintf(text + length, sizeof(text) - length, "%d ", (int)origin);
	}
	answer(ORIEL_OK, text);
}

static unsigned count_names(const char *folder)
{
	DIR *directory = opendir(folder);
	unsigned count = 0;

	expect(directory != NULL, folder);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static void show_count(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	struct mallinfo2 heap = mallinfo2();
	unsigned shared = 0;
	char text[LINE], line[LINE];

	expect(maps != NULL, "/proc/self/maps");
	while (fgets(line, sizeof(line), maps))
		shared += strstr(line, "memfd:") != NULL;
	fclose(maps);
	snprintf(text, sizeof(text), "%u descriptors, %u shared mappings, %u threads; %zu bytes",
		 count_names("/proc/self/fd"), shared, count_names("/proc/self/task"),
		 heap.uordblks + heap.hblkhd);
	answer(ORIEL_OK, text);
}

static void again(void)
{
	struct oriel_invitation invitation;
	struct oriel_comm *made = NULL;
	enum oriel_status status = oriel_invitation_read(invitation_text, &invitation);

	if (status == ORIEL_OK)
		status = oriel_comm_join(&invitation, NULL, &made);
	if (status == ORIEL_OK && comm)
		expect(oriel_comm_destroy(comm) == ORIEL_OK, "it is not destroyed");
	if (status == ORIEL_OK)
		comm = made;
	answer(status, "");
}

static void obey(char *line)
{
	struct oriel_comm *made = NULL;
	enum oriel_status status;

	line[strcspn(line, "\n")] = '\0';
	if (strcmp(line, "invite") == 0) {
		invite();
	} else if (strncmp(line, "grow ", 5) == 0) {
		status = oriel_comm_grow(comm, (unsigned)atoi(line + 5), NULL, &made);
		replace(status, made);
	} else if (strncmp(line, "merge ", 6) == 0) {
		merge(line + 6);
	} else if (strcmp(line, "shrink") == 0) {
		status = oriel_comm_shrink(comm, NULL, &made);
		replace(status, made);
	} else if (strcmp(line, "play") == 0) {
		show_play();
	} else if (strcmp(line, "limit") == 0) {
		show_limit();
	} else if (strcmp(line, "origins") == 0) {
		show_origins();
	} else if (strcmp(line, "count") == 0) {
		show_count();
	} else if (strcmp(line, "hold") == 0) {
		has_hold = true;
		answer(ORIEL_OK, "");
	} else {
		expect(strcmp(line, "again") == 0, line);
		again();
	}
}

int main(int argc, char **argv)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr), .flags = ORIEL_COMM_SHRINK};
	const char *given = getenv("ORIEL_INVITATION");
	enum oriel_status status;
	char line[LINE];

	name = (unsigned)atoi(argv[1]);
	if (argc > 2)
		last_words = argv[2];
	if (argc > 3)
		last_signal = SIGSTOP;
	if (given)
		snprintf(invitation_text, sizeof(invitation_text), "%s", given);
	oriel_log_set_sink(die, NULL);
	/* A rank that joins has the attributes of the others. */
	status = oriel_comm_create(NULL, given ? NULL : &attr, &comm);
	if (status == ORIEL_OK) {
		expect(getenv("ORIEL_INVITATION") == NULL, "the invitation is used");
		explicit_bzero(invitation_text, sizeof(invitation_text));
	}
	answer(status, "");
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	expect(oriel_comm_destroy(comm) == ORIEL_OK, "it is not destroyed");
	expect(oriel_comm_destroy(held) == ORIEL_OK, "it is not destroyed");
	return 0;
}
