/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `oriel demo`: verifies and times every operation. Started by hand it runs itself as the ranks of
 * a job, and then the heat example; as a rank (--rank) it prints the topology, verifies every
 * operation on every pair, and prints a table of times.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "demo.h"
#include "tool.h"

#define DEMO_USAGE                                                                           \
	"usage: oriel demo [-n N] [--seed S]\n"                                              \
	"\n"                                                                                 \
	"Starts N ranks on this machine, prints their paths to each other, verifies every\n" \
	"operation with random data on every pair of them, prints a table of times, and\n"   \
	"runs the heat example, if that is beside it: heat.png in the current directory,\n"  \
	"or where temporary files go if that may not be written.\n"                          \
	"\n"                                                                                 \
	"  -n, --ranks N   number of ranks, 2 to 64 (default 4)\n"                           \
	"      --seed S    seed of the random data (default: from the clock)\n"              \
	"  -h, --help      this text\n"

struct demo_options {
	unsigned ranks;
	uint64_t seed;
	bool is_rank;
};

static void demo_print_topology(const struct oriel_comm *comm)
{
	unsigned i, k, ranks = oriel_comm_size(comm);
	struct oriel_nic nic = {.size = sizeof(nic)};
	struct oriel_peer peer = {.size = sizeof(peer)};
	enum oriel_path path;

	printf("  %4s %-16s %-8s %-8s path to rank 0, 1, ..\n", "rank", "host", "node", "pid");
	for (i = 0; i < ranks; i++) {
		if (oriel_comm_peer(comm, i, &peer) != ORIEL_OK)
			continue;
		printf("  %4u %-16s %-8s %-8llu", i, peer.host, *peer.node ? peer.node : "-",
		       (unsigned long long)peer.pid);
		for (k = 0; k < ranks; k++)
			if (oriel_comm_path_between(comm, i, k, &path) == ORIEL_OK)
				printf(" %-6s", oriel_path_name(path));
		printf("\n");
	}
	if (oriel_comm_nic(comm, &nic) == ORIEL_OK)
		printf("  rdma uses %s%s\n", nic.name,
		       nic.is_software ? ", a software HCA for development: no NIC is used" : "");
}

/* The second buffer begins inside an allocation: any part of one can be shared. */
static enum oriel_status demo_share(struct demo *d, size_t length)
{
	const size_t skip[2] = {0, 4160};
	enum oriel_status status = ORIEL_OK;
	uint32_t number;
	void *address;
	unsigned i;

	for (i = 0; i < 2 && status == ORIEL_OK; i++) {
		status = oriel_memory_alloc(skip[i] + length, 0, &address);
		if (status == ORIEL_OK)
			d->shared[i] = address;
		status = oriel_comm_agree(d->comm, status);
		if (status != ORIEL_OK)
			return status;
		d->inbox[1 + i] = d->shared[i] + skip[i];
		status = oriel_window_share(d->window, d->inbox[1 + i], length, &number);
		if (status == ORIEL_OK && number != 1 + i)
			status = ORIEL_ERR_STATE;
	}
	return status;
}

static enum oriel_status demo_open(struct demo *d)
{
	size_t blocks = (size_t)oriel_comm_size(d->comm) * DEMO_BLOCK;
	size_t length = 2 * blocks + DEMO_ROUNDS * sizeof(uint64_t);
	size_t local_length = blocks < DEMO_LARGE ? DEMO_LARGE : blocks;
	struct oriel_window_attr attr = {
		.size = sizeof(attr),
		.length = length < DEMO_LARGE ? DEMO_LARGE : length,
		.signals = DEMO_SIGNALS,
		.barriers = DEMO_SLOTS,
		.counters = DEMO_COUNTERS,
		.channels = 1,
	};
	enum oriel_status status;

	status = oriel_window_create(d->comm, &attr, &d->window);
	if (status == ORIEL_OK)
		status = oriel_window_device(d->window, &d->w);
	if (status != ORIEL_OK)
		return status;
	d->inbox[0] = oriel_dev_address(&d->w, d->w.rank, 0);
	d->outbox = d->inbox[0] + blocks;

