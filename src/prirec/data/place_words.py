"""What a place is, in a few public words."""

from prirec.data.dataset import Category, Places, Tags


def describe_place(places: Places, row: int) -> str:
    """A place in a few public words, such as its categories: columns in their order, tags by the alphabet, since a
    folder keeps no order of them."""
    words: list[str] = []
    for column in places.columns.values():
        if isinstance(column, Category) and column.codes[row] >= 0:
            words.append(column.words[column.codes[row]])
        elif isinstance(column, Tags):
            codes = column.codes[column.offsets[row] : column.offsets[row + 1]]
            words += sorted(column.words[code] for code in codes)
    return ", ".join(words)
