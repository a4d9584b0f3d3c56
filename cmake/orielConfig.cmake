# SPDX-License-Identifier: Apache-2.0
# oriel::oriel, and oriel::p2p_calls over it; oriel::oriel_static, and oriel::p2p_mock over it, where
# its dependencies can be found.
include(${CMAKE_CURRENT_LIST_DIR}/orielTargets.cmake)

find_package(Threads QUIET)
find_package(OpenSSL 3.0 QUIET COMPONENTS SSL Crypto)
if(Threads_FOUND AND OpenSSL_FOUND)
	include(${CMAKE_CURRENT_LIST_DIR}/orielStaticTargets.cmake)
endif()
