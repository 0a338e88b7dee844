//! A client library in a process of its own, which pushes again and again: `program.py`.

use crate::line::{self, Id};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running client process. Dropping the value ends the process.
pub(super) struct Program {
    child: Child,
    asking: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Program {
    /// Starts the program for a library, which pushes to `url`.
    pub(super) fn start(library: &str, url: &str) -> io::Result<Program> {
        let home = Path::new(crate::ROOT);
        let mut python = Command::new(home.join("target/venv/bin/python"));
        python.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/src/pushes/program.py")).args([library, url]);
        let mut child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("target/venv/bin/python: {error}: sh tests/setup installs it"))
        })?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(asking), Some(answers)) => Ok(Program { child, asking, answers: BufReader::new(answers) }),
            _ => Err(io::Error::other("it has no pipes")),
        }
    }

    /// Asks the process to push two records.
    pub(super) fn ask(&mut self, ids: [Id; 2], key: Option<&str>) -> io::Result<()> {
        let messages = ids.map(|id| line::message(id, 20));
        writeln!(self.asking, "{}", serde_json::json!({ "key": key, "messages": messages }))
    }

    /// Waits until the records are accepted.
    pub(super) fn hear(&mut self) -> io::Result<()> {
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        if answer == "taken\n" { Ok(()) } else { Err(io::Error::other("the program that pushes ended")) }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}
