"""A person's device in a deployment: its file, privacy ledger, HTTPS client, part in rounds, recommendations."""
