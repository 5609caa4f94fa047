package io.penstock.sources;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.Optional;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Schema;

/**
 * A schema registry that speaks Confluent's REST, and who asks it.
 *
 * @param url without a path of the REST itself
 * @param username null: nobody logs in
 */
public record Registry(String url, String username, String password) implements Serializable {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int SCHEMA_NOT_FOUND = 40403;

  /** One client for all registries of this JVM, made when it is first needed. */
  private static final class Client {
    static final Duration TIMEOUT = Duration.ofSeconds(10);
    static final HttpClient HTTP = HttpClient.newBuilder()
        .version(HttpClient.Version.HTTP_1_1).connectTimeout(Duration.ofSeconds(5)).build();
  }

  /** What a plan or log may show. */
  @Override
  public String toString() {
    return url;
  }

  /**
   * The schema of Avro with this id; empty when the registry says that it has no such id.
   *
   * <p>Throws RegistryException when the registry gives no such answer: it is away, refuses the login, or something else
   * answers. Throws UnreadableValueException for a schema of another kind.
   */
  public Optional<Schema> avro(int id) {
    return ofKind("AVRO", id, "").map(this::parsed);
  }

  /**
   * The schema of Protobuf with this id: the base64 of a file's descriptor, or the text of the file where the registry
   * does not give that. Otherwise as for Avro.
   */
  public Optional<String> protobuf(int id) {
    return ofKind("PROTOBUF", id, "?format=serialized").map(found -> found.path("schema").asText());
  }

  private Optional<JsonNode> ofKind(String wanted, int id, String query) {
    HttpResponse<String> answer = get("/schemas/ids/" + Integer.toUnsignedString(id) + query);
    if (answer.statusCode() == 404 && json(answer).path("error_code").asInt() == SCHEMA_NOT_FOUND) {
      return Optional.empty();
    }
    JsonNode found = json(requireOk(answer));
    String kind = found.path("schemaType").asText("AVRO");
    if (!kind.equals(wanted)) {
      throw new UnreadableValueException("the schema " + Integer.toUnsignedString(id) + " of the registry is of " + kind);
    }
    return Optional.of(found);
  }

  private Schema parsed(JsonNode found) {
    try {
      return parse(found, new Schema.Parser());
    } catch (AvroRuntimeException unreadable) {
      throw new RegistryException(this + " gave a schema that Avro cannot read: " + unreadable.getMessage(), unreadable);
    }
  }

  /** Parses what the schema refers to before itself. */
  private Schema parse(JsonNode found, Schema.Parser parser) {
    for (JsonNode reference : found.path("references")) {
      if (!parser.getTypes().containsKey(reference.path("name").asText())) {
        String subject = URLEncoder.encode(reference.path("subject").asText(), StandardCharsets.UTF_8);
        parse(json(requireOk(get("/subjects/" + subject + "/versions/" + reference.path("version").asInt()))), parser);
      }
    }
    return parser.parse(found.path("schema").asText());
  }

  private HttpResponse<String> get(String path) {
    HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url.replaceAll("/+$", "") + path))
        .timeout(Client.TIMEOUT).header("Accept", "application/vnd.schemaregistry.v1+json");
    if (username != null) {
      byte[] login = (username + ":" + password).getBytes(StandardCharsets.UTF_8);
      request.header("Authorization", "Basic " + Base64.getEncoder().encodeToString(login));
    }
    try {
      return Client.HTTP.send(request.build(), HttpResponse.BodyHandlers.ofString());
    } catch (InterruptedException error) {
      // The exception by which Spark recognises that a query is being stopped.
      Thread.currentThread().interrupt();
      throw new UncheckedIOException(new InterruptedIOException("interrupted while the schema registry was asked"));
    } catch (IOException error) {
      throw new RegistryException("the schema registry " + this + " does not answer: " + error, error);
    }
  }

  private HttpResponse<String> requireOk(HttpResponse<String> answer) {
    int status = answer.statusCode();
    if (status == 401 || status == 403) {
      String who = username == null ? "a client without a login" : "the user " + username;
      throw new RegistryException(
          "the schema registry " + this + " refuses " + who + " (" + status
              + "): check PENSTOCK_SCHEMA_REGISTRY_USERNAME and its password file", null);
    }
    if (status != 200) {
      throw new RegistryException("the schema registry " + this + " answers " + answer.uri().getPath() + " with " + status, null);
    }
    return answer;
  }

  private JsonNode json(HttpResponse<String> answer) {
    try {
      JsonNode found = JSON.readTree(answer.body());
      return found == null ? JSON.createObjectNode() : found;
    } catch (IOException notJson) {
      throw new RegistryException(this + " does not answer as a schema registry (status " + answer.statusCode() + ")", notJson);
    }
  }
}
