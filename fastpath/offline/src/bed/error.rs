//! Why documents make no bed.

use penstock_engine::AttachError;
use penstock_engine::nic::TableError;
use penstock_policies::compile::CompileError;
use penstock_policies::ids::OutOfIds;
use penstock_policies::model::NodeName;

/// A bed cannot be made of this model.
#[derive(Debug, thiserror::Error)]
pub enum BedError {
    /// Too many names.
    #[error(transparent)]
    Ids(#[from] OutOfIds),
    /// The model cannot be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// A node's policy cannot be compiled.
    #[error("the policy of {node} cannot be compiled: {error}")]
    Rules {
        /// The node.
        node: NodeName,
        /// Why.
        error: penstock_rules::CompileError,
    },
    /// A node's NIC cannot be had.
    #[error("NIC {device_id} of {node}: {error}")]
    Attach {
        /// The node.
        node: NodeName,
        /// The NIC.
        device_id: u32,
        /// Why.
        error: AttachError,
    },
    /// A NIC's tables do not take what the controller would write.
    #[error("NIC {device_id} of {node}: {error}")]
    Table {
        /// The node.
        node: NodeName,
        /// The NIC.
        device_id: u32,
        /// Why.
        error: TableError,
    },
}
