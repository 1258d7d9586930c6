"""Secure sums and prediction as pure state machines: messages in, actions out; no socket, clock or file."""
