#!/bin/sh
# The first process of a guest: mounts what every Linux has, runs the suite, and turns the machine off.
# What the suite says goes to the second serial port, and its exit code after it.
export PATH=/usr/sbin:/usr/bin:/applets HOME=/
/usr/bin/busybox --install -s /applets
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mount -t bpf bpf /sys/fs/bpf
# All that the suite uses: loaded on demand by two tests at once, the second may come too early.
for module in veth bridge 8021q br_netfilter nf_conntrack nft_chain_nat nft_masq nft_ct nft_compat \
    nft_meta_bridge xt_MASQUERADE xt_conntrack sch_ingress cls_bpf; do
    modprobe $module || echo "no $module"
done
ip link set lo up
cd /
exec >/dev/ttyS1 2>&1
uname -r
# Some tests, or the core of all.
if [ -f /filter ]; then set -- "$(cat /filter)"; else export EBPF_BRIDGE_LAB_CORE=1; fi
EBPF_BRIDGE_BIN=/opt/ebpf-bridge /opt/lab --color=never --test-threads=3 "$@"
echo "exit code $?"
sync
reboot -f
