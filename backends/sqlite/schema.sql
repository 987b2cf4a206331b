-- The schema of a Diarist store, version 1. `schema.py` runs it in one transaction; later versions add steps.
--
-- Text is UTF-8 and may hold any character, NUL included. Times are seconds since the epoch.

CREATE TABLE conversation (
    cid        INTEGER PRIMARY KEY,
    namespace  TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    life       TEXT    NOT NULL,          -- (life, version) is what every commit compares and sets
    version    INTEGER NOT NULL,
    owner      TEXT,
    created    REAL    NOT NULL,
    updated    REAL    NOT NULL,
    expires    REAL,
    deleted    INTEGER NOT NULL,          -- 1: a tombstone
    erase_to   INTEGER,                   -- versions up to here were deleted and may still have text in the log
    state      BLOB    NOT NULL,          -- the runtime's own JSON; its "v" names the records in view
    UNIQUE (namespace, id)
);

-- One row per record, in the order of writing. A rowid table with a unique index takes appends of many
-- conversations two to four times faster than one clustered by (cid, first).
CREATE TABLE log (
    id       INTEGER PRIMARY KEY,
    cid      INTEGER NOT NULL,
    first    INTEGER NOT NULL,
    last     INTEGER NOT NULL,
    at       REAL    NOT NULL,
    payload  BLOB    NOT NULL,            -- lines; the first is the header, all that an erased record keeps
    UNIQUE (cid, first)
);

-- The log as it is read. Erasing puts NULs in the place of the text and keeps the row's size, so that no row ever
-- moves: where SQLite moves rows between pages it leaves copies of them behind, in spite of secure_delete.
CREATE VIEW record (id, cid, first, last, at, filled, payload) AS
SELECT id, cid, first, last, at,
    instr(payload, x'0a') > 0 AND substr(payload, instr(payload, x'0a') + 1, 1) <> x'00',
    CASE
        WHEN instr(payload, x'0a') > 0 AND substr(payload, instr(payload, x'0a') + 1, 1) = x'00'
        THEN substr(payload, 1, instr(payload, x'0a') - 1)
        ELSE payload
    END
FROM log;

-- Callers' idempotency keys. Generated operation ids are not here: indexing random ids halves the throughput.
CREATE TABLE done (
    cid      INTEGER NOT NULL,
    key      TEXT    NOT NULL,
    version  INTEGER NOT NULL,
    first    INTEGER NOT NULL,
    count    INTEGER NOT NULL,
    digest   TEXT    NOT NULL,
    PRIMARY KEY (cid, key)
) WITHOUT ROWID;

-- What the sweeper looks for; empty in normal times, so that they cost a commit nothing.
CREATE INDEX tombstone  ON conversation (expires) WHERE deleted;
CREATE INDEX unfinished ON conversation (cid) WHERE erase_to IS NOT NULL;

-- A conversation goes with all that belongs to it, in one statement.
CREATE TRIGGER conversation_gone AFTER DELETE ON conversation BEGIN
    DELETE FROM log  WHERE cid = old.cid;
    DELETE FROM done WHERE cid = old.cid;
END;
