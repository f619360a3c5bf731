//! The signals this process gets.

use std::io;

use tf_agent_api::launch::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// What a signal means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Children have ended.
    Children,
    /// End: SIGTERM from the kubelet, SIGINT from a terminal.
    End,
    /// For the daemon.
    Forward(Signal),
}

/// All of them, from now on.
pub struct Signals {
    child: Stream,
    term: Stream,
    int: Stream,
    hup: Stream,
    quit: Stream,
    usr1: Stream,
    usr2: Stream,
}

impl Signals {
    /// Begins to listen.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            child: signal(SignalKind::child())?,
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            hup: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
            usr1: signal(SignalKind::user_defined1())?,
            usr2: signal(SignalKind::user_defined2())?,
        })
    }

    /// The next one. Several of one kind may count as one.
    pub async fn next(&mut self) -> Event {
        tokio::select! {
            _ = self.child.recv() => Event::Children,
            _ = self.term.recv() => Event::End,
            _ = self.int.recv() => Event::End,
            _ = self.hup.recv() => Event::Forward(Signal::Hup),
            _ = self.quit.recv() => Event::Forward(Signal::Quit),
            _ = self.usr1.recv() => Event::Forward(Signal::Usr1),
            _ = self.usr2.recv() => Event::Forward(Signal::Usr2),
        }
    }
}
