// SPDX-License-Identifier: Apache-2.0
// The lock of Python, in calls that torch makes with it. The backend and symmetric memory use it.
#pragma once

#include <optional>

#include <pybind11/pybind11.h>

namespace oriel_torch {

// Lets other threads of Python run as long as it lives, if this thread has their lock: what it waits for
// may need them.
class WithoutPython {
 public:
	WithoutPython()
	{
		if (Py_IsInitialized() && PyGILState_Check())
			released_.emplace();
	}

 private:
	std::optional<pybind11::gil_scoped_release> released_;
};

} // namespace oriel_torch
