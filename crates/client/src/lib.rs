//! A typed HTTP client for the REST interface, over the daemon's unix socket.
//!
//! Calls block; one connection is kept and used again. Nothing is parsed here but answers.
//!
//! ```no_run
//! let client = muster_client::Client::connect()?;
//! for row in client.queue(&muster_api::QueueQuery::default())?.rows {
//!     println!("{} {}", row.job, row.name);
//! }
//! # Ok::<(), muster_client::ClientError>(())
//! ```

mod calls;
mod connection;
mod environment;
mod error;
mod events;
mod query;
pub mod terminal;

pub use connection::Client;
pub use environment::{environment, left_out};
pub use error::ClientError;
pub use events::Events;
