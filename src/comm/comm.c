/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes, aborts and destroys communicators. create.c, split.c, shrink.c, grow.c and newcomer.c call
 * it; public functions of oriel/comm.h.
 */
#include "comm/comm.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <oriel/dev/detail/wait.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/late.h"
#include "base/log.h"
#include "base/wait_page.h"
#include "bootstrap/parent.h"
#include "bootstrap/tcp.h"
#include "comm/attach.h"
#include "comm/comm_attr.h"
#include "comm/comm_gpu.h"
#include "comm/comm_nics.h"
#include "comm/demand.h"
#include "comm/exchange.h"
#include "comm/grow_host.h"
#include "comm/health.h"
#include "comm/heartbeat.h"
#include "comm/join_record.h"
#include "comm/mesh.h"
#include "comm/paths.h"
#include "comm/report.h"
#include "comm/silence.h"
#include "comm/survive.h"
#include "comm/wait_report.h"
#include "comm/watcher.h"
#include "topo/classify.h"

#define COMM_TIMEOUT_NS 30000000000u

/* Size of a table of a bootstrap that has @op. */
#define OPS_SIZE(op)                                \
	(offsetof(struct oriel_bootstrap_ops, op) + \
	 sizeof(((struct oriel_bootstrap_ops *)NULL)->op))

/* Is it known that no rank is on another machine? Virtual nodes count as machines. */
static bool comm_is_here(const struct oriel_comm *comm)
{
	return ori_tcp_is_own(&comm->bootstrap) && ori_tcp_is_local(&comm->bootstrap) &&
	       !*ori_setting_text(ORI_SETTING_NODE);
}

/*
 * Listens for p2p endpoints. It is not known yet whether there are ranks on other
 * machines: a listener that no rank needs is closed soon.
 */
static enum oriel_status comm_open_listeners(struct oriel_comm *comm, unsigned paths,
					     struct ori_listen_address *address)
{
	enum oriel_status status = ori_fdsock_listen(address->name, &comm->listener);
	struct ori_error before;
	const char *filter;
	uint16_t port = 0;

	if (status != ORIEL_OK || comm->size == 1 || comm_is_here(comm) ||
	    !(paths & 1u << ORIEL_PATH_RDMA) || ori_setting_hca(&filter) == ORI_HCA_REQUEST_NONE ||
	    strcmp(ori_setting_text(ORI_SETTING_P2P_TCP), "off") == 0)
		return status;
	ori_error_save(&before);
	/* Most ranks have no p2p peers on other machines, so that a failure is only logged. */
	if (ori_endpoint_listen_all(&address->hosts, &port, &comm->listener_tcp) != ORIEL_OK)
		ori_log(ORIEL_LOG_WARN,
			"p2p endpoints of ranks on other machines cannot connect to this rank: %s",
			oriel_last_error());
	ori_error_restore(&before);
	address->port = port;
	return ORIEL_OK;
}

static bool comm_is_remote(const struct ori_host *a, const struct ori_host *b)
{
	return !ori_hosts_share_sockets(a, b) || strcmp(a->node, b->node) != 0;
}

static void comm_close_listener(struct oriel_comm *comm)
{
	if (comm->listener_tcp >= 0)
		close(comm->listener_tcp);
	comm->listener_tcp = -1;
}

/* This rank's settings, description and control segment. @given holds strings of the two others. */
static enum oriel_status comm_prepare(struct oriel_comm *comm, const struct oriel_comm_attr *caller,
				      struct ori_join_record *join, struct ori_report_given *given)
{
	struct oriel_comm_attr attr;
	enum oriel_status status;
	const char *filter;
	uint32_t topology;
	unsigned paths;

