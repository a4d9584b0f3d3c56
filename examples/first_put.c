/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each rank puts a greeting into the window of the next one. README.md shows main().
 * usage: oriel run -n 2 first_put
 */
#include <stdio.h>
#include <stdlib.h>

#include <oriel/oriel.h>

enum { ARRIVED }; /* a signal */

static void must(enum oriel_status status)
{
	if (status == ORIEL_OK)
		return;
	fprintf(stderr, "first_put: %s\n", oriel_last_error());
	exit(1);
}

/* [main] */
int main(void)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .length = 64};
	struct oriel_window *window;
	struct oriel_comm *comm;
	char text[64];
	void *inbox;

	must(oriel_comm_create(NULL, NULL, &comm));      /* as the launcher says */
	must(oriel_window_create(comm, &attr, &window)); /* 64 bytes that peers may write */
	must(oriel_window_buffer(window, 0, &inbox, NULL));
	unsigned rank = oriel_comm_rank(comm), ranks = oriel_comm_size(comm);
	unsigned next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;

	snprintf(text, sizeof(text), "greetings from rank %u", rank);
	must(oriel_window_put_signal(window, next, 0, text, sizeof(text), ARRIVED, 1));
	must(oriel_window_wait_signal_next(window, before, ARRIVED, 1, ORIEL_TIMEOUT_DEFAULT));
	printf("rank %u of %u got: %s\n", rank, ranks, (char *)inbox);
	oriel_window_destroy(window); /* waits for the other ranks */
	oriel_comm_destroy(comm);
	return 0;
}
/* [/main] */
