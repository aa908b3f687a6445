//! Prints the JSON Schema of every Zod expression on standard input.
//!
//! Each line is a JSON object `{"version": 3, "source": "z.string()"}`; each answer is a line
//! `{"schema": …}` or `{"faults": […]}`. `interop/zod/random.mjs` compares it with the real packages.
//!
//! ```sh
//! echo '{"version": 4, "source": "z.string().min(1)"}' | cargo run -q -p bosun-convert --example zod_to_json
//! ```

use std::io::{self, BufRead, Write};

use bosun_convert::zod::{ZodIo, ZodVersion, schema_to_json};
use serde_json::json;

#[derive(serde::Deserialize)]
struct ZodQuestion {
    version: u8,
    source: String,
    /// The side that Zod 4 describes: `input`, or `output` where absent.
    io: Option<String>,
}

fn main() -> io::Result<()> {
    let mut output = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let ZodQuestion { version, source, io } = serde_json::from_str(&line?)?;
        let version = if version == 4 { ZodVersion::V4 } else { ZodVersion::V3 };
        let io = if io.as_deref() == Some("input") { ZodIo::Input } else { ZodIo::Output };
        let answer = match schema_to_json(&source, version, io) {
            Ok(converted) => json!({ "schema": converted.schema, "warnings": converted.warnings }),
            Err(faults) => json!({ "faults": faults }),
        };
        writeln!(output, "{answer}")?;
    }
    Ok(())
}
