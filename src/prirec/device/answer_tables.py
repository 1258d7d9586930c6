"""Where a device keeps what it has answered, and the secret behind it (device/answers.py).

`forget` empties both. That they were paid for stays in the ledger.
"""

# the secret, from the operating system's entropy (device/database.py), unless there is one
DRAW_ONCE = "INSERT OR IGNORE INTO secrets VALUES ('answers', entropy(32))"

ANSWERS = (
    """
    CREATE TABLE secrets (
        name  TEXT NOT NULL PRIMARY KEY CHECK (typeof(name) = 'text'),
        value BLOB NOT NULL CHECK (typeof(value) = 'blob' AND length(value) = 32)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE answers (
        deployment BLOB    NOT NULL CHECK (typeof(deployment) = 'blob'),
        number     INTEGER NOT NULL CHECK (typeof(number) = 'integer'),
        attempt    INTEGER NOT NULL CHECK (typeof(attempt) = 'integer'),
        asked      BLOB    NOT NULL CHECK (typeof(asked) = 'blob' AND length(asked) = 32),
        answers    BLOB    NOT NULL CHECK (typeof(answers) = 'blob'),
        PRIMARY KEY (deployment, number, attempt)
    )
    """,  # asked: the digest of who asks what; answers: a bit for each POI, in the order of their names
    """
    CREATE TRIGGER answers_are_paid_for BEFORE INSERT ON answers WHEN NOT EXISTS (
        SELECT 1 FROM spending WHERE kind = 'answers' AND deployment = NEW.deployment
        AND number = NEW.number AND attempt = NEW.attempt
    ) BEGIN SELECT RAISE(ABORT, 'unpaid'); END
    """,
    "CREATE TRIGGER said_is_said BEFORE UPDATE ON answers BEGIN SELECT RAISE(ABORT, 'said'); END",
    "CREATE TRIGGER one_secret BEFORE UPDATE ON secrets BEGIN SELECT RAISE(ABORT, 'secret'); END",
    DRAW_ONCE,
)
