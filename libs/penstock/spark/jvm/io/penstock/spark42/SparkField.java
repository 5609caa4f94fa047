package io.penstock.spark42;

import java.lang.reflect.Field;

/** A private field of a class of Spark, for parts that Spark does not let its users choose. */
record SparkField(Class<?> owner, String name) {
  /** Sets the field of {@code target}. Raises IllegalStateException when Spark has no such field of this type. */
  void set(Object target, Object value) {
    try {
      found().set(target, value);
    } catch (ReflectiveOperationException | IllegalArgumentException error) {
      throw new IllegalStateException(owner.getName() + " of Spark has no " + name + " that can be set", error);
    }
  }

  /** The field of {@code target}. Raises IllegalStateException when Spark has no such field. */
  Object get(Object target) {
    try {
      return found().get(target);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(owner.getName() + " of Spark has no " + name, error);
    }
  }

  Class<?> type() throws NoSuchFieldException {
    return found().getType();
  }

  private Field found() throws NoSuchFieldException {
    Field field = owner.getDeclaredField(name);
    field.setAccessible(true);
    return field;
  }
}
