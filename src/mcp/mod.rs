//! The tools of an agent: the Model Context Protocol over standard input and output (`daytable mcp`) and over HTTP (`/mcp`).
//!
//! ```text
//! daytable mcp ──► McpServer ──► RouteReader over the control socket ──┐
//! POST /mcp ─────► McpServer ──► RouteReader within the listener ──────┴─► the routes of /api
//! ```
//!
//! 1. A tool is a route of `/api` with some of its parameters: one implementation answers people and agents. [`tools`] has the
//!    list, and says which route a call is.
//! 2. Tools read, and change nothing. An answer has at most [`tools::ANSWER_BYTES_MAX`] bytes; a longer one ends between two
//!    lines and says so.
//! 3. Lines of logs are content that strangers wrote. They stand in a block of their own behind a sentence that says so.
//!
//! The protocol is rmcp's ([decision 80](../../docs/decisions/0080-tools-for-agents.md)).

mod server;
pub mod tools;

pub use server::{LineSink, McpServer, RouteReader, ToolAnswer, notes_of};
