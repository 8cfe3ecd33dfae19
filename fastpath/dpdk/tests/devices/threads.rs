//! Polling threads: identity, binding, results, panics.

use dpdk::Error;

use crate::bed;

#[test]
fn threads_get_ids_of_their_own_and_give_them_back() {
    let eal = bed::eal();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let first = dpdk::launch(eal, "first", Some(0), move || wait.recv().is_ok()).unwrap();
    let second = dpdk::launch(eal, "second", Some(0), || 2).unwrap();
    assert_ne!(first.id(), second.id());
    assert_eq!(second.join().unwrap(), 2);
    assert!(!first.is_finished());
    go.send(()).unwrap();
    assert!(first.join().unwrap());
    // There are 128 ids: more threads than that, one after the other, need them given back.
    for round in 0..200 {
        let thread = dpdk::launch(eal, "short", None, move || round).unwrap();
        assert_eq!(thread.join().unwrap(), round);
    }
}

#[test]
fn a_thread_runs_on_its_cpu() {
    let status = dpdk::launch(bed::eal(), "bound", Some(1), || {
        std::fs::read_to_string("/proc/thread-self/status").unwrap()
    });
    let status = match status {
        Ok(thread) => thread.join().unwrap(),
        Err(error) => return bed::skipped(&format!("CPU 1 is not ours: {error}")),
    };
    let allowed = status
        .lines()
        .find(|line| line.starts_with("Cpus_allowed_list"));
    assert_eq!(allowed.unwrap().split_whitespace().last(), Some("1"));
    assert!(status.starts_with("Name:\tbound"));
}

#[test]
fn a_panic_comes_out_of_the_join() {
    let eal = bed::eal();
    let pool = bed::pool("panic");
    let thread = dpdk::launch(eal, "clumsy", None, move || {
        let held = pool.alloc().unwrap();
        assert_eq!(held.len(), 1, "dropped on purpose");
    });
    let error = thread.unwrap().join().expect_err("it panicked");
    let text = error.to_string();
    assert!(matches!(error, Error::Panicked { .. }), "{text}");
    assert!(
        text.contains("`clumsy` panicked") && text.contains("dropped on purpose"),
        "{text}"
    );
    assert_eq!(pool.in_use(), 0, "unwinding freed what the thread held");
    assert_eq!(
        dpdk::launch(eal, "next", None, || 1)
            .unwrap()
            .join()
            .unwrap(),
        1
    );
}

#[test]
fn a_cpu_that_is_not_there_is_refused() {
    for cpu in [1000, 1023, 1024, usize::MAX] {
        let error = dpdk::launch(bed::eal(), "nowhere", Some(cpu), || ()).expect_err("no such CPU");
        let text = error.to_string();
        assert!(
            text.contains("`nowhere`") && text.contains(&cpu.to_string()),
            "{text}"
        );
    }
}

#[test]
fn starting_eal_leaves_the_caller_its_cpus() {
    let cpus = || std::thread::available_parallelism().unwrap();
    let before = cpus();
    bed::eal();
    assert_eq!(cpus(), before, "threads made later would share one CPU");
}
