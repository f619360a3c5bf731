#!/bin/sh
# Does what kafka-server-start.sh of Kafka's distribution does for `FILE`, which is all that pods ask of it. It logs to standard output and
# nowhere else: the container runtime keeps and rotates it.
if [ $# -ne 1 ]; then
  echo "usage: kafka-server-start.sh server.properties" >&2
  exit 64
fi
# Each of Java's threads would have its own reserve of memory.
export MALLOC_ARENA_MAX=1
# For the laboratory alone, where servers start often: no compiler that needs as much as the server, and less memory than the distribution takes.
# shellcheck disable=SC2086 # flags are words
exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 ${KAFKA_HEAP_OPTS:--Xms64M -Xmx160M} $KAFKA_OPTS \
  -Dlog4j.configuration=file:/opt/kafka/config/log4j.properties -cp "/opt/kafka/libs/*" kafka.Kafka "$1"
