/* SPDX-License-Identifier: Apache-2.0 */
/* Copies by the engines of a GPU, for jobs. */
#include <stdlib.h>
#include <string.h>

#include <oriel/dev/order.h>
#include <oriel/progress.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/comm.h"

struct oriel_copies {
	struct oriel_comm *comm; /* borrowed */
	struct ori_gpu_lanes lanes;
	struct ori_mem *memory; /* NULL: nobody has asked for it */
	bool is_busy[ORI_GPU_LANES];
};

enum oriel_status oriel_copies_create(struct oriel_comm *comm, struct oriel_copies **out)
{
	struct oriel_copies *c = calloc(1, sizeof(*c));
	enum oriel_status status = ORIEL_OK;

	if (!c)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for copies");
	c->comm = comm;
	if (comm->gpu)
		status = comm->gpu->ops->open_lanes(comm->gpu, &c->lanes);
	if (status != ORIEL_OK) {
		free(c);
		return status;
	}
	*out = c;
	return ORIEL_OK;
}

void oriel_copies_destroy(struct oriel_copies *c)
{
	uint64_t begun = ori_clock_ns();

	if (!c)
		return;
	while (oriel_copies_test(c) == ORIEL_AGAIN && ori_clock_ns() - begun < c->comm->timeout_ns)
		oriel_cpu_give_way(ori_clock_ns() - begun);
	if (c->comm->gpu) {
		c->comm->gpu->ops->close_lanes(c->comm->gpu, &c->lanes);
		if (c->memory)
			ori_mem_unpin(c->comm->gpu, c->memory);
	}
	ori_mem_unref(c->memory);
	free(c);
}

enum oriel_status oriel_copies_memory(struct oriel_copies *c, size_t length, void **memory)
{
	enum oriel_status status;
	struct ori_mem *mem;

	if (c->memory)
		return ori_fail(ORIEL_ERR_STATE, "copies that have memory already");
	status = ori_mem_alloc(length, 0, &mem);
	if (status != ORIEL_OK)
		return status;
	if (c->comm->gpu)
		status = ori_mem_pin(c->comm->gpu, mem);
	if (status != ORIEL_OK) {
		ori_mem_unref(mem);
		return status;
	}
	c->memory = mem;
	*memory = mem->address;
	return ORIEL_OK;
}

enum oriel_status oriel_copies_add(struct oriel_copies *c, unsigned lane, void *to,
				   const void *from, size_t length)
{
	const struct ori_gpu *gpu = c->comm->gpu;

	if (!gpu) {
		memcpy(to, from, length);
		return ORIEL_OK;
	}
	lane %= ORI_GPU_LANES;
	c->is_busy[lane] = true;
	return gpu->ops->copy_in(gpu, c->lanes.streams[lane], to, from, length);
}

enum oriel_status oriel_copies_test(struct oriel_copies *c)
{
	enum oriel_status status = ORIEL_OK;
	unsigned i;

	for (i = 0; i < ORI_GPU_LANES && status == ORIEL_OK; i++) {
		if (!c->is_busy[i])
			continue;
		status = c->comm->gpu->ops->look_in(c->comm->gpu, c->lanes.streams[i]);
		c->is_busy[i] = status != ORIEL_OK;
	}
	return status;
}
