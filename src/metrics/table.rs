//! One row a metric: name, labels, unit, when it has samples, text, and the counters that it shows.

use super::family::Presence::{Always, Configured, Event, Source, While};
use super::family::{Family, Metric, MetricKind, Presence};
use super::snapshot::{HostSample, Snapshot, SourceSample, read};
use daytable_intake::counters::{SourceCounters, SourceEvent};
use daytable_intake::source::Source as _;
use daytable_intake::syslog::Syslog;
use daytable_lifecycle::LifecycleStep;
use daytable_model::record::Level;
use daytable_net::tls;
use daytable_parse::Format;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

type Collect = fn(&Snapshot, &mut Family);
type Labels = &'static [&'static str];

const fn counter(
    name: &'static str,
    labels: Labels,
    unit: &'static str,
    presence: Presence,
    help: &'static str,
    collect: Collect,
) -> Metric {
    Metric { name, kind: MetricKind::Counter, labels, unit, presence, help, collect }
}

const fn gauge(
    name: &'static str,
    labels: Labels,
    unit: &'static str,
    presence: Presence,
    help: &'static str,
    collect: Collect,
) -> Metric {
    Metric { name, kind: MetricKind::Gauge, labels, unit, presence, help, collect }
}

const fn histogram(name: &'static str, unit: &'static str, help: &'static str, collect: Collect) -> Metric {
    Metric { name, kind: MetricKind::Histogram, labels: &[], unit, presence: Always, help, collect }
}

const SOURCE: Labels = &["source"];
const DROPPED: Labels = &["intentional", "reason", "source"];

