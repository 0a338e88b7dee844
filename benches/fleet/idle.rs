//! What hosts cost the central that have nothing to send: each has a credential and a connection, and says that it is there.

use crate::member::{Member, free_address, said};
use crate::table::Table;
use anyhow::{Context, Result};
use daytable_forward::client::ReceiverClient;
use daytable_forward::credentials::ForwardCredential;
use daytable_forward::options::ForwardOptions;
use daytable_forward::protocol::{HelloRequest, HostReport, JoinRequest};
use daytable_store::forward::position::FolderOrigin;
use std::path::Path;
use std::time::Duration;

/// Measures the central with so many hosts.
pub(crate) fn measure(table: &mut Table, scratch: &Path, hosts: u64) -> Result<()> {
    let listen = free_address()?;
    let central = Member::central(scratch, listen)?;
    let running = central.start()?;
    let url = format!("http://{listen}");
    let mut enrol = central.command("hosts");
    let enrolled =
        said(enrol.args(["enrol", "node-*", "--expires", "1h", "--url", &url, "--data"]).arg(&central.data))?;
    let code = enrolled.split_whitespace().last().context("no code")?.to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let empty = running.process.rss()?;
    runtime.block_on(async {
        let mut clients = Vec::new();
        for number in 0..hosts {
            let options = ForwardOptions { to: url.clone(), ..ForwardOptions::default() };
            let request = JoinRequest { code: code.clone(), name: Some(format!("node-{number}")), credential: None };
            let client = ReceiverClient::without_credential(&options)?;
            let credential =
                ForwardCredential::new(&client.join(&request).await?.credential).context("no credential")?;
            clients.push((client.with_credential(&credential)?, number));
        }
        for turn in 1..=3 {
            for (client, number) in &clients {
                let report = HostReport { version: "bench".into(), ..HostReport::default() };
                let origin = FolderOrigin((u128::from(*number) + 1).to_be_bytes());
                let request = HelloRequest { origin, instance: number + 1, turn, answered: turn - 1, report };
                client.hello(&request).await?;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let rss = running.process.rss()?;
        table.add(format!("{hosts} idle hosts: memory of the central, in all"), "MB", "60", rss as f64 / 1e6);
        table.add(
            format!("{hosts} idle hosts: of that, by the hosts"),
            "MB",
            "",
            rss.saturating_sub(empty) as f64 / 1e6,
        );
        let before = running.process.cpu()?;
        for (client, number) in &clients {
            let report = HostReport { version: "bench".into(), ..HostReport::default() };
            let origin = FolderOrigin((u128::from(*number) + 1).to_be_bytes());
            let request = HelloRequest { origin, instance: number + 1, turn: 4, answered: 3, report };
            client.hello(&request).await?;
        }
        let cpu = (running.process.cpu()? - before).as_secs_f64();
        // Each host says hello every ten seconds.
        table.add(format!("{hosts} idle hosts: CPU of the central"), "% of a core", "", cpu / 10.0 * 100.0);
        anyhow::Ok(())
    })?;
    running.process.stop()?;
    std::fs::remove_dir_all(scratch)?;
    Ok(())
}
