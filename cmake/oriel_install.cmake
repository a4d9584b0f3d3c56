# SPDX-License-Identifier: Apache-2.0
# What a prefix gets: headers, both libraries, oriel.pc, the CMake package.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/oriel)

foreach(header ${ORIEL_HEADERS})
	cmake_path(GET header PARENT_PATH dir)
	install(FILES include/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${dir})
endforeach()

# Two exports: only programs that link the static library need its dependencies.
install(TARGETS oriel oriel_p2p_calls EXPORT orielTargets)
install(TARGETS oriel_static oriel_p2p_mock EXPORT orielStaticTargets)
if(TARGET oriel_mpi)
	install(TARGETS oriel_mpi EXPORT orielTargets)
	install(FILES adapters/mpi/include/oriel/mpi.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/oriel)
endif()
install(EXPORT orielTargets NAMESPACE oriel:: DESTINATION ${package_dir})
install(EXPORT orielStaticTargets NAMESPACE oriel:: DESTINATION ${package_dir})
write_basic_package_version_file(orielConfigVersion.cmake COMPATIBILITY ${ORIEL_COMPATIBILITY})
install(FILES cmake/orielConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/orielConfigVersion.cmake
	DESTINATION ${package_dir})

# Relative, so that cmake --install --prefix elsewhere yields a true file.
file(RELATIVE_PATH pc_prefix
	${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" pc_prefix ${pc_prefix})
configure_file(oriel.pc.in oriel.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/oriel.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(TARGET oriel_mpi)
	configure_file(adapters/mpi/oriel_mpi.pc.in oriel_mpi.pc @ONLY)
	install(FILES ${CMAKE_CURRENT_BINARY_DIR}/oriel_mpi.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