	status = ori_attr_read("oriel_comm_attr", caller, &attr, sizeof(attr));
	if (status == ORIEL_OK)
		status = ori_attr_check_reserved("oriel_comm_attr.reserved", attr.reserved);
	if (status == ORIEL_OK)
		status = ori_comm_keep_attr(comm, &attr);
	if (status != ORIEL_OK)
		return status;
	status = oriel_settings_check();
	if (status == ORIEL_OK)
		status = ori_setting_open_log();
	if (status != ORIEL_OK)
		return status;
	status = ori_comm_check_flags(attr.flags);
	if (status != ORIEL_OK)
		return status;
	if (attr.flags & ORIEL_COMM_GPU)
		status = ori_comm_gpu_open(comm);
	else if (strcmp(ori_setting_text(ORI_SETTING_FABRIC), "require") == 0)
		status = ori_fail(ORIEL_ERR_CONFIG,
				  "ORIEL_FABRIC is 'require', but the communicator of rank %u has "
				  "no GPU: create it with ORIEL_COMM_GPU, or set ORIEL_FABRIC to "
				  "auto",
				  comm->rank);
	if (status == ORIEL_OK)
		status = ori_topology_apply(attr.topology, comm->gpu, &topology);
	if (status != ORIEL_OK)
		return status;
	join->flags = (uint16_t)(attr.flags & ~(unsigned)ORIEL_COMM_GPU);
	if (attr.timeout_ns)
		comm->timeout_ns = attr.timeout_ns;
	status = ori_comm_read_connect(attr.connect, &join->connect);
	if (status != ORIEL_OK)
		return status;
	if (attr.net_order > ORIEL_NET_ORDER_RELAXED)
		return ori_fail(
			ORIEL_ERR_INVALID,
			"oriel_comm_create: net_order is %u, at most %u (ORIEL_NET_ORDER_RELAXED)",
			attr.net_order, ORIEL_NET_ORDER_RELAXED);
	comm->net_order = (enum oriel_net_order)attr.net_order;
	comm->post_blocks = attr.post_blocks;
	status = ori_comm_read_depth(attr.queue_depth, &comm->queue_depth);
	if (status != ORIEL_OK)
		return status;
	status = ori_comm_read_rails(&join->rails);
	if (status != ORIEL_OK)
		return status;
	if (!attr.node)
		attr.node = ori_setting_text(ORI_SETTING_NODE);
	status = ori_setting_paths(&paths);
	if (status != ORIEL_OK)
		return status;
	status = ori_host_describe(attr.node, paths, &join->host);
	if (status != ORIEL_OK)
		return status;
	/* A rank looks for NICs where it needs them, and reports missing ones there. */
	if (ori_setting_hca(&filter) != ORI_HCA_REQUEST_NONE)
		join->host.hca_count = join->rails;
	if (comm->gpu)
		ori_host_set_gpu(&join->host, comm->gpu, topology);
	status = ori_mem_alloc(sizeof(struct ori_control), 0, &comm->control_mem);
	if (status != ORIEL_OK)
		return status;
	comm->control = (void *)comm->control_mem->address;
	status = ori_comm_gpu_pin(comm);
	if (status != ORIEL_OK)
		return status;
	status = ori_mem_export(comm->control_mem, 0, sizeof(struct ori_control), &join->control);
	if (status != ORIEL_OK)
		return status;
	status = comm_open_listeners(comm, paths, &join->listen);
	if (status == ORIEL_OK)
		status = ori_survive_open(comm, comm->size > 1 && !comm_is_here(comm),
					  &join->survive);
	if (status != ORIEL_OK)
		return status;
	*given = (struct ori_report_given){.node = join->host.node,
					   .topology = attr.topology,
					   .connect = ori_comm_connect_name(join->connect)};
	ori_report_make(comm, given, &join->report);
	return ori_mesh_open(comm, join->mesh);
}

/* Decides paths and listeners from the joins of all ranks. */
static enum oriel_status comm_read_joins(struct oriel_comm *comm,
					 const struct ori_join_record *joins)
{
	enum oriel_status status = ori_join_record_read(comm, joins);
	bool is_needed = false;
	unsigned peer;

	if (status != ORIEL_OK)
		return status;
	for (peer = 0; peer < comm->size && !is_needed; peer++)
		is_needed = comm_is_remote(&comm->hosts[peer], &comm->hosts[comm->rank]);
	if (!is_needed)
		comm_close_listener(comm);
	ori_survive_join(comm, &joins[0].survive, sizeof(joins[0]));
	return ori_comm_gpu_publish(comm);
}

struct comm_controls {
	struct oriel_comm *comm;
	const struct ori_join_record *joins;
};

static unsigned comm_count_control(const void *context, unsigned peer)
{
	(void)context, (void)peer;
	return 1;
}

/* Maps the control segment of @peer; @fds NULL: it is a thread of this process. */
static enum oriel_status comm_take_control(void *context, unsigned peer, const int *fds)
{
	const struct comm_controls *c = context;

	return ori_mem_import(&c->joins[peer].control, fds ? fds[0] : -1, &c->comm->peers[peer]);
}

