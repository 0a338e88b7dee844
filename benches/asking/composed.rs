//! Composed questions: pipes behind pipes, sorts, many groups, expressions before groups.

use crate::questions::Question;

/// All composed questions.
pub(crate) fn composed() -> Vec<Question> {
    let of = |name, query: &str, sql: &str| Question::new(name, "2× best", query, sql);
    vec![
        of(
            "average by path, the filter behind",
            "* | filter level:error | stats by (path) avg(duration_ms) a",
            "SELECT path, avg(duration_ms) FROM logs WHERE \"Level\" = 'error' GROUP BY 1",
        ),
        of(
            "average of an expression by component",
            "* | math duration_ms / 1000 as s | stats by (component) avg(s) a",
            "SELECT component, avg(duration_ms / 1000) FROM logs GROUP BY 1",
        ),
        of(
            "top 5 of two fields as one text",
            "* | format \"<method> <path>\" as k | top 5 by (k)",
            "SELECT method || ' ' || path AS k, count(*) AS n FROM logs GROUP BY 1 ORDER BY n DESC LIMIT 5",
        ),
        of(
            "count by a part of a text",
            "level:error | extract \"attempt <n> of\" from error | stats by (n) count() c",
            "SELECT regexp_extract(error, 'attempt ([^ ]*) of', 1) AS n, count(*) FROM logs WHERE \"Level\" = 'error' GROUP BY 1",
        ),
        of(
            "ten of the longest duration",
            "* | sort by (duration_ms desc) | limit 10",
            "SELECT * FROM logs ORDER BY duration_ms DESC LIMIT 10",
        ),
        of(
            "fifty by status and bytes",
            "* | sort by (status, bytes desc) | limit 50",
            "SELECT * FROM logs ORDER BY status, bytes DESC LIMIT 50",
        ),
        of(
            "clients with more than 20 records",
            "* | stats by (client) count() n | filter n:>20 | stats count() c",
            "SELECT count(*) FROM (SELECT client, count(*) AS n FROM logs GROUP BY 1 HAVING count(*) > 20) AS g",
        ),
        of(
            "different clients every hour",
            "* | stats by (_time:1h) count_uniq(client) u",
            "SELECT date_trunc('hour', \"Time\") AS t, count(DISTINCT client) FROM logs GROUP BY 1",
        ),
        of(
            "part of failures by component",
            "* | stats by (component) count() if (status:>=500) bad, count() n | math bad / n as part",
            "SELECT component, sum(CASE WHEN status >= 500 THEN 1 ELSE 0 END) / count(*) FROM logs GROUP BY 1",
        ),
        of(
            "count of a beginning of a path",
            "path:~\"^/api/v1/orders/1\" | stats count() n",
            "SELECT count(*) FROM logs WHERE path LIKE '/api/v1/orders/1%'",
        ),
        of(
            "count of a word in any case",
            "error:i(DEADLOCK) | stats count() n",
            "SELECT count(*) FROM logs WHERE lower(error) LIKE '%deadlock%'",
        ),
        of(
            "count of a network",
            "client:ipv4_range(10.3.0.0/16) | stats count() n",
            "SELECT count(*) FROM logs WHERE client LIKE '10.3.%'",
        ),
        of(
            "count by status, but one",
            "-status:=200 | stats by (status) count() n",
            "SELECT status, count(*) FROM logs WHERE status != 200 GROUP BY 1",
        ),
        of(
            "two filters every 10 min",
            "duration_ms:range[100, 200] method:=POST | stats by (_time:10m) count() n",
            "SELECT time_bucket(INTERVAL '10 minutes', \"Time\"), count(*) FROM logs WHERE duration_ms BETWEEN 100 AND 200 AND method = 'POST' GROUP BY 1",
        ),
        of(
            "count of different paths",
            "* | uniq by (path) | stats count() n",
            "SELECT count(*) FROM (SELECT DISTINCT path FROM logs) AS p",
        ),
        of(
            "top 10 of two fields of many values",
            "* | stats by (path, client) count() n | sort by (n desc) | limit 10",
            "SELECT path, client, count(*) AS n FROM logs GROUP BY 1, 2 ORDER BY n DESC LIMIT 10",
        ),
        of(
            "two fields of 100,000 records",
            "status:=404 | fields path, client | limit 100000",
            "SELECT path, client FROM logs WHERE status = 404 LIMIT 100000",
        ),
        of(
            "top 10 of replaced paths",
            "* | replace (\"/api\", \"\") at path | top 10 by (path)",
            "SELECT replace(path, '/api', '') AS p, count(*) AS n FROM logs GROUP BY 1 ORDER BY n DESC LIMIT 10",
        ),
        of("different identifiers", "* | stats count_uniq(trace_id) u", "SELECT count(DISTINCT trace_id) FROM logs"),
        of(
            "top 10 identifiers",
            "* | top 10 by (trace_id)",
            "SELECT trace_id, count(*) AS n FROM logs GROUP BY 1 ORDER BY n DESC LIMIT 10",
        ),
    ]
}
