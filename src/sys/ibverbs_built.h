/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Was libibverbs' header there when the library was built? For code of both builds: the doctor
 * and oriel_probe() ask.
 */
#ifndef ORI_SYS_IBVERBS_BUILT_H
#define ORI_SYS_IBVERBS_BUILT_H

#include <stdbool.h>

bool ori_ibverbs_is_built(void);

#endif
