# SPDX-License-Identifier: Apache-2.0
# Toolchain of scripts/check-aarch64: Debian's cross compiler, and the libraries of ORIEL_SYSROOT.
# There is no CMAKE_CROSSCOMPILING_EMULATOR: CTest would run Python by it, too (an imported target),
# and programs that tests start need the kernel's binfmt_misc in any case.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(CMAKE_SYSROOT ${ORIEL_SYSROOT})
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ORIEL_SYSROOT)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${ORIEL_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR}
	${ORIEL_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${ORIEL_SYSROOT}/usr/share/pkgconfig)
