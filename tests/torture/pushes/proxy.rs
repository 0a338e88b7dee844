//! What stands between a client and the daemon, and cuts the first answer.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Takes connections at `path` for the daemon at `socket`. Of the first one's answer `answer_max` bytes come through; those
/// after it are left alone. It ends when its path is taken away.
pub(super) fn start(path: &Path, socket: PathBuf, answer_max: usize) -> io::Result<()> {
    let listener = UnixListener::bind(path)?;
    let path = path.to_path_buf();
    std::thread::spawn(move || {
        let mut left = answer_max;
        for client in listener.incoming() {
            let Ok(client) = client else { return };
            let _ = UnixStream::connect(&socket).and_then(|daemon| relay(client, daemon, left));
            left = usize::MAX;
            if !path.exists() {
                return;
            }
        }
    });
    Ok(())
}

fn relay(client: UnixStream, daemon: UnixStream, answer_max: usize) -> io::Result<()> {
    let (mut asked, mut asking) = (client.try_clone()?, daemon.try_clone()?);
    let forth = std::thread::spawn(move || io::copy(&mut asked, &mut asking));
    let _ = io::copy(&mut (&daemon).take(answer_max as u64), &mut Write::by_ref(&mut &client));
    let _ = (client.shutdown(Shutdown::Both), daemon.shutdown(Shutdown::Both));
    let _ = forth.join();
    Ok(())
}
