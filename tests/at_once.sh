#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# at_once.sh COMMAND...: runs all COMMANDs at the same time, each by a shell of its own. For tests
# that wait for limits of time nearly all of theirs: as tests of their own each would keep a job of
# CTest. Fails if any fails, and prints the output of those.
logs=$(mktemp -d) || exit 1
trap 'rm -rf "$logs"' EXIT
pids=
number=0
for command; do
	number=$((number + 1))
	sh -c "exec $command" >"$logs/$number" 2>&1 </dev/null &
	pids="$pids $!"
done
failed=0
number=0
for pid in $pids; do
	number=$((number + 1))
	wait "$pid"
	status=$?
	[ "$status" = 0 ] && continue
	failed=1
	eval "printf 'status %d of %s\n' $status \"\${$number}\""
	cat "$logs/$number"
done
exit $failed
