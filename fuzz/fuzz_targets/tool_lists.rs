//! Any text as a list of tools, in each format of lists. Every remark lies inside of the text, and what was read as the
//! answer of an MCP server is written as one without a change.
#![no_main]

use bosun_convert::{ConvertOptions, Format, check, write};
use libfuzzer_sys::fuzz_target;

const LISTS: [Format; 8] = [
    Format::Langchain,
    Format::OpenAi,
    Format::OpenAiResponses,
    Format::Anthropic,
    Format::Gemini,
    Format::Mcp,
    Format::Ark,
    Format::ExternalTools,
];

fuzz_target!(|text: &str| {
    // YAML, unlike `str::lines`, ends a line at a carriage return alone, too.
    let lines = text.replace("\r\n", "\n").split(['\n', '\r']).count();
    for format in LISTS {
        let checked = check(text, ConvertOptions { from: Some(format), ..ConvertOptions::default() });
        for problem in &checked.problems {
            assert!((1..=lines + 1).contains(&problem.place.line), "{problem:?}");
        }
        for target in Format::TARGETS {
            let written = write(&checked.tools, target);
            assert!(written.is_ok_and(|written| written.documents.to_yaml().is_ok()));
        }
        if format == Format::Mcp {
            let once = mcp(&checked.tools);
            let again = check(&once, ConvertOptions { from: Some(format), ..ConvertOptions::default() });
            assert_eq!(mcp(&again.tools), once);
        }
    }
});

fn mcp(tools: &[bosun_convert::Found]) -> String {
    write(tools, Format::Mcp).map(|written| written.documents.to_json()).unwrap_or_default()
}
