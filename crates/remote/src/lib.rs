//! A remote store: Azure Table storage behind an outbox in the data folder.
//!
//! * [`options`]: how the service is reached, and how the outbox behaves.
//! * [`tables`]: the table store of the service.
//! * [`outbox`]: sends what the data folder holds for the service, and has it removed there.
//! * [`shared`]: the life of day-tables that several daytables share.

pub mod options;
mod entity;
pub mod tables;
pub mod outbox;
pub mod shared;
