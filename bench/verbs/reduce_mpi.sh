#!/usr/bin/sh
# SPDX-License-Identifier: Apache-2.0
# reduce_mpi.sh BYTES...: in the virtual machine of tests/rxe, for reduce.py: a rank of reduce_mpi on
# each node, by TCP. `openmpi` has the files of Open MPI at their paths; those of libc, which are in
# use, are there. on-node stands in for ssh.
(cd openmpi && find . -type f) | while read -r file; do
	[ -e "/$file" ] || { mkdir -p "/${file%/*}" && cp "openmpi/$file" "/$file"; }
done
printf '127.0.0.1 localhost\n10.8.0.1 node0\n10.8.0.2 node1\n' >/etc/hosts
echo 'hosts: files' >/etc/nsswitch.conf
cat >/tmp/agent <<'END'
#!/usr/bin/sh
node=${1#node}
shift
exec on-node "$node" sh -c "$*"
END
chmod +x /tmp/agent
export HOME=/tmp OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PMIX_MCA_pcompress_base_silence_warning=1
# In the background orted would end with the pid namespace of its node.
exec on-node 0 orterun -np 2 --host node0,node1 --leave-session-attached \
	--mca plm_rsh_agent /tmp/agent --mca oob_tcp_if_include 10.8.0.0/24 \
	--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include 10.8.0.0/24 \
	"$PWD/reduce_mpi" "$@" </dev/null
