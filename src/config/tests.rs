//! Accepted and refused configurations, and the texts of problems.

use super::parts::sections;
use super::reference::{sample, sample_with_every_key};
use super::section::{ProblemList, Section};
use super::*;
use daytable_alert::action::{ActionOptions, Webhook, WebhookAddress};
use daytable_alert::relay::MailRelay;
use daytable_alert::{AlertRule, DeliveryOptions, Threshold};
use daytable_archive::{Access, TableFormat};
use daytable_forward::options::ForwardOptions;
use daytable_intake::journal::JournalOptions;
use daytable_intake::rate_limit::SenderLimits;
use daytable_intake::route::Condition;
use daytable_intake::source::ReadFrom;
use daytable_intake::syslog::SyslogOptions;
use daytable_intake::tail::{TailOptions, WatchMode};
use daytable_lifecycle::LifecycleLimits;
use daytable_model::key::{Period, TableName};
use daytable_model::units::{ByteSize, count};
use daytable_model::window::Window;
use daytable_net::tls::TlsOptions;
use daytable_parse::redact::{Redaction, Redactor};
use daytable_parse::{Explicit, Format, FormatChoice, Join, ParseOptions};
use proptest::prelude::*;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::Path;
use std::time::Duration;
use toml::de::DeTable;
use tracing::level_filters::LevelFilter;

/// The query of a rule with two columns.
const SLOW: &str = "* | stats by (path) quantile(0.95, duration) p95, count() n";
const DAY: Duration = Duration::from_secs(86_400);

