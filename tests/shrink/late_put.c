/* SPDX-License-Identifier: Apache-2.0 */
/*
 * late_put FENCED: the last rank puts to memory of the others as fast as it can, and dies. The
 * software HCA of each rank holds back what arrives, and has acknowledged it. As soon as a byte is
 * there the others fill their memory, and it stays as it is where they have shrunk the communicator
 * before (FENCED 1); in the twin (0) bytes come late.
 */
#include <oriel/oriel.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BYTES 65536u
#define PUTS 40u
#define LATE_NS 700000000 /* longer than the HCA holds anything back */
#define MARK 0xa5

static void expect(bool claim, const char *what)
{
	if (claim)
		return;
	printf("broken: %s: %s\n", what, oriel_last_error());
	exit(2);
}

static void put_and_die(struct oriel_window *window, unsigned peers)
{
	static unsigned char bytes[BYTES];
	unsigned i, peer;

	for (i = 0; i < PUTS; i++) {
		memset(bytes, (int)i + 1, sizeof(bytes));
		for (peer = 0; peer < peers; peer++)
			expect(oriel_window_put(window, peer, 0, bytes, sizeof(bytes)) == ORIEL_OK,
			       "a put fails");
		/* Its bytes need not be visible yet. */
		expect(oriel_window_drain(window, 0) == ORIEL_OK, "a put is not acknowledged");
	}
	raise(SIGKILL);
}

/* Bytes of @memory that another process has written within LATE_NS. */
static unsigned count_late(const unsigned char *memory)
{
	const struct timespec late = {LATE_NS / 1000000000, LATE_NS % 1000000000};
	unsigned i, count = 0;

	nanosleep(&late, NULL);
	for (i = 0; i < BYTES; i++)
		count += memory[i] != MARK;
	return count;
}

/* No signal, no barrier and no report of a failure: these push out what the HCA holds back. */
static void until_a_byte(const unsigned char *memory)
{
	unsigned i = 0;

	while (!__atomic_load_n(&memory[i], __ATOMIC_RELAXED))
		i = (i + 1) % BYTES;
}

int main(int argc, char **argv)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr), .flags = ORIEL_COMM_SHRINK};
	struct oriel_window_attr shape = {.size = sizeof(shape), .length = BYTES};
	struct oriel_comm *comm, *survivors = NULL;
	bool is_fenced = argc > 1 && atoi(argv[1]) == 1;
	struct oriel_window *window;
	unsigned late, of_all[8] = {0}, rank, last;

	expect(oriel_comm_create(NULL, &attr, &comm) == ORIEL_OK, "no communicator");
	last = oriel_comm_size(comm) - 1;
	expect(oriel_memory_alloc(BYTES, 0, &shape.buffer) == ORIEL_OK, "no memory");
	expect(oriel_window_create(comm, &shape, &window) == ORIEL_OK, "no window");
	if (oriel_comm_rank(comm) == last)
		put_and_die(window, last);
	until_a_byte(shape.buffer);
	if (is_fenced) {
		expect(oriel_window_destroy(window) == ORIEL_OK, "a window is not destroyed");
		expect(oriel_comm_shrink(comm, NULL, &survivors) == ORIEL_OK, "no shrink");
	}
	memset(shape.buffer, MARK, BYTES);
	late = count_late(shape.buffer);
	printf("rank %u: %u bytes came late\n", oriel_comm_rank(comm), late);
	if (!is_fenced)
		return late ? 1 : 0;
	expect(oriel_comm_all_gather(survivors, &late, of_all, sizeof(late)) == ORIEL_OK,
	       "the survivors do not gather");
	for (rank = 0; rank < last; rank++)
		expect(of_all[rank] == 0, "a byte of a dead rank came late");
	oriel_memory_free(shape.buffer);
	expect(oriel_comm_destroy(survivors) == ORIEL_OK && oriel_comm_destroy(comm) == ORIEL_OK,
	       "they are not destroyed");
	return 0;
}
