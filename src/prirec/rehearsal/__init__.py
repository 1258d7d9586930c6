"""A whole deployment on one machine: a real recommender, real devices and TLS between them, as processes.

It is a rehearsal of a deployment, not one: whoever runs it owns everybody's data, and can therefore measure what no
deployment can, such as the accuracy of all devices' models together.
"""
