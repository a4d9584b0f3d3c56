/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_listeners COUNT: fails unless the rank listens on COUNT TCP sockets more than its launcher
 * has left open, after it has created a communicator and a window and has put to each peer.
 */
#include <oriel/oriel.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define TIMEOUT_NS 60000000000u
#define DESCRIPTORS 1024

static bool check(enum oriel_status status, const char *what)
{
	if (status != ORIEL_OK)
		fprintf(stderr, "%s: %s\n", what, oriel_last_error());
	return status == ORIEL_OK;
}

static int listeners(void)
{
	int count = 0;

	for (int fd = 0; fd < DESCRIPTORS; fd++) {
		int domain = 0, listens = 0;
		socklen_t length = sizeof(int);

		if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 &&
		    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0)
			count += listens && (domain == AF_INET || domain == AF_INET6);
	}
	return count;
}

static bool put_to_all(struct oriel_comm *comm, struct oriel_window *window)
{
	uint64_t value = 1;

	for (unsigned peer = 0; peer < oriel_comm_size(comm); peer++)
		if (!check(oriel_window_put_value(window, peer, 8ull * oriel_comm_rank(comm),
						  value),
			   "put_value"))
			return false;
	return check(oriel_window_flush(window, TIMEOUT_NS), "flush") &&
	       check(oriel_window_barrier(window, 0, TIMEOUT_NS), "barrier");
}

static bool run(const struct oriel_bootstrap *bootstrap, int expected)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .length = 4096, .barriers = 1};
	struct oriel_window *window = NULL;
	struct oriel_comm *comm = NULL;
	int found;
	bool is_fine;

	is_fine = check(oriel_comm_create(bootstrap, NULL, &comm), "comm") &&
		  check(oriel_window_create(comm, &attr, &window), "window") &&
		  put_to_all(comm, window);
	found = listeners();
	if (is_fine && found != expected) {
		fprintf(stderr, "%d TCP listeners, not %d\n", found, expected);
		is_fine = false;
	}
	(void)oriel_window_destroy(window);
	(void)oriel_comm_destroy(comm);
	return is_fine;
}

int main(int argc, char **argv)
{
	struct oriel_bootstrap bootstrap;
	int inherited = listeners();
	bool is_fine;

	if (argc != 2 || !check(oriel_bootstrap_open_env(TIMEOUT_NS, &bootstrap), "bootstrap"))
		return 2;
	is_fine = run(&bootstrap, inherited + atoi(argv[1]));
	oriel_bootstrap_close(&bootstrap);
	return !is_fine;
}
