package io.penstock.kafka.sink.series;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;

/** The hash of a batch's end offsets, which tells whether a repeated batch covers the same input. */
public final class OffsetsHash {
  private static final int CHARACTERS = 32;

  private OffsetsHash() {}

  /** Hashes the end offsets of the sources in the order of the query. The result has 32 hexadecimal characters. */
  public static String of(List<String> offsets) {
    try {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      for (String offset : offsets) {
        byte[] text = offset.getBytes(StandardCharsets.UTF_8);
        digest.update((text.length + ":").getBytes(StandardCharsets.UTF_8));
        digest.update(text);
      }
      return HexFormat.of().formatHex(digest.digest()).substring(0, CHARACTERS);
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException("every Java has SHA-256", error);
    }
  }
}
