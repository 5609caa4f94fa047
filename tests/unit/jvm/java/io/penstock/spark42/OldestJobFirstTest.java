package io.penstock.spark42;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.reflect.Proxy;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.SchedulingAlgorithm;
import org.junit.jupiter.api.Test;

class OldestJobFirstTest {
  private static final OldestJobFirst ORDER = new OldestJobFirst();

  @Test
  void aPoolWithFewerRunningTasksComesFirst() {
    assertEquals("b a", sorted(pool("a", 1, 3), pool("b", 0, 7)));
  }

  @Test
  void ofPoolsWithAsManyTheOldestWaitingJobComesFirstWhateverTheName() {
    assertEquals("task-9 task-10 default", sorted(pool("default", 0, 12, 8), pool("task-10", 0, 7), pool("task-9", 0, 5)));
  }

  @Test
  void aPoolWithoutJobsComesLast() {
    assertEquals("b a", sorted(pool("a", 0), pool("b", 0, 1)));
  }

  @Test
  void theAlgorithmOfAPoolCanBeSet() throws NoSuchFieldException {
    assertEquals(SchedulingAlgorithm.class, OldestJobFirst.ALGORITHM.type());
  }

  private static String sorted(Schedulable... pools) {
    return Stream.of(pools)
        .sorted((first, second) -> first == second ? 0 : ORDER.comparator(first, second) ? -1 : 1)
        .map(Schedulable::name)
        .collect(Collectors.joining(" "));
  }

  private static Schedulable pool(String name, int running, int... jobs) {
    ConcurrentLinkedQueue<Schedulable> waiting = new ConcurrentLinkedQueue<>();
    for (int job : jobs) {
      waiting.add(like(Map.of("priority", job)));
    }
    return like(Map.of("name", name, "runningTasks", running, "schedulableQueue", waiting));
  }

  private static Schedulable like(Map<String, Object> answers) {
    Class<?>[] type = {Schedulable.class};
    return (Schedulable)
        Proxy.newProxyInstance(type[0].getClassLoader(), type, (proxy, method, given) -> answers.get(method.getName()));
  }
}
