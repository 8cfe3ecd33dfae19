//! Every way a packet can end without being sent.
//!
//! One list for the parser, the NIC stages, the slow path, the metrics and the
//! API: a drop without a reason cannot be expressed. The names are stable.

macro_rules! drop_reasons {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal,)*) => {
        /// Why a packet was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum DropReason { $($(#[doc = $doc])* $variant,)* }

        impl DropReason {
            /// All of them, in declaration order; `ALL[r as usize] == r`.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The stable snake_case name used in metrics and the API.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The same in a sentence.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),*).trim_ascii(),)* }
            }
        }
    };
}

drop_reasons! {
    /// A header or a length field reaches beyond the frame.
    Truncated = "truncated",
    /// A header contradicts its own format.
    Malformed = "malformed",
    /// Larger than the receiver's or the path's MTU.
    Oversized = "oversized",
    /// The checksum of an IPv4 header or of a control message is wrong.
    BadChecksum = "bad_checksum",
    /// An EtherType that Penstock does not carry.
    UnknownEthertype = "unknown_ethertype",
    /// An IP protocol, option or extension header that Penstock does not carry,
    /// source routes among them.
    UnknownProtocol = "unknown_protocol",
    /// A fragment that belongs to no good packet: it overlaps another or contradicts
    /// it, does not hold its whole transport header, or is one too many; or of what
    /// is never sent in fragments.
    Fragment = "fragment",
    /// A fragment that has come before.
    FragmentDuplicate = "fragment_duplicate",
    /// A fragment whose packet's first one did not come in time.
    FragmentTimeout = "fragment_timeout",
    /// A fragment for which its sender has no room left to wait in.
    FragmentsFull = "fragments_full",
    /// VXLAN inside VXLAN, or on its way there: tenants build no tunnels here.
    NestedTunnel = "nested_tunnel",
    /// No port is bound to this device port and VLAN.
    UnknownPort = "unknown_port",
    /// From the wire, but not VXLAN for this VTEP.
    NotForUs = "not_for_us",
    /// From the wire: source VTEP, destination VTEP and VNI are not a known triple.
    UnknownTunnel = "unknown_tunnel",
    /// From the wire: the inner source is not mapped to the outer source VTEP.
    WrongVtep = "wrong_vtep",
    /// A port sent with a MAC or IP address that is not its own.
    Spoofed = "spoofed",
    /// ARP, ND or DHCP with sender fields that are not the port's own, or saying
    /// what only a router or a DHCP server says.
    SpoofedNeighbour = "spoofed_neighbour",
    /// ARP or ND for an address that nobody has.
    UnknownNeighbour = "unknown_neighbour",
    /// The port has no policy yet, or not in this VPC: closed.
    PortNotReady = "port_not_ready",
    /// The destination is mapped nowhere in this VPC, or to a port whose address it
    /// is not.
    NoRoute = "no_route",
    /// Broadcast or multicast, which the overlay does not flood.
    Multicast = "multicast",
    /// Policy refuses it on its way out of its sender.
    DeniedEgress = "denied_egress",
    /// Policy refuses it on its way into its receiver.
    DeniedIngress = "denied_ingress",
    /// A static NIC rule drops it.
    DeniedAcl = "denied_acl",
    /// Belongs to no connection and cannot open one (e.g. TCP without SYN).
    InvalidState = "invalid_state",
    /// An ICMP error about a flow that is not known.
    UnrelatedError = "unrelated_error",
    /// The connection table is full.
    TableFull = "table_full",
    /// The port's limit of new connections, or of questions to its gateway, is
    /// used up.
    RateLimited = "rate_limited",
    /// TTL or hop limit exceeded at the gateway.
    TtlExceeded = "ttl_exceeded",
    /// The underlay neighbour's MAC address is not known yet.
    NeighbourUnresolved = "neighbour_unresolved",
    /// It came from the wire and would go back to it.
    Reflected = "reflected",
    /// Marked as congested on the underlay, and its sender cannot be told.
    Congested = "congested",
    /// The buffer has no room for the outer headers.
    NoHeadroom = "no_headroom",
    /// Nothing is listening for this control message.
    UnhandledControl = "unhandled_control",
    /// The egress queue did not take it.
    TxFull = "tx_full",
    /// The lcore that it was to be handed to does not keep up.
    HandoverFull = "handover_full",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_indexable() {
        for (i, r) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*r as usize, i);
            assert!(
                DropReason::ALL[..i].iter().all(|o| o.name() != r.name()),
                "{r:?}"
            );
        }
    }

    #[test]
    fn each_has_a_sentence() {
        for reason in DropReason::ALL {
            let said = reason.meaning();
            assert!(said.ends_with('.') && !said.starts_with(' '), "{said:?}");
            assert!(!said.contains("  "), "{said:?}");
        }
        assert_eq!(
            DropReason::Fragment.meaning().get(..63),
            Some("A fragment that belongs to no good packet: it overlaps another ")
        );
    }

    #[test]
    fn the_guide_names_each_once() {
        let guide = include_str!("../../../docs/drops.md");
        let named = || {
            let rows = guide.lines().filter_map(|line| line.strip_prefix("| `"));
            rows.filter_map(|row| row.split_once('`'))
        };
        for reason in DropReason::ALL {
            let times = named().filter(|(name, _)| *name == reason.name()).count();
            assert_eq!(times, 1, "{}", reason.name());
        }
        assert_eq!(named().count(), DropReason::ALL.len());
    }
}