	d->local = calloc(1, local_length);
	status = d->local ? oriel_region_register(d->comm, d->local, local_length, &d->region)
			  : ORIEL_ERR_NOMEM;
	status = oriel_comm_agree(d->comm, status);
	return status == ORIEL_OK ? demo_share(d, blocks) : status;
}

static void demo_close(struct demo *d)
{
	oriel_region_unregister(d->region);
	oriel_window_destroy(d->window);
	oriel_memory_free(d->shared[1]);
	oriel_memory_free(d->shared[0]);
	free(d->local);
}

static enum oriel_status demo_print(struct demo *d)
{
	enum oriel_status status;

	if (d->w.rank == 0) {
		printf("Topology\n");
		demo_print_topology(d->comm);
		printf("\nEvery operation on every ordered pair of ranks\n");
		fflush(stdout);
	}
	status = demo_verify_data(d);
	if (status == ORIEL_OK)
		status = demo_verify_words(d);
	return status == ORIEL_OK ? demo_bench(d) : status;
}

static int demo_rank(const struct demo_options *options)
{
	struct oriel_bootstrap bootstrap = {0};
	struct demo d = {.seed = options->seed};
	enum oriel_status status;

	status = oriel_bootstrap_open_env(0, &bootstrap);
	if (status == ORIEL_OK && (bootstrap.size < 2 || bootstrap.size > DEMO_MAX_RANKS)) {
		fprintf(stderr, "oriel demo: takes 2 to %d ranks, not %u\n", DEMO_MAX_RANKS,
			bootstrap.size);
		oriel_bootstrap_close(&bootstrap);
		return TOOL_USAGE;
	}
	if (status == ORIEL_OK)
		status = oriel_comm_create(&bootstrap, NULL, &d.comm);
	if (status == ORIEL_OK)
		status = demo_open(&d);
	if (status != ORIEL_OK)
		fprintf(stderr, "oriel demo: rank %u: %s: %s\n", bootstrap.rank,
			oriel_status_name(status), oriel_last_error());
	else
		status = demo_print(&d);
	demo_close(&d);
	oriel_comm_destroy(d.comm);
	oriel_bootstrap_close(&bootstrap);
	return status == ORIEL_OK ? TOOL_OK : TOOL_FAILED;
}

/* Run @arguments; returns the exit code, or 128 plus the signal that killed the process. */
static int demo_run(const char *const *arguments)
{
	pid_t parent = getpid(), child;
	int state;

	fflush(stdout);
	child = fork();
	if (child < 0) {
		fprintf(stderr, "oriel demo: cannot start a process: %s\n", strerror(errno));
		return TOOL_FAILED;
	}
	if (child == 0) {
		/* The job ends with the demo, whatever ends the demo. */
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() == parent)
			execv(arguments[0], (char *const *)arguments);
		fprintf(stderr, "oriel demo: cannot run %s: %s\n", arguments[0], strerror(errno));
		_exit(TOOL_NOT_EXECUTABLE);
	}
	while (waitpid(child, &state, 0) < 0)
		if (errno != EINTR)
			return TOOL_FAILED;
	return WIFEXITED(state) ? WEXITSTATUS(state) : TOOL_SIGNALLED + WTERMSIG(state);
}

/*
 * Find this program, and the heat example beside it, which exists in a build but not in an
 * installation.
 */
static bool demo_find_programs(char self[PATH_MAX], char heat[PATH_MAX], bool *has_heat)
{
	ssize_t length = readlink("/proc/self/exe", self, PATH_MAX - 1);
	int directory;

	if (length < 0) {
		fprintf(stderr, "oriel demo: cannot find itself: %s\n", strerror(errno));
		return false;
	}
	self[length] = '\0';
	directory = (int)(strrchr(self, '/') - self);
	*has_heat = snprintf(heat, PATH_MAX, "%.*s/heat", directory, self) < PATH_MAX &&
		    access(heat, X_OK) == 0;
	return true;
}

/*
 * The picture's folder: the current directory, which a user may have mounted read-only, or
 * else a new file where temporary ones go. False: neither can be written.
 */
