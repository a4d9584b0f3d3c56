/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job that goes on after the loss of a rank, and takes a new one in. In each step the ranks add
 * up numbers that they have divided among them, so the sum is the same with any number of ranks.
 * One of them is killed; the others shrink the communicator and repeat the step that it was lost
 * in. Later rank 0 starts another process, and all take it in.
 * usage: lose_a_rank [--nodes]. It starts its ranks itself, on a node of its own each with --nodes.
 */
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <oriel/oriel.h>

enum { RANKS = 4, LOST = 2, STEPS = 40, LOSS = 10, GROWTH = 25 };

#define NUMBERS 100000

static pid_t new_rank; /* started by rank 0 */

static void must(enum oriel_status status)
{
	if (status == ORIEL_OK)
		return;
	fprintf(stderr, "lose_a_rank: %s\n", oriel_last_error());
	exit(1);
}

/* Starts this program once more; @name and @value are in its environment. */
static pid_t start(const char *name, const char *value, unsigned node)
{
	char text[16];
	pid_t pid = fork();

	if (pid)
		return pid;
	setenv(name, value, 1);
	snprintf(text, sizeof(text), "node%u", node);
	if (getenv("LOSE_A_RANK_NODES"))
		setenv("ORIEL_NODE", text, 1);
	execl("/proc/self/exe", "lose_a_rank", (char *)NULL);
	_exit(127);
}

/* [recover] */
/* The ranks may be in two steps, since the last one was complete for some of them only. */
static void find_step(struct oriel_comm *comm, unsigned *step)
{
	unsigned all[RANKS], rank;

	must(oriel_comm_all_gather(comm, step, all, sizeof(*step)));
	for (rank = 0; rank < oriel_comm_size(comm); rank++)
		if (all[rank] < *step)
			*step = all[rank];
}

/* A rank is lost: the others go on with a communicator of their own. */
static void go_on(struct oriel_comm **comm, unsigned *step)
{
	struct oriel_comm *survivors;

	must(oriel_comm_shrink(*comm, NULL, &survivors));
	must(oriel_comm_destroy(*comm));
	*comm = survivors;
	find_step(*comm, step);
	if (oriel_comm_rank(*comm) == 0)
		printf("step %u: a rank is lost, %u are left\n", *step, oriel_comm_size(*comm));
}

/* Rank 0 starts another process, which has nothing but the invitation. */
static void take_in(struct oriel_comm **comm, unsigned *step)
{
	struct oriel_invitation invitation;
	char text[ORIEL_INVITATION_TEXT];
	struct oriel_comm *grown;

	if (oriel_comm_rank(*comm) == 0) {
		must(oriel_comm_invite(*comm, &invitation));
		must(oriel_invitation_text(&invitation, text));
		new_rank = start("ORIEL_INVITATION", text, RANKS);
	}
	must(oriel_comm_grow(*comm, 1, NULL, &grown));
	must(oriel_comm_destroy(*comm));
	*comm = grown;
	find_step(*comm, step);
	if (oriel_comm_rank(*comm) == 0)
		printf("step %u: a new rank has come, they are %u\n", *step,
		       oriel_comm_size(*comm));
}
/* [/recover] */

/* The numbers of this rank are those that leave its rank when divided by the size. */
static enum oriel_status add_up(struct oriel_comm *comm, unsigned step, double *sum)
{
	const struct oriel_reduction reduction = {.size = sizeof(reduction),
						  .type = ORIEL_TYPE_FP64,
						  .op = ORIEL_OP_SUM};
	unsigned i, ranks = oriel_comm_size(comm);
	double own = 0;

	for (i = oriel_comm_rank(comm); i < NUMBERS; i += ranks)
		own += (double)i * step;
	return oriel_allreduce_once(comm, &own, sum, 1, &reduction);
}

static int work(bool is_new)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr), .flags = ORIEL_COMM_SHRINK};
	unsigned step = is_new ? STEPS + 1 : 1;
	struct oriel_comm *comm;
	bool is_first = !is_new;
	double sum, right;

	must(oriel_comm_create(NULL, is_new ? NULL : &attr, &comm));
	if (is_new)
		find_step(comm, &step);
	while (step <= STEPS) {
		if (is_first && oriel_comm_rank(comm) == LOST && step == LOSS)
			raise(SIGKILL);
		if (add_up(comm, step, &sum) != ORIEL_OK) {
			is_first = false;
			go_on(&comm, &step);
			continue;
		}
		right = (double)NUMBERS * (NUMBERS - 1) / 2 * step;
		if (sum != right) {
			fprintf(stderr, "lose_a_rank: step %u: %.0f is not %.0f\n", step, sum,
				right);
			return 1;
		}
		step++;
		if (step == GROWTH && oriel_comm_epoch(comm) == 1)
			take_in(&comm, &step);
	}
	if (oriel_comm_rank(comm) == 0)
		printf("%d steps with %u ranks in the end: all sums are right\n", STEPS,
		       oriel_comm_size(comm));
	must(oriel_comm_destroy(comm));
	return 0;
}

/* Finds a free port; a launcher sets one for the ranks of a real job. */
static unsigned find_port(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &length) != 0)
		exit(1);
	close(fd);
	return ntohs(at.sin_port);
}

/* How a process has ended: 0 if as it should. */
static int await(pid_t pid, bool is_lost)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		return 1;
	if (is_lost)
		return !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL;
	return !WIFEXITED(status) || WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	char port[16], rank[16];
	pid_t ranks[RANKS];
	int failed = 0;
	unsigned i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (getenv("RANK") || getenv("ORIEL_INVITATION")) {
		failed = work(getenv("ORIEL_INVITATION") != NULL);
		return new_rank && await(new_rank, false) ? 1 : failed;
	}
	if (argc > 1 && strcmp(argv[1], "--nodes") == 0)
		setenv("LOSE_A_RANK_NODES", "1", 1);
	snprintf(port, sizeof(port), "%u", find_port());
	snprintf(rank, sizeof(rank), "%d", RANKS);
	setenv("WORLD_SIZE", rank, 1);
	setenv("MASTER_ADDR", "127.0.0.1", 1);
	setenv("MASTER_PORT", port, 1);
	for (i = 0; i < RANKS; i++) {
		snprintf(rank, sizeof(rank), "%u", i);
		ranks[i] = start("RANK", rank, i);
	}
	for (i = 0; i < RANKS; i++)
		failed |= await(ranks[i], i == LOST);
	return failed;
}
