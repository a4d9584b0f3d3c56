/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listens for the survivors of a communicator, and kills processes that are suspected. comm.c
 * opens it, since addresses are exchanged while all ranks are well.
 */
#include "comm/survive.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "sys/process.h"
#include "topo/classify.h"

#define SURVIVE_KILL_NS UINT64_C(10000000000) /* a process whose memory is on disk dies slowly */

static enum oriel_status survive_listen_tcp(struct oriel_comm *comm,
					    struct ori_listen_address *address)
{
	struct ori_survive *s = comm->survive;
	const struct ori_key *key = ori_comm_key(comm);
	enum oriel_status status = ORIEL_OK;
	uint16_t port = 0;
	int fd;

	if (key)
		status = ori_tls_context_create(key, &s->tls);
	if (status == ORIEL_OK)
		status = ori_endpoint_listen_all(&address->hosts, &port, &fd);
	if (status != ORIEL_OK)
		return status;
	address->port = port;
	s->tcp.context = s->tls;
	return ori_net_listener_open(&s->tcp, fd);
}

enum oriel_status ori_survive_open(struct oriel_comm *comm, bool is_remote,
				   struct ori_listen_address *address)
{
	struct ori_survive *s;
	enum oriel_status status;
	unsigned peer;
	int fd;

	if (!(comm->attr.flags & ORIEL_COMM_SHRINK))
		return ORIEL_OK;
	if (comm->size > ORI_SURVIVE_RANKS)
		return ori_fail(ORIEL_ERR_RANGE,
				"ORIEL_COMM_SHRINK: a communicator of %u ranks, at most %u",
				comm->size, ORI_SURVIVE_RANKS);
	s = calloc(1, sizeof(*s));
	if (!s)
		return ori_fail_nomem(sizeof(*s), "ORIEL_COMM_SHRINK");
	ori_net_listener_init(&s->local, NULL, comm->size, NULL);
	ori_net_listener_init(&s->tcp, NULL, comm->size, NULL);
	s->number = 1;
	pthread_mutex_init(&s->pieces_lock, NULL);
	comm->survive = s; /* ori_survive_close() undoes what follows */
	s->of = calloc(comm->size, sizeof(*s->of));
	s->births = calloc(comm->size, sizeof(*s->births));
	s->pidfds = malloc(comm->size * sizeof(*s->pidfds));
	for (peer = 0; s->pidfds && peer < comm->size; peer++)
		s->pidfds[peer] = -1;
	if (!s->of || !s->births || !s->pidfds)
		return ori_fail_nomem(comm->size * (sizeof(*s->of) + sizeof(*s->births) +
						    sizeof(*s->pidfds)),
				      "ORIEL_COMM_SHRINK of %u ranks", comm->size);
	status = ori_fdsock_listen(address->name, &fd);
	if (status == ORIEL_OK)
		status = ori_net_listener_open(&s->local, fd);
	return status == ORIEL_OK && is_remote ? survive_listen_tcp(comm, address) : status;
}

void ori_survive_join(struct oriel_comm *comm, const void *addresses, size_t stride)
{
	struct ori_survive *s = comm->survive;
	bool is_needed = false;
	unsigned peer;

	if (!s)
		return;
	for (peer = 0; peer < comm->size; peer++) {
		memcpy(&s->of[peer], (const char *)addresses + peer * stride, sizeof(s->of[peer]));
		is_needed |= !ori_hosts_share_sockets(&comm->hosts[comm->rank], &comm->hosts[peer]);
	}
	if (!is_needed)
		ori_net_listener_close(&s->tcp);
}

unsigned ori_survive_addresses(const struct oriel_comm *comm, unsigned peer,
			       struct ori_address addresses[ORI_SURVIVE_ADDRESSES])
{
	const struct ori_host *a = &comm->hosts[comm->rank], *b = &comm->hosts[peer];
	const struct ori_listen_address *to = &comm->survive->of[peer];
	unsigned count;

	if (ori_hosts_share_sockets(a, b)) {
		addresses[0] = (struct ori_address){.family = ORI_ADDRESS_UNIX};
		memcpy(addresses[0].ip, to->name, sizeof(to->name));
		return 1;
	}
	count = ori_endpoint_of_hosts(&to->hosts, (uint16_t)to->port, addresses);
	if (ori_hosts_share_network(a, b))
		addresses[count++] = (struct ori_address){.family = 4,
							  .port = (uint16_t)to->port,
							  .ip = {127, 0, 0, 1}};
	return count;
}

bool ori_survive_maps(const struct oriel_comm *comm, unsigned a, unsigned b)
{
	return ori_hosts_are_mapped(comm->hosts, a, b) ||
	       (comm->hosts[a].gpu.pci[0] && comm->hosts[b].gpu.pci[0] &&
		ori_gpus_are_mapped(comm->hosts, a, b));
}

/* Do the processes of both ranks have numbers of one kernel and namespace? */
static bool survive_sees(const struct oriel_comm *comm, unsigned a, unsigned b)
{
	const struct ori_host *of = comm->hosts;

	return memcmp(of[a].boot_id, of[b].boot_id, sizeof(of[a].boot_id)) == 0 &&
	       of[a].pid_ns == of[b].pid_ns && of[a].pid_ns;
}

