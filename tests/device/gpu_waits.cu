/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits of kernels that `oriel hang`, in PATH, shows: oriel run -n 2 gpu_waits. Rank 0's kernel
 * waits for rank 1, which is late: one block for a message, one for LL lines, one at a barrier, and
 * two for one signal. Once all are shown, rank 1 does its part. With --nodes 2 it waits for its NIC
 * instead, whose request rank 1's software HCA does not answer: its process is stopped until the
 * wait is shown. A line for each claim; ends with 1 if one does not hold.
 */
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cuda_runtime.h>

#include <oriel/dev.h>

#include "ranks.h"

#define TIMEOUT_NS 60000000000ull /* of each wait */
#define LIMIT_NS 30000000000ull   /* until `oriel hang` shows what it should */
#define LINES 65536u              /* offset of the LL lines in buffer 0 */
#define LENGTH 131072u
#define BYTES 4096u
#define BLOCKS 5u

struct rank {
	unsigned rank, failures;
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct oriel_dev_window dev;
	char *data;  /* of the GPU */
	int *status; /* pinned, [BLOCKS] */
};

/* In the JSON of each wait. */
static const char *const expected[] = {
	"\"text\":\"wait_signal_from: window 1, signal 5: expected >= 2, seen 1\"",
	"\"text\":\"recv: window 1, channel 3: ",
	"\"text\":\"wait_ll: window 1, id 0: expected == 7, seen ",
	"\"text\":\"barrier: window 1, barrier slot 2: ",
};

static void verdict(struct rank *r, const char *claim, bool holds)
{
	r->failures += !holds;
	printf("%s rank %u: %s\n", holds ? "PASS" : "FAIL", r->rank, claim);
}

__global__ void late(struct oriel_dev_window w, char *data, int *status)
{
	struct oriel_dev_group g = oriel_dev_block();
	uint32_t peer = 1 - w.rank;
	enum oriel_status result;

	switch (blockIdx.x) {
	case 0:
		result = oriel_dev_recv(&w, g, peer, 3, data, BYTES, TIMEOUT_NS);
		break;
	case 1:
		result = oriel_dev_wait_ll(&w, g, LINES, data + BYTES, BYTES, 7, TIMEOUT_NS);
		break;
	case 2:
		result = oriel_dev_barrier(&w, g, 2, TIMEOUT_NS);
		break;
	default:
		result = oriel_dev_wait_signal_from(&w, g, peer, 5, ORIEL_GE, 2, TIMEOUT_NS);
	}
	if (g.rank == 0)
		status[blockIdx.x] = result;
}

/* Ends the waits of rank 0; if @is_first, it is the first of the two signals alone. */
__global__ void arrive(struct oriel_dev_window w, char *data, bool is_first, int *status)
{
	struct oriel_dev_group g = oriel_dev_block();
	uint32_t peer = 1 - w.rank;
	enum oriel_status result = oriel_dev_signal(&w, g, peer, 5, ORIEL_SIGNAL_ADD, 1, NULL);

	if (result == ORIEL_OK && !is_first)
		result = oriel_dev_send(&w, g, peer, 3, data, BYTES, TIMEOUT_NS);
	if (result == ORIEL_OK && !is_first)
		result = oriel_dev_put_ll(&w, g, peer, LINES, data, BYTES, 7);
	if (result == ORIEL_OK && !is_first)
		result = oriel_dev_barrier(&w, g, 2, TIMEOUT_NS);
	if (g.rank == 0)
		status[0] = result;
}

