/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ends that a communicator keeps, one for each rank. Where a rank is called all
 * know since the communicator was made, and a call waits at that socket until the
 * rank wants to meet, so nobody waits here.
 */
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/error.h"
#include "comm/comm.h"
#include "p2p/p2p.h"
#include "p2p/p2p_host.h"

struct ori_p2p_cache {
	struct oriel_p2p_hub *hub;
	struct oriel_p2p *of[]; /* [size] */
};

/* All ranks have come, or nobody can use them: what is not done is given up. */
static void cache_close(struct oriel_comm *comm)
{
	struct ori_p2p_cache *cache = comm->p2p;

	for (unsigned peer = 0; peer < comm->size; peer++)
		if (cache->of[peer])
			ori_p2p_close(cache->of[peer]);
	ori_hub_close(cache->hub);
	free(cache);
	comm->p2p = NULL;
}

static enum oriel_status cache_open_locked(struct oriel_comm *comm)
{
	const struct oriel_p2p_hub_attr attr = {.size = sizeof(attr),
						.timeout_ns = comm->timeout_ns};
	const struct ori_door *mine = &comm->doors[comm->rank];
	struct p2p_doors doors = {.local = comm->door,
				  .tcp = comm->door_tcp,
				  .port = (uint16_t)mine->port,
				  .hosts = mine->hosts};
	struct ori_p2p_cache *cache;
	enum oriel_status st;

	if (comm->p2p)
		return ORIEL_OK;
	cache = calloc(1, sizeof(*cache) + comm->size * sizeof(struct oriel_p2p *));
	if (!cache)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for ends of %u ranks", comm->size);
	memcpy(doors.name, mine->name, sizeof(doors.name));
	memcpy(doors.token, mine->name, sizeof(doors.token));
	st = ori_hub_create_at(&attr, &doors, comm->gpu, &cache->hub);
	if (st != ORIEL_OK) {
		free(cache);
		return st;
	}
	comm->door = comm->door_tcp = -1;
	comm->p2p = cache;
	comm->close_p2p = cache_close;
	return ORIEL_OK;
}

/* The address of @comm's end of rank @peer at this rank, or of this rank at @peer's. */
static struct p2p_address cache_address(const struct oriel_comm *comm,
					const struct p2p_address *mine, unsigned at, unsigned of,
					enum oriel_path path)
{
	const struct ori_door *door = &comm->doors[at];
	struct p2p_host host = ori_p2p_host_of(&comm->hosts[at]);
	struct p2p_address a = *mine;

	a.paths = 1u << path;
	a.token.number = of;
	memcpy(a.token.hub, door->name, sizeof(a.token.hub));
	memcpy(a.door, door->name, sizeof(a.door));
	a.pid = host.pid;
	a.uid = host.uid;
	a.process = host.process;
	a.place = host.place;
	a.node = host.node;
	a.port = (uint16_t)door->port;
	a.hosts = door->hosts;
	return a;
}

static enum oriel_status cache_make_locked(struct oriel_comm *comm, unsigned peer,
					   const struct oriel_p2p_attr *attr)
{
	enum oriel_path path = (enum oriel_path)comm->of[peer].path;
	struct ori_p2p_cache *cache = comm->p2p;
	struct p2p_address theirs;
	struct oriel_p2p *p;
	enum oriel_status st = ori_p2p_open(cache->hub, attr, peer, &p);

	if (st != ORIEL_OK)
		return st;
	p->address = cache_address(comm, &cache->hub->address, comm->rank, peer, path);
	theirs = cache_address(comm, &cache->hub->address, peer, comm->rank, path);
	st = ori_p2p_join(p, &theirs, 0);
	if (st != ORIEL_OK) {
		st = ori_fail(st, "rank %u: %s", peer, oriel_last_error());
		ori_p2p_close(p);
		return st;
	}
	p->has_owner = true;
	cache->of[peer] = p;
	return ORIEL_OK;
}

/* Is @p what @attr would make? */
static enum oriel_status cache_compare(const struct oriel_p2p *p,
				       const struct oriel_p2p_attr *caller, unsigned peer)
{
	struct oriel_p2p_attr attr;
	enum oriel_status st = ori_attr_read("oriel_p2p_attr", caller, &attr, sizeof(attr));
	unsigned channels = attr.channels ? attr.channels : 1;

	if (st != ORIEL_OK)
		return st;
	if (attr.mode == p->mode && channels == p->channels &&
	    (!attr.depth || attr.depth == p->depth) && (attr.queues ? attr.queues : 1) == p->queues)
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_MISMATCH,
			"oriel_comm_p2p: the end of rank %u is of mode %s with %u channels of "
			"depth %u and %u queues, not of mode %s with %u channels",
			peer, oriel_p2p_mode_name(p->mode), p->channels, p->depth, p->queues,
			oriel_p2p_mode_name((enum oriel_p2p_mode)attr.mode), channels);
}

enum oriel_status oriel_comm_p2p(struct oriel_comm *comm, unsigned peer,
				 const struct oriel_p2p_attr *attr, struct oriel_p2p **p2p)
{
	enum oriel_status st;

	if (!comm || !p2p)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_comm_p2p: %s is NULL",
				comm ? "p2p" : "comm");
	if (peer >= comm->size)
		return ori_fail(ORIEL_ERR_RANGE, "oriel_comm_p2p: rank %u of %u", peer, comm->size);
	st = ori_comm_check(comm);
	if (st != ORIEL_OK)
		return st;
	pthread_mutex_lock(&comm->p2p_lock);
	st = cache_open_locked(comm);
	if (st == ORIEL_OK)
		st = comm->p2p->of[peer] ? cache_compare(comm->p2p->of[peer], attr, peer)
					 : cache_make_locked(comm, peer, attr);
	if (st == ORIEL_OK)
		*p2p = comm->p2p->of[peer];
	pthread_mutex_unlock(&comm->p2p_lock);
	return st;
}

enum oriel_status oriel_comm_p2p_hub(struct oriel_comm *comm, struct oriel_p2p_hub **hub)
{
	enum oriel_status st;

	if (!comm || !hub)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_comm_p2p_hub: %s is NULL",
				comm ? "hub" : "comm");
	st = ori_comm_check(comm);
	if (st != ORIEL_OK)
		return st;
	pthread_mutex_lock(&comm->p2p_lock);
	st = cache_open_locked(comm);
	if (st == ORIEL_OK)
		*hub = comm->p2p->hub;
	pthread_mutex_unlock(&comm->p2p_lock);
	return st;
}
