//! Who is who between Penstock's programs.
//!
//! Every program has a certificate with an [`Identity`] in it, `spiffe://penstock/KIND/NAME`
//! as its one URI name, and trusts one authority. Both ends of a connection show theirs
//! (TLS 1.3). A server says which kinds it admits ([`server::Door`]); a client says whom it
//! expects ([`client::Expected`]), by name and not by address.
//!
//! [`Credentials`] are read once, when a program starts, and refused there if they could
//! not work. With the feature `authority`, [`authority`] issues certificates for development.
//!
//! Refusals say who was presented, why that does not do, and what to do about it, at the
//! end that refuses; the other end learns that it was refused and as whom it came.
#![forbid(unsafe_code)]

#[cfg(feature = "authority")]
pub mod authority;
pub mod client;
mod credentials;
mod name;
mod reason;
pub mod server;

pub use credentials::{Credentials, CredentialsError, Files};
pub use name::{Identity, Kind, NameError};
