//! What the operating system says about the attacked process.

use std::fs;

/// Figures of a process, by its id. All of them are zero once it has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process(pub(super) u32);

impl Process {
    fn read(self, file: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{file}", self.0)).unwrap_or_default()
    }

    fn bytes(self, field: &str) -> u64 {
        let status = self.read("status");
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = line.and_then(|line| line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().ok());
        kib.unwrap_or_default() * 1024
    }

    /// Memory that is in use now.
    pub(super) fn memory(self) -> u64 {
        self.bytes("VmRSS")
    }

    /// The most memory that was in use since [`Process::reset_peak`].
    pub(super) fn peak(self) -> u64 {
        self.bytes("VmHWM")
    }

    pub(super) fn reset_peak(self) {
        // It may have ended.
        let _ = fs::write(format!("/proc/{}/clear_refs", self.0), "5");
    }

    /// Processor time that it has used, in seconds.
    pub(super) fn cpu(self) -> f64 {
        // Linux counts in hundredths of a second, whatever its own clock does. The name may have blanks in it.
        let stat = self.read("stat");
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let ticks = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u32>().ok());
        f64::from(ticks.sum::<u32>()) / 100.0
    }
}
