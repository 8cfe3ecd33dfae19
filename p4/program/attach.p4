// Attachment: where did the frame come in, and whose is it?
//
// A port's frame is judged by its outermost headers, whatever they carry: a
// tenant's own VXLAN is payload. Only a frame on an uplink is looked into, and
// only from a known (source VTEP, destination VTEP, VNI).

control Attach(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    Classify() classify_port;
    Classify() classify_underlay;
    Classify() classify_tunnel;

    @id(0x13000001) @name(".vport_counter")
    direct_counter(CounterType.packets_and_bytes) vport_counter;
    // A backstop, off until an entry has a meter configuration: it sees every
    // frame of the port, so its rate belongs well above what the port may send.
    @id(0x15000001) @name(".vport_meter")
    direct_meter<bit<2>>(MeterType.bytes) vport_meter;

    // A tenant's port.
    @id(0x01000001) @name(".set_port")
    action set_port(@id(1) bit<32> port_id, @id(2) bit<24> vpc) {
        meta.origin = FROM_PORT;
        meta.ingress = port_id;
        meta.vpc = vpc;
        vport_meter.read(meta.color);
    }

    // The NIC's way to the underlay: frames are tunnelled or meant for the VTEP.
    @id(0x01000002) @name(".set_uplink")
    action set_uplink() {
        meta.origin = FROM_WIRE;
    }

    // The front-end network: the worker takes every frame.
    @id(0x01000003) @name(".set_front_end")
    action set_front_end(@id(1) bit<24> vpc) {
        meta.origin = FROM_FRONT_END;
        meta.vpc = vpc;
    }

    @id(0x02000001) @name(".vport")
    table vport {
        key = {
            meta.device_port : exact @id(1) @name("device_port");
            meta.vlan : exact @id(2) @name("vlan");
        }
        actions = {
            set_port;
            set_uplink;
            set_front_end;
            @defaultonly NoAction;
        }
        const default_action = NoAction;
        counters = vport_counter;
        meters = vport_meter;
        size = 1024;
    }

    @id(0x13000002) @name(".underlay_counter")
    direct_counter(CounterType.packets_and_bytes) underlay_counter;

    @id(0x01000004) @name(".decap")
    action decap(@id(1) bit<24> vpc) {
        meta.vpc = vpc;
    }

    @id(0x02000002) @name(".underlay")
    table underlay {
        key = {
            meta.src_vtep : exact @id(1) @name("src_vtep");
            meta.dst_vtep : exact @id(2) @name("dst_vtep");
            hdr.vxlan.vni : exact @id(3) @name("vni");
        }
        actions = {
            decap;
            @defaultonly NoAction;
        }
        const default_action = NoAction;
        counters = underlay_counter;
        size = 4096;
    }

    apply {
        bit<16> ether_type = hdr.ethernet.ether_type;
        meta.device_port = (bit<32>) standard.ingress_port;
        meta.vlan = 0;
        if (hdr.vlan.isValid()) {
            meta.vlan = hdr.vlan.vid;
            ether_type = hdr.vlan.ether_type;
        }

        if (!hdr.ethernet.isValid()) {
            meta.drop = DROP_MALFORMED;
        } else if (!vport.apply().hit) {
            meta.drop = DROP_NO_VPORT;
        } else if (meta.origin == FROM_FRONT_END) {
            meta.ask = ASK_FRONT_END;
        } else if (meta.origin == FROM_PORT) {
            if (meta.color == 2) {
                meta.drop = DROP_PORT_LIMIT;
            } else {
                classify_port.apply(hdr.ethernet, ether_type, hdr.ipv4, hdr.ipv6, hdr.tcp, hdr.udp,
                                    hdr.sctp, hdr.icmp, hdr.bth, meta);
                meta.routed = meta.dst_mac == GATEWAY_MAC;
            }
        } else if (ether_type == ETHERTYPE_ARP) {
            meta.ask = ASK_UNDERLAY;
        } else {
            classify_underlay.apply(hdr.ethernet, ether_type, hdr.ipv4, hdr.ipv6, hdr.tcp, hdr.udp,
                                    hdr.sctp, hdr.icmp, hdr.bth, meta);
            if (!meta.is_ip) {
                meta.drop = DROP_NOT_TUNNEL;
            } else if (meta.malformed) {
                meta.drop = DROP_MALFORMED;
            } else if (meta.mapped_address) {
                meta.drop = DROP_MAPPED_ADDRESS;
            } else if (meta.proto == PROTO_ICMP || meta.proto == PROTO_ICMPV6) {
                meta.ask = ASK_UNDERLAY;
            } else if (!hdr.vxlan.isValid()) {
                meta.drop = DROP_NOT_TUNNEL;
            } else if (hdr.vxlan.vni_valid == 0 || !hdr.inner_ethernet.isValid() ||
                       hdr.inner_ethernet.ether_type == ETHERTYPE_VLAN) {
                meta.drop = DROP_BAD_TUNNEL;
            } else {
                meta.src_vtep = meta.src;
                meta.dst_vtep = meta.dst;
                meta.underlay_ecn = meta.ecn;
                if (!underlay.apply().hit) {
                    meta.drop = DROP_NO_UNDERLAY;
                } else {
                    // Start from a clean slate: nothing of the outer level may
                    // show through where the inner one has no such field.
                    meta.is_ip = false;
                    meta.sport = 0;
                    meta.dport = 0;
                    meta.tcp_state = 0;
                    meta.icmp_type = 0;
                    meta.roce = false;
                    meta.bth_valid = false;
                    meta.src = 0;
                    meta.dst = 0;
                    meta.proto = 0;
                    meta.options = false;
                    meta.fragment = false;
                    classify_tunnel.apply(hdr.inner_ethernet, hdr.inner_ethernet.ether_type,
                                          hdr.inner_ipv4, hdr.inner_ipv6, hdr.inner_tcp,
                                          hdr.inner_udp, hdr.inner_sctp, hdr.inner_icmp,
                                          hdr.inner_bth, meta);
                }
            }
        }
    }
}
