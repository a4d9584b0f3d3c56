# SPDX-License-Identifier: Apache-2.0
# The public headers, as a program includes them: what is installed and what
# tests/headers compiles.
set(ORIEL_HEADERS
	oriel/oriel.h
	oriel/status.h
	oriel/bootstrap.h
	oriel/comm.h
	oriel/doctor.h
	oriel/p2p.h
	oriel/p2p_mock.h
	oriel/region.h
	oriel/window.h
	oriel/progress.h
	oriel/allgather.h
	oriel/dev.h
	oriel/dev/types.h
	oriel/dev/order.h
	oriel/dev/group.h
	oriel/dev/wait.h
	oriel/dev/check.h
	oriel/dev/copy.h
	oriel/dev/mapped.h
	oriel/dev/crew.h
	oriel/dev/data.h
	oriel/dev/signal.h
	oriel/dev/counter.h
	oriel/dev/barrier.h
	oriel/dev/channel.h
	oriel/dev/ll.h
	oriel/dev/ll128.h
	oriel/dev/gather.h
	oriel/dev/mlx5.h
	oriel/dev/mlx5_ring.h
	oriel/dev/proxy.h
	oriel/dev/link.h
	oriel/dev/rdma.h)
