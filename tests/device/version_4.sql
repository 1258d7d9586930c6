-- A device's file of version 4, as its program wrote it: a budget with a part for local answers, a visit, a masked round
-- and a paid answer about eight places (epsilon 0.25). Recorded by Python's sqlite3 (iterdump); not to be edited.
BEGIN TRANSACTION;
CREATE TABLE answers (
        deployment BLOB    NOT NULL CHECK (typeof(deployment) = 'blob'),
        number     INTEGER NOT NULL CHECK (typeof(number) = 'integer'),
        attempt    INTEGER NOT NULL CHECK (typeof(attempt) = 'integer'),
        asked      BLOB    NOT NULL CHECK (typeof(asked) = 'blob' AND length(asked) = 32),
        answers    BLOB    NOT NULL CHECK (typeof(answers) = 'blob'),
        PRIMARY KEY (deployment, number, attempt)
    );
INSERT INTO "answers" VALUES(X'01010101010101010101010101010101',50566202184549205,7240346738549657587,X'01674B62CDB386ABC8F5C1FED3D21FE78D4BA677A0ED4CA3B29FDF9361826BB3',X'DD');
CREATE TABLE budget (
        only_one    INTEGER NOT NULL PRIMARY KEY CHECK (only_one = 1),
        epsilon     REAL    NOT NULL CHECK (typeof(epsilon) = 'real' AND epsilon > 0),
        delta       REAL    NOT NULL CHECK (typeof(delta) = 'real' AND delta > 0 AND delta < 1),
        period_days INTEGER          CHECK (typeof(period_days) IN ('integer', 'null')),
        local       REAL    NOT NULL CHECK (typeof(local) = 'real' AND local >= 0)
    );
INSERT INTO "budget" VALUES(1,1.0,1.0e-06,NULL,0.4);
CREATE TABLE documents (
        name BLOB NOT NULL PRIMARY KEY CHECK (typeof(name) = 'blob' AND length(name) = 32),
        body BLOB NOT NULL CHECK (typeof(body) = 'blob')
    );
CREATE TABLE given (
        campaign BLOB    NOT NULL CHECK (typeof(campaign) = 'blob' AND length(campaign) = 32),
        place    INTEGER NOT NULL CHECK (typeof(place) = 'integer' AND place >= 0),
        whole    INTEGER NOT NULL CHECK (typeof(whole) = 'integer'),
        PRIMARY KEY (campaign, place)
    ) WITHOUT ROWID
    ;
CREATE TABLE home (
        only_one INTEGER NOT NULL PRIMARY KEY CHECK (only_one = 1),
        lat      REAL    NOT NULL CHECK (typeof(lat) = 'real' AND lat BETWEEN -90 AND 90),
        lon      REAL    NOT NULL CHECK (typeof(lon) = 'real' AND lon BETWEEN -180 AND 180)
    );
CREATE TABLE labelled (
        only_one INTEGER NOT NULL PRIMARY KEY CHECK (only_one = 1),
        so       INTEGER NOT NULL CHECK (so IN (0, 1))
    );
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
    );
CREATE TABLE models (
        campaign  BLOB    NOT NULL PRIMARY KEY CHECK (typeof(campaign) = 'blob' AND length(campaign) = 32),
        iteration INTEGER NOT NULL CHECK (typeof(iteration) = 'integer' AND iteration >= 0),
        linear    BLOB    NOT NULL CHECK (typeof(linear) = 'blob'),
        mean      BLOB    NOT NULL CHECK (typeof(mean) = 'blob')
    );
CREATE TABLE profile (
        name  TEXT NOT NULL PRIMARY KEY CHECK (typeof(name) = 'text'),
        value BLOB NOT NULL CHECK (typeof(value) = 'blob')
    ) WITHOUT ROWID
    ;
CREATE TABLE regions (
        cell BLOB NOT NULL PRIMARY KEY CHECK (typeof(cell) = 'blob' AND length(cell) = 8)
    ) WITHOUT ROWID
    ;
CREATE TABLE rounds (
            deployment BLOB    NOT NULL CHECK (typeof(deployment) = 'blob'),
            kind       TEXT    NOT NULL CHECK (typeof(kind) = 'text'),
            number     INTEGER NOT NULL CHECK (typeof(number) = 'integer'),
            cohort     INTEGER NOT NULL CHECK (typeof(cohort) = 'integer'),
            attempt    INTEGER NOT NULL CHECK (typeof(attempt) = 'integer'),
            stage      INTEGER NOT NULL CHECK (stage IN (1, 2, 3, 4, 5, 6)),
            digest     BLOB    NOT NULL CHECK (typeof(digest) = 'blob'),
            payload    BLOB    NOT NULL CHECK (typeof(payload) = 'blob'),
            masked     INTEGER NOT NULL CHECK (masked IN (0, 1)),
            PRIMARY KEY (deployment, kind, number)
        );
