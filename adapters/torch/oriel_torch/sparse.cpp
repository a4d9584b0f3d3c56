// SPDX-License-Identifier: Apache-2.0
// All-reduce of sparse tensors: see backend.hpp. Each rank gets the entries of all ranks, in the order
// of the ranks, and adds those of one place.
#include "backend.hpp"

#include <algorithm>
#include <cstring>

namespace oriel_torch {

// What ranks must agree on, and how many entries each has.
struct Entries {
	int64_t count;
	int64_t sparse_dimensions;
	int64_t element; // bytes of the values of one entry
};

static at::Tensor gathered(Collectives &plans, const at::Tensor &mine, const std::vector<int64_t> &counts,
			   int64_t most)
{
	// Rows of equal number: the shorter ones are padded, and cut again.
	at::Tensor padded = at::zeros({most, mine.size(1)}, mine.options());
	std::vector<at::Tensor> every;
	std::vector<char *> parts;

	padded.narrow(0, 0, mine.size(0)).copy_(mine);
	for (size_t r = 0; r < counts.size(); r++) {
		every.push_back(at::empty_like(padded));
		parts.push_back(static_cast<char *>(every.back().data_ptr()));
	}
	plans.gather_all(padded.data_ptr(), padded.nbytes(), parts.data());
	for (size_t r = 0; r < counts.size(); r++)
		every[r] = every[r].narrow(0, 0, counts[r]);
	return at::cat(every);
}

static void reduce_sparse(Collectives &plans, const at::Tensor &tensor, int size)
{
	at::Tensor whole = tensor.coalesce();
	at::Tensor indices = whole.indices().t().contiguous();
	at::Tensor values = whole.values().contiguous();
	at::Tensor rows = values.reshape({values.size(0), c10::multiply_integers(values.sizes().slice(1))});
	Entries mine = {rows.size(0), indices.size(1), rows.size(1) * (int64_t)rows.element_size()};
	std::vector<Entries> every(size);
	std::vector<int64_t> counts(size);
	std::vector<char *> parts(size);
	int64_t most = 0;

	for (int r = 0; r < size; r++)
		parts[r] = reinterpret_cast<char *>(&every[r]);
	plans.gather_all(&mine, sizeof(mine), parts.data());
	for (int r = 0; r < size; r++) {
		TORCH_CHECK(every[r].sparse_dimensions == every[0].sparse_dimensions &&
				    every[r].element == every[0].element,
			    "all_reduce: ranks 0 and ", r, " have sparse tensors of different shapes");
		counts[r] = every[r].count;
		most = std::max(most, counts[r]);
	}
	at::Tensor all_indices = gathered(plans, indices, counts, most).t();
	at::Tensor all_values = gathered(plans, rows, counts, most);
	std::vector<int64_t> shape = values.sizes().vec();

	shape[0] = all_values.size(0);
	at::Tensor(tensor).copy_(
		at::sparse_coo_tensor(all_indices, all_values.reshape(shape), tensor.sizes(),
				      values.options().layout(at::kSparse))
			.coalesce());
}

OrielBackend::WorkPtr OrielBackend::allreduce_sparse_sum(const at::Tensor &tensor,
							 const c10d::AllreduceOptions &opts)
{
	TORCH_CHECK(tensor.is_sparse() && tensor.device().is_cpu() && opts.reduceOp == c10d::ReduceOp::SUM,
		    "all_reduce: of sparse tensors backend oriel has sums, of the layout COO on the CPU");
	return submit(c10d::OpType::ALLREDUCE, "oriel:all_reduce", {tensor}, {{tensor}}, opts.timeout,
		      opts.asyncOp, [this, tensor](Collectives &plans) { reduce_sparse(plans, tensor, size_); });
}

} // namespace oriel_torch