bool ori_survive_may_kill(const struct oriel_comm *comm, unsigned rank, unsigned suspect)
{
	const struct ori_host *a = &comm->hosts[rank], *b = &comm->hosts[suspect];

	return survive_sees(comm, rank, suspect) && a->uid == b->uid && a->token != b->token;
}

bool ori_survive_has_ended(const struct oriel_comm *comm, unsigned peer)
{
	return ori_process_has_ended(comm->hosts[peer].pid, comm->survive->births[peer]);
}

bool ori_survive_is_another(const struct oriel_comm *comm, unsigned peer, int fd)
{
	struct ucred listener;

	return survive_sees(comm, comm->rank, peer) && ori_fdsock_peer(fd, &listener) == ORIEL_OK &&
	       (unsigned)listener.pid != comm->hosts[peer].pid;
}

enum oriel_status ori_survive_watch(struct oriel_comm *comm)
{
	unsigned peer;
	int *fd;

	if (!comm->survive)
		return ORIEL_OK;
	for (peer = 0; peer < comm->size; peer++) {
		if (survive_sees(comm, comm->rank, peer))
			comm->survive->births[peer] = ori_process_birth(comm->hosts[peer].pid);
		if (!(comm->attr.flags & ORIEL_COMM_KILL_SUSPECTS) ||
		    !ori_survive_may_kill(comm, comm->rank, peer))
			continue;
		fd = &comm->survive->pidfds[peer];
		*fd = (int)syscall(SYS_pidfd_open, comm->hosts[peer].pid, 0);
		if (*fd < 0)
			return ori_fail_errno(errno == ENOSYS ? ORIEL_ERR_UNSUPPORTED
							      : ORIEL_ERR_SYSTEM,
					      "ORIEL_COMM_KILL_SUSPECTS: pidfd_open() of rank %u, "
					      "process %u",
					      peer, comm->hosts[peer].pid);
	}
	return ORIEL_OK;
}

/*
 * A pidfd is readable once all threads of the process have ended (pidfd_open(2)); by then each has
 * given up its memory, and after it its files: do_exit() calls exit_mm() before exit_files() and
 * exit_notify() (Linux, kernel/exit.c).
 */
enum oriel_status ori_survive_kill(struct oriel_comm *comm, unsigned suspect)
{
	struct pollfd ended = {.fd = comm->survive->pidfds[suspect], .events = POLLIN};
	uint64_t deadline = ori_deadline(SURVIVE_KILL_NS);
	unsigned pid = comm->hosts[suspect].pid;
	int count = 0;

	if (syscall(SYS_pidfd_send_signal, ended.fd, SIGKILL, NULL, 0) != 0 && errno != ESRCH)
		return ori_fail_errno(ORIEL_ERR_SYSTEM,
				      "rank %u cannot kill rank %u, which does not answer: process "
				      "%u",
				      comm->rank, suspect, pid);
	while (count == 0 && !ori_deadline_passed(deadline)) {
		count = poll(&ended, 1, ori_deadline_poll_ms(deadline));
		if (count < 0 && errno == EINTR)
			count = 0;
	}
	if (count <= 0)
		return ori_fail(ORIEL_ERR_TIMEOUT,
				"rank %u, process %u, which rank %u has killed, did not end within "
				"%g s",
				suspect, pid, comm->rank, (double)SURVIVE_KILL_NS / 1e9);
	ori_log_rank(ORIEL_LOG_WARN, comm->rank,
		     "killed rank %u (process %u), which did not answer", suspect, pid);
	return ORIEL_OK;
}

/* All that serves to vote. */
static void survive_forget(struct ori_survive *s, unsigned size)
{
	unsigned peer;

	for (peer = 0; s->pidfds && peer < size; peer++)
		if (s->pidfds[peer] >= 0)
			close(s->pidfds[peer]);
	free(s->pidfds);
	free(s->births);
	free(s->of);
	free(s->pieces);
	s->pieces = NULL;
	s->pidfds = NULL;
	s->births = NULL;
	s->of = NULL;
}

static void survive_free(struct ori_survive *s)
{
	struct ori_survive *past;

	for (; s; s = past) {
		past = s->past;
		ori_net_listener_close(&s->local);
		ori_net_listener_close(&s->tcp);
		ori_tls_context_destroy(s->tls);
		pthread_mutex_destroy(&s->pieces_lock);
		free(s);
	}
}

void ori_survive_bury(struct oriel_comm *comm, struct oriel_comm *survivors, bool has_fenced)
{
	struct ori_survive *s = comm->survive;

	survive_forget(s, comm->size);
	comm->survive = NULL;
	if (has_fenced) {
		s->past = comm->past;
		comm->past = s;
	} else {
		survive_free(s);
	}
	ori_survive_pass(comm, survivors);
}

void ori_survive_pass(struct oriel_comm *comm, struct oriel_comm *grown)
{
	struct ori_survive **end = &grown->past;

	while (*end)
		end = &(*end)->past;
	*end = comm->past;
	comm->past = NULL;
}

void ori_survive_close(struct oriel_comm *comm)
{
	if (comm->survive)
		survive_forget(comm->survive, comm->size);
	survive_free(comm->survive);
	survive_free(comm->past);
	comm->survive = NULL;
	comm->past = NULL;
}
