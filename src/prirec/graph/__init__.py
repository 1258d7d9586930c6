"""Who is near whom: distance, neighbours, cohorts, weights S_if, places near a person."""
