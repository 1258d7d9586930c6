"""The `prirec` command line, written on the library: one file for each command or group of commands."""
