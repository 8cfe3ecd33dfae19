//! Code generated from the schema, in the module tree its packages ask for.

#[allow(clippy::all, clippy::pedantic, unreachable_pub)]
pub mod p4 {
    pub mod config {
        pub mod v1 {
            tonic::include_proto!("p4.config.v1");
        }
    }
    pub mod v1 {
        tonic::include_proto!("p4.v1");
    }
}
