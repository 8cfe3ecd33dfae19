// Connections: what the worker has decided about, entry by entry.
//
// fence -> rdma_qp -> rdma_pair (RoCE) or flow (everything else). All four
// tables are the worker's. A hit names a next hop and skips acl and mapping; a
// miss says nothing.
//
// `ingress` is the sending port's id, 0 from the wire: the two ends of a
// connection on one NIC have an entry each way, and an entry for the wire never
// answers for a port.

control Connections(inout headers_t hdr, inout metadata_t meta) {
    @id(0x13000004) @name(".fence_counter")
    direct_counter(CounterType.packets_and_bytes) fence_counter;
    @id(0x13000005) @name(".rdma_qp_counter")
    direct_counter(CounterType.packets_and_bytes) rdma_qp_counter;
    @id(0x13000006) @name(".rdma_pair_counter")
    direct_counter(CounterType.packets_and_bytes) rdma_pair_counter;
    @id(0x13000007) @name(".flow_counter")
    direct_counter(CounterType.packets_and_bytes) flow_counter;

    @id(0x01000006) @name(".fence_ask")
    action fence_ask() {
        meta.ask = ASK_FENCE;
    }

    @id(0x01000007) @name(".fence_drop")
    action fence_drop() {
        meta.drop = DROP_FENCE;
    }

    // A change of policy writes one of these over its region first; entries
    // below may then be re-judged in any order and at any speed.
    @id(0x02000004) @name(".fence")
    table fence {
        key = {
            meta.vpc : ternary @id(1) @name("vpc");
            meta.ingress : ternary @id(2) @name("port_id");
            meta.src : ternary @id(3) @name("src");
            meta.dst : ternary @id(4) @name("dst");
            meta.proto : ternary @id(5) @name("proto");
        }
        actions = {
            fence_ask;
            fence_drop;
            @defaultonly NoAction;
        }
        const default_action = NoAction;
        counters = fence_counter;
        size = 64;
    }

    @id(0x01000008) @name(".forward")
    action forward(@id(1) bit<32> nexthop_id) {
        meta.nexthop_id = nexthop_id;
    }

    @id(0x01000009) @name(".deny")
    action deny() {
        meta.drop = DROP_FLOW;
    }

    // One queue pair, announced by the CM handshake.
    @id(0x02000005) @name(".rdma_qp")
    table rdma_qp {
        key = {
            meta.ingress : exact @id(1) @name("ingress");
            meta.vpc : exact @id(2) @name("vpc");
            meta.src : exact @id(3) @name("src");
            meta.dst : exact @id(4) @name("dst");
            meta.dest_qp : exact @id(5) @name("dest_qp");
        }
        actions = {
            forward;
            @defaultonly NoAction;
        }
        const default_action = NoAction;
        counters = rdma_qp_counter;
        size = 16384;
    }

    // Every queue pair between two addresses, by membership.
    @id(0x02000006) @name(".rdma_pair")
    table rdma_pair {
        key = {
            meta.ingress : exact @id(1) @name("ingress");
            meta.vpc : exact @id(2) @name("vpc");
            meta.src : exact @id(3) @name("src");
            meta.dst : exact @id(4) @name("dst");
        }
        actions = {
            forward;
            @defaultonly NoAction;
        }
        const default_action = NoAction;
        counters = rdma_pair_counter;
        size = 16384;
    }

    @id(0x02000007) @name(".flow")
    table flow {
        key = {
            meta.ingress : exact @id(1) @name("ingress");
            meta.vpc : exact @id(2) @name("vpc");
            meta.src : exact @id(3) @name("src");
            meta.dst : exact @id(4) @name("dst");
            meta.proto : exact @id(5) @name("proto");
            meta.sport : exact @id(6) @name("sport");
            meta.dport : exact @id(7) @name("dport");
        }
        actions = {
            forward;
            deny;
            @defaultonly NoAction;
        }
        const default_action = NoAction;
        counters = flow_counter;
        support_timeout = true;
        size = 65536;
    }

    apply {
        fence.apply();
        if (meta.ask == ASK_NONE && meta.drop == DROP_NONE) {
            if (meta.roce) {
                if (!rdma_qp.apply().hit) {
                    rdma_pair.apply();
                }
            } else {
                flow.apply();
            }
        }
    }
}