static bool demo_find_picture(char picture[PATH_MAX])
{
	const char *temporary = getenv("TMPDIR");
	int fd;

	snprintf(picture, PATH_MAX, "heat.png");
	fd = open(picture, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0) {
		fprintf(stderr, "oriel demo: cannot write heat.png here: %s\n", strerror(errno));
		snprintf(picture, PATH_MAX, "%s/heat-XXXXXX.png",
			 temporary && *temporary ? temporary : "/tmp");
		fd = mkstemps(picture, (int)strlen(".png"));
	}
	if (fd < 0) {
		fprintf(stderr, "oriel demo: nor %s: %s; so the heat example does not run\n",
			picture, strerror(errno));
		return false;
	}
	close(fd);
	return true;
}

static int demo_whole(const struct demo_options *options)
{
	char self[PATH_MAX], heat[PATH_MAX], picture[PATH_MAX], ranks[16], seed[32];
	/* Two virtual nodes, so that both paths are exercised. */
	const char *show[] = {self, "run", "-n",   ranks,    "--nodes", "2",  "--no-prefix",
			      "--", self,  "demo", "--rank", "--seed",  seed, NULL};
	const char *warm[] = {self, "run", "-n",       ranks,   "--no-prefix",
			      "--", heat,  "--output", picture, NULL};
	const char *hca = getenv("ORIEL_HCA");
	uint64_t start = oriel_dev_clock_ns();
	bool has_heat;
	int code;

	if (!demo_find_programs(self, heat, &has_heat))
		return TOOL_FAILED;
	/* Most machines have no NIC, and a demonstration needs no warning of it. */
	if (!hca || !*hca)
		(void)setenv("ORIEL_HCA", "soft", 1);
	snprintf(ranks, sizeof(ranks), "%u", options->ranks);
	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)options->seed);
	printf("Oriel %s, %s ranks, seed %s\n\n", oriel_version(), ranks, seed);
	code = demo_run(show);
	if (code != TOOL_OK) {
		fprintf(stderr, "oriel demo: failed with code %d; repeat it with --seed %s\n", code,
			seed);
		return code;
	}
	if (has_heat && demo_find_picture(picture)) {
		printf("\nHeat in a rose window\n");
		code = demo_run(warm);
	}
	if (code != TOOL_OK) {
		fprintf(stderr, "oriel demo: the heat example failed with code %d\n", code);
		return code;
	}
	printf("\nAll checks passed in %.1f s\n", (double)(oriel_dev_clock_ns() - start) / 1e9);
	return TOOL_OK;
}

static bool demo_parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno && *value >= min && *value <= max;
}

static bool demo_parse(int argc, char **argv, struct demo_options *options)
{
	static const struct option names[] = {{"ranks", required_argument, NULL, 'n'},
					      {"seed", required_argument, NULL, 's'},
					      {"rank", no_argument, NULL, 'r'},
					      {NULL, 0, NULL, 0}};
	uint64_t value;
	int option;

	opterr = 0;
	optind = 0; /* restart getopt */
	while ((option = getopt_long(argc, argv, "n:", names, NULL)) != -1) {
		switch (option) {
		case 'n':
			if (!demo_parse_number(optarg, 2, DEMO_MAX_RANKS, &value))
				return false;
			options->ranks = (unsigned)value;
			break;
		case 's':
			if (!demo_parse_number(optarg, 0, UINT64_MAX, &options->seed))
				return false;
			break;
		case 'r':
			options->is_rank = true;
			break;
		default:
			return false;
		}
	}
	return optind == argc;
}

int oriel_tool_demo(int argc, char **argv)
{
	struct demo_options options = {.ranks = 4, .seed = (uint64_t)time(NULL)};

	if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		fputs(DEMO_USAGE, stdout);
		return TOOL_OK;
	}
	if (!demo_parse(argc, argv, &options)) {
		fputs(DEMO_USAGE, stderr);
		return TOOL_USAGE;
	}
	return options.is_rank ? demo_rank(&options) : demo_whole(&options);
}
