# SPDX-License-Identifier: Apache-2.0
# ctest reads it before it starts tests. All that name no HCA ask for the software HCA, so that they
# run alike on machines with NICs and without, where rank 0 would warn that it is used.
if(NOT DEFINED ENV{ORIEL_HCA})
	set(ENV{ORIEL_HCA} soft)
endif()
