//! `daytable join`: this host forwards its records to another daytable.
//!
//! 1. The files are checked that the command will write, so that no code is used up in vain.
//! 2. The code is traded for a credential.
//! 3. The credential is written, mode 0600, and the block `[[forward]]` is appended to the configuration, or printed.

use super::args::DataArgs;
use super::control::Control;
use super::exit::CliError;
use super::locate::{installed_file, load_config};
use super::output::Output;
use super::output_place::check_beside_days;
use crate::config::Config;
use daytable_forward::client::{ClientError, ReceiverClient};
use daytable_forward::credentials::CredentialDraft;
use daytable_forward::options::{ForwardOptions, receiver_address};
use daytable_forward::protocol::{JoinAnswer, JoinRequest};
use daytable_model::path_text::PathText;
use daytable_store::{Reader, Store, StoreOptions};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The address of the other daytable, as `daytable hosts invite` printed it
    #[arg(value_name = "URL", value_parser = receiver_address)]
    to: String,
    /// The code, as `daytable hosts invite` printed it
    #[arg(value_name = "CODE")]
    code: Code,
    /// The configuration that gets the block [[forward]]. Without a file, /etc/daytable/daytable.toml; without that, the block is printed
    #[arg(long, value_name = "FILE", env = "DAYTABLE_CONFIG")]
    config: Option<PathBuf>,
    /// The file for the credential, where the configuration does not name it
    #[arg(long, value_name = "FILE")]
    credential_file: Option<PathBuf>,
    /// Authorities of the certificate of the other daytable in PEM
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Send records to another host without TLS
    #[arg(long)]
    allow_plain: bool,
    /// Give the data folder another origin: it is a copy of one that goes on elsewhere
    #[arg(long)]
    new_origin: bool,
    #[command(flatten)]
    data: DataArgs,
}

/// A code, which no log shows.
#[derive(Clone)]
struct Code(String);

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Code(…)")
    }
}

impl std::str::FromStr for Code {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Code, Self::Err> {
        Ok(Code(text.to_owned()))
    }
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let file = args.config.as_deref().or_else(|| installed_file());
    let config = file.map(|file| load_config(Some(file))).transpose()?;
    let known = config.as_ref().and_then(|config| config.forward.iter().find(|known| known.to == args.to)).cloned();
    if known.as_ref().is_some_and(ForwardOptions::shows_certificate_alone) {
        let reason = "the configuration has a certificate for this address, and so needs no code: add `credential_file` to its block to use one";
        return Err(CliError::Unavailable(reason.into()));
    }
    let options = ForwardOptions {
        to: args.to.clone(),
        credential_file: match (&args.credential_file, &known) {
            (Some(file), _) => {
                check_beside_days(file)?;
                absolute(file)?
            }
            (None, Some(known)) => known.credential_file.clone(),
            (None, None) => default_file(args, file, config.as_ref())?,
        },
        ca_file: args.ca_file.as_deref().map(absolute).transpose()?.or_else(|| known.clone()?.ca_file),
        allow_plain: args.allow_plain || known.as_ref().is_some_and(|known| known.allow_plain),
        code_file: None,
        headers_file: None,
        cert_file: known.as_ref().and_then(|known| known.cert_file.clone()),
        key_file: known.as_ref().and_then(|known| known.key_file.clone()),
    };
    // A code is good for one attempt that succeeds, so what can fail here fails first.
    if args.new_origin {
        refuse_running(&args.data.dir_of(config.as_ref()))?;
    }
    let appended = match (&known, file) {
        (None, Some(file)) => {
            let opened = File::options().append(true).open(file);
            Some((file, opened.map_err(|source| unwritable(file, source, &options))?))
        }
        _ => None,
    };
    let failed = |source| CliError::Write { path: options.credential_file.clone(), source };
    let credential = CredentialDraft::begin(&options.credential_file).map_err(failed)?;
    let joined = join(&options, args, config.as_ref());
    let answer = match joined {
        Ok(answer) => answer,
        Err(error) => {
            credential.abandon();
            return Err(error);
        }
    };
    let owned = give_to_owner(credential.file(), &args.data.dir_of(config.as_ref()));
    owned.and_then(|()| credential.finish(&answer.credential)).map_err(failed)?;
    if args.new_origin {
        renew_origin(&args.data.dir_of(config.as_ref()))?;
    }
    let block = block(&options);
    let mut output = Output::new();
    output.line(format_args!("this host is {} at {}", answer.name, options.to))?;
    output.line(format_args!("wrote {}", options.credential_file.escaped()))?;
    match (appended, &known) {
        (Some((file, mut open)), _) => {
            let written = write!(open, "\n{block}").and_then(|()| open.sync_all());
            written.map_err(|source| CliError::Write { path: file.into(), source })?;
            output.line(format_args!("appended [[forward]] to {}", file.escaped()))?;
        }
        (None, Some(_)) => output.line("the configuration has its block already")?,
        (None, None) => output.line(format_args!("add this to the configuration:\n\n{block}"))?,
    }
    output.line("next: daytable reload, or start the daemon")?;
    if !is_local(&options.to) {
        output.line(DROP_IN)?;
    }
    output.flush()
}

