/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a ConnectX HCA: a device of libibverbs, whose calls work on it
 * unchanged, and in addition queues with rings. Route (ii) makes those by
 * firmware commands (DEVX) in memory of our choice; route (i) makes them by
 * verbs and then asks verbs for their addresses.
 */
#ifndef ORI_HCA_MLX5_DEVICE_H
#define ORI_HCA_MLX5_DEVICE_H

#include <unistd.h>

#include "hca/mlx5/mlx5.h"
#include "hca/mlx5/mlx5_prm.h"
#include "hca/verbs/verbs.h"
#include "mem/memory.h"
#include "sys/gpu.h"
#include "sys/mlx5dv.h"

#define MLX5_PAGE 4096u
#define MLX5_UARS_MAX 256u /* registers of a device; a HCA has some thousands for all processes */

/* Memory that queues are carved from, known to the HCA as one umem. */
struct mlx5_chunk {
	struct mlx5_chunk *next;
	char *address;
	size_t length;
	struct ori_mem *mem; /* NULL: from malloc() */
	bool is_gpu;
	struct mlx5dv_devx_umem *umem;
	size_t granule;
	unsigned granules;
	unsigned char *used;    /* [granules] */
	unsigned char *records; /* [MLX5_RECORDS] of the first granules */
};

/* A ring with its doorbell record, in one chunk. */
struct mlx5_piece {
	struct mlx5_chunk *chunk;
	unsigned first, count; /* granules */
	unsigned record;
};

/* A doorbell register: its address, and the number of its page for commands. */
struct mlx5_uar {
	struct mlx5dv_devx_uar *dv;
	unsigned users; /* queue pairs */
};

struct mlx5_uars {
	struct mlx5_uar of[MLX5_UARS_MAX];
	unsigned count;
	uint32_t type;     /* of DEVX */
	bool is_one;       /* the device gives all callers the same */
	bool is_combining; /* stores linger until a fence */
};

/* Whole pages that kernels reach: of the HCA, or of the host. */
struct mlx5_mapping {
	struct mlx5_mapping *next;
	char *page;
	size_t length;
	char *gpu; /* their address on the GPU */
	unsigned refs;
	bool is_io;
	bool is_others; /* another owner in this process pinned it earlier */
};

/* A word that a poster writes in place of the register; guarded by the lock of the bells. */
struct mlx5_doorbell {
	uint64_t *word;
	uint64_t *reg;
	uint64_t rung;
};

struct mlx5_doorbells {
	pthread_mutex_t lock;
	pthread_t thread;
	bool is_running, is_stopping;
	struct ori_mem *mem; /* memory of the words, pinned for kernels; NULL: from malloc() */
	uint64_t *words;
	unsigned count; /* words of those below that are in use; they come first */
	struct mlx5_doorbell of[MLX5_PAGE / 8];
	unsigned char taken[MLX5_PAGE / 8];
};

struct mlx5_device {
	struct verbs_device verbs; /* first: calls of verbs cast to this one */
	struct ori_mlx5_report report;
	enum ori_mlx5_tier best, worst; /* that ORIEL_TIER allows */
	bool avoids_devx, demands_devx; /* ORIEL_DEVX */
	char no_devx[200];              /* why commands create no queues; "": they do */
	char no_wait[200];              /* why companions do not WAIT, by the last trial */
	const struct ori_gpu *gpu;      /* NULL: without a GPU */

	/* State of DEVX. */
	struct ori_prm_caps caps;
	struct ori_prm_atomic_caps atomic_caps;
	struct ori_prm_paging_caps paging_caps;
	uint32_t pd, eqn;
	enum ori_hca_order order;
	struct mlx5dv_devx_event_channel *events; /* NULL: the library has none */
	struct mlx5_uars uars;

	pthread_mutex_t lock;    /* guards all below and uars, but for the bells */
	uint32_t refused_events; /* a bit for each type that it does not report */
	bool has_no_events;
	struct mlx5_chunk *chunks;
	struct mlx5_mapping *mappings;
	uint32_t zero; /* says that no thread sleeps; see struct ori_hca_queue_memory */
	struct mlx5_doorbells bells;
};

struct mlx5_cq {
	struct mlx5_device *device;
	struct ori_hca_cq *called; /* the CQ of a queue without a ring; all below is 0 then */
	struct verbs_cq
		by_verbs; /* route (i), for the QPs that report its errors; else .cq is NULL */
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
	struct mlx5_uar *uar;          /* route (ii) */
	uint64_t *reg;                 /* its register, as this process maps it */
	struct mlx5_doorbell doorbell; /* .word is NULL if the poster writes the register itself */
	struct mlx5_mapping *mappings[3];
	struct ori_hca_queue_memory place;
	uint32_t number, psn;
};