fn parse(text: &str) -> Config {
    Config::parse(text, "daytable.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn problems(text: &str) -> String {
    Config::parse(text, "f").expect_err(text).to_string()
}

fn condition(filter: &str) -> Condition {
    Condition::parse(filter).expect("a filter")
}

fn table(name: &str) -> TableConfig {
    TableConfig::new(TableName::new(name).expect("a name"))
}

fn include(patterns: &[&str]) -> Vec<String> {
    patterns.iter().map(|pattern| (*pattern).to_owned()).collect()
}

/// The configuration of the sample: the defaults, and the sources of a host, which have none.
fn sample_config() -> Config {
    let tail = TailOptions {
        exclude: include(&["/var/log/{auth,cron,daemon,kern,mail,user}.log"]),
        ..TailOptions::new("tail", include(&["/var/log/**/*.log"]))
    };
    let journal = JournalOptions { name: "journal".into(), ..JournalOptions::default() };
    let sources = SourceBlocks { tails: vec![tail], journals: vec![journal], ..SourceBlocks::default() };
    Config { sources, read_group: Some("adm".into()), ..Config::default() }
}

#[test]
fn an_empty_file_is_the_defaults() {
    assert_eq!(parse(""), Config::default());
    assert_eq!(parse("[http]\n[lifecycle]\n[store]\n[log]\n"), Config::default());
}

#[test]
fn the_sample_has_the_defaults() {
    assert_eq!(parse(&sample()), sample_config());
}

#[test]
fn the_sample_with_every_key() {
    let mut expected = sample_config();
    let per_sender = SenderLimits {
        records_per_s: NonZeroU32::new(10_000),
        bytes_per_s: NonZeroU64::new(10 << 20),
        bytes_per_day: NonZeroU64::new(10 << 30),
        connections: NonZeroU32::new(100),
    };
    expected.http.token_file = Some("/run/credentials/daytable.service/token".into());
    expected.http.credentials_file = Some("/etc/daytable/credentials.toml".into());
    expected.http.push = Some(PushAccess::Credentials);
    expected.http.per_sender = per_sender;
    let when = Some(condition("level:<=debug"));
    let debug = TableConfig { window: Window { keep: 2 * DAY, period: Period::Day }, when, ..table("Debug") };
    let when = Some(condition("instance:=web-* took_ms:>=1000 -source:~\"/health[.]log$\""));
    let slow = TableConfig { window: Window { keep: 90 * DAY, period: Period::Day }, when, ..table("Slow") };
    let (window, hosts) = (Window { keep: 400 * DAY, period: Period::Day }, vec!["pay-*".to_owned()]);
    let pay = TableConfig { window, hosts, ..table("Pay") };
    expected.tables.splice(0..0, [debug, slow, pay]);
    expected.lifecycle.verify_sequence = Some("seq".into());
    expected.archives = Access {
        s3_endpoint: Some("https://s3.example.org".into()),
        s3_region: Some("eu-central-1".into()),
        s3_credentials_file: Some("/run/credentials/daytable.service/s3".into()),
        azure_connection_string_file: Some("/run/credentials/daytable.service/azure".into()),
        gcs_credentials_file: Some("/run/credentials/daytable.service/gcs".into()),
        allow_http: false,
        table_format: TableFormat::None,
        publish_open: None,
    };
    expected.alerts = DeliveryOptions {
        token_file: Some("/run/credentials/daytable.service/alerts".into()),
        user: Some("daytable".into()),
        ca_file: Some("/etc/daytable/alertmanager-ca.pem".into()),
        cert_file: Some("/etc/daytable/alerts.pem".into()),
        key_file: Some("/etc/daytable/alerts.key".into()),
        page_url: Some("https://logs.example.org".into()),
        mail_relay: Some(MailRelay::parse("smtp://127.0.0.1:25").expect("a relay")),
        mail_from: Some("daytable <daytable@example.org>".into()),
        mail_user: Some("daytable".into()),
        mail_password_file: Some("/run/credentials/daytable.service/mail".into()),
        ..DeliveryOptions::default()
    };
    expected.forward = vec![daytable_forward::options::ForwardOptions {
        to: "https://logs.example:7878".into(),
        credential_file: "/etc/daytable/forward".into(),
        ca_file: Some("/etc/daytable/logs-ca.pem".into()),
        code_file: Some("/run/secrets/daytable/enrol/code".into()),
        headers_file: Some("/etc/daytable/otlp-headers".into()),
        cert_file: Some("/etc/daytable/host.pem".into()),
        key_file: Some("/etc/daytable/host.key".into()),
        allow_plain: false,
    }];
    let tenant = |name: &str, instances: &str, token_file: Option<&str>| TenantConfig {
        name: name.into(),
        instances: vec![instances.into()],
        token_file: token_file.map(Into::into),
        ..TenantConfig::default()
    };
    let acme = tenant("acme", "web-*", Some("/run/credentials/daytable.service/acme"));
    expected.tenants = vec![tenant("shop", "shop-*", None), TenantConfig { hosts: vec!["web-*".into()], ..acme }];
    let saved = |name: &str, query: &str| SavedQuery {
        name: name.into(),
        query: query.into(),
        since: Some("24h".into()),
        ..SavedQuery::default()
    };
    expected.saved_queries = vec![
        SavedQuery { columns: vec!["path".into(), "status".into()], ..saved("Failed requests", "status:>=500") },
        SavedQuery {
            about: Some("Requests that somebody waited for".into()),
            ..saved("Slow requests", "duration:>1s")
        },
    ];
    let instance = || vec!["instance".to_owned()];
    let (slow, text) =
        (AlertRule::new("Slow", SLOW), |name: &str, text: &str| [(name.to_owned(), text.to_owned())].into());
    expected.alert_rules = vec![
        AlertRule { by: instance(), above: Threshold::new(5.0), ..AlertRule::new("Errors", "level:>=error") },
        AlertRule {
            by: instance(),
            below: Threshold::new(1.0),
            period: Duration::from_secs(900),
            ..AlertRule::new("Silent", "instance:db-*")
        },
        AlertRule {
            value: Some("p95".into()),
            above: Threshold::new(1.5e9),
            below: Threshold::new(1.0),
            labels: text("severity", "page"),
            annotations: text("summary", "{path} takes {value} ns"),
            actions: ActionOptions {
                webhook: Some(Webhook::Address(
                    WebhookAddress::parse("https://hooks.example.org/alerts").expect("an address"),
                )),
                webhook_token_file: Some("/etc/daytable/webhook-token".into()),
                webhook_body: Some("{\"text\": \"{alert} {status}: {summary}\"}".into()),
                ..ActionOptions::default()
            },
            ..slow
        },
    ];
    expected.forward = vec![ForwardOptions {
        to: "https://logs.example:7878".into(),
        credential_file: "/etc/daytable/forward".into(),
        ca_file: Some("/etc/daytable/logs-ca.pem".into()),
        code_file: Some("/run/secrets/daytable/enrol/code".into()),
        headers_file: Some("/etc/daytable/otlp-headers".into()),
        cert_file: Some("/etc/daytable/host.pem".into()),
        key_file: Some("/etc/daytable/host.key".into()),
        ..ForwardOptions::default()
    }];
    expected.store.azure.account = AccountConfig {
        credentials: CredentialKind::ConnectionString,
        connection_string_file: Some("/run/credentials/daytable.service/azure".into()),
        endpoint: Some("https://ACCOUNT.table.core.windows.net".into()),
        tenant_id: Some("72f988bf-86f1-41af-91ab-2d7cd011db47".into()),
        client_id: Some("6731de76-14a6-49ae-97bc-6eba6914391e".into()),
        client_secret_file: Some("/run/credentials/daytable.service/entra".into()),
        federated_token_file: Some("/var/run/secrets/azure/tokens/azure-identity-token".into()),
    };
    expected.host = Some("web-1".into());
    let tls = TlsOptions {
        cert_file: "/etc/daytable/cert.pem".into(),
        key_file: "/etc/daytable/key.pem".into(),
        client_ca_file: Some("/etc/daytable/client-ca.pem".into()),
    };
    expected.http.tls = Some(tls.clone());
    let listener = |listen: &str| SyslogOptions::new(listen.parse().expect("an address"));
    expected.sources.syslogs = vec![
        SyslogOptions { tls: Some(tls), per_sender, ..listener("tls://127.0.0.1:6514") },
        SyslogOptions { name: "local".into(), ..listener("unix-dgram:///run/daytable/log") },
    ];
    expected.sources.journals =
        vec![JournalOptions { directory: Some("/var/log/journal/remote".into()), ..JournalOptions::default() }];
    assert_eq!(parse(&sample_with_every_key()), expected);
}

#[test]
fn a_credential_of_the_service_manager_is_in_its_folder() {
    let config = parse("[http]\ntoken_file = \"%d/token\"\n[archives]\ns3_credentials_file = \"%d/s3\"\n");
    assert_eq!(config.http.token_file.as_deref(), Some(Path::new("/run/credentials/daytable.service/token")));
    assert_eq!(config.archives.s3_credentials_file.as_deref(), Some(Path::new("/run/credentials/daytable.service/s3")));
}

#[test]
fn the_sample_and_the_reference_have_every_key() {
    let text = sample_with_every_key();
    let problems = ProblemList::new(&text);
    let (file, errors) = DeTable::parse_recoverable(&text);
    assert_eq!(errors, []);
    Config::read(Section::root(file.get_ref(), &problems));
    let sections = sections();
    for ((section, key), is_given) in problems.asked() {
        assert!(is_given, "{section} {key} is absent from the sample");
        let is_header =
            sections.iter().any(|header| header.bare_name() == key && header.place != key::SectionPlace::Inline);
        let has_row = |section: &key::SectionDoc| section.keys.iter().any(|row| row.name == key);
        let mut own = sections.iter().filter(|known| known.name == section);
        assert!(is_header || own.any(has_row), "{section} {key} has no row");
    }
}

#[test]
fn every_key_is_read() {
    let config = parse(
        r#"
        data_dir = "/srv/logs"
        read_group = "ops"
        read_socket = "/run/logs/read.sock"
        redact = ["credit-card"]
        http = { listen = "off", token_file = "/etc/token", connections_max = 0x10 }
        [[tail]]
        name = "nginx"
        include = ["/srv/**/*.log"]
        exclude = ["**/*.gz", "/srv/old/*"]
        instance = "{host}-{stem}"
        fields_from_path = "/srv/{app}/*"
        containers = true
        container_labels = ["team"]
        fields = { site = "north" }
        format = "logfmt"
        zone = "Europe/Paris"
        join = { lines_max = 50, wait = "250ms" }
        redact = ["email", { name = "pin", regex = 'pin=(\d+)', replace = "" }]
        read_from = "end"
        ignore_older = "12w"
        unended_after = "1m"
        line_bytes_max = "64KiB"
        open_files_max = 7
        poll = "1s"
        watch = "poll"
        [[table]]
        name = "Audit"
        keep = "400d"
        period = "month"
        archive = "s3://logs/host-1/"
        keep_archives = "3650d"
        buckets = 256
        when = "source:=/srv/audit/*"
        [[table]]
        name = "Loud"
        when = "level:>=error"
        [[table]]
        name = "Tenant"
        when = 'instance:=a-*'
        [[table]]
        name = "Rest"
        period = "hour"
        [archives]
        s3_endpoint = "http://127.0.0.1:9000/"
        allow_http = true
        table_format = "delta"
        publish_open = "5m"
        [lifecycle]
        schedule = "@hourly"
        grace = "0s"
        drops_per_run_max = 1
        [store]
        kind = "azure"
        commit_interval = "1ms"
        credentials = "client_secret"
        endpoint = "https://acme.table.core.windows.net/"
        tenant_id = "acme.example"
        client_id = "app"
        client_secret_file = "/etc/entra"
        owner = false
        fill = "0s"
        transactions_max = 3
        buckets_max = 200
        grow_after = "1s"
        send_order = "newest_first"
        outbox_bytes_max = "1MiB"
        outbox_age_max = "off"
        when_full = "drop_oldest"
        dead_letters_keep = "1d"
        [alerts]
        send_to = ["https://am-1:9093/", "http://127.0.0.1:9093"]
        token_file = "/etc/token"
        allow_http = true
        resend = "30s"
        page_url = "https://logs"
        [[alert]]
        name = "Errors"
        query = "level:>=error"
        by = ["instance"]
        above = 5
        [[alert]]
        name = "Slow"
        query = "* | stats by (path) quantile(0.95, duration) p95, count() n"
        value = "p95"
        above = "1.5s"
        below = 0.5
        period = "1h"
        every = "1m"
        forget = "2h"
        labels = { severity = "page" }
        annotations = { summary = "{value} at {path}" }
        [log]
        level = "trace"
        "#,
    );
    assert_eq!(config.data_dir, Path::new("/srv/logs"));
    assert_eq!((config.read_group.as_deref(), &*config.read_socket), (Some("ops"), Path::new("/run/logs/read.sock")));
    let (listen, token_file) = (Listen::Off, Some("/etc/token".into()));
    assert_eq!(config.http, HttpConfig { listen, token_file, connections_max: count(16), ..HttpConfig::default() });
    let card = Redaction::preset("credit-card").expect("a preset");
    assert_eq!(config.redact, std::slice::from_ref(&card));
    let pin = Redaction::regex("pin", "pin=(\\d+)", Some("")).expect("a pattern");
    let tail = TailOptions {
        name: "nginx".into(),
        include: include(&["/srv/**/*.log"]),
        exclude: include(&["**/*.gz", "/srv/old/*"]),
        instance: "{host}-{stem}".parse().expect("a template"),
        fields_from_path: Some("/srv/{app}/*".parse().expect("a pattern")),
        containers: true,
        container_labels: vec!["team".into()],
        fields: vec![("site".into(), "north".into())],
        reading: ParseOptions {
            format: FormatChoice::Only(Format::Logfmt),
            explicit: None,
            zone: "Europe/Paris".parse().expect("a zone"),
            redactor: Redactor::new([card, Redaction::preset("email").expect("a preset"), pin]),
            join: Join { lines_max: count(50), wait: Duration::from_millis(250) },
        },
        read_from: ReadFrom::End,
        ignore_older: Some(84 * DAY),
        unended_after: Some(Duration::from_secs(60)),
        line_bytes_max: 65_536,
        open_files_max: 7,
        poll: Duration::from_secs(1),
        watch: WatchMode::Poll,
    };
    assert_eq!(config.sources.tails, [tail]);
    let tables = [
        TableConfig {
            window: Window { keep: 400 * DAY, period: Period::Month },
            archive: Some("s3://logs/host-1".parse().expect("an address")),
            keep_archives: Some(3650 * DAY),
            buckets: count(256),
            when: Some(condition("source:=/srv/audit/*")),
            ..table("Audit")
        },
        TableConfig { when: Some(condition("level:>=error")), ..table("Loud") },
        TableConfig { when: Some(condition("instance:=a-*")), ..table("Tenant") },
        TableConfig { window: Window { keep: 30 * DAY, period: Period::Hour }, ..table("Rest") },
    ];
    assert_eq!(config.tables, tables);
    let s3_endpoint = Some("http://127.0.0.1:9000".into());
    let (table_format, publish_open) = (TableFormat::Delta, Some(Duration::from_secs(300)));
    let archives = Access { s3_endpoint, allow_http: true, table_format, publish_open, ..Access::default() };
    assert_eq!(config.archives, archives);
    let alerts = DeliveryOptions {
        receivers: vec!["https://am-1:9093".into(), "http://127.0.0.1:9093".into()],
        token_file: Some("/etc/token".into()),
        allow_http: true,
        resend: Duration::from_secs(30),
        page_url: Some("https://logs".into()),
        ..DeliveryOptions::default()
    };
    assert_eq!(config.alerts, alerts);
    let slow = AlertRule {
        value: Some("p95".into()),
        above: Threshold::new(1.5e9),
        below: Threshold::new(0.5),
        period: Duration::from_secs(3600),
        every: Duration::from_secs(60),
        forget: Duration::from_secs(7200),
        labels: [("severity".to_owned(), "page".to_owned())].into(),
        annotations: [("summary".to_owned(), "{value} at {path}".to_owned())].into(),
        ..AlertRule::new("Slow", SLOW)
    };
    let by = vec!["instance".to_owned()];
    let errors = AlertRule { by, above: Threshold::new(5.0), ..AlertRule::new("Errors", "level:>=error") };
    assert_eq!(config.alert_rules, [errors, slow]);
    let limits = LifecycleLimits { drops_per_run_max: count(1), grace: Duration::ZERO, ..LifecycleLimits::default() };
    assert_eq!(
        config.lifecycle,
        LifecycleConfig { schedule: "@hourly".parse().expect("a schedule"), limits, ..LifecycleConfig::default() }
    );
    let azure = RemoteConfig {
        account: AccountConfig {
            credentials: CredentialKind::ClientSecret,
            endpoint: Some("https://acme.table.core.windows.net".into()),
            tenant_id: Some("acme.example".into()),
            client_id: Some("app".into()),
            client_secret_file: Some("/etc/entra".into()),
            ..AccountConfig::default()
        },
        owner: false,
        fill: Duration::ZERO,
        transactions_max: count(3),
        buckets_max: count(200),
        grow_after: Duration::from_secs(1),
        send_order: SendOrder::NewestFirst,
        outbox_bytes_max: ByteSize::new(1 << 20),
        outbox_age_max: None,
        when_full: WhenFull::DropOldest,
        dead_letters_keep: DAY,
    };
    let commit_interval = Duration::from_millis(1);
    assert_eq!(config.store, StoreConfig { kind: StoreKind::Azure, commit_interval, azure });
    assert_eq!(config.log.level, LevelFilter::TRACE);
}

#[test]
fn a_problem_has_its_place_and_the_fix() {
    let formats: Vec<_> = FormatChoice::all().map(|format| format!("{:?}", format.name())).collect();
    let wrong_format = format!("f:3:10: format = \"xml\": must be one of {}", formats.join(", "));
    for (text, expected) in [
        (
            "[[alert]]\nname = \"A\"\nquery = \"error | stat count()\"\nabove = 1",
            "f:3:18: query: unknown pipe stat; did you mean stats?",
        ),
        (
            "[[alert]]\nname = \"A\"\nquery = \"error\"\nabove = \"much\"",
            "f:1:1: [[alert]]: `above` is missing, for example above = 5; or below = 1\n\
             f:4:9: above = \"much\": must be a number, or a text with a unit like \"1.5s\"",
        ),
        (
            "[[alert]]\nname = \"A\"\nquery = \"error\"\nabove = 1\nannotations = { a = \"{b}\" }",
            "f:1:1: [[alert]]: `annotations` {b} is neither {value} nor a field of `by`",
        ),
        (
            "[alerts]\nsend_to = [\"http://u:p@am\"]\nuser = \"a\"",
            "f:1:1: [alerts]: has a `user`, whose password `token_file` names\n\
             f:2:12: send_to = \"http://…@am\": must have no user and no password: write `user` and `token_file`",
        ),
        ("dat_dir = \"/a\"", "f:1:1: unknown key \"dat_dir\" in the file, did you mean \"data_dir\"?"),
        ("colour = 1", "f:1:1: unknown key \"colour\" in the file"),
        (
            "[[table]]\nname = \"Log\"\ntable_format = \"delta\"",
            "f:3:1: unknown key \"table_format\" in [[table]], it belongs in [archives]",
        ),
        ("max_bytes = \"1GiB\"", "f:1:1: unknown key \"max_bytes\" in the file, it belongs in [lifecycle]"),
        ("read_group = \"a b\"", "f:1:14: read_group = \"a b\": must be the name of a group, like \"adm\""),
        ("data_dir = \"a\"", "f:1:12: data_dir = \"a\": must be an absolute path, beginning with \"/\""),
        ("data_dir = 1", "f:1:12: data_dir = 1: must be a text in quotes"),
        (
            "[[tail]]\nincludes = [\"/a\"]",
            "f:1:1: [[tail]]: `include` is missing, for example include = [\"/var/log/*.log\"]\n\
             f:2:1: unknown key \"includes\" in [[tail]], did you mean \"include\"?",
        ),
        (
            "[[table]]\nname = \"Log\"\nkeep = \"30\"",
            "f:3:8: keep = \"30\": a duration needs its unit, for example \"30d\" (ms, s, m, h, d, w)",
        ),
        (
            "[[table]]\nname = \"Log\"\n  keep = 30",
            "f:3:10: keep = 30: a duration needs its unit, for example \"30d\" (ms, s, m, h, d, w)",
        ),
        ("[[table]]\nname = \"Log\"\nkeep = \"0s\"", "f:3:8: keep = \"0s\": must be from \"1m\" to \"36500d\""),
        ("[[table]]\nkeep = \"1d\"", "f:1:1: [[table]]: `name` is missing, for example name = \"Log\""),
        (
            "[[table]]\nname = \"Log1\"",
            "f:2:8: name = \"Log1\": \"Log1\" is not a table name: 3 to 53 letters and digits, a letter first and no digit last",
        ),
        ("[[table]]\nname = \"Log\"\nbuckets = 257", "f:3:11: buckets = 257: must be a whole number from 1 to 256"),
        (
            "[[table]]\nname = \"Log\"\nwhen = \"instance:=a\"",
            "f:1:1: [[table]]: the last one takes all that is left, so it has no `when`; add one behind it",
        ),
        (
            "[[table]]\nname = \"One\"\n[[table]]\nname = \"Log\"",
            "f:1:1: [[table]]: without `when` or `hosts` it takes every record; only the last one may",
        ),
        (
            "[[table]]\nname = \"LOG\"\nwhen = \"instance:=a\"\n[[table]]\nname = \"Log\"",
            "f:4:1: [[table]]: Log and LOG are one name; names differ by more than case",
        ),
        ("[tail]\ninclude = [\"/a\"]", "f:1:1: [tail] is written [[tail]]: there can be several"),
        ("http = 1", "f:1:8: http = 1: must be a table, written [http]"),
        (
            "[http]\nlisten = \"localhost:7878\"",
            "f:2:10: listen = \"localhost:7878\": must be an address and a port, like \"127.0.0.1:7878\" or \
             \"[::]:7878\", or \"off\"",
        ),
        ("[http]\nconnections_max = -1", "f:2:19: connections_max = -1: must be a whole number from 1 to 65535"),
        (
            "[[tail]]\ninclude = [\"/a\", \"b\"]",
            "f:2:18: include = \"b\": must be an absolute path, like \"/var/log/**/*.log\"",
        ),
        ("[[tail]]\ninclude = []", "f:2:11: include = []: must have at least 1"),
        ("[[tail]]\ninclude = \"/a\"", "f:2:11: include = \"/a\": must be a list of texts, like [\"…\"]"),
        ("[[tail]]\ninclude = [\"/a\"]\nformat = \"xml\"", &wrong_format),
        (
            "[[tail]]\ninclude = [\"/a\"]\nline_bytes_max = \"3MiB\"",
            "f:3:18: line_bytes_max = \"3MiB\": must be from \"1KiB\" to \"2MiB\"",
        ),
        (
            "[[tail]]\ninclude = [\"/a\"]\nline_bytes_max = 65536",
            "f:3:18: line_bytes_max = 65536: a size needs its unit, for example \"65536B\" (B, KiB, MiB, GiB, KB, MB, GB)",
        ),
        ("[[tail]]\ninclude = [\"/a\"]\nignore_older = 7", "f:3:16: ignore_older = 7: must be a text in quotes"),
        (
            "[[tail]]\ninclude = [\"/a\"]\nignore_older = \"7\"",
            "f:3:16: ignore_older = \"7\": a duration needs its unit, for example \"7d\" (ms, s, m, h, d, w), or \"off\"",
        ),
        (
            "[[tail]]\ninclude = [\"/a\"]\nfields_from_path = \"/srv/*\"",
            "f:3:20: fields_from_path = \"/srv/*\": has no field: write a field like {pod}",
        ),
        (
            "[[tail]]\ninclude = [\"/a\"]\ninstance = \"{hots}\"",
            "f:3:12: instance = \"{hots}\": unknown placeholder {hots}: the placeholders are {host}, {path}, {stem} and {field:NAME}",
        ),
        (
            "[[tail]]\nname = \"a\"\ninclude = [\"/a\"]\n[[tail]]\nname = \"a\"\ninclude = [\"/b\"]",
            "f:4:1: [[tail]]: two blocks are called \"a\"; give this one a name",
        ),
        (
            "[[syslog]]\nlisten = \"tcp://[::]:514\"\n[[syslog]]\nlisten = \"relp://[::]:514\"",
            "f:3:1: [[syslog]]: two blocks listen on relp://[::]:514: give one of them another `listen`",
        ),
        (
            "[[tail]]\nname = \"a b\"\ninclude = [\"/a\"]",
            "f:2:8: name = \"a b\": a name has 1 to 64 letters, digits, \"-\", \"_\" and \".\"",
        ),
        (
            "[lifecycle]\nschedule = \"0 0 * * 1\"",
            "f:2:12: schedule = \"0 0 * * 1\": a weekday is written by its name, like MON or MON-FRI: \"1\" means another \
             day here than in a crontab",
        ),
        ("[store]\nkind = \"cloud\"", "f:2:8: kind = \"cloud\": must be one of \"embedded\", \"azure\""),
        (
            "[store]\nkind = \"azure\"\nfill = \"2m\"\noutbox_bytes_max = \"1KiB\"\nwhen_full = \"drop\"",
            "f:3:8: fill = \"2m\": must be from \"0ms\" to \"1m\"\n\
             f:4:20: outbox_bytes_max = \"1KiB\": must be from \"1MiB\" to \"1048576GiB\"\n\
             f:5:13: when_full = \"drop\": must be one of \"wait\", \"drop_oldest\"",
        ),
        (
            "[store]\nkind = \"azure\"\noutbox_age_max = \"1s\"\nconnection_string_file = \"azure\"",
            "f:3:18: outbox_age_max = \"1s\": must be from \"1m\" to \"36500d\", or \"off\"\n\
             f:4:26: connection_string_file = \"azure\": must be an absolute path, beginning with \"/\"",
        ),
        (
            "[store]\nkind = \"azure\"\ncredentials = \"managed_identity\"\nconnection_string_file = \"/etc/azure\"",
            "f:1:1: [store]: `credentials` names an identity, which needs `endpoint`, the address of the account's tables\n\
             f:1:1: [store]: `credentials` names an identity, and `connection_string_file` a key: leave one of them out",
        ),
        (
            "[store]\nkind = \"azure\"\nendpoint = \"https://acme.example?sig=secret\"\nclient_id = \"a b\"",
            "f:3:13: endpoint: must be an address without user, key or query, like \"https://ACCOUNT.table.core.windows.net\"\n\
             f:4:13: client_id = \"a b\": must be an id of letters, digits, \"-\" and \".\"",
        ),
        (
            "[store]\nkind = \"azure\"\n[[table]]\nname = \"deadLetter\"",
            "f:1:1: [store]: the name of the table deadLetter is that of the table for rows that the service refuses: choose \
             another name",
        ),
        (
            "[log]\nlevel = \"loud\"",
            "f:2:9: level = \"loud\": must be one of \"error\", \"warn\", \"info\", \"debug\", \"trace\"",
        ),
    ] {
        assert_eq!(problems(text), expected, "{text}");
    }
}

#[test]
fn an_error_in_a_pattern_has_its_place_in_the_pattern() {
    let tail = |key: &str| format!("[[tail]]\ninclude = [\"/a\"]\n{key}");
    for (key, expected) in [
        (
            r"format = { regex = '(?P<time>\S+) (?P<level>\w+' }",
            "f:3:35: regex: unclosed group\n    (?P<time>\\S+) (?P<level>\\w+\n                  ^",
        ),
        (
            // With escapes its bytes are not those of the file.
            r#"format = { regex = "(?P<time>\\S+) (?P<level>\\w+" }"#,
            "f:3:20: regex: unclosed group\n    (?P<time>\\S+) (?P<level>\\w+\n                  ^",
        ),
        (
            "format = { grok = '%{TIMESTAMP_ISO8061:time} %{GREEDYDATA:message}' }",
            "f:3:20: grok: unknown pattern TIMESTAMP_ISO8061, did you mean TIMESTAMP_ISO8601?\n    \
             %{TIMESTAMP_ISO8061:time} %{GREEDYDATA:message}\n    ^",
        ),
        (
            "format = { grok = '%{JOB:job}', patterns = { JOB = 'x-%{STEP}', STEP = '[0-9' } }",
            "f:3:73: STEP: unclosed character class\n    [0-9\n    ^",
        ),
        (
            "format = { grok = '%{JOB:job}', patterns = { JOB = 'x-%{JOB}' } }",
            "f:3:55: JOB: JOB refers to itself: JOB > JOB\n    x-%{JOB}\n      ^",
        ),
        (
            "format = { regexp = 'a' }",
            "f:3:10: format: must have one of `regex` and `grok`, for example { grok = \"%{SYSLOGLINE}\" }\n\
             f:3:12: unknown key \"regexp\" in format, did you mean \"regex\"?",
        ),
        ("format = { regex = 1 }", "f:3:20: regex = 1: must be a text in quotes"),
        ("format = { regex = '(?P<a>a)', patterns = {} }", "f:3:10: format: `patterns` belong to `grok`"),
        (
            "zone = \"Paris\"",
            "f:3:8: zone = \"Paris\": unknown zone \"Paris\" (\"local\", \"UTC\", an offset like \"+02:00\" or a name like \
             \"Europe/Paris\")",
        ),
        (
            "redact = [\"e-mail\"]",
            "f:3:11: redact = \"e-mail\": must be one of \"credit-card\", \"email\", \"bearer-token\", \"private-key\", or a \
             pattern of your own, like { regex = '…' }",
        ),
        ("redact = [{ regex = 'a(' }]", "f:3:23: regex: unclosed group\n    a(\n     ^"),
        ("redact = [{ name = \"email\", regex = 'a' }]", "f:3:20: name = \"email\": is the name of a preset"),
        ("redact = [{}]", "f:3:11: redact: `regex` is missing, for example regex = 'password=(\\S+)'"),
        ("redact = \"email\"", "f:3:10: redact = \"email\": must be a list, like [\"…\"]"),
    ] {
        assert_eq!(problems(&tail(key)), expected, "{key}");
    }
}

#[test]
fn patterns_in_place_of_a_format() {
    let reading = |format: &str| {
        parse(&format!("[[tail]]\ninclude = [\"/a\"]\nformat = {format}")).sources.tails[0].reading.clone()
    };
    let regex = reading("{ regex = '(?P<message>.*)' }");
    assert_eq!(regex.explicit, Some(Explicit::regex("(?P<message>.*)").expect("a pattern")));
    let grok = reading("{ grok = '%{A:a}', patterns = { A = 'x' } }");
    let own = [("A".to_owned(), "x".to_owned())].into();
    assert_eq!(grok.explicit, Some(Explicit::grok("%{A:a}", own).expect("a pattern")));
}

#[test]
fn all_problems_are_reported_at_once_in_the_order_of_the_file() {
    let found = problems("[log]\nlevel = 1\n[http]\nlisten = 2\nliste = 3\n[[tail]]\n[store]\nkind = 4\n");
    let lines: Vec<&str> = found.lines().map(|line| line.split(": ").next().unwrap_or_default()).collect();
    assert_eq!(lines, ["f:2:9", "f:4:10", "f:5:1", "f:6:1", "f:8:8"]);
}

#[test]
fn broken_toml_is_placed() {
    let found = problems("[http]\nlisten = \"127.0.0.1:7878\nconnections_max = 1\n");
    assert!(found.starts_with("f:2:"), "{found}");
    let found = problems("[log]\nlevel = \"info\"\nlevel = \"info\"\n");
    assert!(found.starts_with("f:3:1: `level` is defined twice, first in line 2"), "{found}");
    let found = problems("[log]\nlevel = \"info\"\n[alerts]\nresend = \"1m\"\n\n[alerts]\nresend = \"2m\"\n");
    assert!(found.contains(": `alerts` is defined twice, first in line 3: put its keys together"), "{found}");
    let found = problems("[[tail]]\ninclude = [\"/a\"]\n[[tail]]\ninclude = [\"/b\"]\ninclude = [\"/c\"]\n");
    assert!(found.starts_with("f:5:1: `include` is defined twice, first in line 4"), "{found}");
}

#[test]
fn tails_without_names_get_their_own() {
    let config = parse(
        "[[tail]]\ninclude = [\"/a\"]\n[[tail]]\nname = \"b\"\ninclude = [\"/b\"]\n[[tail]]\ninclude = [\"/c\"]\n",
    );
    let names: Vec<&str> = config.sources.tails.iter().map(|tail| tail.name.as_str()).collect();
    assert_eq!(names, ["tail", "b", "tail-2"]);
}

#[test]
fn listeners_and_their_problems() {
    let block = |text: &str| format!("[[syslog]]\n{text}");
    let config = parse(&block(
        "listen = \"tcp://[::1]:514\"\ninstance = \"edge-{field:host}\"\nzone = \"+02:00\"\nredact = [\"email\"]\n\
         message_bytes_max = \"8KiB\"\nconnections_max = 3\nidle_timeout = \"10m\"",
    ));
    let expected = SyslogOptions {
        instance: "edge-{field:host}".parse().expect("a template"),
        reading: ParseOptions {
            zone: "+02:00".parse().expect("a zone"),
            redactor: Redactor::new([Redaction::preset("email").expect("a preset")]),
            ..ParseOptions::default()
        },
        message_bytes_max: ByteSize::new(8 << 10),
        connections_max: count(3),
        idle_timeout: Some(Duration::from_secs(600)),
        ..SyslogOptions::new("tcp://[::1]:514".parse().expect("an address"))
    };
    assert_eq!(config.sources.syslogs, [expected]);
    for (text, expected) in [
        ("", "f:1:1: [[syslog]]: `listen` is missing, for example listen = \"udp://127.0.0.1:5514\""),
        (
            "listen = \"127.0.0.1:514\"",
            "f:2:10: listen = \"127.0.0.1:514\": must begin with \"udp://\", \"tcp://\", \"tls://\", \"relp://\", \
             \"unix-dgram://\" or \"unix-stream://\", for example \"udp://127.0.0.1:5514\"",
        ),
        (
            "listen = \"udp://:514\"",
            "f:2:10: listen = \"udp://:514\": must have an IP address and a port, like \"udp://127.0.0.1:5514\" or \
             \"udp://[::]:5514\"",
        ),
        (
            "listen = \"tls://127.0.0.1:6514\"\nkey_file = \"/k\"",
            "f:1:1: [[syslog]]: `cert_file` is missing, for example cert_file = \"/etc/daytable/cert.pem\"",
        ),
        (
            "listen = \"tcp://127.0.0.1:6514\"\nclient_ca_file = \"/k\"",
            "f:1:1: [[syslog]]: `client_ca_file` belongs to \"tls://\" and \"relp://\"",
        ),
        (
            "listen = \"udp://127.0.0.1:514\"\nconnections_max = 1\nmode = \"0666\"",
            "f:1:1: [[syslog]]: `connections_max` belongs to listeners with connections\n\
             f:1:1: [[syslog]]: `mode` belongs to \"unix-dgram://\" and \"unix-stream://\"",
        ),
        (
            "listen = \"unix-dgram:///dev/log\"\nmode = \"rw\"",
            "f:3:8: mode = \"rw\": must be the mode of a file in octal, like \"0660\" or \"0666\"",
        ),
        (
            "listne = \"udp://127.0.0.1:514\"\nlisten = \"udp://127.0.0.1:514\"",
            "f:2:1: unknown key \"listne\" in [[syslog]], did you mean \"listen\"?",
        ),
        (
            "name = \"tail\"\nlisten = \"udp://127.0.0.1:514\"\n[[tail]]\ninclude = [\"/a\"]",
            "f:1:1: [[syslog]]: two blocks are called \"tail\"; give this one a name",
        ),
    ] {
        assert_eq!(problems(&block(text)), expected, "{text}");
    }
}

#[test]
fn conditions_and_their_problems() {
    let file = |when: &str| format!("[[table]]\nname = \"One\"\nwhen = {when}\n[[table]]\nname = \"Log\"");
    for filter in ["tenant:=acme-*", "a:=\"x y\"", "http.status:>=-5 -a:*", "not (a or b) and instance:=web"] {
        let expected = condition(filter);
        assert_eq!(parse(&file(&format!("'{filter}'"))).tables[0].when.as_ref(), Some(&expected), "{filter}");
    }
    for (when, place, said) in [
        ("''", "f:3:8: when: ", "is empty"),
        ("'level:>='", "f:3:17: when: ", "level:>=\n          ^"),
        ("'a b | limit 3'", "f:3:13: when: ", "a b | limit 3\n      ^"),
        ("'a _time:5m'", "f:3:11: when: ", "not by its _time"),
        ("'table:=Log'", "f:3:9: when: ", "not by its table"),
        ("{ level_at_most = \"debug\" }", "f:3:8: when = ", "a filter in quotes, such as"),
        ("5", "f:3:8: when = 5: ", "a filter in quotes, such as"),
    ] {
        let problems = problems(&file(when));
        assert!(problems.starts_with(place) && problems.contains(said), "{when}: {problems}");
    }
}

#[test]
fn archives_and_their_problems() {
    let block = |text: &str| format!("[[table]]\nname = \"Log\"\nkeep = \"2d\"\n{text}");
    let config = parse(&block("archive = \"file:///srv/archive\"\nkeep_archives = \"3d\""));
    let table = &config.tables[0];
    assert_eq!(table.archive.as_ref().map(ToString::to_string).as_deref(), Some("file:///srv/archive"));
    assert_eq!(table.keep_archives, Some(3 * DAY));
    let longer = "must be longer than `keep`, and 36500d at most, or \"forever\"";
    for (text, expected) in [
        (
            "archive = \"ftp://a/b\"",
            "f:4:12: archive: must be \"file:///path\", \"az://container/prefix\", \"s3://bucket/prefix\" or \
             \"gs://bucket/prefix\", or \"none\" to drop days without one"
                .to_owned(),
        ),
        ("archive = 1", "f:4:11: archive = 1: must be a text in quotes".into()),
        ("keep_archives = \"3d\"", "f:1:1: [[table]]: `keep_archives` belongs to tables with an `archive`".into()),
        ("archive = \"none\"\nkeep_archives = \"2d\"", format!("f:5:17: keep_archives = \"2d\": {longer}")),
        (
            "archive = \"none\"\n[archives]\ns3_endpoint = \"http://127.0.0.1:9000\"",
            "f:5:1: [archives]: `s3_endpoint` is reached without TLS, which only `allow_http = true` allows".into(),
        ),
        (
            "archive = \"none\"\n[archives]\ns3_endpoint = \"https://key:secret@a\"",
            "f:6:16: s3_endpoint: must be an address without user, key or query, like \"https://s3.example.org:9000\""
                .into(),
        ),
        ("archive = \"none\"\n[archives]\nallow_http = 1", "f:6:14: allow_http = 1: must be true or false".into()),
        (
            "archive = \"none\"\n[archives]\npublish_open = \"5m\"",
            "f:5:1: [archives]: `publish_open` puts open days into a Delta table, which needs \
             `table_format = \"delta\"` here, too"
                .into(),
        ),
        (
            "archive = \"none\"\n[archives]\ntable_format = \"delta\"\npublish_open = \"30s\"",
            "f:7:16: publish_open = \"30s\": must be at least \"1m\", because each time is a version of the table, which every engine reads \
             before it answers, and a request for a file or more; ask daytable itself for what came in the last minute, or \"off\""
                .into(),
        ),
        (
            "archive = \"none\"\n[archives]\ntable_format = \"delta\"\npublish_open = \"2d\"",
            "f:7:16: publish_open = \"2d\": must be at most \"1d\", or \"off\"".into(),
        ),
    ] {
        assert_eq!(problems(&block(text)), expected, "{text}");
    }
    // Neither the check nor a log shows what may be a secret.
    let secret = problems(&block("archive = \"az://logs/a?sig=U0VDUkVU\""));
    assert!(
        secret.starts_with("f:4:12: archive: must name a location only") && !secret.contains("U0VDUkVU"),
        "{secret}"
    );
}

#[test]
fn saved_queries_and_their_problems() {
    let block = |text: &str| format!("[[query]]\nname = \"Slow\"\n{text}");
    for (text, expected) in [
        (block("query = \"status:>=\""), "f:3:19: query: expected a value"),
        (block("query = \"status>=500\""), "f:3:10: query: status>=500 is taken for a word"),
        (
            block("query = \"*\"\nsince = \"tomorrow\""),
            "f:4:9: since = \"tomorrow\": must be an age like \"24h\" or \"1d12h\"",
        ),
        (block("query = \"*\"\nsince = \"24\""), "f:4:9: since = \"24\": must be an age"),
        (block("query = \"*\"\ncolumns = [\" \"]"), "f:4:12: columns = \" \": must name a field"),
        (block("query = \"*\"\nabout = \"\""), "f:4:9: about = \"\": must be a text of 1 to 200 characters"),
        (block("since = \"1h\""), "f:1:1: [[query]]: `query` is missing"),
        (format!("{0}query = \"*\"\n{0}query = \"*\"", block("")), "f:4:1: [[query]]: two queries are called \"Slow\""),
    ] {
        let found = problems(&text);
        assert!(found.starts_with(expected), "{text}\n{found}");
    }
    let whole = "query = \"level:>=error | stats by (path) count() n\"\nsince = \"1d12h\"\ncolumns = [\"path\"]\nabout = \"What fails\"";
    let config = Config::parse(&block(whole), "f").expect("good");
    let expected = SavedQuery {
        name: "Slow".into(),
        query: "level:>=error | stats by (path) count() n".into(),
        since: Some("1d12h".into()),
        columns: vec!["path".into()],
        about: Some("What fails".into()),
    };
    assert_eq!(config.saved_queries, [expected]);
}

#[test]
fn files_that_cannot_be_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.toml");
    let read = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("written");
        Config::load(&path).expect_err("not read").to_string()
    };
    let name = path.display();
    assert_eq!(read(b"[log]\n# caf\xe9\n"), format!("{name}:2:6: is not UTF-8 from here on"));
    assert_eq!(read(&vec![b'\n'; 1 << 21]), format!("failed to read {name}: is larger than 1 MiB"));
    assert_eq!(read(b"a = 1"), format!("{name}:1:1: unknown key \"a\" in the file"));
    std::fs::remove_file(&path).expect("removed");
    assert!(matches!(Config::load(&path), Err(ConfigError::Read { .. })));
    let _socket = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let refused = Config::load(&path).expect_err("not read").to_string();
    assert_eq!(refused, format!("failed to read {name}: is not a regular file"));
}

