/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything a host program needs. Kernels include oriel/dev.h, workers of p2p endpoints
 * oriel/dev/copy_group.h, and tests of programs oriel/p2p_mock.h and oriel/p2p_calls.h.
 *
 * A program creates a communicator (oriel/comm.h) first, then what it needs on that: windows,
 * regions, collectives. It destroys them in the opposite order, the communicator last.
 *
 *   cc program.c $(pkg-config --cflags --libs oriel)
 *   oriel run -n 4 ./a.out
 *
 * Other launchers are those of docs/launch.md; a program that is started alone is a job of one
 * rank. Comments name pages of docs/ and files of tests/: they are in the sources of Oriel, and are
 * not installed.
 *
 * Structs of attributes and of answers begin with their size, which the caller sets to sizeof the
 * struct, so that the library knows which fields a program compiled with older or newer headers
 * has. Attributes that are 0 mean the default. A query writes the fields that the caller has;
 * those that the library does not know are 0. No such struct has bytes without a name: reserved
 * ones are 0 in attributes, else ORIEL_ERR_INVALID, and in answers.
 *
 * Other structs have no size, since they lie in arrays, in memory of kernels or with each request,
 * or travel as bytes. They have the same layout in all versions 1.x if they pass between a program
 * and the library:
 *
 *   oriel_bootstrap (its table of operations has a size), oriel_job_id, oriel_invitation
 *   oriel_dev_buffer (oriel_region_table()), oriel_dev_fault, oriel_dev_gather,
 *   oriel_dev_reduction, oriel_dev_alltoallv (oriel/window.h, oriel/alltoall.h)
 *   oriel_p2p_request, oriel_p2p_buffer, oriel_p2p_chunk, oriel_p2p_remote
 *   oriel_p2p_target, oriel_p2p_transport_put
 *
 * The others of oriel/dev are handles, oriel_dev_window and oriel_dev_copy_group, and what the
 * inline functions use behind them or alone, such as oriel_dev_chunk, oriel_dev_ticket,
 * oriel_dev_group, oriel_team and oriel_dev_aim: ORIEL_DEV_VERSION counts their layouts.
 * tests/abi.txt has all of these layouts, and a test compares them. oriel_p2p_call and
 * oriel_p2p_mock_event are of static libraries for tests, which a program gets with their headers.
 */
#ifndef ORIEL_ORIEL_H
#define ORIEL_ORIEL_H

#include <oriel/allgather.h>
#include <oriel/allreduce.h>
#include <oriel/alltoall.h>
#include <oriel/bcast.h>
#include <oriel/bootstrap.h>
#include <oriel/coll.h>
#include <oriel/comm.h>
#include <oriel/comm_device.h>
#include <oriel/gather_scatter.h>
#include <oriel/object_cache.h>
#include <oriel/p2p.h>
#include <oriel/p2p_transport.h>
#include <oriel/progress.h>
#include <oriel/reduce.h>
#include <oriel/reduce_root.h>
#include <oriel/reduce_scatter.h>
#include <oriel/region.h>
#include <oriel/status.h>
#include <oriel/stream_barrier.h>
#include <oriel/tune.h>
#include <oriel/window.h>

#endif
