/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORI_SYS_IBVERBS_BUILT_H
#define ORI_SYS_IBVERBS_BUILT_H

#include <stdbool.h>

/* Was infiniband/verbs.h there when the library was built? */
bool ori_ibverbs_is_built(void);

#endif
