/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows in the memory of the fake driver, which the CPU reaches: the device
 * functions work on the handle as a kernel would. Ranks are threads (gpu_window
 * N [MODE]) or processes (oriel run -n N gpu_window [MODE]).
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "rank.h"

static void check_reach_queue(struct rank *r, CUdevice mine, const struct oriel_mlx5_queue *q)
{
	uint64_t last = ((uint64_t)1 << q->log_depth) * ORIEL_MLX5_BLOCK - 1;

	CHECK(r, fakecuda_reaches(mine, q) && fakecuda_reaches(mine, &q->err));
	CHECK(r, fakecuda_reaches(mine, q->sq) && fakecuda_reaches(mine, q->sq + last));
	CHECK(r, fakecuda_reaches(mine, q->cq) && fakecuda_reaches(mine, q->cq + last));
	CHECK(r, fakecuda_reaches(mine, q->record) && fakecuda_reaches(mine, q->doorbell));
}

static void check_reach_ring(struct rank *r, CUdevice mine, const struct oriel_proxy_ring *ring)
{
	const struct oriel_proxy_entry *last = ring->entries + oriel_proxy_depth(ring) - 1;

	CHECK(r, fakecuda_reaches(mine, ring) && fakecuda_reaches(mine, &ring->err));
	CHECK(r, fakecuda_reaches(mine, ring->entries) && fakecuda_reaches(mine, &last->stamp));
	CHECK(r, fakecuda_reaches(mine, ring->words) && !ring->asleep);
}

static void check_reach_link(struct rank *r, CUdevice mine, const struct oriel_dev_link *l)
{
	CHECK(r, fakecuda_reaches(mine, l) && fakecuda_reaches(mine, l->answers) &&
			 l->blame == r->dev.blame && l->health == r->dev.health);
	if (l->post_kind == ORIEL_LINK_PROXY) {
		check_reach_ring(r, mine, oriel_link_main(l).proxy);
		return;
	}
	check_reach_queue(r, mine, oriel_link_main(l).ring);
	check_reach_queue(r, mine, l->companion);
}

static bool is_remote(const struct rank *r, unsigned peer)
{
	return oriel_dev_is_rdma(&r->dev, peer);
}

/* Check all pointers that a kernel follows from the handle, for every rank. */
static void check_reach(struct rank *r, uint32_t buffer)
{
	const struct oriel_dev_window *d = &r->dev;
	uint32_t peer;
	CUdevice mine;

	CHECK(r, cuCtxGetDevice(&mine) == CUDA_SUCCESS);
	CHECK(r, fakecuda_reaches(mine, d->health) && fakecuda_reaches(mine, d->blame) &&
			 fakecuda_reaches(mine, d->fault));
	CHECK(r, fakecuda_reaches(mine, d->peers) && fakecuda_reaches(mine, d->table) &&
			 fakecuda_reaches(mine, d->slots));
	for (peer = 0; peer < r->size; peer++) {
		const char *at = oriel_dev_address(d, peer, oriel_at(buffer, 0));

		if (is_remote(r, peer)) {
			check_reach_link(r, mine, d->peers[peer].link);
			continue;
		}
		CHECK(r, fakecuda_reaches(mine, d->peers[peer].control));
		CHECK(r, fakecuda_reaches(mine, at) && fakecuda_reaches(mine, at + 4095));
	}
}

/* Put through @buffer in a ring, and check what arrived. */
static void pass_round(struct rank *r, uint32_t buffer, unsigned round)
{
	uint32_t next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	struct oriel_dev_group me = oriel_dev_thread();
	uint64_t words[2] = {r->rank * 1000u + round, buffer};
	const uint64_t *mine;

	check_reach(r, buffer);
	CHECK_OK(r, oriel_dev_put_signal(&r->dev, me, next, oriel_at(buffer, 24), words,
					 sizeof(words), 3, 1));
	CHECK_OK(r, oriel_dev_wait_signal_next(&r->dev, me, before, 3, 1, 0));
	mine = oriel_dev_address(&r->dev, r->rank, oriel_at(buffer, 24));
	CHECK(r, mine[0] == before * 1000u + round && mine[1] == buffer);
	CHECK_OK(r, oriel_dev_barrier(&r->dev, me, 0, 0));
}

