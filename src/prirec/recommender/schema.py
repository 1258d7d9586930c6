"""The tables of the recommender's store, and the life of each record: who writes it, and when it is deleted.

    table      written by                                            deleted
    founding   the operator, once (`prirec recommender init`)        never: it is the deployment, with its secret keys
    people     a device that enrols: its name and the cell it told   when it leaves
    documents  the conductor, or the operator who publishes          never: the log names them
    log        the conductor or the operator, signed                 never: devices check that it only grows
    rounds     the conductor, before what follows is done            never: a number is not gone back to
    invited    the conductor: who may hand in messages for a round   with its round, or when the device leaves
    inbox      a device that hands in a message, sealed              when its round is opened, burnt or begun anew
    mail       the conductor, for one device, sealed                 when it arrived, with its round, or its device
    progress   the conductor: where it is, public or sealed sums     overwritten
    lease      the worker that conducts                              overwritten, or given back
    counters   with every row that takes a number from them          never: a number is given once

No row holds a private value: names are keys, cells are as coarse as the device chose, and what devices say is sealed
or masked. A limit: PostgreSQL keeps deleted rows on its disk until it needs the room, and any database keeps them in
copies made meanwhile. They are sealed for keys that only ever were in memory.
"""

from prirec.recommender.database import Migrations

MIGRATIONS: Migrations = (
    (
        """CREATE TABLE founding (
            one        {whole} PRIMARY KEY CHECK (one = 1),
            deployment {bytes} NOT NULL CHECK (length(deployment) = 16),
            identity   {bytes} NOT NULL CHECK (length(identity) = 32),
            token_key  {bytes} NOT NULL CHECK (length(token_key) = 32),
            title      {text}  NOT NULL
        ) {table}""",
        """CREATE TABLE people (
            name {bytes} PRIMARY KEY CHECK (length(name) = 32),
            cell {bytes} NOT NULL CHECK (length(cell) = 8),
            day  {whole} NOT NULL
        ) {table}""",
        """CREATE TABLE documents (
            name {bytes} PRIMARY KEY CHECK (length(name) = 32),
            body {bytes} NOT NULL
        ) {table}""",
        """CREATE TABLE log (
            place   {whole} PRIMARY KEY CHECK (place >= 0),
            subject {text}  NOT NULL,
            digest  {bytes} NOT NULL CHECK (length(digest) = 32),
            body    {bytes} NOT NULL
        ) {table}""",
        "CREATE INDEX log_by_subject ON log (subject, place)",
        """CREATE TABLE rounds (
            id         {whole} PRIMARY KEY,
            deployment {bytes} NOT NULL CHECK (length(deployment) = 16),
            kind       {text}  NOT NULL,
            cohort     {whole} NOT NULL,
            number     {whole} NOT NULL,
            attempt    {whole} NOT NULL,
            stage      {whole} NOT NULL CHECK (stage IN (1, 3, 5, 6)),
            digest     {bytes} NOT NULL,
            masked     {whole} NOT NULL CHECK (masked IN (0, 1)),
            UNIQUE (deployment, kind, cohort, number)
        ) {table}""",
        "CREATE INDEX rounds_that_are_open ON rounds (id) WHERE stage < 5",
        """CREATE TABLE inbox (
            number {whole} PRIMARY KEY,
            round  {whole} NOT NULL,
            sender {bytes} NOT NULL CHECK (length(sender) = 32),
            digest {bytes} NOT NULL CHECK (length(digest) = 16),
            body   {bytes} NOT NULL,
            UNIQUE (round, sender, digest)
        ) {table}""",
        """CREATE TABLE mail (
            number   {whole} PRIMARY KEY,
            round    {whole} NOT NULL,
            receiver {bytes} NOT NULL CHECK (length(receiver) = 32),
            body     {bytes} NOT NULL
        ) {table}""",
        "CREATE INDEX mail_by_receiver ON mail (receiver, number)",
        "CREATE INDEX mail_by_round ON mail (round)",
        "CREATE TABLE progress (one {whole} PRIMARY KEY CHECK (one = 1), body {bytes} NOT NULL) {table}",
        """CREATE TABLE lease (
            one    {whole} PRIMARY KEY CHECK (one = 1),
            holder {bytes} NOT NULL,
            until  {real}  NOT NULL
        ) {table}""",
        "CREATE TABLE counters (name {text} PRIMARY KEY, value {whole} NOT NULL) {table}",
        "INSERT INTO counters VALUES ('rounds', 0), ('inbox', 0), ('mail', 0)",
    ),
    (
        """CREATE TABLE invited (
            round {whole} NOT NULL,
            name  {bytes} NOT NULL CHECK (length(name) = 32),
            PRIMARY KEY (round, name)
        ) {table}""",
        "CREATE INDEX invited_by_name ON invited (name)",
        "INSERT INTO counters SELECT 'progress', count(*) FROM progress",
    ),
)
