/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of doorbell registers and the thread that polls them: a stored value
 * names its queue, so the thread copies it to the doorbell that the software
 * HCA has for that queue. If queues share a register one store may replace
 * another before the thread sees it, which registers of a device do not do; the
 * doorbell record recovers the lost one.
 *
 * A doorbell is a store to offset 0 of a register, and registers are 0x100
 * apart from 0x800 on: of uncached pages rdma-core hands out four
 * (providers/mlx5/verbs.c, mlx5_insert_dyn_uuars: nc_mode), and the open posters
 * store to no other address (UCX src/uct/ib/mlx5/ib_mlx5.c, NVSHMEM ibgda.cpp
 * and DOCA GPUNetIO: reg_addr). Any other store is stray.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <oriel/dev/detail/mlx5.h>

#include "hca/soft/soft_engine.h"
#include "hca/soft/soft_qp.h"
#include "objects.h"

#define DOORBELL_NAP_NS 20000
#define DOORBELL_RECOVER \
	16u /* polls of the registers for each poll of the records of queues that share */

struct fake5_page *fake5_pages;

static pthread_t doorbell_thread;
static unsigned doorbell_users; /* guarded by doorbell_lock */
static pthread_mutex_t doorbell_lock = PTHREAD_MUTEX_INITIALIZER;
static bool doorbell_is_stopping; /* guarded by fake5_lock */

struct fake5_page *fake5_page_open(struct fake5_device *d)
{
	static uint32_t numbers;
	struct fake5_page *page = calloc(1, sizeof(*page));

	page->memory =
		mmap(NULL, FAKE5_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	page->device = d;
	page->taken = 1;
	page->refs = 1;
	page->id = 0x4000 + ++numbers;
	page->next = fake5_pages;
	fake5_pages = page;
	fake5_left_add(1);
	return page;
}

void fake5_page_close(struct fake5_page *page)
{
	struct fake5_page **at = &fake5_pages;

	if (--page->refs > 0)
		return;
	while (*at != page)
		at = &(*at)->next;
	*at = page->next;
	munmap(page->memory, FAKE5_PAGE);
	free(page);
	fake5_left_add(-1);
}

/* A doorbell of the software HCA that no queue uses. */
struct doorbell_spare {
	struct doorbell_spare *next;
	struct fake5_device *device;
	uint64_t *word;
	uint32_t *asleep;
};

static struct doorbell_spare *spares;

/* The doorbells are destroyed with the software HCA. */
void fake5_doorbells_forget(const struct fake5_device *d)
{
	struct doorbell_spare **at = &spares, *forgotten;

	while (*at) {
		forgotten = *at;
		if (forgotten->device != d) {
			at = &forgotten->next;
			continue;
		}
		*at = forgotten->next;
		free(forgotten);
	}
}

static void doorbell_give(struct fake5_device *d, uint64_t *word, uint32_t *asleep)
{
	struct doorbell_spare *spare = malloc(sizeof(*spare));

	*spare = (struct doorbell_spare){spares, d, word, asleep};
	spares = spare;
}

static bool doorbell_add(struct fake5_device *d)
{
	struct ori_hca_caps caps;
	void *page;

	fake5_soft()->caps(d->soft, &caps);
	if (caps.rings->doorbell_page(d->soft, &page) != ORIEL_OK)
		return false;
	for (size_t k = 0; k < FAKE5_WORDS; k++) {
		char *at = (char *)page + FAKE5_DOORBELLS_AT + k * 8;

		doorbell_give(d, (uint64_t *)(void *)at, page);
	}
	return true;
}

bool fake5_doorbell_open(struct fake5_qp *qp)
{
	struct doorbell_spare **at, *taken;
	int tries;

	for (tries = 0; tries < 2; tries++) {
		for (at = &spares; *at && (*at)->device != qp->device; at = &(*at)->next)
			;
		if (*at)
			break;
		if (!doorbell_add(qp->device))
			return false;
	}
	taken = *at;
	*at = taken->next;
	qp->doorbell = taken->word;
	qp->asleep = taken->asleep;
	*qp->doorbell = 0;
	free(taken);
	return true;
}

void fake5_doorbell_close(struct fake5_qp *qp)
{
	if (qp->doorbell)
		doorbell_give(qp->device, qp->doorbell, qp->asleep);
	qp->doorbell = NULL;
}

#define DEMAND_KEYS 64u

static uint32_t demand_keys[DEMAND_KEYS];

void fake5_demand_add(uint32_t key)
{
	unsigned i;

	for (i = 0; demand_keys[i]; i++)
		if (i + 1 == DEMAND_KEYS)
			abort();
	demand_keys[i] = key;
}

void fake5_demand_remove(uint32_t key)
{
	for (unsigned i = 0; i < DEMAND_KEYS; i++)
		if (demand_keys[i] == key)
			demand_keys[i] = 0;
}

static bool demand_has(uint32_t key)
{
	for (unsigned i = 0; i < DEMAND_KEYS; i++)
		if (demand_keys[i] == key)
			return key != 0;
	return false;
}

/* Is it memory of the fake driver's GPUs? */
static bool demand_is_gpu(uint64_t address)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	uint64_t first, behind;
	bool is_gpu = false;
	char line[512];