static void test_operations(struct rank *r)
{
	uint32_t next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	struct oriel_dev_group me = oriel_dev_thread();
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	struct oriel_dev_comm comm;
	char text[300] = "", got[300] = "";
	uint64_t old;
	unsigned i;

	for (i = 0; i < LENGTH; i++)
		CHECK(r, !((const char *)oriel_dev_address(&r->dev, r->rank, 0))[i]);
	CHECK(r, r->dev.blame != r->dev.health);
	CHECK(r, cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS &&
			 mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
	CHECK_OK(r, oriel_dev_barrier(&r->dev, me, 0, 0));
	for (i = 0; i < 10; i++)
		pass_round(r, 0, i);
	/* Each kind of atomic has a word of its own. */
	for (i = 0; i < 3; i++)
		CHECK_OK(r, oriel_dev_fetch_add(&r->dev, 0, 40 + 8 * oriel_dev_path(&r->dev, 0), 1,
						&old));
	CHECK_OK(r, oriel_dev_put_counter(&r->dev, me, next, 128, text, sizeof(text), 2));
	CHECK_OK(r, oriel_dev_wait_counter(&r->dev, me, next, 2, ORIEL_EQ, 1, 0));
	CHECK_OK(r, oriel_dev_barrier(&r->dev, me, 0, 0));
	for (i = ORIEL_PATH_SELF, old = 0; i <= ORIEL_PATH_RDMA && r->rank == 0; i++)
		old += *(uint64_t *)oriel_dev_address(&r->dev, 0, 40 + 8 * i);
	CHECK(r, r->rank != 0 || old == 3 * r->size);
	snprintf(text, sizeof(text), "from %u", r->rank);
	if (r->size > 1) {
		CHECK_OK(r, oriel_dev_send(&r->dev, me, next, 1, text, sizeof(text), 0));
		CHECK_OK(r, oriel_dev_recv(&r->dev, me, before, 1, got, sizeof(got), 0));
		snprintf(text, sizeof(text), "from %u", before);
		CHECK(r, strcmp(text, got) == 0);
	}
	CHECK_OK(r, oriel_comm_device(r->comm, &comm));
	CHECK(r, comm.of[r->rank].path == ORIEL_PATH_SELF &&
			 comm.domain[comm.domain_index] == r->rank);
}

/* Share @at and use the buffer. */
static void share_and_use(struct rank *r, void *at, unsigned round)
{
	uint32_t number = 0;
	void *address = NULL;
	size_t length = 0;

	CHECK_OK(r, oriel_window_share(r->window, at, 4096, &number));
	CHECK_OK(r, oriel_window_buffer(r->window, number, &address, &length));
	CHECK(r, address == at && length == 4096);
	CHECK(r, oriel_dev_address(&r->dev, r->rank, oriel_at(number, 0)) == at);
	pass_round(r, number, round);
}

/* Check whether the handle has the address of buffer 0 of each mapped rank. */
static void check_wide(struct rank *r, void *buffer, bool is_wide)
{
	struct oriel_window_attr attr = {.size = sizeof(attr),
					 .buffer = buffer,
					 .length = 4096,
					 .flags = ORIEL_WINDOW_DEVICE};
	struct oriel_window *window = NULL;
	struct oriel_dev_window dev;
	uint32_t i;

	if (!CHECK_OK(r, oriel_window_create(r->comm, &attr, &window)) ||
	    !CHECK_OK(r, oriel_window_device(window, &dev)))
		_Exit(1);
	for (i = 0; i < r->size; i++)
		if (!is_remote(r, i))
			CHECK(r, (dev.inline_wide >> i % ORIEL_DEV_INLINE_PEERS & 1) == is_wide);
	oriel_window_destroy(window);
}

static void test_buffers(struct rank *r)
{
	char *two = map(r, 65536, 2, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	void *own = NULL, *host = NULL;
	CUdeviceptr legacy = 0;

	CHECK(r, cuMemAlloc(&legacy, 20000) == CUDA_SUCCESS);
	CHECK_OK(r, oriel_memory_alloc(4096, ORIEL_MEMORY_DEVICE, &own));
	CHECK_OK(r, oriel_memory_alloc(4096, 0, &host));
	share_and_use(r, (char *)legacy + 5000, 1);
	share_and_use(r, own, 2);
	share_and_use(r, host, 3);
	share_and_use(r, two + 65536 - 32, 4);
	share_and_use(r, r->rank % 2 ? own : host, 5);
	check_wide(r, NULL, true);
	check_wide(r, own, true);
	check_wide(r, (void *)legacy, true);
	check_wide(r, host, false);
	oriel_window_destroy(r->window);
	r->window = NULL;
	oriel_memory_free(own);
	oriel_memory_free(host);
	CHECK(r, cuMemFree(legacy) == CUDA_SUCCESS);
	unmap(r, two, 65536, 2);
}

static void test_mistakes(struct rank *r)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .length = 4096};
	char *many = map(r, 65536, 61, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	char *mute = map(r, 65536, 2, CU_MEM_HANDLE_TYPE_NONE);
	struct oriel_window *none = NULL;
	struct oriel_dev_fault fault;
	CUdeviceptr legacy = 0, managed = 0;
	char pageable[64] = "";
	uint32_t number = 0;

	CHECK(r, cuMemAlloc(&legacy, 20000) == CUDA_SUCCESS);
	CHECK(r, cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
	CHECK_FAILS(r, oriel_window_share(r->window, pageable, sizeof(pageable), &number),
		    ORIEL_ERR_INVALID, "is host memory");
	CHECK_FAILS(r, oriel_window_share(r->window, mute, 4096, &number), ORIEL_ERR_INVALID,
		    "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR");
	attr.buffer = (void *)legacy;
	CHECK_FAILS(r, oriel_window_create(r->comm, &attr, &none), ORIEL_ERR_INVALID,
		    "the window needs ORIEL_WINDOW_DEVICE");
	attr.buffer = NULL;
	CHECK_FAILS(r, oriel_window_share(r->window, (char *)legacy + 19000, 4096, &number),
		    ORIEL_ERR_RANGE, "ends before");
	CHECK_FAILS(r, oriel_window_share(r->window, (char *)managed, 4096, &number),
		    ORIEL_ERR_UNSUPPORTED, "managed memory");
	CHECK_FAILS(r, oriel_window_share(r->window, many, 61 * 65536, &number),
		    ORIEL_ERR_UNSUPPORTED, "more than 60 allocations");
	CHECK_FAILS(r, oriel_window_share(r->window, many + 60 * 65536, 65536 + 1, &number),
		    ORIEL_ERR_UNSUPPORTED, "is host memory");
	attr.flags = ORIEL_WINDOW_DEVICE | ORIEL_WINDOW_HUGE;
	CHECK_FAILS(r, oriel_window_create(r->comm, &attr, &none), ORIEL_ERR_INVALID, "huge pages");
	attr.flags = r->rank == 0 ? ORIEL_WINDOW_DEVICE : 0;
	if (r->size > 1)
		CHECK_FAILS(r, oriel_window_create(r->comm, &attr, &none), ORIEL_ERR_MISMATCH,
			    "in GPU memory on rank 0 and in host memory on rank 1");
	CHECK_FAILS(r, oriel_window_put(r->window, 0, 0, pageable, 8, NULL), ORIEL_ERR_INVALID,
		    "need a stream");
	CHECK_FAILS(r, oriel_window_flush(r->window, 0, NULL), ORIEL_ERR_INVALID, "need a stream");
	CHECK(r, oriel_dev_put(&r->dev, oriel_dev_thread(), 0, LENGTH, pageable, 1) ==
			 ORIEL_ERR_RANGE);
	CHECK_OK(r, oriel_window_fault(r->window, &fault));
	CHECK(r, strstr(oriel_last_error(), "beyond the 65536 bytes of buffer 0"));
	CHECK(r, oriel_window_fault(r->window, &fault) == ORIEL_AGAIN);
	CHECK(r, cuMemFree(legacy) == CUDA_SUCCESS && cuMemFree(managed) == CUDA_SUCCESS);
	unmap(r, mute, 65536, 2);
	unmap(r, many, 65536, 61);
}

/* Memory of a GPU that is not the communicator's. */
static void test_other_gpu(struct rank *r)
{
	CUcontext mine, other;
	CUdeviceptr legacy = 0;
	CUdevice device = 0;
	uint32_t number = 0;
	char *two;
	int count = 0;

	CHECK(r, cuDeviceGetCount(&count) == CUDA_SUCCESS && count > 1);
	CHECK(r, cuCtxGetCurrent(&mine) == CUDA_SUCCESS && cuCtxGetDevice(&device) == CUDA_SUCCESS);
	CHECK(r, cuDevicePrimaryCtxRetain(&other, (device + 1) % count) == CUDA_SUCCESS);
	CHECK(r, cuCtxSetCurrent(other) == CUDA_SUCCESS);
	CHECK(r, cuMemAlloc(&legacy, 20000) == CUDA_SUCCESS);
	two = map(r, 65536, 2, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	CHECK(r, cuCtxSetCurrent(mine) == CUDA_SUCCESS);
	CHECK_FAILS(r, oriel_window_share(r->window, (char *)legacy, 4096, &number),
		    ORIEL_ERR_INVALID, "is memory of GPU ");
	CHECK_FAILS(r, oriel_window_share(r->window, two, 4096, &number), ORIEL_ERR_INVALID,
		    "is memory of GPU ");
	CHECK(r, cuMemFree(legacy) == CUDA_SUCCESS);
	unmap(r, two, 65536, 2);
}

/* A driver call fails on rank 0: all ranks get the status, and the next try succeeds. */
static void test_failures(struct rank *r)
{
	static const char *const calls[] = {"cuMemCreate",
					    "cuMemAddressReserve",
					    "cuMemMap",
					    "cuMemSetAccess",
					    "cuMemExportToShareableHandle",
					    "cuMemImportFromShareableHandle",
					    "cuMemcpyAsync",
					    "cuCtxGetCurrent"};
	struct oriel_window_attr attr = {.size = sizeof(attr),
					 .length = LENGTH,
					 .flags = ORIEL_WINDOW_DEVICE};
	struct oriel_window *window;
	unsigned i, after;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		for (after = 0; after < 3; after++) {
			enum oriel_status status;

			CHECK_OK(r, oriel_comm_barrier(r->comm));
			if (r->rank == 0)
				fakecuda_fail(calls[i], after);
			CHECK_OK(r, oriel_comm_barrier(r->comm));
			status = oriel_window_create(r->comm, &attr, &window);
			CHECK_OK(r, oriel_comm_barrier(r->comm));
			if (r->rank == 0)
				fakecuda_fail(NULL, 0);
			CHECK_OK(r, oriel_comm_barrier(r->comm));
			if (status == ORIEL_OK)
				oriel_window_destroy(window);
		}
	}
}

/* Invalid arguments are rejected before an operation is posted. */
static void test_stream_mistakes(struct rank *r, CUstream s)
{
	struct oriel_window *w = r->window;
	unsigned other = (r->rank + 1) % r->size;
	char pageable[64] = "";

	CHECK_FAILS(r, oriel_window_put(w, r->size, 0, pageable, 8, s), ORIEL_ERR_RANGE,
		    "put: rank ");
	CHECK_FAILS(r, oriel_window_put(w, 0, LENGTH - 7, pageable, 8, s), ORIEL_ERR_RANGE,
		    "put: the end, byte 65537, is beyond the 65536 bytes of buffer 0 of rank 0");
	CHECK_FAILS(r, oriel_window_get(w, 0, LENGTH, pageable, UINT64_MAX, s), ORIEL_ERR_RANGE,
		    "get: the end");
	CHECK_FAILS(r, oriel_window_put(w, 0, oriel_at(8, 0), pageable, 8, s), ORIEL_ERR_RANGE,
		    "put: buffer 8 of 8");
	CHECK_FAILS(r, oriel_window_put(w, 0, oriel_at(7, 0), pageable, 0, s), ORIEL_ERR_STATE,
		    "put: buffer 7 of rank 0 is not shared");
	CHECK_FAILS(r, oriel_window_put_value(w, 0, 12, 1, s), ORIEL_ERR_INVALID,
		    "put_value: the word at offset 12 of buffer 0 is not aligned");
	CHECK_FAILS(r, oriel_window_put_signal(w, 0, 0, pageable, 8, 64, 1, s), ORIEL_ERR_RANGE,
		    "signal: signal 64 of 64");
	CHECK_FAILS(r, oriel_window_signal(w, 0, 0, (enum oriel_signal_op)2, 1, s),
		    ORIEL_ERR_INVALID, "no comparison or operation 2");
	CHECK_FAILS(r, oriel_window_wait_signal(w, 0, (enum oriel_compare)6, 1, 0, s),
		    ORIEL_ERR_INVALID, "no comparison or operation 6");
	CHECK_FAILS(r, oriel_window_wait_signal_next(w, r->size, 0, 1, 0, s), ORIEL_ERR_RANGE,
		    "wait_signal_next: rank ");
	CHECK_FAILS(r, oriel_window_barrier(w, 16, 0, s), ORIEL_ERR_RANGE,
		    "barrier: barrier slot 16 of 16");
	CHECK_FAILS(r, oriel_window_barrier_arrive(w, 16, s), ORIEL_ERR_RANGE,
		    "barrier: barrier slot 16 of 16");
	CHECK_FAILS(r, oriel_window_barrier_wait(w, 16, 0, s), ORIEL_ERR_RANGE,
		    "barrier: barrier slot 16 of 16");
	CHECK_FAILS(r, oriel_window_send(w, r->rank, 0, pageable, 8, 0, s), ORIEL_ERR_INVALID,
		    "is the rank itself");
	CHECK_FAILS(r, oriel_window_fetch_add(w, 0, 0, 1, (uint64_t *)(void *)pageable, s),
		    ORIEL_ERR_INVALID, "not pinned");
	CHECK_FAILS(r, oriel_window_fetch_add(w, 0, LENGTH, 1, NULL, s), ORIEL_ERR_RANGE,
		    "fetch_add: the end");
	CHECK_FAILS(r, oriel_window_read_signal(w, 0, NULL, s), ORIEL_ERR_INVALID,
		    "no aligned word");
	CHECK_FAILS(r, oriel_window_read_signal(w, 64, NULL, s), ORIEL_ERR_RANGE,
		    "wait_signal: signal 64 of 64");
	CHECK_FAILS(r, oriel_window_read_signal_from(w, r->size, 0, NULL, s), ORIEL_ERR_RANGE,
		    "rank ");
	CHECK_FAILS(r, oriel_window_put_counter(w, 0, 0, pageable, 8, 16, s), ORIEL_ERR_RANGE,
		    "counter: counter 16 of 16");
	CHECK_FAILS(r, oriel_window_put_counter(w, 0, LENGTH, pageable, 8, 0, s), ORIEL_ERR_RANGE,
		    "put: the end");
	CHECK_FAILS(r, oriel_window_put_signal_counter(w, 0, 0, pageable, 8, 64, 1, 0, s),
		    ORIEL_ERR_RANGE, "signal: signal 64 of 64");
	CHECK_FAILS(r, oriel_window_signal_counter(w, r->size, 0, 1, 0, s), ORIEL_ERR_RANGE,
		    "counter: rank ");
	CHECK_FAILS(r, oriel_window_wait_counter(w, 0, 0, (enum oriel_compare)6, 1, 0, s),
		    ORIEL_ERR_INVALID, "no comparison or operation 6");
	CHECK_FAILS(r, oriel_window_read_counter(w, 0, 99, NULL, s), ORIEL_ERR_RANGE,
		    "counter: counter 99 of 16");
	CHECK_FAILS(r, oriel_window_reset_counter(w, 0, 99, s), ORIEL_ERR_RANGE,
		    "counter: counter 99 of 16");
	CHECK_FAILS(r, oriel_window_drain(w, 0, NULL), ORIEL_ERR_INVALID, "need a stream");
	if (r->size == 1)
		return;
	CHECK_FAILS(r, oriel_window_send(w, other, 64, pageable, 8, 0, s), ORIEL_ERR_RANGE,
		    "send: channel 64 of 64");
	CHECK_FAILS(r, oriel_window_recv(w, other, 0, pageable, 8, 0, s), ORIEL_ERR_INVALID,
		    "not pinned");
}

static void stream_round(struct rank *r, CUstream s, uint64_t *memory, unsigned round)
{
	unsigned next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	const uint64_t *mine = oriel_dev_address(&r->dev, r->rank, 0);
	struct oriel_window *w = r->window;

	memory[0] = r->rank * 1000u + round;
	memory[1] = round;
	CHECK_OK(r, oriel_window_put(w, next, 1000 * 8, memory, 8, s));
	CHECK_OK(r, oriel_window_put_signal(w, next, 1001 * 8, memory + 1, 8, 4, 1, s));
	CHECK_OK(r, oriel_window_wait_signal_next(w, before, 4, 1, 0, s));
	CHECK(r, mine[1000] == before * 1000u + round && mine[1001] == round);
	CHECK_OK(r, oriel_window_barrier(w, 3, 0, s));
	CHECK(r, r->dev.slots[3].epoch == 2 * round);
	CHECK_OK(r, oriel_window_get(w, next, 1000 * 8, memory + 2, 8, s));
	CHECK(r, memory[2] == memory[0]);
	CHECK_OK(r, oriel_window_put_value(w, next, 1002 * 8, round, s));
	CHECK_OK(r, oriel_window_signal(w, next, 5, ORIEL_SIGNAL_SET, round, s));
	CHECK_OK(r, oriel_window_wait_signal_from(w, before, 5, ORIEL_GE, round, 0, s));
	CHECK(r, mine[1002] == round);
	CHECK_OK(r, oriel_window_signal_all(w, 6, ORIEL_SIGNAL_ADD, 1, s));
	CHECK_OK(r,
		 oriel_window_wait_signal(w, 6, ORIEL_GE, (uint64_t)round * (r->size - 1), 0, s));
	CHECK_OK(r, oriel_window_barrier_arrive(w, 3, s));
	CHECK_OK(r, oriel_window_barrier_wait(w, 3, 0, s));
	if (r->size == 1)
		return;
	CHECK_OK(r, oriel_window_send(w, next, 2, memory, 8, 0, s));
	CHECK_OK(r, oriel_window_recv(w, before, 2, memory + 3, 8, 0, s));
	CHECK(r, memory[3] == before * 1000u + round);
}

static void expect_posted(struct rank *r, unsigned peer, unsigned copies, unsigned kernels)
{
	struct fakecuda_posted posted = fakecuda_posted();

	/* Copy engines do not copy to a peer that is not mapped. */
	if (is_remote(r, peer)) {
		kernels += copies && !kernels ? copies : 0;
		copies = 0;
	}

	CHECK(r, posted.copies == copies && posted.kernels == kernels);
}

/* An operation that returns a number writes it to memory that the host reads. */
static void test_stream_results(struct rank *r, CUstream s, uint64_t *memory)
{
	unsigned next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	struct oriel_window *w = r->window;
	unsigned i;

	CHECK_OK(r, oriel_window_put_value(w, r->rank, 2000 * 8, 100, s));
	CHECK_OK(r, oriel_window_barrier(w, 3, 0, s));
	CHECK_OK(r, oriel_window_fetch_add(w, next, 2000 * 8, 7, memory, s));
	CHECK(r, memory[0] == 100);
	CHECK_OK(r, oriel_window_barrier(w, 3, 0, s));
	CHECK_OK(r, oriel_window_get(w, r->rank, 2000 * 8, memory, 8, s));
	CHECK(r, memory[0] == 107);
	for (i = 0; i < r->size; i++)
		CHECK_OK(r, oriel_window_signal(w, i, 7, ORIEL_SIGNAL_ADD, 5 + r->rank, s));
	CHECK_OK(r, oriel_window_barrier(w, 3, 0, s));
	CHECK_OK(r, oriel_window_read_signal(w, 7, memory + 1, s));
	CHECK(r, memory[1] == 5 * r->size + r->size * (r->size - 1) / 2);
	CHECK_OK(r, oriel_window_read_signal_from(w, before, 7, memory + 2, s));
	CHECK(r, memory[2] == 5 + before);
	CHECK_OK(r, oriel_window_drain(w, 0, s));
	CHECK_OK(r, oriel_window_flush(w, LONG_NS, s));
}

static void test_stream_counters(struct rank *r, CUstream s, uint64_t *memory)
{
	unsigned next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	const uint64_t *mine = oriel_dev_address(&r->dev, r->rank, 0);
	struct oriel_window *w = r->window;
	unsigned i;

	memory[0] = r->rank + 50;
	CHECK_OK(r, oriel_window_put_counter(w, next, 2001 * 8, memory, 8, 5, s));
	CHECK_OK(r, oriel_window_wait_counter(w, next, 5, ORIEL_EQ, 1, 0, s));
	CHECK_OK(r, oriel_window_put_signal_counter(w, next, 2002 * 8, memory, 8, 8, 3, 5, s));
	CHECK_OK(r, oriel_window_signal_counter(w, next, 8, 4, 5, s));
	CHECK_OK(r, oriel_window_wait_counter(w, next, 5, ORIEL_GE, 3, 0, s));
	CHECK_OK(r, oriel_window_wait_signal_from(w, before, 8, ORIEL_EQ, 7, 0, s));
	CHECK(r, mine[2001] == before + 50 && mine[2002] == before + 50);
	CHECK_OK(r, oriel_window_read_counter(w, next, 5, memory + 1, s));
	CHECK(r, memory[1] == 3);
	CHECK_OK(r, oriel_window_reset_counter(w, next, 5, s));
	CHECK_OK(r, oriel_window_read_counter(w, next, 5, memory + 1, s));
	CHECK(r, memory[1] == 0);
	for (i = 0; i < 8; i++) {
		CHECK_OK(r, oriel_window_put_counter(w, next, 2003 * 8, memory, 8, 5, s));
		CHECK_OK(r, oriel_window_signal_counter(w, next, 40, 1, 5, s));
		CHECK_OK(r, i % 2 ? oriel_window_drain(w, 0, s) : oriel_window_flush(w, 0, s));
		CHECK_OK(r, oriel_window_read_counter(w, next, 5, memory + 1, s));
		CHECK(r, memory[1] == 2);
		CHECK_OK(r, oriel_window_reset_counter(w, next, 5, s));
	}
	CHECK_OK(r, oriel_window_barrier(w, 3, 0, s));
}

/* Some operations are one kernel, others a copy by an engine and a kernel behind it. */
static void test_stream_choice(struct rank *r, CUstream s, char *memory)
{
	unsigned next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	const char *mine = oriel_dev_address(&r->dev, r->rank, 20000);
	struct oriel_window *w = r->window;
	static const uint32_t lengths[] = {1, 4096, 40000};
	char pageable[64];
	size_t i;

	memset(pageable, (int)r->rank + 1, sizeof(pageable));
	/* A NIC registers this memory at its first use. */
	CHECK_OK(r, oriel_window_put(w, next, 20000, memory, 64, s));
	CHECK_OK(r, oriel_window_barrier(w, 3, 0, s));
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		memset(memory, (int)(r->rank + 10 + i), lengths[i]);
		fakecuda_posted();
		CHECK_OK(r, oriel_window_put_signal(w, next, 20000, memory, lengths[i], 9, 1, s));
		expect_posted(r, next, 0, 1);
		CHECK_OK(r, oriel_window_wait_signal_next(w, before, 9, 1, 0, s));
		CHECK(r, mine[0] == (char)(before + 10 + i) &&
				 mine[lengths[i] - 1] == (char)(before + 10 + i));
		CHECK_OK(r, oriel_window_barrier(w, 3, 0, s));
	}
	fakecuda_posted();
	CHECK_OK(r, oriel_window_put_signal(w, next, 20000, pageable, 64, 9, 1, s));
	expect_posted(r, next, 1, 1);
	CHECK_OK(r, oriel_window_wait_signal_next(w, before, 9, 1, 0, s));
	CHECK(r, mine[63] == (char)(before + 1));
	CHECK_OK(r, oriel_window_barrier(w, 3, 0, s));
	fakecuda_posted();
	CHECK_OK(r, oriel_window_put_signal(w, next, LENGTH, NULL, 0, 9, 1, s));
	expect_posted(r, next, 0, 1);
	CHECK_OK(r, oriel_window_put_counter(w, next, 20000, pageable, 64, 6, s));
	expect_posted(r, next, 1, 1);
	CHECK_OK(r, oriel_window_wait_counter(w, next, 6, ORIEL_EQ, 1, 0, s));
	CHECK_OK(r, oriel_window_wait_signal_next(w, before, 9, 1, 0, s));
	CHECK_OK(r, oriel_window_reset_counter(w, next, 6, s));
	fakecuda_posted();
	CHECK_OK(r, oriel_window_put(w, next, 20000, memory, 64, s));
	CHECK_OK(r, oriel_window_get(w, next, 20000, memory, 64, s));
	CHECK_OK(r, oriel_window_get(w, next, 20000, memory, 0, s));
	expect_posted(r, next, 2, 0);
	CHECK_OK(r, oriel_window_barrier(w, 3, 0, s));
}

/* A copy too large for a kernel; a window of its own has room for it. */
static void test_stream_large(struct rank *r, CUstream s)
{
	const struct oriel_window_attr attr = {.size = sizeof(attr),
					       .length = 600000,
					       .flags = ORIEL_WINDOW_DEVICE};
	struct oriel_region *region = NULL;
	struct oriel_window *w = NULL;
	struct oriel_dev_window dev;
	CUdeviceptr memory = 0;
	const char *mine;

	CHECK_OK(r, oriel_window_create(r->comm, &attr, &w));
	CHECK_OK(r, oriel_window_device(w, &dev));
	CHECK(r, cuMemAlloc(&memory, 600000) == CUDA_SUCCESS);
	memset((void *)memory, (int)r->rank + 1, 600000);
	/* From here on NICs have it registered, too. */
	CHECK_OK(r, oriel_region_register(r->comm, (void *)memory, 600000, &region));
	mine = oriel_dev_address(&dev, r->rank, 0);
	fakecuda_posted();
	CHECK_OK(r, oriel_window_put_signal_counter(w, (r->rank + 1) % r->size, 0, (void *)memory,
						    600000, 0, 1, 0, s));
	expect_posted(r, (r->rank + 1) % r->size, 1, 1);
	CHECK_OK(r, oriel_window_wait_signal(w, 0, ORIEL_EQ, 1, 0, s));
	CHECK(r,
	      mine[0] == (char)((r->rank + r->size - 1) % r->size + 1) && mine[599999] == mine[0]);
	CHECK_OK(r, oriel_window_barrier(w, 0, 0, s));
	oriel_region_unregister(region);
	CHECK(r, cuMemFree(memory) == CUDA_SUCCESS);
	oriel_window_destroy(w);
}

static void test_streams(struct rank *r)
{
	CUdeviceptr memory = 0;
	uint64_t value = 1;
	CUstream stream;
	unsigned round;

	CHECK(r, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	CHECK(r, cuMemAlloc(&memory, 65536) == CUDA_SUCCESS);
	if (oriel_window_barrier(r->window, 3, 0, stream) != ORIEL_ERR_UNSUPPORTED) {
		test_stream_mistakes(r, stream);
		for (round = 1; round <= 20; round++)
			stream_round(r, stream, (uint64_t *)memory, round);
		test_stream_results(r, stream, (uint64_t *)memory);
		test_stream_counters(r, stream, (uint64_t *)memory);
		test_stream_choice(r, stream, (char *)memory);
		test_stream_large(r, stream);
		CHECK_OK(r, oriel_window_reset_signals(r->window, stream));
		CHECK_OK(r, oriel_dev_read_signal(&r->dev, 4, &value));
		CHECK(r, value == 0 && r->dev.signal_bases[4] == 0);
		CHECK_OK(r, oriel_window_barrier(r->window, 3, 0, stream));
	}
	CHECK(r, cuMemFree(memory) == CUDA_SUCCESS && cuStreamDestroy(stream) == CUDA_SUCCESS);
}

/* The caller's own timeout passes in a stream: only the next call can report it. */
static void test_stream_timeout(struct rank *r)
{
	CUstream stream;

	rank_open(r, LONG_NS);
	CHECK(r, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	if (oriel_window_barrier(r->window, 3, 0, stream) != ORIEL_ERR_UNSUPPORTED) {
		CHECK_OK(r, oriel_window_wait_signal_from(r->window, r->rank, 9, ORIEL_GE, 1,
							  50000000, stream));
		CHECK_FAILS(r, oriel_window_signal(r->window, 0, 0, ORIEL_SIGNAL_ADD, 1, stream),
			    ORIEL_ERR_TIMEOUT, "wait_signal_from");
	}
	CHECK(r, cuStreamDestroy(stream) == CUDA_SUCCESS);
	rank_close(r);
}

/*
 * Rank 0 enters after the others have signalled, which they do while their arrival is in flight,
 * so that no rank needs the timeout that breaks the communicator. Then each rank times out at a
 * slot of its own.
 */
static void test_stream_barrier_limit(struct rank *r)
{
	CUstream stream;

	rank_open(r, LONG_NS);
	CHECK(r, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	if (oriel_window_barrier(r->window, 3, 0, stream) != ORIEL_ERR_UNSUPPORTED) {
		if (r->rank == 0) {
			CHECK_OK(r, oriel_window_wait_signal(r->window, 9, ORIEL_GE, r->size - 1, 0,
							     stream));
			CHECK_OK(r, oriel_window_barrier(r->window, 4, 0, stream));
		} else {
			CHECK_OK(r, oriel_window_barrier_arrive(r->window, 4, stream));
			CHECK_OK(r,
				 oriel_window_signal(r->window, 0, 9, ORIEL_SIGNAL_ADD, 1, stream));
			CHECK_OK(r, oriel_window_barrier_wait(r->window, 4, 0, stream));
		}
		CHECK_OK(r, oriel_comm_barrier(r->comm));
		if (r->size > 1) {
			CHECK_OK(r, oriel_window_barrier(r->window, 5 + r->rank, 50000000, stream));
			CHECK_FAILS(r,
				    oriel_window_barrier(r->window, 5 + r->rank, 50000000, stream),
				    ORIEL_ERR_TIMEOUT, "barrier timed out");
			CHECK_FAILS(r, oriel_window_barrier_wait(r->window, 5 + r->rank, 0, stream),
				    ORIEL_ERR_TIMEOUT, "barrier timed out");
		}
	}
	CHECK(r, cuStreamDestroy(stream) == CUDA_SUCCESS);
	rank_close(r);
}

#define MANY 66 /* more windows than the records that are allocated at once */

static struct oriel_window *open_small(struct rank *r)
{
	const struct oriel_window_attr attr = {.size = sizeof(attr),
					       .length = 64,
					       .flags = ORIEL_WINDOW_DEVICE,
					       .channels = ORIEL_NONE};
	struct oriel_window *window = NULL;

	if (!CHECK_OK(r, oriel_window_create(r->comm, &attr, &window)))
		_Exit(1);
	return window;
}

/* Each window has a record of its own, which starts empty and ends with the window. */
static void test_records(struct rank *r)
{
	struct oriel_window *windows[MANY];
	struct oriel_dev_fault fault;
	struct oriel_dev_window dev;
	unsigned left = 0, round, i;

	for (round = 0; round < 3; round++) {
		for (i = 0; i < MANY; i++) {
			windows[i] = open_small(r);
			CHECK_OK(r, oriel_window_device(windows[i], &dev));
			CHECK(r, oriel_window_fault(windows[i], &fault) == ORIEL_AGAIN);
			CHECK(r, oriel_dev_put_value(&dev, 0, 64 + 8 * i, 0) == ORIEL_ERR_RANGE);
		}
		for (i = 0; i < MANY; i++) {
			if (i % 2)
				CHECK(r, oriel_window_fault(windows[i], &fault) == ORIEL_OK &&
						 fault.seen == 64 + 8 * i + 8);
			oriel_window_destroy(windows[i]);
		}
		CHECK_OK(r, oriel_comm_barrier(r->comm));
		if (round)
			CHECK(r, fakecuda_left() == left);
		left = fakecuda_left();
		CHECK_OK(r, oriel_comm_barrier(r->comm));
	}
}

/* A region accepts each kind of memory. */
static void test_region(struct rank *r)
{
	struct oriel_region *region = NULL;
	void *memory = NULL, *address = NULL;
	unsigned next = (r->rank + 1) % r->size;

	CHECK_OK(r, oriel_memory_alloc(8192, r->rank % 2 ? 0 : ORIEL_MEMORY_DEVICE, &memory));
	((char *)memory)[100] = (char)(r->rank + 1);
	CHECK_OK(r, oriel_region_register(r->comm, memory, 8192, &region));
	CHECK_OK(r, oriel_region_share(region));
	if (!is_remote(r, next)) {
		CHECK_OK(r, oriel_region_peer_address(region, next, 100, &address));
		CHECK(r, *(char *)address == (char)(next + 1));
	}
	oriel_region_unregister(region);
	oriel_memory_free(memory);
}

/* Rank 0 only polls memory here: all others have seen the failure when their words arrive. */
static void await_others(struct rank *r)
{
	const uint64_t *arrived = oriel_dev_address(&r->dev, 0, 0);
	unsigned tries, peer, count = 0;

	for (tries = 0; tries < 2000 && count + 1 < r->size; tries++) {
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
		for (count = 0, peer = 1; peer < r->size; peer++)
			count += oriel_dev_load_acquire(&arrived[peer]) == 1;
	}
	CHECK(r, count + 1 == r->size);
}

static void test_blame(struct rank *r)
{
	struct oriel_health health;

	rank_open(r, 6000000000);
	CHECK(r, oriel_dev_wait_signal_from(&r->dev, oriel_dev_thread(), r->rank, 9, ORIEL_GE, 1,
					    r->rank ? ORIEL_FOREVER : 0) == ORIEL_ERR_TIMEOUT);
	if (r->rank == 0 && !is_remote(r, r->size - 1))
		await_others(r);
	else if (!is_remote(r, 0))
		CHECK_OK(r, oriel_dev_put_value(&r->dev, 0, 8 * r->rank, 1));
	CHECK_OK(r, oriel_comm_health(r->comm, &health));
	CHECK(r, health.status == ORIEL_ERR_TIMEOUT && health.id == 9 && health.object == 1);
	CHECK(r, oriel_comm_barrier(r->comm) == ORIEL_ERR_TIMEOUT);
	rank_close(r);
}

static void test_cpu_rank(struct rank *r)
{
	struct oriel_comm_attr comm = {.size = sizeof(comm),
				       .timeout_ns = LONG_NS,
				       .flags = r->rank ? 0 : ORIEL_COMM_GPU};
	struct oriel_window_attr attr = {.size = sizeof(attr),
					 .length = LENGTH,
					 .flags = ORIEL_WINDOW_DEVICE};
	struct oriel_window *window = NULL;

	fakecuda_posted();
	CHECK_OK(r, oriel_comm_create(r->bootstrap, &comm, &r->comm));
	/* No kernel of the library is launched for the first time while other kernels wait. */
	CHECK(r, fakecuda_posted().kernels == (r->rank ? 0 : fakecuda_kernels()));
	if (r->size > 1)
		CHECK_FAILS(r, oriel_window_create(r->comm, &attr, &window), ORIEL_ERR_INVALID,
			    "ORIEL_COMM_GPU");
	attr.flags = 0;
	CHECK_OK(r, oriel_window_create(r->comm, &attr, &window));
	CHECK_OK(r, oriel_window_barrier(window, 0, 0, NULL));
	oriel_window_destroy(window);
	oriel_comm_destroy(r->comm);
}

/* A communicator for the CPU takes no memory of a GPU. */
static void test_cpu_comm(struct rank *r)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr), .timeout_ns = LONG_NS, .flags = 0};
	struct oriel_region *region = NULL;
	void *memory = NULL;

	CHECK_OK(r, oriel_comm_create(r->bootstrap, &attr, &r->comm));
	CHECK_OK(r, oriel_memory_alloc(4096, ORIEL_MEMORY_DEVICE, &memory));
	CHECK_OK(r, oriel_region_register(r->comm, memory, 4096, &region));
	CHECK_FAILS(r, oriel_region_share(region), ORIEL_ERR_INVALID, "needs ORIEL_COMM_GPU");
	oriel_region_unregister(region);
	oriel_memory_free(memory);
	oriel_comm_destroy(r->comm);
}

static void test_no_context(struct rank *r)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr),
				       .timeout_ns = LONG_NS,
				       .flags = ORIEL_COMM_GPU};
	struct oriel_comm *comm = NULL;

	if (r->rank == 0)
		cuCtxSetCurrent(NULL);
	CHECK_FAILS(r, oriel_comm_create(r->bootstrap, &attr, &comm), ORIEL_ERR_STATE,
		    "no CUDA context is current");
}

