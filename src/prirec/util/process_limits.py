"""Limits that the operating system sets this process. Systems without `resource` (Windows) have none of them."""

from contextlib import suppress


def allow_many_files() -> None:
    """As many open files as this user may have: each connection and each device's file is one, and systems allow few by
    default."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def disable_core_dumps() -> None:
    """For a process that holds keys: a core dump would write them to the disk. Children inherit it."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        # The limit in force alone: the highest one could never be raised again by the program that called the library.
        _, most = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, most))


def limit_memory(octets: int) -> None:
    """No more addresses than this: what asks for more gets a MemoryError, and the machine stays usable."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (octets, octets))
