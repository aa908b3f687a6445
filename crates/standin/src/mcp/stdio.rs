//! A stand-in over standard input and output: one message on each line.

use std::{
    io::{self, BufRead as _, Write as _},
    path::Path,
    thread,
};

use serde_json::Value;

use super::{McpProcess, Step};

/// Plays a behaviour until the input ends. `marker` is a file that the first process of a server leaves for the next; its
/// content is the last request or notification that was received.
///
/// # Errors
/// If a pipe breaks.
pub fn serve(behaviour: &str, marker: Option<&Path>) -> io::Result<i32> {
    let is_second = marker.is_some_and(Path::exists);
    if let Some(marker) = marker {
        std::fs::write(marker, b"")?;
    }
    let mut play = McpProcess::new(behaviour, is_second);
    if let Some(code) = perform(play.begin())? {
        return Ok(code);
    }
    for line in io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line?) else { continue };
        if let Some((marker, method)) = marker.zip(message["method"].as_str()) {
            std::fs::write(marker, method)?;
        }
        if let Some(code) = perform(play.react(&message))? {
            return Ok(code);
        }
    }
    if behaviour == "ignores-end" {
        loop {
            thread::park();
        }
    }
    Ok(0)
}

/// Does what follows; returns the exit code if that ends the process.
fn perform(steps: Vec<Step>) -> io::Result<Option<i32>> {
    let mut output = io::stdout().lock();
    for step in steps {
        match step {
            Step::Send(message) => writeln!(output, "{message}")?,
            Step::Write(bytes) => output.write_all(&bytes)?,
            Step::Complain(text) => writeln!(io::stderr(), "{text}")?,
            Step::Wait(time) => {
                output.flush()?;
                thread::sleep(time);
            }
            Step::Exit(code) => {
                output.flush()?;
                return Ok(Some(code));
            }
        }
    }
    output.flush()?;
    Ok(None)
}
