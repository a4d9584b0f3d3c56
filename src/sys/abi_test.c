/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The constants and layouts that sys/ restates from foreign headers, compared with those headers
 * where the build has them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <assert.h>
#include <cmocka.h>
#include <string.h>

#include "sys/gpu.h"
#include "sys/gpus.h"
#include "sys/gpus_abi.h"
#include "sys/nics.h"
#include "sys/nics_abi.h"

/* The cast also compares values of different enums. */
#define SAME(ours, theirs) static_assert((int)(ours) == (int)(theirs), #ours)

#if __has_include(<cuda.h>)
#include <cuda.h>

SAME(GPUS_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(GPUS_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(GPUS_DESCRIPTORS, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SAME(GPUS_RDMA_VMM, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
SAME(GPUS_RDMA, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
SAME(GPUS_STREAM_MEMOPS, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
SAME(GPUS_DMABUF, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
SAME(GPUS_FABRIC_HANDLES, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);
SAME(GPUS_P2P_ACCESS, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED);
SAME(GPUS_P2P_ATOMICS, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
SAME(GPUS_PIN_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);
SAME(GPUS_PIN_MAPPED, CU_MEMHOSTREGISTER_DEVICEMAP);
SAME(GPUS_PIN_IO, CU_MEMHOSTREGISTER_IOMEMORY);
SAME(GPUS_RANGE_DMABUF, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
#endif

#if __has_include(<infiniband/verbs.h>)
#include <infiniband/verbs.h>

SAME(sizeof(struct nics_device), sizeof(struct ibv_device_attr));
SAME(offsetof(struct nics_device, atomic_cap), offsetof(struct ibv_device_attr, atomic_cap));
SAME(offsetof(struct nics_device, ports), offsetof(struct ibv_device_attr, phys_port_cnt));
static_assert(sizeof(struct nics_port) >= sizeof(struct ibv_port_attr), "room for a port");
SAME(offsetof(struct nics_port, active_mtu), offsetof(struct ibv_port_attr, active_mtu));
SAME(offsetof(struct nics_port, link_layer), offsetof(struct ibv_port_attr, link_layer));
SAME(NICS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE);
SAME(IBV_ATOMIC_NONE, 0);
SAME(IBV_MTU_256, 1);
SAME(IBV_MTU_4096, 5);
#endif

#if __has_include(<infiniband/mlx5dv.h>)
#include <infiniband/mlx5dv.h>

SAME(sizeof(struct nics_open), sizeof(struct mlx5dv_context_attr));
SAME(NICS_DEVX, MLX5DV_CONTEXT_FLAGS_DEVX);
SAME(NICS_UAR_NC, MLX5DV_UAR_ALLOC_TYPE_NC);
SAME(sizeof(struct nics_uar), sizeof(struct mlx5dv_devx_uar));
SAME(offsetof(struct nics_uar, base_addr), offsetof(struct mlx5dv_devx_uar, base_addr));
SAME(sizeof(struct nics_umem), sizeof(struct mlx5dv_devx_umem_in));
SAME(offsetof(struct nics_umem, page_sizes), offsetof(struct mlx5dv_devx_umem_in, pgsz_bitmap));
SAME(offsetof(struct nics_umem, mask), offsetof(struct mlx5dv_devx_umem_in, comp_mask));
SAME(offsetof(struct nics_umem, dmabuf), offsetof(struct mlx5dv_devx_umem_in, dmabuf_fd));
SAME(NICS_UMEM_DMABUF, MLX5DV_UMEM_MASK_DMABUF);
#endif

static void test_the_legacy_stream_is_that_of_cuda(void **state)
{
	(void)state;
#if __has_include(<cuda.h>)
	assert_ptr_equal(ORI_GPU_STREAM_LEGACY, CU_STREAM_LEGACY);
#endif
}

static void test_a_query_of_gpus_is_consistent_on_any_machine(void **state)
{
	static struct ori_gpus gpus;

	(void)state;
	memset(&gpus, 0xa5, sizeof(gpus));
	ori_gpus_query(&gpus);
	assert_true(gpus.count <= ORI_GPUS_MOST);
	assert_true(gpus.has_library || gpus.count == 0);
	for (unsigned i = 0; i < gpus.count; i++) {
		assert_int_equal(strlen(gpus.item[i].reach), gpus.count);
		assert_int_equal(gpus.item[i].reach[i], 'S');
	}
	if (gpus.count == 0)
		assert_int_equal(ori_gpus_try_registers(&gpus, 4096), -1);
}

static void test_a_query_of_nics_is_consistent_on_any_machine(void **state)
{
	static struct ori_nics nics;

	(void)state;
	memset(&nics, 0xa5, sizeof(nics));
	ori_nics_query(&nics);
	assert_true(nics.count <= ORI_NICS_MOST);
	assert_true(nics.has_verbs || nics.count == 0);
	for (unsigned i = 0; i < nics.count; i++)
		assert_true(strlen(nics.item[i].name) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_legacy_stream_is_that_of_cuda),
		cmocka_unit_test(test_a_query_of_gpus_is_consistent_on_any_machine),
		cmocka_unit_test(test_a_query_of_nics_is_consistent_on_any_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