/* Connects to the peers of the domain: sockets first, then control segments. */
static enum oriel_status comm_meet(struct oriel_comm *comm, const struct ori_join_record *joins)
{
	uint64_t deadline = ori_deadline(ori_comm_answer_limit(comm));
	struct comm_controls controls = {comm, joins};
	struct ori_mesh_taker taker = {comm_count_control, comm_take_control, &controls};
	enum oriel_status status;
	unsigned peer;

	status = ori_mesh_connect(comm, joins[0].mesh, sizeof(joins[0]), deadline);
	if (status != ORIEL_OK)
		return status;
	for (peer = 0; peer < comm->size; peer++) {
		if (comm->host_paths.of[peer].domain_index == ORIEL_DEV_NO_INDEX ||
		    ori_comm_is_foreign(comm, peer))
			continue;
		status = comm_take_control(&controls, peer, NULL);
		if (status != ORIEL_OK)
			return status;
	}
	return ori_mesh_exchange(comm, &comm->control_mem->fd, 1, &taker);
}

/* All ranks come to the same answer. */
static void comm_choose_connect(struct oriel_comm *comm, uint32_t connect)
{
	bool has_gpu = false;
	unsigned peer;

	for (peer = 0; peer < comm->size; peer++)
		has_gpu |= comm->hosts[peer].gpu.pci[0] != '\0';
	comm->is_lazy = connect == ORIEL_CONNECT_LAZY;
	comm->is_on_demand = connect == ORIEL_CONNECT_DEMAND && !has_gpu && comm->has_links;
}

/* From now on `oriel hang` finds this rank; @joins: rank 0's listener has a random name. */
static void comm_show(const struct oriel_comm *comm, const struct ori_join_record *joins)
{
	struct ori_wait_comm entry = {.key = ori_comm_wait_key(comm),
				      .rank = comm->rank,
				      .size = comm->size,
				      .health_fd = comm->control_mem->fd,
				      .answers_at = comm->gpu
							    ? offsetof(struct ori_control, answers)
							    : 0};

	static_assert(sizeof(entry.id) == sizeof(joins[0].mesh), "a name is the identity");
	static_assert(offsetof(struct ori_control, health) == 0, "the file begins with it");
	memcpy(entry.id, joins[0].mesh, sizeof(entry.id));
	ori_wait_page_add(&entry);
}

static enum oriel_status comm_join(struct oriel_comm *comm, const struct oriel_comm_attr *attr)
{
	struct ori_join_record mine = {0}, *joins;
	struct ori_report_given given = {0};
	enum oriel_status status;

	joins = calloc(comm->size, sizeof(*joins));
	if (!joins)
		return ori_fail_nomem(comm->size * sizeof(*joins), "records of %u ranks",
				      comm->size);
	status = comm_prepare(comm, attr, &mine, &given);
	mine.device_version = ORIEL_DEV_VERSION;
	mine.control_length = sizeof(struct ori_control);
	mine.timeout_ns = comm->timeout_ns;
	ori_verdict_fill(&mine.verdict, ORI_CALL_COMM_CREATE, status);

	status = ori_verdict_gather(comm, ORI_CALL_COMM_CREATE, &mine, joins, sizeof(mine));
	if (status != ORIEL_OK)
		goto out_free_joins;
	status = ori_join_record_compare(joins, comm->size);
	if (status != ORIEL_OK)
		goto out_free_joins;
	/* A rank that finds no path must report it before its peers connect to it. */
	status = ori_comm_agree(comm, ORI_CALL_COMM_CREATE, comm_read_joins(comm, joins));
	if (status != ORIEL_OK)
		goto out_free_joins;
	comm_show(comm, joins);
	ori_report_join(comm, &given, &mine.report, &joins[0].report);
	status = ori_comm_agree_after(comm, ORI_CALL_COMM_CREATE, comm_meet(comm, joins));
	if (status != ORIEL_OK)
		goto out_free_joins;
	comm_choose_connect(comm, mine.connect);
	comm->rails = mine.rails;
	status = ori_nics_open(comm);
	if (status != ORIEL_OK)
		goto out_free_joins;
	/* The watcher polls sockets and links: it begins when all of them are there. */
	status = ori_watcher_start(comm);
	if (status == ORIEL_OK)
		status = ori_survive_watch(comm);
	status = ori_comm_agree(comm, ORI_CALL_COMM_CREATE, status);
	/* The watchers of all peers run, and answer. */
	if (status == ORIEL_OK && comm->is_on_demand)
		status = ori_comm_agree_after(comm, ORI_CALL_COMM_CREATE, ori_demand_join(comm));
	if (status != ORIEL_OK)
		goto out_free_joins;
	comm->is_mapped_whole = comm->host_paths.domain_size == comm->size;

out_free_joins:
	free(joins);
	return status;
}

