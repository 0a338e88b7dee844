//! Whose log a file is, by what a container engine wrote beside it.
//!
//! | engine | log | beside it |
//! |---|---|---|
//! | Docker, `json-file` | `/var/lib/docker/containers/ID/ID-json.log` | `config.v2.json`: name, image, labels |
//! | the kubelet | `/var/log/pods/NAMESPACE_POD_UID/CONTAINER/N.log` | nothing: the path says it |
//! | Podman, `k8s-file` | `…/overlay-containers/ID/userdata/ctr.log` | `config.json`: annotations and `hostname` |
//!
//! No socket of an engine is asked, because who may use it is root. A container that was renamed has its new name from the
//! next look on, at most [`LOOK_INTERVAL`] later.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often the file beside a log is looked at again.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Bytes of such a file.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Bytes of the value of a field.
const VALUE_BYTES_MAX: usize = 512;

/// The labels of Compose, and the fields that they become.
const LABELS: [(&str, &str); 2] =
    [("com.docker.compose.project", "compose.project"), ("com.docker.compose.service", "compose.service")];

/// The fields of a container, and when they were read.
#[derive(Debug, Default)]
pub(super) struct ContainerFields {
    fields: Vec<(String, String)>,
    read_at: Option<Instant>,
}

impl ContainerFields {
    /// Looks at the file beside the log at `path`, if it is time. Returns whether the fields are others now. A container that
    /// was removed keeps the fields that it had.
    pub(super) fn refresh(&mut self, path: &Path, labels: &[String]) -> bool {
        if self.read_at.is_some_and(|read_at| read_at.elapsed() < LOOK_INTERVAL) {
            return false;
        }
        self.read_at = Some(Instant::now());
        let found = fields(path, labels).unwrap_or_default();
        let is_other = !found.is_empty() && found != self.fields;
        if is_other {
            self.fields = found;
        }
        is_other
    }

    /// Names and values.
    pub(super) fn fields(&self) -> &[(String, String)] {
        &self.fields
    }
}

fn fields(path: &Path, labels: &[String]) -> Option<Vec<(String, String)>> {
    let folder = path.parent()?;
    let pod = || path.to_str().map(of_pod).unwrap_or_default();
    let found = if let Some(docker) = parsed::<Docker>(&folder.join("config.v2.json")) {
        docker.fields(labels)
    } else if folder.ends_with("userdata")
        && let Some(podman) = parsed::<Podman>(&folder.join("config.json"))
    {
        podman.fields(labels)
    } else {
        pod()
    };
    Some(found.into_iter().filter(|(_, value)| !value.is_empty() && value.len() <= VALUE_BYTES_MAX).collect())
}

fn parsed<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    // To open a pipe would wait for somebody who writes.
    std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// The parts of `config.v2.json` that are read. Docker writes the file at each change of the container.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Docker {
    #[serde(rename = "ID")]
    id: String,
    /// With a slash in front.
    name: String,
    config: DockerConfig,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerConfig {
    #[serde(default)]
    image: String,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

impl Docker {
    fn fields(self, labels: &[String]) -> Vec<(String, String)> {
        let Docker { id, name, config } = self;
        let own = [
            ("container", name.trim_start_matches('/').to_owned()),
            ("container_id", short(&id)),
            ("image", config.image),
        ];
        with_labels(own, config.labels.unwrap_or_default(), labels)
    }
}

/// The parts of Podman's `config.json`, which is that of the runtime (OCI). It has the name where the user set one as the
/// host's, and labels as annotations.
#[derive(Deserialize)]
struct Podman {
    #[serde(default)]
    hostname: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Podman {
    fn fields(self, labels: &[String]) -> Vec<(String, String)> {
        let Podman { hostname, mut annotations } = self;
        let mut annotation = |name: &str| annotations.remove(name).unwrap_or_default();
        let named = ["io.kubernetes.cri-o.ContainerName", "io.container.name"].map(&mut annotation);
        let image = annotation("org.opencontainers.image.ref.name");
        let name = named.into_iter().find(|name| !name.is_empty()).unwrap_or_else(|| hostname.clone());
        with_labels([("container", name), ("container_id", hostname), ("image", image)], annotations, labels)
    }
}

fn with_labels(own: [(&str, String); 3], labels: BTreeMap<String, String>, chosen: &[String]) -> Vec<(String, String)> {
    let compose = LABELS.iter().filter_map(|(label, field)| Some((*field, labels.get(*label)?.clone())));
    let chosen = chosen.iter().filter_map(|label| Some((label.as_str(), labels.get(label)?.clone())));
    own.into_iter().chain(compose).chain(chosen).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The first twelve digits, as engines show an identifier.
fn short(id: &str) -> String {
    id.chars().take(12).collect()
}

/// Namespace, pod and container of `/var/log/pods/NAMESPACE_POD_UID/CONTAINER/N.log`.
fn of_pod(path: &str) -> Vec<(String, String)> {
    let mut parts = path.rsplit('/').skip(1);
    let (Some(container), Some(folder), Some("pods")) = (parts.next(), parts.next(), parts.next()) else {
        return Vec::new();
    };
    let mut names = folder.splitn(3, '_');
    match (names.next(), names.next(), names.next()) {
        (Some(namespace), Some(pod), Some(_)) => [("namespace", namespace), ("pod", pod), ("container", container)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &Path, labels: &[&str]) -> String {
        let labels: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
        let mut read = ContainerFields::default();
        read.refresh(path, &labels);
        read.fields().iter().map(|(name, value)| format!("{name}={value} ")).collect()
    }

    #[test]
    fn the_files_beside_a_log_say_whose_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| {
            std::fs::create_dir_all(at(name).parent().expect("a folder")).expect("a folder");
            std::fs::write(at(name), text).expect("written");
        };
        let id = "4e5f".repeat(16);
        write(
            &format!("{id}/config.v2.json"),
            &format!(
                r#"{{"StreamConfig":{{}},"ID":"{id}","Name":"/shop-web-1","State":{{"Running":true}},"Config":{{"Image":"nginx:1.27",
                "Labels":{{"com.docker.compose.project":"shop","com.docker.compose.service":"web","team":"a"}}}}}}"#
            ),
        );
        assert_eq!(
            shown(&at(&format!("{id}/{id}-json.log")), &["team", "none"]),
            "container=shop-web-1 container_id=4e5f4e5f4e5f image=nginx:1.27 compose.project=shop compose.service=web team=a "
        );
        // Labels may be absent, and a file that is being written is not JSON.
        write("b/config.v2.json", r#"{"ID":"b","Name":"/b","Config":{"Image":"x","Labels":null}}"#);
        assert_eq!(shown(&at("b/b-json.log"), &[]), "container=b container_id=b image=x ");
        write("c/config.v2.json", r#"{"ID":"b","Na"#);
        assert_eq!(shown(&at("c/c-json.log"), &[]), "");
        write(
            "d/userdata/config.json",
            r#"{"hostname":"0a1b2c","annotations":{"org.opencontainers.image.ref.name":"redis"}}"#,
        );
        assert_eq!(shown(&at("d/userdata/ctr.log"), &[]), "container=0a1b2c container_id=0a1b2c image=redis ");
        assert_eq!(
            shown(Path::new("/var/log/pods/shop_cart-7d9_0a1b/app/3.log"), &[]),
            "namespace=shop pod=cart-7d9 container=app "
        );
        assert_eq!(shown(Path::new("/var/log/app.log"), &[]), "");
    }
}
