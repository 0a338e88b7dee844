//! The tables of `catalog.db`.

use crate::sqlite::Schema;

/// The schema of the catalog.
pub(super) const SCHEMA: Schema = Schema { page_bytes: 4096, formats: [&[TABLES, SOURCE_LOG, FORWARDING]] };

const TABLES: &str = "
    CREATE TABLE state(
        one INTEGER PRIMARY KEY CHECK (one = 1),
        committed INTEGER NOT NULL,          -- the number of the last commit
        newest INTEGER,                      -- ticks of the newest time that a record had in its own text
        records_in INTEGER NOT NULL,         -- the accounts (accounting.rs)
        rows_in INTEGER NOT NULL,
        rows_replaced INTEGER NOT NULL,
        rows_dropped INTEGER NOT NULL,
        rows_sent INTEGER NOT NULL,
        records_forgotten INTEGER NOT NULL,
        records_before INTEGER NOT NULL,
        rows_before INTEGER NOT NULL,
        local_table TEXT                     -- of an outbox: the table whose rows are not forwarded
    );
    INSERT INTO state VALUES (1, 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0, NULL);
    CREATE TABLE failed_commit(seq INTEGER PRIMARY KEY); -- numbers of commits that never happened
    CREATE TABLE day(                        -- every day-table that exists or existed
        name TEXT PRIMARY KEY,
        state TEXT NOT NULL,                 -- 'open', 'restored' or 'dropped'
        generation INTEGER NOT NULL,         -- the highest of its files: a path is never used twice
        changed INTEGER NOT NULL,            -- ticks of the last change of its state
        expires INTEGER,                     -- of a restored day: ticks after which it is dropped again; of an open day:
                                             -- ticks until which an import of expired records keeps it
        origin TEXT,                         -- of a restored day: the day-table of its archive
        idle_commit INTEGER,                 -- its last commit at the last look,
        idle_since INTEGER,                  -- and the seconds watched (see watch) when that commit was first seen
        clock_behind INTEGER NOT NULL DEFAULT 0 -- whether a clock that was behind made it
    ) WITHOUT ROWID;
    CREATE TABLE file(                       -- live files
        name TEXT PRIMARY KEY,               -- below tables/
        day TEXT NOT NULL,
        last_seq INTEGER NOT NULL,           -- the last commit that wrote to it
        entities INTEGER NOT NULL,           -- everything that commits wrote to it, duplicates included
        writable INTEGER NOT NULL,           -- whether a journal may belong to it
        oldest INTEGER,                      -- ticks of the oldest and the newest time in it
        newest INTEGER,
        role TEXT NOT NULL DEFAULT 'open',   -- or 'closed', 'kept', 'sealed', 'outbox'
        bytes INTEGER,                       -- of a sealed file
        sha256 TEXT,                         -- 64 hex digits
        sealed_at INTEGER                    -- ticks
    ) WITHOUT ROWID;
    CREATE INDEX file_of_day ON file(day);
    CREATE TABLE pending_file(               -- files that hold no data yet, or no longer
        name TEXT PRIMARY KEY,               -- below tables/
        day TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE archive(                    -- archives that were read back
        day TEXT NOT NULL,
        generation INTEGER NOT NULL,
        url TEXT NOT NULL,                   -- the place, as configured
        bytes INTEGER NOT NULL,
        sha256 TEXT NOT NULL,
        rows INTEGER NOT NULL,
        oldest INTEGER,                      -- ticks of the oldest and the newest time in it
        newest INTEGER,
        verified INTEGER NOT NULL,           -- ticks when it was read back
        superseded INTEGER NOT NULL DEFAULT 0, -- whether a later archive holds everything of this one
        manifest TEXT NOT NULL,              -- the text of its manifest
        PRIMARY KEY (day, generation, url)
    ) WITHOUT ROWID;
    CREATE TABLE attempt(                    -- long steps of the lifecycle that began and did not end (attempts.rs)
        day TEXT NOT NULL,
        step TEXT NOT NULL,
        times INTEGER NOT NULL,              -- how often the end of a process interrupted it, one after the other
        is_running INTEGER NOT NULL,
        began INTEGER NOT NULL,              -- ticks when it began the last time
        PRIMARY KEY (day, step)
    ) WITHOUT ROWID;
    CREATE TABLE rule(                       -- the configured tables, as the last daemon had them
        name TEXT PRIMARY KEY,
        keep_seconds INTEGER NOT NULL,
        shorter_since INTEGER,               -- ticks since which keep is shorter than before
        keep_before INTEGER,                 -- seconds of keep before that
        archive TEXT,                        -- where its days are archived
        archive_before TEXT,                 -- where its days were archived until lately
        archive_until INTEGER,               -- ticks until which archive_before counts
        keep_archives INTEGER,               -- seconds; NULL is for ever
        archives_since INTEGER,              -- ticks since which keep_archives is shorter than before
        seal_after INTEGER,                  -- seconds
        period TEXT,                         -- 'hour', 'day' or 'month'
        bytes_max INTEGER,                   -- the most bytes of its days; NULL is without a limit
        bytes_since INTEGER,                 -- ticks since which bytes_max is this value or larger
        removed INTEGER NOT NULL DEFAULT 0   -- whether the table is no longer configured
    ) WITHOUT ROWID;
    CREATE TABLE watch(                      -- how long daemons watched the folder, by a clock that cannot be set
        one INTEGER PRIMARY KEY CHECK (one = 1),
        seconds INTEGER NOT NULL,
        newest INTEGER,                      -- the newest record time at the last look,
        newest_since INTEGER NOT NULL        -- and the seconds watched when that time was first seen
    );
    INSERT INTO watch VALUES (1, 0, NULL, 0);
    CREATE TABLE pressure(                   -- the size limit of the folder, as the last daemon had it
        one INTEGER PRIMARY KEY CHECK (one = 1),
        bytes_max INTEGER NOT NULL,
        since INTEGER NOT NULL               -- ticks when the limit was set or made smaller
    );
    CREATE TABLE run(                        -- runs of the lifecycle
        one INTEGER PRIMARY KEY CHECK (one = 1),
        last_success INTEGER NOT NULL
    );
    CREATE TABLE source(                     -- sources at the last checkpoint of the source log (source_log.rs)
        identity BLOB PRIMARY KEY,           -- the 32 hex digits of its row keys, 16 bytes
        block TEXT NOT NULL,
        kind TEXT NOT NULL,
        path BLOB NOT NULL,
        device INTEGER NOT NULL,
        inode INTEGER NOT NULL,
        generation INTEGER NOT NULL,
        head BLOB NOT NULL,                  -- a mark: position, length, hash
        position INTEGER NOT NULL,
        marks BLOB NOT NULL,
        last_time INTEGER,
        status TEXT NOT NULL,
        ledger TEXT NOT NULL,
        seen INTEGER NOT NULL,
        profile TEXT NOT NULL DEFAULT '',    -- the source's profile: what the parser learnt of its lines
        cursor TEXT NOT NULL DEFAULT ''      -- of a journal: how far it was read
    );
    CREATE TABLE listener(                   -- the ledgers of listeners
        kind TEXT NOT NULL,                  -- 'syslog', 'push', 'outbox', or 'daytable' for rows of its own
        name TEXT NOT NULL,
        records INTEGER NOT NULL,            -- committed
        bytes INTEGER NOT NULL,              -- received
        losses TEXT NOT NULL,                -- a JSON object: reason and count
        PRIMARY KEY (kind, name)
    ) WITHOUT ROWID;
    CREATE TABLE idempotency_key(            -- idempotency keys
        number INTEGER PRIMARY KEY,          -- in the order of their commits, without gaps
        key BLOB NOT NULL UNIQUE,            -- hash of credential, endpoint and key
        body BLOB NOT NULL,                  -- hash of the decoded body
        records INTEGER NOT NULL,            -- the answer: records that were accepted, and that were refused
        refused INTEGER NOT NULL,
        at INTEGER NOT NULL                  -- ticks of its commit
    );
    CREATE TABLE commit_clock(               -- when commits were, in an outbox
        seq INTEGER PRIMARY KEY,
        at INTEGER NOT NULL                  -- ticks
    );
";

/// The table of the source log. `repair` creates it again if it is damaged.
pub(super) const SOURCE_LOG: &str = "
    CREATE TABLE source_log(
        seq INTEGER PRIMARY KEY,             -- a commit,
        sources BLOB NOT NULL                -- and how far it moved sources (source_log.rs)
    );
";

/// The tables of forwarding, of a sender and of a receiver.
const FORWARDING: &str = "
    CREATE TABLE origin(                     -- which folder this is (forwarding.rs)
        one INTEGER PRIMARY KEY CHECK (one = 1),
        id BLOB NOT NULL,                    -- 128 random bits
        checksum INTEGER NOT NULL            -- of all commits
    );
    INSERT INTO origin VALUES (1, randomblob(16), 0);
    CREATE TABLE commit_checksum(            -- of all commits up to one
        seq INTEGER PRIMARY KEY,
        checksum INTEGER NOT NULL
    );
    CREATE TABLE forward_target(             -- receivers, as the last daemon had them
        name TEXT PRIMARY KEY,
        commits INTEGER NOT NULL,            -- the last commit that it has,
        checksum INTEGER NOT NULL            -- and the checksum of all commits up to there
    ) WITHOUT ROWID;
    CREATE TABLE invitation(                 -- codes that a host trades for a credential (hosts.rs)
        code BLOB PRIMARY KEY,               -- SHA-256
        name TEXT NOT NULL,                  -- of the host, or a pattern
        expires INTEGER NOT NULL,            -- ticks
        is_reusable INTEGER NOT NULL,
        tables TEXT NOT NULL                 -- that the credential may write (table_bounds.rs)
    ) WITHOUT ROWID;
    CREATE TABLE host_credential(            -- of hosts that forward here
        hash BLOB PRIMARY KEY,               -- SHA-256
        name TEXT NOT NULL,
        origin BLOB,                         -- the folder that used it first
        given INTEGER NOT NULL,              -- ticks
        tables TEXT NOT NULL,                -- that it may write
        is_successor INTEGER NOT NULL        -- whether the others of the origin end when it is used (host_renewal.rs)
    ) WITHOUT ROWID;
    CREATE TABLE revoked_host(               -- names that join by an invitation of their own alone
        name TEXT PRIMARY KEY
    ) WITHOUT ROWID;
    CREATE INDEX host_credential_by_origin ON host_credential(origin);
    CREATE TABLE host(                       -- how far hosts were received
        origin BLOB PRIMARY KEY,
        name TEXT NOT NULL,
        name_in_keys TEXT NOT NULL,          -- the first one, or that of an earlier folder of the host
        processes TEXT NOT NULL DEFAULT '',  -- those that spoke for the folder last, JSON
        epoch INTEGER NOT NULL DEFAULT 1,    -- raised whenever both sides went back to a common commit
        commits INTEGER NOT NULL DEFAULT 0,  -- the position (forward/position.rs)
        pages INTEGER NOT NULL DEFAULT 0,
        checksum INTEGER NOT NULL DEFAULT 0,
        copies INTEGER NOT NULL DEFAULT 0,
        copied INTEGER NOT NULL DEFAULT 0,
        history BLOB NOT NULL DEFAULT x'',   -- earlier positions: commit and checksum, 8 bytes each
        records INTEGER NOT NULL DEFAULT 0,  -- that were received
        expired INTEGER NOT NULL DEFAULT 0,  -- that were refused, because their day is gone here
        report TEXT NOT NULL DEFAULT '',     -- the last one, JSON
        seen INTEGER NOT NULL,               -- ticks
        replaced BLOB,                       -- SHA-256 of the credential that ended last because another one was used
        head_after INTEGER,                  -- later commits that were received: the one after which they begin
        head_after_checksum INTEGER,         -- (forward/intervals.rs); NULL if there are none
        head_commits INTEGER,                -- how far they were received, as above
        head_pages INTEGER,
        head_checksum INTEGER
    ) WITHOUT ROWID;
    CREATE INDEX host_by_replaced ON host(replaced) WHERE replaced IS NOT NULL;
";
