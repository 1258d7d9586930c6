"""What the parties do, without a socket, a clock or a file."""
