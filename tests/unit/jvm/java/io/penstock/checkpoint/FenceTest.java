package io.penstock.checkpoint;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class FenceTest {
  @Test
  void theNewestTokenPasses() {
    assertDoesNotThrow(() -> Fence.require("3.1", "3.1\nheld by host-7\n", "FENCE"));
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "\n", "3.1\n"})
  void withoutATokenNothingPasses(String content) {
    assertThrows(FencedException.class, () -> Fence.require("", content, "FENCE"));
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "\n3.1\n", "3.2\n", "13.1\n", "3.10\n"})
  void anyOtherFirstLineFences(String content) {
    FencedException fenced = assertThrows(FencedException.class, () -> Fence.require("3.1", content, "FENCE"));
    assertTrue(fenced.getMessage().startsWith("FENCED"), fenced.getMessage());
  }
}
