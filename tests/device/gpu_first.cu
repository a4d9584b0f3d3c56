/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows in GPU memory, kernels that operate on them: every rank a thread (gpu_first THREADS
 * [NODES]) or a process (oriel run -n N [--nodes M] gpu_first). Rank r uses GPU r modulo the
 * number of GPUs; kernels reach ranks of other virtual nodes through the software HCA. Prints a
 * line for each claim and ends with 1 if one does not hold.
 */
#include "first_rank.h"
#include "pieces.h"
#include "ranks.h"

/*
 * Each kernel once, with a window that all operations reject: the setup of a first launch
 * (local memory, say) may have to wait for the kernels that run on the GPU, and those of
 * another rank there would wait for this one.
 */
static void warm_up(struct rank *r)
{
	struct oriel_dev_window closed = r->dev;

	closed.magic = 0;
	closed.ranks = 1;
	warm_up_window(r, &closed);
	warm_up_break(r, &closed);
	must_cuda(r, "warm up", cudaGetLastError());
	must_cuda(r, "warm up", cudaStreamSynchronize(r->stream));
	must(r, "oriel_comm_barrier", oriel_comm_barrier(r->comm));
}

static void print_peers(struct rank *r)
{
	for (unsigned i = 0; i < r->size && r->rank == 0; i++) {
		struct oriel_peer peer = {};

		peer.size = sizeof(peer);
		must(r, "oriel_comm_peer", oriel_comm_peer(r->comm, i, &peer));
		printf("     rank 0 to rank %u: %s\n", i, peer.reason);
	}
}

static void cycle_windows(struct rank *r)
{
	struct oriel_window_attr attr = {};
	size_t before, after, total;

	attr.size = sizeof(attr);
	attr.length = LENGTH;
	attr.flags = ORIEL_WINDOW_DEVICE;
	must(r, "oriel_comm_barrier", oriel_comm_barrier(r->comm));
	must_cuda(r, "cudaMemGetInfo", cudaMemGetInfo(&before, &total));
	for (int i = 0; i < 100; i++) {
		struct oriel_window *window;

		must(r, "oriel_window_create", oriel_window_create(r->comm, &attr, &window));
		oriel_window_destroy(window);
	}
	must(r, "oriel_comm_barrier", oriel_comm_barrier(r->comm));
	must_cuda(r, "cudaMemGetInfo", cudaMemGetInfo(&after, &total));
	/* Other ranks on this GPU may be ahead or behind by a window. */
	verdict(r, "a hundred windows leave no memory behind", after + (64u << 20) >= before,
		"less memory is free than before");
}

static unsigned rank_main(const struct oriel_bootstrap *bootstrap, const char *node)
{
	struct rank r = {};
	void *own = NULL, *host = NULL;
	struct pieces pieces;
	char *legacy = NULL;
	int devices = 0;

	r.rank = bootstrap->rank;
	r.size = bootstrap->size;
	r.bootstrap = bootstrap;
	r.node = node;
	must_cuda(&r, "cudaGetDeviceCount", cudaGetDeviceCount(&devices));
	r.device = (int)(r.rank % (unsigned)devices);
	must_cuda(&r, "cudaSetDevice", cudaSetDevice(r.device));
	must_cuda(&r, "cudaFree", cudaFree(NULL));
	must_cuda(&r, "stream", cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking));
	must_cuda(&r, "report",
		  cudaHostAlloc((void **)&r.report, 2 * sizeof(*r.report), cudaHostAllocPortable));
	must_cuda(&r, "scratch", cudaMalloc((void **)&r.scratch, LENGTH));
	must_cuda(&r, "round", cudaMalloc((void **)&r.round, sizeof(*r.round)));

	pieces = pieces_open(r.device);
	open_window(&r, LONG_NS);
	print_peers(&r);
	warm_up(&r);
	test_put_signal(&r, "put_signal brings all bytes");
	test_barrier(&r);
	test_get(&r);
	test_atomics(&r);
	test_channels(&r);
	test_rejected(&r);
	test_graph(&r);
	test_streams(&r);
	test_stream_graph(&r);
	test_buffers(&r, &legacy, &own, &host, &pieces);
	test_mistakes(&r);
	cycle_windows(&r);
	test_put_signal(&r, "and the first window still works");
	close_window(&r);
	test_blame(&r);
	test_stream_limit(&r);
	test_abort(&r);

	oriel_memory_free(own);
	oriel_memory_free(host);
	must_cuda(&r, "end", cudaDeviceSynchronize());
	printf("%s rank %u of %u: %u claims do not hold\n", r.failures ? "FAIL" : "PASS", r.rank,
	       r.size, r.failures);
	return r.failures;
}

int main(int argc, char **argv)
{
	return run_ranks(rank_main, argc, argv);
}
