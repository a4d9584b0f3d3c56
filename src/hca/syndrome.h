/* SPDX-License-Identifier: Apache-2.0 */
/* What an mlx5 adapter means by the syndrome of a failed CQE. */
#ifndef ORI_HCA_SYNDROME_H
#define ORI_HCA_SYNDROME_H

#include <stdint.h>

/* A few words; "unknown syndrome" for one that the table lacks. Never NULL. */
const char *ori_mlx5_syndrome_text(uint8_t syndrome);

#endif
