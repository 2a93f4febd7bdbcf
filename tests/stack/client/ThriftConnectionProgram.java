import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Append;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Increment;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.util.Bytes;

/** HBase's own client for Thrift2, through the address that it is given. */
public class ThriftConnectionProgram {
    private static final byte[] F = bytes("f");

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static Put put(String row, String value) {
        return new Put(bytes(row)).addColumn(F, bytes("a"), bytes(value));
    }

    public static void main(String[] arguments) throws Exception {
        Configuration settings = HBaseConfiguration.create();
        settings.set(
            "hbase.client.connection.impl",
            "org.apache.hadoop.hbase.thrift2.client.ThriftConnection");
        settings.set("hbase.thrift.server.name", arguments[0]);
        settings.setInt("hbase.thrift.server.port", Integer.parseInt(arguments[1]));
        settings.setBoolean("hbase.regionserver.thrift.framed", arguments[2].equals("framed"));
        settings.setBoolean("hbase.regionserver.thrift.compact", arguments[3].equals("compact"));
        try (Connection connection = ConnectionFactory.createConnection(settings);
             Table table = connection.getTable(TableName.valueOf(arguments[4]))) {
            table.put(put("r1", "one"));
            table.put(java.util.List.of(put("r2", "two"), put("r3", "three")));
            System.out.println("get " + Bytes.toString(table.get(new Get(bytes("r1"))).value()));
            try (ResultScanner scanner = table.getScanner(new Scan())) {
                for (Result row : scanner) {
                    System.out.println("scan " + Bytes.toString(row.getRow()));
                }
            }
            Increment increment = new Increment(bytes("n")).addColumn(F, bytes("n"), 5);
            System.out.println("increment " + Bytes.toLong(table.increment(increment).value()));
            Append append = new Append(bytes("r1")).addColumn(F, bytes("a"), bytes("+"));
            System.out.println("append " + Bytes.toString(table.append(append).value()));
            boolean put = table.checkAndMutate(bytes("r2"), F).qualifier(bytes("a"))
                .ifEquals(bytes("two")).thenPut(put("r2", "checked"));
            System.out.println("check " + put);
            boolean not = table.checkAndMutate(bytes("r2"), F).qualifier(bytes("a"))
                .ifEquals(bytes("two")).thenPut(put("r2", "never"));
            System.out.println("check " + not);
            table.delete(new Delete(bytes("r3")));
        }
    }
}