/* The unit of mappings, of memory as of registers: 64 KiB on some hosts. */
static inline size_t mlx5_host_page(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static inline struct mlx5_device *to_mlx5(const struct ori_hca *hca)
{
	return (struct mlx5_device *)(uintptr_t)hca;
}

/*
 * mlx5_command.c: create the object that @in describes; texts call it @what. A
 * failure is logged with status and syndrome of the firmware.
 */
enum oriel_status ori_mlx5_create(struct mlx5_device *d, const char *what, const void *in,
				  size_t length, struct mlx5dv_devx_obj **object, uint32_t *number);
enum oriel_status ori_mlx5_modify(struct mlx5_device *d, const char *what,
				  struct mlx5dv_devx_obj *object, const void *in, size_t length);
/* Read capabilities from the firmware, and the numbers of protection domain and event queue. */
enum oriel_status ori_mlx5_ask(struct mlx5_device *d);
/*
 * Does the context of @qp, which is connected, say that it keeps the order of requests? Else
 * whether the port has several paths.
 */
enum ori_hca_order ori_mlx5_ask_order(struct mlx5_device *d, const struct mlx5_qp *qp);
/*
 * From now on errors of @object are reported as those of queue pair @qpn, as far
 * as the device reports any: error CQEs carry most of the same information.
 */
void ori_mlx5_subscribe(struct mlx5_device *d, struct mlx5dv_devx_obj *object, uint32_t qpn);
enum oriel_status ori_mlx5_poll_event(struct ori_hca *hca, struct ori_hca_event *event);

/* mlx5_arena.c: @count blocks of 64 bytes with a record, of the GPU if @is_gpu. */
enum oriel_status ori_mlx5_piece_open(struct mlx5_device *d, uint32_t count, bool is_gpu,
				      struct mlx5_piece *piece);
/* A zeroed piece is closed already. */
void ori_mlx5_piece_close(struct mlx5_device *d, struct mlx5_piece *piece);
char *ori_mlx5_piece_ring(const struct mlx5_piece *piece);
uint32_t *ori_mlx5_piece_record(const struct mlx5_piece *piece);
uint64_t ori_mlx5_piece_offset(const struct mlx5_piece *piece, const void *of);
/* Set every byte of the ring to @value. */
enum oriel_status ori_mlx5_piece_fill(struct mlx5_device *d, const struct mlx5_piece *piece,
				      uint32_t count, int value);
void ori_mlx5_arena_close(struct mlx5_device *d);

/* mlx5_uar.c: doorbell registers, of the best kind that the device has. */
enum oriel_status ori_mlx5_uars_open(struct mlx5_device *d);
void ori_mlx5_uars_close(struct mlx5_device *d);
/* A register of its own, or the one that the fewest queues share. */
struct mlx5_uar *ori_mlx5_uar_take(struct mlx5_device *d);
void ori_mlx5_uar_give(struct mlx5_device *d, struct mlx5_uar *uar);
/*
 * Map @address for kernels, which use it at *@at, until the last user unmaps
 * it. Users share a mapping: a page can be registered with a GPU only once.
 */
enum oriel_status ori_mlx5_map(struct mlx5_device *d, void *address, size_t length, bool is_io,
			       struct mlx5_mapping **mapping, void **at);
/* NULL is allowed. */
void ori_mlx5_unmap(struct mlx5_device *d, struct mlx5_mapping *mapping);

/* mlx5_doorbell.c: a word; a thread copies its value to @reg after each change. */
enum oriel_status ori_mlx5_doorbell_open(struct mlx5_device *d, uint64_t *reg,
					 struct mlx5_doorbell *doorbell);
void ori_mlx5_doorbell_close(struct mlx5_device *d, struct mlx5_doorbell *doorbell);
/* All bells are closed. */
void ori_mlx5_doorbells_stop(struct mlx5_device *d);

/* mlx5_connect.c: initialise the DEVX queue pair, join it to a peer, or fail it. */
/* Does the HCA say that queues of commands may post, and execute, masked additions? */
bool ori_mlx5_may_mask(const struct mlx5_device *d);
enum oriel_status ori_mlx5_initialise(struct mlx5_qp *qp);
enum oriel_status ori_mlx5_join(struct mlx5_qp *qp, const struct ori_hca_qp_address *peer);
enum oriel_status ori_mlx5_break(struct mlx5_qp *qp);

/* Do queues with rings reach memory that is not registered, by on-demand paging? */
static inline bool mlx5_reaches_all(const struct mlx5_device *d)
{
	return !d->report.is_devx || d->paging_caps.has_memory_faults;
}

/* mlx5_queue.c: queues of the table. */
enum oriel_status ori_mlx5_create_cq(struct ori_hca *hca, const struct ori_hca_cq_attr *attr,
				     struct ori_hca_cq **cq, uint32_t *cqn);
void ori_mlx5_destroy_cq(struct ori_hca_cq *cq);
enum oriel_status ori_mlx5_create_qp(struct ori_hca *hca, const struct ori_hca_qp_attr *attr,
				     struct ori_hca_qp **qp, struct ori_hca_qp_address *address);
void ori_mlx5_destroy_qp(struct ori_hca_qp *qp);

/*
 * mlx5_trial.c: create the queues of @tier and post to them from where the tier posts. If
 * report.has_wait, a companion too: no_wait says why it does not work. The report says if
 * nothing could post.
 */
enum oriel_status ori_mlx5_try_queues(struct mlx5_device *d, enum ori_mlx5_tier tier);

/* mlx5_tier.c: find the best tier that is allowed and works. */
enum oriel_status ori_mlx5_find_tier(struct mlx5_device *d);

#endif
