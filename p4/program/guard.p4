// Guard: what must reach the worker whatever the tables say, and who may send.
//
// neighbour -> spoof_guard -> state. Neighbour discovery and DHCP come before
// spoof_guard because a sender that has no address yet must be answered; the
// worker checks their own sender fields.

control Guard(inout headers_t hdr, inout metadata_t meta) {
    @id(0x13000003) @name(".spoof_guard_counter")
    direct_counter(CounterType.packets_and_bytes) spoof_guard_counter;

    @id(0x01000005) @name(".pass")
    action pass() {}

    @id(0x02000003) @name(".spoof_guard")
    table spoof_guard {
        key = {
            meta.ingress : exact @id(1) @name("port_id");
            meta.src_mac : exact @id(2) @name("src_mac");
            meta.src : exact @id(3) @name("src_ip");
        }
        actions = {
            pass;
            @defaultonly NoAction;
        }
        const default_action = NoAction;
        counters = spoof_guard_counter;
        size = 8192;
    }

    apply {
        bool icmpv6 = meta.ether_type == ETHERTYPE_IPV6 && meta.proto == PROTO_ICMPV6;

        // What cannot be read cannot be judged, by the worker either.
        if (meta.ether_type == ETHERTYPE_ARP) {
            meta.ask = ASK_NEIGHBOUR;
        } else if (!meta.is_ip) {
            meta.drop = DROP_NOT_IP;
        } else if (meta.malformed || !meta.transport) {
            meta.drop = DROP_MALFORMED;
        } else if (meta.mapped_address) {
            meta.drop = DROP_MAPPED_ADDRESS;
        }
        // Router solicitation and advertisement, neighbour solicitation and
        // advertisement, redirect.
        else if (icmpv6 && meta.icmp_type >= 133 && meta.icmp_type <= 137) {
            meta.ask = ASK_NEIGHBOUR;
        } else if (meta.proto == PROTO_UDP &&
                   ((meta.ether_type == ETHERTYPE_IPV4 && (meta.dport == 67 || meta.dport == 68)) ||
                    (meta.ether_type == ETHERTYPE_IPV6 && (meta.dport == 546 || meta.dport == 547)))) {
            meta.ask = ASK_DHCP;
        } else {
            if (meta.origin == FROM_PORT) {
                if (!spoof_guard.apply().hit) {
                    meta.drop = DROP_SPOOFED;
                }
            }
            if (meta.drop == DROP_NONE) {
                // Fragments first: they have no transport header to look at.
                if (meta.fragment) {
                    meta.ask = ASK_FRAGMENT;
                } else if (meta.options) {
                    meta.ask = ASK_OPTIONS;
                } else if (meta.roce && !meta.bth_valid) {
                    meta.drop = DROP_BAD_BTH;
                } else if (meta.roce && meta.dest_qp == 1) {
                    meta.ask = ASK_CM;
                } else if (meta.proto == PROTO_TCP && meta.tcp_state != 0) {
                    meta.ask = ASK_TCP_STATE;
                } else if (icmpv6 && meta.icmp_type < 128) {
                    meta.ask = ASK_ICMP_ERROR;
                }
                // Unreachable, source quench, redirect, time exceeded,
                // parameter problem.
                else if (meta.ether_type == ETHERTYPE_IPV4 && meta.proto == PROTO_ICMP &&
                         (meta.icmp_type == 3 || meta.icmp_type == 4 || meta.icmp_type == 5 ||
                          meta.icmp_type == 11 || meta.icmp_type == 12)) {
                    meta.ask = ASK_ICMP_ERROR;
                } else if (meta.routed && meta.ttl <= 1) {
                    meta.ask = ASK_TTL;
                }
            }
        }
    }
}
