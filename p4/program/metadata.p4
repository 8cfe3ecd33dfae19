// What the stages know about a packet beside its headers.

#ifndef PENSTOCK_METADATA
#define PENSTOCK_METADATA

// Where a frame came in.
const bit<2> FROM_PORT = 0;
const bit<2> FROM_WIRE = 1;
const bit<2> FROM_FRONT_END = 2;

// What kind of next hop was found.
const bit<2> HOP_NONE = 0;
const bit<2> HOP_PORT = 1;
const bit<2> HOP_VTEP = 2;
const bit<2> HOP_FRONT_END = 3;

struct metadata_t {
    // Verdict: at most one of the two is set, and the first to set it stands.
    bit<8> ask;
    bit<8> drop;

    // Attachment.
    bit<2> origin;
    bit<32> device_port;
    bit<12> vlan;
    bit<32> ingress; // port id, 0 = none
    bit<24> vpc;
    bit<2> color;

    // Underlay addresses of a frame from the wire, 128-bit form.
    bit<128> src_vtep;
    bit<128> dst_vtep;
    bit<2> underlay_ecn;

    // The frame under judgement, filled by Classify.
    bit<48> src_mac;
    bit<48> dst_mac;
    bit<16> ether_type;
    bool is_ip;
    bool malformed;
    bool mapped_address;
    bool options;
    bool fragment;
    bool transport; // the transport header is there in full
    bit<128> src;
    bit<128> dst;
    bit<8> proto;
    bit<16> sport;
    bit<16> dport;
    bit<8> ttl;
    bit<6> dscp;
    bit<2> ecn;
    bit<3> tcp_state; // SYN, FIN, RST
    bit<8> icmp_type;
    bool roce;
    bool bth_valid;
    bit<24> dest_qp;
    bool routed; // sent to the gateway's MAC by a port

    // Forwarding.
    bit<1> direction; // 0 leaving a port, 1 arriving from the wire
    bit<32> nexthop_id;
    bit<2> hop;
    bit<32> egress_port;
    bit<12> egress_vlan;
    bit<48> hop_src_mac;
    bit<48> hop_dst_mac;
    bit<128> hop_src_vtep;
    bit<128> hop_dst_vtep;
    bit<24> hop_vni;
    bit<16> hop_mtu;
}

#endif
