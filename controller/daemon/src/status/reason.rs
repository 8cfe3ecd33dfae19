//! Why a condition is as it is.
//!
//! One list, so that programs may rely on it: docs/api.md tells what each means.

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident,)*) => {
        /// For programs; messages are for people.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Reason { $($(#[$doc])* $variant,)* }

        impl Reason {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The stable name in the API.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant),)* }
            }
        }
    };
}

reasons! {
    /// It is valid and stored.
    Accepted,
    /// What it refers to was found.
    Resolved,
    /// Every node that it concerns carries it.
    Programmed,
    /// No node needs it.
    NotNeeded,
    /// Its turn has not come yet.
    Pending,
    /// There is no session, whatever the node may carry.
    NodeUnreachable,
    /// Another controller has the node.
    NotPrimary,
    /// The node has no interface of the port's attachment: not resolved either.
    AttachmentNotFound,
    /// A rule's peer is in a VPC that is not peered with the rule's own.
    PeerUnresolved,
    /// The other VPC declares no peering back.
    WaitsForPeer,
    /// Rules know the peer, but no packet goes there yet.
    NotForwarded,
    /// The worker has no NIC of that device id.
    NicNotFound,
    /// The worker's NIC is not the declared one.
    NicMismatch,
    /// The NIC's P4Runtime session does not open.
    NicNotOpen,
    /// Writing to the NIC failed.
    NicFailed,
    /// The NIC's P4Runtime session has ended.
    NicLost,
    /// The NIC's uplink carries nothing.
    UplinkDown,
    /// The worker refuses the policy.
    PolicyRefused,
    /// A table of the NIC has no room.
    TableFull,
    /// The NIC refuses an entry.
    Refused,
    /// The NIC's program is not shown to be right, and so is not written.
    NotProved,
    /// The policy is in force, but a restart of the worker would begin without it.
    NotKept,
    /// Packets as large as declared do not fit the underlay.
    MtuTooSmall,
    /// A fault of the controller's own.
    Internal,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_names_each() {
        let guide = include_str!("../../../../docs/api.md");
        for reason in Reason::ALL {
            let row = format!("\n| `{}` |", reason.name());
            assert_eq!(guide.matches(&row).count(), 1, "{}", reason.name());
        }
    }
}
