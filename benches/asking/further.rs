//! Questions that nobody tuned for: those of the first minutes with a log, in no order.
//!
//! SQL is that of ClickHouse where dialects differ; DuckDB is not measured there.

use crate::questions::Question;

/// All further questions.
pub(crate) fn further() -> Vec<Question> {
    let of = |name, query: &str, sql: &str| Question::new(name, "", query, sql);
    vec![
        of(
            "sum of bytes by method",
            "* | stats by (method) sum(bytes) s",
            "SELECT method, sum(bytes) FROM logs GROUP BY 1",
        ),
        of(
            "min and max by instance",
            "* | stats by (instance) min(duration_ms) a, max(duration_ms) b",
            "SELECT \"PartitionKey\", min(duration_ms), max(duration_ms) FROM logs GROUP BY 1",
        ),
        of(
            "longest paths",
            "* | len(path) as l | sort by (l desc) | limit 10",
            "SELECT * FROM logs ORDER BY length(path) DESC LIMIT 10",
        ),
        of(
            "count of long durations by path, top 10",
            "duration_ms:>1000 | top 10 by (path)",
            "SELECT path, count(*) AS n FROM logs WHERE duration_ms > 1000 GROUP BY 1 ORDER BY n DESC LIMIT 10",
        ),
        of(
            "clients of errors",
            "level:error | uniq by (client)",
            "SELECT DISTINCT client FROM logs WHERE \"Level\" = 'error'",
        ),
        of(
            "different clients by status",
            "* | stats by (status) count_uniq(client) u",
            "SELECT status, count(DISTINCT client) FROM logs GROUP BY 1",
        ),
        of(
            "different paths by instance",
            "* | stats by (instance) count_uniq(path) u",
            "SELECT \"PartitionKey\", count(DISTINCT path) FROM logs GROUP BY 1",
        ),
        of(
            "median by path",
            "* | stats by (path) median(duration_ms) m | sort by (m desc) | limit 10",
            "SELECT path, quantile(0.5)(duration_ms) AS m FROM logs GROUP BY 1 ORDER BY m DESC LIMIT 10",
        ),
        of(
            "three fields",
            "* | stats by (method, status, component) count() n, avg(bytes) a",
            "SELECT method, status, component, count(*), avg(bytes) FROM logs GROUP BY 1, 2, 3",
        ),
        of(
            "regex in path",
            "path:~\"orders/[0-9]*7$\" | stats count() n",
            "SELECT count(*) FROM logs WHERE match(path, 'orders/[0-9]*7$')",
        ),
        of(
            "word or",
            "error:timeout or error:deadlock | stats by (instance) count() n",
            "SELECT \"PartitionKey\", count(*) FROM logs WHERE error LIKE '%timeout%' OR error LIKE '%deadlock%' GROUP BY 1",
        ),
        of(
            "hour by method",
            "* | stats by (_time:1h, method) count() n",
            "SELECT toStartOfInterval(\"Time\", INTERVAL 1 HOUR) t, method, count(*) FROM logs GROUP BY 1, 2",
        ),
        of(
            "minutes by status filter",
            "status:>=500 | stats by (_time:1m, status) count() n",
            "SELECT toStartOfInterval(\"Time\", INTERVAL 1 MINUTE) t, status, count(*) FROM logs WHERE status >= 500 GROUP BY 1, 2",
        ),
        of(
            "bytes histogram",
            "* | stats by (bytes:1000) count() n",
            "SELECT intDiv(bytes, 1000), count(*) FROM logs GROUP BY 1",
        ),
        of(
            "extract number",
            "* | extract \"/api/v1/<kind>/<id>\" from path | stats by (kind) count() n",
            "SELECT splitByChar('/', path)[4] AS k, count(*) FROM logs GROUP BY 1",
        ),
        of(
            "extract top id",
            "* | extract \"/api/v1/<kind>/<id>\" from path | top 10 by (id)",
            "SELECT splitByChar('/', path)[5] AS k, count(*) AS n FROM logs GROUP BY 1 ORDER BY n DESC LIMIT 10",
        ),
        of(
            "sort by path",
            "* | sort by (path, client) | limit 20",
            "SELECT * FROM logs ORDER BY path, client LIMIT 20",
        ),
        of(
            "newest by client",
            "* | stats by (client) max(_time) t | sort by (t desc) | limit 10",
            "SELECT client, max(\"Time\") AS t FROM logs GROUP BY 1 ORDER BY t DESC LIMIT 10",
        ),
        of(
            "not get, slow, errors",
            "-method:=GET duration_ms:>500 level:error | sort by (bytes desc) | limit 5",
            "SELECT * FROM logs WHERE method != 'GET' AND duration_ms > 500 AND \"Level\" = 'error' ORDER BY bytes DESC LIMIT 5",
        ),
        of(
            "sum of if",
            "* | stats by (_time:10m) sum(bytes) if (status:=200) ok, sum(bytes) all",
            "SELECT toStartOfInterval(\"Time\", INTERVAL 10 MINUTE) t, sumIf(bytes, status = 200), sum(bytes) FROM logs GROUP BY 1",
        ),
        of(
            "having by instance and status",
            "* | stats by (instance, status) count() n | filter n:<500 | sort by (n) | limit 20",
            "SELECT \"PartitionKey\", status, count(*) AS n FROM logs GROUP BY 1, 2 HAVING n < 500 ORDER BY n LIMIT 20",
        ),
        of(
            "client prefix groups",
            "* | extract_regexp \"^(?P<net>10\\\\.[0-9]+)\\\\.\" from client | stats by (net) count() n",
            "SELECT extract(client, '^(10\\\\.[0-9]+)\\\\.') AS k, count(*) FROM logs GROUP BY 1",
        ),
        of(
            "all of one client",
            "client:=\"10.5.26.161\" | sort by (_time)",
            "SELECT * FROM logs WHERE client = '10.5.26.161' ORDER BY \"Time\"",
        ),
        of("trace prefix", "trace_id:\"3356daa818\"*", "SELECT * FROM logs WHERE trace_id LIKE '3356daa818%'"),
        of(
            "10,000 rows of two filters",
            "method:=PUT status:=200 | limit 10000",
            "SELECT * FROM logs WHERE method = 'PUT' AND status = 200 ORDER BY \"Time\" DESC LIMIT 10000",
        ),
        of(
            "rows 2,000 fields",
            "level:warn | fields _time, path, duration_ms | limit 2000",
            "SELECT \"Time\", path, duration_ms FROM logs WHERE \"Level\" = 'warn' ORDER BY \"Time\" DESC LIMIT 2000",
        ),
        of(
            "math mean",
            "* | math bytes / duration_ms as r | stats by (method) avg(r) a, max(r) b",
            "SELECT method, avg(bytes / duration_ms), max(bytes / duration_ms) FROM logs GROUP BY 1",
        ),
        of(
            "quantiles",
            "* | stats quantile(0.5, duration_ms) a, quantile(0.9, bytes) b, quantile(0.99, bytes) c",
            "SELECT quantile(0.5)(duration_ms), quantile(0.9)(bytes), quantile(0.99)(bytes) FROM logs",
        ),
        of(
            "top pairs",
            "* | top 10 by (method, path)",
            "SELECT method, path, count(*) AS n FROM logs GROUP BY 1, 2 ORDER BY n DESC LIMIT 10",
        ),
        of(
            "message words",
            "\"request failed\" | stats by (component) count() n",
            "SELECT component, count(*) FROM logs WHERE \"Message\" LIKE '%request failed%' GROUP BY 1",
        ),
        of(
            "sum of bytes by client top",
            "* | stats by (client) sum(bytes) b | sort by (b desc) | limit 10",
            "SELECT client, sum(bytes) AS b FROM logs GROUP BY 1 ORDER BY b DESC LIMIT 10",
        ),
        of(
            "uniq paths of an hour",
            "_time:[2026-11-20T12:00:00Z, 2026-11-20T13:00:00Z) | uniq by (path) | stats count() n",
            "SELECT uniqExact(path) FROM logs WHERE \"Time\" >= '2026-11-20 12:00:00' AND \"Time\" < '2026-11-20 13:00:00'",
        ),
        of(
            "hour p95 by method",
            "_time:[2026-11-20T12:00:00Z, 2026-11-20T13:00:00Z) | stats by (_time:1m, method) quantile(0.95, duration_ms) p",
            "SELECT toStartOfInterval(\"Time\", INTERVAL 1 MINUTE) t, method, quantile(0.95)(duration_ms) FROM logs WHERE \"Time\" >= '2026-11-20 12:00:00' AND \"Time\" < '2026-11-20 13:00:00' GROUP BY 1, 2",
        ),
    ]
}
