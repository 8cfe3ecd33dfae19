// Header layouts, and the set of headers a packet may carry.

#ifndef PENSTOCK_HEADERS
#define PENSTOCK_HEADERS

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header vlan_t {
    bit<3> pcp;
    bit<1> dei;
    bit<12> vid;
    bit<16> ether_type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<6> dscp;
    bit<2> ecn;
    bit<16> total_len;
    bit<16> id;
    bit<1> reserved;
    bit<1> dont_fragment;
    bit<1> more_fragments;
    bit<13> frag_offset;
    bit<8> ttl;
    bit<8> proto;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header ipv6_t {
    bit<4> version;
    bit<6> dscp;
    bit<2> ecn;
    bit<20> flow_label;
    bit<16> payload_len;
    bit<8> next_header;
    bit<8> hop_limit;
    bit<128> src;
    bit<128> dst;
}

header tcp_t {
    bit<16> sport;
    bit<16> dport;
    bit<32> seq;
    bit<32> ack;
    bit<4> data_offset;
    bit<4> reserved;
    bit<1> cwr;
    bit<1> ece;
    bit<1> urg;
    bit<1> ack_flag;
    bit<1> psh;
    bit<1> rst;
    bit<1> syn;
    bit<1> fin;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

header udp_t {
    bit<16> sport;
    bit<16> dport;
    bit<16> len;
    bit<16> checksum;
}

header sctp_t {
    bit<16> sport;
    bit<16> dport;
    bit<32> tag;
    bit<32> checksum;
}

// ICMP and ICMPv6 alike. `id` is the identifier of an echo, something else
// in other messages.
header icmp_t {
    bit<8> type;
    bit<8> code;
    bit<16> checksum;
    bit<16> id;
    bit<16> seq;
}

// InfiniBand base transport header, the first of a RoCEv2 payload.
header bth_t {
    bit<8> opcode;
    bit<1> solicited;
    bit<1> migration;
    bit<2> pad;
    bit<4> version;
    bit<16> pkey;
    bit<8> reserved1;
    bit<24> dest_qp;
    bit<1> ack_request;
    bit<7> reserved2;
    bit<24> psn;
}

header vxlan_t {
    bit<4> reserved1;
    bit<1> vni_valid;
    bit<27> reserved2;
    bit<24> vni;
    bit<8> reserved3;
}

// Switch to worker: in front of the frame exactly as it came in.
@controller_header("packet_in")
header packet_in_t {
    @id(1) bit<112> envelope;
    @id(2) bit<8> reason;
    // Which NIC of the node. A switch is one NIC and writes 0; the driver that
    // receives the packet knows which switch it talks to.
    @id(3) bit<8> nic;
    @id(4) bit<32> device_port;
    // Port id, 0 when the packet came from the wire or the front-end.
    @id(5) bit<32> ingress;
    @id(6) bit<24> vpc;
}

// Worker to switch: the frame that follows leaves as it is.
@controller_header("packet_out")
header packet_out_t {
    @id(1) bit<112> envelope;
    @id(2) bit<32> device_port;
}

// `encap_*` is what this node puts on; the unprefixed headers are the
// outermost ones that came in; `inner_*` follow a VXLAN header that came in.
// A tenant's own VXLAN keeps its `inner_*` headers untouched, because which
// level is judged depends on where the packet came in (see attach.p4).
struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    ethernet_t encap_ethernet;
    ipv4_t encap_ipv4;
    ipv6_t encap_ipv6;
    udp_t encap_udp;
    vxlan_t encap_vxlan;
    ethernet_t ethernet;
    vlan_t vlan;
    ipv4_t ipv4;
    ipv6_t ipv6;
    tcp_t tcp;
    udp_t udp;
    sctp_t sctp;
    icmp_t icmp;
    bth_t bth;
    vxlan_t vxlan;
    ethernet_t inner_ethernet;
    ipv4_t inner_ipv4;
    ipv6_t inner_ipv6;
    tcp_t inner_tcp;
    udp_t inner_udp;
    sctp_t inner_sctp;
    icmp_t inner_icmp;
    bth_t inner_bth;
}

#endif
