//! A task that goes on as long as what it is for is asked for.

use tokio::task::JoinHandle;

/// A task and what it is for. It ends when this is dropped.
#[derive(Debug)]
pub struct Keeping<T>(Option<(T, JoinHandle<()>)>);

impl<T> Default for Keeping<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Keeping<T> {
    /// What the task is for. None: there is none.
    pub fn present(&self) -> Option<&T> {
        self.0.as_ref().map(|(present, _)| present)
    }

    /// Ends the task, unless it is for this. Whether something else is asked for than before, so that a task has to be started.
    pub fn end_other(&mut self, wanted: Option<&T>) -> bool
    where
        T: PartialEq,
    {
        let is_other = self.present() != wanted;
        if is_other {
            self.end();
        }
        is_other
    }

    /// Starts a task, after [`Keeping::end_other`].
    pub fn start(&mut self, wanted: T, task: impl Future<Output = ()> + Send + 'static) {
        self.0 = Some((wanted, tokio::spawn(task)));
    }

    fn end(&mut self) {
        if let Some((_, task)) = self.0.take() {
            task.abort();
        }
    }
}

impl<T> Drop for Keeping<T> {
    fn drop(&mut self) {
        self.end();
    }
}
