// Rewrite: the frame as it leaves. Runs only for frames that do leave.
//
// * From the wire: the outer headers go; a congestion mark on them moves inside.
// * To a port: its MAC, its VLAN.
// * To a VTEP: the frame untagged, behind VXLAN over IPv4 or IPv6.
// * A routed packet loses one from its TTL, once, at the sending node, and gets
//   the gateway's MAC as its source. IPv4 checksums are updated, not recomputed:
//   a wrong one stays wrong and is found by the receiver.

control Rewrite(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    // RFC 1624: checksum' = ~(~checksum + ~old + new); `delta` is ~old + new.
    @hidden
    action adjust(inout bit<16> checksum, in bit<16> delta) {
        bit<17> sum = (bit<17>) (~checksum) + (bit<17>) delta;
        checksum = ~(sum[15:0] + (bit<16>) sum[16:16]);
    }

    // The outermost level becomes what was inside it.
    @hidden
    action decapsulate() {
        hdr.vlan.setInvalid();
        hdr.ethernet.setInvalid();
        hdr.ipv4.setInvalid();
        hdr.ipv6.setInvalid();
        hdr.udp.setInvalid();
        hdr.vxlan.setInvalid();
    }

    apply {
        if (meta.origin == FROM_WIRE) {
            decapsulate();
            if (meta.underlay_ecn == 3) {
                if (hdr.inner_ipv4.isValid()) {
                    bit<2> mark = 3 - hdr.inner_ipv4.ecn;
                    adjust(hdr.inner_ipv4.checksum, (bit<16>) mark);
                    hdr.inner_ipv4.ecn = 3;
                } else {
                    hdr.inner_ipv6.ecn = 3;
                }
            }
            if (meta.hop == HOP_FRONT_END) {
                hdr.inner_ethernet.src = meta.hop_src_mac;
            }
            hdr.inner_ethernet.dst = meta.hop_dst_mac;
            // A tag goes between the inner MACs and the inner EtherType.
            if (meta.hop == HOP_PORT && meta.egress_vlan != 0) {
                hdr.ethernet.setValid();
                hdr.ethernet = hdr.inner_ethernet;
                hdr.vlan.setValid();
                hdr.vlan.pcp = 0;
                hdr.vlan.dei = 0;
                hdr.vlan.vid = meta.egress_vlan;
                hdr.vlan.ether_type = hdr.inner_ethernet.ether_type;
                hdr.ethernet.ether_type = ETHERTYPE_VLAN;
                hdr.inner_ethernet.setInvalid();
            }
        } else {
            bit<32> tag = 0;
            if (hdr.vlan.isValid()) {
                tag = 4;
                hdr.ethernet.ether_type = hdr.vlan.ether_type;
                hdr.vlan.setInvalid();
            }
            if (meta.routed) {
                hdr.ethernet.src = GATEWAY_MAC;
                if (hdr.ipv4.isValid()) {
                    // TTL is the high byte of its word: ~old + new = 0xfeff.
                    adjust(hdr.ipv4.checksum, 0xfeff);
                    hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
                } else {
                    hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
                }
            }
            if (meta.hop == HOP_PORT) {
                hdr.ethernet.dst = meta.hop_dst_mac;
                if (meta.egress_vlan != 0) {
                    hdr.vlan.setValid();
                    hdr.vlan.pcp = 0;
                    hdr.vlan.dei = 0;
                    hdr.vlan.vid = meta.egress_vlan;
                    hdr.vlan.ether_type = hdr.ethernet.ether_type;
                    hdr.ethernet.ether_type = ETHERTYPE_VLAN;
                }
            } else if (meta.hop == HOP_FRONT_END) {
                hdr.ethernet.src = meta.hop_src_mac;
                hdr.ethernet.dst = meta.hop_dst_mac;
            } else {
                // Ethernet frame, VXLAN and UDP headers.
                bit<16> udp_len = (bit<16>) (standard.packet_length - tag) + 16;

                // The same for both directions of a flow: the lower endpoint
                // goes first.
                bit<128> low = meta.src;
                bit<128> high = meta.dst;
                bit<16> low_port = meta.sport;
                bit<16> high_port = meta.dport;
                // An echo has one number for both ends, and its type differs
                // between request and reply.
                if ((meta.proto == PROTO_ICMP && hdr.ipv4.isValid()) ||
                    (meta.proto == PROTO_ICMPV6 && hdr.ipv6.isValid())) {
                    high_port = meta.sport;
                }
                if (low > high || (low == high && low_port > high_port)) {
                    low = meta.dst;
                    high = meta.src;
                    bit<16> swap = low_port;
                    low_port = high_port;
                    high_port = swap;
                }
                bit<32> entropy;
                hash(entropy, HashAlgorithm.crc32, 32w0,
                     { low, high, meta.vpc, meta.proto, low_port, high_port },
                     33w0x100000000);

                hdr.encap_ethernet.setValid();
                hdr.encap_ethernet.dst = meta.hop_dst_mac;
                hdr.encap_ethernet.src = meta.hop_src_mac;
                if (meta.hop_dst_vtep[127:32] == MAPPED_PREFIX) {
                    hdr.encap_ethernet.ether_type = ETHERTYPE_IPV4;
                    hdr.encap_ipv4.setValid();
                    hdr.encap_ipv4.version = 4;
                    hdr.encap_ipv4.ihl = 5;
                    hdr.encap_ipv4.dscp = meta.dscp;
                    hdr.encap_ipv4.ecn = meta.ecn;
                    hdr.encap_ipv4.total_len = udp_len + 20;
                    hdr.encap_ipv4.id = 0;
                    hdr.encap_ipv4.reserved = 0;
                    hdr.encap_ipv4.dont_fragment = 1;
                    hdr.encap_ipv4.more_fragments = 0;
                    hdr.encap_ipv4.frag_offset = 0;
                    hdr.encap_ipv4.ttl = 64;
                    hdr.encap_ipv4.proto = PROTO_UDP;
                    hdr.encap_ipv4.checksum = 0;
                    hdr.encap_ipv4.src = meta.hop_src_vtep[31:0];
                    hdr.encap_ipv4.dst = meta.hop_dst_vtep[31:0];
                } else {
                    hdr.encap_ethernet.ether_type = ETHERTYPE_IPV6;
                    hdr.encap_ipv6.setValid();
                    hdr.encap_ipv6.version = 6;
                    hdr.encap_ipv6.dscp = meta.dscp;
                    hdr.encap_ipv6.ecn = meta.ecn;
                    hdr.encap_ipv6.flow_label = 0;
                    hdr.encap_ipv6.payload_len = udp_len;
                    hdr.encap_ipv6.next_header = PROTO_UDP;
                    hdr.encap_ipv6.hop_limit = 64;
                    hdr.encap_ipv6.src = meta.hop_src_vtep;
                    hdr.encap_ipv6.dst = meta.hop_dst_vtep;
                }
                // No UDP checksum on either: RFC 6935 allows that for tunnels.
                hdr.encap_udp.setValid();
                hdr.encap_udp.sport = 0xc000 | (entropy[15:0] & 0x3fff);
                hdr.encap_udp.dport = UDP_VXLAN;
                hdr.encap_udp.len = udp_len;
                hdr.encap_udp.checksum = 0;
                hdr.encap_vxlan.setValid();
                hdr.encap_vxlan.reserved1 = 0;
                hdr.encap_vxlan.vni_valid = 1;
                hdr.encap_vxlan.reserved2 = 0;
                hdr.encap_vxlan.vni = meta.hop_vni;
                hdr.encap_vxlan.reserved3 = 0;
            }
        }
        standard.egress_spec = (bit<9>) meta.egress_port;
    }
}
