//! A client certificate works instead of a credential.

use super::credentials::hosts;
use super::*;

/// Files of a place with the certificate of this name and its key, and of the authority.
fn files(place: &Place, authority: &Authority, name: &str) -> [String; 2] {
    let (pem, key) = authority.sign(name);
    [("cert.pem", pem), ("key.pem", key)].map(|(file, text)| {
        fs::write(place.path(file), text).expect("written");
        place.path(file).display().to_string()
    })
}

fn forwards(host: &Host, url: &str, ca: &Path, [cert, key]: &[String; 2]) {
    let ca = ca.display();
    let block = format!(
        "[[forward]]\nto = \"{url}\"\nca_file = \"{ca}\"\ncert_file = \"{cert}\"\nkey_file = \"{key}\"\n[[table]]\nname = \"Audit\"\nwhen = 'message:secret'\nkeep = \"30d\"\n[[table]]\nname = \"Log\"\nkeep = \"30d\"\n"
    );
    fs::write(host.file(), host.base() + &block).expect("a configuration");
}

#[test]
fn the_name_of_a_certificate_is_that_of_its_host() {
    let central = Central::new();
    let authority = Authority::new();
    let [cert, key] = files(&central.place, &authority, "localhost");
    let ca = central.place.path("ca.pem");
    fs::write(&ca, &authority.pem).expect("written");
    let config = format!(
        "{}tls = {{ cert_file = \"{cert}\", key_file = \"{key}\", client_ca_file = \"{}\" }}\n[hosts]\ncertificates = [\"web-*\"]\ncertificate_tables = [\"Log\"]\n[[table]]\nname = \"Audit\"\nwhen = 'message:never'\nkeep = \"30d\"\n[[table]]\nname = \"Log\"\nkeep = \"30d\"\n",
        central.config(),
        ca.display()
    );
    let running = central.place.start_with(&config);
    let url = format!("https://localhost:{}", central.port);
    let host = Host::new("web-1");
    forwards(&host, &url, &ca, &files(&host.place, &authority, "web-1"));
    let daemon = host.start();
    host.write("app.log", &lines("first", 0..10));
    wait_for_all(&central, &[&host], 10);
    let doctor = host.place.ask("doctor", &["--config", &host.file().display().to_string()]);
    assert!(String::from_utf8_lossy(&doctor.stdout).contains("is reached, and knows this host"), "{doctor:?}");
    assert_eq!(central.host("web-1").expect("a host")["tables"], serde_json::json!(["Log"]));

    // A name that is not let in, another folder with the same certificate, and another authority.
    let refused = |name: &'static str, [cert, key]: [String; 2], why: &str| {
        let other = Host::new(name);
        forwards(&other, &url, &ca, &[cert, key]);
        let daemon = other.start();
        other.write("app.log", &lines(name, 0..3));
        wait_for(why, PATIENCE, || daemon.said().contains(why).then_some(()));
        daemon.stop();
    };
    let place = Place::new();
    refused("db-1", files(&place, &authority, "db-1"), "no certificate of the name db-1 is accepted here");
    refused("web-2", files(&place, &authority, "web-1"), "of another data folder");
    refused("web-3", files(&place, &Authority::new(), "web-3"), "failed to forward");
    assert_eq!(central.place.records().len(), 10, "nothing of them is stored");
    let names: Vec<String> = central.place.json("hosts", &[]).iter().map(|host| host["host"].to_string()).collect();
    assert_eq!(names, ["\"web-1\""]);

    // Its tables are those of the configuration, and it renews nothing.
    append(&host.place.log("app.log"), b"2026-11-27T10:00:00Z INFO secret one\n");
    daemon.wait_said("is for the table Log here, and the request has records for Audit");
    running.stop();
    let running = central.place.start_with(&config.replace("certificate_tables = [\"Log\"]\n", ""));
    wait_for_all(&central, &[&host], 11);
    hosts(&central, &["revoke", "web-1"]);
    append(&host.place.log("app.log"), b"2026-11-27T10:00:00Z INFO another one\n");
    daemon.wait_said("web-1 was revoked");
    assert_eq!(central.host("web-1").expect("a host")["revoked"], true);
    hosts(&central, &["forget", "web-1"]);
    wait_for_all(&central, &[&host], 12);
    daemon.stop();
    running.stop();
}
