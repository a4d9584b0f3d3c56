/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything a host program needs. Kernels include oriel/dev.h.
 *
 * Structs of attributes and of answers begin with their size, which the caller sets to sizeof the
 * struct, so that the library knows which fields a program compiled with older or newer headers
 * has. Attributes that are 0 mean the default. A query writes the fields that the caller has;
 * those that the library does not know are 0.
 *
 * Structs without such a size have the same layout in all versions 1.x: the records that
 * oriel_region_table(), oriel_window_fault() and oriel_comm_device_fault() write, a bootstrap, job
 * ids and invitations, and of p2p requests, buffers, chunks, exported memory, targets and puts of
 * transports. tests/abi.txt has all layouts, and a test compares them.
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
