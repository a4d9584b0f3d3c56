/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a ConnectX adapter is made of here: a device of libibverbs, whose calls work
 * on it as they are, and beside that queues with rings. By route (ii) those are
 * made by commands to the firmware (DEVX) in memory of our choice, by route (i) by
 * verbs, which are then asked where they lie.
 */
#ifndef ORI_HCA_MLX5_DEVICE_H
#define ORI_HCA_MLX5_DEVICE_H

#include "hca/mlx5.h"
#include "hca/mlx5_prm.h"
#include "hca/verbs.h"
#include "mem/memory.h"
#include "sys/gpu.h"
#include "sys/mlx5dv.h"

#define MLX5_PAGE 4096u
#define MLX5_DOORBELLS_AT 0x800u /* of the first register in a page */
#define MLX5_REGISTERS ((MLX5_PAGE - MLX5_DOORBELLS_AT) / 8)

/* Memory that queues are carved from, known to the adapter as one umem. */
struct mlx5_chunk {
	struct mlx5_chunk *next;
	char *address;
	size_t length;
	struct ori_mem *mem; /* NULL: of malloc() */
	bool is_gpu;
	struct mlx5dv_devx_umem *umem;
	size_t granule;
	unsigned granules;
	unsigned char *used;    /* [granules] */
	unsigned char *records; /* [MLX5_RECORDS] of the first granules */
};

/* A ring of a queue with its doorbell record, in one chunk. */
struct mlx5_piece {
	struct mlx5_chunk *chunk;
	unsigned first, count; /* granules */
	unsigned record;
};

/* A page of registers, or of what stands for them. */
struct mlx5_uar {
	struct mlx5dv_devx_uar *dv;
	bool has_slots;    /* each 8 bytes are a register, else there is one */
	bool is_combining; /* stores linger until a fence */
	unsigned users[MLX5_REGISTERS];
};

/* Whole pages that kernels reach: of the adapter, or of the host. */
struct mlx5_mapping {
	struct mlx5_mapping *next;
	char *page;
	size_t length;
	char *gpu; /* where kernels have it */
	unsigned refs;
	bool is_io;
	bool is_others; /* somebody else has pinned it before */
};

/* A word that a poster rings in place of the register; guarded by the lock of the bells. */
struct mlx5_bell {
	uint64_t *word;
	uint64_t *reg;
	uint64_t told;
};

struct mlx5_bells {
	pthread_mutex_t lock;
	pthread_t thread;
	bool is_running, is_stopping;
	struct ori_mem *mem; /* of the words, pinned for kernels; NULL: of malloc() */
	uint64_t *words;
	unsigned count; /* of those below that are in use, which come first */
	struct mlx5_bell of[MLX5_PAGE / 8];
	unsigned char taken[MLX5_PAGE / 8];
};

struct mlx5_device {
	struct verbs_device verbs; /* first: calls of verbs take this one */
	struct ori_mlx5_report report;
	enum ori_mlx5_tier best, worst; /* that ORIEL_TIER allows */
	bool avoids_devx;               /* ORIEL_DEVX */
	const struct ori_gpu *gpu;      /* NULL without */

	/* Of DEVX */
	struct ori_prm_caps caps;
	struct ori_prm_atomic_caps atomic_caps;
	uint32_t pd, eqn;
	struct mlx5dv_devx_event_channel *events; /* NULL: the library has none */
	struct mlx5_uar uar;

	pthread_mutex_t lock; /* of all below and of uar, but for the bells */
	struct mlx5_chunk *chunks;
	struct mlx5_mapping *mappings;
	uint32_t zero; /* nobody sleeps; see struct ori_hca_queue_memory */
	struct mlx5_bells bells;
};

struct mlx5_cq {
	struct mlx5_device *device;
	struct ori_hca_cq *called; /* without a ring; all below is 0 then */
	struct verbs_cq by_verbs;  /* route (i), for who hears of its errors; .cq is NULL else */
	struct mlx5_mapping *mapping;
	struct mlx5dv_devx_obj *object; /* route (ii) */
	struct mlx5_piece piece;
	char *ring;
	uint32_t depth;
	uint32_t number;
	bool is_for_gpu;
};

struct mlx5_qp {
	struct mlx5_device *device;
	struct verbs_qp *verbs; /* without a ring, or by route (i) */
	bool has_ring;
	struct mlx5dv_devx_obj *object; /* route (ii) */
	struct mlx5_cq *cq;
	struct mlx5_piece piece;
	bool is_for_gpu;
	bool is_connected;
	uint64_t *reg;         /* its register, as this process sees it */
	struct mlx5_bell bell; /* .word is NULL if none stands for it */
	struct mlx5_mapping *mappings[3];
	struct ori_hca_queue_memory place;
	uint32_t number, psn;
};

