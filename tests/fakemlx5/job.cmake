# SPDX-License-Identifier: Apache-2.0
# Two ranks in the directory by which fake NICs of processes find each other, an empty one.
file(REMOVE_RECURSE ${DIR})
file(MAKE_DIRECTORY ${DIR})
execute_process(COMMAND ${TOOL} run -n 2 --nodes 2 ${PROGRAM} ${ARGUMENT} COMMAND_ERROR_IS_FATAL ANY)
