"""Plain Spark queries between topics, in processes that are killed; numbered rows show what became of them."""
