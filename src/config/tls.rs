//! The keys of a TLS listener: `[http] tls = { … }`, and the same keys of a `[[syslog]]` block.

use super::key::{ConfigKey, SectionDoc, SectionPlace, optional_text, text};
use super::section::Section;
use super::values::secret_file;
use daytable_net::tls::TlsOptions;
use std::path::PathBuf;

/// The three files. Files that are not given stay empty until [`complete`].
pub(super) fn keys<T: 'static>(tls: impl Fn(&mut T) -> &mut Option<TlsOptions> + Copy + 'static) -> Vec<ConfigKey<T>> {
    let file = "an absolute path, or \"%d/NAME\"";
    vec![
        text("cert_file", file, move |options| &mut tls(options).get_or_insert_with(no_files).cert_file, secret_file)
            .example("\"/etc/daytable/cert.pem\"")
            .for_new_connections("The certificate in PEM, followed by the certificates between it and its authority. daytable reads a changed file again."),
        text("key_file", file, move |options| &mut tls(options).get_or_insert_with(no_files).key_file, secret_file)
            .example("\"/etc/daytable/key.pem\"")
            .for_new_connections("The private key of the certificate, in PEM. daytable reads a changed file again."),
        optional_text("client_ca_file", file, move |options| &mut tls(options).get_or_insert_with(no_files).client_ca_file, secret_file)
            .example("\"/etc/daytable/client-ca.pem\"")
            .for_new_connections("The authorities of client certificates, in PEM. With this key, every client must have a certificate of one of them."),
    ]
}

/// Keeps the files where the listener speaks TLS and both required files are given. Reports an absent file.
pub(super) fn complete(section: &Section<'_>, tls: &mut Option<TlsOptions>, is_wanted: bool) {
    if is_wanted {
        section.require("cert_file", "cert_file = \"/etc/daytable/cert.pem\"");
        section.require("key_file", "key_file = \"/etc/daytable/key.pem\"");
    }
    let is_whole = |tls: &TlsOptions| [&tls.cert_file, &tls.key_file].iter().all(|file| !file.as_os_str().is_empty());
    *tls = tls.take().filter(|tls| is_wanted && is_whole(tls));
}

pub(super) fn doc() -> SectionDoc {
    let keys = keys(|tls: &mut Option<TlsOptions>| tls);
    SectionDoc { within: "`[http]`", ..SectionDoc::new("tls", SectionPlace::Inline, keys, &mut None) }
}

fn no_files() -> TlsOptions {
    TlsOptions { cert_file: PathBuf::new(), key_file: PathBuf::new(), client_ca_file: None }
}
