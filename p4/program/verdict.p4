// Verdict: frames that do not leave by a next hop.

control Verdict(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    @id(0x1300000b) @name(".drops_counter")
    direct_counter(CounterType.packets_and_bytes) drops_counter;

    @id(0x01000011) @name(".count_drop")
    action count_drop() {}

    // A counter for every reason. A table with a direct counter, because a
    // program with an indirect one cannot be reconciled on bmv2; its entries are
    // the worker's, one for each reason.
    @id(0x0200000b) @name(".drops")
    table drops {
        key = {
            meta.drop : exact @id(1) @name("reason");
        }
        actions = {
            count_drop;
            @defaultonly NoAction;
        }
        const default_action = NoAction;
        counters = drops_counter;
        size = 256;
    }

    apply {
        if (meta.drop != DROP_NONE) {
            drops.apply();
            mark_to_drop(standard);
        } else {
            // The worker gets the frame exactly as it came in.
            hdr.packet_in.setValid();
            hdr.packet_in.envelope = ENVELOPE;
            hdr.packet_in.reason = meta.ask;
            hdr.packet_in.nic = 0;
            hdr.packet_in.device_port = meta.device_port;
            hdr.packet_in.ingress = meta.ingress;
            hdr.packet_in.vpc = meta.vpc;
            standard.egress_spec = CPU_PORT;
        }
    }
}
