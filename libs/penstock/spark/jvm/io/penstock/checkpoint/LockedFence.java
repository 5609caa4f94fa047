package io.penstock.checkpoint;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLockInterruptionException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.commons.io.function.IORunnable;

/**
 * Checks and publishes in one step, while it holds {@code FENCE.lock}. A new owner writes FENCE only while it holds the
 * same lock (an fcntl lock, as taken by Python's {@code fcntl.lockf}).
 */
final class LockedFence implements Fence {
  // A file lock belongs to the whole JVM: a second thread would get OverlappingFileLockException instead of waiting.
  private static final ConcurrentMap<Path, ReentrantLock> THREADS = new ConcurrentHashMap<>();

  private final Path file;
  private final Path lockFile;
  private final String token;
  private final ReentrantLock threads;

  LockedFence(Path file, String token) {
    this.file = file.toAbsolutePath().normalize();
    this.lockFile = this.file.resolveSibling(this.file.getFileName() + ".lock");
    this.token = token;
    this.threads = THREADS.computeIfAbsent(this.file, path -> new ReentrantLock());
  }

  @Override
  public void guard(IORunnable publish) throws IOException {
    try {
      threads.lockInterruptibly();
    } catch (InterruptedException error) {
      throw interrupted();
    }
    try {
      guardAmongProcesses(publish);
    } catch (FileLockInterruptionException error) {
      throw interrupted();
    } finally {
      threads.unlock();
    }
  }

  private void guardAmongProcesses(IORunnable publish) throws IOException {
    try (FileChannel channel = FileChannel.open(lockFile, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
      channel.lock();
      Fence.require(token, Files.readString(file), file);
      publish.run();
    } catch (NoSuchFileException error) {
      // Whoever deleted the checkpoint or its FENCE is the owner now.
      throw Files.exists(file) ? error : new FencedException("there is no " + file);
    }
  }

  /** The exception by which Spark recognises that a query is being stopped. */
  private static InterruptedIOException interrupted() {
    Thread.currentThread().interrupt();
    return new InterruptedIOException("interrupted while waiting for the fence");
  }
}
