/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page with the waits of this process: see wait_page.h, which names the callers. Each thread
 * writes a slot of its own, between two increments of its turn; communicators are added and removed
 * under a lock.
 */
#include "base/wait_page.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file_limit.h"
#include "base/fork.h"

static pthread_mutex_t page_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct ori_wait_page *) page_now; /* while there is a user of it */
static unsigned page_users;                      /* guarded by page_lock */
static int page_fd;                              /* of page_now; guarded by page_lock */
static atomic_uint page_turn;                    /* which page it is: addresses come again */
static pthread_key_t page_key; /* its destructor frees the slot of a thread that exits */
static pthread_once_t page_once = PTHREAD_ONCE_INIT;

static _Thread_local struct {
	struct ori_wait_slot *slot; /* NULL: none yet */
	unsigned turn;              /* the page that it is in */
	bool is_noted;              /* the next sleep shows the note */
} page_mine;

/* The slot of this thread, if it has one in the page that there is now. */
static struct ori_wait_slot *page_own_slot(void)
{
	return page_mine.slot && page_mine.turn == atomic_load(&page_turn) ? page_mine.slot : NULL;
}

static void page_free_slot(void *unused)
{
	struct ori_wait_slot *slot;

	(void)unused;
	pthread_mutex_lock(&page_lock);
	slot = page_own_slot();
	if (slot)
		__atomic_store_n(&slot->state, ORI_WAIT_FREE, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&page_lock);
}

/*
 * The page is the parent's: the child, whose one thread is this one, makes a new one for a
 * communicator of its own.
 */
static void page_fork_child(void)
{
	atomic_store(&page_now, NULL);
	page_users = 0;
	page_mine.slot = NULL;
	page_mine.is_noted = false;
	pthread_setspecific(page_key, NULL);
}

static const struct ori_fork_hook page_hook = {.lock = &page_lock, .child = page_fork_child};

static void page_open_once(void)
{
	pthread_key_create(&page_key, page_free_slot);
	ori_fork_add(ORI_FORK_WAITS, &page_hook);
}

/* The caller has the lock. The descriptor is for readers, and is closed by exec(). */
static void page_open_locked(void)
{
	struct ori_wait_page *page;
	int fd;

	if (sizeof(*page) > ori_file_limit())
		return;
	fd = memfd_create(ORI_WAIT_PAGE_NAME, MFD_CLOEXEC);
	if (fd < 0)
		return;
	if (ftruncate(fd, sizeof(*page)) == 0)
		page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	else
		page = MAP_FAILED;
	if (page == MAP_FAILED) {
		close(fd);
		return;
	}
	page->version = ORI_WAIT_VERSION;
	page->process = getpid();
	page->comms = ORI_WAIT_COMMS;
	page->slots = ORI_WAIT_SLOTS;
	/* Acquired by readers of other processes, which check the rest after it. */
	__atomic_store_n(&page->magic, ORI_WAIT_MAGIC, __ATOMIC_RELEASE);
	page_fd = fd;
	atomic_store(&page_now, page);
}

/* The caller has the lock, and no user is left, in a wait of which a thread could be. */
static void page_close_locked(struct ori_wait_page *page)
{
	atomic_store(&page_now, NULL);
	atomic_fetch_add(&page_turn, 1);
	munmap(page, sizeof(*page));
	close(page_fd);
}

void ori_wait_page_open(void)
{
	pthread_once(&page_once, page_open_once);
	pthread_mutex_lock(&page_lock);
	page_users++;
	if (!atomic_load(&page_now))
		page_open_locked();
	pthread_mutex_unlock(&page_lock);
}

void ori_wait_page_close(void)
{
	struct ori_wait_page *page;

	pthread_mutex_lock(&page_lock);
	page = atomic_load(&page_now);
	if (--page_users == 0 && page)
		page_close_locked(page);
	pthread_mutex_unlock(&page_lock);
}

void ori_wait_page_add(const struct ori_wait_comm *comm)
{
	struct ori_wait_page *page;
	unsigned i;

	pthread_mutex_lock(&page_lock);
	page = atomic_load(&page_now);
	for (i = 0; page && i < ORI_WAIT_COMMS; i++) {
		struct ori_wait_comm *entry = &page->comm[i];

		if (entry->key)
			continue;
		*entry = *comm;
		entry->key = 0;
		__atomic_store_n(&entry->key, comm->key, __ATOMIC_RELEASE);
		break;
	}
	pthread_mutex_unlock(&page_lock);
}

