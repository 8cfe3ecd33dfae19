// Numbers that the program, the worker and the tests must agree on.
//
// The Rust side keeps the same lists in `p4runtime::reason`, and a test reads
// this file to see that neither has moved without the other.

#ifndef PENSTOCK_CONSTANTS
#define PENSTOCK_CONSTANTS

// The port behind which the worker sits: a real interface on a bench, the
// switch's CPU port where punted packets leave as PacketIn.
const bit<9> CPU_PORT = 254;

// Device ports are 32 bits wide in the tables; this switch has 9.
const bit<32> DEVICE_PORT_MAX = 511;

// What a frame between switch and worker starts with: destination and source
// MAC and a local experimental EtherType. It makes the frame look like plain
// Ethernet to the kernel in between; without it, bytes of a punted packet
// could be taken for a VLAN tag and stripped.
const bit<112> ENVELOPE = 0x025053544b01_025053544b02_88b5;

// The distributed gateway: every node answers for it, so a moved port keeps it.
const bit<48> GATEWAY_MAC = 0x02005e000001;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_ARP = 0x0806;
const bit<16> ETHERTYPE_VLAN = 0x8100;
const bit<16> ETHERTYPE_IPV6 = 0x86dd;

const bit<8> PROTO_ICMP = 1;
const bit<8> PROTO_TCP = 6;
const bit<8> PROTO_UDP = 17;
const bit<8> PROTO_ICMPV6 = 58;
const bit<8> PROTO_SCTP = 132;

const bit<16> UDP_VXLAN = 4789;
const bit<16> UDP_ROCEV2 = 4791;

// High 96 bits of an IPv4 address in its 128-bit form, ::ffff:a.b.c.d.
const bit<96> MAPPED_PREFIX = 0x00000000_00000000_0000ffff;

// Why a packet is asked about. The stage it stands for tells the worker which
// checks the packet has passed already; everything later is the worker's to do.
const bit<8> ASK_NONE = 0;
const bit<8> ASK_NEIGHBOUR = 1;    // ARP, ND, RS/RA: before spoof_guard
const bit<8> ASK_DHCP = 2;         // before spoof_guard
const bit<8> ASK_UNDERLAY = 3;     // ARP, ICMP, ICMPv6 for the VTEP itself
const bit<8> ASK_FRONT_END = 4;    // came in from the front-end network
const bit<8> ASK_TCP_STATE = 5;    // SYN, FIN or RST
const bit<8> ASK_FRAGMENT = 6;
const bit<8> ASK_ICMP_ERROR = 7;
const bit<8> ASK_CM = 8;           // RoCE destination QP 1: connection manager
const bit<8> ASK_OPTIONS = 9;      // IPv4 options, IPv6 extension headers
const bit<8> ASK_TTL = 10;         // routed, and the TTL is used up
const bit<8> ASK_FENCE = 11;
const bit<8> ASK_ACL = 12;         // an acl entry says ask
const bit<8> ASK_NO_ACL = 13;      // no acl entry: nobody has decided
const bit<8> ASK_NO_MAPPING = 14;
const bit<8> ASK_NO_NEXTHOP = 15;
const bit<8> ASK_TOO_BIG = 16;     // larger than the next hop's MTU
const bit<8> ASK_WIRE_TO_WIRE = 17; // came from a tunnel and would enter one

// Why a packet is dropped. `drops` counts by these.
const bit<8> DROP_NONE = 0;
const bit<8> DROP_NO_VPORT = 1;      // no port on this device port and VLAN
const bit<8> DROP_NO_UNDERLAY = 2;   // unknown (source, destination, VNI)
const bit<8> DROP_NOT_TUNNEL = 3;    // on an uplink, and neither tunnel nor control
const bit<8> DROP_BAD_TUNNEL = 4;    // VXLAN without VNI, or a tagged inner frame
const bit<8> DROP_NOT_IP = 5;
const bit<8> DROP_MALFORMED = 6;     // headers cut short or contradicting
const bit<8> DROP_MAPPED_ADDRESS = 7; // IPv6 on the wire posing as IPv4
const bit<8> DROP_SPOOFED = 8;
const bit<8> DROP_BAD_BTH = 9;       // UDP 4791 without a valid BTH
const bit<8> DROP_FENCE = 10;
const bit<8> DROP_FLOW = 11;
const bit<8> DROP_ACL = 12;
const bit<8> DROP_PORT_LIMIT = 13;   // the port's backstop meter is red
const bit<8> DROP_CONGESTED = 14;    // marked on the underlay, sender is not ECN-capable
const bit<8> DROP_BAD_REINJECT = 15; // from the worker, without a good envelope
const bit<8> DROP_BAD_EGRESS = 16;   // an entry names a device port that cannot exist

#endif
