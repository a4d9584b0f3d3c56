/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants and layouts of verbs.h and mlx5dv.h, for builds without them. The layouts are those
 * that the libraries keep for old programs; abi_test.c compares them.
 */
#ifndef ORI_SYS_NICS_ABI_H
#define ORI_SYS_NICS_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum nics_abi {
	NICS_LOCAL_WRITE = 1,
	NICS_DEVX = 1,        /* MLX5DV_CONTEXT_FLAGS_DEVX */
	NICS_UAR_NC = 1,      /* MLX5DV_UAR_ALLOC_TYPE_NC */
	NICS_UMEM_DMABUF = 1, /* MLX5DV_UMEM_MASK_DMABUF */
};

/* struct ibv_device_attr */
struct nics_device {
	char firmware[64];
	uint64_t guids[4];
	uint32_t ids[3];
	int counts[2];
	unsigned caps;
	int more_counts[11];
	int atomic_cap; /* 0: none */
	int rest[14];
	uint16_t max_pkeys;
	uint8_t ack_delay, ports;
};

/* struct ibv_port_attr */
struct nics_port {
	int state, max_mtu, active_mtu, gids;
	uint32_t caps[4];
	uint16_t pkeys, lid, sm_lid;
	uint8_t lmc_to_physical[8];
	uint8_t link_layer, flags;
	uint16_t more_caps;
	uint32_t room[4]; /* for fields that newer libraries append */
};

/* struct mlx5dv_context_attr */
struct nics_open {
	uint32_t flags;
	uint64_t mask;
};

/* struct mlx5dv_devx_uar */
struct nics_uar {
	void *reg_addr, *base_addr;
	uint32_t page_id;
	off_t mmap_off;
	uint64_t mask;
};

/* struct mlx5dv_devx_umem_in */
struct nics_umem {
	void *at;
	size_t length;
	uint32_t access;
	uint64_t page_sizes;
	uint64_t mask;
	int dmabuf;
};

#endif
