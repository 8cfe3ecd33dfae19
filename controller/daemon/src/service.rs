//! The services of penstock.v1, as gRPC sees them.

mod diagnostics;
mod errors;
mod resources;

pub use diagnostics::Diagnostics;
pub use resources::Resources;
