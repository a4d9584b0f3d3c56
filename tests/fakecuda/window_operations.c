/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of kernels on windows of the fake driver, and the memory that windows accept.
 * gpu_window calls its tests.
 */
#include "window_tests.h"

static void check_reach_queue(struct rank *r, CUdevice mine, const struct ori_dev_mlx5_queue *q)
{
	uint64_t last = ((uint64_t)1 << q->log_depth) * ORIEL_MLX5_BLOCK - 1;

	CHECK(r, fakecuda_reaches(mine, q) && fakecuda_reaches(mine, &q->err));
	CHECK(r, fakecuda_reaches(mine, q->sq) && fakecuda_reaches(mine, q->sq + last));
	CHECK(r, fakecuda_reaches(mine, q->cq) && fakecuda_reaches(mine, q->cq + last));
	CHECK(r, fakecuda_reaches(mine, q->record) && fakecuda_reaches(mine, q->doorbell));
}

static void check_reach_ring(struct rank *r, CUdevice mine, const struct ori_dev_proxy_ring *ring)
{
	const struct ori_dev_proxy_entry *last = ring->entries + ori_dev_proxy_depth(ring) - 1;

	CHECK(r, fakecuda_reaches(mine, ring) && fakecuda_reaches(mine, &ring->err));
	CHECK(r, fakecuda_reaches(mine, ring->entries) && fakecuda_reaches(mine, &last->stamp));
	CHECK(r, fakecuda_reaches(mine, ring->words) && !ring->asleep);
}

static void check_reach_link(struct rank *r, CUdevice mine, const struct oriel_dev_link *l)
{
	CHECK(r, fakecuda_reaches(mine, l) && fakecuda_reaches(mine, l->answers) &&
			 l->blame == r->dev.blame && l->health == r->dev.health);
	if (l->post_kind == ORIEL_LINK_PROXY) {
		check_reach_ring(r, mine, ori_dev_link_main(l).proxy);
		return;
	}
	check_reach_queue(r, mine, ori_dev_link_main(l).ring);
	check_reach_queue(r, mine, l->companion);
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
	CHECK(r, fakecuda_reaches(mine, &d->topology[r->size - 1]) &&
			 fakecuda_reaches(mine, &d->domain[d->domain_size - 1]));
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
					 sizeof(words), 3, 1, NULL));
	CHECK_OK(r, oriel_dev_wait_signal_next(&r->dev, me, before, 3, 1, 0));
	mine = oriel_dev_address(&r->dev, r->rank, oriel_at(buffer, 24));
	CHECK(r, mine[0] == before * 1000u + round && mine[1] == buffer);
	CHECK_OK(r, oriel_dev_barrier(&r->dev, me, 0, 0));
}

void test_operations(struct rank *r)
{
	uint32_t next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	struct oriel_dev_group me = oriel_dev_thread();
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	uint32_t member = 0;
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
	CHECK_OK(r, oriel_dev_put_counter(&r->dev, me, next, 128, text, sizeof(text), 2, NULL));
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
	CHECK_OK(r, oriel_dev_domain_rank(&r->dev, oriel_dev_domain_index(&r->dev), &member));
	CHECK(r, member == r->rank);
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
					 .flags = ORIEL_WINDOW_DEVICE,
					 .channels = 16};
	struct oriel_window *window = NULL;
	struct oriel_dev_window dev;
	struct oriel_peer peer = {.size = sizeof(peer)};
	uint32_t i;

	if (!CHECK_OK(r, oriel_window_create(r->comm, &attr, &window)) ||
	    !CHECK_OK(r, oriel_window_device(window, &dev)))
		_Exit(1);
	for (i = 0; i < r->size; i++) {
		CHECK_OK(r, oriel_comm_peer(r->comm, i, &peer));
		if (!is_remote(r, i))
			CHECK(r, (dev.inline_wide >> i % ORIEL_DEV_INLINE_PEERS & 1) ==
					 (is_wide && peer.has_gpu_lines));
		CHECK(r, !peer.has_gpu_atomics == is_serial(r, i));
	}
	oriel_window_destroy(window);
}

void test_buffers(struct rank *r)
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

/* Publish @at, use it by the communicator's handle, and free its number. */
static void publish_and_use(struct rank *r, void *at, unsigned round)
{
	struct oriel_region *region = NULL;
	uint64_t word = 0;
	uint32_t number = 0;

	CHECK_OK(r, oriel_region_register(r->comm, at, 4096, &region));
	CHECK_OK(r, oriel_region_publish(region, &number));
	CHECK(r, number == 1);
	CHECK(r, oriel_dev_address(&r->dev, r->rank, oriel_at(number, 0)) == at);
	pass_round(r, number, round);
	oriel_region_unregister(region);
	CHECK_FAILS(r,
		    (enum oriel_status)oriel_dev_put(&r->dev, oriel_dev_thread(), 0, oriel_at(1, 0),
						     &word, 8, NULL),
		    ORIEL_ERR_STATE, "put: buffer 1 of rank 0 is not shared");
}