static void test_all(struct rank *r)
{
	int count = 0;

	rank_open(r, LONG_NS);
	test_operations(r);
	test_region(r);
	test_mistakes(r);
	if (cuDeviceGetCount(&count) == CUDA_SUCCESS && count > 1)
		test_other_gpu(r);
	test_failures(r);
	test_streams(r);
	test_records(r);
	test_buffers(r);
	rank_close(r);
	test_blame(r);
	test_stream_timeout(r);
	test_stream_barrier_limit(r);
	test_cpu_rank(r);
	test_cpu_comm(r);
	test_no_context(r);
}

/* The GPUs do not reach each other, and there is no NIC. */
static void test_apart(struct rank *r)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr),
				       .timeout_ns = LONG_NS,
				       .flags = ORIEL_COMM_GPU};

	CHECK_FAILS(r, oriel_comm_create(r->bootstrap, &attr, &r->comm), ORIEL_ERR_NO_PATH,
		    "of one machine do not reach each other");
}

/* The GPUs are too old. */
static void test_old(struct rank *r)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr),
				       .timeout_ns = LONG_NS,
				       .flags = ORIEL_COMM_GPU};

	CHECK_FAILS(r, oriel_comm_create(r->bootstrap, &attr, &r->comm), ORIEL_ERR_UNSUPPORTED,
		    "compute capability 6.0");
}

