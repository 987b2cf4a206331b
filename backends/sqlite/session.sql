-- Temporary objects of the writing connection: how one INSERT appends a whole batch of commits.
--
-- A batch is a single autocommit statement, INSERT INTO step VALUES (…), (…), …: one thread hop, one release
-- of the interpreter lock, one fsync, and never a transaction left open. Each commit is one row with step
-- 'create' (there must be no conversation) or 'append' (it must stand at was_life, was_version), followed by a
-- row 'key' per caller's key. What loses its compare-and-set writes nothing but a line in `conflict`;
-- the others of the batch are not touched by it. Rows of NULLs fill up to a statement that is in the cache.

CREATE TEMP TABLE conflict (
    place    INTEGER PRIMARY KEY,         -- which commit; numbers are never used twice on one connection
    life     TEXT,                        -- where the conversation stands instead; NULL: there is none
    version  INTEGER
);

CREATE TEMP VIEW step (
    step, place, namespace, id, was_life, was_version, life, version, owner, created, updated, expires, deleted,
    state, first, last, at, payload, key, count, digest
) AS SELECT
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
WHERE 0;

CREATE TEMP TRIGGER step_append INSTEAD OF INSERT ON step WHEN new.step = 'append' BEGIN
    INSERT OR IGNORE INTO log (cid, first, last, at, payload)
        SELECT cid, new.first, new.last, new.at, new.payload FROM conversation
        WHERE namespace = new.namespace AND id = new.id AND life = new.was_life AND version = new.was_version;
    UPDATE conversation SET
        life = new.life, version = new.version, owner = new.owner, created = new.created, updated = new.updated,
        expires = new.expires, deleted = new.deleted, state = new.state,
        erase_to = CASE WHEN new.deleted THEN new.version ELSE erase_to END
        WHERE changes() = 1 AND namespace = new.namespace AND id = new.id;
    INSERT INTO conflict (place, life, version)
        SELECT new.place, life, version
        FROM (SELECT 1) LEFT JOIN conversation ON namespace = new.namespace AND id = new.id
        WHERE changes() = 0;
END;

CREATE TEMP TRIGGER step_create INSTEAD OF INSERT ON step WHEN new.step = 'create' BEGIN
    INSERT OR IGNORE INTO conversation
        (namespace, id, life, version, owner, created, updated, expires, deleted, erase_to, state)
        VALUES (new.namespace, new.id, new.life, new.version, new.owner, new.created, new.updated, new.expires,
                new.deleted, CASE WHEN new.deleted THEN new.version END, new.state);
    INSERT INTO log (cid, first, last, at, payload)
        SELECT last_insert_rowid(), new.first, new.last, new.at, new.payload WHERE changes() = 1;
    INSERT INTO conflict (place, life, version)
        SELECT new.place, life, version FROM conversation
        WHERE changes() = 0 AND namespace = new.namespace AND id = new.id;
END;

-- A competitor may hold the very version that this commit wanted, so the head can't tell whether it won.
CREATE TEMP TRIGGER step_key INSTEAD OF INSERT ON step WHEN new.step = 'key' BEGIN
    INSERT OR REPLACE INTO done (cid, key, version, first, count, digest)
        SELECT cid, new.key, new.version, new.first, new.count, new.digest FROM conversation
        WHERE namespace = new.namespace AND id = new.id
            AND NOT EXISTS (SELECT 1 FROM conflict WHERE place = new.place);
END;
