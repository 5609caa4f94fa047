package io.penstock.state;

import java.util.List;

/**
 * One state store of an operator, as the operator's metadata in the checkpoint names it.
 *
 * @param operator id of the operator
 * @param operatorName Spark's name of the operator
 * @param name of the store
 * @param prefixColumns how many leading columns of the key can be scanned by; 0: none
 * @param formatVersion of the operator's state
 * @param properties JSON of transformWithState's variables; empty for other operators
 * @param schemaFiles paths of transformWithState's schemas; none for other operators, whose schema has a fixed place
 */
public record Store(
    long operator, String operatorName, String name, int prefixColumns, int formatVersion, String properties,
    List<String> schemaFiles) {
  boolean hasVariables() {
    return !properties.isEmpty();
  }
}
