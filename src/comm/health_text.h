/* SPDX-License-Identifier: Apache-2.0 */
/* The names and texts of failures. health.c, windows and users call them. */
#ifndef ORI_COMM_HEALTH_TEXT_H
#define ORI_COMM_HEALTH_TEXT_H

#include <oriel/comm.h>

/* Names the operation @what, which may be no enum oriel_dev_what. */
const char *ori_what_name(uint32_t what);

#endif
