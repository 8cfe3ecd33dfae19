// Parser: at most two levels, the second one behind a VXLAN header.
//
// It accepts everything and judges nothing: what could not be extracted stays
// invalid, and Classify decides what that means for the level that counts.

parser PacketParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard) {
    state start {
        transition select(standard.ingress_port) {
            CPU_PORT: reinjected;
            default: ethernet;
        }
    }

    // The rest of a re-injected frame is payload: the worker has judged it.
    state reinjected {
        packet.extract(hdr.packet_out);
        transition accept;
    }

    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_VLAN: vlan;
            ETHERTYPE_IPV4: ipv4;
            ETHERTYPE_IPV6: ipv6;
            default: accept;
        }
    }

    state vlan {
        packet.extract(hdr.vlan);
        transition select(hdr.vlan.ether_type) {
            ETHERTYPE_IPV4: ipv4;
            ETHERTYPE_IPV6: ipv6;
            default: accept;
        }
    }

    // Transport follows only a whole, option-free packet; anything else is
    // asked about before ports would matter.
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.more_fragments, hdr.ipv4.frag_offset,
                          hdr.ipv4.proto) {
            (5, 0, 0, PROTO_TCP): tcp;
            (5, 0, 0, PROTO_UDP): udp;
            (5, 0, 0, PROTO_SCTP): sctp;
            (5, 0, 0, PROTO_ICMP): icmp;
            default: accept;
        }
    }

    state ipv6 {
        packet.extract(hdr.ipv6);
        transition select(hdr.ipv6.next_header) {
            PROTO_TCP: tcp;
            PROTO_UDP: udp;
            PROTO_SCTP: sctp;
            PROTO_ICMPV6: icmp;
            default: accept;
        }
    }

    state tcp {
        packet.extract(hdr.tcp);
        transition accept;
    }

    state sctp {
        packet.extract(hdr.sctp);
        transition accept;
    }

    state icmp {
        packet.extract(hdr.icmp);
        transition accept;
    }

    state udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dport) {
            UDP_ROCEV2: bth;
            UDP_VXLAN: vxlan;
            default: accept;
        }
    }

    state bth {
        packet.extract(hdr.bth);
        transition accept;
    }

    state vxlan {
        packet.extract(hdr.vxlan);
        packet.extract(hdr.inner_ethernet);
        transition select(hdr.inner_ethernet.ether_type) {
            ETHERTYPE_IPV4: inner_ipv4;
            ETHERTYPE_IPV6: inner_ipv6;
            default: accept;
        }
    }

    state inner_ipv4 {
        packet.extract(hdr.inner_ipv4);
        transition select(hdr.inner_ipv4.ihl, hdr.inner_ipv4.more_fragments,
                          hdr.inner_ipv4.frag_offset, hdr.inner_ipv4.proto) {
            (5, 0, 0, PROTO_TCP): inner_tcp;
            (5, 0, 0, PROTO_UDP): inner_udp;
            (5, 0, 0, PROTO_SCTP): inner_sctp;
            (5, 0, 0, PROTO_ICMP): inner_icmp;
            default: accept;
        }
    }

    state inner_ipv6 {
        packet.extract(hdr.inner_ipv6);
        transition select(hdr.inner_ipv6.next_header) {
            PROTO_TCP: inner_tcp;
            PROTO_UDP: inner_udp;
            PROTO_SCTP: inner_sctp;
            PROTO_ICMPV6: inner_icmp;
            default: accept;
        }
    }

    state inner_tcp {
        packet.extract(hdr.inner_tcp);
        transition accept;
    }

    state inner_sctp {
        packet.extract(hdr.inner_sctp);
        transition accept;
    }

    state inner_icmp {
        packet.extract(hdr.inner_icmp);
        transition accept;
    }

    state inner_udp {
        packet.extract(hdr.inner_udp);
        transition select(hdr.inner_udp.dport) {
            UDP_ROCEV2: inner_bth;
            default: accept;
        }
    }

    state inner_bth {
        packet.extract(hdr.inner_bth);
        transition accept;
    }
}