/* Kernels that wait for those ahead of them are launched early, if the driver captures that. */
static void test_early(struct rank *r)
{
	const char *ptx = getenv("FAKECUDA_PTX"), *driver = getenv("FAKECUDA_DRIVER");
	bool is_early = (!ptx || atoi(ptx) >= 90) && (!driver || atoi(driver) >= 12030);
	struct fakecuda_posted posted;

	fakecuda_posted();
	rank_join(r, LONG_NS);
	posted = fakecuda_posted();
	CHECK(r, posted.kernels == fakecuda_kernels());
	CHECK(r, posted.early == (is_early ? posted.kernels : 0));
	oriel_comm_destroy(r->comm);
}

/* The software HCA reaches GPU memory through the driver, others by themselves. */
static bool has_soft_hca(struct rank *r)
{
	struct oriel_nic adapter = {.is_software = true};

	(void)oriel_comm_nic(r->comm, &adapter);
	return adapter.is_software;
}

/* The driver copies the GPU memory that the software HCA moves, out and in. */
static void test_copies(struct rank *r)
{
	unsigned next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	struct oriel_dev_group me = oriel_dev_thread();
	uint64_t out = is_remote(r, next) ? 5000 : 0, in = is_remote(r, before) ? 5000 + 2 * 8 : 0;
	uint64_t start;

	CHECK_OK(r, oriel_dev_barrier(&r->dev, me, 0, 0));
	CHECK_OK(r, oriel_dev_flush(&r->dev, me, 0));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	start = fakecuda_copied();
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK_OK(r, oriel_dev_put_signal(&r->dev, me, next, 10000,
					 oriel_dev_address(&r->dev, r->rank, 20000), 5000, 3, 1));
	CHECK_OK(r, oriel_dev_wait_signal_next(&r->dev, me, before, 3, 1, 0));
	CHECK_OK(r, oriel_dev_flush(&r->dev, me, 0));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	/*
	 * Ranks that are threads share one count, and two puts of the ring go through HCAs. Only
	 * the software HCA copies through the driver.
	 */
	if (has_soft_hca(r))
		CHECK(r, fakecuda_copied() - start ==
				 (r->node ? 2 * (5000u + 5000 + 2 * 8) : out + in));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
}

