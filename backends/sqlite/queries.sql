-- All statements that a repository runs. `{rows}` becomes as many placeholders as there are values.
--
-- Every reading one gives a single row: numbers and texts as JSON, blobs concatenated beside it. Each step of a
-- statement releases the interpreter lock and has to win it back, which takes up to 5 ms while the event loop is
-- busy; a row per record would pay that per record. quote() writes a REAL so that it reads back exactly.

-- name: append
INSERT INTO step VALUES {rows};

-- name: conflicts
SELECT json_group_array(json_array(place, life, version)) FROM conflict WHERE place BETWEEN ? AND ?;

-- name: forget_conflicts
DELETE FROM conflict;

-- name: load
WITH head AS MATERIALIZED (
    SELECT * FROM conversation WHERE namespace = ? AND id = ?
), part AS (
    SELECT max(value) FILTER (WHERE key % 4 = 0) AS low, max(value) FILTER (WHERE key % 4 = 1) AS high
    FROM json_each((SELECT iif(length(state), CAST(state AS TEXT), '{}') FROM head), '$.v')
    GROUP BY key / 4
), shown AS (
    SELECT json_group_array(json_array(first, last, quote(at), length(payload))) AS facts,
           CAST(group_concat(payload, '') AS BLOB) AS payloads
    FROM record WHERE id IN (
        SELECT log.id FROM part CROSS JOIN log
        ON log.cid = (SELECT cid FROM head) AND log.first BETWEEN part.low AND part.high
    )
)
SELECT life, version, owner, created, updated, expires, deleted, state, facts, payloads FROM head, shown;

-- name: versions
WITH wanted (place, namespace, id) AS (VALUES {rows})
SELECT json_group_array(json_array(place, life, version))
FROM wanted CROSS JOIN conversation USING (namespace, id);

-- name: operations
WITH wanted (place, key) AS (VALUES {rows})
SELECT json_group_array(json_array(place, version, first, count, digest))
FROM wanted CROSS JOIN done USING (key)
WHERE cid = (SELECT cid FROM conversation WHERE namespace = ? AND id = ?);

-- name: read_forwards
SELECT json_group_array(json_array(first, last, quote(at), length(payload))), CAST(group_concat(payload, '') AS BLOB)
FROM (
    SELECT first, last, at, payload FROM record
    WHERE cid = (SELECT cid FROM conversation WHERE namespace = ? AND id = ?) AND first BETWEEN ? AND ?
    ORDER BY first LIMIT ?
);

-- name: read_backwards
SELECT json_group_array(json_array(first, last, quote(at), length(payload))), CAST(group_concat(payload, '') AS BLOB)
FROM (
    SELECT first, last, at, payload FROM record
    WHERE cid = (SELECT cid FROM conversation WHERE namespace = ? AND id = ?) AND first BETWEEN ? AND ?
    ORDER BY first DESC LIMIT ?
);

-- name: list_all
SELECT json_group_array(json_array(
           namespace, id, life, version, owner, quote(created), quote(updated), quote(expires), length(state))),
       CAST(group_concat(state, '') AS BLOB)
FROM (
    SELECT * FROM conversation WHERE NOT deleted AND (namespace, id) > (?, ?)
    ORDER BY namespace, id LIMIT ?
);

-- name: list_namespace
SELECT json_group_array(json_array(
           namespace, id, life, version, owner, quote(created), quote(updated), quote(expires), length(state))),
       CAST(group_concat(state, '') AS BLOB)
FROM (
    SELECT * FROM conversation WHERE NOT deleted AND namespace = ? AND id > ?
    ORDER BY namespace, id LIMIT ?
);

-- name: erase
UPDATE log SET payload = CASE
    WHEN length(payload) > instr(payload, x'0a') THEN CAST(
        substr(payload, 1, instr(payload, x'0a')) || zeroblob(length(payload) - instr(payload, x'0a')) AS BLOB)
    ELSE substr(payload, 1, instr(payload, x'0a') - 1)
END
WHERE id IN (
    SELECT id FROM record
    WHERE cid = (SELECT cid FROM conversation WHERE namespace = ? AND id = ?) AND first BETWEEN ? AND ? AND filled
    LIMIT ?
);

-- name: erasure_finished
UPDATE conversation SET erase_to = NULL
WHERE namespace = ? AND id = ? AND erase_to IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM record WHERE record.cid = conversation.cid AND first <= erase_to AND filled
);

-- name: unfinished
SELECT json_group_array(json_array(namespace, id, erase_to))
FROM (SELECT * FROM conversation WHERE erase_to IS NOT NULL LIMIT ?);

-- name: expired
SELECT json_group_array(cid) FROM (SELECT cid FROM conversation WHERE deleted AND expires <= ? LIMIT ?);

-- name: thin_out
DELETE FROM log WHERE id IN (
    SELECT log.id FROM conversation JOIN log USING (cid) WHERE cid = ? AND deleted AND expires <= ? LIMIT ?
);

-- name: remove
DELETE FROM conversation WHERE cid = ? AND deleted AND expires <= ?;

-- name: file_size
SELECT page_count * page_size FROM pragma_page_count, pragma_page_size;
