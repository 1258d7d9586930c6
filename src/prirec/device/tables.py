"""Where a person's own data stand in the device's file, beside the journal and the ledger (device/store.py).

`forget` empties all of these. What was spent and which rounds were entered stays: both guard against a second time.
"""

PERSON = (
    """
    CREATE TABLE profile (
        name  TEXT NOT NULL PRIMARY KEY CHECK (typeof(name) = 'text'),
        value BLOB NOT NULL CHECK (typeof(value) = 'blob')
    ) WITHOUT ROWID
    """,  # JSON: a number, a word or a list of words
    """
    CREATE TABLE home (
        only_one INTEGER NOT NULL PRIMARY KEY CHECK (only_one = 1),
        lat      REAL    NOT NULL CHECK (typeof(lat) = 'real' AND lat BETWEEN -90 AND 90),
        lon      REAL    NOT NULL CHECK (typeof(lon) = 'real' AND lon BETWEEN -180 AND 180)
    )
    """,
    """
    CREATE TABLE visits (
        number  INTEGER NOT NULL PRIMARY KEY,
        id      TEXT    NOT NULL UNIQUE CHECK (typeof(id) = 'text'),
        place   TEXT    NOT NULL CHECK (typeof(place) = 'text'),
        time    INTEGER          CHECK (typeof(time) IN ('integer', 'null')),
        label   INTEGER NOT NULL CHECK (label IN (1, -1)),
        context BLOB    NOT NULL CHECK (typeof(context) = 'blob')
    )
    """,  # context: JSON, a value for each name
    """
    CREATE TABLE labelled (
        only_one INTEGER NOT NULL PRIMARY KEY CHECK (only_one = 1),
        so       INTEGER NOT NULL CHECK (so IN (0, 1))
    )
    """,  # whether what was shown and ignored is recorded beside what was visited
    """
    CREATE TABLE membership (
        only_one    INTEGER NOT NULL PRIMARY KEY CHECK (only_one = 1),
        deployment  BLOB    NOT NULL CHECK (typeof(deployment) = 'blob' AND length(deployment) = 16),
        url         TEXT    NOT NULL CHECK (typeof(url) = 'text'),
        authority   BLOB    NOT NULL CHECK (typeof(authority) = 'blob'),
        recommender BLOB    NOT NULL CHECK (typeof(recommender) = 'blob' AND length(recommender) = 32),
        title       TEXT    NOT NULL CHECK (typeof(title) = 'text'),
        cell        BLOB    NOT NULL CHECK (typeof(cell) = 'blob' AND length(cell) = 8),
        identity    BLOB    NOT NULL CHECK (typeof(identity) = 'blob' AND length(identity) = 32),
        enrolled    INTEGER NOT NULL CHECK (enrolled IN (0, 1)),
        length      INTEGER NOT NULL CHECK (typeof(length) = 'integer' AND length >= 0),
        last        BLOB    NOT NULL CHECK (typeof(last) = 'blob' AND length(last) = 32)
    )
    """,  # cell: big endian, for an h3 cell may be beyond what SQLite calls an integer
    """
    CREATE TABLE models (
        campaign  BLOB    NOT NULL PRIMARY KEY CHECK (typeof(campaign) = 'blob' AND length(campaign) = 32),
        iteration INTEGER NOT NULL CHECK (typeof(iteration) = 'integer' AND iteration >= 0),
        linear    BLOB    NOT NULL CHECK (typeof(linear) = 'blob'),
        mean      BLOB    NOT NULL CHECK (typeof(mean) = 'blob')
    )
    """,  # linear: float64, little endian
    """
    CREATE TABLE given (
        campaign BLOB    NOT NULL CHECK (typeof(campaign) = 'blob' AND length(campaign) = 32),
        place    INTEGER NOT NULL CHECK (typeof(place) = 'integer' AND place >= 0),
        whole    INTEGER NOT NULL CHECK (typeof(whole) = 'integer'),
        PRIMARY KEY (campaign, place)
    ) WITHOUT ROWID
    """,  # what this device added to the sum of visits, by row of the catalogue
    """
    CREATE TABLE budget (
        only_one    INTEGER NOT NULL PRIMARY KEY CHECK (only_one = 1),
        epsilon     REAL    NOT NULL CHECK (typeof(epsilon) = 'real' AND epsilon > 0),
        delta       REAL    NOT NULL CHECK (typeof(delta) = 'real' AND delta > 0 AND delta < 1),
        period_days INTEGER          CHECK (typeof(period_days) IN ('integer', 'null')),
        local       REAL    NOT NULL CHECK (typeof(local) = 'real' AND local >= 0)
    )
    """,  # this person's privacy budget; it stays when the rest is forgotten, as what was spent does
    """
    CREATE TABLE regions (
        cell BLOB NOT NULL PRIMARY KEY CHECK (typeof(cell) = 'blob' AND length(cell) = 8)
    ) WITHOUT ROWID
    """,  # those that the person asked for, beside those around the own cell; big endian
    """
    CREATE TABLE standing (
        subject  TEXT NOT NULL PRIMARY KEY CHECK (subject IN ('charter', 'edition', 'model', 'publication')),
        document BLOB NOT NULL CHECK (typeof(document) = 'blob' AND length(document) = 32)
    ) WITHOUT ROWID
    """,  # the last document of each kind that the log named
    """
    CREATE TABLE documents (
        name BLOB NOT NULL PRIMARY KEY CHECK (typeof(name) = 'blob' AND length(name) = 32),
        body BLOB NOT NULL CHECK (typeof(body) = 'blob')
    )
    """,
)

# Versions 3 and 4 could give local answers (randomised response): version 4 had the tables `answers` and `secrets`, and
# a budget had a part for them. What was charged for an answer stays in `spending` and counts. A new file passes through
# here too, where `answers` and `secrets` never were.
WITHOUT_ANSWERS = (
    "DROP TABLE IF EXISTS answers",
    "DROP TABLE IF EXISTS secrets",
    """
    CREATE TABLE new_budget (
        only_one    INTEGER NOT NULL PRIMARY KEY CHECK (only_one = 1),
        epsilon     REAL    NOT NULL CHECK (typeof(epsilon) = 'real' AND epsilon > 0),
        delta       REAL    NOT NULL CHECK (typeof(delta) = 'real' AND delta > 0 AND delta < 1),
        period_days INTEGER          CHECK (typeof(period_days) IN ('integer', 'null'))
    )
    """,
    "INSERT INTO new_budget SELECT only_one, epsilon, delta, period_days FROM budget",
    "DROP TABLE budget",
    "ALTER TABLE new_budget RENAME TO budget",
)

OF_DEPLOYMENT = ("membership", "models", "given", "documents", "standing", "regions")  # gone when the device leaves
OF_PERSON = ("profile", "home", "visits", "labelled")
