//! A group of processes with a limit of memory, which the kernel keeps by killing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The names of files of both versions of control groups.
struct Names {
    parent: &'static str,
    limit: &'static str,
    most: &'static str,
    events: &'static str,
}

const VERSIONS: [Names; 2] = [
    Names {
        parent: "/sys/fs/cgroup/memory",
        limit: "memory.limit_in_bytes",
        most: "memory.max_usage_in_bytes",
        events: "memory.oom_control",
    },
    Names { parent: "/sys/fs/cgroup", limit: "memory.max", most: "memory.peak", events: "memory.events" },
];

/// A group, removed when it is dropped.
pub(super) struct Group {
    folder: PathBuf,
    names: &'static Names,
}

impl Group {
    /// A group of this many bytes; `None` where this user makes no groups.
    pub(super) fn make(name: &str, bytes: u64) -> Option<Group> {
        VERSIONS.iter().find_map(|names| {
            let folder = Path::new(names.parent).join(name);
            fs::create_dir(&folder).ok()?;
            let group = Group { folder, names };
            // In a folder that is not a control group, this file does not exist, and is not made.
            let limit = fs::OpenOptions::new().write(true).open(group.folder.join(names.limit));
            io::Write::write_all(&mut limit.ok()?, bytes.to_string().as_bytes()).ok()?;
            Some(group)
        })
    }

    /// The command, as a process of the group.
    pub(super) fn command(&self, command: &Command) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]).arg(self.folder.join("cgroup.procs"));
        shell.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            value.map(|value| shell.env(name, value));
        }
        shell
    }

    /// How many processes the kernel killed for the limit.
    pub(super) fn kills(&self) -> io::Result<u64> {
        let events = fs::read_to_string(self.folder.join(self.names.events))?;
        let kills = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        kills.and_then(|kills| kills.parse().ok()).ok_or_else(|| io::Error::other("the group does not count kills"))
    }

    /// The most bytes that the group had, the cache of its files among them.
    pub(super) fn most(&self) -> io::Result<u64> {
        let most = fs::read_to_string(self.folder.join(self.names.most))?;
        most.trim().parse().map_err(io::Error::other)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}
