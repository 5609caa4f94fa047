package io.penstock.host;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class StackTextTest {
  @Test
  void theCauseBelowALongStackIsKept() {
    String frames = "\tat org.x.Y.z(Y.java:1)\n".repeat(1_000);
    String message = "Traceback:\n  File \"p.py\", line 1\nP: failed\n: org.x.Outer: waited\n" + frames + "\t... 34 more\n"
        + "Caused by: org.x.Inner: [CAST] no number\n== SQL ==\n" + frames + "\nend";
    assertEquals(
        "Traceback:\n  File \"p.py\", line 1\nP: failed\n: org.x.Outer: waited\n\tat org.x.Y.z(Y.java:1)\n"
            + "Caused by: org.x.Inner: [CAST] no number\n== SQL ==\n\tat org.x.Y.z(Y.java:1)\n\nend",
        StackText.shortened(message));
  }

  @Test
  void aLongMessageIsCut() {
    assertEquals(8_000, StackText.shortened("x".repeat(10_000)).length());
  }
}
