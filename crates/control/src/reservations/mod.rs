//! Reservations: what an order for one means, and what the clock does to them.

mod conflict;
mod error;
mod order;
mod resolve;
mod tend;

pub use error::ReservationError;
pub use order::{ReservationOrder, Start};
pub use resolve::{earliest, made};

pub(crate) use order::{create, delete, update};
pub(crate) use tend::Tender;
