/* SPDX-License-Identifier: Apache-2.0 */
/* The bootstrap of ranks that are threads of one process, from inside. src/comm asks. */
#ifndef ORI_BOOTSTRAP_LOCAL_H
#define ORI_BOOTSTRAP_LOCAL_H

#include <oriel/bootstrap.h>

/* Has oriel_bootstrap_open_local() opened it? */
bool ori_local_is_own(const struct oriel_bootstrap *bootstrap);

#endif
