# SPDX-License-Identifier: Apache-2.0
# The headers under INCLUDE are those of LISTED, so that none is left out of the
# tests and of the installation.
file(GLOB_RECURSE there RELATIVE ${INCLUDE} ${INCLUDE}/*.h)
set(unlisted ${there})
list(REMOVE_ITEM unlisted ${LISTED})
if(unlisted)
	message(FATAL_ERROR "not in cmake/oriel_headers.cmake: ${unlisted}")
endif()
set(missing ${LISTED})
list(REMOVE_ITEM missing ${there})
if(missing)
	message(FATAL_ERROR "in cmake/oriel_headers.cmake but not there: ${missing}")
endif()
