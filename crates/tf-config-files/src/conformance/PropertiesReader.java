import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Properties;

/** Reads one Base64 text a line, answers with a line of Base64 words: each key followed by its value; or "error". */
public class PropertiesReader {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        StringBuilder output = new StringBuilder();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            Properties properties = new Properties();
            try {
                properties.load(new ByteArrayInputStream(Base64.getDecoder().decode(line)));
                for (String key : properties.stringPropertyNames()) {
                    output.append(word(key)).append(' ').append(word(properties.getProperty(key))).append(' ');
                }
            } catch (IllegalArgumentException e) {
                output.append("error");
            }
            output.append('\n');
        }
        System.out.print(output);
    }

    /** The dot keeps an empty word visible. */
    private static String word(String text) {
        return "." + Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