#define POSTERS 4
#define POST_ROUNDS 300u

struct poster {
	struct rank *rank;
	unsigned number;
	unsigned failures;
	pthread_t id;
};

/* Several threads post more than fits in the ring, with all kinds of posts. */
static void *post_rounds(void *argument)
{
	struct poster *p = argument;
	const struct oriel_dev_window *d = &p->rank->dev;
	struct oriel_dev_group me = oriel_dev_thread();
	uint32_t peer = (d->rank + d->ranks / 2) % d->ranks;
	const char *source = oriel_dev_address(d, d->rank, 8192);
	uint64_t old = 0, sum = 0;
	unsigned i;

	for (i = 0; i < POST_ROUNDS; i++) {
		p->failures +=
			oriel_dev_fetch_add(d, peer, 1024 + 8 * p->number, 1, &old) != ORIEL_OK;
		sum += old;
		p->failures += oriel_dev_put(d, me, peer, 4096, source, 100) < 0;
		p->failures += oriel_dev_signal(d, me, peer, 10, ORIEL_SIGNAL_ADD, 1) < 0;
	}
	/* No other thread adds to that word. */
	p->failures += sum != (uint64_t)POST_ROUNDS * (POST_ROUNDS - 1) / 2;
	return NULL;
}

static void test_posters(struct rank *r)
{
	struct poster posters[POSTERS];
	uint32_t peer = (r->rank + r->size / 2) % r->size;
	unsigned i;

	for (i = 0; i < POSTERS; i++) {
		posters[i] = (struct poster){.rank = r, .number = i};
		if (pthread_create(&posters[i].id, NULL, post_rounds, &posters[i]))
			abort();
	}
	for (i = 0; i < POSTERS; i++) {
		pthread_join(posters[i].id, NULL);
		CHECK(r, !posters[i].failures);
	}
	CHECK_OK(r, oriel_dev_wait_signal_from(&r->dev, oriel_dev_thread(), peer, 10, ORIEL_EQ,
					       POSTERS * POST_ROUNDS, 0));
	CHECK_OK(r, oriel_dev_barrier(&r->dev, oriel_dev_thread(), 0, 0));
}

