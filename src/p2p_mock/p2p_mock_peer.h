/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that ignores the rules, for the fuzzer and the test of the mock. */
#ifndef ORI_P2P_MOCK_P2P_MOCK_PEER_H
#define ORI_P2P_MOCK_P2P_MOCK_PEER_H

#include <stdint.h>

struct oriel_p2p_mock;

/* Write @immediate to @endpoint. */
void ori_p2p_mock_write_imm(struct oriel_p2p_mock *mock, unsigned endpoint, uint32_t immediate);

#endif
