#!/bin/sh
# Does what zkServer.sh of ZooKeeper's distribution does for `start-foreground FILE`, which is all that pods ask of it.
if [ "$1" != start-foreground ] || [ -z "$2" ]; then
  echo "usage: zkServer.sh start-foreground FILE" >&2
  exit 64
fi
# shellcheck disable=SC2086 # flags are words
exec java $SERVER_JVMFLAGS $JVMFLAGS -cp "/opt/zookeeper/lib/*" org.apache.zookeeper.server.quorum.QuorumPeerMain "$2"
