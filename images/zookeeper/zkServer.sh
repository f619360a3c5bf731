#!/bin/sh
# Does what zkServer.sh of ZooKeeper's distribution does for `start-foreground FILE`, which is all that pods ask of it.
if [ "$1" != start-foreground ] || [ -z "$2" ]; then
  echo "usage: zkServer.sh start-foreground FILE" >&2
  exit 64
fi
# For the laboratory alone, where servers start often: no compiler that needs as much as the server. Whatever is said about Java comes after it.
# The folder of the configuration comes first, as in zkEnv.sh, so that what is there about logging counts. What the image says is for its tools.
unset JDK_JAVA_OPTIONS
# shellcheck disable=SC2086 # flags are words
exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 $SERVER_JVMFLAGS $JVMFLAGS -cp "${ZOOCFGDIR:-/opt/zookeeper/conf}:/opt/zookeeper/lib/*" org.apache.zookeeper.server.quorum.QuorumPeerMain "$2"