static void comm_free(struct oriel_comm *comm)
{
	unsigned peer, kind;

	if (comm->control)
		ori_wait_page_remove(ori_comm_wait_key(comm));
	ori_wait_page_close();
	for (peer = 0; comm->peers && peer < comm->size; peer++)
		ori_mapping_close(&comm->peers[peer]);
	ori_comm_gpu_close(comm);
	ori_paths_close(&comm->gpu_paths, comm->size);
	ori_paths_close(&comm->host_paths, comm->size);
	ori_mem_unref(comm->control_mem);
	ori_invite_close(comm);
	/* Last: peers that find no listener take it that this rank has let go of all memory. */
	ori_survive_close(comm);
	if (comm->listener >= 0)
		close(comm->listener);
	comm_close_listener(comm);
	for (kind = 0; kind < ORI_ATTACHED_KINDS; kind++)
		pthread_mutex_destroy(&comm->attached[kind].lock);
	pthread_mutex_destroy(&comm->attachments_lock);
	pthread_mutex_destroy(&comm->links_lock);
	pthread_mutex_destroy(&comm->loans_lock);
	free((char *)comm->attr.node);
	free((char *)comm->attr.topology);
	free(comm->origin);
	free(comm->listen_addresses);
	free(comm->ranks);
	free(comm->links);
	free(comm->firsts);
	free(comm->scratch);
	ori_silence_close(comm);
	ori_watcher_close(comm);
	free(comm->peers);
	free(comm->hosts);
	ori_handle_free(comm);
}

static enum oriel_status comm_alloc(const struct oriel_bootstrap *bootstrap,
				    struct oriel_comm **out)
{
	struct oriel_comm *comm = ori_handle_alloc(ORI_HANDLE_COMM, sizeof(*comm));
	unsigned size = bootstrap->size, kind;
	enum oriel_status status;

	if (!comm)
		return ori_fail_nomem(sizeof(*comm), "a communicator");
	ori_wait_page_open();
	comm->listener = comm->listener_tcp = -1;
	atomic_init(&comm->watcher.broken, -1);
	for (kind = 0; kind < ORI_ATTACHED_KINDS; kind++)
		pthread_mutex_init(&comm->attached[kind].lock, NULL);
	pthread_mutex_init(&comm->attachments_lock, NULL);
	pthread_mutex_init(&comm->links_lock, NULL);
	pthread_mutex_init(&comm->loans_lock, NULL);
	comm->bootstrap = *bootstrap;
	comm->has_interrupt =
		bootstrap->ops->size >= OPS_SIZE(interrupt) && bootstrap->ops->interrupt;
	comm->has_at_fault = bootstrap->ops->size >= OPS_SIZE(at_fault) && bootstrap->ops->at_fault;
	comm->rank = bootstrap->rank;
	comm->size = size;
	comm->hosts = calloc(size, sizeof(*comm->hosts));
	comm->peers = calloc(size, sizeof(*comm->peers));
	comm->links = calloc(ORI_LINK_ROWS * (size_t)size, sizeof(struct ori_rdma_link *));
	comm->scratch = calloc(size, ORI_RECORD_BYTES);
	comm->firsts = calloc(size, sizeof(*comm->firsts));
	comm->listen_addresses = calloc(size, sizeof(*comm->listen_addresses));
	if (comm->hosts && comm->peers && comm->links && comm->scratch && comm->firsts &&
	    comm->listen_addresses)
		status = ori_paths_open(&comm->host_paths, size);
	else
		status = ori_fail_nomem(size * (sizeof(*comm->hosts) + sizeof(*comm->peers) +
						ORI_LINK_ROWS * sizeof(*comm->links) +
						ORI_RECORD_BYTES + sizeof(*comm->firsts) +
						sizeof(*comm->listen_addresses)),
					"a communicator of %u ranks", size);
	if (status == ORIEL_OK)
		*out = comm;
	else
		comm_free(comm);
	return status;
}

static enum oriel_status comm_check_bootstrap(const struct oriel_bootstrap *b)
{
	if (!b || !b->ops || b->ops->size < offsetof(struct oriel_bootstrap_ops, interrupt))
		return ori_fail(ORIEL_ERR_INVALID, "oriel_comm_create: the bootstrap is not open");
	if (b->rank >= b->size)
		return ori_fail(ORIEL_ERR_RANGE, "oriel_comm_create: rank %u of %u", b->rank,
				b->size);
	return ORIEL_OK;
}

