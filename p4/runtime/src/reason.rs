//! Why the pipeline asks about a packet or drops it: the numbers of the P4
//! program's `constants.p4`.

macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($(#[$note:meta])* $variant:ident = $number:literal, $label:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$note])* $variant = $number,)*
        }

        impl $name {
            /// Every reason.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The number in the packet; never 0.
            #[must_use]
            pub const fn number(self) -> u8 {
                self as u8
            }

            /// The reason of a number.
            #[must_use]
            pub const fn from_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// For labels of metrics and for texts.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $label,)*
                }
            }
        }
    };
}

reasons! {
    /// Why a packet is asked about.
    Ask {
        /// ARP, ND, RS/RA; `spoof_guard` has not seen it.
        Neighbour = 1, "neighbour";
        /// DHCP; `spoof_guard` has not seen it.
        Dhcp = 2, "dhcp";
        /// ARP, ICMP or ICMPv6 for the VTEP itself.
        Underlay = 3, "underlay";
        /// Came in from the front-end network.
        FrontEnd = 4, "front_end";
        /// TCP with SYN, FIN or RST.
        TcpState = 5, "tcp_state";
        /// An IP fragment.
        Fragment = 6, "fragment";
        /// An ICMP error.
        IcmpError = 7, "icmp_error";
        /// RoCE connection management: destination queue pair 1.
        Cm = 8, "cm";
        /// IPv4 options or IPv6 extension headers.
        Options = 9, "options";
        /// Routed, and the TTL is used up.
        Ttl = 10, "ttl";
        /// A `fence` entry says so.
        Fence = 11, "fence";
        /// An `acl` entry says so.
        Acl = 12, "acl";
        /// No `acl` entry: nobody has decided.
        NoAcl = 13, "no_acl";
        /// Permitted, but `mapping` does not know the destination.
        NoMapping = 14, "no_mapping";
        /// Permitted, but the next hop does not exist.
        NoNexthop = 15, "no_nexthop";
        /// Permitted, but larger than the next hop's MTU.
        TooBig = 16, "too_big";
        /// Permitted, but came from a tunnel and would enter one.
        WireToWire = 17, "wire_to_wire";
    }
}

reasons! {
    /// Why a packet is dropped; the key of table `drops`.
    Drop {
        /// No port on this device port and VLAN.
        NoVport = 1, "no_vport";
        /// Unknown source VTEP, destination VTEP and VNI.
        NoUnderlay = 2, "no_underlay";
        /// On an uplink, and neither tunnel nor control.
        NotTunnel = 3, "not_tunnel";
        /// VXLAN without VNI, or a tagged inner frame.
        BadTunnel = 4, "bad_tunnel";
        /// Neither IPv4, IPv6 nor ARP.
        NotIp = 5, "not_ip";
        /// Headers cut short or contradicting.
        Malformed = 6, "malformed";
        /// IPv6 on the wire with an IPv4-mapped address.
        MappedAddress = 7, "mapped_address";
        /// The port does not own this source MAC and address.
        Spoofed = 8, "spoofed";
        /// UDP 4791 without a valid BTH.
        BadBth = 9, "bad_bth";
        /// A `fence` entry says so.
        Fence = 10, "fence";
        /// A `flow` entry says so.
        Flow = 11, "flow";
        /// An `acl` entry says so.
        Acl = 12, "acl";
        /// The port's backstop meter is red.
        PortLimit = 13, "port_limit";
        /// Marked on the underlay, and the sender is not ECN-capable.
        Congested = 14, "congested";
        /// From the worker, without a good envelope.
        BadReinject = 15, "bad_reinject";
        /// Names a device port that the switch does not have.
        BadEgress = 16, "bad_egress";
    }
}
