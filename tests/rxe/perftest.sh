#!/usr/bin/sh
# SPDX-License-Identifier: Apache-2.0
# perftest between the two nodes, one line a measurement: run --script perftest.sh. On a
# host that is busy most of the time is spent waiting for a tick of 4 ms.
index() { # of the address of RoCE v2 with IPv4
	grep -l 0000:0000:0000:0000:0000:ffff: "/sys/class/infiniband/$1/ports/1/gids/"* |
		sed 's,.*/,,' | head -n 1
}

measure() { # measure WHAT UNIT FIELD PROGRAM ARGUMENT...
	what=$1 unit=$2 field=$3
	shift 3
	timeout 20 on-node 1 "$@" -d rxe1 -x "$(index rxe1)" >/dev/null 2>&1 &
	sleep 1
	value=$(timeout 15 on-node 0 "$@" -d rxe0 -x "$(index rxe0)" 10.8.0.2 2>/dev/null |
		awk -v f="$field" '/^ [0-9]/ {print $f}')
	wait
	printf '%-28s %10s %s\n' "$what" "${value:-failed}" "$unit"
}

for size in 8 4096 65536; do
	measure "ib_write_lat $size B" us 5 ib_write_lat -s $size -n 200
done
measure "ib_read_lat 8 B" us 5 ib_read_lat -s 8 -n 200
measure "ib_atomic_lat FETCH_AND_ADD" us 5 ib_atomic_lat -A FETCH_AND_ADD -n 200
for size in 65536 1048576; do
	measure "ib_write_bw $size B" MB/s 4 ib_write_bw -s $size -n 100
done
