"""Evaluator files for tools that load them by their path. Such tools add the folder of the file to the path of imports, so it has nothing else in it."""
