"""Records for the page: a day of a small shop, and lines that try to break it.

    corpus.py FOLDER COUNT [plain|kinds]

Writes NDJSON files with times up to now, with `plain` without the lines that try to break it. With `kinds`, files of five kinds of logs instead, each
with COUNT records over 30 hours. The same numbers give the same records, but for the times.
"""

import datetime
import json
import pathlib
import random
import sys

HOSTILE = [
    "<script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">",
    "a\u202egnissap\u202c b \u2066c\u2069 \u200f",
    "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd from right to left",
    "bell \u0007 escape \u001b[31mred\u001b[0m null-ish \u0001\u0002 del \u007f",
    "100 KB: " + "x" * 100_000,
    "\"quotes\" 'single' `back` \\ backslash | pipe ( ) * : - ,",
    "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    main()\nValueError: no & < > \" '",
    "emoji \U0001f469\u200d\U0001f4bb and combining e\u0301\u0327\u0323",
]

SERVICES = {
    "web-1": "nginx", "web-2": "nginx", "api-1": "orders", "api-2": "orders", "api-3": "payments", "db-1": "postgres", "cron-1": "backup",
}
PATHS = ["/", "/login", "/cart", "/api/v1/orders", "/api/v1/orders/{n}", "/api/v1/payments", "/static/app.css", "/health"]


def record(rng, time):
    instance = rng.choices(list(SERVICES), weights=[30, 28, 14, 12, 8, 6, 1])[0]
    component = SERVICES[instance]
    trace = f"{rng.getrandbits(64):016x}"
    base = {"time": time, "host": instance, "component": component}
    if component == "nginx":
        path = rng.choice(PATHS).replace("{n}", str(rng.randrange(9000)))
        status = rng.choices([200, 304, 404, 499, 500, 502], weights=[900, 60, 25, 6, 5, 4])[0]
        ms = round(rng.lognormvariate(3, 1), 1)
        level = "error" if status >= 500 else "warn" if status == 404 else "info"
        return base | {"level": level, "message": f"{rng.choice(['GET', 'GET', 'GET', 'POST'])} {path} {status} in {ms} ms", "path": path,
                       "status": status, "duration_ms": ms, "client": f"10.0.{rng.randrange(4)}.{rng.randrange(250)}", "trace_id": trace}
    if component == "postgres":
        return base | {"level": rng.choices(["info", "debug", "warn"], weights=[6, 3, 1])[0],
                       "message": f"checkpoint complete: wrote {rng.randrange(4000)} buffers ({rng.random() * 20:.1f}%); sync={rng.random():.3f} s"}
    if component == "backup":
        return base | {"level": "notice", "message": f"copied volume data-{rng.randrange(8)} ({rng.randrange(900)} MiB)"}
    order = rng.randrange(100_000)
    if rng.random() < 0.02:
        return base | {"level": "error", "message": f"order {order}: connection to 10.1.0.{rng.randrange(9)}:5432 refused after {rng.randrange(30)} s",
                       "order": order, "user": f"user-{rng.randrange(40)}", "trace_id": trace, "retries": rng.randrange(5)}
    if rng.random() < 0.002:
        return base | {"level": "critical", "message": f"order {order}: payment was taken twice", "order": order, "trace_id": trace}
    return base | {"level": rng.choices(["info", "debug", "warn"], weights=[12, 6, 1])[0], "message": f"order {order} accepted for user-{rng.randrange(40)} in {rng.randrange(90)} ms",
                   "order": order, "user": f"user-{rng.randrange(40)}", "trace_id": trace}


