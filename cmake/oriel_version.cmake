# SPDX-License-Identifier: Apache-2.0
# Which versions serve each other: until 1.0 promises an ABI a minor version has one of its own, and
# from then on a major version. The sonames, the CMake package and, through the soname, the package
# of Python follow it; tests/versions.cmake has the cases.
if(PROJECT_VERSION_MAJOR EQUAL 0)
	set(ORIEL_SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
	set(ORIEL_COMPATIBILITY SameMinorVersion)
else()
	set(ORIEL_SOVERSION ${PROJECT_VERSION_MAJOR})
	set(ORIEL_COMPATIBILITY SameMajorVersion)
endif()