INSERT INTO "rounds" VALUES(X'01010101010101010101010101010101','linear',1,3,0,2,X'0101010101010101010101010101010101010101010101010101010101010101',X'766563746F72',1);
CREATE TABLE secrets (
        name  TEXT NOT NULL PRIMARY KEY CHECK (typeof(name) = 'text'),
        value BLOB NOT NULL CHECK (typeof(value) = 'blob' AND length(value) = 32)
    ) WITHOUT ROWID
    ;
INSERT INTO "secrets" VALUES('answers',X'D0CE6AA92CCB0745C577C40C50CCB904D018EEF350AB540BF2946C9452E4FCE9');
CREATE TABLE spending (
            deployment BLOB    NOT NULL CHECK (typeof(deployment) = 'blob'),
            kind       TEXT    NOT NULL CHECK (typeof(kind) = 'text'),
            number     INTEGER NOT NULL CHECK (typeof(number) = 'integer'),
            attempt    INTEGER NOT NULL CHECK (typeof(attempt) = 'integer'),
            what       TEXT    NOT NULL CHECK (typeof(what) = 'text'),
            unit       TEXT    NOT NULL CHECK (unit IN ('bit', 'value', 'event', 'user-day', 'user')),
            day        INTEGER NOT NULL CHECK (typeof(day) = 'integer'),
            grains     INTEGER NOT NULL CHECK (typeof(grains) = 'integer' AND grains >= 0),
            epsilon    REAL    NOT NULL CHECK (typeof(epsilon) = 'real' AND epsilon >= 0),
            delta      REAL    NOT NULL CHECK (typeof(delta) = 'real' AND delta BETWEEN 0 AND 1),
            adjacency  TEXT    NOT NULL CHECK (adjacency IN ('a contribution or none', 'a contribution or any other')),
            PRIMARY KEY (deployment, kind, number, attempt)
        );
INSERT INTO "spending" VALUES(X'01010101010101010101010101010101','linear',1,0,'mixing','user',20690,403731232929416,0.0,0.0,'a contribution or none');
INSERT INTO "spending" VALUES(X'01010101010101010101010101010101','answers',50566202184549205,7240346738549657587,'answers about 2026-06-01 to 2026-06-30 (visited)','user',20700,0,0.25,0.0,'a contribution or any other');
CREATE TABLE standing (
        subject  TEXT NOT NULL PRIMARY KEY CHECK (subject IN ('charter', 'edition', 'model', 'publication')),
        document BLOB NOT NULL CHECK (typeof(document) = 'blob' AND length(document) = 32)
    ) WITHOUT ROWID
    ;
CREATE TABLE visits (
        number  INTEGER NOT NULL PRIMARY KEY,
        id      TEXT    NOT NULL UNIQUE CHECK (typeof(id) = 'text'),
        place   TEXT    NOT NULL CHECK (typeof(place) = 'text'),
        time    INTEGER          CHECK (typeof(time) IN ('integer', 'null')),
        label   INTEGER NOT NULL CHECK (label IN (1, -1)),
        context BLOB    NOT NULL CHECK (typeof(context) = 'blob')
    );
INSERT INTO "visits" VALUES(1,'7e9d495a51c80a239fa1f427d1018eb9','a',1780000000,1,X'7B7D');
CREATE TRIGGER spent_is_spent BEFORE DELETE ON spending BEGIN SELECT RAISE(ABORT, 'spent'); END;
CREATE TRIGGER paid_is_paid BEFORE UPDATE ON spending BEGIN SELECT RAISE(ABORT, 'paid'); END;
CREATE TRIGGER answers_are_paid_for BEFORE INSERT ON answers WHEN NOT EXISTS (
        SELECT 1 FROM spending WHERE kind = 'answers' AND deployment = NEW.deployment
        AND number = NEW.number AND attempt = NEW.attempt
    ) BEGIN SELECT RAISE(ABORT, 'unpaid'); END;
CREATE TRIGGER said_is_said BEFORE UPDATE ON answers BEGIN SELECT RAISE(ABORT, 'said'); END;
CREATE TRIGGER one_secret BEFORE UPDATE ON secrets BEGIN SELECT RAISE(ABORT, 'secret'); END;
COMMIT;
PRAGMA application_id=1347568963;
PRAGMA user_version=4;
