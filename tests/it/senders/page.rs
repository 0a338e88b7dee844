//! The blocks of the page of senders, each with its real program: one message of each is stored word for word.

use super::{Running, block, installed, port, record, run};
use crate::place::{Daemon, Place, append};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/guide/senders.md");
const MESSAGE: &str = "card refused by the bank";

/// The block of a sender, with the addresses of `daemon`.
fn block_of(sender: &str, daemon: &Daemon) -> String {
    let page = std::fs::read_to_string(PAGE).expect("the page");
    let (_, rest) = page.split_once(&format!("<!-- sender: {sender} -->\n```")).unwrap_or_else(|| panic!("{sender}"));
    let (_, rest) = rest.split_once('\n').expect("a block");
    let (block, _) = rest.split_once("\n```").expect("an end of the block");
    let block = block.replace("127.0.0.1:7878", &daemon.address().to_string());
    let syslog = ["relp", "tcp", "udp"].into_iter().find(|name| daemon.said().contains(&format!("\"{name}\"")));
    syslog.map_or(block.clone(), |name| block.replace("5514", &port(daemon, name).to_string()))
}

/// The record of a sender whose block `send` uses. The daemon has one listener for syslog, or none.
fn sent(listener: &str, sender: &str, send: impl FnOnce(&Place, String) -> Option<Running>) -> Value {
    let place = Place::new();
    let config = match listener {
        "" => String::new(),
        name => block(name, &format!("{name}://127.0.0.1:0"), ""),
    };
    let daemon = place.start_with(&config);
    let running = send(&place, block_of(sender, &daemon));
    let found = record(&place, MESSAGE);
    drop(running);
    daemon.stop();
    found
}

fn write(place: &Place, name: &str, text: &str) -> std::path::PathBuf {
    let path = place.path(name);
    std::fs::write(&path, text).expect("written");
    path
}

#[test]
fn rsyslog_and_syslog_ng() {
    let found = sent("relp", "rsyslog", |place, block| {
        let folder = place.path("");
        let input = format!(
            "module(load=\"imfile\")\ninput(type=\"imfile\" File=\"{}/lines\" Tag=\"shop:\")\n",
            folder.display()
        );
        append(&place.path("lines"), format!("{MESSAGE}\n").as_bytes());
        let config =
            write(place, "rsyslog.conf", &format!("global(workDirectory=\"{}\")\n{input}{block}\n", folder.display()));
        let mut command = Command::new("rsyslogd");
        Some(Running::start(command.arg("-n").arg("-f").arg(config).arg("-i").arg(place.path("rsyslog.pid"))))
    });
    assert_eq!(found["component"], "shop");
    let found = sent("tcp", "syslog-ng", |place, block| {
        let lines = place.path("lines");
        run(Command::new("mkfifo").arg(&lines));
        let source =
            format!("source s_src {{ pipe(\"{}\" flags(no-parse) program-override(\"shop\")); }};", lines.display());
        let config = write(place, "ng.conf", &format!("@version: 3.35\n{source}\n{block}\n"));
        let running = Running::start(&mut super::relays::syslog_ng_in(place, &config));
        std::fs::write(&lines, format!("{MESSAGE}\n")).expect("written");
        Some(running)
    });
    assert_eq!(found["component"], "shop");
}

#[test]
fn the_journal_of_another_host() {
    let found = sent("", "journal", |place, block| {
        let folder = place.path("journal");
        std::fs::create_dir(&folder).expect("a folder");
        crate::journal::write(&folder.join("remote.journal"), &crate::journal::entries(0, &[MESSAGE.to_owned()]));
        let url = block.lines().find_map(|line| line.strip_prefix("URL=")).expect("a URL").to_owned();
        let mut upload = Command::new(super::upload::JOURNAL_UPLOAD);
        upload.arg("--follow=no").arg(format!("--url={url}")).arg("--directory").arg(&folder);
        run(upload.arg(format!("--save-state={}", place.path("state").display())));
        None
    });
    assert_eq!(found["host"], "web-17");
}

#[test]
fn programs_that_push() {
    let found = sent("", "python", |place, block| {
        run(Command::new("python3").arg(write(place, "shop.py", &block)));
        None
    });
    assert_eq!(
        (&found["level"], &found["partition_key"], &found["component"]),
        (&"error".into(), &"shop-1".into(), &"cart".into())
    );
    let found = sent("", "node", |place, block| {
        run(Command::new("node").arg(write(place, "shop.mjs", &block)));
        None
    });
    assert_eq!((&found["level"], &found["partition_key"]), (&"error".into(), &"shop-1".into()));
    let found = sent("", "go", |place, block| {
        let source = write(place, "shop.go", &block);
        run(Command::new(go()).arg("run").arg(source).env("GOCACHE", place.path("go")).env("GOFLAGS", "-mod=mod"));
        None
    });
    assert_eq!((&found["level"], &found["partition_key"]), (&"error".into(), &"shop-1".into()));
    let found = sent("", "opentelemetry", |_, block| {
        let script = format!(
            "import logging\n\
             from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter\n\
             from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler\n\
             from opentelemetry.sdk._logs.export import BatchLogRecordProcessor\n\
             provider = LoggerProvider()\n\
             provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))\n\
             logging.getLogger('cart').addHandler(LoggingHandler(logger_provider=provider))\n\
             logging.getLogger('cart').error('{MESSAGE}')\n\
             provider.shutdown()\n"
        );
        let variables = block.lines().filter_map(|line| line.split_once('='));
        run(Command::new(installed("venv/bin/python")).args(["-c", &script]).envs(variables));
        None
    });
    let is_shop = found.as_object().is_some_and(|record| record.values().any(|value| value == "shop"));
    assert!(found["level"] == "error" && is_shop, "{found}");
}

/// Debian's Go, which is not on the path.
fn go() -> &'static Path {
    Path::new("/usr/lib/go-1.19/bin/go")
}

#[test]
fn logback() {
    let found = sent("udp", "logback", |place, block| {
        write(place, "logback.xml", &block);
        let program = format!(
            "public class Shop {{ public static void main(String[] arguments) {{\n\
             org.slf4j.LoggerFactory.getLogger(\"cart\").error(\"{MESSAGE}\");\n\
             ((ch.qos.logback.classic.LoggerContext) org.slf4j.LoggerFactory.getILoggerFactory()).stop(); }} }}\n"
        );
        let source = write(place, "Shop.java", &program);
        let jars = ["logback-classic", "logback-core", "slf4j-api"].map(|name| format!("/usr/share/java/{name}.jar"));
        run(Command::new("java")
            .arg("-cp")
            .arg(format!("{}:{}", jars.join(":"), place.path("").display()))
            .arg(source));
        None
    });
    assert_eq!((&found["level"], &found["component"]), (&"error".into(), &"shop".into()));
}