/// All metrics, in the order of their names; labels are in the order of their names as well.
#[rustfmt::skip]
pub(super) const TABLE: &[Metric] = &[
    counter("daytable_alert_evaluation_failures_total", &["alert"], "windows", Configured, "Windows of an alert that could not be evaluated; each is tried again.",
        |s, f| s.alerts.rules.iter().for_each(|rule| f.count(&[&rule.name], rule.failures))),
    counter("daytable_alert_messages_total", &["receiver", "result"], "messages", Configured, "Messages with alerts, by receiver and result.",
        |s, f| s.alerts.receivers.iter().for_each(|(address, receiver)| {
            f.count(&[address, "accepted"], receiver.sent);
            f.count(&[address, "failed"], receiver.failures);
        })),
    gauge("daytable_alerts", &["alert", "state"], "alerts", Configured, "Alerts of a rule that last (firing), and windows that wait to be evaluated (pending).",
        |s, f| s.alerts.rules.iter().for_each(|rule| {
            f.count(&[&rule.name, "firing"], rule.firing as u64);
            f.count(&[&rule.name, "pending"], rule.pending as u64);
        })),
    histogram("daytable_batch_records", "records", "Records a batch.", |s, f| f.histogram(&s.commits.batch_records)),
    counter("daytable_batches_total", &[], "batches", Always, "Batches handed to the commit.",
        |s, f| f.count(&[], s.commits.batches)),
    gauge("daytable_build_info", &["version"], "", Always, "Always 1; the labels say which build this is.",
        |_, f| f.set(&[env!("CARGO_PKG_VERSION")], 1.0)),
    counter("daytable_bytes_dropped_total", DROPPED, "bytes", Source, "Bytes that are not kept.",
        |s, f| events(s, |source, event, count| match event {
            SourceEvent::BytesDestroyed => f.count(&["false", "destroyed", source], count),
            SourceEvent::BytesSkipped => f.count(&["true", "skipped", source], count),
            _ => {}
        })),
    counter("daytable_bytes_received_total", SOURCE, "bytes", Source, "Bytes that were read.",
        |s, f| sources(s, f, |source| &source.bytes)),
    gauge("daytable_certificate_expiry_timestamp_seconds", SOURCE, "seconds", Configured,
        "Unix time at which the first certificate of the file ends.", certificate_expiry),
    counter("daytable_certificate_reloads_failed_total", SOURCE, "certificates", Source, "Certificates that changed and could not be read.",
        |s, f| {
            event_of(s, f, SourceEvent::CertificateReloadFailed);
            f.count(&["http"], read(&s.http.certificate_reloads_failed));
        }),
    counter("daytable_commit_failures_total", &[], "commits", Always, "Commits that failed; their sources are read again.",
        |s, f| f.count(&[], s.commits.failures)),
    histogram("daytable_commit_seconds", "seconds", "Seconds a commit took.", |s, f| f.histogram(&s.commits.seconds)),
    counter("daytable_commits_total", &[], "commits", Always, "Commits that reached their commit point.",
        |s, f| f.count(&[], s.commits.commits)),
    counter("daytable_config_reloads_total", &["result"], "reloads", Always, "Times the configuration was read again.",
        |s, f| {
            f.count(&["success"], s.reloads.succeeded);
            f.count(&["failure"], s.reloads.failed);
        }),
    gauge("daytable_connections", SOURCE, "connections", Source, "Connections that are open.",
        |s, f| s.sources.iter().for_each(|source| {
            if source.events.contains_key(&SourceEvent::ConnectionAccepted) {
                f.count(&[&source.counters.name], read(&source.counters.connections));
            }
        })),
    counter("daytable_connections_accepted_total", SOURCE, "connections", Source, "Connections accepted.",
        |s, f| event_of(s, f, SourceEvent::ConnectionAccepted)),
    counter("daytable_connections_refused_total", &["reason", "source"], "connections", Source,
        "Connections that were closed by this side, too many ones among them.", connections_refused),
    counter("daytable_credential_reloads_failed_total", &[], "files", Always,
        "Files of credentials that changed and could not be used.",
        |s, f| f.count(&[], read(&s.http.credential_reloads_failed))),
    counter("daytable_dead_letters_total", &["reason"], "entities", Configured, "Entities that were set aside.",
        |s, f| each(f, &s.remote.dead_letters)),
    counter("daytable_files_rewritten_total", SOURCE, "files", Source, "Files that were rewritten in place, with changes in lines that were read before: they are read again.",
        |s, f| s.sources.iter().for_each(|SourceSample { counters, events, .. }| {
            f.count(&[&counters.name], events.get(&SourceEvent::Rewrite).copied().unwrap_or(0));
        })),
    gauge("daytable_forward_backlog_records", &["to"], "records", Configured, "Records that the receiver of a [[forward]] lacks although it has newer ones: after an outage the newest are sent first.",
        |s, f| s.forward.senders.iter().for_each(|sender| f.count(&[&sender.to], sender.backlog_records))),
    gauge("daytable_forward_behind_records", &["to"], "records", Configured, "Records that the receiver of a [[forward]] lacks.",
        |s, f| s.forward.senders.iter().for_each(|sender| f.count(&[&sender.to], sender.behind_records))),
    gauge("daytable_forward_behind_seconds", &["to"], "seconds", Configured, "Age of the oldest record that the receiver of a [[forward]] lacks.",
        |s, f| s.forward.senders.iter().for_each(|sender| f.set(&[&sender.to], sender.behind_seconds))),
    counter("daytable_forward_failures_total", &["to"], "requests", Configured, "Requests to the receiver of a [[forward]] that failed; each is sent again.",
        |s, f| s.forward.senders.iter().for_each(|sender| f.count(&[&sender.to], sender.failures))),
    counter("daytable_forward_forbidden_total", &["to"], "requests", Configured, "Requests that the receiver of a [[forward]] refused because the credential is not for a table of them. They are among the failed ones; their records wait.",
        |s, f| s.forward.senders.iter().for_each(|sender| f.count(&[&sender.to], sender.forbidden))),
    counter("daytable_forward_records_total", &["to"], "records", Configured, "Records that the receiver of a [[forward]] stored.",
        |s, f| s.forward.senders.iter().for_each(|sender| f.count(&[&sender.to], sender.records))),
    counter("daytable_forward_refused_total", &["to"], "records", Configured,
        "Records that the receiver of a [[forward]] refused for good: a daytable, because their day is gone there; a backend of OpenTelemetry, for what they are.",
        |s, f| s.forward.senders.iter().for_each(|sender| f.count(&[&sender.to], sender.refused))),
    histogram("daytable_fsync_seconds", "seconds", "Seconds an fsync took.", |s, f| f.histogram(&s.commits.fsync_seconds)),
    gauge("daytable_host_backlog_records", &["host"], "records", Configured, "Records of a host that were not received of it although newer ones were, by its last report.",
        |s, f| hosts(s, f, |hosts| hosts.iter().map(|host| host.backlog_records).sum::<u64>() as f64)),
    gauge("daytable_host_behind_records", &["host"], "records", Configured, "Records that a host has and that were not received of it, by its last report. Hosts of one name count together.",
        |s, f| hosts(s, f, |hosts| hosts.iter().map(|host| host.behind_records).sum::<u64>() as f64)),
    counter("daytable_host_records_total", &["host"], "records", Configured, "Records that were received of a host.",
        |s, f| hosts(s, f, |hosts| hosts.iter().map(|host| host.records).sum::<u64>() as f64)),
    counter("daytable_host_refused_requests_total", &["host"], "requests", Configured, "Requests of a host that were refused because its credential is not for a table of them.",
        |s, f| hosts(s, f, |hosts| hosts.iter().map(|host| host.refused_requests).sum::<u64>() as f64)),
    gauge("daytable_host_silent_seconds", &["host"], "seconds", Configured, "Seconds since a host that forwards here was heard of.",
        |s, f| hosts(s, f, |hosts| hosts.iter().map(|host| host.silent_seconds).fold(0.0, f64::max))),
    counter("daytable_http_requests_total", &["code", "route"], "requests", Always, "Requests that were answered; each known route has the code 200 from the start on.",
        |s, f| s.http.requests().iter().for_each(|((code, route), count)| f.count(&[&code.to_string(), route], *count))),
    counter("daytable_idempotency_keys_dropped_total", &[], "keys", Always,
        "Idempotency keys that went before their time, because there were too many.",
        |s, f| f.count(&[], s.commits.keys_dropped)),
    gauge("daytable_intake_waiting_bytes", &[], "bytes", Always, "Bytes that wait to be committed.",
        |s, f| f.count(&[], s.waiting_bytes)),
    counter("daytable_journal_gaps_total", SOURCE, "gaps", Configured, "Times that a journal lacked the entry at which it should be resumed.",
        |s, f| event_of(s, f, SourceEvent::JournalGap)),
    counter("daytable_lifecycle_bytes_total", &["step"], "bytes", Always, "Bytes sealed, archived, restored.",
        |s, f| each(f, &s.lifecycle.bytes)),
    counter("daytable_lifecycle_failures_total", &["step"], "steps", Always, "Steps that failed.",
        |s, f| {
            LifecycleStep::NAMES.iter().for_each(|step| f.count(&[step], 0));
            s.runs.failures.iter().for_each(|(step, count)| f.count(&[step], *count));
        }),
    gauge("daytable_lifecycle_last_success_timestamp_seconds", &[], "seconds", Always,
        "Unix time of the last run of the lifecycle in which no step failed.",
        |s, f| f.set(&[], s.runs.last_success as f64)),
    counter("daytable_lifecycle_runs_total", &[], "runs", Always, "Runs of the lifecycle.",
        |s, f| f.count(&[], s.runs.runs)),
    gauge("daytable_lifecycle_steps_waiting", &["step"], "steps", While, "Steps that failed and wait.",
        |s, f| s.lifecycle.waiting.iter().for_each(|step| f.count(&[step], 1))),
    counter("daytable_lines_continued_total", SOURCE, "lines", Configured,
        "Lines that grew after their beginning was stored as a record. The rest is a record of its own.",
        |s, f| event_of(s, f, SourceEvent::LineContinued)),
    counter("daytable_lines_unended_total", SOURCE, "lines", Configured,
        "Last lines of files that became a record without an end (`unended_after`).",
        |s, f| event_of(s, f, SourceEvent::LineUnended)),
    gauge("daytable_open_files", &[], "files", Always, "Files that are held open to be read.",
        |s, f| f.count(&[], s.sum(|source| read(&source.open_files)))),
    gauge("daytable_outbox_bytes", &[], "bytes", Always, "Bytes on disk that the outbox uses.",
        |s, f| f.count(&[], s.remote.bytes)),
    gauge("daytable_outbox_entities", &[], "entities", Always, "Entities that wait to be sent.",
        |s, f| f.count(&[], s.remote.entities)),
    gauge("daytable_outbox_full", &[], "", Always, "1 while the outbox is full.",
        |s, f| f.count(&[], s.remote.is_full.into())),
    gauge("daytable_outbox_oldest_age_seconds", &[], "seconds", Always, "Age of the oldest entity that waits.",
        |s, f| f.set(&[], s.remote.oldest_age_seconds)),
    counter("daytable_own_records_passed_over_total", &[], "records", Always, "Records that the daemon wrote itself, not read.",
        |_, f| f.count(&[], daytable_intake::own_output::passed_over())),
    histogram("daytable_page_bytes", "bytes", "Bytes of a page as it is stored.", |s, f| f.histogram(&s.commits.page_bytes)),
    counter("daytable_page_merges_refused_total", &[], "merges", Always, "Merges that were given up, because the pages had other rows than the merged ones. A fault of daytable; the pages stay as they are.",
        |s, f| f.count(&[], s.commits.merges_refused)),
    counter("daytable_pages_merged_total", &[], "pages", Always, "Small pages that were merged into larger ones.",
        |s, f| f.count(&[], s.commits.pages_merged)),
    counter("daytable_pages_written_total", &[], "pages", Always, "Pages written by commits.",
        |s, f| f.count(&[], s.commits.pages)),
    counter("daytable_publish_bytes_total", &[], "bytes", Always, "Bytes of parts of open days that were put into the table of the archives.",
        |s, f| f.count(&[], s.lifecycle.published.bytes)),
    counter("daytable_publish_failures_total", &[], "tables", Always, "Times that the open days of a table could not be published.",
        |s, f| f.count(&[], s.lifecycle.published.failures)),
    gauge("daytable_publish_last_success_timestamp_seconds", &["table"], "seconds", Configured,
        "Unix time at which the open days of a table were last published.",
        |s, f| s.lifecycle.published.last.iter().for_each(|(table, at)| f.set(&[table], *at as f64))),
    counter("daytable_publish_parts_total", &[], "parts", Always, "Parts of open days that were written.",
        |s, f| f.count(&[], s.lifecycle.published.parts)),
    counter("daytable_publish_rows_total", &[], "rows", Always, "Rows of parts of open days. A row counts each time that it is written.",
        |s, f| f.count(&[], s.lifecycle.published.rows)),
    gauge("daytable_publish_waiting", &["table"], "tables", While, "Tables whose open days could not be published, and wait.",
        |s, f| s.lifecycle.unpublished.iter().for_each(|table| f.count(&[table], 1))),
    counter("daytable_push_bodies_refused_total", &["reason", "source"], "requests", Source, "Pushes that were refused as a whole, for their contents or for lack of room.",
        |s, f| events(s, |source, event, count| {
            if let SourceEvent::BodyRefused(reason) = event {
                f.count(&[reason, source], count);
            }
        })),
    counter("daytable_push_body_bytes_total", SOURCE, "bytes", Source, "Bytes of bodies as they came.",
        |s, f| event_of(s, f, SourceEvent::BodyBytes)),
    counter("daytable_push_entries_repeated_total", SOURCE, "entries", Source,
        "Entries that were stored before, and so were not stored again.",
        |s, f| event_of(s, f, SourceEvent::EntryRepeated)),
    gauge("daytable_push_held_bytes", &[], "bytes", Always, "Bytes in memory of pushed bodies, and of their records.",
        |s, f| f.count(&[], s.held_bytes)),
    counter("daytable_push_parts_unread_total", SOURCE, "parts", Source,
        "Parts of accepted bodies that the endpoint does not know, and so did not store.",
        |s, f| event_of(s, f, SourceEvent::PartsUnread)),
    counter("daytable_pushes_refused_total", &["reason"], "requests", Always,
        "Pushes that were refused before their body was read.",
        |s, f| s.http.pushes_refused().iter().for_each(|(reason, count)| f.count(&[reason], *count))),
    counter("daytable_pushes_repeated_total", SOURCE, "requests", Source, "Pushes that repeated one of the same idempotency key.",
        |s, f| event_of(s, f, SourceEvent::PushRepeated)),
    counter("daytable_read_errors_total", &[], "reads", Always, "Reads of a source, and listings of a folder, that failed.",
        |s, f| f.count(&[], s.sum(|source| source.event(SourceEvent::ReadError)))),
    counter("daytable_records_committed_total", &[], "records", Always, "Records that are on disk.",
        |s, f| f.count(&[], s.commits.records)),
    counter("daytable_records_dropped_total", DROPPED, "records", Source, "Records that are not kept.",
        |s, f| events(s, |source, event, count| match event {
            SourceEvent::RecordsDropped(reason) => f.count(&["false", reason, source], count),
            SourceEvent::RecordsLimited(reason) => f.count(&["true", reason, source], count),
            _ => {}
        })),
    counter("daytable_records_early_total", &["table"], "records", Configured, "Records dated too far ahead for a table.",
        |s, f| misplaced(s, f, |[_, early]| early)),
    counter("daytable_records_invalid_utf8_total", SOURCE, "records", Source, "Records that are not UTF-8.",
        |s, f| sources(s, f, |source| &source.invalid_utf8)),
    counter("daytable_records_late_total", &["table"], "records", Configured, "Records later than their day's table.",
        |s, f| misplaced(s, f, |[late, _]| late)),
    counter("daytable_records_parsed_total", &["format"], "records", Always, "Records by the format they were read as.",
        |s, f| Format::ALL.iter().enumerate().for_each(|(at, format)| {
            f.count(&[format.label()], s.sum(|source| read(&source.by_format[at])));
        })),
    counter("daytable_records_received_total", SOURCE, "records", Source, "Records that were read.",
        |s, f| sources(s, f, |source| &source.records)),
    counter("daytable_records_total", &["level", "source"], "records", Source, "Records that were read, by level; `none` for those without one.",
        |s, f| s.sources.iter().for_each(|source| {
            let levels = ["none"].into_iter().chain(Level::ALL.map(Level::name));
            levels.zip(&source.counters.by_level).for_each(|(level, count)| f.count(&[level, &source.counters.name], read(count)));
        })),
    counter("daytable_records_truncated_total", &["reason"], "records", Always, "Records kept in part.",
        |s, f| s.truncated().iter().for_each(|(setting, count)| f.count(&[setting], *count))),
    counter("daytable_redactions_rewritten_total", &["pattern"], "lines", Configured, "Lines that were not kept as they were written, because it was not known where in them a secret is.",
        |s, f| s.registry.rewritten_lines.iter().for_each(|(pattern, count)| f.count(&[pattern], read(count)))),
    counter("daytable_redactions_total", &["pattern"], "secrets", Configured, "Secrets that were replaced.",
        |s, f| s.registry.redactions.iter().for_each(|(pattern, count)| f.count(&[pattern], read(count)))),
    gauge("daytable_remote_denied", &[], "", Always, "1 while the remote store does not let this daytable in.",
        |s, f| f.count(&[], s.remote.is_denied.into())),
    counter("daytable_remote_entities_sent_total", &[], "entities", Always, "Entities that the remote store took.",
        |s, f| f.count(&[], s.remote.sent)),
    counter("daytable_remote_requests_total", &["code"], "requests", Event, "Requests to the remote store.",
        |s, f| s.remote.requests.iter().for_each(|(code, count)| f.count(&[code], *count))),
    counter("daytable_remote_retries_total", &[], "requests", Always, "Requests to the remote store that were sent again.",
        |s, f| f.count(&[], s.remote.retries)),
    counter("daytable_remote_throttled_total", &[], "requests", Always, "Answers of the remote store that it is too much.",
        |s, f| f.count(&[], s.remote.throttled)),
    histogram("daytable_remote_transaction_entities", "entities", "Entities of a transaction that was done.",
        |s, f| f.histogram(&s.transactions.entities)),
    gauge("daytable_sender_clocks_off", SOURCE, "senders", Source, "Senders of syslog whose clocks are more than ten minutes off.",
        |s, f| s.sources.iter().filter(|source| source.counters.kind == Syslog::KIND).for_each(|source| {
            f.count(&[&source.counters.name], source.counters.clocks_off().len() as u64);
        })),
    counter("daytable_senders_paced_total", &["reason", "source"], "pauses", Source, "Times that a sender was not read from because it was over its rate or quota.",
        |s, f| events(s, |source, event, count| {
            if let SourceEvent::SenderPaced(limit) = event {
                f.count(&[limit, source], count);
            }
        })),
    gauge("daytable_source_lag_bytes", SOURCE, "bytes", Source, "Bytes not yet committed of the file most behind.",
        |s, f| sources(s, f, |source| &source.lag_bytes)),
    gauge("daytable_source_lag_seconds", SOURCE, "seconds", Source, "Age of the oldest byte not yet read.",
        |s, f| s.sources.iter().for_each(|source| f.set(&[&source.counters.name], source.lag_seconds))),
    gauge("daytable_sources_followed", &[], "files", Always, "Files that are followed.",
        |s, f| f.count(&[], s.sum(|source| read(&source.followed_files)))),
    gauge("daytable_spread_buckets_max", &[], "partitions", Always, "Most partitions that an instance is spread over.",
        |s, f| f.count(&[], s.remote.spread_buckets_max)),
    gauge("daytable_spread_instances", &[], "instances", Always,
        "Instances of a day-table with more partitions than configured.", |s, f| f.count(&[], s.remote.spread_instances)),
    gauge("daytable_spread_pending", &[], "", Always, "1 while files wait to hear how instances were spread.",
        |s, f| f.count(&[], s.remote.is_spread_pending.into())),
    counter("daytable_spread_steps_total", &[], "steps", Always, "Times that an instance was spread over more partitions.",
        |s, f| f.count(&[], s.remote.spread_steps)),
    gauge("daytable_store_bytes", &[], "bytes", Always, "Bytes of the days in the data folder.",
        |s, f| s.lifecycle.tables.iter().for_each(|(_, bytes)| f.count(&[], *bytes))),
    gauge("daytable_store_bytes_max", &[], "bytes", Always, "Bytes above which the oldest days go; 0 means no limit.",
        |s, f| f.count(&[], s.lifecycle.bytes_max)),
    gauge("daytable_store_free_bytes", &[], "bytes", Always, "Bytes free on the disk of the data folder.",
        |s, f| s.lifecycle.free_bytes.iter().for_each(|bytes| f.count(&[], *bytes))),
    gauge("daytable_tables", &["state"], "day-tables", Always, "Day-tables.",
        |s, f| s.lifecycle.tables.iter().flat_map(|(states, _)| states).for_each(|(state, count)| {
            f.count(&[state], *count as u64);
        })),
    counter("daytable_tables_archived_total", &[], "day-tables", Always, "Days that were archived and read back.",
        |s, f| f.count(&[], s.runs.archived)),
    counter("daytable_tables_dropped_total", &[], "day-tables", Always, "Day-tables that were dropped.",
        |s, f| f.count(&[], s.runs.dropped)),
    gauge("daytable_tables_held_back", &["reason"], "day-tables", While, "Day-tables that expired and stay, or whose step kills interrupted.",
        |s, f| s.lifecycle.held_back.iter().for_each(|reason| f.count(&[reason], 1))),
    counter("daytable_tables_sealed_total", &[], "day-tables", Always, "Days that were sealed.",
        |s, f| f.count(&[], s.runs.sealed)),
    counter("daytable_udp_drops_total", SOURCE, "datagrams", Configured, "Datagrams dropped by the kernel.",
        |s, f| event_of(s, f, SourceEvent::KernelDrops)),
    gauge("daytable_verify_duration_seconds", &[], "seconds", Always, "Seconds that the last verification took.",
        |s, f| f.set(&[], s.verify.seconds)),
    gauge("daytable_verify_findings", &["kind"], "findings", Always, "Things that the last verification found not whole.",
        |s, f| each(f, &s.verify.findings)),
    gauge("daytable_verify_last_run_timestamp_seconds", &[], "seconds", Always,
        "Unix time at which the last verification ended.", |s, f| f.set(&[], s.verify.last_run as f64)),
    counter("daytable_verify_read_bytes_total", &[], "bytes", Always,
        "Bytes that verifications held against their checksums.", |s, f| f.count(&[], s.verify.bytes)),
    counter("daytable_verify_runs_total", &[], "runs", Always, "Verifications that ran to their end.",
        |s, f| f.count(&[], s.verify.runs)),
    counter("process_cpu_seconds_total", &[], "seconds", Always, "User and system time spent, in seconds.",
        |s, f| f.set(&[], s.process.cpu_seconds)),
    gauge("process_max_fds", &[], "descriptors", Always, "Most file descriptors that may be open.",
        |s, f| f.count(&[], s.process.max_fds)),
    gauge("process_open_fds", &[], "descriptors", Always, "Open file descriptors.",
        |s, f| f.count(&[], s.process.open_fds)),
    gauge("process_resident_memory_bytes", &[], "bytes", Always, "Resident memory size in bytes.",
        |s, f| f.count(&[], s.process.resident_bytes)),
    gauge("process_start_time_seconds", &[], "seconds", Always, "Unix time at which the process was started.",
        |s, f| f.set(&[], s.process.start_time)),
    gauge("process_threads", &[], "threads", Always, "Threads of the process.", |s, f| f.count(&[], s.process.threads)),
    gauge("process_virtual_memory_bytes", &[], "bytes", Always, "Virtual memory size in bytes.",
        |s, f| f.count(&[], s.process.virtual_bytes)),
];

