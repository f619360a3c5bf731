#!/bin/sh
# runc of a real node: puts containers into the control group of their node by which they are found when its power is
# cut. A kubelet without groups of quality of service names no group, and containerd then has one for the whole machine.
set -eu
bundle='' previous=''
for argument; do
  if [ "$previous" = --bundle ]; then bundle=$argument; fi
  previous=$argument
done
if [ -n "$bundle" ]; then
  sed -i 's|"cgroupsPath":"[^"]*/\([^"/]*\)"|"cgroupsPath":"GROUP/\1"|' "$bundle/config.json"
fi
exec runc "$@"
