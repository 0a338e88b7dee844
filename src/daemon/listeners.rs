//! What listens, bound before anything else happens: so a port that is taken is an error of the start, and whoever sends
//! while the store is opened (which may have a crash to clear up after) waits in the kernel instead of being refused.

use super::DaemonError;
use crate::activation::Inherited;
use crate::config::{Config, Listen};
use crate::http::BindError;
use crate::syslog;
use std::net::TcpListener;

/// Bound listeners that nobody serves yet.
pub(super) struct Listeners {
    /// Where metrics, health and the APIs answer over TCP.
    pub(super) http: Option<TcpListener>,
    pub(super) syslog: syslog::Bound,
}

impl Listeners {
    /// Binds all of the configuration's; the service manager's sockets come before those of our own. None is bound where
    /// one cannot be.
    pub(super) fn bind(config: &Config) -> Result<Listeners, DaemonError> {
        let mut inherited = Inherited::take()?;
        let http = match config.http.listen {
            Listen::Off => None,
            Listen::Tcp(address) => {
                let failed = |source| BindError::Io { at: address.to_string(), source };
                let listener = inherited.tcp(address).map_or_else(|| TcpListener::bind(address), Ok);
                Some(listener.map_err(failed)?)
            }
        };
        let syslog = syslog::bind(&config.syslogs, &mut inherited)?;
        inherited.finish()?;
        Ok(Listeners { http, syslog })
    }
}
