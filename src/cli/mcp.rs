//! `daytable mcp`: the tools of an agent over standard input and output.
//!
//! An agent starts this program and speaks the Model Context Protocol with it. Each call becomes a request to the daemon of the
//! data folder, over its control socket.

use super::args::DataArgs;
use super::control::ControlError;
use super::exit::CliError;
use super::locate;
use crate::mcp::{McpServer, RouteReader, ToolAnswer, notes_of};
use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::transport::stdio;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: DataArgs,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let routes = Arc::new(DaemonRoutes { data_dir: args.data.dir() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::output)?;
    runtime.block_on(async {
        let failed = |error: String| CliError::output(io::Error::other(error));
        let server = match McpServer::new(routes).serve(stdio()).await {
            Ok(server) => server,
            // An agent that ends before it said a word.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(ServerInitializeError::ExpectedInitializeRequest(_)) => {
                return Err(CliError::Usage(
                    "the first message is not the request `initialize` of the Model Context Protocol: let an agent start \
                     `daytable mcp` (docs/guide/agents.md)"
                        .into(),
                ));
            }
            Err(ServerInitializeError::UnexpectedInitializeResponse(_)) => {
                return Err(failed("the answer to `initialize` is not one of the Model Context Protocol".into()));
            }
            Err(error) => return Err(failed(error.to_string())),
        };
        server.waiting().await.map(drop).map_err(|error| failed(error.to_string()))
    })
}

/// The routes of the daemon that runs now: it may be started again between two calls.
struct DaemonRoutes {
    data_dir: PathBuf,
}

impl RouteReader for DaemonRoutes {
    fn read(&self, target: String) -> Pin<Box<dyn Future<Output = Result<ToolAnswer, String>> + Send + '_>> {
        let data_dir = self.data_dir.clone();
        Box::pin(async move {
            let asked = tokio::task::spawn_blocking(move || ask(&data_dir, &target));
            asked.await.map_err(|error| error.to_string())?
        })
    }
}

fn ask(data_dir: &Path, target: &str) -> Result<ToolAnswer, String> {
    let control = locate::connect(data_dir, None).map_err(|error| error.to_string())?;
    let Some(control) = control else {
        return Err(format!("{}: start it with `daytable run`", locate::no_daemon(data_dir)));
    };
    let mut response = control.fetch(target).map_err(|error| match error {
        ControlError::Refused { reason, .. } => reason,
        error => error.to_string(),
    })?;
    let mut answer = ToolAnswer { warnings: notes_of(response.warnings()), ..ToolAnswer::default() };
    while let Some(line) = response.line().map_err(|error| error.to_string())? {
        if !answer.lines.push(&line) {
            break;
        }
    }
    Ok(answer)
}
