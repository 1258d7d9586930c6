"""Beyond one machine: shards in the actors of a Ray cluster. Ray is imported in this room and nowhere else."""
