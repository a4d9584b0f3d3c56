/* SPDX-License-Identifier: Apache-2.0 */
/* Where this process runs, as far as it decides how ends reach each other. */
#ifndef ORI_P2P_P2P_HOST_H
#define ORI_P2P_P2P_HOST_H

#include <stdint.h>

#include <oriel/status.h>

struct p2p_host {
	uint64_t place;   /* equal: unix sockets lead from one to the other */
	uint64_t process; /* equal: the same process */
	uint32_t uid, pid;
};

enum oriel_status ori_p2p_host(struct p2p_host *host);

#endif
