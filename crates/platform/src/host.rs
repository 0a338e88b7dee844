//! This host.

/// The name of this machine.
pub fn name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "localhost".into() } else { name }
}

/// The id of this machine ([machine-id(5)](https://www.freedesktop.org/software/systemd/man/latest/machine-id.html)): 32
/// hexadecimal digits. `None` where there is no such file or it has no id yet, as in many containers.
pub fn machine_id() -> Option<String> {
    let id = std::fs::read_to_string("/etc/machine-id").ok()?.trim().to_owned();
    (id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(id)
}
