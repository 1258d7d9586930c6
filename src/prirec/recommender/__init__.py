"""The public side for real: a service that many devices use, its store, and whoever conducts its rounds."""
