// SPDX-License-Identifier: Apache-2.0
// What Python sees of the backend: oriel.torch imports it.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "backend.hpp"
#include "symmetric.hpp"

static c10::intrusive_ptr<c10d::Backend> create(const c10::intrusive_ptr<c10d::Store> &store,
						int rank, int size,
						const std::chrono::duration<float> &timeout,
						bool enable_reconfigure)
{
	auto options = c10::make_intrusive<c10d::Backend::Options>(
		"oriel", std::chrono::duration_cast<std::chrono::milliseconds>(timeout));

#ifdef C10D_BACKEND_HAS_RECONFIGURE
	options->enable_reconfigure = enable_reconfigure;
#else
	TORCH_CHECK(!enable_reconfigure, "oriel: this version of torch has no reconfigure()");
#endif
	return c10::make_intrusive<oriel_torch::OrielBackend>(store, rank, size, options);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
	using oriel_torch::OrielBackend;

	pybind11::class_<OrielBackend, c10::intrusive_ptr<OrielBackend>, c10d::Backend>(m, "OrielBackend")
		.def("__repr__", [](OrielBackend &self) { return "<oriel backend: " + self.standing() + ">"; },
		     pybind11::call_guard<pybind11::gil_scoped_release>());
#ifdef C10D_BACKEND_HAS_WINDOW
	using oriel_torch::OrielWindow;

	pybind11::class_<OrielWindow, c10::intrusive_ptr<OrielWindow>, c10d::Window>(m, "OrielWindow")
		.def("__repr__", &OrielWindow::text, pybind11::call_guard<pybind11::gil_scoped_release>());
#endif
	pybind11::class_<oriel_torch::OrielWork, c10::intrusive_ptr<oriel_torch::OrielWork>, c10d::Work>(m, "OrielWork")
		.def("__repr__", &oriel_torch::OrielWork::text, pybind11::call_guard<pybind11::gil_scoped_release>());
	pybind11::class_<oriel_torch::MessageWork, c10::intrusive_ptr<oriel_torch::MessageWork>, oriel_torch::OrielWork>(
		m, "MessageWork");
	pybind11::class_<oriel_torch::WindowWork, c10::intrusive_ptr<oriel_torch::WindowWork>, oriel_torch::OrielWork>(
		m, "WindowWork");
	pybind11::class_<oriel_torch::GpuWork, c10::intrusive_ptr<oriel_torch::GpuWork>, c10d::Work>(m, "GpuWork")
		.def("__repr__", &oriel_torch::GpuWork::text, pybind11::call_guard<pybind11::gil_scoped_release>());
	oriel_torch::name_symmetric_memory(m);
	m.def("create", &create, pybind11::arg("store"), pybind11::arg("rank"), pybind11::arg("size"),
	      pybind11::arg("timeout"), pybind11::arg("enable_reconfigure"),
	      pybind11::call_guard<pybind11::gil_scoped_release>());
	m.def("close_symmetric_memory", &oriel_torch::close_symmetric_memory,
	      pybind11::call_guard<pybind11::gil_scoped_release>());
	oriel_torch::register_symmetric_memory();
	m.def("join_closing", &oriel_torch::OrielBackend::join_closing,
	      pybind11::call_guard<pybind11::gil_scoped_release>());
}