/* r->window is closed. */
void test_published(struct rank *r)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .flags = ORIEL_WINDOW_DEVICE};
	struct oriel_region *region = NULL;
	struct oriel_dev_fault fault;
	void *own = NULL, *host = NULL;
	CUdeviceptr legacy = 0;
	char pageable[64] = "";
	uint32_t number = 0;

	CHECK(r, cuMemAlloc(&legacy, 20000) == CUDA_SUCCESS);
	CHECK_OK(r, oriel_memory_alloc(4096, ORIEL_MEMORY_DEVICE, &own));
	CHECK_OK(r, oriel_memory_alloc(4096, 0, &host));
	CHECK_OK(r, oriel_comm_device_create(r->comm, &attr));
	CHECK_OK(r, oriel_comm_device(r->comm, &r->dev));
	publish_and_use(r, (char *)legacy + 5000, 1);
	publish_and_use(r, own, 2);
	publish_and_use(r, host, 3);
	publish_and_use(r, r->rank % 2 ? own : host, 4);
	CHECK_OK(r, oriel_comm_device_fault(r->comm, &fault));
	CHECK(r, fault.status == ORIEL_ERR_STATE && fault.window == r->dev.number);
	CHECK_OK(r, oriel_region_register(r->comm, pageable, sizeof(pageable), &region));
	CHECK_FAILS(r, oriel_region_publish(region, &number), ORIEL_ERR_INVALID, "is host memory");
	oriel_region_unregister(region);
	oriel_memory_free(own);
	oriel_memory_free(host);
	CHECK(r, cuMemFree(legacy) == CUDA_SUCCESS);
}

/* Both steps of a reduction check their arguments; of no elements, they launch nothing. */
static void check_sums(struct rank *r, char *memory)
{
	const struct oriel_dev_reduction each = {.type = ORIEL_TYPE_FP32,
						 .op = ORIEL_OP_SUM,
						 .block = 1};
	struct oriel_dev_gather gather = {.result = memory, .stride = 64};

	if (!fakecuda_kernels()) {
		CHECK_FAILS(r,
			    oriel_window_reduce_sums_on_stream(r->window, &gather, &each, 1, memory,
							       0, NULL),
			    ORIEL_ERR_UNSUPPORTED, "the library was built without nvcc");
		return;
	}
	CHECK_OK(r, oriel_window_reduce_block_on_stream(r->window, &gather, &each, 1, r->size - 1,
							memory, 0, NULL));
	CHECK_FAILS(r,
		    oriel_window_reduce_block_on_stream(r->window, &gather, &each, 1, r->size,
							memory, 0, NULL),
		    ORIEL_ERR_INVALID, "there is no such type, operation or block");
	CHECK_OK(r,
		 oriel_window_reduce_sums_on_stream(r->window, &gather, &each, 1, memory, 0, NULL));
	gather.stride = 72;
	CHECK_FAILS(r,
		    oriel_window_reduce_sums_on_stream(r->window, &gather, &each, 1, memory, 0,
						       NULL),
		    ORIEL_ERR_INVALID, "they are aligned to 16");
	gather.result = memory + 8;
	CHECK_FAILS(r,
		    oriel_window_reduce_block_on_stream(r->window, &gather, &each, 1, 0, memory, 0,
							NULL),
		    ORIEL_ERR_INVALID, "they are aligned to 16");
}

void test_mistakes(struct rank *r)
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
	CHECK_FAILS(r, oriel_window_put(r->window, 0, 0, pageable, 8), ORIEL_ERR_INVALID,
		    "lies in GPU memory: call oriel_window_put_on_stream()");
	CHECK_FAILS(r, oriel_window_flush(r->window, 0), ORIEL_ERR_INVALID,
		    "call oriel_window_flush_on_stream()");
	CHECK(r, oriel_dev_put(&r->dev, oriel_dev_thread(), 0, LENGTH, pageable, 1, NULL) ==
			 ORIEL_ERR_RANGE);
	CHECK_OK(r, oriel_window_fault(r->window, &fault));
	CHECK(r, strstr(oriel_last_error(), "beyond the 65536 bytes of buffer 0"));
	CHECK(r, oriel_window_fault(r->window, &fault) == ORIEL_AGAIN);
	check_sums(r, many);
	CHECK(r, cuMemFree(legacy) == CUDA_SUCCESS && cuMemFree(managed) == CUDA_SUCCESS);
	unmap(r, mute, 65536, 2);
	unmap(r, many, 65536, 61);
}

/* Memory of a GPU that is not the communicator's. */
void test_other_gpu(struct rank *r)
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
void test_failures(struct rank *r)
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
					 .flags = ORIEL_WINDOW_DEVICE,
					 .channels = 16};
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
