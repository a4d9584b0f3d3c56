#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Experts on all ranks: tokens travel to the expert that a router chooses, and back. Run by
oriel run -n 3 python moe.py. The number of tokens of each pair of ranks differs in every step."""
import torch
import torch.distributed as dist

TOKENS, WIDTH = 1000, 16


def exchange(rows, received, sent):
    """Rows for each rank, `sent` of them in the order of the ranks, to those ranks."""
    output = torch.empty(sum(received), rows.shape[1])
    dist.all_to_all_single(output, rows, received, sent)
    return output


def to_experts(tokens, expert_of, expert):
    """What the experts make of `tokens`; expert_of: the rank of each token's expert."""
    size = dist.get_world_size()
    order = expert_of.argsort(stable=True)
    sent = expert_of.bincount(minlength=size)
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent)
    there = exchange(tokens[order], received.tolist(), sent.tolist())
    back = exchange(expert(there), sent.tolist(), received.tolist())
    return torch.empty_like(tokens).index_copy_(0, order, back)


def main():
    dist.init_process_group("oriel")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    weights = torch.randn(size, WIDTH, WIDTH)  # every rank knows all, to check the result
    torch.manual_seed(100 + rank)
    for _ in range(5):
        tokens = torch.randn(TOKENS, WIDTH)
        expert_of = torch.randint(0, size, (TOKENS,))
        result = to_experts(tokens, expert_of, lambda rows: rows @ weights[rank])
        expected = torch.einsum("tw,twv->tv", tokens, weights[expert_of])
        assert torch.allclose(result, expected, atol=1e-4)
    if rank == 0:
        print(f"{size} experts: every token came back from its own")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
