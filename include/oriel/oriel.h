/* SPDX-License-Identifier: Apache-2.0 */
/* Everything a host program needs. Kernels include oriel/dev.h. */
#ifndef ORIEL_ORIEL_H
#define ORIEL_ORIEL_H

#include <oriel/allgather.h>
#include <oriel/alltoall.h>
#include <oriel/bcast.h>
#include <oriel/bootstrap.h>
#include <oriel/comm.h>
#include <oriel/comm_device.h>
#include <oriel/object_cache.h>
#include <oriel/p2p.h>
#include <oriel/p2p_transport.h>
#include <oriel/progress.h>
#include <oriel/region.h>
#include <oriel/status.h>
#include <oriel/stream_barrier.h>
#include <oriel/tune.h>
#include <oriel/window.h>

#endif