def main(folder, count, hostile=True):
    rng = random.Random(7)
    now = datetime.datetime.now(datetime.timezone.utc)
    span = 20 * 3600
    records = []
    for n in range(count):
        # More at some hours than at others, and more errors in one of them.
        ago = span * (1 - (n / count)) + rng.random() * 30
        time = now - datetime.timedelta(seconds=ago + 60)
        record_ = record(rng, time.isoformat(timespec="milliseconds").replace("+00:00", "Z"))
        if 0.62 < n / count < 0.66 and record_["component"] == "orders" and rng.random() < 0.5:
            order = rng.randrange(100_000)
            record_ |= {"level": "error", "message": f"order {order}: connection to 10.1.0.7:5432 refused after {rng.randrange(30)} s", "retries": 5}
        if rng.random() < 0.35 + 0.6 * abs(((ago / 3600) % 12) - 6) / 6:
            records.append(record_)
    if hostile:
        for n, message in enumerate(HOSTILE):
            time = (now - datetime.timedelta(seconds=50 - n)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            records.append({"time": time, "level": "warn", "host": "hostile-1", "component": "<b>bold</b>", "message": message, "n": n})
        time = (now - datetime.timedelta(seconds=30)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        records.append({"time": time, "level": "info", "host": "hostile-1", "message": "a thousand fields"} | {f"field.{n:04}": f"value {n}" for n in range(1000)})
    path = pathlib.Path(folder) / "shop.log"
    with path.open("w") as file:
        for one in records:
            file.write(json.dumps(one) + "\n")
    print(len(records))


AGENTS = ["Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "curl/8.5.0", "kube-probe/1.31"]
TRACE = """java.lang.IllegalStateException: order {order} has no items
\tat com.example.shop.Cart.total(Cart.java:{line})
\tat com.example.shop.Checkout.pay(Checkout.java:88)
\tat java.base/java.lang.Thread.run(Thread.java:1583)
Caused by: java.sql.SQLTransientConnectionException: pool-1 - Connection is not available
\tat com.zaxxer.hikari.pool.HikariPool.getConnection(HikariPool.java:197)
\t... 12 more"""
PYTHON = """Traceback (most recent call last):
  File "/srv/app/views.py", line {line}, in pay
    card.charge(amount)
  File "/srv/app/cards.py", line 31, in charge
    raise Declined(code)
app.cards.Declined: 05"""


def access(rng, time):
    path = rng.choice(["/", "/login", "/cart", "/api/orders"] + [f"/item/{rng.randrange(6000)}"] * 8)
    status = rng.choices([200, 304, 404, 500, 502], weights=[900, 60, 25, 6, 4])[0]
    return (f'10.0.{rng.randrange(4)}.{rng.randrange(250)} - {rng.choice(["-", "-", "ann"])} [{time:%d/%b/%Y:%H:%M:%S} +0000] "GET {path} HTTP/1.1" '
            f'{status} {rng.randrange(90000)} "{rng.choice(["-", "https://shop.example/"])}" "{rng.choice(AGENTS)}"')


def handled(rng, time):
    """An application that says the same of each request."""
    line = {"time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"), "level": "info", "msg": "request handled", "service": "shop", "version": "1.4.2",
            "request_id": f"{rng.getrandbits(128):032x}", "method": rng.choice(["GET", "POST"]), "path": rng.choice(PATHS).replace("{n}", str(rng.randrange(9000))),
            "status": rng.choices([200, 404, 503], weights=[95, 4, 1])[0], "duration_ms": round(rng.lognormvariate(3, 1), 1), "user": rng.choice(["ann", "bob", "", None])}
    if line["status"] == 503:
        line |= {"level": "error", "stack": PYTHON.replace("{line}", str(rng.randrange(90)))}
    if rng.random() < 0.01:
        line["user"] = "<b>bold</b>\u001b[31m\u202e"
    if rng.random() < 0.01:
        line["ratio"] = "NaN"
    return json.dumps(line)


def java(rng, time):
    at = f"{time:%Y-%m-%d %H:%M:%S},{time.microsecond // 1000:03}"
    order = rng.randrange(100_000)
    if rng.random() < 0.02:
        return f"{at} ERROR [http-nio-8080-exec-{rng.randrange(9)}] com.example.shop.Checkout - payment of order {order} failed\n{TRACE.format(order=order, line=rng.randrange(300))}"
    return f"{at} {rng.choice(['INFO ', 'INFO ', 'DEBUG', 'WARN '])} [http-nio-8080-exec-{rng.randrange(9)}] com.example.shop.{rng.choice(['Cart', 'Stock'])} - order {order} took {rng.randrange(900)} ms"


def syslog(rng, time):
    text = rng.choice([
        f"sshd[{rng.randrange(9000)}]: Accepted publickey for deploy from 10.0.0.{rng.randrange(250)} port {rng.randrange(60000)} ssh2", "systemd[1]: Started backup.service - Copies volumes.",
        f"kernel: [{rng.randrange(99999)}.{rng.randrange(999999):06}] eth0: link up", f"CRON[{rng.randrange(9000)}]: (root) CMD (run-parts /etc/cron.hourly)",
    ])
    return f"{time.isoformat(timespec='microseconds')} db-1 {text}"


def postgres(rng, time):
    at = f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03} UTC"
    who = f"[{rng.randrange(9000)}] shop@orders"
    if rng.random() < 0.02:
        return f"{at} {who} ERROR:  duplicate key value violates unique constraint \"orders_pkey\"\n{at} {who} DETAIL:  Key (id)=({rng.randrange(9000)}) already exists."
    return f"{at} {who} LOG:  duration: {rng.random() * 900:.3f} ms  statement: SELECT * FROM orders WHERE id = {rng.randrange(9000)}"


KINDS = {"nginx-access.log": access, "app.log": handled, "java.log": java, "syslog.log": syslog, "postgresql.log": postgres}


def kinds(folder, count):
    """A file of each kind, and one with a single record."""
    rng = random.Random(11)
    now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    for name, line in KINDS.items():
        with (pathlib.Path(folder) / name).open("w") as file:
            for n in range(count):
                time = now - datetime.timedelta(seconds=60 + 30 * 3600 * (1 - n / count)) + datetime.timedelta(milliseconds=rng.randrange(1000))
                file.write(line(rng, time) + "\n")
    (pathlib.Path(folder) / "single.log").write_text(f"{now - datetime.timedelta(hours=2):%Y-%m-%dT%H:%M:%SZ} WARN disk is nearly full\n")


if __name__ == "__main__":
    kind = sys.argv[3] if len(sys.argv) > 3 else ""
    if kind == "kinds":
        kinds(sys.argv[1], int(sys.argv[2]))
    else:
        main(sys.argv[1], int(sys.argv[2]), kind != "plain")
