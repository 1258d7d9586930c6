"""A whole city on one machine: a real recommender, real devices and TLS between them, started, watched and stopped.

It is a rehearsal of a deployment, not one: whoever runs it owns everybody's data, and can therefore measure what no
deployment can.
"""
