//! The program on a terminal of its own, as `script` of util-linux makes one: keys go in, the screen comes out.

use std::{path::Path, process::Stdio};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::{program::program, support::soon};

pub(crate) struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: ChildStdout,
    /// What was shown and not yet looked for.
    shown: String,
}

impl Terminal {
    /// Runs the program with these arguments; none of them may need quotes.
    pub(crate) fn run(arguments: &[&str], directory: &Path) -> Self {
        // `exec`: a remaining shell would be killed by the Ctrl-C that the program handles.
        let line = format!("exec '{}' {}", program().display(), arguments.join(" "));
        let mut child = Command::new("script")
            .args(["--quiet", "--return", "--echo", "never", "--command", &line, "/dev/null"])
            .env("TERM", "xterm")
            .env_remove("BOSUN_SERVER")
            .env_remove("BOSUN_KEY")
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("`script` of util-linux is installed");
        let (keys, screen) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        Self { child, keys, screen, shown: String::new() }
    }

    pub(crate) async fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).await.expect("the terminal takes keys");
    }

    /// Waits until `text` is shown, and returns what was shown before it.
    pub(crate) async fn sees(&mut self, text: &str) -> String {
        let waited_for = format!("`{text}` on the screen");
        soon(&waited_for, async {
            loop {
                if let Some((before, after)) = self.shown.split_once(text) {
                    let before = before.to_owned();
                    self.shown = after.to_owned();
                    return before;
                }
                let mut buffer = [0; 4096];
                let length = self.screen.read(&mut buffer).await.expect("the screen can be read");
                assert!(length > 0, "the program ended before `{text}` was shown: {}", self.shown);
                self.shown.push_str(&String::from_utf8_lossy(&buffer[..length]));
            }
        })
        .await
    }

    /// Waits for the program's end; its exit code.
    pub(crate) async fn end(mut self) -> i32 {
        let mut rest = String::new();
        let reading = self.screen.read_to_string(&mut rest);
        let (status, read) = soon("the end of the program", async { tokio::join!(self.child.wait(), reading) }).await;
        read.expect("the screen can be read");
        status.expect("the program ends").code().expect("an exit code")
    }
}
