//! What the worker serves to the controller: [`p4rt`], the NICs' tables, and
//! [`slowpath`], policies and flows, both on one address.

pub mod p4rt;
pub mod slowpath;
pub mod transport;
