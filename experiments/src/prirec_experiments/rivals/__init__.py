"""Models that are only there to be compared with. All of them see more of people than PriRec does."""
