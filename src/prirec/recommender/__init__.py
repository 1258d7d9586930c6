"""The recommender of a deployment: HTTPS service, mailbox, store, and the conductor of campaigns."""
