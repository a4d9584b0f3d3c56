// SPDX-License-Identifier: Apache-2.0
// What Python sees of the backend: oriel.torch imports it.
#include <pybind11/chrono.h>
#include <torch/extension.h>

#include "backend.hpp"

static c10::intrusive_ptr<c10d::Backend> create(const c10::intrusive_ptr<c10d::Store> &store,
						int rank, int size,
						const std::chrono::duration<float> &timeout)
{
	return c10::make_intrusive<oriel_torch::OrielBackend>(
		store, rank, size, std::chrono::duration_cast<std::chrono::milliseconds>(timeout));
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
	m.def("create", &create, pybind11::arg("store"), pybind11::arg("rank"), pybind11::arg("size"),
	      pybind11::arg("timeout"), pybind11::call_guard<pybind11::gil_scoped_release>());
	m.def("join_closing", &oriel_torch::OrielBackend::join_closing,
	      pybind11::call_guard<pybind11::gil_scoped_release>());
}
