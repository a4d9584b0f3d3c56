# SPDX-License-Identifier: Apache-2.0
# oriel_harden(TARGET...): what makes an error of memory in the library or a tool harder to use,
# where the compiler and the linker have it. tests/hardened.py looks for the marks in the results.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(CheckLinkerFlag)
include(CheckPIESupported)

option(ORIEL_HARDEN "Compile with stack protectors, checked libc calls and read-only relocations" ON)

set(ORIEL_HARDEN_COMPILE "")
set(ORIEL_HARDEN_LINK "")
set(ORIEL_HARDEN_MARKS "") # what hardened.py expects

# A flag of another machine is an error to gcc, and clang warns of it.
function(oriel_harden_compile flag mark)
	string(MAKE_C_IDENTIFIER "ORIEL_HAS${flag}" has)
	set(CMAKE_REQUIRED_FLAGS -Werror)
	check_c_compiler_flag(${flag} ${has})
	if(${has})
		set(ORIEL_HARDEN_COMPILE ${ORIEL_HARDEN_COMPILE} ${flag} PARENT_SCOPE)
		set(ORIEL_HARDEN_MARKS ${ORIEL_HARDEN_MARKS} ${mark} PARENT_SCOPE)
	endif()
endfunction()

function(oriel_harden_link flag mark)
	string(MAKE_C_IDENTIFIER "ORIEL_LINKS${flag}" has)
	check_linker_flag(C LINKER:${flag} ${has})
	if(${has})
		set(ORIEL_HARDEN_LINK ${ORIEL_HARDEN_LINK} LINKER:${flag} PARENT_SCOPE)
		set(ORIEL_HARDEN_MARKS ${ORIEL_HARDEN_MARKS} ${mark} PARENT_SCOPE)
	endif()
endfunction()

# Sanitizers find more, and know no checked libc calls.
if(ORIEL_HARDEN AND NOT ORIEL_SANITIZE)
	oriel_harden_compile(-fstack-protector-strong stack)
	oriel_harden_compile(-fstack-clash-protection clash)
	oriel_harden_compile(-fcf-protection=full branches) # x86
	oriel_harden_compile(-mbranch-protection=standard branches) # AArch64
	oriel_harden_link(-z,relro relro)
	oriel_harden_link(-z,now now)
	oriel_harden_link(-z,noexecstack nx)
	check_pie_supported(LANGUAGES C)
	if(CMAKE_C_LINK_PIE_SUPPORTED)
		list(APPEND ORIEL_HARDEN_MARKS pie)
	endif()
	# glibc warns of it in a build without optimization (features.h).
	string(TOUPPER "CMAKE_C_FLAGS_${CMAKE_BUILD_TYPE}" flags)
	set(flags "${CMAKE_C_FLAGS} ${${flags}}")
	if(flags MATCHES "-O[123s]" AND NOT flags MATCHES "-O0" AND NOT flags MATCHES "_FORTIFY_SOURCE")
		set(CMAKE_REQUIRED_FLAGS "-O2 -Werror")
		# Level 3 needs glibc 2.33 and gcc 12 or clang 9; glibc warns where it falls back to 2.
		foreach(level 3 2)
			set(CMAKE_REQUIRED_DEFINITIONS -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=${level})
			check_c_source_compiles("#include <string.h>\nint main(void) { return 0; }"
				ORIEL_HAS_FORTIFY_${level})
			if(ORIEL_HAS_FORTIFY_${level})
				list(APPEND ORIEL_HARDEN_COMPILE ${CMAKE_REQUIRED_DEFINITIONS})
				list(APPEND ORIEL_HARDEN_MARKS fortify${level})
				break()
			endif()
		endforeach()
		unset(CMAKE_REQUIRED_FLAGS)
		unset(CMAKE_REQUIRED_DEFINITIONS)
	endif()
endif()

function(oriel_harden)
	foreach(target ${ARGN})
		target_compile_options(${target} PRIVATE
			"$<$<COMPILE_LANGUAGE:C>:${ORIEL_HARDEN_COMPILE}>")
		get_target_property(type ${target} TYPE)
		if(NOT type MATCHES "OBJECT|STATIC|INTERFACE")
			target_link_options(${target} PRIVATE ${ORIEL_HARDEN_LINK})
		endif()
	endforeach()
endfunction()