	while (maps && !is_gpu && fgets(line, sizeof(line), maps))
		is_gpu = sscanf(line, "%" SCNx64 "-%" SCNx64, &first, &behind) == 2 &&
			 address >= first && address < behind && strstr(line, "memfd:fakecuda");
	if (maps)
		fclose(maps);
	return is_gpu;
}

/* The data segment of @wqe that names local memory by a key of on-demand paging; 0: none. */
static uint32_t demand_find(const char *wqe)
{
	uint32_t opcode = ori_dev_mlx5_get32(wqe, 0) & 0xff, at;

	if (opcode == ORIEL_MLX5_WRITE || opcode == ORIEL_MLX5_WRITE_IMM ||
	    opcode == ORIEL_MLX5_READ)
		at = 32;
	else if (opcode == ORIEL_MLX5_FETCH_ADD || opcode == ORIEL_MLX5_COMPARE_SWAP)
		at = 48;
	else
		return 0;
	/* Inline data has no key. */
	return !(ori_dev_mlx5_get32(wqe, at) >> 31) && demand_has(ori_dev_mlx5_get32(wqe, at + 4))
		       ? at
		       : 0;
}

/* Does a WQE name local GPU memory by a key of on-demand paging, which does not cover it? */
static bool demand_is_rejected(const char *wqe)
{
	uint32_t at = demand_find(wqe);

	return at && demand_is_gpu((uint64_t)ori_dev_mlx5_get32(wqe, at + 8) << 32 |
				   ori_dev_mlx5_get32(wqe, at + 12));
}

/* The index of the first WQE after the last one that @value posts. */
static uint16_t doorbell_index(uint64_t value)
{
	return (uint16_t)(ori_dev_swap_bytes32((uint32_t)value) >> 8);
}

/* Checks the WQEs that a doorbell of @value posts and the one before did not. */
static bool demand_is_well(const struct fake5_qp *qp, uint64_t value)
{
	const struct soft_qp *soft = (const struct soft_qp *)(const void *)qp->soft;
	uint16_t next = doorbell_index(oriel_dev_load_relaxed(qp->doorbell)),
		 end = doorbell_index(value);

	for (; next != end; next++)
		if (demand_is_rejected(soft->ring + (next & (soft->depth - 1)) * ORIEL_MLX5_BLOCK))
			return false;
	return true;
}