/* The data of a get has arrived when the wait for its ticket returns. */
static void test_gets(struct rank *r)
{
	uint32_t peer = (r->rank + r->size / 2) % r->size;
	char *from = oriel_dev_address(&r->dev, r->rank, 30000);
	char *to = oriel_dev_address(&r->dev, r->rank, 40000);
	struct oriel_dev_group me = oriel_dev_thread();
	unsigned round;
	int64_t ticket;

	for (round = 0; round < 10; round++) {
		memset(from, (int)(r->rank * 10 + round + 1), 5000);
		CHECK_OK(r, oriel_dev_barrier(&r->dev, me, 0, 0));
		ticket = oriel_dev_get(&r->dev, me, peer, 30000, to, 5000);
		CHECK_OK(r, oriel_dev_wait_local(&r->dev, me, peer, ticket, 0));
		CHECK(r, to[0] == (char)(peer * 10 + round + 1) && !memcmp(to, to + 1, 4999));
		CHECK_OK(r, oriel_dev_barrier(&r->dev, me, 0, 0));
	}
}

/*
 * Puts that are in flight when the window is destroyed still arrive; only the destruction waits
 * for them.
 */
static void test_remote_destroy(struct rank *r)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .flags = ORIEL_WINDOW_DEVICE};
	struct oriel_dev_group me = oriel_dev_thread();
	uint32_t peer = (r->rank + r->size / 2) % r->size;
	struct oriel_dev_window dev;
	struct oriel_window *window;
	void *memory = NULL;
	unsigned round, i;

	CHECK_OK(r, oriel_memory_alloc(1 << 20, ORIEL_MEMORY_DEVICE, &memory));
	attr.buffer = memory;
	attr.length = 1 << 20;
	for (round = 0; round < 5; round++) {
		CHECK_OK(r, oriel_window_create(r->comm, &attr, &window));
		CHECK_OK(r, oriel_window_device(window, &dev));
		for (i = 0; i < 20; i++)
			CHECK_OK(r, oriel_dev_put_counter(&dev, me, peer, 0, memory, 1 << 20, 0));
		oriel_window_destroy(window);
		CHECK_OK(r, oriel_comm_barrier(r->comm));
	}
	oriel_memory_free(memory);
}