#[test]
fn the_data_folder_is_known_despite_other_problems() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.toml");
    let known = |text: &str, variables: &[(&str, &str)]| {
        std::fs::write(&path, text).expect("written");
        let variables: Vec<Variable> =
            variables.iter().filter_map(|(name, value)| Variable::new(&format!("DAYTABLE_{name}"), value)).collect();
        let known = Config::data_dir_despite_problems(Some(&path), &variables);
        known.map(|folder| folder.display().to_string()).unwrap_or_default()
    };
    for (text, expected) in [
        ("data_dir = \"/a\"\nnosuch = 1\n", "/a"),
        ("data_dir = \"/a\"\n[http]\nlisten = \"here\"\n", "/a"),
        ("data_dir = \"/a\"\n[http\n", "/a"),
        ("[http]\nnosuch = 1\n", "/var/lib/daytable"),
        // The folder itself is in doubt.
        ("[http\ndata_dir = \"/a\"\n", ""),
        ("[http\n", ""),
        ("data_dri = \"/a\"\n", ""),
        ("data_dir = \"a\"\n", ""),
        ("data_dir = 1\n", ""),
        ("data_dir = \"/a\"\ndata_dir = \"/b\"\n", ""),
    ] {
        assert_eq!(known(text, &[]), expected, "{text}");
        assert_eq!(known(text, &[("DATA_DIR", "/b")]), "/b", "{text}");
    }
    assert_eq!(known("data_dir = \"/a\"\n", &[("HTTP_NOSUCH", "1")]), "/a");
    assert_eq!(known("", &[("DATA_DIRR", "/b")]), "");
    std::fs::remove_file(&path).expect("removed");
    assert_eq!(Config::data_dir_despite_problems(Some(&path), &[]), None);
}

