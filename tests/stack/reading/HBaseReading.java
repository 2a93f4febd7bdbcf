import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.hbase.thrift.generated.Hbase;
import org.apache.hadoop.hbase.thrift2.generated.THBaseService;
import org.apache.thrift.TBase;
import org.apache.thrift.TException;
import org.apache.thrift.TFieldIdEnum;
import org.apache.thrift.TProcessor;
import org.apache.thrift.TSerializer;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.protocol.TCompactProtocol;
import org.apache.thrift.protocol.TProtocol;
import org.apache.thrift.transport.TIOStreamTransport;
import org.apache.thrift.transport.TTransport;
import org.apache.thrift.transport.layered.TFramedTransport;

/**
 * What HBase's Thrift servers would execute of the bytes of a connection.
 *
 * <p>Reads from standard input, until it ends: service (1 or 2), compact (0 or 1), framed (0 or 1),
 * a length and as many bytes, all that a client ever sends. Answers on standard output with the
 * number of calls that the generated processor made, and for each its method and its arguments,
 * written again in strict binary, each behind its length.
 */
final class HBaseReading {
  private static final class Call {
    final String method;
    final byte[] arguments;

    Call(String method, byte[] arguments) {
      this.method = method;
      this.arguments = arguments;
    }
  }

  private final List<Call> calls = new ArrayList<>();
  private final TProcessor[] processors = {
    new Hbase.Processor<>(recording(Hbase.Iface.class, "thrift.generated.Hbase")),
    new THBaseService.Processor<>(
        recording(THBaseService.Iface.class, "thrift2.generated.THBaseService"))
  };

  private <I> I recording(Class<I> service, String name) {
    return service.cast(
        Proxy.newProxyInstance(
            service.getClassLoader(),
            new Class<?>[] {service},
            (proxy, method, values) -> {
              calls.add(new Call(method.getName(), arguments(name, method, values)));
              return nothing(method.getReturnType());
            }));
  }

  @SuppressWarnings({"rawtypes", "unchecked"})
  private static byte[] arguments(String service, Method method, Object[] values)
      throws ReflectiveOperationException, TException {
    String name = "org.apache.hadoop.hbase." + service + "$" + method.getName() + "_args";
    TBase whole = (TBase) Class.forName(name).getConstructor().newInstance();
    Object[] fields = Class.forName(name + "$_Fields").getEnumConstants();
    for (int at = 0; at < fields.length; at++) {
      if (values[at] != null) {
        whole.setFieldValue((TFieldIdEnum) fields[at], values[at]);
      }
    }
    return new TSerializer(new TBinaryProtocol.Factory()).serialize(whole);
  }

  private static Object nothing(Class<?> type) {
    if (type == boolean.class) {
      return false;
    }
    if (type == int.class) {
      return 0;
    }
    return type == long.class ? (Object) 0L : null;
  }

  private void serve(int service, boolean compact, boolean framed, byte[] sent) throws TException {
    TTransport transport =
        new TIOStreamTransport(new ByteArrayInputStream(sent), OutputStream.nullOutputStream());
    if (framed) {
      transport = new TFramedTransport(transport);
    }
    TProtocol protocol = compact ? new TCompactProtocol(transport) : new TBinaryProtocol(transport);
    try {
      while (true) {
        processors[service - 1].process(protocol, protocol);
      }
    } catch (TException | RuntimeException ended) {
      // As in a server: whatever the reason, the connection ends and nothing more is executed.
    }
  }

  public static void main(String[] none) throws IOException, TException {
    HBaseReading reading = new HBaseReading();
    DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
    DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
    while (true) {
      int service;
      try {
        service = in.readByte();
      } catch (EOFException end) {
        return;
      }
      boolean compact = in.readBoolean();
      boolean framed = in.readBoolean();
      byte[] sent = new byte[in.readInt()];
      in.readFully(sent);
      reading.calls.clear();
      reading.serve(service, compact, framed, sent);
      out.writeInt(reading.calls.size());
      for (Call call : reading.calls) {
        byte[] method = call.method.getBytes(StandardCharsets.UTF_8);
        out.writeInt(method.length);
        out.write(method);
        out.writeInt(call.arguments.length);
        out.write(call.arguments);
      }
      if (in.available() == 0) {
        out.flush();
      }
    }
  }
}
