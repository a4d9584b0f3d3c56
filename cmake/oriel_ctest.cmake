# SPDX-License-Identifier: Apache-2.0
# ctest reads it before it starts tests. Virtual nodes count as machines, between which ranks
# have the software HCA only where it is asked for, so that all tests ask for it that name no HCA.
if(NOT DEFINED ENV{ORIEL_HCA})
	set(ENV{ORIEL_HCA} soft)
endif()