proptest! {
    /// No text panics, and a configuration that comes out has tables of which the last, and only it, takes the rest.
    #[test]
    fn any_text_is_read_or_refused(text in "(\\PC{0,10}|(\\[{0,2}(tail|table|http)\\]{0,2}|(name|when|keep|include|include|listen) = (\"[A-Za-z/*]{0,5}\"|\\{\\}|\\[\"/a\"\\]|[0-9]{1,3}))\n){0,8}") {
        if let Ok(config) = Config::parse(&text, "f") {
            let rest = config.tables.iter().position(|table| table.when.is_none());
            prop_assert_eq!(rest, Some(config.tables.len() - 1));
        }
    }

    /// An example that is cut or changed by one character is read or refused, with places that exist.
    #[test]
    fn a_changed_example_is_read_or_refused(at in 0..sample_with_every_key().len(), put in "\\PC?") {
        let mut text = sample_with_every_key();
        if text.is_char_boundary(at) && text.is_char_boundary(at + 1) && at < text.len() {
            text.replace_range(at..=at, &put);
        }
        if let Err(ConfigError::Invalid(problems)) = Config::parse(&text, "f") {
            prop_assert!(!problems.is_empty());
            for problem in problems {
                let line = text.lines().nth(problem.line - 1).unwrap_or_default();
                prop_assert!(problem.column <= line.chars().count() + 1, "{}", problem);
            }
        }
    }
}