/*
 * Linux resolves a fault of a request by the kernel's object of its queue; a queue
 * of DEVX has none, and is not resumed (odp.c, mlx5_ib_mr_wqe_pfault_handler:
 * "missing resource"). Only devices whose faults name the memory itself have no
 * need of the queue (UCX ib_mlx5dv_md.c, uct_ib_mlx5_devx_check_odp: "version 1
 * is not supported for DevX QP"). Here no WQE of that doorbell is executed: the
 * software HCA reads the record, which names all of them.
 */
static bool demand_stalls(struct fake5_qp *qp, uint64_t value)
{
	const struct soft_qp *soft = (const struct soft_qp *)(const void *)qp->soft;
	uint16_t next = doorbell_index(oriel_dev_load_relaxed(qp->doorbell)),
		 end = doorbell_index(value);

	if (qp->is_stalled || qp->base.context || !fake5_lacks("faults"))
		return qp->is_stalled;
	for (; next != end && !qp->is_stalled; next++)
		qp->is_stalled = demand_find(soft->ring +
					     (next & (soft->depth - 1)) * ORIEL_MLX5_BLOCK) != 0;
	fake5_count.stalled += qp->is_stalled;
	return qp->is_stalled;
}

/* Rings as a poster of the software HCA does. */
static void doorbell_ring(struct fake5_qp *qp, uint64_t value)
{
	if (demand_stalls(qp, value))
		return;
	if (!demand_is_well(qp, value)) {
		fputs("fakemlx5: a WQE names memory of a GPU by a key of on-demand paging\n",
		      stderr);
		fake5_soft()->fail_qp(qp->soft);
	}
	ori_dev_doorbell(qp->doorbell, value);
	ori_dev_fence_full();
	if (ori_dev_load_relaxed32(qp->asleep))
		oriel_cpu_wake(qp->asleep);
}

/* More queues than registers share some: a value may be overwritten unseen. */
static bool page_is_shared(const struct fake5_page *page)
{
	return !page->dedicated || page->users > FAKE5_REGISTERS;
}

static uint32_t doorbell_queue(uint64_t value)
{
	return ori_dev_swap_bytes32((uint32_t)(value >> 32)) >> 8;
}

