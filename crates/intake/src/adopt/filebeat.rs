//! The registry of Filebeat (7.9 and later): a folder with a log of operations, and a checkpoint before it.
//!
//! ```text
//! active.dat       the path of the newest checkpoint; absent before the first
//! 4711.json        the checkpoint up to operation 4711: a list of states, each with its `_key`
//! log.json         later operations, two lines each:
//!                  {"op":"set","id":4712}
//!                  {"k":"filestream::my-id::native::INODE-DEVICE","v":{"cursor":{"offset":66},"meta":{"source":"/a.log",…},…}}
//! ```
//!
//! In a key of the old `log` input (`filebeat::logs::native::INODE-DEVICE`), the state has `offset`, `source` and
//! `FileStateOS`. A last line that a crash cut is skipped, as in Filebeat.

use super::{AdoptError, FileReference, SavedPosition, format, text};
use daytable_model::path_text::PathText;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(super) fn read(path: &Path) -> Result<Vec<SavedPosition>, AdoptError> {
    let folder = folder_of(path);
    let mut states = BTreeMap::<String, Value>::new();
    let mut since = 0;
    let active = folder.join("active.dat");
    if active.exists() {
        let name = text(&active)?;
        // The path is the path on the host of Filebeat, so only the file name counts.
        let name = Path::new(name.trim()).file_name().unwrap_or_default().to_owned();
        let checkpoint = folder.join(&name);
        since = name.to_string_lossy().trim_end_matches(".json").parse().unwrap_or(0);
        let all: Vec<Value> = serde_json::from_str(&text(&checkpoint)?)
            .map_err(|error| format(checkpoint.escaped(), error.to_string()))?;
        for state in all {
            let key = state.get("_key").and_then(Value::as_str).map(str::to_owned);
            let key = key.ok_or_else(|| format(checkpoint.escaped(), "a state has no `_key`"))?;
            states.insert(key, state);
        }
    }
    let log = folder.join("log.json");
    replay(&text(&log)?, since, &mut states)
        .map_err(|(line, reason)| format(format_args!("{}:{line}", log.escaped()), reason))?;
    Ok(states.iter().filter_map(|(key, state)| position(key, state)).collect())
}

/// The positions in a log without a checkpoint.
#[cfg(any(test, feature = "testing"))]
pub(super) fn parse(log: &str) -> Result<Vec<SavedPosition>, (usize, String)> {
    let mut states = BTreeMap::new();
    replay(log, 0, &mut states)?;
    Ok(states.iter().filter_map(|(key, state)| position(key, state)).collect())
}

/// The folder with the log: the given folder, or a folder below.
fn folder_of(path: &Path) -> PathBuf {
    let within = ["", "filebeat", "registry/filebeat", "data/registry/filebeat"].map(|below| path.join(below));
    within.into_iter().find(|folder| folder.join("log.json").exists()).unwrap_or_else(|| path.to_owned())
}

fn replay(log: &str, since: u64, states: &mut BTreeMap<String, Value>) -> Result<(), (usize, String)> {
    let mut operation: Option<(String, u64)> = None;
    let lines: Vec<&str> = log.lines().collect();
    for (number, line) in lines.iter().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let parsed: Value = match serde_json::from_str(line) {
            Ok(parsed) => parsed,
            // A crash cut the last line.
            Err(_) if number + 1 == lines.len() => break,
            Err(error) => return Err((number + 1, error.to_string())),
        };
        match operation.take() {
            None => {
                let name = parsed.get("op").and_then(Value::as_str).map(str::to_owned);
                let id = parsed.get("id").and_then(Value::as_u64).unwrap_or(u64::MAX);
                operation = Some((name.ok_or_else(|| (number + 1, "is not an operation".to_owned()))?, id));
            }
            Some((name, id)) => {
                let key = parsed.get("k").and_then(Value::as_str).map(str::to_owned);
                let key = key.ok_or_else(|| (number + 1, "has no key".to_owned()))?;
                match (name.as_str(), parsed.get("v")) {
                    _ if id <= since => {}
                    ("set", Some(value)) => drop(states.insert(key, value.clone())),
                    ("remove", _) => drop(states.remove(&key)),
                    (other, _) => return Err((number + 1, format!("{other:?} is not a known operation"))),
                }
            }
        }
    }
    Ok(())
}

