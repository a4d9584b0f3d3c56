/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bootstrap moves opaque bytes between ranks before any other path exists, so that they can
 * meet; communicators call it. Two are built in; a caller may supply a table of its own.
 */
#ifndef ORIEL_BOOTSTRAP_H
#define ORIEL_BOOTSTRAP_H

#include <oriel/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ORIEL_NO_RANK UINT32_MAX

/*
 * Every call blocks until done or until @timeout_ns has passed (never 0: callers resolve the
 * default first; ORIEL_TIMEOUT_INFINITE: no limit). One thread of a rank calls at a time. After a
 * failure other than of arguments the bootstrap is broken: further calls fail with the same status,
 * and the other ranks' calls fail too, within their timeouts and with a text that names the rank at
 * fault.
 */
struct oriel_bootstrap_ops {
	size_t size; /* of this struct */

	/*
	 * All ranks call it with one @length. @all receives size * @length bytes: the @mine of
	 * each rank, in rank order. @mine must not overlap @all.
	 */
	enum oriel_status (*all_gather)(void *context, const void *mine, void *all, size_t length,
					uint64_t timeout_ns);

	/* All ranks call it; it returns only after all have called. */
	enum oriel_status (*barrier)(void *context, uint64_t timeout_ns);

	/*
	 * Between two ranks. Messages of one pair and @tag arrive in order; @length must be
	 * equal on both ends (ORIEL_ERR_MISMATCH). A send may return before the receiver has
	 * called, and does not wait for its recv if that is in another call of this table: two
	 * ranks may both send first.
	 */
	enum oriel_status (*send)(void *context, unsigned peer, uint32_t tag, const void *data,
				  size_t length, uint64_t timeout_ns);
	enum oriel_status (*recv)(void *context, unsigned peer, uint32_t tag, void *data,
				  size_t length, uint64_t timeout_ns);

	/* Local. Frees @context. Peers that still communicate get an error. */
	void (*close)(void *context);

	/*
	 * Local; any thread, until close begins. The call that this rank is in, or
	 * its next, fails with ORIEL_ERR_ABORTED, and so the bootstrap is broken.
	 * May be NULL: then calls end with their timeouts only.
	 */
	void (*interrupt)(void *context);

	/*
	 * Local, never blocks; the caller is in no other call of this table. Returns the rank
	 * whose fault broke the bootstrap: it left, did not arrive in time (the first, if
	 * several), or sent invalid bytes. ORIEL_NO_RANK if the bootstrap is not broken, or not
	 * by the fault of one rank. May be NULL: the text alone names it.
	 */
	unsigned (*at_fault)(void *context);
};

/* Storage belongs to the caller, which may fill it in with a table of its own. */
struct oriel_bootstrap {
	const struct oriel_bootstrap_ops *ops;
	void *context;
	unsigned rank;
	unsigned size;
};

/*
 * Join the job that the launcher of this process describes, by the first of these that is there,
 * or the one that ORIEL_BOOTSTRAP names: torchrun's variables, RANK, WORLD_SIZE, MASTER_ADDR and
 * MASTER_PORT (env); JOB_COMPLETION_INDEX and WORLD_SIZE of an indexed job (kubernetes); PMIx, as
 * mpirun of Open MPI and srun --mpi=pmix have it (pmix); the variables of a task of srun (slurm).
 * Without any the job is this process alone (local). ORIEL_ERR_CONFIG names a variable that is
 * missing or wrong; ORIEL_ERR_UNSUPPORTED: PMIx is needed, and libpmix is not there.
 * Collective: all ranks call it. Rank 0 listens, by env at MASTER_PORT (ORIEL_PORT if set; one
 * above MASTER_PORT if torchrun's agent holds that port, TORCHELASTIC_USE_AGENT_STORE=True); the
 * others connect, retrying until the deadline. ORIEL_JOB_KEY, if set, must be equal on all; by
 * PMIx the job has a random key where it is not set. A
 * process of another job, with a rank that has already joined, or with another version of the
 * library, is rejected at once (ORIEL_ERR_AUTH, ORIEL_ERR_CONFIG, ORIEL_ERR_VERSION) and does not
 * disturb the job. @timeout_ns: 0 = ORIEL_TIMEOUT, 600 s unless set. Errors name the rank that did
 * not join.
 *
 * The same ranks may open several jobs at one port, one after the other: while one is open, the
 * next is rejected (ORIEL_ERR_STATE) on every rank that has not closed it. The process keeps
 * the listener of ORIEL_LISTEN_FD for all jobs at its port; the first call takes that name out
 * of the environment, so no other thread may read the environment meanwhile.
 */
enum oriel_status oriel_bootstrap_open_env(uint64_t timeout_ns, struct oriel_bootstrap *bootstrap);

/*
 * The ranks of a job share a job id to meet: it has the addresses at which rank 0 listens, and a
 * random job key. Rank 0 opens it and passes its bytes to the others by any channel that they have
 * already and that outsiders cannot read, such as a broadcast of MPI or the store of a launcher.
 */
#define ORIEL_JOB_ID_LENGTH 128

struct oriel_job_id {
	unsigned char bytes[ORIEL_JOB_ID_LENGTH];
};

/*
 * Local; the process that will be rank 0 calls it, any thread. The process listens, at a port
 * that the kernel chooses, until oriel_job_id_close(). The caller owns @id. Where ORIEL_JOB_KEY is
 * set, @id has no key, and all ranks need that one. ORIEL_ERR_SYSTEM: it cannot listen.
 */
enum oriel_status oriel_job_id_open(struct oriel_job_id *id);

/*
 * Local; the process that has opened @id. It stops to listen for further jobs; bootstraps that are
 * open remain. NULL is allowed. ORIEL_ERR_STATE: it is not open in this process.
 */
enum oriel_status oriel_job_id_close(const struct oriel_job_id *id);

/*
 * Join the job of @id as @rank of @size. Collective: all ranks call it, with one @id and @size.
 * Rank 0 has opened @id in this process (ORIEL_ERR_STATE). All connections are encrypted by the
 * key of @id, or ORIEL_JOB_KEY if that is set. The same ranks may join an id again once all have
 * closed the bootstrap before; meanwhile ORIEL_ERR_STATE. ORIEL_ERR_INVALID: @id has not been made
 * by oriel_job_id_open(). Further errors and @timeout_ns are those of oriel_bootstrap_open_env().
 */
enum oriel_status oriel_bootstrap_open_id(const struct oriel_job_id *id, unsigned rank,
					  unsigned size, uint64_t timeout_ns,
					  struct oriel_bootstrap *bootstrap);

/*
 * Ranks as threads of this process. The job is made once; each rank's thread then opens its own
 * end. The job is freed when its maker has destroyed it and every opened end is closed. Local; any
 * thread. create: ORIEL_ERR_INVALID for a @size of 0. open: ORIEL_ERR_RANGE: there is no such rank;
 * ORIEL_ERR_STATE: the end was opened before. destroy: NULL is allowed.
 */
struct oriel_local_job;

enum oriel_status oriel_local_job_create(unsigned size, struct oriel_local_job **job);
enum oriel_status oriel_local_job_destroy(struct oriel_local_job *job);
enum oriel_status oriel_bootstrap_open_local(struct oriel_local_job *job, unsigned rank,
					     struct oriel_bootstrap *bootstrap);

/*
 * Calls ops->close and clears @bootstrap. A cleared or NULL one is fine. ORIEL_ERR_STATE: a
 * communicator on it lives.
 */
enum oriel_status oriel_bootstrap_close(struct oriel_bootstrap *bootstrap);

#ifdef __cplusplus
}
#endif

#endif
