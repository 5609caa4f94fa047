package io.penstock.checkpoint;

import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import java.util.stream.Stream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * The fence of a checkpoint on a file system without locks: a log of numbered slots, each made by one of several
 * writers ({@link NewFiles}).
 *
 * <p>A slot is a claim, or an entry: a file of the checkpoint's logs that the owner publishes. An owner appends after
 * the last slot that it knows. If that slot is taken, a newer owner has claimed the checkpoint, and nothing is
 * published. The file itself is written after its slot, by the owner, or by the next one who claims: so what is in the
 * log is never lost, and what is not never appears.
 *
 * <p>Slots of claims stay as long as the checkpoint, so a late owner always meets the claim that followed it.
 */
public final class FenceLog {
  private static final String SUFFIX = ".log";
  private static final String CLAIM = "claim ";
  private static final String ENTRY = "entry ";

  private final FileSystem files;
  private final Path checkpoint;
  private final Path folder;

  /** {@code fence}: the path of the FENCE file that checkpoints with locks have. */
  public FenceLog(FileSystem files, Path fence) {
    this.files = files;
    checkpoint = fence.getParent();
    folder = fence.suffix(SUFFIX);
  }

  /** A slot that is there. {@code text}: of a claim; {@code name} and {@code content}: of an entry. */
  record Slot(long number, String text, String name, byte[] content) {
    boolean isClaim() {
      return text != null;
    }
  }

  /** The newest claim, after the file of the newest entry is there. Null without any. */
  public String newestClaim() throws IOException {
    List<Long> numbers = numbers();
    if (!numbers.isEmpty()) {
      complete(read(numbers.get(0)));
    }
    Slot claim = newestClaimOf(numbers);
    return claim == null ? null : claim.text();
  }

  /**
   * Claims the checkpoint with this text if {@code expected} is still the newest claim, null for none. Returns false
   * when it is not, or another owner was quicker: then nothing has changed.
   */
  public boolean claim(String expected, String text) throws IOException {
    List<Long> numbers = numbers();
    long last = numbers.isEmpty() ? 0 : numbers.get(0);
    Slot newest = last == 0 ? null : read(last);
    complete(newest);
    Slot claim = newestClaimOf(numbers);
    if (!Objects.equals(expected, claim == null ? null : claim.text())) {
      return false;
    }
    boolean mine = append(last + 1, CLAIM + UUID.randomUUID() + "\n" + text);
    if (mine && newest != null && !newest.isClaim()) {
      forget(newest.number());
    }
    return mine;
  }

  /** The number of the newest slot; 0 without any. */
  long last() throws IOException {
    List<Long> numbers = numbers();
    return numbers.isEmpty() ? 0 : numbers.get(0);
  }

  /** Throws unless the newest claim is of this token. Returns the number of the newest slot, whose file is there. */
  long requireNewest(String token) throws IOException {
    List<Long> numbers = numbers();
    Slot claim = newestClaimOf(numbers);
    Fence.require(token, claim == null ? "" : claim.text(), folder);
    complete(read(numbers.get(0)));
    return numbers.get(0);
  }

  /** Publishes a file of the checkpoint in the slot of this number. Throws when a newer owner has taken it. */
  void publish(long number, String token, Path file, byte[] content) throws IOException {
    String name = file.getParent().getName() + "/" + file.getName();
    ByteArrayOutputStream slot = new ByteArrayOutputStream();
    slot.writeBytes((ENTRY + UUID.randomUUID() + " " + name + "\n").getBytes(StandardCharsets.UTF_8));
    slot.writeBytes(content);
    if (!NewFiles.create(files, path(number), slot.toByteArray())) {
      requireNewest(token);
      throw new FencedException("another owner of " + checkpoint + " has the token " + token);
    }
    write(file, content);
  }

  /** The owner's own slot of an entry whose file is there is of no use once there is a later one. */
  void forget(long number) throws IOException {
    files.delete(path(number), false);
  }

  /** Whether a file is published in the log: plans and commits of batches are. */
  boolean isEntry(Path file) {
    Path log = file.getParent();
    boolean isLog = log.getName().equals("offsets") || log.getName().equals("commits");
    return isLog && log.getParent().toUri().getPath().equals(checkpoint.toUri().getPath());
  }

  private boolean append(long number, String text) throws IOException {
    return NewFiles.create(files, path(number), text.getBytes(StandardCharsets.UTF_8));
  }

  private void complete(Slot slot) throws IOException {
    if (slot != null && !slot.isClaim()) {
      write(new Path(checkpoint, slot.name()), slot.content());
    }
  }

  /** An owner that was late may have left another file there, when the checkpoint was cleared meanwhile. */
  private void write(Path file, byte[] content) throws IOException {
    if (NewFiles.create(files, file, content)) {
      return;
    }
    if (!NewFiles.appearsAtClose(files)) {
      files.delete(file, false);
      NewFiles.create(files, file, content);
      return;
    }
    try (FSDataOutputStream stream = NewFiles.open(files, file, false)) {
      stream.write(content);
    }
  }

  private Slot newestClaimOf(List<Long> numbers) throws IOException {
    for (long number : numbers) {
      Slot slot = read(number);
      if (slot != null && slot.isClaim()) {
        return slot;
      }
    }
    return null;
  }

  /** Null when the slot, of an entry, was deleted meanwhile. */
  private Slot read(long number) throws IOException {
    byte[] slot;
    try {
      slot = NewFiles.read(files, path(number));
    } catch (FileNotFoundException deleted) {
      return null;
    }
    int end = 0;
    while (end < slot.length && slot[end] != '\n') {
      end++;
    }
    String head = new String(slot, 0, end, StandardCharsets.UTF_8);
    byte[] rest = end < slot.length ? Arrays.copyOfRange(slot, end + 1, slot.length) : new byte[0];
    if (head.startsWith(CLAIM)) {
      return new Slot(number, new String(rest, StandardCharsets.UTF_8), null, null);
    }
    String[] words = head.split(" ", 3);
    if (words.length < 3 || !head.startsWith(ENTRY)) {
      throw new IOException("no slot of a fence: " + path(number));
    }
    return new Slot(number, null, words[2], rest);
  }

  /** Newest first. */
  private List<Long> numbers() throws IOException {
    return Stream.of(NewFiles.list(files, folder)).map(FileStatus::getPath).map(Path::getName)
        .filter(name -> name.chars().allMatch(Character::isDigit)).map(Long::valueOf)
        .sorted(Comparator.reverseOrder()).toList();
  }

  private Path path(long number) {
    return new Path(folder, String.format("%012d", number));
  }
}