/* Signals rank 1, until the NIC has done so. */
__global__ void wait_for_nic(struct oriel_dev_window w, int *status)
{
	struct oriel_dev_group g = oriel_dev_block();
	struct oriel_dev_ticket ticket = {};
	enum oriel_status result = oriel_dev_signal(&w, g, 1, 5, ORIEL_SIGNAL_ADD, 1, &ticket);

	if (result == ORIEL_OK)
		result = oriel_dev_wait_local(&w, g, ticket, TIMEOUT_NS);
	if (g.rank == 0)
		status[0] = result;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* The output of `oriel hang @option PID`. */
static void run_hang(const char *option, char *text, size_t length)
{
	char command[64];
	FILE *pipe;
	size_t used = 0, part = 1;

	snprintf(command, sizeof(command), "oriel hang %s %d", option, (int)getpid());
	pipe = popen(command, "r");
	while (pipe && part && used < length - 1) {
		part = fread(text + used, 1, length - 1 - used, pipe);
		used += part;
	}
	text[used] = '\0';
	if (pipe)
		pclose(pipe);
}

/* How often @part is in @text. */
static unsigned count(const char *text, const char *part)
{
	unsigned found = 0;

	for (text = strstr(text, part); text; text = strstr(text + 1, part))
		found++;
	return found;
}

static unsigned count_all(const char *text)
{
	unsigned found = 0;

	for (unsigned i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		found += count(text, expected[i]) == 1;
	return found;
}

static void check_waits(struct rank *r)
{
	static char text[65536];
	const unsigned all = sizeof(expected) / sizeof(expected[0]);
	uint64_t end = now_ns() + LIMIT_NS;

	do
		run_hang("--json", text, sizeof(text));
	while (count_all(text) < all && now_ns() < end);
	verdict(r, "each wait of the kernel is shown, and shown once", count_all(text) == all);
	verdict(r, "no other wait of a kernel is", count(text, "\"kernel\":true") == all);
	verdict(r, "they are for rank 1, but for the lines, which any rank may write",
		count(text, "\"kernel\":true") == count(text, "\"for\":[1]"));
	if (r->failures)
		printf("%s\n", text);
	run_hang("", text, sizeof(text));
	verdict(r, "the text says so, too",
		strstr(text, " s for rank 1: wait_signal_from: window 1, signal 5: expected >= 2, "
			     "seen 1\n") &&
			strstr(text, "    a kernel has waited "));
	if (r->failures)
		printf("%s\n", text);
}

/* `oriel hang --json`, once it has @part or the limit has passed. */
static bool find_in_hang(const char *part, char *text, size_t length)
{
	uint64_t end = now_ns() + LIMIT_NS;

	do
		run_hang("--json", text, length);
	while (!strstr(text, part) && now_ns() < end);
	return strstr(text, part) != NULL;
}

static void check_nic(struct rank *r)
{
	static char text[65536];
	const char *process;
	int pid = 0;

	verdict(r, "rank 1 is stopped", find_in_hang("\"state\":\"T\"", text, sizeof(text)));
	process = strstr(text, "{\"rank\":1,\"process\":");
	if (process)
		sscanf(process, "{\"rank\":1,\"process\":%d", &pid);
	wait_for_nic<<<1, 32>>>(r->dev, r->status);
	CUDA(cudaGetLastError());
	verdict(r, "the wait for a NIC is shown",
		find_in_hang("\"text\":\"requests for rank 1 are not completed\"", text,
			     sizeof(text)));
	verdict(r, "no other wait of a kernel is, and it is for no rank",
		count(text, "\"kernel\":true") == 1 && count(text, "\"for\":[]") == 1);
	if (r->failures)
		printf("%s\n", text);
	if (pid)
		kill(pid, SIGCONT);
	CUDA(cudaDeviceSynchronize());
	verdict(r, "what it waited for came", r->status[0] == ORIEL_OK);
}

/* Rank 0's kernel waits for ranks; rank 1 is late. */
static void run_late(struct rank *r)
{
	if (r->rank == 1) {
		arrive<<<1, 32>>>(r->dev, r->data, true, r->status);
		CUDA(cudaDeviceSynchronize());
	}
	MUST(oriel_comm_barrier(r->comm));
	if (r->rank == 0) {
		late<<<BLOCKS, 256>>>(r->dev, r->data, r->status);
		CUDA(cudaGetLastError());
		check_waits(r);
	}
	/* Rank 1 is late until here. */
	MUST(oriel_comm_barrier(r->comm));
	if (r->rank == 1)
		arrive<<<1, 256>>>(r->dev, r->data, false, r->status);
	CUDA(cudaDeviceSynchronize());
	for (unsigned i = 0; i < BLOCKS; i++)
		verdict(r, "what it waited for came", r->status[i] == ORIEL_OK);
}

static void rank_open(struct rank *r, const struct oriel_bootstrap *bootstrap)
{
	struct oriel_comm_attr comm = {};
	struct oriel_window_attr attr = {};
	int gpus = 0;

	comm.size = sizeof(comm);
	comm.flags = ORIEL_COMM_GPU;
	attr.size = sizeof(attr);
	attr.length = LENGTH;
	attr.signals = 8;
	attr.barriers = 4;
	attr.channels = 4;
	attr.flags = ORIEL_WINDOW_DEVICE;
	CUDA(cudaGetDeviceCount(&gpus));
	CUDA(cudaSetDevice((int)bootstrap->rank % gpus));
	MUST(oriel_comm_create(bootstrap, &comm, &r->comm));
	r->rank = oriel_comm_rank(r->comm);
	MUST(oriel_window_create(r->comm, &attr, &r->window));
	MUST(oriel_window_device(r->window, &r->dev));
	CUDA(cudaMalloc((void **)&r->data, 2 * BYTES));
	CUDA(cudaMallocHost((void **)&r->status, BLOCKS * sizeof(*r->status)));
	memset(r->status, 0, BLOCKS * sizeof(*r->status));
}

static unsigned rank_main(const struct oriel_bootstrap *bootstrap, const char *node)
{
	struct rank one = {}, *r = &one;
	enum oriel_path path;

	(void)node;
	rank_open(r, bootstrap);
	MUST(oriel_comm_path(r->comm, 1 - r->rank, &path));
	if (path == ORIEL_PATH_MAPPED) {
		run_late(r);
	} else {
		MUST(oriel_comm_barrier(r->comm));
		if (r->rank == 1)
			raise(SIGSTOP);
		else
			check_nic(r);
	}
	MUST(oriel_comm_barrier(r->comm));
	CUDA(cudaFree(r->data));
	CUDA(cudaFreeHost(r->status));
	MUST(oriel_window_destroy(r->window));
	MUST(oriel_comm_destroy(r->comm));
	return r->failures;
}

int main(int argc, char **argv)
{
	return run_ranks(rank_main, argc, argv);
}