/* The copies of a GPU fail: the initiator gets the status, and so do all other ranks. */
static void test_remote_failure(struct rank *r)
{
	struct oriel_health health;

	rank_open(r, LONG_NS);
	if (!has_soft_hca(r)) {
		rank_close(r);
		return;
	}
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	if (r->rank == 0)
		fakecuda_fail("cuMemcpyAsync", 0);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	if (r->rank != 0 && is_remote(r, 0))
		oriel_dev_signal(&r->dev, oriel_dev_thread(), 0, 1, ORIEL_SIGNAL_ADD, 1);
	CHECK(r, oriel_dev_wait_signal_from(&r->dev, oriel_dev_thread(), r->rank, 9, ORIEL_GE, 1,
					    ORIEL_FOREVER) == ORIEL_ERR_PEER);
	CHECK_OK(r, oriel_comm_health(r->comm, &health));
	CHECK(r, health.status == ORIEL_ERR_PEER && strcmp(health.reason, "") != 0);
	rank_close(r);
	if (r->rank == 0)
		fakecuda_fail(NULL, 0);
}

/*
 * The source is not mapped memory: the initiator gets the status, and the software HCA survives
 * it.
 */
static void test_remote_bad_source(struct rank *r)
{
	uint32_t peer = (r->rank + r->size / 2) % r->size;
	struct oriel_dev_group me = oriel_dev_thread();
	struct oriel_health health;
	enum oriel_status status;

	rank_open(r, LONG_NS);
	if (!has_soft_hca(r)) {
		rank_close(r);
		return;
	}
	if (r->rank == 0) {
		status = oriel_dev_wait_local(&r->dev, me, peer,
					      oriel_dev_put(&r->dev, me, peer, 0,
							    (void *)(uintptr_t)8192, 4096),
					      0);
		CHECK(r, status == ORIEL_ERR_ACCESS);
	} else {
		status = oriel_dev_wait_signal_from(&r->dev, me, r->rank, 9, ORIEL_GE, 1,
						    ORIEL_FOREVER);
		CHECK(r, status == ORIEL_ERR_ACCESS || status == ORIEL_ERR_PEER);
	}
	CHECK_OK(r, oriel_comm_health(r->comm, &health));
	CHECK(r, health.status == status);
	rank_close(r);
}

