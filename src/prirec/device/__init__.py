"""The person's side for real: what a device keeps, and what it does with it."""
