// Classify: reads one level of headers into the fields that the tables match.
//
// Called with the outermost level for a frame from a port, and with the level
// behind VXLAN for one from the wire, so that every later stage is written once.
//
// * Addresses take their 128-bit form: IPv4 a.b.c.d is ::ffff:a.b.c.d. An IPv6
//   packet that carries such an address on the wire would be mistaken for IPv4
//   and is flagged.
// * ICMP: `dport` is type << 8 | code; `sport` is the identifier for an echo
//   request or reply, else 0.
// * Protocols without ports have 0 in both.

control Classify(in ethernet_t ethernet, in bit<16> ether_type, in ipv4_t ipv4, in ipv6_t ipv6,
                 in tcp_t tcp, in udp_t udp, in sctp_t sctp, in icmp_t icmp, in bth_t bth,
                 inout metadata_t meta) {
    apply {
        meta.src_mac = ethernet.src;
        meta.dst_mac = ethernet.dst;
        meta.ether_type = ether_type;
        meta.transport = true;

        if (ether_type == ETHERTYPE_IPV4) {
            meta.is_ip = true;
            if (!ipv4.isValid() || ipv4.version != 4 || ipv4.ihl < 5) {
                meta.malformed = true;
            } else {
                meta.src = MAPPED_PREFIX ++ ipv4.src;
                meta.dst = MAPPED_PREFIX ++ ipv4.dst;
                meta.proto = ipv4.proto;
                meta.ttl = ipv4.ttl;
                meta.dscp = ipv4.dscp;
                meta.ecn = ipv4.ecn;
                meta.options = ipv4.ihl != 5;
                meta.fragment = ipv4.more_fragments == 1 || ipv4.frag_offset != 0;
            }
        } else if (ether_type == ETHERTYPE_IPV6) {
            meta.is_ip = true;
            if (!ipv6.isValid() || ipv6.version != 6) {
                meta.malformed = true;
            } else {
                meta.src = ipv6.src;
                meta.dst = ipv6.dst;
                meta.proto = ipv6.next_header;
                meta.ttl = ipv6.hop_limit;
                meta.dscp = ipv6.dscp;
                meta.ecn = ipv6.ecn;
                meta.mapped_address = ipv6.src[127:32] == MAPPED_PREFIX ||
                                      ipv6.dst[127:32] == MAPPED_PREFIX;
                meta.fragment = ipv6.next_header == 44;
                // Hop-by-hop, routing, authentication, destination options,
                // mobility, host identity, shim6.
                meta.options = ipv6.next_header == 0 || ipv6.next_header == 43 ||
                               ipv6.next_header == 51 || ipv6.next_header == 60 ||
                               ipv6.next_header == 135 || ipv6.next_header == 139 ||
                               ipv6.next_header == 140;
            }
        }

        if (meta.is_ip && !meta.malformed && !meta.options && !meta.fragment) {
            if (meta.proto == PROTO_TCP) {
                if (tcp.isValid()) {
                    meta.sport = tcp.sport;
                    meta.dport = tcp.dport;
                    meta.tcp_state = tcp.syn ++ tcp.fin ++ tcp.rst;
                } else {
                    meta.transport = false;
                }
            } else if (meta.proto == PROTO_UDP) {
                if (udp.isValid()) {
                    meta.sport = udp.sport;
                    meta.dport = udp.dport;
                    if (udp.dport == UDP_ROCEV2) {
                        meta.roce = true;
                        // 8 UDP, 12 BTH, 4 ICRC.
                        meta.bth_valid = bth.isValid() && bth.version == 0 && udp.len >= 24;
                        meta.dest_qp = bth.dest_qp;
                    }
                } else {
                    meta.transport = false;
                }
            } else if (meta.proto == PROTO_SCTP) {
                if (sctp.isValid()) {
                    meta.sport = sctp.sport;
                    meta.dport = sctp.dport;
                } else {
                    meta.transport = false;
                }
            } else if ((meta.proto == PROTO_ICMP && ether_type == ETHERTYPE_IPV4) ||
                       (meta.proto == PROTO_ICMPV6 && ether_type == ETHERTYPE_IPV6)) {
                if (icmp.isValid()) {
                    meta.icmp_type = icmp.type;
                    meta.dport = icmp.type ++ icmp.code;
                    if ((meta.proto == PROTO_ICMP && (icmp.type == 8 || icmp.type == 0)) ||
                        (meta.proto == PROTO_ICMPV6 && (icmp.type == 128 || icmp.type == 129))) {
                        meta.sport = icmp.id;
                    }
                } else {
                    meta.transport = false;
                }
            }
        }
    }
}