/// One sample for each pair of a label's value and a count.
fn each(family: &mut Family, counts: &[(&'static str, u64)]) {
    counts.iter().for_each(|(label, count)| family.count(&[label], *count));
}

/// One sample for each name of a host.
fn hosts(snapshot: &Snapshot, family: &mut Family, value: fn(&[&HostSample]) -> f64) {
    let mut by_name: BTreeMap<&str, Vec<&HostSample>> = BTreeMap::new();
    snapshot.forward.hosts.iter().for_each(|host| by_name.entry(&host.host).or_default().push(host));
    by_name.iter().for_each(|(name, hosts)| family.set(&[name], value(hosts)));
}

/// One sample for each source.
fn sources(snapshot: &Snapshot, family: &mut Family, counter: fn(&SourceCounters) -> &AtomicU64) {
    let sources = snapshot.sources.iter().map(|source| &source.counters);
    sources.for_each(|source| family.count(&[&source.name], read(counter(source))));
}

/// All events that sources show: the name of the source, the event, and its count.
fn events(snapshot: &Snapshot, mut each: impl FnMut(&str, SourceEvent, u64)) {
    for SourceSample { counters, events, .. } in &snapshot.sources {
        events.iter().for_each(|(event, count)| each(&counters.name, *event, *count));
    }
}

/// One sample for each source that shows `event`.
fn event_of(snapshot: &Snapshot, family: &mut Family, event: SourceEvent) {
    events(snapshot, |source, shown, count| {
        if shown == event {
            family.count(&[source], count);
        }
    });
}

/// Records that went to today's table, late and early ones, by configured table.
fn misplaced(snapshot: &Snapshot, family: &mut Family, pick: fn([u64; 2]) -> u64) {
    snapshot.lifecycle.names.iter().for_each(|table| family.count(&[table], 0));
    for source in &snapshot.sources {
        source.counters.misplaced().iter().for_each(|(table, counts)| family.count(&[table], pick(*counts)));
    }
}

fn connections_refused(snapshot: &Snapshot, family: &mut Family) {
    events(snapshot, |source, event, count| {
        if let SourceEvent::ConnectionClosed(reason) = event {
            family.count(&[reason, source], count);
        }
    });
    let http = &snapshot.http;
    for (reason, count) in
        [("per_sender", &http.over_peer_limit), ("slow", &http.slow), ("tls", &http.handshakes_failed)]
    {
        family.count(&[reason, "http"], read(count));
    }
}

/// A file that cannot be read now has no sample; `daytable_certificate_reloads_failed_total` counts it.
fn certificate_expiry(snapshot: &Snapshot, family: &mut Family) {
    for (source, path) in &snapshot.registry.certificates {
        if let Some(ends) = tls::expiry(path) {
            family.set(&[source], ends.unix_seconds() as f64);
        }
    }
}
