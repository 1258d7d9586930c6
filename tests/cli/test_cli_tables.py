"""Tables at a terminal of eighty columns: folded between words, and nothing is lost."""

import pytest

from prirec.cli.output import show_table

PLACE, ABOUT, WHY = "4b058804f964a520b09522e3", "Vietnamese restaurant, Minami-Senju", "close to home, liked by others"


def printed(capsys, columns, *rows):
    show_table(columns, rows)
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    return [word for line in lines for word in line.split()]


@pytest.fixture(autouse=True)
def _eighty(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize(
    "row",
    [
        ("1", PLACE, ABOUT, "12.3", "27 %", WHY),
        ("1", "p1", " ".join(["popular"] * 12), "12.3", "27 %", PLACE),
        ("1", "a" * 30, "b" * 22, "1.0", "3 %", "short"),
    ],
)
def test_no_word_is_broken_where_there_is_room_for_all(capsys, row):
    words = printed(capsys, (">", "place", "about", ">km", ">chance", "why"), row)
    for cell in row:
        assert all(words.count(word) >= cell.split().count(word) for word in cell.split())


def test_where_a_word_is_longer_than_the_screen_nothing_of_it_is_lost(capsys):
    words = printed(capsys, ("place", "about"), ("x" * 100, "short"))
    assert "".join(word for word in words if set(word) == {"x"}) == "x" * 100


def test_japanese_may_be_folded_anywhere(capsys):
    name = "東京都港区六本木" * 6
    words = printed(capsys, ("place", "about"), (name, PLACE))
    assert PLACE in words
    assert sum(word.count("六本木") for word in words) >= 1
    assert sum(len(word) for word in words if word[0] in name) == len(name)


@pytest.mark.parametrize("city", ["a small made-up city", "a small made-up city, visits alone, with coordinates"])
def test_a_title_is_folded_at_the_screens_width_and_not_inside_an_equation(capsys, city):
    title = f"Difference from FM on {city}, K = 5, 80 %"
    show_table(("model", ">AUC"), [("FM", "0.7")], title=title)
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert " ".join(lines[: 1 + len(title) // 80]) == title
    assert any("K = 5, 80 %" in line for line in lines)


FIGURES = ("model", ">GAUC", ">AUC, fewest records", ">NDCG@10", ">recall@10", ">log loss")
INTERVALS = ("model", ">AUC", ">GAUC", ">log loss")
ATTACKS = ("model", "what it is", "leaks, by the paper", ">the recommender", ">a neighbour", ">by V", ">labels read")


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        (FIGURES, ("popularity alone (control)", *(f"0.{at}458 ± 0.00{at}5" for at in range(1, 6)))),
        (INTERVALS, ("PriRec, rounds, latent", *(f"+0.{at}631 (+0.{at}375 to +0.{at}861) ▲" for at in range(1, 4)))),
        (
            ATTACKS,
            (
                "PriRec",
                f"Algorithm 2; bits of {'ε = 1 from everyone, ' * 4}",
                "rating",
                "0.512 ± 0.155",
                "0.5 ± 0.2",
                "0.575 ± 0.153",
                "1.000 ± 0.049",
            ),
        ),
    ],
    ids=["figures", "intervals", "attacks"],
)
def test_a_table_too_wide_for_the_screen_is_shown_in_bands_of_columns(capsys, columns, row):
    show_table(columns, [row, row], title="Figures")
    shown = capsys.readouterr().out
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert all(shown.count(cell) >= 2 for name, cell in zip(columns, row, strict=True) if name.startswith(">"))
    bands = shown.count(columns[0])
    assert bands > 1
    assert shown.split().count(row[0].split()[0]) >= 2 * bands  # each band says which row is which
    assert shown.count("Figures") == 1
    assert set(" ".join(name.removeprefix(">") for name in columns).split()) <= set(shown.split())
