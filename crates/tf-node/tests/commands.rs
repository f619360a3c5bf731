//! Commands beside the daemon. Alone in its process: whoever reaps takes every child.

use std::{process::Command, time::Duration};

use tf_node::{command::Commands, process};

#[tokio::test]
async fn a_command_is_waited_for_by_who_does_not_reap_and_quoted_when_it_fails() {
    let commands = Commands::default();
    let reaper = tokio::spawn({
        let commands = commands.clone();
        async move {
            loop {
                for (pid, exit) in process::reap() {
                    commands.ended(pid, &exit);
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    });
    let patience = Duration::from_secs(10);
    let shell = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    };
    assert_eq!(commands.run(shell("echo said; echo meant >&2"), patience).await.unwrap(), "said\n");
    // The daemon goes first.
    assert_eq!(commands.run(shell("sleep 0.5; nice"), patience).await.unwrap(), "10\n");
    let error = commands.run(shell("echo 'Error:'; echo it runs >&2; exit 70"), patience).await.unwrap_err();
    assert!(error.to_string().ends_with("Code(70): Error: it runs"), "{error}");
    assert!(commands.run(Command::new("/there/is/no/such/program"), patience).await.is_err());
    let error = commands.run(shell("exec sleep 60"), Duration::from_millis(50)).await.unwrap_err();
    assert!(error.to_string().contains("not finished"), "{error}");
    reaper.abort();
}
