import java.io.File;
import java.io.StringReader;
import java.util.Scanner;
import javax.xml.XMLConstants;
import javax.xml.transform.stream.StreamSource;
import javax.xml.validation.Schema;
import javax.xml.validation.SchemaFactory;
import org.xml.sax.SAXException;

/** Holds documents, ended by NUL on standard input, against the XML Schema in a file: a line each. */
public final class Validate {
    private Validate() {}

    public static void main(String[] arguments) throws Exception {
        Schema schema =
                SchemaFactory.newInstance(XMLConstants.W3C_XML_SCHEMA_NS_URI)
                        .newSchema(new File(arguments[0]));
        Scanner documents = new Scanner(System.in, "UTF-8").useDelimiter("\0");
        while (documents.hasNext()) {
            try {
                schema.newValidator()
                        .validate(new StreamSource(new StringReader(documents.next())));
                System.out.println("valid");
            } catch (SAXException error) {
                System.out.println(error.getMessage().replace('\n', ' '));
            }
        }
    }
}