/* The child's control segment is private by now: all waits of the child poll its health. */
static void comm_fork_one(void *object)
{
	struct oriel_dev_fault *health = &((struct oriel_comm *)object)->control->health;
	const struct oriel_dev_fault record = {.status = ORIEL_ERR_FORKED,
					       .peer = ORIEL_DEV_NO_RANK};

	ori_dev_fault_write(health, &record);
}

static void comm_fork_child(void)
{
	ori_handle_each(ORI_HANDLE_COMM, comm_fork_one);
}

enum oriel_status ori_comm_create_on(const struct oriel_bootstrap *bootstrap,
				     const struct oriel_comm_attr *attr, struct oriel_comm **out)
{
	static const struct ori_fork_hook hook = {.child = comm_fork_child};
	struct oriel_comm *comm = NULL;
	enum oriel_status status;

	status = comm_check_bootstrap(bootstrap);
	if (status != ORIEL_OK)
		return status;
	ori_log_begin(bootstrap->rank);
	status = comm_alloc(bootstrap, &comm);
	if (status != ORIEL_OK)
		return status;
	ori_late_read();
	ori_wait_report_open();
	/*
	 * A bad setting is reported to all ranks, after a first gather, which needs some
	 * limit.
	 */
	if (ori_setting_timeout(&comm->timeout_ns) != ORIEL_OK)
		comm->timeout_ns = COMM_TIMEOUT_NS;
	status = comm_join(comm, attr);
	if (status != ORIEL_OK) {
		/* Peers would only see that this rank left. */
		ori_comm_pass_on(comm);
		ori_heartbeat_await_reports(comm);
		ori_watcher_stop(comm);
		ori_mesh_close(comm, true);
		ori_nics_close(comm);
		comm_free(comm);
		return status;
	}
	ori_fork_add(ORI_FORK_COMM, &hook);
	ori_handle_open(comm, ori_bootstrap_parent(bootstrap));
	ori_report_end(comm);
	*out = comm;
	return ORIEL_OK;
}

enum oriel_status ori_comm_create_own(struct oriel_bootstrap *own,
				      const struct oriel_comm_attr *attr, struct oriel_comm **comm)
{
	enum oriel_status status = ori_comm_create_on(own, attr, comm);
	struct ori_error error;

	if (status == ORIEL_OK) {
		(*comm)->has_own_bootstrap = true;
		return status;
	}
	ori_error_save(&error);
	(void)oriel_bootstrap_close(own);
	ori_error_restore(&error);
	return status;
}

/* Does another rank of this process use a GPU too? */
static bool comm_has_gpu_sibling(const struct oriel_comm *comm)
{
	const struct ori_host *own = &comm->hosts[comm->rank];
	unsigned peer;

	for (peer = 0; comm->gpu && peer < comm->size; peer++)
		if (peer != comm->rank && comm->hosts[peer].gpu.pci[0] &&
		    comm->hosts[peer].token == own->token)
			return true;
	return false;
}

/*
 * Have all ranks entered the destroy of @comm, and does one of them share its process
 * with another GPU rank, so that they meet again?
 */
static bool comm_all_destroy(struct oriel_comm *comm, bool *must_meet_again)
{
	uint32_t mine = comm_has_gpu_sibling(comm), *of = ori_comm_scratch(comm, sizeof(mine));
	enum oriel_status status =
		ori_comm_gather(comm, ORI_CALL_COMM_DESTROY, &mine, of, sizeof(mine));
	unsigned peer;

	*must_meet_again = false;
	for (peer = 0; status == ORIEL_OK && peer < comm->size; peer++)
		*must_meet_again |= of[peer] != 0;
	return status == ORIEL_OK;
}

/* The children of @comm would use freed memory when they are destroyed in their turn. */
static enum oriel_status comm_check_children(struct oriel_comm *comm, const char *call)
{
	const char *noun = ori_handle_child(comm);
	const struct ori_attached *a;

	for (a = comm->attached; !noun && a < comm->attached + ORI_ATTACHED_KINDS; a++)
		if (a->object && a->find_child)
			noun = a->find_child(a->object);
	if (!noun)
		return ORIEL_OK;
	return ori_misuse("%s: rank %u still has its %s", call, comm->rank, noun);
}

