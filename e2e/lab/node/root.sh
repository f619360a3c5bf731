#!/bin/sh
# Gives a machine of the lab a root of its own. Runs in the machine's mount, network and UTS namespaces; everything it
# mounts ends with them. The machine shares programs and devices with its host and nothing it could write to, so paths
# are the usual ones on every machine (/var/lib/kubelet, /run/containerd, /etc/cni/net.d), and a hostPath of a pod is the
# machine's.
#
# Arguments: NAME, FOLDER of the machine's own files, PACKAGES (a tree with a usr to lay over the host's, or empty),
# CONTROLPLANE (the binary with kubelet and kube-proxy), DISK (size in bytes of the file system of /var, or empty).
set -eu
name=$1 own=$2 packages=$3 controlplane=$4 disk=$5
new=$own/root

echo "$name" >/proc/sys/kernel/hostname
mkdir -p "$new" "$own/etc" "$own/var" "$own/opt/cni/bin" "$own/opt/lab"
mount -t tmpfs -o mode=755 tmpfs "$new"
cd "$new"
mkdir -p dev proc sys usr etc var opt run root home mnt srv old
mkdir -m 1777 tmp
for dir in bin sbin lib lib32 lib64 libx32; do
  if [ -L "/$dir" ]; then
    cp -P "/$dir" .
  elif [ -d "/$dir" ]; then
    mkdir "$dir" && mount --rbind "/$dir" "$dir" && mount -o remount,bind,ro "$dir"
  fi
done
if [ -n "$packages" ]; then
  mount -t overlay -o "ro,lowerdir=$packages/usr:/usr" overlay usr
else
  mount --rbind /usr usr && mount -o remount,bind,ro usr
fi

# The host's own settings stay the host's. What programs need to find names and services is copied once.
for file in passwd group nsswitch.conf protocols services ssl ld.so.conf ld.so.conf.d ld.so.cache alternatives; do
  if [ -e "/etc/$file" ] && ! [ -e "$own/etc/$file" ]; then cp -a "/etc/$file" "$own/etc/"; fi
done
mount --bind "$own/etc" etc
if [ -z "$disk" ]; then
  mount --bind "$own/var" var
else
  if ! [ -e "$own/disk" ]; then
    # Nothing of it is kept when the host loses its power, so no journal; the file takes the space of what is written.
    truncate -s "$disk" "$own/disk.new"
    mkfs.ext4 -q -F -m 0 -O ^has_journal -i 65536 -E lazy_itable_init=1,nodiscard "$own/disk.new"
    mv "$own/disk.new" "$own/disk"
  fi
  # The kernel takes mounts down some time after the last process of a node that was switched off.
  tries=0
  while [ -n "$(losetup --associated "$own/disk")" ]; do
    tries=$((tries + 1))
    if [ "$tries" -gt 200 ]; then echo "$own/disk is still mounted" >&2; exit 1; fi
    sleep 0.1
  done
  # The loop device is freed with the mount.
  mount -t ext4 -o loop,noinit_itable,discard "$own/disk" var
fi
mount --bind "$own/opt" opt
mkdir -p var/lib var/log var/tmp var/cache
ln -sfn /run var/run
mount -t tmpfs -o mode=755 tmpfs run

mount -t proc proc proc
# The kubelet sets these for the whole machine. On a node it finds files that take what it writes; parameters of the network
# are the namespace's own.
mkdir run/sysctl
for parameter in kernel/keys/root_maxbytes kernel/keys/root_maxkeys kernel/panic kernel/panic_on_oops \
  vm/overcommit_memory vm/panic_on_oom; do
  file=run/sysctl/${parameter##*/}
  cat "proc/sys/$parameter" >"$file"
  mount --bind "$file" "proc/sys/$parameter"
done
mount -t sysfs sysfs sys
mount --rbind /sys/fs/cgroup sys/fs/cgroup
mount --rbind /dev dev

for plugin in usr/lib/cni/* usr/libexec/cni/*; do
  if [ -f "$plugin" ]; then ln -sf "/$plugin" opt/cni/bin/; fi
done
touch opt/lab/controlplane
mount --bind "$controlplane" opt/lab/controlplane

for forward in ipv4/ip_forward ipv6/conf/all/forwarding; do
  # A machine may have no IPv6.
  if [ -e "/proc/sys/net/$forward" ]; then echo 1 >"/proc/sys/net/$forward"; fi
done
pivot_root . old
cd /
umount -l /old
rmdir /old
