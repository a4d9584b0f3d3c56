/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open MPI: measures the operations of Oriel with MPI's functions. run.py calls it. With two ranks
 * it runs all tests, with four collectives, with more the barrier alone;
 * `mpi_peer empty` only starts and ends.
 */
#include <mpi.h>
#include <string.h>

#include "peer.h"

#define MPI_PEER_MAX ((size_t)16 << 20)
#define MPI_PEER_FLAG (MPI_PEER_MAX + 128) /* offsets behind the payload */
#define MPI_PEER_SUM (MPI_PEER_MAX + 256)
#define MPI_PEER_WINDOWS 10

static int rank, ranks;
static char *source, *sink, *target;
static MPI_Win window;

static void mpi_meet(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
}

static uint64_t mpi_from_origin(uint64_t value)
{
	MPI_Bcast(&value, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
	return value;
}

static void put_bytes(const void *from, size_t bytes, size_t at)
{
	MPI_Put(from, (int)bytes, MPI_BYTE, 1 - rank, (MPI_Aint)at, (int)bytes, MPI_BYTE, window);
	MPI_Win_flush(1 - rank, window);
}

static void round_put_flush(size_t bytes, uint64_t round)
{
	(void)round;
	put_bytes(source, bytes, 0);
}

/* A peer that polls without calling MPI may wait for its own progress. */
static void flag_await(uint64_t value)
{
	const uint64_t *flag = (const uint64_t *)(const void *)(target + MPI_PEER_FLAG);
	unsigned polls;
	int found;

	for (polls = 1; __atomic_load_n(flag, __ATOMIC_ACQUIRE) != value; polls++) {
		MPI_Win_sync(window);
		if (polls % 64 == 0)
			MPI_Iprobe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
	}
}

/* The flag may not overtake the payload: MPI orders puts by flush alone. */
static void put_signal(size_t bytes, uint64_t value)
{
	put_bytes(source, bytes, 0);
	put_bytes(&value, sizeof(value), MPI_PEER_FLAG);
}

static void round_put_signal(size_t bytes, uint64_t round)
{
	/* Differs from every value that an earlier row left in the flag. */
	uint64_t value = ((uint64_t)bytes << 32 | round) + 1;

	if (rank == 0)
		put_signal(bytes, value);
	flag_await(value);
	if (rank == 1)
		put_signal(bytes, value);
}

static void fetch_add(int owner)
{
	uint64_t one = 1, old;

	MPI_Fetch_and_op(&one, &old, MPI_UINT64_T, owner, MPI_PEER_SUM, MPI_SUM, window);
	MPI_Win_flush(owner, window);
}

static void round_fetch_add(size_t bytes, uint64_t round)
{
	(void)bytes;
	(void)round;
	fetch_add(1);
}

static void round_contended(size_t bytes, uint64_t round)
{
	(void)bytes;
	(void)round;
	fetch_add(0);
}

static void round_send_recv(size_t bytes, uint64_t round)
{
	(void)round;
	if (rank == 0)
		MPI_Send(source, (int)bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
	MPI_Recv(sink, (int)bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (rank == 1)
		MPI_Send(source, (int)bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
}

/* Messages one way, eight bytes back. */
static void round_stream(size_t bytes, uint64_t round)
{
	MPI_Request requests[PEER_BURST];
	int i, burst = (int)peer_burst(bytes);

	(void)round;
	for (i = 0; i < burst; i++)
		if (rank == 0)
			MPI_Isend(source, (int)bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[i]);
		else
			MPI_Irecv(sink, (int)bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[i]);
	MPI_Waitall(burst, requests, MPI_STATUSES_IGNORE);
	if (rank == 0)
		MPI_Recv(sink, 8, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	else
		MPI_Send(source, 8, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
}

static void round_barrier(size_t bytes, uint64_t round)
{
	(void)bytes;
	(void)round;
	MPI_Barrier(MPI_COMM_WORLD);
}

static void round_allgather(size_t bytes, uint64_t round)
{
	(void)round;
	MPI_Allgather(source, (int)bytes, MPI_BYTE, sink, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void round_all_reduce(size_t bytes, uint64_t round)
{
	(void)round;
	MPI_Allreduce(source, sink, (int)(bytes / sizeof(float)), MPI_FLOAT, MPI_SUM,
		      MPI_COMM_WORLD);
}

static void round_reduce_scatter(size_t bytes, uint64_t round)
{
	(void)round;
	MPI_Reduce_scatter_block(source, sink, (int)(bytes / sizeof(float)), MPI_FLOAT, MPI_SUM,
				 MPI_COMM_WORLD);
}

/* The root rotates, as Oriel's does. */
static int root_of(uint64_t round)
{
	return (int)(round % (uint64_t)ranks);
}

static void round_reduce(size_t bytes, uint64_t round)
{
	MPI_Reduce(source, sink, (int)(bytes / sizeof(float)), MPI_FLOAT, MPI_SUM, root_of(round),
		   MPI_COMM_WORLD);
}

static void round_gather(size_t bytes, uint64_t round)
{
	MPI_Gather(source, (int)bytes, MPI_BYTE, sink, (int)bytes, MPI_BYTE, root_of(round),
		   MPI_COMM_WORLD);
}

static void round_scatter(size_t bytes, uint64_t round)
{
	MPI_Scatter(source, (int)bytes, MPI_BYTE, sink, (int)bytes, MPI_BYTE, root_of(round),
		    MPI_COMM_WORLD);
}

static const struct peer_case case_put_flush = {"put_flush", "origin",        true,
						PEER_ONE,    round_put_flush, false};
static const struct peer_case case_put_signal = {"put_signal_lat", "one way",        false,
						 PEER_ROUND_TRIP,  round_put_signal, false};
static const struct peer_case case_fetch_add = {"fetch_add", "uncontended",   true,
						PEER_ONE,    round_fetch_add, false};
static const struct peer_case case_contended = {"fetch_add", "contended",     false,
						PEER_ONE,    round_contended, true};
static const struct peer_case case_send_recv = {"send_recv_lat", "one way",       false,
						PEER_ROUND_TRIP, round_send_recv, false};
static const struct peer_case case_stream = {"send_recv_bw", "one way",    false,
					     PEER_MANY,      round_stream, false};
static const struct peer_case case_barrier = {"barrier", "all",         false,
					      PEER_ONE,  round_barrier, false};

static const struct peer_case case_allgather = {"allgather", "all",           false,
						PEER_ONE,    round_allgather, false};
static const struct peer_case case_all_reduce = {"all_reduce", "fp32 sum",       false,
						 PEER_ONE,     round_all_reduce, false};
static const struct peer_case case_reduce_scatter = {"reduce_scatter", "fp32 sum",           false,
						     PEER_ONE,         round_reduce_scatter, false};
static const struct peer_case case_reduce = {"reduce", "fp32 sum",   false,
					     PEER_ONE, round_reduce, false};
static const struct peer_case case_gather = {"gather", "all", false, PEER_ONE, round_gather, false};
static const struct peer_case case_scatter = {"scatter", "all",         false,
					      PEER_ONE,  round_scatter, false};

static void measure_collectives(const struct peer_job *job)
{
	static const size_t sizes[] = {8, 65536, 1 << 20};
	static const size_t reduced[] = {8, 4096, 65536, 1 << 20, MPI_PEER_MAX};
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		peer_measure(job, &case_allgather, sizes[i]);
	for (i = 0; i < sizeof(reduced) / sizeof(reduced[0]); i++)
		peer_measure(job, &case_all_reduce, reduced[i]);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		peer_measure(job, &case_reduce_scatter, sizes[i]);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		peer_measure(job, &case_reduce, sizes[i]);
		peer_measure(job, &case_gather, sizes[i]);
		peer_measure(job, &case_scatter, sizes[i]);
	}
}

static void measure_one_sided(const struct peer_job *job)
{
	static const size_t sizes[] = {8, 4096, 65536, 1 << 20, MPI_PEER_MAX};
	const size_t length = MPI_PEER_MAX + 4096;
	size_t i;

	MPI_Win_allocate((MPI_Aint)length, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &target, &window);
	memset(target, 0, length);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, window);
	peer_measure(job, &case_put_flush, 8);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		peer_measure(job, &case_put_signal, sizes[i]);
	peer_measure(job, &case_fetch_add, 0);
	peer_measure(job, &case_contended, 0);
	MPI_Win_unlock_all(window);
	MPI_Win_free(&window);
}

static void measure_two_sided(const struct peer_job *job)
{
	static const size_t latency[] = {8, 4096, 65536};
	static const size_t stream[] = {65536, 1 << 20, MPI_PEER_MAX};
	size_t i;

	for (i = 0; i < 3; i++)
		peer_measure(job, &case_send_recv, latency[i]);
	for (i = 0; i < 3; i++)
		peer_measure(job, &case_stream, stream[i]);
}

/* No rank touches the memory. */
static void measure_windows(const struct peer_job *job, size_t bytes)
{
	double us[MPI_PEER_WINDOWS];
	char *memory;
	MPI_Win w;
	int i;

	for (i = 0; i < MPI_PEER_WINDOWS; i++) {
		MPI_Barrier(MPI_COMM_WORLD);
		us[i] = peer_now_us();
		MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &w);
		MPI_Win_free(&w);
		us[i] = peer_now_us() - us[i];
	}
	peer_print(job, "window_create", "and destroy", bytes, peer_median(us, MPI_PEER_WINDOWS));
}

int main(int argc, char **argv)
{
	struct peer_job job = {.impl = "openmpi", .meet = mpi_meet, .from_origin = mpi_from_origin};

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	job.rank = (unsigned)rank;
	job.ranks = (unsigned)ranks;
	if (argc == 1 && ranks <= 4) {
		source = peer_memory(MPI_PEER_MAX);
		sink = peer_memory(MPI_PEER_MAX);
		measure_collectives(&job);
	}
	if (argc == 1 && ranks == 2) {
		measure_one_sided(&job);
		measure_two_sided(&job);
		measure_windows(&job, (size_t)1 << 20);
		measure_windows(&job, MPI_PEER_MAX);
	}
	if (argc == 1)
		peer_measure(&job, &case_barrier, 0);
	MPI_Finalize();
	return 0;
}
