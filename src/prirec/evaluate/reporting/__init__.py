"""The parts of the report: pieces of HTML, plots, a map, tables."""
