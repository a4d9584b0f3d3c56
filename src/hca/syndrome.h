/* SPDX-License-Identifier: Apache-2.0 */
/* The meaning of an enum ori_dev_queue_syndrome. Log and error texts use it. */
#ifndef ORI_HCA_SYNDROME_H
#define ORI_HCA_SYNDROME_H

#include <stdint.h>

/* A few words; "unknown syndrome" for one that the table lacks. Never NULL. */
const char *ori_syndrome_text(uint8_t syndrome);

#endif