void ori_wait_page_remove(uint64_t key)
{
	struct ori_wait_page *page;
	unsigned i;

	pthread_mutex_lock(&page_lock);
	page = atomic_load(&page_now);
	for (i = 0; page && i < ORI_WAIT_COMMS; i++)
		if (page->comm[i].key == key)
			__atomic_store_n(&page->comm[i].key, 0, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&page_lock);
}

uint32_t ori_wait_page_rank(uint64_t key)
{
	const struct ori_wait_page *page = ori_wait_page_lock();
	uint32_t rank = ORIEL_DEV_NO_RANK;
	unsigned i;

	for (i = 0; page && i < ORI_WAIT_COMMS; i++)
		if (page->comm[i].key == key)
			rank = page->comm[i].rank;
	ori_wait_page_unlock();
	return rank;
}

/* The slot of this thread, which gets one at its first long wait; NULL: there is none. */
static struct ori_wait_slot *page_slot(void)
{
	struct ori_wait_page *page = atomic_load_explicit(&page_now, memory_order_acquire);
	uint32_t state;
	unsigned i;

	if (page_own_slot() || !page)
		return page_own_slot();
	for (i = 0; i < ORI_WAIT_SLOTS; i++) {
		struct ori_wait_slot *slot = &page->slot[i];

		state = ORI_WAIT_FREE;
		if (!__atomic_compare_exchange_n(&slot->state, &state, ORI_WAIT_IDLE, false,
						 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		slot->thread = (int32_t)syscall(SYS_gettid);
		page_mine.slot = slot;
		page_mine.turn = atomic_load(&page_turn);
		pthread_setspecific(page_key, slot);
		return slot;
	}
	__atomic_add_fetch(&page->lost, 1, __ATOMIC_RELAXED);
	return NULL;
}

/* By words, since another thread may read the note meanwhile, and then throws it away. */
static void page_copy(struct ori_wait_note *to, const struct ori_wait_note *from)
{
	uint64_t *words = (void *)to;
	const uint64_t *source = (const void *)from;
	size_t i;

	for (i = 0; i < sizeof(*to) / sizeof(*words); i++)
		__atomic_store_n(&words[i], __atomic_load_n(&source[i], __ATOMIC_RELAXED),
				 __ATOMIC_RELAXED);
}

static bool page_write(const struct ori_wait_note *note)
{
	struct ori_wait_slot *slot = page_slot();

	if (!slot)
		return false;
	/* ori_wait_read() reads the turn before and after: a sequence lock with one writer. */
	__atomic_store_n(&slot->turn, slot->turn + 1, __ATOMIC_RELAXED);
	atomic_thread_fence(memory_order_release);
	page_copy(&slot->note, note);
	__atomic_store_n(&slot->turn, slot->turn + 1, __ATOMIC_RELEASE);
	return true;
}

static void page_set_state(enum ori_wait_state state)
{
	struct ori_wait_slot *slot = page_own_slot();

	if (slot)
		__atomic_store_n(&slot->state, state, __ATOMIC_RELEASE);
}

void ori_wait_note(const struct ori_wait_note *note)
{
	page_mine.is_noted = page_write(note);
}

void ori_wait_show(void)
{
	if (page_mine.is_noted)
		page_set_state(ORI_WAIT_BUSY);
}

void ori_wait_hide(void)
{
	if (page_mine.is_noted)
		page_set_state(ORI_WAIT_IDLE);
	page_mine.is_noted = false;
}

void ori_wait_begin(const struct ori_wait_note *note)
{
	if (page_write(note))
		page_set_state(ORI_WAIT_BUSY);
}

void ori_wait_end(void)
{
	page_set_state(ORI_WAIT_IDLE);
}

const struct ori_wait_page *ori_wait_page_lock(void)
{
	pthread_mutex_lock(&page_lock);
	return atomic_load(&page_now);
}

void ori_wait_page_unlock(void)
{
	pthread_mutex_unlock(&page_lock);
}

bool ori_wait_read(const struct ori_wait_slot *slot, struct ori_wait_slot *copy)
{
	uint32_t turn = __atomic_load_n(&slot->turn, __ATOMIC_ACQUIRE);

	if (turn & 1 || __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != ORI_WAIT_BUSY)
		return false;
	*copy = (struct ori_wait_slot){.turn = turn,
				       .state = ORI_WAIT_BUSY,
				       .thread = slot->thread};
	page_copy(&copy->note, &slot->note);
	atomic_thread_fence(memory_order_acquire);
	return __atomic_load_n(&slot->turn, __ATOMIC_RELAXED) == turn;
}
