# Start HBase 2.6.1 with both Thrift servers in a temporary folder. Sourced by the findings; see README.md.
#
# Sets: PYTHON (with happybase 1.3.0 and thriftpy2 0.7.1), THRIFT1 and THRIFT2 (ports on 127.0.0.1), THRIFT2_IDL,
# and WORK, which is removed, with every process, when the script ends. Needs Python 3.11+ and Java 17 or 21.
# Needs about 1 GiB of memory; the 150 jars (108 MB) are kept in Maven's usual cache.
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
"$PYTHON" -m pip install --quiet --disable-pip-version-check jgo==3.2.0 happybase==1.3.0 thriftpy2==0.7.1

# The old servlet interfaces of Hadoop's tree shadow those that HBase's web server is compiled against.
CLASSPATH_HBASE=$("$PYTHON" - <<'PY'
import jgo

jars = [artifact.resolve() for artifact in jgo.resolve("org.apache.hbase:hbase-thrift:2.6.1")]
print(":".join(str(jar) for jar in jars if not jar.name.startswith(("servlet-api-2", "jsp-api"))))
PY
)

read -r ZOOKEEPER THRIFT1 THRIFT2 <<<"$("$PYTHON" - <<'PY'
import socket

sockets = [socket.socket() for _ in range(3)]
for each in sockets:
    each.bind(("127.0.0.1", 0))
print(*(each.getsockname()[1] for each in sockets))
PY
)"

mkdir "$WORK/conf" "$WORK/data"
property() { printf '<property><name>%s</name><value>%s</value></property>\n' "$1" "$2"; }
{
  echo '<configuration>'
  property hbase.cluster.distributed false
  property hbase.rootdir "file://$WORK/data/hbase"
  property hbase.tmp.dir "$WORK/data/tmp"
  property hbase.wal.provider filesystem
  property hbase.unsafe.stream.capability.enforce false
  property hbase.localcluster.assign.random.ports true
  property hbase.master.hostname localhost
  property hbase.regionserver.hostname localhost
  property hbase.master.ipc.address 127.0.0.1
  property hbase.regionserver.ipc.address 127.0.0.1
  property hbase.master.info.port -1
  property hbase.regionserver.info.port -1
  property hbase.master.wait.on.regionservers.maxtostart 1
  property hbase.zookeeper.quorum 127.0.0.1
  property hbase.zookeeper.property.clientPort "$ZOOKEEPER"
  property hbase.zookeeper.property.dataDir "$WORK/data/zookeeper"
  property zookeeper.session.timeout.localHBaseCluster 120000
  property hbase.zookeeper.property.tickTime 6000
  property hbase.zookeeper.property.maxSessionTimeout 180000
  echo '</configuration>'
} >"$WORK/conf/hbase-site.xml"
cat >"$WORK/conf/log4j.properties" <<'LOG4J'
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p %c{2}: %m%n
LOG4J

OPENED=()
for package in java.nio sun.nio.ch java.lang java.lang.reflect jdk.internal.ref; do
  OPENED+=("--add-opens=java.base/$package=ALL-UNNAMED")
done
for package in jdk.internal.misc sun.net.dns sun.net.util; do
  OPENED+=("--add-exports=java.base/$package=ALL-UNNAMED")
done
start_java() { # name of the log, heap, main class, arguments
  local name=$1 heap=$2
  shift 2
  java "-Xmx$heap" -XX:TieredStopAtLevel=1 -Dorg.apache.hbase.thirdparty.io.netty.tryReflectionSetAccessible=true \
    --add-modules=jdk.unsupported "${OPENED[@]}" \
    --add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED \
    -cp "$WORK/conf:$CLASSPATH_HBASE" "$@" >"$WORK/$name.log" 2>&1 &
  SERVERS+=($!)
}
wait_until() { # what is waited for, the log to show when it does not come, a command
  local what=$1 log=$2 tries=0
  shift 2
  until "$@" >/dev/null 2>&1; do
    tries=$((tries + 1))
    if ((tries > 360)); then
      echo "$what did not come up; the end of its log:" >&2
      tail -20 "$log" >&2
      exit 2
    fi
    sleep 0.5
  done
}
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1"); }

start_java master 1g org.apache.hadoop.hbase.master.HMaster start
wait_until "HBase" "$WORK/master.log" grep -q "Master has completed initialization" "$WORK/master.log"
start_java thrift1 384m org.apache.hadoop.hbase.thrift.ThriftServer start -p "$THRIFT1" -b 127.0.0.1 --infoport -1
start_java thrift2 384m org.apache.hadoop.hbase.thrift2.ThriftServer start -p "$THRIFT2" -b 127.0.0.1 --infoport -1
wait_until "Thrift1" "$WORK/thrift1.log" listens "$THRIFT1"
wait_until "Thrift2" "$WORK/thrift2.log" listens "$THRIFT2"

THRIFT2_IDL=$WORK/hbase2.thrift
"$PYTHON" - "$CLASSPATH_HBASE" "$THRIFT2_IDL" <<'PY'
import sys
import zipfile
from pathlib import Path

jar = next(each for each in sys.argv[1].split(":") if Path(each).name == "hbase-thrift-2.6.1.jar")
with zipfile.ZipFile(jar) as archive:
    name = next(each for each in archive.namelist() if each.endswith("thrift2/hbase.thrift"))
    Path(sys.argv[2]).write_bytes(archive.read(name))
PY
export THRIFT1 THRIFT2 THRIFT2_IDL
