/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handlers of pthread_atfork(), and the lists of shared mappings and sockets that they take
 * from the child. Modules register mappings, sockets and hooks; see fork.h.
 */
#include "base/fork.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct fork_mapping {
	struct fork_mapping *next;
	void *base;
	size_t length;
	int fd;
	bool is_private; /* in a child: the mapping was the parent's and is replaced */
};

static struct {
	pthread_mutex_t lock; /* guards the lists; nothing else is locked under it */
	struct fork_mapping *mappings;
	ino_t *sockets; /* [room], by descriptor; 0: none */
	size_t room;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const struct ori_fork_hook *_Atomic fork_hooks[ORI_FORK_ORDERS];

static const struct ori_fork_hook *fork_hook(unsigned order)
{
	return atomic_load_explicit(&fork_hooks[order], memory_order_acquire);
}

/* Held from fork_prepare() until fork_parent() or fork_child() returns. */
static pthread_mutex_t fork_lock = PTHREAD_MUTEX_INITIALIZER;
/*
 * The hooks whose prepare was called, guarded by fork_lock: a hook that another thread adds
 * meanwhile must not release a lock that it has not taken.
 */
static const struct ori_fork_hook *fork_called[ORI_FORK_ORDERS];

static void fork_prepare(void)
{
	unsigned i;

	pthread_mutex_lock(&fork_lock);
	for (i = 0; i < ORI_FORK_ORDERS; i++) {
		const struct ori_fork_hook *hook = fork_hook(i);

		if (hook && hook->lock)
			pthread_mutex_lock(hook->lock);
		if (hook && hook->prepare)
			hook->prepare();
		fork_called[i] = hook;
	}
	pthread_mutex_lock(&shared.lock);
}

static void fork_parent(void)
{
	unsigned i;

	pthread_mutex_unlock(&shared.lock);
	for (i = ORI_FORK_ORDERS; i > 0; i--) {
		const struct ori_fork_hook *hook = fork_called[i - 1];

		if (hook && hook->parent)
			hook->parent();
		if (hook && hook->lock)
			pthread_mutex_unlock(hook->lock);
	}
	pthread_mutex_unlock(&fork_lock);
}

/*
 * If no private view can be mapped, the memory becomes inaccessible: a fault then ends the
 * child only, where a write to the shared memory would corrupt the parent's peers.
 */
static void fork_make_private(struct fork_mapping *m)
{
	const int both = PROT_READ | PROT_WRITE, own = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE;
	void *at = MAP_FAILED;

	if (m->fd >= 0)
		at = mmap(m->base, m->length, both, own, m->fd, 0);
	if (at == MAP_FAILED)
		at = mmap(m->base, m->length, both, own | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		(void)mprotect(m->base, m->length, PROT_NONE);
	m->is_private = true;
}

/*
 * The program may have closed a socket and opened a file of its own under that number, so the
 * inode identifies the socket. /dev/null takes its number, so that no new file gets it while
 * objects of the parent still have it.
 */
static void fork_close_sockets(void)
{
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct stat st;
	size_t fd;

	for (fd = 0; fd < shared.room; fd++) {
		if (shared.sockets[fd] && fstat((int)fd, &st) == 0 && S_ISSOCK(st.st_mode) &&
		    st.st_ino == shared.sockets[fd] &&
		    (nothing < 0 || dup3(nothing, (int)fd, O_CLOEXEC) < 0))
			close((int)fd);
		shared.sockets[fd] = 0;
	}
	if (nothing >= 0)
		close(nothing);
}

static void fork_child(void)
{
	struct fork_mapping *m;
	unsigned i;

	for (m = shared.mappings; m; m = m->next)
		if (!m->is_private)
			fork_make_private(m);
	fork_close_sockets();
	pthread_mutex_unlock(&shared.lock);
	for (i = 0; i < ORI_FORK_ORDERS; i++) {
		const struct ori_fork_hook *hook = fork_called[i];

		if (hook && hook->child)
			hook->child();
		if (hook && hook->lock)
			pthread_mutex_unlock(hook->lock);
	}
	pthread_mutex_unlock(&fork_lock);
}

static void fork_watch(void)
{
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

static void fork_open(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, fork_watch);
}

void ori_fork_add(enum ori_fork_order order, const struct ori_fork_hook *hook)
{
	fork_open();
	atomic_store_explicit(&fork_hooks[order], hook, memory_order_release);
}

bool ori_fork_share(void *base, size_t length, int fd)
{
	struct fork_mapping *m = malloc(sizeof(*m));

	if (!m)
		return false;
	fork_open();
	*m = (struct fork_mapping){.base = base, .length = length, .fd = fd};
	pthread_mutex_lock(&shared.lock);
	m->next = shared.mappings;
	shared.mappings = m;
	pthread_mutex_unlock(&shared.lock);
	return true;
}

void ori_fork_unshare(void *base)
{
	struct fork_mapping **link = &shared.mappings, *m;

	pthread_mutex_lock(&shared.lock);
	while (*link && (*link)->base != base)
		link = &(*link)->next;
	m = *link;
	if (m)
		*link = m->next;
	pthread_mutex_unlock(&shared.lock);
	free(m);
}

static bool fork_has_room_locked(size_t fd)
{
	size_t room = shared.room ? shared.room : 64, i;
	ino_t *sockets;

	while (room <= fd)
		room *= 2;
	if (room == shared.room)
		return true;
	sockets = realloc(shared.sockets, room * sizeof(*sockets));
	if (!sockets)
		return false;
	for (i = shared.room; i < room; i++)
		sockets[i] = 0;
	shared.sockets = sockets;
	shared.room = room;
	return true;
}

/* Without memory for the list the socket stays open in children, as any program's does. */
void ori_fork_socket(int fd)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		return;
	fork_open();
	pthread_mutex_lock(&shared.lock);
	if (fork_has_room_locked((size_t)fd))
		shared.sockets[fd] = st.st_ino;
	pthread_mutex_unlock(&shared.lock);
}
