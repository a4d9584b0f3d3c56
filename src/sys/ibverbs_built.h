/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORI_SYS_IBVERBS_BUILT_H
#define ORI_SYS_IBVERBS_BUILT_H

#include <stdbool.h>

/* Was infiniband/verbs.h found when the library was built? For code that runs in both builds. */
bool ori_ibverbs_is_built(void);

#endif
