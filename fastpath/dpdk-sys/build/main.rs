//! Generates the bindings and compiles the shim against the installed libdpdk.

mod probe;

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The libraries whose symbols are bound. Drivers are not among them: EAL
/// loads those from the distribution's plugin folder when it starts.
const LIBRARIES: [&str; 4] = ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_eal"];

const FUNCTIONS: &[&str] = &[
    // EAL
    "rte_eal_init",
    "rte_eal_get_runtime_dir",
    "rte_eal_hotplug_add",
    "rte_eal_hotplug_remove",
    "rte_thread_register",
    "rte_thread_unregister",
    "rte_thread_set_affinity",
    "pthread_self",
    "pthread_getaffinity_np",
    // pools and mbufs
    "rte_pktmbuf_pool_create",
    "rte_mempool_create_empty",
    "rte_mempool_set_ops_byname",
    "rte_mbuf_best_mempool_ops",
    "rte_pktmbuf_pool_init",
    "rte_mempool_populate_default",
    "rte_mempool_obj_iter",
    "rte_pktmbuf_init",
    "rte_mempool_free",
    "rte_mempool_avail_count",
    "rte_mempool_in_use_count",
    "rte_pktmbuf_free_bulk",
    // ports
    "rte_eth_dev_get_port_by_name",
    "rte_eth_dev_configure",
    "rte_eth_dev_adjust_nb_rx_tx_desc",
    "rte_eth_rx_queue_setup",
    "rte_eth_tx_queue_setup",
    "rte_eth_dev_start",
    "rte_eth_dev_stop",
    "rte_eth_dev_close",
    "rte_eth_dev_set_mtu",
    "rte_eth_dev_get_mtu",
    "rte_eth_dev_socket_id",
    "rte_eth_macaddr_get",
    "rte_eth_link_get_nowait",
    "rte_eth_stats_get",
    "rte_eth_stats_reset",
    "rte_eth_promiscuous_enable",
    // shim
    "shim_errno",
    "shim_lcore_id",
    "shim_alloc_bulk",
    "shim_linearize",
    "shim_guards_packet_sockets",
];

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=c");
    for name in [
        "PKG_CONFIG",
        "PKG_CONFIG_PATH",
        "PKG_CONFIG_LIBDIR",
        "PKG_CONFIG_SYSROOT_DIR",
    ] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_owned());
    let found = match probe::find(&program, |_: &mut Command| {}) {
        Ok(found) => found,
        Err(problem) => {
            println!("cargo::error={problem}");
            return ExitCode::FAILURE;
        }
    };
    match generate(&found) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let text = e.to_string().replace('\n', " ");
            println!(
                "cargo::error=bindings to libdpdk {} failed: {text}",
                found.version
            );
            ExitCode::FAILURE
        }
    }
}

fn generate(found: &probe::Found) -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);

    let mut shim = cc::Build::new();
    shim.file("c/shim.c").opt_level(3);
    for flag in &found.cflags {
        shim.flag(flag);
    }
    shim.try_compile("dpdk_shim")?;

    // After the shim, which needs them: a linker resolves from left to right.
    for folder in &found.libdirs {
        println!("cargo::rustc-link-search=native={folder}");
    }
    for library in LIBRARIES {
        println!("cargo::rustc-link-lib=dylib={library}");
    }

    let mut builder = bindgen::Builder::default()
        .header("c/wrapper.h")
        .clang_args(&found.cflags)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .wrap_unsafe_ops(true)
        .generate_comments(false)
        .prepend_enum_name(false)
        .derive_default(true)
        .allowlist_type("rte_pktmbuf_pool_private")
        .allowlist_var("rte_eth_fp_ops")
        .allowlist_var("SHIM_.*")
        .allowlist_var("RTE_(PKTMBUF_HEADROOM|MAX_ETHPORTS|MEMPOOL_CACHE_MAX_SIZE)")
        // What is only passed by pointer needs no layout here.
        .opaque_type("rte_mempool")
        .opaque_type("rte_mbuf_ext_shared_info")
        .opaque_type("rte_eth_(adv|fc|fdir|rss|vmdq|dcb)_.*")
        .opaque_type("rte_device");
    for function in FUNCTIONS {
        builder = builder.allowlist_function(function);
    }
    builder.generate()?.write_to_file(out.join("bindings.rs"))?;
    Ok(())
}
