//! The threads that serve, and the CPUs that they run on.
//!
//! A kernel likes to run a woken thread where the one that woke it runs: a client on the same machine, the
//! writer of the store. Under load two workers then take turns on one CPU while another is idle. On a machine
//! that the server has to itself, each worker can be [kept](Workers::Pinned) on a CPU of its own. That is
//! never the default: beside other programs a pinned worker waits for whoever else is on its CPU.
//!
//! A thread begins with the CPUs of the one that started it. So the other threads of the runtime are given
//! all of them again, and whoever starts threads or programs from a worker must do the same.

use std::{future::Future, thread::available_parallelism};

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};

/// How the workers of a server share the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workers {
    /// The kernel decides.
    Free,
    /// One for each CPU, and each stays where it is.
    Pinned,
}

impl Workers {
    /// Runs a server. What is still running when it ends is dropped, not waited for.
    pub(crate) fn block_on<T>(self, server: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        let runtime = self.start()?;
        let ended = runtime.block_on(server);
        runtime.shutdown_background();
        ended
    }

    fn start(self) -> anyhow::Result<Runtime> {
        let mut builder = Builder::new_multi_thread();
        builder.enable_all();
        match self {
            Self::Free => builder.build().context("the runtime does not start"),
            Self::Pinned => {
                let workers = available_parallelism().context("nobody says how many CPUs there are")?.get();
                pinned::start(builder.worker_threads(workers), workers)
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod pinned {
    use std::sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    };

    use anyhow::Context;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    use tokio::runtime::{Builder, Runtime};

    use crate::commands::Usage;

    /// The runtime, with as many workers as there are CPUs.
    pub(super) fn start(builder: &mut Builder, workers: usize) -> anyhow::Result<Runtime> {
        let all = sched_getaffinity(None).context("the kernel does not say which CPUs there are")?;
        let cpus = alone(&all);
        if cpus.len() != workers {
            let message = format!(
                "workers cannot be pinned: the server sees {} CPUs and may use no more than {workers} at a time; start \
                 it without `pin_workers`, or give it CPUs instead of a share of their time, as with `taskset`",
                cpus.len()
            );
            return Err(Usage(message).into());
        }
        let started = AtomicUsize::new(0);
        let (tell, told) = mpsc::channel();
        builder.on_thread_start(move || {
            // Workers are the first that start: nobody can ask for other threads before there is a runtime.
            let cpu = cpus.get(started.fetch_add(1, Ordering::Relaxed));
            let kept = sched_setaffinity(None, cpu.unwrap_or(&all));
            if cpu.is_some() {
                // Nobody listens any more if an earlier one failed.
                let _ = tell.send(kept);
            }
        });
        let runtime = builder.build().context("the runtime does not start")?;
        // Only when all workers have begun may anybody ask for other threads, which would be taken for them.
        for kept in told.into_iter().take(workers) {
            kept.context("a worker cannot be kept on its CPU")?;
        }
        Ok(runtime)
    }

    /// Each of the CPUs, by itself.
    fn alone(all: &CpuSet) -> Vec<CpuSet> {
        let numbers = (0..CpuSet::MAX_CPU).filter(|&number| all.is_set(number));
        let only = |number| {
            let mut cpu = CpuSet::new();
            cpu.set(number);
            cpu
        };
        numbers.map(only).collect()
    }
}

#[cfg(not(target_os = "linux"))]
mod pinned {
    use tokio::runtime::{Builder, Runtime};

    use crate::commands::Usage;

    pub(super) fn start(_: &mut Builder, _: usize) -> anyhow::Result<Runtime> {
        let message = "workers cannot be pinned on this system: start the server without `pin_workers`";
        Err(Usage(message.to_owned()).into())
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::sync::{Arc, Barrier};

    use rustix::thread::{CpuSet, sched_getaffinity};
    use tokio::task::JoinSet;

    use super::*;

    /// How many CPUs the thread that runs this may use.
    fn allowed() -> u32 {
        sched_getaffinity(None).unwrap().count()
    }

    #[test]
    fn a_pinned_worker_has_one_cpu_and_shares_it_with_no_other() {
        let all = allowed();
        let workers = available_parallelism().unwrap().get();
        let (kept, started) = Workers::Pinned
            .block_on(async move {
                let barrier = Arc::new(Barrier::new(workers));
                let mut on_workers = JoinSet::new();
                for _ in 0..workers {
                    let barrier = Arc::clone(&barrier);
                    on_workers.spawn(async move {
                        // Each keeps its worker until all have one.
                        barrier.wait();
                        sched_getaffinity(None).unwrap()
                    });
                }
                let kept = on_workers.join_all().await;
                let mut by_worker = JoinSet::new();
                by_worker.spawn(async { tokio::task::spawn_blocking(allowed).await });
                Ok((kept, by_worker.join_all().await))
            })
            .unwrap();
        let numbers = |cpus: &CpuSet| (0..CpuSet::MAX_CPU).filter(|&number| cpus.is_set(number)).collect::<Vec<_>>();
        let mut numbers: Vec<_> = kept.iter().flat_map(numbers).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert!(kept.iter().all(|cpus| cpus.count() == 1), "{kept:?}");
        assert_eq!(numbers.len(), workers, "no two workers have the same CPU");
        assert_eq!(*started[0].as_ref().unwrap(), all, "a thread that a worker started may run anywhere");
        assert_eq!(allowed(), all, "and so may the thread that waits");
    }

    #[test]
    fn a_share_of_time_is_no_cpu_to_keep_a_worker_on() {
        let cpus = allowed() as usize;
        let refused = pinned::start(&mut Builder::new_multi_thread(), cpus + 1).unwrap_err();
        let said = format!("the server sees {cpus} CPUs and may use no more than {} at a time", cpus + 1);
        assert!(refused.to_string().contains(&said) && refused.is::<crate::commands::Usage>(), "{refused}");
    }

    #[test]
    fn a_free_worker_may_run_anywhere() {
        let all = allowed();
        let mut on_worker = JoinSet::new();
        let free = Workers::Free.block_on(async move {
            on_worker.spawn(async { allowed() });
            Ok(on_worker.join_all().await)
        });
        assert_eq!(free.unwrap(), [all]);
    }
}
