"""Small helpers that know nothing of recommendation: files, SQLite, keyed randomness, geography, compilation."""
