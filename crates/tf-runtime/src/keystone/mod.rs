//! Asks Keystone whether it lets in whom the spec names, before files with that login are handed out. Daemons that wait to be elected do not log
//! in, and seem well with any password; those that are elected would end with a wrong one.
//!
//! A login is asked about once, and again while Keystone refuses it or does not answer. Who does not answer refuses nothing.

#[cfg(test)]
mod tests;
pub mod token;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tf_plan::keystone::Keystone;
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
    time::{sleep, timeout},
};

use self::token::{TokenError, token};
use crate::{caches::Trigger, identity::Authorities, lock::lock, object::Key, watch::jittered};

/// For an answer. A pass waits so long for the first one.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two questions about the same login: at first, and at most. It doubles. Keystone may lock out whom it refuses too often.
const RETRY: (Duration, Duration) = (Duration::from_secs(10), Duration::from_mins(5));

/// What Keystone says of the logins of all resources.
pub struct Logins {
    /// What certificates are checked with, where the spec brings no authority.
    pub authorities: Arc<Authorities>,
    /// Whom to wake.
    pub triggers: mpsc::UnboundedSender<Trigger>,
    /// Proxy on the way to Keystone.
    pub proxy: Option<String>,
    asked: Mutex<HashMap<Key, Asked>>,
}

/// The login of one resource.
struct Asked {
    login: Keystone,
    answer: watch::Receiver<Option<Answer>>,
    task: AbortHandle,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    LetIn,
    Refused(String),
    Silent,
}

impl Logins {
    /// Nobody has been asked yet.
    pub fn new(authorities: Arc<Authorities>, triggers: mpsc::UnboundedSender<Trigger>, proxy: Option<String>) -> Self {
        Self { authorities, triggers, proxy, asked: Mutex::default() }
    }

    /// Why Keystone refuses the login of a resource, if it does. Waits for the first answer about a login that is new; other answers wake the
    /// resource.
    pub async fn refusal(self: &Arc<Self>, key: &Key, login: Option<Keystone>) -> Option<String> {
        let Some(login) = login else {
            self.forget(key);
            return None;
        };
        let mut answer = self.answer(key, login);
        let first = answer.wait_for(Option::is_some).await.ok()?;
        match &*first {
            Some(Answer::Refused(why)) => Some(why.clone()),
            _ => None,
        }
    }

    /// Asks no more for a resource.
    pub fn forget(&self, key: &Key) {
        lock(&self.asked).remove(key);
    }

    fn answer(self: &Arc<Self>, key: &Key, login: Keystone) -> watch::Receiver<Option<Answer>> {
        let mut all = lock(&self.asked);
        if let Some(asked) = all.get(key).filter(|asked| asked.login == login) {
            return asked.answer.clone();
        }
        let (sender, answer) = watch::channel(None);
        let task = tokio::spawn(Arc::clone(self).ask(key.clone(), login.clone(), sender)).abort_handle();
        all.insert(key.clone(), Asked { login, answer: answer.clone(), task });
        answer
    }

    async fn ask(self: Arc<Self>, key: Key, login: Keystone, answers: watch::Sender<Option<Answer>>) {
        let mut pause = RETRY.0;
        loop {
            let answer = self.once(&key, &login).await;
            let is_last = answer == Answer::LetIn;
            let before = answers.send_replace(Some(answer.clone()));
            // Somebody waits for the first one.
            if before.is_some_and(|before| before != answer) {
                let _ = self.triggers.send(Trigger::One(key.clone()));
            }
            if is_last {
                return;
            }
            sleep(jittered(pause)).await;
            pause = RETRY.1.min(pause * 2);
        }
    }

    async fn once(&self, key: &Key, login: &Keystone) -> Answer {
        let checked = || self.authorities.client_of_daemons(&key.namespace);
        match timeout(PATIENCE, token(login, checked, self.proxy.clone())).await {
            Ok(Ok(_)) => Answer::LetIn,
            Ok(Err(TokenError::Refused(why))) => {
                tracing::warn!(resource = %key, why, "Keystone refuses the login, which is not handed out");
                Answer::Refused(why)
            }
            Ok(Err(TokenError::Silent(why))) => {
                tracing::info!(resource = %key, why, "Keystone cannot be asked about the login");
                Answer::Silent
            }
            Err(_) => {
                tracing::info!(resource = %key, "Keystone does not answer");
                Answer::Silent
            }
        }
    }
}
