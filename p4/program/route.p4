// Route: which way out.
//
// `mapping` finds the next hop of packets that no connection entry has placed;
// `nexthop` says what that is. Entries name next hops instead of spelling them
// out, so that a moved port or a changed neighbour is one write.

control Mapping(inout headers_t hdr, inout metadata_t meta) {
    @id(0x13000009) @name(".mapping_counter")
    direct_counter(CounterType.packets_and_bytes) mapping_counter;

    @id(0x0100000d) @name(".set_nexthop")
    action set_nexthop(@id(1) bit<32> nexthop_id) {
        meta.nexthop_id = nexthop_id;
    }

    @id(0x02000009) @name(".mapping")
    table mapping {
        key = {
            meta.vpc : exact @id(1) @name("vpc");
            meta.dst : lpm @id(2) @name("dst");
        }
        actions = {
            set_nexthop;
            @defaultonly NoAction;
        }
        const default_action = NoAction;
        counters = mapping_counter;
        size = 65536;
    }

    apply {
        if (!mapping.apply().hit) {
            meta.ask = ASK_NO_MAPPING;
        }
    }
}

control Nexthop(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    @id(0x1300000a) @name(".nexthop_counter")
    direct_counter(CounterType.packets_and_bytes) nexthop_counter;

    // A port of this NIC; VLAN 0 is untagged.
    @id(0x0100000e) @name(".to_port")
    action to_port(@id(1) bit<32> device_port, @id(2) bit<12> vlan, @id(3) bit<48> dst_mac) {
        meta.hop = HOP_PORT;
        meta.egress_port = device_port;
        meta.egress_vlan = vlan;
        meta.hop_dst_mac = dst_mac;
    }

    // Another NIC, through the underlay. `mtu` is the largest tenant IP packet
    // that fits.
    @id(0x0100000f) @name(".to_vtep")
    action to_vtep(@id(1) bit<128> src_vtep, @id(2) bit<128> dst_vtep, @id(3) bit<48> src_mac,
                   @id(4) bit<48> dst_mac, @id(5) bit<24> vni, @id(6) bit<16> mtu,
                   @id(7) bit<32> device_port) {
        meta.hop = HOP_VTEP;
        meta.egress_port = device_port;
        meta.hop_src_vtep = src_vtep;
        meta.hop_dst_vtep = dst_vtep;
        meta.hop_src_mac = src_mac;
        meta.hop_dst_mac = dst_mac;
        meta.hop_vni = vni;
        meta.hop_mtu = mtu;
    }

    // The front-end network, as a plain frame.
    @id(0x01000010) @name(".to_front_end")
    action to_front_end(@id(1) bit<32> device_port, @id(2) bit<48> src_mac,
                        @id(3) bit<48> dst_mac) {
        meta.hop = HOP_FRONT_END;
        meta.egress_port = device_port;
        meta.hop_src_mac = src_mac;
        meta.hop_dst_mac = dst_mac;
    }

    @id(0x0200000a) @name(".nexthop")
    table nexthop {
        key = {
            meta.nexthop_id : exact @id(1) @name("nexthop_id");
        }
        actions = {
            to_port;
            to_vtep;
            to_front_end;
            @defaultonly NoAction;
        }
        const default_action = NoAction;
        counters = nexthop_counter;
        size = 16384;
    }

    apply {
        if (!nexthop.apply().hit) {
            meta.ask = ASK_NO_NEXTHOP;
        } else if (meta.egress_port > DEVICE_PORT_MAX) {
            meta.drop = DROP_BAD_EGRESS;
        } else if (meta.hop == HOP_VTEP) {
            bit<32> link = 14;
            if (hdr.vlan.isValid()) {
                link = 18;
            }
            // Passing traffic on from one tunnel into the next is the worker's
            // decision: it does so while a port moves.
            if (meta.origin == FROM_WIRE) {
                meta.ask = ASK_WIRE_TO_WIRE;
            } else if (standard.packet_length - link > (bit<32>) meta.hop_mtu) {
                meta.ask = ASK_TOO_BIG;
            }
        }
        // The last thing that may stop a packet, so that no counter of a
        // forwarding table has to be taken back.
        if (meta.ask == ASK_NONE && meta.drop == DROP_NONE && meta.origin == FROM_WIRE &&
            meta.underlay_ecn == 3 && meta.ecn == 0) {
            meta.drop = DROP_CONGESTED;
        }
    }
}
