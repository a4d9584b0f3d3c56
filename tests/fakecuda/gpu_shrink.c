/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_shrink: a rank of a job whose window lies in memory of a fake GPU, and whose kernel waits at
 * a barrier for rank 1; shrink/shrink_test.py starts it, and kills rank 1 or writes it a line,
 * after which it aborts and shrinks the communicator instead of arriving. The kernels of the others
 * end, and all that are left go on with a communicator and a window of their own. Prints "ready"
 * when the kernel waits, and at the end how many are left.
 */
#include "rank.h"

#define ROUNDS 20u

static void meet(struct rank *r, CUstream stream)
{
	CHECK_OK(r, oriel_window_barrier_on_stream(r->window, 0, 0, stream));
	fakecuda_finish(stream);
}

static void open_window(struct rank *r, struct oriel_comm *comm)
{
	struct oriel_window_attr attr = {.size = sizeof(attr),
					 .length = LENGTH,
					 .signals = 1,
					 .flags = ORIEL_WINDOW_DEVICE};

	r->comm = comm;
	r->rank = oriel_comm_rank(comm);
	r->size = oriel_comm_size(comm);
	if (!CHECK_OK(r, oriel_window_create(comm, &attr, &r->window)))
		_Exit(1);
}

/* Each rank signals all others, and finds as many signals as there are others. */
static void go_on(struct rank *r, CUstream stream)
{
	uint64_t round;
	unsigned peer;

	for (round = 1; round <= ROUNDS; round++) {
		for (peer = 0; peer < r->size; peer++)
			if (peer != r->rank)
				CHECK_OK(r, oriel_window_signal_on_stream(r->window, peer, 0,
									  ORIEL_SIGNAL_ADD, 1,
									  stream));
		CHECK_OK(r, oriel_window_wait_signal_on_stream(r->window, 0, ORIEL_GE,
							       round * (r->size - 1), 0, stream));
		meet(r, stream);
	}
}

int main(void)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr),
				       .flags = ORIEL_COMM_GPU | ORIEL_COMM_SHRINK};
	struct oriel_comm *comm = NULL, *left = NULL;
	struct rank r = {0};
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUstream stream;
	bool is_awaited;
	char line[16];

	rank_use_gpu(&r);
	fakecuda_async(true);
	cuThreadExchangeStreamCaptureMode(&mode);
	if (!CHECK_OK(&r, oriel_comm_create(NULL, &attr, &comm)) ||
	    !CHECK(&r, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS))
		return 1;
	open_window(&r, comm);
	is_awaited = r.rank == 1;
	meet(&r, stream);
	if (!is_awaited) {
		CHECK_OK(&r, oriel_window_barrier_on_stream(r.window, 0, 0, stream));
		CHECK(&r, cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
	}
	printf("ready\n");
	fflush(stdout);
	/* A line of standard input, unless it is killed before. */
	if (is_awaited) {
		CHECK(&r, fgets(line, sizeof(line), stdin));
		oriel_comm_abort(comm, "rank 1 leaves");
	}
	if (!is_awaited)
		fakecuda_finish(stream);
	CHECK_OK(&r, oriel_window_destroy(r.window));
	if (!CHECK_OK(&r, oriel_comm_shrink(comm, NULL, &left)))
		return 1;
	CHECK_OK(&r, oriel_comm_destroy(comm));
	open_window(&r, left);
	go_on(&r, stream);
	rank_close(&r);
	CHECK(&r, cuStreamDestroy(stream) == CUDA_SUCCESS);
	printf("left: %u\n", r.size);
	return r.failures ? 1 : 0;
}