/* A later queue may get the number, and ring the same value. */
void fake5_page_leave(struct fake5_qp *qp)
{
	struct fake5_page *page = qp->page;
	uint64_t *registers = (uint64_t *)(void *)(page->memory + FAKE5_DOORBELLS_AT);

	page->users--;
	for (unsigned k = 0; k < FAKE5_REGISTERS; k++) {
		unsigned i = k * FAKE5_STRIDE / 8;
		uint64_t value = page->seen[i];

		if (doorbell_queue(value) == qp->number &&
		    __atomic_compare_exchange_n(&registers[i], &value, 0, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			page->seen[i] = 0;
	}
}

static void doorbell_take(struct fake5_page *page, uint64_t value)
{
	struct fake5_qp *qp = fake5_qp_find(page->device, doorbell_queue(value));

	if (!qp || qp->page != page) {
		fake5_count.stray++;
		return;
	}
	/* No driver reports it: what a register that is mapped wrongly would look like. */
	if (!qp->base.context && fake5_lacks("doorbells"))
		return;
	fake5_count.rung++;
	/* The record, polled earlier, may have posted more WQEs. */
	if (page_is_shared(page) &&
	    (int16_t)(doorbell_index(value) -
		      doorbell_index(oriel_dev_load_relaxed(qp->doorbell))) < 0)
		return;
	doorbell_ring(qp, value);
}

static bool doorbell_look_at(struct fake5_page *page)
{
	uint64_t *registers = (uint64_t *)(void *)(page->memory + FAKE5_DOORBELLS_AT);
	bool has_news = false;

	for (unsigned k = 0; k < FAKE5_REGISTERS; k++) {
		unsigned i = k * FAKE5_STRIDE / 8;
		uint64_t value = oriel_dev_load_acquire(&registers[i]);

		if (value == page->seen[i] || !(page->taken >> k & 1))
			continue;
		page->seen[i] = value;
		doorbell_take(page, value);
		has_news = true;
	}
	return has_news;
}

/* Stores beside the registers, and to registers that no process got, ring nothing. */
static void doorbell_find_strays(struct fake5_page *page)
{
	uint64_t *registers = (uint64_t *)(void *)(page->memory + FAKE5_DOORBELLS_AT);

	for (unsigned i = 0; i < FAKE5_WORDS; i++) {
		uint64_t value = oriel_dev_load_acquire(&registers[i]);
		unsigned k = i * 8 / FAKE5_STRIDE;

		if (value == page->seen[i] ||
		    (i * 8 % FAKE5_STRIDE == 0 && k < FAKE5_REGISTERS && page->taken >> k & 1))
			continue;
		page->seen[i] = value;
		fake5_count.stray++;
	}
}

static bool doorbell_recover(struct fake5_qp *qp)
{
	uint16_t rung = doorbell_index(oriel_dev_load_relaxed(qp->doorbell));
	uint32_t word = __atomic_load_n(&qp->record[1], __ATOMIC_ACQUIRE);
	uint16_t posted = (uint16_t)ori_dev_swap_bytes32(word);

	if (qp->state != FAKE5_RTS || qp->is_stalled || posted == rung)
		return false;
	fake5_count.recovered++;
	doorbell_ring(qp, ori_dev_mlx5_doorbell_value(qp->number, posted));
	return true;
}

/* Has the QP rejected a request of its peer? */
static bool doorbell_has_rejected(struct fake5_qp *qp)
{
	struct soft_qp *soft = (struct soft_qp *)(void *)qp->soft;
	bool has_refused;

	ori_soft_engine_lock(soft->node->engine);
	has_refused = soft->refusal != 0;
	ori_soft_engine_unlock(soft->node->engine);
	return has_refused;
}

/*
 * Report rejections of the software HCA as a device would; a requester has its
 * error CQE instead.
 */
static void doorbell_events(struct fake5_device *d)
{
	struct ori_hca_event event;
	struct fake5_qp *qp;

	while (fake5_soft()->poll_event(d->soft, &event) == ORIEL_OK) {
		qp = fake5_qp_find(d, event.qpn);
		if (qp && doorbell_has_rejected(qp))
			fake5_report(qp, IBV_EVENT_QP_ACCESS_ERR, 0x11);
	}
}

static void *doorbell_main(void *unused)
{
	static const struct timespec pause = {.tv_nsec = DOORBELL_NAP_NS};
	bool is_stopping, has_news;
	unsigned turn = 0;

	(void)unused;
	do {
		has_news = false;
		pthread_mutex_lock(&fake5_lock);
		for (struct fake5_page *page = fake5_pages; page; page = page->next)
			has_news |= doorbell_look_at(page);
		if (++turn % DOORBELL_RECOVER == 0) {
			for (struct fake5_page *page = fake5_pages; page; page = page->next)
				doorbell_find_strays(page);
			for (struct fake5_qp *qp = fake5_qps; qp; qp = qp->next) {
				if (qp->page && page_is_shared(qp->page))
					has_news |= doorbell_recover(qp);
				doorbell_events(qp->device);
			}
		}
		is_stopping = doorbell_is_stopping;
		pthread_mutex_unlock(&fake5_lock);
		if (!has_news)
			nanosleep(&pause, NULL);
	} while (!is_stopping);
	return NULL;
}

void fake5_bells_start(void)
{
	pthread_mutex_lock(&doorbell_lock);
	if (doorbell_users++ == 0) {
		doorbell_is_stopping = false;
		if (pthread_create(&doorbell_thread, NULL, doorbell_main, NULL) != 0)
			abort();
	}
	pthread_mutex_unlock(&doorbell_lock);
}

void fake5_bells_stop(void)
{
	pthread_mutex_lock(&doorbell_lock);
	if (--doorbell_users == 0) {
		pthread_mutex_lock(&fake5_lock);
		doorbell_is_stopping = true;
		pthread_mutex_unlock(&fake5_lock);
		pthread_join(doorbell_thread, NULL);
	}
	pthread_mutex_unlock(&doorbell_lock);
}

/*
 * rdma-core has NC_DEDICATED since version 45; an older one, and a device or kernel without
 * registers of a kind, fails with EOPNOTSUPP (rocm-systems #4642; UCX #9986, ib_mlx5.c: from
 * combining to dedicated ones; NVSHMEM ibgda.cpp: from dedicated to combining ones).
 */
static bool uar_is_lacking(uint32_t flags)
{
	return (flags == (uint32_t)MLX5DV_UAR_ALLOC_TYPE_NC && fake5_lacks("uncached")) ||
	       (flags == 1u << 31 && fake5_lacks("dedicated")) ||
	       (flags != 1u << 31 && flags != (uint32_t)MLX5DV_UAR_ALLOC_TYPE_NC &&
		flags != (uint32_t)MLX5DV_UAR_ALLOC_TYPE_BF);
}

static struct fake5_uar *uar_open(struct fake5_page *page, unsigned slot)
{
	struct fake5_uar *uar = calloc(1, sizeof(*uar));

	uar->page = page;
	uar->slot = slot;
	uar->base.base_addr = page->memory;
	uar->base.reg_addr = page->memory + FAKE5_DOORBELLS_AT + slot * FAKE5_STRIDE;
	uar->base.page_id = page->id;
	return uar;
}

/* A page of the context that has a register left, else a new page. */
static struct fake5_uar *uar_open_dedicated(struct fake5_context *c)
{
	struct fake5_page *page = fake5_pages;
	unsigned slot = 0;

	while (page && (page->dedicated != c || page->refs == FAKE5_REGISTERS))
		page = page->next;
	if (!page) {
		page = fake5_page_open(c->device);
		page->dedicated = c;
		return uar_open(page, 0);
	}
	while (page->taken >> slot & 1)
		slot++;
	page->taken |= 1u << slot;
	page->refs++;
	return uar_open(page, slot);
}

void fake5_uar_close(struct fake5_uar *uar)
{
	if (uar->page->dedicated)
		uar->page->taken &= ~(1u << uar->slot);
	fake5_page_close(uar->page);
	free(uar);
}

/* An uncached register is one for all callers. */
struct mlx5dv_devx_uar *mlx5dv_devx_alloc_uar(struct ibv_context *context, uint32_t flags)
{
	struct fake5_context *c = fake5_context_of(context);
	struct fake5_uar *uar;

	pthread_mutex_lock(&fake5_lock);
	errno = fake5_failure("alloc_uar");
	if (!errno && (!c->has_devx || uar_is_lacking(flags)))
		errno = EOPNOTSUPP;
	if (errno) {
		pthread_mutex_unlock(&fake5_lock);
		return NULL;
	}
	if (flags == 1u << 31) {
		uar = uar_open_dedicated(c);
	} else if (flags == (uint32_t)MLX5DV_UAR_ALLOC_TYPE_NC) {
		if (!c->singleton)
			c->singleton = uar_open(fake5_page_open(c->device), 0);
		uar = c->singleton;
		uar->is_singleton = true;
	} else {
		uar = uar_open(fake5_page_open(c->device), 0);
	}
	pthread_mutex_unlock(&fake5_lock);
	return &uar->base;
}

void mlx5dv_devx_free_uar(struct mlx5dv_devx_uar *uar)
{
	struct fake5_uar *u = (struct fake5_uar *)uar;

	/* The one for all stays until the context closes. */
	pthread_mutex_lock(&fake5_lock);
	if (!u->is_singleton)
		fake5_uar_close(u);
	pthread_mutex_unlock(&fake5_lock);
}
