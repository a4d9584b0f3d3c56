# SPDX-License-Identifier: Apache-2.0
# cmake -D ROOT=CLONE -P versions.cmake: the soname and the CMake package of a version, before 1.0 and
# after, and that no file decides by itself.
cmake_minimum_required(VERSION 3.25)

foreach(row "0.1 0.1 SameMinorVersion" "0.12 0.12 SameMinorVersion" "1.0 1 SameMajorVersion"
		"1.7 1 SameMajorVersion" "12.3 12 SameMajorVersion")
	string(REGEX MATCH "^([0-9]+)\\.([0-9]+) ([^ ]+) ([^ ]+)$" matched ${row})
	set(PROJECT_VERSION_MAJOR ${CMAKE_MATCH_1})
	set(PROJECT_VERSION_MINOR ${CMAKE_MATCH_2})
	set(soversion ${CMAKE_MATCH_3})
	set(compatibility ${CMAKE_MATCH_4})
	include(${ROOT}/cmake/oriel_version.cmake)
	if(NOT ORIEL_SOVERSION STREQUAL soversion OR NOT ORIEL_COMPATIBILITY STREQUAL compatibility)
		message(SEND_ERROR "${row}: it is ${ORIEL_SOVERSION} ${ORIEL_COMPATIBILITY}")
	endif()
endforeach()

foreach(file src/CMakeLists.txt adapters/mpi/CMakeLists.txt cmake/oriel_install.cmake
		python/oriel/_library.py python/declare.py)
	file(READ ${ROOT}/${file} text)
	if(text MATCHES "Same(Minor|Major|Exact)Version|(SO|so[^\n]*)VERSION[^\n]*(VERSION_M|[0-9])")
		message(SEND_ERROR "${file} decides about versions by itself: ${CMAKE_MATCH_0}")
	endif()
endforeach()