/* Virtual nodes, with the software HCA between them. */
static void test_remote(struct rank *r)
{
	rank_open(r, LONG_NS);
	CHECK(r, is_remote(r, (r->rank + r->size / 2) % r->size));
	test_operations(r);
	test_copies(r);
	test_posters(r);
	test_gets(r);
	test_region(r);
	test_mistakes(r);
	test_streams(r);
	test_remote_destroy(r);
	test_records(r);
	test_buffers(r);
	rank_close(r);
	test_blame(r);
	test_stream_timeout(r);
	test_stream_barrier_limit(r);
	test_remote_failure(r);
	test_remote_bad_source(r);
}

/* The modes of the program: the GPUs that processes see, and the test for them. */
static const struct mode {
	const char *name;
	const char *order[2]; /* of the GPUs, on even and on odd ranks */
	void (*test)(struct rank *r);
	const char *reason; /* between ranks 0 and 1 */
} modes[] = {
	{"all", {"0,1", "0,1"}, test_all, "GPUs connected by NVLink"},
	{"turned", {"0,1", "1,0"}, test_all, "same GPU"},
	{"alone", {"0", "1"}, test_all, "GPUs that are not visible to each other's process"},
	{"apart", {"0,1", "0,1"}, test_apart, NULL},
	{"old", {"0,1", "0,1"}, test_old, NULL},
	{"early", {"0,1", "0,1"}, test_early, NULL},
	{"late", {"0,1", "0,1"}, test_early, NULL},
	{"capture", {"0,1", "0,1"}, test_early, NULL},
	{"remote", {"0,1", "0,1"}, test_remote, NULL},
};

static void check_reason(struct rank *r, const char *reason)
{
	struct oriel_peer peer;

	rank_join(r, LONG_NS);
	CHECK_OK(r, oriel_comm_peer(r->comm, r->rank ^ 1u, &peer));
	CHECK(r, strstr(peer.reason, reason));
	oriel_comm_destroy(r->comm);
}

static unsigned rank_main(const struct oriel_bootstrap *bootstrap, const struct mode *mode,
			  const char *node)
{
	struct rank r = {.rank = bootstrap->rank,
			 .size = bootstrap->size,
			 .bootstrap = bootstrap,
			 .node = node};

	rank_use_gpu(&r);
	if (mode->reason && r.size == 2)
		check_reason(&r, mode->reason);
	mode->test(&r);
	return r.failures;
}

struct thread {
	struct oriel_local_job *job;
	const struct mode *mode;
	const char *node;
	unsigned rank;
	unsigned failures;
	pthread_t id;
};

static void *thread_main(void *argument)
{
	struct thread *t = argument;
	struct oriel_bootstrap bootstrap;

	if (oriel_bootstrap_open_local(t->job, t->rank, &bootstrap) != ORIEL_OK)
		abort();
	t->failures = rank_main(&bootstrap, t->mode, t->node);
	oriel_bootstrap_close(&bootstrap);
	return NULL;
}

static const struct mode *find_mode(const char *name)
{
	const struct mode *mode = modes;

	while (strcmp(mode->name, name) != 0)
		mode++;
	return mode;
}

static unsigned run_threads(unsigned count, const char *name)
{
	const struct mode *mode = find_mode(name);
	struct thread *threads = calloc(count, sizeof(*threads));
	struct oriel_local_job *job;
	unsigned failures = 0, i;

	if (!threads || oriel_local_job_create(count, &job) != ORIEL_OK)
		abort();
	for (i = 0; i < count; i++) {
		threads[i].job = job;
		threads[i].rank = i;
		threads[i].mode = mode;
		if (mode->test == test_remote)
			threads[i].node = i < count / 2 ? "left" : "right";
		if (pthread_create(&threads[i].id, NULL, thread_main, &threads[i]))
			abort();
	}
	for (i = 0; i < count; i++) {
		pthread_join(threads[i].id, NULL);
		failures += threads[i].failures;
	}
	oriel_local_job_destroy(job);
	free(threads);
	return failures;
}

static unsigned run_process(const char *name)
{
	const struct mode *mode = find_mode(name);
	struct oriel_bootstrap bootstrap;
	unsigned failures;

	if (oriel_bootstrap_open_env(0, &bootstrap) != ORIEL_OK)
		abort();
	setenv("FAKECUDA_ORDER", mode->order[bootstrap.rank % 2], 1);
	failures = rank_main(&bootstrap, mode, NULL);
	oriel_bootstrap_close(&bootstrap);
	return failures;
}

int main(int argc, char **argv)
{
	unsigned fds = count_fds(), ranks = argc > 1 ? (unsigned)atoi(argv[1]) : 0;

	return rank_finish(ranks ? run_threads(ranks, argc > 2 ? argv[2] : "all")
				 : run_process(argc > 1 ? argv[1] : "all"),
			   fds);
}
