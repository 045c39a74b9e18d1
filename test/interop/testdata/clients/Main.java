import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.file.Path;
import java.time.Instant;

/** Calls each URL on the standard input and prints the status, or the error. "later" makes the token a minute older. */
class Main {
    public static void main(String[] arguments) throws Exception {
        Client client = new Client(Path.of(arguments[0]));
        var urls = new BufferedReader(new InputStreamReader(System.in));
        for (String url = urls.readLine(); url != null; url = urls.readLine()) {
            if (url.equals("later")) {
                var issued = Client.class.getDeclaredField("issued");
                issued.setAccessible(true);
                issued.set(client, ((Instant) issued.get(client)).minusSeconds(60));
                continue;
            }
            try {
                System.out.println(client.get(URI.create(url)).statusCode());
            } catch (IOException e) {
                System.out.println(e.toString().replace('\n', ' '));
            }
        }
    }
}
