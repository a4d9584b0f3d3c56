/* SPDX-License-Identifier: Apache-2.0 */
/* The names of pods of an indexed job, for launch_kubernetes.c and its test. */
#ifndef ORI_BOOTSTRAP_LAUNCH_KUBERNETES_H
#define ORI_BOOTSTRAP_LAUNCH_KUBERNETES_H

#include "bootstrap/launch.h"

/*
 * From the full name of pod @index, "job-3.service.namespace.svc.cluster.local", that of pod 0.
 * False: its first part does not end in the index.
 */
bool ori_kubernetes_host(const char *name, unsigned index, char host[ORI_LAUNCH_HOST]);

#endif