/// The position in a state. `None` if the state is not a file's, or the file was not read.
fn position(key: &str, state: &Value) -> Option<SavedPosition> {
    let path = state.pointer("/meta/source").or_else(|| state.get("source")).and_then(Value::as_str).map(PathBuf::from);
    let offset = state.pointer("/cursor/offset").or_else(|| state.get("offset")).and_then(Value::as_u64)?;
    let (rest, identity) = key.rsplit_once("::")?;
    let file = match rest.rsplit("::").next()? {
        "native" => {
            let (inode, device) = identity.split_once('-')?;
            // A marker may follow the device.
            let device = device.split('-').next().and_then(|device| device.parse().ok());
            FileReference::Inode { inode: inode.parse().ok()?, device, path }
        }
        "fingerprint" => FileReference::Sha256 { digest: identity.to_ascii_lowercase(), path },
        "path" => FileReference::Path(identity.into()),
        _ => return None,
    };
    Some(SavedPosition { file, offset })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_checkpoint_and_its_later_log() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("registry/filebeat");
        fs::create_dir_all(&folder).expect("made");
        let put = |name: &str, text: &str| fs::write(folder.join(name), text).expect("written");
        put("meta.json", r#"{"version":"1"}"#);
        put("active.dat", "/var/lib/filebeat/registry/filebeat/7.json");
        put(
            "7.json",
            concat!(
                r#"[{"_key":"filestream::id::native::524337-2049","ttl":1800000000000,"updated":[823727168,1716602750],"#,
                r#""cursor":{"offset":66},"meta":{"source":"/a.log","identifier_name":"native"}},"#,
                r#"{"_key":"filebeat::logs::native::5-6","id":"native::5-6","source":"/old.log","offset":9,"#,
                r#""FileStateOS":{"inode":5,"device":6},"identifier_name":"native"},"#,
                r#"{"_key":"filestream::id::native::9-9","cursor":{"offset":1},"meta":{"source":"/gone.log"}}]"#
            ),
        );
        put(
            "log.json",
            concat!(
                "{\"op\":\"set\",\"id\":7}\n{\"k\":\"filestream::id::native::524337-2049\",\"v\":{\"cursor\":{\"offset\":1}}}\n",
                "{\"op\":\"set\",\"id\":8}\n",
                "{\"k\":\"filestream::id::native::524337-2049\",\"v\":{\"cursor\":{\"offset\":132},\"meta\":{\"source\":\"/a.log\"}}}\n",
                "{\"op\":\"remove\",\"id\":9}\n{\"k\":\"filestream::id::native::9-9\"}\n",
                "{\"op\":\"set\",\"id\":10}\n",
                "{\"k\":\"filestream::id::fingerprint::4152BC\",\"v\":{\"cursor\":{\"offset\":3},\"meta\":{\"source\":\"/f.log\"}}}\n",
                "{\"op\":\"set\",\"id\":11}\n{\"k\":\"filestream::id::path::/p.log\",\"v\":{\"cursor\":{\"offset\":4}}}\n",
                "{\"op\":\"set\",\"id\":12}\n{\"k\":\"filestream::id::native::7-7\",\"v\":{\"cursor\":null,\"meta\":{\"source\":\"/n\"}}}\n",
                "{\"op\":\"set\",\"id\":13}\n{\"k\":\"cut"
            ),
        );
        let path = |text: &str| Some(PathBuf::from(text));
        let of = |file, offset| SavedPosition { file, offset };
        let expected = [
            of(FileReference::Inode { inode: 5, device: Some(6), path: path("/old.log") }, 9),
            of(FileReference::Sha256 { digest: "4152bc".into(), path: path("/f.log") }, 3),
            of(FileReference::Inode { inode: 524_337, device: Some(2049), path: path("/a.log") }, 132),
            of(FileReference::Path("/p.log".into()), 4),
        ];
        assert_eq!(read(root.path()).expect("read"), expected);
        put("log.json", "{\"op\":\"set\",\"id\":7}\nrubbish\n{\"op\":\"set\",\"id\":9}\n");
        assert!(read(&folder).expect_err("rubbish").to_string().contains("log.json:2: "));
    }
}
