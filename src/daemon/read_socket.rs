//! The socket of the readers' group: who the group is, and what happens without it.

use crate::config::Config;
use crate::http::Listener;
use daytable_model::path_text::PathText;
use daytable_platform::group;

/// Binds the socket of the configured group. The daemon collects without it: a group that is absent on this host, or a folder
/// that cannot be written, is a warning, and `daytable doctor` repeats it.
pub(super) fn bind(config: &Config) -> Option<Listener> {
    let (group, path) = (config.read_group.as_ref()?, config.read_socket.escaped());
    let number = match group::number(group) {
        Ok(Some(number)) => number,
        Ok(None) => {
            tracing::warn!(
                group,
                "the group of read_group does not exist, so there is no socket for readers: create it, and restart"
            );
            return None;
        }
        Err(error) => {
            tracing::warn!(group, %error, "failed to look up the group of read_group, so there is no socket for readers until a restart");
            return None;
        }
    };
    match Listener::readers(&config.read_socket, number) {
        Ok(listener) => {
            tracing::info!(socket = %path, group, "members of the group may read");
            Some(listener)
        }
        Err(error) => {
            tracing::warn!(socket = %path, group, %error, "failed to bind read_socket, so there is no socket for readers until a restart");
            None
        }
    }
}