/*
 * No rank uses p2p endpoints any more: all have entered the destroy, or the communicator is
 * broken. A faster rank may have closed its endpoints already, which is no failure.
 */
static void comm_close_attached(struct oriel_comm *comm)
{
	struct ori_attached *a;
	struct ori_error before;

	ori_error_save(&before);
	for (a = comm->attached; a < comm->attached + ORI_ATTACHED_KINDS; a++) {
		if (a->object)
			a->close(comm, a->object);
		a->object = NULL;
	}
	ori_error_restore(&before);
}

enum oriel_status ori_comm_let_go(struct oriel_comm *comm)
{
	enum oriel_status status;

	if (ori_comm_is_well(comm))
		ori_comm_break_all(comm, ORIEL_ERR_ABORTED, ORIEL_DEV_ABORT, comm->rank, 0);
	ori_comm_close_attachments(comm);
	if (comm->close_window)
		comm->close_window(comm);
	comm->close_window = NULL;
	status = comm_check_children(comm, "oriel_comm_shrink");
	if (status != ORIEL_OK)
		return status;
	ori_heartbeat_stop(comm);
	ori_comm_pass_on(comm);
	ori_heartbeat_await_reports(comm);
	comm_close_attached(comm);
	ori_watcher_stop(comm);
	ori_nics_close(comm);
	ori_invite_close(comm);
	return ORIEL_OK;
}

enum oriel_status oriel_comm_destroy(struct oriel_comm *comm)
{
	struct oriel_bootstrap own = {0};
	bool is_orderly, must_meet_again = false;
	enum oriel_status status;

	if (!ori_handle_may_end(comm, ORI_HANDLE_COMM, __func__))
		return ori_handle_refused(comm);
	/* They may have children of @comm. */
	ori_comm_close_attachments(comm);
	if (comm->close_window)
		comm->close_window(comm);
	status = comm_check_children(comm, __func__);
	if (status != ORIEL_OK)
		return status;
	/* A peer that closes its end while a beat is in flight would look dead. */
	ori_heartbeat_stop(comm);
	/*
	 * A failure from before is not reported again, here and where windows and regions
	 * are destroyed.
	 */
	is_orderly = ori_comm_is_well(comm) && comm_all_destroy(comm, &must_meet_again);
	if (!is_orderly) {
		ori_comm_pass_on(comm);
		ori_heartbeat_await_reports(comm);
	}
	comm_close_attached(comm);
	/* Not before: steps of jobs and hooks of p2p may read its health until here. */
	(void)ori_handle_shut(comm, ORI_HANDLE_COMM, __func__);
	ori_watcher_stop(comm);
	ori_nics_close(comm);
	ori_comm_gpu_close(comm);
	/*
	 * All of that may wait for work that a GPU does for other threads of this
	 * process: as with windows, no rank begins work that would wait for a rank that
	 * is still here. For ranks that are processes, too, the watcher finds one that
	 * dies meanwhile, or their limit ends the wait.
	 */
	if (must_meet_again) {
		(void)ori_watcher_start(comm);
		ori_comm_meet(comm, ORI_CALL_COMM_DESTROY, 0);
	}
	ori_watcher_stop(comm);
	ori_mesh_close(comm, is_orderly);
	ori_log_rank(ORIEL_LOG_DEBUG, comm->rank, "the communicator of %u ranks is destroyed",
		     comm->size);
	if (comm->has_own_bootstrap)
		own = comm->bootstrap;
	comm_free(comm);
	return oriel_bootstrap_close(&own);
}

void ori_comm_discard(struct oriel_comm *made)
{
	struct ori_error error;

	ori_error_save(&error);
	/* Others are not in its destroy, and wait for what this rank does afterwards. */
	if (ori_comm_is_well(made))
		ori_comm_break_all(made, ORIEL_ERR_ABORTED, ORIEL_DEV_ABORT, made->rank, 0);
	(void)oriel_comm_destroy(made);
	ori_error_restore(&error);
}

void oriel_comm_abort(struct oriel_comm *comm, const char *why)
{
	if (!ori_handle_use(comm, ORI_HANDLE_COMM, __func__))
		return;
	ori_log(ORIEL_LOG_WARN, "rank %u aborts the communicator: %s", comm->rank,
		why ? why : "no reason given");
	ori_comm_break_all(comm, ORIEL_ERR_ABORTED, ORIEL_DEV_ABORT, comm->rank, 0);
	/* The caller may exit at once, so that the peers must have the report by now. */
	ori_heartbeat_await_reports(comm);
}