/// Why the block cannot be appended. A file that another program keeps, as in a container, gets the block by variables.
fn unwritable(file: &Path, source: std::io::Error, options: &ForwardOptions) -> CliError {
    if source.kind() != ErrorKind::ReadOnlyFilesystem {
        return CliError::Write { path: file.into(), source };
    }
    CliError::Unavailable(format!(
        "{} cannot be written, so the block [[forward]] has to come from elsewhere, and then join again: by the variables \
         DAYTABLE_FORWARD_TO={} and DAYTABLE_FORWARD_CREDENTIAL_FILE=FILE of the daemon and of this command, with a FILE in the \
         data folder (docs/guide/kubernetes.md)",
        file.escaped(),
        options.to
    ))
}

/// The shipped unit permits no address but those of this host.
pub(super) const DROP_IN: &str = "the shipped systemd unit denies every address but localhost; allow the other daytable by `systemctl edit daytable`:\n\n\
                       [Service]\nIPAddressAllow=ADDRESS";

/// Whether an address is one of this host.
pub(super) fn is_local(to: &str) -> bool {
    ["://127.", "://localhost", "://[::1]"].iter().any(|local| to.contains(local))
}

fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    std::path::absolute(path).map_err(|source| CliError::Write { path: path.into(), source })
}

/// A file beside the configuration, or in the data folder, that no other block has. A file that is there may be the credential of
/// another configuration.
fn default_file(args: &Args, file: Option<&Path>, config: Option<&Config>) -> Result<PathBuf, CliError> {
    let folder = match file.and_then(Path::parent) {
        Some(folder) if folder.as_os_str().is_empty() => absolute(Path::new("."))?,
        Some(folder) => absolute(folder)?,
        None => absolute(&args.data.dir_of(config))?,
    };
    let is_used =
        |path: &PathBuf| config.is_some_and(|config| config.forward.iter().any(|other| other.credential_file == *path));
    let names = std::iter::once("forward".to_owned()).chain((2..).map(|n| format!("forward-{n}")));
    let mut paths = names.map(|name| folder.join(name));
    Ok(paths.find(|path| !is_used(path) && !path.exists()).unwrap_or_else(|| folder.join("forward")))
}

fn join(options: &ForwardOptions, args: &Args, config: Option<&Config>) -> Result<JoinAnswer, CliError> {
    let failed = |error: ClientError| {
        let hint = if matches!(error, ClientError::Network(_)) {
            ": is the address right, and reached from here?"
        } else {
            ""
        };
        CliError::Unavailable(format!("failed to join {}: {error}{hint}", options.to))
    };
    let client = ReceiverClient::without_credential(options).map_err(failed)?;
    // A host without a configured name takes that of its invitation.
    let name = config.and_then(|config| config.host.clone());
    let request = JoinRequest { code: args.code.0.clone(), name, credential: None };
    let start = |source| CliError::Write { path: "a runtime".into(), source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(start)?;
    match runtime.block_on(client.join(&request)) {
        // A code of `hosts enrol` is for names of a pattern, so a host without a configured name says that of its machine.
        Err(ClientError::Refused { status: 403, reason, .. })
            if request.name.is_none() && reason.contains("has no name") =>
        {
            let named = JoinRequest { name: Some(daytable_platform::host::name()), ..request };
            runtime.block_on(client.join(&named)).map_err(failed)
        }
        joined => joined.map_err(failed),
    }
}

/// A daemon with a user of its own has to read the file that root wrote.
fn give_to_owner(file: &File, data_dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    match std::fs::metadata(data_dir) {
        Ok(folder) => std::os::unix::fs::fchown(file, Some(folder.uid()), Some(folder.gid())),
        Err(_) => Ok(()),
    }
}

fn refuse_running(data_dir: &Path) -> Result<(), CliError> {
    if Control::connect(data_dir)?.is_some() {
        let reason =
            "the daemon of this data folder runs: stop it first; a folder gets another origin while nothing is sent";
        return Err(CliError::Unavailable(reason.into()));
    }
    Ok(())
}

fn renew_origin(data_dir: &Path) -> Result<(), CliError> {
    drop(Reader::open(data_dir)?);
    let store = Store::open(data_dir, StoreOptions::default())?;
    let renewed = store.forwarding().renew_origin();
    store.close()?;
    renewed?;
    Ok(())
}

/// The block of the configuration.
fn block(options: &ForwardOptions) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let path = |path: &Path| quoted(&path.to_string_lossy());
    let mut block =
        format!("[[forward]]\nto = {}\ncredential_file = {}\n", quoted(&options.to), path(&options.credential_file));
    if let Some(file) = &options.ca_file {
        block.push_str(&format!("ca_file = {}\n", path(file)));
    }
    if options.allow_plain {
        block.push_str("allow_plain = true\n");
    }
    block
}
