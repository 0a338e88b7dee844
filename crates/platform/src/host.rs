//! This host.

/// The name of this host, which `{host}` stands for in the configuration.
pub fn name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "localhost".into() } else { name }
}