static inline struct mlx5_device *to_mlx5(const struct ori_hca *hca)
{
	return (struct mlx5_device *)(uintptr_t)hca;
}

/*
 * mlx5_command.c: make the object that @in describes; @what names it in texts. A
 * refusal is told with status and syndrome of the firmware.
 */
enum oriel_status ori_mlx5_create(struct mlx5_device *d, const char *what, const void *in,
				  size_t length, struct mlx5dv_devx_obj **object, uint32_t *number);
enum oriel_status ori_mlx5_modify(struct mlx5_device *d, const char *what,
				  struct mlx5dv_devx_obj *object, const void *in, size_t length);
/* Ask @object, which @opcode and @number name as well. */
enum oriel_status ori_mlx5_query(struct mlx5_device *d, const char *what,
				 struct mlx5dv_devx_obj *object, enum ori_prm_opcode opcode,
				 uint32_t number, void *out, size_t length);
/* What the firmware says of itself; the numbers of protection domain and event queue. */
enum oriel_status ori_mlx5_ask(struct mlx5_device *d);
/* Errors of @object are told as those of queue pair @qpn from now on. */
enum oriel_status ori_mlx5_subscribe(struct mlx5_device *d, struct mlx5dv_devx_obj *object,
				     uint32_t qpn);
enum oriel_status ori_mlx5_poll_event(struct ori_hca *hca, struct ori_hca_event *event);

/* mlx5_arena.c: @count blocks of 64 bytes with a record, of the GPU if @is_gpu. */
enum oriel_status ori_mlx5_piece_open(struct mlx5_device *d, uint32_t count, bool is_gpu,
				      struct mlx5_piece *piece);
/* Zeroed storage is closed. */
void ori_mlx5_piece_close(struct mlx5_device *d, struct mlx5_piece *piece);
char *ori_mlx5_piece_ring(const struct mlx5_piece *piece);
uint32_t *ori_mlx5_piece_record(const struct mlx5_piece *piece);
uint64_t ori_mlx5_piece_offset(const struct mlx5_piece *piece, const void *of);
/* Every byte of the ring becomes @value. */
enum oriel_status ori_mlx5_piece_fill(struct mlx5_device *d, const struct mlx5_piece *piece,
				      uint32_t count, int value);
void ori_mlx5_arena_close(struct mlx5_device *d);

/* mlx5_uar.c */
enum oriel_status ori_mlx5_uar_open(struct mlx5_device *d);
void ori_mlx5_uar_close(struct mlx5_device *d);
/* The register least used. */
uint64_t *ori_mlx5_uar_take(struct mlx5_device *d);
void ori_mlx5_uar_give(struct mlx5_device *d, uint64_t *reg);
/*
 * Kernels may reach @address, which they have at *@at, until as many let go of it: a
 * page can be registered with a GPU once only, whoever asks for it.
 */
enum oriel_status ori_mlx5_map(struct mlx5_device *d, void *address, size_t length, bool is_io,
			       struct mlx5_mapping **mapping, void **at);
/* NULL is allowed. */
void ori_mlx5_unmap(struct mlx5_device *d, struct mlx5_mapping *mapping);

/* mlx5_bell.c: a word whose value a thread carries to @reg whenever it changes. */
enum oriel_status ori_mlx5_bell_open(struct mlx5_device *d, uint64_t *reg, struct mlx5_bell *bell);
void ori_mlx5_bell_close(struct mlx5_device *d, struct mlx5_bell *bell);
/* All bells are closed. */
void ori_mlx5_bells_stop(struct mlx5_device *d);

/* mlx5_connect.c: the DEVX queue pair becomes initialised, is joined to a peer, or fails. */
enum oriel_status ori_mlx5_initialise(struct mlx5_qp *qp);
enum oriel_status ori_mlx5_join(struct mlx5_qp *qp, const struct ori_hca_qp_address *peer);
enum oriel_status ori_mlx5_break(struct mlx5_qp *qp);

/* mlx5_queue.c */
enum oriel_status ori_mlx5_create_cq(struct ori_hca *hca, const struct ori_hca_cq_attr *attr,
				     struct ori_hca_cq **cq, uint32_t *cqn);
void ori_mlx5_destroy_cq(struct ori_hca_cq *cq);
enum oriel_status ori_mlx5_create_qp(struct ori_hca *hca, const struct ori_hca_qp_attr *attr,
				     struct ori_hca_qp **qp, struct ori_hca_qp_address *address);
void ori_mlx5_destroy_qp(struct ori_hca_qp *qp);

/* mlx5_tier.c: the best that is allowed and works. */
enum oriel_status ori_mlx5_find_tier(struct mlx5_device *d);

#endif
