import java.io.ByteArrayInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Sends 100 token requests at a time on one HTTP/2 connection, and prints how often there was each result. */
class ManyRequests {
    public static void main(String[] args) throws Exception {
        Map<String, String> env = System.getenv();
        KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null, null);
        var file = new ByteArrayInputStream(env.get("AUTHORITY").getBytes());
        trusted.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(file));
        var factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(trusted);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, factory.getTrustManagers(), null);
        HttpClient client = HttpClient.newBuilder().sslContext(context).build();
        HttpRequest request = HttpRequest.newBuilder(URI.create(env.get("TOKEN_URL")))
            .header("Content-Type", "application/x-www-form-urlencoded")
            .POST(HttpRequest.BodyPublishers.ofString(env.get("BODY"))).build();

        client.send(request, BodyHandlers.ofString()); // The others use its connection.
        Map<String, Integer> results = new TreeMap<>();
        for (int round = 0; round < 5; round++) {
            var sent = Stream.generate(() -> client.sendAsync(request, BodyHandlers.ofString())
                .handle((response, error) -> error != null ? error.toString() : response.version() + " " + response.statusCode()))
                .limit(100).toArray(CompletableFuture[]::new);
            for (var result : sent) {
                results.merge((String) result.join(), 1, Integer::sum);
            }
        }
        System.out.println(results);
    }
}
