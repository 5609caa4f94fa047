package io.penstock.state;

import java.util.List;

/**
 * One state store of an operator, as described by the operator's metadata in the checkpoint.
 *
 * @param operator id of the operator
 * @param operatorName Spark's name of the operator
 * @param name name of the store
 * @param prefixColumns number of leading key columns that a prefix scan uses; 0: none
 * @param formatVersion version of the format of the operator's state
 * @param properties JSON of transformWithState's variables; empty for other operators
 * @param schemaFiles paths of transformWithState's schemas; empty for other operators, whose schema has a fixed path
 */
public record Store(
    long operator, String operatorName, String name, int prefixColumns, int formatVersion, String properties,
    List<String> schemaFiles) {
  boolean hasVariables() {
    return !properties.isEmpty();
  }
}
