//! Metrics of this process from `/proc`. On platforms without it, they are absent.

use std::fs;

use super::{FAMILIES, MetricsText};

/// The clock ticks in which Linux counts CPU time; it has been 100 on every platform for decades.
const TICKS_PER_SECOND: f64 = 100.0;

pub(super) fn write(text: &mut MetricsText) {
    if let Some(kibibytes) = resident_kibibytes() {
        text.family(FAMILIES, "process_resident_memory_bytes").count(&[], kibibytes.saturating_mul(1024));
    }
    if let Some(seconds) = cpu_seconds() {
        text.family(FAMILIES, "process_cpu_seconds_total").sample(&[], seconds);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // One of them is the open directory itself.
        text.family(FAMILIES, "process_open_fds").count(&[], (open.count() as u64).saturating_sub(1));
    }
}

fn resident_kibibytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The process name is in parentheses and may contain anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}
