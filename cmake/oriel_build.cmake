# SPDX-License-Identifier: Apache-2.0
# How everything is compiled, and what the lists of the modules are written with.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

if(NOT CMAKE_BUILD_TYPE)
	set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Debug or RelWithDebInfo" FORCE)
endif()

find_package(Threads REQUIRED)
# A wheel brings its OpenSSL along, inside of the library: machines have others, or none.
if(SKBUILD)
	find_library(ORIEL_CRYPTO_ARCHIVE libcrypto.a)
	if(ORIEL_CRYPTO_ARCHIVE)
		set(OPENSSL_USE_STATIC_LIBS ON)
	endif()
endif()
find_package(OpenSSL 3.0 REQUIRED COMPONENTS SSL Crypto)

add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wundef -Wstrict-prototypes
	-Wmissing-prototypes -Wwrite-strings -Wvla)
if(CMAKE_C_COMPILER_ID MATCHES Clang)
	add_compile_options(-Wthread-safety)
endif()
if(ORIEL_WERROR)
	add_compile_options(-Werror)
endif()

# A null pointer is a fault without a check, and AddressSanitizer knows the sizes of objects: those
# two checks are a quarter of the time of a compilation.
if(ORIEL_SANITIZE STREQUAL address)
	set(sanitize -fsanitize=address,undefined -fno-sanitize=null,object-size
		-fno-sanitize-recover=all)
elseif(ORIEL_SANITIZE STREQUAL thread)
	set(sanitize -fsanitize=thread)
elseif(ORIEL_SANITIZE)
	message(FATAL_ERROR "ORIEL_SANITIZE is '${ORIEL_SANITIZE}', it may be empty, address or thread")
endif()
if(ORIEL_SANITIZE)
	add_compile_options(${sanitize} -fno-omit-frame-pointer)
	add_link_options(${sanitize})
endif()

if(ORIEL_ANALYZE) # see src/base/error.h
	add_compile_definitions(ORI_ANALYZE)
endif()

# ORIEL_NVCC is the compiler, ORIEL_CUDA_INCLUDE where cuda.h lies, or they are false.
if(ORIEL_CUDA STREQUAL OFF)
	set(ORIEL_NVCC OFF)
	set(ORIEL_CUDA_INCLUDE OFF)
else()
	find_path(ORIEL_CUDA_INCLUDE cuda.h HINTS ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES include)
	mark_as_advanced(ORIEL_CUDA_INCLUDE)
	find_program(ORIEL_NVCC nvcc HINTS ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
	mark_as_advanced(ORIEL_NVCC)
	if(NOT ORIEL_NVCC AND NOT ORIEL_CUDA STREQUAL AUTO)
		message(FATAL_ERROR "ORIEL_CUDA is ${ORIEL_CUDA}, but there is no nvcc in PATH or CUDA_PATH")
	endif()
	if(NOT ORIEL_CUDA_INCLUDE AND NOT ORIEL_CUDA STREQUAL AUTO)
		message(FATAL_ERROR "ORIEL_CUDA is ${ORIEL_CUDA}, but there is no cuda.h in CUDA_PATH")
	endif()
endif()

# ORIEL_VERBS_INCLUDE is where infiniband/verbs.h lies, or false. One before
# rdma-core 34 counts as none.
if(ORIEL_VERBS STREQUAL OFF)
	set(ORIEL_VERBS_INCLUDE OFF)
else()
	find_path(ORIEL_VERBS_INCLUDE infiniband/verbs.h)
	mark_as_advanced(ORIEL_VERBS_INCLUDE)
	if(ORIEL_VERBS_INCLUDE)
		file(STRINGS ${ORIEL_VERBS_INCLUDE}/infiniband/verbs.h verbs_dmabuf
			REGEX ibv_reg_dmabuf_mr LIMIT_COUNT 1)
		if(NOT verbs_dmabuf)
			set(ORIEL_VERBS_INCLUDE OFF)
		endif()
	endif()
	if(NOT ORIEL_VERBS_INCLUDE AND NOT ORIEL_VERBS STREQUAL AUTO)
		message(FATAL_ERROR "ORIEL_VERBS is ${ORIEL_VERBS}, but there is no infiniband/verbs.h of rdma-core 34 or later (libibverbs-dev)")
	endif()
endif()

# ORIEL_MLX5 is whether infiniband/mlx5dv.h of rdma-core 42 or later lies there as well.
set(ORIEL_MLX5 OFF)
if(ORIEL_VERBS_INCLUDE AND EXISTS ${ORIEL_VERBS_INCLUDE}/infiniband/mlx5dv.h)
	file(STRINGS ${ORIEL_VERBS_INCLUDE}/infiniband/mlx5dv.h mlx5_dmabuf
		REGEX MLX5DV_UMEM_MASK_DMABUF LIMIT_COUNT 1)
	if(mlx5_dmabuf)
		set(ORIEL_MLX5 ON)
	endif()
endif()

# ORIEL_PMIX_INCLUDE is where pmix.h lies, or false. One before PMIx 3 counts as none.
if(ORIEL_PMIX STREQUAL OFF)
	set(ORIEL_PMIX_INCLUDE OFF)
else()
	# Debian has it beside the library.
	find_path(ORIEL_PMIX_INCLUDE pmix.h
		HINTS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/pmix2/include)
	mark_as_advanced(ORIEL_PMIX_INCLUDE)
	if(ORIEL_PMIX_INCLUDE)
		file(STRINGS ${ORIEL_PMIX_INCLUDE}/pmix_version.h pmix_major
			REGEX "define PMIX_VERSION_MAJOR +[3-9]L" LIMIT_COUNT 1)
		if(NOT pmix_major)
			set(ORIEL_PMIX_INCLUDE OFF)
		endif()
	endif()
	if(NOT ORIEL_PMIX_INCLUDE AND NOT ORIEL_PMIX STREQUAL AUTO)
		message(FATAL_ERROR "ORIEL_PMIX is ${ORIEL_PMIX}, but there is no pmix.h of PMIx 3 or later (libpmix-dev)")
	endif()
endif()

if(BUILD_TESTING)
	find_package(PkgConfig REQUIRED)
	pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
endif()

# oriel_sources(FILE...): sources of the library, beside the calling list.
function(oriel_sources)
	foreach(file ${ARGN})
		target_sources(oriel_objects PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/${file})
	endforeach()
endfunction()

# oriel_unit_test(x_test.c [LIBRARY...] [NAME x]): a cmocka program over the library's internals.
function(oriel_unit_test file)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" NAME "")
	if(NOT BUILD_TESTING)
		return()
	endif()
	cmake_path(GET file STEM name)
	if(arg_NAME)
		set(name ${arg_NAME})
	endif()
	add_executable(${name} ${file})
	set_target_properties(${name} PROPERTIES
		RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/unit)
	target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
	target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
	target_link_libraries(${name} PRIVATE ${arg_UNPARSED_ARGUMENTS} oriel_static PkgConfig::CMOCKA Threads::Threads)
	add_test(NAME unit/${name} COMMAND ${name})
	set_tests_properties(unit/${name} PROPERTIES TIMEOUT 600 LABELS unit)
endfunction()
