# SPDX-License-Identifier: Apache-2.0
# Run at every build: writes OUTPUT, a header that names the commit of SOURCE,
# and leaves the file alone where nothing changed.
set(commit unknown)
find_program(git git)
if(git AND EXISTS ${SOURCE}/.git)
	execute_process(
		COMMAND ${git} --no-optional-locks -C ${SOURCE} describe --always --dirty --exclude=*
		OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
	if(described)
		set(commit ${described})
	endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define ORIEL_COMMIT \"${commit}\"\n")
