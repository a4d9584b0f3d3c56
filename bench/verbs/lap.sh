#!/usr/bin/sh
# SPDX-License-Identifier: Apache-2.0
# lap.sh FIRST: in the virtual machine of tests/rxe, each row once by perftest and once by host_peer
# (oriel), latencies also by windows (proxied, put_lat), 1 MiB also by p2p endpoints straight from and to
# registered memory (p2p), one after the other; FIRST (perftest,
# oriel) begins. Prints: WHO TEST BYTES FIGURE, in us or 10^6 bytes a second.
first=$1

index() { # of the address of RoCE v2 with IPv4
	grep -l 0000:0000:0000:0000:0000:ffff: "/sys/class/infiniband/$1/ports/1/gids/"* |
		sed 's,.*/,,' | head -n 1
}

index0=$(index rxe0) index1=$(index rxe1)

# Until the server listens: 18515 is 4853 in hex, 0A its state.
listening() {
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		if ip netns exec node1 grep -q ':4853 00000000:0000 0A' /proc/net/tcp; then
			return
		fi
		sleep 0.1
	done
}

perftest() { # perftest TEST BYTES ROUNDS
	size=$2 rounds=$3 more="" field=5 scale=1
	case $1 in
	write_lat) program=ib_write_lat ;;
	write_bw) program=ib_write_bw field=4 scale=1.048576 ;; # it means 2^20 by M
	atomic_lat) program=ib_atomic_lat more='-A FETCH_AND_ADD' ;;
	esac
	[ "$program" = ib_atomic_lat ] || more="-s $size"
	# shellcheck disable=SC2086 # words
	timeout 30 on-node 1 taskset 2 $program -d rxe1 -x "$index1" -n "$rounds" $more \
		>/dev/null 2>&1 &
	listening
	# shellcheck disable=SC2086
	timeout 30 on-node 0 taskset 1 $program -d rxe0 -x "$index0" -n "$rounds" $more 10.8.0.2 \
		2>/dev/null | awk -v t="$1" -v b="$size" -v f=$field -v s=$scale \
		'/^ [0-9]/ {print "perftest", t, b, $f * s}'
	wait
}

oriel() { # oriel TEST BYTES ROUNDS
	timeout 30 ./host_peer rxe0 rxe1 "$@" | sed 's/^/oriel /'
}

# Ranks on two nodes, each with a device of its own, to which a thread posts. The number of rounds is
# that of the other rows: 30 ms would be few rounds, and all of them slow after a slow start.
windows() { # windows NAME PERF-TEST TEST BYTES ROUNDS
	[ "$3" = write_lat ] || return 0
	# shellcheck disable=SC2016 # expanded on each node
	timeout 60 two-nodes sh -c 'ORIEL_HCA="=$RXE_DEVICE" exec ./oriel perf "$1" \
		--sizes "$2" --iters "$3" --reps 1 --json' sh "$2" "$4" "$5" 2>/dev/null |
		sed -n "s/.*\"median_us\":\([0-9.]*\).*/$1 $3 $4 \1/p"
}

proxied() { # proxied TEST BYTES ROUNDS
	windows proxied put_poll_lat "$1" "$2" "$3"
}

put_lat() { # put_lat TEST BYTES ROUNDS
	windows put_lat put_lat "$1" "$2" "$3"
}

# Sends between p2p endpoints, beside writes.
p2p() { # p2p TEST BYTES ROUNDS
	[ "$1 $2" = "write_bw 1048576" ] || return 0
	timeout 30 ./host_peer rxe0 rxe1 p2p_bw "$2" "$3" | sed 's/^p2p_bw/p2p write_bw/'
}

while read -r test bytes rounds; do
	if [ "$first" = oriel ]; then
		oriel "$test" "$bytes" "$rounds"
		perftest "$test" "$bytes" "$rounds"
		proxied "$test" "$bytes" "$rounds"
		put_lat "$test" "$bytes" "$rounds"
		p2p "$test" "$bytes" "$rounds"
	else
		p2p "$test" "$bytes" "$rounds"
		put_lat "$test" "$bytes" "$rounds"
		proxied "$test" "$bytes" "$rounds"
		perftest "$test" "$bytes" "$rounds"
		oriel "$test" "$bytes" "$rounds"
	fi
done <rows
