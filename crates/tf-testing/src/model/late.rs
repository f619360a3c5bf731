//! Requests that are carried out late.

use tf_plan::step::Step;

/// What is asked of an agent and may be carried out when its answer was given up long ago.
#[derive(Clone, Debug, Default)]
pub struct Late {
    delay: usize,
    waiting: Option<(usize, Step)>,
}

impl Late {
    /// What is asked for next is carried out when so many steps more have passed.
    pub fn delay(&mut self, steps: usize) {
        self.delay = steps;
    }

    /// Nothing is late any more, apart from what is already.
    pub fn heal(&mut self) {
        self.delay = 0;
    }

    /// Whether nothing is late, nor will be.
    pub fn is_none(&self) -> bool {
        self.delay == 0 && self.waiting.is_none()
    }

    /// A step passes. What is carried out in it.
    pub fn due(&mut self) -> Option<Step> {
        match self.waiting.take()? {
            (0, step) => Some(step),
            (steps, step) => {
                self.waiting = Some((steps - 1, step));
                None
            }
        }
    }

    /// Asks. What is carried out at once. Of what agents are asked the answer may be given up, and the operator goes on.
    pub fn ask(&mut self, step: Step) -> Option<Step> {
        if self.delay == 0 || !matches!(step, Step::Ask(..)) {
            return Some(step);
        }
        self.waiting = Some((std::mem::take(&mut self.delay), step));
        None
    }
}
