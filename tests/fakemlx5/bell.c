/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of doorbell registers and the thread that polls them: a stored value
 * names its queue, so the thread copies it to the doorbell that the software
 * HCA has for that queue. If queues share a register one store may replace
 * another before the thread sees it, which registers of a device do not do; the
 * doorbell record recovers the lost one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <oriel/dev/mlx5.h>

#include "hca/soft_engine.h"
#include "hca/soft_qp.h"
#include "objects.h"

#define BELL_NAP_NS 20000
#define BELL_RECOVER \
	16u /* polls of the registers for each poll of the records of queues that share */

struct fake5_page *fake5_pages;

static pthread_t bell_thread;
static unsigned bell_users; /* guarded by bell_lock */
static pthread_mutex_t bell_lock = PTHREAD_MUTEX_INITIALIZER;
static bool bell_is_stopping; /* guarded by fake5_lock */

struct fake5_page *fake5_page_open(struct fake5_device *d, bool is_shared)
{
	static uint32_t numbers;
	struct fake5_page *page = calloc(1, sizeof(*page));

	page->memory =
		mmap(NULL, FAKE5_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	page->device = d;
	page->is_shared = is_shared;
	page->refs = 1;
	page->base.base_addr = page->memory;
	page->base.reg_addr = page->memory + FAKE5_DOORBELLS_AT;
	page->base.page_id = 0x4000 + ++numbers;
	page->next = fake5_pages;
	fake5_pages = page;
	fake5_hold(1);
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
	fake5_hold(-1);
}

/* A doorbell of the software HCA that no queue uses. */
struct bell_spare {
	struct bell_spare *next;
	struct fake5_device *device;
	uint64_t *word;
	uint32_t *asleep;
};

static struct bell_spare *spares;

/* The doorbells are destroyed with the software HCA. */
void fake5_bells_forget(const struct fake5_device *d)
{
	struct bell_spare **at = &spares, *gone;

	while (*at) {
		gone = *at;
		if (gone->device != d) {
			at = &gone->next;
			continue;
		}
		*at = gone->next;
		free(gone);
	}
}

static void bell_give(struct fake5_device *d, uint64_t *word, uint32_t *asleep)
{
	struct bell_spare *spare = malloc(sizeof(*spare));

	*spare = (struct bell_spare){spares, d, word, asleep};
	spares = spare;
}

static bool bell_add(struct fake5_device *d)
{
	void *page;

	if (fake5_soft()->doorbell_page(d->soft, &page) != ORIEL_OK)
		return false;
	for (size_t k = 0; k < FAKE5_REGISTERS; k++) {
		char *at = (char *)page + FAKE5_DOORBELLS_AT + k * 8;

		bell_give(d, (uint64_t *)(void *)at, page);
	}
	return true;
}

bool fake5_bell_open(struct fake5_qp *qp)
{
	struct bell_spare **at, *taken;
	int tries;

	for (tries = 0; tries < 2; tries++) {
		for (at = &spares; *at && (*at)->device != qp->device; at = &(*at)->next)
			;
		if (*at)
			break;
		if (!bell_add(qp->device))
			return false;
	}
	taken = *at;
	*at = taken->next;
	qp->bell = taken->word;
	qp->asleep = taken->asleep;
	*qp->bell = 0;
	free(taken);
	return true;
}

void fake5_bell_close(struct fake5_qp *qp)
{
	if (qp->bell)
		bell_give(qp->device, qp->bell, qp->asleep);
	qp->bell = NULL;
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

/*
 * Does a WQE name local GPU memory by a key of on-demand paging, which does not
 * cover it?
 */
static bool demand_is_refused(const char *wqe)
{
	uint32_t opcode = oriel_mlx5_get32(wqe, 0) & 0xff, at;

	if (opcode == ORIEL_MLX5_WRITE || opcode == ORIEL_MLX5_WRITE_IMM ||
	    opcode == ORIEL_MLX5_READ)
		at = 32;
	else if (opcode == ORIEL_MLX5_FETCH_ADD || opcode == ORIEL_MLX5_COMPARE_SWAP)
		at = 48;
	else
		return false;
	/* Inline data has no key. */
	return !(oriel_mlx5_get32(wqe, at) >> 31) && demand_has(oriel_mlx5_get32(wqe, at + 4)) &&
	       demand_is_gpu((uint64_t)oriel_mlx5_get32(wqe, at + 8) << 32 |
			     oriel_mlx5_get32(wqe, at + 12));
}

/* The index of the first WQE after the last one that @value posts. */
static uint16_t bell_index(uint64_t value)
{
	return (uint16_t)(oriel_dev_swap_bytes32((uint32_t)value) >> 8);
}

/*
 * Checks the WQEs that a doorbell of @value posts and the one before did not.
 */
static bool demand_is_well(const struct fake5_qp *qp, uint64_t value)
{
	const struct soft_qp *soft = (const struct soft_qp *)(const void *)qp->soft;
	uint16_t next = bell_index(oriel_dev_load_relaxed(qp->bell)), end = bell_index(value);

	for (; next != end; next++)
		if (demand_is_refused(soft->ring + (next & (soft->depth - 1)) * ORIEL_MLX5_BLOCK))
			return false;
	return true;
}

/* Rings as a poster of the software HCA does. */
static void bell_ring(struct fake5_qp *qp, uint64_t value)
{
	if (!demand_is_well(qp, value)) {
		fputs("fakemlx5: memory of a GPU by a key of pages on demand\n", stderr);
		fake5_soft()->fail_qp(qp->soft);
	}
	oriel_dev_doorbell(qp->bell, value);
	oriel_dev_fence_full();
	if (oriel_dev_load_relaxed32(qp->asleep))
		oriel_cpu_wake(qp->asleep);
}

static void bell_take(struct fake5_page *page, uint64_t value)
{
	uint32_t number = oriel_dev_swap_bytes32((uint32_t)(value >> 32)) >> 8;
	struct fake5_qp *qp = fake5_qp_find(page->device, number);

	if (!qp || qp->page != page) {
		fake5_count.stray++;
		return;
	}
	fake5_count.rung++;
	/* The record, polled earlier, may have posted more WQEs. */
	if (page->is_shared &&
	    (int16_t)(bell_index(value) - bell_index(oriel_dev_load_relaxed(qp->bell))) < 0)
		return;
	bell_ring(qp, value);
}

static bool bell_look_at(struct fake5_page *page)
{
	uint64_t *registers = (uint64_t *)(void *)(page->memory + FAKE5_DOORBELLS_AT);
	bool has_news = false;

	for (unsigned i = 0; i < FAKE5_REGISTERS; i++) {
		uint64_t value = oriel_dev_load_acquire(&registers[i]);

		if (value == page->seen[i])
			continue;
		page->seen[i] = value;
		bell_take(page, value);
		has_news = true;
	}
	return has_news;
}

static bool bell_recover(struct fake5_qp *qp)
{
	uint16_t told = bell_index(oriel_dev_load_relaxed(qp->bell));
	uint32_t word = __atomic_load_n(&qp->record[1], __ATOMIC_ACQUIRE);
	uint16_t posted = (uint16_t)oriel_dev_swap_bytes32(word);

	if (qp->state != FAKE5_RTS || posted == told)
		return false;
	fake5_count.recovered++;
	bell_ring(qp, oriel_mlx5_doorbell_value(qp->number, posted));
	return true;
}

/* Has the QP rejected a request of its peer? */
static bool bell_has_refused(struct fake5_qp *qp)
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
static void bell_events(struct fake5_device *d)
{
	struct ori_hca_event event;
	struct fake5_qp *qp;

	while (fake5_soft()->poll_event(d->soft, &event) == ORIEL_OK) {
		qp = fake5_qp_find(d, event.qpn);
		if (qp && bell_has_refused(qp))
			fake5_tell(qp, IBV_EVENT_QP_ACCESS_ERR, 0x11);
	}
}

static void *bell_main(void *unused)
{
	static const struct timespec nap = {.tv_nsec = BELL_NAP_NS};
	bool is_stopping, has_news;
	unsigned turn = 0;

	(void)unused;
	do {
		has_news = false;
		pthread_mutex_lock(&fake5_lock);
		for (struct fake5_page *page = fake5_pages; page; page = page->next)
			has_news |= bell_look_at(page);
		if (++turn % BELL_RECOVER == 0)
			for (struct fake5_qp *qp = fake5_qps; qp; qp = qp->next) {
				if (qp->page && qp->page->is_shared)
					has_news |= bell_recover(qp);
				bell_events(qp->device);
			}
		is_stopping = bell_is_stopping;
		pthread_mutex_unlock(&fake5_lock);
		if (!has_news)
			nanosleep(&nap, NULL);
	} while (!is_stopping);
	return NULL;
}

void fake5_bells_start(void)
{
	pthread_mutex_lock(&bell_lock);
	if (bell_users++ == 0) {
		bell_is_stopping = false;
		if (pthread_create(&bell_thread, NULL, bell_main, NULL) != 0)
			abort();
	}
	pthread_mutex_unlock(&bell_lock);
}

void fake5_bells_stop(void)
{
	pthread_mutex_lock(&bell_lock);
	if (--bell_users == 0) {
		pthread_mutex_lock(&fake5_lock);
		bell_is_stopping = true;
		pthread_mutex_unlock(&fake5_lock);
		pthread_join(bell_thread, NULL);
	}
	pthread_mutex_unlock(&bell_lock);
}

static bool uar_is_lacking(uint32_t flags)
{
	return (flags == (uint32_t)MLX5DV_UAR_ALLOC_TYPE_NC && fake5_lacks("uncached")) ||
	       (flags == 1u << 31 && fake5_lacks("dedicated")) ||
	       (flags != 1u << 31 && flags != (uint32_t)MLX5DV_UAR_ALLOC_TYPE_NC &&
		flags != (uint32_t)MLX5DV_UAR_ALLOC_TYPE_BF);
}

/* Uncached doorbells are one page for all callers. */
struct mlx5dv_devx_uar *mlx5dv_devx_alloc_uar(struct ibv_context *context, uint32_t flags)
{
	struct fake5_context *c = fake5_context_of(context);
	struct fake5_page *page;

	pthread_mutex_lock(&fake5_lock);
	errno = fake5_failure("alloc_uar");
	if (!errno && (!c->has_devx || uar_is_lacking(flags)))
		errno = EOPNOTSUPP;
	if (errno) {
		pthread_mutex_unlock(&fake5_lock);
		return NULL;
	}
	if (flags != (uint32_t)MLX5DV_UAR_ALLOC_TYPE_NC) {
		page = fake5_page_open(c->device, flags != 1u << 31);
	} else {
		if (!c->singleton)
			c->singleton = fake5_page_open(c->device, true);
		page = c->singleton;
		page->refs++;
	}
	pthread_mutex_unlock(&fake5_lock);
	return &page->base;
}

void mlx5dv_devx_free_uar(struct mlx5dv_devx_uar *uar)
{
	pthread_mutex_lock(&fake5_lock);
	fake5_page_close((struct fake5_page *)uar);
	pthread_mutex_unlock(&fake5_lock);
}
