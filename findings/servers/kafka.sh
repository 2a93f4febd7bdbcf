# Start a Kafka 4.3.1 broker in a temporary folder. Sourced by the findings; see README.md.
#
# Sets: PYTHON (with confluent-kafka 2.16.1), KAFKA (HOST:PORT), and WORK, which is removed, with every process, when
# the script ends. Needs Python 3.11+ and Java 17 or 21; the 46 jars (43 MB) are kept in Maven's usual cache.
set -euo pipefail

WORK=$(mktemp -d)
SERVERS=()
stop_servers() {
  if ((${#SERVERS[@]})); then
    kill "${SERVERS[@]}" 2>/dev/null || true
    sleep 1
    kill -9 "${SERVERS[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
  fi
  rm -rf "$WORK"
}
trap stop_servers EXIT

python3 -m venv "$WORK/venv"
PYTHON=$WORK/venv/bin/python
"$PYTHON" -m pip install --quiet --disable-pip-version-check jgo==3.2.0 confluent-kafka==2.16.1

CLASSPATH_KAFKA=$("$PYTHON" - <<'PY'
import jgo

jars = [artifact.resolve() for artifact in jgo.resolve("org.apache.kafka:kafka_2.13:4.3.1")]
print(":".join(str(jar) for jar in jars))
PY
)
read -r BROKER CONTROLLER <<<"$("$PYTHON" - <<'PY'
import socket

sockets = [socket.socket() for _ in range(2)]
for each in sockets:
    each.bind(("127.0.0.1", 0))
print(*(each.getsockname()[1] for each in sockets))
PY
)"
KAFKA=127.0.0.1:$BROKER
cat >"$WORK/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$CONTROLLER
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://$KAFKA,CONTROLLER://127.0.0.1:$CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=$WORK/data
offsets.topic.replication.factor=1
group.initial.rebalance.delay.ms=0
PROPERTIES
run_java() { java -Xmx512m -XX:TieredStopAtLevel=1 -cp "$CLASSPATH_KAFKA" "$@"; }
CLUSTER=$(run_java kafka.tools.StorageTool random-uuid 2>"$WORK/format.log" | tail -1)
run_java kafka.tools.StorageTool format -t "$CLUSTER" -c "$WORK/server.properties" >>"$WORK/format.log" 2>&1
java -Xmx512m -XX:TieredStopAtLevel=1 -cp "$CLASSPATH_KAFKA" kafka.Kafka "$WORK/server.properties" >"$WORK/kafka.log" 2>&1 &
SERVERS+=($!)
tries=0
until (exec 3<>"/dev/tcp/127.0.0.1/$BROKER") 2>/dev/null; do
  tries=$((tries + 1))
  if ((tries > 360)); then
    echo "Kafka did not come up; the end of its log:" >&2
    tail -20 "$WORK/kafka.log" >&2
    exit 2
  fi
  sleep 0.5
done
export KAFKA
